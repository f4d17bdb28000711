//! Reading the memory of another process, through `/proc/PID/mem`.
//!
//! Not by `process_vm_readv`, although that costs about a quarter less processor
//! time: it pins pages, and since Linux 6.0 pinning a page that is shared by
//! fork or merged by KSM first gives the process a copy of its own. Looking for
//! what could be shared would undo what is shared already. `/proc/PID/mem` only
//! borrows the page. It also names the address space itself, so a process that
//! gets the same number later is never read by mistake.
//!
//! A stretch that fails is taken up again behind the failing page, so one bad
//! page costs one page.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessGone;

/// Reads all stretches, of an address and so many bytes, one behind the other, into
/// `out`, which they fill exactly. `failed` is told the index in `out` of each page that could not be
/// read; its bytes are left as they were.
pub(crate) fn read(
    mem: &File,
    stretches: impl Iterator<Item = (u64, usize)>,
    page_size: usize,
    out: &mut [u8],
    mut failed: impl FnMut(usize),
) -> Result<(), ProcessGone> {
    let mut at = 0;
    for (mut address, bytes) in stretches {
        let end = at + bytes;
        while at < end {
            let read = match mem.read_at(&mut out[at..end], address) {
                // The address space has ended.
                Ok(0) => return Err(ProcessGone),
                // Whole pages only: the page in which it stopped is tried again.
                Ok(n) => n / page_size * page_size,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => 0,
            };
            if read == 0 {
                failed(at / page_size);
            }
            let step = read.max(page_size);
            at += step;
            address += step as u64;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three stretches, the middle one where nothing is mapped.
    #[test]
    fn a_bad_page_costs_one_page() {
        let page = rustix::param::page_size();
        let data: Vec<u8> = (0..8 * page).map(|i| (i / 7) as u8).collect();
        let start = data.as_ptr().align_offset(page);
        let good = &data[start..start + 7 * page];
        let address = good.as_ptr() as u64;
        let mut out = vec![0xee; 8 * page];
        let mut failed = Vec::new();
        let stretches = [
            (address, 3),
            (page as u64, 1),
            (address + 3 * page as u64, 4),
        ]
        .map(|(address, pages)| (address, pages * page));
        let mem = File::open("/proc/self/mem").unwrap();
        read(&mem, stretches.into_iter(), page, &mut out, |at| {
            failed.push(at)
        })
        .unwrap();
        assert_eq!(failed, [3]);
        assert!(out[..3 * page] == good[..3 * page]);
        assert!(out[3 * page..4 * page].iter().all(|&b| b == 0xee));
        assert!(out[4 * page..] == good[3 * page..]);
    }
}
