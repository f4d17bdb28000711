//! From values to pixels, and the round numbers along the way.

use super::Axis;
use crate::units::Unit;

/// Values beyond this are drawn at the edge, so that differences stay finite.
const MAGNITUDE_MAX: f64 = 1e290;

/// An axis with its range and its place on the page.
pub struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
    from: f64,
    to: f64,
    unit: Unit,
    step: f64,
    ticks: Vec<f64>,
}

impl Scale {
    /// The axis over these values (others are ignored) with about `tick_count` ticks; not on the page yet.
    pub fn new(axis: &Axis, values: impl Iterator<Item = f64>, tick_count: usize) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| can_show(axis, *value)) {
            let value = value.clamp(-MAGNITUDE_MAX, MAGNITUDE_MAX);
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            (low, high) = if axis.is_log { (1.0, 10.0) } else { (0.0, 1.0) };
        }
        if axis.is_log {
            return Scale::logarithmic(axis, low, high, tick_count);
        }
        if axis.from_zero {
            (low, high) = (low.min(0.0), high.max(0.0));
        }
        if high - low <= (low.abs().max(high.abs())) * 1e-9 {
            // All the same: room on both sides, or up from zero.
            let room = if low == 0.0 { 1.0 } else { low.abs() * 0.1 };
            (low, high) = if low == 0.0 {
                (0.0, 1.0)
            } else {
                (low - room, high + room)
            };
        }
        let mut scale = Scale {
            low,
            high,
            is_log: false,
            from: 0.0,
            to: 1.0,
            unit: axis.unit,
            step: 1.0,
            ticks: vec![],
        };
        scale.place_ticks(tick_count, axis.from_zero);
        scale
    }

    fn logarithmic(axis: &Axis, low: f64, high: f64, tick_count: usize) -> Self {
        let low = low.max(1e-290);
        let high = high.max(low);
        let base = if axis.unit == Unit::Bytes {
            2f64
        } else {
            10f64
        };
        // The range need not end in powers of ten, unless it is too small to have two ticks.
        let room = (high / low).powf(0.05).clamp(1.1, 10.0);
        let (mut first, mut last) = ((low / room).log(base), (high * room).log(base));
        if high / low < 4.0 {
            (first, last) = (first.floor(), last.ceil());
        }
        let (low, high) = (base.powf(first), base.powf(last));
        let mut ticks = Vec::new();
        let every = |stride: f64, factors: &[f64]| -> Vec<f64> {
            let mut out = Vec::new();
            let mut power = (first / stride).floor() * stride;
            while power <= last + 1e-9 {
                out.extend(factors.iter().map(|factor| factor * base.powf(power)));
                power += stride;
            }
            out.retain(|tick| (low * 0.999_999..=high * 1.000_001).contains(tick));
            out
        };
        let tries: Vec<(f64, &[f64])> = match axis.unit {
            Unit::Bytes => vec![
                (1.0, &[1.0]),
                (2.0, &[1.0]),
                (5.0, &[1.0]),
                (10.0, &[1.0]),
                (20.0, &[1.0]),
                (100.0, &[1.0]),
                (400.0, &[1.0]),
            ],
            _ => vec![
                (1.0, &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0]),
                (1.0, &[1.0, 2.0, 5.0]),
                (1.0, &[1.0, 3.0]),
                (1.0, &[1.0]),
                (2.0, &[1.0]),
                (3.0, &[1.0]),
                (10.0, &[1.0]),
                (50.0, &[1.0]),
                (200.0, &[1.0]),
            ],
        };
        for (stride, factors) in tries {
            ticks = every(stride, factors);
            if ticks.len() <= tick_count.max(2) {
                break;
            }
        }
        Scale {
            low,
            high,
            is_log: true,
            from: 0.0,
            to: 1.0,
            unit: axis.unit,
            step: 0.0,
            ticks,
        }
    }

    fn place_ticks(&mut self, tick_count: usize, widen: bool) {
        let span = self.high - self.low;
        self.step = nice_step(span / tick_count.max(1) as f64, self.unit);
        let first = (self.low / self.step).floor();
        let last = (self.high / self.step).ceil();
        // Bars and shares end on a tick; other plots too, unless that leaves a third of the frame empty.
        if widen || (last - first) * self.step <= span * 1.5 {
            (self.low, self.high) = (first * self.step, last * self.step);
        }
        let count = ((self.high - self.low) / self.step).ceil().min(1000.0) as usize + 1;
        self.ticks = (0..=count)
            .map(|at| (first + at as f64) * self.step)
            .collect();
        let slack = self.step * 1e-6;
        let (low, high) = (self.low - slack, self.high + slack);
        self.ticks.retain(|tick| (low..=high).contains(tick));
    }

    /// Puts the axis on the page: its lower end at `from`, its upper end at `to`.
    pub fn on(mut self, from: f64, to: f64) -> Self {
        (self.from, self.to) = (from, to);
        self
    }

    /// Where a value is, or its nearest place in the frame.
    pub fn at(&self, value: f64) -> f64 {
        let part = if self.is_log {
            (value.max(1e-300).ln() - self.low.ln()) / (self.high.ln() - self.low.ln())
        } else {
            (value - self.low) / (self.high - self.low)
        };
        let part = if part.is_finite() {
            part.clamp(0.0, 1.0)
        } else {
            0.0
        };
        self.from + part * (self.to - self.from)
    }

    /// The ticks with their places and texts.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let step = |tick: f64| if self.is_log { tick / 2.0 } else { self.step };
        self.ticks
            .iter()
            .map(|tick| (self.at(*tick), self.unit.format_tick(*tick, step(*tick))))
            .collect()
    }
}

