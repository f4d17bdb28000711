//! `zmeld codecs`.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

use rustix::param::page_size;
use serde::Serialize;
use zmeld_config::advice::codec::JUDGED_FROM;
use zmeld_config::RamDriver;
use zmeld_report::units::{bytes, count, plural};
use zmeld_report::{Column, Document, Section, Table};
use zmeld_scan::facts::MachineFacts;
use zmeld_scan::kernel::PoolModel;
use zmeld_scan::memory::{open_path, Source};
use zmeld_scan::report::{told_name, NOT_HERE};
use zmeld_scan::{measure_pages, Candidate, CodecReport, ScanProgress};
use zmeld_store::codec::{codecs, CodecInfo};
use zmeld_store::{fill_word, CodecSpec};

use crate::args::CodecsArgs;
use crate::exit::Outcome;
use crate::{output, progress};

/// The result, schema `zmeld.codecs/1`.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Report {
    /// The files that were read.
    sources: Vec<String>,
    /// Bytes of a page.
    page_size: u64,
    /// Pages that were read.
    pages_read: u64,
    /// Of them, pages that repeat one machine word; no codec sees them.
    same_filled_pages: u64,
    /// Whether Ctrl-C ended it: figures are of what was read.
    interrupted: bool,
    /// Each codec.
    codecs: Vec<CodecReport>,
    /// Threads that measured: always 1.
    threads: u16,
    /// The machine.
    machine: MachineFacts,
}

pub fn run(args: &CodecsArgs) -> anyhow::Result<Outcome> {
    let stop = progress::interrupt_flag();
    let done = ScanProgress::default();
    let limit = if args.full { u64::MAX } else { args.pages };
    let page_size = args.page_size.unwrap_or_else(page_size);
    let sources = open_all(args, page_size)?;
    let (picked, reports, machine) = progress::show(
        &["reading", "measuring"],
        &done,
        page_size as u64,
        || -> anyhow::Result<_> {
            let picked = pick(&sources, page_size, limit, stop, &done)?;
            let specs = args.codecs.as_ref().map(|list| list.0.clone());
            let candidates = Candidate::open_all(&specs.unwrap_or_else(every_level))?;
            let machine = MachineFacts::here();
            let pool = PoolModel::running(&machine.kernel, page_size as u32);
            let pages = &picked.pages;
            let reports = measure_pages(pages, &candidates, &pool.geometry, stop, &done)?;
            Ok((picked, reports, machine))
        },
    )?;
    let report = Report {
        sources: sources.iter().map(|source| source.describe()).collect(),
        page_size: page_size as u64,
        pages_read: picked.seen + picked.same_filled,
        same_filled_pages: picked.same_filled,
        interrupted: stop.load(Ordering::Relaxed),
        codecs: reports,
        threads: 1,
        machine,
    };
    output::show(
        &args.format,
        || document(&report),
        || table(&report, str::to_owned),
        ("zmeld.codecs", 1),
        &report,
    )?;
    Ok(if report.interrupted {
        Outcome::Interrupted
    } else {
        Outcome::Done
    })
}

struct Picked {
    pages: Vec<u8>,
    /// Of those that are not same-filled, each so manieth is taken.
    stride: u64,
    /// Pages that are not same-filled.
    seen: u64,
    same_filled: u64,
}

fn open_all(args: &CodecsArgs, page_size: usize) -> anyhow::Result<Vec<Box<dyn Source>>> {
    let streams = args.paths.iter().filter(|path| path.as_os_str() == "-");
    if streams.count() > 1 {
        anyhow::bail!("standard input can be read only once: give \"-\" once");
    }
    let open = |path: &PathBuf| Ok(open_path(path, page_size, args.raw)?);
    args.paths.iter().map(open).collect()
}

/// Reads all input and keeps up to `limit` pages, evenly spread: every page until there are
/// too many, then every second of them, and so on.
fn pick(
    sources: &[Box<dyn Source>],
    page_size: usize,
    limit: u64,
    stop: &AtomicBool,
    progress: &ScanProgress,
) -> anyhow::Result<Picked> {
    let picked = Mutex::new(Picked {
        pages: Vec::new(),
        stride: 1,
        seen: 0,
        same_filled: 0,
    });
    let take = |page: &[u8]| {
        let mut picked = picked.lock().expect("no panic");
        if fill_word(page).is_some() {
            picked.same_filled += 1;
            return;
        }
        picked.seen += 1;
        if !picked.seen.is_multiple_of(picked.stride) {
            return;
        }
        picked.pages.extend_from_slice(page);
        let kept = picked.pages.len() / page_size;
        if kept as u64 > limit {
            for at in 0..kept / 2 {
                let from = (2 * at + 1) * page_size;
                picked
                    .pages
                    .copy_within(from..from + page_size, at * page_size);
            }
            picked.pages.truncate(kept / 2 * page_size);
            picked.stride *= 2;
        }
    };
    progress.start(sources.iter().map(|source| source.expected_pages()).sum());
    for source in sources {
        source.visit(1, stop, &|batch| {
            batch.bytes.chunks_exact(page_size).for_each(take);
            progress.advance(batch.bytes.len() / page_size);
        })?;
    }
    let picked = picked.into_inner().expect("no panic");
    if picked.pages.is_empty() && !stop.load(Ordering::Relaxed) {
        anyhow::bail!(
            "all {} pages are same-filled: there is nothing to compress",
            picked.same_filled
        );
    }
    Ok(picked)
}

