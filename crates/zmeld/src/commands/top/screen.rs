//! The screen's lines: a head, the tiers, and histories as far as there is room.
//!
//! Colour only repeats what is said in words. Where the terminal is small, rows give way from
//! the back.

use std::collections::VecDeque;

use zmeld_observe::guarded::Guarded;
use zmeld_observe::reclaimed::Reclaimed;
use zmeld_observe::Observation;
use zmeld_report::text::{inert, prefix};
use zmeld_report::units::{bytes, number, percent};
use zmeld_report::Style;
use zmeld_status::page::side_by_side;

/// As many looks as a wide terminal has columns for.
const LENGTH_MAX: usize = 240;

/// A history: its name, the counter whose change in a second it shows, and how that is written.
type Series = (&'static str, fn(&Observation) -> f64, fn(f64) -> String);

const SERIES: [Series; 4] = [
    ("swap in, pages/s", swapped_in, number),
    ("swap out, pages/s", swapped_out, number),
    ("waiting for memory", waited, percent),
    ("major faults/s", major_faults, number),
];

fn count(counters: [Option<u64>; 2]) -> f64 {
    counters.into_iter().flatten().sum::<u64>() as f64
}

fn swapped_in(seen: &Observation) -> f64 {
    count([seen.activity.swap_in_pages, seen.activity.zswap_in_pages])
}

fn swapped_out(seen: &Observation) -> f64 {
    count([seen.activity.swap_out_pages, seen.activity.zswap_out_pages])
}

fn waited(seen: &Observation) -> f64 {
    let waited_us = seen.pressure.map_or(0, |it| it.some.total_us);
    waited_us as f64 / 1e6
}

fn major_faults(seen: &Observation) -> f64 {
    count([seen.activity.major_faults, None])
}

/// The last look, and what happened in a second between looks, the latest last.
pub struct History {
    now: Observation,
    rates: VecDeque<[f64; SERIES.len()]>,
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
        let elapsed = next.at.duration_since(self.now.at).as_secs_f64().max(1e-3);
        // A counter that went back is another boot's.
        let rate = |(_, get, _): Series| (get(&next) - get(&self.now)).max(0.0) / elapsed;
        self.rates.push_back(SERIES.map(rate));
        if self.rates.len() > LENGTH_MAX {
            self.rates.pop_front();
        }
        self.now = next;
    }
}

/// Everything, in as many lines as the terminal has at most.
pub fn lines(
    history: &History,
    style: &Style,
    rows: usize,
    interval: f64,
    held: bool,
) -> Vec<String> {
    let cut = |text: &str| prefix(text.chars(), style.width);
    let mut lines = head(&history.now, style, cut);
    lines.push(String::new());
    let tiers = history.now.tiers();
    match tiers.is_empty() {
        true => lines.push(cut(
            "no swap, no zswap, no compressed device: zmeld plan says what would suit",
        )),
        false => {
            let table = side_by_side(&tiers).to_text(style);
            lines.extend(table.lines().map(str::to_owned));
        }
    }
    lines.push(String::new());
    let body = rows.saturating_sub(1);
    lines.truncate(body);
    for at in 0..SERIES.len().min((body - lines.len()) / 2) {
        lines.extend(graph(history, at, style).map(|line| cut(&line)));
    }
    lines.resize(body, String::new());
    let state = if held { ", held" } else { "" };
    let help = format!("q quit  space hold  +/- faster, slower   every {interval} s{state}");
    lines.extend((rows > 0).then(|| cut(&help)));
    lines
}

/// The machine's memory, what waits for it, and what the watch does about it.
fn head(now: &Observation, style: &Style, cut: impl Fn(&str) -> String) -> Vec<String> {
    let warning_if = |is_high: bool, text: String| match is_high {
        true => style.warning(&cut(&text)),
        false => cut(&text),
    };
    let memory = &now.memory;
    let title = format!(
        "zmeld top  RAM {} of {}   swap {} of {}",
        bytes(memory.total_bytes.saturating_sub(memory.available_bytes)),
        bytes(memory.total_bytes),
        bytes(
            memory
                .swap_total_bytes
                .saturating_sub(memory.swap_free_bytes)
        ),
        bytes(memory.swap_total_bytes)
    );
    let mut lines = vec![style.bold(&cut(&title))];
    lines.push(match now.pressure {
        None => cut("pressure: not measured by this kernel"),
        Some(pressure) => {
            let minute = pressure.some.avg60_percent;
            let text = format!(
                "waiting for memory: {} of the last minute",
                percent(minute / 100.0)
            );
            warning_if(minute >= 20.0, text)
        }
    });
    lines.extend(now.reclaim.as_ref().map(|it| cut(&reclaimed(it))));
    let of_guard = |it: &Guarded| warning_if(it.is_short || it.ended_total > 0, guarded(it));
    lines.extend(now.guard.as_ref().map(of_guard));
    lines
}

