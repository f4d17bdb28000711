//! The screen's lines: a head that stays, and below it the tiers, whose pages are in swap and all
//! that a status tells, which are scrolled through where the terminal is small.
//!
//! Colour only repeats what is said in words.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use zmeld_linux::counters;
use zmeld_linux::groups::{Hierarchy, Version};
use zmeld_linux::pressure::Pressure;
use zmeld_linux::programs::{Program, Programs};
use zmeld_linux::Host;
use zmeld_report::text::{inert, prefix, spark, width};
use zmeld_report::units::{bytes, count, percent, MISSING};
use zmeld_report::{Column, Document, Section, Style, Table};
use zmeld_swap::observe::{Activity, LimitedGroup, Observation};
use zmeld_swap::status::findings::Severity;
use zmeld_swap::status::{page, Status};

use crate::args::MachineArgs;
use crate::commands::status;

/// A rate per second: its name, and the counter.
type Rate = (&'static str, Counter);
type Counter = fn(&Activity) -> Option<u64>;

const RATES: [Rate; 3] = [
    ("pages in", Activity::pages_in),
    ("pages out", Activity::pages_out),
    ("major faults", |of| of.major_faults),
];

/// A look at the machine, and what the ones before it came to.
pub struct Look {
    status: Status,
    /// None where they cannot be told.
    groups: Option<Vec<InSwap>>,
    history: VecDeque<Arc<Moment>>,
}

/// More looks no terminal is wide.
const HISTORY_MAX: usize = 512;

/// One look's part of the history; NaN is not known.
struct Moment {
    waiting: f64,
    rates: [f64; RATES.len()],
    ram_used: f64,
    swap_used: f64,
    headroom: f64,
    /// Bytes of slots that hold a page, by the tiers that have slots.
    used: BTreeMap<String, u64>,
}

/// A control group with pages of its programs in swap, or one that is pressed, or such a program
/// below its group.
struct InSwap {
    name: String,
    bytes: u64,
    /// Bytes that can be charged to a group before it or one above is at its limit, or the machine
    /// has no more.
    room: Option<u64>,
    /// How long its tasks waited of the last 10 s.
    waited: Option<f64>,
    /// It is at its limit, and not for page cache, which the kernel takes back.
    is_full: bool,
}

impl Look {
    pub fn at(place: &MachineArgs, before: Option<&Look>) -> anyhow::Result<Look> {
        let status = status::read(place)?;
        let mut history = before.map_or(VecDeque::new(), |look| look.history.clone());
        history.truncate(HISTORY_MAX - 1);
        let before = before.map(|look| &look.status.observation);
        history.push_front(Arc::new(Moment::of(&status, before)));
        Ok(Look {
            groups: groups(&place.host(), &status.observation),
            status,
            history,
        })
    }

    /// How long ago the machine was looked at.
    pub fn age(&self) -> Duration {
        self.status.observation.at.elapsed()
    }

    /// The last values of something, from nothing to `top`, the newest at the right edge.
    fn lately(&self, room: usize, top: f64, value: impl Fn(&Moment) -> f64) -> String {
        let history = self.history.iter().take(room);
        let values: Vec<f64> = history.map(|it| value(it)).collect();
        format!("{:>room$}", spark(values.into_iter().rev(), top))
    }

    /// A row a tier with what most look for, and their history where there is room; and the rest.
    fn tiers(&self, width: usize) -> (Table, Table) {
        let (first, rest) = page::tiers(&self.status.tiers).split(TIER_FIRST);
        let mut first = first.without_empty_columns();
        let room = width.saturating_sub(first.width() + 2);
        if room >= TIER_SPARK_MIN {
            let lately = self.status.tiers.iter().map(|tier| {
                let used = |moment: &Moment| match moment.used.get(&tier.name) {
                    Some(used_bytes) => *used_bytes as f64,
                    None => f64::NAN,
                };
                self.lately(room, tier.size_bytes as f64, used).into()
            });
            first.push(Column::text("used lately"), lately);
        }
        page::explain_kinds(&mut first, &self.status.tiers);
        (first, rest.without_empty_columns())
    }

    /// Owners of pages in swap, and the RAM that they need to come back: their pool is freed then,
    /// which a group's limit does not count; a device's table stays.
    fn whose(&self, groups: &[InSwap]) -> Table {
        let used = self.status.observation.memory.swap_used_bytes();
        let pools = self
            .status
            .tiers
            .iter()
            .filter_map(|it| it.memory_used_bytes);
        let part = 1.0 - (pools.sum::<u64>() as f64 / used.max(1) as f64).min(1.0);
        owners(groups, part)
    }
}

fn owners(groups: &[InSwap], part: f64) -> Table {
    zmeld_report::table!("", for it in groups,
        Column::path("whose pages are in swap") => it.name.as_str(),
        Column::bytes("in swap") => it.bytes,
        Column::bytes("RAM to swap in") => (it.bytes as f64 * part) as u64,
        Column::bytes("room to limit") => it.room,
        Column::percent("stalls, 10 s") => it.waited,
    )
}

/// Columns of the table of tiers that most look for, and of a history that tells something.
const TIER_FIRST: usize = 8;
const TIER_SPARK_MIN: usize = 11;

impl Moment {
    fn of(status: &Status, before: Option<&Observation>) -> Moment {
        let now = &status.observation;
        let rate = |get: Counter| {
            let counts = before.and_then(|it| Some((get(&it.activity)?, get(&now.activity)?)));
            let (Some(before), Some((from, to))) = (before, counts) else {
                return f64::NAN;
            };
            let elapsed = now.at.duration_since(before.at).as_secs_f64().max(1e-3);
            // A counter that went back is another boot's; what is rare is not shown as nothing.
            (to.saturating_sub(from) as f64 / elapsed).ceil()
        };
        let (tiers, ram) = (status.tiers.iter(), &status.accounting);
        Moment {
            waiting: now.pressure.map_or(f64::NAN, |it| waited(&it)),
            rates: RATES.map(|(_, get)| rate(get)),
            ram_used: (ram.total_bytes - ram.available_bytes) as f64,
            swap_used: now.memory.swap_used_bytes() as f64,
            headroom: status.headroom.bytes as f64,
            used: tiers
                .filter_map(|tier| Some((tier.name.clone(), tier.used_bytes?)))
                .collect(),
        }
    }
}

fn waited(pressure: &Pressure) -> f64 {
    pressure.some.avg10_percent / 100.0
}

/// Adds how much a group can still take, and each above it, to `rooms`: each is looked at once,
/// however deep groups are.
fn room(
    host: &Host,
    hierarchy: &Hierarchy,
    group: &Path,
    available_bytes: u64,
    rooms: &mut HashMap<PathBuf, u64>,
) {
    let version = hierarchy.version;
    let above = group.ancestors();
    let mut unknown: Vec<&Path> = above
        .take_while(|it| it.starts_with(&hierarchy.top) && !rooms.contains_key(*it))
        .collect();
    let known = unknown.last().and_then(|it| rooms.get(it.parent()?));
    let mut room = known.copied().unwrap_or(available_bytes);
    while let Some(group) = unknown.pop() {
        // Without a limit it says "max".
        let limit = host.read_u64(group.join(version.limit_file()));
        let usage = host.read_u64(group.join(version.usage_file()));
        if let (Ok(limit), Ok(usage)) = (limit, usage) {
            room = room.min(limit.saturating_sub(usage));
        }
        rooms.insert(group.to_owned(), room);
    }
}

/// The groups with pages in swap, the one with the most first, each with its programs; at last
/// those without that are pressed.
fn groups(host: &Host, now: &Observation) -> Option<Vec<InSwap>> {
    let hierarchy = Hierarchy::find(host).ok()??;
    let place = |of: &LimitedGroup| hierarchy.top.join(of.path.trim_start_matches('/'));
    let limited: BTreeMap<PathBuf, &LimitedGroup> =
        now.groups.iter().map(|of| (place(of), of)).collect();
    let mut groups = BTreeMap::<PathBuf, Vec<Program>>::new();
    for (group, program) in Programs::read(host, &hierarchy).ok()?.all {
        groups.entry(group).or_default().push(program);
    }
    let mut full = HashSet::new();
    for (path, group) in &limited {
        if is_full(host, path, group) {
            full.insert(path.clone());
        }
        if full.contains(path) || group.pressure.is_some_and(|it| waited(&it) > 0.0) {
            groups.entry(path.clone()).or_default();
        }
    }
    let mut rooms = HashMap::new();
    for group in groups.keys() {
        room(
            host,
            &hierarchy,
            group,
            now.memory.available_bytes,
            &mut rooms,
        );
    }
    let sum = |programs: &[Program]| programs.iter().map(|it| it.swapped_bytes).sum::<u64>();
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, programs)| Reverse(sum(programs)));
    let mut rows = Vec::new();
    for (group, mut programs) in groups {
        let limited = limited.get(&group);
        let pressure = match limited.and_then(|it| it.pressure) {
            None => host
                .read(group.join("memory.pressure"))
                .ok()
                .and_then(|it| Pressure::parse(&it)),
            known => known,
        };
        rows.push(InSwap {
            name: hierarchy.shown(&group),
            bytes: sum(&programs),
            room: rooms.get(&group).copied(),
            waited: pressure.as_ref().map(waited),
            is_full: full.contains(&group),
        });
        programs.sort_by_key(|it| Reverse(it.swapped_bytes));
        rows.extend(programs.into_iter().map(|it| InSwap {
            name: format!("  {} {}", it.name, it.pid),
            bytes: it.swapped_bytes,
            room: None,
            waited: None,
            is_full: false,
        }));
    }
    Some(rows)
}

