//! Which parts of a process's memory it does not touch.
//!
//! The kernel swaps out whatever part it is told to, so that what is told has to be known
//! to be cold. No file shows which page was touched; `Referenced` in `smaps` says how much
//! of a mapping was, and a mapping is often a whole heap. So a mapping is seen as
//! [`PARTS`] parts. One of them at a time is looked at: what `Referenced` loses when the
//! kernel forgets that part's marks (`MADV_COLD`, which also flushes translations, so that
//! what is touched all the time is marked again) is what was touched of it since they were
//! last forgotten. Where that is nothing, the part is cold.
//!
//! Where the kernel did not forget the marks, nothing is lost, however much of it is in use:
//! what it says that it did not do is not judged, nor a mapping with pages that another
//! process maps, too, since it passes over these without saying so.
//!
//! What is touched between the two readings hides as much of what is lost. So a part is cold
//! only where its mapping lost nothing and won nothing: while another part of it is being
//! touched anew, nothing of it is judged. What is in use all the time and touched again by
//! then hides itself, all the more where this process has to wait for a processor meanwhile.
//! So what seems to be cold is asked for again and again at once, and once more before it is
//! swapped out, and is cold where nothing changes at any time. What is found is held against
//! what comes back.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use zmeld_linux::smaps::Mapping;

/// In how many parts a mapping is looked at.
pub(super) const PARTS: usize = 16;
/// No part is smaller, lest huge pages be split.
const PART_BYTES_MIN: u64 = 2 << 20;
/// A mapping with less is not worth a look,
const AREA_BYTES_MIN: u64 = 256 << 10;
/// nor one with less than one byte of so many in RAM: to go through it costs the more,
const AREA_SPARSE_MAX: u64 = 64;
/// and no more of them are looked at, the largest.
const AREAS_MAX: usize = 64;

/// A mapping that nobody else has, of no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Area {
    pub start: u64,
    pub end: u64,
    resident_bytes: u64,
    touched_bytes: u64,
    has_huge: bool,
}

impl Area {
    /// None where what is there cannot be swapped out, or is not worth it. What is shared by
    /// fork, or merged, cannot.
    pub fn of(mapping: &Mapping, page: u64) -> Option<Area> {
        let flags = mapping.flags;
        let can = mapping.private
            && mapping.inode == 0
            && mapping.shared == 0
            && !(flags.device || flags.hugetlb || flags.locked);
        let area = Area {
            start: mapping.start,
            end: mapping.end,
            resident_bytes: mapping.rss * page,
            touched_bytes: mapping.referenced * page,
            has_huge: mapping.huge > 0,
        };
        let is_worth_it = area.resident_bytes >= AREA_BYTES_MIN
            && area.end - area.start <= area.resident_bytes.saturating_mul(AREA_SPARSE_MAX);
        (can && is_worth_it).then_some(area)
    }

    /// One of its parts: up to two ranges, since parts lie at multiples of their size.
    fn part(&self, part: usize, huge: u64) -> Vec<Range<u64>> {
        let whole = self.end - self.start;
        let least = match self.has_huge {
            true => huge.max(PART_BYTES_MIN),
            false => PART_BYTES_MIN,
        };
        let size = (whole / PARTS as u64).next_power_of_two().max(least);
        let blocks = self.start / size..self.end.div_ceil(size);
        blocks
            .filter(|block| block % PARTS as u64 == part as u64)
            .map(|block| (block * size).max(self.start)..((block + 1) * size).min(self.end))
            .collect()
    }
}

/// The largest of them, as they lie.
pub(super) fn largest(mut areas: Vec<Area>) -> Vec<Area> {
    areas.sort_by_key(|area| std::cmp::Reverse(area.resident_bytes));
    areas.truncate(AREAS_MAX);
    areas.sort_by_key(|area| area.start);
    areas
}

/// Whether the mapping of that range neither lost nor won a mark of touch between two
/// readings. What another part of it wins would hide what this one loses.
pub(super) fn is_untouched(before: &[Area], after: &[Area], range: &Range<u64>) -> bool {
    let of = |areas: &[Area]| {
        let at = areas.partition_point(|it| it.end <= range.start);
        areas
            .get(at)
            .filter(|it| it.start <= range.start && range.end <= it.end)
            .copied()
    };
    match (of(before), of(after)) {
        (Some(before), Some(after)) => {
            (before.start, before.end) == (after.start, after.end)
                && after.touched_bytes == before.touched_bytes
        }
        _ => false,
    }
}

/// A cold range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cold {
    pub range: Range<u64>,
    pub has_huge: bool,
}

