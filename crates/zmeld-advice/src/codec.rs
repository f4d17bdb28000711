//! Which codec: what it saves against what it costs. `zmeld-scan` measures them, and
//! chooses by what is here.
//!
//! Of the codecs that the kernel offers, the one that gains most RAM while
//! compressing and decompressing at the given swap rate takes at most
//! [`CPU_SHARE_MAX`] of one core. On a machine with little RAM the ratio alone
//! decides: there a faster codec with a low ratio runs out of memory where a slower
//! one survives.

use zmeld_report::units::bytes;

use crate::size::Basis;

/// Share of one core that a codec may take at the swap rate that was given.
pub const CPU_SHARE_MAX: f64 = 0.5;
/// Bytes of RAM below which only the ratio counts.
pub const SMALL_RAM: u64 = 1 << 30;
/// Below this many bytes saved for each byte swapped, compression is not worth it.
pub const GAIN_MIN: f64 = 0.1;
/// From fewer bytes of pages nothing follows for a device: shares and ratios of
/// them are chance.
pub const JUDGED_FROM: u64 = 16 << 20;

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
