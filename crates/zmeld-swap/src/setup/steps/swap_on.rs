//! A swap area, switched on and off.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::pin::{self, thing};
use crate::setup::context::{path_of, Before, Reversible, StepContext};
use crate::setup::error::Error;
use crate::setup::event::Event;
use crate::setup::identity::{self, Identity, PathMatch};
use crate::setup::step::{DeviceRef, Record, Step, SwapOn};
use crate::setup::swapoff_check::{self, PlannedCapacity};
use zmeld_config::Discard;
use zmeld_linux::command::{self, Ending, Invocation};
use zmeld_linux::counters::count;
use zmeld_linux::swaps::SwapArea;
use zmeld_linux::{programs, Host, HostError};

/// How long a drive may take to forget all that it holds.
const DISCARDED_WITHIN: Duration = Duration::from_secs(600);
/// How often progress is told while pages come back.
const TELL_EVERY: Duration = Duration::from_millis(200);
/// How long one that was asked to stop may go on: the kernel hears a signal once all pages
/// of a process are back.
const HEEDS_WITHIN: Duration = Duration::from_secs(60);
/// After so long without a page, it is asked who keeps swapoff from it,
const SLOW_AFTER: Duration = Duration::from_secs(10);
/// and where nobody does, the drive counts as dead after so long.
const STALLED_AFTER: Duration = Duration::from_secs(600);
/// How often swapoff is tried where it met a group that is full by its user's own limit: the
/// kernel ends it with a program of the group, and the rest comes back the next time, without
/// that limit where it still does not fit.
const TRIES: usize = 5;
/// How often the control groups, and whether to stop, are looked at meanwhile.
const GUARD_EVERY: Duration = Duration::from_millis(20);

impl Reversible for SwapOn {
    fn describe(&self) -> String {
        let mut text = format!("swap to {}", self.device.name());
        if self.priority >= 0 {
            text.push_str(&format!(" with priority {}", self.priority));
        }
        match self.discard {
            Discard::None => {}
            Discard::Once => text.push_str(", discarding once"),
            Discard::Pages => text.push_str(", discarding freed pages"),
            Discard::Both => text.push_str(", discarding at once and as pages are freed"),
        }
        text
    }

    fn before(&self, context: &mut StepContext<'_>) -> Result<Before, Error> {
        let path = context.path(&self.device)?;
        if pin::is_file(&path) {
            pin::file(context.host, &path)?;
        }
        match context.host.swap_on(&path)? {
            None => Ok((None, Identity::of(context.host, &path)?)),
            Some(_) => Err(Error::place(
                path,
                "it is in use by swap that zmeld did not set up",
                "switch it off (swapoff) or take it out of the configuration",
            )),
        }
    }

    fn apply(&self, context: &mut StepContext<'_>, record: &Record) -> Result<(), Error> {
        let path = context.path(&self.device)?;
        // As systemd does: a header that another page size was made for is made anew, with its
        // UUID and label.
        let mut swapon = Invocation::new("swapon").arg("--fixpgsz");
        if self.priority >= 0 {
            swapon = swapon.args(["--priority", &self.priority.to_string()]);
        }
        swapon = discarding(swapon, self.discard);
        // swapon looks it up by name, which nobody but root can give to another between
        // these two looks.
        let looked_at = || match pin::is_file(&path) {
            true => pin::same_file(context.host, &path, record).map(|_| path.clone()),
            false => pin::same_device(context, &self.device, record),
        };
        let area = context.host.path(looked_at()?);
        context.host.run(&swapon.arg(&area))?;
        if let Err(err) = looked_at() {
            // The device now is the one just swapped to.
            let _ = context.host.run(&Invocation::new("swapoff").arg(area));
            return Err(err);
        }
        match context.host.swap_on(&path)? {
            Some(swap) if self.priority < 0 || swap.priority == i32::from(self.priority) => Ok(()),
            Some(swap) => Err(Error::malformed(
                "/proc/swaps",
                format!(
                    "gives {} the priority {} instead of {}",
                    path.display(),
                    swap.priority,
                    self.priority
                ),
            )),
            None => Err(Error::malformed(
                "/proc/swaps",
                format!("does not list {} after swapon", path.display()),
            )),
        }
    }

