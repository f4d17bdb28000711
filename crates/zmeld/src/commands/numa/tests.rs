//! Parts that no command shows: machines as the kernel describes them, and the published study.

use std::path::Path;

use zmeld_linux::Host;
use zmeld_numa::machine::NumaMachine;
use zmeld_numa::pages::lists;
use zmeld_numa::pages::study::reproduction;
use zmeld_numa::scenario::ScenarioText;
use zmeld_numa::study;
use zmeld_numa::workload::{ProcessPlan, StartNode, Workload};

#[test]
fn machines_are_read_from_sys() {
    let (dir, host) = Host::planted(&[]);
    let dir = dir.path();
    for (node, distance, cpus) in [(0, "10 21", "0-2,5"), (1, "21 10", "3,4")] {
        let put = |file, text| host.plant(format!("/node{node}/{file}"), text);
        put("distance", format!("{distance}\n"));
        put("cpulist", format!("{cpus}\n"));
        put("meminfo", format!("Node {node} MemTotal:        4096 kB\n"));
    }
    let machine = NumaMachine::from_sysfs(dir).unwrap();
    assert_eq!(
        (machine.processors, machine.memory_pages),
        (vec![4, 2], vec![Some(1024), Some(1024)])
    );
    let refused = |dir: &Path| NumaMachine::from_sysfs(dir).unwrap_err().to_string();
    host.plant("/node1/distance", "21 10 10\n");
    assert!(refused(dir).contains("row 1: 3 columns"));
    host.plant("/node1/distance", "21 ten\n");
    assert!(refused(dir).ends_with("node1/distance: \"ten\" is no distance"));
    for without in ["node1", "nowhere"] {
        assert!(refused(&dir.join(without)).contains("this kernel has no NUMA"));
    }
}

/// The kernel leaves out the numbers of what is not there, and 255 is no distance.
#[test]
fn nodes_have_the_kernels_numbers_and_some_are_unreachable() {
    let (dir, host) = Host::planted(&[]);
    for (node, distance) in [(0, "10 20 255"), (9, "20 10 40"), (11, "255 40 10")] {
        let put = |file, text| host.plant(format!("/node{node}/{file}"), text);
        put("distance", format!("{distance}\n"));
        put("cpulist", format!("{node}\n"));
        put("meminfo", format!("Node {node} MemTotal:        4096 kB\n"));
    }
    let machine = NumaMachine::from_sysfs(dir.path()).unwrap();
    assert_eq!(machine.node_numbers, [0, 9, 11]);
    let page = lists::machine(&machine).to_text(&zmeld_report::Style::plain(80));
    let rows: Vec<&str> = page.lines().filter(|it| it.contains("MiB")).collect();
    assert_eq!(rows.len(), 3, "{page}");
    for (row, (number, distances)) in rows.iter().zip([
        ("0", "10 20 unreachable"),
        ("9", "20 10 40"),
        ("11", "unreachable 40 10"),
    ]) {
        assert_eq!(row.split_whitespace().next(), Some(number));
        assert!(row.trim_end().ends_with(distances), "{row}");
    }
    let refused = machine.check_reachable().unwrap_err().to_string();
    assert!(refused.contains("node 11 is unreachable from node 0"));
    // A node is asked for by its number.
    for (node, is_there) in [(9, true), (1, false)] {
        let workload = Workload {
            start: StartNode::OnNode { node },
            ..Workload::default()
        };
        assert_eq!(workload.check(&machine).is_ok(), is_there, "{node}");
        let started = |it: ProcessPlan| it.start == Some(1);
        let plans = || workload.plans(&machine, 1, 0).into_iter();
        assert!(!is_there || plans().all(started));
    }
}

#[test]
fn the_study_has_every_point_and_its_claims_are_judged_by_its_runs() {
    let source = study::source().unwrap();
    let scenario = source.scenario().unwrap();
    assert_eq!(scenario.replications, 200);
    let points = study::points();
    for claim in study::CLAIMS {
        assert!(points.contains(&claim.point), "{claim:?}");
    }
    let one = study::reproduce(&source, Some(2), &|_, _| ()).unwrap();
    for judged in &one.claims {
        let off = (judged.ours.value - judged.claim.published).abs();
        assert_eq!(
            judged.agrees,
            off <= judged.claim.tolerance.of(judged.claim.published)
        );
        let bound = judged.claim.tolerance.of(judged.claim.published);
        let beyond = |ours: f64| match ours - judged.claim.published {
            more if more > bound => 1,
            less if less < -bound => -1,
            _ => 0,
        };
        let ends = [beyond(judged.ours.low()), beyond(judged.ours.high())];
        assert_eq!(judged.is_decided, ends[0] == ends[1], "{judged:?}");
    }
    // Its kind comes first, its limits with it, and each verdict stands beside its row.
    let open = one.claims.iter().filter(|it| !it.is_decided).count();
    let page = reproduction(&one, &scenario).to_text(&zmeld_report::Style::plain(80));
    let lead = page.split("\n\n").nth(1).unwrap().replace('\n', " ");
    assert!(lead.starts_with("For research: "), "{lead}");
    assert!(lead.contains("A simulation of published"), "{lead}");
    assert!(
        lead.contains("Linux 2.6 and processes of 50 to 500 KB"),
        "{lead}"
    );
    let precision = format!("{open} of the 21 verdicts on numbers are open: with 2 replications");
    assert!(open > 0 && lead.contains(&precision), "{lead}");
    let begin = page.find("Published numbers beside ours").unwrap();
    let table = &page[begin..begin + page[begin..].find("Percent of no-balancing's").unwrap()];
    let figures = ["run time: ", "size: ", "access shares: ", "load: "];
    let is_first = |row: &str| figures.iter().any(|figure| row.starts_with(figure));
    let beside = |row: &&str| is_first(row) && (row.contains("agrees") || row.contains("open,"));
    assert_eq!(table.lines().filter(beside).count(), 21, "{table}");
    // One replication decides nothing.
    let single = study::reproduce(&source, Some(1), &|_, _| ()).unwrap();
    let page = reproduction(&single, &scenario).to_text(&zmeld_report::Style::plain(80));
    assert!(
        page.replace('\n', " ").contains("No verdict is decided"),
        "{page}"
    );
    // Without the cost of a move, full is no worse than no-balancing: the verdicts come from the runs.
    let text = study::SCENARIO.replace("\npage_ms = 275.0\n", "\npage_ms = 0.0\n");
    assert_ne!(text, study::SCENARIO);
    let free_moves = ScenarioText::new(text, "free moves".into()).unwrap();
    let other = study::reproduce(&free_moves, Some(2), &|_, _| ()).unwrap();
    let full = |r: &study::Reproduction| {
        r.claims
            .iter()
            .filter(|j| j.agrees && j.claim.published >= 24.0)
            .count()
    };
    assert_eq!(full(&other), 0);
    assert!(full(&one) > 0);
}
