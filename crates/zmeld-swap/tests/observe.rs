//! Observations, findings and metrics on machines of several kernels, whole and
//! damaged.

mod machine;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use machine::{files, plant, put, MACHINES};
use zmeld_linux::Host;
use zmeld_swap::config::{Config, Trap};
use zmeld_swap::findings::{findings, Severity, RULES};
use zmeld_swap::metrics;
use zmeld_swap::observe::{lately, Observation, Since, TierKind};
use zmeld_swap::outstanding::Outstanding;

const PAGE: u64 = 4096;

fn ids(host: &Host) -> Vec<&'static str> {
    let now = Observation::read(host, PAGE);
    let mut ids: Vec<_> = findings(&now, &Outstanding::default())
        .iter()
        .map(|finding| finding.id)
        .collect();
    ids.dedup();
    ids
}

#[test]
fn each_machine_has_its_findings_and_no_others() {
    for (kernel, expected) in [
        (
            "6.1",
            vec![
                "failed-writes",
                "oom-kills",
                "zram-with-zswap",
                "lru-inversion",
                "no-memory-limit",
                "pressure",
                "stale-slots",
                "same-filled",
            ],
        ),
        (
            "6.12",
            vec!["group-refused", "mounted-without-discard", "unused-rule"],
        ),
        // Recorded with 15 MiB in swap: too few to judge their ratio by.
        ("6.18", vec!["read-ahead"]),
        (
            "7.2",
            vec![
                "verify-mismatch",
                "oversized",
                "unused-rule",
                "duplicates-unused",
            ],
        ),
    ] {
        let (_dir, host) = plant(kernel);
        assert_eq!(ids(&host), expected, "{kernel}");
    }
}

#[test]
fn tiers_stand_in_the_order_in_which_pages_meet_them() {
    let (_dir, host) = plant("6.1");
    let tiers = Observation::read(&host, PAGE).tiers();
    let kinds: Vec<_> = tiers.iter().map(|tier| tier.kind).collect();
    assert_eq!(
        kinds,
        [TierKind::Zswap, TierKind::Zram, TierKind::EncryptedDisk]
    );
    let zswap = &tiers[0];
    assert_eq!(zswap.same_filled_bytes, Some(2048 * PAGE));
    assert_eq!(zswap.ratio, Some(4.0));
    let zram = &tiers[1];
    assert_eq!(zram.codec.as_deref(), Some("lz4"));
    assert_eq!(zram.limit_bytes, None);
    assert_eq!(zram.writeback_bytes, None);
    assert_eq!(zram.metadata_bytes, Some(4_121_952_256 / PAGE * 16));

    let (_dir, host) = plant("7.2");
    let tiers = Observation::read(&host, PAGE).tiers();
    assert_eq!(tiers[0].kind, TierKind::Zmeld);
    assert_eq!(tiers[0].writeback_bytes, Some(10 << 20));
    let (_dir, host) = plant("6.12");
    let now = Observation::read(&host, PAGE);
    let tiers = now.tiers();
    assert_eq!(tiers[1].name, "/swap files/one");
    assert_eq!(tiers[1].kind, TierKind::Disk);
    assert_eq!(tiers[2].kind, TierKind::Device);
    assert_eq!(now.swaps[0].stand.file_system.as_deref(), Some("ext4"));
    assert_eq!(now.swaps[0].stand.layers[0].name, "nvme0n1p2");
    assert!(now.swaps[0].stand.layers[0].discards);
    assert_eq!(now.warnings, []);
}

