//! `zmeld bench size`: how small a machine will do.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Args, ValueEnum};
use zmeld_lab::experiment::{find_size, Event, Settings};
use zmeld_lab::size::result::SCHEMA;
use zmeld_lab::size::{report, Basis, Question, SizeSearch};
use zmeld_lab::Recipe;
use zmeld_report::units;

use super::{ended, only_last_case, save, seed, settings, KeepArgs};
use crate::exit::{Outcome, EXIT_CODES};
use crate::progress;

const EXAMPLES: &str = "\
Examples:
  zmeld bench size -- ./my-program --batch           every set-up that the kernel has
  zmeld bench size --set-ups disk,zram --html size.html -- 7zz b 1 -md22
  zmeld bench size --slowdown 20% --within 10% -- make -j2
  zmeld bench size --basis machine -- ./my-program   its RAM holds the store as well
  zmeld bench size --recipe vps-7zip                 a recipe's workload and set-ups
  zmeld bench size --budget 20m --output size.json -- ./my-program
  zmeld bench size --resume size.json -- ./my-program    carry on after Ctrl-C

The command is run again and again, so it has to take about as long each time, and to
end by itself. Each limit is decided by the interval of its slowdown, not by one run.";

/// Arguments of `zmeld bench size`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct SizeArgs {
    /// A recipe whose workload and set-ups are taken [default: the set-ups of "size"]
    #[arg(long, value_name = "NAME", help_heading = "What is run")]
    recipe: Option<String>,
    /// Its workload at the published size
    #[arg(long, requires = "recipe", help_heading = "What is run")]
    full: bool,
    /// Only these set-ups: names, or how they begin, such as disk,zram
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        help_heading = "What is run"
    )]
    set_ups: Vec<String>,
    /// Take huge pages from the command: small groups full of them are killed with swap free
    #[arg(long, help_heading = "What is run")]
    no_huge_pages: bool,
    /// The command
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// How much slower than without a limit it may be
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = parse_share, help_heading = "What is asked")]
    slowdown: f64,
    /// How close the answer is to be
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = parse_share, help_heading = "What is asked")]
    within: f64,
    /// Compare only the kernel's part of the time and waiting: for a machine that others use, and programs of one thread
    #[arg(long, help_heading = "What is asked")]
    steady: bool,
    /// What the RAM is of: a control group, with the compressed store on top; or a machine, where both share it
    #[arg(
        long,
        value_enum,
        default_value = "group",
        help_heading = "What is asked"
    )]
    basis: BasisName,
    /// At most so many runs for each limit
    #[arg(long, value_name = "N", default_value_t = 7, help_heading = "How long")]
    runs: usize,
    /// End a run after so many times as long as one without a limit
    #[arg(
        long,
        value_name = "TIMES",
        default_value_t = 3.0,
        help_heading = "How long"
    )]
    give_up: f64,
    #[command(flatten)]
    keeping: KeepArgs,
}

/// [`Basis`] on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BasisName {
    /// A control group: the compressed store comes on top
    Group,
    /// A machine: the workload and the store share its RAM
    Machine,
}

/// A share such as `5%`; a number alone is percent.
fn parse_share(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    match number.parse::<f64>() {
        Ok(percent) if percent.is_finite() && percent > 0.0 => Ok(percent / 100.0),
        _ => Err(format!(
            "\"{text}\" is no share: write more than 0, such as 5%"
        )),
    }
}

/// Carries it out.
pub fn run(args: &SizeArgs) -> anyhow::Result<Outcome> {
    let keeping = &args.keeping;
    keeping.check()?;
    let asked = asked(args)?;
    let resumed = keeping.resumed(SCHEMA, |done: &mut SizeSearch| {
        done.go_on_with(asked.clone())?;
        Ok(done.is_complete())
    })?;
    let mut search = resumed.unwrap_or(asked);
    let file = keeping.file(search.is_complete());
    let stop = progress::interrupt_flag();
    let settings = settings(search.seed, keeping.budget)?;
    let result = searched(&mut search, &settings, file);
    if let Err(err) = result {
        return Err(match (file, search.unlimited.len()) {
            (Some(file), runs) if runs > 0 => {
                err.context(format!("what was done is in {}", file.display()))
            }
            _ => err,
        });
    }
    let table = || report::runs_table(&search);
    keeping.show(&report::document(&search), table, SCHEMA, &search)?;
    Ok(ended(stop.load(Ordering::SeqCst)))
}

