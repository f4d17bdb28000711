//! `zmeld codecs`.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::Context;
use serde::Serialize;
use zmeld_memory::{open_path, OpenOptions, Source, StreamSource};
use zmeld_report::units::{bytes, count};
use zmeld_report::{cells, Column, Document, Section, Table};
use zmeld_scan::kernel::Pool;
use zmeld_scan::machine::Machine;
use zmeld_scan::{measure_pages, CodecReport, Progress};
use zmeld_store::codec::{codecs, train_dictionary};
use zmeld_store::{fill_word, page_size, CodecSpec};

use crate::cli::{CodecsArgs, SortColumn};
use crate::exit::Outcome;
use crate::{output, progress};

/// The result, schema `zmeld.codecs/1`.
#[derive(Serialize)]
struct Report {
    sources: Vec<String>,
    page_size: u64,
    pages_read: u64,
    same_filled_pages: u64,
    interrupted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    dictionary_bytes: Option<u64>,
    codecs: Vec<CodecReport>,
    threads: u16,
    machine: Machine,
}

/// Measures, prints.
pub fn run(args: &CodecsArgs) -> anyhow::Result<Outcome> {
    let stop = progress::interrupt_flag();
    let done = Progress::default();
    let limit = if args.full { u64::MAX } else { args.pages };
    let picked = pick(args, limit, stop)?;
    let (pages, dictionary) = split(args, picked.pages)?;
    let specs = specs(args, dictionary.as_ref())?;
    let machine = Machine::here();
    let pool = Pool::running(&machine.kernel, page_size() as u32);
    let source = StreamSource::new(
        "the pages",
        Box::new(std::io::Cursor::new(pages)),
        page_size(),
    )?;
    let (mut reports, same_filled) =
        progress::show(&["measuring"], &done, page_size() as u64, || {
            measure_pages(
                &source,
                &specs,
                &pool.geometry,
                args.threads.into(),
                stop,
                &done,
            )
        })?;
    sort(&mut reports, args.sort);
    let report = Report {
        sources: picked.sources,
        page_size: page_size() as u64,
        pages_read: picked.read,
        same_filled_pages: same_filled + picked.same_filled,
        interrupted: stop.load(Ordering::Relaxed),
        dictionary_bytes: dictionary.map(|dictionary| dictionary.bytes.len() as u64),
        codecs: reports,
        threads: args.threads,
        machine,
    };
    output::show(
        &args.format,
        || document(&report),
        || table(&report),
        ("zmeld.codecs", 1),
        &report,
    )?;
    Ok(if report.interrupted {
        Outcome::Interrupted
    } else {
        Outcome::Done
    })
}

/// Pages taken from the input.
struct Picked {
    sources: Vec<String>,
    pages: Vec<u8>,
    read: u64,
    same_filled: u64,
}

/// Reads all input and keeps up to `limit` pages, evenly spread: every page
/// until there are twice too many, then every second of them, and so on.
fn pick(args: &CodecsArgs, limit: u64, stop: &AtomicBool) -> anyhow::Result<Picked> {
    let options = OpenOptions {
        page_size: page_size(),
        raw: args.raw,
    };
    let sources: Vec<Box<dyn Source>> = args
        .paths
        .iter()
        .map(|path| open_path(path, &options))
        .collect::<Result<_, _>>()?;
    struct State {
        pages: Vec<u8>,
        kept: u64,
        stride: u64,
        seen: u64,
        read: u64,
        same_filled: u64,
    }
    let state = Mutex::new(State {
        pages: Vec::new(),
        kept: 0,
        stride: 1,
        seen: 0,
        read: 0,
        same_filled: 0,
    });
    let take = |page: &[u8]| {
        let mut state = state.lock().expect("no panic");
        state.read += 1;
        if fill_word(page).is_some() {
            state.same_filled += 1;
            return;
        }
        state.seen += 1;
        if state.seen % state.stride != 0 {
            return;
        }
        state.pages.extend_from_slice(page);
        state.kept += 1;
        if state.kept >= limit.saturating_mul(2) {
            let size = page_size();
            let half = state.kept as usize / 2;
            for at in 0..half {
                state
                    .pages
                    .copy_within((2 * at + 1) * size..(2 * at + 2) * size, at * size);
            }
            state.pages.truncate(half * size);
            state.kept = half as u64;
            state.stride *= 2;
        }
    };
    for source in &sources {
        source.visit(1, stop, &|batch| {
            batch.bytes.chunks_exact(page_size()).for_each(take);
        })?;
    }
    let mut state = state.into_inner().expect("no panic");
    if state.kept > limit {
        thin(&mut state.pages, state.kept, limit);
    }
    if state.pages.is_empty() {
        anyhow::bail!(
            "all {} pages are same-filled: there is nothing to compress",
            state.read
        );
    }
    Ok(Picked {
        sources: sources.iter().map(|source| source.describe()).collect(),
        pages: state.pages,
        read: state.read,
        same_filled: state.same_filled,
    })
}

/// Keeps `limit` of `kept` pages, evenly spread.
fn thin(pages: &mut Vec<u8>, kept: u64, limit: u64) {
    let size = page_size();
    for at in 0..limit {
        let from = (u128::from(at) * u128::from(kept) / u128::from(limit)) as usize;
        pages.copy_within(from * size..(from + 1) * size, at as usize * size);
    }
    pages.truncate(limit as usize * size);
}

/// A trained dictionary, in a file so that codecs can be told of it by path.
struct Dictionary {
    bytes: Arc<[u8]>,
    path: PathBuf,
    /// Kept only where the user asked for the file.
    temporary: bool,
}

