//! From values to places on the page, and the round numbers along the way.

use super::Axis;
use crate::units::Unit;

/// Values beyond these are drawn at the edge or as nothing, so that differences stay finite and
/// are not lost.
const MAGNITUDES: (f64, f64) = (1e-280, 1e290);
/// Texts beside an axis, about.
const TICKS: f64 = 6.0;

/// An axis with its range and its place on the page.
pub struct Scale {
    low: f64,
    high: f64,
    place: (f64, f64),
    ticks: Vec<f64>,
    unit: Unit,
}

impl Scale {
    /// The axis over these values (others are ignored), from its lower end on the page to its upper one.
    pub fn new(axis: &Axis, values: impl Iterator<Item = f64>, place: (f64, f64)) -> Self {
        let mut scale = Scale {
            low: f64::INFINITY,
            high: f64::NEG_INFINITY,
            place,
            ticks: Vec::new(),
            unit: axis.unit,
        };
        for value in values.filter(|value| value.is_finite()) {
            let value = position(value);
            (scale.low, scale.high) = (scale.low.min(value), scale.high.max(value));
        }
        if scale.low > scale.high {
            (scale.low, scale.high) = (0.0, 1.0);
        }
        if axis.from_zero {
            (scale.low, scale.high) = (scale.low.min(0.0), scale.high.max(0.0));
        }
        if scale.high - scale.low <= scale.low.abs().max(scale.high.abs()) * 1e-9 {
            // All the same: room on both sides, or up from zero.
            match scale.low.abs() * 0.1 {
                0.0 => scale.high = 1.0,
                room => (scale.low, scale.high) = (scale.low - room, scale.high + room),
            }
        }
        scale.place_ticks();
        scale
    }

    fn place_ticks(&mut self) {
        let step = nice_step((self.high - self.low) / TICKS, self.unit);
        let (first, last) = ((self.low / step).floor(), (self.high / step).ceil());
        (self.low, self.high) = (first * step, last * step);
        let count = (last - first).min(2.0 * TICKS) as u32;
        let ticks = (0..=count).map(|at| (first + f64::from(at)) * step);
        self.ticks = ticks.collect();
    }

    /// Position of a value, or the nearest in the frame.
    pub fn at(&self, value: f64) -> f64 {
        let part = (position(value) - self.low) / (self.high - self.low);
        let part = if part.is_nan() {
            0.0
        } else {
            part.clamp(0.0, 1.0)
        };
        self.place.0 + part * (self.place.1 - self.place.0)
    }

    /// The ticks with their places and texts; one text once.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let mut told = String::new();
        let mut ticks = Vec::new();
        for tick in &self.ticks {
            let text = without_zeros(&self.unit.format(*tick));
            if text != told {
                ticks.push(((self.at(*tick) * 10.0).round() / 10.0, text.clone()));
            }
            told = text;
        }
        ticks
    }
}

/// A tick is round: `2.00 GiB` says no more than `2 GiB`.
fn without_zeros(text: &str) -> String {
    let Some((whole, rest)) = text.split_once('.') else {
        return text.to_owned();
    };
    let unit = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
    match rest[..rest.len() - unit.len()].trim_end_matches('0') {
        "" => format!("{whole}{unit}"),
        fraction => format!("{whole}.{fraction}{unit}"),
    }
}

fn position(value: f64) -> f64 {
    match value.abs() < MAGNITUDES.0 {
        true => 0.0,
        false => value.clamp(-MAGNITUDES.1, MAGNITUDES.1),
    }
}

/// The next larger step that people count in.
fn nice_step(raw: f64, unit: Unit) -> f64 {
    if unit == Unit::Bytes {
        return 2f64.powf(raw.log2().ceil());
    }
    let power = 10f64.powf(raw.log10().floor());
    let nice = [1.0, 2.0, 5.0].into_iter().map(|nice| nice * power);
    let step = nice.into_iter().find(|step| *step >= raw * 0.999_999);
    let step = step.unwrap_or(10.0 * power);
    match unit {
        Unit::Count => step.max(1.0),
        _ => step,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ticks_have_no_decimals_without_need() {
        for (unit, top, expected) in [
            (Unit::Bytes, 4.0 * 1024.0, "0 B, 1 KiB, 2 KiB, 3 KiB, 4 KiB"),
            (Unit::Ratio, 2.0, "0x, 0.5x, 1x, 1.5x, 2x"),
            (Unit::Number, 5e-12, "0, 1e-12, 2e-12, 3e-12, 4e-12, 5e-12"),
        ] {
            let axis = Axis::new("", unit).from_zero();
            let scale = Scale::new(&axis, [top].into_iter(), (0.0, 1.0));
            let told: Vec<String> = scale.ticks().into_iter().map(|(_, told)| told).collect();
            assert_eq!(told.join(", "), expected);
        }
    }

    proptest! {
        #[test]
        fn any_data_has_a_place(bits in prop::collection::vec(any::<u64>(), 0..6), zero: bool, unit in 0usize..4) {
            let unit = [Unit::Number, Unit::Bytes, Unit::Seconds, Unit::Count][unit];
            let axis = Axis { label: String::new(), unit, from_zero: zero };
            let values: Vec<_> = bits.into_iter().map(f64::from_bits).collect();
            let scale = Scale::new(&axis, values.iter().copied(), (10.0, 300.0));
            prop_assert!(scale.ticks().len() <= 13, "{:?}", scale.ticks());
            for value in values {
                prop_assert!((10.0..=300.0).contains(&scale.at(value)));
            }
        }

        #[test]
        fn order_is_kept(a in -1e12f64..1e12, b in -1e12f64..1e12) {
            let scale = Scale::new(&Axis::new("", Unit::Number), [a, b].into_iter(), (0.0, 500.0));
            prop_assert_eq!(a < b, scale.at(a) < scale.at(b));
        }
    }
}