/// What one device of 1 GiB gives, of which `stored` bytes take `used`, on a machine with
/// so much RAM available and so much in programs.
fn headroom(stored: u64, used: u64, limit: u64, available: u64, anonymous: u64) -> u64 {
    const GIB: u64 = 1 << 30;
    let root = tempfile::tempdir().unwrap();
    let line = |name: &str, bytes: u64| format!("{name}: {} kB\n", bytes >> 10);
    let memory = line("MemTotal", 4 * GIB) + &line("MemAvailable", available);
    put(
        root.path(),
        "/proc/meminfo",
        memory + &line("AnonPages", anonymous),
    );
    let used_kib = stored >> 10;
    let swaps = format!(
        "Filename Type Size Used Priority\n/dev/zram0 partition {} {used_kib} 100\n",
        GIB >> 10
    );
    put(root.path(), "/proc/swaps", swaps);
    let device = "/sys/block/zram0";
    put(root.path(), &format!("{device}/initstate"), "1\n");
    put(
        root.path(),
        &format!("{device}/disksize"),
        format!("{GIB}\n"),
    );
    let held = format!("{stored} {used} {used} {limit} {used} 0 0 0 0\n");
    put(root.path(), &format!("{device}/mm_stat"), held);
    let observation = Observation::read(&Host::at(root.path()), 4096);
    observation.headroom(&observation.tiers()).bytes
}

#[test]
fn headroom_ends_where_the_device_its_limit_or_ram_does() {
    const MIB: u64 = 1 << 20;
    // 768 MiB more at 4 to 1 leave three quarters.
    let at_the_size = headroom(256 * MIB, 64 * MIB, 0, 100 * MIB, 4096 * MIB);
    assert_eq!(at_the_size, (100 + 576) * MIB);
    // 36 MiB more are 144 MiB of pages.
    let at_the_limit = headroom(256 * MIB, 64 * MIB, 100 * MIB, 100 * MIB, 4096 * MIB);
    assert_eq!(at_the_limit, (100 + 108) * MIB);
    // Full of compressed pages: 4 times 120 MiB.
    let at_the_end_of_ram = headroom(256 * MIB, 64 * MIB, 0, 100 * MIB, 20 * MIB);
    assert_eq!(at_the_end_of_ram, (100 + 360) * MIB);
    // What does not compress gives nothing, however much room there is.
    let for_nothing = headroom(256 * MIB, 256 * MIB, 0, 100 * MIB, 4096 * MIB);
    assert_eq!(for_nothing, 100 * MIB);
    // A few pages say nothing.
    let of_a_few = headroom(8 * MIB, 40, 0, 100 * MIB, 4096 * MIB);
    assert_eq!(of_a_few, 100 * MIB);
    // Nothing is in it yet.
    assert_eq!(headroom(0, 0, 0, 100 * MIB, 4096 * MIB), 100 * MIB);
}

#[test]
fn differences_add_up() {
    let (_dir, host) = plant("6.1");
    let now = Observation::read(&host, PAGE);
    let found = now.differences();
    let stale = &found[0];
    assert_eq!(
        (stale.from, stale.to),
        ("used in /proc/swaps", "stored in the device")
    );
    assert_eq!(stale.from_bytes, 2_700_000 * 1024);
    assert_eq!(stale.to_bytes, 3_145_728_000 - PAGE);
    assert!(
        stale.reasons[1].contains("12 frees were missed"),
        "{stale:?}"
    );
    let taken = found.iter().find(|d| d.to == "RAM really taken").unwrap();
    assert_eq!(taken.to_bytes, 1_610_612_736 + 4_121_952_256 / PAGE * 16);
    // From 6.12 on zeros do not reach the device.
    let (_dir, host) = plant("7.2");
    let found = Observation::read(&host, PAGE).differences();
    assert!(found[0].reasons[0].contains("pages of zeros"), "{found:?}");
}

/// Bytes that a codec got wrong and were not used: no page is lost, and whoever accepts
/// findings does not accept that one.
#[test]
fn a_codec_that_encodes_wrongly_is_found() {
    let (dir, host) = plant("7.2");
    let now = Observation::read(&host, PAGE);
    let melding = now.devices[0].melding.as_ref().unwrap();
    assert_eq!(melding.check_writes, "auto");
    let path = "/sys/block/zmeld0/meld_stat";
    let stat = host.read(path).unwrap();
    let wrong = stat.replace("encode_errors            0", "encode_errors            2");
    assert_ne!(stat, wrong);
    put(dir.path(), path, wrong);
    let now = Observation::read(&host, PAGE);
    let accepting = Config {
        accept: vec![Trap::EncodeErrors],
        ..Config::default()
    };
    let all = findings(&now, &Outstanding::of(&accepting));
    let found = all.iter().find(|it| it.id == "encode-errors").unwrap();
    assert_eq!(found.severity, Severity::Critical);
    assert_eq!(found.subject, "zmeld0");
    assert!(found.evidence.starts_with("2 pages"), "{found:?}");
    assert!(found.remedy.contains("swapoff /dev/zmeld0"), "{found:?}");
}

