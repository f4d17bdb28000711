//! Which codec: what it saves against what it costs.
//!
//! Of the codecs that the kernel offers, the one that gains most RAM while
//! compressing and decompressing at the given swap rate takes at most
//! [`CPU_SHARE_MAX`] of one core. On a machine with little RAM the ratio alone
//! decides: there a faster codec with a low ratio runs out of memory where a slower
//! one survives.

use zmeld_report::units::bytes;

use crate::size::{self, Basis};

/// Share of one core that a codec may take at the swap rate that was given.
pub const CPU_SHARE_MAX: f64 = 0.5;
/// Bytes of RAM below which only the ratio counts.
pub const SMALL_RAM: u64 = 1 << 30;
/// Below this many bytes saved for each byte swapped, compression is not worth it.
pub const GAIN_MIN: f64 = 0.1;
/// From fewer bytes of pages nothing follows for a device: shares and ratios of
/// them are chance.
pub const JUDGED_FROM: u64 = 16 << 20;

/// A codec on the pages that were measured.
#[derive(Clone, Debug, PartialEq)]
pub struct CodecFacts {
    /// Its name, with level and dictionary if they are not the defaults.
    pub name: String,
    /// Whether the kernel has it; `None` where nothing could be asked.
    pub offered: Option<bool>,
    /// Bytes of pages for each byte of memory used, the pool's overhead included;
    /// 0 where nothing was measured.
    pub ratio: f64,
    /// Decimal megabytes of pages a second on one core.
    pub compress_mb_per_s: f64,
    /// The same for decompressing.
    pub decompress_mb_per_s: f64,
}

impl CodecFacts {
    /// Share of one core at so many megabytes swapped out a second, and as many in.
    pub fn cpu_share(&self, mb_per_s: f64) -> f64 {
        if self.compress_mb_per_s <= 0.0 || self.decompress_mb_per_s <= 0.0 {
            return 0.0;
        }
        mb_per_s / self.compress_mb_per_s + mb_per_s / self.decompress_mb_per_s
    }

    /// Whether it saves enough.
    fn gains(&self) -> bool {
        self.ratio > 0.0 && 1.0 - 1.0 / self.ratio >= GAIN_MIN
    }
}

/// Why a codec is the one to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It has the best ratio of those that stay below [`CPU_SHARE_MAX`].
    BestCheap,
    /// It has the best ratio, and little RAM makes that decide.
    SmallRam,
    /// None stays below [`CPU_SHARE_MAX`]; it is the cheapest.
    Cheapest,
}

impl Reason {
    /// In words.
    pub fn words(self) -> String {
        let limit = 100.0 * CPU_SHARE_MAX;
        match self {
            Reason::SmallRam => "with this little RAM the ratio decides".to_owned(),
            Reason::BestCheap => {
                format!("the best ratio of the codecs that take at most {limit:.0} % of a core")
            }
            Reason::Cheapest => {
                format!("the cheapest codec: none stays below {limit:.0} % of a core")
            }
        }
    }
}

/// What measuring codecs on pages came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum CodecVerdict {
    /// Nothing was measured.
    #[default]
    Not,
    /// Too few pages to go by, in bytes.
    TooLittle(u64),
    /// No codec that the kernel has gains anything; the best ratio among them.
    NothingToGain(f64),
    /// This codec, with its ratio and why.
    Codec {
        /// Its name.
        name: String,
        /// Bytes of pages for each byte of memory used, to the tenth: what follows from
        /// two measurements of one machine is to be the same.
        ratio: f64,
        /// Bytes of the pages that it was measured on.
        bytes: u64,
        /// Why it is the one.
        reason: Reason,
    },
}

impl CodecVerdict {
    /// Chooses among codecs that were measured on so many bytes of pages, for a
    /// machine with that much RAM that swaps at that rate.
    pub fn choose(
        codecs: &[CodecFacts],
        bytes: u64,
        ram_bytes: u64,
        mb_per_s: f64,
    ) -> CodecVerdict {
        if codecs.is_empty() {
            return CodecVerdict::Not;
        }
        if bytes < JUDGED_FROM {
            return CodecVerdict::TooLittle(bytes);
        }
        match choose(codecs, ram_bytes, mb_per_s) {
            Some((codec, reason)) => CodecVerdict::Codec {
                name: codec.name.clone(),
                ratio: size::rounded(codec.ratio),
                bytes,
                reason,
            },
            None => CodecVerdict::NothingToGain(best_offered(codecs)),
        }
    }

