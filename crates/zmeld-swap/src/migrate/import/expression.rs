//! Sizes that are arithmetic over `ram`, in MiB, as zram-generator has them.

use std::collections::BTreeMap;

use zmeld_config::{Bytes, Percent, Size};

/// One of zram-generator's megabytes.
const MIB: u64 = 1 << 20;

const PAGE: u64 = 4096;

/// A size, and how it was come by.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub size: Size,
    /// It is right for one size of RAM only.
    pub remark: Option<String>,
}

/// Why an expression has no value.
#[derive(Debug, PartialEq)]
pub(super) enum Failure {
    /// zram-generator finds none either, and gives up.
    Wrong(String),
    /// Only zram-generator knows it.
    Unknown(String),
}

/// Whether zram-generator takes it for an expression, whatever its names stand for.
pub(super) fn is_expression(text: &str) -> bool {
    let mut slab = fasteval::Slab::new();
    fasteval::Parser::new()
        .parse_noclear(text, &mut slab.ps)
        .is_ok()
}

/// Its value in bytes; `variables` are those whose values commands would tell.
pub(super) fn bytes(text: &str, ram_bytes: u64, variables: &[String]) -> Result<u64, Failure> {
    // fasteval would print to standard error.
    if text.contains("print") {
        return Err(Failure::Unknown("print() is not understood".to_owned()));
    }
    let value = value(text, (ram_bytes / MIB) as f64).map_err(|err| match err {
        fasteval::Error::Undefined(name) if variables.contains(&name) => {
            Failure::Unknown(format!("what {name} is only a command knows"))
        }
        fasteval::Error::Undefined(name) => Failure::Wrong(format!(
            "its arithmetic is not understood ({name} is nothing it knows)"
        )),
        _ => Failure::Wrong("its arithmetic is not understood".to_owned()),
    })?;
    match value >= 0.0 {
        true => Ok((value * MIB as f64) as u64),
        false => Err(Failure::Wrong(format!("it comes to {value}"))),
    }
}

/// The size that is so many bytes here: at any size of RAM where zmeld has words for what
/// the expression says, else as it is.
pub(super) fn size(text: &str, bytes: u64, ram_bytes: u64) -> Found {
    let near = |size: &Size| {
        // zram-generator takes whole MiB of RAM.
        let slack = if ram_bytes.is_multiple_of(MIB) {
            PAGE
        } else {
            MIB
        };
        let share = (bytes / ram_bytes.max(1)).max(1);
        size.bytes(ram_bytes).abs_diff(bytes) <= slack * share
    };
    match shape(text).filter(near) {
        Some(size) => Found { size, remark: None },
        None => Found {
            // As zram rounds what it is given.
            size: Size::Bytes(Bytes(bytes.div_ceil(PAGE).saturating_mul(PAGE))),
            remark: Some(format!(
                "this is its value for the {} MiB of RAM of this machine",
                ram_bytes / MIB
            )),
        },
    }
}

/// At so many MiB of RAM, in MiB.
fn value(text: &str, ram: f64) -> Result<f64, fasteval::Error> {
    let mut names = BTreeMap::from([("ram".to_owned(), ram)]);
    fasteval::ez_eval(text, &mut names)
}

/// The expression as a constant, a share of RAM, or a share up to a limit, if it
/// is one of these over all sizes of RAM that there are: from 16 MiB to 64 TiB.
fn shape(text: &str) -> Option<Size> {
    let (least, most) = (16.0, 67_108_864.0);
    let share = value(text, least).ok()? / least;
    let limit = value(text, most).ok()?;
    let near = |one: f64, other: f64| (one - other).abs() <= 1e-9 * one.abs().max(other.abs());
    let is = |model: &dyn Fn(f64) -> f64| {
        let mut ram = least;
        while ram <= most {
            // Uneven steps, so that no rounding goes unseen; and around the bend.
            for ram in [ram, limit / share * 0.999, limit / share * 1.001] {
                let within = (least..=most).contains(&ram);
                if within && !value(text, ram).is_ok_and(|value| near(value, model(ram))) {
                    return false;
                }
            }
            ram *= 1.0437;
        }
        true
    };
    if is(&|_| limit) {
        return Some(Size::Bytes(mebibytes(limit)?));
    }
    let at_most = if is(&|ram| share * ram) {
        None
    } else if is(&|ram| (share * ram).min(limit)) {
        Some(mebibytes(limit)?)
    } else {
        return None;
    };
    let hundredths = (share * 10_000.0).round();
    let percent = format!("{}%", hundredths / 100.0).parse::<Percent>().ok()?;
    let is_exact = hundredths > 0.0 && near(hundredths, share * 10_000.0);
    is_exact.then_some(Size::Ram { percent, at_most })
}

/// So many MiB in bytes, up to whole pages.
fn mebibytes(value: f64) -> Option<Bytes> {
    let bytes = value * MIB as f64;
    (1.0..1e18)
        .contains(&bytes)
        .then(|| Bytes((bytes as u64).div_ceil(PAGE) * PAGE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> String {
        match bytes(text, 8192 * MIB, &["set".to_owned()]) {
            Ok(bytes) => {
                let found = size(text, bytes, 8192 * MIB);
                let here = if found.remark.is_some() { " here" } else { "" };
                format!("{}{here}", found.size)
            }
            Err(Failure::Wrong(why)) => why,
            Err(Failure::Unknown(why)) => format!("unknown: {why}"),
        }
    }

    #[test]
    fn what_people_write_becomes_a_size() {
        for (text, size) in [
            ("ram / 2", "50%"),
            ("ram*1.5", "150%"),
            ("min(ram / 2, 4096)", "min(50%, 4GiB)"),
            ("min(0.5 * ram, 4 * 1024)", "min(50%, 4GiB)"),
            (
                "min(50 / 100 * ram, 8589934592 / 1024 / 1024)",
                "min(50%, 8GiB)",
            ),
            ("4096", "4GiB"),
            ("2k", "2000MiB"),
            ("0.005", "8KiB"),
            ("ram / 3", "2796204KiB here"),
            ("ram - 1024", "7GiB here"),
            (
                "min(min(ram, 4096) + max(ram - 4096, 0) / 2, 32 * 1024)",
                "6GiB here",
            ),
            ("max(ram / 4, 512)", "2GiB here"),
            ("ram - 100000", "it comes to -91808"),
            ("print(ram)", "unknown: print() is not understood"),
            ("ram / set", "unknown: what set is only a command knows"),
        ] {
            assert_eq!(found(text), size, "{text}");
        }
        for wrong in ["", "half", "ram /", "min(ram", "rom / 2", "ram; ram"] {
            assert!(
                found(wrong).starts_with("its arithmetic is not understood"),
                "{wrong}: {}",
                found(wrong)
            );
        }
    }
}