#[test]
fn every_rule_is_known_by_one_name() {
    for (at, rule) in RULES.iter().enumerate() {
        assert!(RULES[..at].iter().all(|other| other.id != rule.id));
    }
    let severities: Vec<_> = RULES.iter().map(|rule| rule.severity).collect();
    assert!(severities.windows(2).all(|pair| pair[0] >= pair[1]));
    let manual = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/status.md"));
    let manual = manual.unwrap();
    for rule in RULES {
        assert!(
            manual.contains(&format!("`{}`", rule.id)),
            "docs/status.md lacks {}",
            rule.id
        );
    }
    assert_eq!(Severity::Critical.name(), "critical");
}

/// What no kernel writes, anywhere.
fn hostile() -> Vec<Vec<u8>> {
    let max = u64::MAX;
    let columns = format!("{max} {max} {max} {max} {max} {max} {max} {max} {max}\n");
    vec![
        b"".to_vec(),
        b"\n\n\n".to_vec(),
        b"-1 -1 -1 -1 -1 -1 -1 -1 -1\n".to_vec(),
        columns.into_bytes(),
        format!("{max}\n").into_bytes(),
        b"99999999999999999999999999999999\n".to_vec(),
        b"\xff\xfe\x00\x1b[2J\n".to_vec(),
        b"[] [[]] #: #1: [ ] : = \\ \\777 \\04\n".to_vec(),
        b"some avg10=nan avg60=inf avg300=-1 total=-1\nfull\n".to_vec(),
        format!("x\n{0} partition {1} {1} -9223372036854775808\n", "a", max).into_bytes(),
        format!("MemTotal: {max} kB\nSwapFree: {max} kB\nZswap: {max}\n").into_bytes(),
        vec![b'a'; 1 << 16],
        vec![b' '; 1 << 16],
    ]
}

#[test]
fn no_content_of_any_file_stops_an_observation() {
    for (kernel, text) in MACHINES {
        let (dir, host) = plant(kernel);
        for (path, contents) in files(text) {
            for bytes in hostile() {
                put(dir.path(), &path, &bytes);
                look(&host);
            }
            let at = dir.path().join(path.trim_start_matches('/'));
            fs::remove_file(&at).unwrap();
            look(&host);
            fs::create_dir(&at).unwrap();
            let now = look(&host);
            assert!(
                now.warnings.iter().any(|warning| warning.path == path)
                    || path.ends_with("/dev")
                    || path.ends_with("/partition")
                    || path.ends_with("/dm/name")
                    || path.ends_with("/meld")
                    || path.ends_with("/cgroup.controllers")
                    || path.contains("/proc/pressure/cpu")
                    || path.contains("same_filled_pages_enabled"),
                "{kernel}: nothing said of {path}"
            );
            fs::remove_dir(&at).unwrap();
            put(dir.path(), &path, contents);
        }
    }
}

fn look(host: &Host) -> Observation {
    let now = Observation::read(host, PAGE);
    let found = findings(&now, &Outstanding::default());
    let shown = serde_json::to_string(&(&now, now.tiers(), now.differences(), &found)).unwrap();
    assert!(!shown.contains('\x1b'));
    metrics::render(&now, &found);
    now
}

#[test]
fn an_empty_root_is_warnings_and_no_panic() {
    let dir = tempfile::tempdir().unwrap();
    let now = look(&Host::at(dir.path()));
    let said: Vec<_> = now.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "/proc/meminfo is missing",
            "/proc/swaps is missing",
            "/proc/sys/kernel/osrelease is missing",
            "/proc/vmstat is missing",
        ]
    );
    assert!(now.tiers().is_empty());
}