/// What may be noted of all processes together, whoever makes how many of them.
#[derive(Debug, Clone)]
pub(super) struct Room(Arc<AtomicU64>);

impl Room {
    /// For so many bytes.
    pub fn new(bytes: u64) -> Room {
        Room(Arc::new(AtomicU64::new(bytes)))
    }
}

/// What of it one process takes, given back with it.
#[derive(Debug)]
struct Taken {
    room: Room,
    bytes: u64,
}

impl Taken {
    /// Takes so much in place of what it has; false where there is not so much.
    fn resize(&mut self, bytes: u64) -> bool {
        let has = self.bytes;
        let left = |left: u64| (left + has).checked_sub(bytes);
        let all = &self.room.0;
        let is_there = all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
        if is_there.is_ok() {
            self.bytes = bytes;
        }
        is_there.is_ok()
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.resize(0);
    }
}

/// When the marks of a process's parts were last forgotten, and of which ranges.
#[derive(Debug)]
pub(super) struct Marks {
    next: usize,
    forgotten: [Option<Instant>; PARTS],
    /// As they lie.
    ranges: [Box<[Range<u64>]>; PARTS],
    taken: Taken,
}

impl Marks {
    pub fn new(room: &Room) -> Marks {
        Marks {
            next: 0,
            forgotten: [None; PARTS],
            ranges: Default::default(),
            taken: Taken {
                room: room.clone(),
                bytes: 0,
            },
        }
    }

    /// Whether there is a part to look at: one that was left alone for so long.
    pub fn is_due(&self, idle_after: Duration, now: Instant) -> bool {
        self.forgotten[self.next].is_none_or(|at| now.duration_since(at) >= idle_after)
    }

    /// Passes over parts that no mapping has anything in: smaller ones have few.
    pub fn skip_empty(&mut self, areas: &[Area], huge: u64, now: Instant) {
        let is_empty = |part| areas.iter().all(|area| area.part(part, huge).is_empty());
        for _ in 0..PARTS {
            if self.forgotten[self.next].is_none() || !is_empty(self.next) {
                break;
            }
            self.pass(now);
        }
    }

    /// Passes over the part that has its turn, or all of them where none had one yet: it is
    /// not known how old their marks are.
    pub fn pass(&mut self, now: Instant) {
        match self.forgotten[self.next] {
            None => self.forgotten = [Some(now); PARTS],
            Some(_) => {
                self.ranges[self.next] = Box::default();
                self.forgotten[self.next] = Some(now);
                self.next = (self.next + 1) % PARTS;
            }
        }
        self.taken.resize(self.bytes());
    }

    /// What its ranges take.
    fn bytes(&self) -> u64 {
        let each = self.ranges.iter().map(|it| size_of_val(&**it) as u64);
        each.sum()
    }

    /// Whether there is room for what is to be forgotten at the next look.
    pub fn has_room(&mut self, wanted: &[Range<u64>]) -> bool {
        let had = match self.forgotten[self.next] {
            None => 0,
            Some(_) => size_of_val(&*self.ranges[self.next]) as u64,
        };
        let bytes = self.bytes() - had + size_of_val(wanted) as u64;
        self.taken.resize(bytes)
    }

    /// What is to be forgotten at the next look: all of it at the first one.
    pub fn wanted(&self, areas: &[Area], huge: u64) -> Vec<Range<u64>> {
        let parts = match self.forgotten[self.next] {
            None => 0..PARTS,
            Some(_) => self.next..self.next + 1,
        };
        parts
            .flat_map(|part| areas.iter().flat_map(move |area| area.part(part, huge)))
            .collect()
    }

    /// The marks of a part with that range were forgotten once more.
    pub fn forgot(&mut self, range: &Range<u64>, now: Instant) {
        let has = |part: &usize| {
            let at = self.ranges[*part].binary_search_by_key(&range.start, |it| it.start);
            at.is_ok()
        };
        if let Some(part) = (0..PARTS).find(has) {
            self.forgotten[part] = Some(now);
        }
    }

    #[cfg(test)]
    pub fn since(&self, part: usize) -> Option<Instant> {
        self.forgotten[part]
    }