    /// The codec to take; `None` where none follows.
    pub fn codec(&self) -> Option<&str> {
        match self {
            CodecVerdict::Codec { name, .. } => Some(name),
            _ => None,
        }
    }

    /// The ratio to count on; `None` where nothing was measured that says one.
    pub fn ratio(&self) -> Option<f64> {
        self.basis().map(|basis| basis.ratio)
    }

    /// What a size follows from; `None` where nothing was measured that says one.
    pub fn basis(&self) -> Option<Basis> {
        match self {
            CodecVerdict::Codec { ratio, bytes, .. } => Some(Basis {
                ratio: *ratio,
                bytes: *bytes,
            }),
            _ => None,
        }
    }

    /// What there is to say where no codec follows from it.
    pub fn why_none(&self) -> Option<String> {
        match self {
            CodecVerdict::Not | CodecVerdict::Codec { .. } => None,
            CodecVerdict::TooLittle(found) => Some(format!(
                "Too little to go by: {} of pages that could compress. From {} on, a codec and a \
                 size follow from them",
                bytes(*found),
                bytes(JUDGED_FROM)
            )),
            CodecVerdict::NothingToGain(ratio) => Some(format!(
                "Nothing to gain: these pages hardly compress ({ratio:.2}x at best, pool overhead \
                 included), so compressed swap would cost CPU and save next to nothing"
            )),
        }
    }
}

/// The best ratio of the codecs that the kernel has, as far as it can be told.
fn best_offered(codecs: &[CodecFacts]) -> f64 {
    let offered = codecs.iter().filter(|codec| codec.offered != Some(false));
    offered.map(|codec| codec.ratio).fold(0.0, f64::max)
}

/// The codec to take, if any gains anything, however few pages say so.
fn choose(codecs: &[CodecFacts], ram_bytes: u64, mb_per_s: f64) -> Option<(&CodecFacts, Reason)> {
    let usable = || {
        let usable = |codec: &&CodecFacts| codec.offered != Some(false) && codec.gains();
        codecs.iter().filter(usable)
    };
    let by_ratio = |a: &&CodecFacts, b: &&CodecFacts| a.ratio.total_cmp(&b.ratio);
    if ram_bytes < SMALL_RAM {
        return Some((usable().max_by(by_ratio)?, Reason::SmallRam));
    }
    let cheap = usable().filter(|codec| codec.cpu_share(mb_per_s) <= CPU_SHARE_MAX);
    if let Some(codec) = cheap.max_by(by_ratio) {
        return Some((codec, Reason::BestCheap));
    }
    let by_cost = |a: &&CodecFacts, b: &&CodecFacts| {
        let cost = |codec: &CodecFacts| codec.cpu_share(mb_per_s);
        cost(a).total_cmp(&cost(b))
    };
    Some((usable().min_by(by_cost)?, Reason::Cheapest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codec(name: &str, ratio: f64, speed: f64, offered: Option<bool>) -> CodecFacts {
        CodecFacts {
            name: name.to_owned(),
            offered,
            ratio,
            compress_mb_per_s: speed,
            decompress_mb_per_s: 4.0 * speed,
        }
    }

    #[test]
    fn the_best_ratio_that_is_cheap_enough_wins() {
        let codecs = [
            codec("lz4", 2.1, 700.0, None),
            codec("zstd", 2.9, 300.0, None),
            codec("deflate", 3.0, 60.0, None),
        ];
        let chosen = |ram, rate| {
            let (codec, reason) = choose(&codecs, ram, rate).unwrap();
            (codec.name.as_str(), reason)
        };
        let big = 16 << 30;
        assert_eq!(chosen(big, 100.0), ("zstd", Reason::BestCheap));
        assert_eq!(chosen(big, 250.0), ("lz4", Reason::BestCheap));
        assert_eq!(chosen(big, 5000.0), ("lz4", Reason::Cheapest));
        assert_eq!(chosen(256 << 20, 100.0), ("deflate", Reason::SmallRam));
    }

    #[test]
    fn what_the_kernel_has_not_got_and_what_saves_nothing_is_not_chosen() {
        let absent = codec("zstd", 2.9, 300.0, Some(false));
        let bad = codec("lz4", 1.05, 700.0, Some(true));
        assert_eq!(choose(std::slice::from_ref(&absent), 1 << 34, 100.0), None);
        let found = CodecVerdict::choose(&[absent, bad], 1 << 30, 1 << 34, 100.0);
        assert_eq!(found, CodecVerdict::NothingToGain(1.05));
        assert!(found.why_none().unwrap().contains("1.05x at best"));
    }
}
