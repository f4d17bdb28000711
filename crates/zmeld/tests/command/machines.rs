//! Machines as directories (a laptop with zram-generator, a small server, a kernel
//! without zram): what `plan`, `config check` and `status` say of them.

use std::fs;

use serde_json::Value;

use crate::run::{code, folder, json, run, str, text};

/// A machine of 4 GiB of RAM whose kernel has zram, loaded, and zswap, switched off.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Machine {
        let machine = Machine(folder());
        for (path, text) in [
            (
                "proc/meminfo",
                "MemTotal: 4194304 kB\nMemFree: 1048576 kB\nMemAvailable: 2097152 kB\n",
            ),
            ("proc/swaps", "Filename Type Size Used Priority\n"),
            ("proc/vmstat", "oom_kill 0\n"),
            ("proc/modules", ""),
            ("proc/cmdline", "quiet\n"),
            ("proc/sys/kernel/osrelease", "6.12.0\n"),
            ("proc/sys/kernel/random/boot_id", "boot-1\n"),
            ("proc/sys/vm/swappiness", "60\n"),
            ("proc/sys/vm/page-cluster", "3\n"),
            (
                "lib/modules/6.12.0/modules.dep",
                "kernel/fs/ext4/ext4.ko:\n",
            ),
            (
                "proc/self/mountinfo",
                "31 24 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            ),
            ("proc/self/cgroup", "0::/system.slice\n"),
            ("sys/fs/cgroup/cgroup.controllers", "memory\n"),
            ("sys/fs/cgroup/user.slice/memory.stat", "anon 1\n"),
            ("sys/fs/cgroup/system.slice/memory.stat", "anon 1\n"),
            ("sys/fs/cgroup/system.slice/memory.reclaim", ""),
            ("proc/sys/vm/min_free_kbytes", "67584\n"),
            ("sys/class/zram-control/hot_add", ""),
            ("sys/module/zswap/parameters/enabled", "N\n"),
            ("sys/module/zswap/parameters/compressor", "lzo\n"),
            ("sys/module/zswap/parameters/max_pool_percent", "20\n"),
            ("sys/module/zswap/parameters/shrinker_enabled", "N\n"),
        ] {
            machine.put(path, text);
        }
        machine
    }

    fn root(&self) -> &str {
        str(self.0.path())
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn swap(&self, line: &str) {
        let path = self.0.path().join("proc/swaps");
        let list = fs::read_to_string(&path).unwrap();
        fs::write(path, format!("{list}{line}\n")).unwrap();
    }

    /// As zram-generator sets it up.
    fn with_zram_generator(self, priority: i32) -> Machine {
        self.swap(&format!("/dev/zram0 partition 2097148 0 {priority}"));
        for (name, text) in [
            ("disksize", "2147483648\n"),
            ("comp_algorithm", "lzo lz4 [lzo-rle] zstd\n"),
            ("mm_stat", "0 0 0 0 0 0 0 0 0\n"),
            ("io_stat", "0 0 0 0\n"),
            ("initstate", "1\n"),
        ] {
            self.put(&format!("sys/block/zram0/{name}"), text);
        }
        self
    }

    fn with_disk_swap(self, rotational: bool) -> Machine {
        self.swap("/dev/sda2 partition 4194300 0 -2");
        self.put("sys/block/sda/sda2/partition", "2\n");
        let rotational = if rotational { "1\n" } else { "0\n" };
        self.put("sys/block/sda/queue/rotational", rotational);
        self
    }

    fn config(&self, text: &str) {
        self.put("etc/zmeld.toml", text);
    }

    /// Exit code, standard output, standard error.
    fn run(&self, args: &[&str]) -> (i32, String, String) {
        let output = run(&[args, &["--root", self.root()]].concat());
        (code(&output), text(&output.stdout), text(&output.stderr))
    }

    fn findings(&self, id: &str) -> Vec<Value> {
        let status = json(&["status", "--json", "--root", self.root()]);
        let all = status["findings"].as_array().unwrap().iter();
        all.filter(|found| found["id"] == id).cloned().collect()
    }
}

const RAM: &str = "[tier.fast]\nkind = \"zram\"\nsize = \"50%\"\nmemory_limit = \"30%\"\n\
                   codec = \"zstd\"\n";

/// Right after `zmeld up` a device holds its swap header, and nothing follows from that.
#[test]
fn a_status_with_little_in_swap_judges_nothing() {
    let laptop = Machine::new().with_zram_generator(100);
    let status = |mm_stat: &str| {
        laptop.put("sys/block/zram0/mm_stat", mm_stat);
        let (_, out, err) = laptop.run(&["status"]);
        let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("pages are compressed"), "{words}{err}");
        words
    };
    let fresh = status("8192 67 49377280 0 49377280 0 0 0 0\n");
    let said = "8.00 KiB of pages are compressed so far, too little to judge (16.0 MiB are needed)";
    assert!(fresh.contains(said), "{fresh}");
    assert!(!fresh.contains("saves nothing"), "{fresh}");
    assert!(!fresh.contains("WHERE THE NUMBERS DIFFER"), "{fresh}");
    let used = status("67108864 30000000 31000000 0 31000000 0 0 0 0\n");
    assert!(used.contains(", which saves"), "{used}");
    assert!(used.contains("WHERE THE NUMBERS DIFFER"), "{used}");
}

