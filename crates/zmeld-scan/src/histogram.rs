//! A histogram of times whose buckets grow with the value: quantiles within 3 %,
//! in 4 KiB, however many values there are.

/// Buckets for each doubling: a middle is within 1.5 % of what its bucket holds.
const STEPS: f64 = 24.0;
/// Up to 2^32 ns.
const BUCKETS: usize = 32 * STEPS as usize;

/// Counts of durations in nanoseconds.
#[derive(Clone)]
pub(crate) struct Histogram {
    counts: Vec<u32>,
    total: u64,
}

impl Histogram {
    pub fn new() -> Histogram {
        Histogram {
            counts: vec![0; BUCKETS],
            total: 0,
        }
    }

    pub fn add(&mut self, ns: u64) {
        let bucket = (ns.max(1) as f64).log2() * STEPS;
        self.counts[(bucket as usize).min(BUCKETS - 1)] += 1;
        self.total += 1;
    }

    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
    }

    /// The value that a share `q` of all lies below; 0 without values.
    pub fn quantile(&self, q: f64) -> u64 {
        let wanted = (self.total as f64 * q).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            seen += u64::from(count);
            if seen >= wanted {
                return middle(bucket).round() as u64;
            }
        }
        0
    }

    /// Decimal megabytes per second, when each value was the time for a page of
    /// `bytes`. The slowest 1 % are left out: among them are pages during which
    /// the processor was taken away, and one such outweighs a thousand others.
    pub fn mb_per_s(&self, bytes: usize) -> f64 {
        let kept = self.total - self.total / 100;
        let (mut seen, mut sum) = (0, 0.0);
        for (bucket, &count) in self.counts.iter().enumerate() {
            let count = u64::from(count).min(kept - seen);
            seen += count;
            sum += count as f64 * middle(bucket);
        }
        if sum == 0.0 {
            return 0.0;
        }
        kept as f64 * bytes as f64 * 1e3 / sum
    }
}

/// The geometric middle of a bucket, in nanoseconds.
fn middle(bucket: usize) -> f64 {
    ((bucket as f64 + 0.5) / STEPS).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_three_percent() {
        let mut histogram = Histogram::new();
        let mut other = Histogram::new();
        assert_eq!(histogram.quantile(0.5), 0);
        for ns in 1..=50_000u64 {
            histogram.add(ns);
            other.add(50_000 + ns);
        }
        histogram.merge(&other);
        for (q, exact) in [(0.5, 50_000.0), (0.99, 99_000.0), (0.01, 1000.0)] {
            let found = histogram.quantile(q) as f64;
            assert!((found / exact - 1.0).abs() < 0.032, "{q}: {found}");
        }
    }

    #[test]
    fn a_page_that_was_interrupted_does_not_count() {
        let mut histogram = Histogram::new();
        for _ in 0..199 {
            histogram.add(4096);
        }
        histogram.add(100_000_000);
        assert!((histogram.mb_per_s(4096) / 1000.0 - 1.0).abs() < 0.032);
    }
}