/// Whether an axis has a place for this value.
pub fn can_show(axis: &Axis, value: f64) -> bool {
    value.is_finite() && !(axis.is_log && value <= 0.0)
}

/// The next larger step that people count in.
fn nice_step(raw: f64, unit: Unit) -> f64 {
    const CLOCK: [f64; 14] = [
        1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0,
    ];
    if !(raw.is_finite() && raw > 0.0) {
        return 1.0;
    }
    if unit == Unit::Seconds && raw > 0.5 {
        if let Some(step) = CLOCK.into_iter().find(|step| *step >= raw * 0.999_999) {
            return step;
        }
        return (raw / 3600.0).ceil() * 3600.0;
    }
    if unit == Unit::Bytes && raw >= 1.0 {
        return 2f64.powf(raw.log2().ceil());
    }
    let power = 10f64.powf(raw.log10().floor());
    let nice = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .find(|nice| nice * power >= raw * 0.999_999)
        .unwrap_or(10.0);
    let whole = matches!(unit, Unit::Count) && raw <= 1.0;
    if whole {
        1.0
    } else {
        nice * power
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(axis: Axis, values: &[f64]) -> Vec<String> {
        Scale::new(&axis, values.iter().copied(), 6)
            .ticks()
            .into_iter()
            .map(|(_, text)| text)
            .collect()
    }

    #[test]
    fn ticks_are_round() {
        let ratio = Axis::new("", Unit::Ratio).from_zero();
        assert_eq!(texts(ratio, &[3.3]), ["0x", "1x", "2x", "3x", "4x"]);
        let bytes = Axis::new("", Unit::Bytes).from_zero();
        assert_eq!(
            texts(bytes, &[4e9]),
            ["0", "1 GiB", "2 GiB", "3 GiB", "4 GiB"]
        );
        let share = Axis::new("", Unit::Fraction).from_zero();
        assert_eq!(
            texts(share, &[0.97]),
            ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]
        );
        let time = Axis::new("", Unit::Seconds);
        assert_eq!(
            texts(time, &[0.0, 175.0]),
            ["0", "30 s", "1 min", "1.5 min", "2 min", "2.5 min", "3 min"]
        );
        let speed = Axis::new("", Unit::MbPerSecond).log();
        assert_eq!(texts(speed, &[3.0, 4200.0]), ["10", "100", "1k"]);
        let pages = Axis::new("", Unit::Bytes).log();
        assert_eq!(
            texts(pages, &[4096.0, 1e9]),
            ["32 KiB", "1 MiB", "32 MiB", "1 GiB"]
        );
    }

    proptest! {
        #[test]
        fn any_data_has_a_place(bits in prop::collection::vec(any::<u64>(), 0..6), log: bool, zero: bool, unit in 0usize..4) {
            let unit = [Unit::Number, Unit::Bytes, Unit::Seconds, Unit::Count][unit];
            let axis = Axis { label: String::new(), unit, is_log: log, from_zero: zero };
            let values: Vec<_> = bits.into_iter().map(f64::from_bits).collect();
            let scale = Scale::new(&axis, values.iter().copied(), 6).on(10.0, 300.0);
            prop_assert!(scale.ticks().len() <= 40, "{:?}", scale.ticks());
            for value in values {
                prop_assert!((10.0..=300.0).contains(&scale.at(value)));
            }
        }

        #[test]
        fn order_is_kept(a in -1e12f64..1e12, b in -1e12f64..1e12) {
            let scale = Scale::new(&Axis::new("", Unit::Number), [a, b].into_iter(), 6).on(0.0, 500.0);
            prop_assert_eq!(a < b, scale.at(a) < scale.at(b));
            prop_assert!((2..=12).contains(&scale.ticks().len()));
        }
    }
}
