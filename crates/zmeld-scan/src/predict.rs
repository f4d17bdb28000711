//! From sizes of objects to memory used.

use zmeld_store::Geometry;

/// Ranges of compressed sizes that are told.
pub(crate) const SIZE_RANGES: usize = 32;

/// Sums over pages that were compressed with one codec, by weight. Whole weights
/// stay exact up to 2^53.
#[derive(Clone, Debug)]
pub(crate) struct CompressionSums {
    pub pages: f64,
    /// Bytes of their objects.
    pub bytes: f64,
    /// For the spread: sums of the squared weights, of these times the bytes,
    /// and of these times the squared bytes.
    moments: [f64; 3],
    pub raw: f64,
    /// Compressed ones by size, each range a part of a page.
    pub by_size: [f64; SIZE_RANGES],
    /// Objects in each size class.
    classes: Vec<f64>,
    page_size: f64,
}

impl CompressionSums {
    pub fn new(geometry: &Geometry) -> CompressionSums {
        CompressionSums {
            pages: 0.0,
            bytes: 0.0,
            moments: [0.0; 3],
            raw: 0.0,
            by_size: [0.0; SIZE_RANGES],
            classes: vec![0.0; geometry.classes()],
            page_size: geometry.page_size().into(),
        }
    }

    /// Adds an object that stands for `weight` pages.
    pub fn add(&mut self, geometry: &Geometry, size: u32, weight: f64) {
        if weight == 0.0 {
            return;
        }
        let bytes = f64::from(size);
        self.pages += weight;
        self.bytes += bytes * weight;
        add_moments(&mut self.moments, weight * weight, bytes);
        match size == geometry.page_size() {
            true => self.raw += weight,
            false => {
                let range = size.saturating_sub(1) as usize * SIZE_RANGES;
                self.by_size[range / geometry.page_size() as usize] += weight;
            }
        }
        self.classes[geometry.class(size)] += weight;
    }

    pub fn merge(&mut self, other: &CompressionSums) {
        self.pages += other.pages;
        self.bytes += other.bytes;
        for (mine, theirs) in self.moments.iter_mut().zip(other.moments) {
            *mine += theirs;
        }
        self.raw += other.raw;
        for (mine, theirs) in self.by_size.iter_mut().zip(other.by_size) {
            *mine += theirs;
        }
        for (mine, theirs) in self.classes.iter_mut().zip(&other.classes) {
            *mine += theirs;
        }
    }

    /// The sums of these pages `factor` times.
    pub fn scaled(&self, factor: f64) -> CompressionSums {
        CompressionSums {
            pages: self.pages * factor,
            bytes: self.bytes * factor,
            moments: self.moments.map(|moment| moment * factor * factor),
            raw: self.raw * factor,
            by_size: self.by_size.map(|count| count * factor),
            classes: self.classes.iter().map(|count| count * factor).collect(),
            page_size: self.page_size,
        }
    }

    /// Bytes that the pool takes, each class in whole spans.
    pub fn memory_used(&self, geometry: &Geometry) -> u64 {
        self.classes
            .iter()
            .enumerate()
            .map(|(class, &count)| geometry.class_bytes(class, count.round() as u64))
            .sum()
    }

    /// Bytes that they take in a pool so full that no partly filled span matters.
    pub fn memory_at_scale(&self, geometry: &Geometry) -> f64 {
        self.classes
            .iter()
            .enumerate()
            .map(|(class, &count)| count * geometry.object_bytes(class))
            .sum()
    }

    /// Mean bytes of a page.
    pub fn mean(&self) -> f64 {
        self.bytes / self.pages.max(f64::MIN_POSITIVE)
    }

    /// The variance of the bytes of `population` pages as estimated by their
    /// number times the mean of this sample. Drawn are contents, not pages, each
    /// with its weight w; the mean is a quotient of two sums, so to first order
    /// its variance is sum(w^2 (x - mean)^2) / sum(w)^2 (the linearised variance
    /// of a ratio estimator), times the finite population correction. A weight
    /// that goes with a size, as where many pages are nearly empty, widens it.
    fn variance(&self, population: u64) -> f64 {
        let all = population as f64;
        if self.pages >= all {
            return 0.0;
        }
        let n = self.pages * self.pages / self.moments[0].max(f64::MIN_POSITIVE);
        if n < 2.0 {
            // Next to nothing is known of them: anything from 0 to a page.
            return (all * self.page_size / 2.0 / CONFIDENCE).powi(2);
        }
        let mean = self.mean();
        let deviations = centred(&self.moments, mean, mean).max(0.0) * n / (n - 1.0);
        (all / self.pages).powi(2) * deviations * (1.0 - self.pages / all)
    }

    /// Half the width of the 95 % confidence interval of the bytes of
    /// `population` pages of which these are a sample.
    #[cfg(test)]
    pub fn half_width(&self, population: u64) -> f64 {
        CONFIDENCE * self.variance(population).sqrt()
    }
}

/// Standard deviations to each side that hold 95 % of a normal distribution.
const CONFIDENCE: f64 = 1.96;

