//! Tunables that do not suit what is swapped to, by one function each for plans and for
//! findings.

use zmeld_config::advice::SwapKinds;
use zmeld_config::Finding;

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
        self.finding.with(format!("{key} = {fits} in [tunables]"))
    }
}

/// That swappiness does not fit the kind of swap.
pub fn swappiness(kinds: SwapKinds, value: u64) -> Option<Unfit> {
    let (what, so, fits) = if kinds.swappiness_min().is_some_and(|it| value < it.into()) {
        (
            "it is low for swap in RAM: caches are dropped, and read from disk again, before \
             cold pages are compressed",
            "with swap k times as fast as files, 200 k/(k+1)",
            150,
        )
    } else if kinds.swappiness_max().is_some_and(|it| value > it.into()) {
        (
            "it is high for swap on a spinning disk, which reads random pages no faster than \
             files",
            "100: swap is as fast as files",
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
