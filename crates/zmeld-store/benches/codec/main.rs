//! The codec zword beside zram's: `cargo xtask bench codec`.
//!
//! Pages of programs, a file for each; every page goes through every codec in turn.
//! The bar is of the programs that zword's tables never saw. Those that they were
//! trained on stand apart, with the pages that training left out. Tables go to
//! standard output, progress to standard error; `--json FILE` keeps all figures.
//! Nothing here fails for being slow.
#![forbid(unsafe_code)]

mod measure;

#[path = "../common/machine.rs"]
#[allow(dead_code)]
mod machine;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use serde::Serialize;
use zmeld_report::document::{Document, Section, Tone};
use zmeld_report::schema::Envelope;
use zmeld_report::{cells, Column, Style, Table};
use zmeld_store::{fill_word, ChainRule, Codec, CodecSpec, Geometry};

use machine::Machine;
use measure::{measure, Taken, PAGE};

const USAGE: &str = "[--json FILE] [--rounds N] [--pages N] [--trained FILE]... FILE...";
const ROUNDS: usize = 5;
/// Of each program.
const PAGES: usize = 256;
/// Of so many pages of a program that training knows, it leaves out the last.
const TRAINING_LEAVES_ONE_OF: usize = 4;
/// Samples of pages for the intervals.
const SAMPLES: usize = 400;
/// Of a page's bytes, from which on it counts as text.
const TEXT_SHARE: f64 = 0.75;

const CODECS: &[&str] = &[
    "lz4",
    "lzo-rle",
    "zstd:level=3",
    "zword:level=1",
    "zword:level=2",
];
const LZ4: usize = 0;
const LZO: usize = 1;
const ZSTD: usize = 2;

struct Settings {
    json: Option<PathBuf>,
    rounds: usize,
    pages: usize,
    held_out: Vec<PathBuf>,
    trained: Vec<PathBuf>,
}

/// One program: by codec, what its pages took.
struct Program {
    name: String,
    is_text: Vec<bool>,
    taken: Vec<Taken>,
    /// By codec and page: bytes of the pool.
    pool: Vec<Vec<f64>>,
}

/// One line of the bar.
#[derive(Serialize)]
struct Bar {
    what: &'static str,
    against: &'static str,
    at_most: f64,
    measured: f64,
    low: f64,
    high: f64,
    met: bool,
}

fn main() -> ExitCode {
    if let Some(folder) = std::env::var_os("ZMELD_BENCH_FOLDER") {
        let _ = std::env::set_current_dir(folder);
    }
    match parse(std::env::args().skip(1)).and_then(|settings| run(&settings)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("bench codec: {why}\nusage: {USAGE}");
            ExitCode::from(2)
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Settings, String> {
    let mut settings = Settings {
        json: None,
        rounds: ROUNDS,
        pages: PAGES,
        held_out: Vec::new(),
        trained: Vec::new(),
    };
    let number = |text: String| match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("{text:?} is not a number from 1 on")),
    };
    while let Some(argument) = arguments.next() {
        let mut value = || {
            let value = arguments.next();
            value.ok_or_else(|| format!("{argument} takes a value"))
        };
        match argument.as_str() {
            "--json" => settings.json = Some(value()?.into()),
            "--rounds" => settings.rounds = number(value()?)?,
            "--pages" => settings.pages = number(value()?)?,
            "--trained" => settings.trained.push(value()?.into()),
            "--bench" => {}
            other if other.starts_with('-') => {
                return Err(format!("there is no argument {other:?}"))
            }
            file => settings.held_out.push(file.into()),
        }
    }
    if settings.held_out.is_empty() {
        return Err("name files of pages: cargo xtask pages makes them".into());
    }
    Ok(settings)
}

fn is_text(page: &[u8]) -> bool {
    let text = |&&b: &&u8| (32..127).contains(&b) || b == b'\n' || b == b'\t';
    page.iter().filter(text).count() as f64 > TEXT_SHARE * PAGE as f64
}

