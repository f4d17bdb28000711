//! What a figure was during the last ten seconds.

use std::time::{Duration, Instant};

/// How far back it goes.
pub(crate) const WINDOW: Duration = Duration::from_secs(10);
/// Figures nearer to each other than this are not both kept.
const APART: Duration = Duration::from_millis(900);
/// One more than the window has room for.
const KEPT: usize = 13;

/// Figures with their times, the oldest first; it takes no memory but its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ring<T> {
    kept: [Option<(Instant, T)>; KEPT],
}

impl<T: Copy> Ring<T> {
    pub fn new() -> Ring<T> {
        Ring { kept: [None; KEPT] }
    }

    /// Keeps a figure, unless one of the same second is kept already.
    pub fn keep(&mut self, at: Instant, figure: T) {
        let count = self.kept.iter().flatten().count();
        let last = count.checked_sub(1).and_then(|last| self.kept[last]);
        if last.is_some_and(|(then, _)| at.duration_since(then) < APART) {
            return;
        }
        if count < KEPT {
            self.kept[count] = Some((at, figure));
            return;
        }
        self.kept.rotate_left(1);
        self.kept[KEPT - 1] = Some((at, figure));
    }

    /// The oldest of the window that ends now.
    pub fn oldest(&self, now: Instant) -> Option<(Duration, T)> {
        self.kept.iter().flatten().find_map(|(at, figure)| {
            let age = now.duration_since(*at);
            (age <= WINDOW + APART).then_some((age, *figure))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_back_ten_seconds_however_often_it_is_asked() {
        let begin = Instant::now();
        let mut ring = Ring::new();
        assert!(ring.oldest(begin).is_none());
        for tenth in 0..1000_u64 {
            let now = begin + Duration::from_millis(100 * tenth);
            ring.keep(now, tenth);
            let (age, figure) = ring.oldest(now).unwrap();
            assert_eq!(age, Duration::from_millis(100 * (tenth - figure)));
            assert!(age <= WINDOW + APART, "{tenth}: {age:?}");
            // As soon as it can, it has the whole window.
            assert!(tenth < 100 || age >= WINDOW - APART, "{tenth}: {age:?}");
        }
        // What is older than that is no more of the window.
        assert!(ring.oldest(begin + Duration::from_secs(200)).is_none());
    }
}
