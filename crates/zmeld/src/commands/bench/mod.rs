//! `zmeld bench`: experiments under real memory pressure.

mod report;
mod size;

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::{Args, Subcommand};
use serde::de::DeserializeOwned;
use serde::Serialize;
use zmeld_lab::experiment::result::{Experiment, SCHEMA, SCHEMA_VERSION};
use zmeld_lab::experiment::{run as carry_out, Event, Settings};
use zmeld_lab::measure::supervise::{launch, supervise, Launch, SupervisorRequest};
use zmeld_lab::recipe::BUILT_IN;
use zmeld_lab::vm::{guest, GuestSize};
use zmeld_lab::workload::external::{ExternalCommand, OutputFormat};
use zmeld_lab::workload::{Workload, WorkloadError};
use zmeld_lab::Recipe;
use zmeld_report::schema::Envelope;
use zmeld_report::{Document, Table};

use crate::args::Format;
use crate::exit::{Outcome, EXIT_CODES};
use crate::{output, progress};

const EXAMPLES: &str = "\
Examples:
  zmeld bench list                                   the recipes
  zmeld bench run bt --html bt.html                  one of them, and a page
  zmeld bench run codecs --limit '40% of footprint' -- ./my-program --batch
  zmeld bench run codecs --budget 6m --output codecs.json
  zmeld bench run codecs --resume codecs.json        carry on after Ctrl-C
  zmeld bench size -- ./my-program --batch           with how little RAM it does

An experiment limits memory by a control group and sets up swap, which needs root.
Everything is taken back when it ends; if it is killed, the next one does that.";

/// Does it help my workload? Experiments under real memory pressure
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct BenchArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a recipe: every set-up in turn, repeated, compared
    Run(Box<RunArgs>),
    /// How small a machine will do: the least RAM for a command, with each set-up
    Size(Box<size::SizeArgs>),
    /// List the recipes, or print one
    List(ListArgs),
    /// Run a built-in workload in this process, given as JSON
    #[command(hide = true)]
    Workload { json: String },
    /// Start a workload, wait for it, report what it used; the request comes on standard input
    #[command(hide = true)]
    Supervise,
    /// Make one run as the first program of a virtual machine
    #[command(hide = true)]
    Guest,
    /// Join control groups and become a command
    #[command(hide = true)]
    Launch {
        #[arg(long)]
        parent: u32,
        #[arg(long)]
        join: Vec<PathBuf>,
        #[arg(long)]
        no_huge_pages: bool,
        #[arg(long)]
        root: Option<PathBuf>,
        #[arg(long)]
        folder: Option<PathBuf>,
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
}

#[derive(Debug, Args)]
struct RunArgs {
    /// A recipe's name (see list) or the path of a file
    recipe: String,
    /// At the published size, which may need a machine to match, and days
    #[arg(long, help_heading = "What is run")]
    full: bool,
    /// Only this arm; may be given several times
    #[arg(long, value_name = "NAME", help_heading = "What is run")]
    arm: Vec<String>,
    /// Only this case; may be given several times
    #[arg(long, value_name = "NAME", help_heading = "What is run")]
    case: Vec<String>,
    /// Another memory limit: 512M, or "60% of footprint"
    #[arg(long, value_name = "SIZE", help_heading = "What is run")]
    limit: Option<String>,
    /// In a virtual machine of that size instead, booted for each run: ram=214M,processors=1,files=host
    #[arg(
        long,
        value_name = "SIZE",
        conflicts_with = "limit",
        help_heading = "What is run"
    )]
    machine: Option<GuestSize>,
    /// The kernel image of virtual machines [default: one that is installed]
    #[arg(long, value_name = "FILE", help_heading = "What is run")]
    kernel: Option<PathBuf>,
    /// Run this command instead of the recipe's workload
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// At most so many runs of each arm
    #[arg(long, value_name = "N", help_heading = "How long", value_parser = clap::value_parser!(u16).range(1..))]
    runs: Option<u16>,
    #[command(flatten)]
    keeping: KeepArgs,
}

/// How long runs go on, and where their result is kept and shown.
#[derive(Debug, Args)]
struct KeepArgs {
    /// Stop after that time: 90s, 6m, 1.5h; a number alone is minutes
    #[arg(long, value_name = "TIME", value_parser = parse_minutes, help_heading = "How long")]
    budget: Option<Duration>,
    /// Where random orders start [default: the time]
    #[arg(long, value_name = "N", help_heading = "How long")]
    seed: Option<u64>,
    /// Carry on with what was done, with the same command and options; new runs are added to the file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    resume: Option<PathBuf>,
    /// Keep the result in this file, as JSON, saved after every run
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Write a self-contained page with plots as well
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    html: Option<PathBuf>,
    #[command(flatten)]
    format: Format,
}

