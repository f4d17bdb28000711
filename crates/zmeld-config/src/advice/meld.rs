//! Whether melding pays, and what melds on this machine.
//!
//! It pays where it saves at least [`WORTH`] of the compressed memory. A scan knows
//! that figure; a device's own sample knows the share of pages that repeat, which
//! comes to the same where these compress like the others. `zmeld watch` and
//! `zmeld status` hold their samples against the same threshold.

use crate::advice::module::ModulePresence;
use crate::tier::{MeldMode, RamDriver};

/// Share of the compressed memory that melding has to save before it is advised.
pub const WORTH: f64 = 0.05;

/// [`WORTH`] for the memory that was scanned: a share of next to nothing is nothing.
pub const WORTH_OF_SCANNED: f64 = 0.01;

/// When a device that is advised melds.
pub fn advised(driver: RamDriver) -> MeldMode {
    match driver {
        RamDriver::Zram => MeldMode::Off,
        RamDriver::Zmeld => MeldMode::Auto,
    }
}

/// Mechanisms that meld on a machine, in a sentence. `zmeld`: the kernel module; `ksm_runs`:
/// whether KSM does, `None` where the kernel has none.
pub fn melders(zmeld: ModulePresence, ksm_runs: Option<bool>) -> String {
    let device = "a zmeld device melds them as they are swapped out";
    match zmeld {
        ModulePresence::Ready | ModulePresence::Module => {
            format!("With zmeld up --tier zmeld {device}.")
        }
        ModulePresence::Absent | ModulePresence::Unknown => format!(
            "With the kernel module zmeld, once it is built (docs/kernel-module.md), {device}."
        ),
        ModulePresence::Impossible => match ksm_runs {
            None => "This kernel loads no modules and is built without KSM: nothing melds pages \
                     here."
                .to_owned(),
            // It melds what programs offer to it.
            Some(runs) => format!(
                "This kernel loads no modules; KSM, which is {}, melds pages in RAM, of programs \
                 that ask for it: madvise(MADV_MERGEABLE), or MemoryKSM=yes for a systemd service \
                 (Linux 6.4 and newer). It costs scanning, and lets one program learn by timing \
                 what another holds.",
                if runs { "running" } else { "switched off" }
            ),
        },
    }
}
