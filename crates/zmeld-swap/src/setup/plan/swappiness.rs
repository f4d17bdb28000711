//! What `vm.swappiness` is by measured rates.

use serde::Serialize;
use zmeld_config::advice::tunables::MOST_IN_RAM;

/// Random I/O of swap against the file system's, measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measured {
    /// Pages a second that swap gives back.
    pub swap_pages_per_s: f64,
    /// Pages a second that are read from the file system at random.
    pub files_pages_per_s: f64,
}

impl Measured {
    /// `vm.swappiness` by 200 k / (k + 1), where swap is k times as fast as the
    /// file system (`Documentation/admin-guide/sysctl/vm.rst`: twice as fast
    /// gives 133), to the nearest ten and within `SWAPPINESS_MIN` and
    /// `MOST_IN_RAM`: a fraction of a second of reads says no more than that.
    pub fn swappiness(&self) -> u8 {
        let (swap, files) = (
            self.swap_pages_per_s.max(0.0),
            self.files_pages_per_s.max(0.0),
        );
        let share = if swap + files > 0.0 {
            swap / (swap + files)
        } else {
            0.5
        };
        let tens = (20.0 * share).round() as u8;
        (10 * tens).clamp(SWAPPINESS_MIN, MOST_IN_RAM)
    }
}

/// The least: what is usually written where swap is slow. Less would let the kernel
/// drop all files first, those that are in use too.
pub const SWAPPINESS_MIN: u8 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swappiness_follows_the_published_formula() {
        let value = |swap, files| {
            Measured {
                swap_pages_per_s: swap,
                files_pages_per_s: files,
            }
            .swappiness()
        };
        // 133, 120, 109 by the formula.
        assert_eq!(value(2.0, 1.0), 130);
        assert_eq!(value(1.5, 1.0), 120);
        assert_eq!(value(1.2, 1.0), 110);
        assert_eq!(value(1.0, 1.0), 100);
        // 196 by the formula: RAM against a drive.
        assert_eq!(value(639_723.0, 13_876.0), 180);
        assert_eq!(value(1e9, 1.0), 180);
        assert_eq!(value(1.0, 1e9), 10);
        assert_eq!(value(0.0, 0.0), 100);
        assert_eq!(value(f64::NAN, 1.0), 10);
    }
}
