//! How the kernel makes room: which touches of pages are faults with a limit, by the two
//! lists of its reclaim.
//!
//! A page that comes in stands at the head of the inactive list. Reclaim looks at that
//! list's tail, a batch at a time: a page that was touched since goes to the head again,
//! and at the second time to the active list; another one is evicted. When the inactive
//! list is the shorter one, or pages came back of late, the tail of the active list goes to
//! the inactive one, touched or not. A page that comes back after fewer evictions and
//! activations than the active list has pages is active at once (the kernel's `mm/vmscan.c`
//! and `mm/workingset.c`, without the multi-generational lists, for anonymous memory).
//!
//! Between a page's coming in and its standing on a list are a processor's own batches.

/// The kernel reclaims so many pages at once (`SWAP_CLUSTER_MAX`).
const RECLAIMED_AT_ONCE: f64 = 32.0;
/// A processor collects so many pages before they stand on a list (`PAGEVEC_SIZE`).
const COLLECTED: f64 = 31.0;
/// How often reclaim looks at more of the lists (`DEF_PRIORITY`).
const PRIORITY: u32 = 12;
/// No page.
const NONE: u32 = u32::MAX;

/// Where a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Place {
    /// It was never there, or was given back.
    #[default]
    Nowhere,
    Evicted,
    /// On its way to a list.
    Collected {
        active: bool,
    },
    Inactive,
    Active,
}

#[derive(Debug, Clone, Copy, Default)]
struct Page {
    place: Place,
    before: u32,
    after: u32,
    /// Touched since reclaim looked at it.
    touched: bool,
    /// Reclaim found it touched once.
    referenced: bool,
    /// What had been evicted and activated when it was evicted.
    evicted_at: u64,
}

/// Head, tail and length.
#[derive(Debug, Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
    len: usize,
}

impl List {
    const EMPTY: List = List {
        head: NONE,
        tail: NONE,
        len: 0,
    };
}

/// A group's memory under a limit.
#[derive(Debug, Clone)]
pub(crate) struct Lists {
    pages: Vec<Page>,
    inactive: List,
    active: List,
    collected: Vec<u32>,
    in_memory: usize,
    /// Evictions and activations so far.
    age: u64,
    came_back: u64,
    came_back_before: u64,
    scanned: u64,
    at_once: usize,
    collected_max: usize,
}

impl Lists {
    /// For pages with numbers below `count`, which stand for more: one of them for 1 / `share`.
    pub(crate) fn new(count: usize, share: f64) -> Lists {
        let scaled = |of: f64| ((of * share) as usize).max(1);
        Lists {
            pages: vec![Page::default(); count],
            inactive: List::EMPTY,
            active: List::EMPTY,
            collected: Vec::new(),
            in_memory: 0,
            age: 0,
            came_back: 0,
            came_back_before: 0,
            scanned: 0,
            at_once: scaled(RECLAIMED_AT_ONCE),
            collected_max: scaled(COLLECTED),
        }
    }

    /// A page is touched with room for so many: whether it is a fault, that is, it was evicted.
    pub(crate) fn touch(&mut self, page: u32, room: usize) -> bool {
        let at = page as usize;
        let came_back = match self.pages[at].place {
            Place::Inactive | Place::Active | Place::Collected { .. } => {
                self.pages[at].touched = true;
                return false;
            }
            Place::Evicted => true,
            Place::Nowhere => false,
        };
        self.make_room(room);
        let age = self.age - self.pages[at].evicted_at;
        let active = came_back && age <= self.active.len as u64;
        if active {
            self.age += 1;
            self.came_back += 1;
        }
        self.pages[at] = Page {
            place: Place::Collected { active },
            touched: true,
            ..Page::default()
        };
        self.collected.push(page);
        self.in_memory += 1;
        if self.collected.len() >= self.collected_max {
            self.drain();
        }
        came_back
    }

    /// How many times reclaim has looked at a page of the inactive list, as the kernel counts it (`pgscan`).
    pub(crate) fn scanned(&self) -> u64 {
        self.scanned
    }

    /// A page is given back.
    pub(crate) fn forget(&mut self, page: u32) {
        match self.pages[page as usize].place {
            Place::Collected { .. } => {
                self.collected.retain(|&it| it != page);
                self.in_memory -= 1;
            }
            Place::Inactive | Place::Active => {
                self.take(page);
                self.in_memory -= 1;
            }
            Place::Nowhere | Place::Evicted => {}
        }
        self.pages[page as usize].place = Place::Nowhere;
    }

    fn list(&mut self, place: Place) -> &mut List {
        match place {
            Place::Active => &mut self.active,
            _ => &mut self.inactive,
        }
    }

    fn put(&mut self, page: u32, place: Place) {
        let head = self.list(place).head;
        match head {
            NONE => self.list(place).tail = page,
            _ => self.pages[head as usize].before = page,
        }
        let it = &mut self.pages[page as usize];
        (it.place, it.before, it.after) = (place, NONE, head);
        let list = self.list(place);
        list.head = page;
        list.len += 1;
    }

    fn take(&mut self, page: u32) {
        let Page {
            place,
            before,
            after,
            ..
        } = self.pages[page as usize];
        match before {
            NONE => self.list(place).head = after,
            _ => self.pages[before as usize].after = after,
        }
        match after {
            NONE => self.list(place).tail = before,
            _ => self.pages[after as usize].before = before,
        }
        self.list(place).len -= 1;
    }

    fn drain(&mut self) {
        for page in std::mem::take(&mut self.collected) {
            let place = match self.pages[page as usize].place {
                Place::Collected { active: true } => Place::Active,
                _ => Place::Inactive,
            };
            self.put(page, place);
        }
    }

