//! Child processes with known memory, and what every test of live memory needs.
#![allow(dead_code, unused_imports)] // each test file uses a part

#[path = "../../../zmeld-linux/tests/support/group.rs"]
mod group;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::Mutex;

pub use group::Group;
use zmeld_scan::memory::{LiveMemory, LiveOptions, RegionKind, Selection, Source, Visit};

/// Start of every child script: memory by mmap, pages that say which they are.
const PRELUDE: &str = r#"
import mmap, ctypes, os, sys, struct, time, hashlib
PAGE = mmap.PAGESIZE
def private(pages):
    return mmap.mmap(-1, pages * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
def address(m):
    return ctypes.addressof(ctypes.c_char.from_buffer(m))
def page(tag, n):
    return (b"zmeld page %8d %8d " % (tag, n)) * (PAGE // 29) + bytes([n & 255]) * (PAGE % 29)
def fill(m, tag, numbers):
    for n in numbers:
        m[n * PAGE:(n + 1) * PAGE] = page(tag, n)
def protect(m, flags):
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(address(m)), ctypes.c_size_t(len(m)), flags) == 0
def say(*values):
    print(*values, flush=True)
def wait():
    return sys.stdin.readline()
"#;

/// The page that the prelude's `page(tag, n)` makes.
pub fn page(tag: u64, n: u64) -> Vec<u8> {
    let size = page_size();
    let word = format!("zmeld page {tag:8} {n:8} ").into_bytes();
    assert_eq!(word.len(), 29);
    let mut page = word.repeat(size / 29);
    page.resize(size, n as u8);
    page
}

pub fn page_size() -> usize {
    rustix::param::page_size()
}

/// CAP_SETUID and CAP_SYS_ADMIN: root of a container that lacks them counts as any other user.
const PRIVILEGES: u64 = 1 << 7 | 1 << 21;

pub fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let effective = zmeld_linux::process::status(&status, "CapEff").unwrap();
    let effective = u64::from_str_radix(effective, 16).unwrap();
    rustix::process::geteuid().is_root() && effective & PRIVILEGES == PRIVILEGES
}

/// A child that is killed and waited for when the test is done, however it ends.
pub struct Script {
    pub child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Script {
    /// Starts a script; `None`, with the reason printed, where there is no python3.
    pub fn start(script: &str) -> Option<Script> {
        Self::start_with(Command::new("python3"), script, &[])
    }

    /// `command` is python3 or something that runs it; `more` are arguments for the script.
    pub fn start_with(mut command: Command, script: &str, more: &[&str]) -> Option<Script> {
        let command = command.arg("-c").arg(format!("{PRELUDE}{script}"));
        let command = command.args(more);
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let Ok(mut child) = spawned else {
            println!("SKIP: python3 is not there");
            return None;
        };
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Some(Script { child, lines })
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// The next line of numbers that the script says.
    pub fn numbers(&mut self) -> Vec<u64> {
        let line = self
            .lines
            .next()
            .expect("the script says something")
            .unwrap();
        line.split(' ').map(|word| word.parse().unwrap()).collect()
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.kill();
    }
}

pub struct Seen {
    /// By address of the page and process: kind, contents.
    pub pages: BTreeMap<(i32, u64), (RegionKind, Vec<u8>)>,
    /// Pages marked as maybe shared.
    pub maybe_shared: u64,
    pub visit: Visit,
}

impl Seen {
    /// The pages of a mapping of `pages` pages at `start`, by index.
    pub fn at(&self, start: u64, pages: u64) -> BTreeMap<u64, &(RegionKind, Vec<u8>)> {
        let size = page_size() as u64;
        self.pages
            .iter()
            .filter(|((_, address), _)| (start..start + pages * size).contains(address))
            .map(|((_, address), page)| ((address - start) / size, page))
            .collect()
    }
}

pub fn live(selection: Selection) -> LiveMemory {
    LiveMemory::open(LiveOptions::new(selection)).unwrap()
}

/// Visits and keeps everything. Fails if a page comes twice.
pub fn see(source: &dyn Source, threads: usize) -> Seen {
    let size = source.page_size();
    let pages = Mutex::new(BTreeMap::new());
    let marked = Mutex::new(0);
    let visit = source
        .visit(threads, &AtomicBool::new(false), &|batch| {
            assert!(!batch.bytes.is_empty() && batch.bytes.len() % size == 0);
            if let Some(flags) = batch.maybe_shared {
                assert_eq!(flags.len(), batch.bytes.len() / size);
                *marked.lock().unwrap() += flags.iter().filter(|&&flag| flag).count() as u64;
            }
            for (n, bytes) in (batch.first_page..).zip(batch.bytes.chunks(size)) {
                let twice = pages
                    .lock()
                    .unwrap()
                    .insert((batch.region, n), (batch.kind, bytes.to_vec()));
                assert!(twice.is_none(), "page {n} of {:?} came twice", batch.region);
            }
        })
        .unwrap();
    let pages: BTreeMap<_, _> = pages
        .into_inner()
        .unwrap()
        .into_iter()
        .map(|((region, n), page)| {
            let region = &visit.regions[region.0 as usize];
            assert_eq!(region.kind, page.0);
            let pid = match &region.owner {
                zmeld_scan::memory::Owner::Process { pid, .. } => *pid,
                _ => 0,
            };
            ((pid, region.start + n * size as u64), page)
        })
        .collect();
    assert_eq!(pages.len() as u64, visit.counted.delivered);
    Seen {
        pages,
        maybe_shared: marked.into_inner().unwrap(),
        visit,
    }
}
