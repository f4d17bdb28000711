//! `zmeld meld`: a melding pass now.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use zmeld_linux::Host;
use zmeld_report::units::{bytes, count, percent, seconds};
use zmeld_report::{Column, Document, Section, Table, Tone};
use zmeld_swap::observe::Melding;
use zmeld_swap::watch::meld;

use crate::exit::{Outcome, EXIT_CODES};
use crate::output::{self, Format};
use crate::progress;

const EXAMPLES: &str = "\
Examples:
  zmeld meld                    a pass on the only device that melds
  zmeld meld zmeld1             on this one
  zmeld meld --estimate         only sample: what share of the pages repeats?

Ctrl-C ends a pass early: melded pages stay melded, and every page stays intact.";

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
    /// Result of the pass.
    result: PassResult,
}

/// Result of a pass, from the `pass_` lines of `meld_stat`.
#[derive(Serialize, schemars::JsonSchema)]
pub struct PassResult {
    /// Pages with a fingerprint.
    pages_stored: u64,
    /// Pages written while melding was off, which cannot be melded.
    pages_unfingerprinted: u64,
    /// Pages in the sample.
    pages_sampled: u64,
    /// Pages in the sample that melding would drop.
    duplicates_sampled: u64,
    /// Pages whose bytes were compared with another's.
    candidates: u64,
    /// Pages that now share another's object.
    pages_melded: u64,
    /// Compressed bytes that this saved.
    bytes_saved: u64,
    /// Bytes that new shares cost.
    bytes_metadata: u64,
    /// Pages with the same fingerprint and other bytes.
    collisions: u64,
    /// Pages that changed while the pass ran.
    raced: u64,
    /// Memory that the pass borrowed, at the most at one time.
    memory_borrowed_bytes: u64,
    /// Nanoseconds that it took.
    time_ns: u64,
    /// The sample was below the threshold: nothing was done.
    below_threshold: bool,
    /// It was stopped before its end.
    stopped: bool,
}

impl PassResult {
    fn of(melding: &Melding) -> PassResult {
        let last = |name: &str| melding.counter(&format!("pass_{name}"));
        PassResult {
            pages_stored: last("pages_stored"),
            pages_unfingerprinted: last("pages_unfingerprinted"),
            pages_sampled: last("pages_sampled"),
            duplicates_sampled: last("duplicates_sampled"),
            candidates: last("candidates"),
            pages_melded: last("pages_melded"),
            bytes_saved: last("bytes_saved"),
            bytes_metadata: last("bytes_metadata"),
            collisions: last("collisions"),
            raced: last("raced"),
            memory_borrowed_bytes: last("memory_borrowed"),
            time_ns: ["time_sample_ns", "time_find_ns", "time_meld_ns"]
                .iter()
                .fold(0, |sum: u64, name| sum.saturating_add(last(name))),
            below_threshold: last("below_threshold") != 0,
            stopped: last("stopped") != 0,
        }
    }
}

pub fn run(args: &MeldArgs) -> anyhow::Result<Outcome> {
    let host = Host::here();
    let name = meld::choose(&host, args.device.as_deref())?;
    let request = match (args.estimate, args.resume) {
        (true, _) => "estimate",
        (false, true) => "start resume",
        (false, false) => "start",
    };
    let stop = progress::interrupt_flag();
    let melding = pass(&host, &name, request, stop)?;
    let part = melding.duplicates_sampled();
    let body = PassBody {
        device: &name,
        estimate_only: args.estimate,
        result: PassResult::of(&melding),
    };
    let result = &body.result;
    output::show(
        &args.format,
        || document(&name, args.estimate, result, part),
        || table(result, part),
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
fn pass(host: &Host, name: &str, request: &str, stop: &AtomicBool) -> anyhow::Result<Melding> {
    let line = progress::Message::of_long_work();
    let begin = Instant::now();
    let melded = || Melding::read(host, name).map(|m| m.counter("pages_melded"));
    let first = melded().unwrap_or(0);
    let pass = || meld::run(host, name, request);
    let melding = progress::beside(pass, || {
        if stop.load(Ordering::SeqCst) {
            // Again and again: the pass may just be beginning.
            let _ = meld::stop(host, name);
        }
        if line.is_due() {
            line.set(&format!(
                "melding {name}: {} pages so far, {}",
                count(melded().map_or(0, |now| now.saturating_sub(first))),
                seconds(begin.elapsed().as_secs_f64().floor())
            ));
        }
    });
    Ok(melding?)
}

fn document(name: &str, estimate: bool, result: &PassResult, part: Option<f64>) -> Document {
    let lead = if result.pages_stored == 0 && result.pages_unfingerprinted == 0 {
        format!("{name} holds no page that could be melded.")
    } else if estimate {
        let part = part.map_or("No page".to_owned(), percent);
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
    let mut section = Section::new("The pass").table(table(result, part));
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

fn table(result: &PassResult, part: Option<f64>) -> Table {
    let figures = [
        ("pages with a fingerprint", count(result.pages_stored)),
        ("sampled", count(result.pages_sampled)),
        (
            "repeat in the sample",
            part.map_or(count(result.duplicates_sampled), |part| {
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