    fn holds(&self, context: &mut StepContext<'_>, record: &Record) -> Result<bool, Error> {
        // Somebody may have switched it off and on since, with another priority.
        let has_priority =
            |it: &SwapArea| self.priority < 0 || it.priority == i32::from(self.priority);
        let area = self.area(context.host, context.records, record)?;
        Ok(record.done && matches!(area, Area::Ours(swap) if has_priority(&swap)))
    }

    fn undo(&self, context: &mut StepContext<'_>, record: &Record) -> Result<(), Error> {
        match self.area(context.host, context.records, record)? {
            Area::Ours(swap) => {
                // The kernel's own name of it is what everything is compared with.
                switch_off(context, &swap.path)
            }
            Area::Others(path, why) => {
                context.tell_left(&path, why);
                if self.device == DeviceRef::Added {
                    // The step that added it tells what is left.
                    context.remains.clear();
                }
                Ok(())
            }
            // It may come on yet.
            Area::Off if !record.done && command::is_left_behind() => {
                let cause = io::Error::new(io::ErrorKind::TimedOut, "swapon does not end (dmesg)");
                Err(Error::io("swap to", context.path(&self.device)?, cause))
            }
            Area::Off => {
                let path = self.device.path().unwrap_or_default();
                let mut deleted = context.host.resolved(&path).into_os_string();
                deleted.push(" (deleted)");
                let swaps = context.host.swaps()?;
                let is_on = swaps.iter().any(|swap| swap.path == Path::new(&deleted));
                context.remains(is_on.then(|| {
                    format!(
                        "{} was removed while it was swapped to, and still is until the machine \
                         is booted",
                        path.display()
                    )
                }));
                Ok(())
            }
        }
    }
}

pub(crate) enum Area {
    Off,
    Ours(SwapArea),
    /// Another area is on by its name, for this reason.
    Others(PathBuf, &'static str),
}

/// The areas that some of the records switched on, where they are on.
pub(crate) fn areas<'a>(
    host: &'a Host,
    records: &'a [Record],
    some: impl Iterator<Item = &'a Record> + 'a,
) -> impl Iterator<Item = Result<SwapArea, Error>> + 'a {
    some.filter_map(move |record| match &record.step {
        Step::SwapOn(on) => match on.area(host, records, record) {
            Ok(Area::Ours(swap)) => Some(Ok(swap)),
            Ok(_) => None,
            Err(err) => Some(Err(err)),
        },
        _ => None,
    })
}

impl StepContext<'_> {
    /// Whether the device that this part added is still swapped to by it.
    pub(crate) fn is_in_use(&self) -> Result<bool, Error> {
        let area = areas(self.host, self.records, self.ours()).next();
        Ok(area.transpose()?.is_some())
    }
}

impl SwapOn {
    /// The state of the area of a record of this step.
    pub(crate) fn area(
        &self,
        host: &Host,
        records: &[Record],
        record: &Record,
    ) -> Result<Area, Error> {
        let Some(path) = path_of(host, records, &record.group, &self.device)? else {
            return Ok(Area::Off);
        };
        let mut found = Area::Off;
        if let Some(swap) = host.swap_on(&path)? {
            match thing(host, &path, record) {
                Ok(PathMatch::Other(why)) => found = Area::Others(swap.path, why),
                Ok(PathMatch::Gone | PathMatch::Same) => return Ok(Area::Ours(swap)),
                // An ordinary user, who may not look, goes by the name.
                Err(err) if err.is_denied() && !host.is_root() => {
                    return Ok(Area::Ours(swap));
                }
                // A drive that does not answer is swapped to all the same.
                Err(err) if err.is_timeout() => {
                    found = Area::Others(swap.path, "it does not answer");
                }
                Err(err) => return Err(err),
            }
        }
        // A file may have been moved, and a label be another drive's by now.
        let Some(was) = &record.identity else {
            return Ok(found);
        };
        for swap in host.swaps()? {
            let is_it = match swap.is_file {
                false => identity::is_device_of(host, &swap.path, was)?,
                true => was.file.is_some() && identity::file(host, &swap.path)? == was.file,
            };
            if is_it {
                return Ok(Area::Ours(swap));
            }
        }
        Ok(found)
    }
}

