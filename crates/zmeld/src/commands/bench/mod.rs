//! `zmeld bench`: experiments under real memory pressure.

mod report;
mod size;

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context;
use clap::{Args, Subcommand};
use serde::Serialize;
use zmeld_config::Span;
use zmeld_lab::experiment::result::Experiment;
use zmeld_lab::experiment::{Event, Kept, Settings};
use zmeld_lab::measure::supervise::{launch, supervise, Launch};
use zmeld_lab::recipe::BUILT_IN;
use zmeld_lab::vm::{guest, GuestSize};
use zmeld_lab::workload::external::ExternalCommand;
use zmeld_lab::workload::{Workload, WorkloadError};
use zmeld_lab::Recipe;
use zmeld_report::schema::Envelope;
use zmeld_report::{Document, Table};

use crate::exit::{Outcome, EXIT_CODES};
use crate::output::{self, Format};
use crate::progress;

const EXAMPLES: &str = "\
Examples:
  zmeld bench size -- ./my-program --batch           least RAM for a batch job
  zmeld bench list                                   the recipes
  zmeld bench run bt --html bt.html                  one of them, and a page
  zmeld bench run codecs --limit '40% of footprint' -- ./my-program --batch
  zmeld bench run codecs --budget 6m --output codecs.json
  zmeld bench run codecs --resume codecs.json        carry on after Ctrl-C

An experiment limits memory by a control group and sets up swap, which needs
root. Everything is taken back when it ends; if it is killed, the next one does
that.";

/// Does it help my workload? Experiments under real memory pressure
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct BenchArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a recipe: each kind of swap in turn, repeated, compared
    Run(Box<RunArgs>),
    /// Find the least RAM for a command that ends by itself, with each kind of swap
    Size(Box<size::SizeArgs>),
    /// List the recipes, or print one
    List(ListArgs),
    /// Run a built-in workload in this process, given as JSON
    #[command(hide = true)]
    Workload { json: String },
    /// Start a workload, wait for it, report what it used
    #[command(hide = true)]
    Supervise { json: String },
    /// Make one run as the first program of a virtual machine
    #[command(hide = true)]
    Guest,
    /// Join control groups and become a command
    #[command(hide = true)]
    Launch { json: String },
}

#[derive(Debug, Args)]
struct RunArgs {
    /// A recipe's name (see list) or the path of a file
    recipe: String,
    /// At the published size, which may need a machine to match, and days
    #[arg(long, help_heading = "What is run")]
    full: bool,
    /// Only these variants: names, or how they begin, such as "no swap,zram"
    #[arg(long, value_name = "LIST", help_heading = "What is run")]
    variant: Vec<String>,
    /// Only these cases
    #[arg(long, value_name = "LIST", help_heading = "What is run")]
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
    /// The kernel image of virtual machines [default: the running one's in /boot, or another's]
    #[arg(long, value_name = "FILE", help_heading = "What is run")]
    kernel: Option<PathBuf>,
    /// Run this command instead of the recipe's workload
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// At most so many runs of each variant
    #[arg(long, value_name = "N", help_heading = "How long", value_parser = clap::value_parser!(u16).range(1..))]
    runs: Option<u16>,
    #[command(flatten)]
    keeping: KeepArgs,
}

/// How long runs go on, and where their result is kept and shown.
#[derive(Debug, Args)]
struct KeepArgs {
    /// Stop after that time: 90s, 6m, 1.5h
    #[arg(long, value_name = "TIME", help_heading = "How long")]
    budget: Option<Span>,
    /// Seed of random orders [default: the time]
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

impl KeepArgs {
    /// The result to go on with, if one is named, or what is asked. Its runs decide how much memory
    /// is taken, by root; one to which nothing is added may be anybody's.
    fn resumed<K: Kept>(
        &self,
        mut asked: K,
        adapt: impl FnOnce(&mut K, &K) -> anyhow::Result<()>,
    ) -> anyhow::Result<K> {
        let mut paths = self.html.iter().chain(&self.output);
        paths.try_for_each(|path| zmeld_linux::file::check(path))?;
        let Some(path) = &self.resume else {
            return Ok(asked);
        };
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut done: K = read_open(path, &file)?;
        adapt(&mut asked, &done)
            .and_then(|()| Ok(done.go_on_with(asked)?))
            .with_context(|| format!("cannot resume {}", path.display()))?;
        if !done.is_complete() {
            check_owner(path, &file)?;
        }
        Ok(done)
    }

