//! The page store itself.

use std::ptr::{self, NonNull};

use crate::{codec, raw, Codec};

/// Bytes of a page in the store, fixed when it is compiled; 4096 by default.
pub fn page_size() -> usize {
    // SAFETY: a constant of plain numbers.
    unsafe { raw::zm_abi.page_size }
}

/// Bytes that a share takes beside its object.
pub const SHARE_BYTES: u64 = 24;

/// When identical pages are melded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MeldMode {
    /// Never: no fingerprints are taken. What zram does.
    Off,
    /// When a pass is started.
    #[default]
    Manual,
    /// At each write, as long as the measured hit rate pays for it.
    Auto,
    /// At each write.
    Inline,
}

impl MeldMode {
    /// The mode's name, as the kernel device spells it.
    pub fn name(self) -> &'static str {
        match self {
            MeldMode::Off => "off",
            MeldMode::Manual => "manual",
            MeldMode::Auto => "auto",
            MeldMode::Inline => "inline",
        }
    }

    fn number(self) -> u32 {
        self as u32
    }
}

/// What a store is made with.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Pages that the store can hold.
    pub pages: u64,
    /// Bytes of pool memory that it may use; `None`: no limit.
    pub memory_limit: Option<u64>,
    /// When identical pages are melded.
    pub mode: MeldMode,
    /// Codec contexts, and so pages compressed at once; `None`: one a processor.
    pub streams: Option<u32>,
}

impl StoreOptions {
    /// Room for `pages` pages, fingerprints on, everything else as the device has it.
    pub fn new(pages: u64) -> StoreOptions {
        StoreOptions {
            pages,
            memory_limit: None,
            mode: MeldMode::default(),
            streams: None,
        }
    }
}

/// Why a request of the store failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The page number is not below the store's size.
    #[error("page {index} does not exist: the store has pages 0 to {last}")]
    NoSuchPage {
        /// The number asked for.
        index: u64,
        /// The last page.
        last: u64,
    },
    /// No memory, or the memory limit is reached; what the page held is still there.
    #[error("no memory for page {index}: the memory limit is reached or memory has run out")]
    NoMemoryForPage {
        /// The page that was written.
        index: u64,
    },
    /// The stored bytes are damaged: they do not decompress, or not to the page's fingerprint.
    #[error(
        "page {index} is damaged: its stored bytes are not those of the page that was written"
    )]
    Damaged {
        /// The page that was read.
        index: u64,
    },
    /// No memory for the store's own tables or for a pass.
    #[error("no memory for {what}")]
    NoMemory {
        /// What it was for.
        what: &'static str,
    },
    /// A pass, or a check, runs on this store already.
    #[error("a pass runs already; stop it first")]
    Busy,
    /// The options cannot be met.
    #[error("a store cannot have {pages} pages: it holds 1 to 4294967296")]
    BadOptions {
        /// The pages asked for.
        pages: u64,
    },
}

/// What a store holds and has done. See `struct zm_stats` for each field.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // The words are the header's, and the README's glossary.
pub struct Stats {
    pub slots: u64,
    pub pages_stored: u64,
    pub pages_same: u64,
    pub pages_raw: u64,
    pub pages_shared: u64,
    pub pages_backed: u64,
    pub objects: u64,
    pub shares: u64,
    pub bytes_compressed: u64,
    pub bytes_melded: u64,
    pub pages_melded: u64,
    pub memory_used: u64,
    pub memory_used_max: u64,
    pub memory_limit: u64,
    pub memory_metadata: u64,
    pub blocks: u64,
    pub blocks_used: u64,
    pub reads: u64,
    pub writes: u64,
    pub discards: u64,
    pub raw_since: u64,
    pub passes: u64,
    pub pass_melded: u64,
    pub inline_probes: u64,
    pub inline_melded: u64,
    pub inline_unchanged: u64,
    pub inline_collisions: u64,
    pub auto_switches: u64,
    pub recompressed: u64,
    pub writebacks: u64,
    pub encode_errors: u64,
    pub failures: [u64; raw::REASONS],
    pub mode: u32,
    pub inline_active: u32,
}

/// What a pass is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct MeldOptions {
    /// Run only if the sampled share of duplicates is at least this, in thousandths.
    pub threshold_permille: u32,
}

