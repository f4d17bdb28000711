//! What limits would do, from runs without any: how many major faults, and how much time.
//!
//! Where pages were seen one by one ([`Sampled`]), what each room does was computed from that. Else
//! it follows from the referenced bits of all pages ([`TouchLog`]), as told here.
//!
//! With room for `L` bytes, and pages evicted in the order in which they were last
//! touched, the pages in memory at any moment are the `L` bytes touched last. An epoch of
//! [`TouchLog`] passes through that very moment: when as much as `L` was touched since it
//! began, everything still cold is what would have been evicted, and each page of it that
//! is touched from then on is a fault. So the rate at which cold pages are touched again
//! at that moment is the rate of faults with `L`. (Mattson et al., Evaluation techniques
//! for storage hierarchies, 1970, for stack distances; Xiang et al., HOTL: a higher order
//! theory of locality, 2013, for the rate of faults as the slope of the footprint over
//! windows of time, here without their averaging over the run.)
//!
//! An epoch stands for the time that it lasted. One that ended before `L` bytes were
//! touched has the rate of the nearest one that did not; where there is none, its last
//! slope goes on towards none at the power of what is still cold that its looks had, at
//! least in proportion. Where more than `L` were touched before the
//! first look, the rate is at least that of the first looks, and the estimate says so.
//!
//! The interval is twice the standard error of the epochs' mean rate, weighted by their
//! length, around the rates with 2 % more and less room: the kernel evicts in
//! batches, sets pages aside for each processor, and keeps two lists, not one in the order
//! of touches.

use serde::{Deserialize, Serialize};

use super::sampled::Sampled;
use super::touches::{Epoch, TouchLog};
use crate::statistics::Interval;

/// By how much less room the kernel may make of a limit than it is, or more.
const LIMIT_ERROR: f64 = 0.02;
/// So many times as much as pages of the probe a program's own may cost, or as little: they compress slower or faster, more
/// of them are passed over for one that is evicted, and a program that is interrupted finds its caches full of others'
/// data. Programs that were run took up to that (docs/experiments.md).
const MADE_UP_PAGES: f64 = 2.5;
/// The same where the probe had pages of the program, and it is known how many are passed over.
const OWN_PAGES: f64 = 1.5;
/// By so much has reclaim to look at more pages for a fault in one probe than in the other, or nothing follows.
const SCANNED_APART: f64 = 1.2;
/// The kernel reads a page at a time for a fault.
const PAGE: f64 = 4096.0;
/// The largest power with which a slope goes on.
const POWER_MAX: f64 = 4.0;

/// What is predicted before anything is limited.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// What was seen in a run without a limit.
    pub log: TouchLog,
    /// What was seen page by page in another one; absent where that could not be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<Sampled>,
    /// How long a run takes without a limit: the one that was looked at, or, with `sampled`, the middle of those that nobody
    /// looked at.
    pub run_s: f64,
    /// What a fault costs with each set-up that swaps, measured in short runs.
    pub costs: Vec<FaultCost>,
    /// The curve of each.
    pub curves: Vec<Curve>,
}

/// What a fault costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FaultCost {
    /// With which set-up.
    pub set_up: String,
    /// Seconds that a run takes longer for each of its major faults, the evictions that made room among them.
    pub seconds: Interval,
    /// In so many faults.
    pub faults: u64,
    /// How many pages reclaim looked at for each of these faults.
    #[serde(default)]
    pub scanned: f64,
    /// Seconds that a run takes longer for each page more that reclaim looks at; 0: that is not known.
    #[serde(default)]
    pub scan_s: f64,
}

impl FaultCost {
    /// What so many faults take longer for which reclaim looks at so many pages.
    fn of(&self, seconds: f64, faults: f64, scanned: f64) -> f64 {
        let more = scanned - faults * self.scanned;
        (faults * seconds + more * self.scan_s).max(0.0)
    }
}

/// RAM against faults and time, with one set-up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Which.
    pub set_up: String,
    /// The least RAM with which it does its job; absent where none of the points does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_bytes: Option<u64>,
    /// From the largest limit on.
    pub points: Vec<Point>,
}

/// What is predicted of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The limit.
    pub limit_bytes: u64,
    /// Major faults of a run.
    pub faults: Interval,
    /// Its time over that of a run without a limit.
    pub slowdown: Interval,
    /// Whether it is at least that: more was touched between two looks than the limit holds.
    pub at_least: bool,
}