/// Whether a group is at its limit by more than page cache.
fn is_full(host: &Host, folder: &Path, group: &LimitedGroup) -> bool {
    if !group.is_at_limit(0) {
        return false;
    }
    let text = host.read(folder.join("memory.stat")).unwrap_or_default();
    // Version 1 counts what is below apart.
    let of = |name: &str| {
        let all = counters::value(&text, &format!("total_{name}"));
        all.or_else(|| counters::value(&text, name)).unwrap_or(0)
    };
    group.is_at_limit(of("active_file").saturating_add(of("inactive_file")))
}

/// How the screen is looked at.
#[derive(Clone, Copy)]
pub struct View {
    pub rows: usize,
    pub interval: f64,
    pub held: bool,
    /// Age of the look in seconds, where it is older than it should be.
    pub age_s: Option<u64>,
    /// The first line of the body that is shown.
    pub first: usize,
    /// Whether the keys and rows are explained in place of the body.
    pub is_explained: bool,
}

/// So many lines of the body are to be seen beside the head, or the head is scrolled with it.
const BODY_MIN: usize = 6;

/// Everything, in as many lines as the terminal has; and the first line of the body that is
/// shown, and how many are.
pub fn lines(look: &Look, style: &Style, view: View) -> (Vec<String>, usize, usize) {
    let mut lines = head(look, style, &view);
    let body = match view.is_explained {
        true => explanation(),
        false => body(look, style.width),
    };
    let body = body.to_text(style);
    let mut body: Vec<String> = body.lines().map(Into::into).collect();
    let room = view.rows.saturating_sub(1);
    if room < lines.len() + BODY_MIN {
        body.splice(0..0, lines.drain(..));
    }
    let shown = room - lines.len();
    let first = view.first.min(body.len().saturating_sub(shown));
    let last = (first + shown).min(body.len());
    // A sentence that goes on below the last line.
    let goes_on = |line: &String| line.starts_with("  ");
    let begin = body[..last].iter().rfind(|line| !goes_on(line));
    let is_in_list = begin.is_some_and(|begin| begin.starts_with("• "));
    if is_in_list && first < last && body.get(last).is_some_and(goes_on) {
        let room = style.width.saturating_sub(2);
        body[last - 1] = format!("{} …", prefix(&body[last - 1], room).trim_end());
    }
    let place = match body.len() > shown {
        true => format!(
            "lines {}-{last} of {}: arrows, PgUp, PgDn",
            first + 1,
            body.len()
        ),
        false => String::new(),
    };
    lines.extend(body.drain(first..last));
    lines.resize(room, String::new());
    let help = format!("q quit  h help  space hold  + - pace   {place}");
    let help = prefix(help.trim_end(), style.width).to_owned();
    lines.extend((view.rows > 0).then(|| style.dim(&help)));
    (lines, first, shown)
}