#[test]
fn what_up_would_refuse_is_said_where_only_the_configuration_is_asked_for() {
    for priority in [100, 5] {
        let laptop = Machine::new().with_zram_generator(priority);
        let (plan_code, out, _) = laptop.run(&["plan"]);
        assert!(out.contains("zmeld up would refuse this"), "{out}");
        let (code, out, err) = laptop.run(&["plan", "--toml"]);
        // As up would end.
        assert_eq!((plan_code, code), (2, 2), "{err}");
        assert!(out.contains("[tier.fast]"), "{out}");
        assert!(
            err.contains("zmeld up refuses this: tier.fast: /dev/zram0 is swapped to already"),
            "{err}"
        );
        assert!(err.contains("zmeld up --take-over"), "{err}");
        let path = laptop.0.path().join("wanted.toml");
        let write = ["plan", "--toml", "--output", str(&path)];
        let (code, _, err) = laptop.run(&write);
        assert_eq!(code, 2);
        assert!(err.ends_with("wanted.toml is not written\n"), "{err}");
        assert!(!path.exists());
        let (code, _, err) = laptop.run(&[&write[..], &["--take-over"]].concat());
        assert_eq!(code, 0, "{err}");
        assert!(!err.contains("refuses") && path.exists(), "{err}");
    }
}

