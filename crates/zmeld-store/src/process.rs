//! Memory of a process that was killed, taken at once (`process_mrelease`, from Linux 5.15 on).
//! Here since no crate offers it without unsafe code.

use std::ffi::{c_int, c_long, c_uint};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The same on all architectures that have it, but Alpha and MIPS.
const PROCESS_MRELEASE: c_long = 448;

extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
}

/// Takes the memory of a process that was killed and goes on its way out only when it is let run.
/// It may wait for who changes that memory.
///
/// # Errors
/// If the kernel has no such call (`ENOSYS`), the process is gone (`ESRCH`), was not killed, or
/// shares its memory with one that was not (`EINVAL`).
pub fn release_memory(process: &impl AsFd) -> io::Result<()> {
    let fd: c_int = process.as_fd().as_raw_fd();
    // SAFETY: the call takes a descriptor, which is borrowed until it returns, and flags, of which
    // there are none; it reads and writes no memory of this process.
    match unsafe { syscall(PROCESS_MRELEASE, fd, 0 as c_uint) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::process::{pidfd_open, pidfd_send_signal, Pid, PidfdFlags, Signal};

    use super::*;

    #[test]
    fn memory_is_released_of_what_was_killed_alone() {
        let mut child = Command::new("sleep").arg("300").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let fd = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        let lives = release_memory(&fd).unwrap_err();
        if lives.raw_os_error() == Some(rustix::io::Errno::NOSYS.raw_os_error()) {
            println!("SKIP: this kernel has no process_mrelease");
        } else {
            assert_eq!(lives.kind(), io::ErrorKind::InvalidInput);
            pidfd_send_signal(&fd, Signal::KILL).unwrap();
            let released = release_memory(&fd);
            let is_gone = |err: &io::Error| {
                err.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
            };
            assert!(
                released.is_ok() || released.as_ref().is_err_and(is_gone),
                "{released:?}"
            );
        }
        let _ = child.kill();
        child.wait().unwrap();
    }
}
