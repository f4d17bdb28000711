//! zword's figures by another codec's, with intervals.

use zmeld_report::statistics::bootstrap::program_interval;
use zmeld_report::{Column, Table};

use crate::program::{cold, compress, decompress, pool, stored, text_pool, Program};
use crate::{CODECS, LZ4, LZO, ZSTD};

/// Whether the bar is met, by the whole interval.
fn verdict(at_most: f64, low: f64, high: f64) -> &'static str {
    if high <= at_most {
        "met"
    } else if low <= at_most {
        "undecided"
    } else {
        "missed"
    }
}

/// Compared figure of a program's pages with one codec.
pub type Figure<'a> = &'a dyn Fn(&Program, usize) -> Vec<f64>;
/// One number of many.
type Summary = fn(&mut [f64]) -> f64;

pub fn mean(values: &mut [f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

pub fn percentile_99(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values
        .get(values.len() * 99 / 100)
        .or(values.last())
        .copied()
        .unwrap_or(0.0)
}

/// One codec's figures by another's, and an interval of 95 %.
fn ratio(
    programs: &[Program],
    figure: Figure<'_>,
    summary: Summary,
    one: usize,
    other: usize,
) -> [f64; 3] {
    let pairs: Vec<Vec<(f64, f64)>> = programs
        .iter()
        .map(|program| {
            let (a, b) = (figure(program, one), figure(program, other));
            a.into_iter().zip(b).collect()
        })
        .filter(|pairs: &Vec<_>| !pairs.is_empty())
        .collect();
    let of = |pairs: &[(f64, f64)]| {
        let (mut a, mut b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        summary(&mut a) / summary(&mut b)
    };
    let [low, high] = program_interval(&pairs, of);
    [of(&pairs.concat()), low, high]
}

/// The lines of the bar, for one level of zword. The two lines of bytes are what the
/// best codec that is published for pages reaches, less 15 %.
pub fn bar_table(programs: &[Program], codec: usize) -> Table {
    type Line = (&'static str, Figure<'static>, Summary, usize, f64);
    let lines: [Line; 10] = [
        ("pool bytes", &pool, mean, ZSTD, 0.85),
        ("pool bytes", &pool, mean, LZO, 0.55),
        ("pool bytes, text", &text_pool, mean, ZSTD, 1.03),
        ("bytes", &stored, mean, LZ4, 0.612),
        ("bytes", &stored, mean, ZSTD, 0.884),
        ("compress, mean", &compress, mean, LZ4, 1.3),
        ("decompress, warm", &decompress, mean, LZ4, 2.0),
        ("decompress, cold", &cold, mean, ZSTD, 0.65),
        ("compress, 99th", &compress, percentile_99, ZSTD, 0.7),
        ("decompress, 99th", &decompress, percentile_99, ZSTD, 0.7),
    ];
    let mut table = zmeld_report::table!(&format!("The bar, {}", CODECS[codec]),
        for (what, figure, summary, other, at_most) in lines,
        where {
            let [measured, low, high] = ratio(programs, figure, summary, codec, other);
        }
        Column::text("what") => what,
        Column::text("against") => CODECS[other],
        Column::ratio("at most") => at_most,
        Column::ratio("measured") => measured,
        Column::ratio("from") => low,
        Column::ratio("to") => high,
        Column::text("verdict") => verdict(at_most, low, high),
    );
    table.note(
        "of programs that the tables never saw; from, to: 95 % of samples of these programs and, \
         in each, of its pages; met: the whole interval is",
    );
    table
}
