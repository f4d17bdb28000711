//! Numbers as people read them: sizes, counts, shares, times, rates and their uncertainty.
//!
//! # Rounding
//!
//! One set of rules holds everywhere, so that a number is never written two ways:
//!
//! - A value is rounded to the nearest representable step; what is shown never decreases while the value grows.
//! - **Three significant digits**, unless the integer part is longer; then all of the integer part is shown and
//!   nothing behind the point (`1.23 KiB`, `12.3 KiB`, `123 KiB`, `1012 KiB`).
//! - **Bytes** use powers of 1024 and the IEC names; whole bytes below 1 KiB. A value that would round to 1024 of one
//!   unit is written as `1.00` of the next.
//! - **Counts** are exact, in groups of three from 10 000 on.
//! - **Percentages** take a fraction and have one decimal. A share that is not nothing is never shown as nothing
//!   (`<0.1 %`), and one that is not all never as all (`>99.9 %`).
//! - **Ratios** have three digits, at most two of them behind the point (`2.31x`, `12.3x`, `0.04x`).
//! - **Times** have three digits up to a minute (`812 ns`, `4.31 µs`, `59.9 s`), then two units (`2m 05s`, `3h 07m`,
//!   `2d 04h`), rounded to the smaller.
//! - **Speeds** are decimal megabytes per second, always MB/s, so that a column can be compared by eye.
//! - **Uncertainty** is rounded to one digit, to two if the first is a 1; the value stops at the same place
//!   (`2.31 ± 0.02`, `2.310 ± 0.012`).
//! - NaN is `–`; infinity is `∞`.
//!
//! Values from 10¹⁵ (of the largest unit) on are written with an exponent.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use zmeld_linux::amount::{bytes_text, fixed, iec_unit, percent_text, EXPONENT_FROM};

/// Shown where there is no value.
pub const MISSING: &str = "–";

/// The narrow no-break space between groups of three digits.
const GROUP: char = '\u{202f}';

/// Meaning of a number, and so its form and its name in a file's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// A number without a unit, three significant digits.
    Number,
    /// How many of something.
    Count,
    /// A size in bytes.
    Bytes,
    /// A fraction: 0.25 is shown as 25.0 %.
    Fraction,
    /// A factor: 2.31 is shown as 2.31x.
    Ratio,
    /// A time in seconds.
    Seconds,
    /// A time in nanoseconds.
    Nanoseconds,
    /// A speed in megabytes (10⁶ bytes) per second.
    MbPerSecond,
}

impl Unit {
    /// The value as text, rounded by the rules of this module.
    pub fn format(self, value: f64) -> String {
        match self {
            Unit::Number => number(value),
            Unit::Count => count_real(value),
            Unit::Bytes => bytes_real(value),
            Unit::Fraction => percent(value),
            Unit::Ratio => ratio(value),
            Unit::Seconds => seconds(value),
            Unit::Nanoseconds => seconds(value / 1e9),
            Unit::MbPerSecond => mb_per_s(value),
        }
    }

    /// A whole value as text; exact where the unit shows all digits.
    pub fn format_whole(self, value: u64) -> String {
        match self {
            Unit::Count => count(value),
            Unit::Bytes => bytes(value),
            _ => self.format(value as f64),
        }
    }

    /// A value with its interval: `2.31 ± 0.02x` when both sides are alike, `2.31x (2.28 to 2.40)` when not.
    pub fn format_estimate(self, estimate: Estimate) -> String {
        let Estimate { value, low, high } = estimate;
        if !(value.is_finite() && low.is_finite() && high.is_finite()) {
            return self.format(value);
        }
        let (scale, suffix) = self.scale_for(value);
        let (value, low, high) = (value / scale, low / scale, high / scale);
        let (below, above) = (value - low, high - value);
        if (below - above).abs() <= 0.1 * below.abs().max(above.abs()) {
            let half = (high - low) / 2.0;
            if half < IN_ROUNDING * value.abs() {
                return self.format(estimate.value);
            }
            return format!("{}{suffix}", uncertain(value, half));
        }
        let decimals =
            uncertain_decimals(below.abs().min(above.abs()).max((high - low).abs() / 10.0));
        format!(
            "{}{suffix} ({} to {})",
            fixed(value, decimals),
            fixed(low, decimals),
            fixed(high, decimals)
        )
    }

    /// The divisor and the suffix with which `value`, and everything that is to stand beside it, is written.
    fn scale_for(self, value: f64) -> (f64, String) {
        let v = value.abs();
        match self {
            Unit::Number | Unit::Count => (1.0, String::new()),
            Unit::Bytes => {
                let (scale, unit) = iec_unit(v);
                (scale, format!(" {unit}"))
            }
            Unit::Fraction => (0.01, " %".into()),
            Unit::Ratio => (1.0, "x".into()),
            Unit::Seconds => time_scale(v, 1.0),
            Unit::Nanoseconds => time_scale(v / 1e9, 1e9),
            Unit::MbPerSecond => (1.0, " MB/s".into()),
        }
    }

