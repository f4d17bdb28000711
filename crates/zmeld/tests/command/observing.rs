//! `status`, `watch`, `meld`, `metrics` and `config`, on machines that are
//! directories: what they print, how they end, and that they change nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use serde_json::Value;

use crate::run::{code, folder, json, run, str, text, write, zmeld};

#[path = "../../../zmeld-setup/tests/machine/mod.rs"]
mod machine;

use machine::{plant, put, MACHINES};

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

fn findings(status: &Value, id: &str) -> Vec<String> {
    let all = status["findings"].as_array().unwrap();
    all.iter()
        .filter(|finding| finding["id"] == id)
        .map(|finding| {
            format!(
                "{}: {}",
                finding["subject"].as_str().unwrap(),
                finding["what"].as_str().unwrap()
            )
        })
        .collect()
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
fn check_ends_with_1_where_there_is_a_finding_that_counts() {
    let (dir, _) = plant("7.2");
    let root = str(dir.path());
    let status = json(&["status", "--root", root, "--json"]);
    assert!(!findings(&status, "verify-mismatch").is_empty());
    let shown = run(&["status", "--root", root]);
    let shown = text(&shown.stdout);
    assert!(shown.contains("Critical: [verify-mismatch]"), "{shown}");
    for check in ["--check", "--check=warning", "--check=critical"] {
        assert_eq!(code(&run(&["status", "--root", root, check])), 1, "{check}");
    }
    // What is critical is gone; the rest stays.
    let meld_stat = dir.path().join("sys/block/zmeld0/meld_stat");
    let stat = fs::read_to_string(&meld_stat).unwrap();
    let line = stat.lines().find(|line| line.starts_with("mismatches"));
    let line = line.unwrap();
    assert!(line.ends_with(" 3"), "{stat}");
    fs::write(&meld_stat, stat.replace(line, "mismatches 0")).unwrap();
    let critical = run(&["status", "--root", root, "--check=critical"]);
    assert_eq!(code(&critical), 0, "{}", text(&critical.stdout));
    assert_eq!(code(&run(&["status", "--root", root, "--check"])), 1);
    // A configuration that cannot be read is no all-clear.
    fs::create_dir_all(dir.path().join("etc")).unwrap();
    fs::write(dir.path().join("etc/zmeld.toml"), "[tier").unwrap();
    assert_eq!(
        code(&run(&["status", "--root", root, "--check=critical"])),
        1
    );
    // Only this machine's counters are noted.
    assert!(!dir.path().join("run/zmeld/counters.json").exists());
}

#[test]
fn status_says_what_it_could_not_read() {
    let empty = folder();
    let output = run(&["status", "--root", str(empty.path())]);
    assert_eq!(code(&output), 2);
    assert!(text(&output.stderr).contains("holds no machine's files"));

    let (dir, _) = plant("6.12");
    put(
        dir.path(),
        "/etc/zmeld.toml",
        "[tier.ram]\nkind = \"floppy\"\n",
    );
    put(dir.path(), "/run/zmeld/state.json", "{");
    let root = str(dir.path());
    let status = json(&["status", "--root", root, "--json"]);
    let problem = status["configuration_problem"].as_str().unwrap();
    assert!(problem.contains("floppy"), "{problem}");
    let problem = status["journal_problem"].as_str().unwrap();
    assert!(problem.contains("/run/zmeld/state.json"), "{problem}");
    let out = text(&run(&["status", "--root", root]).stdout);
    assert!(
        out.contains("the configuration was not compared with"),
        "{out}"
    );
    assert!(out.contains("what zmeld up did is not known"), "{out}");
}

/// A journal that says that the tier of that configuration was set up on that device.
fn journal(root: &Path, config: &str, device: &str, complete: bool) -> String {
    use zmeld_setup::plan::{Options, Plan};
    let config = zmeld_config::Config::from_text("x".as_ref(), config).unwrap();
    let host = zmeld_linux::Host::at(root);
    let plan = Plan::new(&host, &config.config, None, &Options::default()).unwrap();
    let tier = plan.groups.iter().find(|it| it.name == "tier.ram").unwrap();
    let records = tier.steps.iter().map(|planned| {
        let mut record = serde_json::json!({
            "group": "tier.ram",
            "step": &planned.step,
            "done": true,
        });
        if record["step"]["do"] == "add-device" {
            record["outcome"] = device.into();
        }
        record
    });
    serde_json::json!({
        "schema": "zmeld.state/1",
        "boot": "",
        "complete": complete,
        "config": config.config,
        "records": records.collect::<Vec<_>>(),
    })
    .to_string()
}

#[test]
fn status_knows_from_the_journal_what_was_applied() {
    let (dir, _) = plant("7.2");
    put(dir.path(), "/sys/class/zmeld-control/hot_add", "");
    put(dir.path(), "/dev/zmeld0", "");
    let root = str(dir.path());
    let read = |name: &str| {
        let path = dir.path().join("sys/block/zmeld0").join(name);
        fs::read_to_string(path).unwrap_or_default()
    };
    let limit = read("mm_stat")
        .split_whitespace()
        .nth(3)
        .unwrap()
        .to_owned();
    let config = format!(
        "[tier.ram]\nkind = \"zmeld\"\ncodec = \"zstd\"\nmeld = \"manual\"\n\
         size = \"{}\"\nmemory_limit = \"{limit}\"\npriority = 32767\n",
        read("disksize").trim()
    );
    let not_applied = |args: &[&str]| {
        let status = json(&[&["status", "--root", root, "--json"], args].concat());
        (findings(&status, "not-applied"), status)
    };
    // Nothing is asked for.
    assert_eq!(not_applied(&[]).0, Vec::<String>::new());
    // A file asks, and nothing was set up: who has that priority is somebody else.
    put(dir.path(), "/etc/zmeld.toml", &config);
    assert_eq!(not_applied(&[]).0, ["ram: it is asked for, and not set up"]);
    // The journal says which device it is.
    let of_device = |device, complete| {
        let journal = journal(dir.path(), &config, device, complete);
        put(dir.path(), "/run/zmeld/state.json", journal);
    };
    of_device("zmeld0", true);
    let (found, status) = not_applied(&[]);
    assert_eq!(
        found,
        ["zmeld0: zmeld up would set its comp_algorithm to zstd"]
    );
    assert_eq!(status["tiers"][0]["set_up_as"], "ram");
    let out = text(&run(&["status", "--root", root]).stdout);
    assert!(out.contains("set up as"), "{out}");
    // Without a file, what up was given counts.
    fs::remove_file(dir.path().join("etc/zmeld.toml")).unwrap();
    assert_eq!(
        not_applied(&[]).0,
        ["zmeld0: zmeld up would set its comp_algorithm to zstd"]
    );
    // A file without tiers leaves them; what it tunes is compared.
    put(
        dir.path(),
        "/etc/zmeld.toml",
        "[tunables]\npage_cluster = 9\n",
    );
    assert_eq!(
        not_applied(&[]).0,
        [
            "zmeld0: zmeld up would set its comp_algorithm to zstd",
            "vm.page-cluster: zmeld up would set /proc/sys/vm/page-cluster to 9"
        ]
    );
    fs::remove_file(dir.path().join("etc/zmeld.toml")).unwrap();
    // Somebody switched it off; a run was interrupted.
    of_device("zmeld7", false);
    assert_eq!(
        not_applied(&[]).0,
        [
            "zmeld up: it was interrupted, and only a part is set up",
            "ram: it was set up and is not swapped to any more"
        ]
    );
}

#[test]
fn watch_says_what_it_would_do_and_does_nothing() {
    let (dir, _) = plant("7.2");
    let root = str(dir.path());
    let idle = run(&["watch", "--once", "--root", root]);
    assert_eq!(code(&idle), 2);
    assert!(text(&idle.stderr).contains("there is nothing to watch"));
    put(
        dir.path(),
        "/etc/zmeld.toml",
        "[watch.meld]\nevery = \"1min\"\nduplicates_min = \"1%\"\n\
         [watch.recompress]\npages = \"huge\"\nidle_after = \"1s\"\n",
    );
    let before = contents(dir.path());
    let output = run(&["watch", "--once", "--dry-run", "--root", root]);
    let said = text(&output.stderr);
    assert_eq!(code(&output), 0, "{said}");
    assert!(said.contains("would") && said.contains("because"), "{said}");
    assert!(output.stdout.is_empty());
    assert_eq!(before, contents(dir.path()));
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
        while !figures.exists() {
            assert!(begin.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(20));
        }
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        let status = child.wait().unwrap();
        assert!(status.success(), "{signal}: {status}");
        assert!(begin.elapsed() < Duration::from_secs(40));
        let text = fs::read_to_string(&figures).unwrap();
        assert!(text.contains("zmeld_tier_stored_bytes{"), "{text}");
    }
}

