//! How small a machine will do, from the command line.

use std::fs;
use std::path::Path;

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use serde_json::Value;

use crate::bench::{experiment as kept, machine};
use crate::errors::refuses;
use crate::run::*;
use crate::setup::turn;

/// Memory of the program, in bytes.
const HELD: u64 = 24 << 20;

/// A program of so many touches of 24 MiB, with and without zram. Without swap it is killed below what it needs; with
/// zram it goes on, for `slowdown` as large as a test asks.
fn recipe(folder: &Path, touches: u64) -> std::path::PathBuf {
    let text = format!(
        "name = \"tiny\"\nquestion = \"?\"\nabout = \"\"\nwarm_ups = 0\n\
         stopping = {{ runs_min = 1, runs_max = 1, width = 0.5 }}\n\
         [[case]]\nname = \"touches\"\n\
         workload = {{ kind = \"touch\", bytes = {HELD}, touches = {touches} }}\n\
         [[variant]]\nname = \"no swap\"\n\
         [[variant]]\nname = \"zram lzo-rle\"\n\
         tier.zram = {{ kind = \"zram\", codec = \"lzo-rle\", size = \"300% of footprint\" }}\n\
         [[variant]]\nname = \"zram 842\"\n\
         tier.zram = {{ kind = \"zram\", codec = \"842\", size = \"300% of footprint\" }}\n"
    );
    write(folder, "tiny.toml", text.as_bytes())
}

/// So much slower as nothing here is, and few steps.
const GENEROUS: [&str; 6] = ["--slowdown", "900%", "--give-up", "50", "--within", "25%"];

fn variant<'a>(found: &'a Value, name: &str) -> &'a Value {
    let all = found["variants"].as_array().unwrap();
    all.iter().find(|it| it["name"] == name).unwrap()
}

fn runs_of(found: &Value) -> usize {
    let all = found["variants"].as_array().unwrap().iter();
    let steps = all.flat_map(|it| it["steps"].as_array().unwrap());
    steps
        .map(|step| step["runs"].as_array().unwrap().len())
        .sum()
}

#[test]
fn a_command_that_fails_without_a_limit_has_no_least_ram() {
    let Some(_turn) = turn() else { return };
    let before = machine();
    for (command, word) in [
        (
            "false",
            "without any limit: exit code 1, false: it printed nothing",
        ),
        (
            "/nonexistent/program",
            "zmeld: cannot start /nonexistent/program: No such file",
        ),
    ] {
        let output = run(&["bench", "size", "--", command]);
        let line = text(&output.stderr);
        assert_eq!(code(&output), 2, "{line}");
        assert!(output.stdout.is_empty(), "{line}");
        assert!(line.contains(word), "{line}");
    }
    assert_eq!(machine(), before);
}

#[test]
fn the_least_ram_is_found_with_and_without_swap_and_nothing_is_left() {
    let Some(_turn) = turn() else { return };
    let folder = folder();
    let path = recipe(folder.path(), 2000);
    let (result, page) = (folder.path().join("r.json"), folder.path().join("r.html"));
    let before = machine();
    let mut args = vec!["bench", "size", "--recipe", str(&path), "--json"];
    args.extend(GENEROUS);
    args.extend(["--output", str(&result), "--html", str(&page)]);
    let output = run(&args);
    let said = text(&output.stderr);
    assert_eq!(code(&output), 0, "{said}");
    assert_eq!(machine(), before, "something was left");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(found, kept(&result));
    assert_eq!(found["schema"], "zmeld.bench.size/2");
    crate::json::check(&found);
    // Without swap it needs what it holds, killed in every run with less. (Its footprint can be more: pages of its
    // program count for whoever reads them first.) How well zram does is the machine's affair, but with so much time
    // it needs less.
    assert!(found["footprint_bytes"].as_u64().unwrap() >= HELD);
    let (none, zram) = (variant(&found, "no swap"), variant(&found, "zram lzo-rle"));
    let least = |of: &Value| of["least"]["bytes"].as_u64().unwrap();
    assert_eq!(none["least"]["resolved"], true, "{none}");
    assert!(least(none) >= HELD, "{none}");
    for step in none["steps"].as_array().unwrap() {
        if step["limit_bytes"].as_u64().unwrap() < HELD {
            assert_eq!(step["verdict"], "does-not", "{step}");
            assert_eq!(step["slowdown"]["low"], "inf", "{step}");
        }
    }
    assert!(least(zram) < least(none), "{zram}");
    assert!(zram["least"]["store_bytes"].as_u64().unwrap() > 0);
    let of_842 = variant(&found, "zram 842");
    assert!(of_842["left_out"].is_string() || least(of_842) > 0);
    assert!(said.contains("--budget TIME"), "{said}");
    assert!(
        said.contains(" variants, some ") && said.contains(" runs in all, "),
        "{said}"
    );
    let page = fs::read_to_string(page).unwrap();
    assert!(
        page.contains("<svg") && page.contains("RAM against time") && !page.contains("<script")
    );
    is_shown(&path, &result);
    others_questions_are_refused(&path, &result);
}