/// What a pass did. See `struct zm_meld_result` for each field.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct MeldResult {
    pub pages_stored: u64,
    pub pages_unfingerprinted: u64,
    pub pages_sampled: u64,
    pub duplicates_sampled: u64,
    pub candidates: u64,
    pub pages_melded: u64,
    pub bytes_saved: u64,
    pub bytes_metadata: u64,
    pub collisions: u64,
    pub raced: u64,
    pub memory_borrowed: u64,
    pub rounds: u64,
    pub time_sample_ns: u64,
    pub time_find_ns: u64,
    pub time_meld_ns: u64,
    pub pages_backed: u64,
    pub pages_crowded: u64,
    pub below_threshold: bool,
    pub stopped: bool,
}

/// A page store. All requests may come from many threads at once.
pub struct Store {
    raw: NonNull<raw::Opaque>,
    pages: u64,
    /// Keeps alive the dictionary that the store borrows.
    _codec: Codec,
}

// SAFETY: the C store is made for concurrent use; what needs exclusive access
// (destroy, the deeper checks) takes `self` or `&mut self` here.
unsafe impl Send for Store {}
// SAFETY: as above.
unsafe impl Sync for Store {}

impl Store {
    /// An empty store that compresses with `codec`.
    pub fn new(options: &StoreOptions, codec: &Codec) -> Result<Store, StoreError> {
        let (ops, params) = codec.raw_parts();
        let options_raw = raw::Options {
            slots: options.pages,
            memory_limit: options.memory_limit.unwrap_or(0),
            mode: options.mode.number(),
            streams: options.streams.unwrap_or(0),
            check_writes: raw::CHECK_WRITES_AUTO,
            verify: false,
            keyed: false,
            track_time: false,
            key: [0; raw::KEY_SIZE],
            codecs: [
                raw::CodecChoice { ops, params },
                unused(),
                unused(),
                unused(),
            ],
        };
        let mut store = ptr::null_mut();
        // SAFETY: the options are complete; ops is a constant table, and the
        // dictionary that params borrows lives in the codec, kept below.
        let ret = unsafe { raw::zm_store_create(&options_raw, &mut store) };
        match (ret, NonNull::new(store)) {
            (0, Some(raw)) => Ok(Store {
                raw,
                pages: options.pages,
                _codec: codec.clone(),
            }),
            (ret, _) if ret == -libc_errno::EINVAL => Err(StoreError::BadOptions {
                pages: options.pages,
            }),
            _ => Err(StoreError::NoMemory { what: "the store" }),
        }
    }

    /// Stores a page. After an error the page holds what it held before.
    ///
    /// # Panics
    /// When `page` is not [`page_size`] bytes long.
    pub fn write(&self, index: u64, page: &[u8]) -> Result<(), StoreError> {
        assert_eq!(page.len(), page_size());
        // SAFETY: the store is alive, the page has its full length.
        let ret = unsafe { raw::zm_page_write(self.raw.as_ptr(), index, page.as_ptr().cast()) };
        match ret {
            0 => Ok(()),
            ret if ret == -libc_errno::EINVAL => Err(self.no_such_page(index)),
            _ => Err(StoreError::NoMemoryForPage { index }),
        }
    }

    /// Reads a page; one that was never written, or was discarded, is zeros.
    ///
    /// # Panics
    /// When `page` is not [`page_size`] bytes long.
    pub fn read(&self, index: u64, page: &mut [u8]) -> Result<(), StoreError> {
        assert_eq!(page.len(), page_size());
        // SAFETY: the store is alive, the page has its full length.
        let ret = unsafe { raw::zm_page_read(self.raw.as_ptr(), index, page.as_mut_ptr().cast()) };
        match ret {
            0 => Ok(()),
            ret if ret == -libc_errno::EINVAL => Err(self.no_such_page(index)),
            _ => Err(StoreError::Damaged { index }),
        }
    }

    /// Forgets a page. One that does not exist is ignored.
    pub fn discard(&self, index: u64) {
        // SAFETY: the store is alive.
        unsafe { raw::zm_page_discard(self.raw.as_ptr(), index) }
    }