    /// Suffix of a field's name for raw values: `bytes`, `mb_per_s`, `s`; empty for plain numbers.
    pub fn key_suffix(self) -> String {
        match self {
            Unit::Number | Unit::Count => String::new(),
            Unit::Ratio => "ratio".into(),
            Unit::Bytes => "bytes".into(),
            Unit::Fraction => "fraction".into(),
            Unit::Seconds => "s".into(),
            Unit::Nanoseconds => "ns".into(),
            Unit::MbPerSecond => "mb_per_s".into(),
        }
    }
}

/// An interval narrower than this share of its value is within the rounding of three digits.
const IN_ROUNDING: f64 = 0.0005;

/// A value and the interval it is thought to lie in; ends may be infinite.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "Interval")]
pub struct Estimate {
    /// The estimate.
    #[serde(with = "crate::statistics::real")]
    #[schemars(with = "crate::statistics::real::Real")]
    pub value: f64,
    /// The lower end.
    #[serde(with = "crate::statistics::real")]
    #[schemars(with = "crate::statistics::real::Real")]
    pub low: f64,
    /// The upper end.
    #[serde(with = "crate::statistics::real")]
    #[schemars(with = "crate::statistics::real::Real")]
    pub high: f64,
}

impl Estimate {
    /// A value with the ends of its interval.
    pub fn new(value: f64, low: f64, high: f64) -> Self {
        Estimate { value, low, high }
    }

    /// A value with the same distance on both sides.
    pub fn around(value: f64, half_width: f64) -> Self {
        Estimate::new(value, value - half_width, value + half_width)
    }

    pub fn exact(value: f64) -> Self {
        Estimate::new(value, value, value)
    }

    pub fn has_interval(&self) -> bool {
        self.low.is_finite() && self.high.is_finite() && self.low < self.high
    }

    /// Whether two intervals have a point in common.
    pub fn overlaps(&self, other: &Estimate) -> bool {
        self.low <= other.high && other.low <= self.high
    }

    /// Half the width over the value; infinite where an end is.
    pub fn relative_half_width(&self) -> f64 {
        let half = (self.high - self.low) / 2.0 / self.value.abs();
        if half.is_nan() {
            f64::INFINITY
        } else {
            half
        }
    }
}

/// A size in bytes: `4.21 GiB`.
pub fn bytes(value: u64) -> String {
    bytes_real(value as f64)
}

/// A size in bytes that was computed, and so need not be whole; may be negative.
pub fn bytes_real(value: f64) -> String {
    not_finite(value).unwrap_or_else(|| bytes_text(value))
}

/// The letter that makes a noun plural, if it is.
pub fn plural(count: u64) -> &'static str {
    match count {
        1 => "",
        _ => "s",
    }
}

/// A count, exact: `9999`, `12 345 678` (with narrow no-break spaces).
pub fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// A count that was computed: exact like [`count`] if it is whole, otherwise three significant digits.
pub fn count_real(value: f64) -> String {
    if let Some(special) = not_finite(value) {
        return special;
    }
    if value.fract() == 0.0 && value.abs() < EXPONENT_FROM {
        return grouped(&fixed(value, 0));
    }
    number(value)
}

/// A number without a unit: three significant digits, at least all of the integer part.
pub fn number(value: f64) -> String {
    not_finite(value).unwrap_or_else(|| grouped(&significant(value)))
}

/// `part` of `whole` as a fraction; 0 of nothing is 0.
pub fn share(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        whole => part as f64 / whole as f64,
    }
}

/// A fraction in percent with one decimal: 0.128 is `12.8 %`.
pub fn percent(fraction: f64) -> String {
    not_finite(fraction).unwrap_or_else(|| grouped(&percent_text(fraction)))
}

/// A factor: `2.31x`.
pub fn ratio(value: f64) -> String {
    not_finite(value).unwrap_or_else(|| format!("{}x", grouped(&two_decimals(value))))
}

/// A time: `812 ns`, `4.31 µs`, `1.20 s`, `2m 05s`, `3h 07m`, `2d 04h`.
pub fn duration(time: Duration) -> String {
    seconds(time.as_secs_f64())
}

/// A time given in seconds, written like [`duration`]; may be negative.
pub fn seconds(value: f64) -> String {
    if let Some(special) = not_finite(value) {
        return special;
    }
    if value < 0.0 {
        return format!("-{}", seconds(-value));
    }
    if value == 0.0 {
        return "0 s".into();
    }
    // 59.95 s would round to 60.0 s, which is a minute.
    if value >= 59.95 {
        return long_time(value);
    }
    let (scale, suffix) = time_scale(value, 1.0);
    format!("{}{suffix}", two_decimals(value / scale))
}

