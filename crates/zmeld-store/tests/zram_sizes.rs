//! Our codecs against the kernel's: a zram device is added, pages are written
//! to it one by one, and what each of them adds to the device's
//! `compr_data_size` must be the size that our codec makes of it.
//!
//! Needs root and zram; without them it says so and passes. Only a device that
//! this test added is ever touched, and it is removed at the end.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use zmeld_store::codec::codecs;
use zmeld_store::{ChainRule, Codec, Geometry, Stream};

#[path = "support/random.rs"]
mod random;
#[path = "../../zmeld-linux/tests/support/turn.rs"]
mod turn;
#[path = "support/zram.rs"]
mod zram;

use random::Random;
use zram::Device;

/// One page of memory where direct input and output can use it.
struct PageBuffer {
    memory: Vec<u8>,
    start: usize,
    size: usize,
}

impl PageBuffer {
    fn new(size: usize) -> PageBuffer {
        let memory = vec![0; 2 * size];
        let start = memory.as_ptr().addr().next_multiple_of(size) - memory.as_ptr().addr();
        PageBuffer {
            memory,
            start,
            size,
        }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.size]
    }
}

/// The pool whose geometry explains that pages of up to `kept_max` bytes are
/// kept compressed and pages from `raw_min` on are stored as they are.
fn pool_that_fits(
    page_size: usize,
    kept_max: usize,
    raw_min: usize,
) -> Option<(u32, ChainRule, u32)> {
    let page_size = u32::try_from(page_size).expect("a page fits 32 bits");
    let rules = [ChainRule::LeastWaste, ChainRule::BestPercent];
    (4..=16)
        .flat_map(|chain| rules.map(|rule| (chain, rule)))
        .map(|(chain, rule)| {
            let geometry = Geometry::new(page_size, chain, rule).expect("such pools exist");
            (chain, rule, geometry.huge_size())
        })
        .find(|(_, _, raw_from)| (kept_max + 1..=raw_min).contains(&(*raw_from as usize)))
}

fn system_page_size() -> usize {
    let auxiliary = fs::read("/proc/self/auxv").expect("the auxiliary vector can be read");
    const AT_PAGESZ: usize = 6;
    auxiliary
        .chunks_exact(2 * size_of::<usize>())
        .map(|pair| {
            let (key, value) = pair.split_at(size_of::<usize>());
            let word = |bytes: &[u8]| usize::from_ne_bytes(bytes.try_into().expect("a word"));
            (word(key), word(value))
        })
        .find(|(key, _)| *key == AT_PAGESZ)
        .expect("the system says its page size")
        .1
}

/// Pages as programs leave them: pointers, runs of zeros, repeats, noise.
fn made_pages(page_size: usize, count: usize) -> Vec<Vec<u8>> {
    let mut random = Random(0x006d_656c_6400);
    let make = |kind: usize| {
        let mut page = vec![0u8; page_size];
        match kind % 6 {
            0 => {
                for word in page.chunks_exact_mut(8) {
                    if random.below(2) == 0 {
                        let pointer = 0x7f00_0000_0000 + random.next() % (1 << 24);
                        word.copy_from_slice(&pointer.to_le_bytes());
                    }
                }
            }
            1 => {
                let mut at = 0;
                while at < page_size {
                    at += random.below(300);
                    let end = (at + random.below(40)).min(page_size);
                    for byte in &mut page[at.min(end)..end] {
                        *byte = random.next() as u8;
                    }
                    at = end;
                }
            }
            2 => page.fill_with(|| random.next() as u8),
            3 => page[random.below(page_size)] = 1,
            4 => {
                let period = 1 + random.below(40);
                let pattern: Vec<u8> = (0..period).map(|_| random.next() as u8).collect();
                for (at, byte) in page.iter_mut().enumerate() {
                    *byte = pattern[at % period];
                }
                for _ in 0..random.below(6) {
                    page[random.below(page_size)] ^= 1;
                }
            }
            // Noise and zeros, to meet the sizes around the raw threshold.
            _ => {
                let noise = page_size - random.below(page_size / 4);
                page[..noise].fill_with(|| random.next() as u8);
            }
        }
        page
    };
    (0..count).map(make).collect()
}

fn pages_of(path: &Path, page_size: usize, count_max: usize) -> Vec<Vec<u8>> {
    let Ok(bytes) = fs::read(path) else {
        return Vec::new();
    };
    let pages = bytes.chunks_exact(page_size);
    let step = (pages.len() / count_max).max(1);
    pages
        .step_by(step)
        .take(count_max)
        .map(<[u8]>::to_vec)
        .collect()
}

