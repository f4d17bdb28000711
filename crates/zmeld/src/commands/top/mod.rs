//! `zmeld top`: the tiers, live.

mod screen;

use std::io::{self, stdin, stdout, IsTerminal, Write};
use std::panic;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{channel, sync_channel, Receiver, SyncSender, TryRecvError};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::termios::{tcgetattr, tcsetattr, LocalModes, OptionalActions};
use terminal_size::terminal_size;
use zmeld_report::text::ascii;
use zmeld_report::Style;

use crate::args::MachineArgs;
use crate::exit::{Outcome, EXIT_CODES};
use crate::progress;
use screen::{Look, View};

const EXAMPLES: &str = "\
Keys: q or Ctrl-C ends, h explains, + and - change how often it looks, space
holds it; the arrows (or j and k), PgUp, PgDn, Home and End scroll what is below
the head.
Where there is no terminal, zmeld status shows the same once.";

#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct TopArgs {
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = parse_interval)]
    pub interval: f64,

    #[command(flatten)]
    pub place: MachineArgs,
}

fn parse_interval(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (INTERVAL_MIN..=INTERVAL_MAX).contains(&seconds) => Ok(seconds),
        _ => Err(format!(
            "give seconds from {INTERVAL_MIN} to {INTERVAL_MAX}"
        )),
    }
}

const INTERVAL_MIN: f64 = 0.1;
const INTERVAL_MAX: f64 = 60.0;

pub fn run(args: &TopArgs) -> anyhow::Result<Outcome> {
    let variable = |name: &str| std::env::var(name).ok();
    if !stdout().is_terminal() || !stdin().is_terminal() {
        anyhow::bail!(
            "top needs a terminal; zmeld status shows the same once, --json for programs"
        );
    }
    if variable("TERM").is_some_and(|it| it == "dumb") {
        anyhow::bail!("top needs a terminal with a cursor, and TERM says dumb; see zmeld status");
    }
    let first = Look::at(&args.place, None)?;
    // Restores the terminal on SIGTERM and SIGHUP as well: the loop below ends.
    let stop = progress::silent_interrupt_flag();
    let canvas = Canvas {
        style: crate::output::style(),
        is_utf8: is_utf8(variable),
    };
    on_screen(|| show(args, &canvas, first, || stop.load(Ordering::SeqCst)))?;
    Ok(Outcome::Done)
}

/// Whether the terminal shows more than ASCII, as the locale has it.
fn is_utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"].iter();
    let mut set = names.filter_map(|name| variable(name).filter(|it| !it.is_empty()));
    let locale = set.next().unwrap_or_default().to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Gives the terminal to `view` and takes it back, however that ends.
fn on_screen(view: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let before = tcgetattr(stdin())?;
    let restore = move || {
        // A terminal that is gone needs no restoring.
        let _ = tcsetattr(stdin(), OptionalActions::Flush, &before);
        let _ = write!(stdout(), "{LEAVE}").and_then(|()| stdout().flush());
    };
    let mut raw = tcgetattr(stdin())?;
    // Keys come one by one and unseen, Ctrl-C among them.
    raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
    tcsetattr(stdin(), OptionalActions::Flush, &raw)?;
    write!(stdout(), "{ENTER}")?;
    let report = Arc::new(panic::take_hook());
    let (then, first) = (Arc::clone(&report), restore.clone());
    // The message is for the screen that stays.
    panic::set_hook(Box::new(move |info| {
        first();
        then(info);
    }));
    let ended = view();
    panic::set_hook(Box::new(move |info| report(info)));
    restore();
    ended
}

/// The alternate screen without a cursor, where no line goes on in the next, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?1049l\x1b[?25h";

struct Canvas {
    style: Style,
    is_utf8: bool,
}

impl Canvas {
    /// Draws a look; returns the first line of the body that is shown, and how many are.
    fn draw(&self, look: &Look, view: View) -> io::Result<(usize, usize)> {
        let (width, rows) = size();
        let style = Style {
            width: usize::from(width).max(Style::plain(0).width),
            ..self.style
        };
        let view = View {
            rows: rows.into(),
            ..view
        };
        let (lines, first, shown) = screen::lines(look, &style, view);
        // Each line is cleared before it is written: behind one that is as wide as the terminal its
        // last column would be. So is all that is below the last line.
        let mut text = lines.join("\r\n\x1b[K");
        if lines.len() < usize::from(rows) {
            text += "\r\n\x1b[J";
        }
        if !self.is_utf8 {
            text = ascii(&text);
        }
        let mut out = stdout().lock();
        // Shown at once where the terminal can (synchronized output).
        write!(out, "\x1b[?2026h\x1b[H\x1b[K{text}\x1b[?2026l")?;
        out.flush()?;
        Ok((first, shown))
    }
}