/// So many pages of a file, evenly spread, none of them filled with one word.
fn program(
    path: &Path,
    is_trained: bool,
    codecs: &[Codec],
    settings: &Settings,
) -> Result<Program, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let left_out = |k: usize| k % TRAINING_LEAVES_ONE_OF == TRAINING_LEAVES_ONE_OF - 1;
    let all: Vec<&[u8]> = bytes
        .chunks_exact(PAGE)
        .enumerate()
        .filter(|(k, page)| (!is_trained || left_out(*k)) && fill_word(page).is_none())
        .map(|(_, page)| page)
        .collect();
    let step = all.len().div_ceil(settings.pages).max(1);
    let pages: Vec<&[u8]> = all.into_iter().step_by(step).collect();
    if pages.is_empty() {
        return Err(format!("{}: there are no pages in it", path.display()));
    }
    let pool = Geometry::new(PAGE as u32, 8, ChainRule::LeastWaste)
        .map_err(|error| format!("the pool: {error}"))?;
    let taken = measure(codecs, &pages, settings.rounds, pool.huge_size())
        .map_err(|why| format!("{}: {why}", path.display()))?;
    let cost = |&size: &u32| pool.object_bytes(pool.class(size));
    Ok(Program {
        name: path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into(),
        is_text: pages.iter().map(|page| is_text(page)).collect(),
        pool: taken
            .iter()
            .map(|taken| taken.sizes.iter().map(cost).collect())
            .collect(),
        taken,
    })
}

/// Numbers that look random, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }
}

/// What of a page is compared: its figure with one codec.
type Figure<'a> = &'a dyn Fn(&Program, usize) -> Vec<f64>;
/// One number of many.
type Summary = fn(&mut [f64]) -> f64;

fn mean(values: &mut [f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn percentile_99(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values
        .get(values.len() * 99 / 100)
        .or(values.last())
        .copied()
        .unwrap_or(0.0)
}

/// One codec's figures by another's, and an interval of 95 %: pages are drawn anew,
/// within each program.
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
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut samples: Vec<f64> = (0..SAMPLES)
        .map(|_| {
            let drawn: Vec<(f64, f64)> = pairs
                .iter()
                .flat_map(|pairs| {
                    let each = (0..pairs.len()).map(|_| pairs[random.below(pairs.len())]);
                    each.collect::<Vec<_>>()
                })
                .collect();
            of(&drawn)
        })
        .collect();
    samples.sort_by(f64::total_cmp);
    [
        of(&pairs.concat()),
        samples[SAMPLES * 25 / 1000],
        samples[SAMPLES * 975 / 1000],
    ]
}

fn pool(program: &Program, codec: usize) -> Vec<f64> {
    program.pool[codec].clone()
}

fn stored(program: &Program, codec: usize) -> Vec<f64> {
    let sizes = program.taken[codec].sizes.iter();
    sizes.map(|&size| f64::from(size)).collect()
}

fn text_pool(program: &Program, codec: usize) -> Vec<f64> {
    let pages = program.pool[codec].iter().zip(&program.is_text);
    pages
        .filter_map(|(&bytes, &is_text)| is_text.then_some(bytes))
        .collect()
}

fn compress(program: &Program, codec: usize) -> Vec<f64> {
    program.taken[codec].compress.clone()
}

fn decompress(program: &Program, codec: usize) -> Vec<f64> {
    program.taken[codec].decompress.clone()
}

fn cold(program: &Program, codec: usize) -> Vec<f64> {
    program.taken[codec].cold.clone()
}

/// The lines of the bar, for one level of zword. The two lines of bytes are what the
/// best codec that is published for pages reaches, less 15 %.
fn bars(programs: &[Program], codec: usize) -> Vec<Bar> {
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
    let bar = |(what, figure, summary, other, at_most): Line| {
        let [measured, low, high] = ratio(programs, figure, summary, codec, other);
        Bar {
            what,
            against: CODECS[other],
            at_most,
            measured,
            low,
            high,
            met: measured <= at_most,
        }
    };
    lines.into_iter().map(bar).collect()
}

fn bar_table(codec: usize, bars: &[Bar]) -> Table {
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
            if bar.met { "met" } else { "missed" }
        ]);
    }
    table.note("of programs that the tables never saw; from, to: 95 % of samples of their pages");
    table
}

