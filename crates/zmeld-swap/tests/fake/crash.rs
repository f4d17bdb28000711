//! A run that is killed, or whose operations fail, anywhere: what is left can be
//! carried on and taken back.

use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;

use crate::common::{config, Fate, Killed, Machine};
use zmeld_config::Config;
use zmeld_swap::setup::execute::Report;
use zmeld_swap::setup::journal::State;
use zmeld_swap::setup::Error;

const ALL: &str = r#"
accept = ["zram-with-zswap", "lru-inversion", "unstable-name"]

[tier.fast]
kind = "zram"
size = "50%"
memory_limit = "25%"
codec = "zstd:3"

[tier.secret]
kind = "disk"
device = "/dev/sdb1"
encryption = "random"

[tier.plain]
kind = "disk"
device = "/dev/sdc1"
format = true

[tier.file]
kind = "disk"
file = "/var/swap"
size = "1MiB"

[tier.cache]
kind = "zswap"
compressor = "lz4"
zpool = "zsmalloc"
max_pool_percent = 30

[tunables]
swappiness = 150
page_cluster = 0
"#;

const LESS: &str = r#"
[tier.fast]
kind = "zram"
size = "25%"
codec = "lz4"

[tunables]
swappiness = 120
"#;

/// Runs until the operation of that number; false where there was none.
pub fn killed(run: impl FnOnce() -> Result<(), Error>) -> bool {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => {
            result.unwrap();
            false
        }
        Err(panic) if panic.is::<Killed>() => true,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// The panics of killed runs are not worth printing.
pub fn quietly() {
    use std::sync::Once;
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !info.payload().is::<Killed>() {
                usual(info);
            }
        }));
    });
}

/// All of it that can be set up: a machine in memory has no place for a swap file.
fn wanted(machine: &Machine) -> Config {
    let mut config = config(ALL);
    if machine.plan(&config).is_err() {
        config.tiers.retain(|tier| tier.name.as_str() != "file");
    }
    config
}

/// Kills a run at each of its operations, before and after it. Whatever was left then, and
/// whether it goes on or not, all of it can be taken back; at how many it was killed.
fn killed_at_each(
    prepare: impl Fn(&Machine),
    run: impl Fn(&Machine) -> Result<Report, Error>,
    go_on: impl Fn(&Machine, usize) -> Result<(), Error>,
) -> usize {
    quietly();
    let mut operations = 0;
    for fate in [Fate::DieBefore, Fate::DieAfter] {
        for at in 0.. {
            let machine = Machine::new();
            let before = machine.snapshot();
            prepare(&machine);
            machine.fate(Some((at, fate)));
            let was_killed = killed(|| run(&machine).map(drop));
            machine.fate(None);
            let state = State::read(&machine.host()).unwrap().unwrap_or_default();
            let is_done = state.records.iter().all(|record| record.done);
            assert!(is_done || !state.complete, "{fate:?} {at}");
            let gone_on = go_on(&machine, at).and_then(|()| machine.down());
            gone_on.unwrap_or_else(|err| panic!("{fate:?} {at}: {err}"));
            machine.remove_doubtful();
            assert_eq!(machine.snapshot(), before, "{fate:?} {at}");
            if !was_killed {
                operations = at;
                break;
            }
        }
    }
    operations
}

fn goes_up(machine: &Machine, wanted: &Config) -> Result<(), Error> {
    machine.up(wanted)?;
    assert!(machine.up(wanted)?.is_unchanged());
    Ok(())
}

#[test]
fn killed_anywhere_on_the_way_up_it_goes_up_and_down() {
    let go_on = |machine: &Machine, at| {
        if at % 2 == 0 {
            goes_up(machine, &wanted(machine))?;
            assert_eq!(machine.text("/proc/sys/vm/swappiness"), "150\n");
        }
        Ok(())
    };
    let operations = killed_at_each(|_| (), |machine| machine.up(&wanted(machine)), go_on);
    assert!(operations > 60, "only {operations} operations");
}

#[test]
fn killed_anywhere_on_the_way_down_it_goes_down_and_up() {
    let go_on = |machine: &Machine, at| match at % 2 {
        0 => goes_up(machine, &wanted(machine)),
        _ => Ok(()),
    };
    let operations = killed_at_each(all_is_up, Machine::down, go_on);
    assert!(operations > 25, "only {operations} operations");
}

#[test]
fn killed_anywhere_while_changing_it_goes_on_with_either() {
    let less = config(LESS);
    let go_on = |machine: &Machine, at| {
        let swaps = machine.text("/proc/swaps");
        let applied = machine.applied().unwrap();
        let area = applied.tier("fast").and_then(|it| it.area.as_deref());
        assert!(swaps.contains(area.unwrap()), "{at}: {swaps}");
        assert!(applied.tiers.iter().all(|it| !it.name.contains('.')));
        match at % 3 {
            0 => {
                machine.up(&less)?;
                assert_eq!(machine.text("/proc/sys/vm/swappiness"), "120\n");
                // All that is left is in RAM.
                assert_eq!(machine.text("/proc/sys/vm/page-cluster"), "0\n");
            }
            1 => goes_up(machine, &wanted(machine))?,
            _ => {}
        }
        Ok(())
    };
    killed_at_each(all_is_up, |machine| machine.up(&less), go_on);
}

