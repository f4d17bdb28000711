//! Pages that a program had, some touched more often than others: what a fault costs depends on what is in a page, and
//! on how many pages in use the kernel passes over to find one that is not.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::content::WORDS;
use super::{WorkloadError, WorkloadReport};

/// Settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Copies {
    /// A file of pages, one after another.
    pub pages: PathBuf,
    /// How much memory is filled with them, in turns.
    pub bytes: u64,
    /// How many pages are touched after all were written once.
    pub touches: u64,
    /// The share of touches that write.
    pub write_share: f64,
}

/// After so many touches others get their turn.
const OTHERS_AFTER: u64 = 128;

/// How uneven the touches are: one of two goes to an eighth of the pages, as the number of a page is a random share of
/// all to this power.
const UNEVEN: i32 = 3;

impl Copies {
    /// In a sentence.
    pub fn describe(&self) -> String {
        format!(
            "{} touches of {} of pages that a program had, some more often, each word read verified",
            self.touches,
            zmeld_report::units::bytes(self.bytes)
        )
    }

    pub(super) fn run(&self) -> Result<WorkloadReport, WorkloadError> {
        let name = self.pages.display();
        let wrong = |what: String| WorkloadError::Settings(format!("{name}: {what}"));
        let bytes = fs::read(&self.pages).map_err(|err| wrong(err.to_string()))?;
        let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
        let originals: Vec<u64> = bytes.chunks_exact(8).map(word).collect();
        drop(bytes);
        let kinds = originals.len() / WORDS;
        let pages = (self.bytes / 4096) as usize;
        if kinds == 0 || pages == 0 {
            return Err(wrong("there is no page".to_owned()));
        }
        let mut memory = vec![0u64; pages * WORDS];
        let mut versions = vec![0u64; pages];
        for (page, words) in memory.chunks_exact_mut(WORDS).enumerate() {
            let_others(page as u64);
            words.copy_from_slice(&originals[page % kinds * WORDS..][..WORDS]);
            words[0] = mark(page, 0);
        }
        let mut random = ChaCha8Rng::seed_from_u64(1);
        // Those that are touched often lie anywhere.
        let mut order: Vec<usize> = (0..pages).collect();
        order.shuffle(&mut random);
        let begin = Instant::now();
        for touch in 0..self.touches {
            let_others(touch);
            let share = random.random::<f64>().powi(UNEVEN);
            let page = order[((share * pages as f64) as usize).min(pages - 1)];
            let word = random.random_range(1..WORDS);
            let words = &mut memory[page * WORDS..][..WORDS];
            let original = &originals[page % kinds * WORDS..][..WORDS];
            if words[0] != mark(page, versions[page]) || words[word] != original[word] {
                return Err(WorkloadError::Wrong {
                    what: format!("page {page} is not what was written"),
                });
            }
            if random.random_bool(self.write_share.clamp(0.0, 1.0)) {
                versions[page] += 1;
                words[0] = mark(page, versions[page]);
            }
        }
        Ok(WorkloadReport {
            measured_s: begin.elapsed().as_secs_f64(),
            verified: true,
            ..WorkloadReport::default()
        })
    }
}

/// What looks on gets its turn, also where both have the same real-time priority: what it asks has the kernel bring its
/// statistics up to date, by which reclaim goes.
fn let_others(turn: u64) {
    if turn.is_multiple_of(OTHERS_AFTER) {
        std::thread::yield_now();
    }
}

/// The first word of each page, so that no two are the same.
fn mark(page: usize, version: u64) -> u64 {
    super::mix(page as u64 ^ version << 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_a_file_are_filled_in_and_found_again() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let copies = |pages: PathBuf| Copies {
            pages,
            bytes: 100 * 4096,
            touches: 1000,
            write_share: 0.3,
        };
        assert!(copies("/nowhere".into()).run().is_err());
        assert!(copies(file.path().into()).run().is_err());
        fs::write(
            file.path(),
            (0..3 * 4096).map(|at| (at % 251) as u8).collect::<Vec<_>>(),
        )
        .unwrap();
        let report = copies(file.path().into()).run().unwrap();
        assert!(report.verified && report.measured_s > 0.0);
    }
}
