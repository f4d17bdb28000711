//! A take-over that is killed.

use std::panic::{catch_unwind, AssertUnwindSafe};

use zmeld_swap::setup::plan::Options;

use crate::cases::machine;
use crate::common::{config, Fate};
use crate::crash::quietly;

const RAM: &str = "[tier.fast]\nkind = \"zram\"\nsize = \"50%\"\nmemory_limit = \"30%\"\n";

/// Killed or failing anywhere, on the way up and on the way down.
#[test]
fn a_killed_take_over_is_taken_back() {
    quietly();
    let options = Options {
        take_over: true,
        ..Options::default()
    };
    for fate in [Fate::DieBefore, Fate::DieAfter, Fate::Fail] {
        for at in 0.. {
            let machine = machine("take-over.txt", "laptop 100 | 0");
            machine.fate(Some((at, fate)));
            let up = || machine.up_with(&config(RAM), &options).map(drop);
            let _ = catch_unwind(AssertUnwindSafe(up));
            let reached = machine.fate(None) > at;
            // It can be killed on the way down as well.
            machine.fate(Some((at / 2, fate)));
            let _ = catch_unwind(AssertUnwindSafe(|| machine.down().map(drop)));
            machine.fate(None);
            machine
                .down()
                .unwrap_or_else(|err| panic!("{fate:?} {at}: {err}"));
            let swaps = machine.text("/proc/swaps");
            let areas: Vec<&str> = swaps.lines().skip(1).collect();
            let is_back = areas[0].starts_with("/dev/zram0 ") && areas[0].ends_with("\t100");
            assert!(areas.len() == 1 && is_back, "{fate:?} {at}: {swaps}");
            machine.remove_doubtful();
            assert!(
                !machine.dir.path().join("sys/block/zram1").exists(),
                "{fate:?} {at}"
            );
            if !reached {
                break;
            }
        }
    }
}