/// Each program by itself; the worst one, by pool bytes against zstd, is named.
fn program_table(title: &str, programs: &[Program], codec: usize) -> Table {
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

fn time_table(title: &str, programs: &[Program]) -> Table {
    let mut table = Table::new(title)
        .column(Column::text("codec"))
        .column(Column::nanoseconds("compress"))
        .column(Column::nanoseconds("99th"))
        .column(Column::nanoseconds("decompress"))
        .column(Column::nanoseconds("its 99th"))
        .column(Column::nanoseconds("cold"))
        .column(Column::nanoseconds("cold 99th"));
    for (codec, name) in CODECS.iter().enumerate() {
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

/// What one level of zword reached.
#[derive(Serialize)]
struct Level {
    codec: &'static str,
    bar: Vec<Bar>,
    held_out: Vec<serde_json::Value>,
    trained: Vec<serde_json::Value>,
}

#[derive(Serialize)]
struct Body<'a> {
    machine: &'a Machine,
    rounds: usize,
    pages: usize,
    levels: Vec<Level>,
    times: Vec<serde_json::Value>,
}

/// What is under way, and how long it will still take, on standard error.
struct Progress {
    begin: Instant,
    done: usize,
    all: usize,
}

impl Progress {
    fn say(&mut self, path: &Path) {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let spent = self.begin.elapsed().as_secs_f64();
        let left = spent / self.done as f64 * (self.all - self.done) as f64;
        let text = match self.done {
            0 => format!("{name}, 1 of {}", self.all),
            done => format!(
                "{name}, {} of {}, about {left:.0} s left",
                done + 1,
                self.all
            ),
        };
        if std::io::stderr().is_terminal() {
            eprint!("\r\x1b[K{text}");
        } else {
            eprintln!("{text}");
        }
        self.done += 1;
    }

    fn end(&self) {
        if std::io::stderr().is_terminal() {
            eprint!("\r\x1b[K");
        }
    }
}

/// Everything that is printed and kept.
struct Results {
    held_out: Vec<Program>,
    trained: Vec<Program>,
}

fn measure_all(settings: &Settings) -> Result<Results, String> {
    let codecs = CODECS
        .iter()
        .map(|spec| {
            let spec: CodecSpec = spec.parse().map_err(|error| format!("{error}"))?;
            spec.open().map_err(|error| error.to_string())
        })
        .collect::<Result<Vec<_>, String>>()?;
    let mut progress = Progress {
        begin: Instant::now(),
        done: 0,
        all: settings.held_out.len() + settings.trained.len(),
    };
    let mut measured = |files: &[PathBuf], is_trained| {
        let each = files.iter().map(|path| {
            progress.say(path);
            program(path, is_trained, &codecs, settings)
        });
        each.collect::<Result<Vec<_>, String>>()
    };
    let results = Results {
        held_out: measured(&settings.held_out, false)?,
        trained: measured(&settings.trained, true)?,
    };
    progress.end();
    Ok(results)
}

fn run(settings: &Settings) -> Result<(), String> {
    let machine = Machine::look();
    let results = measure_all(settings)?;
    let times = time_table("Times of a page", &results.held_out);
    let pages = |programs: &[Program]| -> usize {
        programs.iter().map(|program| program.is_text.len()).sum()
    };
    let mut section = Section::new("Figures").table(times.clone());
    let mut levels = Vec::new();
    for (codec, &name) in CODECS.iter().enumerate().skip(ZSTD + 1) {
        let bar = bars(&results.held_out, codec);
        section = section.table(bar_table(codec, &bar));
        let mut rows = [Vec::new(), Vec::new()];
        let sets = [
            ("Programs never seen", &results.held_out),
            ("Programs of training", &results.trained),
        ];
        for (rows, (title, programs)) in rows.iter_mut().zip(sets) {
            if !programs.is_empty() {
                let table = program_table(title, programs, codec);
                *rows = table.to_json_rows();
                section = section.table(table);
            }
        }
        let [held_out, trained] = rows;
        levels.push(Level {
            codec: name,
            bar,
            held_out,
            trained,
        });
    }
    if let Some(warning) = machine.warning() {
        section = section.advice(Tone::Warning, warning);
    }
    if let Some(path) = &settings.json {
        let body = Body {
            machine: &machine,
            rounds: settings.rounds,
            pages: pages(&results.held_out) + pages(&results.trained),
            levels,
            times: times.to_json_rows(),
        };
        let envelope = Envelope::new("zmeld.bench.codec", 1, env!("CARGO_PKG_VERSION"), body);
        std::fs::write(path, envelope.to_text())
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    let counted =
        |programs: &[Program]| format!("{} pages of {} programs", pages(programs), programs.len());
    let document = Document::new("zword beside zram's codecs")
        .provenance("processor", &machine.cpu)
        .provenance("kernel", &machine.kernel)
        .provenance("C compiler", &machine.c_compiler)
        .provenance("never seen", counted(&results.held_out))
        .provenance("of training", counted(&results.trained))
        .provenance("rounds", settings.rounds.to_string())
        .section(section);
    let style = Style::from_env(std::io::stdout().is_terminal(), None, |name| {
        std::env::var(name).ok()
    });
    print!("{}", document.to_text(&style));
    Ok(())
}
