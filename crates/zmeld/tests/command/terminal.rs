//! How the output looks: widths, colours, help, man page, completions.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::run::*;

/// Columns of a line: every character that is printed here takes one.
fn columns(line: &str) -> usize {
    line.chars().count()
}

#[test]
fn no_line_is_wider_than_the_terminal_and_pipes_get_no_escapes() {
    let folder = folder();
    let path = write(folder.path(), "p", &known_pages().bytes);
    let zeros = write(folder.path(), "z", &[0; 3 * PAGE]);
    let one = write(folder.path(), "o", b"one page, mostly zeros");
    for width in [80, 40] {
        for file in [&path, &zeros, &one] {
            let name = file.file_name().unwrap().to_str().unwrap();
            for args in [
                &["scan", "--file", name][..],
                &["codecs", name, "--codecs", "lz4,zstd"],
            ] {
                for (variable, value) in [("NO_COLOR", "1"), ("TERM", "dumb"), ("TERM", "xterm")] {
                    let output = zmeld(args)
                        .env("COLUMNS", width.to_string())
                        .env(variable, value)
                        .current_dir(folder.path())
                        .output()
                        .unwrap();
                    let out = text(&output.stdout);
                    assert!(!out.contains('\x1b'), "{args:?}: escapes in a pipe");
                    assert!(
                        output.stderr.is_empty() || name == "z",
                        "{}",
                        text(&output.stderr)
                    );
                    for line in out.lines().filter(|line| !line.starts_with("    ")) {
                        assert!(columns(line) <= width, "{args:?} at {width}: {line}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_whole_report_is_as_it_was_looked_at() {
    let folder = folder();
    let path = write(folder.path(), "pages", &known_pages().bytes);
    let output = zmeld(&[
        "scan", "--file", "pages", "--full", "--ram", "8G", "--kernel", "6.12",
    ])
    .current_dir(folder.path())
    .output()
    .unwrap();
    assert!(path.exists());
    let out = text(&output.stdout);
    // What depends on speed and on the machine is left out: all but the counts.
    for line in [
        "zmeld scan of pages",
        "zero            40   160 KiB    8.1 %",
        "same-filled     25   100 KiB    5.1 %",
        "unique         360  1.41 MiB   73.2 %",
        "duplicate       67   268 KiB   13.6 %",
        "total          492  1.92 MiB  100.0 %",
        "contents that repeat  27",
        "melding would drop    268 KiB",
        "ADVICE",
    ] {
        assert!(
            out.lines().any(|found| found.trim_end() == line),
            "{line}\n{out}"
        );
    }
    assert!(out.contains("8.00 GiB of RAM"), "{out}");
    assert!(out.contains("Linux 6.12"), "{out}");
    assert!(!out.contains("processes"), "a file has none\n{out}");
}

#[test]
fn help_fits_and_shows_examples() {
    for args in [
        &["--help"][..],
        &["-h"],
        &["scan", "--help"],
        &["scan", "-h"],
        &["codecs", "--help"],
        &["codecs", "-h"],
    ] {
        let output = run(args);
        assert_eq!(code(&output), 0);
        let out = text(&output.stdout);
        for line in out.lines() {
            assert!(columns(line) <= 100, "{args:?}: {line}");
        }
        assert!(
            out.contains("Exit codes:") || args.contains(&"-h"),
            "{args:?}"
        );
        assert!(out.contains("Examples:"), "{args:?}\n{out}");
    }
}

#[test]
fn thresholds_that_are_missed_are_said_and_told_by_the_exit_code() {
    let folder = folder();
    let path = write(folder.path(), "pages", &known_pages().bytes);
    let scan = ["scan", "--file", str(&path), "--codecs", "lz4"];
    let with = |more: &[&str]| run(&[&scan, more].concat());
    assert_eq!(
        code(&with(&[
            "--require-ratio",
            "1.1",
            "--require-duplicates",
            "10"
        ])),
        0
    );
    let missed = with(&["--require-ratio", "50"]);
    assert_eq!(code(&missed), 1);
    assert!(text(&missed.stderr).contains("below the 50"));
    assert!(text(&missed.stdout).contains("ADVICE"));
    assert_eq!(code(&with(&["--require-duplicates", "50%"])), 1);
}

/// Runs a checker on a text; `None` where it is not there.
fn checked(program: &str, args: &[&str], input: &str) -> Option<(bool, String)> {
    let child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        eprintln!("SKIP: there is no {program} here");
        return None;
    };
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    Some((output.status.success(), text(&output.stderr)))
}

#[test]
fn man_pages_render_without_warnings() {
    for page in [&["man"][..], &["man", "scan"], &["man", "codecs"]] {
        let output = run(page);
        assert_eq!(code(&output), 0);
        let page = text(&output.stdout);
        assert!(
            page.contains("Exit codes") && page.contains(".SH"),
            "{page}"
        );
        if let Some((ok, said)) = checked("groff", &["-man", "-Tutf8", "-ww", "-z"], &page) {
            assert!(ok && said.is_empty(), "{said}");
        }
    }
}

#[test]
fn completions_are_scripts_of_their_shells() {
    for (shell, args) in [
        ("bash", &["-n"][..]),
        ("zsh", &["-n"]),
        ("fish", &["--no-execute"]),
    ] {
        let output = run(&["completions", shell]);
        assert_eq!(code(&output), 0);
        let script = text(&output.stdout);
        assert!(script.contains("require-ratio"), "{shell}");
        if let Some((ok, said)) = checked(shell, args, &script) {
            assert!(ok && said.is_empty(), "{shell}: {said}");
        }
    }
}
