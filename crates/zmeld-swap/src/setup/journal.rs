//! Journal of zmeld's changes to a machine, in `/run/zmeld/state.json`: they can be taken back
//! whatever happens in between.
//!
//! The file is replaced as a whole (`zmeld_linux::file`), before and
//! after each step: a reader sees one state or the next. It lies in `/run`, which
//! a boot clears together with all that it describes; where `/run` outlives a
//! boot, the boot's number tells.
//!
//! The lock is a file beside it (`zmeld_linux::lock`). The commands inherit it, so that
//! it is held until the last of them has ended, even where zmeld was killed: nobody
//! meets a `mkswap` half way.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use zmeld_linux::boot::boot_id;
use zmeld_linux::command;
use zmeld_linux::lock::{Attempt, FileLock};

use crate::run_folder::{self, EXPERIMENT_STATE, FOLDER, LOCK, STATE};
use crate::setup::error::Error;
use crate::setup::event::{Event, Listener};
use crate::setup::step::Record;
use zmeld_config::Config;
use zmeld_linux::{Host, HostError};

const SCHEMA: &str = "zmeld.state/1";

/// The owner of changes. Each has a state of its own, so that nobody takes what an experiment set
/// up for what is wanted on this machine; the lock is one, since both change the same machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// `zmeld up`.
    Setup,
    /// `zmeld bench`.
    Experiment,
}

impl Owner {
    fn state(self) -> &'static str {
        match self {
            Owner::Setup => STATE,
            Owner::Experiment => EXPERIMENT_STATE,
        }
    }
}

/// Changes made to the machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// `zmeld.state/1`.
    pub schema: String,
    /// The boot that it belongs to.
    pub boot: String,
    /// Whether the last `up` came to its end.
    pub complete: bool,
    /// Configuration of that `up`. Another version's may not be understood: it is empty then, and
    /// its changes are taken back all the same.
    #[serde(default, deserialize_with = "understood")]
    pub config: Config,
    /// Every step that was begun and not taken back, in order.
    pub records: Vec<Record>,
    /// The kernel's refusal of zmeld's module, for which zram stands in since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl State {
    /// Reads what `zmeld up` did, without a lock: as it was at one instant.
    ///
    /// # Errors
    /// When it is there and cannot be understood, or somebody but root may have
    /// written it.
    pub fn read(host: &Host) -> Result<Option<State>, Error> {
        State::read_of(host, Owner::Setup)
    }

    /// [`State::read`] for somebody else's changes.
    ///
    /// # Errors
    /// When it is there and cannot be understood.
    pub fn read_of(host: &Host, owner: Owner) -> Result<Option<State>, Error> {
        let path = owner.state();
        let Some(bytes) = run_folder::read(host, path)? else {
            return Ok(None);
        };
        let state: State = serde_json::from_slice(&bytes).map_err(|err| {
            Error::malformed(
                path,
                format!(
                    "is not a state that this version wrote ({err}): use the zmeld that set swap \
                     up, or {BY_FORCE}"
                ),
            )
        })?;
        if state.schema != SCHEMA {
            return Err(Error::malformed(
                path,
                format!(
                    "is {}, and this version reads {SCHEMA}: use the zmeld that set swap up, or \
                     {BY_FORCE}",
                    zmeld_linux::text::short(&state.schema)
                ),
            ));
        }
        // Before a boot: nothing of it is there any more.
        Ok((state.boot == boot_id(host)?).then_some(state))
    }

    /// Returns the known part of a state that cannot be understood, and in words what is left: the
    /// steps that are none of this version's, and, where no step can be told from another, what is
    /// swapped to and mapped. Of another version's steps only what is on is switched off and
    /// closed, where it is known to be the same: what else such a step would wipe, remove or
    /// restore is not known.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn salvage(host: &Host, owner: Owner) -> Result<(State, Vec<String>), Error> {
        // A file that others may write is not believed.
        let bytes = run_folder::read(host, owner.state());
        let bytes = bytes.ok().flatten().unwrap_or_default();
        let told: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let (mut state, mut left) = (State::new(host)?, Vec::new());
        if told["boot"].as_str().is_some_and(|boot| boot != state.boot) {
            return Ok((state, left));
        }
        let Some(records) = told["records"].as_array() else {
            let areas = host.swaps()?.into_iter();
            left.extend(areas.map(|it| format!("{} is swapped to", it.path.display())));
            let mapped = host.list("/dev/mapper")?.into_iter();
            let mapped = mapped.filter(|name| name.starts_with("zmeld-"));
            left.extend(mapped.map(|name| format!("/dev/mapper/{name} is open")));
            return Ok((state, left));
        };
        let is_ours = told["schema"] == SCHEMA;
        for told in records {
            match serde_json::from_value::<Record>(told.clone()) {
                Ok(record) if is_ours || record.only_ends() => state.records.push(record),
                _ => {
                    let step = zmeld_linux::text::short(&told["step"].to_string());
                    let part = told["group"].as_str().unwrap_or("a part that is not named");
                    let step = format!("{part}: a step of another version, {step}");
                    left.push(step.replace(char::is_control, "?"));
                }
            }
        }
        Ok((state, left))
    }

    fn new(host: &Host) -> Result<State, Error> {
        Ok(State {
            schema: SCHEMA.to_owned(),
            boot: boot_id(host)?,
            complete: true,
            ..State::default()
        })
    }
}

