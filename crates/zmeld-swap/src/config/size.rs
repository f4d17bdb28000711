//! Amounts and their text forms: bytes, shares of RAM, times.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What the kernel swaps by. Devices are sized in multiples of it.
const PAGE: u64 = 4096;

/// A number of bytes. Its text is a number with `KiB`, `MiB`, `GiB`, `TiB`
/// (or `K`, `M`, `G`, `T`, which are the same), or bytes without a unit.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct Bytes(pub u64);

const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("{text:?} is not a size; write a number with KiB, MiB, GiB or TiB, or bytes")
        };
        let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let shift = match text[number.len()..].to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kib" => 10,
            "m" | "mib" => 20,
            "g" | "gib" => 30,
            "t" | "tib" => 40,
            unit @ ("kb" | "mb" | "gb" | "tb") => {
                let exact = unit[..1].to_ascii_uppercase();
                return Err(format!(
                    "{text:?}: {} may be powers of 1000 or of 1024; write {exact}iB",
                    unit.to_ascii_uppercase()
                ));
            }
            _ => return Err(wrong()),
        };
        let bytes = decimal(number.trim_end(), 1 << shift).ok_or_else(wrong)?;
        u64::try_from(bytes)
            .ok()
            .filter(|bytes| *bytes <= i64::MAX as u64)
            .map(Bytes)
            .ok_or_else(|| format!("{text:?} is more than any machine has"))
    }
}

/// A decimal number such as `1.5` times `unit`, rounded down; no signs, no
/// exponents.
fn decimal(text: &str, unit: u64) -> Option<u128> {
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
        Some(_) => return None,
        None => (text, ""),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty()
        || whole.len() > 19
        || fraction.len() > 9
        || !digits(whole)
        || !digits(fraction)
    {
        return None;
    }
    let mut value = whole.parse::<u128>().ok()? * u128::from(unit);
    if !fraction.is_empty() {
        let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
        value += fraction.parse::<u128>().ok()? * u128::from(unit) / scale;
    }
    Some(value)
}

impl fmt::Display for Bytes {
    /// In the largest unit that states it exactly.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, shift) in UNITS {
            if self.0 != 0 && self.0.is_multiple_of(1 << shift) {
                return write!(f, "{}{unit}", self.0 >> shift);
            }
        }
        write!(f, "{}", self.0)
    }
}

/// A share in hundredths of a percent, so that `12.5%` is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Percent(u32);

/// More is a slip of the pen.
const PERCENT_MAX: Percent = Percent::whole(1000);

impl Percent {
    /// A whole number of percent.
    pub const fn whole(percent: u32) -> Self {
        Percent(percent * 100)
    }

    /// What a text says in hundredths, if it is a percentage at all.
    fn hundredths(text: &str) -> Option<u128> {
        decimal(text.strip_suffix('%')?.trim_end(), 100)
    }

    /// So many hundredths of a percent.
    pub const fn of_hundredths(hundredths: u32) -> Self {
        Percent(hundredths)
    }

    /// The share as a fraction: 0.25 for 25 %.
    pub fn fraction(self) -> f64 {
        f64::from(self.0) / 10_000.0
    }

    /// That share of `of`, rounded down.
    pub fn of(self, of: u64) -> u64 {
        let part = u128::from(of) * u128::from(self.0) / 10_000;
        u64::try_from(part).unwrap_or(u64::MAX)
    }
}

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let hundredths = Percent::hundredths(text)
            .ok_or_else(|| format!("{text:?} is not a percentage such as \"25%\""))?;
        let percent = u32::try_from(hundredths).map(Percent);
        match percent.ok().filter(|percent| *percent <= PERCENT_MAX) {
            Some(percent) => Ok(percent),
            None => Err(format!(
                "{text:?} is more than {PERCENT_MAX}, the most that is taken"
            )),
        }
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 100, self.0 % 100);
        match part {
            0 => write!(f, "{whole}%"),
            _ if part % 10 == 0 => write!(f, "{whole}.{}%", part / 10),
            _ => write!(f, "{whole}.{part:02}%"),
        }
    }
}