/// Switches an area off: the one place where that is done. What does not fit back
/// is refused before, and looked for while pages come back, since programs grow
/// meanwhile: swapoff is stopped then, and the kernel leaves the area on.
///
/// The command runs beside, since all of its work is one system call. If RAM runs
/// out all the same, the kernel ends swapoff before any other program.
pub(super) fn switch_off(context: &mut StepContext<'_>, path: &Path) -> Result<(), Error> {
    let Some(swap) = context.host.swap_on(path)? else {
        return Ok(());
    };
    // The kernel's own name of it is what everything is compared with.
    let (path, total_bytes) = (&swap.path, swap.used_bytes);
    let areas = [path.clone()];
    let coming = PlannedCapacity::default();
    let is_guarded = !context.force && total_bytes > 0;
    if is_guarded {
        not_held(context.host, false)?;
    }
    for at in 1..=TRIES {
        let mut may_kill = context.force;
        if at > 1 {
            let told = swapoff_check::lift(context.host, &areas)?;
            told.iter()
                .for_each(|text| context.tell(Event::Note { text }));
            may_kill |= !told.is_empty();
        }
        if is_guarded {
            swapoff_check::check_machine(context.host, &areas, coming)?;
            let found = swapoff_check::in_groups(context.host, &areas, coming, 1)?;
            may_kill |= !found.told.is_empty();
            swapoff_check::refuse(found.overfull)?;
        }
        let (result, met) = run_swapoff(context, &swap, is_guarded);
        if context.host.swap_on(path)?.is_none() {
            return Ok(());
        }
        met?;
        if context.is_stopped() {
            let after = format!("{} is still swapped to", path.display());
            return Err(Error::Interrupted { after });
        }
        match result {
            Err(_) if may_kill && at < TRIES => {}
            result => drop(result?),
        }
    }
    Err(Error::malformed(
        "/proc/swaps",
        format!("still lists {} after swapoff", path.display()),
    ))
}

/// Refuses where a program keeps swapoff waiting: one with pages in swap, or any.
fn not_held(host: &Host, by_any: bool) -> Result<(), Error> {
    let Some(program) = programs::holder(host, by_any)? else {
        return Ok(());
    };
    Err(Error::place(
        format!("process {} ({})", program.pid, program.name),
        "it holds the lock of its memory, for which swapoff waits",
        "end it, or the file system that it waits for, and try again",
    ))
}

/// How long nothing came back.
struct Pace {
    left_bytes: u64,
    read_pages: u64,
    /// Since when no page of the area was let go of,
    since: Instant,
    /// and none was read from any.
    unread_since: Instant,
    is_asked: bool,
}

impl Pace {
    fn new(now: Instant) -> Pace {
        Pace {
            left_bytes: u64::MAX,
            read_pages: 0,
            since: now,
            unread_since: now,
            is_asked: false,
        }
    }

    /// Whether fewer pages are left than before.
    fn moves(&mut self, now: Instant, left_bytes: u64, read_pages: u64) -> bool {
        let moves = left_bytes < self.left_bytes;
        if moves {
            (self.since, self.is_asked) = (now, false);
        }
        self.left_bytes = left_bytes;
        if read_pages != self.read_pages {
            (self.read_pages, self.unread_since) = (read_pages, now);
        }
        moves
    }

    /// Whether it is time to ask who keeps swapoff from it. A page that several processes have is
    /// let go of with the last, and meanwhile swapoff itself has the lock of the one that it reads.
    fn is_slow(&mut self, now: Instant) -> bool {
        let stands = now - self.since;
        let is_slow = stands >= SLOW_AFTER && now - self.unread_since >= SLOW_AFTER
            || stands >= SLOW_AFTER * 12;
        let is_first = is_slow && !self.is_asked;
        self.is_asked |= is_slow;
        is_first
    }

    fn is_dead(&self, now: Instant) -> bool {
        now - self.since >= STALLED_AFTER
    }
}

fn dead(path: &Path) -> Error {
    Error::place(
        path,
        "no page came back from it for ten minutes",
        "its drive may be dead: a reboot without it ends that",
    )
}