fn all_is_up(machine: &Machine) {
    machine.up(&wanted(machine)).unwrap();
}

#[test]
fn a_step_that_fails_leaves_nothing_behind() {
    for at in 0.. {
        let machine = Machine::new();
        let before = machine.snapshot();
        let wanted = wanted(&machine);
        machine.fate(Some((at, Fate::Fail)));
        let result = machine.up(&wanted);
        machine.fate(None);
        if let Err(err) = &result {
            let line = err.to_string();
            assert!(!line.contains('\n'), "{line}");
            let state = machine.path("/run/zmeld/state.json");
            assert!(!state.exists(), "{at}: {line}");
        } else {
            // The failed operation was not needed, or none failed.
            machine.down().unwrap();
        }
        assert_eq!(machine.snapshot(), before, "{at}: {result:?}");
        if result.is_ok() && at > 200 {
            break;
        }
    }
}

#[test]
fn a_change_that_fails_puts_the_old_set_up_back() {
    let mut told = 0;
    for at in 0..200 {
        let machine = Machine::new();
        let before = machine.snapshot();
        let (all, less) = (wanted(&machine), config(LESS));
        machine.up(&all).unwrap();
        machine.fate(Some((at, Fate::Fail)));
        let up = sorted(machine.snapshot());
        let result = machine.up(&less);
        machine.fate(None);
        if let Err(err) = result {
            let line = err.to_string();
            // Its message is true, whichever operation failed.
            let is_same = sorted(machine.snapshot()) == up;
            let says_so = line.contains("nothing was changed");
            assert_eq!(
                is_same && is_complete(&machine),
                says_so || is_before(&line),
                "{at}: {line}"
            );
            told += usize::from(says_so);
            // Whatever could not be put back by itself is once it is asked for.
            machine.up(&all).unwrap();
            assert_eq!(machine.text("/proc/sys/vm/swappiness"), "150\n");
            assert_eq!(machine.text("/proc/swaps").lines().count(), all.tiers.len());
        }
        machine.down().unwrap();
        assert_eq!(machine.snapshot(), before, "{at}");
    }
    assert!(told > 40, "only {told} went back");
}

/// The areas are switched on again in an order of their own.
fn sorted(mut files: BTreeMap<PathBuf, String>) -> BTreeMap<PathBuf, String> {
    for (path, text) in &mut files {
        if path.ends_with("proc/swaps") {
            let mut lines: Vec<&str> = text.split("\\n").collect();
            lines.sort_unstable();
            *text = lines.join("\n");
        }
    }
    files
}

fn is_complete(machine: &Machine) -> bool {
    let state = State::read(&machine.host()).unwrap().unwrap();
    state.records.iter().all(|record| record.done)
}

/// It failed before anything was begun: the line is of the look at the machine.
fn is_before(line: &str) -> bool {
    !line.contains("; nothing was")
        && !line.contains("going back")
        && !line.contains("not as before")
}

#[test]
fn what_an_optional_part_gave_up_is_put_back_where_a_later_one_fails() {
    let text = |codec: &str, tunable: &str| {
        config(&format!(
            "accept = [\"lru-inversion\", \"zram-with-zswap\", \"unstable-name\"]\n\
             [tier.fast]\nkind = \"zram\"\nsize = \"50%\"\ncodec = \"{codec}\"\noptional = true\n\
             [tier.secret]\nkind = \"disk\"\ndevice = \"/dev/sdb1\"\nencryption = \"random\"\n\
             [tunables]\nswappiness = {tunable}\n"
        ))
    };
    let mut gave_up = 0;
    for at in 0..120 {
        for second in 0..6 {
            let machine = Machine::new();
            machine.up(&text("lz4", "150")).unwrap();
            let up = sorted(machine.snapshot());
            machine.fate(Some((at, Fate::Fail)));
            machine.then_fail(second * 7 + 3);
            let result = machine.up(&text("zstd", "160"));
            machine.fate(None);
            match result {
                Ok(report) => gave_up += usize::from(!report.skipped.is_empty()),
                Err(err) => {
                    let line = err.to_string();
                    let is_same = sorted(machine.snapshot()) == up;
                    assert!(
                        is_same || !line.contains("nothing was changed"),
                        "{at}: {line}"
                    );
                }
            }
            machine.down().unwrap();
        }
    }
    assert!(gave_up > 10, "only {gave_up} runs left a part out");
}
