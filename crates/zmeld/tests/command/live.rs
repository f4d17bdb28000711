//! Live memory of other users.

use std::io::Read;
use std::process::{Command, Stdio};

use zmeld_report::units::bytes;

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
    let script = "sleep 600 & own=$!; \"$0\" scan --codecs lz4 --json; kill $own";
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
fn quiet_leaves_out_the_progress_alone() {
    let mine = std::process::id().to_string();
    for (quiet, progress) in [(&[][..], true), (&["--quiet"], false)] {
        let mut command = zmeld(&["scan", "--pid", &mine, "--cold", "1"]);
        let output = command.args(quiet).output().unwrap();
        let errors = text(&output.stderr);
        assert_eq!(code(&output), 0, "{errors}");
        assert_eq!(errors.contains("s left"), progress, "{errors}");
        let results = text(&output.stdout);
        assert!(
            results.starts_with("zmeld scan of the memory of process"),
            "{results}"
        );
    }
}

/// The command, and its process that reads.
#[test]
fn a_scan_is_none_of_what_it_finds() {
    let tree = std::process::id().to_string();
    let found = json(&["scan", "--json", "--tree", &tree, "--codecs", "lz4"]);
    let skipped = found["skipped"].as_array().unwrap().iter();
    let mut own = skipped.filter(|it| it["reason"] == "the scanning process itself");
    assert_eq!(own.next().unwrap()["processes"], 2, "{found}");
}

/// Shells of one name, one of which has pages twice.
#[test]
fn what_programs_have_is_what_was_read() {
    let shell = |makes: &str| {
        let script = format!("it=$({makes}); echo; read -r _");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).stdin(Stdio::piped());
        let mut shell = shell.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = [0];
        shell
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut said)
            .unwrap();
        shell
    };
    let mut shells = [
        shell("head -c 4500000 /dev/urandom | base64 -w 0"),
        shell("yes 0123456789abc | head -c 6000000"),
    ];
    let pids = shells.each_ref().map(|it| it.id().to_string()).join(",");
    let scan = ["scan", "--pid", &pids, "--codecs", "zstd"];
    let shown = text(&run(&scan).stdout);
    let csv = text(&run(&[&scan[..], &["--csv", "--programs"]].concat()).stdout);
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let found = json(&[&scan[..], &["--json", "--html", str(&page)]].concat());
    let page = std::fs::read_to_string(page).unwrap();
    for it in &mut shells {
        it.kill().unwrap();
        it.wait().unwrap();
    }
    let page_size = found["page_size"].as_u64().unwrap();
    let programs = found["programs"].as_array().unwrap();
    let sum = |key| {
        programs
            .iter()
            .map(|it| it[key].as_u64().unwrap())
            .sum::<u64>()
    };
    let pages = |key: &str| found["pages"][key].as_u64().unwrap();
    assert_eq!(
        sum("bytes"),
        (pages("unique") + pages("duplicate")) * page_size
    );
    assert_eq!(sum("duplicate_bytes"), pages("duplicate") * page_size);
    assert_eq!(sum("processes"), 2);
    assert!(sum("duplicate_bytes") >= 5_000_000, "{programs:?}");
    // Compressed is what the whole scan says.
    let codec = &found["codecs"][0];
    let predicted = codec["memory_at_scale_bytes"].as_f64().unwrap();
    let told = sum("compressed_bytes") as f64;
    assert!(
        (0.9..1.1).contains(&(told / predicted)),
        "{told} {predicted}"
    );
    assert!(shown.contains("WHO WOULD GAIN"), "{shown}");
    let mut rows = csv.lines();
    assert_eq!(
        rows.next(),
        Some("program,processes,control_group,pages_bytes,ratio,saved_bytes,identical_bytes")
    );
    for (program, row) in programs.iter().zip(rows) {
        let cells: Vec<&str> = row.split(',').collect();
        let is = |at: usize, key: &str| cells[at].parse::<u64>().ok() == program[key].as_u64();
        assert!(is(1, "processes") && is(3, "bytes"), "{row} {program}");
        assert!(is(6, "duplicate_bytes"), "{row} {program}");
        assert!(
            shown.contains(&bytes(program["bytes"].as_u64().unwrap())),
            "{shown}"
        );
    }
    // The page draws what the result says.
    let size = |pages: u64| bytes(pages * page_size);
    let raw = codec["melded_incompressible_pages"].as_u64().unwrap();
    for (part, value) in [
        ("duplicate", size(pages("duplicate"))),
        ("compressible", size(pages("unique") - raw)),
        (
            "RAM taken",
            bytes(programs[0]["compressed_bytes"].as_u64().unwrap()),
        ),
    ] {
        assert!(
            page.contains(&format!("title=\"{part}: {value}\"")),
            "{part} {value}"
        );
    }
}