/// Runs swapoff, unless it turns out that it should not, or cannot, end; what it comes to, and
/// what it met.
fn run_swapoff(
    context: &mut StepContext<'_>,
    swap: &SwapArea,
    is_guarded: bool,
) -> (Result<String, HostError>, Result<(), Error>) {
    let (path, total_bytes) = (&swap.path, swap.used_bytes);
    let (areas, coming) = ([path.clone()], PlannedCapacity::default());
    let (host, stop) = (context.host, context.stop);
    let (ending, ended) = (Ending::default(), AtomicBool::new(false));
    let swapoff = Invocation::new("swapoff").arg(host.path(path)).unlimited();
    let mut met = Ok(());
    let result = std::thread::scope(|scope| {
        let (over, is_over) = channel();
        let (swapoff, ending, ended) = (&swapoff, &ending, &ended);
        let worker = scope.spawn(move || {
            let result = host.run_until(swapoff, ending);
            ended.store(true, Ordering::SeqCst);
            // Nobody listens any more only where this thread's result is awaited.
            let _ = over.send(());
            result
        });
        // However long a look at the groups takes, who asks to stop is heard.
        scope.spawn(move || {
            while !ended.load(Ordering::SeqCst) {
                if stop.is_some_and(|stop| stop.load(Ordering::SeqCst)) {
                    ending.ask();
                    return;
                }
                std::thread::sleep(GUARD_EVERY);
            }
        });
        let mut wait = GUARD_EVERY;
        let mut told = Instant::now();
        let mut asked = None;
        let mut pace = Pace::new(Instant::now());
        let (tell_holder, holder) = channel();
        while is_over.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
            let begin = Instant::now();
            if is_guarded && met.is_ok() {
                let found = swapoff_check::in_groups(host, &areas, coming, 2);
                met = found.and_then(|found| swapoff_check::refuse(found.overfull));
            }
            // Nor does it go on unseen.
            if met.is_err() {
                ending.ask();
            }
            if ending.is_asked() && asked.get_or_insert(begin).elapsed() > HEEDS_WITHIN {
                ending.kill();
            }
            // Many groups take long to look at: a quarter of the time at most.
            wait = GUARD_EVERY.max(begin.elapsed() * 3);
            if told.elapsed() < TELL_EVERY {
                continue;
            }
            told = Instant::now();
            let Ok(Some(swap)) = host.swap_on(path) else {
                continue;
            };
            let (now, left_bytes) = (Instant::now(), swap.used_bytes);
            let read_pages = count(&host.read("/proc/vmstat").unwrap_or_default(), "pswpin");
            if pace.moves(now, left_bytes, read_pages) {
                context.tell(Event::SwappingIn {
                    path,
                    left_bytes,
                    total_bytes,
                });
            } else if pace.is_slow(now) {
                // Asking takes its time, and groups are looked at meanwhile.
                let tell_holder = tell_holder.clone();
                scope.spawn(move || tell_holder.send(not_held(host, true)));
            }
            let found = match pace.is_dead(now) {
                true => Err(dead(path)),
                false => holder.try_recv().unwrap_or(Ok(())),
            };
            // It waits where it hears no signal: it is left alone.
            if found.is_err() && met.is_ok() && !ending.is_asked() {
                met = found;
                ending.kill();
            }
        }
        // Also where the worker did not get as far.
        ended.store(true, Ordering::SeqCst);
        worker
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    (result, met)
}

/// The command with that option. Discarding a whole area takes as long as its drive
/// needs for that.
pub(super) fn discarding(swapon: Invocation, discard: Discard) -> Invocation {
    match discard {
        Discard::None => swapon,
        Discard::Once => swapon.arg("--discard=once").within(DISCARDED_WITHIN),
        Discard::Pages => swapon.arg("--discard=pages"),
        Discard::Both => swapon.arg("--discard").within(DISCARDED_WITHIN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds, bytes that are left and pages that were read, and what comes of them: pages come
    /// back, it is asked who keeps them from it, the drive counts as dead.
    #[test]
    fn who_keeps_pages_is_asked_once_and_a_drive_is_dead_at_last() {
        let begin = Instant::now();
        let mut pace = Pace::new(begin);
        for (seconds, left_bytes, read_pages, expected) in [
            (0, 100, 7, "moves"),
            (1, 90, 7, "moves"),
            (10, 90, 7, ""),
            (11, 90, 7, "asks"),
            (12, 90, 7, ""),
            (20, 80, 7, "moves"),
            // Pages that several have are read and stay.
            (30, 80, 8, ""),
            (39, 80, 8, ""),
            (40, 80, 8, "asks"),
            (50, 70, 8, "moves"),
            (165, 70, 9, ""),
            (170, 70, 10, "asks"),
            (649, 70, 10, ""),
            (650, 70, 10, "is dead"),
        ] {
            let now = begin + Duration::from_secs(seconds);
            let found = match pace.moves(now, left_bytes, read_pages) {
                true => "moves",
                false if pace.is_slow(now) => "asks",
                false if pace.is_dead(now) => "is dead",
                false => "",
            };
            assert_eq!(found, expected, "after {seconds} s");
        }
    }
}
