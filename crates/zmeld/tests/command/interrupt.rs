//! Ctrl-C and SIGTERM.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::channel;

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;

use crate::machine::plant;
use crate::run::*;

/// A scan of standard input that is fed until it ends.
fn endless(args: &[&str]) -> Child {
    let mut child = zmeld(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let (fed, is_fed) = channel();
    std::thread::spawn(move || {
        let mut random = Random(5);
        while input.write_all(&text_page(&mut random)).is_ok() {
            let _ = fed.send(());
        }
    });
    // More than a pipe holds.
    assert_eq!(is_fed.iter().take(4096).count(), 4096);
    child
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
}

/// Waits until SIGINT is no longer fatal to it, or it has ended.
pub fn await_handler(child: &Child) {
    let status = format!("/proc/{}/status", child.id());
    wait_until("it never listened", || {
        let text = fs::read_to_string(&status).unwrap();
        let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = u64::from_str_radix(caught.unwrap().trim(), 16).unwrap();
        text.contains("\nState:\tZ") || caught & 1 << (Signal::SIGINT as u32 - 1) != 0
    });
}

fn finish(mut child: Child) -> (Option<i32>, String, String) {
    let (mut out, mut err) = (String::new(), String::new());
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut out)
        .unwrap();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut err)
        .unwrap();
    (child.wait().unwrap().code(), out, err)
}

#[test]
fn the_first_interrupt_prints_what_there_is() {
    let child = endless(&["scan", "--file", "-", "--codecs", "lz4", "--json"]);
    send(&child, Signal::SIGINT);
    let (code, out, err) = finish(child);
    assert_eq!(code, Some(130), "{err}");
    assert!(err.contains("stopping"), "{err}");
    let found: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(found["interrupted"], true);
    assert!(found["pages"]["total"].as_u64().unwrap() > 0);
}

#[test]
fn a_simulation_that_is_stopped_says_so() {
    let child = zmeld(&["numa", "reproduce", "--replications", "100000"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    await_handler(&child);
    send(&child, Signal::SIGINT);
    let (code, out, err) = finish(child);
    assert_eq!(code, Some(130), "{err}");
    assert!(err.contains("stopped before there was a result"), "{err}");
    assert_eq!(out, "");
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
        wait_until("no figures", || figures.exists());
        send(&child, signal);
        let status = child.wait().unwrap();
        assert!(status.success(), "{signal}: {status}");
        let text = fs::read_to_string(&figures).unwrap();
        assert!(text.contains("zmeld_tier_stored_bytes{"), "{text}");
    }
}
