//! Programs with limits that they feel, beside what was predicted of them from runs
//! without a limit: `zmeld bench size --limits` of each, and how many were near.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{bail, ensure, Context, Result};
use serde::Serialize;
use serde_json::Value;
use zmeld_report::schema::Envelope;
use zmeld_report::{cells, Cell, Column, Document, Estimate, Section, Style, Table};

use crate::arguments::Arguments;
use crate::process::run_in_front;
use crate::rust_tests::cargo;
use crate::tools;
use crate::workspace;

/// A program that is measured.
struct Program {
    name: &'static str,
    /// In its command, `{}` is where this task's own files are.
    command: &'static [&'static str],
    /// What has to be installed besides.
    needs: &'static [&'static str],
    /// Whether it was left alone while the prediction was made better, to show that this holds for others.
    is_held_out: bool,
}

const PROGRAMS: &[Program] = &[
    Program {
        name: "python",
        command: &["python3", "{}/objects.py"],
        needs: &[],
        is_held_out: false,
    },
    Program {
        name: "sqlite3",
        command: &["sqlite3", ":memory:", "-init", "{}/rows.sql", ".quit"],
        needs: &[],
        is_held_out: false,
    },
    Program {
        name: "gcc",
        command: &["gcc", "-O2", "-c", "functions.c", "-o", "functions.o"],
        needs: &[],
        is_held_out: false,
    },
    Program {
        name: "redis",
        command: &["sh", "{}/redis.sh"],
        needs: &["redis-server", "redis-cli", "redis-benchmark"],
        is_held_out: false,
    },
    Program {
        name: "perl",
        command: &["perl", "{}/hash.pl"],
        needs: &[],
        is_held_out: false,
    },
    Program {
        name: "xz",
        command: &["xz", "-T1", "-4", "-k", "-c", "words"],
        needs: &[],
        is_held_out: false,
    },
    Program {
        name: "awk",
        command: &["awk", "-f", "{}/words.awk"],
        needs: &[],
        is_held_out: true,
    },
    Program {
        name: "zstd",
        command: &["zstd", "-19", "--single-thread", "-k", "-c", "words"],
        needs: &[],
        is_held_out: true,
    },
    Program {
        name: "jq",
        command: &["jq", "-n", OBJECTS],
        needs: &[],
        is_held_out: true,
    },
    Program {
        name: "tclsh",
        command: &["tclsh", "{}/lists.tcl"],
        needs: &[],
        is_held_out: true,
    },
];

/// 120,000 objects that jq has to make and to group.
const OBJECTS: &str =
    r#"[range(120000)] | map({a: ., b: "x\(.)"}) | group_by(.a % 1000) | map(length) | add"#;
/// Bytes that xz has to compress.
const WORDS: usize = 5_000_000;
/// Functions that gcc has to compile.
const FUNCTIONS: u64 = 130;
/// With fewer faults a share of them says nothing.
const FAULTS_TOLD: f64 = 100.0;

struct Options {
    json: Option<PathBuf>,
    runs: usize,
    limits: String,
    set_up: String,
    only: Vec<String>,
    real_time: bool,
}

fn parse(arguments: &[String]) -> Result<Options> {
    let mut options = Options {
        json: None,
        runs: 3,
        limits: "90,80,70,60,50".to_owned(),
        set_up: "zram lzo-rle".to_owned(),
        only: Vec::new(),
        real_time: false,
    };
    let mut arguments = Arguments::new(arguments);
    while let Some(argument) = arguments.next() {
        match argument {
            "--json" => options.json = Some(PathBuf::from(arguments.value()?)),
            "--runs" => options.runs = arguments.number()?,
            "--limits" => options.limits = arguments.value()?.to_owned(),
            "--set-up" => options.set_up = arguments.value()?.to_owned(),
            "--only" => options.only.push(arguments.value()?.to_owned()),
            "--real-time" => options.real_time = true,
            other => bail!("there is no argument {other:?}"),
        }
    }
    for name in &options.only {
        let mut names = PROGRAMS.iter().map(|program| program.name);
        ensure!(names.any(|known| known == name), "there is no {name:?}");
    }
    Ok(options)
}

/// A limit beside what was predicted of it.
#[derive(Debug, Clone, Serialize)]
struct Row {
    program: &'static str,
    is_held_out: bool,
    limit_bytes: u64,
    runs: usize,
    finished: usize,
    /// In the middle of the runs that finished.
    faults: f64,
    faults_predicted: Value,
    /// The same, over the middle of those without a limit.
    time: f64,
    time_predicted: Value,
}

