//! Amounts and their text forms: bytes, shares of RAM, times.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
pub use zmeld_linux::amount::{Bytes, Percent, Span};
pub use zmeld_linux::text_form;

/// Swap page size. Devices are sized in multiples of it.
const PAGE: u64 = 4096;

/// Numbers without a unit below this are MiB that were meant, as other tools have them.
const BARE_MIN: u64 = 1 << 20;

/// Advice on a text that is no size.
const SUCH_AS: &str = r#"write "50%", "4GiB" or "min(50%, 4GiB)""#;

/// How large something is: for RAM tiers, how much they hold *before*
/// compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, schemars::JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub enum Size {
    /// So many bytes. Text: `4GiB`.
    Bytes(Bytes),
    /// A share of RAM, perhaps up to a limit. Text: `50%` or `min(50%, 4GiB)`.
    Ram {
        /// The share of the RAM that the kernel has (`MemTotal`).
        percent: Percent,
        /// At most so much.
        at_most: Option<Bytes>,
    },
}

impl Size {
    /// A share of RAM without a limit.
    pub const fn percent(percent: u32) -> Self {
        Size::Ram {
            percent: Percent::whole(percent),
            at_most: None,
        }
    }

    /// In bytes on a machine with `ram_bytes` of RAM, rounded down to whole pages of the
    /// running kernel's, but never less than one: zram rounds what it is given to those.
    pub fn bytes(&self, ram_bytes: u64) -> u64 {
        self.in_pages(ram_bytes, rustix::param::page_size() as u64)
    }

    fn in_pages(&self, ram_bytes: u64, page_size: u64) -> u64 {
        let bytes = match *self {
            Size::Bytes(Bytes(bytes)) => bytes,
            Size::Ram { percent, at_most } => {
                let share = percent.of(ram_bytes);
                at_most.map_or(share, |Bytes(limit)| share.min(limit))
            }
        };
        (bytes / page_size * page_size).max(page_size)
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a size; {SUCH_AS}");
        // Bytes by themselves are no shares: what they look like is half of it.
        let bytes = |part: &str| Bytes::parse(part, wrong);
        // Which sizes there are helps who wrote none, not who wrote one too large.
        let share = |share: &str| match Percent::hundredths(share) {
            Some(_) => share.parse::<Percent>(),
            None => Err(wrong()),
        };
        if let Some(arguments) = text.strip_prefix("min(").and_then(|t| t.strip_suffix(')')) {
            let (one, other) = arguments.split_once(',').ok_or_else(wrong)?;
            let (one, other) = (one.trim(), other.trim());
            let (percent, limit) = if other.ends_with('%') {
                (other, one)
            } else {
                (one, other)
            };
            let size = Size::Ram {
                percent: share(percent)?,
                at_most: Some(bytes(limit)?),
            };
            return size.checked(text);
        }
        let size = if text.ends_with('%') {
            Size::Ram {
                percent: share(text)?,
                at_most: None,
            }
        } else {
            Size::Bytes(bytes(text)?)
        };
        size.checked(text)
    }
}

impl Size {
    /// Refuses sizes that hold no page at all, and numbers that lack a unit.
    fn checked(self, text: &str) -> Result<Self, String> {
        let nothing = match self {
            Size::Bytes(Bytes(bytes)) => bytes < PAGE,
            Size::Ram { percent, at_most } => {
                percent == Percent::whole(0) || at_most.is_some_and(|Bytes(limit)| limit < PAGE)
            }
        };
        let is_bare = text.ends_with(|c: char| c.is_ascii_digit());
        match (self, text.parse::<u64>()) {
            (Size::Bytes(Bytes(0..BARE_MIN)), Ok(number @ 1..)) => Err(format!(
                "{text:?} is a number of bytes, less than 1 MiB; write \"{number}MiB\", or a \
                 share as \"50%\""
            )),
            _ if nothing && is_bare => Err(format!(
                "{text:?} is a number of bytes, less than a page of 4 KiB; {SUCH_AS}"
            )),
            _ if nothing => Err(format!("{text:?} is less than a page of 4 KiB; {SUCH_AS}")),
            _ => Ok(self),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Size::Bytes(bytes) => write!(f, "{bytes}"),
            Size::Ram {
                percent,
                at_most: None,
            } => write!(f, "{percent}"),
            Size::Ram {
                percent,
                at_most: Some(limit),
            } => write!(f, "min({percent}, {limit})"),
        }
    }
}

text_form!(Size: str::parse);

#[cfg(test)]
mod tests {
    use super::*;

    /// 16 KiB on a Raspberry Pi 5 and on Asahi.
    #[test]
    fn sizes_are_whole_pages_of_the_kernel() {
        let ram = 8_000_000 << 10;
        for page_size in [4096, 16384, 65536] {
            for percent in 1..200 {
                let size = Size::percent(percent).in_pages(ram, page_size);
                assert_eq!(size % page_size, 0, "{percent} % of pages of {page_size}");
                assert!(size > 0);
            }
            let least = Size::Bytes(Bytes(4096)).in_pages(ram, page_size);
            assert_eq!(least, page_size);
        }
    }

    #[test]
    fn texts_come_back() {
        let texts = "4GiB|1536MiB|4KiB|1048577|50%|12.5%|0.25%|min(50%, 4KiB)|min(0.01%, 4097)";
        for text in texts.split('|') {
            assert_eq!(text.parse::<Size>().unwrap().to_string(), text);
        }
        assert_eq!(
            "min( 4G , 50% )".parse::<Size>().unwrap().to_string(),
            "min(50%, 4GiB)"
        );
        for text in ["30s", "5min", "2h", "1d", "90s", "36h"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
        assert_eq!("1.5G".parse::<Bytes>(), Ok(Bytes(3 << 29)));
        assert_eq!("512 MiB".parse::<Bytes>(), Ok(Bytes(512 << 20)));
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        let no_size = "|-1|4X|1e9|%|-5%|nan|1.G|.5G|min(50%)|min(50%, 50%)|max(1G, 50%)|١G";
        for (texts, said) in [
            (no_size, "is not a size; write \"50%\""),
            ("50 percent|min(50%, half)", "is not a size; write \"50%\""),
            ("0|0.5", "is a number of bytes, less than a page"),
            (
                "50|4096|1048575",
                "is a number of bytes, less than 1 MiB; write \"",
            ),
            ("0%|1KiB", "is less than a page of 4 KiB; write \"50%\""),
            ("4GB|1001%|99999999999T", ""),
        ] {
            for text in texts.split('|') {
                let why = text.parse::<Size>().unwrap_err();
                let is_told = why.starts_with(&format!("{text:?}")) && why.contains(said);
                assert!(is_told, "{why}");
            }
        }
        for text in ["", "5", "0s", "-1s", "99999999999s"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_follow_ram() {
        let ram = 4_000_000_000;
        assert_eq!(Size::percent(25).bytes(ram), 1_000_000_000 / 4096 * 4096);
        let limited: Size = "min(50%, 1GiB)".parse().unwrap();
        assert_eq!(limited.bytes(4 << 30), 1 << 30);
        assert_eq!(limited.bytes(1 << 30), 512 << 20);
        assert_eq!(Size::percent(1).bytes(1000), 4096);
    }
}