#[test]
fn a_stack_that_goes_in_circles_ends() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    put(
        root,
        "/proc/swaps",
        "Filename\n/dev/dm-0 partition 4096 0 5\n",
    );
    for (name, below) in [("dm-0", "dm-1"), ("dm-1", "dm-0")] {
        put(
            root,
            &format!("/sys/block/{name}/slaves/{below}/dev"),
            "1:1",
        );
    }
    put(root, "/sys/block/dm-1/slaves/zram0/dev", "2:1");
    put(root, "/sys/block/zram0/disksize", "4096");
    put(root, "/sys/block/dm-0/dm/uuid", "CRYPT-PLAIN-x");
    put(root, "/sys/block/dm-0/queue/discard_max_bytes", "0");
    let host = Host::at(root);
    let now = Observation::read(&host, PAGE);
    let mut names: Vec<_> = now.swaps[0]
        .stand
        .layers
        .iter()
        .map(|l| &l.name[..])
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["dm-0", "dm-1", "zram0"]);
    assert!(ids(&host).contains(&"discard-blocked"));
}

/// The parser of Prometheus' own Python library reads every metric of every machine.
#[test]
fn a_real_parser_takes_the_metrics() {
    let script = "import sys\n\
        from prometheus_client.parser import text_string_to_metric_families as parse\n\
        for f in parse(sys.stdin.read()):\n\
        \x20   for s in f.samples: print(s.name, f.type, s.value)\n";
    // The user's python3 may be another than the system's, which has the package.
    let has = |python: &&str| {
        Command::new(python)
            .args(["-c", "import prometheus_client"])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    let Some(python) = ["python3", "/usr/bin/python3"].into_iter().find(has) else {
        eprintln!("SKIP: python3 has no prometheus_client here");
        return;
    };
    for (kernel, _) in MACHINES {
        let (_dir, host) = plant(kernel);
        let now = Observation::read(&host, PAGE);
        let text = metrics::render(&now, &findings(&now, &Outstanding::default()));
        let mut child = Command::new(python)
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{kernel}: {text}");
        let read = String::from_utf8(output.stdout).unwrap();
        let samples = text.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(read.lines().count(), samples, "{kernel}");
        assert!(
            read.contains("zmeld_swap_out_pages_total counter"),
            "{read}"
        );
    }
}

#[test]
fn the_dashboard_asks_for_metrics_that_exist() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../packaging/grafana/zmeld.json"
    );
    let text = fs::read_to_string(path).unwrap();
    let board: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(board["schemaVersion"].as_u64().unwrap() >= 36);
    let mut ids = Vec::new();
    let mut asked = 0;
    for panel in board["panels"].as_array().unwrap() {
        ids.push(panel["id"].as_u64().unwrap());
        for key in ["title", "type", "description"] {
            assert!(!panel[key].as_str().unwrap().is_empty(), "{panel}");
        }
        let place = &panel["gridPos"];
        assert!(place["x"].as_u64().unwrap() + place["w"].as_u64().unwrap() <= 24);
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            for name in query
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .filter(|word| word.starts_with("zmeld_"))
            {
                asked += 1;
                let known = metrics::FAMILIES.iter().any(|family| family.name == name);
                assert!(known, "{name} in {query}");
            }
        }
    }
    assert!(asked > 20, "{asked}");
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "panel ids repeat");
}

/// Seconds since boot on the machine of a test.
fn uptime(root: &std::path::Path, seconds: u64) {
    put(root, "/proc/uptime", format!("{seconds}.00 1.00\n"));
    put(root, "/proc/sys/kernel/random/boot_id", "boot-1\n");
}

fn found(host: &Host, id: &str) -> Vec<String> {
    let now = Observation::read(host, PAGE);
    findings(&now, &Outstanding::default())
        .into_iter()
        .filter(|finding| finding.id == id)
        .map(|finding| format!("{}: {}", finding.subject, finding.evidence))
        .collect()
}

#[test]
fn notes_that_cannot_be_read_are_a_finding() {
    let (dir, host) = plant("6.1");
    assert_eq!(found(&host, "unreadable-notes"), [""; 0]);
    let long = "1".repeat((4 << 20) + 1);
    for text in ["{", &long] {
        put(dir.path(), "/run/zmeld/counters.json", text);
        let found = found(&host, "unreadable-notes");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("/run/zmeld/counters.json: "),
            "{found:?}"
        );
    }
}

