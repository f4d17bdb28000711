//! `vm.swappiness` and `vm.page-cluster`: what fits the swap that a machine has. The
//! plan sets by it, and the findings judge by it.
//!
//! Both follow `Documentation/admin-guide/sysctl/vm.rst` of the kernel. Swappiness says
//! how dear a page from swap is against one from a file: 100 where both cost the same,
//! 200 k / (k + 1) where swap gives pages back k times as fast. For "in-memory swap,
//! like zram or zswap" it names values above 100. But what zswap lets go of, and what
//! is beside it, is read from the drive: a spinning one reads random pages no faster
//! than files (k = 1), however fast the pool is. Page-cluster is read-ahead in swap,
//! which pays where neighbours come with the same move of a drive's head, and costs
//! decompressing pages that nobody asked for where all swap is in RAM.

use serde::Serialize;

use crate::finding::Finding;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwapKinds {
    /// Compressed devices in RAM. zswap is none: it stands in front of drives.
    pub in_ram: bool,
    /// Drives, or files on them.
    pub on_disk: bool,
    /// Drives that spin, of these.
    pub on_spinning_disk: bool,
}

/// The least swappiness where all swap is in RAM: the kernel's own default. Below it
/// caches are dropped, and read from a drive again, before cold pages are compressed.
const LEAST_IN_RAM: u8 = 60;
/// The most for swap in RAM: what Pop!_OS and the Arch wiki take for zram. Above it hardly a file
/// page would be dropped before programs are swapped out, whatever the file system does when it is
/// asked for more at once.
pub const MOST_IN_RAM: u8 = 180;
/// The least that is measured to fit: what is usually written where swap is slow. Less would let
/// the kernel drop all files first, those that are in use too.
pub const LEAST: u8 = 10;
/// The most where swap ends on a spinning disk: k = 1.
const MOST_ON_SPINNING_DISK: u8 = 100;

/// Random I/O of swap against the file system's, measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MeasuredReads {
    /// Pages a second that swap gives back.
    pub swap_pages_per_s: f64,
    /// Pages a second that are read from the file system at random.
    pub files_pages_per_s: f64,
}

impl MeasuredReads {
    /// `vm.swappiness` by the formula, to the nearest ten and within [`LEAST`] and
    /// [`MOST_IN_RAM`]: a fraction of a second of reads says no more than that.
    pub fn swappiness(&self) -> u8 {
        let swap = self.swap_pages_per_s.max(0.0);
        let sum = swap + self.files_pages_per_s.max(0.0);
        let share = if sum > 0.0 { swap / sum } else { 0.5 };
        let tens = (20.0 * share).round() as u8;
        (10 * tens).clamp(LEAST, MOST_IN_RAM)
    }
}

impl SwapKinds {
    /// `vm.swappiness` below which it is too low for this swap.
    fn swappiness_min(self) -> Option<u8> {
        (self.in_ram && !self.on_spinning_disk).then_some(LEAST_IN_RAM)
    }

    /// `vm.swappiness` above which it is too high for this swap.
    fn swappiness_max(self) -> Option<u8> {
        (self.on_spinning_disk && !self.in_ram).then_some(MOST_ON_SPINNING_DISK)
    }

    /// A value of `vm.swappiness`, within these.
    pub fn swappiness(self, value: u8) -> u8 {
        let value = value.max(self.swappiness_min().unwrap_or(0));
        value.min(self.swappiness_max().unwrap_or(u8::MAX))
    }

    /// `vm.page-cluster`; none: the kernel's own choice fits.
    pub fn page_cluster(self) -> Option<u8> {
        (self.in_ram && !self.on_disk).then_some(0)
    }
}

/// A tunable that does not suit, and what does.
pub struct Unfit {
    /// The finding, without a way out.
    pub finding: Finding,
    /// The key of `[tunables]`, and its value.
    pub fits: (&'static str, u8),
}

impl Unfit {
    /// Its way out in words, for a plan.
    pub fn in_words(self) -> Finding {
        let (key, fits) = self.fits;
        self.finding
            .with(format!("write {key} = {fits} in [tunables]"))
    }
}

/// That swappiness does not fit the kind of swap.
pub fn swappiness(kinds: SwapKinds, value: u64) -> Option<Unfit> {
    let (what, so, fits) = if kinds.swappiness_min().is_some_and(|it| value < it.into()) {
        (
            "it is low for swap in RAM: caches are dropped, and read from disk again, before \
             cold pages are compressed",
            "100 is for swap as fast as files, and RAM is faster",
            MOST_IN_RAM,
        )
    } else if kinds.swappiness_max().is_some_and(|it| value > it.into()) {
        (
            "it is high for swap on a spinning disk, which reads random pages no faster than \
             files",
            "100 is for swap as fast as files",
            60,
        )
    } else {
        return None;
    };
    let why = format!("vm.swappiness {value}; {so}");
    Some(unfit("swappiness", what, why, ("swappiness", fits)))
}

/// That neighbours are read ahead, which pays on disks: from RAM each page costs decompressing.
pub fn read_ahead(kinds: SwapKinds, value: u64) -> Option<Unfit> {
    let fits = kinds.page_cluster().filter(|fits| value > (*fits).into())?;
    let what = "swap in RAM is read ahead: pages are decompressed without need";
    let why = format!(
        "vm.page-cluster {value}: {} pages at once; all swap is in RAM",
        1u64 << value.min(20)
    );
    Some(unfit("page-cluster", what, why, ("page_cluster", fits)))
}

fn unfit(name: &str, what: &str, why: String, fits: (&'static str, u8)) -> Unfit {
    Unfit {
        finding: Finding::of_machine(format!("vm.{name}"), what, why, ""),
        fits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swappiness_follows_the_published_formula() {
        for (swap_pages_per_s, files_pages_per_s, swappiness) in [
            // 133, 120, 109 by the formula.
            (2.0, 1.0, 130),
            (1.5, 1.0, 120),
            (1.2, 1.0, 110),
            (1.0, 1.0, 100),
            // 196 by the formula: RAM against a drive.
            (639_723.0, 13_876.0, 180),
            (1e9, 1.0, 180),
            (1.0, 1e9, 10),
            (0.0, 0.0, 100),
            (f64::NAN, 1.0, 10),
        ] {
            let reads = MeasuredReads {
                swap_pages_per_s,
                files_pages_per_s,
            };
            assert_eq!(reads.swappiness(), swappiness, "{reads:?}");
        }
    }

    #[test]
    fn each_kind_of_swap_has_its_bounds() {
        let rows = [
            // RAM alone, a drive, one that spins, RAM above each, nothing.
            ([true, false, false], Some(60), None, Some(0)),
            ([false, true, false], None, None, None),
            ([false, true, true], None, Some(100), None),
            ([true, true, false], Some(60), None, None),
            ([true, true, true], None, None, None),
            ([false, false, false], None, None, None),
        ];
        for ([in_ram, on_disk, on_spinning_disk], min, max, cluster) in rows {
            let kinds = SwapKinds {
                in_ram,
                on_disk,
                on_spinning_disk,
            };
            let is = (kinds.swappiness_min(), kinds.swappiness_max());
            assert_eq!(is, (min, max), "{kinds:?}");
            assert_eq!(kinds.page_cluster(), cluster, "{kinds:?}");
            for value in [0, 60, 100, 180, 200] {
                let set = kinds.swappiness(value);
                assert!(min.is_none_or(|min| set >= min), "{kinds:?}");
                assert!(max.is_none_or(|max| set <= max), "{kinds:?}");
            }
        }
    }
}