#[derive(Serialize)]
struct Body<'a> {
    set_up: &'a str,
    limits: &'a str,
    real_time: bool,
    rows: &'a [Row],
    near: Near,
    near_held_out: Near,
}

/// Of how many limits, how many were near.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
struct Near {
    limits: usize,
    faults_within_10_percent: usize,
    faults_covered: usize,
    time_within_15_percent: usize,
    time_covered: usize,
}

/// Runs `bench size`.
pub fn run(arguments: &[String]) -> Result<ExitCode> {
    let options = parse(arguments)?;
    let programs: Vec<&Program> = PROGRAMS
        .iter()
        .filter(|it| options.only.is_empty() || options.only.iter().any(|name| name == it.name))
        .collect();
    for program in &programs {
        for tool in program.command.iter().take(1).chain(program.needs) {
            ensure!(tools::is_on_path(tool), "{tool} is not installed");
        }
    }
    let built = run_in_front(&mut cargo(&["build", "--release", "--package", "zmeld"]))?;
    ensure!(built.success(), "zmeld cannot be built");
    let folder = workspace::work_folder("size")?;
    fs::write(folder.join("functions.c"), functions())?;
    fs::write(folder.join("words"), words())?;
    let mut rows = Vec::new();
    for program in programs {
        eprintln!("{}", program.name);
        let found = measured(&folder, program, &options)?;
        rows.extend(rows_of(program, &found)?);
    }
    let (held_out, known): (Vec<Row>, Vec<Row>) =
        rows.iter().cloned().partition(|row| row.is_held_out);
    let (near, near_held_out) = (near(&known), near(&held_out));
    let document = Document::new("Faults and time with limits, predicted and measured")
        .section(
            Section::new("")
                .table(table(&rows))
                .paragraph(sentence("the programs that it was worked on with", near))
                .paragraph(sentence("the others", near_held_out)),
        )
        .provenance("set-up", &options.set_up)
        .provenance("pages", workspace::shown(&folder));
    print!("{}", document.to_text(&Style::plain(120)));
    if let Some(path) = &options.json {
        let body = Body {
            set_up: &options.set_up,
            limits: &options.limits,
            real_time: options.real_time,
            rows: &rows,
            near,
            near_held_out,
        };
        let envelope = Envelope::new("zmeld.bench.predicted", 1, env!("CARGO_PKG_VERSION"), body);
        fs::write(path, envelope.to_text())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The search of one program, with the limits that are named.
fn measured(folder: &Path, program: &Program, options: &Options) -> Result<Value> {
    let files = workspace::root().join("xtask/size");
    let zmeld = workspace::target().join("release/zmeld");
    let (json, page) = (
        folder.join(format!("{}.json", program.name)),
        folder.join(format!("{}.html", program.name)),
    );
    let python = python()?;
    // A program that computes keeps what looks at it waiting, where both have the same real-time priority.
    let priority = |of: &str| match options.real_time {
        true => vec!["chrt".to_owned(), "-f".to_owned(), of.to_owned()],
        false => Vec::new(),
    };
    let mut line = priority("2");
    line.push(zmeld.display().to_string());
    let fixed = ["bench", "size", "--no-huge-pages", "--give-up", "40"];
    line.extend(fixed.map(str::to_owned));
    line.extend(["--set-ups".to_owned(), options.set_up.clone()]);
    line.extend(["--limits".to_owned(), options.limits.clone()]);
    line.extend(["--runs".to_owned(), options.runs.to_string()]);
    line.extend(["--output".to_owned(), json.display().to_string()]);
    line.extend(["--html".to_owned(), page.display().to_string()]);
    line.push("--".to_owned());
    line.extend(priority("1"));
    let here = files.display().to_string();
    let words = program.command.iter();
    line.extend(words.map(|word| word.replace("{}", &here).replace("python3", &python)));
    let mut command = Command::new(&line[0]);
    command.args(&line[1..]).current_dir(folder);
    let status = run_in_front(&mut command)?;
    ensure!(status.success(), "{}: {status}", line.join(" "));
    let text = fs::read_to_string(&json).with_context(|| json.display().to_string())?;
    Ok(serde_json::from_str(&text)?)
}

/// Python itself: what is called so may be a script that starts one of several.
fn python() -> Result<String> {
    let output = Command::new("python3")
        .args(["-c", "import sys; print(sys.executable)"])
        .output()
        .context("cannot start python3")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Each limit with runs that finished.
fn rows_of(program: &Program, found: &Value) -> Result<Vec<Row>> {
    let list = |of: &Value, name: &str| of[name].as_array().cloned().unwrap_or_default();
    let number = |run: &Value, name: &str| run[name].as_f64();
    let without = list(found, "unlimited");
    let without: Vec<f64> = without
        .iter()
        .filter_map(|run| number(run, "elapsed_s"))
        .collect();
    let without = middle(without).context("no run without a limit")?;
    let mut rows = Vec::new();
    for step in list(found, "set_ups")
        .iter()
        .flat_map(|it| list(it, "steps"))
    {
        let runs = list(&step, "runs");
        let finished: Vec<&Value> = runs
            .iter()
            .filter(|run| run["outcome"]["is"] == "finished")
            .collect();
        let of = |name: &str| {
            middle(
                finished
                    .iter()
                    .filter_map(|run| number(run, name))
                    .collect(),
            )
        };
        let predicted = &step["predicted"];
        ensure!(
            predicted.is_object(),
            "{}: nothing was predicted",
            program.name
        );
        rows.push(Row {
            program: program.name,
            is_held_out: program.is_held_out,
            limit_bytes: step["limit_bytes"].as_u64().context("a limit")?,
            runs: runs.len(),
            finished: finished.len(),
            faults: of("faults_major").unwrap_or(f64::NAN),
            faults_predicted: predicted["faults"].clone(),
            time: of("elapsed_s").map_or(f64::NAN, |time| time / without),
            time_predicted: predicted["slowdown"].clone(),
        });
    }
    Ok(rows)
}

fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().checked_sub(1)? / 2, values.len() / 2);
    Some((values[low] + values[high]) / 2.0)
}

/// Value, low and high.
fn interval(of: &Value) -> [f64; 3] {
    ["value", "low", "high"].map(|name| of[name].as_f64().unwrap_or(f64::NAN))
}

fn near(rows: &[Row]) -> Near {
    let mut near = Near::default();
    for row in rows.iter().filter(|row| row.faults >= FAULTS_TOLD) {
        let is_within = |of: &Value, what: f64, share: f64| {
            usize::from((interval(of)[0] / what - 1.0).abs() <= share)
        };
        let is_covered = |of: &Value, what: f64| {
            let [_, low, high] = interval(of);
            usize::from(low <= what && what <= high)
        };
        near.limits += 1;
        near.faults_within_10_percent += is_within(&row.faults_predicted, row.faults, 0.1);
        near.faults_covered += is_covered(&row.faults_predicted, row.faults);
        near.time_within_15_percent += is_within(&row.time_predicted, row.time, 0.15);
        near.time_covered += is_covered(&row.time_predicted, row.time);
    }
    near
}

fn sentence(of: &str, near: Near) -> String {
    format!(
        "Of {} limits of {of} with {FAULTS_TOLD} faults or more, the faults are within 10 % in {}, and their interval covers \
         {}; the time is within 15 % in {}, and its interval covers {}.",
        near.limits,
        near.faults_within_10_percent,
        near.faults_covered,
        near.time_within_15_percent,
        near.time_covered
    )
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new("")
        .column(Column::text("command").names_row())
        .column(Column::bytes("limit").names_row())
        .column(Column::text("finished"))
        .column(Column::count("faults"))
        .column(Column::count("predicted").with_interval())
        .column(Column::ratio("time"))
        .column(Column::ratio("predicted").with_interval());
    let estimate = |of: &Value| {
        let [value, low, high] = interval(of);
        Cell::Estimate(Estimate::new(value, low, high))
    };
    let known = |value: f64| match value.is_finite() {
        true => Cell::from(value),
        false => Cell::Empty,
    };
    for row in rows {
        table.row(cells![
            row.program,
            row.limit_bytes,
            format!("{} of {}", row.finished, row.runs),
            known(row.faults),
            estimate(&row.faults_predicted),
            known(row.time),
            estimate(&row.time_predicted),
        ]);
    }
    table
}

/// A file of functions with ever more cases.
fn functions() -> String {
    let mut text = String::new();
    for f in 0..FUNCTIONS {
        let cases = f % 13 + 3;
        let _ = write!(
            text,
            "int f{f}(int*a,int n){{int s=0;for(int i=0;i<n;i++){{switch(a[i]%{cases}){{"
        );
        for case in 0..cases {
            let _ = write!(
                text,
                "case {case}: s+=a[i]*{}; if(s>{}) s^=a[(i+{case})%n]; break;",
                f + case,
                f * case
            );
        }
        text.push_str("}} for(int i=0;i<n;i++) for(int j=0;j<i;j++) s+=a[i]*a[j]; return s;}\n");
    }
    text
}

/// Words of a made-up language, some far more frequent than others, always the same.
fn words() -> Vec<u8> {
    let mut state = 1u64;
    let mut draw = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let known: Vec<String> = (0..4000)
        .map(|_| {
            let letters = 2 + draw(9);
            (0..letters)
                .map(|_| char::from(b'a' + draw(26) as u8))
                .collect()
        })
        .collect();
    let mut text = Vec::with_capacity(WORDS + 16);
    while text.len() < WORDS {
        let at = draw(4000) * draw(4000) / 4000;
        text.extend_from_slice(known[at as usize].as_bytes());
        text.push(if draw(12) == 0 { b'\n' } else { b' ' });
    }
    text.truncate(WORDS);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::words as of_line;
    use serde_json::json;

    fn row(faults: f64, predicted: [f64; 3], time: f64, time_predicted: [f64; 3]) -> Row {
        let value =
            |[value, low, high]: [f64; 3]| json!({"value": value, "low": low, "high": high});
        Row {
            program: "it",
            is_held_out: false,
            limit_bytes: 1 << 20,
            runs: 3,
            finished: 3,
            faults,
            faults_predicted: value(predicted),
            time,
            time_predicted: value(time_predicted),
        }
    }

    #[test]
    fn what_is_near_is_counted_where_there_are_faults() {
        let rows = [
            row(1000.0, [1099.0, 1050.0, 1200.0], 1.5, [1.3, 1.2, 1.5]),
            row(1000.0, [1101.0, 900.0, 1200.0], 2.0, [1.6, 1.0, 1.9]),
            row(99.0, [99.0, 0.0, 200.0], 1.0, [1.0, 1.0, 1.0]),
            row(f64::NAN, [5.0, 0.0, 200.0], f64::NAN, [1.0, 1.0, 1.0]),
        ];
        let expected = Near {
            limits: 2,
            faults_within_10_percent: 1,
            faults_covered: 1,
            time_within_15_percent: 1,
            time_covered: 1,
        };
        assert_eq!(near(&rows), expected);
    }

    #[test]
    fn rows_are_of_runs_that_finished() {
        let run = |is: &str, seconds: f64, faults: u64| json!({"outcome": {"is": is}, "elapsed_s": seconds, "faults_major": faults});
        let one = json!({"value": 1.0, "low": 1.0, "high": 1.0});
        let found = json!({
            "unlimited": [run("finished", 1.0, 0), run("finished", 3.0, 0)],
            "set_ups": [{"steps": [{
                "limit_bytes": 4096,
                "predicted": {"faults": one, "slowdown": one},
                "runs": [run("finished", 4.0, 7), run("out-of-memory", 1.0, 1000)],
            }]}],
        });
        let rows = rows_of(&PROGRAMS[0], &found).unwrap();
        let [row] = &rows[..] else {
            panic!("{rows:?}");
        };
        assert_eq!((row.time, row.faults), (2.0, 7.0));
        assert_eq!((row.finished, row.runs), (1, 2));
    }

    #[test]
    fn the_data_is_always_the_same_and_compresses_like_text() {
        let text = words();
        assert_eq!((text.len(), &text), (WORDS, &words()));
        let longest = text
            .split(|&byte| byte == b' ' || byte == b'\n')
            .map(<[u8]>::len);
        assert!(longest.max().is_some_and(|longest| longest <= 10));
        assert_eq!(functions().lines().count() as u64, FUNCTIONS);
    }

    #[test]
    fn options_name_programs_that_there_are() {
        assert!(parse(&of_line("--only perl --runs 5 --real-time")).is_ok());
        for wrong in ["--only word", "--runs many", "--limit 5", "--json"] {
            assert!(parse(&of_line(wrong)).is_err(), "{wrong}");
        }
    }
}
