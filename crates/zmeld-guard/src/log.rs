//! Messages of the guard, told and noted by threads of ordinary priority: whoever reads it may have
//! stopped, and a write to a full pipe waits for him. So may what `on_end` starts.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::vec::Drain;

use zmeld_linux::Host;

use crate::error::Error;
use crate::event::{Event, Round, Seen};
use crate::note::Recorder;
use crate::worker::Mailbox;
use crate::GuardRule;

/// So much waits to be told; what is more is dropped.
const WAITING_MAX: usize = 256;

/// `on_end` runs as this user and group, and no more of it at a time.
const NOBODY: u32 = 65534;
const RUNNING_MAX: usize = 8;
/// Protection from the kernel's killer, and priority, are not inherited.
const ON_END: &str = "echo 0 >/proc/self/oom_score_adj; exec timeout -k 1 10 nice -n 20 \"$@\"";

/// Mailboxes of events to be told; they never wait.
#[derive(Debug)]
pub(crate) struct Outbox {
    log: Mailbox<Event>,
    note: Mailbox<Event>,
}

impl Outbox {
    pub fn new(
        host: &Host,
        rule: &GuardRule,
        is_noted: bool,
        by_threads: bool,
        mut say: impl FnMut(String) + Send + 'static,
    ) -> Result<Outbox, Error> {
        let name = |name| by_threads.then_some(name);
        let mut recorder = Recorder::new(host.clone(), is_noted);
        let mut runner = Runner {
            command: rule.on_end.clone(),
            running: Vec::new(),
        };
        Ok(Outbox {
            log: Mailbox::new(
                name("guard-log"),
                WAITING_MAX,
                move |events: Drain<Event>| {
                    events.for_each(|event| say(event.to_string()));
                },
            )?,
            note: Mailbox::new(
                name("guard-note"),
                WAITING_MAX,
                move |events: Drain<Event>| {
                    let is_running = |child: &mut Child| matches!(child.try_wait(), Ok(None));
                    runner.running.retain_mut(is_running);
                    for event in events {
                        recorder.take(&event);
                        if let Event::Ended(gone) = event {
                            runner.run(&gone);
                        }
                    }
                },
            )?,
        })
    }

    pub fn say(&mut self, event: Event) {
        // A recorder or log that stands still misses some.
        self.log.leave(event.clone());
        self.note.leave(event);
    }

    /// Once a look.
    pub fn send(&mut self, seen: Seen) {
        // For a recorder that stands still the last look is enough, and leaves room for the rest.
        match self.note.last_waiting() {
            Some(Event::Looked(before)) => *before = seen,
            _ => self.note.leave(Event::Looked(seen)),
        }
        self.log.send();
        self.note.send();
    }
}

struct Runner {
    command: Vec<String>,
    running: Vec<Child>,
}

impl Runner {
    /// Runs it as nobody, with the facts in its environment; what takes long is ended.
    fn run(&mut self, gone: &Round) {
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