/// A name and a version.
type Schema = (&'static str, u32);

impl KeepArgs {
    fn check(&self) -> anyhow::Result<()> {
        let mut paths = self.html.iter().chain(&self.output);
        paths.try_for_each(|path| output::check_page(path))
    }

    /// The result to go on with, if one is named. What its runs say decides how much memory
    /// is taken, by root; one to which nothing is added may be anybody's.
    fn resumed<T: DeserializeOwned>(
        &self,
        schema: Schema,
        go_on: impl FnOnce(&mut T) -> anyhow::Result<bool>,
    ) -> anyhow::Result<Option<T>> {
        let Some(path) = &self.resume else {
            return Ok(None);
        };
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut done: T = read_open(path, &file, schema)?;
        let is_complete =
            go_on(&mut done).with_context(|| format!("cannot carry on with {}", path.display()))?;
        if !is_complete {
            check_owner(path, &file)?;
        }
        Ok(Some(done))
    }

    /// Where runs are saved. A result to which nothing is added is not written anew.
    fn file(&self, is_complete: bool) -> Option<&PathBuf> {
        let resumed = self.resume.as_ref().filter(|_| !is_complete);
        self.output.as_ref().or(resumed)
    }

    /// Shows a result; the page is written even where nobody reads standard output.
    fn show<T: Serialize>(
        &self,
        document: &Document,
        table: impl FnOnce() -> Table,
        schema: Schema,
        result: &T,
    ) -> anyhow::Result<()> {
        let page = self.html.as_ref();
        let page = page.map_or(Ok(()), |path| output::write_page(path, document));
        let document = || document.clone();
        let shown = output::show(&self.format, document, table, schema, result);
        page.and(shown)
    }
}

/// How an experiment ended that Ctrl-C may have stopped.
fn ended(interrupted: bool) -> Outcome {
    match interrupted {
        true => Outcome::Interrupted,
        false => Outcome::Done,
    }
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Print this recipe's file
    recipe: Option<String>,
    #[command(flatten)]
    format: Format,
}

/// Carries out a command.
pub fn run(args: &BenchArgs) -> anyhow::Result<Outcome> {
    match &args.command {
        Command::Run(args) => experiment(args),
        Command::Size(args) => size::run(args),
        Command::List(args) => list(args),
        Command::Workload { json } => workload(json),
        Command::Supervise => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .context("cannot read the request")?;
            let request: SupervisorRequest =
                serde_json::from_str(&text).context("not a request")?;
            let ended = supervise(&request).context("cannot run the workload")?;
            output::print(&serde_json::to_string(&ended)?)?;
            Ok(Outcome::Done)
        }
        Command::Guest => {
            let settings = |seed| settings(seed, None).map_err(|err| format!("{err:#}"));
            if let Err(said) = guest::first_program(settings) {
                output::say(said);
            }
            guest::end().context("cannot end this machine")?;
            Ok(Outcome::Done)
        }
        Command::Launch {
            parent,
            join,
            no_huge_pages,
            root,
            folder,
            command,
        } => {
            let how = Launch {
                parent: *parent,
                join: join.clone(),
                no_huge_pages: *no_huge_pages,
                root: root.clone(),
                folder: folder.clone(),
            };
            let err = launch(&how, command);
            output::say(format_args!("cannot start {}: {err}", command.join(" ")));
            // As a shell says it: not found, or not to be run.
            std::process::exit(if err.kind() == std::io::ErrorKind::NotFound {
                127
            } else {
                126
            });
        }
    }
}

fn workload(json: &str) -> anyhow::Result<Outcome> {
    let workload: Workload = serde_json::from_str(json).context("not a workload")?;
    match workload.run() {
        Ok(finished) => {
            output::print(&serde_json::to_string(&finished)?)?;
            Ok(Outcome::Done)
        }
        Err(err @ WorkloadError::Wrong { .. }) => Err(zmeld_lab::Error::Workload {
            what: err.to_string(),
            integrity: true,
        }
        .into()),
        Err(err) => Err(err.into()),
    }
}

