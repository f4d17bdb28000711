//! Experiments, from the command line: what is refused, what is kept, and that
//! nothing is left behind.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use serde_json::Value;
use zmeld_linux::Host;

use crate::errors::{refuses, Nobody};
use crate::full_disk::{cannot_mount, with_place};
use crate::run::*;
use crate::setup::{remove_doubtful, rounds, turn};

/// A recipe of fractions of a second: killed without swap, finished with zram.
pub fn recipe(touches: u64, runs: usize) -> String {
    format!(
        "name = \"tiny\"\nquestion = \"?\"\nabout = \"\"\nwarm_ups = 0\n\
         stopping = {{ runs_min = {runs}, runs_max = {runs}, width = 0.5 }}\n\
         [[case]]\nname = \"short of RAM\"\nlimit = \"70% of footprint\"\n\
         workload = {{ kind = \"touch\", bytes = 33554432, touches = {touches} }}\n\
         [[variant]]\nname = \"no swap\"\n\
         [[variant]]\nname = \"zram\"\n\
         tier.zram = {{ kind = \"zram\", codec = \"lzo-rle\", size = \"100% of footprint\" }}\n"
    )
}

/// Possible leftovers of an experiment: swap areas, groups, loop devices and zram devices.
pub fn machine() -> Vec<String> {
    let swaps = Host::here().swaps().unwrap();
    let mut all: Vec<String> = swaps.iter().map(|it| it.shown().into_owned()).collect();
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

pub fn experiment(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).expect("JSON")
}

fn runs_of(experiment: &Value) -> usize {
    experiment["runs"].as_array().map_or(0, Vec::len)
}

/// An experiment of which so many runs are kept.
fn begun(recipe: &Path, result: &Path, runs: usize) -> Child {
    let args = ["bench", "run", str(recipe), "--output", str(result)];
    started(&args, |_| {
        result.exists() && runs_of(&experiment(result)) >= runs
    })
}

/// The same, killed while it swaps to zram.
fn killed(recipe: &Path, result: &Path) {
    let mut child = begun(recipe, result, 1);
    wait_for_zram();
    child.kill().unwrap();
    child.wait().unwrap();
}