/// Faults of a run with a limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Faults {
    /// How many.
    pub count: Interval,
    /// How many pages reclaim looks at for each; none where that is not known.
    pub scanned: Option<f64>,
    /// Whether there are at least so many.
    pub at_least: bool,
}

impl TouchLog {
    /// The faults of a run with that much room, as long as the one that was looked at.
    pub fn faults(&self, limit_bytes: u64) -> Option<Faults> {
        let limit = limit_bytes.saturating_sub(self.kernel_bytes) as f64;
        let at = self.rate(limit)?;
        let less = self.rate(limit * (1.0 - LIMIT_ERROR))?;
        let more = self.rate(limit * (1.0 + LIMIT_ERROR))?;
        let count = |rate: f64| rate.max(0.0) * self.elapsed_s;
        Some(Faults {
            count: Interval {
                value: count(at.mean),
                low: count((more.mean - 2.0 * more.error).min(at.mean - 2.0 * at.error)),
                high: count((less.mean + 2.0 * less.error).max(at.mean + 2.0 * at.error)),
            },
            scanned: None,
            at_least: at.at_least,
        })
    }

    /// Faults a second with that much room.
    fn rate(&self, limit: f64) -> Option<MeanRate> {
        let all: Vec<EpochRate> = self
            .epochs
            .iter()
            .filter_map(|epoch| rate(epoch, limit))
            .collect();
        let rates = (0..all.len()).map(|at| EpochRate {
            rate: in_its_place(&all, at),
            ..all[at]
        });
        let whole: f64 = rates.clone().map(|it| it.lasted_s).sum();
        if whole <= 0.0 {
            return None;
        }
        let mean = rates.clone().map(|it| it.lasted_s * it.rate).sum::<f64>() / whole;
        let squares = rates
            .clone()
            .map(|it| (it.lasted_s * (it.rate - mean)).powi(2));
        let n = rates.clone().count() as f64;
        Some(MeanRate {
            mean,
            // Of one epoch alone nobody knows how far the next would be.
            error: match n > 1.0 {
                true => (squares.sum::<f64>() * n / (n - 1.0)).sqrt() / whole,
                false => mean,
            },
            at_least: rates.clone().any(|it| it.at_least),
        })
    }
}

/// Faults a second over a run.
#[derive(Debug, Clone, Copy)]
struct MeanRate {
    mean: f64,
    error: f64,
    at_least: bool,
}

/// Faults a second as one epoch has them.
#[derive(Debug, Clone, Copy)]
struct EpochRate {
    lasted_s: f64,
    rate: f64,
    reach: Reach,
    at_least: bool,
}

/// Whether an epoch went through the moment at which as much was touched as there is room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// There was room for all.
    Fits,
    /// It did.
    Passed,
    /// It ended before.
    TooShort,
}

/// The rate of an epoch; of one that ended too early that of the nearest one that did not, if there is one.
fn in_its_place(all: &[EpochRate], at: usize) -> f64 {
    let passed = |it: &EpochRate| it.reach == Reach::Passed;
    if all[at].reach != Reach::TooShort {
        return all[at].rate;
    }
    let others = all.iter().enumerate().filter(|(_, it)| passed(it));
    let nearest = others.min_by_key(|(other, _)| other.abs_diff(at));
    nearest.map_or(all[at].rate, |(_, it)| it.rate)
}

/// Two looks: how much was touched at the middle between them, how much was cold, and how fast that became less.
#[derive(Debug, Clone, Copy)]
struct Slope {
    touched: f64,
    cold: f64,
    rate: f64,
}

fn slopes(epoch: &Epoch) -> Vec<Slope> {
    let pairs = epoch.looks.windows(2).filter_map(|two| {
        let [from, to] = two else { return None };
        let time = to.after_s - from.after_s;
        let middle = |a: u64, b: u64| (a as f64 + b as f64) / 2.0;
        (time > 0.0).then(|| Slope {
            touched: middle(from.touched_bytes, to.touched_bytes),
            cold: middle(from.cold_bytes, to.cold_bytes),
            rate: to.again_bytes.saturating_sub(from.again_bytes) as f64 / time,
        })
    });
    pairs.collect()
}