impl Drop for Dictionary {
    fn drop(&mut self) {
        if self.temporary {
            // It is in the system's folder for temporary files: no harm if it stays.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// With `--train`: a dictionary from every second page, and the other pages.
fn split(args: &CodecsArgs, pages: Vec<u8>) -> anyhow::Result<(Vec<u8>, Option<Dictionary>)> {
    let Some(size) = args.train else {
        return Ok((pages, None));
    };
    let mut samples = Vec::with_capacity(pages.len() / 2);
    let mut rest = Vec::with_capacity(pages.len() / 2 + page_size());
    for (at, page) in pages.chunks_exact(page_size()).enumerate() {
        if at % 2 == 0 {
            rest.extend_from_slice(page);
        } else {
            samples.extend_from_slice(page);
        }
    }
    let trained = train_dictionary(&samples, page_size(), size as usize)?;
    let (path, temporary) = match &args.write_dict {
        Some(path) => (path.clone(), false),
        None => (
            std::env::temp_dir().join(format!("zmeld-{}.dict", std::process::id())),
            true,
        ),
    };
    std::fs::write(&path, &trained).with_context(|| format!("cannot write {}", path.display()))?;
    let dictionary = Dictionary {
        bytes: trained.into(),
        path,
        temporary,
    };
    Ok((rest, Some(dictionary)))
}

/// The codecs asked for; without a list, each at the levels that differ enough
/// to be told apart. With a dictionary, each codec that takes one with it too.
fn specs(args: &CodecsArgs, dictionary: Option<&Dictionary>) -> anyhow::Result<Vec<CodecSpec>> {
    let mut specs = match &args.codecs {
        Some(list) => list.0.clone(),
        None => every_level(),
    };
    if let Some(dictionary) = dictionary {
        let takes: Vec<&str> = codecs()
            .iter()
            .filter(|codec| codec.takes_dict)
            .map(|codec| codec.name)
            .collect();
        let with: Vec<CodecSpec> = specs
            .iter()
            .filter(|spec| spec.dict.is_none() && takes.contains(&spec.name))
            .map(|spec| CodecSpec {
                dict: Some(dictionary.path.clone()),
                ..spec.clone()
            })
            .collect();
        specs.extend(with);
    }
    Ok(specs)
}

fn every_level() -> Vec<CodecSpec> {
    let levels = |name: &str| -> &[i32] {
        match name {
            "lz4" => &[1, 2, 4, 8, 16],
            "lz4hc" => &[3, 6, 9, 12],
            "zstd" => &[-5, -1, 1, 2, 3, 5, 7, 9, 12, 15, 19],
            "deflate" => &[1, 3, 6, 9],
            _ => &[],
        }
    };
    let mut specs = Vec::new();
    for codec in codecs() {
        let wanted = levels(codec.name);
        let spec = |level| CodecSpec {
            name: codec.name,
            level,
            dict: None,
        };
        if wanted.is_empty() {
            specs.push(spec(None));
        }
        specs.extend(
            wanted
                .iter()
                .filter(|level| (codec.level_min..=codec.level_max).contains(level))
                .map(|&level| spec(Some(level))),
        );
    }
    specs
}

fn sort(reports: &mut [CodecReport], column: SortColumn) {
    match column {
        SortColumn::Order => {}
        SortColumn::Codec => reports.sort_by(|a, b| a.codec.cmp(&b.codec)),
        SortColumn::Ratio => reports.sort_by(|a, b| b.ratio.total_cmp(&a.ratio)),
        SortColumn::Memory => reports.sort_by_key(|report| report.memory_used_bytes),
        SortColumn::Compress => {
            reports.sort_by(|a, b| b.compress_mb_per_s.total_cmp(&a.compress_mb_per_s));
        }
        SortColumn::Decompress => {
            reports.sort_by(|a, b| b.decompress_mb_per_s.total_cmp(&a.decompress_mb_per_s));
        }
    }
}

fn table(report: &Report) -> Table {
    let mut table = Table::new("")
        .column(Column::text("codec"))
        .column(Column::ratio("ratio"))
        .column(Column::bytes("compressed"))
        .column(Column::bytes("memory used"))
        .column(Column::percent("raw").key("incompressible_fraction"))
        .column(Column::mb_per_s("compress"))
        .column(Column::mb_per_s("decompress"))
        .column(Column::nanoseconds("compress 99 %").key("compress_p99_ns"));
    for codec in &report.codecs {
        table.row(cells![
            codec.codec.as_str(),
            codec.ratio,
            codec.compressed_bytes,
            codec.memory_used_bytes,
            codec.incompressible_pages as f64 / codec.pages_measured.max(1) as f64,
            codec.compress_mb_per_s,
            codec.decompress_mb_per_s,
            codec.compress_ns_p99
        ]);
    }
    table
}

fn document(report: &Report) -> Document {
    let measured = report
        .codecs
        .first()
        .map_or(0, |codec| codec.pages_measured);
    let mut lead = format!(
        "{} of {} pages of {}, one at a time, each read back and compared. {} were same-filled, \
         which a store does not compress.",
        count(measured),
        count(report.pages_read),
        bytes(report.page_size),
        count(report.same_filled_pages)
    );
    if let Some(dictionary) = report.dictionary_bytes {
        lead.push_str(&format!(
            " The dictionary of {} was trained on as many other pages.",
            bytes(dictionary)
        ));
    }
    Document::new(&format!("zmeld codecs on {}", report.sources.join(", ")))
        .lead(lead)
        .section(Section::new("").table(table(report)))
        .provenance(
            "machine",
            format!(
                "{}, Linux {}, {} thread{}",
                report.machine.processor,
                report.machine.kernel,
                report.threads,
                if report.threads == 1 { "" } else { "s" }
            ),
        )
}
