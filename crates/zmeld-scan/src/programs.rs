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
/// With fewer of a class in the sample, nothing is known of the others of the class.
const CONTENTS_OF_CLASS_MIN: f64 = 8.0;
/// So many contents of a class count as different as those of all classes are.
const ALIKE: f64 = 2.0;
/// Nor is it told where half of its interval of 95 % is a larger part of it.
pub(crate) const INTERVAL_MAX: f64 = 0.25;

/// Sums over contents of a class: those that stand in the program about equally often.
#[derive(Clone, Copy, Default)]
struct Class {
    /// Of the pages of those outside of the sample, and of their squares.
    pages_left: f64,
    squares_left: f64,
    /// How many are in the sample.
    sampled: f64,
    /// Of sizes of sampled contents, and of their squares.
    sizes: f64,
    sizes_squared: f64,
}

/// A program's contents. One is in the sample with all of its copies, or not at all.
#[derive(Clone, Default)]
struct Contents {
    /// By the logarithm of how often they stand there: what repeats compresses better than what
    /// does not.
    classes: Vec<Class>,
    /// Compressed bytes of the pages of those in the sample.
    bytes: f64,
}

impl Contents {
    fn class(&mut self, pages: u64) -> &mut Class {
        let at = pages.ilog2() as usize;
        if self.classes.len() <= at {
            self.classes.resize(at + 1, Class::default());
        }
        &mut self.classes[at]
    }

    /// Adds a content that stands in so many of its pages.
    fn add(&mut self, pages: u64) {
        let class = self.class(pages);
        class.pages_left += pages as f64;
        class.squares_left += (pages * pages) as f64;
    }

    /// The size of one that was added and is in the sample.
    fn sample(&mut self, pages: u64, size: u32) {
        let size = f64::from(size);
        let class = self.class(pages);
        class.pages_left -= pages as f64;
        class.squares_left -= (pages * pages) as f64;
        class.sampled += 1.0;
        class.sizes += size;
        class.sizes_squared += size * size;
        self.bytes += pages as f64 * size;
    }