/// The way out where a state is not understood.
const BY_FORCE: &str = "zmeld down --force, which takes back what it understands";

fn understood<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Config, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

/// The state, locked: nobody else changes it or the machine.
#[derive(Debug)]
pub struct Journal {
    host: Host,
    owner: Owner,
    state: State,
    lock: FileLock,
}

impl Drop for Journal {
    /// Takes the lock from a command that was given up: it does not end, and holds it.
    fn drop(&mut self) {
        if command::is_left_behind() {
            // If that fails, the command keeps the lock until it ends.
            let _ = self.lock.renew(&self.host.path(LOCK));
        }
    }
}

impl Journal {
    /// Waits for other runs, at most `patience`, and reads what its owner's left.
    ///
    /// # Errors
    /// When another run does not end, or `stop` is set meanwhile, when the directory cannot be made, or when
    /// the state cannot be understood.
    pub fn lock(
        host: &Host,
        owner: Owner,
        patience: Duration,
        stop: &AtomicBool,
        listener: &mut Listener<'_>,
    ) -> Result<Journal, Error> {
        let mut journal = Journal::empty(host, owner, patience, stop, listener)?;
        if let Some(state) = State::read_of(host, owner)? {
            journal.state = state;
        }
        Ok(journal)
    }

    fn empty(
        host: &Host,
        owner: Owner,
        patience: Duration,
        stop: &AtomicBool,
        listener: &mut Listener<'_>,
    ) -> Result<Journal, Error> {
        run_folder::make(host).map_err(|err| match err {
            HostError::File(err) => denied(host, "create", FOLDER, err.cause),
            err => err.into(),
        })?;
        let lock = wait(host, patience, stop, listener)?;
        lock.pass_on()
            .map_err(|cause| Error::io("pass on", LOCK, cause))?;
        // Parts left by a killed run. If they cannot be removed, writing says why.
        let _ = zmeld_linux::file::remove_parts(&host.path(owner.state()));
        Ok(Journal {
            host: host.clone(),
            owner,
            state: State::new(host)?,
            lock,
        })
    }

