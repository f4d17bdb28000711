//! One codec beside the other: zram's and zmeld's, melding off, on the same pages.

use zmeld_report::{Column, Table};

use crate::device::{Device, MELDING_OFF, SIDES, ZRAM};
use crate::input::Pages;
use crate::runs::Runs;
use crate::work::{Operation, Plan};

/// A driver with a codec, and a level where it is not the codec's own.
const CONTENDERS: [(usize, &str, Option<u32>); 8] = [
    (ZRAM, "lzo-rle", None),
    (ZRAM, "lz4", None),
    (ZRAM, "zstd", None),
    (MELDING_OFF, "lzo-rle", None),
    (MELDING_OFF, "lz4", None),
    (MELDING_OFF, "zstd", None),
    (MELDING_OFF, "zword", None),
    (MELDING_OFF, "zword", Some(2)),
];

/// Reference of pool bytes and speeds.
const REFERENCE: usize = 0;

const MEASURED: [Operation; 5] = [
    Operation::Fill,
    Operation::Rewrite,
    Operation::Pages,
    Operation::Scan,
    Operation::Read,
];

/// Speeds and memory of them all, the devices taking turns.
pub fn measure(pages: &Pages, rounds: usize) -> Result<Table, String> {
    let count = pages.count();
    let devices: Vec<Device> = CONTENDERS
        .iter()
        .map(|&(side, codec, level)| Device::make(side, codec, level, count))
        .collect::<Result<_, _>>()?;
    let mut series = vec![vec![Runs::new(count); CONTENDERS.len()]; MEASURED.len()];
    let mut used = Vec::new();
    let plan = Plan {
        name: "codecs".to_owned(),
        pages,
        duplicates: 0.0,
        operations: &MEASURED,
        jobs: 1,
        rounds,
    };
    plan.measure(&devices, &mut series, |devices| {
        used.extend(devices.iter().map(Device::memory_used));
    })?;
    Ok(table(pages, &series, &used))
}

fn table(pages: &Pages, series: &[Vec<Runs>], used: &[u64]) -> Table {
    let speed = |operation: usize, at: usize| series[operation][at].mb_per_s();
    let mut table = zmeld_report::table!(
        "Codecs beside each other, melding off, one job",
        for (at, &(side, codec, level)) in CONTENDERS.iter().enumerate(),
        Column::text("device") => SIDES[side].0,
        Column::text("codec") =>
            level.map_or(codec.to_owned(), |level| format!("{codec} level {level}")),
        Column::number("write") => speed(1, at),
        Column::number("singly") => speed(2, at),
        Column::number("read") => speed(3, at),
        Column::number("random") => speed(4, at),
        Column::bytes("pool") => used[at],
        Column::ratio("pool, of zram's lzo-rle") =>
            used[at] as f64 / used[REFERENCE] as f64,
    );
    table.note(format!(
        "{}. MB/s, medians: written over other pages, the same page by page, read, read at random. \
         Pool: mem_used_total after the pages were written once.",
        pages.about
    ));
    table
}
