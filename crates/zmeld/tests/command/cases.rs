//! Cases in `cases`: what the command says of machines that are folders, and of wrong words.
//!
//! ```text
//! file TEXT          that is the machine's configuration; none: there is none
//! text FILE TEXT     writes a text of the cases into a file
//! docs FILE WORDS    it is the first example with these words
//! ARGUMENTS          runs zmeld for this machine, of which config check refuses what plan does;
//!                    @ begins a path on it, ~ is a space within a word, and '' an empty one
//! into FILE ARGS     writes what it prints into a file
//! found FINDING      status has it: a line for each, with subject, evidence and remedy
//! run ARGS           runs it without a machine
//! machine NAME       has the files of a recorded machine
//! refuse ARGS        ends with code 2, one line of error and no result
//! ```
//!
//! Of a run the lines are `code 2`, `out` with all words of its output, `err` or `notice`
//! with each line of its errors, `said` with all of them in order, and `fine` where it
//! succeeds and has no error.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use zmeld_linux::Host;
use zmeld_tests::machine;
use zmeld_tests::script::{self, Outcome, Script};
use zmeld_tests::shown;

use crate::run::{code, folder, plain, text};

#[test]
fn each_machine_is_judged_as_its_case_says() {
    script::run("command/cases/machines.txt", Case::new);
}

#[test]
fn each_command_prints_what_its_case_says() {
    script::run("command/cases/commands.txt", Case::new);
}

#[test]
fn every_wrong_word_is_refused_in_one_line() {
    script::run("command/cases/refused.txt", Case::new);
}

/// All that is said of the recorded machines before anything is set up is what stands in
/// `cases/shown`: of each command what differs from the one before.
#[test]
fn recorded_machines_are_shown_whole() {
    for kernel in machine::MACHINES.map(|it| it.0) {
        let case = Case::new();
        let root = script::Case::root(&case);
        machine::plant_in(kernel, &root);
        let (mut shown, mut before) = (String::new(), String::new());
        for args in [
            "plan",
            "plan --take-over",
            "plan --tier zmeld --take-over",
            "plan --toml --profile desktop --take-over",
            "config import",
            "config check",
        ] {
            let output = case.zmeld(args, &["--root", root.to_str().unwrap()]);
            let said = text(&output.stdout) + &text(&output.stderr);
            let said = said.replace(root.to_str().unwrap(), "ROOT");
            let said_now = script::difference(&before, &said);
            shown += &format!("$ zmeld {args}\n{said_now}exit code {}\n\n", code(&output));
            before = said;
        }
        shown::shown(&format!("command/cases/shown/{kernel}.txt"), &shown);
    }
}

struct Case(tempfile::TempDir);

impl Case {
    fn new() -> Case {
        let case = Case(folder());
        fs::create_dir(script::Case::root(&case)).unwrap();
        case
    }

    /// Runs the command, which waits for nothing that is not there.
    fn zmeld(&self, args: &str, more: &[&str]) -> Output {
        let args = args.replace('@', &format!("{}/", script::Case::root(self).display()));
        let words = args.split(' ').filter(|it| !it.is_empty());
        let args = words.map(|it| it.replace('~', " ").replace("''", ""));
        let mut command = Command::new("timeout");
        command.args(["60", env!("CARGO_BIN_EXE_zmeld")]);
        plain(command.args(args).args(more)).output().unwrap()
    }
}

impl script::Case for Case {
    fn root(&self) -> PathBuf {
        self.0.path().join("root")
    }

    /// Figures of pages depend on their size.
    fn is_recorded() -> bool {
        rustix::param::page_size() == 4096
    }

    /// What is refused may name what this machine has, and what runs without another's root its
    /// codecs and speed.
    fn lasting(&self, what: &str, line: &str) -> String {
        let line = line.replace(self.root().to_str().unwrap(), "");
        let line = line.replace(env!("CARGO_PKG_VERSION"), "VERSION");
        let line = line.replace('─', "");
        let own = ["looked for ", "active: "].map(|it| line.find(it).filter(|_| what == "refuse"));
        let end = match own.into_iter().flatten().min() {
            None if what == "run" && !line.starts_with("code ") => 0,
            None if line.contains("<!DOCTYPE") => 300,
            None => line.len(),
            Some(at) => at,
        };
        line.chars().take(end).collect()
    }

