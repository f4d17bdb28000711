//! `zmeld bench size`: how small a machine will do.

use clap::Args;
use zmeld_config::Percent;
use zmeld_lab::size::{report, Basis, Question, SizeSearch};
use zmeld_lab::Recipe;

use super::{only_last_case, pick, seed, KeepArgs};
use crate::exit::{Outcome, EXIT_CODES};

const EXAMPLES: &str = "\
Examples:
  zmeld bench size -- ./my-job --batch           every variant the kernel has
  zmeld bench size --variant disk,zram --html size.html -- 7zz b 1 -md22
  zmeld bench size --slowdown 20% --within 10% -- make -j2
  zmeld bench size --basis machine -- ./my-job   its RAM holds the store as well
  zmeld bench size --recipe vps-7zip             its workload and variants
  zmeld bench size --budget 20m --output size.json -- ./my-job
  zmeld bench size --resume size.json -- ./my-job    carry on after Ctrl-C

The command has to end by itself, and to take about as long each time: it runs
some 30 times for each variant, more where runs differ, and 30 without a limit.
That takes weeks if one run takes an hour. --budget TIME ends sooner, with the
answers so far; --variant chooses. A variant is one kind of swap: 'no swap',
disk, 'zram lz4' and other codecs, zswap, zmeld. The first run tells how many
variants and runs there are, and how long they take. A server that does not
end: zmeld scan --pid PID says how its memory compresses.

The answer for a job that fills 200 MiB and then computes without them (two
variants, --slowdown 50% --within 10%; 78 runs of 4 s, six minutes), shortened:

  'python3 job.py' needs at least 207 MiB of RAM without swap (196 MiB is too
  little); at most 27.1 MiB with zram lzo-rle, 21.3 MiB of it the store.

  variant                          least RAM     store  with store
  no swap         207.4 MiB (196.1 to 207.4)         –     207 MiB
  zram lzo-rle *        5.8 MiB (0.0 to 5.8)  21.3 MiB    27.1 MiB

Store: RAM of the compressed pages, which the limit does not count. *: the least
of all, with its store. Each limit is decided by the interval of its slowdown,
not by one run.";

/// Arguments of `zmeld bench size`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct SizeArgs {
    /// A recipe whose workload and variants are taken [default: the variants of "size"]
    #[arg(long, value_name = "NAME", help_heading = "What is run")]
    recipe: Option<String>,
    /// Its workload at the published size
    #[arg(long, requires = "recipe", help_heading = "What is run")]
    full: bool,
    /// Only these variants: names, or how they begin, such as disk,zram
    #[arg(long, value_name = "LIST", help_heading = "What is run")]
    variant: Vec<String>,
    /// Take huge pages from the command: small groups full of them are killed with swap free
    #[arg(long, help_heading = "What is run")]
    no_huge_pages: bool,
    /// The command
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// How much slower than without a limit it may be
    #[arg(
        long,
        value_name = "PERCENT",
        default_value = "5%",
        help_heading = "What is asked"
    )]
    slowdown: Percent,
    /// How close the answer is to be
    #[arg(
        long,
        value_name = "PERCENT",
        default_value = "5%",
        help_heading = "What is asked"
    )]
    within: Percent,
    /// Compare only the kernel's part of the time and waiting: for a machine that others use, and programs of one thread
    #[arg(long, help_heading = "What is asked")]
    steady: bool,
    /// Kind of RAM: a control group, with the compressed store on top; or a machine, where both
    /// share it
    #[arg(
        long,
        value_parser = ["group", "machine"],
        default_value = "group",
        help_heading = "What is asked"
    )]
    basis: String,
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

pub fn run(args: &SizeArgs) -> anyhow::Result<Outcome> {
    let keeping = &args.keeping;
    let search = keeping.resumed(asked(args)?, |_, _| Ok(()))?;
    keeping.carry_out(search, None, report::document, report::runs_table)
}

/// The search asked for, without runs.
fn asked(args: &SizeArgs) -> anyhow::Result<SizeSearch> {
    if args.command.is_empty() && args.recipe.is_none() {
        anyhow::bail!(
            "no command: zmeld bench size -- COMMAND, or --recipe NAME for the workload of a recipe (zmeld bench list)"
        );
    }
    let name = args.recipe.as_deref().unwrap_or("size");
    let mut recipe = Recipe::load(name)?;
    only_last_case(&mut recipe, &args.command)?;
    if !args.command.is_empty() {
        recipe.run_max_s = 86_400.0;
    }
    recipe.cases[0].huge_pages &= !args.no_huge_pages;
    recipe.variants.retain(|it| !it.unlimited);
    pick(
        &mut recipe.variants,
        &args.variant,
        |it| &it.name,
        "variant",
    )?;
    recipe.question = format!(
        "With how little RAM does `{}` still do its job?",
        recipe.cases[0].name
    );
    let question = Question {
        slowdown: args.slowdown.fraction(),
        within: args.within.fraction(),
        runs_max: args.runs,
        give_up: args.give_up,
        basis: match args.basis.as_str() {
            "machine" => Basis::Machine,
            _ => Basis::Group,
        },
        steady: args.steady,
    };
    let seed = seed(args.keeping.seed);
    Ok(SizeSearch::new(recipe, args.full, question, seed)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_go_by_their_names_or_how_they_begin() {
        let picked = |wanted: &[&str]| {
            let mut recipe = Recipe::load("size").unwrap();
            let wanted: Vec<String> = wanted.iter().map(|&name| name.to_owned()).collect();
            pick(&mut recipe.variants, &wanted, |it| &it.name, "variant").map(|()| {
                let names = recipe.variants.iter().map(|it| it.name.clone());
                names.collect::<Vec<_>>()
            })
        };
        assert_eq!(picked(&["zram lzo"]).unwrap(), ["zram lzo"]);
        assert_eq!(picked(&["no swap", "disk"]).unwrap(), ["no swap", "disk"]);
        assert_eq!(picked(&["no swap, disk"]).unwrap(), ["no swap", "disk"]);
        assert!(picked(&["zram"]).unwrap().len() >= 5);
        let err = picked(&["zr"]).unwrap_err().to_string();
        assert!(err.contains("\"zr\"") && err.contains("zram lz4"), "{err}");
    }
}