/// Keys, and what the rows of the head mean.
fn explanation() -> Document {
    let keys = [
        ("h, ?", "this help, and back, as does Esc"),
        ("q, Ctrl-C", "quit"),
        ("space", "hold the screen, and let it go"),
        ("+, -", "look more often, less often"),
        (
            "arrows, j, k, PgUp, PgDn, Home, End",
            "scroll what is below the head",
        ),
    ];
    let rows = [
        ("findings", "what is wrong; zmeld status says what to do"),
        (
            "headroom",
            "what can still be allocated before the OOM killer runs",
        ),
        (
            "compressed",
            "pages that are compressed in RAM, and the RAM that they take",
        ),
        (
            "memory stalls",
            "part of the last 10 s in which some task waited for memory",
        ),
        (
            "stalled",
            "control groups whose tasks waited, and those at their limit",
        ),
        (
            "pages in, out",
            "pages read from swap and written to it, a second",
        ),
        (
            "major faults",
            "pages a second that a program had to wait for: from swap or a file",
        ),
        ("most", "the highest of the bars beside it"),
    ];
    Document::new("")
        .section(Section::new("Keys").values(keys))
        .section(Section::new("Rows").values(rows))
        .section(Section::new("Columns").values(COLUMNS))
}

/// Columns of the tables that do not speak for themselves.
const COLUMNS: [(&str, &str); 17] = [
    ("priority", "the tier with the highest is filled first"),
    ("used", "slots of swap that hold a page"),
    (
        "RAM taken",
        "RAM of the compressed pages, without the table",
    ),
    ("ratio", "size before compression divided by RAM taken"),
    ("used lately", "used, one bar per refresh"),
    ("stored", "pages that the tier holds, before compression"),
    ("compressed", "the size of those when compressed"),
    ("same-filled", "pages kept as one word, such as zeros"),
    ("incompressible", "pages kept as they are"),
    ("melded", "compressed bytes that melding saves"),
    ("written back", "pages that went on to a disk"),
    ("limit", "the most RAM that the tier may take"),
    ("set up as", "the tier's name in the configuration"),
    ("in swap", "pages of a group, or of a program below it"),
    (
        "RAM to swap in",
        "RAM that these need to come back, less what the pool frees",
    ),
    (
        "room to limit",
        "what a group can allocate before a limit is reached",
    ),
    (
        "stalls, 10 s",
        "part of the last 10 s in which some task of it waited",
    ),
];

