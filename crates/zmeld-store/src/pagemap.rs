//! Pages of a process, asked of the kernel (`PAGEMAP_SCAN`, from Linux 6.7 on), which passes what
//! is only reserved over by whole tables. Here since no crate offers it without unsafe code.

use std::fs::File;
use std::io;
use std::ops::Range;

use rustix::ioctl::{ioctl, opcode, Opcode, Updater};

/// `struct pm_scan_arg` of linux/fs.h.
#[repr(C)]
#[derive(Default)]
struct ScanArguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_len: u64,
    pages_max: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region` there.
#[repr(C)]
#[derive(Default)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

/// `PAGE_IS_PRESENT` and `PAGE_IS_SWAPPED`.
const POPULATED: u64 = 1 << 3 | 1 << 4;
const PAGEMAP_SCAN: Opcode = opcode::read_write::<ScanArguments>(b'f', 16);

/// The first of these addresses whose pages are in RAM or in swap, up to so many pages; none
/// where all are only reserved. `pagemap` is a process's.
///
/// # Errors
/// If the kernel does not tell it, or the process is gone.
pub fn populated(
    pagemap: &File,
    addresses: Range<u64>,
    pages_max: u64,
) -> io::Result<Option<Range<u64>>> {
    let mut region = PageRegion::default();
    let mut arguments = ScanArguments {
        size: size_of::<ScanArguments>() as u64,
        start: addresses.start,
        end: addresses.end,
        regions: &raw mut region as u64,
        regions_len: 1,
        pages_max,
        category_anyof_mask: POPULATED,
        return_mask: POPULATED,
        ..ScanArguments::default()
    };
    // SAFETY: the opcode takes these arguments; it writes them, and one region, which outlives
    // the call, at the address that they name.
    unsafe {
        let scan: Updater<'_, PAGEMAP_SCAN, _> = Updater::new(&mut arguments);
        ioctl(pagemap, scan)?;
    }
    // SAFETY: as any place of the function's own; the compiler does not know who wrote it.
    let region = unsafe { (&raw const region).read_volatile() };
    Ok((region.end > region.start).then_some(region.start..region.end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_that_were_touched_are_populated() {
        let page = crate::page_size();
        let mut memory = vec![0u8; 600 << 20];
        let start = memory.as_ptr() as usize;
        let touched = start.next_multiple_of(page) + (300 << 20);
        memory[touched - start] = 1;
        let pagemap = File::open("/proc/self/pagemap").unwrap();
        let after = (start.next_multiple_of(page) + (2 << 20)) as u64;
        let Ok(found) = populated(&pagemap, after..(start + memory.len()) as u64, 1000) else {
            println!("SKIP: this kernel has no PAGEMAP_SCAN");
            return;
        };
        let found = found.unwrap();
        // A huge page may have come with it.
        assert!(found.contains(&(touched as u64)), "{found:x?} {touched:x}");
        assert!(found.end - found.start <= 4 << 20);
        assert_eq!(
            populated(&pagemap, after..after + (64 << 20), 9).unwrap(),
            None
        );
    }
}
