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
    write(folder.path(), "p", &known_pages().bytes);
    for width in [80, 40] {
        for args in [
            &["scan", "--file", "p"][..],
            &["codecs", "p", "--codecs", "lz4,zstd"],
        ] {
            let output = zmeld(args)
                .env("COLUMNS", width.to_string())
                .env("TERM", "xterm")
                .current_dir(folder.path())
                .output()
                .unwrap();
            let out = text(&output.stdout);
            assert!(!out.contains('\x1b'), "{args:?}: escapes in a pipe");
            assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
            for line in out.lines().filter(|line| !line.starts_with("    ")) {
                assert!(columns(line) <= width, "{args:?} at {width}: {line}");
            }
        }
    }
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
    let output = run(&["man"]);
    assert_eq!(code(&output), 0);
    let page = text(&output.stdout);
    for words in ["Exit codes", ".SH", "zmeld-scan"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    if let Some((ok, said)) = checked("groff", &["-man", "-Tutf8", "-ww", "-z"], &page) {
        assert!(ok && said.is_empty(), "{said}");
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