    /// Locks it. A state that is not understood is replaced by its known part ([`State::salvage`]),
    /// and its file is kept. Also returns, in words, what is left.
    ///
    /// # Errors
    /// Those of [`Journal::lock`]; that the file cannot be kept.
    pub fn lock_by_force(
        host: &Host,
        owner: Owner,
        patience: Duration,
        stop: &AtomicBool,
        listener: &mut Listener<'_>,
    ) -> Result<(Journal, Vec<String>), Error> {
        let mut journal = Journal::empty(host, owner, patience, stop, listener)?;
        let state = State::read_of(host, owner);
        let Err(_) = state else {
            journal.state = state?.unwrap_or(journal.state.clone());
            return Ok((journal, Vec::new()));
        };
        let (state, mut left) = State::salvage(host, owner)?;
        let path = PathBuf::from(owner.state());
        // A run that is killed from here on leaves it where it is, or has written the new one.
        let aside = keep_aside(host, &path).map_err(|cause| Error::io("keep", &path, cause))?;
        journal.change(|it| *it = state)?;
        left.push(format!(
            "{} has the state that was not understood",
            aside.display()
        ));
        Ok((journal, left))
    }

    /// The changes so far.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Changes the state, on disk and then in memory.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut State)) -> Result<(), Error> {
        let mut next = self.state.clone();
        change(&mut next);
        self.write(&next)?;
        self.state = next;
        Ok(())
    }

    /// Every step that was begun and not taken back, in order.
    pub fn records(&self) -> &[Record] {
        &self.state.records
    }

    /// [`Journal::change`] for what has happened already: it counts even if it
    /// cannot be written.
    ///
    /// # Errors
    /// When it cannot be written; then what is on disk tells of more that is to
    /// be taken back than there is, or of a step under way that is over, and
    /// taking back tolerates both.
    pub(crate) fn note(&mut self, change: impl FnOnce(&mut State)) -> Result<(), Error> {
        change(&mut self.state);
        self.write(&self.state)
    }

    fn write(&self, state: &State) -> Result<(), Error> {
        let path = self.owner.state();
        if state.records.is_empty() {
            return match fs::remove_file(self.host.path(path)) {
                Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                    Err(Error::io("remove", path, cause))
                }
                _ => Ok(()),
            };
        }
        Ok(run_folder::write(&self.host, path.as_ref(), 0o644, state)?)
    }
}

fn denied(host: &Host, action: &'static str, path: &str, cause: io::Error) -> Error {
    match cause.kind() {
        io::ErrorKind::PermissionDenied => Error::Privilege {
            what: "changing the machine's swap".to_owned(),
            is_root: host.is_root(),
        },
        _ => Error::io(action, path, cause),
    }
}

/// No more states are kept of one boot.
const KEPT_MAX: u32 = 99;

/// Gives a file a second name, beside those that are taken.
fn keep_aside(host: &Host, path: &Path) -> io::Result<PathBuf> {
    let (mut aside, mut number) = (path.with_extension("json.unread"), 0);
    loop {
        match fs::hard_link(host.path(path), host.path(&aside)) {
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists && number < KEPT_MAX => {
                number += 1;
                aside = path.with_extension(format!("json.unread-{number}"));
            }
            kept => return kept.map(|()| aside),
        }
    }
}

fn wait(
    host: &Host,
    patience: Duration,
    stop: &AtomicBool,
    listener: &mut Listener<'_>,
) -> Result<FileLock, Error> {
    let begin = Instant::now();
    let mut told = false;
    loop {
        let attempt = FileLock::attempt(&host.path(LOCK));
        let holder = match attempt.map_err(|cause| denied(host, "lock", LOCK, cause))? {
            Attempt::Taken(lock) => return Ok(lock),
            Attempt::Held(holder) => holder,
        };
        let holder = match holder.pid {
            Some(pid) => format!("(process {pid})"),
            None => "(or a command of one that was killed)".to_owned(),
        };
        if stop.load(Ordering::SeqCst) {
            return Err(Error::Interrupted {
                after: format!("while another run had the lock {holder}; nothing was changed"),
            });
        }
        if begin.elapsed() >= patience {
            return Err(Error::Locked { holder });
        }
        if !told && begin.elapsed() > Duration::from_millis(500) {
            told = true;
            listener(Event::Waiting { holder: &holder });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
