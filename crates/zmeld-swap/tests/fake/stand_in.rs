//! A machine that asks for zmeld's own driver and cannot have it swaps to zram.

use std::fs;

use crate::common::{config, Machine};
use zmeld_swap::error::ErrorKind;
use zmeld_swap::execute::Report;
use zmeld_swap::plan::Options;
use zmeld_swap::Error;

const ZMELD: &str = "[tier.ram]\nkind = \"zmeld\"\nsize = \"50%\"\nmeld = \"auto\"\n";
const INDEX: &str = "/lib/modules/6.12.0/modules.dep";
const ZRAM_ALONE: &str = "kernel/drivers/block/zram/zram.ko:\n";
const BOTH: &str = "kernel/drivers/block/zram/zram.ko:\nupdates/dkms/zmeld.ko:\n";

/// A kernel that loads modules, with that index of them.
fn machine(index: &str) -> Machine {
    let machine = Machine::new();
    machine.put("/proc/modules", "zram 1 0 - Live 0x0\n");
    machine.put(INDEX, index);
    machine
}

fn up(machine: &Machine, text: &str) -> Result<Report, Error> {
    machine.up(&config(text))
}

/// The one finding, that zram stands in.
fn why(machine: &Machine, text: &str) -> (String, String) {
    let all = machine.findings(text);
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(all[0].id, "stand-in");
    assert_eq!(all[0].subject, "ram");
    (all[0].evidence.clone(), all[0].remedy.clone())
}

#[test]
fn zram_stands_in_for_a_module_that_is_not_there() {
    let machine = machine(ZRAM_ALONE);
    let before = machine.snapshot();
    let plan = machine.plan(&config(ZMELD)).unwrap();
    assert_eq!(plan.stand_ins.len(), 1);
    let said = plan.problems[0].to_string();
    assert!(
        said.contains("tier.ram.kind: a zram device stands in for zmeld"),
        "{said}"
    );
    let report = up(&machine, ZMELD).unwrap();
    assert_eq!(report.stand_ins, plan.stand_ins);
    assert!(machine.text("/proc/swaps").contains("/dev/zram1"));
    assert_eq!(
        machine.text("/sys/block/zram1/disksize").trim(),
        "2147483648"
    );
    let (said, way) = why(&machine, ZMELD);
    assert_eq!(said, "zmeld.ko is not installed");
    assert!(way.contains("install zmeld-dkms"), "{way}");
    // Who means it is told nothing.
    let meant = format!("accept = [\"stand-in\"]\n{ZMELD}");
    assert_eq!(machine.findings(&meant), []);
    assert!(machine.plan(&config(&meant)).unwrap().problems.is_empty());
    // Again, and again, nothing changes; and all goes back.
    assert!(up(&machine, ZMELD).unwrap().is_unchanged());
    machine.down().unwrap();
    assert_eq!(machine.snapshot(), before);
    assert!(machine.findings(ZMELD).iter().all(|it| it.id != "stand-in"));
}

#[test]
fn the_finding_says_why_dkms_has_none() {
    let machine = machine(ZRAM_ALONE);
    machine.put("/usr/src/zmeld-1.0/dkms.conf", "");
    up(&machine, ZMELD).unwrap();
    let (said, way) = why(&machine, ZMELD);
    assert_eq!(
        said,
        "DKMS built none for 6.12.0, whose headers are not installed"
    );
    assert!(way.starts_with("install linux-headers-6.12.0"), "{way}");
    machine.put("/lib/modules/6.12.0/build/Makefile", "");
    let (said, way) = why(&machine, ZMELD);
    assert_eq!(said, "DKMS has built none for 6.12.0");
    assert_eq!(way, "dkms autoinstall -k 6.12.0, then zmeld up");
    machine.put(
        "/var/lib/dkms/zmeld/1.0/build/make.log",
        "DKMS make.log for zmeld-1.0 for kernel 6.12.0 (x86_64)\nx.c:3: error: no\u{1b} such\n",
    );
    let (said, way) = why(&machine, ZMELD);
    assert!(
        said.starts_with("DKMS could not build it for 6.12.0: x.c:3: error:"),
        "{said}"
    );
    assert!(
        way.contains("/var/lib/dkms/zmeld/1.0/build/make.log"),
        "{way}"
    );
    // What was built meanwhile is what `zmeld up` sets up.
    machine.put(INDEX, BOTH);
    let all = machine.findings(ZMELD);
    assert!(
        all.iter()
            .any(|it| it.id == "not-applied" && it.remedy == "zmeld up"),
        "{all:?}"
    );
    assert!(all.iter().all(|it| it.id != "stand-in"), "{all:?}");
}