fn size() -> (u16, u16) {
    terminal_size().map_or((80, 24), |(width, height)| (width.0, height.0))
}

/// A thread that looks when it is asked, since a process or a device can hold a look up: keys are
/// answered meanwhile.
fn looker(place: MachineArgs) -> (SyncSender<Arc<Look>>, Receiver<anyhow::Result<Look>>) {
    let (ask, asked) = sync_channel::<Arc<Look>>(0);
    let (answer, looks) = channel();
    thread::spawn(move || {
        let mut looks = asked.iter().map(|before| Look::at(&place, Some(&before)));
        // The screen may be gone by then.
        looks.all(|look| answer.send(look).is_ok())
    });
    (ask, looks)
}

fn show(
    args: &TopArgs,
    canvas: &Canvas,
    first: Look,
    is_over: impl Fn() -> bool,
) -> anyhow::Result<()> {
    let mut look = Arc::new(first);
    let (ask, looks) = looker(args.place.clone());
    let mut typed = Vec::new();
    let mut view = View {
        rows: 0,
        interval: args.interval,
        held: false,
        age_s: None,
        first: 0,
        is_explained: false,
    };
    let mut next = Instant::now() + Duration::from_secs_f64(view.interval);
    let mut redraw = true;
    let mut drawn_at = size();
    let mut page = 0;
    loop {
        if is_over() {
            return Ok(());
        }
        // A look takes a while, on a machine that is busy a longer one.
        let age_s = look.age().as_secs();
        let age_s = Some(age_s).filter(|age_s| *age_s as f64 > view.interval + 2.0);
        if redraw || drawn_at != size() || age_s != view.age_s {
            view.age_s = age_s;
            drawn_at = size();
            (view.first, page) = canvas.draw(&look, view)?;
        }
        redraw = false;
        // A signal and what was asked for are looked for that often.
        if !read_keys(Duration::from_millis(50), &mut typed)? {
            return Ok(());
        }
        let keys = parse_keys(&mut typed);
        // It may be the beginning of an arrow, and stays one.
        if typed == [ESCAPE] && view.is_explained {
            (view.is_explained, view.first, redraw) = (false, 0, true);
        }
        for key in keys {
            redraw = true;
            match key {
                Key::End => return Ok(()),
                Key::Pace(times) => {
                    view.interval = (view.interval * times).clamp(INTERVAL_MIN, INTERVAL_MAX);
                }
                Key::Hold => view.held = !view.held,
                Key::Help => {
                    view.is_explained = !view.is_explained;
                    view.first = 0;
                }
                Key::Home => view.first = 0,
                Key::Last => view.first = usize::MAX,
                Key::Lines(by) => view.first = view.first.saturating_add_signed(by),
                Key::Pages(by) => view.first = view.first.saturating_add_signed(by * page as isize),
            }
        }
        match looks.try_recv() {
            Ok(now) if !view.held => {
                look = Arc::new(now?);
                redraw = true;
            }
            Err(TryRecvError::Disconnected) => anyhow::bail!("looking at the machine failed"),
            _ => {}
        }
        if Instant::now() >= next {
            next = Instant::now() + Duration::from_secs_f64(view.interval);
            // One that is under way is enough.
            let _ = (!view.held).then(|| ask.try_send(Arc::clone(&look)));
        }
    }
}

#[derive(Debug, PartialEq)]
enum Key {
    End,
    Pace(f64),
    Hold,
    Help,
    Lines(isize),
    Pages(isize),
    Home,
    Last,
}

/// Takes keys out of the bytes that a terminal makes of them; the beginning of one stays.
fn parse_keys(typed: &mut Vec<u8>) -> Vec<Key> {
    let mut keys = Vec::new();
    while let Some((length, key)) = next_key(typed) {
        typed.drain(..length);
        keys.extend(key);
    }
    keys
}

