//! The sample: which pages are compressed.
//!
//! Two sums are estimated, and each needs its own kind of sample.
//!
//! - Over *distinct contents*, what a melding store keeps: a content is in the
//!   sample when its hash is below a threshold, so all of its pages are in or
//!   none.
//! - Over *repeats*, the pages that melding would drop: each page is drawn with
//!   the same probability. A drawn page of a content with m pages stands for
//!   (m - 1) / m repeats; m is known exactly when all pages were seen.
//!
//! A store without melding keeps the sum of the two. The draw of a
//! content's first page is decided by the content's hash and that of later ones
//! by chance, so the two samples are the same pages as far as contents do not
//! repeat, and little is compressed for one sample only. A small bitmap tells
//! first pages from later ones; where it errs the draw is still of the same
//! probability, only the overlap shrinks.
//!
//! The threshold follows from the number of pages expected. Where that is not
//! known it starts at "all" and is halved whenever the sample has become three
//! times as large as wanted; what is above the new threshold is forgotten.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

use zmeld_store::Geometry;

use crate::predict::{CompressionSums, Overlap};

/// Bits of the bitmap of contents seen: 2 MiB.
const SEEN_BITS: u64 = 1 << 24;

pub(crate) struct Sampler {
    threshold: AtomicU64,
    target: usize,
    seen: Vec<AtomicU64>,
    drawn: AtomicU64,
    contents: Mutex<HashMap<u64, SampledContent>>,
}

struct SampledContent {
    /// In the content sample while below the threshold.
    position: u64,
    /// With each codec.
    sizes: Box<[u32]>,
    /// One for each page drawn: in the page sample while below the threshold.
    draws: Vec<u64>,
}

/// A page was chosen; `position` and `draw` say for which sample.
pub(crate) struct SampleChoice {
    key: u64,
    position: u64,
    draw: u64,
}

pub(crate) struct SampleEstimate {
    pub contents: CompressionSums,
    pub repeats: CompressionSums,
    pub overlap: Overlap,
}

impl Sampler {
    /// For about `target` contents of `expected` pages.
    pub fn new(target: usize, expected: Option<u64>) -> Sampler {
        let threshold = match expected {
            Some(expected) if expected > target as u64 => {
                (target as f64 / expected as f64 * u64::MAX as f64) as u64
            }
            _ => u64::MAX,
        };
        Sampler {
            threshold: AtomicU64::new(threshold),
            target,
            seen: (0..SEEN_BITS / 64).map(|_| AtomicU64::new(0)).collect(),
            drawn: AtomicU64::new(1),
            contents: Mutex::new(HashMap::new()),
        }
    }

    /// Whether a page with this hash is to be looked at.
    pub fn choose(&self, hash: u128) -> Option<SampleChoice> {
        let (position, key) = ((hash >> 64) as u64, hash as u64);
        let bit = key % SEEN_BITS;
        let before = self.seen[(bit / 64) as usize].fetch_or(1 << (bit % 64), Ordering::Relaxed);
        let draw = if before >> (bit % 64) & 1 == 0 {
            position
        } else {
            mix(self.drawn.fetch_add(1, Ordering::Relaxed) ^ key)
        };
        let threshold = self.threshold.load(Ordering::Relaxed);
        (position <= threshold || draw <= threshold).then_some(SampleChoice {
            key,
            position,
            draw,
        })
    }

    /// Takes a page into the samples; `measure` is asked for its sizes unless
    /// they are known from an equal page.
    pub fn take<E>(
        &self,
        choice: &SampleChoice,
        measure: impl FnOnce() -> Result<Box<[u32]>, E>,
    ) -> Result<(), E> {
        let drawn = choice.draw <= self.threshold.load(Ordering::Relaxed);
        let draw =
            |content: &mut SampledContent| content.draws.extend(drawn.then_some(choice.draw));
        let known = {
            let mut contents = self.contents.lock().expect("no worker panicked");
            contents.get_mut(&choice.key).map(draw).is_some()
        };
        if known {
            return Ok(());
        }
        let sizes = measure()?;
        let mut contents = self.contents.lock().expect("no worker panicked");
        draw(
            contents
                .entry(choice.key)
                .or_insert_with(|| SampledContent {
                    position: choice.position,
                    sizes,
                    draws: Vec::new(),
                }),
        );
        if contents.len() > 3 * self.target {
            self.halve(&mut contents);
        }
        Ok(())
    }

    fn halve(&self, contents: &mut HashMap<u64, SampledContent>) {
        let threshold = self.threshold.load(Ordering::Relaxed) / 2;
        self.threshold.store(threshold, Ordering::Relaxed);
        contents.retain(|_, content| {
            content.draws.retain(|&draw| draw <= threshold);
            content.position <= threshold || !content.draws.is_empty()
        });
    }

    pub fn is_complete(&self) -> bool {
        self.threshold.load(Ordering::Relaxed) == u64::MAX
    }

    pub fn measured(&self) -> u64 {
        self.contents.lock().expect("no worker panicked").len() as u64
    }