/// Each codec at the levels that differ enough to be told apart.
fn every_level() -> Vec<CodecSpec> {
    let levels = |name: &str| -> Vec<Option<i32>> {
        let levels: &[i32] = match name {
            "lz4" => &[1, 2, 4, 8, 16],
            "lz4hc" => &[3, 6, 9, 12],
            "zstd" => &[-5, -1, 1, 2, 3, 5, 7, 9, 12, 15, 19],
            "deflate" => &[1, 3, 6, 9],
            "zword" => &[1, 2],
            _ => return vec![None],
        };
        levels.iter().copied().map(Some).collect()
    };
    let specs = |codec: CodecInfo| {
        let (name, there) = (codec.name, codec.level_min..=codec.level_max);
        let mut levels = levels(name);
        levels.retain(|level| level.is_none_or(|level| there.contains(&level)));
        levels
            .into_iter()
            .map(move |level| CodecSpec { name, level })
    };
    codecs().into_iter().flat_map(specs).collect()
}

fn table(report: &Report, name: impl Fn(&str) -> String) -> Table {
    zmeld_report::table!("", for codec in &report.codecs,
        where {
            let raw = codec.incompressible_pages as f64 / codec.pages_measured.max(1) as f64;
        }
        Column::text("codec") => name(&codec.codec),
        Column::ratio("compression") => codec.ratio,
        Column::bytes("memory used").key("memory_at_scale_bytes") => codec.memory_at_scale_bytes,
        Column::percent("raw").key("incompressible_fraction") => raw,
        Column::mb_per_s("compress") => codec.times.compress_mb_per_s,
        // Raw pages are only copied.
        Column::mb_per_s("decompress") =>
            (raw < 0.99).then_some(codec.times.decompress_mb_per_s),
        Column::bytes("compressed") => codec.compressed_bytes,
        Column::nanoseconds("compress 99\u{202f}%").key("compress_p99_ns") => codec.times.compress_ns_p99,
    )
}

/// The table for people: what fits 80 columns.
fn main_table(report: &Report) -> Table {
    let offered = |codec: &str| {
        let name = codec.split(':').next().unwrap_or_default();
        report.machine.facts.offers(RamDriver::Zram, name)
    };
    let named = |codec: &str| told_name(codec, offered(codec));
    let (mut table, _) = table(report, named).split(COLUMNS_SHOWN);
    let mut rows = report.codecs.iter();
    if rows.any(|codec| offered(&codec.codec) == Some(false)) {
        table.note(NOT_HERE);
    }
    let default = |codec: CodecInfo| {
        let name = format!("{}:{}", codec.name, codec.level_default);
        let is_here = report.codecs.iter().any(|row| row.codec == name);
        is_here.then_some(name)
    };
    let defaults: Vec<String> = codecs().into_iter().filter_map(default).collect();
    if !defaults.is_empty() {
        let defaults = defaults.join(", ");
        table.note(format!("Without a level, as codec = \"zstd\": {defaults}."));
    }
    table.note(
        "Compression: size before over size after the codec, without the pool, which the ratio of \
         zmeld scan counts. Memory used: RAM of these pages in the kernel's pool, as zmeld scan \
         predicts it for a full device. Raw: pages kept as they are, because they do not \
         compress. zmeld scan says which codec suits this machine.",
    );
    table
}

/// All but sizes and the slowest pages' times, which --csv and --json have.
const COLUMNS_SHOWN: usize = 6;

fn document(report: &Report) -> Document {
    let measured = report
        .codecs
        .first()
        .map_or(0, |codec| codec.pages_measured);
    let part = if measured + report.same_filled_pages == report.pages_read {
        format!(
            "{} page{} of {} KiB",
            count(measured),
            plural(measured),
            report.page_size >> 10
        )
    } else {
        format!(
            "{} of {} pages of {} KiB, evenly spread",
            count(measured),
            count(report.pages_read),
            report.page_size >> 10
        )
    };
    let mut lead = format!("{part}, compressed one at a time, each read back and compared.");
    if report.same_filled_pages > 0 {
        lead.push_str(&format!(
            " Beside them {} same-filled, which a store does not compress.",
            match report.same_filled_pages {
                1 => "1 page is".to_owned(),
                pages => format!("{} pages are", count(pages)),
            }
        ));
    }
    if measured * report.page_size < JUDGED_FROM {
        lead.push_str(&format!(
            " Times of so few pages are no measure: {} were measured, and {} are needed.",
            bytes(measured * report.page_size),
            bytes(JUDGED_FROM)
        ));
    }
    if report.interrupted {
        lead.insert_str(0, "Stopped before the end: ");
    }
    Document::new(&format!("zmeld codecs on {}", report.sources.join(", ")))
        .lead(lead)
        .section(Section::new("").table(main_table(report)))
        .provenance(
            "machine",
            format!(
                "{}, Linux {}, 1 thread",
                report.machine.processor, report.machine.kernel
            ),
        )
}
