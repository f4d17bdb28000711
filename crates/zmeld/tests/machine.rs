//! Experiments in virtual machines, from the command line. They take a kernel's
//! image, `ZMELD_TEST_KERNEL`, with its modules beside it, or user-mode Linux, and
//! QEMU and root; `cargo xtask test` provides them (`machine-um`, `machine-6.12`).

// Of what the other tests use, only a part is needed.
#[allow(dead_code)]
#[path = "command/own_run.rs"]
mod own_run;
#[allow(dead_code)]
#[path = "command/run.rs"]
mod run;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Output};

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use serde_json::Value;
use zmeld_tests::turn;

use run::*;

/// Processors that user-mode Linux runs on soundly.
const PROCESSORS: u32 = 1;

fn kernel() -> PathBuf {
    let path = std::env::var_os("ZMELD_TEST_KERNEL");
    PathBuf::from(path.expect("ZMELD_TEST_KERNEL names a kernel's image"))
}

/// MiB, of which user-mode Linux takes a tenth and a distribution's kernel a quarter.
fn ram_mib() -> u64 {
    if is_user_mode() {
        120
    } else {
        160
    }
}

fn is_user_mode() -> bool {
    fs::read(kernel()).unwrap().starts_with(b"\x7fELF")
}

/// More than a machine of that size has: killed without swap, finished with zram and with a disk.
fn recipe(touches: u64) -> String {
    let ram = ram_mib();
    format!(
        "name = \"tiny\"\nquestion = \"?\"\nabout = \"\"\nwarm_ups = 0\n\
         stopping = {{ runs_min = 1, runs_max = 1, width = 0.5 }}\n\
         [[case]]\nname = \"a small machine\"\nmachine = {{ ram = \"{ram}MiB\", processors = {PROCESSORS} }}\n\
         workload = {{ kind = \"touch\", bytes = 134217728, touches = {touches} }}\n\
         [[variant]]\nname = \"no swap\"\n\
         [[variant]]\nname = \"zram\"\n\
         tier.zram = {{ kind = \"zram\", codec = \"zstd\", size = \"100% of footprint\" }}\n\
         [[variant]]\nname = \"disk\"\n\
         slow_disk = {{ size = \"192MiB\", read_mb_per_s = 40, write_mb_per_s = 40 }}\n\
         tier.disk = {{ kind = \"disk\", device = \"slow-disk\", format = true }}\n\
         [[variant]]\nname = \"nowhere\"\n\
         tier.melding = {{ kind = \"zmeld\", size = \"64MiB\" }}\n"
    )
}

/// Runs that recipe in machines of that kernel.
fn run_with(recipe: &Path, more: &[&str]) -> Output {
    let kernel = kernel();
    let args = ["bench", "run", str(recipe), "--kernel", str(&kernel)];
    run(&[&args[..], more].concat())
}

/// Files of experiments that were not there before.
fn left(before: &[String]) -> Vec<String> {
    let mut all = left_by_any();
    all.retain(|name| !before.contains(name));
    all
}

fn left_by_any() -> Vec<String> {
    let mut all = Vec::new();
    for folder in ["/tmp", "/var/tmp"] {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("zmeld-lab-") {
                all.push(format!("{folder}/{name}"));
            }
        }
    }
    all
}

fn has_machine(experiment: u32) -> bool {
    let folder = format!("/zmeld-lab-{experiment}-");
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.into_iter().any(|entry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.contains(&folder) && line.contains("rdinit=/bin/zmeld")
    })
}

/// An experiment whose first machine runs.
fn first_machine(recipe: &Path, variant: &str) -> Child {
    let kernel = kernel();
    let args = ["bench", "run", str(recipe), "--variant", variant];
    started(
        &[&args[..], &["--kernel", str(&kernel)]].concat(),
        has_machine,
    )
}

/// One after the other: only one experiment runs at a time.
#[test]
fn machines_of_a_given_size_make_the_runs_and_are_gone_afterwards() {
    let _turn = turn::turn().unwrap();
    let before = left_by_any();
    variants_are_compared(&before);
    a_command_finds_the_files_of_this_machine(&before);
    what_is_not_used_goes_by_generations();
    ctrl_c_ends_the_machine(&before);
    what_a_killed_one_left_is_taken_back(&before);
}

