//! One owner's pages, as they come: counted, sketched, sampled, then forgotten.
//!
//! A page that is in a sample is kept whole until the owner is done, because most that
//! enter a sketch are pushed out again before, and compressing costs a hundred times
//! what keeping costs. Where pages are large, and so would take much, they are
//! measured earlier.

use zmeld_store::fill_word;

use crate::survey::key::Key;
use crate::survey::objects::{Objects, PoolBytes};
use crate::survey::reservoir::Reservoir;
use crate::survey::sketch::{Hash, Sketch, SketchBuilder};
use crate::survey::Error;

/// Pages drawn by chance, for what they take without melding.
const DRAWN: usize = 1024;
/// Pages are kept whole in so many bytes at most.
const KEPT_BYTES_MAX: usize = 16 << 20;
/// Bits of the bitmap that knows pages again: 16 MiB.
const KNOWN_BITS: u64 = 1 << 27;

/// Pages that several processes map, known by their contents where the kernel hides
/// which physical page is which.
#[derive(Default)]
pub(crate) struct SharedPages {
    /// None yet, until there is one.
    bits: Vec<u64>,
}

impl SharedPages {
    /// A page that is mapped more than once; false where an equal one was.
    fn is_new(&mut self, hash: Hash) -> bool {
        if self.bits.is_empty() {
            self.bits = vec![0; (KNOWN_BITS / 64) as usize];
        }
        let bit = hash.low as u64 % KNOWN_BITS;
        let word = &mut self.bits[(bit / 64) as usize];
        let mask = 1 << (bit % 64);
        let is_new = *word & mask == 0;
        *word |= mask;
        is_new
    }
}

enum Sampled {
    Page(Box<[u8]>),
    Measured(PoolBytes),
}

impl Sampled {
    fn measured(self, objects: &mut Objects) -> Result<PoolBytes, Error> {
        match self {
            Sampled::Page(page) => objects.measure(&page),
            Sampled::Measured(bytes) => Ok(bytes),
        }
    }

    fn is_page(&self) -> bool {
        matches!(self, Sampled::Page(_))
    }
}

/// Pages of an owner that were read, and that were not.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PageCounts {
    pub all: u64,
    pub zero: u64,
    /// One word repeated, not zero.
    pub same: u64,
    pub skipped: u64,
}

impl PageCounts {
    /// Pages that a pool would keep: neither zero nor same-filled.
    pub fn rest(&self) -> u64 {
        self.all - self.zero - self.same
    }
}

pub(crate) struct Collected {
    pub pages: PageCounts,
    pub sketch: Sketch<PoolBytes>,
    pub drawn: Vec<PoolBytes>,
}

/// One owner's pages, as they come.
pub(crate) struct Collector {
    pages: PageCounts,
    sketch: SketchBuilder<Sampled>,
    drawn: Reservoir<Sampled>,
    kept: usize,
    kept_max: usize,
}

impl Collector {
    /// For a sketch of `size`, and a draw that `seed` decides.
    pub fn new(size: usize, page_size: usize, seed: u64) -> Collector {
        Collector {
            pages: PageCounts::default(),
            sketch: SketchBuilder::new(size),
            drawn: Reservoir::new(DRAWN, seed),
            kept: 0,
            kept_max: KEPT_BYTES_MAX / page_size,
        }
    }

    /// Takes a page; `shared` where it may be one that was seen already.
    pub fn add(
        &mut self,
        page: &[u8],
        key: &Key,
        shared: Option<&mut SharedPages>,
        objects: &mut Objects,
    ) -> Result<(), Error> {
        let fill = fill_word(page);
        if fill.is_some() && shared.is_none() {
            self.count(fill);
            return Ok(());
        }
        let hash = key.hash(page);
        if shared.is_some_and(|known| !known.is_new(hash)) {
            return Ok(());
        }
        self.count(fill);
        if fill.is_some() {
            return Ok(());
        }
        let mut taken = 0;
        let mut keep = || {
            taken += 1;
            Sampled::Page(page.into())
        };
        let gone = [self.sketch.add(hash, &mut keep), self.drawn.add(&mut keep)];
        let gone = gone.iter().flatten().filter(|gone| gone.is_page()).count();
        self.kept = self.kept + taken - gone;
        if self.kept >= self.kept_max {
            self.measure(objects)?;
        }
        Ok(())
    }

