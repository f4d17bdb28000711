//! Experiments, from the command line: what is refused, what is kept, and that
//! nothing is left behind.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::Flock;
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use serde_json::Value;

use crate::errors::{as_nobody, refuses};
use crate::run::*;
use crate::setup::{locked, unfit};

/// The turn to change the machine's swap, or the reason why it cannot be had printed.
fn turn() -> Option<Flock<File>> {
    if let Some(why) = unfit() {
        eprintln!("SKIP: {why}");
        return None;
    }
    Some(locked())
}

/// A recipe of fractions of a second: killed without swap, finished with zram.
fn recipe(touches: u64, runs: usize) -> String {
    format!(
        "name = \"tiny\"\nquestion = \"?\"\nabout = \"\"\nwarm_ups = 0\n\
         stopping = {{ runs_min = {runs}, runs_max = {runs}, width = 0.5 }}\n\
         [[case]]\nname = \"short of RAM\"\nlimit = \"70% of footprint\"\n\
         workload = {{ kind = \"touch\", bytes = 33554432, touches = {touches} }}\n\
         [[arm]]\nname = \"no swap\"\n\
         [[arm]]\nname = \"zram\"\n\
         tier.zram = {{ kind = \"zram\", codec = \"lzo-rle\", size = \"100% of footprint\" }}\n"
    )
}

/// Runs it, again and again while somebody else's experiment runs.
fn patiently(args: &[&str]) -> Output {
    let begin = Instant::now();
    loop {
        let output = run(args);
        let busy = text(&output.stderr).contains("another experiment");
        if !busy || begin.elapsed() > Duration::from_secs(1800) {
            return output;
        }
        std::thread::sleep(Duration::from_secs(2));
    }
}

/// What an experiment could leave: swap areas, groups, loop devices and zram devices.
fn machine() -> Vec<String> {
    let mut all: Vec<String> = fs::read_to_string("/proc/swaps")
        .unwrap()
        .lines()
        .filter_map(|line| Some(line.split_whitespace().next()?.to_owned()))
        .collect();
    for (folder, begin) in [
        ("/sys/fs/cgroup", "zmeld-lab-"),
        ("/sys/fs/cgroup/memory", "zmeld-lab-"),
        ("/sys/block", "zram"),
        ("/var/tmp", "zmeld-lab-"),
    ] {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(begin) {
                all.push(format!("{folder}/{name}"));
            }
        }
    }
    all.sort();
    all
}

fn experiment(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).expect("JSON")
}

fn runs_of(experiment: &Value) -> usize {
    experiment["runs"].as_array().map_or(0, Vec::len)
}

