//! The screen's lines: a head, the tiers, and histories as far as there is room.
//!
//! Colour only repeats what is said in words. Where the terminal is small, columns
//! and then rows give way from the back.

use zmeld_observe::guarded::Guarded;
use zmeld_observe::reclaimed::Reclaimed;
use zmeld_observe::TierState;
use zmeld_report::text::{inert, prefix, shown};
use zmeld_report::units::{bytes, count_short, percent, ratio};
use zmeld_report::Style;

use super::history::{History, Rates};

/// A terminal's size, in characters.
#[derive(Clone, Copy)]
pub struct Size {
    pub columns: usize,
    pub rows: usize,
}

/// A line, and how it stands out.
struct Line {
    text: String,
    look: Option<fn(&Style, &str) -> String>,
}

impl Line {
    fn plain(text: String) -> Line {
        Line { text, look: None }
    }

    fn bold(text: String) -> Line {
        let look: fn(&Style, &str) -> String = Style::bold;
        let look = Some(look);
        Line { text, look }
    }

    fn warning_if(is_high: bool, text: String) -> Line {
        let look: fn(&Style, &str) -> String = Style::warning;
        let look = is_high.then_some(look);
        Line { text, look }
    }
}

/// Everything, in as many lines as the terminal has at most.
pub fn lines(
    history: &History,
    style: &Style,
    size: Size,
    interval: f64,
    held: bool,
) -> Vec<String> {
    let mut lines = head(history);
    lines.push(Line::plain(String::new()));
    lines.extend(tiers(&history.now.tiers(), size.columns));
    lines.push(Line::plain(String::new()));
    let body = size.rows.saturating_sub(1);
    lines.truncate(body);
    let room = Size {
        rows: body - lines.len(),
        ..size
    };
    lines.extend(histories(history, style, room));
    lines.resize_with(body, || Line::plain(String::new()));
    let state = if held { ", held" } else { "" };
    let help = format!("q quit  space hold  +/- faster, slower   every {interval} s{state}");
    lines.extend((size.rows > 0).then(|| Line::plain(help)));
    let cut = |line: Line| {
        let text = prefix(shown(&line.text, style).chars(), size.columns);
        line.look.map_or(text.clone(), |look| look(style, &text))
    };
    lines.into_iter().map(cut).collect()
}