fn findings(status: &Status) -> Section {
    let found = status.findings.iter().map(|finding| {
        let (severity, name) = (finding.severity.name(), finding.name());
        format!("{severity}: [{name}] {}: {}", finding.about, finding.what)
    });
    // Their commands, cut off here, would be typed so.
    Section::new("Findings (zmeld status says what to do)").list(found)
}

fn body(look: &Look, width: usize) -> Document {
    let (tiers, rest) = look.tiers(width);
    let section = Section::new("");
    let document = Document::new("").section(match look.status.tiers.is_empty() {
        true => section.paragraph(
            "There is no swap, no zswap and no compressed device; zmeld plan says what would suit.",
        ),
        false => section.table(tiers),
    });
    let document = match look.groups.as_deref() {
        None => document,
        Some([]) if look.status.observation.memory.swap_used_bytes() == 0 => document,
        Some([]) => {
            document.section(Section::new("").paragraph("No process with pages in swap was found."))
        }
        Some(groups) => document.section(Section::new("").table(look.whose(groups))),
    };
    let document = match look.status.findings.is_empty() {
        true => document,
        false => document.section(findings(&look.status)),
    };
    let document = match rest.columns().count() {
        0 | 1 => document,
        _ => document.section(Section::new("More of the tiers").table(rest)),
    };
    page::details(document, &look.status)
}

