//! `zmeld watch`: the small daemon. Rules from the configuration, a line on standard
//! error for each thing it does, metrics where they are asked for.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{set_parent_process_death_signal, Signal};
use zmeld_linux::lock::{Attempt, FileLock};
use zmeld_linux::service::{self, Watchdog};
use zmeld_linux::Host;
use zmeld_swap::observe::{lately, Observation};
use zmeld_swap::run_folder;
use zmeld_swap::watch::{is_short, Watcher};

use super::metrics;
use super::status::page_size;
use crate::args::MachineArgs;
use crate::exit::{Outcome, EXIT_CODES};
use crate::{output, progress};

const EXAMPLES: &str = "\
Examples:
  zmeld watch            the rules of /etc/zmeld.toml, until stopped
  zmeld watch --dry-run  only say what would be done, and why
  zmeld watch --once     one round
  zmeld watch --once writeback
                         this rule's turn now, for a timer (docs/watch.md)

The rules are [watch.recompress], [watch.writeback], [watch.meld] and
[watch.reclaim] (takes idle memory of programs before it is needed); what is due
is done at once while zmeld-guard says that memory is short. See
docs/keys.md. SIGTERM and Ctrl-C end it after what it is doing.";

/// The rules that have a turn now and then; reclaim goes on all the time.
const RULES: [&str; 3] = ["recompress", "writeback", "meld"];

/// How soon a stop is heard, and a rule of its own pace has its turn.
const TICK: Duration = Duration::from_millis(200);

#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct WatchArgs {
    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,

    /// One round, then end; with RULE that rule's turn alone, due or not
    #[arg(long, value_name = "RULE", num_args = 0..=1, value_parser = RULES)]
    pub once: Option<Option<String>>,

    /// Write metrics to this file each round
    #[arg(long, value_name = "FILE")]
    pub textfile: Option<PathBuf>,

    /// End with the process that started it
    #[arg(long, hide = true)]
    pub with_parent: bool,

    #[command(flatten)]
    pub place: MachineArgs,
}

/// Two would take each other's limits for those of a watch that was killed.
fn only_one(host: &Host) -> anyhow::Result<FileLock> {
    run_folder::make(host)?;
    match FileLock::attempt(&host.path(run_folder::WATCH_LOCK))? {
        Attempt::Taken(lock) => Ok(lock),
        Attempt::Held(holder) => anyhow::bail!(
            "another zmeld watch is at work{}: stop it (systemctl stop zmeld-watch), or leave \
             this to it",
            holder
                .pid
                .map_or(String::new(), |pid| format!(" (process {pid})"))
        ),
    }
}

pub fn run(args: &WatchArgs) -> anyhow::Result<Outcome> {
    if args.with_parent {
        set_parent_process_death_signal(Some(Signal::TERM))?;
    }
    let config = args.place.config()?;
    let rule = args.once.as_ref().and_then(Option::as_deref);
    let host = args.place.host();
    let textfile = args.textfile.clone().or(config.metrics.textfile.clone());
    let mut watcher = Watcher::new(host.clone(), config.clone(), args.dry_run, |host| {
        zmeld_swap::setup::applied::read(host).ok()?
    });
    if let Some(rule) = rule.filter(|rule| !watcher.ask(rule, Instant::now())) {
        anyhow::bail!("--once {rule}: there is no [watch.{rule}] in the configuration; write one");
    }
    // The numbers of processes in another tree are those of others here.
    let is_here = args.place.root == Path::new("/");
    if config.watch.guard.is_some() && rule.is_none() {
        log("zmeld-guard.service carries out [watch.guard], this command does not");
    }
    if !watcher.has_rules() && textfile.is_none() {
        if config.watch.guard.is_none() {
            log(
                "there is nothing to watch: write a rule into /etc/zmeld.toml ([watch.recompress], \
                 [watch.writeback], [watch.meld] or [watch.reclaim]), or ask for metrics with \
                 --textfile",
            );
        }
        return Ok(Outcome::Done);
    }
    let is_at_work = is_here && !args.dry_run && watcher.has_rules();
    let is_root = rustix::process::geteuid().is_root();
    let _lock = (is_at_work && is_root)
        .then(|| only_one(&host))
        .transpose()?;
    // Being stopped is how a watch ends, and no failure.
    let stop = progress::silent_interrupt_flag();
    let mut say = |line: String| log(&line);
    service::notify("READY=1");
    let mut watchdog = Watchdog::of_manager();
    loop {
        let begin = Instant::now();
        watchdog.ping(begin);
        let seen = Observation::read(&host, page_size());
        // Events of the last hour are told from notes; without notes, they are told as events since
        // boot. Another tree is not written to.
        if !args.dry_run && is_here {
            let _ = lately::note(&host, &seen.lately);
        }
        watcher.round(&seen, begin, stop, &mut say);
        // Partial work goes on at once.
        let has_more = watcher.has_more() && !stop.load(Ordering::SeqCst);
        if let Some(path) = textfile.as_ref().filter(|_| !has_more) {
            // Tried again next round: a full disk must not end the watch. Without a
            // next round it is an error.
            let text = metrics::text_for_others(&host, &config);
            match zmeld_linux::file::replace(path, text.as_bytes(), None) {
                Err(err) if args.once.is_some() => return Err(err.into()),
                Err(err) => log(&err.to_string()),
                Ok(()) => {}
            }
        }
        if args.once.is_some() && has_more {
            continue;
        }
        if args.once.is_some() {
            if rule.is_some() && !watcher.has_acted() {
                log("nothing to do: the rule applies to no device that is set up");
            }
            if config.watch.reclaim.is_some() && rule.is_none() {
                log("[watch.reclaim] does nothing in one round: its cost shows over time only");
            }
            break;
        }
        let next = match has_more {
            true => begin,
            false => begin + config.watch.interval.duration(),
        };
        // Once at least, however long the round took.
        loop {
            watchdog.ping(Instant::now());
            watcher.reclaim(Instant::now(), stop, &mut say);
            if is_here && is_short(&host) {
                watcher.make_room(Instant::now(), stop, &mut say);
            }
            let left = next.saturating_duration_since(Instant::now());
            if stop.load(Ordering::SeqCst) || left.is_zero() {
                break;
            }
            std::thread::sleep(TICK.min(left));
        }
        if stop.load(Ordering::SeqCst) {
            break;
        }
    }
    service::notify("STOPPING=1");
    Ok(Outcome::Done)
}

/// A line on standard error, as the journal likes it.
fn log(text: &str) {
    output::say_as("zmeld watch", text.replace('\n', " "));
}
