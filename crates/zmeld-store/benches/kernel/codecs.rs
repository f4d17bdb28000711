//! One codec beside the other: zram's and zmeld's, melding off, on the same pages.

use zmeld_report::{cells, Column, Table};

use crate::device::{Device, MELDING_OFF, ZRAM};
use crate::input::{self, Pages};
use crate::results::Results;
use crate::runs::Runs;
use crate::work::{self, Operation};

/// A driver with a codec, and a level where it is not the codec's own.
struct Contender {
    side: usize,
    codec: &'static str,
    level: Option<u32>,
}

const fn contender(side: usize, codec: &'static str) -> Contender {
    Contender {
        side,
        codec,
        level: None,
    }
}

const CONTENDERS: [Contender; 8] = [
    contender(ZRAM, "lzo-rle"),
    contender(ZRAM, "lz4"),
    contender(ZRAM, "zstd"),
    contender(MELDING_OFF, "lzo-rle"),
    contender(MELDING_OFF, "lz4"),
    contender(MELDING_OFF, "zstd"),
    contender(MELDING_OFF, "zword"),
    Contender {
        side: MELDING_OFF,
        codec: "zword",
        level: Some(2),
    },
];

/// What pool bytes and speeds are compared with.
const REFERENCE: usize = 0;

const MEASURED: [Operation; 4] = [
    Operation::Rewrite,
    Operation::Pages,
    Operation::Scan,
    Operation::Read,
];

impl Contender {
    fn driver(&self) -> &'static str {
        if self.side == ZRAM {
            "zram"
        } else {
            "zmeld"
        }
    }

    fn codec(&self) -> String {
        match self.level {
            Some(level) => format!("{} level {level}", self.codec),
            None => self.codec.to_owned(),
        }
    }
}

/// Speeds and memory of them all, the devices taking turns.
pub fn measure(pages: &Pages, rounds: usize, results: &mut Results) -> Result<(), String> {
    let count = pages.count();
    let devices: Vec<Device> = CONTENDERS
        .iter()
        .map(|one| Device::make(one.side, one.codec, one.level, count))
        .collect::<Result<_, _>>()?;
    let mut series: Vec<Vec<Runs>> = MEASURED
        .iter()
        .map(|operation| {
            let name = |one: &Contender| {
                let (driver, codec) = (one.driver(), one.codec());
                format!("{driver} {codec}: {}", operation.name())
            };
            let of = |one: &Contender| Runs::new("codecs", name(one), count);
            CONTENDERS.iter().map(of).collect()
        })
        .collect();
    let order = |number: usize| input::order(count, 0.0, number as u64).pages;
    let mut used = Vec::new();
    // The first round warms everything up and is not counted.
    for round in 0..=rounds {
        eprintln!("codecs, round {round} of {rounds}");
        let (first, second) = (order(2 * round), order(2 * round + 1));
        for device in &devices {
            device.discard_all()?;
        }
        let number = round as u64;
        work::in_turns(Operation::Fill, &devices, pages, &first, 1, number)?;
        if round == 0 {
            used = devices
                .iter()
                .map(Device::memory_used)
                .collect::<Result<_, _>>()?;
        }
        for (at, &operation) in MEASURED.iter().enumerate() {
            let order = if operation == Operation::Rewrite {
                &first
            } else {
                &second
            };
            let spent = work::in_turns(operation, &devices, pages, order, 1, number)?;
            if round > 0 {
                for (runs, ns) in series[at].iter_mut().zip(spent) {
                    runs.runs_ns.push(ns);
                }
            }
        }
        for device in &devices {
            work::check(device, pages, &second)?;
        }
    }
    results.table("codecs", table(pages, &series, &used));
    results.keep(series.into_iter().flatten());
    Ok(())
}

fn table(pages: &Pages, series: &[Vec<Runs>], used: &[u64]) -> Table {
    let mut table = Table::new("Codecs beside each other, melding off, one job")
        .column(Column::text("device"))
        .column(Column::text("codec"))
        .column(Column::number("write").key("write_mb_per_s"))
        .column(Column::number("singly").key("write_singly_mb_per_s"))
        .column(Column::number("read").key("read_mb_per_s"))
        .column(Column::number("random").key("random_read_mb_per_s"))
        .column(Column::bytes("pool"))
        .column(Column::ratio("pool, of zram's lzo-rle").key("pool_of_lzo_rle"));
    for (at, one) in CONTENDERS.iter().enumerate() {
        let speed = |operation: usize| series[operation][at].mb_per_s();
        table.row(cells![
            one.driver(),
            one.codec(),
            speed(0),
            speed(1),
            speed(2),
            speed(3),
            used[at],
            used[at] as f64 / used[REFERENCE] as f64
        ]);
    }
    table.note(format!(
        "{}. MB/s, medians: written over other pages, the same page by page, read, read at random. \
         Pool: mem_used_total after the pages were written once.",
        pages.about
    ));
    table
}
