//! The k smallest hashes of an owner's contents, and what follows from them.
//!
//! A hash is as good as a number drawn from all of them with equal chance, so the
//! contents below a bound are a sample of all contents, the same wherever a content
//! stands. That makes samples of many owners comparable: below the smaller of two
//! bounds both say all they have.
//!
//! Invariants: rows are sorted by hash and distinct; each has `high < theta`; each
//! content of the owner with `high < theta` is among them with all its pages.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

/// The bound of a sketch that holds all contents.
pub const ALL: i64 = i64::MAX;

/// Standard deviations to each side that hold 95 % of a normal distribution.
pub(crate) const CONFIDENCE: f64 = 1.96;

/// A keyed hash: its halves, in the order of signed numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash {
    pub high: i64,
    pub low: i64,
}

/// A number that was estimated, with a 95 % confidence interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "SurveyEstimate")]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

impl Estimate {
    pub fn exact(value: f64) -> Estimate {
        Estimate {
            value,
            low: value,
            high: value,
        }
    }

    /// This estimate, inside of what is certain: for who is shown one estimate alone.
    #[must_use]
    pub fn at_most(self, most: f64) -> Estimate {
        Estimate {
            value: self.value.min(most),
            low: self.low.clamp(0.0, most),
            high: self.high.min(most),
        }
    }

    /// An estimate and its variance, within what is certain.
    pub(crate) fn new(value: f64, variance: f64, certain: (f64, f64)) -> Estimate {
        let half = CONFIDENCE * variance.max(0.0).sqrt();
        let within = |x: f64| x.max(certain.0).min(certain.1.max(certain.0));
        Estimate {
            value: within(value),
            low: within(value - half),
            high: within(value + half),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SketchRow<T> {
    pub hash: Hash,
    /// Pages that have it.
    pub count: u64,
    pub content: T,
}

/// The contents of one owner, or of several, below a bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sketch<T> {
    /// All contents with `high` below it are in `rows`.
    pub theta: i64,
    pub rows: Vec<SketchRow<T>>,
}

impl<T: Copy> Sketch<T> {
    /// Of all of them together. The order does not matter, as long as equal hashes
    /// come with equal contents.
    pub fn unite<'a>(sketches: impl IntoIterator<Item = &'a Sketch<T>>) -> Sketch<T>
    where
        T: 'a,
    {
        let sketches: Vec<_> = sketches.into_iter().collect();
        let theta = sketches.iter().map(|one| one.theta).min().unwrap_or(ALL);
        let mut rows: BTreeMap<Hash, (u64, T)> = BTreeMap::new();
        for row in sketches.iter().flat_map(|one| one.below(theta)) {
            rows.entry(row.hash).or_insert((0, row.content)).0 += row.count;
        }
        let row = |(hash, (count, content))| SketchRow {
            hash,
            count,
            content,
        };
        Sketch {
            theta,
            rows: rows.into_iter().map(row).collect(),
        }
    }

    pub fn share(&self) -> f64 {
        match self.theta {
            ALL => 1.0,
            theta => (theta as f64 + 2f64.powi(63)) / 2f64.powi(64),
        }
    }

    fn below(&self, theta: i64) -> &[SketchRow<T>] {
        let end = self.rows.partition_point(|row| row.hash.high < theta);
        &self.rows[..end]
    }

    /// Distinct contents: k / U(k+1), whose mean is exact, with the variance
    /// D (D - k) / (k - 1). It is not cut off at the number of pages, for a sum of what is
    /// would find duplicates where there are none.
    pub fn distinct(&self) -> Estimate {
        let seen = self.rows.len() as f64;
        if self.theta == ALL {
            return Estimate::exact(seen);
        }
        let distinct = seen / self.share();
        let variance = distinct * (distinct - seen) / (seen - 1.0).max(1.0);
        Estimate::new(distinct, variance, (f64::NEG_INFINITY, f64::INFINITY))
    }

    /// The sum of a quantity over all distinct contents: each sampled one stands for 1 / p
    /// (Horvitz and Thompson, 1952). It is not cut off either.
    pub fn sum(&self, quantity: impl Fn(&T) -> f64) -> Estimate {
        let values = || self.rows.iter().map(|row| quantity(&row.content));
        let share = self.share();
        let (sum, squares): (f64, f64) = (values().sum(), values().map(|x| x * x).sum());
        let variance = squares * (1.0 - share) / (share * share);
        Estimate::new(sum / share, variance, (f64::NEG_INFINITY, f64::INFINITY))
    }
}

/// A sketch that grows as pages come.
pub struct SketchBuilder<T> {
    size: usize,
    rows: BTreeMap<Hash, (u64, T)>,
    /// The largest hash that is kept, once there are more than `size`.
    bound: Option<Hash>,
}

impl<T> SketchBuilder<T> {
    /// For the `size` smallest hashes.
    pub fn new(size: usize) -> SketchBuilder<T> {
        SketchBuilder {
            size,
            rows: BTreeMap::new(),
            bound: None,
        }
    }

    /// A page with that hash; `content` is asked for where it is new and small
    /// enough. Returns the content that had to go for it.
    pub fn add(&mut self, hash: Hash, content: impl FnOnce() -> T) -> Option<T> {
        if self.bound.is_some_and(|bound| hash > bound) {
            return None;
        }
        let row = self.rows.entry(hash).or_insert_with(|| (0, content()));
        row.0 += 1;
        // One more than the size is kept: it is the bound.
        let gone = match self.rows.len() > self.size + 1 {
            true => self.rows.pop_last().map(|(_, (_, content))| content),
            false => None,
        };
        if self.rows.len() > self.size {
            self.bound = self.rows.last_key_value().map(|(&hash, _)| hash);
        }
        gone
    }