fn variants_are_compared(before: &[String]) {
    let folder = folder();
    let path = write(folder.path(), "tiny.toml", recipe(4000).as_bytes());
    let result = folder.path().join("r.json");
    let compared = || run_with(&path, &["--output", str(&result)]);
    let mut output = compared();
    // A processor that QEMU imitates ends a kernel at its start once in a great while:
    // a second time is a fault.
    let panic = "Fatal exception in interrupt";
    if !is_user_mode() && text(&output.stderr).contains(panic) {
        println!("# {}", text(&output.stderr));
        output = compared();
    }
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(code(&output), 0, "{complained}");
    assert!(left(before).is_empty(), "left: {:?}", left(before));
    assert!(
        complained.contains("variant nowhere is left out"),
        "{complained}"
    );
    assert!(
        said.contains(&format!("{} MiB of RAM", ram_mib())),
        "{said}"
    );
    assert!(
        said.lines().all(|line| line.chars().count() <= 80),
        "{said}"
    );
    let found: Value = serde_json::from_slice(&fs::read(&result).unwrap()).expect("JSON");
    let case = &found["cases"][0];
    let on = &case["on"];
    assert_eq!(on["ram_bytes"], ram_mib() << 20);
    assert_eq!(on["processors"], PROCESSORS);
    assert_eq!(on["user_mode"], is_user_mode());
    let (visible, programs) = (&on["visible_bytes"], &on["programs_bytes"]);
    let (visible, programs) = (visible.as_u64().unwrap(), programs.as_u64().unwrap());
    assert!(
        visible < (ram_mib() << 20) + programs && visible > 64 << 20,
        "{on}"
    );
    assert_ne!(on["kernel"], found["machine"]["kernel"]);
    assert_eq!(case["skipped"][0]["variant"], "nowhere");
    let runs = found["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3);
    for run in runs {
        let swaps = run["variant"] != "no swap";
        let expected = if swaps { "finished" } else { "out-of-memory" };
        assert_eq!(run["outcome"]["is"], expected, "{run}");
        assert_eq!(run["verified"], swaps);
        let swapped = run["swapped_max_bytes"].as_u64().unwrap();
        assert_eq!(swapped > 1 << 20, swaps, "{run}");
        if run["variant"] == "zram" {
            let device = &run["devices"]["zram0"];
            assert!(device["memory_used_bytes"].as_f64().unwrap() > 0.0, "{run}");
        }
        if run["variant"] == "disk" {
            let disk = if is_user_mode() { "ubda" } else { "vda" };
            assert!(run["devices"][disk].is_object(), "{run}");
        }
    }
    if on["emulated"] == true {
        let words: Vec<&str> = said.split_whitespace().collect();
        assert!(
            words.join(" ").contains("compare counts, not times"),
            "{said}"
        );
        assert!(found["judgements"][0]["winner"].is_null());
    }
}

/// It reads them and has our environment; what it writes stays there.
fn a_command_finds_the_files_of_this_machine(before: &[String]) {
    let folder = folder();
    write(folder.path(), "data", b"42\n");
    let script = format!(
        "cd {} && read answer <data && touch \\\"by-$(cat /proc/sys/kernel/random/boot_id)\\\" && \
         rm data && ! test -e data && echo 42 >data && \
         echo answer=$answer && echo ours=$(test \\\"$CARGO_PKG_NAME\\\" = zmeld && echo 1 || echo 0)",
        str(folder.path())
    );
    let ram = ram_mib();
    let text_of_recipe = format!(
        "name = \"files\"\nquestion = \"?\"\nabout = \"\"\nwarm_ups = 0\n\
         metric = {{ name = \"answer\", better = \"higher\" }}\nalso = [{{ name = \"ours\", better = \"higher\" }}]\n\
         stopping = {{ runs_min = 1, runs_max = 1, width = 0.5 }}\n\
         [[case]]\nname = \"files\"\n\
         machine = {{ ram = \"{ram}MiB\", files = \"host\" }}\n\
         workload = {{ kind = \"command\", reads = \"figures\", command = [\"sh\", \"-c\", \"{script}\"] }}\n\
         [[variant]]\nname = \"no swap\"\n"
    );
    let path = write(folder.path(), "files.toml", text_of_recipe.as_bytes());
    let result = folder.path().join("r.json");
    // Its footprint is measured here first, and its files are written here.
    let output = run_with(&path, &["--output", str(&result)]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let found: Value = serde_json::from_slice(&fs::read(&result).unwrap()).expect("JSON");
    let run = &found["runs"][0];
    let figures = &run["figures"];
    let mine = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let names = fs::read_dir(folder.path()).unwrap().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let by = names.filter_map(|name| name.strip_prefix("by-").map(str::to_owned));
    let by: Vec<String> = by.collect();
    assert_eq!(by, [mine.trim()], "{run}");
    assert!(left(before).is_empty(), "left: {:?}", left(before));
    assert_eq!(
        (&figures["answer"], &figures["ours"]),
        (&42.0.into(), &1.0.into()),
        "{run}"
    );
}

/// Nine minutes of a program with 64 MiB that it leaves alone and 8 MiB that it uses every 5 s.
fn what_is_not_used_goes_by_generations() {
    let clock = "clock = \"instructions\"";
    let script = "\
import mmap, os, time
own = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
idle, used = mmap.mmap(-1, 64 << 20, own), mmap.mmap(-1, 8 << 20, own)
for at in range(0, 64 << 20, 4096): idle[at:at + 64] = os.urandom(32) * 2
for turn in range(110):
    for at in range(0, 8 << 20, 4096): used[at] = turn
    time.sleep(5)
swapped = [line.split()[1] for line in open('/proc/self/status') if line.startswith('VmSwap')]
print(f'swapped_kib={swapped[0]}')
";
    let folder = folder();
    let text_of_recipe = format!(
        "name = \"idle\"\nquestion = \"?\"\nabout = \"\"\nwarm_ups = 0\n\
         metric = {{ name = \"swapped_kib\", better = \"higher\" }}\n\
         stopping = {{ runs_min = 1, runs_max = 1, width = 0.5 }}\n\
         [[case]]\nname = \"idle\"\n\
         machine = {{ ram = \"256MiB\", files = \"host\", {clock} }}\n\
         workload = {{ kind = \"command\", reads = \"figures\", command = [\"python3\", \"-c\", {script:?}] }}\n\
         [[variant]]\nname = \"reclaim\"\n\
         tier.zram = {{ kind = \"zram\", codec = \"lz4\", size = \"256MiB\" }}\n\
         watch.reclaim = {{ step = \"1%\", idle_after = \"30s\" }}\n"
    );
    let path = write(folder.path(), "idle.toml", text_of_recipe.as_bytes());
    let result = folder.path().join("r.json");
    let output = run_with(&path, &["--output", str(&result)]);
    let complained = text(&output.stderr);
    if is_user_mode() {
        let said = text(&output.stdout) + &complained;
        assert!(said.contains("instructions of user-mode Linux"), "{said}");
        return;
    }
    assert_eq!(code(&output), 0, "{complained}");
    let found: Value = serde_json::from_slice(&fs::read(&result).unwrap()).expect("JSON");
    assert_eq!(found["cases"][0]["on"]["clock"], "instructions");
    let run = &found["runs"][0];
    let swapped_kib = run["figures"]["swapped_kib"].as_f64().unwrap();
    assert!(swapped_kib > 32.0 * 1024.0, "{run}");
    // Time passed at once while it waited; what it used stayed. As it ends it uses what it had
    // at its start.
    let there_s = run["figures"]["elapsed_s"].as_f64().unwrap();
    assert!(there_s > 540.0, "{run}");
    let faults = run["ended"]["usage"]["faults_major"].as_u64().unwrap();
    assert!(faults < 4096, "{run}");
}

fn ctrl_c_ends_the_machine(before: &[String]) {
    let folder = folder();
    let path = write(folder.path(), "long.toml", recipe(100_000_000).as_bytes());
    let child = first_machine(&path, "disk");
    let experiment = child.id();
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(!has_machine(experiment), "the machine lives on");
    assert!(left(before).is_empty(), "left: {:?}", left(before));
}

fn what_a_killed_one_left_is_taken_back(before: &[String]) {
    let folder = folder();
    let path = write(folder.path(), "long.toml", recipe(100_000_000).as_bytes());
    let mut child = first_machine(&path, "disk");
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the machine lives on", || !has_machine(child.id()));
    assert!(
        !left(before).is_empty(),
        "nothing was left, so nothing is shown"
    );
    let quick = write(folder.path(), "quick.toml", recipe(10).as_bytes());
    let output = run_with(&quick, &["--variant", "no swap"]);
    let said = text(&output.stderr);
    assert_eq!(code(&output), 0, "{said}");
    assert!(
        said.contains("a disk of an experiment that was killed"),
        "{said}"
    );
    assert!(left(before).is_empty(), "left: {:?}: {said}", left(before));
}
