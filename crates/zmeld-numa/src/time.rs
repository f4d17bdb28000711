//! Simulated time: whole picoseconds in 64 bits (213 days), so that sums of access costs are exact.

/// Picoseconds in a nanosecond.
pub const NS: u64 = 1_000;
/// Picoseconds in a microsecond.
pub const US: u64 = 1_000_000;
/// Picoseconds in a millisecond.
pub const MS: u64 = 1_000_000_000;
/// Picoseconds in a second.
pub const SECOND: u64 = 1_000_000_000_000;

/// A time in milliseconds as picoseconds, rounded; negative and undefined values become 0.
pub fn from_ms(ms: f64) -> u64 {
    (ms * MS as f64).round() as u64
}

/// A time in nanoseconds as picoseconds, rounded; negative and undefined values become 0.
pub fn from_ns(ns: f64) -> u64 {
    (ns * NS as f64).round() as u64
}

/// Picoseconds as milliseconds.
pub fn to_ms(ps: u64) -> f64 {
    ps as f64 / MS as f64
}

/// Picoseconds as seconds.
pub fn to_s(ps: u64) -> f64 {
    ps as f64 / SECOND as f64
}