fn rate(epoch: &Epoch, limit: f64) -> Option<EpochRate> {
    let of = |bytes: f64, reach: Reach, at_least: bool| {
        Some(EpochRate {
            lasted_s: epoch.lasted_s,
            rate: bytes / PAGE,
            reach,
            at_least,
        })
    };
    let slopes = slopes(epoch);
    let last = epoch.looks.last()?;
    // It fits.
    if (last.touched_bytes + last.cold_bytes) as f64 <= limit {
        return of(0.0, Reach::Fits, false);
    }
    let (first, end) = (slopes.first()?, slopes.last()?);
    if limit <= first.touched {
        let at_least = limit < epoch.looks[0].touched_bytes as f64;
        return of(first.rate, Reach::Passed, at_least);
    }
    let between = slopes.windows(2).find(|two| limit <= two[1].touched);
    if let Some(&[from, to]) = between {
        let part = (limit - from.touched) / (to.touched - from.touched).max(1.0);
        return of(
            from.rate + part * (to.rate - from.rate),
            Reach::Passed,
            false,
        );
    }
    let cold = (last.touched_bytes + last.cold_bytes) as f64 - limit;
    let part = (cold / end.cold.max(1.0)).clamp(0.0, 1.0);
    of(
        end_rate(&slopes) * part.powf(power(&slopes)),
        Reach::TooShort,
        false,
    )
}

/// The slope of the last two pairs of looks, of which one alone is a matter of luck.
fn end_rate(slopes: &[Slope]) -> f64 {
    let last = &slopes[slopes.len().saturating_sub(2)..];
    last.iter().map(|slope| slope.rate).sum::<f64>() / last.len().max(1) as f64
}

/// By which power of what is cold the slope became less over the later half of the looks.
fn power(slopes: &[Slope]) -> f64 {
    let (Some(end), Some(from)) = (slopes.last(), slopes.get(slopes.len() / 2)) else {
        return 1.0;
    };
    let power = (from.rate / end.rate).ln() / (from.cold / end.cold).ln();
    match power.is_finite() {
        true => power.clamp(1.0, POWER_MAX),
        false => 1.0,
    }
}

impl Prediction {
    /// What a limit does with a set-up; none where nothing is known of it.
    pub fn point(&self, set_up: &str, limit_bytes: u64) -> Option<Point> {
        let cost = self.costs.iter().find(|cost| cost.set_up == set_up)?;
        let faults = self.faults(limit_bytes)?;
        let scanned = faults.scanned.unwrap_or(cost.scanned);
        let slowdown = |faults: f64, seconds: f64| {
            1.0 + cost.of(seconds, faults, faults * scanned) / self.run_s
        };
        let (count, seconds) = (faults.count, cost.seconds);
        let unlike = match &self.sampled {
            Some(_) => OWN_PAGES,
            None => MADE_UP_PAGES,
        };
        Some(Point {
            limit_bytes,
            faults: count,
            slowdown: Interval {
                value: slowdown(count.value, seconds.value),
                low: slowdown(count.low, seconds.low / unlike),
                high: slowdown(count.high, seconds.high * unlike),
            },
            at_least: faults.at_least,
        })
    }

    /// The faults of a limit, from what was seen page by page where that is known.
    pub fn faults(&self, limit_bytes: u64) -> Option<Faults> {
        let Some(sampled) = &self.sampled else {
            return self.log.faults(limit_bytes);
        };
        let room = limit_bytes.saturating_sub(sampled.kernel_bytes) as f64;
        let at = sampled.faults(room)?;
        let more = sampled.faults(room * (1.0 + LIMIT_ERROR))?;
        // What is not on a disk yet cannot be dropped: memory goes out in its place, or does not.
        let less = sampled.faults(room * (1.0 - LIMIT_ERROR) - sampled.unwritten_bytes as f64)?;
        Some(Faults {
            count: Interval {
                value: at.faults,
                low: (more.faults - 2.0 * more.error).clamp(0.0, at.faults),
                high: (less.faults + 2.0 * less.error).max(at.faults),
            },
            scanned: (at.faults > 0.0).then(|| at.scanned / at.faults),
            at_least: at.at_least,
        })
    }