/// The module is there and cannot be loaded: no machine of the tests has a modprobe.
#[test]
fn zram_stands_in_for_a_module_that_the_kernel_does_not_take() {
    for optional in [false, true] {
        let machine = machine(BOTH);
        let before = machine.snapshot();
        let text = format!("{ZMELD}optional = {optional}\n");
        let plan = machine.plan(&config(&text)).unwrap();
        assert_eq!(plan.stand_ins, []);
        let report = up(&machine, &text).unwrap();
        assert_eq!(report.stand_ins.len(), 1, "{report:?}");
        assert_eq!(report.skipped, []);
        assert!(machine.text("/proc/swaps").contains("/dev/zram1"));
        let (said, way) = why(&machine, &text);
        assert!(
            said.contains("did not take zmeld.ko (modprobe is not known"),
            "{said}"
        );
        assert!(way.ends_with("zmeld down, then zmeld up"), "{way}");
        assert!(up(&machine, &text).unwrap().is_unchanged());
        machine.down().unwrap();
        assert_eq!(machine.snapshot(), before);
    }
}

/// At boot, also beside a tier that cannot be planned.
#[test]
fn zram_stands_in_though_a_drive_is_missing() {
    let machine = machine(BOTH);
    let gone = "[tier.gone]\nkind = \"disk\"\ndevice = \"/dev/gone\"\n";
    let options = Options {
        at_boot: true,
        ..Options::default()
    };
    let text = [ZMELD, gone].concat();
    let report = machine.up_with(&config(&text), &options).unwrap();
    assert_eq!(report.stand_ins.len(), 1, "{report:?}");
    assert!(machine.text("/proc/swaps").contains("/dev/zram1"));
}

#[test]
fn what_only_zmeld_has_is_left_out() {
    let unseen = machine(ZRAM_ALONE);
    fs::remove_dir_all(unseen.path("/sys/block/zram0")).unwrap();
    // Debian's 6.12 has no lzo.
    let seen = machine(ZRAM_ALONE);
    seen.put("/sys/block/zram0/comp_algorithm", "[lz4] zstd");
    for (machine, codec, kept) in [
        (&unseen, "zword", None),
        (&unseen, "zstd:3", None),
        (&unseen, "lzo-rle", None),
        (&seen, "zstd:3", Some("zstd")),
        (&seen, "lz4", Some("lz4")),
        (&seen, "lzo-rle", None),
    ] {
        let text = format!(
            "{ZMELD}codec = \"{codec}\"\n[[tier.ram.recompress]]\ncodec = \"deflate\"\n\
             priority = 1\n"
        );
        let plan = machine.plan(&config(&text)).unwrap();
        let steps: Vec<String> = plan
            .groups
            .iter()
            .flat_map(|group| &group.steps)
            .map(|planned| planned.step.describe())
            .collect();
        let all = steps.join("\n");
        for word in ["zword", "meld", "deflate", "lzo", "lz4", "zstd"] {
            assert_eq!(
                all.contains(word),
                kept == Some(word),
                "{codec}: {word}: {all}"
            );
        }
        // What was asked for is still what it says.
        assert_eq!(plan.config, config(&text));
    }
}

#[test]
fn nothing_stands_in_where_just_that_is_wanted_or_zram_is_missing() {
    let machine = machine(ZRAM_ALONE);
    let named = Options {
        only_named: true,
        ..Options::default()
    };
    let err = machine.up_with(&config(ZMELD), &named).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Missing);
    assert!(err.to_string().contains("needs the driver zmeld"), "{err}");
    machine.put(INDEX, BOTH);
    let err = machine.up_with(&config(ZMELD), &named).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Missing);
    assert!(err.to_string().contains("modprobe is not known"), "{err}");
    // A kernel without zram has nothing that could.
    fs::remove_file(machine.path("/sys/class/zram-control/hot_add")).unwrap();
    machine.put(INDEX, "updates/dkms/zmeld.ko:\n");
    let err = up(&machine, ZMELD).unwrap_err();
    assert!(err.to_string().contains("modprobe is not known"), "{err}");
    machine.put(INDEX, "kernel/x.ko:\n");
    let err = up(&machine, ZMELD).unwrap_err();
    assert!(err.to_string().contains("needs the driver zmeld"), "{err}");
}