/// A process that was killed once is not told of for weeks.
#[test]
fn what_happened_long_ago_is_no_finding_any_more() {
    let (dir, host) = plant("6.1");
    uptime(dir.path(), 1200);
    assert_eq!(found(&host, "oom-kills"), ["memory: 2 since boot"]);
    let note = |host: &Host| lately::note(host, &Observation::read(host, PAGE)).unwrap();
    note(&host);
    let noted = fs::read_to_string(dir.path().join("run/zmeld/counters.json")).unwrap();
    assert!(noted.contains("\"oom_kill\": 2"), "{noted}");
    // What an experiment has the kernel kill is no finding.
    uptime(dir.path(), 1500);
    let vmstat = dir.path().join("proc/vmstat");
    let text = fs::read_to_string(&vmstat).unwrap();
    fs::write(&vmstat, text.replace("oom_kill 2", "oom_kill 3")).unwrap();
    assert_eq!(found(&host, "oom-kills").len(), 1);
    lately::note_experiment(&host, 1).unwrap();
    assert_eq!(found(&host, "oom-kills"), [""; 0]);
    // A quarter of an hour later one more is killed.
    uptime(dir.path(), 2100);
    assert_eq!(found(&host, "oom-kills"), [""; 0]);
    let text = fs::read_to_string(&vmstat).unwrap();
    fs::write(&vmstat, text.replace("oom_kill 3", "oom_kill 4")).unwrap();
    assert_eq!(found(&host, "oom-kills"), ["memory: 1 in the last 15m 00s"]);
    note(&host);
    // An hour after that it is over.
    uptime(dir.path(), 2100 + 3600);
    assert_eq!(found(&host, "oom-kills"), [""; 0]);
    assert_eq!(found(&host, "failed-writes").len(), 0, "neither are writes");
    // Nobody noted anything, and the machine is up for long.
    fs::remove_file(dir.path().join("run/zmeld/counters.json")).unwrap();
    assert_eq!(found(&host, "oom-kills"), [""; 0]);
    let now = Observation::read(&host, PAGE);
    assert_eq!(now.lately.since, Since::Unknown);
    // Another boot's notes say nothing.
    note(&host);
    uptime(dir.path(), 60);
    put(dir.path(), "/proc/sys/kernel/random/boot_id", "boot-2\n");
    assert_eq!(found(&host, "oom-kills"), ["memory: 4 since boot"]);
}

#[test]
fn a_group_at_its_own_limit_is_not_the_machine() {
    let (dir, host) = plant("6.12");
    let root = dir.path();
    uptime(root, 600);
    let vmstat = root.join("proc/vmstat");
    let text = fs::read_to_string(&vmstat).unwrap();
    fs::write(&vmstat, text.replace("oom_kill 0", "oom_kill 4")).unwrap();
    let group = "/sys/fs/cgroup/web";
    for (name, value) in [
        ("memory.max", "104857600\n"),
        ("memory.current", "104800000\n"),
        (
            "memory.events",
            "low 0\nhigh 0\nmax 812\noom 3\noom_kill 3\n",
        ),
        (
            "memory.pressure",
            "some avg10=61.00 avg60=44.00 avg300=9.00 total=1\n\
             full avg10=50.00 avg60=40.00 avg300=8.00 total=1\n",
        ),
    ] {
        put(root, &format!("{group}/{name}"), value);
    }
    put(
        root,
        "/proc/pressure/memory",
        "some avg10=60.00 avg60=43.00 avg300=9.00 total=1\n\
         full avg10=1.00 avg60=1.00 avg300=1.00 total=1\n",
    );
    assert_eq!(
        found(&host, "group-oom-kills"),
        ["cgroup /web: 3 since boot; its own limit: 100 MiB"]
    );
    assert_eq!(found(&host, "oom-kills"), ["memory: 1 since boot"]);
    let pressure = found(&host, "pressure");
    assert_eq!(pressure.len(), 1, "{pressure:?}");
    assert!(pressure[0].starts_with("cgroup /web: "), "{pressure:?}");
    assert!(pressure[0].contains("100 MiB of 100 MiB") || pressure[0].contains("99.9 MiB"));
    // The machine is short itself: then it is said too.
    let meminfo = root.join("proc/meminfo");
    let text = fs::read_to_string(&meminfo).unwrap();
    fs::write(&meminfo, text.replace("3000000 kB", "300000 kB")).unwrap();
    assert_eq!(found(&host, "pressure").len(), 2);
}

