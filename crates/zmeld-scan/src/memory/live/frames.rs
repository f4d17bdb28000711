//! Physical frames: which were delivered, and which are the pages of zeros.
//!
//! One bit a frame, sized from `/proc/zoneinfo`; frames beyond it (memory
//! plugged in since) go to a set. Both are exact.

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A set of frame numbers (or swap slots) that many threads add to.
#[derive(Debug)]
pub(crate) struct FrameSet {
    words: Box<[AtomicU64]>,
    beyond: Mutex<HashSet<u64>>,
}

impl FrameSet {
    pub(crate) fn new(frames: u64) -> Self {
        let words = usize::try_from(frames.div_ceil(64)).unwrap_or(0);
        FrameSet {
            words: std::iter::repeat_with(AtomicU64::default)
                .take(words)
                .collect(),
            beyond: Mutex::default(),
        }
    }

    /// A set with room for every frame of this machine.
    pub(crate) fn of_machine() -> Self {
        let zones = std::fs::read_to_string("/proc/zoneinfo").unwrap_or_default();
        Self::new(frames_end(&zones))
    }

    /// Adds a frame; false if it was there already.
    pub(crate) fn insert(&self, frame: u64) -> bool {
        let bit = 1 << (frame % 64);
        match self.word(frame) {
            Some(word) => word.fetch_or(bit, Ordering::Relaxed) & bit == 0,
            None => self
                .beyond
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(frame),
        }
    }

    pub(crate) fn contains(&self, frame: u64) -> bool {
        match self.word(frame) {
            Some(word) => word.load(Ordering::Relaxed) >> (frame % 64) & 1 == 1,
            None => self
                .beyond
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .contains(&frame),
        }
    }

    /// The non-zero words: bits `64 * index ..` of the set.
    pub(crate) fn words(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.words
            .iter()
            .enumerate()
            .map(|(index, word)| (index as u64, word.load(Ordering::Relaxed)))
            .filter(|(_, word)| *word != 0)
    }

    fn word(&self, frame: u64) -> Option<&AtomicU64> {
        usize::try_from(frame / 64)
            .ok()
            .and_then(|index| self.words.get(index))
    }
}

/// The physical pages that were delivered, by one reading or by several that must not
/// deliver a page twice. Empty, and of no use, where the kernel hides frame numbers.
#[derive(Debug)]
pub struct SeenFrames(pub(crate) Option<FrameSet>);

impl SeenFrames {
    /// Whether the kernel tells frame numbers.
    pub fn are_told(&self) -> bool {
        self.0.is_some()
    }
}

impl Default for SeenFrames {
    /// None yet, with one bit for each page of this machine.
    fn default() -> SeenFrames {
        SeenFrames(super::pagemap::frame_numbers_visible().then(FrameSet::of_machine))
    }
}

/// One past the last frame of any zone.
fn frames_end(zoneinfo: &str) -> u64 {
    let mut end = 0;
    let mut spanned = 0;
    for line in zoneinfo.lines() {
        let mut words = line.split_ascii_whitespace();
        match (words.next(), words.next()) {
            (Some("spanned"), Some(pages)) => spanned = pages.parse().unwrap_or(0),
            (Some("start_pfn:"), Some(first)) => {
                end = end.max(first.parse::<u64>().unwrap_or(0) + spanned);
            }
            _ => {}
        }
    }
    end
}

/// `/proc/kpageflags`, for the few questions that page tables leave open.
pub(crate) struct PageFlags(pub(super) File);

const KPF_COMPOUND_TAIL: u32 = 16;
const KPF_ZERO_PAGE: u32 = 24;

impl PageFlags {
    pub(crate) fn open() -> Option<Self> {
        let flags = PageFlags(File::open("/proc/kpageflags").ok()?);
        flags.read(0)?;
        Some(flags)
    }

    /// Is this frame a page of zeros that the kernel maps wherever untouched memory is read?
    pub(crate) fn is_zero_page(&self, frame: u64) -> bool {
        self.has(frame, KPF_ZERO_PAGE)
    }

    fn has(&self, frame: u64, flag: u32) -> bool {
        let flags = self.read(frame);
        flags.is_some_and(|flags| flags >> flag & 1 == 1)
    }

    fn read(&self, frame: u64) -> Option<u64> {
        let mut word = [0; 8];
        self.0.read_exact_at(&mut word, frame * 8).ok()?;
        Some(u64::from_ne_bytes(word))
    }
}

/// Finds the first frame of the compound page that a frame is part of;
/// remembers the last answer, because frames mostly come in order.
#[derive(Default)]
pub(crate) struct HeadFinder {
    frame: u64,
    head: u64,
}

impl HeadFinder {
    pub(crate) fn head_of(&mut self, flags: &PageFlags, frame: u64) -> u64 {
        let mut head = frame;
        while head > 0 && flags.has(head, KPF_COMPOUND_TAIL) {
            head -= 1;
            if head == self.frame {
                head = self.head;
            }
        }
        (self.frame, self.head) = (frame, head);
        head
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_new_once_inside_and_beyond() {
        let set = FrameSet::new(100);
        for frame in [0, 63, 64, 99, 1 << 40] {
            assert!(!set.contains(frame));
            assert!(set.insert(frame));
            assert!(!set.insert(frame));
            assert!(set.contains(frame));
        }
        assert_eq!(
            set.words().collect::<Vec<_>>(),
            [(0, 1 | 1 << 63), (1, 1 | 1 << 35)]
        );
    }

    #[test]
    fn frames_end_behind_the_last_of_any_zone() {
        let zone = |spanned, first| {
            format!("  pages free 7\n  spanned  {spanned}\n  start_pfn: {first}\n")
        };
        let text = zone(4095, 1) + &zone(1000, 9000) + &zone(0, 0) + &zone(10, 500);
        assert_eq!(frames_end(&text), 10_000);
        assert_eq!(frames_end(""), 0);
    }

    /// Of compound pages of four frames at 0, 4 and 12, asked for in several orders.
    #[test]
    fn each_tail_has_its_head() {
        let file = tempfile::tempfile().unwrap();
        for tail in [1, 2, 3, 5, 6, 7, 13, 14, 15_u64] {
            let word = 1u64 << KPF_COMPOUND_TAIL;
            file.write_all_at(&word.to_ne_bytes(), tail * 8).unwrap();
        }
        let flags = PageFlags(file);
        let head = |frame: u64| {
            if (8..12).contains(&frame) {
                frame
            } else {
                frame / 4 * 4
            }
        };
        for step in [1, 3, 5, 7, 11] {
            let mut finder = HeadFinder::default();
            for frame in (0..48).map(|at| at * step % 16) {
                assert_eq!(
                    finder.head_of(&flags, frame),
                    head(frame),
                    "{frame} of {step}"
                );
            }
        }
        assert!(!flags.is_zero_page(3));
    }
}