/// What was reclaimed ahead of time, and what it cost, in a line.
fn reclaimed(reclaim: &Reclaimed) -> String {
    let stalled: u64 = reclaim.groups.iter().map(|group| group.stalled_us).sum();
    let mut text = format!(
        "reclaimed ahead: {}, {} came back, waited {}",
        bytes(reclaim.reclaimed_bytes()),
        bytes(reclaim.came_back_bytes()),
        percent(stalled as f64 / 1e6 / reclaim.seconds.max(1) as f64),
    );
    let backing_off = reclaim.groups.iter().filter(|it| it.backing_off.is_some());
    match (&reclaim.holding, backing_off.count()) {
        (Some(why), _) => text += &format!("; held back: {}", inert(why)),
        (None, 0) => {}
        (None, some) => text += &format!("; {some} of {} back off", reclaim.groups.len()),
    }
    text
}

/// What the guard sees, in a line.
fn guarded(guard: &Guarded) -> String {
    let state = match guard.is_short {
        true => "memory is short",
        false => "memory is not short",
    };
    format!(
        "guard: room for {}, {state}; groups that may be ended {}, were {}",
        bytes(guard.headroom_bytes),
        guard.watched.len(),
        guard.ended_total
    )
}

/// A history in two lines: what is now and was at the most, and a bar for each look.
fn graph(history: &History, at: usize, style: &Style) -> [String; 2] {
    let bars = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let (name, _, show) = SERIES[at];
    let values: Vec<f64> = history.rates.iter().map(|rates| rates[at]).collect();
    let most = values.iter().copied().fold(0.0, f64::max);
    let latest = values.last().copied().unwrap_or(0.0);
    let height = |value: &f64| (value / most.max(f64::MIN_POSITIVE) * 8.0).round() as usize;
    let seen = &values[values.len().saturating_sub(style.width)..];
    [
        format!("{name}: {} now, {} at the most", show(latest), show(most)),
        seen.iter()
            .map(|value| bars[height(value).min(8)])
            .collect(),
    ]
}

#[cfg(test)]
mod tests {
    use std::fs;

    use zmeld_linux::Host;
    use zmeld_report::text::widest;

    use super::*;

    /// A machine with zram and a disk, and what half a minute of swapping looks like.
    fn history(with_swap: bool) -> History {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let at = dir.path().join(path);
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            fs::write(at, text).unwrap();
        };
        put("proc/meminfo", "MemTotal: 2097152 kB\nMemAvailable: 524288 kB\nSwapTotal: 1048572 kB\nSwapFree: 524288 kB\n");
        put("proc/pressure/memory", "some avg10=1.00 avg60=32.50 avg300=0.10 total=100\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=10\n");
        if with_swap {
            put("proc/swaps", "Filename\n/dev/zram0 partition 1048572 524288 100\n/dev/sda2 partition 2097148 0 -2\n");
            put("sys/block/zram0/disksize", "1073741824");
            put("sys/block/zram0/initstate", "1");
            put("sys/block/zram0/comp_algorithm", "lzo [zstd]");
            put(
                "sys/block/zram0/mm_stat",
                "536870912 134217728 142606336 268435456 1 0 0 1024 9\n",
            );
        }
        let mut history = History::new(Observation::read(&Host::at(dir.path()), 4096));
        let rates = (0..30).map(|second| [f64::from(second * 100), 50.0, 0.25, 1.0]);
        history.rates.extend(rates);
        history
    }

    #[test]
    fn a_screen_has_everything_in_as_many_lines_as_there_are() {
        let history = history(true);
        let style = Style::plain(80);
        let rows = lines(&history, &style, 40, 1.0, false);
        assert_eq!(rows.len(), 40);
        let all = rows.join("\n");
        for wanted in [
            "zmeld top  RAM 1.50 GiB of 2.00 GiB   swap 512 MiB of 1",
            "waiting for memory: 32.5 %",
            "zram0",
            "3.76x",
            "sda2",
            "swap in, pages/s: 2900 now, 2900 at the most\n",
            "▇██",
            "waiting for memory: 25.0 % now",
            "q quit",
        ] {
            assert!(all.contains(wanted), "{wanted}\n{all}");
        }
        // Colour only repeats what is said.
        let colour = Style {
            colour: true,
            ..style
        };
        let coloured = lines(&history, &colour, 40, 1.0, false);
        assert_eq!(coloured[1], colour.warning(&rows[1]));
        for (columns, count) in [(20, 4), (79, 23), (300, 100), (20, 0)] {
            let style = Style::plain(columns);
            let rows = lines(&history, &style, count, 1.0, true);
            assert_eq!(rows.len(), count);
            assert!(widest(&rows) <= columns);
        }
    }

    #[test]
    fn a_machine_without_swap_is_told_what_to_do() {
        let rows = lines(&history(false), &Style::plain(80), 24, 1.0, false);
        assert!(rows.join("\n").contains("zmeld plan"), "{rows:#?}");
    }
}
