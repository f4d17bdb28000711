//! The page store itself.

use std::ptr::{self, NonNull};

use crate::codec::Codec;
use crate::geometry::page_size;
use crate::raw::{self, MeldResult, Stats};

/// Bytes that a share takes beside its object.
pub const SHARE_BYTES: u64 = 24;

/// When identical pages are melded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeldMode {
    /// When a pass is started.
    Manual = 1,
    /// At each write, as long as the measured hit rate pays for it.
    Auto = 2,
}

/// A refusal of the store, or its lack of memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {}", std::io::Error::from_raw_os_error(*.errno))]
pub struct StoreError {
    /// The request.
    what: &'static str,
    errno: i32,
}

/// A request's result, by what it returned.
fn done(what: &'static str, ret: i32) -> Result<(), StoreError> {
    match ret {
        0 => Ok(()),
        ret => Err(StoreError { what, errno: -ret }),
    }
}

/// A page store. All requests may come from many threads at once.
pub struct Store {
    raw: NonNull<raw::Opaque>,
}

// SAFETY: the C store is made for concurrent use; what needs exclusive access
// (destroy, the deeper checks) takes `self` or `&mut self` here.
unsafe impl Send for Store {}
// SAFETY: as above.
unsafe impl Sync for Store {}

impl Store {
    /// An empty store for so many pages, which compresses with `codec`.
    pub fn new(pages: u64, mode: MeldMode, codec: &Codec) -> Result<Store, StoreError> {
        let (ops, params) = codec.raw_parts();
        let options_raw = raw::Options {
            slots: pages,
            memory_limit: 0,
            mode: mode as u32,
            // Whoever is here has one thread.
            streams: 1,
            check_writes: raw::CHECK_WRITES_AUTO,
            verify: false,
            keyed: false,
            key: [0; raw::KEY_SIZE],
            codecs: [
                raw::CodecChoice { ops, params },
                unused(),
                unused(),
                unused(),
            ],
        };
        let mut store = ptr::null_mut();
        // SAFETY: the options are complete; ops is a constant table.
        done("make a store", unsafe {
            raw::zm_store_create(&options_raw, &mut store)
        })?;
        Ok(Store {
            raw: NonNull::new(store).expect("a store that was made has a place"),
        })
    }

    /// Stores a page. After an error the page holds what it held before.
    ///
    /// # Panics
    /// When `page` is not [`page_size`] bytes long.
    pub fn write(&self, index: u64, page: &[u8]) -> Result<(), StoreError> {
        assert_eq!(page.len(), page_size());
        // SAFETY: the store is alive, the page has its full length.
        let ret = unsafe { raw::zm_page_write(self.raw.as_ptr(), index, page.as_ptr().cast()) };
        done("write a page", ret)
    }

    /// Reads a page; one that was never written, or was discarded, is zeros.
    ///
    /// # Panics
    /// When `page` is not [`page_size`] bytes long.
    pub fn read(&self, index: u64, page: &mut [u8]) -> Result<(), StoreError> {
        assert_eq!(page.len(), page_size());
        // SAFETY: the store is alive, the page has its full length.
        let ret = unsafe { raw::zm_page_read(self.raw.as_ptr(), index, page.as_mut_ptr().cast()) };
        done("read a page", ret)
    }

    /// Runs a pass: finds identical pages and makes them share.
    pub fn meld(&self) -> Result<MeldResult, StoreError> {
        let options = raw::MeldOptions::default();
        let mut result = MeldResult::default();
        // SAFETY: the store is alive; both structs are valid for the call.
        let ret = unsafe { raw::zm_meld_run(self.raw.as_ptr(), &options, &mut result) };
        done("run a pass", ret)?;
        Ok(result)
    }

    /// Packs the pool; the bytes given back.
    pub fn compact(&self) -> u64 {
        // SAFETY: the store is alive.
        unsafe { raw::zm_store_compact(self.raw.as_ptr()) }
    }

    /// The store's state and counters.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        // SAFETY: the store is alive; the struct is valid for the call.
        unsafe { raw::zm_store_stats(self.raw.as_ptr(), &mut stats) };
        stats
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
        params: raw::codec::Params {
            level: 0,
            page_size: 0,
            prepared: ptr::null_mut(),
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
            .ok_or(StoreError {
                what: "make a fingerprint key",
                errno: ENOMEM,
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

/// Linux's, the same everywhere it runs.
const ENOMEM: i32 = 12;

#[cfg(test)]
mod tests {
    use super::*;

    fn page(seed: u64) -> Vec<u8> {
        (0..page_size() as u64)
            .map(|i| ((i / 7).wrapping_mul(seed + 3) >> 4) as u8)
            .collect()
    }

    #[test]
    fn auto_mode_follows_the_hit_rate() {
        let codec = Codec::new("lz4", None).unwrap();
        let store = Store::new(1 << 16, MeldMode::Auto, &codec).unwrap();
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
