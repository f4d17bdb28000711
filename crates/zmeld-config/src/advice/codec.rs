//! Verdict on measured codecs.

use serde::{Deserialize, Serialize};
use zmeld_report::units::bytes;

use crate::advice::size::{Basis, PROMISED_FROM};

/// From fewer bytes of pages nothing follows for a device: shares and ratios of
/// them are chance.
pub const JUDGED_FROM: u64 = 16 << 20;

/// Verdict on measured codecs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum CodecVerdict {
    /// Nothing was measured.
    #[default]
    Not,
    /// Too few pages to go by, in bytes.
    TooLittle(u64),
    /// No codec that the kernel has gains anything; the best ratio among them.
    NothingToGain(f64),
    /// The same, of so few pages that they do not speak for the machine.
    FewHardlyCompress {
        /// The best ratio.
        ratio: f64,
        /// Bytes of the pages that it was measured on.
        bytes: u64,
    },
    /// This codec, with its ratio.
    Codec {
        /// Its name.
        name: String,
        /// Bytes of pages for each byte of memory used, to the hundredth.
        ratio: f64,
        /// Bytes of the pages that it was measured on.
        bytes: u64,
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

    /// Basis of a size; `None` where nothing was measured that says one.
    pub fn basis(&self) -> Option<Basis> {
        match self {
            CodecVerdict::Codec { ratio, bytes, .. } => Some(Basis {
                ratio: *ratio,
                bytes: *bytes,
            }),
            _ => None,
        }
    }

    /// Reason why no codec follows from it.
    pub fn why_none(&self) -> Option<String> {
        match self {
            CodecVerdict::Not | CodecVerdict::Codec { .. } => None,
            CodecVerdict::TooLittle(found) => Some(format!(
                "Too little to go by: only {} of pages could be measured, and it takes {} to \
                 choose a codec and a size",
                bytes(*found),
                bytes(JUDGED_FROM)
            )),
            CodecVerdict::NothingToGain(ratio) => Some(format!(
                "Nothing to gain: these pages hardly compress ({ratio:.2}x at best, pool overhead \
                 included), so compressed swap would cost CPU and save next to nothing"
            )),
            CodecVerdict::FewHardlyCompress {
                ratio,
                bytes: found,
            } => Some(format!(
                "Too little to go by: only {} of pages were measured, less than {:.0} % of RAM; \
                 the kernel's codecs gain little on them ({ratio:.2}x at best, pool overhead included)",
                bytes(*found),
                100.0 * PROMISED_FROM
            )),
        }
    }
}