/// The groups of version 1 do not say that their tasks wait, nor does one that is
/// gone: with memory to be had, it is not the machine that is short of it.
#[test]
fn who_waits_while_the_machine_has_memory_waits_for_a_groups() {
    let (dir, host) = plant("6.1");
    let root = dir.path();
    uptime(root, 600);
    let available = |kib: u64| {
        let meminfo = root.join("proc/meminfo");
        let text = fs::read_to_string(&meminfo).unwrap();
        let mut lines = text.lines();
        let line = lines.find(|it| it.starts_with("MemAvailable")).unwrap();
        let now = format!("MemAvailable: {kib} kB");
        fs::write(&meminfo, text.replace(line, &now)).unwrap();
    };
    available(3_000_000);
    let waiting = "some avg10=60.00 avg60=43.00 avg300=9.00 total=1\n\
                   full avg10=41.00 avg60=41.00 avg300=1.00 total=1\n";
    put(root, "/proc/pressure/memory", waiting);
    let said = found(&host, "pressure");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].contains("can be had; at their limits now: none"),
        "{said:?}"
    );
    let group = |name: &str| {
        let folder = format!("/sys/fs/cgroup/memory{name}");
        put(
            root,
            &format!("{folder}/memory.oom_control"),
            "oom_kill 0\n",
        );
        put(
            root,
            &format!("{folder}/memory.limit_in_bytes"),
            "104857600\n",
        );
        put(
            root,
            &format!("{folder}/memory.usage_in_bytes"),
            "104800000\n",
        );
    };
    put(
        root,
        "/sys/fs/cgroup/memory/memory.oom_control",
        "oom_kill 0\n",
    );
    mount_v1(root);
    group("/web");
    let said = found(&host, "pressure");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].ends_with("at their limits now: /web"), "{said:?}");
    group("/zmeld-lab-1");
    assert_eq!(found(&host, "pressure"), Vec::<String>::new());
    available(1000);
    let said = found(&host, "pressure");
    assert!(
        said.len() == 1 && !said[0].contains("can be had"),
        "{said:?}"
    );
}

/// The memory controller of version 1, where it usually is.
fn mount_v1(root: &Path) {
    let line = "31 24 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
    put(root, "/proc/self/mountinfo", line);
    let unlimited = "9223372036854771712\n";
    put(
        root,
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        unlimited,
    );
}

/// Machines mount them where they like; those that are there and not seen are told of.
#[test]
fn groups_are_found_wherever_they_are_mounted() {
    let (dir, host) = plant("6.1");
    let root = dir.path();
    let paths = |host: &Host| -> Vec<String> {
        let groups = Observation::read(host, PAGE).groups;
        groups.into_iter().map(|group| group.path).collect()
    };
    assert_eq!(paths(&host), Vec::<String>::new());
    put(
        root,
        "/proc/self/mountinfo",
        "31 24 0:28 / /cg\\040s rw - cgroup2 none rw\n",
    );
    put(root, "/cg s/cgroup.controllers", "cpu memory\n");
    put(root, "/cg s/app/memory.swap.current", "4096\n");
    put(root, "/cg s/app/memory.swap.max", "4194304\n");
    assert_eq!(paths(&host), ["/app"]);
    let warned = |host: &Host| {
        let warnings = Observation::read(host, PAGE).warnings;
        warnings.iter().any(|it| it.path == "/proc/self/mountinfo")
    };
    assert!(!warned(&host));
    put(root, "/proc/self/mountinfo", "");
    put(root, "/proc/cgroups", "memory\t0\t25\t1\n");
    assert!(warned(&host));
}

