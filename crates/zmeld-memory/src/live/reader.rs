//! Reading the memory of another process.
//!
//! `process_vm_readv` gathers many stretches in one call; where the kernel or a
//! sandbox refuses it, `/proc/PID/mem` is read instead. A stretch that fails is
//! taken up again behind the failing page, so one bad page costs one page.

use std::fs::File;
use std::io::IoSliceMut;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::sys::uio::{process_vm_readv, RemoteIoVec};
use nix::unistd::Pid;
use procfs::process::Process;

/// The kernel takes at most this many stretches in one call.
const STRETCHES_MAX: usize = 1024;

pub(crate) struct Reader {
    pid: Pid,
    process: Process,
    gather_refused: AtomicBool,
    mem: OnceLock<Option<File>>,
}

/// Consecutive pages to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) address: u64,
    pub(crate) bytes: usize,
}

/// What became of a page that could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// This page only.
    Page,
    /// The process is gone.
    Gone,
    /// The process may not be read.
    Denied,
}

impl Reader {
    pub(crate) fn new(process: Process) -> Self {
        Reader {
            pid: Pid::from_raw(process.pid()),
            process,
            gather_refused: AtomicBool::new(false),
            mem: OnceLock::new(),
        }
    }

    /// Reads all stretches, one behind the other, into `out`, which they fill
    /// exactly. `failed` is told the index in `out` of each page that could not
    /// be read; its bytes are left as they were. Stops at once when the process
    /// as a whole cannot be read, and returns why.
    pub(crate) fn read(
        &self,
        stretches: &[Stretch],
        page_size: usize,
        out: &mut [u8],
        mut failed: impl FnMut(usize),
    ) -> Result<(), Failure> {
        let mut rest: Vec<Stretch> = stretches.to_vec();
        let mut from = 0; // the first stretch not read yet
        let mut done = 0; // bytes of `out`
        while from < rest.len() {
            let until = rest.len().min(from + STRETCHES_MAX);
            let wanted: usize = rest[from..until].iter().map(|s| s.bytes).sum();
            let result = self.read_some(&rest[from..until], &mut out[done..done + wanted]);
            // Whole pages only: the page in which it stopped is tried again.
            let read = result.unwrap_or(0) / page_size * page_size;
            done += read;
            advance(&mut rest, &mut from, read);
            if read == wanted {
                continue;
            }
            match result {
                Err(Failure::Page) => {
                    failed(done / page_size);
                    done += page_size;
                    advance(&mut rest, &mut from, page_size);
                }
                Err(failure) => return Err(failure),
                // Cut short: the next round fails at its first page or goes on.
                Ok(0) => {
                    failed(done / page_size);
                    done += page_size;
                    advance(&mut rest, &mut from, page_size);
                }
                Ok(_) => {}
            }
        }
        Ok(())
    }

    fn read_some(&self, stretches: &[Stretch], out: &mut [u8]) -> Result<usize, Failure> {
        if !self.gather_refused.load(Ordering::Relaxed) {
            let remote: Vec<RemoteIoVec> = stretches
                .iter()
                .map(|s| RemoteIoVec {
                    base: s.address as usize,
                    len: s.bytes,
                })
                .collect();
            match process_vm_readv(self.pid, &mut [IoSliceMut::new(out)], &remote) {
                Ok(n) => return Ok(n),
                Err(Errno::ESRCH) => return Err(Failure::Gone),
                Err(Errno::ENOSYS | Errno::EPERM) => {
                    self.gather_refused.store(true, Ordering::Relaxed)
                }
                Err(_) => return Err(Failure::Page),
            }
        }
        let mem = self.mem.get_or_init(|| self.process.mem().ok());
        let mem = mem.as_ref().ok_or(Failure::Denied)?;
        let first = stretches[0];
        match mem.read_at(&mut out[..first.bytes], first.address) {
            Ok(0) => Err(Failure::Gone),
            Ok(n) => Ok(n),
            Err(_) => Err(Failure::Page),
        }
    }
}

/// Takes `bytes` off the front of the stretches.
fn advance(rest: &mut [Stretch], from: &mut usize, mut bytes: usize) {
    while bytes > 0 {
        let stretch = &mut rest[*from];
        let taken = bytes.min(stretch.bytes);
        stretch.address += taken as u64;
        stretch.bytes -= taken;
        bytes -= taken;
        if stretch.bytes == 0 {
            *from += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_reader(gather: bool) -> Reader {
        let reader = Reader::new(Process::myself().unwrap());
        reader.gather_refused.store(!gather, Ordering::Relaxed);
        reader
    }

    /// Three stretches, the middle one where nothing is mapped.
    #[test]
    fn a_bad_page_costs_one_page_both_ways() {
        let page = rustix::param::page_size();
        let data: Vec<u8> = (0..8 * page).map(|i| (i / 7) as u8).collect();
        let start = data.as_ptr().align_offset(page);
        let good = &data[start..start + 7 * page];
        let address = good.as_ptr() as u64;
        for gather in [true, false] {
            let mut out = vec![0xee; 8 * page];
            let mut failed = Vec::new();
            own_reader(gather)
                .read(
                    &[
                        Stretch {
                            address,
                            bytes: 3 * page,
                        },
                        Stretch {
                            address: page as u64,
                            bytes: page,
                        },
                        Stretch {
                            address: address + 3 * page as u64,
                            bytes: 4 * page,
                        },
                    ],
                    page,
                    &mut out,
                    |at| failed.push(at),
                )
                .unwrap();
            assert_eq!(failed, [3], "gather {gather}");
            assert!(out[..3 * page] == good[..3 * page]);
            assert!(out[3 * page..4 * page].iter().all(|&b| b == 0xee));
            assert!(out[4 * page..] == good[3 * page..]);
        }
    }

    #[test]
    fn a_process_that_is_gone_is_told_from_a_bad_page() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let reader = Reader::new(Process::new(i32::try_from(child.id()).unwrap()).unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        let mut out = vec![0; 4096];
        let gone = reader.read(
            &[Stretch {
                address: 4096,
                bytes: 4096,
            }],
            4096,
            &mut out,
            |_| {},
        );
        assert_eq!(gone, Err(Failure::Gone));
    }
}