/// Columns of a name in the head, and of its value; behind them is its history.
const NAME: usize = 14;
const VALUE: usize = 24;

/// On a terminal of fewer lines RAM, swap and headroom share a row, so that findings fit below; on
/// a small one all rates do, too. Elsewhere those do that were nothing lately.
const ROWS_OF_WHOLE_HEAD: usize = 30;
const ROWS_OF_RATES: usize = 20;
/// A rate of a second that fills its bar, at least: a single fault is not to look like a storm.
const RATE_OF_BARS: f64 = 100.0;

/// Problems, what compression saves, the machine's activity now and lately.
fn head(look: &Look, style: &Style, view: &View) -> Vec<String> {
    let now = &look.status.observation;
    let cut = |text: &str| match width(text) > style.width {
        true => prefix(text, style.width - 1).to_owned() + "…",
        false => text.to_owned(),
    };
    let warning_if = |is_high: bool, text: String| match is_high {
        true => style.warning(&cut(&text)),
        false => cut(&text),
    };
    let latest = &look.history[0];
    let room = style.width.saturating_sub(NAME + VALUE);
    let line = |name: &str, told: String, top: f64, value: &dyn Fn(&Moment) -> f64| {
        let column = VALUE.max(width(&told) + 1);
        let gap = " ".repeat(column - width(&told));
        let room = style.width.saturating_sub(NAME + column);
        format!("{name:NAME$}{told}{gap}{}", look.lately(room, top, value))
    };
    let state = if view.held { ", held" } else { "" };
    let age = view
        .age_s
        .map_or(String::new(), |age| format!(", as of {age} s ago"));
    let title = format!(
        "zmeld top, every {} s{state}{age} (a bar per refresh, newest right)",
        view.interval
    );
    let mut lines = vec![style.bold(&cut(&title))];
    let findings = look.status.findings.iter().map(|it| it.name());
    let is_grave = |it: &Severity| *it >= Severity::Warning;
    let mut severities = look.status.findings.iter().map(|it| &it.severity);
    lines.push(warning_if(
        severities.any(is_grave),
        named("findings", "", &findings.collect::<Vec<_>>()),
    ));
    if let Some(compressed) = page::compressed(&look.status, "", "saves") {
        lines.push(cut(&format!("{:NAME$}{compressed}", "compressed")));
    }
    let waiting = match now.pressure {
        None => "not measured by this kernel (psi=1 on its command line may help)".to_owned(),
        Some(_) => format!("{} of the last 10 s", percent(latest.waiting)),
    };
    let waiting = line("memory stalls", waiting, 1.0, &|it| it.waiting);
    lines.push(warning_if(latest.waiting >= 0.2, waiting));
    let (is_any, stalled) = stalled(look, style.width);
    lines.push(warning_if(is_any, stalled));
    let memory = &now.memory;
    let how = match now.is_switching_off() {
        true => ", being switched off",
        false => "",
    };
    let used = |value: f64, total: u64| format!("{} of {}", bytes(value as u64), bytes(total));
    let ram = used(latest.ram_used, memory.total_bytes);
    let swap = used(latest.swap_used, now.swap_size_bytes()) + how;
    let per_second = |rate: f64| match rate.is_nan() {
        true => MISSING.to_owned(),
        false => format!("{}/s", count(rate as u64)),
    };
    let headroom = bytes(look.status.headroom.bytes);
    let mut together = Vec::new();
    for (at, (name, _)) in RATES.iter().enumerate() {
        let rate = |moment: &Moment| moment.rates[at];
        let lately = look.history.iter().take(room);
        let most = lately.map(|moment| rate(moment)).fold(0.0, f64::max);
        let now = per_second(rate(latest));
        if most == 0.0 || view.rows < ROWS_OF_RATES {
            together.push(format!("{name} {now}"));
            continue;
        }
        let told = format!("{now}, most {}", count(most as u64));
        lines.push(cut(&line(name, told, most.max(RATE_OF_BARS), &rate)));
    }
    if !together.is_empty() {
        lines.push(cut(&together.join(", ")));
    }
    if view.rows < ROWS_OF_WHOLE_HEAD {
        let swap = match now.is_switching_off() {
            true => format!("{}, switching off", bytes(latest.swap_used as u64)),
            false => swap,
        };
        let used = format!("used RAM {ram}, swap {swap}; headroom {headroom}");
        lines.extend([cut(&used), String::new()]);
        return lines;
    }
    let ram_bytes = memory.total_bytes as f64;
    let swap_bytes = now.swap_size_bytes() as f64;
    lines.push(cut(&line(
        "headroom",
        headroom,
        ram_bytes + swap_bytes,
        &|it| it.headroom,
    )));
    lines.push(cut(&line("RAM used", ram, ram_bytes, &|it| it.ram_used)));
    lines.push(cut(&line("swap used", swap, swap_bytes, &|it| {
        it.swap_used
    })));
    lines.push(String::new());
    lines
}