/// A group that has nearly all the swap it may have is told of before it is refused any.
#[test]
fn a_group_whose_swap_is_nearly_full_is_found() {
    let (dir, host) = plant("6.12");
    let root = dir.path();
    let near = |host: &Host| found(host, "near-limit");
    // What is refused has a finding of its own.
    assert_eq!(near(&host), Vec::<String>::new());
    put(root, "/sys/fs/cgroup/db/memory.swap.max", "4194304\n");
    put(root, "/sys/fs/cgroup/db/memory.swap.current", "2097152\n");
    assert_eq!(near(&host), Vec::<String>::new());
    put(root, "/sys/fs/cgroup/db/memory.swap.current", "4000000\n");
    put(root, "/sys/fs/cgroup/db/memory.current", "8388608\n");
    put(root, "/sys/fs/cgroup/db/memory.max", "16777216\n");
    assert_eq!(
        near(&host),
        ["cgroup /db: 3.81 MiB of 4.00 MiB of swap (95.4 %); 8.00 MiB of 16.0 MiB of memory"]
    );
}

/// One reading of hibernation, for the plan and for status.
#[test]
fn a_machine_that_hibernates_says_so_on_its_command_line_or_in_sys_power() {
    for (line, power, is_found) in [
        ("quiet resume=UUID=12", "0:0", true),
        ("quiet", "8:2", true),
        ("quiet noresume", "8:2", false),
        ("quiet", "0:0", false),
    ] {
        let (dir, host) = plant("7.2");
        put(dir.path(), "/proc/cmdline", line);
        put(dir.path(), "/sys/power/resume", power);
        let status = !found(&host, "hibernation").is_empty();
        assert_eq!(status, is_found, "{line} {power}");
        let now = Observation::read(&host, PAGE);
        let machine = zmeld_swap::machine::Machine::read(&host).unwrap();
        assert_eq!(
            now.hibernation.resume, machine.hibernation,
            "{line} {power}"
        );
    }
}