#[test]
fn metrics_are_figures_with_their_meaning() {
    for (name, _) in MACHINES {
        let (dir, _) = plant(name);
        let output = run(&["metrics", "--root", str(dir.path())]);
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        let out = text(&output.stdout);
        let mut told = "";
        for line in out.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                told = rest.split(' ').next().unwrap();
            } else if !line.starts_with('#') {
                let metric = line.split(['{', ' ']).next().unwrap();
                assert_eq!(metric, told, "{name}: without HELP");
                let value = line.rsplit(' ').next().unwrap();
                assert!(value.parse::<f64>().is_ok(), "{line}");
            }
        }
        assert!(!told.is_empty(), "{name}: nothing");
    }
}

#[test]
fn melding_needs_a_device_that_melds() {
    let there = Path::new("/sys/block").read_dir().unwrap();
    if there
        .flatten()
        .any(|entry| entry.path().join("meld").exists())
    {
        eprintln!("SKIP: there is a device that melds");
        return;
    }
    for args in [&["meld"][..], &["meld", "/dev/zram0"], &["meld", "../x"]] {
        let output = run(args);
        let said = text(&output.stderr);
        assert!([2, 3].contains(&code(&output)), "{args:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
    }
}

#[test]
fn a_configuration_is_shown_as_it_is_read() {
    let folder = folder();
    let file = write(folder.path(), "a.toml", b"[tier.a]\nkind = \"zswap\"\n");
    let shown = json(&["config", "show", str(&file), "--json"]);
    assert_eq!(shown["schema"], "zmeld.config/1");
    let by_option = json(&["config", "show", "--config", str(&file), "--json"]);
    assert_eq!(shown["config"], by_option["config"]);
    // What is shown says the same when it is read again.
    let again = run(&["config", "show", str(&file)]);
    let again = write(folder.path(), "b.toml", &again.stdout);
    let again = json(&["config", "show", str(&again), "--json"]);
    assert_eq!(shown["config"], again["config"]);
    let none = run(&["config", "import", "--root", str(folder.path())]);
    assert_eq!(code(&none), 2);
    assert!(text(&none.stderr).contains("nothing to take over"));
}