    /// Runs a pass: finds identical pages and makes them share.
    pub fn meld(&self, options: &MeldOptions) -> Result<MeldResult, StoreError> {
        let options = raw::MeldOptions {
            threshold_permille: options.threshold_permille,
            ..raw::MeldOptions::default()
        };
        let mut result = MeldResult::default();
        // SAFETY: the store is alive; both structs are valid for the call.
        match unsafe { raw::zm_meld_run(self.raw.as_ptr(), &options, &mut result) } {
            0 => Ok(result),
            ret if ret == -libc_errno::EBUSY => Err(StoreError::Busy),
            _ => Err(StoreError::NoMemory { what: "the pass" }),
        }
    }

    /// Packs the pool; the bytes given back.
    pub fn compact(&self) -> u64 {
        // SAFETY: the store is alive.
        unsafe { raw::zm_store_compact(self.raw.as_ptr()) }
    }

    /// What the store holds and has done.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        // SAFETY: the store is alive; the struct is valid for the call.
        unsafe { raw::zm_store_stats(self.raw.as_ptr(), &mut stats) };
        stats
    }

    fn no_such_page(&self, index: u64) -> StoreError {
        StoreError::NoSuchPage {
            index,
            last: self.pages - 1,
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: made by zm_store_create, destroyed once, nobody else uses it.
        unsafe { raw::zm_store_destroy(self.raw.as_ptr()) }
    }
}

/// No codec for a priority: nothing here recompresses.
fn unused() -> raw::CodecChoice {
    raw::CodecChoice {
        ops: ptr::null(),
        params: codec::raw::Params {
            level: codec::raw::LEVEL_DEFAULT,
            window_bits: 0,
            page_size: 0,
            dict: ptr::null(),
            dict_size: 0,
            prepared: ptr::null_mut(),
            checks_page: false,
        },
    }
}

/// The word that a page repeats from end to end, if it does: a same-filled page. The
/// page may be one of another machine.
///
/// # Panics
/// When `page` is not some times [`page_size`] bytes long, and at least once.
pub fn fill_word(page: &[u8]) -> Option<u64> {
    let mut parts = parts(page).map(fill_word_of_part);
    let first = parts.next().flatten()?;
    parts.all(|word| word == Some(first)).then_some(first)
}

/// The parts of another machine's page that are as long as the store's own.
fn parts(page: &[u8]) -> std::slice::ChunksExact<'_, u8> {
    assert!(!page.is_empty() && page.len().is_multiple_of(page_size()));
    page.chunks_exact(page_size())
}

fn fill_word_of_part(part: &[u8]) -> Option<u64> {
    let mut word = 0;
    // SAFETY: the part has a page's full length, word is a valid place.
    unsafe { raw::zm_page_fill(part.as_ptr().cast(), &mut word) }.then_some(word)
}

/// A key for the store's 32-bit page fingerprints.
pub struct FingerprintKey(NonNull<raw::Opaque>);

// SAFETY: the key is only read after it was made.
unsafe impl Send for FingerprintKey {}
// SAFETY: as above.
unsafe impl Sync for FingerprintKey {}

impl FingerprintKey {
    /// Expands a key.
    pub fn new(key: &[u8; raw::KEY_SIZE]) -> Result<FingerprintKey, StoreError> {
        // SAFETY: the key has its full length.
        NonNull::new(unsafe { raw::zm_fingerprint_key_create(key.as_ptr()) })
            .map(FingerprintKey)
            .ok_or(StoreError::NoMemory {
                what: "a fingerprint key",
            })
    }

    /// The page's fingerprint under this key.
    ///
    /// # Panics
    /// When `page` is not [`page_size`] bytes long.
    pub fn fingerprint(&self, page: &[u8]) -> u32 {
        assert_eq!(page.len(), page_size());
        // SAFETY: the key is alive, the page has its full length.
        unsafe { raw::zm_fingerprint(self.0.as_ptr(), page.as_ptr().cast()) }
    }

    /// The work that the fingerprint of another machine's page is: that of its parts.
    ///
    /// # Panics
    /// When `page` is not some times [`page_size`] bytes long, and at least once.
    pub fn work(&self, page: &[u8]) -> u32 {
        parts(page).fold(0, |sum, part| sum ^ self.fingerprint(part))
    }
}