    /// What of it is cold, by the mappings before and after it was forgotten; `forgotten`:
    /// of which ranges it was; `times`: when that was begun, and was over.
    pub fn looked(
        &mut self,
        before: &[Area],
        after: &[Area],
        forgotten: &[Range<u64>],
        huge: u64,
        idle_after: Duration,
        times: Range<Instant>,
    ) -> Vec<Cold> {
        let forgotten: HashSet<&Range<u64>> = forgotten.iter().collect();
        let is_forgotten = |range: &Range<u64>| forgotten.contains(range);
        if self.forgotten[self.next].is_none() {
            for part in 0..PARTS {
                let ranges = before.iter().flat_map(|area| area.part(part, huge));
                self.ranges[part] = ranges.filter(is_forgotten).collect();
                self.forgotten[part] = Some(times.end);
            }
            self.taken.resize(self.bytes());
            return Vec::new();
        }
        let part = self.next;
        self.next = (part + 1) % PARTS;
        let since = self.forgotten[part].replace(times.end);
        let is_old = since.is_some_and(|at| times.start.duration_since(at) >= idle_after);
        let known = std::mem::take(&mut self.ranges[part]);
        let is_known = |range: &Range<u64>| {
            let at = known.binary_search_by_key(&range.start, |it| it.start);
            at.is_ok_and(|at| known[at] == *range)
        };
        let mut noted = Vec::new();
        let mut cold = Vec::new();
        for area in before {
            let mut ranges = area.part(part, huge);
            ranges.retain(is_forgotten);
            let is_cold = is_untouched(before, after, &(area.start..area.end));
            if is_cold && is_old && ranges.iter().all(is_known) {
                cold.extend(ranges.iter().cloned().map(|range| Cold {
                    range,
                    has_huge: area.has_huge,
                }));
            }
            noted.extend(ranges);
        }
        self.ranges[part] = noted.into();
        self.taken.resize(self.bytes());
        cold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const IDLE: Duration = Duration::from_secs(60);
    const HUGE: u64 = 2 * MIB;

    fn once(at: Instant) -> Range<Instant> {
        at..at
    }

    fn area(start_mib: u64, mib: u64, touched_mib: u64) -> Area {
        Area {
            start: start_mib * MIB,
            end: (start_mib + mib) * MIB,
            resident_bytes: mib * MIB,
            touched_bytes: touched_mib * MIB,
            has_huge: true,
        }
    }

    #[test]
    fn the_parts_of_a_mapping_are_all_of_it_once() {
        for area in [
            area(0, 1, 0),
            area(3, 64, 0),
            area(7, 1000, 0),
            area(1, 33, 0),
        ] {
            for huge in [HUGE, 512 * MIB] {
                let parts = (0..PARTS).flat_map(|part| area.part(part, huge));
                let mut parts: Vec<_> = parts.collect();
                parts.sort_by_key(|range| range.start);
                assert_eq!(parts.first().map(|it| it.start), Some(area.start));
                assert_eq!(parts.last().map(|it| it.end), Some(area.end));
                assert!(parts.windows(2).all(|two| two[0].end == two[1].start));
                // No huge page has a part of it cut off.
                let cuts = parts.windows(2).map(|two| two[0].end);
                assert!(cuts.into_iter().all(|cut| cut % huge == 0));
            }
        }
    }

    #[test]
    fn a_part_is_cold_where_forgetting_it_loses_nothing_and_it_was_forgotten_long_ago() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut marks = Marks::new(&Room::new(1 << 20));
        let two = [area(0, 64, 30), area(100, 64, 64)];
        assert!(marks.is_due(IDLE, begin));
        let all = marks.wanted(&two, HUGE);
        assert_eq!(
            all.iter().map(|it| it.end - it.start).sum::<u64>(),
            128 * MIB
        );
        let cleared = [area(0, 64, 0), area(100, 64, 0)];
        assert!(marks
            .looked(&two, &cleared, &all, HUGE, IDLE, once(begin))
            .is_empty());
        assert!(!marks.is_due(IDLE, at(59)));
        assert!(marks.is_due(IDLE, at(60)));
        // The first one's part 0 was touched, the second one's was not; a third is new.
        let before = [area(0, 64, 4), area(100, 64, 4), area(200, 64, 0)];
        let part = before[1].part(0, HUGE);
        assert_eq!(marks.wanted(&before[1..2], HUGE), part);
        let after = [area(0, 64, 2), area(100, 64, 4), area(200, 64, 0)];
        let done = marks.wanted(&before, HUGE);
        let cold = marks.looked(&before, &after, &done, HUGE, IDLE, once(at(60)));
        let cold: Vec<_> = cold.into_iter().map(|it| it.range).collect();
        assert_eq!(cold, part);
        // A small one has two parts only: the others have no turn.
        let small = [area(300, 2, 0)];
        let mut of_small = Marks::new(&Room::new(1 << 20));
        let all = of_small.wanted(&small, HUGE);
        of_small.looked(&small, &small, &all, HUGE, IDLE, once(begin));
        of_small.skip_empty(&small, HUGE, at(60));
        let part = (300 / 2) % PARTS;
        assert_eq!(of_small.next, part);
        assert_eq!(of_small.wanted(&small, HUGE), small[0].part(part, HUGE));
        // One that is another size now, or gone, is not known.
        let grown = [area(0, 64, 0), area(100, 68, 4), area(200, 64, 0)];
        for (after, second) in [(&grown[..], 61), (&[], 62)] {
            let done = marks.wanted(&before[1..2], HUGE);
            let cold = marks.looked(&before[1..2], after, &done, HUGE, IDLE, once(at(second)));
            assert!(cold.is_empty());
        }
    }

