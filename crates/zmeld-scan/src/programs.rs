//! Pages of each program in each control group, their compressed size, and which of them are
//! identical to others.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::memory::{Owner, Region};
use zmeld_linux::groups::Hierarchy;
use zmeld_linux::Host;

use crate::contents::SortedContents;
use crate::duplicates::{Counter, Tally};
use crate::result::{CodecResult, Program};

/// With fewer of its pages in the sample, what a program's come to is not told.
pub(crate) const SAMPLED_MIN: u64 = 32;
/// Nor where half of its interval of 95 % is a larger part of it.
const INTERVAL_MAX: f64 = 0.25;
/// Nor where its sample counts as fewer contents than this, were they all as frequent: a content
/// with many copies is in the sample with all of them, or not at all.
const CONTENTS_MIN: f64 = 16.0;

/// A program's pages in the sample. A content is in it with all of its copies, or not at all.
#[derive(Clone, Copy, Default)]
struct Sampled {
    pages: f64,
    bytes: f64,
    /// Sums of squares: of pages, of pages and bytes, of bytes.
    squares: [f64; 3],
}

impl Sampled {
    /// Adds a content that stands in so many of its pages.
    fn add(&mut self, pages: u64, size: u32) {
        let (pages, bytes) = (pages as f64, pages as f64 * f64::from(size));
        self.pages += pages;
        self.bytes += bytes;
        let squares = [pages * pages, pages * bytes, bytes * bytes];
        for (sum, square) in self.squares.iter_mut().zip(squares) {
            *sum += square;
        }
    }

    /// Compressed bytes of a page of the program, which has so many pages.
    ///
    /// The interval is that of a ratio estimator whose units are contents (Cochran, Sampling
    /// Techniques, 6.4); the number of equally frequent contents is Kish's effective size.
    fn mean(&self, all: u64) -> Option<f64> {
        let mean = self.bytes / self.pages;
        if all > 0 && self.pages >= all as f64 {
            return Some(mean);
        }
        let [pages, both, bytes] = self.squares;
        let contents = self.pages * self.pages / pages;
        // A sample of nothing has no mean.
        if !(self.pages >= SAMPLED_MIN as f64 && contents >= CONTENTS_MIN) {
            return None;
        }
        let squares = (bytes - 2.0 * mean * both + mean * mean * pages).max(0.0);
        let squares = squares * contents / (contents - 1.0);
        let half_width = 1.96 * squares.sqrt() / self.pages;
        (half_width <= INTERVAL_MAX * mean).then_some(mean)
    }
}

/// Programs by what would be saved, the most first; none where no process was read. `sizes` are
/// those of the sample's contents with `codec`.
pub(crate) fn programs(
    host: &Host,
    regions: &[Region],
    counter: &Counter<'_>,
    (sorted, tallies): (&SortedContents, Vec<Tally>),
    (codec, sizes): (&CodecResult, &[(u128, u32)]),
    page_size: u64,
) -> Vec<Program> {
    let processes = counter
        .owners(regions)
        .into_iter()
        .map(|owner| match owner {
            Owner::Process { pid, comm } => Some((*pid, comm)),
            _ => None,
        });
    // Of a device or a dump nobody knows whose they are.
    let Some(processes) = processes.collect::<Option<Vec<_>>>() else {
        return Vec::new();
    };
    let hierarchy = Hierarchy::find(host).ok().flatten();
    let group_of = |pid: i32| {
        let hierarchy = hierarchy.as_ref()?;
        let group = hierarchy.group_of(host, &pid.to_string()).ok().flatten()?;
        Some(hierarchy.shown(&group))
    };
    let mut places: HashMap<(String, String), usize> = HashMap::new();
    let mut found: Vec<(Program, Tally, Sampled)> = Vec::new();
    let of_owner = processes
        .into_iter()
        .zip(tallies)
        .map(|((pid, comm), tally)| {
            let key = (comm.to_string(), group_of(pid).unwrap_or_default());
            let place = *places.entry(key.clone()).or_insert_with(|| {
                found.push(Default::default());
                found.len() - 1
            });
            let (program, sum, _) = &mut found[place];
            (program.program, program.group) = key;
            program.processes += 1;
            sum.pages += tally.pages;
            sum.duplicates += tally.duplicates;
            place
        });
    let of_owner: Vec<usize> = of_owner.collect();
    for (hash, size) in sizes {
        let shares = counter.shares(sorted.find(*hash)).into_iter();
        let shares =
            shares.filter_map(|(owner, pages)| Some((*of_owner.get(owner as usize)?, pages)));
        let mut shares: Vec<(usize, u64)> = shares.collect();
        shares.sort_unstable();
        for of_one in shares.chunk_by(|a, b| a.0 == b.0) {
            let pages = of_one.iter().map(|it| it.1).sum();
            found[of_one[0].0].2.add(pages, *size);
        }
    }
    // Pool bytes per compressed byte.
    let pool = codec.memory_at_scale_bytes as f64 / codec.compressed_bytes.max(1) as f64;
    let told = found.into_iter().map(|(program, sum, sampled)| Program {
        bytes: sum.pages * page_size,
        duplicate_bytes: sum.duplicates * page_size,
        compressed_bytes: sampled
            .mean(sum.pages)
            .map(|mean| (mean * sum.pages as f64 * pool).round() as u64),
        ..program
    });
    let mut told: Vec<Program> = told.filter(|it| it.bytes > 0).collect();
    told.sort_by_key(|it| Reverse((it.saved_bytes(), it.bytes, it.program.clone())));
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many contents of 1,000 to 2,000 bytes, and one of 100 bytes with so many copies.
    fn sampled(contents: u32, copies: u64) -> Sampled {
        let mut sampled = Sampled::default();
        (0..contents).for_each(|at| sampled.add(1, 1000 + 1000 * (at % 2)));
        sampled.add(copies, 100);
        sampled
    }

    #[test]
    fn a_content_with_many_copies_makes_a_program_s_ratio_unknown() {
        let is_about = |found: Option<f64>, to: f64| (found.unwrap() - to).abs() < 1.0;
        assert!(is_about(sampled(40, 1).mean(300), 1465.9));
        // What decides is in the sample or not, by chance; and alone it has no spread at all.
        for (contents, copies) in [(0, 40), (1, 200), (40, 135), (40, 4000)] {
            assert_eq!(sampled(contents, copies).mean(100_000), None, "{copies}");
        }
        // Few pages, and sizes that have nothing in common.
        assert_eq!(sampled(30, 1).mean(300), None);
        let mut wide = sampled(40, 1);
        (0..5).for_each(|_| wide.add(1, 40_000));
        assert_eq!(wide.mean(300), None);
        // Where all was measured nothing is left to chance.
        assert!(is_about(sampled(40, 135).mean(175), 420.0));
        assert_eq!(Sampled::default().mean(300), None);
        assert_eq!(Sampled::default().mean(0), None);
    }
}
