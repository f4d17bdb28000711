//! Drawing: a head, the tiers, and histories as far as there is room.
//!
//! Colour only repeats what is said in words. Where the terminal is small, columns
//! and then rows give way from the back; nothing is drawn over.

use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Sparkline, Table};
use ratatui::Frame;
use zmeld_report::text::inert;
use zmeld_report::units::{bytes, count_short, percent, ratio};
use zmeld_swap::observe::guarded::Guarded;
use zmeld_swap::observe::reclaimed::Reclaimed;
use zmeld_swap::observe::TierState;

use super::history::{History, Rates};

/// What the terminal can show.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Colours and bold.
    pub colour: bool,
    /// Characters beyond ASCII.
    pub unicode: bool,
}

impl Look {
    fn bold(self) -> Style {
        match self.colour {
            true => Style::new().add_modifier(Modifier::BOLD),
            false => Style::new(),
        }
    }

    fn warn(self, is_high: bool) -> Style {
        match self.colour && is_high {
            true => Style::new().fg(Color::Yellow),
            false => Style::new(),
        }
    }

    fn bars(self) -> ratatui::symbols::bar::Set<'static> {
        match self.unicode {
            true => ratatui::symbols::bar::NINE_LEVELS,
            false => ratatui::symbols::bar::Set {
                full: "#",
                seven_eighths: "#",
                three_quarters: "+",
                five_eighths: "+",
                half: "=",
                three_eighths: "=",
                one_quarter: "-",
                one_eighth: ".",
                empty: " ",
            },
        }
    }
}

/// Draws everything.
pub fn draw(frame: &mut Frame, history: &History, look: Look, interval: f64, held: bool) {
    let tiers = history.now.tiers();
    let tier_rows = (tiers.len() as u16).saturating_add(1).max(2);
    let lines = head(history, look);
    let [head, table, rest, foot] = Layout::vertical([
        Constraint::Length(lines.len() as u16 + 1),
        Constraint::Length(tier_rows + 1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(lines), head);
    draw_tiers(frame, table, &tiers, look);
    draw_histories(frame, rest, history, look);
    let state = if held { ", held" } else { "" };
    let help = format!("q quit  space hold  +/- faster, slower   every {interval} s{state}");
    frame.render_widget(Paragraph::new(help), foot);
}

/// The machine's memory, what waits for it, and what the watch does about it.
fn head(history: &History, look: Look) -> Vec<Line<'static>> {
    let now = &history.now;
    let memory = &now.memory;
    let used = memory.total_bytes.saturating_sub(memory.available_bytes);
    let swap_used = memory
        .swap_total_bytes
        .saturating_sub(memory.swap_free_bytes);
    let plain = |text: String| match look.unicode {
        true => text,
        // Narrow spaces group digits.
        false => text.replace(|c: char| !c.is_ascii(), " "),
    };
    let mut lines = vec![Line::from(vec![
        Span::styled("zmeld top", look.bold()),
        Span::raw(plain(format!(
            "  RAM {} of {}   swap {} of {}",
            bytes(used),
            bytes(memory.total_bytes),
            bytes(swap_used),
            bytes(memory.swap_total_bytes)
        ))),
    ])];
    let waiting = match (now.pressure, history.latest()) {
        (None, _) => Span::raw("pressure: not measured by this kernel"),
        (Some(pressure), latest) => {
            let text = match latest {
                Some(rates) => format!(
                    "waiting for memory: some {}, all {} now; {} of the last minute",
                    percent(rates.some_waited.min(1.0)),
                    percent(rates.all_waited.min(1.0)),
                    percent(pressure.some.avg60_percent / 100.0)
                ),
                None => format!(
                    "waiting for memory: some {} of the last minute",
                    percent(pressure.some.avg60_percent / 100.0)
                ),
            };
            Span::styled(plain(text), look.warn(pressure.some.avg60_percent >= 20.0))
        }
    };
    lines.push(Line::from(waiting));
    lines.extend(
        now.reclaim
            .as_ref()
            .map(|it| Line::from(plain(reclaimed(it)))),
    );
    lines.extend(now.guard.as_ref().map(|it| {
        let style = look.warn(it.is_short || it.ended_total > 0);
        Line::from(Span::styled(plain(guarded(it)), style))
    }));
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
type Column = (&'static str, u16, fn(&TierState) -> String);

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

const NAME_WIDTH: u16 = 16;

fn draw_tiers(frame: &mut Frame, area: Rect, tiers: &[TierState], look: Look) {
    if tiers.is_empty() {
        let text = "no swap, no zswap, no compressed device: zmeld plan says what would suit";
        frame.render_widget(Paragraph::new(text), area);
        return;
    }
    let mut left = area.width.saturating_sub(NAME_WIDTH);
    let shown: Vec<&Column> = COLUMNS
        .iter()
        .filter(|(_, _, get)| tiers.iter().any(|tier| !get(tier).is_empty()))
        .take_while(|(_, width, _)| {
            let fits = left > *width;
            left = left.saturating_sub(width + 1);
            fits
        })
        .collect();
    let right = |text: String, width: u16| {
        Cell::from(format!("{text:>width$}", width = usize::from(width)))
    };
    let head = std::iter::once(Cell::from("tier")).chain(
        shown
            .iter()
            .map(|(title, width, _)| right((*title).to_owned(), *width)),
    );
    let rows = tiers.iter().map(|tier| {
        let name = match &tier.codec {
            Some(codec) => format!("{} {codec}", tier.name),
            None => tier.name.clone(),
        };
        let is_bad = tier.ratio.is_some_and(|value| value < 1.1);
        Row::new(
            std::iter::once(Cell::from(inert(&name).into_owned()))
                .chain(shown.iter().map(|(_, width, get)| right(get(tier), *width))),
        )
        .style(look.warn(is_bad))
    });
    let widths = std::iter::once(Constraint::Length(NAME_WIDTH))
        .chain(shown.iter().map(|(_, width, _)| Constraint::Length(*width)));
    let table = Table::new(rows, widths)
        .column_spacing(1)
        .header(Row::new(head).style(look.bold()));
    frame.render_widget(table, area);
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

fn draw_histories(frame: &mut Frame, area: Rect, history: &History, look: Look) {
    let each = 3u16;
    let count = usize::from(area.height / each).min(SERIES.len());
    for (at, (name, get, show)) in SERIES.iter().take(count).enumerate() {
        let place = Rect {
            y: area.y + each * at as u16,
            height: each,
            ..area
        };
        let values: Vec<f64> = history.rates.iter().map(get).collect();
        let most = values.iter().copied().fold(0.0, f64::max);
        let latest = values.last().copied().unwrap_or(0.0);
        let title = format!("{name}: {} now, {} at the most", show(latest), show(most));
        let title = match look.unicode {
            true => title,
            false => title.replace(|c: char| !c.is_ascii(), " "),
        };
        let [head, graph] =
            Layout::vertical([Constraint::Length(1), Constraint::Length(each - 1)]).areas(place);
        frame.render_widget(Paragraph::new(title), head);
        let width = usize::from(graph.width);
        // In thousandths of the highest, since the widget takes whole numbers.
        let scaled = values
            .iter()
            .skip(values.len().saturating_sub(width))
            .map(|value| match most > 0.0 {
                true => (value / most * 1000.0).round() as u64,
                false => 0,
            });
        let sparkline = Sparkline::default()
            .data(scaled.collect::<Vec<u64>>())
            .max(1000)
            .bar_set(look.bars());
        frame.render_widget(sparkline, graph);
    }
}

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;
