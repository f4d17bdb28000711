//! Sizes and shares as people read them: three digits.

/// As `1.23 GiB`, `12.3 MiB`, `123 B`.
pub(crate) fn bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"].iter();
    let mut unit = units.next().unwrap_or(&"");
    // What would be shown as 1024 is one of the next.
    while value >= 1023.5 {
        let Some(next) = units.next() else { break };
        (value, unit) = (value / 1024.0, next);
    }
    match value {
        _ if *unit == "B" => format!("{bytes} B"),
        value if value < 9.995 => format!("{value:.2} {unit}"),
        value if value < 99.95 => format!("{value:.1} {unit}"),
        value => format!("{value:.0} {unit}"),
    }
}

/// As `12.3 %`, of a fraction.
pub(crate) fn percent(fraction: f64) -> String {
    format!("{:.1} %", fraction * 100.0)
}