fn runs_to_its_end(recipe: &Path) -> Output {
    let output = run(&["bench", "run", str(recipe)]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    output
}

#[test]
fn what_could_starve_the_machine_is_refused() {
    let Some(_turn) = turn() else { return };
    let folder = folder();
    let huge = recipe(10, 1).replace("33554432", "4398046511104");
    let path = write(folder.path(), "huge.toml", huge.as_bytes());
    let before = machine();
    let words = ["needs 4.00 TiB", "keeps 512 MiB for other programs"];
    refuses(&["bench", "run", str(&path)], 2, &words);
    assert_eq!(machine(), before);
}

#[test]
fn an_experiment_says_which_variant_is_ahead_and_leaves_nothing() {
    let Some(_turn) = turn() else { return };
    let folder = folder();
    // Long enough for some looks at what is in swap, each 100 ms. And a variant without the limit,
    // which shows what the limit costs.
    let with_baseline = recipe(400_000, 5) + "[[variant]]\nname = \"no limit\"\nunlimited = true\n";
    let path = write(folder.path(), "tiny.toml", with_baseline.as_bytes());
    let (result, page) = (folder.path().join("r.json"), folder.path().join("r.html"));
    let before = machine();
    let mut args = vec!["bench", "run", str(&path), "--json"];
    args.extend(["--output", str(&result), "--html", str(&page)]);
    let output = run(&args);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    assert_eq!(machine(), before, "something was left");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(found, experiment(&result));
    assert_eq!(found["schema"], "zmeld.bench/2");
    crate::json::check(&found);
    assert_eq!(runs_of(&found), 15);
    is_judged(&found);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("<svg") && page.contains("short of RAM") && !page.contains("<script"));
    // Another command, another limit: these are not its runs.
    for more in [
        &["--", "true"][..],
        &["--limit", "60% of footprint"],
        &["--variant", "zram"],
    ] {
        let mut args = vec!["bench", "run", str(&path), "--resume", str(&result)];
        args.extend(more);
        refuses(&args, 2, &["r.json", "its runs are of another", "--resume"]);
    }
    // Nothing is left to do: what is there is shown in each form.
    let show = |form: &str| {
        let output = run(&["bench", "run", str(&path), "--resume", str(&result), form]);
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let csv = show("--csv");
    assert_eq!(csv.lines().count(), 16, "{csv}");
    assert!(csv.starts_with("case,variant,block"), "{csv}");
    assert!(show("--markdown").contains("| **zram** |"));
    assert_eq!(experiment(&result), found);
    // That takes no root.
    if let Some(nobody) = Nobody::new() {
        for path in [&path, &result] {
            fs::copy(path, nobody.place().join(path.file_name().unwrap())).unwrap();
        }
        let args = ["bench", "run", "tiny.toml", "--resume", "r.json"];
        let output = nobody.zmeld().args(args).output().unwrap();
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        let said = text(&output.stdout);
        assert!(said.contains("'zram' is ahead"), "{said}");
    }

    another_kernel_is_refused(folder.path(), &path, &result);
}

/// The variant with zram is ahead of the one that is short of memory; each run says why.
fn is_judged(found: &Value) {
    let judged = &found["judgements"][0];
    assert_eq!(judged["baseline"]["variant"], "no limit");
    assert_eq!(judged["baseline"]["runs"], 5);
    assert_eq!(judged["variants"].as_array().unwrap().len(), 2);
    for run in found["runs"].as_array().unwrap() {
        let zram = run["variant"] == "zram";
        if run["variant"] == "no limit" {
            assert_eq!(run["outcome"]["is"], "finished", "{run}");
            assert_eq!(run["swapped_max_bytes"], 0);
            continue;
        }
        let expected = if zram { "finished" } else { "out-of-memory" };
        assert_eq!(run["outcome"]["is"], expected, "{run}");
        assert_eq!(run["swapped_max_bytes"].as_u64().unwrap() > 1 << 20, zram);
        assert_eq!(run["verified"], zram);
    }
    assert_eq!(judged["winner"], "zram");
}

/// With another kernel there is nothing to add.
fn another_kernel_is_refused(folder: &Path, path: &Path, result: &Path) {
    let text_of_other = fs::read_to_string(result)
        .unwrap()
        .replace("\"kernel\": \"", "\"kernel\": \"9.");
    let other = write(folder, "kernel.json", text_of_other.as_bytes());
    let mut short = experiment(&other);
    short["runs"].as_array_mut().unwrap().pop();
    fs::write(&other, short.to_string()).unwrap();
    let resume = ["bench", "run", str(path), "--resume", str(&other)];
    refuses(&resume, 2, &["another kernel (\"9."]);
}

#[test]
fn a_full_disk_is_said_and_the_result_is_shown() {
    let Some(_turn) = turn() else { return };
    if cannot_mount() {
        return;
    }
    let folder = folder();
    let path = write(folder.path(), "tiny.toml", recipe(100, 1).as_bytes());
    let place = folder.path().join("full");
    fs::create_dir(&place).unwrap();
    for option in ["--output", "--html"] {
        let script = format!(
            "head -c 16384 /dev/zero >\"$place\"/full 2>/dev/null
            exec \"$zmeld\" bench run '{}' {option} \"$place\"/result",
            path.display()
        );
        let output = with_place(&place, 16, &script);
        let said = text(&output.stderr);
        assert_eq!(code(&output), 2, "{said}");
        assert!(said.contains("No space left"), "{said}");
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
    let child = begun(&path, &result, 3);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("Stopped by Ctrl-C"));
    assert_eq!(machine(), before, "something was left");
    let kept = experiment(&result);
    assert_eq!(kept["interrupted"], true);
    let done = runs_of(&kept);
    assert!((3..16).contains(&done), "{done} runs");
    // Another user's figures decide nothing here, unless root was asked by that user.
    chown(&result, Some(65534), None).unwrap();
    let resume = ["bench", "run", str(&path), "--resume", str(&result)];
    let refused = |asked: &str| {
        let output = zmeld(&resume).env("SUDO_UID", asked).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(code(&output), 2, "{said}");
        assert!(
            said.contains("belongs to another user (uid 65534)"),
            "{said}"
        );
        assert_eq!(experiment(&result), kept);
    };
    refused("");
    refused("1000");
    chown(&result, Some(0), None).unwrap();
    let output = run(&resume);
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

/// A second experiment is refused. The swap of one that was killed is nobody's set-up: `plan`
/// and `up` name it, and `down` takes it back.
#[test]
fn what_a_killed_experiment_left_is_named_and_taken_back() {
    let Some(_turn) = turn() else { return };
    let folder = folder();
    let path = write(folder.path(), "tiny.toml", recipe(2_000_000, 50).as_bytes());
    let wanted = write(
        folder.path(),
        "c.toml",
        b"[tier.fast]\nkind = \"zram\"\nsize = \"64MiB\"\n",
    );
    let result = folder.path().join("r.json");
    let before = machine();
    let plan = ["plan", "--config", str(&wanted), "--json"];
    let mut child = begun(&path, &result, 1);
    wait_for_zram();
    // Beside the experiment's swap up would refuse it.
    let shown = || -> serde_json::Value {
        let output = run(&plan);
        assert!([0, 2].contains(&code(&output)), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let during = shown();
    assert_eq!(during["done"], false);
    let said = during["experiment"].as_str().expect("it is said");
    let process = format!("process {}", child.id());
    assert!(said.contains(&process), "{said}");
    // The second one must not take the first one's swap for something that was left.
    let precious = write(folder.path(), "precious.json", b"of another time");
    let second = ["bench", "run", str(&path), "--output", str(&precious)];
    refuses(&second, 2, &["another experiment is running", &process]);
    assert_eq!(fs::read(&precious).unwrap(), b"of another time");
    let up = ["up", "--no-scan", "--config", str(&wanted)];
    let up_dry = [&up[..], &["--dry-run"]].concat();
    for args in [&up[..], &up_dry, &["down"], &["down", "--dry-run"]] {
        refuses(args, 2, &["an experiment is running", &process]);
    }
    assert!(child.try_wait().unwrap().is_none(), "it was disturbed");
    child.kill().unwrap();
    child.wait().unwrap();
    let after = shown();
    let said = after["experiment"].as_str().expect("it is said");
    assert!(
        said.contains("swap of an experiment that was killed"),
        "{said}"
    );
    let output = run(&["up", "--config", str(&wanted)]);
    let line = text(&output.stderr);
    assert_eq!(code(&output), 2, "{line}");
    assert!(line.contains("zmeld down --experiment"), "{line}");
    let down = json(&["down", "--json"]);
    crate::json::check(&down);
    assert!(
        down["undone"].as_array().is_some_and(|it| !it.is_empty()),
        "{down}"
    );
    assert_eq!(down["left"], serde_json::json!([]), "{down}");
    assert_eq!(machine(), before);
    assert!(json(&plan)["experiment"].is_null());
}

fn wait_for_zram() {
    let swaps = || fs::read_to_string("/proc/swaps").unwrap();
    wait_until("zram is not swapped to", || swaps().contains("/dev/zram"));
}

/// Killed at random moments, an experiment leaves what `down --experiment` takes back. `ZMELD_KILLS` says how often.
#[test]
fn an_experiment_killed_at_any_moment_is_taken_back() {
    let Some(_turn) = turn() else { return };
    let folder = folder();
    let path = write(folder.path(), "tiny.toml", recipe(20_000, 2).as_bytes());
    let before = machine();
    let begin = Instant::now();
    runs_to_its_end(&path);
    let whole = begin.elapsed();
    let seed = seed();
    let mut random = Random(seed);
    for round in 0..rounds(4) {
        let part = (random.number() >> 40) as f64 / (1u64 << 24) as f64;
        let mut child = zmeld(&["bench", "run", str(&path)])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(whole.mul_f64(part));
        child.kill().unwrap();
        child.wait().unwrap();
        let output = run(&["down", "--experiment"]);
        let said = text(&output.stderr);
        assert_eq!(code(&output), 0, "seed {seed}, round {round}: {said}");
        remove_doubtful(&output);
        assert_eq!(machine(), before, "seed {seed}, round {round}: {said}");
    }
}

/// A swap area that somebody else has set up; it goes with the test.
struct Others {
    device: String,
}

impl Others {
    /// None where there is no loop device, which is said.
    fn new(folder: &Path, priority: Option<i32>) -> Option<Others> {
        let image = folder.join("others.img");
        fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
        let made = Command::new("losetup")
            .args(["--find", "--show", str(&image)])
            .output();
        let Some(made) = made.ok().filter(|made| made.status.success()) else {
            eprintln!("SKIP: there is no loop device");
            return None;
        };
        let others = Others {
            device: text(&made.stdout).trim().to_owned(),
        };
        assert!(done("mkswap", &[&others.device]), "no swap area");
        others.switch_on(priority);
        Some(others)
    }

    fn switch_on(&self, priority: Option<i32>) {
        let priority = priority.map(|priority| priority.to_string());
        let mut arguments = vec![self.device.as_str()];
        arguments.extend(priority.iter().flat_map(|it| ["--priority", it]));
        assert!(done("swapon", &arguments), "swapon {}", self.device);
    }

    /// Its size and priority, where it is swapped to.
    fn line(&self) -> Option<(u64, i32)> {
        let area = Host::here().swap_on(self.device.as_ref()).unwrap()?;
        Some((area.size_bytes, area.priority))
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        done("swapoff", &[&self.device]);
        done("losetup", &["--detach", &self.device]);
    }
}

fn done(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

#[test]
fn the_swap_of_others_stays_as_it_is() {
    let Some(_turn) = turn() else { return };
    let folder = folder();
    let quick = write(folder.path(), "quick.toml", recipe(100, 1).as_bytes());
    let long = write(folder.path(), "long.toml", recipe(2_000_000, 50).as_bytes());
    let result = folder.path().join("r.json");
    for priority in [None, Some(10)] {
        let Some(others) = Others::new(folder.path(), priority) else {
            return;
        };
        let before = (machine(), others.line());
        assert!(before.1.is_some());
        let said = text(&runs_to_its_end(&quick).stderr);
        let named = format!("{} is swapped to already", others.device);
        assert!(said.contains(&named), "{said}");
        assert_eq!((machine(), others.line()), before, "{said}");
        // Nor does taking back what a killed one left touch it.
        let _ = fs::remove_file(&result);
        killed(&long, &result);
        let output = runs_to_its_end(&quick);
        remove_doubtful(&output);
        let said = text(&output.stderr);
        assert!(said.contains("of an experiment that was killed"), "{said}");
        assert_eq!((machine(), others.line()), before, "{said}");
    }
    let Some(others) = Others::new(folder.path(), Some(100)) else {
        return;
    };
    let before = (machine(), others.line());
    let words = [&*others.device, "priority of 100 or more"];
    refuses(&["bench", "run", str(&quick)], 2, &words);
    assert_eq!((machine(), others.line()), before);
}

#[test]
fn an_experiment_leaves_what_zmeld_up_set_up_alone() {
    let Some(_turn) = turn() else { return };
    let folder = folder();
    let quick = write(folder.path(), "quick.toml", recipe(100, 1).as_bytes());
    let config = write(
        folder.path(),
        "zmeld.toml",
        b"[tier.ram]\nkind = \"zram\"\nsize = \"16MiB\"\nmemory_limit = \"8MiB\"\ncodec = \"lzo\"\n",
    );
    let before = machine();
    let output = run(&["up", "--no-scan", "--config", str(&config)]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let set_up = machine();
    assert_ne!(set_up, before);
    let output = run(&["bench", "run", str(&quick)]);
    let line = text(&output.stderr);
    let now = machine();
    assert_eq!(code(&run(&["down"])), 0);
    assert_eq!(code(&output), 2, "{line}");
    assert!(line.contains("zmeld down first"), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    assert_eq!((now, machine()), (set_up, before));
}

#[test]
fn ctrl_c_is_heard_before_the_workload_has_begun() {
    let Some(_turn) = turn() else { return };
    let folder = folder();
    // Left alone, it would take days.
    let path = write(folder.path(), "long.toml", recipe(1 << 40, 50).as_bytes());
    let before = machine();
    for _ in 0..5 {
        let mut child = spawned(&["bench", "run", str(&path)]);
        let name = format!("zmeld-lab-{}-", child.id());
        let begin = Instant::now();
        // The group is made just before the workload, which takes a while to join it.
        while !machine().iter().any(|it| it.contains(&name)) {
            assert!(child.try_wait().unwrap().is_none(), "it did not begin");
            assert!(begin.elapsed() < Duration::from_secs(600), "no group");
        }
        kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
        let interrupted = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if interrupted.elapsed() > Duration::from_secs(600) {
                child.kill().unwrap();
                panic!("Ctrl-C was not heard");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
        assert_eq!(machine(), before, "something was left");
    }
}

#[test]
fn the_store_of_zswap_is_measured_and_requests_are_those_of_the_run() {
    let Some(_turn) = turn() else { return };
    if !Path::new("/sys/module/zswap").exists() {
        eprintln!("SKIP: needs zswap");
        return;
    }
    let folder = folder();
    let text = recipe(20_000, 3).replace(
        "[[variant]]\nname = \"zram\"\n",
        "[[variant]]\nname = \"zswap\"\nslow_disk = { size = \"200% of footprint\" }\n\
         tier.disk = { kind = \"disk\", device = \"slow-disk\", format = true }\n\
         tier.zswap = { kind = \"zswap\", compressor = \"lzo\" }\n\
         [[variant]]\nname = \"zram\"\n",
    );
    let path = write(folder.path(), "zswap.toml", text.as_bytes());
    let page = folder.path().join("r.html");
    let before = machine();
    let output = run(&["bench", "run", str(&path), "--json", "--html", str(&page)]);
    let said = crate::run::text(&output.stderr);
    assert_eq!(code(&output), 0, "{said}");
    assert_eq!(machine(), before, "something was left");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    if let Some(left_out) = found["cases"][0]["skipped"][0]["why"].as_str() {
        eprintln!("SKIP: {left_out}");
        return;
    }
    let mut stored = 0;
    for run in found["runs"].as_array().unwrap() {
        let most = |what: &str| {
            let samples = run["series"]["samples"].as_array().unwrap();
            let values = samples.iter().map(|sample| sample[what].as_u64().unwrap());
            values.max().unwrap_or(0)
        };
        let (swap, store) = (most("swap_bytes"), most("store_bytes"));
        match run["variant"].as_str().unwrap() {
            "no swap" => assert_eq!(store, 0, "{run}"),
            // A page that came back may have its object still, and pages of the pool are begun
            // that are not full: some of each class of sizes.
            _ => {
                let out = |name: &str| run["machine"][name].as_f64().unwrap() as u64;
                let written = 4096 * (out("vm_pswpout") + out("vm_zswpout"));
                // A run whose page cache made room swapped nothing.
                let is_plausible = store >= swap / 10 && store < written + (2 << 20);
                assert!(is_plausible, "{store} of {swap}, {written}: {run}");
                stored += store;
            }
        }
        for (name, device) in run["devices"].as_object().unwrap() {
            let written = device["write_sectors"].as_f64().unwrap() * 512.0;
            let swapped = run["machine"]["vm_pswpout"].as_f64().unwrap() * 4096.0;
            assert!(
                written <= swapped + f64::from(1 << 20),
                "{name}: {written} of {swapped}"
            );
        }
    }
    assert!(stored > 0, "no run swapped");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("RAM taken up by the compressed store"));
}
