//! When to stay out of the way: where others wait for memory, and by giving way to
//! everybody for the processor and the disk.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use thread_priority::unix::{
    set_thread_priority_and_policy, thread_native_id, NormalThreadSchedulePolicy,
    ThreadSchedulePolicy,
};
use thread_priority::ThreadPriority;
use zmeld_linux::meminfo::{self, Meminfo};
use zmeld_linux::{pressure, Host};

use crate::survey::Error;

pub const PATH: &str = "/proc/pressure/memory";

/// Some task waited for memory so much of the last 10 seconds, in percent.
pub const SOME_PERCENT: f64 = 10.0;
/// All tasks did.
pub const FULL_PERCENT: f64 = 2.0;

const EVERY: Duration = Duration::from_secs(1);

/// Looks now and then whether memory is short.
pub struct Watch<'a> {
    host: &'a Host,
    looked: Mutex<Instant>,
}

impl<'a> Watch<'a> {
    /// Looks for the first time.
    ///
    /// # Errors
    /// When memory is short.
    pub fn new(host: &'a Host) -> Result<Watch<'a>, Error> {
        check(host)?;
        Ok(Watch {
            host,
            looked: Mutex::new(Instant::now()),
        })
    }

    /// Looks again if it is time.
    ///
    /// # Errors
    /// When memory is short.
    pub fn look(&self) -> Result<(), Error> {
        let mut looked = self.looked.lock().expect("no panic");
        if looked.elapsed() < EVERY {
            return Ok(());
        }
        *looked = Instant::now();
        check(self.host)
    }
}

/// Whether the kernel says who waits for memory.
pub fn is_told(host: &Host) -> bool {
    let text = host.read(PATH);
    text.is_ok_and(|text| pressure::line(&text, "some").is_some())
}

/// Fails if memory is short. A kernel that does not say passes; and tasks that wait while a fifth of
/// RAM is available wait at the limit of their own control group.
fn check(host: &Host) -> Result<(), Error> {
    let text = host.read(meminfo::PATH).unwrap_or_default();
    let memory = Meminfo::new(&text);
    let both = memory.available_bytes().zip(memory.total_bytes());
    if both.is_some_and(|(available, total)| meminfo::is_enough(available, total)) {
        return Ok(());
    }
    let text = host.read(PATH).unwrap_or_default();
    for (what, most) in [("some", SOME_PERCENT), ("full", FULL_PERCENT)] {
        let stall = pressure::line(&text, what).unwrap_or_default();
        let percent = stall.avg10_percent;
        if percent >= most {
            return Err(Error::Pressure { what, percent });
        }
    }
    Ok(())
}

/// This thread, and those that it starts, run where nobody else wants to, and so do
/// their disk accesses: the kernel takes the class of both from the scheduling policy
/// (`task_nice_ioclass`). Where the system refuses, it runs as it did.
pub fn be_idle() -> bool {
    set_thread_priority_and_policy(
        thread_native_id(),
        ThreadPriority::Min,
        ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle),
    )
    .is_ok()
}

/// Makes this process the first to be ended where memory runs out: the survey of tomorrow is as
/// good. Returns false if the system refuses.
pub fn be_first_to_go(host: &Host) -> bool {
    host.write("/proc/self/oom_score_adj", "1000").is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn short_memory_is_told_with_its_figure() {
        let (_dir, host) = Host::planted(&[]);
        assert!(check(&host).is_ok() && !is_told(&host));
        let say = |some: f64, full: f64| {
            let line = |kind, x| format!("{kind} avg10={x:.2} avg60=0.00 avg300=0.00 total=1\n");
            let text = line("some", some) + &line("full", full);
            host.plant("/proc/pressure/memory", text);
            check(&host).map_err(|err| err.to_string())
        };
        assert!(say(9.99, 1.99).is_ok() && is_told(&host));
        let some = say(10.0, 0.0).unwrap_err();
        assert!(some.contains("some 10 %"), "{some}");
        let full = say(5.0, 2.5).unwrap_err();
        assert!(
            full.contains("full 2.5 %") && full.contains("try again later"),
            "{full}"
        );
        let available = |kib| {
            let text = format!("MemTotal: 1000 kB\nMemAvailable: {kib} kB\n");
            host.plant(meminfo::PATH, text);
            check(&host).is_ok()
        };
        assert!(!available(199) && available(200));
    }

    #[test]
    fn this_thread_can_be_idle() {
        std::thread::spawn(|| {
            let stat = || fs::read_to_string("/proc/thread-self/stat").unwrap();
            let before = stat();
            // Field 19 is its niceness, which only the privileged take back.
            let is_nice = zmeld_linux::process::fields(&before).unwrap()[19 - 3] != "0";
            if !be_idle() && is_nice {
                return;
            }
            let stat = stat();
            let fields = zmeld_linux::process::fields(&stat).unwrap();
            // Field 41 of stat, policy: 5 is SCHED_IDLE; fields begin with the third.
            assert_eq!(fields[41 - 3], "5");
        })
        .join()
        .unwrap();
    }
}
