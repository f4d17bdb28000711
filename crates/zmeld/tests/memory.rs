//! How much memory a scan takes itself. Alone in its process, so that the
//! largest child is the scan.

use std::io::Write;
use std::process::{Command, Stdio};

use nix::sys::resource::{getrusage, UsageWho};

const PAGE: usize = 4096;
const PAGES: u64 = 262_144;
/// Code, buffers of each thread, the sample, the sampler's bitmap.
const FIXED: u64 = 64 << 20;

#[test]
fn a_scan_takes_24_bytes_a_page_and_a_fixed_amount() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_zmeld"))
        .args([
            "scan",
            "--file",
            "-",
            "--codecs",
            "lz4",
            "--threads",
            "2",
            "--json",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut chunk = vec![0; 256 * PAGE];
    for first in (0..PAGES).step_by(256) {
        for (at, page) in chunk.chunks_exact_mut(PAGE).enumerate() {
            page[..8].copy_from_slice(&(first + at as u64 + 1).to_le_bytes());
        }
        input.write_all(&chunk).unwrap();
    }
    drop(input);
    assert!(child.wait().unwrap().success());
    let peak = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss() as u64 * 1024;
    eprintln!(
        "{PAGES} distinct pages: peak {:.1} MiB, of it {:.1} MiB are 24 bytes a page",
        peak as f64 / (1 << 20) as f64,
        (24 * PAGES) as f64 / (1 << 20) as f64
    );
    assert!(peak <= 24 * PAGES + FIXED, "{peak} bytes");
}
