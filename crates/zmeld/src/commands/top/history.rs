//! What was seen lately, and the rates between two looks.

use std::collections::VecDeque;

use zmeld_observe::Observation;

/// As many looks as a wide terminal has columns for.
const LENGTH_MAX: usize = 240;

/// What happened between two looks, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Pages that came back: from devices and out of zswap.
    pub in_pages: f64,
    /// Pages that were swapped out.
    pub out_pages: f64,
    /// Major faults.
    pub faults: f64,
    /// Share of the time in which some task waited for memory, 0 to 1.
    pub some_waited: f64,
    /// Share of the time in which all did.
    pub all_waited: f64,
}

/// The last look, and short histories.
pub struct History {
    /// What was seen last.
    pub now: Observation,
    /// Rates between looks, the latest last.
    pub rates: VecDeque<Rates>,
}

impl History {
    /// Begins with a first look: no rates yet.
    pub fn new(now: Observation) -> History {
        History {
            now,
            rates: VecDeque::new(),
        }
    }

    /// Takes another look.
    pub fn add(&mut self, next: Observation) {
        self.rates.push_back(rates(&self.now, &next));
        if self.rates.len() > LENGTH_MAX {
            self.rates.pop_front();
        }
        self.now = next;
    }

    /// The latest rates; none after a single look.
    pub fn latest(&self) -> Option<Rates> {
        self.rates.back().copied()
    }
}

fn rates(before: &Observation, after: &Observation) -> Rates {
    let elapsed = after.at.duration_since(before.at).as_secs_f64().max(1e-3);
    let rate = |get: fn(&Observation) -> Option<u64>| {
        let change = match (get(before), get(after)) {
            // A counter that went back is another boot's.
            (Some(before), Some(after)) => after.saturating_sub(before),
            _ => 0,
        };
        change as f64 / elapsed
    };
    Rates {
        in_pages: rate(|seen| seen.activity.swap_in_pages)
            + rate(|seen| seen.activity.zswap_in_pages),
        out_pages: rate(|seen| seen.activity.swap_out_pages)
            + rate(|seen| seen.activity.zswap_out_pages),
        faults: rate(|seen| seen.activity.major_faults),
        some_waited: rate(|seen| Some(seen.pressure?.some.total_us)) / 1e6,
        all_waited: rate(|seen| Some(seen.pressure?.full.total_us)) / 1e6,
    }
}
