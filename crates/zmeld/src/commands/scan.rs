//! `zmeld scan`.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::param::page_size;
use zmeld_scan::memory::{
    open_path, ColdTracker, LiveMemory, LiveOptions, Selection, Source, SwapDevice,
};
use zmeld_scan::report;
use zmeld_scan::{Candidate, ScanOptions, ScanProgress, ScanResult};

use zmeld_linux::Host;

use super::{setup, survey};
use crate::args::{ScanArgs, SourceArgs};
use crate::exit::Outcome;
use crate::{output, progress};

pub fn run(args: &ScanArgs) -> anyhow::Result<Outcome> {
    if let Some(path) = &args.survey.survey_new_key {
        return survey::new_key(path);
    }
    if let Some(place) = &args.survey.survey {
        return survey::run(place, selection(&args.source), args);
    }
    let stop = progress::interrupt_flag();
    if let Some(path) = &args.html {
        zmeld_linux::file::check(path)?;
    }
    let mut options = ScanOptions::new(Candidate::open_all(&args.codecs.0)?);
    options.full = args.full;
    options.threads = args.threads.map_or(options.threads, usize::from);
    let host = Host::here();
    options.own_swaps = setup::own_swaps(&host);

    let source = open(&args.source)?;
    let page_size = source.page_size();
    let done = ScanProgress::default();
    let names = if args.full {
        &["reading", "compressing"][..]
    } else {
        &["reading", "sampling more"][..]
    };
    let mut result = progress::show(names, &done, page_size as u64, || {
        zmeld_scan::scan(source.as_ref(), &options, stop, &done)
    })?;
    if !args.source.shared {
        result
            .advice
            .extend(zmeld_scan::advice::of_shared_memory(&result));
    }
    let of_all = result.is_whole() && is_of_this_machine(args);
    let setup = result
        .recommendation
        .as_ref()
        .filter(|_| result.speaks_for_machine())
        .map(|to| setup::what_up_does(&host, to, of_all));
    result.advice.extend(setup);

    let asked = report::Asked {
        shared: args.source.shared,
        mapped_files: args.source.mapped_files,
        programs: args.programs,
    };
    // The page is written even where nobody reads standard output, and the
    // result is printed even where the page cannot be written.
    let page = args.html.as_ref().map_or(Ok(()), |path| {
        output::write_page(path, &report::document(&result, asked))
    });
    let document = || report::document(&result, asked);
    let table = || match args.programs {
        true => report::program_table(&result),
        false => report::codec_table(&result),
    };
    let shown = output::show(&args.format, document, table, ("zmeld.scan", 3), &result);
    page?;
    shown?;
    if result.interrupted {
        return Ok(Outcome::Interrupted);
    }
    Ok(judge(&result, args))
}

/// Whether this is what `zmeld up` would measure: the memory of all processes, with
/// the usual codecs.
fn is_of_this_machine(args: &ScanArgs) -> bool {
    let source = &args.source;
    let part = source.file.is_some()
        || source.swap.is_some()
        || source.tree.is_some()
        || source.cgroup.is_some()
        || !source.pid.is_empty()
        || source.cold.is_some();
    let codecs = args.codecs.0.iter().map(ToString::to_string);
    let usual = codecs.eq(setup::USUAL.map(str::to_owned));
    !part && usual
}

fn judge(result: &ScanResult, args: &ScanArgs) -> Outcome {
    let best = result.best_codec();
    let (best, name) = best.map_or((0.0, "none"), |it| (it.effective_ratio, &it.codec));
    let duplicates = 100.0 * result.pages.duplicate as f64 / result.pages.total.max(1) as f64;
    let mut outcome = Outcome::Done;
    if let Some(wanted) = args.require_ratio.filter(|&wanted| best < wanted) {
        output::say(format_args!(
            "the best ratio is {best:.3} ({name}), below the {wanted} that was required"
        ));
        outcome = Outcome::Missed;
    }
    if let Some(wanted) = args
        .require_duplicates
        .filter(|&wanted| duplicates < wanted)
    {
        output::say(format_args!(
            "{duplicates:.2} % of the pages are duplicates, below the {wanted} % that was required"
        ));
        outcome = Outcome::Missed;
    }
    outcome
}

fn open(args: &SourceArgs) -> anyhow::Result<Box<dyn Source>> {
    if let Some(path) = &args.file {
        let page_size = args.page_size.unwrap_or_else(page_size);
        return Ok(open_path(path, page_size, args.raw)?);
    }
    if let Some(device) = &args.swap {
        return Ok(Box::new(SwapDevice::open(device)?));
    }
    let selection = selection(args);
    let live = LiveMemory::open(LiveOptions {
        shared: args.shared,
        files: args.mapped_files,
        ..LiveOptions::new(selection)
    })?;
    match args.cold {
        None => Ok(Box::new(live)),
        Some(seconds) => Ok(Box::new(watch(live, seconds)?)),
    }
}

fn selection(args: &SourceArgs) -> Selection {
    if let Some(pid) = args.tree {
        Selection::Tree(pid)
    } else if let Some(path) = &args.cgroup {
        Selection::Cgroup(path.clone())
    } else if args.pid.is_empty() {
        Selection::All
    } else {
        Selection::Pids(args.pid.clone())
    }
}

/// Waits to see which memory is not touched. Ctrl-C during the wait ends it all:
/// there is no result yet.
fn watch(live: LiveMemory, seconds: u32) -> anyhow::Result<LiveMemory> {
    let stop = progress::interrupt_flag();
    let total = Duration::from_secs(seconds.into());
    let tracker = ColdTracker::start(&live)?;
    let line = progress::Message::new();
    let watched = tracker.wait(total, stop, &mut |elapsed| {
        let left = total.saturating_sub(elapsed).as_secs();
        line.set(&format!("watching which memory is touched: {left} s left"));
    })?;
    drop(line);
    if stop.load(Ordering::Relaxed) {
        output::say(format_args!(
            "watched for less than {seconds} s; there is no result"
        ));
        std::process::exit(130);
    }
    Ok(live.only_cold(watched))
}