impl Drop for FingerprintKey {
    fn drop(&mut self) {
        // SAFETY: made by zm_fingerprint_key_create, destroyed once.
        unsafe { raw::zm_fingerprint_key_destroy(self.0.as_ptr()) }
    }
}

/// The errno values of Linux that the store returns; the same everywhere it runs.
mod libc_errno {
    pub const EBUSY: i32 = 16;
    pub const EINVAL: i32 = 22;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(pages: u64, mode: MeldMode) -> Store {
        let codec = Codec::new("lz4", None, None).unwrap();
        let mut options = StoreOptions::new(pages);
        options.mode = mode;
        Store::new(&options, &codec).unwrap()
    }

    fn page(seed: u64) -> Vec<u8> {
        (0..page_size() as u64)
            .map(|i| ((i / 7).wrapping_mul(seed + 3) >> 4) as u8)
            .collect()
    }

    #[test]
    fn what_is_written_is_read_and_melded_pages_count_once() {
        let store = store(64, MeldMode::Manual);
        for index in 0..64 {
            store.write(index, &page(index % 16)).unwrap();
        }
        let before = store.stats();
        assert_eq!(before.objects, 64);
        let result = store.meld(&MeldOptions::default()).unwrap();
        assert_eq!(result.pages_melded, 48);
        let after = store.stats();
        assert_eq!((after.objects, after.shares), (16, 16));
        assert_eq!(
            after.bytes_compressed + result.bytes_saved,
            before.bytes_compressed
        );
        let mut back = vec![0; page_size()];
        for index in 0..64 {
            store.read(index, &mut back).unwrap();
            assert!(back == page(index % 16));
        }
    }

    #[test]
    fn auto_mode_follows_the_hit_rate() {
        let store = store(1 << 16, MeldMode::Auto);
        // One fingerprint in sixteen is sampled, 4096 of them make a window.
        for index in 0..1 << 17 {
            store.write(index % (1 << 16), &page(index % 4096)).unwrap();
        }
        assert_eq!(store.stats().inline_active, 1);
        assert!(store.stats().inline_melded > 1 << 14);
        let mut unique = page(0);
        for index in 0u64..1 << 16 {
            unique[..8].copy_from_slice(&(index + 1_000_000).to_le_bytes());
            store.write(index, &unique).unwrap();
        }
        assert_eq!(store.stats().inline_active, 0);
        assert_eq!(store.stats().auto_switches, 2);
    }

    #[test]
    fn wrong_pages_and_full_stores_say_so_and_change_nothing() {
        let mut options = StoreOptions::new(4);
        // What one raw page takes.
        options.memory_limit = Some(page_size() as u64);
        let store = Store::new(&options, &Codec::new("lz4", None, None).unwrap()).unwrap();
        let err = store.write(4, &page(1)).unwrap_err();
        assert_eq!(
            err.to_string(),
            "page 4 does not exist: the store has pages 0 to 3"
        );
        let noise = |mut state: u64| -> Vec<u8> {
            let bytes = (0..page_size()).map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 56) as u8
            });
            bytes.collect()
        };
        store.write(0, &noise(1)).unwrap();
        assert_eq!(
            store.write(0, &noise(2)),
            Err(StoreError::NoMemoryForPage { index: 0 })
        );
        let mut back = vec![0; page_size()];
        store.read(0, &mut back).unwrap();
        assert!(back == noise(1));
    }

    #[test]
    fn same_filled_pages_are_told() {
        assert_eq!(fill_word(&vec![0; page_size()]), Some(0));
        let word = 0x0123_4567_89ab_cdefu64;
        let mut page = word.to_ne_bytes().repeat(page_size() / 8);
        assert_eq!(fill_word(&page), Some(word));
        let mut larger = page.repeat(4);
        assert_eq!(fill_word(&larger), Some(word));
        larger[2 * page_size() + 8] ^= 1;
        assert_eq!(fill_word(&larger), None);
        larger[..page_size()].fill(0);
        assert_eq!(fill_word(&larger), None);
        page[page_size() - 9] ^= 1;
        assert_eq!(fill_word(&page), None);
    }
}
