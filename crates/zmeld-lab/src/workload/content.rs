//! Contents of a page, computed from its number: any word can be checked
//! without keeping a copy.

use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use super::report::WorkloadError;

/// 64-bit words in a page of 4 KiB.
pub const WORDS: usize = 512;

/// How pages are filled.
#[derive(
    Debug, Clone, Copy, PartialEq, SmartDefault, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(deny_unknown_fields, default)]
pub struct PageContent {
    /// The share of a page that is random; the rest repeats it. About the share that is left after a codec that finds
    /// repeats: 0.25 gives about 4:1 with lz4, lzo and zstd alike. 0 is a page of one repeated word, which the kernel
    /// keeps as a value; 1 does not compress at all.
    #[default = 0.4]
    pub random_share: f64,
    /// The share of pages that are copies of one of 16 others.
    pub duplicate_share: f64,
    /// The share of pages that are all zeros.
    pub zero_share: f64,
    /// Seed of random numbers.
    #[default = 1]
    pub seed: u64,
}

/// How many pages the duplicates are copies of.
const ORIGINALS: u64 = 16;

impl PageContent {
    fn random_words(&self) -> usize {
        ((WORDS as f64 * self.random_share).round() as usize).clamp(1, WORDS)
    }

    /// Number of a page's content: 0 for zeros.
    fn original(&self, page: u64, version: u32) -> u64 {
        let drawn = mix(self.seed ^ mix(page));
        let part = (drawn >> 11) as f64 / (1u64 << 53) as f64;
        if part < self.zero_share {
            0
        } else if part < self.zero_share + self.duplicate_share {
            1 + drawn % ORIGINALS
        } else {
            1 + ORIGINALS + page + (u64::from(version) << 40)
        }
    }

    /// The words of a page that was written `version` times before.
    pub fn words(&self, page: u64, version: u32) -> impl Fn(usize) -> u64 {
        let original = self.original(page, version);
        let key = mix(self.seed.wrapping_add(original.wrapping_mul(0x1_0000_0001)));
        let period = self.random_words();
        move |at| match original {
            0 => 0,
            _ => mix(key ^ (at % period) as u64),
        }
    }

    pub(super) fn write(&self, to: &mut [u64], page: u64, version: u32) {
        let words = self.words(page, version);
        for (at, word) in to.iter_mut().enumerate() {
            *word = words(at);
        }
    }

    pub(super) fn verify(
        &self,
        held: &[u64],
        page: u64,
        version: u32,
    ) -> Result<(), WorkloadError> {
        let words = self.words(page, version);
        match (0..held.len()).find(|&at| held[at] != words(at)) {
            None => Ok(()),
            Some(at) => Err(wrong(page, at, held[at], words(at))),
        }
    }

    pub(super) fn describe(&self) -> String {
        let mut text = match self.random_share {
            share if share >= 1.0 => "random bytes, which do not compress".to_owned(),
            share => format!(
                "pages of which {:.0} % is random and the rest repeats it",
                100.0 * share
            ),
        };
        if self.duplicate_share > 0.0 {
            text += &format!(", {:.0} % of them duplicates", 100.0 * self.duplicate_share);
        }
        if self.zero_share > 0.0 {
            text += &format!(", {:.0} % of them zeros", 100.0 * self.zero_share);
        }
        text
    }
}

pub(super) fn wrong(page: u64, at: usize, held: u64, written: u64) -> WorkloadError {
    WorkloadError::Wrong(format!(
        "word {at} of page {page} is {held:#x} and not {written:#x}"
    ))
}

/// Mixes 64 bits (the finaliser of SplitMix64 by Steele, Lea and Flood, 2014).
pub(super) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_as_wanted() {
        let content = PageContent {
            random_share: 0.25,
            duplicate_share: 0.3,
            zero_share: 0.1,
            seed: 5,
        };
        let pages: Vec<Vec<u64>> = (0..4000)
            .map(|page| {
                let words = content.words(page, 0);
                (0..WORDS).map(words).collect()
            })
            .collect();
        let zeros = pages
            .iter()
            .filter(|page| page.iter().all(|&w| w == 0))
            .count();
        let distinct: std::collections::HashSet<_> = pages.iter().collect();
        assert!((360..440).contains(&zeros), "{zeros}");
        assert!((2300..2500).contains(&distinct.len()), "{}", distinct.len());
        let page = pages.iter().find(|page| page[0] != 0).unwrap();
        assert_eq!(page[..128], page[128..256]);
        assert_ne!(content.words(9999, 0)(0), content.words(9999, 1)(0));
    }
}
