//! The tables that are printed.

use zmeld_report::{cells, Column, Table};

use crate::bar::{mean, percentile_99, Bar, Figure};
use crate::program::{cold, compress, decompress, pool, stored, Program};
use crate::{CODECS, LZ4, LZO, ZSTD};

pub fn bar_table(codec: usize, bars: &[Bar]) -> Table {
    let mut table = Table::new(&format!("The bar, {}", CODECS[codec]))
        .column(Column::text("what"))
        .column(Column::text("against"))
        .column(Column::ratio("at most"))
        .column(Column::ratio("measured"))
        .column(Column::ratio("from"))
        .column(Column::ratio("to"))
        .column(Column::text("verdict"));
    for bar in bars {
        table.row(cells![
            bar.what,
            bar.against,
            bar.at_most,
            bar.measured,
            bar.low,
            bar.high,
            bar.verdict
        ]);
    }
    table.note(
        "of programs that the tables never saw; from, to: 95 % of samples of these programs and, \
         in each, of its pages; met: the whole interval is",
    );
    table
}

/// Each program by itself; the worst one, by pool bytes against zstd, is named.
pub fn program_table(title: &str, programs: &[Program], codec: usize) -> Table {
    let mut table = Table::new(&format!("{title}, {}", CODECS[codec]))
        .column(Column::text("program"))
        .column(Column::number("zstd pool"))
        .column(Column::number("zword pool"))
        .column(Column::ratio("to zstd"))
        .column(Column::ratio("to lzo-rle"))
        .column(Column::ratio("compress to lz4"))
        .column(Column::ratio("decompress to lz4"))
        .column(Column::ratio("cold to zstd"))
        .column(Column::count("larger than lzo-rle"));
    let mut worst: Option<(f64, &str)> = None;
    for program in programs {
        let each = |figure: Figure<'_>, codec| mean(&mut figure(program, codec));
        let by = |figure: Figure<'_>, other| each(figure, codec) / each(figure, other);
        let to_zstd = by(&pool, ZSTD);
        let sizes = program.taken[codec].sizes.iter();
        let larger = sizes.zip(&program.taken[LZO].sizes).filter(|(a, b)| a > b);
        if worst.is_none_or(|(ratio, _)| to_zstd > ratio) {
            worst = Some((to_zstd, &program.name));
        }
        table.row(cells![
            &program.name,
            each(&pool, ZSTD),
            each(&pool, codec),
            to_zstd,
            by(&pool, LZO),
            by(&compress, LZ4),
            by(&decompress, LZ4),
            by(&cold, ZSTD),
            larger.count() as u64
        ]);
    }
    if let Some((ratio, name)) = worst {
        table.note(format!(
            "the worst one: {name}, {ratio:.3} of zstd's pool bytes"
        ));
    }
    table
}

/// Each codec by zstd -3 and by lz4.
pub fn rival_table(codecs: &[&str], programs: &[Program]) -> Table {
    let mut table = Table::new("Beside zstd -3 and lz4")
        .column(Column::text("codec"))
        .column(Column::number("bytes"))
        .column(Column::ratio("bytes to zstd"))
        .column(Column::ratio("to lz4"))
        .column(Column::ratio("compress to zstd"))
        .column(Column::ratio("to lz4"))
        .column(Column::ratio("read to zstd"))
        .column(Column::ratio("to lz4"));
    for (codec, name) in codecs.iter().enumerate() {
        let each = |figure: Figure<'_>, codec| {
            let all = programs.iter().flat_map(|one| figure(one, codec));
            mean(&mut all.collect::<Vec<_>>())
        };
        let by = |figure: Figure<'_>, other| each(figure, codec) / each(figure, other);
        table.row(cells![
            *name,
            each(&stored, codec),
            by(&stored, ZSTD),
            by(&stored, LZ4),
            by(&compress, ZSTD),
            by(&compress, LZ4),
            by(&decompress, ZSTD),
            by(&decompress, LZ4)
        ]);
    }
    table
}

pub fn time_table(codecs: &[&str], programs: &[Program]) -> Table {
    let mut table = Table::new("Times of a page")
        .column(Column::text("codec"))
        .column(Column::nanoseconds("compress"))
        .column(Column::nanoseconds("99th"))
        .column(Column::nanoseconds("decompress"))
        .column(Column::nanoseconds("its 99th"))
        .column(Column::nanoseconds("cold"))
        .column(Column::nanoseconds("cold 99th"));
    for (codec, name) in codecs.iter().enumerate() {
        let all = |figure: Figure<'_>| -> Vec<f64> {
            programs.iter().flat_map(|one| figure(one, codec)).collect()
        };
        table.row(cells![
            *name,
            mean(&mut all(&compress)),
            percentile_99(&mut all(&compress)),
            mean(&mut all(&decompress)),
            percentile_99(&mut all(&decompress)),
            mean(&mut all(&cold)),
            percentile_99(&mut all(&cold))
        ]);
    }
    table.note("cold: after 2 MiB of other data were read; a page that is kept raw is copied");
    table
}
