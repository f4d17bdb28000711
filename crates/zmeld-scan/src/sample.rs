//! The sample: which pages are compressed.
//!
//! Two populations are estimated, and each needs its own kind of sample.
//!
//! - *Distinct contents*, what a melding store keeps: a content is in the sample
//!   when its hash is below a threshold, so all of its pages are in or none.
//! - *Pages*, what a store without melding keeps: each page is drawn with the
//!   same probability. The draw of a content's first page is decided by the
//!   content's hash and that of later ones by chance, so the two samples are the
//!   same pages as far as contents do not repeat, and little is compressed twice.
//!
//! A small bitmap tells first pages from later ones. Where it errs the draw is
//! still of the same probability; only the overlap shrinks.
//!
//! The threshold follows from the number of pages expected. Where that is not
//! known it starts at "all" and is halved whenever the sample has become twice
//! as large as wanted; what is above the new threshold is forgotten.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

use zmeld_store::Geometry;

use crate::predict::Tally;

/// Bits of the bitmap of contents seen: 2 MiB.
const SEEN_BITS: u64 = 1 << 24;

pub(crate) struct Sampler {
    threshold: AtomicU64,
    target: usize,
    seen: Vec<AtomicU64>,
    drawn: AtomicU64,
    contents: Mutex<HashMap<u64, Content>>,
}

struct Content {
    /// In the content sample while below the threshold.
    position: u64,
    /// With each codec.
    sizes: Box<[u32]>,
    /// One for each page drawn: in the page sample while below the threshold.
    draws: Vec<u64>,
}

/// A page was chosen; `position` and `draw` say for which sample.
pub(crate) struct Choice {
    key: u64,
    position: u64,
    draw: u64,
}

/// What the samples say of one codec.
pub(crate) struct Sampled {
    pub pages: Tally,
    pub contents: Tally,
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
    pub fn choose(&self, hash: u128) -> Option<Choice> {
        let (position, key) = ((hash >> 64) as u64, hash as u64);
        let bit = key % SEEN_BITS;
        let before = self.seen[(bit / 64) as usize].fetch_or(1 << (bit % 64), Ordering::Relaxed);
        let draw = if before >> (bit % 64) & 1 == 0 {
            position
        } else {
            mix(self.drawn.fetch_add(1, Ordering::Relaxed) ^ key)
        };
        let threshold = self.threshold.load(Ordering::Relaxed);
        (position <= threshold || draw <= threshold).then_some(Choice {
            key,
            position,
            draw,
        })
    }

    /// Takes a page into the samples; `measure` is asked for its sizes unless
    /// they are known from an equal page.
    pub fn take<E>(
        &self,
        choice: &Choice,
        measure: impl FnOnce() -> Result<Box<[u32]>, E>,
    ) -> Result<(), E> {
        let drawn = choice.draw <= self.threshold.load(Ordering::Relaxed);
        let draw = |content: &mut Content| content.draws.extend(drawn.then_some(choice.draw));
        let known = {
            let mut contents = self.contents.lock().expect("no worker panicked");
            contents.get_mut(&choice.key).map(draw).is_some()
        };
        if known {
            return Ok(());
        }
        let sizes = measure()?;
        let mut contents = self.contents.lock().expect("no worker panicked");
        draw(contents.entry(choice.key).or_insert_with(|| Content {
            position: choice.position,
            sizes,
            draws: Vec::new(),
        }));
        if contents.len() > 3 * self.target {
            self.halve(&mut contents);
        }
        Ok(())
    }

    fn halve(&self, contents: &mut HashMap<u64, Content>) {
        let threshold = self.threshold.load(Ordering::Relaxed) / 2;
        self.threshold.store(threshold, Ordering::Relaxed);
        contents.retain(|_, content| {
            content.draws.retain(|&draw| draw <= threshold);
            content.position <= threshold || !content.draws.is_empty()
        });
    }

    /// Whether every page was taken.
    pub fn is_complete(&self) -> bool {
        self.threshold.load(Ordering::Relaxed) == u64::MAX
    }

    /// How many contents were compressed.
    pub fn measured(&self) -> u64 {
        self.contents.lock().expect("no worker panicked").len() as u64
    }

    /// What the samples say of codec number `codec`.
    pub fn sampled(&self, geometry: &Geometry, codec: usize) -> Sampled {
        let threshold = self.threshold.load(Ordering::Relaxed);
        let mut sampled = Sampled {
            pages: Tally::new(geometry),
            contents: Tally::new(geometry),
        };
        for content in self.contents.lock().expect("no worker panicked").values() {
            let size = content.sizes[codec];
            if content.position <= threshold {
                sampled.contents.add(geometry, size, 1);
            }
            let draws = content.draws.iter().filter(|&&draw| draw <= threshold);
            sampled.pages.add(geometry, size, draws.count() as u64);
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

    /// Content `c` has `c % 10 == 0` a hundred pages, else one; its size is
    /// 1000 or 2000 by the same rule.
    fn feed(sampler: &Sampler, contents: u64) -> (f64, f64) {
        let (mut pages, mut bytes, mut content_bytes) = (0u64, 0u64, 0u64);
        for c in 0..contents {
            let (copies, size) = if c % 10 == 0 { (100, 1000) } else { (1, 2000) };
            content_bytes += size;
            for _ in 0..copies {
                pages += 1;
                bytes += size;
                if let Some(choice) = sampler.choose(hash(c)) {
                    sampler
                        .take(&choice, || Ok::<_, ()>(vec![size as u32].into()))
                        .unwrap();
                }
            }
        }
        (
            bytes as f64 / pages as f64,
            content_bytes as f64 / contents as f64,
        )
    }

    fn check(expected: Option<u64>, contents: u64) {
        let geometry = Geometry::new(4096, 8, ChainRule::LeastWaste).unwrap();
        let sampler = Sampler::new(4000, expected);
        let (page_mean, content_mean) = feed(&sampler, contents);
        let sampled = sampler.sampled(&geometry, 0);
        // One page in eleven is of a new content, so the second sample is smaller.
        for (tally, mean, least) in [
            (&sampled.pages, page_mean, 3500),
            (&sampled.contents, content_mean, 300),
        ] {
            let found = tally.bytes as f64 / tally.pages as f64;
            let bound = 3.0 * tally.interval(u64::MAX) / 1.96;
            assert!((found / mean - 1.0).abs() < bound, "{found} for {mean}");
            assert!(
                bound < 0.1 && tally.pages > least,
                "{bound}, {}",
                tally.pages
            );
        }
        assert!(sampler.measured() < 16_000, "{}", sampler.measured());
    }

    #[test]
    fn both_means_are_estimated_when_the_size_is_known() {
        check(Some(100_000 / 10 * 109), 100_000);
    }

    #[test]
    fn both_means_are_estimated_when_the_size_is_unknown() {
        check(None, 100_000);
    }

    #[test]
    fn a_small_source_is_measured_whole() {
        let geometry = Geometry::new(4096, 8, ChainRule::LeastWaste).unwrap();
        let sampler = Sampler::new(4000, Some(3000));
        feed(&sampler, 100);
        let sampled = sampler.sampled(&geometry, 0);
        assert_eq!(sampled.contents.pages, 100);
        assert_eq!(sampled.pages.pages, 10 * 100 + 90);
    }
}