    /// Computes the curves anew, for limits from `peak` down to `floor`, and where each is more than `allowed` times as slow.
    pub(crate) fn draw(&mut self, peak_bytes: u64, floor_bytes: u64, allowed: f64, within: f64) {
        let down = 1.0 / (1.0 + within);
        let mut limits = vec![peak_bytes];
        while let Some(&last) = limits.last() {
            let next = (last as f64 * down) as u64 / 4096 * 4096;
            if next < floor_bytes.max(1) || limits.len() > 1000 {
                break;
            }
            limits.push(next);
        }
        let names = self.costs.iter().map(|cost| cost.set_up.clone());
        self.curves = names
            .map(|set_up| {
                let all = limits.iter();
                let points: Vec<Point> = all.filter_map(|&at| self.point(&set_up, at)).collect();
                let does = points.iter().take_while(|it| it.slowdown.value <= allowed);
                Curve {
                    least_bytes: does.last().map(|point| point.limit_bytes),
                    set_up,
                    points,
                }
            })
            .collect();
    }
}

/// A run of the probe with a limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Probed {
    pub(crate) elapsed_s: f64,
    pub(crate) faults: u64,
    /// How many pages reclaim looked at, where the kernel says so.
    pub(crate) scanned: Option<f64>,
}

impl Probed {
    /// By how much longer it ran for each of its faults, and how many pages reclaim looked at for each.
    fn each(&self, without_s: f64) -> Option<(f64, Option<f64>)> {
        let faults = self.faults as f64;
        let seconds = (self.elapsed_s - without_s) / faults;
        (self.faults > 0).then(|| (seconds.max(0.0), self.scanned.map(|it| it / faults)))
    }
}

fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// What a fault costs with a set-up, of times without a limit and of runs with one.
pub(crate) fn cost_of(set_up: &str, without_s: &[f64], with: &[Probed]) -> Option<FaultCost> {
    let without = middle(without_s.to_vec())?;
    let all: Vec<_> = with.iter().filter_map(|run| run.each(without)).collect();
    let mut each: Vec<f64> = all.iter().map(|it| it.0).collect();
    each.sort_by(f64::total_cmp);
    Some(FaultCost {
        set_up: set_up.to_owned(),
        seconds: Interval {
            value: middle(each.clone())?,
            low: *each.first()?,
            high: *each.last()?,
        },
        faults: with.iter().map(|run| run.faults).sum(),
        scanned: middle(all.iter().filter_map(|it| it.1).collect()).unwrap_or(0.0),
        scan_s: 0.0,
    })
}

/// What each page more costs that reclaim looks at: of runs with more room for the same pages, for whose faults it has to look
/// at more of them than for those that cost so much with the same set-up. None where that cannot be told.
pub(crate) fn scan_cost_of(cost: &FaultCost, without_s: &[f64], with: &[Probed]) -> Option<f64> {
    let without = middle(without_s.to_vec())?;
    let all: Vec<_> = with.iter().filter_map(|run| run.each(without)).collect();
    let seconds = middle(all.iter().map(|it| it.0).collect())?;
    let scanned = middle(all.iter().filter_map(|it| it.1).collect())?;
    let apart = cost.scanned > 0.0 && scanned > cost.scanned * SCANNED_APART;
    let most = cost.seconds.value / cost.scanned;
    let each = (seconds - cost.seconds.value) / (scanned - cost.scanned);
    apart.then_some(each.clamp(0.0, most))
}

