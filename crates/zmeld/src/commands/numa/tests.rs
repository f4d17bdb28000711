//! What users write and get: scenario files and their errors, machines, JSON, exit codes.

use std::fs;
use std::path::PathBuf;

use clap::Parser;
use zmeld_numa::machine::{NumaMachine, Slit};
use zmeld_numa::scenario::ScenarioText;
use zmeld_numa::study;
use zmeld_report::Style;

use super::{carry_out_on, Error, NumaArgs};
use crate::exit::Outcome;

#[derive(Parser)]
struct Numa {
    #[command(flatten)]
    args: NumaArgs,
}

fn numa(words: &[&str]) -> (Result<Outcome, Error>, String) {
    let words = ["numa"].iter().chain(words).chain(["--quiet"].iter());
    let args = Numa::try_parse_from(words)
        .expect("arguments that parse")
        .args;
    let mut out = Vec::new();
    let result = carry_out_on(args, &mut out, &Style::plain(100));
    (result, String::from_utf8(out).expect("UTF-8"))
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir()
        .join(format!("zmeld-numa-{}", std::process::id()))
        .join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn refused(toml: &str) -> String {
    match ScenarioText::new(toml.to_owned(), "my.toml".into()).and_then(|source| source.scenario())
    {
        Ok(_) => panic!("accepted: {toml}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn scenarios_are_refused_by_file_line_and_column() {
    for (toml, starts, says) in [
        (
            "[workload]\nprocesses = 5\nsize = 3\n",
            "my.toml: line 3, column 1",
            "unknown field `size`",
        ),
        (
            "seed = 1\n[workload]\naccess_share = 1.5\n",
            "my.toml: line 3, column 16",
            "access_share is 1.5",
        ),
        (
            "[scheduler]\nslice_ms = 0.0\n",
            "my.toml: line 2, column 12",
            "slice_ms",
        ),
        (
            "[policy.full]\nstop_ms = -1.0\n",
            "my.toml: line 2, column 11",
            "stop_ms",
        ),
        ("policies = [\"fool\"]\n", "my.toml: line 1", "fool"),
        ("[workload\n", "my.toml: line 1", ""),
        (
            "replications = 0\n",
            "my.toml: line 1, column 16",
            "at least one",
        ),
        (
            "[machine]\nslit = [[10, 20], [20]]\n",
            "my.toml: ",
            "row 1: 1 columns where 2",
        ),
        (
            "[machine]\nslit = [[10, 20], [20, 11]]\n",
            "my.toml: ",
            "row 1, column 1: 11",
        ),
        (
            "[machine]\nslit = [[10, 9], [20, 10]]\n",
            "my.toml: ",
            "row 0, column 1: 9",
        ),
        (
            "[machine]\nfrom = \"altx\"\n",
            "my.toml: ",
            "no machine is called \"altx\"",
        ),
        (
            "[machine]\nprocessors = [1, 2]\n",
            "my.toml: ",
            "processors: 2 entries for 4 nodes",
        ),
        (
            "[machine.costs]\naccess_ns = 0.0\n",
            "my.toml: ",
            "access_ns is 0",
        ),
        (
            "[workload]\nstart = { place = \"on-node\", node = 7 }\n",
            "my.toml: line 2",
            "node 7",
        ),
    ] {
        let message = refused(toml);
        assert!(
            message.starts_with(starts),
            "{message:?} does not start with {starts:?}"
        );
        assert!(message.contains(says), "{message:?} does not say {says:?}");
    }
}

#[test]
fn machines_are_read_from_numactl_and_sys() {
    let text = "available: 2 nodes (0-1)\nnode 0 cpus: 0 1 2 3\nnode 0 size: 1024 MB\nnode 0 free: 3 MB\n\
                node 1 cpus:\nnode 1 size: 2048 MB\nnode 1 free: 3 MB\nnode distances:\nnode   0   1\n  0:  10  17\n  1:  28  10\n";
    let machine = NumaMachine::from_numactl(text, "saved").unwrap();
    assert_eq!(machine.processors, [4, 0]);
    assert_eq!(machine.memory_pages, [Some(262_144), Some(524_288)]);
    assert_eq!(
        (machine.slit.distance(0, 1), machine.slit.distance(1, 0)),
        (17, 28)
    );
    let broken = text.replace("10  17", "10  x");
    let error = NumaMachine::from_numactl(&broken, "saved")
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("saved: line 10"), "{error}");

    let dir = folder("sys");
    for (node, distance, cpus) in [(0, "10 21", "0-2,5"), (1, "21 10", "3,4")] {
        let node_dir = dir.join(format!("node{node}"));
        fs::create_dir_all(&node_dir).unwrap();
        fs::write(node_dir.join("distance"), format!("{distance}\n")).unwrap();
        fs::write(node_dir.join("cpulist"), format!("{cpus}\n")).unwrap();
        fs::write(
            node_dir.join("meminfo"),
            format!("Node {node} MemTotal:        4096 kB\n"),
        )
        .unwrap();
    }
    let machine = NumaMachine::from_sysfs(&dir).unwrap();
    assert_eq!(
        (machine.processors, machine.memory_pages),
        (vec![4, 2], vec![Some(1024), Some(1024)])
    );
    fs::write(dir.join("node1/distance"), "21 10 10\n").unwrap();
    assert!(NumaMachine::from_sysfs(&dir)
        .unwrap_err()
        .to_string()
        .contains("row 1: 3 columns"));
    assert!(Slit::new(vec![], "none").is_err());
}

#[test]
fn thresholds_and_pages() {
    let dir = folder("pages");
    let html = dir.join("page.html");
    let args = [
        "compare",
        "--replications",
        "4",
        "--policies",
        "linux,on-demand",
        "--html",
        html.to_str().unwrap(),
    ];
    assert_eq!(
        numa(&[&args[..], &["--min-gain", "99"]].concat())
            .0
            .unwrap(),
        Outcome::Missed
    );
    assert_eq!(
        numa(&[&args[..], &["--min-gain", "-99"]].concat())
            .0
            .unwrap(),
        Outcome::Done
    );
    assert!(fs::read_to_string(&html).unwrap().contains("on-demand"));
    for words in [["--policies", "nonsense"], ["--set", "workload.processes"]] {
        assert!(numa(&[&["compare"][..], &words].concat()).0.is_err());
    }
    for words in [&["machines"][..], &["machines", "cxl-far"], &["policies"]] {
        assert!(numa(words).1.len() > 200, "{words:?}");
    }
}

#[test]
fn the_study_has_every_point_and_its_claims_are_judged_by_its_runs() {
    let source = study::source().unwrap();
    let scenario = source.scenario().unwrap();
    assert_eq!(scenario.replications, 200);
    for free in &scenario.free {
        let value = source
            .value(&free.path)
            .unwrap_or_else(|| panic!("{} is not in the scenario", free.path));
        assert!(
            free.grid.is_empty() || free.grid.contains(value),
            "{}: {value} is not in its grid",
            free.path
        );
    }
    let points = study::points();
    for claim in study::CLAIMS {
        assert!(points.contains(&claim.point), "{claim:?}");
    }
    let one = study::reproduce(&source, Some(2), 0, &|_, _| ()).unwrap();
    for judged in &one.claims {
        let off = (judged.ours.value - judged.claim.published).abs();
        assert_eq!(
            judged.agrees,
            off <= judged.claim.tolerance.of(judged.claim.published)
        );
    }
    // Without the cost of a move, full is no worse than linux: the verdicts come from the runs.
    let mut free_moves = source.clone();
    free_moves
        .set(&[("policy.full.page_ms".into(), toml::Value::Float(0.0))])
        .unwrap();
    let other = study::reproduce(&free_moves, Some(2), 0, &|_, _| ()).unwrap();
    let full = |r: &study::Reproduction| {
        r.claims
            .iter()
            .filter(|j| j.agrees && j.claim.published >= 24.0)
            .count()
    };
    assert_eq!(full(&other), 0);
    assert!(full(&one) > 0);
}
