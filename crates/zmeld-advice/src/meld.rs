//! Whether melding pays, and what melds on this machine.
//!
//! It pays where it saves at least [`WORTH`] of the compressed memory. A scan knows
//! that figure; a device's own sample knows the share of pages that repeat, which
//! comes to the same where these compress like the others. `zmeld watch` and
//! `zmeld status` hold their samples against the same threshold.

use zmeld_report::units::percent;

use crate::module::ModulePresence;

/// Share of the compressed memory that melding has to save before it is advised.
pub const WORTH: f64 = 0.05;

/// What melding pages would come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Melding {
    /// Memory that the pages take compressed.
    pub compressed_bytes: u64,
    /// Of it, what melding saves.
    pub saved_bytes: u64,
}

impl Melding {
    /// The saved share of the compressed memory, 0 to 1.
    pub fn share(&self) -> f64 {
        self.saved_bytes as f64 / self.compressed_bytes.max(1) as f64
    }

    /// Whether it pays.
    pub fn pays(&self) -> bool {
        self.share() >= WORTH
    }
}

/// What melds on a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Melders {
    /// The kernel module zmeld.
    pub zmeld: ModulePresence,
    /// Whether KSM runs; `None` where the kernel has none.
    pub ksm_runs: Option<bool>,
}

impl Melders {
    /// What melds them here, in a sentence.
    pub fn words(&self) -> String {
        let device = "a zmeld device melds them as they are swapped out";
        match self.zmeld {
            ModulePresence::Ready | ModulePresence::Module => {
                format!("With zmeld up --tier zmeld {device}.")
            }
            ModulePresence::Absent | ModulePresence::Unknown => {
                format!("With the kernel module zmeld, once it is built (docs/kernel-module.md), {device}.")
            }
            ModulePresence::Impossible => format!("{}.", self.ksm()),
        }
    }

    /// KSM, which melds what programs offer to it.
    fn ksm(&self) -> String {
        match self.ksm_runs {
            None => {
                "This kernel loads no modules and is built without KSM: nothing melds pages here"
                    .to_owned()
            }
            Some(runs) => format!(
                "This kernel loads no modules; KSM, which is {}, melds pages in RAM, of programs \
                 that ask for it: madvise(MADV_MERGEABLE), or MemoryKSM=yes for a systemd service \
                 (Linux 6.4 and newer). It costs scanning, and lets one program learn by timing \
                 what another holds",
                if runs { "running" } else { "switched off" }
            ),
        }
    }
}

/// The threshold in words.
pub fn worth() -> String {
    percent(WORTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_pays_by_memory_and_not_by_pages() {
        let of = |saved_bytes| Melding {
            compressed_bytes: 1_000_000,
            saved_bytes,
        };
        assert!(!of(4_000).pays());
        assert!(!of(49_999).pays());
        assert!(of(50_000).pays());
        let nothing = Melding {
            compressed_bytes: 0,
            saved_bytes: 0,
        };
        assert!(!nothing.pays());
    }

    #[test]
    fn what_melds_is_named() {
        let said = |zmeld, ksm_runs| Melders { zmeld, ksm_runs }.words();
        assert!(said(ModulePresence::Module, None).contains("zmeld up --tier zmeld"));
        let built = said(ModulePresence::Absent, Some(true));
        assert!(built.contains("docs/kernel-module.md") && !built.contains("KSM"));
        assert!(
            said(ModulePresence::Impossible, Some(false)).contains("KSM, which is switched off")
        );
        assert!(said(ModulePresence::Impossible, None).contains("nothing melds pages here"));
    }
}