#[test]
fn groups_of_version_1_are_known_too() {
    let (dir, host) = plant("6.1");
    let root = dir.path();
    let vmstat = root.join("proc/vmstat");
    let text = fs::read_to_string(&vmstat).unwrap();
    fs::write(&vmstat, text.replace("oom_kill 2", "oom_kill 3")).unwrap();
    let mount = "/sys/fs/cgroup/memory";
    put(root, &format!("{mount}/memory.oom_control"), "oom_kill 0\n");
    mount_v1(root);
    for (group, limit, name, failed, kills) in [
        ("small", "104857600", "memory.failcnt", 812, 1),
        ("both", "104857600", "memory.memsw.failcnt", 9, 1),
        ("free", "9223372036854771712", "memory.failcnt", 0, 1),
    ] {
        let folder = format!("{mount}/{group}");
        put(root, &format!("{folder}/memory.limit_in_bytes"), limit);
        put(root, &format!("{folder}/memory.usage_in_bytes"), "4096");
        put(root, &format!("{folder}/{name}"), failed.to_string());
        put(
            root,
            &format!("{folder}/memory.oom_control"),
            format!("oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n"),
        );
    }
    assert_eq!(
        found(&host, "group-oom-kills"),
        [
            "cgroup /both: 1 since boot; its own limit: 100 MiB",
            "cgroup /small: 1 since boot; its own limit: 100 MiB"
        ]
    );
    assert_eq!(found(&host, "oom-kills"), ["memory: 1 since boot"]);
    let told = |host: &Host| -> Vec<(&str, Severity)> {
        let now = Observation::read(host, PAGE);
        let found = findings(&now, &Outstanding::default());
        let killed = found.iter().filter(|it| it.id.ends_with("oom-kills"));
        killed.map(|it| (it.id, it.severity)).collect()
    };
    let of_groups = ("group-oom-kills", Severity::Warning);
    let by_machine = ("oom-kills", Severity::Critical);
    assert_eq!(told(&host), [by_machine, of_groups, of_groups]);
    // Once a group is gone, nobody can tell whose limit it was: no false alarm.
    let folder = root.join("sys/fs/cgroup/memory");
    fs::remove_dir_all(folder.join("free")).unwrap();
    let may_be = ("oom-kills", Severity::Warning);
    assert_eq!(told(&host), [may_be, of_groups, of_groups]);
    let now = Observation::read(&host, PAGE);
    let text = metrics::render(&now, &findings(&now, &Outstanding::default()));
    for line in [
        "zmeld_finding{id=\"oom-kills\",severity=\"critical\"} 0\n",
        "zmeld_finding{id=\"oom-kills\",severity=\"warning\"} 1\n",
        "zmeld_oom_kills_lately 0\n",
        "zmeld_unattributed_oom_kills_lately 1\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
    // An experiment reaches its limit on purpose.
    fs::rename(folder.join("both"), folder.join("zmeld-lab-7-run")).unwrap();
    assert_eq!(told(&host), [may_be, of_groups]);
}

#[test]
fn a_virtual_disk_is_not_held_against_swappiness() {
    let (dir, host) = plant("6.12");
    let root = dir.path();
    put(root, "/sys/block/nvme0n1/queue/rotational", "1\n");
    let at = |value: &str| {
        put(root, "/proc/sys/vm/swappiness", value);
        found(&host, "swappiness").len()
    };
    // Swap as fast as the file system is 100: more is never set on one drive.
    assert_eq!((at("100\n"), at("150\n")), (0, 1));
    // A virtual machine's disk.
    let swaps = fs::read_to_string(root.join("proc/self/mounts")).unwrap();
    put(
        root,
        "/proc/self/mounts",
        swaps.replace("nvme0n1p2", "vda1"),
    );
    put(root, "/sys/block/vda/vda1/partition", "1\n");
    put(root, "/sys/block/vda/queue/rotational", "1\n");
    assert_eq!(at("150\n"), 0);
}

#[test]
fn every_rule_is_a_metric_whether_it_finds_something_or_not() {
    let (_dir, host) = plant("6.1");
    let now = Observation::read(&host, PAGE);
    let text = metrics::render(&now, &findings(&now, &Outstanding::default()));
    for rule in RULES {
        let name = format!(
            "zmeld_finding{{id=\"{}\",severity=\"{}\"}} ",
            rule.id,
            rule.severity.name()
        );
        assert!(text.contains(&name), "{name}");
    }
    assert!(text.contains("zmeld_finding{id=\"oom-kills\",severity=\"critical\"} 1\n"));
    assert!(text.contains("zmeld_finding{id=\"equal-priority\",severity=\"warning\"} 0\n"));
}

#[test]
fn figures_for_others_do_not_change_when_a_page_finds_its_twin() {
    // Without a twin the object is stored; with one its size is saved by melding.
    let (_dir, host) = plant("7.2");
    let now = Observation::read(&host, PAGE);
    let told = |twin: bool, hidden: bool| {
        let mut now = now.clone();
        for device in &mut now.devices {
            let (held, melding) = (device.held.as_mut(), device.melding.as_mut());
            if let (Some(held), Some(melding)) = (held, melding) {
                if twin {
                    for (name, more) in [("bytes_melded", 1000), ("inline_melded", 1)] {
                        *melding.counters.get_mut(name).expect(name) += more;
                    }
                } else {
                    held.compressed_bytes += 1000;
                }
            }
            if hidden {
                device.hide_melding();
            }
        }
        metrics::render(&now, &findings(&now, &Outstanding::default()))
    };
    assert_ne!(told(true, false), told(false, false));
    assert_eq!(told(true, true), told(false, true));
    assert!(told(true, true).contains("zmeld_device_mismatches_total"));
    assert!(told(true, true).contains("zmeld_device_encode_errors_total"));
}

#[test]
fn a_compressor_that_the_kernel_fell_back_from_in_silence_is_told() {
    let (dir, host) = plant("6.12");
    let root = dir.path();
    let parameters = "/sys/module/zswap/parameters";
    put(root, &format!("{parameters}/enabled"), "Y\n");
    put(root, "/proc/cmdline", "quiet zswap.compressor=zword\n");
    let at = |compressor: &str| {
        put(root, &format!("{parameters}/compressor"), compressor);
        found(&host, "zswap-compressor").len()
    };
    assert_eq!((at("lzo\n"), at("zword\n")), (1, 0));
    put(root, "/proc/cmdline", "quiet\n");
    assert_eq!(at("lzo\n"), 0);
}