fn real_pages(page_size: usize) -> Vec<Vec<u8>> {
    let own = std::env::current_exe().expect("the test has a file");
    let mut pages = pages_of(&own, page_size, 1500);
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    if let Some(libc) = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .find(|path| path.contains("libc.so") || path.contains("libc-"))
    {
        pages.extend(pages_of(Path::new(libc), page_size, 500));
    }
    let mut programs: Vec<_> = fs::read_dir("/usr/bin")
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    programs.sort();
    for program in programs {
        if pages.len() >= 6000 {
            break;
        }
        pages.extend(pages_of(&program, page_size, 20));
    }
    pages
}

fn is_same_filled(page: &[u8]) -> bool {
    let word = size_of::<usize>();
    page[word..] == page[..page.len() - word]
}

/// What came of one codec's pages.
#[derive(Default)]
struct Outcome {
    pages: usize,
    pages_differing: usize,
    bytes_ours: u64,
    bytes_device: u64,
    /// Compressed sizes between which the device began to store pages raw.
    kept_max: usize,
    raw_min: Option<usize>,
    first_difference: Option<String>,
}

fn compare(device: &Device, algorithm: &str, pages: &[Vec<u8>]) -> io::Result<Outcome> {
    let page_size = pages[0].len();
    device.set("reset", "1")?;
    device.set("comp_algorithm", algorithm)?;
    device.set("disksize", &(pages.len() * page_size).to_string())?;
    let file = device.open()?;
    let codec = Codec::new(algorithm, None, None).expect("the codec is ours");
    let mut stream = Stream::new(&codec).expect("there is memory for a stream");
    let mut buffer = PageBuffer::new(page_size);
    let mut object = vec![0; 2 * page_size];
    let mut outcome = Outcome::default();
    let mut before = device.bytes_stored();
    for (index, page) in pages.iter().enumerate() {
        buffer.bytes().copy_from_slice(page);
        file.write_all_at(buffer.bytes(), (index * page_size) as u64)?;
        let after = device.bytes_stored();
        let grown = (after - before) as usize;
        before = after;

        let ours = if is_same_filled(page) {
            0
        } else {
            let size = stream
                .compress(page, &mut object)
                .expect("two pages hold one");
            if grown == page_size {
                outcome.raw_min = Some(outcome.raw_min.map_or(size, |min| min.min(size)));
                page_size
            } else {
                outcome.kept_max = outcome.kept_max.max(size);
                size
            }
        };
        outcome.pages += 1;
        outcome.bytes_ours += ours as u64;
        outcome.bytes_device += grown as u64;
        if ours != grown {
            outcome.pages_differing += 1;
            outcome
                .first_difference
                .get_or_insert_with(|| format!("page {index}: {ours} bytes here, {grown} there"));
        }
    }
    // What the device gives back is what was written, so sizes were of these.
    for index in [0, pages.len() / 2, pages.len() - 1] {
        file.read_exact_at(buffer.bytes(), (index * page_size) as u64)?;
        assert!(
            buffer.bytes() == pages[index],
            "the device changed page {index}"
        );
    }
    Ok(outcome)
}

#[test]
fn a_page_takes_as_many_bytes_here_as_in_zram() {
    let device = match Device::add() {
        Ok(device) => device,
        Err(reason) => {
            eprintln!("SKIP: {reason}");
            return;
        }
    };
    let page_size = system_page_size();
    let mut pages = real_pages(page_size);
    pages.extend(made_pages(page_size, 1800));

    let offered = device.algorithms().expect("comp_algorithm can be read");
    let ours: Vec<_> = codecs()
        .into_iter()
        .filter(|codec| offered.iter().any(|name| name == codec.name))
        .collect();
    for codec in ours {
        let outcome = match compare(&device, codec.name, &pages) {
            Ok(outcome) => outcome,
            Err(error) => {
                eprintln!(
                    "SKIP: {} on {}{}: {error}",
                    codec.name, device.driver, device.id
                );
                continue;
            }
        };
        let Outcome {
            bytes_ours,
            bytes_device,
            ..
        } = outcome;
        let percent_off = (bytes_ours as f64 - bytes_device as f64) / bytes_device as f64 * 100.0;
        let raw_min = outcome.raw_min.unwrap_or(page_size);
        let pool = pool_that_fits(page_size, outcome.kept_max, raw_min);
        eprintln!(
            "{}: {} of {} pages differ; {bytes_ours} bytes here, {bytes_device} there \
             ({percent_off:+.4} %); kept up to {}, raw from {raw_min}: {}",
            codec.name,
            outcome.pages_differing,
            outcome.pages,
            outcome.kept_max,
            match pool {
                Some((chain, rule, from)) => format!("chains of {chain}, {rule:?}, say {from}"),
                None => "no pool says that".to_owned(),
            }
        );
        if codec.name.starts_with("lzo") {
            assert_eq!(outcome.first_difference, None, "{}", codec.name);
            assert!(
                pool.is_some(),
                "{}: pages of {} bytes are kept and of {raw_min} stored raw: no pool does that",
                codec.name,
                outcome.kept_max
            );
        }
        assert!(percent_off.abs() < 0.5, "{}: {percent_off} %", codec.name);
    }
}