    pub fn contents_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.rows.values_mut().map(|(_, content)| content)
    }

    /// The sketch, with what each content has become.
    pub fn finish<U, E>(self, mut finish: impl FnMut(T) -> Result<U, E>) -> Result<Sketch<U>, E> {
        let theta = self.bound.map_or(ALL, |bound| bound.high);
        let kept = self.rows.into_iter();
        // Contents that share the bound's half of the hash go with it.
        let kept = kept.filter(|(hash, _)| theta == ALL || hash.high < theta);
        let rows = kept.map(|(hash, (count, content))| {
            Ok(SketchRow {
                hash,
                count,
                content: finish(content)?,
            })
        });
        Ok(Sketch {
            theta,
            rows: rows.collect::<Result<_, E>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn mix(seed: u64) -> u64 {
        fastrand::Rng::with_seed(seed).u64(..)
    }

    fn hash(trial: u64, content: u64) -> Hash {
        let seed = mix(trial << 40 ^ content);
        Hash {
            high: seed as i64,
            low: mix(seed ^ 0x55) as i64,
        }
    }

    fn sketch(trial: u64, k: usize, contents: impl Iterator<Item = u64>) -> Sketch<()> {
        let mut builder = SketchBuilder::new(k);
        for content in contents {
            builder.add(hash(trial, content), || ());
        }
        builder.finish(Ok::<_, Infallible>).unwrap()
    }

    #[test]
    fn an_estimate_stays_within_what_there_is() {
        let found = Estimate {
            value: 90.0,
            low: -5.0,
            high: 130.0,
        };
        let within = |value, low, high| Estimate { value, low, high };
        assert_eq!(found.at_most(100.0), within(90.0, 0.0, 100.0));
        assert_eq!(found.at_most(80.0), within(80.0, 0.0, 80.0));
    }

    #[test]
    fn a_small_owner_is_known_exactly() {
        let all = sketch(1, 64, (0..64).chain(0..10));
        assert_eq!((all.theta, all.rows.len()), (ALL, 64));
        assert_eq!(all.distinct(), Estimate::exact(64.0));
        assert_eq!(all.rows.iter().map(|row| row.count).sum::<u64>(), 74);
        let more = sketch(1, 64, 0..65);
        assert!(more.theta < ALL && more.rows.len() == 64);
        assert!(sketch(1, 64, 0..0).rows.is_empty());
    }

    #[test]
    fn counts_are_of_all_pages_whenever_they_come() {
        let found = sketch(3, 32, (0..5000).chain(0..5000).chain(0..5000));
        assert_eq!(found.rows.len(), 32);
        assert!(found.rows.iter().all(|row| row.count == 3));
        assert!(found.rows.windows(2).all(|two| two[0].hash < two[1].hash));
        let below = (0..5000).filter(|&c| hash(3, c).high < found.theta);
        assert_eq!(below.count(), 32);
    }

    #[test]
    fn hashes_that_share_the_bounds_half_go_with_it() {
        let mut builder = SketchBuilder::new(3);
        for (high, low) in [(1, 1), (2, 1), (2, 2), (2, 3), (3, 1)] {
            builder.add(Hash { high, low }, || ());
        }
        let found = builder.finish(Ok::<_, Infallible>).unwrap();
        assert_eq!((found.theta, found.rows.len()), (2, 1));
    }

    #[test]
    fn the_order_of_uniting_does_not_matter() {
        let parts: Vec<_> = (0..6)
            .map(|part| sketch(7, 50 + 10 * part as usize, part * 300..part * 400 + 900))
            .collect();
        let all = Sketch::unite(&parts);
        let backwards = Sketch::unite(parts.iter().rev());
        let (some, others) = parts.split_at(2);
        let nested = Sketch::unite([&Sketch::unite(others), &Sketch::unite(some)]);
        assert!(all == backwards && all == nested && !all.rows.is_empty());
    }

    /// One owner, and many owners together: over 1,000 trials the intervals hold the exact value in at least 94 %.
    #[test]
    fn intervals_cover_what_is_so() {
        const TRIALS: u64 = 1000;
        let (mut unions, mut singles) = (0, 0);
        for trial in 0..TRIALS {
            let common = 300 + mix(trial) % 4000;
            let (a, b) = (2000 + mix(trial ^ 1 << 50) % 4000, 1500);
            let one = sketch(trial, 256, 0..common + a);
            let two = sketch(trial, 256, (0..common).chain(100_000..100_000 + b));
            let third = sketch(trial, 128, 200_000..201_000);
            let covers = |found: Estimate, exact: u64| {
                u64::from(found.low <= exact as f64 && exact as f64 <= found.high)
            };
            singles += covers(one.distinct(), common + a);
            let exact = common + a + b + 1000;
            let united = Sketch::unite([&one, &two, &third]);
            unions += covers(united.distinct(), exact);
        }
        let least = TRIALS * 94 / 100;
        assert!(unions >= least, "{unions} unions");
        assert!(singles >= least, "{singles} single owners");
    }

    #[test]
    fn a_sum_over_contents_is_estimated_with_its_interval() {
        let mut covered = 0;
        for trial in 0..300 {
            let mut builder = SketchBuilder::new(200);
            let bytes = |content: u64| 100.0 + (mix(content) % 3000) as f64;
            for content in 0..5000 {
                builder.add(hash(trial, content), || bytes(content));
            }
            let found = builder.finish(Ok::<_, Infallible>).unwrap();
            let exact: f64 = (0..5000).map(bytes).sum();
            let sum = found.sum(|&bytes| bytes);
            covered += u64::from(sum.low <= exact && exact <= sum.high);
        }
        assert!(covered >= 282, "{covered}");
    }
}