    fn is_repeated(&self, line: &str) -> bool {
        line.starts_with("said ") || line == "fine"
    }

    fn step(&mut self, script: &Script, what: &str, rest: &str, place: &str) -> Outcome {
        let root = self.root();
        let here = ["--root", root.to_str().unwrap()];
        let configured = |text: &str| {
            Host::at(&root).plant("/etc/zmeld.toml", text);
            Outcome::default()
        };
        match what {
            "file" => configured(&script.text(rest)),
            "text" => {
                let (file, parts) = rest.split_once(' ').unwrap();
                fs::write(root.join(file), script.text(parts)).unwrap();
                Outcome::default()
            }
            "docs" => {
                let (file, words) = rest.split_once(' ').unwrap();
                let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
                let docs = fs::read_to_string(format!("{docs}/{file}")).unwrap();
                let mut blocks = docs.split("```").skip(1).step_by(2);
                configured(blocks.find(|block| block.contains(words)).unwrap())
            }
            "into" => {
                let (file, args) = rest.split_once(' ').unwrap();
                let output = self.zmeld(args, &here);
                fs::write(root.join(file), &output.stdout).unwrap();
                of_run(&output)
            }
            "found" => {
                let (id, more) = rest.split_once(' ').unwrap_or((rest, ""));
                let output = self.zmeld(&format!("status --json {more}"), &here);
                let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
                let findings = status["findings"].as_array().unwrap().iter();
                let findings = findings.filter(|found| found["id"] == id);
                let line = |found: &serde_json::Value| {
                    let word = |name: &str| found[name].as_str().unwrap_or_default();
                    let (what, why) = (word("what"), word("evidence"));
                    format!("{}: {what} ({why}); {}", word("subject"), word("remedy"))
                };
                findings.map(line).collect()
            }
            "run" => of_run(&self.zmeld(rest, &[])),
            "machine" => {
                machine::plant_in(rest, &root);
                Outcome::default()
            }
            "refuse" => {
                let output = self.zmeld(rest, &[]);
                let line = text(&output.stderr).trim_end().to_owned();
                assert_eq!(code(&output), 2, "{place}: {line}");
                assert!(output.stdout.is_empty(), "{place} printed a result");
                let is_named = line.starts_with("zmeld: ") && !line.contains("os error");
                assert!(is_named, "{place}: {line}");
                Outcome {
                    errors: vec![(line, String::new())],
                    ..Outcome::default()
                }
            }
            _ => {
                let output = self.zmeld(&format!("{what} {rest}"), &here);
                if what == "config" && (rest == "check" || rest.starts_with("check @")) {
                    let named = rest.replace("check @", "--config @").replace("check", "");
                    let plan = self.zmeld(&format!("plan {named}"), &here);
                    let [checked, planned] = [&output, &plan].map(|it| code(it) > 1);
                    let is_without_machine = text(&output.stdout).contains(", and no machine");
                    assert!(
                        checked == planned || is_without_machine,
                        "{place}: {plan:?}"
                    );
                }
                if what == "plan" && rest.contains("--json") {
                    crate::json::check(&serde_json::from_slice(&output.stdout).unwrap());
                }
                of_run(&output)
            }
        }
    }
}

fn of_run(output: &Output) -> Outcome {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let words: Vec<&str> = out.split_whitespace().collect();
    let mut lines = vec![
        format!("code {}", code(output)),
        format!("out {}", words.join(" ")),
    ];
    let kind = |line: &str| {
        if line.contains("notice: ") {
            "notice"
        } else {
            "err"
        }
    };
    lines.extend(err.lines().map(|line| format!("{} {line}", kind(line))));
    lines.push(format!("said {}", err.replace('\n', " ")));
    lines.extend((code(output) == 0 && err.is_empty()).then(|| "fine".to_owned()));
    lines.into_iter().collect()
}