/// A line of the head with names and their number, of what; of one that repeats, how often it does.
fn named(what: &str, of: &str, names: &[impl AsRef<str> + PartialEq]) -> String {
    match names.len() {
        0 => format!("{what:NAME$}none"),
        many => format!("{what:NAME$}{many}{of}: {}", inert(&page::counted(names))),
    }
}

/// The line of control groups whose tasks wait now, those that wait most first, and of those that
/// are full; and whether there are any.
fn stalled(look: &Look, columns: usize) -> (bool, String) {
    const WHAT: &str = "stalled";
    let Some(groups) = &look.groups else {
        return (
            false,
            format!("{WHAT:NAME$}unknown: control groups cannot be read"),
        );
    };
    let waited = |it: &InSwap| it.waited.unwrap_or(0.0);
    let groups = groups.iter();
    let mut groups: Vec<&InSwap> = groups.filter(|it| it.is_full || waited(it) > 0.0).collect();
    groups.sort_by(|one, other| waited(other).total_cmp(&waited(one)));
    let told = |name_of: fn(&str) -> &str| {
        let told = groups.iter().map(|it| match waited(it) > 0.0 {
            true => format!("{} {}", name_of(&it.name), percent(waited(it))),
            false => format!("{} at its limit", name_of(&it.name)),
        });
        match groups.len() {
            0 => format!("{WHAT:NAME$}none"),
            1 => named(WHAT, " group", &told.collect::<Vec<_>>()),
            _ => named(WHAT, " groups", &told.collect::<Vec<_>>()),
        }
    };
    // Names of users' groups are long and differ at their ends; the table has them whole.
    let line = match told(|name| name) {
        line if width(&line) <= columns => line,
        _ => told(|name| name.rsplit('/').next().unwrap_or(name)),
    };
    let now = &look.status.observation;
    let version = now.facts.groups.as_ref().map(|(version, _)| *version);
    let unmeasured = match (version, now.pressure) {
        (Some(Version::Two), Some(_)) => None,
        (Some(Version::Two), None) => Some("the kernel measures no stalls"),
        _ => Some("stalls need control groups v2"),
    };
    let line = match (unmeasured, groups.is_empty()) {
        (None, true) if look.history[0].waiting > 0.0 => line + " with a limit or pages in swap",
        (None, _) => line,
        (Some(why), true) => format!("{WHAT:NAME$}no group is at its limit ({why})"),
        (Some(why), false) => format!("{line} ({why})"),
    };
    (!groups.is_empty(), line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_explains_each_column() {
        let (tiers, owners) = (page::tiers(&[]), owners(&[], 1.0));
        let titles = tiers.columns().chain(owners.columns());
        let titles = titles.map(|(column, _)| column.title());
        let is_plain = |title: &&str| {
            ["tier", "kind", "codec", "size", "whose pages are in swap"].contains(title)
        };
        let titles: Vec<&str> = titles.filter(|title| !is_plain(title)).collect();
        let explained = COLUMNS.map(|(title, _)| title);
        let explained = explained.iter().filter(|title| **title != "used lately");
        assert_eq!(titles, explained.copied().collect::<Vec<_>>());
    }
}