    fn make_room(&mut self, room: usize) {
        while self.in_memory >= room.max(1) {
            let before = self.in_memory;
            self.reclaim();
            if self.in_memory == before {
                return;
            }
        }
    }

    /// A batch is evicted: a share of the lists is looked at, then twice as much, and so on.
    fn reclaim(&mut self) {
        self.drain();
        let mut may_deactivate = self.came_back != self.came_back_before;
        self.came_back_before = self.came_back;
        let wanted = self.in_memory.saturating_sub(self.at_once);
        for priority in (0..=PRIORITY).rev() {
            may_deactivate |= self.inactive.len < self.active.len;
            let (mut active, mut inactive) =
                (self.active.len >> priority, self.inactive.len >> priority);
            while (active > 0 || inactive > 0) && self.in_memory > wanted {
                let batch = active.min(self.at_once);
                active -= batch;
                if may_deactivate {
                    self.deactivate(batch);
                }
                let batch = inactive.min(self.at_once);
                inactive -= batch;
                self.look_at_inactive(batch);
            }
            if self.inactive.len < self.active.len {
                self.deactivate(self.at_once);
            }
            if self.in_memory <= wanted {
                return;
            }
        }
    }

    fn deactivate(&mut self, count: usize) {
        for _ in 0..count {
            let page = self.active.tail;
            if page == NONE {
                return;
            }
            self.take(page);
            self.pages[page as usize].touched = false;
            self.put(page, Place::Inactive);
        }
    }

    fn look_at_inactive(&mut self, count: usize) {
        let mut stay = Vec::new();
        for _ in 0..count {
            let page = self.inactive.tail;
            if page == NONE {
                break;
            }
            self.take(page);
            self.scanned += 1;
            let it = &mut self.pages[page as usize];
            if it.touched {
                let place = match it.referenced {
                    true => Place::Active,
                    false => Place::Inactive,
                };
                (it.touched, it.referenced) = (false, true);
                stay.push((page, place));
            } else {
                self.age += 1;
                it.place = Place::Evicted;
                it.evicted_at = self.age;
                self.in_memory -= 1;
            }
        }
        for (page, place) in stay {
            self.put(page, place);
            self.age += u64::from(place == Place::Active);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(touches: impl Iterator<Item = u32>, room: usize) -> usize {
        let mut lists = Lists::new(1000, 1.0);
        touches.filter(|&page| lists.touch(page, room)).count()
    }

    #[test]
    fn what_fits_has_no_faults_and_a_loop_through_more_has_one_at_each_touch() {
        let turns = |pages: u32| (0..10).flat_map(move |_| 0..pages);
        assert_eq!(faults(turns(500), 501), 0);
        assert_eq!(faults(turns(1000), 800), 9000);
    }

    #[test]
    fn pages_touched_again_and_again_stay_while_others_pass_through_once() {
        // 100 pages that are touched after each 50 others of 900 in turns.
        let hot = (0..20_000u32).flat_map(|turn| [turn % 100, 100 + turn % 900]);
        let mut lists = Lists::new(1000, 1.0);
        let mut of_hot = 0;
        let mut of_others = 0;
        for page in hot {
            if lists.touch(page, 500) {
                match page < 100 {
                    true => of_hot += 1,
                    false => of_others += 1,
                }
            }
        }
        assert!(
            of_others > 15_000 && of_hot * 20 < of_others,
            "{of_hot} {of_others}"
        );
    }

    #[test]
    fn no_more_is_in_memory_than_there_is_room_for_and_what_is_given_back_makes_room() {
        let mut lists = Lists::new(1000, 1.0);
        for page in 0..700 {
            lists.touch(page, 300);
            assert!(lists.in_memory <= 300);
        }
        for page in 0..700 {
            lists.forget(page);
        }
        assert_eq!(
            (lists.in_memory, lists.inactive.len, lists.active.len),
            (0, 0, 0)
        );
        // It comes in for the first time again.
        assert!(!lists.touch(3, 300));
    }

    /// Touches of so many pages at random.
    fn at_random(pages: u64, touches: usize) -> impl Iterator<Item = u32> {
        let mut state = 9u64;
        let random = std::iter::repeat_with(move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % pages) as u32
        });
        random.take(touches)
    }

    #[test]
    fn the_more_pages_are_in_use_the_more_are_passed_over_for_one_that_is_evicted() {
        const PAGES: usize = 8192;
        let looks = |room: f64| {
            let mut lists = Lists::new(PAGES, 1.0);
            let touches = (0..PAGES as u32).chain(at_random(PAGES as u64, 100_000));
            let room = (PAGES as f64 * room) as usize;
            let faults = touches.filter(|&page| lists.touch(page, room)).count();
            lists.scanned() as f64 / faults as f64
        };
        // Linux 6.18 looked at 3 pages for a fault with room for some three of five, at 10 with room for nearly all.
        let (tight, loose) = (looks(0.59), looks(0.945));
        assert!((2.3..3.8).contains(&tight), "{tight}");
        assert!((6.0..13.5).contains(&loose), "{loose}");
        let mut lists = Lists::new(10, 1.0);
        (0..10).for_each(|page| assert!(!lists.touch(page, 11)));
        assert_eq!(lists.scanned(), 0);
    }

    #[test]
    fn touches_at_random_are_faults_as_often_as_there_is_no_room_for_their_page() {
        let count = faults(at_random(1000, 40_000), 800);
        assert!((7_200..8_600).contains(&count), "{count}");
    }
}
