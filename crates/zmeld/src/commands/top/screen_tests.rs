//! The screen in several sizes, on a machine made of files.

use std::fs;

use zmeld_linux::Host;
use zmeld_observe::reclaimed::ReclaimedGroup;
use zmeld_observe::Observation;

use super::*;

fn put(root: &std::path::Path, path: &str, text: &str) {
    let at = root.join(path);
    fs::create_dir_all(at.parent().unwrap()).unwrap();
    fs::write(at, text).unwrap();
}

/// A machine with zram and a disk, and what a minute of swapping looks like.
fn history(with_swap: bool) -> History {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    put(
        root,
        "proc/meminfo",
        "MemTotal: 2097152 kB\nMemAvailable: 524288 kB\nSwapTotal: 1048572 kB\nSwapFree: 524288 kB\n",
    );
    put(root, "proc/pressure/memory", "some avg10=1.00 avg60=2.50 avg300=0.10 total=100\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=10\n");
    if with_swap {
        put(
            root,
            "proc/swaps",
            "Filename\n/dev/zram0 partition 1048572 524288 100\n/dev/sda2 partition 2097148 0 -2\n",
        );
        put(root, "sys/block/zram0/disksize", "1073741824");
        put(root, "sys/block/zram0/initstate", "1");
        put(root, "sys/block/zram0/comp_algorithm", "lzo [zstd]");
        put(
            root,
            "sys/block/zram0/mm_stat",
            "536870912 134217728 142606336 268435456 1 0 0 1024 9\n",
        );
    }
    let host = Host::at(root);
    let mut history = History::new(Observation::read(&host, 4096));
    for second in 0..30u32 {
        history.rates.push_back(Rates {
            in_pages: f64::from(second * 100),
            out_pages: f64::from(3000 - second * 100),
            faults: 1.0,
            some_waited: 0.25,
            all_waited: 0.0,
        });
    }
    history
}

fn screen(columns: usize, rows: usize, history: &History, style: Style) -> Vec<String> {
    let lines = lines(history, &style, Size { columns, rows }, 1.0, false);
    assert_eq!(lines.len(), rows);
    let mut text = lines.iter().map(|line| line.trim_end().to_owned());
    assert!(text.all(|line| style.colour || zmeld_report::text::width(&line) <= columns));
    lines
        .iter()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

#[test]
fn eighty_by_twenty_four_has_everything() {
    let rows = screen(80, 24, &history(true), Style::plain(80));
    assert!(
        rows[0].starts_with("zmeld top  RAM 1.50 GiB of 2.00 GiB   swap 512 MiB of 1"),
        "{rows:#?}"
    );
    assert!(
        rows[1].starts_with("waiting for memory: some 25.0 %"),
        "{rows:#?}"
    );
    assert_eq!(
        rows[3],
        "tier                stored       RAM  ratio      size  incompr.     limit  prio"
    );
    assert!(
        rows[4].starts_with("zram0 zstd         512 MiB   136 MiB  3.76x"),
        "{rows:#?}"
    );
    assert!(rows[5].starts_with("sda2"), "{rows:#?}");
    let all = rows.join("\n");
    for wanted in [
        "swap in, pages/s: 2.9",
        "swap out, pages/s: 100 now",
        "waiting for memory: 25.0 % now",
        "major faults/s: 1",
    ] {
        assert!(all.contains(wanted), "{wanted}\n{all}");
    }
    assert!(rows[23].starts_with("q quit"));
    assert!(all.contains('█'));
}

#[test]
fn without_unicode_all_is_ascii() {
    let rows = screen(80, 24, &history(true), Style::ascii(80));
    assert!(rows.iter().all(|row| row.is_ascii()), "{rows:#?}");
    assert!(rows.join("\n").contains('#'));
}

#[test]
fn small_terminals_lose_what_matters_least() {
    let history = history(true);
    let rows = screen(40, 10, &history, Style::plain(80));
    assert!(
        rows[3].contains("stored") && rows[3].contains("RAM"),
        "{rows:#?}"
    );
    assert!(!rows[3].contains("prio"), "{rows:#?}");
    assert!(rows[4].contains("512 MiB"), "{rows:#?}");
    for (width, height) in [(1, 1), (5, 2), (20, 4), (79, 23), (300, 100), (0, 0)] {
        screen(width, height, &history, Style::plain(80));
    }
}

#[test]
fn what_the_watch_does_has_its_lines() {
    let mut history = history(true);
    let group = |backing_off: Option<&str>| ReclaimedGroup {
        group: "/system.slice/web.service".to_owned(),
        reclaimed_bytes: 300 << 20,
        came_back_bytes: 2 << 20,
        stalled_us: 360_000,
        backing_off: backing_off.map(str::to_owned),
        ..ReclaimedGroup::default()
    };
    history.now.reclaim = Some(Reclaimed {
        seconds: 3600,
        groups: vec![group(None), group(Some("came back"))],
        ..Reclaimed::default()
    });
    history.now.guard = Some(Guarded {
        headroom_bytes: 1 << 30,
        is_short: true,
        watched: vec!["/user.slice".to_owned()],
        ..Guarded::default()
    });
    let rows = screen(80, 24, &history, Style::plain(80));
    assert_eq!(
        rows[2],
        "reclaimed ahead: 600 MiB, 4.00 MiB came back, waited <0.1 %; 1 of 2 back off"
    );
    assert_eq!(
        rows[3],
        "guard: room for 1.00 GiB, memory is short; groups that may be ended 1, were 0"
    );
    assert!(rows[5].starts_with("tier"), "{rows:#?}");
}

#[test]
fn a_machine_without_swap_is_told_what_to_do() {
    let rows = screen(80, 24, &history(false), Style::plain(80));
    assert!(rows.join("\n").contains("zmeld plan"), "{rows:#?}");
}

#[test]
fn colour_only_repeats_what_is_said() {
    let mut history = history(true);
    history.now.pressure.as_mut().unwrap().some.avg60_percent = 30.0;
    let style = Style::plain(80);
    let plain = screen(80, 24, &history, style);
    let style = Style {
        colour: true,
        ..style
    };
    let coloured = screen(80, 24, &history, style);
    assert_eq!(coloured[0], style.bold(&plain[0]));
    assert_eq!(coloured[1], style.warning(&plain[1]));
    assert_eq!(plain[5..], coloured[5..]);
}
