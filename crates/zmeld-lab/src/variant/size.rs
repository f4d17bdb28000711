//! Sizes that follow a run.

use zmeld_config::Bytes;

/// Bases of sizes in a variant, bytes.
#[derive(Debug, Clone, Copy)]
pub struct SizeBases {
    /// The memory limit of the run.
    pub limit: u64,
    /// The workload's footprint.
    pub footprint: u64,
}

/// A size that a run may decide; shares are in percent, from 0.1 to 1000.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RunSize {
    /// `214MiB`.
    Bytes(u64),
    /// `60% of limit`.
    OfLimit(f64),
    /// `60% of footprint`.
    OfFootprint(f64),
}

impl RunSize {
    /// None: the text is no such size.
    pub fn parse(text: &str) -> Option<RunSize> {
        let Some((percent, base)) = text.split_once("% of ") else {
            return Some(RunSize::Bytes(text.parse::<Bytes>().ok()?.0));
        };
        let percent: f64 = percent.trim().parse().ok()?;
        let of: fn(f64) -> RunSize = match base.trim() {
            "limit" => RunSize::OfLimit,
            "footprint" => RunSize::OfFootprint,
            _ => return None,
        };
        (0.1..=1000.0).contains(&percent).then(|| of(percent))
    }

    /// The size in such a run, whole pages.
    pub fn bytes(self, bases: SizeBases) -> u64 {
        let share = |whole: u64, percent: f64| (whole as f64 * percent / 100.0) as u64;
        let bytes = match self {
            RunSize::Bytes(bytes) => bytes,
            RunSize::OfLimit(percent) => share(bases.limit, percent),
            RunSize::OfFootprint(percent) => share(bases.footprint, percent),
        };
        bytes / 4096 * 4096
    }
}

/// `60% of limit`, `60% of footprint`, `214MiB` in bytes; whole pages.
pub fn size(text: &str, bases: SizeBases) -> Option<u64> {
    RunSize::parse(text).map(|size| size.bytes(bases))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASES: SizeBases = SizeBases {
        limit: 100 << 20,
        footprint: 200 << 20,
    };

    #[test]
    fn sizes_follow_the_run() {
        assert_eq!(size("50% of limit", BASES), Some(50 << 20));
        assert_eq!(size("25% of footprint", BASES), Some(50 << 20));
        assert_eq!(size("64MiB", BASES), Some(64 << 20));
        for wrong in ["", "50%", "-1% of limit", "50% of ram", "x% of limit"] {
            assert_eq!(size(wrong, BASES), None, "{wrong}");
        }
    }
}
