//! Ctrl-C and SIGTERM.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Stdio};

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use zmeld_tests::machine::plant;

use crate::run::*;

/// A scan of standard input that is fed until it ends.
fn endless(args: &[&str]) -> Child {
    let mut child = zmeld(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    await_handler(&child);
    let mut input = child.stdin.take().unwrap();
    let mut random = Random(5);
    // More than a pipe holds, so that some of it was read.
    for _ in 0..64 {
        input.write_all(&text_page(&mut random)).unwrap();
    }
    std::thread::spawn(move || while input.write_all(&text_page(&mut random)).is_ok() {});
    child
}

pub fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
}

/// Waits until SIGINT is no longer fatal to it, or it has ended.
pub fn await_handler(child: &Child) {
    let status = format!("/proc/{}/status", child.id());
    wait_until("it never listened", || {
        let text = fs::read_to_string(&status).unwrap();
        // A process that has it blocked passes it on.
        ["SigCgt", "SigBlk"].iter().any(|name| {
            let signals = zmeld_linux::process::status(&text, name);
            let signals = u64::from_str_radix(signals.unwrap(), 16).unwrap();
            text.contains("\nState:\tZ") || signals & 1 << (Signal::SIGINT as u32 - 1) != 0
        })
    });
}

fn finish(child: Child) -> (Option<i32>, String, String) {
    let output = child.wait_with_output().unwrap();
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    (output.status.code(), said, errors)
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
    let child = spawned(&["numa", "reproduce", "--replications", "100000"]);
    await_handler(&child);
    send(&child, Signal::SIGINT);
    let (code, out, err) = finish(child);
    assert_eq!(code, Some(130), "{err}");
    assert!(err.contains("stopped before there was a result"), "{err}");
    assert_eq!(out, "");
}

/// A service manager that asks for it hears of each round, and one that asks another process
/// of this one's nothing.
#[test]
fn a_watch_answers_the_watchdog_of_a_service_manager() {
    let (dir, _) = plant("7.2");
    let heard = |watchdog_pid: Option<&str>, messages: usize| {
        let path = dir.path().join("notify");
        let _ = fs::remove_file(&path);
        let manager = UnixDatagram::bind(&path).unwrap();
        let mut watch = zmeld(&["watch", "--root", str(dir.path())]);
        watch.args(["--textfile", str(&dir.path().join("figures.prom"))]);
        watch.env("NOTIFY_SOCKET", &path);
        watch.env("WATCHDOG_USEC", "1000");
        watchdog_pid.map(|pid| watch.env("WATCHDOG_PID", pid));
        let mut child = watch.stderr(Stdio::null()).spawn().unwrap();
        let next = || {
            let mut buffer = [0; 64];
            let length = manager.recv(&mut buffer).unwrap();
            String::from_utf8_lossy(&buffer[..length]).into_owned()
        };
        let mut all: Vec<String> = (0..messages).map(|_| next()).collect();
        send(&child, Signal::SIGTERM);
        while all.last().is_none_or(|it| it != "STOPPING=1") {
            all.push(next());
        }
        assert!(child.wait().unwrap().success());
        all
    };
    let all = heard(None, 4);
    assert_eq!(all[0], "READY=1");
    assert_eq!(all[1..4], ["WATCHDOG=1"; 3]);
    assert_eq!(heard(Some("1"), 1), ["READY=1", "STOPPING=1"]);
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
