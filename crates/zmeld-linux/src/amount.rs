//! Amounts and their text forms, as configurations have them: bytes, shares, times.

use std::fmt;
use std::iter::Sum;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Error, Visitor};
use serde::Serialize;

/// A number of bytes. Its text is a number with `KiB`, `MiB`, `GiB`, `TiB`
/// (or `K`, `M`, `G`, `T`, which are the same), or bytes without a unit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct Bytes(pub u64);

const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Bytes::parse(text, || {
            format!("{text:?} is not a size; write \"64KiB\", \"512MiB\" or \"4GiB\"")
        })
    }
}

/// Numbers of bytes below this are taken for MiB where they have no unit, as other tools have them.
pub const BARE_MIN: u64 = 1 << 20;

impl Bytes {
    /// Reads a size; what is no size at all is `wrong`.
    ///
    /// # Errors
    /// That, a unit that may be two, or more than any machine has.
    pub fn parse(text: &str, wrong: impl Fn() -> String) -> Result<Bytes, String> {
        let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = text[number.len()..].to_ascii_uppercase();
        let shift = match unit.as_str() {
            "" | "B" => 0,
            "K" | "KB" | "KIB" => 10,
            "M" | "MB" | "MIB" => 20,
            "G" | "GB" | "GIB" => 30,
            "T" | "TB" | "TIB" => 40,
            _ => return Err(wrong()),
        };
        let number = number.trim_end();
        let bytes = decimal(number, 1 << shift).ok_or_else(&wrong)?;
        let bytes = u64::try_from(bytes).ok();
        match bytes.filter(|bytes| *bytes <= i64::MAX as u64) {
            None => Err(format!("{text:?} is more than any machine has")),
            Some(_) if unit.len() == 2 => Err(format!(
                "{text:?}: {unit} may be powers of 1000 or of 1024; write \"{number}{}iB\"",
                &unit[..1]
            )),
            Some(bytes) => Ok(Bytes(bytes)),
        }
    }

    /// Reads a size that has a unit: what it counts is not clear where its unit is missing.
    fn with_unit(text: &str) -> Result<Bytes, String> {
        let other = match bare(text) {
            Some(1..BARE_MIN) => "MiB",
            Some(BARE_MIN..) => "B",
            _ => return text.parse(),
        };
        let number = text.trim();
        Err(format!(
            "{text:?} has no unit; write \"{number}KiB\" or \"{number}{other}\""
        ))
    }
}

/// A number without a unit, rounded down.
pub fn bare(text: &str) -> Option<u64> {
    u64::try_from(decimal(text.trim(), 1)?).ok()
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
        match self.0 {
            0 => f.write_str("0"),
            bytes => write!(f, "{bytes}B"),
        }
    }
}

/// A share in hundredths of a percent, so that `12.5%` is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct Percent(u32);

/// More is a slip of the pen.
const PERCENT_MAX: Percent = Percent::whole(1000);

impl Percent {
    /// A whole number of percent.
    pub const fn whole(percent: u32) -> Self {
        Percent(percent * 100)
    }

    /// The hundredths of a percentage text, if it is one.
    pub fn hundredths(text: &str) -> Option<u128> {
        decimal(text.strip_suffix('%')?.trim_end(), 100)
    }

    /// The share that a number between 0 and 1 is, as in `0.25` for 25 %.
    pub fn of_fraction(text: &str) -> Option<Percent> {
        let hundredths = u32::try_from(decimal(text.trim(), 10_000)?).ok()?;
        (1..10_000)
            .contains(&hundredths)
            .then_some(Percent(hundredths))
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

impl Sum for Percent {
    fn sum<I: Iterator<Item = Percent>>(all: I) -> Percent {
        Percent(all.fold(0, |sum, it| sum.saturating_add(it.0)))
    }
}

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let hundredths = Percent::hundredths(text).ok_or_else(|| match text.parse::<u32>() {
            Ok(1..=1000) => format!("{text:?} is not a percentage; write \"{text}%\""),
            _ => match Percent::of_fraction(text) {
                Some(percent) => format!("{text:?} is not a percentage; write \"{percent}\""),
                None => format!("{text:?} is not a percentage; write one such as \"25%\""),
            },
        })?;
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

/// A length of time in whole seconds. Its text is `30s`, `5min`, `2h` or `1d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
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

/// The longest span in whole minutes.
const LONGEST_MIN: u32 = u32::MAX / 60;

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
            .ok_or_else(|| match text.parse::<u32>() {
                Ok(1..=LONGEST_MIN) => {
                    format!("{text:?} is not a time; write \"{text}s\" or \"{text}min\"")
                }
                _ => format!("{text:?} is not a time; write \"30s\", \"5min\", \"2h\" or \"1d\""),
            })
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

const IEC: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// The IEC unit in which a size is below 1024 after rounding, and its bytes.
pub fn iec_unit(magnitude: f64) -> (f64, &'static str) {
    // 1024 of a unit is shown as 1 of the next.
    let is_enough = |power: &i32| magnitude < 1023.5 * 1024f64.powi(*power);
    let power = (0..6).find(is_enough).unwrap_or(6);
    (1024f64.powi(power), IEC[power as usize])
}

/// As people read it, three digits: `1.23 GiB`, `12.3 MiB`, `123 B`.
pub fn bytes_text(bytes: f64) -> String {
    let (scale, unit) = iec_unit(bytes.abs());
    let decimals = match bytes.abs() / scale {
        _ if scale == 1.0 => 0,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{} {unit}", fixed(bytes / scale, decimals))
}

/// As people read it, of a fraction: `12.3 %`, and neither some as none nor most as all.
pub fn percent_text(fraction: f64) -> String {
    match fraction {
        some if some > 0.0 && some < 0.0005 => "<0.1 %".into(),
        most if (0.9995..1.0).contains(&most) => ">99.9 %".into(),
        fraction => format!("{} %", fixed(fraction * 100.0, 1)),
    }
}

/// From here on a plain decimal number is too long to read.
pub const EXPONENT_FROM: f64 = 1e15;

/// With so many decimals (an exponent where that is too long), and no minus in front of zero.
pub fn fixed(value: f64, decimals: usize) -> String {
    if value.abs() >= EXPONENT_FROM {
        return format!("{value:.2e}");
    }
    let text = format!("{value:.decimals$}");
    match text.strip_prefix('-') {
        Some(digits) if digits.bytes().all(|b| matches!(b, b'0' | b'.')) => digits.into(),
        _ => text,
    }
}

/// Reads a text that it understands, or a number as its text: serde's place of a mistake is the
/// text itself.
pub struct Parse<T>(pub fn(&str) -> Result<T, String>);

impl<T> Visitor<'_> for Parse<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        self.0(text).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

/// For types whose serialised form is their text.
#[macro_export]
macro_rules! text_form {
    ($($name:ty: $parse:expr),*) => {$(
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(it: D) -> Result<Self, D::Error> {
                it.deserialize_str($crate::amount::Parse($parse))
            }
        }
        impl From<$name> for String {
            fn from(value: $name) -> String {
                value.to_string()
            }
        }
    )*};
}

text_form!(Bytes: Bytes::with_unit, Percent: share, Span: str::parse);

/// By itself it is a share of something, of at most all of it.
fn share(text: &str) -> Result<Percent, String> {
    let bare = || Percent::hundredths(&format!("{text}%"));
    match Percent::hundredths(text).or_else(bare) {
        Some(10_001..) => Err(format!(
            "{text:?} is more than all of it; write \"100%\" at most"
        )),
        _ => text.parse(),
    }
}
