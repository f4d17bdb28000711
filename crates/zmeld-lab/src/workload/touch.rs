//! Pages touched by Zipf's law: a working set that is neither all of memory nor
//! a fixed part of it. Every page that is read is verified whole.

use std::time::Instant;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Zipf};
use serde::{Deserialize, Serialize};

use super::content::{mix, PageContent, WORDS};
use super::report::{WorkloadError, WorkloadReport};

/// Settings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Touch {
    /// How much memory there is.
    pub bytes: u64,
    /// How many pages are touched after all were written once.
    pub touches: u64,
    /// Zipf's exponent: 0 touches all pages alike, 1 the second page half as often as the first.
    #[serde(default = "one")]
    pub zipf: f64,
    /// The share of touches that write the page anew.
    #[serde(default = "third")]
    pub write_share: f64,
    /// Contents of pages.
    #[serde(default)]
    pub content: PageContent,
}

fn one() -> f64 {
    1.0
}

fn third() -> f64 {
    0.3
}

impl Touch {
    pub(super) fn describe(&self) -> String {
        format!(
            "{} touches of {} by Zipf's law with exponent {}, {:.0} % of them writes, each page read verified; \
             data: {}",
            self.touches,
            zmeld_report::units::bytes(self.bytes),
            self.zipf,
            100.0 * self.write_share,
            self.content.describe()
        )
    }

    pub(super) fn run(&self) -> Result<WorkloadReport, WorkloadError> {
        let pages = self.bytes / 4096;
        let zipf = Zipf::new(pages as f64, self.zipf).map_err(|err| {
            WorkloadError::Settings(format!("{pages} pages with exponent {}: {err}", self.zipf))
        })?;
        let mut memory = vec![0u64; pages as usize * WORDS];
        let mut versions = vec![0u32; pages as usize];
        for (page, words) in (0..).zip(memory.chunks_exact_mut(WORDS)) {
            self.content.write(words, page, 0);
        }
        let mut random = ChaCha8Rng::seed_from_u64(self.content.seed);
        let begin = Instant::now();
        for touch in 0..self.touches {
            let rank = zipf.sample(&mut random) as u64 - 1;
            let page = scattered(rank, pages);
            let version = &mut versions[page as usize];
            let words = &mut memory[page as usize * WORDS..][..WORDS];
            self.content.verify(words, page, *version)?;
            if (mix(touch ^ self.content.seed) >> 11) as f64 / ((1u64 << 53) as f64)
                < self.write_share
            {
                *version += 1;
                self.content.write(words, page, *version);
            }
        }
        let measured_s = begin.elapsed().as_secs_f64();
        for ((page, words), version) in (0..).zip(memory.chunks_exact(WORDS)).zip(versions) {
            self.content.verify(words, page, version)?;
        }
        let rate = self.touches as f64 / measured_s;
        Ok(WorkloadReport {
            measured_s,
            figures: [("touches_per_s".to_owned(), rate)].into(),
            verified: true,
        })
    }
}

/// A page for each rank, far from those of its neighbours, so that read-ahead does not gain what no real working
/// set gives it: multiplication by a number that has no divisor in common with the count of pages.
fn scattered(rank: u64, pages: u64) -> u64 {
    let mut factor = (pages as f64 * 0.618_033_988_75) as u64 | 1;
    while gcd(factor, pages) != 1 {
        factor += 2;
    }
    ((u128::from(rank) * u128::from(factor)) % u128::from(pages)) as u64
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        gcd(b, a % b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_one_rank() {
        for pages in [1, 2, 7, 256, 1000, 4095] {
            let mut seen = vec![false; pages as usize];
            for rank in 0..pages {
                seen[scattered(rank, pages) as usize] = true;
            }
            assert!(seen.into_iter().all(|x| x), "{pages}");
        }
    }

    #[test]
    fn touching_verifies() {
        let touch = Touch {
            bytes: 1 << 20,
            touches: 5000,
            zipf: 1.0,
            write_share: 0.3,
            content: PageContent::default(),
        };
        assert!(touch.run().unwrap().figures["touches_per_s"] > 0.0);
        let (content, mut page) = (touch.content, vec![0; WORDS]);
        content.write(&mut page, 3, 1);
        assert!(content.verify(&page, 3, 1).is_ok());
        assert!(content.verify(&page, 3, 0).is_err());
        page[500] ^= 1 << 40;
        let err = content.verify(&page, 3, 1).unwrap_err().to_string();
        assert!(err.contains("word 500"), "{err}");
    }
}