/// The recipe as the arguments want it.
fn recipe(args: &RunArgs) -> anyhow::Result<Recipe> {
    let mut recipe = Recipe::load(&args.recipe)?;
    if !args.command.is_empty() {
        // One case: the command under the first limit that takes memory away, or the one that was given.
        let mut case = recipe
            .cases
            .last()
            .cloned()
            .context("a recipe without a case")?;
        case.workload = own_command(&args.command);
        case.name = args.command.join(" ");
        case.full = None;
        recipe.question = format!(
            "Which set-up of the recipe {} suits `{}`?",
            recipe.name, case.name
        );
        recipe.name.clone_from(&case.name);
        recipe.about.clear();
        recipe.cases = vec![case];
        recipe.metric = zmeld_lab::recipe::Metric::default();
        recipe.published.clear();
    }
    pick(&mut recipe.arms, &args.arm, |arm| &arm.name, "arm")?;
    pick(&mut recipe.cases, &args.case, |case| &case.name, "case")?;
    for case in &mut recipe.cases {
        if let Some(limit) = &args.limit {
            case.limit = Some(limit.clone());
            case.full_limit = None;
            case.machine = None;
        }
        if let Some(machine) = &args.machine {
            case.machine = Some(machine.clone());
            (case.limit, case.full_limit, case.counts_store) = (None, None, false);
        }
    }
    let is_machine = |case: &zmeld_lab::recipe::Case| case.machine.is_some();
    if let (Some(kernel), false) = (&args.kernel, recipe.cases.iter().any(is_machine)) {
        anyhow::bail!(
            "--kernel {}: {} runs on this machine and in none of its own; add --machine ram=1G, or leave --kernel out",
            kernel.display(),
            recipe.name
        );
    }
    if let Some(runs) = args.runs {
        recipe.stopping.runs_max = runs.into();
        recipe.stopping.runs_min = recipe.stopping.runs_min.min(runs.into());
    }
    let name = args.recipe.clone();
    let text = toml::to_string(&recipe).context("cannot write the recipe down")?;
    Ok(Recipe::from_text(&name, &text)?)
}

fn own_command(command: &[String]) -> Workload {
    Workload::Command(ExternalCommand {
        command: command.to_vec(),
        reads: OutputFormat::Nothing,
        data: None,
        package: None,
    })
}

/// A seed as it was given, or the time. Whole milliseconds: JSON readers that know only doubles keep it.
fn seed(given: Option<u64>) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    given.unwrap_or(now.unwrap_or_default().as_millis() as u64)
}

/// This program as launcher, supervisor and built-in workload.
fn settings(seed: u64, budget: Option<Duration>) -> anyhow::Result<Settings> {
    let own = std::env::current_exe().context("cannot find this program")?;
    let own = |words: &[&str]| -> Vec<String> {
        let program = own.display().to_string();
        std::iter::once(program)
            .chain(words.iter().map(|&word| word.to_owned()))
            .collect()
    };
    Ok(Settings {
        seed,
        budget,
        launcher: own(&["bench", "launch"]),
        supervisor: own(&["bench", "supervise"]),
        watch: own(&["watch", "--with-parent"]),
        workload: own(&["bench", "workload"]),
        kernel: None,
    })
}

