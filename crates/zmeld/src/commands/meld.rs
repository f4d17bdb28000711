//! `zmeld meld`: a melding pass now.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use zmeld_linux::Host;
use zmeld_observe::Melding;
use zmeld_report::units::{bytes, count, percent, seconds};
use zmeld_report::{Column, Document, Section, Table, Tone};
use zmeld_watch::meld::{self, PassOptions, PassResult};

use crate::args::Format;
use crate::exit::{Outcome, EXIT_CODES};
use crate::{output, progress};

const EXAMPLES: &str = "\
Examples:
  zmeld meld                    a pass on the only device that melds
  zmeld meld zmeld1             on this one
  zmeld meld --estimate         only sample: what share of the pages repeats?

Ctrl-C ends a pass early: melded pages stay melded, and every page stays intact.";

/// Arguments of `zmeld meld`.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct MeldArgs {
    /// The device, such as zmeld0 or /dev/zmeld0 [default: the only one that melds]
    pub device: Option<String>,

    /// Only sample, and change nothing
    #[arg(long, conflicts_with = "resume")]
    pub estimate: bool,

    /// Go on where a stopped pass left off
    #[arg(long)]
    pub resume: bool,

    /// How the result is printed
    #[command(flatten)]
    pub format: Format,
}

/// The JSON of `zmeld.meld/1`.
#[derive(Serialize, schemars::JsonSchema)]
pub struct PassBody<'a> {
    /// The device, `zmeld0`.
    device: &'a str,
    /// Whether only the sample was taken.
    estimate_only: bool,
    /// What the pass did.
    result: &'a PassResult,
}

/// Runs the command.
pub fn run(args: &MeldArgs) -> anyhow::Result<Outcome> {
    let host = Host::here();
    let name = meld::choose(&host, args.device.as_deref())?;
    let options = PassOptions {
        resume: args.resume,
        estimate_only: args.estimate,
        ..PassOptions::default()
    };
    let stop = progress::interrupt_flag();
    let result = pass(&host, &name, &options, stop)?;
    let body = PassBody {
        device: &name,
        estimate_only: args.estimate,
        result: &result,
    };
    output::show(
        &args.format,
        || document(&name, args.estimate, &result),
        || table(&result),
        ("zmeld.meld", 1),
        &body,
    )?;
    Ok(match result.stopped && stop.load(Ordering::SeqCst) {
        true => Outcome::Interrupted,
        false => Outcome::Done,
    })
}

/// The kernel runs the pass in the thread that asks; this one shows how far it is
/// and stops it.
fn pass(
    host: &Host,
    name: &str,
    options: &PassOptions,
    stop: &AtomicBool,
) -> anyhow::Result<PassResult> {
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| meld::run(host, name, options));
        let line = progress::Message::of_long_work();
        let begin = Instant::now();
        let first = Melding::read(host, name).map_or(0, |m| m.counter("pages_melded"));
        while !worker.is_finished() {
            std::thread::park_timeout(Duration::from_millis(50));
            if stop.load(Ordering::SeqCst) {
                // Again and again: the pass may just be beginning.
                let _ = meld::stop(host, name);
            }
            if line.is_due() {
                let now = Melding::read(host, name).map_or(first, |m| m.counter("pages_melded"));
                line.set(&format!(
                    "melding {name}: {} pages so far, {}",
                    count(now.saturating_sub(first)),
                    seconds(begin.elapsed().as_secs_f64().floor())
                ));
            }
        }
        match worker.join() {
            Ok(result) => Ok(result?),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn document(name: &str, estimate: bool, result: &PassResult) -> Document {
    let part = result
        .duplicate_share()
        .map_or("No page".to_owned(), percent);
    let lead = if result.pages_stored == 0 && result.pages_unfingerprinted == 0 {
        format!("{name} holds no page that could be melded.")
    } else if estimate {
        format!("{part} of the sampled pages on {name} repeat; nothing was changed.")
    } else {
        format!(
            "{} pages of {name} were melded: {} saved, {} of it for metadata{}.",
            count(result.pages_melded),
            bytes(result.bytes_saved),
            bytes(result.bytes_metadata),
            if result.stopped {
                "; stopped before the end"
            } else {
                ""
            }
        )
    };
    let mut section = Section::new("The pass").table(table(result));
    if result.pages_unfingerprinted > 0 {
        section = section.advice(
            Tone::Neutral,
            format!(
                "{} pages were written while melding was off and have no fingerprint; they can \
                 be melded once they are written again.",
                count(result.pages_unfingerprinted)
            ),
        );
    }
    if result.stopped {
        section = section.advice(
            Tone::Neutral,
            "zmeld meld --resume goes on where this pass stopped.",
        );
    }
    Document::new("zmeld meld").lead(lead).section(section)
}

fn table(result: &PassResult) -> Table {
    let figures = [
        ("pages with a fingerprint", count(result.pages_stored)),
        ("sampled", count(result.pages_sampled)),
        (
            "repeat in the sample",
            result
                .duplicate_share()
                .map_or(count(result.duplicates_sampled), |part| {
                    format!("{} ({})", count(result.duplicates_sampled), percent(part))
                }),
        ),
        ("compared", count(result.candidates)),
        ("melded", count(result.pages_melded)),
        ("saved", bytes(result.bytes_saved)),
        ("metadata for it", bytes(result.bytes_metadata)),
        ("same fingerprint, other bytes", count(result.collisions)),
        ("changed meanwhile", count(result.raced)),
        ("memory borrowed", bytes(result.memory_borrowed_bytes)),
        ("time", seconds(result.time_ns as f64 / 1e9)),
    ];
    zmeld_report::table!("", for (what, value) in figures,
        Column::text("what") => what,
        Column::text("how much") => value,
    )
}
