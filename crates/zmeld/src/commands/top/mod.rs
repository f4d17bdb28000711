//! `zmeld top`: the tiers, live.

mod history;
mod screen;

use std::io::{stdin, stdout, IsTerminal};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use zmeld_linux::Host;
use zmeld_swap::observe::Observation;

use super::status::page_size;
use crate::exit::{Outcome, EXIT_CODES};
use crate::progress;
use history::History;
use screen::Look;

const EXAMPLES: &str = "\
Keys: q or Ctrl-C ends, + and - change how often it looks, space holds it.
Where there is no terminal, zmeld status shows the same once.";

/// Arguments of `zmeld top`.
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

/// Runs the command.
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
    let look = Look {
        colour: style.colour,
        unicode: style.unicode,
    };
    on_screen(|terminal| {
        show(terminal, &host, look, args.interval, || {
            stop.load(Ordering::SeqCst)
        })
    })?;
    Ok(Outcome::Done)
}

/// Gives the terminal to `view` and takes it back, however that ends.
fn on_screen(
    view: impl FnOnce(&mut ratatui::DefaultTerminal) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    // Sets the panic hook that restores the terminal, too.
    let mut terminal = ratatui::try_init()?;
    let ended = view(&mut terminal);
    ratatui::restore();
    ended
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    host: &Host,
    look: Look,
    mut interval: f64,
    is_over: impl Fn() -> bool,
) -> anyhow::Result<()> {
    let mut history = History::new(Observation::read(host, page_size()));
    let mut held = false;
    let mut next = Instant::now() + Duration::from_secs_f64(interval);
    terminal.draw(|frame| screen::draw(frame, &history, look, interval, held))?;
    loop {
        if is_over() {
            return Ok(());
        }
        // Signals are looked for at least this often.
        let wait = next
            .saturating_duration_since(Instant::now())
            .min(Duration::from_millis(200));
        let mut redraw = false;
        if !is_there(wait)? {
            return Ok(());
        }
        while event::poll(Duration::ZERO)? {
            redraw = true;
            if let Event::Key(key) = event::read()? {
                let control = key.modifiers.contains(KeyModifiers::CONTROL);
                match key.code {
                    _ if key.kind == KeyEventKind::Release => {}
                    KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                    KeyCode::Char('c') if control => return Ok(()),
                    KeyCode::Char('+') => interval = (interval / 2.0).max(INTERVAL_MIN),
                    KeyCode::Char('-') => interval = (interval * 2.0).min(INTERVAL_MAX),
                    KeyCode::Char(' ') => held = !held,
                    _ => {}
                }
            }
        }
        if Instant::now() >= next {
            next = Instant::now() + Duration::from_secs_f64(interval);
            if !held {
                history.add(Observation::read(host, page_size()));
                redraw = true;
            }
        }
        if redraw {
            terminal.draw(|frame| screen::draw(frame, &history, look, interval, held))?;
        }
    }
}

/// Waits for keys; false when the terminal is gone. The library that reads them
/// would wait for one that is gone for ever, and not idly.
fn is_there(wait: Duration) -> anyhow::Result<bool> {
    let input = stdin();
    let mut polled = [PollFd::new(&input, PollFlags::IN)];
    let wait = Timespec::try_from(wait)?;
    match poll(&mut polled, Some(&wait)) {
        Ok(_) => {}
        // A signal, of a new size perhaps: it is looked after.
        Err(Errno::INTR) => return Ok(true),
        Err(err) => return Err(err.into()),
    }
    let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    Ok(!polled[0].revents().intersects(gone))
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
            Ok("panic") => drop(on_screen(|_| panic!("nobody expects this"))),
            Ok(_) => drop(on_screen(|_| anyhow::bail!("an error"))),
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