    /// Compressed bytes of all pages of the program.
    ///
    /// How often each content stands there is known of all. Those in the sample count as they are,
    /// each of the others as the mean content of its class; the interval is the predictor's
    /// (Royall, Biometrika 57, 1970). One whose class the sample hardly has may be as large as a
    /// page, or nothing.
    fn total(&self, page_size: u64) -> Option<f64> {
        let sum = |of: fn(&Class) -> f64| self.classes.iter().map(of).sum::<f64>();
        let all_sampled = sum(|it| it.sampled);
        let overall = sum(|it| it.sizes) / all_sampled.max(1.0);
        let of_all = sum(|it| it.sizes_squared) - sum(|it| it.sizes) * overall;
        let of_all = of_all.max(0.0) / (all_sampled - 1.0).max(1.0);
        let (mut total, mut variance, mut unknown) = (self.bytes, 0.0, 0.0);
        for class in &self.classes {
            let left = class.pages_left;
            if class.sampled < CONTENTS_OF_CLASS_MIN {
                total += left * overall;
                unknown += left * page_size as f64;
                continue;
            }
            let mean = class.sizes / class.sampled;
            let spread = (class.sizes_squared - class.sizes * mean).max(0.0);
            // Few may be alike by chance.
            let of_class = (spread + ALIKE * of_all) / (class.sampled - 1.0 + ALIKE);
            total += left * mean;
            variance += of_class * (class.squares_left + left * left / class.sampled);
        }
        if sum(|it| it.pages_left) == 0.0 {
            return (all_sampled > 0.0).then_some(total);
        }
        let half_width = 1.96 * variance.sqrt() + unknown;
        let is_known = all_sampled >= CONTENTS_MIN && half_width <= INTERVAL_MAX * total;
        is_known.then_some(total)
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
    let mut found: Vec<(Program, Tally, Contents)> = Vec::new();
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
    // Of each program, its pages of a content.
    let by_program = |group: &[PageRecord]| -> Vec<(usize, u64)> {
        let Some(first) = group.first() else {
            return Vec::new();
        };
        let place = |owner: u32| of_owner.get(owner as usize).copied();
        let owner = counter.owner(first);
        let is_alike = |it: &PageRecord| counter.owner(it) == owner && !it.origin.maybe_shared();
        if group.len() == 1 || group.iter().all(is_alike) {
            let pages = group.len() as u64;
            return place(owner).map(|it| (it, pages)).into_iter().collect();
        }
        let shares = counter.shares(group).into_iter();
        let shares = shares.filter(|(_, pages)| *pages > 0);
        let mut shares: Vec<(usize, u64)> = shares
            .filter_map(|(owner, pages)| Some((place(owner)?, pages)))
            .collect();
        shares.sort_unstable();
        let of_one = shares.chunk_by(|a, b| a.0 == b.0);
        let of_one = of_one.map(|of_one| (of_one[0].0, of_one.iter().map(|it| it.1).sum()));
        of_one.collect()
    };
    for group in sorted.groups() {
        for (place, pages) in by_program(group) {
            found[place].2.add(pages);
        }
    }
    for (hash, size) in sizes {
        for (place, pages) in by_program(sorted.find(*hash)) {
            found[place].2.sample(pages, *size);
        }
    }
    // Pool bytes per compressed byte.
    let pool = codec.memory_at_scale_bytes as f64 / codec.compressed_bytes.max(1) as f64;
    let told = found.into_iter().map(|(program, sum, contents)| Program {
        bytes: sum.pages * page_size,
        duplicate_bytes: sum.duplicates * page_size,
        compressed_bytes: contents
            .total(page_size)
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

    /// Contents: how many, how often each stands there, and their sizes in turn.
    type Kind<'a> = (u32, u64, &'a [u32]);

    /// A program with these contents, of which every so many-th is in the sample; what its pages
    /// come to, and what is told of it.
    fn told(kinds: &[Kind], every: u32) -> (f64, Option<f64>) {
        let (mut contents, mut truth) = (Contents::default(), 0.0);
        for &(count, pages, sizes) in kinds {
            for at in 0..count {
                let size = sizes[at as usize % sizes.len()];
                contents.add(pages);
                truth += pages as f64 * f64::from(size);
                if at % every == 0 {
                    contents.sample(pages, size);
                }
            }
        }
        (truth, contents.total(4096))
    }

    #[test]
    fn what_is_told_of_a_program_is_near_what_its_pages_come_to() {
        // What repeats compresses better than what does not, or as well, or worse.
        let single = (4000, 1, &[1000, 2000, 1000][..]);
        for repeated in [100, 1300, 3900] {
            for (count, pages) in [(2000, 4), (1000, 10), (200, 50)] {
                let (truth, told) = told(&[single, (count, pages, &[repeated])], 10);
                let told = told.unwrap_or_else(|| panic!("{repeated} {count} {pages}"));
                assert!((told / truth - 1.0).abs() < 0.05, "{told} of {truth}");
            }
        }
        // Where all was measured nothing is left to chance, however few they are.
        let (truth, whole) = told(&[(1, 200, &[100])], 1);
        assert_eq!(whole, Some(truth));
    }

    #[test]
    fn what_chance_decides_is_not_told() {
        let single = (4000, 1, &[1000, 2000, 1500][..]);
        let mostly_small = [100, 100, 100, 100, 100, 100, 100, 100, 100, 4096];
        for kinds in [
            // A content with many copies outside of the sample: its first, which is in it, is
            // another's.
            &[single, (2, 4096, &[100])][..],
            &[single, (20, 500, &[100])],
            &[single, (80, 500, &[100])],
            // Of a hundred, ten are large, and none of these is in the sample.
            &[(400, 1, &[1000, 2000, 1500]), (100, 500, &mostly_small)],
            // Few contents, and sizes that have nothing in common.
            &[(310, 1, &[1000, 2000, 1500])],
            &[(400, 1, &[30, 30, 4096])],
            &[],
        ] {
            assert_eq!(told(kinds, 10).1, None, "{kinds:?}");
        }
        // Few pages depend on it.
        assert!(told(&[single, (2, 64, &[100])], 10).1.is_some());
    }
}
