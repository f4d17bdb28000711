//! Sizes that are arithmetic over `ram`, in MiB, as zram-generator has them.

use std::collections::BTreeMap;

use zmeld_config::{Bytes, Percent, Size};

/// One of zram-generator's megabytes.
const MIB: u64 = 1 << 20;

/// A size, and how it was come by.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub size: Size,
    /// It is right for one size of RAM only, or was rounded.
    pub remark: Option<String>,
}

/// The size that an expression describes, at any size of RAM if zmeld has words
/// for it, else at `ram_bytes`. Nothing for a size of zero, which means no device.
pub(super) fn size(text: &str, ram_bytes: u64) -> Result<Option<Found>, String> {
    let here = value(text, ram_bytes as f64 / MIB as f64)?;
    if here < 1.0 / 256.0 {
        return Ok(None);
    }
    if let Some(found) = shape(text)? {
        return Ok(Some(found));
    }
    let bytes = mebibytes(here)?;
    Ok(Some(Found {
        size: Size::Bytes(bytes),
        remark: Some(format!(
            "this is its value for the {} MiB of RAM of this machine",
            ram_bytes / MIB
        )),
    }))
}

/// At so many MiB of RAM, in MiB.
fn value(text: &str, ram: f64) -> Result<f64, String> {
    // fasteval would print to standard error.
    if text.contains("print") {
        return Err("print() is not understood".to_owned());
    }
    let mut names = BTreeMap::from([("ram".to_owned(), ram)]);
    let value = fasteval::ez_eval(text, &mut names).map_err(|err| match err {
        fasteval::Error::Undefined(name) => {
            format!("its arithmetic is not understood ({name} is nothing it knows)")
        }
        _ => "its arithmetic is not understood".to_owned(),
    })?;
    if value.is_finite() && value >= 0.0 {
        Ok(value)
    } else {
        Err(format!("it comes to {value}"))
    }
}

/// The expression as a constant, a share of RAM, or a share up to a limit, if it
/// is one of these over all sizes of RAM that there are: from 16 MiB to 64 TiB.
fn shape(text: &str) -> Result<Option<Found>, String> {
    let (least, most) = (16.0, 67_108_864.0);
    let share = value(text, least)? / least;
    let limit = value(text, most)?;
    let near = |one: f64, other: f64| (one - other).abs() <= 1e-9 * one.abs().max(other.abs());
    let is = |model: &dyn Fn(f64) -> f64| -> Result<bool, String> {
        let mut ram = least;
        while ram <= most {
            // Uneven steps, so that no rounding goes unseen; and around the bend.
            for ram in [ram, limit / share * 0.999, limit / share * 1.001] {
                let within = (least..=most).contains(&ram);
                if within && !near(value(text, ram)?, model(ram)) {
                    return Ok(false);
                }
            }
            ram *= 1.0437;
        }
        Ok(true)
    };
    if is(&|_| limit)? {
        return Ok(Some(Found {
            size: Size::Bytes(mebibytes(limit)?),
            remark: None,
        }));
    }
    let at_most = if is(&|ram| share * ram)? {
        None
    } else if is(&|ram| (share * ram).min(limit))? {
        Some(mebibytes(limit)?)
    } else {
        return Ok(None);
    };
    let hundredths = (share * 10_000.0).round();
    let text = format!("{}%", hundredths / 100.0);
    let Ok(percent) = text.parse::<Percent>() else {
        return Ok(None);
    };
    let exact = near(hundredths, share * 10_000.0);
    Ok((hundredths > 0.0).then(|| Found {
        size: Size::Ram { percent, at_most },
        remark: (!exact).then(|| "rounded to hundredths of a percent".to_owned()),
    }))
}

/// So many MiB in bytes, down to whole pages.
pub(super) fn mebibytes(value: f64) -> Result<Bytes, String> {
    let bytes = value * MIB as f64;
    if !(4096.0..1e18).contains(&bytes) {
        return Err(format!("it comes to {value} MiB"));
    }
    Ok(Bytes(bytes as u64 / 4096 * 4096))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> String {
        match size(text, 8192 * MIB) {
            Ok(Some(found)) => match found.remark {
                Some(remark) => format!("{} ({remark})", found.size),
                None => found.size.to_string(),
            },
            Ok(None) => "no device".to_owned(),
            Err(why) => why,
        }
    }

    #[test]
    fn what_people_write_becomes_a_size() {
        for (text, size) in [
            ("ram / 2", "50%"),
            ("ram", "100%"),
            ("ram*1.5", "150%"),
            ("min(ram / 2, 4096)", "min(50%, 4GiB)"),
            ("min(ram, 8192)", "min(100%, 8GiB)"),
            ("min(0.5 * ram, 4 * 1024)", "min(50%, 4GiB)"),
            ("50 / 100 * ram", "50%"),
            (
                "min(50 / 100 * ram, 8589934592 / 1024 / 1024)",
                "min(50%, 8GiB)",
            ),
            ("4096", "4GiB"),
            ("2k", "2000MiB"),
            ("ram / 3", "33.33% (rounded to hundredths of a percent)"),
            (
                "min(min(ram, 4096) + max(ram - 4096, 0) / 2, 32 * 1024)",
                "6GiB (this is its value for the 8192 MiB of RAM of this machine)",
            ),
            (
                "max(ram / 4, 512)",
                "2GiB (this is its value for the 8192 MiB of RAM of this machine)",
            ),
            ("0", "no device"),
            ("ram * 0", "no device"),
            ("ram - 100000", "it comes to -91808"),
            ("ram / 0", "it comes to inf"),
            ("print(ram)", "print() is not understood"),
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