fn add_moments(moments: &mut [f64; 3], weight: f64, bytes: f64) {
    moments[0] += weight;
    moments[1] += weight * bytes;
    moments[2] += weight * bytes * bytes;
}

/// sum(w (x - a) (x - b)) from the sums of w, w x and w x^2.
fn centred(moments: &[f64; 3], a: f64, b: f64) -> f64 {
    moments[2] - (a + b) * moments[1] + a * b * moments[0]
}

/// Overlap of two samples of the same pages: the contents that are in both, by the product of their
/// weights.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overlap([f64; 3]);

impl Overlap {
    /// A content of so many bytes, with its weights in the two samples.
    pub fn add(&mut self, size: u32, weight: f64, other_weight: f64) {
        add_moments(&mut self.0, weight * other_weight, f64::from(size));
    }
}

/// Half the width of the 95 % confidence interval of the bytes of two kinds of
/// pages together: `first` and `second` are samples of them, which have
/// `overlap` in common and so do not err independently.
pub(crate) fn half_width(
    first: (&CompressionSums, u64),
    second: (&CompressionSums, u64),
    overlap: &Overlap,
) -> f64 {
    let ((one, all_one), (two, all_two)) = (first, second);
    let mut variance = one.variance(all_one) + two.variance(all_two);
    let is_sampled = one.pages < all_one as f64 && two.pages < all_two as f64;
    if is_sampled && one.pages > 0.0 && two.pages > 0.0 {
        let expand = (all_one as f64 / one.pages) * (all_two as f64 / two.pages);
        let left = 1.0 - one.pages / all_one as f64;
        let common = centred(&overlap.0, one.mean(), two.mean());
        variance += (2.0 * expand * common * left).max(0.0);
    }
    CONFIDENCE * variance.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use zmeld_config::{RamDriver, SlotTable};
    use zmeld_store::{ChainRule, Codec, MeldMode, Store};

    fn geometry() -> Geometry {
        Geometry::new(4096, 8, ChainRule::LeastWaste).unwrap()
    }

    #[test]
    fn a_table_is_as_large_as_the_stores() {
        let codec = Codec::new("lz4", None).unwrap();
        use zmeld_config::MeldMode as Wanted;
        for (mode, wanted) in [
            (MeldMode::Manual, Wanted::Manual),
            (MeldMode::Auto, Wanted::Auto),
        ] {
            let metadata = |pages| {
                let store = Store::new(pages, mode, &codec).unwrap();
                store.stats().memory_metadata
            };
            let table = SlotTable::new(RamDriver::Zmeld, wanted, 4096);
            let expected = table.bytes(4096 << 14);
            assert_eq!(metadata(1 << 15) - metadata(1 << 14), expected, "{mode:?}");
        }
    }

    #[test]
    fn scaling_a_tally_scales_its_memory() {
        let geometry = geometry();
        let mut tally = CompressionSums::new(&geometry);
        for size in 100..2000 {
            tally.add(&geometry, size, 50.0);
        }
        tally.add(&geometry, 4096, 7.0);
        let once = tally.memory_used(&geometry) as f64;
        let ten = tally.scaled(10.0).memory_used(&geometry) as f64;
        assert!((ten / once / 10.0 - 1.0).abs() < 0.01);
        assert!(once > tally.bytes && once < 1.1 * tally.bytes);
        let bulk = tally.memory_at_scale(&geometry);
        assert!(bulk > tally.bytes && bulk <= once && bulk > 0.98 * once);
        assert_eq!(tally.raw, 7.0);
    }

    #[test]
    fn intervals_shrink_with_the_sample_and_vanish_with_all() {
        let geometry = geometry();
        let mut tally = CompressionSums::new(&geometry);
        for i in 0..10_000 {
            tally.add(&geometry, 500 + i % 2000, 1.0);
        }
        // Uniform over 500..2500: s = 577.
        let expected = 1.96 * 577.35 / 100.0 * 1e6 * 0.99_f64.sqrt();
        let found = tally.half_width(1_000_000);
        assert!((found / expected - 1.0).abs() < 0.001, "{found} {expected}");
        assert_eq!(tally.half_width(10_000), 0.0);
        let unknown = CompressionSums::new(&geometry);
        assert_eq!(unknown.half_width(5), 5.0 * 2048.0);
        assert_eq!(unknown.half_width(0), 0.0);
    }

    /// What errs alike errs twice as much together; what errs apart, by the root of two.
    #[test]
    fn samples_of_the_same_contents_err_together() {
        let geometry = geometry();
        let (mut tally, mut overlap) = (CompressionSums::new(&geometry), Overlap::default());
        for i in 0..10_000 {
            tally.add(&geometry, 500 + i % 2000, 1.0);
            overlap.add(500 + i % 2000, 1.0, 1.0);
        }
        let alone = tally.half_width(1_000_000);
        for (overlap, times) in [(overlap, 2.0), (Overlap::default(), 2.0_f64.sqrt())] {
            let sample = (&tally, 1_000_000);
            let found = half_width(sample, sample, &overlap);
            assert!(
                (found / alone / times - 1.0).abs() < 0.001,
                "{found} {alone}"
            );
        }
    }
}