#[test]
fn a_check_says_what_the_machine_has_against_the_file() {
    let laptop = Machine::new().with_zram_generator(5);
    laptop.config(RAM);
    let (code, out, err) = laptop.run(&["config", "check"]);
    assert_eq!(code, 1, "{err}");
    assert!(
        err.contains("/etc/zmeld.toml:1:7: tier.fast: /dev/zram0 is swapped to already"),
        "{err}"
    );
    assert!(out.contains("1 that zmeld up refuses here"), "{out}");
    laptop.config(&format!("accept = [\"second-device\"]\n{RAM}"));
    let (code, out, err) = laptop.run(&["config", "check"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");

    // What is not on the machine is said there too.
    let bare = Machine::new();
    fs::remove_dir_all(bare.0.path().join("sys/class")).unwrap();
    bare.config(RAM);
    let (code, _, err) = bare.run(&["config", "check"]);
    assert_eq!(code, 1);
    assert!(
        err.contains("tier.fast: this tier needs the driver zram"),
        "{err}"
    );

    // Where there is no machine, it says so.
    let files = folder();
    fs::create_dir_all(files.path().join("etc")).unwrap();
    fs::write(files.path().join("etc/zmeld.toml"), RAM).unwrap();
    let output = run(&["config", "check", "--root", str(files.path())]);
    assert_eq!(output.status.code(), Some(0));
    let out = text(&output.stdout);
    assert!(out.contains("the file alone was looked at"), "{out}");
}

/// Without a record of zmeld's, a device is another tool's, whatever its priority.
#[test]
fn status_does_not_call_anothers_device_zmelds() {
    for priority in [100, 5] {
        let laptop = Machine::new().with_zram_generator(priority);
        laptop.config(RAM);
        let found = laptop.findings("not-applied");
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            found[0]["what"],
            "the configuration asked for it, and it is not set up"
        );
        let remedy = found[0]["remedy"].as_str().unwrap();
        assert!(remedy.starts_with("zmeld up --take-over"), "{remedy}");
    }
    // Nor does it advise what up refuses beside it.
    let both = Machine::new()
        .with_zram_generator(100)
        .with_disk_swap(false);
    let found = both.findings("lru-inversion");
    let remedy = found[0]["remedy"].as_str().unwrap();
    assert!(
        remedy.ends_with("zmeld plan --tier zswap --take-over"),
        "{remedy}"
    );
    // What up would refuse is not said to be done by it.
    let bare = Machine::new();
    fs::remove_dir_all(bare.0.path().join("sys/class")).unwrap();
    bare.config(RAM);
    let found = bare.findings("not-applied");
    assert_eq!(
        found[0]["remedy"],
        "zmeld plan says why zmeld up refuses it"
    );
    // What is meant beside another's device, a plain up does, and a plan says nothing else.
    let laptop = Machine::new().with_zram_generator(100);
    laptop.config(&format!("accept = [\"second-device\"]\n{RAM}"));
    assert_eq!(laptop.findings("not-applied")[0]["remedy"], "zmeld up");
    let laptop = laptop.with_disk_swap(false);
    laptop.config("accept = [\"zram-with-zswap\"]\n[tier.cache]\nkind = \"zswap\"\n");
    assert_eq!(laptop.findings("not-applied")[0]["remedy"], "zmeld up");
    assert_eq!(laptop.run(&["plan"]).0, 0);
    // Where nothing is in the way, a plain up does it.
    let free = Machine::new();
    free.config(RAM);
    assert_eq!(free.findings("not-applied")[0]["remedy"], "zmeld up");
}

/// Rules that find the same devices from different sides name one way out.
#[test]
fn one_machine_gets_one_way_out() {
    for priority in [100, -2] {
        let laptop = Machine::new()
            .with_zram_generator(priority)
            .with_disk_swap(false);
        laptop.put("sys/module/zswap/parameters/enabled", "Y\n");
        let beside = match priority {
            100 => "lru-inversion",
            _ => "equal-priority",
        };
        for id in ["zram-with-zswap", beside] {
            let found = laptop.findings(id);
            assert_eq!(found.len(), 1, "{id}: {found:?}");
            assert_eq!(
                found[0]["remedy"],
                "use zswap in front of the disk, without the device: zmeld plan --tier zswap \
                 --take-over",
                "{id}"
            );
        }
        // It is what the plan says, too.
        let (code, out, err) = laptop.run(&["plan", "--toml", "--take-over"]);
        assert_eq!(code, 0, "{err}");
        assert!(out.contains("kind = \"zswap\""), "{out}");
        // Who means the device to stand there keeps it, and zswap goes.
        laptop.config("accept = [\"lru-inversion\"]\n");
        let remedy = &laptop.findings("zram-with-zswap")[0]["remedy"];
        assert!(
            remedy.as_str().unwrap().starts_with("echo N > "),
            "{remedy}"
        );
        // A kernel without zswap is not told to use it.
        laptop.config("");
        fs::remove_dir_all(laptop.0.path().join("sys/module/zswap")).unwrap();
        let remedy = &laptop.findings(beside)[0]["remedy"];
        let remedy = remedy.as_str().unwrap();
        assert!(!remedy.contains("--tier zswap"), "{remedy}");
        assert!(remedy.contains("swapoff /dev/sda2"), "{remedy}");
    }
}

#[test]
fn a_check_says_what_only_the_machine_shows() {
    let server = Machine::new();
    let tier = "[tier.fast]\nkind = \"zram\"\n";
    for (rest, place, said) in [
        (
            "size = \"4GiB\"\n",
            "3:8: tier.fast.size",
            "takes pages as large as RAM (4.00 GiB)",
        ),
        (
            "size = \"3GiB\"\nmemory_limit = \"1GiB\"\n",
            "3:8: tier.fast.size",
            "promises more than its limit can hold",
        ),
        (
            "size = \"800%\"\nmemory_limit = \"25%\"\n",
            "3:8: tier.fast.size",
            "to keep account of the pages",
        ),
        (
            "memory_limit = \"25%\"\n[tunables]\nmin_free = \"300MiB\"\n",
            "5:12: tunables.min_free",
            "7 % of RAM",
        ),
    ] {
        server.config(&format!("{tier}{rest}"));
        let (code, out, err) = server.run(&["config", "check"]);
        assert_eq!(code, 1, "{rest}: {out}");
        let line = err.lines().find(|line| line.contains(said));
        let line = line.unwrap_or_else(|| panic!("{rest}: {err}"));
        assert!(line.contains(place), "{line}");
        assert!(
            out.contains("no mistake, ") && !out.contains("refuses here"),
            "{out}"
        );
        // The plan warns of it in the same words.
        let what = line
            .split_once(": tier.fast")
            .or(line.split_once(": tunables"))
            .unwrap()
            .1;
        let what = what.split_once(" (if it is meant").map_or(what, |it| it.0);
        let (_, _, plan) = server.run(&["plan", "--toml"]);
        assert!(plan.contains(what), "{what}: {plan}");
    }
    // What it refuses is told apart, and one mistake does not hide another.
    server.config(&format!(
        "{tier}size = \"999999TiB\"\n[tunables]\nmin_free = \"1GiB\"\n"
    ));
    let (code, out, err) = server.run(&["config", "check"]);
    assert_eq!(code, 1);
    assert!(out.contains("2 that zmeld up refuses here"), "{out}{err}");
    for key in ["tier.fast: ", "tunables.min_free: "] {
        let line = err.lines().find(|line| line.contains(key)).unwrap();
        assert!(line.ends_with("zmeld up refuses it here"), "{line}");
    }
}

/// Names of groups are told as other names are; a guard that ends nothing is a rule in vain.
#[test]
fn names_of_groups_that_are_not_there_are_told() {
    let server = Machine::new();
    let check = |text: &str| {
        server.config(text);
        let (code, out, err) = server.run(&["config", "check"]);
        assert!(!out.contains("refuses"), "{out}");
        (code, err)
    };
    let (code, err) = check("[watch.guard]\nend = [\"/user.slice\", \"baatch.service\"]\n");
    assert_eq!(code, 1);
    assert!(
        err.contains(":2:7: watch.guard.end: the guard cannot end it (no control group is called baatch.service"),
        "{err}"
    );
    // Said by status, too, whether a watch runs or not.
    let found = server.findings("unused-rule");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["what"], "the guard cannot end it");
    let evidence = "watch.guard.end: no control group is called baatch.service here now";
    assert_eq!(found[0]["evidence"], evidence);
    let (code, err) =
        check("[watch.guard]\nend = [\"/user.slice\"]\nprotect = [\"shh.service\"]\n");
    assert_eq!(code, 1);
    assert!(
        err.contains(":3:11: watch.guard.protect: it protects nothing (no control group is called shh.service"),
        "{err}"
    );
    for (end, why) in [
        (
            "end = [\"baatch.service\"]\n",
            "no control group is called baatch.service here now",
        ),
        (
            "end = [\"/user.slice\"]\nprotect = [\"/user.slice\"]\n",
            "all that it names is protected",
        ),
        ("", "without end nothing is ended"),
    ] {
        let (code, err) = check(&format!("[watch.guard]\n{end}"));
        assert_eq!(code, 1, "{end}");
        assert!(
            err.contains(why) && err.contains("accept = [\"unused-rule\"]"),
            "{err}"
        );
        assert_eq!(err.lines().count(), 1, "{err}");
    }
    // The same of what is reclaimed from.
    for (rule, line) in [
        (
            "groups = [\"/user.slice\", \"rediss.service\"]\n",
            ":2:10: watch.reclaim.groups: the rule is not for it (no control group is called \
             rediss.service here now)",
        ),
        (
            "groups = [\"rediss.service\"]\n",
            "nothing can be reclaimed (no control group is called rediss.service here now)",
        ),
        (
            "protect = [\"shh.service\"]\n",
            ":2:11: watch.reclaim.protect: it protects nothing (no control group is called \
             shh.service here now)",
        ),
        (
            "groups = [\"/user.slice\"]\nprotect = [\"user.slice\"]\n",
            "watch.reclaim.groups: nothing can be reclaimed (all that it names is protected)",
        ),
    ] {
        let (code, err) = check(&format!("[watch.reclaim]\n{rule}"));
        assert!(code == 1 && err.contains(line), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
    // A name that stands in both is told by itself, and then what comes of it.
    let both = "[watch.reclaim]\ngroups = [\"/user.slice\"]\nprotect = [\"/user.slice\"]\n";
    let (code, err) = check(both);
    let line = ":3:11: watch.reclaim.protect: \"/user.slice\" is in groups, too, and nothing is reclaimed from it";
    assert!(code == 1 && err.contains(line), "{err}");
    assert_eq!(err.lines().count(), 2, "{err}");
    // Programs come and go: a form of names is told, and is no trap.
    let forms = "[watch.guard]\nend = [\"/user.slice\"]\nprotect = [\"vte-spawn-*.scope\"]\n";
    let (code, err) = check(forms);
    assert_eq!(code, 0, "{err}");
    assert!(
        err.contains("notice: ") && err.contains("called vte-spawn-*.scope here now"),
        "{err}"
    );
    assert_eq!(server.findings("unused-rule").len(), 0);
    // Who means it says so once, for names of both lists.
    let meant = "accept = [\"unused-rule\"]\n[watch.reclaim]\nprotect = [\"shh.service\"]\n\
                 [watch.guard]\nend = [\"/user.slice\", \"baatch.service\"]\n";
    let (code, err) = check(meant);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(server.findings("unused-rule").len(), 0);
    // With another rule it makes room.
    let (code, err) = check("[watch.guard]\n[watch.reclaim]\n");
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(server.findings("unused-rule").len(), 0);
    server.config("[watch.guard]\n");
    assert_eq!(server.findings("unused-rule").len(), 1);
}

/// Version 1 of control groups has no file to reclaim by, and old kernels have nothing else;
/// the guard knows both.
#[test]
fn rules_that_need_other_control_groups_are_told() {
    let server = Machine::new();
    let memory = "31 24 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
    server.put("proc/self/mountinfo", memory);
    server.put("proc/self/cgroup", "4:memory:/\n");
    server.put("sys/fs/cgroup/memory/memory.limit_in_bytes", "1\n");
    server.put(
        "sys/fs/cgroup/memory/user.slice/memory.limit_in_bytes",
        "1\n",
    );
    const NOTHING: &str =
        "1:8: watch.reclaim: nothing can be reclaimed: memory is not in control groups of version 2";
    let guard = "[watch.guard]\nend = [\"/user.slice\"]\n";
    server.config(&format!("[watch.reclaim]\n{guard}"));
    let (code, out, err) = server.run(&["config", "check"]);
    assert_eq!((code, err.lines().count()), (1, 1), "{out}{err}");
    assert!(err.contains(NOTHING), "{err}");
    server.put("proc/self/mountinfo", "");
    let (code, out, err) = server.run(&["config", "check"]);
    assert_eq!((code, err.lines().count()), (1, 2), "{out}{err}");
    assert!(
        err.contains("watch.guard.end: the guard cannot act"),
        "{err}"
    );
}

/// A tier that is switched off is a word about tiers: none is asked for.
#[test]
fn a_file_whose_tiers_are_all_switched_off_asks_for_none() {
    let server = Machine::new();
    let off = format!("{RAM}enabled = false\n");
    server.config(&off);
    let (code, out, err) = server.run(&["plan"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("There is nothing to set up."), "{out}");
    let (code, out, err) = server.run(&["config", "check"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(
        out.contains("every tier is switched off: zmeld up sets up none"),
        "{out}"
    );
    assert_eq!(server.findings("not-applied").len(), 0);
    // Shown and planned, it says the same.
    let (_, shown, _) = server.run(&["config", "show"]);
    let (_, planned, _) = server.run(&["plan", "--toml"]);
    for text in [shown, planned] {
        assert!(text.contains("enabled = false"), "{text}");
        server.config(&text);
        assert!(server
            .run(&["plan"])
            .1
            .contains("There is nothing to set up."));
    }
    // Without it the file says nothing of tiers.
    server.config("[watch.reclaim]\n");
    assert!(server.run(&["plan"]).1.contains("zmeld up would take"));
}

/// Hibernation needs its partition as swap: it is not left off for a device in RAM alone.
#[test]
fn a_machine_that_hibernates_keeps_its_partition() {
    let laptop = Machine::new();
    laptop.put("proc/cmdline", "quiet resume=/dev/sda2\n");
    laptop.put("sys/power/state", "freeze mem disk\n");
    let header = format!("{}SWAPSPACE2", "\0".repeat(4086));
    laptop.put("dev/sda2", &header);
    let (code, out, err) = laptop.run(&["plan", "--toml"]);
    assert_eq!(code, 0, "{err}");
    for words in [
        "kind = \"zswap\"",
        "device = \"/dev/sda2\"",
        "hibernation = true",
    ] {
        assert!(out.contains(words), "{words}: {out}");
    }
    assert!(!out.contains("zram"), "{out}");
    let (_, shown, err) = laptop.run(&["plan"]);
    assert!(shown.contains("zmeld up would take"), "{shown}{err}");
    // What was planned has no mistake of its own.
    laptop.config(&out);
    let (code, said, err) = laptop.run(&["config", "check"]);
    assert_eq!((code, err.as_str()), (0, ""), "{said}");
    laptop.config("");
    // Until that is set up, status finds what the plan mends.
    let found = laptop.findings("hibernation");
    assert_eq!(found.len(), 1, "{found:?}");
    let evidence = found[0]["evidence"].as_str().unwrap();
    assert!(
        evidence.ends_with("/dev/sda2 is not in /proc/swaps"),
        "{evidence}"
    );
    // A kernel that cannot hibernate needs none of it.
    laptop.put("sys/power/state", "freeze mem\n");
    assert!(laptop
        .run(&["plan", "--toml"])
        .1
        .contains("kind = \"zram\""));
    // An image that does not fit into what is swapped to.
    laptop.put("sys/power/state", "freeze mem disk\n");
    let laptop = laptop.with_disk_swap(false);
    laptop.put("sys/power/image_size", "1717986918\n");
    assert_eq!(laptop.findings("hibernation").len(), 0);
    laptop.put("sys/power/image_size", "8589934592\n");
    let (_, _, err) = laptop.run(&["plan", "--toml"]);
    assert!(err.contains("/sys/power/image_size is 8.00 GiB"), "{err}");
    let found = laptop.findings("hibernation");
    assert_eq!(found.len(), 1, "{found:?}");
    let evidence = found[0]["evidence"].as_str().unwrap();
    assert!(
        evidence.contains("/sys/power/image_size is 8.00 GiB"),
        "{evidence}"
    );
}

/// Another's tree is neither waited for nor a way out of it.
#[test]
fn a_hostile_tree_is_refused_in_one_line() {
    use std::os::unix::fs::symlink;
    let secret = folder();
    let secret = crate::run::write(secret.path(), "secret.toml", b"hidden = 1\n");
    let fifo = |path: &std::path::Path| {
        let _ = fs::remove_file(path);
        nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    };
    type Spoil<'a> = &'a dyn Fn(&std::path::Path);
    let spoils: [(&str, Spoil<'_>); 6] = [
        ("proc/meminfo", &fifo),
        ("proc/swaps", &fifo),
        ("proc/cmdline", &fifo),
        ("etc/zmeld.toml", &fifo),
        ("etc/zmeld.toml", &|path| symlink(&secret, path).unwrap()),
        ("proc/meminfo", &|path| {
            let file = fs::File::create(path).unwrap();
            file.set_len(1 << 40).unwrap();
        }),
    ];
    for (path, spoil) in spoils {
        let server = Machine::new();
        let at = server.0.path().join(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        spoil(&at);
        for command in [&["plan"][..], &["config", "check"], &["status", "--json"]] {
            let mut child = crate::run::zmeld(&[command, &["--root", server.root()]].concat());
            child.stdout(std::process::Stdio::piped());
            child.stderr(std::process::Stdio::piped());
            let mut child = child.spawn().unwrap();
            let begin = std::time::Instant::now();
            while child.try_wait().unwrap().is_none() {
                if begin.elapsed() > std::time::Duration::from_secs(60) {
                    child.kill().unwrap();
                    panic!("{path}: {command:?} waits");
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            let output = child.wait_with_output().unwrap();
            let (out, err) = (text(&output.stdout), text(&output.stderr));
            assert!(!format!("{out}{err}").contains("hidden"), "{out}{err}");
            if command == ["plan"] {
                assert_eq!(output.status.code(), Some(2), "{path}: {out}");
                assert_eq!(err.lines().count(), 1, "{path}: {err}");
                assert!(err.contains(path), "{path}: {err}");
            }
        }
    }
    // A link is followed as on the machine itself.
    let server = Machine::new();
    server.put("usr/share/zmeld.toml", RAM);
    fs::create_dir_all(server.0.path().join("etc")).unwrap();
    symlink(
        "/usr/share/zmeld.toml",
        server.0.path().join("etc/zmeld.toml"),
    )
    .unwrap();
    let (code, out, err) = server.run(&["plan", "--toml"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("codec = \"zstd\""), "{out}");
}

#[test]
fn rules_that_nobody_carries_out_are_found() {
    let server = Machine::new();
    server.config("[watch.reclaim]\n");
    // Who does not see others' processes cannot tell.
    assert_eq!(server.findings("no-watch").len(), 0);
    server.put("proc/1/comm", "systemd\n");
    server.put("proc/1/cmdline", "/sbin/init\0watch\0");
    server.put("proc/77/cmdline", "/usr/bin/zmeld\0watch\0--dry-run\0");
    let found = server.findings("no-watch");
    assert_eq!(found.len(), 1, "{found:?}");
    let remedy = found[0]["remedy"].as_str().unwrap();
    for words in [
        "systemctl enable --now zmeld-watch.service",
        "systemctl start zmeld-watch.service",
    ] {
        assert!(remedy.contains(words), "{remedy}");
    }
    server.put("proc/77/cmdline", "/usr/bin/zmeld\0watch\0");
    // Anybody may call a process of his so, also one that runs with root's rights.
    for ids in ["1000\t1000\t1000\t1000", "1000\t0\t0\t0", ""] {
        server.put("proc/77/status", &format!("Name:\tzmeld\nUid:\t{ids}\n"));
        assert_eq!(server.findings("no-watch").len(), 1, "{ids}");
    }
    server.put("proc/77/status", "Name:\tzmeld\nUid:\t0\t0\t0\t0\n");
    assert_eq!(server.findings("no-watch").len(), 0);
    fs::remove_dir_all(server.0.path().join("proc/77")).unwrap();
    // Findings are accepted by the names that status has for them.
    server.config("accept = [\"no-watch\", \"near-limit\"]\n[watch.reclaim]\n");
    let (code, out, err) = server.run(&["config", "check"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert_eq!(server.findings("no-watch").len(), 0);
}

/// A file without tiers says nothing of them, wherever it is and whoever reads it.
#[test]
fn a_file_without_tiers_leaves_them_to_what_suits_the_machine() {
    const RULE: &str = "[watch.reclaim]\n[tunables]\nswappiness = 77\n";
    let server = Machine::new();
    server.put("other.toml", RULE);
    let other = server.0.path().join("other.toml");
    let by_option = ["plan", "--toml", "--config", str(&other)];
    let (code, named, err) = server.run(&by_option);
    assert_eq!(code, 0, "{err}");
    for words in ["[tier.fast]", "[watch.reclaim]", "swappiness = 77"] {
        assert!(named.contains(words), "{words}: {named}");
    }
    server.config(RULE);
    let (code, found, err) = server.run(&["plan", "--toml"]);
    assert_eq!((code, &found), (0, &named), "{err}");
    let (_, shown, _) = server.run(&["plan"]);
    assert!(
        shown.contains("/etc/zmeld.toml, which names no tier"),
        "{shown}"
    );
    let check = ["config", "check"];
    let (code, out, err) = server.run(&check);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    // What up refuses there is no fault of the file, which asks for none of it: the check
    // says it, wherever the file is.
    let laptop = Machine::new().with_zram_generator(5);
    laptop.config(RULE);
    laptop.put("other.toml", RULE);
    let other = laptop.0.path().join("other.toml");
    for file in [&[][..], &[str(&other)]] {
        let (code, out, err) = laptop.run(&[&check, file].concat());
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        assert!(
            out.contains("those that would suit the machine zmeld up refuses here"),
            "{out}"
        );
    }
    // What it does ask for is judged.
    laptop.put(
        "guard.toml",
        "[watch.guard]\n[tunables]\nmin_free = \"1GiB\"\n",
    );
    let guard = laptop.0.path().join("guard.toml");
    let (code, out, err) = laptop.run(&["config", "check", str(&guard)]);
    assert_eq!(code, 1, "{out}");
    assert!(
        err.contains("tunables.min_free") && err.contains("watch.guard: without end"),
        "{err}"
    );
    for config in [&[][..], &["--config", str(&other)]] {
        let (_, out, _) = laptop.run(&[&["plan"], config].concat());
        assert!(out.contains("zmeld up would refuse this"), "{out}");
    }
    // Its tunables are asked for; nobody asked for tiers.
    let found = laptop.findings("not-applied");
    let subjects: Vec<_> = found.iter().map(|it| &it["subject"]).collect();
    assert_eq!(subjects, ["vm.swappiness"]);
}

/// zmeld does not warn of its own advice: there is a disk that the file need not name.
#[test]
fn zswap_is_not_warned_of_where_the_machine_has_the_disk() {
    let server = Machine::new().with_disk_swap(false);
    let (code, out, err) = server.run(&["plan", "--toml"]);
    assert_eq!(code, 0, "{err}");
    assert!(!err.contains("tier."), "{err}");
    assert!(out.contains("kind = \"zswap\""), "{out}");
    server.config(&out);
    let (code, said, err) = server.run(&["config", "check"]);
    assert_eq!((code, err.as_str()), (0, ""), "{said}");
    let (_, shown, _) = server.run(&["plan"]);
    assert!(!shown.contains("no disk tier is given"), "{shown}");
    // Without one it is.
    let bare = Machine::new();
    bare.config(&out);
    let (code, _, err) = bare.run(&["config", "check"]);
    assert_eq!(code, 1);
    assert!(err.contains("no disk tier is given"), "{err}");
}

/// What is planned for a kind of swap is what status does not find wrong.
#[test]
fn plan_and_status_judge_swappiness_and_read_ahead_alike() {
    let planned = |machine: &Machine| machine.run(&["plan", "--toml"]).1;
    // In RAM alone nothing is read ahead; where drives are swapped to, it is.
    assert!(planned(&Machine::new()).contains("page_cluster = 0"));
    for rotational in [false, true] {
        let machine = Machine::new().with_disk_swap(rotational);
        let toml = planned(&machine);
        assert!(!toml.contains("page_cluster"), "{toml}");
        assert_eq!(machine.findings("read-ahead"), Vec::<Value>::new());
        let high = |value: &str| {
            machine.put("proc/sys/vm/swappiness", value);
            machine.findings("swappiness").len()
        };
        let counts = [high("60\n"), high("100\n"), high("180\n")];
        assert_eq!(counts, [0, 0, usize::from(rotational)]);
    }
}

#[test]
fn what_zswap_comes_to_is_said_with_its_limit_and_its_codec() {
    let server = Machine::new().with_disk_swap(false);
    let (_, out, err) = server.run(&["plan"]);
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    // A fifth of 4 GiB, and twice as much of pages that nobody measured.
    for said in [
        "WHAT IT COMES TO",
        "With lzo pages usually get 2.0 times smaller",
        "the pool takes 819 MiB (20 % of RAM), which is its limit, holds 1.60 GiB and gains 819 MiB",
    ] {
        assert!(words.contains(said), "{said}: {out}{err}");
    }
    let plan = json(&["plan", "--json", "--root", server.root()]);
    crate::json::check(&plan);
    let pool = &plan["recommendation"]["pool"];
    assert_eq!(pool["limit_bytes"], (4u64 << 30) / 100 * 20);
    // zbud keeps two pages in one, however small they get.
    server.put("sys/module/zswap/parameters/zpool", "zbud\n");
    let (_, out, _) = server.run(&["plan"]);
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("zbud keeps 2 pages in one at the most"),
        "{out}"
    );
    // A kernel that has no shrinker is not asked for one.
    fs::remove_file(
        server
            .0
            .path()
            .join("sys/module/zswap/parameters/shrinker_enabled"),
    )
    .unwrap();
    let (_, out, err) = server.run(&["plan", "--toml"]);
    assert!(
        !out.contains("shrinker") && !err.contains("no choice of it"),
        "{out}{err}"
    );
}

#[test]
fn a_kernel_without_zram_is_told_what_can_be_had() {
    let bare = Machine::new();
    fs::remove_dir_all(bare.0.path().join("sys/class")).unwrap();
    for args in [&["plan"][..], &["plan", "--toml"]] {
        let (code, out, err) = bare.run(args);
        assert_eq!((code, out.as_str()), (3, ""), "{err}");
        for words in [
            "this kernel has no zram",
            "extra modules",
            "zmeld.ko: build it with DKMS",
            "zswap in front of swap on a disk",
        ] {
            assert!(err.contains(words), "{words}: {err}");
        }
    }
    // What is there is not told as new.
    let server = Machine::new().with_disk_swap(false);
    fs::remove_dir_all(server.0.path().join("sys/class")).unwrap();
    let (code, _, err) = server.run(&["plan", "--tier", "zram"]);
    assert_eq!(code, 3);
    let ways = ["zmeld.ko: build it with DKMS", "(zmeld up --tier zswap)"];
    assert!(ways.iter().all(|way| err.contains(way)), "{err}");
    assert!(!err.contains("--tier disk"), "{err}");
    fs::remove_file(bare.0.path().join("proc/modules")).unwrap();
    let (code, _, err) = bare.run(&["plan"]);
    assert_eq!(code, 3);
    assert!(
        err.contains("loads no modules") && !err.contains("DKMS"),
        "{err}"
    );
}

#[test]
fn a_configuration_is_written_whole_and_over_no_other() {
    let server = Machine::new();
    let path = server.0.path().join("etc/zmeld.toml");
    let write = ["plan", "--toml", "--output", str(&path)];
    let (code, _, err) = server.run(&write);
    assert_eq!(code, 2, "{err}");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let (code, out, err) = server.run(&write);
    assert_eq!((code, out.as_str()), (0, ""), "{err}");
    let written = fs::read_to_string(&path).unwrap();
    assert!(written.contains("[tier.fast]"), "{written}");
    let (code, _, err) = server.run(&write);
    assert_eq!(code, 2, "{err}");
    assert_eq!(fs::read_to_string(&path).unwrap(), written);
    let (code, _, err) = server.run(&["plan", "--output", str(&path)]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("--toml"), "{err}");
}

#[test]
fn way_outs_name_where_they_are_written_and_what_is_allowed() {
    let laptop = Machine::new().with_zram_generator(5);
    let (_, _, err) = laptop.run(&["plan", "--toml"]);
    assert!(
        err.contains("accept = [\"second-device\"] in /etc/zmeld.toml"),
        "{err}"
    );
    // Which holds for what is recommended, and for a tier that is asked for.
    laptop.config("accept = [\"second-device\"]\n");
    for args in [
        &["plan", "--toml"][..],
        &["plan", "--toml", "--tier", "zram"],
    ] {
        let (_, out, err) = laptop.run(args);
        assert!(!err.contains("refuses"), "{err}");
        assert!(out.contains("page_cluster = 0"), "{out}");
    }
    let (code, _, err) = laptop.run(&["plan", "--size", "1001%"]);
    assert_eq!(code, 2);
    assert!(err.contains("more than 1000%"), "{err}");
    // What holds for one boot only is said to, after what stays.
    laptop.config("");
    laptop.put("sys/block/zram0/disksize", "4294967296\n");
    let found = laptop.findings("no-memory-limit");
    let remedy = found[0]["remedy"].as_str().unwrap();
    let (stays, now) = remedy.split_once("until the next boot: echo ").unwrap();
    assert!(stays.contains("zram-resident-limit"), "{remedy}");
    assert!(now.ends_with(" > /sys/block/zram0/mem_limit"), "{remedy}");
}

/// A page in zswap's pool has its slot in the swap behind it.
#[test]
fn zswap_is_promised_no_more_than_the_swap_behind_it() {
    let server = Machine::new();
    server.put(
        "proc/meminfo",
        "MemTotal: 1048576 kB\nMemFree: 524288 kB\nMemAvailable: 786432 kB\n",
    );
    server.swap("/dev/sda2 partition 65532 0 -2");
    server.put("sys/block/sda/sda2/partition", "2\n");
    let room = 65_532 * 1024;
    let plan = json(&["plan", "--json", "--tier", "zswap", "--root", server.root()]);
    crate::json::check(&plan);
    let pool = &plan["recommendation"]["pool"];
    assert_eq!(pool["holds_bytes"], room);
    assert_eq!(pool["bounded_by_swap_bytes"], room);
    assert_eq!(pool["gains_bytes"], room / 2);
    let (_, out, _) = server.run(&["plan", "--tier", "zswap"]);
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("the swap behind it has room for 64.0 MiB"),
        "{out}"
    );
    assert!(!words.contains("410 MiB"), "{out}");
    // A device in RAM gains clearly more, and nothing finds fault with it.
    let (code, toml, err) = server.run(&["plan", "--toml"]);
    assert_eq!(code, 0, "{err}");
    assert!(
        toml.contains("kind = \"zram\"") && toml.contains("64.0 MiB only"),
        "{toml}"
    );
    assert!(!err.contains("zswap"), "{err}");
    server.config(&toml);
    let (code, said, err) = server.run(&["config", "check"]);
    assert_eq!((code, err.as_str()), (0, ""), "{said}");
    let server = server.with_zram_generator(100);
    assert_eq!(server.findings("lru-inversion"), Vec::<Value>::new());
    // Where zswap is on already, it stays.
    server.put("sys/module/zswap/parameters/enabled", "Y\n");
    server.config("");
    assert_eq!(server.findings("zram-with-zswap").len(), 1);
    let (_, toml, _) = server.run(&["plan", "--toml", "--take-over"]);
    assert!(toml.contains("kind = \"zswap\""), "{toml}");
}

/// A file that says nothing of sizes sets up what nothing warns of.
#[test]
fn a_device_of_the_usual_size_is_not_warned_of() {
    let laptop = Machine::new().with_zram_generator(100);
    laptop.config("[tier.ram]\nkind = \"zram\"\n");
    // Half of RAM, as the default is.
    assert_eq!(laptop.findings("no-memory-limit"), Vec::<Value>::new());
    laptop.put("sys/block/zram0/disksize", "4294963200\n");
    assert_eq!(laptop.findings("no-memory-limit"), Vec::<Value>::new());
    laptop.put("sys/block/zram0/disksize", "4294967296\n");
    assert_eq!(laptop.findings("no-memory-limit").len(), 1);
}

/// What a file sets is changed in the file, and the check sees it there.
#[test]
fn a_value_of_the_file_is_changed_in_the_file() {
    let laptop = Machine::new().with_zram_generator(100);
    let remedy = |id: &str| {
        let found = laptop.findings(id);
        assert_eq!(found.len(), 1, "{id}: {found:?}");
        found[0]["remedy"].as_str().unwrap().to_owned()
    };
    laptop.put("proc/sys/vm/swappiness", "20\n");
    assert_eq!(remedy("swappiness"), "sysctl vm.swappiness=150");
    assert_eq!(remedy("read-ahead"), "sysctl vm.page-cluster=0");
    let accept = "accept = [\"second-device\"]\n";
    laptop.config(&format!(
        "{accept}{RAM}[tunables]\nswappiness = 20\npage_cluster = 3\n"
    ));
    for (id, line) in [
        ("swappiness", "swappiness = 150"),
        ("read-ahead", "page_cluster = 0"),
    ] {
        let said = remedy(id);
        let way = format!(
            "{line} in [tunables] of /etc/zmeld.toml, then zmeld up; until the next boot: "
        );
        assert!(said.starts_with(&way), "{said}");
    }
    let (code, _, err) = laptop.run(&["config", "check"]);
    assert_eq!((code, err.lines().count()), (1, 2), "{err}");
    assert!(err.contains("tunables.swappiness: 20 is low"), "{err}");
    laptop.config(&format!(
        "{accept}{RAM}[tunables]\nswappiness = 150\npage_cluster = 0\n"
    ));
    let (code, _, err) = laptop.run(&["config", "check"]);
    assert_eq!((code, err.as_str()), (0, ""));
}

/// The first steps' guard has no fault on a machine with nothing open.
#[test]
fn the_guard_of_the_first_steps_passes_its_check() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/first-steps.md");
    let docs = fs::read_to_string(docs).unwrap();
    let mut blocks = docs.split("```").skip(1).step_by(2);
    let example = blocks
        .find(|block| block.contains("[watch.guard]"))
        .unwrap();
    let server = Machine::new();
    server.config(example);
    let (code, out, err) = server.run(&["config", "check"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("no trap"), "{out}");
    assert!(err.lines().all(|line| line.contains("notice: ")), "{err}");
    assert_eq!(server.findings("unused-rule"), Vec::<Value>::new());
}
