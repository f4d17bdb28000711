//! `zmeld scan`.

use std::sync::atomic::Ordering;
use std::time::Duration;

use zmeld_memory::{
    open_path, ColdTracker, LiveMemory, LiveOptions, OpenOptions, Selection, Source, SwapDevice,
};
use zmeld_scan::kernel::Pool;
use zmeld_scan::{Options, Progress, ScanResult};
use zmeld_store::page_size;

use super::scan_report;
use crate::cli::{ScanArgs, SourceArgs};
use crate::exit::Outcome;
use crate::{output, progress};

/// Scans, prints, and compares with the thresholds.
pub fn run(args: &ScanArgs) -> anyhow::Result<Outcome> {
    let stop = progress::interrupt_flag();
    let mut options = Options::new(args.codecs.0.clone());
    options.full = args.full;
    options.groups = args.groups.into();
    options.ram_bytes = args.ram;
    options.swap_mb_per_s = args.swap_rate;
    options.threads = args.threads.map_or(options.threads, usize::from);
    options.pool = args
        .kernel
        .map(|version| Pool::of_kernel(version, None, page_size() as u32));

    let source = open(&args.source)?;
    let done = Progress::default();
    let names = if args.full {
        &["reading", "compressing"][..]
    } else {
        &["reading", "sampling more"][..]
    };
    let result = progress::show(names, &done, page_size() as u64, || {
        zmeld_scan::scan(source.as_ref(), &options, stop, &done)
    })?;

    let document = || scan_report::document(&result, args);
    if let Some(path) = &args.html {
        output::write_page(path, &scan_report::page(&result, args))?;
    }
    let table = || scan_report::codec_table(&result);
    output::show(&args.format, document, table, ("zmeld.scan", 1), &result)?;
    if result.interrupted {
        return Ok(Outcome::Interrupted);
    }
    Ok(judge(&result, args))
}

fn judge(result: &ScanResult, args: &ScanArgs) -> Outcome {
    let best = result
        .codecs
        .iter()
        .map(|codec| codec.effective_ratio)
        .fold(0.0, f64::max);
    let duplicates = 100.0 * result.pages.duplicate as f64 / result.pages.total.max(1) as f64;
    let mut outcome = Outcome::Done;
    if let Some(wanted) = args.require_ratio.filter(|&wanted| best < wanted) {
        eprintln!("zmeld: the best ratio is {best:.3}, below the {wanted} that was required");
        outcome = Outcome::Missed;
    }
    if let Some(wanted) = args
        .require_duplicates
        .filter(|&wanted| duplicates < wanted)
    {
        eprintln!(
            "zmeld: {duplicates:.2} % of the pages are duplicates, below the {wanted} % that was required"
        );
        outcome = Outcome::Missed;
    }
    outcome
}

/// The source that was asked for.
fn open(args: &SourceArgs) -> anyhow::Result<Box<dyn Source>> {
    if let Some(path) = &args.file {
        let options = OpenOptions {
            page_size: page_size(),
            raw: args.raw,
        };
        return Ok(open_path(path, &options)?);
    }
    if let Some(device) = &args.swap {
        return Ok(Box::new(SwapDevice::open(device)?));
    }
    let selection = if let Some(pid) = args.tree {
        Selection::Tree(pid)
    } else if let Some(path) = &args.cgroup {
        Selection::Cgroup(path.clone())
    } else if args.pid.is_empty() {
        Selection::All
    } else {
        Selection::Pids(args.pid.clone())
    };
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

/// Waits to see which memory is not touched. Ctrl-C during the wait ends it all:
/// there is no result yet.
fn watch(live: LiveMemory, seconds: u32) -> anyhow::Result<LiveMemory> {
    let stop = progress::interrupt_flag();
    let total = Duration::from_secs(seconds.into());
    let tracker = ColdTracker::start(&live)?;
    let line = progress::Wait::new("watching which memory is touched", total);
    let watched = tracker.wait(total, stop, &mut |elapsed| line.tick(elapsed))?;
    drop(line);
    if stop.load(Ordering::Relaxed) {
        eprintln!("zmeld: watched for less than {seconds} s; there is no result");
        std::process::exit(130);
    }
    Ok(live.only_cold(watched))
}
