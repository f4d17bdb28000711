//! From sizes of objects to memory used, and from that to what a machine gains.

use zmeld_store::Geometry;

/// Sums over pages that were compressed with one codec.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// Pages, by weight.
    pub pages: u64,
    /// Bytes of their objects.
    pub bytes: u64,
    /// Sum of the squares of these, for the spread.
    pub squares: f64,
    /// Pages kept raw.
    pub raw: u64,
    /// Objects in each size class.
    classes: Vec<u64>,
}

impl Tally {
    pub fn new(geometry: &Geometry) -> Tally {
        Tally {
            pages: 0,
            bytes: 0,
            squares: 0.0,
            raw: 0,
            classes: vec![0; geometry.classes()],
        }
    }

    /// Adds an object that stands for `weight` pages.
    pub fn add(&mut self, geometry: &Geometry, size: u32, weight: u64) {
        self.pages += weight;
        self.bytes += u64::from(size) * weight;
        self.squares += f64::from(size) * f64::from(size) * weight as f64;
        self.raw += u64::from(size == geometry.page_size()) * weight;
        self.classes[geometry.class(size)] += weight;
    }

    pub fn merge(&mut self, other: &Tally) {
        self.pages += other.pages;
        self.bytes += other.bytes;
        self.squares += other.squares;
        self.raw += other.raw;
        for (mine, theirs) in self.classes.iter_mut().zip(&other.classes) {
            *mine += theirs;
        }
    }

    /// Bytes that the pool takes for `scale` times these objects, each class in whole spans.
    pub fn memory_used(&self, geometry: &Geometry, scale: f64) -> u64 {
        self.classes
            .iter()
            .enumerate()
            .map(|(class, &count)| {
                geometry.class_bytes(class, (count as f64 * scale).round() as u64)
            })
            .sum()
    }

    /// Half the width of the 95 % confidence interval of the mean size, as a
    /// share of the mean, when `pages` were drawn from `population`:
    /// 1.96 s / (m sqrt(n)) sqrt(1 - n / N), the last factor being the finite
    /// population correction.
    pub fn interval(&self, population: u64) -> f64 {
        if self.pages < 2 || self.pages >= population || self.bytes == 0 {
            return if self.pages >= population { 0.0 } else { 1.0 };
        }
        let n = self.pages as f64;
        let mean = self.bytes as f64 / n;
        let variance = (self.squares / n - mean * mean).max(0.0) * n / (n - 1.0);
        let correction = 1.0 - n / population as f64;
        1.96 * (variance / n * correction).sqrt() / mean
    }
}

/// Bytes of table that a device keeps for each page of its size.
pub const SLOT_BYTES: u64 = 16;

/// RAM gained by a device of `disksize` bytes when it is full, in bytes; negative
/// where it costs more than it gives. `stored` is memory used for each byte kept
/// (the inverse of the ratio, pool overhead included).
///
/// gain = disksize (1 - stored) - slots; the table is allocated with the device.
pub fn gained(disksize: u64, stored: f64, page_size: u64) -> i64 {
    let table = disksize / page_size * SLOT_BYTES;
    (disksize as f64 * (1.0 - stored) - table as f64) as i64
}

/// The largest disk size, in bytes, whose full device leaves `reserve` bytes of
/// RAM for everything that is not swapped.
pub fn disksize_max(ram: u64, reserve: u64, stored: f64) -> u64 {
    if stored <= 0.0 {
        return u64::MAX;
    }
    (ram.saturating_sub(reserve) as f64 / stored) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use zmeld_store::ChainRule;

    fn geometry() -> Geometry {
        Geometry::new(4096, 8, ChainRule::LeastWaste).unwrap()
    }

    #[test]
    fn gain_is_what_is_left_after_pool_and_table() {
        let gib = 1 << 30;
        assert_eq!(gained(gib, 0.5, 4096), (gib / 2 - gib / 256) as i64);
        assert!(gained(gib, 1.0, 4096) < 0);
        assert_eq!(disksize_max(4 * gib, 2 * gib, 0.5), 4 * gib);
        assert_eq!(disksize_max(gib, 2 * gib, 0.5), 0);
    }

    #[test]
    fn scaling_a_tally_scales_its_memory() {
        let geometry = geometry();
        let mut tally = Tally::new(&geometry);
        for size in 100..2000 {
            tally.add(&geometry, size, 50);
        }
        tally.add(&geometry, 4096, 7);
        let once = tally.memory_used(&geometry, 1.0) as f64;
        let ten = tally.memory_used(&geometry, 10.0) as f64;
        assert!((ten / once / 10.0 - 1.0).abs() < 0.01);
        assert!(once > tally.bytes as f64 && once < 1.1 * tally.bytes as f64);
        assert_eq!(tally.raw, 7);
    }

    #[test]
    fn intervals_shrink_with_the_sample_and_vanish_with_all() {
        let geometry = geometry();
        let mut tally = Tally::new(&geometry);
        for i in 0..10_000 {
            tally.add(&geometry, 500 + i % 2000, 1);
        }
        let some = tally.interval(1_000_000);
        // Uniform over 500..2500: s = 577, m = 1500.
        assert!(
            (some - 1.96 * 577.3 / 1499.5 / 100.0).abs() < 0.0001,
            "{some}"
        );
        assert_eq!(tally.interval(10_000), 0.0);
        assert_eq!(Tally::new(&geometry).interval(5), 1.0);
    }
}