    /// Makes the runs that are left, saves them and shows what came out.
    fn carry_out<K: Kept>(
        &self,
        mut kept: K,
        kernel: Option<&PathBuf>,
        document: fn(&K) -> Document,
        table: fn(&K) -> Table,
    ) -> anyhow::Result<Outcome> {
        // A result to which nothing is added is not written anew.
        let resumed = self.resume.as_ref().filter(|_| !kept.is_complete());
        let file = self.output.as_ref().or(resumed);
        let settings = settings(self.budget.map(Span::duration), kernel)?;
        let stop = progress::interrupt_flag();
        let mut saved = Ok(());
        let line = progress::Message::new();
        let runs_before = kept.runs_made();
        let result = kept.make_runs(&settings, stop, &mut |event| match (event, file) {
            (Event::Note(text), _) => line.say(text),
            (
                Event::Begins {
                    what,
                    done,
                    of,
                    left,
                },
                _,
            ) => {
                let of = of.map_or(String::new(), |of| format!(" of at most {of}"));
                let left = left.map_or(String::new(), |left| {
                    format!(", some {} left", zmeld_report::units::duration(left))
                });
                line.set(&match (done, of.is_empty()) {
                    (0, true) => format!("first run, {what}"),
                    _ => format!("{done}{of} runs{left}: {what}"),
                });
            }
            (Event::Ended(kept), Some(file)) if saved.is_ok() => saved = save(file, kept),
            (Event::Tried(kept), Some(file)) if saved.is_ok() => saved = save(file, kept),
            _ => {}
        });
        line.clear();
        // If nothing came of it, the file's older result is worth more.
        let runs = kept.runs_made();
        let came_of_it = runs > runs_before || runs > 0 && result.is_ok();
        if let Some(file) = file.filter(|_| came_of_it) {
            saved = saved.and(save(file, &kept));
        }
        if let Err(err) = result {
            saved?;
            let err = anyhow::Error::new(err);
            return Err(match file.filter(|_| runs > 0) {
                Some(file) => err.context(format!("{runs} runs are in {}", file.display())),
                None => err,
            });
        }
        // The page is written even where nobody reads standard output.
        let page = document(&kept);
        let written = self.html.as_ref();
        let written = written.map_or(Ok(()), |path| output::write_page(path, &page));
        let shown = output::show(&self.format, || page, || table(&kept), K::SCHEMA, &kept);
        written.and(shown).and(saved)?;
        Ok(match stop.load(Ordering::SeqCst) {
            true => Outcome::Interrupted,
            false => Outcome::Done,
        })
    }
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Print this recipe's file
    recipe: Option<String>,
    #[command(flatten)]
    format: Format,
}

pub fn run(args: &BenchArgs) -> anyhow::Result<Outcome> {
    match &args.command {
        Command::Run(args) => experiment(args),
        Command::Size(args) => size::run(args),
        Command::List(args) => list(args),
        Command::Workload { json } => workload(json),
        Command::Supervise { json } => {
            let launch = serde_json::from_str(json).context("not a request")?;
            supervise(launch).context("cannot run the workload")?;
            Ok(Outcome::Done)
        }
        Command::Guest => {
            let settings = || settings(None, None).map_err(|err| format!("{err:#}"));
            if let Err(said) = guest::first_program(settings) {
                output::say(said);
            }
            guest::end().context("cannot end this machine")?;
            Ok(Outcome::Done)
        }
        Command::Launch { json } => {
            let how: Launch = serde_json::from_str(json).context("not a request")?;
            let err = launch(&how);
            let command = how.command.join(" ");
            output::say(format_args!("cannot start {command}: {err}"));
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
        Err(err @ WorkloadError::Wrong(_)) => {
            Err(zmeld_lab::Error::Integrity(err.to_string()).into())
        }
        Err(err) => Err(err.into()),
    }
}

fn recipe(args: &RunArgs) -> anyhow::Result<Recipe> {
    let mut recipe = Recipe::load(&args.recipe)?;
    if !args.command.is_empty() {
        let variants_of = recipe.name.clone();
        only_last_case(&mut recipe, &args.command)?;
        recipe.question = format!(
            "Which set-up of the recipe {variants_of} suits `{}`?",
            recipe.name
        );
    }
    pick(
        &mut recipe.variants,
        &args.variant,
        |it| &it.name,
        "variant",
    )?;
    if !args.variant.is_empty() && recipe.variants.iter().all(|it| it.unlimited) {
        anyhow::bail!(
            "--variant {}: it shows only what the limit costs; name another variant beside it, after a comma",
            args.variant.join(",")
        );
    }
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

/// Leaves the last case, which is the one that takes memory away, with that command as its
/// workload if there is one.
fn only_last_case(recipe: &mut Recipe, command: &[String]) -> anyhow::Result<()> {
    let mut case = recipe.cases.pop().context("a recipe without a case")?;
    if let Some(program) = command.first() {
        let external = ExternalCommand {
            command: command.to_vec(),
            ..ExternalCommand::default()
        };
        if !external.is_there() {
            anyhow::bail!("cannot start {program}: No such file or program");
        }
        case.name = external.name();
        case.workload = Workload::Command(external);
        case.full = None;
        recipe.name.clone_from(&case.name);
        recipe.about.clear();
        recipe.metric = zmeld_lab::recipe::Metric::default();
        recipe.published.clear();
    }
    recipe.cases = vec![case];
    Ok(())
}

/// A seed as it was given, or the time. Whole milliseconds: JSON readers that know only doubles keep it.
fn seed(given: Option<u64>) -> u64 {
    given.unwrap_or(UNIX_EPOCH.elapsed().unwrap_or_default().as_millis() as u64)
}

fn settings(budget: Option<Duration>, kernel: Option<&PathBuf>) -> anyhow::Result<Settings> {
    Ok(Settings {
        budget,
        program: std::env::current_exe().context("cannot find this program")?,
        kernel: kernel.cloned(),
    })
}

/// Keeps those that are called so, or, where none is, whose names begin so.
fn pick<T>(
    all: &mut Vec<T>,
    wanted: &[String],
    name: impl Fn(&T) -> &String,
    what: &str,
) -> anyhow::Result<()> {
    let named = |it: &T, wanted: &String| name(it) == wanted;
    let begins = |it: &T, wanted: &String| {
        let rest = name(it).strip_prefix(wanted.as_str());
        rest.is_some_and(|rest| rest.starts_with(' '))
    };
    let mut kept = vec![wanted.is_empty(); all.len()];
    // A name may have a comma in it.
    let list = |wanted: &String| match all.iter().any(|it| named(it, wanted)) {
        true => vec![wanted.clone()],
        false => wanted.split(',').map(|it| it.trim().to_owned()).collect(),
    };
    for wanted in &wanted.iter().flat_map(list).collect::<Vec<_>>() {
        let is_name = all.iter().any(|it| named(it, wanted));
        let is_meant = |it: &T| named(it, wanted) || !is_name && begins(it, wanted);
        if !all.iter().any(is_meant) {
            let names: Vec<&str> = all.iter().map(|it| name(it).as_str()).collect();
            anyhow::bail!(
                "there is no {what} \"{wanted}\"; there are: {}",
                names.join("; ")
            );
        }
        for (kept, it) in kept.iter_mut().zip(all.iter()) {
            *kept |= is_meant(it);
        }
    }
    let mut kept = kept.into_iter();
    all.retain(|_| kept.next().unwrap_or(false));
    Ok(())
}

/// Larger than any result: a thousand runs are some ten megabytes.
const RESULT_MAX: u64 = 256 << 20;

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
            "{} belongs to another user (uid {owner}), who can change its figures: copy it first \
             if you trust it",
            path.display()
        );
    }
    Ok(())
}