/// Starts an experiment that takes long, and waits until so many runs are kept.
fn started(recipe: &Path, result: &Path, runs: usize) -> Child {
    let begin = Instant::now();
    loop {
        let mut child = zmeld(&["bench", "run", str(recipe), "--output", str(result)])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        while child.try_wait().unwrap().is_none() {
            if result.exists() && runs_of(&experiment(result)) >= runs {
                return child;
            }
            assert!(
                begin.elapsed() < Duration::from_secs(1800),
                "no run was made"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut said = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        assert!(said.contains("another experiment"), "{said}");
        std::thread::sleep(Duration::from_secs(2));
    }
}

#[test]
fn what_cannot_be_run_is_said_in_one_line() {
    let folder = folder();
    let file = |name: &str, text: &str| write(folder.path(), name, text.as_bytes());
    refuses(
        &["bench", "run", "matmull"],
        2,
        &["matmull", "no such recipe", "vps-7zip"],
    );
    refuses(
        &["bench", "list", "matmull"],
        2,
        &["no recipe matmull", "bt"],
    );
    let sound = recipe(10, 1);
    for (name, text, words) in [
        (
            "key",
            sound.replace("question", "queston"),
            &["key.toml", "line 2", "queston"][..],
        ),
        (
            "open",
            sound.replace("\"?\"", "\"?"),
            &["open.toml", "line 2"],
        ),
        (
            "twice",
            sound.replace("\"no swap\"", "\"zram\""),
            &["two arms", "zram"],
        ),
        (
            "limit",
            sound.replace("70% of footprint", "much"),
            &["limit.toml", "much", "60% of footprint"],
        ),
        (
            "none",
            "name = \"x\"\n".to_owned(),
            &["none.toml", "question"],
        ),
    ] {
        let path = file(&format!("{name}.toml"), &text);
        refuses(&["bench", "run", str(&path)], 2, words);
    }
    let path = file("sound.toml", &sound);
    refuses(
        &["bench", "run", "/nonexistent.toml"],
        2,
        &["/nonexistent.toml", "No such file"],
    );
    refuses(
        &["bench", "run", str(&path), "--arm", "zramm"],
        2,
        &["no arm \"zramm\"", "no swap"],
    );
    refuses(
        &[
            "bench",
            "run",
            str(&path),
            "--output",
            "/nonexistent/r.json",
        ],
        2,
        &["/nonexistent/r.json", "no directory", "create it"],
    );
    refuses(
        &["bench", "run", str(&path), "--resume", "/nonexistent"],
        2,
        &["/nonexistent"],
    );
    let (half, other) = (
        file("half.json", "{\"schema\": \"zm"),
        file("other.json", "{}"),
    );
    refuses(
        &["bench", "compare", str(&half), str(&half)],
        2,
        &["half.json"],
    );
    refuses(
        &["bench", "compare", str(&other), str(&other)],
        2,
        &["other.json"],
    );
}

#[test]
fn an_experiment_is_for_root() {
    let (command, place) = as_nobody();
    let Some(mut command) = command else { return };
    let path = write(place.path(), "tiny.toml", recipe(10, 1).as_bytes());
    let output = command.args(["bench", "run", str(&path)]).output().unwrap();
    let line = text(&output.stderr);
    assert_eq!(code(&output), 3, "{line}");
    assert!(
        line.contains("needs root") && line.lines().count() == 1,
        "{line}"
    );
}

#[test]
fn what_could_starve_the_machine_is_refused() {
    let Some(_turn) = turn() else { return };
    let folder = folder();
    let huge = recipe(10, 1).replace("33554432", "4398046511104");
    let path = write(folder.path(), "huge.toml", huge.as_bytes());
    let before = machine();
    let output = patiently(&["bench", "run", str(&path)]);
    let said = text(&output.stderr);
    assert_eq!(code(&output), 2, "{said}");
    assert!(
        said.contains("needs 4.00 TiB") && said.contains("512 MiB stay for others"),
        "{said}"
    );
    assert_eq!(machine(), before);
}

#[test]
fn an_experiment_says_which_arm_is_ahead_and_leaves_nothing() {
    let Some(_turn) = turn() else { return };
    let folder = folder();
    let path = write(folder.path(), "tiny.toml", recipe(2000, 5).as_bytes());
    let (result, page) = (folder.path().join("r.json"), folder.path().join("r.html"));
    let before = machine();
    let args = [
        "bench",
        "run",
        str(&path),
        "--output",
        str(&result),
        "--html",
        str(&page),
        "--json",
    ];
    let output = patiently(&args);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    assert_eq!(machine(), before, "something was left");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(found, experiment(&result));
    assert_eq!(found["schema"], "zmeld.bench/1");
    assert_eq!(runs_of(&found), 10);
    for run in found["runs"].as_array().unwrap() {
        let zram = run["arm"] == "zram";
        let expected = if zram { "finished" } else { "out-of-memory" };
        assert_eq!(run["outcome"]["is"], expected, "{run}");
        assert_eq!(run["swapped_max_bytes"].as_u64().unwrap() > 1 << 20, zram);
        assert_eq!(run["verified"], zram);
    }
    assert_eq!(found["judgements"][0]["winner"], "zram");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("<svg") && page.contains("short of RAM") && !page.contains("<script"));
    // Nothing is left to do: what is there is shown in each form.
    let show = |form: &str| {
        let output = patiently(&["bench", "run", str(&path), "--resume", str(&result), form]);
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let csv = show("--csv");
    assert_eq!(csv.lines().count(), 11, "{csv}");
    assert!(
        csv.lines().next().unwrap().starts_with("case,arm,block"),
        "{csv}"
    );
    assert!(show("--markdown").contains("| **zram** |"));
    assert_eq!(runs_of(&experiment(&result)), 10);

    // Compared with itself there is no difference; with something else there is nothing to compare.
    let output = run(&["bench", "compare", str(&result), str(&result)]);
    let said = text(&output.stdout);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    assert!(
        said.contains("no difference shown") && said.contains("not interleaved"),
        "{said}"
    );
    assert!(
        said.lines().all(|line| line.chars().count() <= 80),
        "{said}"
    );
    let compared = json(&["bench", "compare", str(&result), str(&result), "--json"]);
    assert_eq!(compared["schema"], "zmeld.bench.comparison/1");
    assert_eq!(compared["pairs"].as_array().unwrap().len(), 2);
    let changed = |name: &str, from: &str, to: &str| {
        let text = fs::read_to_string(&result).unwrap().replace(from, to);
        write(folder.path(), name, text.as_bytes())
    };
    let other = changed("case.json", "short of RAM", "another case");
    refuses(
        &["bench", "compare", str(&result), str(&other)],
        2,
        &["no arm of the same case", "in common"],
    );
    let other = changed(
        "metric.json",
        "\"name\": \"elapsed_s\"",
        "\"name\": \"measured_s\"",
    );
    refuses(
        &["bench", "compare", str(&result), str(&other)],
        2,
        &["elapsed_s", "measured_s"],
    );
    let other = changed("name.json", "\"tiny\"", "\"bt\"");
    refuses(
        &["bench", "run", str(&path), "--resume", str(&other)],
        2,
        &["runs of bt"],
    );
    let other = changed("kernel.json", "\"kernel\": \"", "\"kernel\": \"9.");
    let mut short = experiment(&other);
    short["runs"].as_array_mut().unwrap().pop();
    fs::write(&other, short.to_string()).unwrap();
    let output = patiently(&["bench", "run", str(&path), "--resume", str(&other)]);
    assert!(
        text(&output.stderr).contains("on kernel 9."),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(code(&output), 2);
}

#[test]
fn a_full_disk_is_said_and_the_result_is_shown() {
    let Some(_turn) = turn() else { return };
    let folder = folder();
    let path = write(folder.path(), "tiny.toml", recipe(100, 1).as_bytes());
    for option in ["--output", "--html"] {
        let output = patiently(&["bench", "run", str(&path), option, "/dev/full"]);
        let said = text(&output.stderr);
        assert_eq!(code(&output), 2, "{said}");
        assert!(
            said.contains("cannot write /dev/full: No space left"),
            "{said}"
        );
        assert!(
            text(&output.stdout).contains("zmeld bench: tiny"),
            "the result is lost"
        );
    }
}

#[test]
fn ctrl_c_keeps_what_is_done_and_resume_carries_on() {
    let Some(_turn) = turn() else { return };
    let folder = folder();
    let path = write(folder.path(), "tiny.toml", recipe(2000, 8).as_bytes());
    let result = folder.path().join("r.json");
    let before = machine();
    let child = started(&path, &result, 3);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("Stopped by Ctrl-C"));
    assert_eq!(machine(), before, "something was left");
    let kept = experiment(&result);
    assert_eq!(kept["interrupted"], true);
    let done = runs_of(&kept);
    assert!((3..16).contains(&done), "{done} runs");
    let output = patiently(&["bench", "run", str(&path), "--resume", str(&result)]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let whole = experiment(&result);
    assert_eq!(
        (runs_of(&whole), whole["interrupted"].as_bool()),
        (16, Some(false))
    );
    let (kept, whole) = (
        kept["runs"].as_array().unwrap(),
        whole["runs"].as_array().unwrap(),
    );
    assert_eq!(kept[..], whole[..done]);
}

#[test]
fn a_second_experiment_is_refused_and_a_killed_one_is_taken_back() {
    let Some(_turn) = turn() else { return };
    let folder = folder();
    let path = write(folder.path(), "tiny.toml", recipe(2_000_000, 50).as_bytes());
    let result = folder.path().join("r.json");
    let before = machine();
    let mut child = started(&path, &result, 1);
    let begin = Instant::now();
    while !fs::read_to_string("/proc/swaps")
        .unwrap()
        .contains("/dev/zram")
    {
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "zram is not swapped to"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    // The second one must not take the first one's swap for something that was left.
    let output = run(&["bench", "run", str(&path)]);
    let line = text(&output.stderr);
    assert_eq!(code(&output), 2, "{line}");
    assert!(
        line.contains(&format!(
            "another experiment is running (process {}",
            child.id()
        )),
        "{line}"
    );
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(
        child.try_wait().unwrap().is_none(),
        "the first one was disturbed"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    let quick = write(folder.path(), "quick.toml", recipe(100, 1).as_bytes());
    let output = patiently(&["bench", "run", str(&quick)]);
    let said = text(&output.stderr);
    assert_eq!(code(&output), 0, "{said}");
    assert!(said.contains("of an experiment that was killed"), "{said}");
    assert_eq!(machine(), before, "something was left: {said}");
    assert!(runs_of(&experiment(&result)) >= 1, "what was done is lost");
}