/// How large something is: for RAM tiers, how much they hold *before*
/// compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
    /// RAM - RAM/4 + RAM/2, the rule of the UFPR study of zram as swap. Text: `ufpr`.
    Ufpr,
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
            Size::Ufpr => ram_bytes - ram_bytes / 4 + ram_bytes / 2,
        };
        (bytes / page_size * page_size).max(page_size)
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is not a size; write 50%, 4GiB, min(50%, 4GiB), or ufpr for \
                 RAM - RAM/4 + RAM/2"
            )
        };
        if text == "ufpr" {
            return Ok(Size::Ufpr);
        }
        // Which sizes there are helps who wrote none, not who wrote one too large.
        let share = |share: &str| match Percent::hundredths(share) {
            Some(_) => share.parse::<Percent>(),
            None => Err(wrong()),
        };
        if let Some(arguments) = text.strip_prefix("min(").and_then(|t| t.strip_suffix(')')) {
            let (one, other) = arguments.split_once(',').ok_or_else(wrong)?;
            let (one, other) = (one.trim(), other.trim());
            let (percent, bytes) = if other.ends_with('%') {
                (other, one)
            } else {
                (one, other)
            };
            let size = Size::Ram {
                percent: share(percent)?,
                at_most: Some(bytes.parse::<Bytes>()?),
            };
            return size.checked(text);
        }
        let size = if text.ends_with('%') {
            Size::Ram {
                percent: share(text)?,
                at_most: None,
            }
        } else {
            let starts = text.starts_with(|c: char| c.is_ascii_digit());
            Size::Bytes(
                text.parse::<Bytes>()
                    .map_err(|why| if starts { why } else { wrong() })?,
            )
        };
        size.checked(text)
    }
}

impl Size {
    /// Refuses sizes that hold no page at all.
    fn checked(self, text: &str) -> Result<Self, String> {
        let nothing = match self {
            Size::Bytes(Bytes(bytes)) => bytes < PAGE,
            Size::Ram { percent, at_most } => {
                percent.0 == 0 || at_most.is_some_and(|Bytes(limit)| limit < PAGE)
            }
            Size::Ufpr => false,
        };
        if nothing {
            return Err(format!("{text:?} does not hold a single page of 4 KiB"));
        }
        Ok(self)
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
            Size::Ufpr => write!(f, "ufpr"),
        }
    }
}

/// A length of time in whole seconds. Its text is `30s`, `5min`, `2h` or `1d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span {
    /// Its length in seconds, at least 1.
    pub seconds: u32,
}

impl Span {
    /// So many seconds.
    pub const fn seconds(seconds: u32) -> Self {
        Span { seconds }
    }

    /// As the standard library's type.
    pub const fn duration(self) -> Duration {
        Duration::from_secs(self.seconds as u64)
    }
}

const SPANS: [(&str, u32); 4] = [("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)];

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match &text[number.len()..] {
            "s" | "sec" => Some(1),
            "m" | "min" => Some(60),
            "h" => Some(3_600),
            "d" => Some(86_400),
            _ => None,
        };
        unit.and_then(|unit| decimal(number.trim_end(), unit))
            .and_then(|seconds| u32::try_from(seconds).ok())
            .filter(|seconds| *seconds > 0)
            .map(|seconds| Span { seconds })
            .ok_or_else(|| format!("{text:?} is not a time; write 30s, 5min, 2h or 1d"))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, seconds) in SPANS {
            if self.seconds.is_multiple_of(seconds) {
                return write!(f, "{}{unit}", self.seconds / seconds);
            }
        }
        Ok(())
    }
}

/// For types whose serialised form is their text.
macro_rules! text_form {
    ($($name:ty),*) => {$(
        impl TryFrom<String> for $name {
            type Error = String;
            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }
        impl From<$name> for String {
            fn from(value: $name) -> String {
                value.to_string()
            }
        }
    )*};
}
pub(crate) use text_form;

text_form!(Bytes, Percent, Size, Span);

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
        for text in ["4GiB", "1536MiB", "4097", "50%", "12.5%", "0.25%", "ufpr"] {
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
        for text in [
            "",
            "-1",
            "4X",
            "1e9",
            "4GB",
            "%",
            "-5%",
            "1001%",
            "0",
            "0%",
            "4095",
            "nan",
            "1.G",
            ".5G",
            "99999999999T",
            "min(50%)",
            "min(50%, 50%)",
            "max(1G, 50%)",
            "١G",
        ] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
        for text in ["", "5", "0s", "-1s", "5 weeks", "99999999999s"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_follow_ram() {
        let ram = 4_000_000_000;
        assert_eq!(Size::percent(25).bytes(ram), 1_000_000_000 / 4096 * 4096);
        assert_eq!(Size::Ufpr.bytes(4 << 30), 5 << 30);
        let limited: Size = "min(50%, 1GiB)".parse().unwrap();
        assert_eq!(limited.bytes(4 << 30), 1 << 30);
        assert_eq!(limited.bytes(1 << 30), 512 << 20);
        assert_eq!(Size::percent(1).bytes(1000), 4096);
    }
}