/// A complete search is shown without a run, by anybody.
fn is_shown(path: &Path, result: &Path) {
    let before = fs::read(result).unwrap();
    let mut args = vec!["bench", "size", "--recipe", str(path)];
    args.extend(["--resume", str(result)]);
    args.extend(GENEROUS);
    let output = run(&args);
    let said = text(&output.stdout);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("'touches' needs "), "{said}");
    assert!(words.contains(" of RAM without swap"), "{said}");
    assert!(
        said.lines().all(|line| line.chars().count() <= 80),
        "{said}"
    );
    args.push("--csv");
    let csv = text(&run(&args).stdout);
    assert!(csv.starts_with("variant,limit"), "{csv}");
    assert_eq!(fs::read(result).unwrap(), before);
}

fn others_questions_are_refused(path: &Path, result: &Path) {
    for (more, word) in [
        (&["--slowdown", "10%"][..], "another question"),
        (&["--basis", "machine"], "counts_store"),
        (&["--variant", "zram"], "another recipe.variant.1"),
        (&["--", "true"], "another recipe."),
    ] {
        let mut args = vec!["bench", "size", "--recipe", str(path)];
        args.extend(["--resume", str(result)]);
        if !more.contains(&"--slowdown") {
            args.extend(GENEROUS);
        }
        args.extend(more);
        refuses(&args, 2, &["r.json", "--resume", word]);
    }
}

#[test]
fn ctrl_c_keeps_what_is_known_and_resume_carries_on() {
    let Some(_turn) = turn() else { return };
    let folder = folder();
    let path = recipe(folder.path(), 20_000);
    let result = folder.path().join("r.json");
    let before = machine();
    let mut args = vec!["bench", "size", "--recipe", str(&path)];
    args.extend(["--variant", "zram lzo-rle"]);
    args.extend(GENEROUS);
    let starting = [&args[..], &["--output", str(&result)]].concat();
    let child = started(&starting, |_| {
        result.exists() && runs_of(&kept(&result)) > 0
    });
    // Meanwhile another one is refused.
    refuses(
        &["bench", "size", "--", "true"],
        2,
        &["another experiment is running"],
    );
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("Stopped by Ctrl-C"));
    assert_eq!(machine(), before, "something was left");
    let part = kept(&result);
    assert_eq!(part["interrupted"], true);
    args.extend(["--resume", str(&result)]);
    let output = run(&args);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let whole = kept(&result);
    assert_eq!(whole["interrupted"], false);
    assert!(runs_of(&whole) >= runs_of(&part).max(3));
    let first = |found: &Value| variant(found, "zram lzo-rle")["steps"][0]["runs"][0].clone();
    assert_eq!(first(&whole), first(&part));
    assert_eq!(machine(), before, "something was left");
}
