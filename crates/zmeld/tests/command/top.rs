//! `zmeld top` on a terminal of its own, whose screen an emulator keeps: it shows what `zmeld
//! status` says, all of it, and leaves the terminal as it was however it ends.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{fcntl, FcntlArg, FdFlag};
use nix::pty::openpty;
use nix::sys::signal::{kill, Signal};
use nix::sys::stat::Mode;
use nix::sys::termios::{tcgetattr, Termios};
use nix::unistd::{mkfifo, Pid};
use rustix::termios::{tcsetwinsize, Winsize};
use serde_json::Value;
use tempfile::TempDir;
use zmeld_linux::Host;
use zmeld_report::units::{bytes, percent, ratio};

use crate::run::{json, str, text, wait_until, zmeld};

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";
const SHOW_CURSOR: &str = "\x1b[?25h";

/// The command on a terminal, which it has drawn on.
struct Screen {
    child: Child,
    master: File,
    slave: OwnedFd,
    before: Termios,
    said: Vec<u8>,
    emulator: vt100::Parser,
}

impl Screen {
    /// `shell` runs the command, its `$@`, with 80 columns and 24 lines.
    fn open(shell: &str, variables: &[(&str, &str)], args: &[&str]) -> Screen {
        let pty = openpty(None, None).unwrap();
        // The child would hold the terminal itself.
        fcntl(&pty.master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
        let before = tcgetattr(&pty.slave).unwrap();
        let side = || Stdio::from(pty.slave.try_clone().unwrap());
        tcsetwinsize(&pty.slave, size(80, 24)).unwrap();
        // So that closing the terminal is told by a signal, as it is to people.
        let child = Command::new("setsid")
            .args(["--ctty", "sh", "-c", shell, "sh"])
            .args([env!("CARGO_BIN_EXE_zmeld"), "top", "--interval", "0.2"])
            .args(args)
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8")
            .env_remove("NO_COLOR")
            .envs(variables.iter().copied())
            .stdin(side())
            .stdout(side())
            .stderr(side())
            .spawn()
            .unwrap();
        let mut screen = Screen {
            child,
            master: File::from(pty.master),
            slave: pty.slave,
            before,
            said: Vec::new(),
            emulator: vt100::Parser::new(24, 80, 0),
        };
        screen.until("it is drawn", |rows| rows[23].contains("quit"));
        screen
    }

    fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    fn signal(&mut self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    fn resize(&mut self, columns: u16, rows: u16) {
        self.emulator.screen_mut().set_size(rows, columns);
        tcsetwinsize(&self.slave, size(columns, rows)).unwrap();
    }

    /// Rows of the screen now.
    fn rows(&self) -> Vec<String> {
        let screen = self.emulator.screen();
        let rows = screen.rows(0, screen.size().1);
        rows.map(|row| row.replace('\u{202f}', " ")).collect()
    }

    /// Follows what is drawn until the screen is so; it is drawn anew all the while.
    fn until(&mut self, what: &str, is_so: impl Fn(&[String]) -> bool) -> Vec<String> {
        let begin = Instant::now();
        loop {
            let rows = self.rows();
            // Half of a drawing says nothing.
            if self.said.ends_with(b"\x1b[?2026l") && is_so(&rows) {
                return rows;
            }
            assert!(
                begin.elapsed() < Duration::from_secs(120),
                "{what}: {rows:#?}"
            );
            let mut buffer = [0; 4096];
            let count = self.master.read(&mut buffer).unwrap();
            self.said.extend_from_slice(&buffer[..count]);
            self.emulator.process(&buffer[..count]);
        }
    }

    /// All lines, gone through page by page.
    fn all_rows(&mut self) -> Vec<String> {
        self.press("\x1b[H");
        let first = |rows: &[String]| {
            let shown = rows.last()?.split_once("lines ")?.1;
            let (first, rest) = shown.split_once('-')?;
            let (last, rest) = rest.split_once(" of ")?;
            let all = rest.split(':').next()?;
            Some([first, last, all].map(|it| it.parse::<usize>().unwrap()))
        };
        let mut rows = self.until("Home", |rows| first(rows).is_none_or(|it| it[0] == 1));
        let mut all = rows.clone();
        while let Some([_, last, _]) = first(&rows).filter(|it| it[1] < it[2]) {
            self.press("\x1b[6~");
            rows = self.until("PgDn", |rows| first(rows).is_some_and(|it| it[1] > last));
            all.extend(rows.clone());
        }
        all
    }
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

/// A machine with a tier of each kind, findings, and programs of three groups in swap.
fn machine() -> (TempDir, Host) {
    let (dir, host) = Host::planted(&[
        ("proc/meminfo", "MemTotal: 2097152 kB\nMemAvailable: 524288 kB\nSwapTotal: 6291452 kB\nSwapFree: 5242880 kB\nZswap: 40960 kB\nZswapped: 131072 kB\n"),
        ("proc/pressure/memory", "some avg10=32.50 avg60=1.00 avg300=0.10 total=100\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=10\n"),
        ("proc/vmstat", "pswpin 0\npswpout 0\npgmajfault 0\n"),
        ("proc/sys/kernel/osrelease", "6.12.48-amd64\n"),
        ("proc/self/mountinfo", "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
        ("proc/swaps", "Filename\n/dev/zram0 partition 1048572 524288 100\n/dev/zmeld0 partition 2097148 262144 50\n/dev/sda2 partition 3145724 262144 -2\n"),
        ("sys/block/zram0/disksize", "1073741824"),
        ("sys/block/zram0/initstate", "1"),
        ("sys/block/zram0/comp_algorithm", "lzo [zstd]"),
        ("sys/block/zram0/mm_stat", "536870912 134217728 142606336 268435456 150000000 1000 0 1024 9"),
        ("sys/block/zmeld0/disksize", "2147483648"),
        ("sys/block/zmeld0/initstate", "1"),
        ("sys/block/zmeld0/comp_algorithm", "lz4 [zword]"),
        ("sys/block/zmeld0/mm_stat", "268435456 67108864 71303168 0 80000000 2000 0 512 4"),
        ("sys/block/zmeld0/meld_stat", "bytes_melded 20971520"),
        ("sys/block/sda/sda2/partition", "2"),
        ("sys/module/zswap/parameters/enabled", "Y"),
        ("sys/module/zswap/parameters/compressor", "zstd"),
        ("sys/module/zswap/parameters/max_pool_percent", "20"),
        ("sys/fs/cgroup/cgroup.controllers", "memory\n"),
    ]);
    for (group, used, limit, waited, programs) in [
        ("app", 130u64 << 20, "136314880", 32.5, 2),
        // Full of pages that the kernel takes back.
        ("cache", 100 << 20, "104857600", 0.0, 0),
        ("system.slice/db.service", 900 << 20, "max", 3.1, 12),
        ("user.slice", 400 << 20, "max", 0.0, 9),
    ] {
        let put = |file: &str, text: &str| {
            host.plant(format!("sys/fs/cgroup/{group}/{file}"), format!("{text}\n"));
        };
        put("memory.swap.current", "268435456");
        put("memory.current", &used.to_string());
        put("memory.max", limit);
        put("memory.stat", "active_file 90000000\ninactive_file 4000000");
        put(
            "memory.pressure",
            &format!("some avg10={waited:.2} avg60=0.00 avg300=0.00 total=5"),
        );
        for number in 0..programs {
            let pid = used >> 20 | number << 12;
            let put = |file: &str, text: &str| host.plant(format!("proc/{pid}/{file}"), text);
            put("cgroup", &format!("0::/{group}\n"));
            put("comm", "java\n");
            put(
                "status",
                &format!("State:\tS\nVmSwap:\t {} kB\n", 20480 + pid),
            );
        }
    }
    (dir, host)
}

fn is_bar(letter: char) -> bool {
    "▂▃▄▅▆▇█".contains(letter)
}

/// The lines that begin with that name.
fn lines_of(rows: &[String], name: &str) -> String {
    let named = |row: &&String| {
        row.trim_start()
            .strip_prefix(name)
            .is_some_and(|it| it.starts_with(' '))
    };
    rows.iter()
        .filter(named)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn what_is_on_the_screen_is_what_status_says() {
    let (dir, host) = machine();
    let root = ["--root", str(dir.path())];
    let said = json(&[&["status", "--json"], &root[..]].concat());
    let mut screen = Screen::open("exec \"$@\"", &[], &root);
    let tiers = said["tiers"].as_array().unwrap();
    let kinds: Vec<&Value> = tiers.iter().map(|tier| &tier["kind"]).collect();
    assert_eq!(kinds, ["zswap", "zram", "zmeld", "disk"]);
    for (columns, rows) in [(80, 24), (120, 40)] {
        screen.resize(columns, rows);
        let last = usize::from(rows) - 1;
        screen.until("resized", |rows| rows[last].starts_with("q quit"));
        let all = screen.all_rows();
        for tier in tiers {
            let name = tier["name"].as_str().unwrap();
            let shown = lines_of(&all, name);
            // Each is to be seen at once, with what it holds.
            assert!(!lines_of(&all[..last], name).is_empty(), "{name}: {all:#?}");
            for (key, value) in tier.as_object().unwrap() {
                let figure = match (value, &key[..]) {
                    (_, "metadata_bytes") => continue,
                    (Value::String(text), "kind" | "name" | "codec") => text.clone(),
                    (value, "ratio") => ratio(value.as_f64().unwrap()),
                    (value, "priority") => value.to_string(),
                    (value, key) if key.ends_with("_bytes") => bytes(value.as_u64().unwrap()),
                    (_, key) => panic!("{key} is new: {said}"),
                };
                assert!(shown.contains(&figure), "{name}, {key} {figure}: {shown}");
            }
        }
        // Names of findings come first, and what they are below.
        let findings = said["findings"].as_array().unwrap();
        let told = format!("findings      {}: ", findings.len());
        assert!(all[1].starts_with(&told), "{all:#?}");
        let first = format!("[{}]", findings[0]["id"].as_str().unwrap());
        assert!(all.iter().any(|row| row.contains(&first)), "{all:#?}");
        // What compression gives stands in the head, and no bar where the figure is not known.
        let pages = bytes(
            said["accounting"]["compressed_pages_bytes"]
                .as_u64()
                .unwrap(),
        );
        let pools = tiers
            .iter()
            .filter_map(|tier| tier["memory_used_bytes"].as_u64());
        let saves = format!("{pages} into {} and ", bytes(pools.sum()));
        let compressed = lines_of(&all[..last], "compressed");
        assert!(
            compressed.contains(&saves) && compressed.contains(", saves "),
            "{saves}: {all:#?}"
        );
        assert!(!lines_of(&all, "zswap").contains(is_bar), "{all:#?}");
        assert!(lines_of(&all, "zram0").contains(is_bar), "{all:#?}");
        let headroom = bytes(said["headroom"]["bytes"].as_u64().unwrap());
        let headroom_row = all[..last].iter().find(|row| row.contains("headroom "));
        assert!(headroom_row.unwrap().contains(&headroom), "{all:#?}");
        // A command that the terminal cuts off would be typed so: another is named.
        let remedies = "FINDINGS (ZMELD STATUS SAYS WHAT TO DO)";
        assert!(all.iter().any(|row| row == remedies), "{all:#?}");
        let commands = findings.iter().filter_map(|it| it["commands"].as_array());
        for command in commands.flatten() {
            let begin = &command.as_str().unwrap()[..20];
            assert!(!all.iter().any(|row| row.contains(begin)), "{all:#?}");
        }
        // Details in a status of that width stand there line by line.
        let status = zmeld(&[&["status"], &root[..]].concat())
            .env("COLUMNS", columns.to_string())
            .output()
            .unwrap();
        let status = text(&status.stdout).replace('\u{202f}', " ");
        let (_, details) = status.split_once("WHERE THE NUMBERS").unwrap();
        let (details, _) = details.split_once("\nFINDINGS").unwrap();
        for line in details.lines().skip(1) {
            assert!(all.iter().any(|row| row == line), "{line:?}: {all:#?}");
        }
        let pressure = &said["observation"]["pressure"]["some"]["avg10_percent"];
        let waited = percent(pressure.as_f64().unwrap() / 100.0);
        let now = format!("{waited} of the last 10 s");
        assert!(lines_of(&all, "memory stalls").contains(&now), "{all:#?}");
        let stalled = lines_of(&all, "stalled");
        assert!(
            stalled.contains("2 groups: /app 32.5 %, /system.slice/db.service 3.1 %"),
            "{stalled}"
        );
        // Every program, and its group before it.
        let mut programs = 0;
        let pools = tiers
            .iter()
            .filter_map(|it| it["memory_used_bytes"].as_u64());
        let part = 1.0 - pools.sum::<u64>() as f64 / (1_048_572u64 << 10) as f64;
        for pid in host.processes().unwrap() {
            let row = lines_of(&all, &format!("java {pid}"));
            let swapped = (20480 + u64::from(pid)) << 10;
            let returns = bytes((swapped as f64 * part) as u64);
            let figures = format!("{}  {returns:>14}", bytes(swapped));
            assert!(row.contains(&figures), "{pid} {figures}: {all:#?}");
            programs += 1;
        }
        assert_eq!(programs, 23);
        let app = lines_of(&all, "/app");
        assert!(app.contains("32.5 %") && app.contains("0 B"), "{app}");
    }
    for (key, back) in [("h", "h"), ("?", "\x1b")] {
        screen.press(key);
        screen.until("help", |rows| rows.iter().any(|row| row == "KEYS"));
        let help = screen.all_rows();
        assert!(
            lines_of(&help, "RAM to swap in").contains("come back"),
            "{help:#?}"
        );
        screen.press("\x1b[H");
        screen.until("help", |rows| rows.iter().any(|row| row == "KEYS"));
        screen.press(back);
        screen.until("no help", |rows| rows.iter().all(|row| row != "KEYS"));
    }
    // Above and below the ends there is nothing.
    screen.press("\x1b[F");
    screen.until("End", |rows| {
        rows[39].contains("lines ") && !rows[39].contains("lines 1-")
    });
    screen.press("kj\x1b[A\x1b[B\x1b[1~\x1b[A");
    screen.until("Home", |rows| rows[39].contains("lines 1-"));
    // A key in two parts.
    screen.press("\x1b");
    std::thread::sleep(Duration::from_millis(300));
    screen.press("[B");
    screen.until("an arrow", |rows| rows[39].contains("lines 2-"));
    // A look that does not end blocks no key.
    let file = dir.path().join("proc/vmstat");
    fs::remove_file(&file).unwrap();
    mkfifo(&file, Mode::S_IRWXU).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    screen.press("j");
    screen.until("a line", |rows| rows[39].contains("lines 3-"));
    screen.press("q");
    end_of(&mut screen.child, "q");
}

#[test]
fn history_grows_with_what_the_machine_does() {
    let (dir, host) = machine();
    let mut screen = Screen::open("exec \"$@\"", &[], &["--root", str(dir.path())]);
    let line = |rows: &[String], name: &str| lines_of(rows, name);
    // Nothing happened: three times nothing is one row.
    screen.until("calm", |rows| {
        line(rows, "pages in").contains(" 0/s, pages out 0/s, major faults 0/s")
    });
    host.plant("proc/vmstat", "pswpin 1\npswpout 900000\npgmajfault 0\n");
    host.plant(
        "proc/pressure/memory",
        "some avg10=100.00 avg60=1.00 avg300=0.10 total=100\n",
    );
    let rows = screen.until("busy", |rows| {
        line(rows, "memory stalls").contains("100.0 %") && line(rows, "pages out").contains('█')
    });
    assert!(
        line(&rows, "memory stalls").trim_end().ends_with('█'),
        "{rows:#?}"
    );
    assert!(line(&rows, "memory stalls").contains('▄'), "{rows:#?}");
    // It is over, and still to be seen.
    let calm = |it: &str| it.contains(" 0/s, most ") && it.contains("█·");
    screen.until("calm again", |rows| calm(&line(rows, "pages out")));
    // While an area is switched off, the kernel's sum has its used part alone.
    let meminfo = fs::read_to_string(dir.path().join("proc/meminfo")).unwrap();
    host.plant(
        "proc/meminfo",
        meminfo
            .replace("SwapTotal: 6291452", "SwapTotal: 1048576")
            .replace("SwapFree: 5242880", "SwapFree: 0"),
    );
    screen.until("switched off", |rows| {
        line(rows, "used RAM").contains(", swap 1.00 GiB, switching off; headroom ")
    });
    screen.resize(80, 30);
    screen.until("more rows", |rows| {
        line(rows, "swap used").contains("1.00 GiB of 6.00 GiB, being switched off")
    });
    // A held screen stays, and says of when it is.
    screen.press(" ");
    screen.until("held", |rows| rows[0].contains("held"));
    screen.until("its age", |rows| rows[0].contains("held, as of "));
    fs::write(
        dir.path().join("proc/pressure/memory"),
        "some avg10=7.00 avg60=1.00 avg300=0.10 total=100\n",
    )
    .unwrap();
    screen.press("+");
    let rows = screen.until("faster", |rows| rows[0].contains("every 0.1 s, held"));
    assert!(
        line(&rows, "memory stalls").contains("100.0 %"),
        "{rows:#?}"
    );
    screen.press(" ");
    screen.until("let go", |rows| {
        line(rows, "memory stalls").contains("7.0 %")
    });
}

#[test]
fn every_size_and_every_terminal_is_drawn_on() {
    let (dir, _host) = machine();
    let root = ["--root", str(dir.path())];
    let mut screen = Screen::open("exec \"$@\"", &[], &root);
    assert!(String::from_utf8_lossy(&screen.said).contains("\x1b[33m"));
    for (columns, rows) in [(20, 4), (300, 100), (40, 12), (20, 1), (80, 24)] {
        screen.resize(columns, rows);
        let last = usize::from(rows) - 1;
        let shown = screen.until("resized", |rows| rows[last].starts_with("q quit  h help"));
        assert!(rows == 1 || shown[0].starts_with("zmeld top"), "{shown:#?}");
    }
    // A small one has a short head, with all of its figures and the tiers below.
    screen.resize(60, 15);
    let small = screen.until("resized", |rows| rows[14].starts_with("q quit  h help"));
    assert!(
        small[5].starts_with("pages in ")
            && small[6].contains("used RAM 1.50 GiB of 2.00 GiB, swap 1.00"),
        "{small:#?}"
    );
    assert!(small[8].starts_with("tier"), "{small:#?}");
    // Without colour, nothing is bold either; without UTF-8, all is ASCII.
    let plain = [("NO_COLOR", "1"), ("LC_ALL", "POSIX")];
    let mut screen = Screen::open("exec \"$@\"", &plain, &root);
    let all = screen.all_rows();
    assert!(all.iter().all(|row| row.is_ascii()), "{all:#?}");
    assert!(lines_of(&all, "memory stalls").ends_with('-'), "{all:#?}");
    let said = String::from_utf8_lossy(&screen.said);
    let mut sequences = said.split("\x1b[").skip(1);
    let is_look = |it: &str| {
        it.trim_start_matches(|c: char| !c.is_alphabetic())
            .starts_with('m')
    };
    assert!(!sequences.any(is_look), "{said:?}");
}

#[test]
fn a_machine_without_swap_is_told_what_to_do() {
    let (dir, _host) = Host::planted(&[("proc/meminfo", "MemTotal: 2097152 kB\n")]);
    let mut screen = Screen::open("exec \"$@\"", &[], &["--root", str(dir.path())]);
    screen.until("advice", |rows| {
        let all = rows.join("\n");
        let is_told = all.contains("memory stalls not measured by this kernel (psi=1 ");
        all.contains("zmeld plan") && all.contains("stalled       unknown") && is_told
    });
    // Of version 1 it is known which groups are at their limits, and no more.
    let host = Host::at(dir.path());
    host.plant(
        "proc/self/mountinfo",
        "1 0 0:1 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
    );
    host.plant("sys/fs/cgroup/memory/memory.limit_in_bytes", "0\n");
    let told = "stalled       no group is at its limit (stalls need control groups v2)";
    screen.until("version 1", |rows| rows.iter().any(|row| row == told));
}

fn end_of(child: &mut Child, what: &str) -> ExitStatus {
    wait_until(what, || child.try_wait().unwrap().is_some());
    child.wait().unwrap()
}

#[test]
fn the_terminal_is_restored_however_it_ends() {
    type Act = fn(&mut Screen);
    let ways: [(&str, Act); 6] = [
        ("q", |screen| screen.press("q")),
        ("the key Ctrl-C", |screen| screen.press("\x03")),
        ("keys before", |screen| screen.press("+- \x1bq")),
        ("SIGINT", |screen| screen.signal(Signal::SIGINT)),
        ("SIGTERM", |screen| screen.signal(Signal::SIGTERM)),
        ("SIGHUP", |screen| screen.signal(Signal::SIGHUP)),
    ];
    for (name, act) in ways {
        let mut screen = Screen::open("exec \"$@\"", &[], &[]);
        let raw = tcgetattr(&screen.slave).unwrap();
        assert_ne!(raw, screen.before, "{name}: keys come one by one");
        act(&mut screen);
        let status = end_of(&mut screen.child, name);
        assert!(status.success(), "{name}: {status}");
        assert_eq!(tcgetattr(&screen.slave).unwrap(), screen.before);
        drop(screen.slave);
        // Ends with an error, since nobody holds the other side any more.
        let _ = screen.master.read_to_end(&mut screen.said);
        let said = String::from_utf8_lossy(&screen.said);
        let enter = said.find(ENTER).expect("it takes the screen");
        for back in [LEAVE, SHOW_CURSOR] {
            assert!(said.rfind(back).is_some_and(|at| at > enter), "{name}");
        }
    }
}

#[test]
fn it_ends_when_the_terminal_goes_away() {
    // Somebody who does not hear the signal, as under nohup, ends too.
    for shell in ["exec \"$@\"", "trap '' HUP; exec \"$@\""] {
        let mut screen = Screen::open(shell, &[], &[]);
        drop(screen.master);
        end_of(&mut screen.child, shell);
    }
}
