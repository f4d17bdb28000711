//! Live memory: other users, processes that come and go, cold memory.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::errors::Nobody;
use crate::run::*;

#[test]
fn an_ordinary_user_sees_their_own_and_is_told_what_root_adds() {
    let Some(nobody) = Nobody::new() else { return };
    let output = nobody.zmeld().arg("scan").output().unwrap();
    // Nobody may have processes here or not; either way root is named.
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(said.contains("as root"), "{said}");
    assert!([0, 3].contains(&code(&output)), "{said}");

    // With a process of its own, nobody reads just that.
    let script = "sleep 30 & own=$!; \"$0\" scan --codecs lz4 --json; kill $own";
    let zmeld = nobody.place().join("zmeld");
    let mut shell = nobody.command("sh");
    let output = shell.args(["-c", script, str(&zmeld)]).output().unwrap();
    let found: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    assert!(found["memory"]["processes"].as_u64().unwrap() >= 2);
    assert!(found["pages"]["total"].as_u64().unwrap() > 0);
    let skipped = found["skipped"].as_array().unwrap();
    let refused = skipped
        .iter()
        .find(|skipped| skipped["reason"] == "not permitted to this user")
        .expect("root has processes");
    assert!(refused["processes"].as_u64().unwrap() >= 1);
    let advice = found["advice"].as_array().unwrap();
    assert!(
        advice.iter().any(|advice| advice["topic"] == "privilege"),
        "{advice:?}"
    );

    let mine = std::process::id().to_string();
    let mut command = nobody.zmeld();
    let output = command.args(["scan", "--pid", &mine]).output().unwrap();
    assert_eq!(code(&output), 3, "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("1 process is not permitted"));
}

#[test]
fn processes_may_come_and_go() {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let children: Vec<_> = (0..20)
                    .filter_map(|_| Command::new("true").spawn().ok())
                    .collect();
                for mut child in children {
                    let _ = child.wait();
                }
            }
        });
        for _ in 0..3 {
            let tree = std::process::id().to_string();
            let output = run(&["scan", "--tree", &tree, "--codecs", "lz4", "--json"]);
            assert_eq!(code(&output), 0, "{}", text(&output.stderr));
            assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn untouched_memory_is_cold() {
    if !is_root() {
        eprintln!("SKIP: only root can watch which pages are touched");
        return;
    }
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = child.id().to_string();
    let output = run(&[
        "scan", "--pid", &pid, "--cold", "1", "--codecs", "lz4", "--json",
    ]);
    child.kill().unwrap();
    child.wait().unwrap();
    if code(&output) == 3 {
        eprintln!("SKIP: {}", text(&output.stderr).trim());
        return;
    }
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let total = &found["cold"]["total"];
    assert!(total[1].as_u64() > Some(0), "{total}");
}