/// A time with its unit; a number alone is minutes, as it was before there were
/// units.
fn parse_minutes(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit_s = match unit.trim() {
        "s" => 1.0,
        "" | "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => f64::NAN,
    };
    let seconds = number.parse::<f64>().unwrap_or(f64::NAN) * unit_s;
    // A year is longer than anybody waits, and no time overflows.
    if !(0.0..=365.0 * 86_400.0).contains(&seconds) {
        return Err("write a time such as 90s, 6m or 1.5h, at most a year".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn pick<T>(
    all: &mut Vec<T>,
    wanted: &[String],
    name: impl Fn(&T) -> &String,
    what: &str,
) -> anyhow::Result<()> {
    for wanted in wanted {
        if !all.iter().any(|it| name(it) == wanted) {
            let names: Vec<&str> = all.iter().map(|it| name(it).as_str()).collect();
            anyhow::bail!(
                "there is no {what} \"{wanted}\"; there are: {}",
                names.join("; ")
            );
        }
    }
    if !wanted.is_empty() {
        all.retain(|it| wanted.contains(name(it)));
    }
    Ok(())
}

/// Larger than any result: a thousand runs are some ten megabytes.
const RESULT_MAX: u64 = 256 << 20;

/// The schema of an experiment.
const RESULT: Schema = (SCHEMA, SCHEMA_VERSION);

/// Refuses to add runs to another user's file.
fn check_owner(path: &Path, file: &File) -> anyhow::Result<()> {
    let owner = file.metadata().map(|found| found.uid());
    let owner = owner.with_context(|| format!("cannot read {}", path.display()))?;
    let own = rustix::process::geteuid().as_raw();
    // A user's own file, by way of sudo, too.
    let asked = std::env::var("SUDO_UID")
        .ok()
        .and_then(|uid| uid.parse().ok());
    if ![Some(0), Some(own), asked].contains(&Some(owner)) {
        anyhow::bail!(
            "{} belongs to another user (uid {owner}), and its figures would decide what is done here: \
             copy it first if you trust it",
            path.display()
        );
    }
    Ok(())
}

fn read_open<T: DeserializeOwned>(
    path: &Path,
    file: &File,
    (schema, version): Schema,
) -> anyhow::Result<T> {
    let mut text = String::new();
    file.take(RESULT_MAX + 1)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read {}", path.display()))?;
    if text.len() as u64 > RESULT_MAX {
        anyhow::bail!("{} is longer than any result", path.display());
    }
    let envelope =
        Envelope::read(&text, schema, version).with_context(|| path.display().to_string())?;
    Ok(envelope.body)
}

fn save<T: Serialize>(path: &Path, (schema, version): Schema, result: &T) -> anyhow::Result<()> {
    let envelope = Envelope::new(schema, version, env!("CARGO_PKG_VERSION"), result);
    output::write_whole(path, envelope.to_text().as_bytes())
}

fn experiment(args: &RunArgs) -> anyhow::Result<Outcome> {
    let keeping = &args.keeping;
    keeping.check()?;
    let mut recipe = recipe(args)?;
    let resumed = keeping.resumed(RESULT, |done: &mut Experiment| {
        if args.runs.is_none() {
            recipe.stopping = done.recipe.stopping;
            recipe.check()?;
        }
        done.go_on_with(recipe.clone(), args.full)?;
        Ok(done.is_complete())
    })?;
    let mut experiment =
        resumed.unwrap_or_else(|| Experiment::new(recipe, args.full, seed(keeping.seed)));
    let file = keeping.file(experiment.is_complete());
    let settings = Settings {
        kernel: args.kernel.clone(),
        ..settings(experiment.seed, keeping.budget)?
    };
    let stop = progress::interrupt_flag();
    let mut saved = Ok(());
    let line = progress::Message::new();
    let runs_before = experiment.runs.len();
    let result = carry_out(&mut experiment, &settings, stop, &mut |event| match event {
        Event::Ended(experiment) => {
            if let (Some(file), true) = (file, saved.is_ok()) {
                saved = save(file, RESULT, experiment);
            }
        }
        event => tell(&line, &event),
    });
    line.clear();
    // Where nothing came of it, what stands in the file from another time is worth more.
    let came_of_it = result.is_ok() || experiment.runs.len() > runs_before;
    if let Some(file) = file.filter(|_| came_of_it) {
        saved = saved.and(save(file, RESULT, &experiment));
    }
    if let Err(err) = result {
        saved?;
        let err = anyhow::Error::new(err);
        return Err(match (file, experiment.runs.len()) {
            (Some(file), runs) if runs > 0 => {
                err.context(format!("{runs} runs are in {}", file.display()))
            }
            _ => err,
        });
    }
    let table = || report::runs_table(&experiment);
    keeping.show(&report::document(&experiment), table, RESULT, &experiment)?;
    saved?;
    Ok(ended(stop.load(Ordering::SeqCst)))
}

/// What goes on, on the progress line.
fn tell(line: &progress::Message, event: &Event<'_>) {
    match event {
        Event::Note(text) => line.say(text),
        Event::Begins {
            case,
            arm,
            done,
            of,
            left,
        } => {
            let left = left.map_or(String::new(), |left| {
                format!(", at most {} left", zmeld_report::units::duration(left))
            });
            line.set(&format!(
                "{done} of at most {of} runs{left}: {arm} ({case})"
            ));
        }
        _ => {}
    }
}

/// The recipes that come with zmeld.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Recipes<'a> {
    /// Each.
    recipes: &'a [Recipe],
}

fn list(args: &ListArgs) -> anyhow::Result<Outcome> {
    if let Some(name) = &args.recipe {
        let found = BUILT_IN.iter().find(|(known, _)| known == name);
        let (_, text) = found.with_context(|| {
            let names: Vec<_> = BUILT_IN.iter().map(|(name, _)| *name).collect();
            format!("there is no recipe {name}; there are {}", names.join(", "))
        })?;
        output::print(text)?;
        return Ok(Outcome::Done);
    }
    let recipes = BUILT_IN
        .iter()
        .map(|(name, text)| Recipe::from_text(name, text))
        .collect::<Result<Vec<_>, _>>()?;
    output::show(
        &args.format,
        || report::recipes(&recipes),
        || report::recipes_table(&recipes),
        ("zmeld.bench.recipes", 1),
        &Recipes { recipes: &recipes },
    )?;
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_an_end() {
        for (text, seconds) in [
            ("6m", 360.0),
            ("6", 360.0),
            ("0.5", 30.0),
            ("90s", 90.0),
            ("1.5h", 5400.0),
            ("2 d", 172_800.0),
            ("0", 0.0),
        ] {
            let time = parse_minutes(text).unwrap();
            assert_eq!(time.as_secs_f64(), seconds, "{text}");
        }
        for text in [
            "inf", "-1", "nan", "1e300", "", "m", "5 weeks", "999999d", "1.2.3",
        ] {
            assert!(parse_minutes(text).is_err(), "{text}");
        }
    }
}