    fn count(&mut self, fill: Option<u64>) {
        self.pages.all += 1;
        match fill {
            Some(0) => self.pages.zero += 1,
            Some(_) => self.pages.same += 1,
            None => {}
        }
    }

    /// Puts sizes in the place of all pages that are kept.
    fn measure(&mut self, objects: &mut Objects) -> Result<(), Error> {
        let all = self.sketch.contents_mut().chain(&mut self.drawn.drawn);
        for sampled in all {
            if let Sampled::Page(page) = sampled {
                *sampled = Sampled::Measured(objects.measure(page)?);
            }
        }
        self.kept = 0;
        Ok(())
    }

    /// The findings; samples are measured now.
    pub fn finish(self, objects: &mut Objects) -> Result<Collected, Error> {
        debug_assert_eq!(self.drawn.seen, self.pages.rest());
        let drawn = self.drawn.drawn.into_iter();
        Ok(Collected {
            pages: self.pages,
            drawn: drawn
                .map(|page| page.measured(objects))
                .collect::<Result<_, _>>()?,
            sketch: self.sketch.finish(|page| page.measured(objects))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::PoolModel;
    use zmeld_linux::KernelVersion;

    const PAGE: usize = 4096;

    fn objects() -> Objects {
        let version = KernelVersion {
            major: 6,
            minor: 12,
        };
        Objects::new(PoolModel::of_kernel(version, None, PAGE as u32)).unwrap()
    }

    /// A page of words from a short list: it compresses by half or so.
    fn page(content: u64) -> Vec<u8> {
        let mut state = content;
        let mut byte = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as u8
        };
        let mut page: Vec<u8> = (0..PAGE).map(|_| byte() % 16).collect();
        page[..8].copy_from_slice(&content.to_le_bytes());
        page
    }

    fn collect(pages: impl Iterator<Item = Vec<u8>>, kept_max: usize) -> Collected {
        let (key, mut objects) = (Key::new([7; 32]), objects());
        let mut collector = Collector::new(64, PAGE, 9);
        collector.kept_max = kept_max;
        for page in pages {
            collector.add(&page, &key, None, &mut objects).unwrap();
        }
        collector.finish(&mut objects).unwrap()
    }

    #[test]
    fn it_is_the_same_whether_pages_are_measured_early_or_late() {
        let late = collect((0..300).map(page), 100_000);
        let early = collect((0..300).map(page), 16);
        assert!(late.sketch == early.sketch && late.drawn == early.drawn);
        assert_eq!(late.sketch.rows.len(), 64);
    }

    #[test]
    fn a_page_that_is_mapped_twice_counts_once() {
        let (key, mut objects) = (Key::new([7; 32]), objects());
        let mut known = SharedPages::default();
        let mut one = Collector::new(64, PAGE, 1);
        let mut two = Collector::new(64, PAGE, 1);
        for collector in [&mut one, &mut two] {
            for content in 0..10 {
                let page = page(content);
                collector
                    .add(&page, &key, Some(&mut known), &mut objects)
                    .unwrap();
                collector.add(&page, &key, None, &mut objects).unwrap();
            }
            let zero = [0; PAGE];
            collector
                .add(&zero, &key, Some(&mut known), &mut objects)
                .unwrap();
        }
        let (one, two) = (
            one.finish(&mut objects).unwrap(),
            two.finish(&mut objects).unwrap(),
        );
        assert_eq!((one.pages.all, one.pages.zero), (21, 1));
        assert_eq!((two.pages.all, two.pages.zero), (10, 0));
        assert!(one.sketch.rows.iter().all(|row| row.count == 2));
    }
}
