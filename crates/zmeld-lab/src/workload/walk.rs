//! A byte-wise walk of an array, in order or at random, as the write-up on
//! encrypted swap measured it. Every byte is compared with what must be there.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::content::{mix, wrong, PageContent, WORDS};
use super::report::{WorkloadError, WorkloadReport};

/// Settings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Walk {
    /// The array's size.
    pub bytes: u64,
    /// The order of the bytes.
    #[serde(default)]
    pub order: WalkOrder,
    /// Contents of the array.
    #[serde(default)]
    pub content: PageContent,
    /// How often it is walked in order.
    #[serde(default = "once")]
    pub rounds: u32,
    /// How many bytes are read at random, instead of rounds.
    #[serde(default)]
    pub accesses: u64,
}

fn once() -> u32 {
    1
}

/// The order of the bytes.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum WalkOrder {
    /// From the first to the last.
    #[default]
    Sequential,
    /// Anywhere.
    Random,
}

impl Walk {
    pub(super) fn describe(&self) -> String {
        let order = match self.order {
            WalkOrder::Sequential => "in order",
            WalkOrder::Random => "at random",
        };
        format!(
            "an array of {} read byte by byte, {order}; data: {}",
            zmeld_report::units::bytes(self.bytes),
            self.content.describe()
        )
    }

    pub(super) fn run(&self) -> Result<WorkloadReport, WorkloadError> {
        let pages = self.bytes.div_ceil(4096);
        if pages == 0 {
            return Err(WorkloadError::Settings(
                "an array needs at least one page".into(),
            ));
        }
        let mut array = vec![0u64; pages as usize * WORDS];
        for (page, words) in array.chunks_exact_mut(WORDS).enumerate() {
            self.content.write(words, page as u64, 0);
        }
        let begin = Instant::now();
        let bytes = match self.order {
            WalkOrder::Sequential => self.in_order(&array)?,
            WalkOrder::Random => self.at_random(&array)?,
        };
        let measured_s = begin.elapsed().as_secs_f64();
        Ok(WorkloadReport {
            measured_s,
            figures: [("mb_per_s".to_owned(), bytes as f64 / measured_s / 1e6)].into(),
            verified: true,
        })
    }

    fn in_order(&self, array: &[u64]) -> Result<u64, WorkloadError> {
        for _ in 0..self.rounds {
            for (page, words) in array.chunks_exact(WORDS).enumerate() {
                let content = self.content.words(page as u64, 0);
                // One byte after the other, and a word's worth of them compared at a time.
                for (at, word) in words.iter().enumerate() {
                    let mut found = 0u64;
                    for shift in (0..64).step_by(8) {
                        found |= u64::from(std::hint::black_box((word >> shift) as u8)) << shift;
                    }
                    if found != content(at) {
                        return Err(wrong(page as u64, at, found, content(at)));
                    }
                }
            }
        }
        Ok(u64::from(self.rounds) * array.len() as u64 * 8)
    }

    fn at_random(&self, array: &[u64]) -> Result<u64, WorkloadError> {
        let bytes = array.len() as u64 * 8;
        let mut state = self.content.seed;
        for _ in 0..self.accesses {
            state = state.wrapping_add(1);
            // The upper half of the product is uniform below the size.
            let at = ((u128::from(mix(state)) * u128::from(bytes)) >> 64) as u64;
            let (word, shift) = ((at / 8) as usize, 8 * (at % 8));
            let (page, in_page) = ((word / WORDS) as u64, word % WORDS);
            let found = std::hint::black_box((array[word] >> shift) as u8);
            let written = self.content.words(page, 0)(in_page);
            if found != (written >> shift) as u8 {
                return Err(wrong(page, in_page, array[word], written));
            }
        }
        Ok(self.accesses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_see_what_was_written_and_what_was_not() {
        let walk = Walk {
            bytes: 64 << 10,
            order: WalkOrder::Random,
            content: PageContent::default(),
            rounds: 1,
            accesses: 100_000,
        };
        assert!(walk.run().unwrap().figures["mb_per_s"] > 0.0);
        assert!(Walk {
            order: WalkOrder::Sequential,
            ..walk
        }
        .run()
        .is_ok());
        let zeros = vec![0; 16 * WORDS];
        assert!(walk.in_order(&zeros).is_err() && walk.at_random(&zeros).is_err());
    }
}
