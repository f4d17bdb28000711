//! The units of a boot, one for each tier, in every order: the machine ends as the file
//! says, whichever was killed.

use zmeld_swap::setup::plan::Options;

use crate::common::{config, Fate, Machine};
use crate::crash::{killed, quietly};

const ACCEPT: &str = "accept = [\"lru-inversion\", \"read-ahead\", \"unstable-name\"]\n";
const FAST: &str = "[tier.fast]\nkind = \"zram\"\nsize = \"64MiB\"\nmemory_limit = \"32MiB\"\n";
const SECOND: &str = "[tier.second]\nkind = \"zram\"\nsize = \"32MiB\"\ncodec = \"lz4\"\n";
const FILE: &str = "[tier.file]\nkind = \"disk\"\nfile = \"/srv/swap\"\nsize = \"1MiB\"\n";
const DRIVE: &str = "[tier.drive]\nkind = \"disk\"\ndevice = \"/dev/sdc1\"\nformat = true\n";
const SECRET: &str =
    "[tier.secret]\nkind = \"disk\"\ndevice = \"/dev/sdb1\"\nencryption = \"random\"\n";
const MISSING: &str = "[tier.missing]\nkind = \"disk\"\ndevice = \"/dev/sdz1\"\noptional = true\n";
const CACHE: &str = "[tier.cache]\nkind = \"zswap\"\ncompressor = \"lz4\"\n";
const TUNABLES: &str = "[tunables]\nswappiness = 150\n";

/// A file's tiers, and the number of areas swapped to then.
const CONFIGURATIONS: [(&[&str], usize); 8] = [
    (&[FAST], 1),
    (&[FAST, SECOND, TUNABLES], 2),
    (&[FAST, DRIVE], 2),
    (&[FAST, SECRET, MISSING], 2),
    (&[FILE, SECRET], 2),
    (&[CACHE, DRIVE, TUNABLES], 1),
    (&[FAST, FILE, DRIVE, MISSING], 3),
    (&[FAST, SECRET, DRIVE, TUNABLES], 3),
];

fn name(part: &str) -> Option<String> {
    let (_, rest) = part.split_once("[tier.")?;
    Some(rest.split(']').next()?.to_owned())
}

fn only(tier: &str) -> Options {
    Options {
        only: Some(vec![tier.to_owned()]),
        ..Options::default()
    }
}

fn run(machine: &Machine, text: &str, tier: &str, what: &str) {
    let report = machine.up_with(&config(text), &only(tier));
    report.unwrap_or_else(|err| panic!("{what}: {err}"));
}

fn orders(names: &[String]) -> Vec<Vec<String>> {
    if names.len() < 2 {
        return vec![names.to_vec()];
    }
    let mut all = Vec::new();
    for at in 0..names.len() {
        let mut rest = names.to_vec();
        let first = rest.remove(at);
        for mut order in orders(&rest) {
            order.insert(0, first.clone());
            all.push(order);
        }
    }
    all
}

/// Every file with zswap on and off at boot, in every order of its units.
fn each(mut drill: impl FnMut(&dyn Fn() -> Machine, &str, &[String], usize)) {
    for (parts, areas) in CONFIGURATIONS {
        let text = format!("{ACCEPT}{}", parts.concat());
        let names: Vec<String> = parts.iter().filter_map(|part| name(part)).collect();
        for zswap in ["Y\n", "N\n"] {
            let machine = || {
                let machine = match text.contains("file = ") {
                    true => Machine::on_disk(),
                    false => Machine::new(),
                };
                machine.put("/srv/place", "");
                machine.put("/sys/module/zswap/parameters/enabled", zswap);
                machine
            };
            for order in orders(&names) {
                drill(&machine, &text, &order, areas);
            }
        }
    }
}

/// The machine is as the file says, a run by hand has nothing to do, and `down` leaves
/// what was before.
fn is_set_up(machine: &Machine, text: &str, areas: usize, what: &str) {
    let lines = machine.text("/proc/swaps").lines().count() - 1;
    assert_eq!(lines, areas, "{what}: {}", machine.text("/proc/swaps"));
    let wanted = config(text);
    let has_cache = text.contains("[tier.cache]");
    let enabled = machine.text("/sys/module/zswap/parameters/enabled");
    let is_off = text.contains("kind = \"zram\"");
    if has_cache || is_off {
        assert_eq!(enabled.trim(), if has_cache { "Y" } else { "N" }, "{what}");
    }
    let report = machine.up(&wanted).unwrap();
    assert!(report.is_unchanged(), "{what}: {report:?}");
}

#[test]
fn the_units_of_a_boot_end_at_the_same_in_every_order() {
    let mut drills = 0;
    each(|machine, text, order, areas| {
        let machine = machine();
        let before = machine.snapshot();
        let what = format!("{order:?} {text}");
        for tier in order.iter().chain(order) {
            run(&machine, text, tier, &what);
        }
        is_set_up(&machine, text, areas, &what);
        machine.down().unwrap();
        assert_eq!(machine.snapshot(), before, "{what}");
        drills += 1;
    });
    assert_eq!(drills, 90);
}

/// The first unit is killed at each of its steps; the others run, and it is started
/// again.
#[test]
fn a_unit_of_a_boot_that_is_killed_holds_up_no_other() {
    quietly();
    let mut drills = 0;
    each(|machine, text, order, areas| {
        // Which one is killed matters, and not the order of the others.
        if !order[1..].is_sorted() {
            return;
        }
        drills += 1;
        // Another part of the steps with each drill: all of them together.
        for at in (drills % 9..).step_by(9) {
            let machine = machine();
            let before = machine.snapshot();
            let what = format!("{at} {order:?} {text}");
            machine.fate(Some((at, Fate::DieAfter)));
            let first = only(&order[0]);
            let was_killed = killed(|| machine.up_with(&config(text), &first).map(drop));
            machine.fate(None);
            for tier in order[1..].iter().chain(order) {
                run(&machine, text, tier, &what);
            }
            is_set_up(&machine, text, areas, &what);
            machine.down().unwrap();
            machine.remove_doubtful();
            assert_eq!(machine.snapshot(), before, "{what}");
            if !was_killed {
                return;
            }
        }
    });
}

/// Its drive does not answer from any operation on: RAM is swapped to all the same.
#[test]
fn a_boot_goes_on_without_a_tier_that_fails_on_the_way() {
    let both = config(&[FAST, DRIVE].concat());
    let at_boot = Options {
        at_boot: true,
        ..Options::default()
    };
    let swaps = |machine: &Machine, what: &str| machine.text("/proc/swaps").contains(what);
    for number in 0.. {
        let machine = Machine::new();
        machine.before_operation(number, machine.silencer("/dev/sdc1"));
        let report = machine.up_with(&both, &at_boot).unwrap();
        assert!(swaps(&machine, "/dev/zram1"), "{number}");
        if report.skipped.is_empty() && swaps(&machine, "sdc1") {
            break;
        }
        assert!(!swaps(&machine, "sdc1"), "{number}: {report:?}");
    }
}
