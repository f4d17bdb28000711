//! Reads a source once, sums its bytes (or only touches them with `--touch`),
//! and prints what was there and how fast it went.
//!
//!     visit [--threads N] [--shared] [--files] [--touch] all|tree:PID|pid:PID|cgroup:PATH|PATH|-

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use zmeld_memory::{open_path, LiveMemory, LiveOptions, OpenOptions, Selection, Source};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut threads = 1;
    let (mut shared, mut files, mut touch) = (false, false, false);
    let mut what = "all".to_owned();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--threads" => threads = arguments.next().ok_or("--threads N")?.parse()?,
            "--shared" => shared = true,
            "--files" => files = true,
            "--touch" => touch = true,
            _ => what = argument,
        }
    }
    let live = |selection| {
        LiveMemory::open(LiveOptions {
            shared,
            files,
            ..LiveOptions::new(selection)
        })
    };
    let source: Box<dyn Source> = match what.split_once(':') {
        _ if what == "all" => Box::new(live(Selection::All)?),
        Some(("tree", pid)) => Box::new(live(Selection::Tree(pid.parse()?))?),
        Some(("pid", pid)) => Box::new(live(Selection::Pids(vec![pid.parse()?]))?),
        Some(("cgroup", path)) => Box::new(live(Selection::Cgroup(path.into()))?),
        _ => open_path(&what, &OpenOptions::default())?,
    };
    println!(
        "{}, {:?} pages expected",
        source.describe(),
        source.expected_pages()
    );
    let sum = AtomicU64::new(0);
    let begin = Instant::now();
    let visit = source.visit(threads, &AtomicBool::new(false), &|batch| {
        let step = if touch { 4096 } else { 8 };
        let part = batch.bytes.chunks(step).fold(0, |sum: u64, chunk| {
            sum.wrapping_add(u64::from_ne_bytes(chunk[..8].try_into().expect("eight")))
        });
        sum.fetch_add(part, Ordering::Relaxed);
    })?;
    let seconds = begin.elapsed().as_secs_f64();
    let pages = visit.counted.delivered;
    println!(
        "{:#?}\n{:?}\n{} regions",
        visit.counted,
        visit.skipped.0,
        visit.regions.len()
    );
    for note in &visit.notes {
        println!("note: {note}");
    }
    println!(
        "{pages} pages in {seconds:.3} s: {:.0} pages/s, {:.2} GB/s, {threads} threads, sum {:x}",
        pages as f64 / seconds,
        (pages * source.page_size() as u64) as f64 / seconds / 1e9,
        sum.into_inner(),
    );
    Ok(())
}
