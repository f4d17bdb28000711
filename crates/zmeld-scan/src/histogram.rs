//! A histogram of times whose buckets grow with the value: quantiles within 3 %,
//! in 4 KiB, however many values there are.

/// Buckets for each doubling.
const STEPS: u64 = 32;
/// Doublings above the first `STEPS` values: up to 2^32 ns.
const DOUBLINGS: usize = 28;

/// Counts of durations in nanoseconds.
#[derive(Clone)]
pub(crate) struct Histogram {
    counts: Vec<u32>,
    total: u64,
}

impl Histogram {
    pub fn new() -> Histogram {
        Histogram {
            counts: vec![0; STEPS as usize * (DOUBLINGS + 1)],
            total: 0,
        }
    }

    /// Below `STEPS` each value has its bucket; above, 32 in each doubling.
    fn bucket(ns: u64) -> usize {
        if ns < STEPS {
            return ns as usize;
        }
        let doubling = ns.ilog2() - STEPS.ilog2();
        let step = (ns >> doubling) - STEPS;
        ((u64::from(doubling) + 1) * STEPS + step) as usize
    }

    fn bucket_middle(bucket: usize) -> u64 {
        let (doubling, step) = (bucket as u64 / STEPS, bucket as u64 % STEPS);
        if doubling == 0 {
            return step;
        }
        let width = 1 << (doubling - 1);
        (STEPS + step) * width + width / 2
    }

    pub fn add(&mut self, ns: u64) {
        let last = self.counts.len() - 1;
        self.counts[Self::bucket(ns).min(last)] += 1;
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
                return Self::bucket_middle(bucket);
            }
        }
        0
    }

    /// Decimal megabytes per second, when each value was the time for a page of
    /// `bytes`. The slowest 1 % are left out: among them are pages during which
    /// the processor was taken away, and one such outweighs a thousand others.
    pub fn mb_per_s(&self, bytes: usize) -> f64 {
        let kept = self.total - self.total / 100;
        let (mut seen, mut sum) = (0, 0);
        for (bucket, &count) in self.counts.iter().enumerate() {
            let count = u64::from(count).min(kept - seen);
            seen += count;
            sum += count * Self::bucket_middle(bucket);
        }
        if sum == 0 {
            return 0.0;
        }
        kept as f64 * bytes as f64 * 1e3 / sum as f64
    }
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