/// The first key, if it is one that does something, and its length; none where it is not whole.
fn next_key(typed: &[u8]) -> Option<(usize, Option<Key>)> {
    // An arrow, or another key of several bytes.
    if let [ESCAPE, b'[' | b'O', rest @ ..] = typed {
        let at = rest.iter().position(|byte| !(0x20..0x40).contains(byte))?;
        let key = match (rest[at], &rest[..at]) {
            (b'A', _) => Some(Key::Lines(-1)),
            (b'B', _) => Some(Key::Lines(1)),
            (b'~', b"5") => Some(Key::Pages(-1)),
            (b'~', b"6") => Some(Key::Pages(1)),
            (b'H', _) | (b'~', b"1" | b"7") => Some(Key::Home),
            (b'F', _) | (b'~', b"4" | b"8") => Some(Key::Last),
            _ => None,
        };
        // Another control character ends it, too, and is a key.
        return Some((at + 2 + usize::from(rest[at] >= 0x40), key));
    }
    let key = match typed {
        [] | [ESCAPE] => return None,
        [b'q' | CTRL_C, ..] => Some(Key::End),
        [b'+', ..] => Some(Key::Pace(0.5)),
        [b'-', ..] => Some(Key::Pace(2.0)),
        [b' ', ..] => Some(Key::Hold),
        [b'h' | b'?', ..] => Some(Key::Help),
        [b'k', ..] => Some(Key::Lines(-1)),
        [b'j', ..] => Some(Key::Lines(1)),
        _ => None,
    };
    Some((1, key))
}

const CTRL_C: u8 = 3;
const ESCAPE: u8 = 0x1b;

/// Adds what is typed within `wait`; whether the terminal is still there.
fn read_keys(wait: Duration, typed: &mut Vec<u8>) -> anyhow::Result<bool> {
    let input = stdin();
    let mut polled = [PollFd::new(&input, PollFlags::IN)];
    let wait = Timespec::try_from(wait)?;
    match poll(&mut polled, Some(&wait)) {
        // A signal, of a new size perhaps, comes in between.
        Ok(0) | Err(Errno::INTR) => return Ok(true),
        Ok(_) => {}
        Err(err) => return Err(err.into()),
    }
    let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    if polled[0].revents().intersects(gone) {
        return Ok(false);
    }
    let mut bytes = [0; 64];
    let count = rustix::io::read(&input, &mut bytes)?;
    typed.extend_from_slice(&bytes[..count]);
    Ok(count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;
    use std::process::{Command, Stdio};

    use nix::pty::openpty;
    use nix::sys::termios::tcgetattr;

    #[test]
    fn the_locale_says_whether_there_is_more_than_ascii() {
        for (set, expected) in [
            (&[][..], false),
            (&[("LANG", "de_DE.UTF-8")], true),
            (&[("LC_CTYPE", "C.utf8"), ("LANG", "C")], true),
            (&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")], false),
            (&[("LC_ALL", ""), ("LANG", "en_US.UTF-8")], true),
        ] {
            let found = set.iter();
            let variable = |name: &str| {
                found
                    .clone()
                    .find(|it| it.0 == name)
                    .map(|it| it.1.to_owned())
            };
            assert_eq!(is_utf8(variable), expected, "{set:?}");
        }
    }

    const ASKED: &str = "ZMELD_TEST_FAILS_ON_SCREEN";

    /// A child of the test below, on a terminal of its own.
    #[test]
    fn fails_on_screen_where_asked() {
        match std::env::var(ASKED).as_deref() {
            Ok("panic") => drop(on_screen(|| panic!("nobody expects this"))),
            Ok(_) => drop(on_screen(|| anyhow::bail!("an error"))),
            Err(_) => {}
        }
    }

    #[test]
    fn the_terminal_is_restored_when_the_program_fails() {
        for how in ["panic", "error"] {
            let pty = openpty(None, None).unwrap();
            let before = tcgetattr(&pty.slave).unwrap();
            let side = || Stdio::from(pty.slave.try_clone().unwrap());
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "--nocapture"])
                .arg("commands::top::tests::fails_on_screen_where_asked")
                .env(ASKED, how)
                .stdin(side())
                .stdout(side())
                .stderr(side())
                .spawn()
                .unwrap();
            child.wait().unwrap();
            assert_eq!(tcgetattr(&pty.slave).unwrap(), before, "{how}");
            drop(pty.slave);
            let mut said = Vec::new();
            // Ends with an error, since nobody holds the other side any more.
            let _ = File::from(pty.master).read_to_end(&mut said);
            let said = String::from_utf8_lossy(&said);
            let at = |sequence: &str| said.find(sequence);
            assert!(at("\x1b[?1049h").is_some(), "{how}: {said:?}");
            assert!(at("\x1b[?1049l") > at("\x1b[?1049h"), "{how}: {said:?}");
            if how == "panic" {
                // The message is on the screen that stays.
                assert!(at("nobody expects") > at("\x1b[?1049l"), "{said:?}");
            }
        }
    }
}
