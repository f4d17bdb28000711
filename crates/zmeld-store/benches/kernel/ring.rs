//! Many requests handed over by one system call: of a page each, what swap looks
//! like to a block device, without a system call for every page; or of many pages,
//! as file systems and the swap-out of large folios send them.
//!
//! These are the kernel's own asynchronous requests (io_submit). io_uring would
//! first ask the device not to wait, which neither driver offers, and then send
//! each request through another thread.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr;

use zmeld_store::page_size;

/// Pages handed over together.
pub const DEPTH: usize = 64;

/// One request: which pages of the device, and whether they are written.
#[derive(Clone, Copy)]
pub struct Request {
    /// First page of the device.
    pub slot: usize,
    /// How many, side by side.
    pub pages: usize,
    /// Written from the buffer rather than read into it.
    pub write: bool,
}

/// `struct iocb` of the kernel's linux/aio_abi.h on a little-endian machine.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ControlBlock {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_file: u32,
}

/// `struct io_event` of the same header.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    object: u64,
    result: i64,
    result2: i64,
}

const READ: u16 = 0;
const WRITE: u16 = 1;

/// A job's queue, with a buffer for as many pages as it takes.
pub struct Ring {
    context: libc::c_ulong,
    memory: Vec<u8>,
    start: usize,
    blocks: [ControlBlock; DEPTH],
    events: [Event; DEPTH],
}

impl Ring {
    pub fn new() -> Result<Ring, String> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes one word, the context's number, to a word.
        let made =
            unsafe { libc::syscall(libc::SYS_io_setup, DEPTH as libc::c_uint, &raw mut context) };
        if made != 0 {
            return Err(format!(
                "the kernel takes no asynchronous requests: {}",
                std::io::Error::last_os_error()
            ));
        }
        let memory = vec![0; (DEPTH + 1) * page_size()];
        let address = memory.as_ptr().addr();
        let start = address.next_multiple_of(page_size()) - address;
        Ok(Ring {
            context,
            memory,
            start,
            blocks: [ControlBlock::default(); DEPTH],
            events: [Event::default(); DEPTH],
        })
    }

    /// The buffer of the page at this place in a batch.
    pub fn buffer(&mut self, place: usize) -> &mut [u8] {
        &mut self.memory[self.start + place * page_size()..][..page_size()]
    }

    /// Runs requests of up to `DEPTH` pages in all, each with the buffers of its pages.
    pub fn run(&mut self, file: &File, requests: &[Request]) -> Result<(), String> {
        let count = requests.len();
        let mut place = 0;
        for (number, request) in requests.iter().enumerate() {
            let buffer = self.buffer(place).as_mut_ptr().expose_provenance() as u64;
            place += request.pages;
            assert!(place <= DEPTH, "a batch has a buffer for each page");
            self.blocks[number] = ControlBlock {
                data: number as u64,
                opcode: if request.write { WRITE } else { READ },
                file: file.as_raw_fd() as u32,
                buffer,
                bytes: (request.pages * page_size()) as u64,
                offset: (request.slot * page_size()) as i64,
                ..ControlBlock::default()
            };
        }
        let mut pointers = [ptr::null_mut::<ControlBlock>(); DEPTH];
        for (pointer, block) in pointers.iter_mut().zip(&mut self.blocks) {
            *pointer = block;
        }
        // SAFETY: the control blocks, the buffers they name and the file outlive
        // the requests: all that were taken have completed when this function
        // returns, and `self` is borrowed until then.
        let taken =
            unsafe { libc::syscall(libc::SYS_io_submit, self.context, count, &raw mut pointers) };
        assert_eq!(
            taken,
            count as i64,
            "the kernel took fewer requests than it has room for: {}",
            std::io::Error::last_os_error()
        );
        // SAFETY: the kernel writes at most `count` events to an array of `DEPTH`.
        let completed = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                count,
                count,
                &raw mut self.events,
                ptr::null_mut::<libc::timespec>(),
            )
        };
        assert_eq!(completed, count as i64, "all requests complete");
        let wrong = self.events[..count].iter().find(|event| {
            let pages = requests[event.data as usize].pages;
            event.result != (pages * page_size()) as i64
        });
        match wrong {
            None => Ok(()),
            Some(event) => {
                let request = requests[event.data as usize];
                Err(format!(
                    "{} page {}: result {}",
                    if request.write { "write" } else { "read" },
                    request.slot,
                    event.result
                ))
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the context is this ring's own, and nothing is in flight.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}
