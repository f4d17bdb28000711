//! `status`, `watch` and `metrics` on recorded machines: their form, and that they change
//! nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;

use crate::machine::{plant, MACHINES};
use crate::run::{code, json, run, str, text, wait_until, zmeld};

/// All files below a folder.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

#[test]
fn status_is_one_table_that_fits() {
    for (name, _) in MACHINES {
        let (dir, _) = plant(name);
        let root = str(dir.path());
        let before = contents(dir.path());
        for more in [&[][..], &["--markdown"], &["--csv"], &["--json"]] {
            let output = run(&[&["status", "--root", root], more].concat());
            assert_eq!(code(&output), 0, "{name}: {}", text(&output.stderr));
            let out = text(&output.stdout);
            if more.is_empty() {
                for line in out.lines() {
                    assert!(line.chars().count() <= 80, "{name}: {line}");
                }
                let tables = out.lines().filter(|line| line.starts_with("size ")).count();
                assert!(tables <= 1, "{name}: the table is split\n{out}");
            }
        }
        let status = json(&["status", "--root", root, "--json"]);
        assert_eq!(status["schema"], "zmeld.status/1");
        let rows = run(&["status", "--root", root, "--csv"]);
        let rows = text(&rows.stdout).lines().count();
        assert_eq!(rows, 1 + status["tiers"].as_array().unwrap().len());
        assert_eq!(
            before,
            contents(dir.path()),
            "{name}: something was changed"
        );
    }
}

#[test]
fn watch_ends_when_it_is_told_to() {
    let (dir, _) = plant("7.2");
    let figures = dir.path().join("figures.prom");
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let _ = fs::remove_file(&figures);
        let mut child = zmeld(&["watch", "--root", str(dir.path())])
            .args(["--textfile", str(&figures)])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let begin = Instant::now();
        wait_until("no figures", || figures.exists());
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        let status = child.wait().unwrap();
        assert!(status.success(), "{signal}: {status}");
        assert!(begin.elapsed() < Duration::from_secs(40));
        let text = fs::read_to_string(&figures).unwrap();
        assert!(text.contains("zmeld_tier_stored_bytes{"), "{text}");
    }
}