/// Searches, with a line that says how far it is, and keeps what was found.
fn searched(
    search: &mut SizeSearch,
    settings: &Settings,
    file: Option<&PathBuf>,
) -> anyhow::Result<()> {
    let line = progress::Message::new();
    let mut saved = Ok(());
    let keep = |search: &SizeSearch| match file {
        Some(file) => save(file, SCHEMA, search),
        None => Ok(()),
    };
    let stop = progress::interrupt_flag();
    let result = find_size(search, settings, stop, &mut |event| match event {
        Event::Note(text) => line.say(text),
        Event::Tries {
            set_up,
            limit_bytes,
            done,
            left,
        } => line.set(&going_on(set_up, limit_bytes, done, left)),
        Event::Tried(search) if saved.is_ok() => saved = keep(search),
        _ => {}
    });
    line.clear();
    // Where nothing came of it, what stands in the file from another time is worth more.
    if result.is_ok() && search.peak_bytes > 0 {
        saved = saved.and(keep(search));
    }
    result?;
    saved
}

fn going_on(
    set_up: Option<&str>,
    limit: Option<u64>,
    done: usize,
    left: Option<Duration>,
) -> String {
    let left = left.map_or(String::new(), |left| {
        format!(", about {} left", units::duration(left))
    });
    let what = match (set_up, limit) {
        (Some(set_up), Some(limit)) => format!("{set_up} with {}", units::bytes(limit)),
        (Some(what), None) => what.to_owned(),
        _ => "without a limit".to_owned(),
    };
    format!("{done} runs{left}: {what}")
}

/// What is asked, of which nothing was run.
fn asked(args: &SizeArgs) -> anyhow::Result<SizeSearch> {
    if args.command.is_empty() && args.recipe.is_none() {
        anyhow::bail!(
            "no command: zmeld bench size -- COMMAND, or --recipe NAME for the workload of a recipe (zmeld bench list)"
        );
    }
    let mut recipe = Recipe::load(args.recipe.as_deref().unwrap_or("size"))?;
    only_last_case(&mut recipe, &args.command)?;
    if !args.command.is_empty() {
        recipe.run_max_s = 86_400.0;
    }
    recipe.cases[0].huge_pages &= !args.no_huge_pages;
    pick(&mut recipe, &args.set_ups)?;
    recipe.question = format!(
        "With how little RAM does `{}` still do its job?",
        recipe.cases[0].name
    );
    let question = Question {
        slowdown: args.slowdown,
        within: args.within,
        runs_max: args.runs,
        give_up: args.give_up,
        basis: match args.basis {
            BasisName::Group => Basis::Group,
            BasisName::Machine => Basis::Machine,
        },
        steady: args.steady,
    };
    question.check().map_err(anyhow::Error::msg)?;
    Ok(SizeSearch::new(
        recipe,
        args.full,
        question,
        seed(args.keeping.seed),
    )?)
}

/// Keeps the set-ups that are called so, or whose names begin so.
fn pick(recipe: &mut Recipe, wanted: &[String]) -> anyhow::Result<()> {
    let is_meant = |name: &str, wanted: &str| {
        let rest = name.strip_prefix(wanted);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    recipe.arms.retain(|arm| !arm.unlimited);
    for wanted in wanted {
        if !recipe.arms.iter().any(|arm| is_meant(&arm.name, wanted)) {
            let names: Vec<&str> = recipe.arms.iter().map(|arm| arm.name.as_str()).collect();
            anyhow::bail!(
                "there is no set-up \"{wanted}\"; there are: {}",
                names.join(", ")
            );
        }
    }
    if !wanted.is_empty() {
        recipe
            .arms
            .retain(|arm| wanted.iter().any(|wanted| is_meant(&arm.name, wanted)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percent_with_or_without_the_sign() {
        for (text, share) in [("5%", 0.05), ("5", 0.05), (" 12.5 % ", 0.125)] {
            assert_eq!(parse_share(text), Ok(share), "{text}");
        }
        for text in ["", "%", "-5%", "0", "nan", "inf%", "5 percent", "1e999"] {
            assert!(parse_share(text).is_err(), "{text}");
        }
    }

    #[test]
    fn set_ups_go_by_their_names_or_how_they_begin() {
        let picked = |wanted: &[&str]| {
            let mut recipe = Recipe::load("size").unwrap();
            let wanted: Vec<String> = wanted.iter().map(|&name| name.to_owned()).collect();
            pick(&mut recipe, &wanted).map(|()| {
                let names = recipe.arms.iter().map(|arm| arm.name.clone());
                names.collect::<Vec<_>>()
            })
        };
        assert_eq!(picked(&["zram lzo"]).unwrap(), ["zram lzo"]);
        assert_eq!(picked(&["disk", "no swap"]).unwrap(), ["no swap", "disk"]);
        assert!(picked(&["zram"]).unwrap().len() >= 5);
        let err = picked(&["zr"]).unwrap_err().to_string();
        assert!(err.contains("\"zr\"") && err.contains("zram lz4"), "{err}");
    }
}