/// The machine's memory, what waits for it, and what the watch does about it.
fn head(history: &History) -> Vec<Line> {
    let now = &history.now;
    let memory = &now.memory;
    let used = memory.total_bytes.saturating_sub(memory.available_bytes);
    let swap_used = memory
        .swap_total_bytes
        .saturating_sub(memory.swap_free_bytes);
    let mut lines = vec![Line::bold(format!(
        "zmeld top  RAM {} of {}   swap {} of {}",
        bytes(used),
        bytes(memory.total_bytes),
        bytes(swap_used),
        bytes(memory.swap_total_bytes)
    ))];
    lines.push(match (now.pressure, history.latest()) {
        (None, _) => Line::plain("pressure: not measured by this kernel".to_owned()),
        (Some(pressure), latest) => {
            let minute = percent(pressure.some.avg60_percent / 100.0);
            let text = match latest {
                Some(rates) => format!(
                    "waiting for memory: some {}, all {} now; {minute} of the last minute",
                    percent(rates.some_waited.min(1.0)),
                    percent(rates.all_waited.min(1.0)),
                ),
                None => format!("waiting for memory: some {minute} of the last minute"),
            };
            Line::warning_if(pressure.some.avg60_percent >= 20.0, text)
        }
    });
    lines.extend(now.reclaim.as_ref().map(|it| Line::plain(reclaimed(it))));
    lines.extend(
        now.guard
            .as_ref()
            .map(|it| Line::warning_if(it.is_short || it.ended_total > 0, guarded(it))),
    );
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

/// A column: heading, width, and its text.
type Column = (&'static str, usize, fn(&TierState) -> String);

const COLUMNS: [Column; 9] = [
    ("stored", 9, |tier| {
        size(tier.stored_bytes.or(tier.used_bytes))
    }),
    ("RAM", 9, |tier| size(tier.memory_used_bytes)),
    ("ratio", 6, |tier| tier.ratio.map_or(String::new(), ratio)),
    ("size", 9, |tier| size(Some(tier.size_bytes))),
    ("incompr.", 9, |tier| size(tier.incompressible_bytes)),
    ("melded", 9, |tier| size(tier.melded_bytes)),
    ("written", 9, |tier| size(tier.writeback_bytes)),
    ("limit", 9, |tier| size(tier.limit_bytes)),
    ("prio", 5, |tier| {
        tier.priority
            .map_or(String::new(), |value| value.to_string())
    }),
];

fn size(value: Option<u64>) -> String {
    value.map_or(String::new(), bytes)
}

const NAME_WIDTH: usize = 16;

fn tiers(tiers: &[TierState], columns: usize) -> Vec<Line> {
    if tiers.is_empty() {
        let text = "no swap, no zswap, no compressed device: zmeld plan says what would suit";
        return vec![Line::plain(text.to_owned())];
    }
    let mut left = columns.saturating_sub(NAME_WIDTH);
    let fitting: Vec<&Column> = COLUMNS
        .iter()
        .filter(|(_, _, get)| tiers.iter().any(|tier| !get(tier).is_empty()))
        .take_while(|(_, width, _)| {
            let fits = left > *width;
            left = left.saturating_sub(width + 1);
            fits
        })
        .collect();
    let row = |name: &str, cell: &dyn Fn(&Column) -> String| {
        let name = prefix(inert(name).chars(), NAME_WIDTH);
        let mut text = format!("{name:NAME_WIDTH$}");
        for column in &fitting {
            text += &format!(" {:>width$}", cell(column), width = column.1);
        }
        text
    };
    let head = Line::bold(row("tier", &|(title, _, _)| (*title).to_owned()));
    let rows = tiers.iter().map(|tier| {
        let name = match &tier.codec {
            Some(codec) => format!("{} {codec}", tier.name),
            None => tier.name.clone(),
        };
        let is_bad = tier.ratio.is_some_and(|value| value < 1.1);
        Line::warning_if(is_bad, row(&name, &|(_, _, get)| get(tier)))
    });
    std::iter::once(head).chain(rows).collect()
}

/// A history: its name, its value and how that is written.
type Series = (&'static str, fn(&Rates) -> f64, fn(f64) -> String);

const SERIES: [Series; 4] = [
    ("swap in, pages/s", |rates| rates.in_pages, count_short),
    ("swap out, pages/s", |rates| rates.out_pages, count_short),
    (
        "waiting for memory",
        |rates| rates.some_waited.min(1.0),
        percent,
    ),
    ("major faults/s", |rates| rates.faults, count_short),
];

/// Rows of a history's graph, under its title.
const GRAPH_ROWS: usize = 2;

fn histories(history: &History, style: &Style, room: Size) -> Vec<Line> {
    let count = room.rows / (GRAPH_ROWS + 1);
    let mut lines = Vec::new();
    for (name, get, show) in SERIES.iter().take(count) {
        let values: Vec<f64> = history.rates.iter().map(get).collect();
        let most = values.iter().copied().fold(0.0, f64::max);
        let latest = values.last().copied().unwrap_or(0.0);
        let title = format!("{name}: {} now, {} at the most", show(latest), show(most));
        lines.push(Line::plain(title));
        let seen = &values[values.len().saturating_sub(room.columns)..];
        for below in (0..GRAPH_ROWS).rev() {
            let bar = |value: &f64| {
                let height = value / most.max(f64::MIN_POSITIVE) * (GRAPH_ROWS * LEVELS) as f64;
                let level = (height.round() as usize).saturating_sub(below * LEVELS);
                bars(style)[level.min(LEVELS)]
            };
            lines.push(Line::plain(seen.iter().map(bar).collect()));
        }
    }
    lines
}

/// Heights that a character shows, beside none.
const LEVELS: usize = 8;

fn bars(style: &Style) -> [char; LEVELS + 1] {
    match style.unicode {
        true => [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
        false => [' ', '.', '-', '=', '=', '+', '+', '#', '#'],
    }
}

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;
