//! The tables that are printed.

use zmeld_report::{Column, Table};

use crate::bar::{mean, percentile_99, Figure};
use crate::program::{cold, compress, decompress, pool, stored, Program};
use crate::{CODECS, LZ4, LZO, ZSTD};

/// Each program by itself; the worst one, by pool bytes against zstd, is named.
pub fn program_table(title: &str, programs: &[Program], codec: usize) -> Table {
    let each = |program: &Program, figure: Figure<'_>, codec| mean(&mut figure(program, codec));
    let by = |program: &Program, figure: Figure<'_>, other| {
        each(program, figure, codec) / each(program, figure, other)
    };
    let mut table = zmeld_report::table!(&format!("{title}, {}", CODECS[codec]), for program in programs,
        where {
            let sizes = program.taken[codec].sizes.iter();
            let larger = sizes.zip(&program.taken[LZO].sizes).filter(|(a, b)| a > b);
        }
        Column::text("program") => program.name.as_str(),
        Column::number("zstd pool") => each(program, &pool, ZSTD),
        Column::number("zword pool") => each(program, &pool, codec),
        Column::ratio("to zstd") => by(program, &pool, ZSTD),
        Column::ratio("to lzo-rle") => by(program, &pool, LZO),
        Column::ratio("compress to lz4") => by(program, &compress, LZ4),
        Column::ratio("decompress to lz4") => by(program, &decompress, LZ4),
        Column::ratio("cold to zstd") => by(program, &cold, ZSTD),
        Column::count("larger than lzo-rle") => larger.count() as u64,
    );
    let ratios = programs.iter().map(|one| (by(one, &pool, ZSTD), &one.name));
    if let Some((ratio, name)) = ratios.max_by(|a, b| a.0.total_cmp(&b.0)) {
        table.note(format!(
            "the worst one: {name}, {ratio:.3} of zstd's pool bytes"
        ));
    }
    table
}

/// Each codec by zstd -3 and by lz4.
pub fn rival_table(codecs: &[&str], programs: &[Program]) -> Table {
    zmeld_report::table!("Beside zstd -3 and lz4", for (codec, name) in codecs.iter().enumerate(),
        where {
            let each = |figure: Figure<'_>, codec| {
                let all = programs.iter().flat_map(|one| figure(one, codec));
                mean(&mut all.collect::<Vec<_>>())
            };
            let by = |figure: Figure<'_>, other| each(figure, codec) / each(figure, other);
        }
        Column::text("codec") => *name,
        Column::number("bytes") => each(&stored, codec),
        Column::ratio("bytes to zstd") => by(&stored, ZSTD),
        Column::ratio("to lz4") => by(&stored, LZ4),
        Column::ratio("compress to zstd") => by(&compress, ZSTD),
        Column::ratio("to lz4") => by(&compress, LZ4),
        Column::ratio("read to zstd") => by(&decompress, ZSTD),
        Column::ratio("to lz4") => by(&decompress, LZ4),
    )
}

pub fn time_table(codecs: &[&str], programs: &[Program]) -> Table {
    let mut table = zmeld_report::table!("Times of a page", for (codec, name) in codecs.iter().enumerate(),
        where {
            let all = |figure: Figure<'_>| -> Vec<f64> {
                programs.iter().flat_map(|one| figure(one, codec)).collect()
            };
        }
        Column::text("codec") => *name,
        Column::nanoseconds("compress") => mean(&mut all(&compress)),
        Column::nanoseconds("99th") => percentile_99(&mut all(&compress)),
        Column::nanoseconds("decompress") => mean(&mut all(&decompress)),
        Column::nanoseconds("its 99th") => percentile_99(&mut all(&decompress)),
        Column::nanoseconds("cold") => mean(&mut all(&cold)),
        Column::nanoseconds("cold 99th") => percentile_99(&mut all(&cold)),
    );
    table.note("cold: after 2 MiB of other data were read; a page that is kept raw is copied");
    table
}
