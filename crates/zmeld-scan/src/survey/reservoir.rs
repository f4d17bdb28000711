//! Pages drawn by chance, each with the same probability, of a number that is not
//! known before the last has come (Vitter's algorithm R, 1985).

use crate::survey::sketch::Estimate;

/// A sample of what comes by.
pub(crate) struct Reservoir<T> {
    size: usize,
    /// How many came by.
    pub seen: u64,
    chance: fastrand::Rng,
    pub drawn: Vec<T>,
}

impl<T> Reservoir<T> {
    /// For `size` of them; `seed` decides which.
    pub fn new(size: usize, seed: u64) -> Reservoir<T> {
        Reservoir {
            size,
            seen: 0,
            chance: fastrand::Rng::with_seed(seed),
            drawn: Vec::new(),
        }
    }

    /// One comes by; `make` is asked for it if it is drawn. Returns what had to go.
    pub fn add(&mut self, make: impl FnOnce() -> T) -> Option<T> {
        self.seen += 1;
        if self.drawn.len() < self.size {
            self.drawn.push(make());
            return None;
        }
        let at = self.chance.u64(0..self.seen) as usize;
        let place = self.drawn.get_mut(at)?;
        Some(std::mem::replace(place, make()))
    }
}

/// The sum of all `population` values, of which `drawn` are a simple random sample:
/// N times their mean, with the variance N^2 s^2 / m (1 - m / N) (Cochran, Sampling
/// Techniques, 2.5 and 2.6).
pub(crate) fn sum(
    population: u64,
    most: f64,
    drawn: impl Iterator<Item = f64> + Clone,
) -> Estimate {
    let (all, m) = (population as f64, drawn.clone().count() as f64);
    if m == 0.0 {
        return Estimate::default();
    }
    let seen: f64 = drawn.clone().sum();
    let mean = seen / m;
    let deviations: f64 = drawn.map(|x| (x - mean).powi(2)).sum();
    let variance = deviations / (m - 1.0).max(1.0);
    let of_sum = all * all * variance / m * (1.0 - m / all).max(0.0);
    let certain = (seen, seen + (all - m).max(0.0) * most);
    Estimate::new(all * mean, of_sum, certain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_drawn_with_the_same_probability() {
        let mut hits = [0u32; 50];
        for seed in 0..4000 {
            let mut reservoir = Reservoir::new(5, seed * 977);
            for i in 0..hits.len() {
                reservoir.add(|| i);
            }
            assert_eq!(reservoir.seen, 50);
            for i in reservoir.drawn {
                hits[i] += 1;
            }
        }
        // 400 each; the standard deviation is 19.
        assert!(hits.iter().all(|&n| (310..490).contains(&n)), "{hits:?}");
    }

    #[test]
    fn the_interval_of_a_sum_covers_it() {
        let value = |i: u64| ((i * i) % 3001) as f64;
        let exact: f64 = (0..20_000).map(value).sum();
        let mut covered = 0;
        for seed in 0..500 {
            let mut reservoir = Reservoir::new(300, seed);
            for i in 0..20_000 {
                reservoir.add(|| value(i));
            }
            let drawn = reservoir.drawn;
            let found = sum(20_000, 3001.0, drawn.iter().copied());
            covered += u32::from(found.low <= exact && exact <= found.high);
        }
        assert!(covered >= 465, "{covered}");
        let few = [3.0, 5.0];
        assert_eq!(sum(2, 9.0, few.into_iter()), Estimate::exact(8.0));
        assert_eq!(sum(0, 9.0, [].into_iter()), Estimate::default());
    }
}
