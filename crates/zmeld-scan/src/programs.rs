//! Pages of each program in each control group, their compressed size, and which of them are
//! identical to others.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::memory::{Owner, Region};
use zmeld_linux::groups::Hierarchy;
use zmeld_linux::Host;

use crate::contents::{PageRecord, SortedContents};
use crate::duplicates::{Counter, Tally};
use crate::result::{CodecResult, Program};

/// With fewer of its contents in the sample, what a program's pages come to is not told.
const CONTENTS_MIN: f64 = 32.0;
/// Nor where half of its interval of 95 % is a larger part of it.
pub(crate) const INTERVAL_MAX: f64 = 0.25;

/// How often contents stand in a program: pages, and the sum of their squares by content.
#[derive(Clone, Copy, Default)]
struct Copies {
    pages: f64,
    squares: f64,
}

impl Copies {
    fn add(&mut self, pages: u64) {
        self.pages += pages as f64;
        self.squares += (pages * pages) as f64;
    }
}

/// A program's contents in the sample. A content is in it with all of its copies, or not at all.
#[derive(Clone, Copy, Default)]
struct Sampled {
    copies: Copies,
    contents: f64,
    /// Sums of compressed sizes: by page, by content, and of their squares by content.
    bytes: f64,
    sizes: f64,
    squares: f64,
}

impl Sampled {
    /// Adds a content that stands in so many of its pages.
    fn add(&mut self, pages: u64, size: u32) {
        let size = f64::from(size);
        self.copies.add(pages);
        self.contents += 1.0;
        self.bytes += pages as f64 * size;
        self.sizes += size;
        self.squares += size * size;
    }

    /// Compressed bytes of all pages of the program.
    ///
    /// How often each content stands there is known of all. Those in the sample count as they are,
    /// each of the others as the sample's mean content; the interval is the predictor's (Royall,
    /// Biometrika 57, 1970), which grows with a content outside of the sample that has many copies.
    fn total(&self, all: Copies) -> Option<f64> {
        let left = (all.pages - self.copies.pages).max(0.0);
        if all.pages > 0.0 && left == 0.0 {
            return Some(self.bytes);
        }
        if self.contents < CONTENTS_MIN {
            return None;
        }
        let mean = self.sizes / self.contents;
        let variance = (self.squares - self.sizes * mean).max(0.0) / (self.contents - 1.0);
        let copies_left = (all.squares - self.copies.squares).max(0.0);
        let half_width = 1.96 * (variance * (copies_left + left * left / self.contents)).sqrt();
        let total = self.bytes + left * mean;
        (half_width <= INTERVAL_MAX * total).then_some(total)
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
    let mut found: Vec<(Program, Tally, Copies, Sampled)> = Vec::new();
    let of_owner = processes
        .into_iter()
        .zip(tallies)
        .map(|((pid, comm), tally)| {
            let key = (comm.to_string(), group_of(pid).unwrap_or_default());
            let place = *places.entry(key.clone()).or_insert_with(|| {
                found.push(Default::default());
                found.len() - 1
            });
            let (program, sum, ..) = &mut found[place];
            (program.program, program.group) = key;
            program.processes += 1;
            sum.pages += tally.pages;
            sum.duplicates += tally.duplicates;
            place
        });
    let of_owner: Vec<usize> = of_owner.collect();
    let by_program = |group: &[PageRecord]| {
        let shares = counter.shares(group).into_iter();
        let shares =
            shares.filter_map(|(owner, pages)| Some((*of_owner.get(owner as usize)?, pages)));
        let mut shares: Vec<(usize, u64)> = shares.collect();
        shares.sort_unstable();
        let of_one = shares.chunk_by(|a, b| a.0 == b.0);
        let of_one = of_one.map(|of_one| (of_one[0].0, of_one.iter().map(|it| it.1).sum()));
        of_one.collect::<Vec<(usize, u64)>>()
    };
    for group in sorted.groups() {
        if let [only] = group {
            let place = of_owner.get(counter.owner(only) as usize);
            place.into_iter().for_each(|place| found[*place].2.add(1));
            continue;
        }
        for (place, pages) in by_program(group) {
            found[place].2.add(pages);
        }
    }
    for (hash, size) in sizes {
        for (place, pages) in by_program(sorted.find(*hash)) {
            found[place].3.add(pages, *size);
        }
    }
    // Pool bytes per compressed byte.
    let pool = codec.memory_at_scale_bytes as f64 / codec.compressed_bytes.max(1) as f64;
    let told = found
        .into_iter()
        .map(|(program, sum, copies, sampled)| Program {
            bytes: sum.pages * page_size,
            duplicate_bytes: sum.duplicates * page_size,
            compressed_bytes: sampled
                .total(copies)
                .map(|bytes| (bytes * pool).round() as u64),
            ..program
        });
    let mut told: Vec<Program> = told.filter(|it| it.bytes > 0).collect();
    told.sort_by_key(|it| Reverse((it.saved_bytes(), it.bytes, it.program.clone())));
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many contents of 1,000 or 2,000 bytes in turn, each of which stands on a page.
    fn sampled(contents: u32) -> Sampled {
        let mut sampled = Sampled::default();
        (0..contents).for_each(|at| sampled.add(1, 1000 + 1000 * (at % 2)));
        sampled
    }

    fn copies(of: impl IntoIterator<Item = u64>) -> Copies {
        let mut copies = Copies::default();
        of.into_iter().for_each(|pages| copies.add(pages));
        copies
    }

    #[test]
    fn a_content_with_many_copies_counts_as_often_as_it_stands_there() {
        let is_about = |found: Option<f64>, to: f64| (found.unwrap() - to).abs() < 1.0;
        // In the sample: 200 pages of 100 bytes beside 400 of 1,500, of which 40 were measured.
        let mut with = sampled(40);
        with.add(200, 100);
        let all = copies(std::iter::repeat_n(1, 400).chain([200]));
        let mean = (40.0 * 1500.0 + 100.0) / 41.0;
        assert!(is_about(
            with.total(all),
            60_000.0 + 20_000.0 + 360.0 * mean
        ));
        // Outside of it: taken for one of the others, and told as long as few depend on it.
        assert!(is_about(sampled(40).total(all), 600.0 * 1500.0));
        let most = copies(std::iter::repeat_n(1, 400).chain([400]));
        assert_eq!(sampled(40).total(most), None);
        // Few contents, and sizes that have nothing in common.
        assert_eq!(sampled(31).total(all), None);
        let mut wide = sampled(40);
        (0..5).for_each(|_| wide.add(1, 40_000));
        assert_eq!(wide.total(all), None);
        // Where all was measured nothing is left to chance.
        assert!(is_about(
            with.total(copies(std::iter::repeat_n(1, 40).chain([200]))),
            80_000.0
        ));
        assert_eq!(Sampled::default().total(all), None);
        assert_eq!(Sampled::default().total(Copies::default()), None);
    }
}
