//! The screen's lines: a head, the tiers, and whose pages are in swap, as far as there is room.
//!
//! Colour only repeats what is said in words. Where the terminal is small, rows give way from
//! the back.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use zmeld_linux::groups::Hierarchy;
use zmeld_linux::programs::{Program, Programs};
use zmeld_linux::Host;
use zmeld_report::text::{inert, prefix};
use zmeld_report::units::{bytes, number, percent};
use zmeld_report::{Column, Style, Table};
use zmeld_swap::observe::guarded::Guarded;
use zmeld_swap::observe::reclaimed::Reclaimed;
use zmeld_swap::observe::Observation;
use zmeld_swap::status::page::side_by_side;

use crate::commands::status::page_size;

/// What is counted, as a change in a second: its name, and the counter.
type Rate = (&'static str, fn(&Observation) -> [Option<u64>; 2]);

const RATES: [Rate; 3] = [
    ("pages in", |seen| {
        [seen.activity.swap_in_pages, seen.activity.zswap_in_pages]
    }),
    ("out", |seen| {
        [seen.activity.swap_out_pages, seen.activity.zswap_out_pages]
    }),
    ("major faults", |seen| [seen.activity.major_faults, None]),
];

/// A look at the machine, and what happened in a second since the one before.
pub struct Look {
    now: Observation,
    rates: Option<[f64; RATES.len()]>,
    swapped: Vec<InSwap>,
}

/// A control group with pages of its programs in swap, or such a program below its group.
struct InSwap {
    name: String,
    bytes: u64,
    /// What can be charged to a group before it or one above is at its limit, or the machine
    /// has no more.
    room: Option<u64>,
}

impl Look {
    pub fn at(host: &Host, before: Option<&Look>) -> Look {
        let now = Observation::read(host, page_size());
        let rates = before.map(|before| {
            let before = &before.now;
            let elapsed = now.at.duration_since(before.at).as_secs_f64().max(1e-3);
            let count = |seen: &_, (_, get): Rate| get(seen).into_iter().flatten().sum::<u64>();
            // A counter that went back is another boot's.
            RATES.map(|of| count(&now, of).saturating_sub(count(before, of)) as f64 / elapsed)
        });
        Look {
            swapped: in_swap(host, &now).unwrap_or_default(),
            now,
            rates,
        }
    }

    /// Whose pages are in swap, and what it takes that they come back: what compression keeps
    /// them in is let go of, which a group's limit does not count.
    fn whose(&self) -> Table {
        let memory = &self.now.memory;
        let used = memory
            .swap_total_bytes
            .saturating_sub(memory.swap_free_bytes);
        let kept = self.now.accounting().compression_bytes;
        let part = 1.0 - (kept as f64 / used.max(1) as f64).min(1.0);
        zmeld_report::table!("", for it in &self.swapped,
            Column::path("whose pages are in swap") => it.name.as_str(),
            Column::bytes("in swap") => it.bytes,
            Column::bytes("RAM to return") => (it.bytes as f64 * part) as u64,
            Column::bytes("room") => it.room,
        )
    }
}

/// More rows no terminal has.
const ROWS_MAX: usize = 200;

/// The groups, the one with the most first, each with its programs.
fn in_swap(host: &Host, now: &Observation) -> Option<Vec<InSwap>> {
    let hierarchy = Hierarchy::find(host).ok()??;
    let mut groups = BTreeMap::<PathBuf, Vec<Program>>::new();
    for (group, program) in Programs::read(host, &hierarchy).ok()?.all {
        groups.entry(group).or_default().push(program);
    }
    let version = hierarchy.version;
    let (limit, usage) = (version.limit_file(), version.usage_file());
    let room = |group: &Path| {
        let above = group
            .ancestors()
            .take_while(|it| it.starts_with(&hierarchy.top));
        let free = above.filter_map(|it| {
            // Without a limit it says "max".
            let limit = host.read_u64(it.join(limit)).ok()?;
            Some(limit.saturating_sub(host.read_u64(it.join(usage)).ok()?))
        });
        free.fold(now.memory.available_bytes, u64::min)
    };
    let sum = |programs: &[Program]| programs.iter().map(|it| it.swapped_bytes).sum::<u64>();
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, programs)| Reverse(sum(programs)));
    let mut rows = Vec::new();
    for (group, mut programs) in groups {
        if rows.len() >= ROWS_MAX {
            break;
        }
        rows.push(InSwap {
            name: hierarchy.shown(&group),
            bytes: sum(&programs),
            room: Some(room(&group)),
        });
        programs.sort_by_key(|it| Reverse(it.swapped_bytes));
        let left = ROWS_MAX - rows.len();
        rows.extend(programs.into_iter().take(left).map(|it| InSwap {
            name: format!("  {} {}", it.name, it.pid),
            bytes: it.swapped_bytes,
            room: None,
        }));
    }
    Some(rows)
}

