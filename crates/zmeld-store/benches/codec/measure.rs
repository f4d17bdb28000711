//! One program's pages through each codec: sizes, and how long each page takes.

use std::hint::black_box;
use std::time::Instant;

use zmeld_report::statistics::sample::median;
use zmeld_store::{Codec, Stream};

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Pages that one codec has in turn before the next has them.
const BATCH: usize = 32;
/// Bytes read before a page is decompressed with cold caches.
const COLD_BYTES: usize = 2 << 20;
/// Every so many pages are decompressed with cold caches.
const COLD_STEP: usize = 4;

/// Size and times of each page of a program with one codec, in nanoseconds.
#[derive(Debug, Clone, Default)]
pub struct Taken {
    /// Stored bytes; a page that does not fit is stored raw.
    pub sizes: Vec<u32>,
    pub compress: Vec<f64>,
    pub decompress: Vec<f64>,
    /// To decompress with cold caches, of some pages.
    pub cold: Vec<f64>,
}

struct Work {
    stream: Stream,
    /// Stored bytes of each page; one that is as long as a page is raw.
    objects: Vec<Vec<u8>>,
    /// Objects of so many bytes are stored raw.
    huge: usize,
    /// By page, one time for each round.
    compress: Vec<Vec<f64>>,
    decompress: Vec<Vec<f64>>,
    cold: Vec<Vec<f64>>,
}

fn medians(pages: Vec<Vec<f64>>) -> Vec<f64> {
    pages.iter().map(|times| median(times)).collect()
}

fn clock_ns() -> f64 {
    let times: Vec<f64> = (0..1000)
        .map(|_| Instant::now().elapsed().as_nanos() as f64)
        .collect();
    median(&times)
}

impl Work {
    fn new(codec: &Codec, pages: usize, huge: usize) -> Result<Work, String> {
        Ok(Work {
            stream: Stream::new(codec).map_err(|error| error.to_string())?,
            objects: vec![Vec::new(); pages],
            huge,
            compress: vec![Vec::new(); pages],
            decompress: vec![Vec::new(); pages],
            cold: vec![Vec::new(); pages],
        })
    }

    fn compress(&mut self, k: usize, page: &[u8], clock: f64) {
        let mut object = [0u8; 2 * PAGE];
        let before = Instant::now();
        let size = self.stream.compress(black_box(page), &mut object);
        self.compress[k].push(before.elapsed().as_nanos() as f64 - clock);
        self.objects[k] = match size {
            Ok(size) if size < self.huge => object[..size].to_vec(),
            _ => page.to_vec(),
        };
    }

    /// Pages that are stored raw are copied.
    fn decompress(&mut self, k: usize, page: &[u8], clock: f64) -> Result<f64, String> {
        let mut back = [0u8; PAGE];
        let object = &self.objects[k];
        let before = Instant::now();
        let is_good = if object.len() == PAGE {
            black_box(&mut back).copy_from_slice(black_box(object));
            true
        } else {
            self.stream.decompress(object, &mut back).is_ok()
        };
        let time = before.elapsed().as_nanos() as f64 - clock;
        if !is_good || back[..] != *page {
            return Err(format!("page {k} came back as another one"));
        }
        Ok(time)
    }
}

/// All codecs, in turn, in so many rounds; objects of `huge` bytes are stored raw.
pub fn measure(
    codecs: &[Codec],
    pages: &[&[u8]],
    rounds: usize,
    huge: u32,
) -> Result<Vec<Taken>, String> {
    let clock = clock_ns();
    let other = vec![1u8; COLD_BYTES];
    let mut all = codecs
        .iter()
        .map(|codec| Work::new(codec, pages.len(), huge as usize))
        .collect::<Result<Vec<_>, _>>()?;
    for _ in 0..rounds {
        for first in (0..pages.len()).step_by(BATCH) {
            let batch = first..(first + BATCH).min(pages.len());
            for work in &mut all {
                for k in batch.clone() {
                    work.compress(k, pages[k], clock);
                }
                for k in batch.clone() {
                    let time = work.decompress(k, pages[k], clock)?;
                    work.decompress[k].push(time);
                }
            }
        }
        for k in (0..pages.len()).step_by(COLD_STEP) {
            for work in &mut all {
                black_box(other.iter().step_by(64).map(|&b| u64::from(b)).sum::<u64>());
                let time = work.decompress(k, pages[k], clock)?;
                work.cold[k].push(time);
            }
        }
    }
    Ok(all.into_iter().map(taken).collect())
}

fn taken(work: Work) -> Taken {
    Taken {
        sizes: work
            .objects
            .iter()
            .map(|object| object.len() as u32)
            .collect(),
        compress: medians(work.compress),
        decompress: medians(work.decompress),
        cold: medians(work.cold).into_iter().step_by(COLD_STEP).collect(),
    }
}
