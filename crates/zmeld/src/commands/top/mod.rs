//! `zmeld top`: the tiers, live.

mod screen;

use std::io::{self, stdin, stdout, IsTerminal, Write};
use std::panic;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::termios::{tcgetattr, tcsetattr, LocalModes, OptionalActions};
use terminal_size::terminal_size;
use zmeld_linux::Host;
use zmeld_report::Style;

use crate::exit::{Outcome, EXIT_CODES};
use crate::progress;
use screen::Look;

const EXAMPLES: &str = "\
Keys: q or Ctrl-C ends, + and - change how often it looks, space holds it.
Where there is no terminal, zmeld status shows the same once.";

#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct TopArgs {
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = parse_interval)]
    pub interval: f64,

    /// Read the files of another machine below this directory
    #[arg(long, value_name = "DIR", default_value = "/", hide_short_help = true)]
    pub root: PathBuf,
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
    if !stdout().is_terminal() || !stdin().is_terminal() {
        anyhow::bail!(
            "top needs a terminal; zmeld status shows the same once, --json for programs"
        );
    }
    let host = Host::at(&args.root);
    // Restores the terminal on SIGTERM and SIGHUP as well: the loop below ends.
    let stop = progress::silent_interrupt_flag();
    let style = crate::output::style();
    on_screen(|| show(&host, &style, args.interval, || stop.load(Ordering::SeqCst)))?;
    Ok(Outcome::Done)
}

/// Gives the terminal to `view` and takes it back, however that ends.
fn on_screen(view: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let before = tcgetattr(stdin())?;
    let restore = move || {
        // Where the terminal is gone, there is nothing to restore.
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

/// The alternate screen without a cursor, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?1049l\x1b[?25h";

fn draw(look: &Look, style: &Style, interval: f64, held: bool) -> io::Result<()> {
    let (width, rows) = terminal_size().map_or((80, 24), |(width, height)| (width.0, height.0));
    let style = Style {
        width: usize::from(width).max(Style::plain(0).width),
        ..*style
    };
    let lines = screen::lines(look, &style, rows.into(), interval, held);
    // Each line is cleared behind what it has, and all that is below the last one.
    let text = lines.join("\x1b[K\r\n");
    let mut out = stdout().lock();
    write!(out, "\x1b[H{text}\x1b[K\x1b[J")?;
    out.flush()
}

fn show(
    host: &Host,
    style: &Style,
    mut interval: f64,
    is_over: impl Fn() -> bool,
) -> anyhow::Result<()> {
    let mut look = Look::at(host, None);
    let mut held = false;
    let mut next = Instant::now() + Duration::from_secs_f64(interval);
    let mut redraw = true;
    let mut drawn_at = None;
    loop {
        if is_over() {
            return Ok(());
        }
        if redraw || drawn_at != terminal_size() {
            drawn_at = terminal_size();
            draw(&look, style, interval, held)?;
        }
        redraw = false;
        // Signals are looked for at least this often.
        let wait = next
            .saturating_duration_since(Instant::now())
            .min(Duration::from_millis(200));
        let Some(keys) = keys(wait)? else {
            return Ok(());
        };
        let mut keys = keys.into_iter().peekable();
        while let Some(key) = keys.next() {
            redraw = true;
            match key {
                b'q' | CTRL_C => return Ok(()),
                // An arrow, or another key of several bytes.
                ESCAPE if keys.next_if(|next| b"[O".contains(next)).is_some() => {
                    let is_inside = |byte: &u8| !(0x40..0x7f).contains(byte);
                    while keys.next_if(is_inside).is_some() {}
                    keys.next();
                }
                ESCAPE => return Ok(()),
                b'+' => interval = (interval / 2.0).max(INTERVAL_MIN),
                b'-' => interval = (interval * 2.0).min(INTERVAL_MAX),
                b' ' => held = !held,
                _ => {}
            }
        }
        if Instant::now() >= next {
            next = Instant::now() + Duration::from_secs_f64(interval);
            if !held {
                look = Look::at(host, Some(&look));
                redraw = true;
            }
        }
    }
}

const CTRL_C: u8 = 3;
const ESCAPE: u8 = 0x1b;

/// The keys that were pressed within `wait`; none when the terminal is gone.
fn keys(wait: Duration) -> anyhow::Result<Option<Vec<u8>>> {
    let input = stdin();
    let mut polled = [PollFd::new(&input, PollFlags::IN)];
    let wait = Timespec::try_from(wait)?;
    match poll(&mut polled, Some(&wait)) {
        // A signal, of a new size perhaps, comes in between.
        Ok(0) | Err(Errno::INTR) => return Ok(Some(Vec::new())),
        Ok(_) => {}
        Err(err) => return Err(err.into()),
    }
    let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    if polled[0].revents().intersects(gone) {
        return Ok(None);
    }
    let mut keys = vec![0; 64];
    let count = rustix::io::read(&input, &mut keys)?;
    keys.truncate(count);
    Ok(Some(keys).filter(|keys| !keys.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;
    use std::process::{Command, Stdio};

    use nix::pty::openpty;
    use nix::sys::termios::tcgetattr;

    const ASKED: &str = "ZMELD_TEST_FAILS_ON_SCREEN";

    /// What the test below starts on a terminal of its own.
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