/// Everything, in as many lines as the terminal has at most.
pub fn lines(look: &Look, style: &Style, rows: usize, interval: f64, held: bool) -> Vec<String> {
    let cut = |text: &str| prefix(text.chars(), style.width);
    let mut lines = head(look, style, cut);
    lines.push(String::new());
    let tiers = look.now.tiers();
    match tiers.is_empty() {
        true => {
            lines.push(cut("no swap, no zswap, no compressed device"));
            lines.push(cut("zmeld plan says what would suit"));
        }
        false => {
            let table = side_by_side(&tiers).to_text(style);
            lines.extend(table.lines().map(str::to_owned));
        }
    }
    if !look.swapped.is_empty() {
        lines.push(String::new());
        let table = look.whose().to_text(style);
        lines.extend(table.lines().map(str::to_owned));
    }
    let body = rows.saturating_sub(1);
    if let Some(more) = lines.len().checked_sub(body).filter(|more| *more > 0) {
        lines.truncate(body.saturating_sub(1));
        let text = format!("and {} more lines, in a larger terminal", more + 1);
        lines.extend((body > 0).then(|| cut(&text)));
    }
    lines.resize(body, String::new());
    let state = if held { "held  " } else { "" };
    let help = format!("{state}q quit  space hold  +/- faster, slower   every {interval} s");
    lines.extend((rows > 0).then(|| cut(&help)));
    lines
}

/// The machine's memory, what waits for it, and what the watch does about it.
fn head(look: &Look, style: &Style, cut: impl Fn(&str) -> String) -> Vec<String> {
    let now = &look.now;
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
            let lately = pressure.some.avg10_percent;
            let text = format!(
                "waiting for memory: {} of the last 10 s",
                percent(lately / 100.0)
            );
            warning_if(lately >= 20.0, text)
        }
    });
    lines.extend(look.rates.map(|rates| {
        let rates = RATES.iter().zip(rates);
        let rates = rates.map(|((name, _), rate)| format!("{} {name}", number(rate)));
        let rates: Vec<_> = rates.collect();
        cut(&format!("a second: {}", rates.join(", ")))
    }));
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
        "guard: room for {}, {state}; processes ended {}",
        bytes(guard.headroom_bytes),
        guard.ended_total
    )
}

#[cfg(test)]
mod tests {
    use zmeld_linux::Host;
    use zmeld_report::text::widest;

    use super::*;

    /// A machine with zram and a disk, and a program of a limited group in them.
    fn look(with_swap: bool) -> Look {
        let (_dir, host) = Host::planted(&[]);
        let put = |path: &str, text: &str| host.plant(path, text);
        put("proc/meminfo", "MemTotal: 2097152 kB\nMemAvailable: 524288 kB\nSwapTotal: 1048572 kB\nSwapFree: 524288 kB\n");
        put("proc/pressure/memory", "some avg10=32.50 avg60=1.00 avg300=0.10 total=100\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=10\n");
        put("proc/vmstat", "pswpin 0\npswpout 0\npgmajfault 0\n");
        if with_swap {
            put(
                "proc/self/mountinfo",
                "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            );
            put("proc/7/cgroup", "0::/app\n");
            put("proc/7/comm", "java\n");
            put("proc/7/status", "Name:\tjava\nVmSwap:\t  262144 kB\n");
            put("sys/fs/cgroup/cgroup.controllers", "memory\n");
            put("sys/fs/cgroup/app/memory.swap.current", "268435456\n");
            put("sys/fs/cgroup/app/memory.current", "67108864\n");
            put("sys/fs/cgroup/app/memory.max", "134217728\n");
            put("proc/swaps", "Filename\n/dev/zram0 partition 1048572 524288 100\n/dev/sda2 partition 2097148 0 -2\n");
            put("sys/block/zram0/disksize", "1073741824");
            put("sys/block/zram0/initstate", "1");
            put("sys/block/zram0/comp_algorithm", "lzo [zstd]");
            put(
                "sys/block/zram0/mm_stat",
                "536870912 134217728 142606336 268435456 1 0 0 1024 9\n",
            );
        }
        let before = Look::at(&host, None);
        put("proc/vmstat", "pswpin 1\npswpout 0\npgmajfault 0\n");
        Look::at(&host, Some(&before))
    }

    #[test]
    fn a_screen_has_everything_in_as_many_lines_as_there_are() {
        let look = look(true);
        let style = Style::plain(80);
        let rows = lines(&look, &style, 40, 1.0, false);
        assert_eq!(rows.len(), 40);
        let all = rows.join("\n");
        for wanted in [
            "zmeld top  RAM 1.50 GiB of 2.00 GiB   swap 512 MiB of 1",
            "waiting for memory: 32.5 % of the last 10 s",
            "zram0",
            "3.76x",
            "sda2",
            " pages in, 0 out, 0 major faults",
            "/app                     256 MiB        186 MiB  64.0 MiB\n",
            "  java 7                 256 MiB        186 MiB         –\n",
            "q quit",
        ] {
            assert!(all.contains(wanted), "{wanted}\n{all}");
        }
        // Colour only repeats what is said.
        let colour = Style {
            colour: true,
            ..style
        };
        let coloured = lines(&look, &colour, 40, 1.0, false);
        assert_eq!(coloured[1], colour.warning(&rows[1]));
        for (columns, count) in [(20, 4), (79, 23), (300, 100), (20, 0)] {
            let style = Style::plain(columns);
            let rows = lines(&look, &style, count, 1.0, true);
            assert_eq!(rows.len(), count);
            assert!(widest(&rows) <= columns);
        }
    }

    #[test]
    fn a_machine_without_swap_is_told_what_to_do() {
        let rows = lines(&look(false), &Style::plain(80), 24, 1.0, false);
        assert!(rows.join("\n").contains("zmeld plan"), "{rows:#?}");
    }
}