    #[test]
    fn what_the_kernel_did_not_forget_is_not_judged_then_nor_the_next_time() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        // Each part has a range of both.
        let two = [area(0, 64, 64), area(64, 64, 64)];
        let mut marks = Marks::new(&Room::new(1 << 20));
        let mut done = marks.wanted(&two, HUGE);
        // Of the first one nothing was forgotten at first: how old its marks are is unknown.
        done.retain(|range| range.start >= 64 * MIB);
        marks.looked(&two, &two, &done, HUGE, IDLE, once(begin));
        let done = marks.wanted(&two, HUGE);
        assert_eq!(done.len(), 2);
        let cold = marks.looked(&two, &two, &done, HUGE, IDLE, once(at(60)));
        let cold: Vec<_> = cold.into_iter().map(|it| it.range).collect();
        assert_eq!(cold, done[1..]);
        // Of the second one nothing is now, so that it lost nothing.
        let done = marks.wanted(&two, HUGE);
        let cold = marks.looked(&two, &two, &done[..1], HUGE, IDLE, once(at(60)));
        assert!(cold.is_empty(), "{cold:?}");
    }

    #[test]
    fn what_is_noted_of_all_processes_has_a_bound_and_is_given_back_with_them() {
        let room = Room::new(100 * 16);
        let left = || room.0.load(Ordering::Relaxed) / 16;
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        // 16 ranges each.
        let areas = [area(0, 64, 0), area(64, 64, 0)];
        let look = |marks: &mut Marks, second| {
            let wanted = marks.wanted(&areas, HUGE);
            match marks.has_room(&wanted) {
                true => marks.looked(&areas, &areas, &wanted, HUGE, IDLE, once(at(second))),
                false => {
                    marks.pass(at(second));
                    Vec::new()
                }
            }
        };
        let mut many: Vec<Marks> = (0..20).map(|_| Marks::new(&room)).collect();
        for (number, marks) in many.iter_mut().enumerate() {
            look(marks, 0);
            let had = 100_u64.saturating_sub(32 * (number as u64 + 1)).max(4);
            assert_eq!(left(), had);
        }
        // Of those that have none, none is judged; of the others a part is.
        let found: Vec<usize> = many.iter_mut().map(|it| look(it, 60).len()).collect();
        assert_eq!(found[..3], [2, 2, 2]);
        assert_eq!(found[3..].iter().sum::<usize>(), 0);
        assert!(left() <= 4);
        // The last ones have their turn when others are gone, and are judged after that.
        many.drain(..19);
        let mut last = many.pop().unwrap();
        let before = left();
        assert!(before >= 90, "{before}");
        let found: Vec<usize> = (2..2 + 32)
            .map(|minute| look(&mut last, 60 * minute).len())
            .collect();
        assert_eq!(found[..16].iter().sum::<usize>(), 0);
        assert_eq!(found[16..], [2; 16]);
        assert_eq!(left(), 100 - 32);
        drop(last);
        assert_eq!(left(), 100);
    }

    #[test]
    fn what_cannot_be_swapped_out_is_no_area() {
        let plain = Mapping {
            end: 4 * MIB,
            private: true,
            rss: 1024,
            ..Mapping::default()
        };
        assert!(Area::of(&plain, 4096).is_some());
        let sparse = |mib: u64| Mapping {
            end: mib * MIB,
            ..plain.clone()
        };
        assert!(Area::of(&sparse(4 * 64), 4096).is_some());
        let mut others = vec![plain.clone(); 7];
        others.push(sparse(4 * 64 + 1));
        others.push(sparse(127 << 20));
        others[0].private = false;
        others[1].inode = 7;
        others[2].flags.locked = true;
        others[3].flags.hugetlb = true;
        others[4].flags.device = true;
        others[5].rss = 63;
        others[6].shared = 1;
        for other in &others {
            assert_eq!(Area::of(other, 4096), None, "{other:?}");
        }
    }
}
