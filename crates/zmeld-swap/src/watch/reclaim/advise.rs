//! What the kernel is told of the memory of processes, where no control group's file takes
//! it.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};
use zmeld_linux::{process, Host};

/// Tells the kernel that memory of a process is not used. The program brings it along:
/// this crate has no unsafe code, and no safe function has the call. A call may wait for as
/// long as the process's memory is held by somebody: it is made in a thread of its own.
pub trait Advise: Send + Sync {
    /// Holds a process, so that nobody else can have its number meanwhile.
    ///
    /// # Errors
    /// What the system says.
    fn hold(&self, pid: u32) -> io::Result<OwnedFd> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or(Errno::SRCH)?;
        Ok(rustix::process::pidfd_open(pid, PidfdFlags::empty())?)
    }

    /// Forgets that these pages were touched (`MADV_COLD`); the ranges for which all of it
    /// was done. Nothing more is begun at that time.
    ///
    /// # Errors
    /// What the system says, and `ETIMEDOUT` where not all of it was begun by then.
    fn forget(
        &self,
        process: BorrowedFd,
        ranges: &[Range<u64>],
        until: Instant,
    ) -> io::Result<Vec<Range<u64>>>;

    /// Swaps these pages out (`MADV_PAGEOUT`), as far as it can be done.
    ///
    /// # Errors
    /// What the system says.
    fn page_out(&self, process: BorrowedFd, range: Range<u64>) -> io::Result<()>;
}

/// What tells a process from another one of its number, and from the program that it was
/// before it ran another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    began: u64,
    /// Where its code and its stack begin: by chance for each program that is run.
    code: u64,
    stack: u64,
}

impl Identity {
    /// By its `stat`; none where it has ended.
    pub fn of(stat: &str) -> Option<Identity> {
        let fields = process::fields(stat)?;
        let number = |at: usize| fields.get(at).and_then(|it| it.parse().ok()).unwrap_or(0);
        Some(Identity {
            began: process::began(stat)?,
            code: number(23),
            stack: number(25),
        })
    }
}

/// A process that is held.
pub(super) struct Held<'a> {
    advise: &'a dyn Advise,
    process: OwnedFd,
}

impl<'a> Held<'a> {
    /// None where it has ended or runs another program.
    ///
    /// # Errors
    /// When it may not be held.
    pub fn new(
        advise: &'a dyn Advise,
        host: &Host,
        pid: u32,
        identity: Identity,
    ) -> io::Result<Option<Held<'a>>> {
        let process = match advise.hold(pid) {
            Err(err) if is_gone(&err) => return Ok(None),
            held => held?,
        };
        // Who has the number after it is held is who is held.
        let stat = host.read_optional(format!("/proc/{pid}/stat"));
        let now = stat.ok().flatten().and_then(|stat| Identity::of(&stat));
        Ok((now == Some(identity)).then_some(Held { advise, process }))
    }

    /// See [`Advise::forget`]; none where the process has ended, or it came to that time.
    ///
    /// # Errors
    /// When the kernel does not do it.
    pub fn forget(
        &self,
        ranges: &[Range<u64>],
        until: Instant,
    ) -> io::Result<Option<Vec<Range<u64>>>> {
        match self.advise.forget(self.process.as_fd(), ranges, until) {
            Err(err) if is_gone(&err) || is(&err, Errno::TIMEDOUT) => Ok(None),
            done => done.map(Some),
        }
    }

    /// See [`Advise::page_out`]; false where the process has ended.
    ///
    /// # Errors
    /// When the kernel does not do it.
    pub fn page_out(&self, range: Range<u64>) -> io::Result<bool> {
        match self.advise.page_out(self.process.as_fd(), range) {
            Err(err) if is_gone(&err) => Ok(false),
            done => done.map(|()| true),
        }
    }
}

fn is_gone(err: &io::Error) -> bool {
    is(err, Errno::SRCH)
}

pub(super) fn is(err: &io::Error, errno: Errno) -> bool {
    err.raw_os_error() == Some(errno.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_runs_another_one_is_another() {
        let stat = |began: u32, code: u32, stack: u32| {
            format!(
                "7 (a b) S {} {began} 0 0 0 {code} 0 {stack} 0\n",
                "0 ".repeat(18).trim()
            )
        };
        let first = Identity::of(&stat(1, 2, 3)).unwrap();
        assert_eq!(
            first,
            Identity {
                began: 1,
                code: 2,
                stack: 3
            }
        );
        for other in [stat(2, 2, 3), stat(1, 3, 3), stat(1, 2, 4)] {
            assert_ne!(Identity::of(&other), Some(first));
        }
        assert_eq!(Identity::of("7 (a) Z 1"), None);
    }
}
