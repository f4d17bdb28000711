//! What the guard says, told and noted by threads of ordinary priority: whoever reads it may
//! have stopped, and a write to a full pipe waits for him. So may what `on_end` starts.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use zmeld_linux::Host;

use crate::event::{Event, Gone};
use crate::guard_loop::Seen;
use crate::note::Recorder;
use crate::worker::Worker;
use crate::{Error, GuardRule};

/// So much waits to be told; what is more is dropped.
const WAITING_MAX: usize = 256;

/// `on_end` runs as this user and group, and no more of it at a time.
const NOBODY: u32 = 65534;
const RUNNING_MAX: usize = 8;
/// What this process has against the kernel's killer, and its priority, is not inherited.
const ON_END: &str = "echo 0 >/proc/self/oom_score_adj; exec timeout -k 1 10 nice -n 20 \"$@\"";

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
        let mut runner = Runner {
            command: rule.on_end.clone(),
            running: Vec::new(),
        };
        let note = move |seen: &Seen, events: &mut Vec<Event>| {
            let is_running = |child: &mut Child| matches!(child.try_wait(), Ok(None));
            runner.running.retain_mut(is_running);
            for event in events.drain(..) {
                recorder.take(&event);
                if let Event::Ended(gone) = event {
                    runner.run(&gone);
                }
            }
            recorder.keep(seen);
        };
        Ok(Outbox {
            log: Teller::new(name("guard-log"), seen, log)?,
            note: Teller::new(name("guard-note"), seen, note)?,
        })
    }

    pub fn say(&mut self, event: Event) {
        // Where the recorder or the log stands still, it misses some.
        if !matches!(event, Event::Found(_, false)) {
            self.log.leave(event.clone());
        }
        self.note.leave(event);
    }

    /// Once a look.
    pub fn send(&mut self, seen: Seen) {
        self.log.send(seen);
        self.note.send(seen);
    }
}

/// Who runs `on_end`.
struct Runner {
    command: Vec<String>,
    running: Vec<Child>,
}

impl Runner {
    /// Runs it as nobody, with the facts in its environment; what takes long is ended.
    fn run(&mut self, gone: &Gone) {
        let is_due = gone.is_gone && self.running.len() < RUNNING_MAX;
        let Some(program) = self.command.first().filter(|_| is_due) else {
            return;
        };
        let victim = &gone.victim;
        let mut run = Command::new("/bin/sh");
        run.args(["-c", ON_END, program])
            .args(&self.command)
            .current_dir("/")
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("ZMELD_OWNER", &*victim.account.owner)
            .env("ZMELD_GROUP", &*victim.group)
            .env("ZMELD_PROCESS", &*victim.process)
            .env("ZMELD_PID", victim.pid.to_string())
            .env("ZMELD_PROCESSES", victim.processes.to_string())
            .env("ZMELD_HELD_BYTES", victim.account.held_bytes.to_string())
            .env("ZMELD_WHY", victim.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        if rustix::process::geteuid().is_root() {
            run.uid(NOBODY).gid(NOBODY);
        }
        self.running.extend(run.spawn());
    }
}
