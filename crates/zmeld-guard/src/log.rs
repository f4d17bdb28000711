//! What the guard says, told and noted by threads of ordinary priority: whoever reads it may
//! have stopped, and a write to a full pipe waits for him. So may what `on_end` starts.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use zmeld_linux::Host;

use crate::event::{Event, Gone};
use crate::guard_loop::Seen;
use crate::note::Recorder;
use crate::worker::Worker;
use crate::{Error, GuardRule};

/// So much waits to be told; what is more is dropped.
const WAITING_MAX: usize = 256;

/// What `on_end` starts may run for so long,
const RUN_MAX: Duration = Duration::from_secs(10);
/// as this user and group.
const NOBODY: u32 = 65534;

/// Events that wait, and who tells them.
#[derive(Debug)]
struct Teller {
    waiting: Vec<Event>,
    worker: Worker<(Seen, Vec<Event>)>,
}

impl Teller {
    fn new(
        thread_name: Option<&str>,
        seen: Seen,
        mut tell: impl FnMut(&Seen, &mut Vec<Event>) + Send + 'static,
    ) -> Result<Teller, Error> {
        let sent = (seen, Vec::with_capacity(WAITING_MAX));
        Ok(Teller {
            waiting: Vec::with_capacity(WAITING_MAX),
            worker: Worker::new(thread_name, sent, move |(seen, events)| tell(seen, events))?,
        })
    }

    fn leave(&mut self, event: Event) {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push(event);
        }
    }

    fn send(&mut self, seen: Seen) {
        if let Some((last, events)) = self.worker.get() {
            *last = seen;
            // Those that were told are none any more.
            if events.is_empty() {
                std::mem::swap(events, &mut self.waiting);
            }
            self.worker.send();
        }
    }
}

/// Where events are left to be told; it never waits.
#[derive(Debug)]
pub(crate) struct Outbox {
    log: Teller,
    note: Teller,
    run: Teller,
}

impl Outbox {
    pub fn new(
        host: &Host,
        rule: &GuardRule,
        seen: Seen,
        is_noted: bool,
        by_threads: bool,
        mut say: impl FnMut(String) + Send + 'static,
    ) -> Result<Outbox, Error> {
        let name = |name| by_threads.then_some(name);
        let mut recorder = Recorder::new(host.clone(), is_noted);
        let log = move |_: &Seen, events: &mut Vec<Event>| {
            events.drain(..).for_each(|event| say(event.to_string()));
        };
        let note = move |seen: &Seen, events: &mut Vec<Event>| {
            events.drain(..).for_each(|event| recorder.take(&event));
            recorder.keep(seen);
        };
        let command = rule.on_end.clone();
        let run = move |_: &Seen, events: &mut Vec<Event>| {
            for event in events.drain(..) {
                if let Event::Ended(gone) = event {
                    run_on_end(&command, &gone);
                }
            }
        };
        Ok(Outbox {
            run: Teller::new(name("guard-run"), seen, run)?,
            log: Teller::new(name("guard-log"), seen, log)?,
            note: Teller::new(name("guard-note"), seen, note)?,
        })
    }

    pub fn say(&mut self, event: Event) {
        // Where the recorder or the log stands still, it misses some.
        if !matches!(event, Event::Found(_, false)) {
            self.log.leave(event.clone());
        }
        if matches!(event, Event::Ended(_)) {
            self.run.leave(event.clone());
        }
        self.note.leave(event);
    }

    /// Once a look.
    pub fn send(&mut self, seen: Seen) {
        self.log.send(seen);
        self.note.send(seen);
        self.run.send(seen);
    }
}

/// Runs `on_end` as nobody, with the facts in its environment, and ends it where it takes long.
fn run_on_end(command: &[String], gone: &Gone) {
    let Some(program) = command.first().filter(|_| gone.is_gone) else {
        return;
    };
    let victim = &gone.victim;
    // What this process has against the kernel's killer, and its priority, is not inherited.
    let script = "echo 0 >/proc/self/oom_score_adj; exec nice -n 20 \"$@\"";
    let mut run = Command::new("/bin/sh");
    run.args(["-c", script, program])
        .args(command)
        .current_dir("/")
        .env_clear();
    run.env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    run.env("ZMELD_OWNER", &*victim.owner)
        .env("ZMELD_GROUP", &*victim.group)
        .env("ZMELD_PROCESS", &*victim.process)
        .env("ZMELD_PID", victim.pid.to_string())
        .env("ZMELD_PROCESSES", victim.processes.to_string())
        .env("ZMELD_HELD_BYTES", victim.held_bytes.to_string())
        .env("ZMELD_WHY", victim.to_string());
    if rustix::process::geteuid().is_root() {
        run.uid(NOBODY).gid(NOBODY);
    }
    let Ok(mut child) = run.spawn() else { return };
    let begin = Instant::now();
    while begin.elapsed() < RUN_MAX && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = child.kill();
    let _ = child.wait();
}