    /// The hash and the size of each content in the sample of contents, with codec number `codec`.
    pub fn sizes(&self, codec: usize) -> Vec<(u128, u32)> {
        let threshold = self.threshold.load(Ordering::Relaxed);
        let contents = self.contents.lock().expect("no worker panicked");
        let sampled = contents.iter().filter(|(_, it)| it.position <= threshold);
        let hash = |key: u64, it: &SampledContent| u128::from(it.position) << 64 | u128::from(key);
        sampled
            .map(|(key, it)| (hash(*key, it), it.sizes[codec]))
            .collect()
    }

    /// Estimate of codec number `codec` by the samples; `pages` returns the pages of a content by
    /// its hash.
    pub fn sampled(
        &self,
        geometry: &Geometry,
        codec: usize,
        pages: impl Fn(u128) -> u64,
    ) -> SampleEstimate {
        let threshold = self.threshold.load(Ordering::Relaxed);
        let mut sampled = SampleEstimate {
            contents: CompressionSums::new(geometry),
            repeats: CompressionSums::new(geometry),
            overlap: Overlap::default(),
        };
        for (&key, content) in self.contents.lock().expect("no worker panicked").iter() {
            let size = content.sizes[codec];
            if content.position <= threshold {
                sampled.contents.add(geometry, size, 1.0);
            }
            let draws = content.draws.iter().filter(|&&draw| draw <= threshold);
            let drawn = draws.count() as f64;
            let all = pages(u128::from(content.position) << 64 | u128::from(key)).max(1) as f64;
            let weight = drawn * (all - 1.0) / all;
            sampled.repeats.add(geometry, size, weight);
            if content.position <= threshold {
                sampled.overlap.add(size, 1.0, weight);
            }
        }
        sampled
    }
}

/// The finaliser of SplitMix64: a bijection that looks like chance.
fn mix(mut z: u64) -> u64 {
    z = z.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use zmeld_store::ChainRule;

    fn hash(content: u64) -> u128 {
        u128::from(mix(content)) << 64 | u128::from(mix(content ^ 0x5555))
    }

    fn copies(content: u64) -> u64 {
        if content.is_multiple_of(10) {
            100
        } else {
            1
        }
    }

    /// Contents with a hundred pages have another mean size than the others.
    fn size(content: u64) -> u32 {
        let spread = (mix(content) % 500) as u32;
        if content.is_multiple_of(10) {
            1000 + spread
        } else {
            2000 + spread
        }
    }

    fn feed(sampler: &Sampler, contents: u64) {
        for c in 0..contents {
            for _ in 0..copies(c) {
                if let Some(choice) = sampler.choose(hash(c)) {
                    sampler
                        .take(&choice, || Ok::<_, ()>(vec![size(c)].into()))
                        .unwrap();
                }
            }
        }
    }

    fn sums(sampler: &Sampler, contents: u64) -> SampleEstimate {
        let geometry = Geometry::new(4096, 8, ChainRule::LeastWaste).unwrap();
        let pages: HashMap<u128, u64> = (0..contents).map(|c| (hash(c), copies(c))).collect();
        sampler.sampled(&geometry, 0, |hash| pages[&hash])
    }

    fn check(expected: Option<u64>, contents: u64) {
        let sampler = Sampler::new(4000, expected);
        feed(&sampler, contents);
        let sampled = sums(&sampler, contents);
        let mean = |weight: fn(u64) -> u64| {
            let bytes: u64 = (0..contents).map(|c| weight(c) * u64::from(size(c))).sum();
            bytes as f64 / (0..contents).map(weight).sum::<u64>() as f64
        };
        // One page in eleven is of a new content, so the first sample is smaller.
        for (tally, mean, least) in [
            (&sampled.contents, mean(|_| 1), 300.0),
            (&sampled.repeats, mean(|c| copies(c) - 1), 3000.0),
        ] {
            let found = tally.bytes / tally.pages;
            let bound = 3.0 / 1.96 * tally.half_width(1 << 40) / (1u64 << 40) as f64;
            assert!((found - mean).abs() < bound, "{found} for {mean}");
            assert!(bound < 0.1 * mean && tally.pages > least, "{bound}");
        }
        assert!(sampler.measured() < 16_000, "{}", sampler.measured());
    }

    #[test]
    fn both_sums_are_estimated_when_the_size_is_known() {
        check(Some(100_000 / 10 * 109), 100_000);
    }

    #[test]
    fn both_sums_are_estimated_when_the_size_is_unknown() {
        check(None, 100_000);
    }

    #[test]
    fn a_small_source_is_measured_whole() {
        let sampler = Sampler::new(4000, Some(3000));
        feed(&sampler, 100);
        assert!(sampler.is_complete());
        let sampled = sums(&sampler, 100);
        assert_eq!(sampled.contents.pages, 100.0);
        assert!((sampled.repeats.pages - 990.0).abs() < 1e-6);
    }

    /// The two samples are one where nothing repeats: little is compressed for one of them only.
    #[test]
    fn pages_that_do_not_repeat_are_in_both_samples_or_in_none() {
        let sampler = Sampler::new(4000, Some(100_000));
        for content in 0..100_000 {
            if let Some(choice) = sampler.choose(hash(content)) {
                let size = || Ok::<_, ()>(vec![size(content)].into());
                sampler.take(&choice, size).unwrap();
            }
        }
        // A few hundred bits are set by another content already.
        assert!(
            (3800..4300).contains(&sampler.measured()),
            "{}",
            sampler.measured()
        );
    }
}