/// A speed in decimal megabytes per second: `812 MB/s`, `12 345 MB/s`, `0.00342 MB/s`.
pub fn mb_per_s(value: f64) -> String {
    let digits = match value.abs() {
        // A disk wait at each byte is slow, but not 0.00.
        slow if slow < 0.1 => significant(value),
        _ => two_decimals(value),
    };
    not_finite(value).unwrap_or_else(|| format!("{} MB/s", grouped(&digits)))
}

/// A value and its uncertainty, both ending at the same digit: `2.31 ± 0.02`.
pub fn uncertain(value: f64, half_width: f64) -> String {
    if !value.is_finite() || !half_width.is_finite() || half_width == 0.0 {
        return number(value);
    }
    let half_width = half_width.abs();
    if value.abs() >= EXPONENT_FROM || half_width >= EXPONENT_FROM {
        return format!("{value:.2e} ± {half_width:.0e}");
    }
    if half_width < 1e-9 {
        return format!("{} ± {half_width:.0e}", number(value));
    }
    let decimals = uncertain_decimals(half_width);
    format!(
        "{} ± {}",
        fixed(value, decimals),
        fixed(half_width, decimals)
    )
}

/// How many decimals an uncertainty of this size leaves meaningful.
fn uncertain_decimals(half_width: f64) -> usize {
    if half_width == 0.0 || !half_width.is_finite() {
        return 2;
    }
    let (first, exponent) = leading(half_width, 0);
    let digits = if first == 1 { 1 } else { 0 };
    usize::try_from(digits - exponent).unwrap_or(0).min(12)
}

/// The first digit and the power of ten of a positive number, once rounded to `decimals` behind the first digit.
fn leading(value: f64, decimals: usize) -> (u32, i32) {
    let text = format!("{value:.decimals$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let first = mantissa.chars().next().and_then(|c| c.to_digit(10));
    (first.unwrap_or(0), exponent.parse().unwrap_or(0))
}

fn not_finite(value: f64) -> Option<String> {
    if value.is_nan() {
        Some(MISSING.into())
    } else if value.is_infinite() {
        Some(if value > 0.0 { "∞" } else { "-∞" }.into())
    } else {
        None
    }
}

/// Three significant digits, or all of a longer integer part.
fn significant(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude == 0.0 {
        return "0".into();
    }
    if !(1e-6..EXPONENT_FROM).contains(&magnitude) {
        return format!("{value:.2e}");
    }
    let (_, exponent) = leading(magnitude, 2);
    fixed(value, usize::try_from(2 - exponent).unwrap_or(0))
}

/// Three significant digits, but at most two behind the point.
fn two_decimals(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= EXPONENT_FROM {
        return format!("{value:.2e}");
    }
    if magnitude < 1.0 {
        return fixed(value, 2);
    }
    significant(value)
}

/// Digits in groups of three, from five digits in front of the point on.
fn grouped(text: &str) -> String {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text),
    };
    let (whole, fraction) = match rest.find(['.', 'e']) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    if whole.len() < 5 {
        return text.into();
    }
    let mut out = String::from(sign);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            out.push(GROUP);
        }
        out.push(digit);
    }
    out.push_str(fraction);
    out
}

/// Divisor and suffix for a time of `value` seconds, when the number to be divided has `per_second` in a second.
fn time_scale(value: f64, per_second: f64) -> (f64, String) {
    // The borders are where three digits round to the next unit.
    let (unit, name) = if value == 0.0 || value >= 0.9995 {
        (1.0, " s")
    } else if value >= 0.9995e-3 {
        (1e-3, " ms")
    } else if value >= 0.9995e-6 {
        (1e-6, " µs")
    } else {
        (1e-9, " ns")
    };
    (unit * per_second, name.into())
}

/// A minute and more: two units, rounded to the smaller one.
fn long_time(value: f64) -> String {
    const HOUR: u64 = 3600;
    const DAY: u64 = 24 * HOUR;
    if value / 86_400.0 >= 1e6 {
        return format!("{}d", significant(value / 86_400.0));
    }
    let seconds = value.round() as u64;
    if seconds < HOUR {
        return format!("{}m {:02}s", seconds / 60, seconds % 60);
    }
    let minutes = ((value / 60.0).round() as u64).max(60);
    if minutes * 60 < DAY {
        return format!("{}h {:02}m", minutes / 60, minutes % 60);
    }
    let hours = ((value / 3600.0).round() as u64).max(24);
    format!("{}d {:02}h", hours / 24, hours % 24)
}