fn read_open<K: Kept>(path: &Path, file: &File) -> anyhow::Result<K> {
    let mut text = String::new();
    file.take(RESULT_MAX + 1)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read {}", path.display()))?;
    if text.len() as u64 > RESULT_MAX {
        anyhow::bail!("{} is too large to be a result", path.display());
    }
    let (schema, version) = K::SCHEMA;
    let envelope = Envelope::read(&text, schema, version - 1..=version)
        .with_context(|| path.display().to_string())?;
    Ok(envelope.body)
}

fn save<K: Kept>(path: &Path, kept: &K) -> anyhow::Result<()> {
    let text = output::json(K::SCHEMA, kept);
    Ok(zmeld_linux::file::replace(path, text.as_bytes(), None)?)
}

fn experiment(args: &RunArgs) -> anyhow::Result<Outcome> {
    let keeping = &args.keeping;
    let asked = Experiment::new(recipe(args)?, args.full, seed(keeping.seed));
    let experiment = keeping.resumed(asked, |asked, done| {
        if args.runs.is_none() {
            asked.recipe.stopping = done.recipe.stopping;
            asked.recipe.check().map_err(anyhow::Error::msg)?;
        }
        Ok(())
    })?;
    let (document, table) = (report::document, report::runs_table);
    keeping.carry_out(experiment, args.kernel.as_ref(), document, table)
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
        ("zmeld.bench.recipes", 2),
        &Recipes { recipes: &recipes },
    )?;
    Ok(Outcome::Done)
}
