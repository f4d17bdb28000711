//! Child processes with known memory.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

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
    let size = rustix::param::page_size();
    let word = format!("zmeld page {tag:8} {n:8} ").into_bytes();
    assert_eq!(word.len(), 29);
    let mut page = word.repeat(size / 29);
    page.resize(size, n as u8);
    page
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