#[cfg(test)]
mod tests {
    use super::super::touches::{length_s, Look};
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, Zipf};

    const PAGES: usize = 4000;
    /// Touches in a second of a trace.
    const PER_S: usize = 50_000;

    /// Which page is touched at each moment.
    fn trace(kind: &str, seconds: usize) -> Vec<usize> {
        let mut random = ChaCha8Rng::seed_from_u64(11);
        let zipf = Zipf::new(PAGES as f64, 0.9).expect("a valid law");
        let touches = seconds * PER_S;
        let uniform = |random: &mut ChaCha8Rng, of: usize| random.random_range(0..of);
        (0..touches)
            .map(|at| match kind {
                "zipf" => zipf.sample(&mut random) as usize - 1,
                "cycle" => at / 10 % PAGES,
                // Nine of ten touches go to a tenth of the pages.
                "hot and cold" if at % 10 > 0 => uniform(&mut random, PAGES / 10),
                // The hot part is another one in the second half.
                "phases" if at % 10 > 0 => {
                    uniform(&mut random, PAGES / 4) + (at * 2 / touches) * PAGES / 2
                }
                _ => uniform(&mut random, PAGES),
            })
            .collect()
    }

    /// Faults of touches of pages that were there before, where the one that was touched longest ago is evicted:
    /// by stack distances (Olken's tree of last touches).
    fn exact(trace: &[usize], room: usize) -> usize {
        let mut tree = vec![0i32; trace.len() + 2];
        let add = |tree: &mut Vec<i32>, mut at: usize, by: i32| {
            at += 1;
            while at < tree.len() {
                tree[at] += by;
                at += at & at.wrapping_neg();
            }
        };
        let sum = |tree: &[i32], mut at: usize| {
            let mut all = 0;
            at += 1;
            while at > 0 {
                all += tree[at];
                at -= at & at.wrapping_neg();
            }
            all
        };
        let mut last = vec![None; PAGES];
        let mut faults = 0;
        for (now, &page) in trace.iter().enumerate() {
            if let Some(before) = last[page] {
                let distance = sum(&tree, now) - sum(&tree, before);
                faults += usize::from(distance as usize >= room);
                add(&mut tree, before, -1);
            }
            add(&mut tree, now, 1);
            last[page] = Some(now);
        }
        faults
    }

    /// What is seen of a trace, by the timetable of [`super::super::touches`].
    fn seen(trace: &[usize]) -> TouchLog {
        let whole_s = trace.len() as f64 / PER_S as f64;
        let mut log = TouchLog {
            elapsed_s: whole_s,
            ..TouchLog::default()
        };
        let mut mapped = vec![false; PAGES];
        let mut at = 0;
        while at < trace.len() {
            let at_s = at as f64 / PER_S as f64;
            let length_s = length_s(log.epochs.len(), at_s);
            let mut epoch = Epoch {
                at_s,
                ..Epoch::default()
            };
            let mut touched = vec![false; PAGES];
            let (mut due_s, mut again) = (0.005, 0usize);
            let cold_at_start = mapped.clone();
            let begin = at;
            while at < trace.len() {
                let page = trace[at];
                again +=
                    usize::from(!touched[page] && cold_at_start[page] && !epoch.looks.is_empty());
                touched[page] = true;
                mapped[page] = true;
                at += 1;
                let after_s = (at - begin) as f64 / PER_S as f64;
                if after_s < due_s {
                    continue;
                }
                let count = |of: &[bool]| of.iter().filter(|&&it| it).count();
                let (there, warm) = (count(&mapped), count(&touched));
                epoch.looks.push(Look {
                    after_s,
                    touched_bytes: warm as u64 * 4096,
                    cold_bytes: (there - warm) as u64 * 4096,
                    again_bytes: again as u64 * 4096,
                });
                if after_s >= length_s || (there - warm) * 200 < there {
                    break;
                }
                due_s = (after_s * 1.45).max(after_s + 0.005);
            }
            epoch.lasted_s = (at - begin) as f64 / PER_S as f64;
            log.epochs.push(epoch);
        }
        log
    }

    #[test]
    fn known_traces_have_the_faults_that_are_predicted() {
        let mut covered = 0;
        let mut all = 0;
        for kind in ["zipf", "uniform", "hot and cold", "phases"] {
            let trace = trace(kind, 12);
            let log = seen(&trace);
            for percent in [95, 90, 80, 70, 60] {
                let room = PAGES * percent / 100;
                let truth = exact(&trace, room) as f64;
                let faults = log.faults(room as u64 * 4096).unwrap();
                let said = format!("{kind}, {percent} %: {truth} exact, {faults:?}");
                all += 1;
                covered += usize::from(faults.count.low <= truth && truth <= faults.count.high);
                let ratio = faults.count.value / truth;
                assert!((0.6..1.6).contains(&ratio), "{said}");
            }
        }
        assert!(
            covered * 10 >= all * 8,
            "{covered} of {all} intervals cover"
        );
    }

    #[test]
    fn a_cycle_through_more_than_there_is_room_faults_at_every_new_page() {
        let trace = trace("cycle", 12);
        let (log, room) = (seen(&trace), PAGES * 8 / 10);
        let truth = exact(&trace, room) as f64;
        let faults = log.faults(room as u64 * 4096).unwrap().count;
        assert!(
            (0.8..1.25).contains(&(faults.value / truth)),
            "{truth} {faults:?}"
        );
    }

    #[test]
    fn what_fits_has_no_faults_and_what_was_not_seen_is_at_least() {
        let log = seen(&trace("uniform", 4));
        let faults = |pages: usize| log.faults(pages as u64 * 4096).unwrap();
        assert_eq!(faults(PAGES).count.value, 0.0);
        assert!(!faults(PAGES * 9 / 10).at_least);
        assert!(faults(10).at_least);
        assert!(TouchLog::default().faults(4096).is_none());
    }

    /// 1000 faults, for each of which reclaim looked at so many pages.
    fn probed(elapsed_s: f64, scanned: f64) -> Probed {
        Probed {
            elapsed_s,
            faults: 1000,
            scanned: Some(scanned * 1000.0),
        }
    }

    #[test]
    fn pages_that_reclaim_passes_over_take_time_of_their_own() {
        // A fault takes 10 us, and each look at a page 2 us: with 3 and with 8 of them.
        let without = [1.0];
        let tight = cost_of("zram", &without, &[probed(1.016, 3.0)]).unwrap();
        let scan_s = scan_cost_of(&tight, &without, &[probed(1.026, 8.0)]).unwrap();
        assert!((scan_s - 2e-6).abs() < 1e-12, "{scan_s}");
        let cost = FaultCost { scan_s, ..tight };
        let took = cost.of(cost.seconds.value, 100.0, 500.0);
        assert!((took - 100.0 * 20e-6).abs() < 1e-9, "{took}");
        // Of as many looks nothing follows, nor of none that were counted.
        let tight = cost_of("zram", &without, &[probed(1.016, 3.0)]).unwrap();
        assert!(scan_cost_of(&tight, &without, &[probed(1.026, 3.1)]).is_none());
        let uncounted = Probed {
            scanned: None,
            ..probed(1.026, 0.0)
        };
        assert!(scan_cost_of(&tight, &without, &[uncounted]).is_none());
        // It costs nothing rather than less than nothing.
        let less = scan_cost_of(&tight, &without, &[probed(1.001, 8.0)]);
        assert_eq!(less, Some(0.0));
        let untold = FaultCost {
            scan_s: 0.0,
            ..cost
        };
        assert_eq!(untold.of(1e-5, 100.0, 900.0), 1e-3);
    }

    #[test]
    fn a_curve_ends_where_time_is_up_and_costs_follow_the_runs() {
        let without = [1.0, 1.1, 0.9];
        let cost = cost_of("zram", &without, &[probed(2.0, 2.0), probed(3.0, 4.0)]).unwrap();
        let Interval { low, high, .. } = cost.seconds;
        assert_eq!((low, high, cost.faults), (0.001, 0.002, 2000));
        let of_none = Probed {
            faults: 0,
            ..probed(2.0, 1.0)
        };
        assert!(cost_of("zram", &[], &[probed(1.0, 1.0)]).is_none());
        assert!(cost_of("zram", &[1.0], &[of_none]).is_none());
        let mut prediction = Prediction {
            log: seen(&trace("hot and cold", 6)),
            sampled: None,
            run_s: 6.0,
            costs: vec![FaultCost {
                set_up: "zram".to_owned(),
                seconds: Interval {
                    value: 1e-5,
                    low: 9e-6,
                    high: 1.1e-5,
                },
                faults: 2000,
                scanned: 2.0,
                scan_s: 1e-6,
            }],
            curves: Vec::new(),
        };
        let peak = PAGES as u64 * 4096;
        prediction.draw(peak, peak / 64, 1.02, 0.05);
        let curve = &prediction.curves[0];
        let least = curve.least_bytes.unwrap();
        assert!(peak / 10 < least && least < peak, "{curve:?}");
        let of = |limit: u64| prediction.point("zram", limit).unwrap().slowdown.value;
        assert!(of(least) <= 1.02 && of((least as f64 / 1.06) as u64) > 1.02);
        // A fault may cost 2.5 times as much as one of pages that were made up, or as little.
        let Point {
            faults, slowdown, ..
        } = prediction.point("zram", peak / 2).unwrap();
        let slower = |faults: f64, seconds: f64| 1.0 + faults * seconds / 6.0;
        assert!((slowdown.low - slower(faults.low, 9e-6 / 2.5)).abs() < 1e-9);
        assert!((slowdown.high - slower(faults.high, 1.1e-5 * 2.5)).abs() < 1e-9);
        assert!(prediction.point("disk", peak).is_none());
    }
}
