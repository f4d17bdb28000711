//! The C declarations of `store/include/zmeld/store.h` and `geometry.h`. Their
//! sizes are tested against the C compiler's.

use std::ffi::{c_int, c_void};

/// The C side of the contract, as `store/include/zmeld/codec.h` states it.
pub mod codec {
    use std::ffi::{c_char, c_int, c_void};

    /// `struct zm_codec_params`.
    #[repr(C)]
    pub struct Params {
        pub level: c_int,
        pub page_size: u32,
        pub prepared: *mut c_void,
    }

    /// `struct zm_codec_ops`.
    #[repr(C)]
    pub struct Ops {
        pub name: *const c_char,
        pub level_min: c_int,
        pub level_max: c_int,
        pub level_default: c_int,
        pub check_writes: bool,
        pub prepare: Option<unsafe extern "C" fn(*mut Params) -> c_int>,
        pub release: Option<unsafe extern "C" fn(*mut Params)>,
        pub context_create: unsafe extern "C" fn(*const Params, *mut *mut c_void) -> c_int,
        pub context_destroy: unsafe extern "C" fn(*mut c_void),
        pub compress: unsafe extern "C" fn(
            *mut c_void,
            *const Params,
            *const c_void,
            usize,
            *mut c_void,
            *mut usize,
        ) -> c_int,
        pub decompress: unsafe extern "C" fn(
            *mut c_void,
            *const Params,
            *const c_void,
            usize,
            *mut c_void,
            usize,
        ) -> c_int,
    }

    // SAFETY: an ops table is constant: the C side never writes to it.
    unsafe impl Sync for Ops {}

    extern "C" {
        #[link_name = "zm_codecs"]
        pub static CODECS: [*const Ops; 0];
        #[link_name = "zm_codec_count"]
        pub static CODEC_COUNT: usize;
    }
}

pub const KEY_SIZE: usize = 16;
pub const PRIORITIES: usize = 4;
/// `ZM_CHECK_WRITES_AUTO`.
pub const CHECK_WRITES_AUTO: u32 = 0;
const CLASSES_MAX: usize = 257;

#[repr(C)]
pub struct Options {
    pub slots: u64,
    pub memory_limit: u64,
    pub mode: u32,
    pub streams: u32,
    pub check_writes: u32,
    pub verify: bool,
    pub keyed: bool,
    pub key: [u8; KEY_SIZE],
    pub codecs: [CodecChoice; PRIORITIES],
}

#[repr(C)]
pub struct CodecChoice {
    pub ops: *const codec::Ops,
    pub params: codec::Params,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MeldOptions {
    pub threshold_permille: u32,
    pub memory_max: u64,
    pub time_ns_max: u64,
    pub resume: bool,
    pub estimate_only: bool,
    pub stops_seen: u64,
}

/// State and counters of a store. See `struct zm_stats` for each field.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // The words are the header's.
pub struct Stats {
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
    pub memory_metadata: u64,
    pub blocks: u64,
    pub blocks_used: u64,
    pub raw_since: u64,
    pub passes: u64,
    pub pass_melded: u64,
    pub inline_probes: u64,
    pub inline_melded: u64,
    pub inline_unchanged: u64,
    pub inline_collisions: u64,
    pub auto_switches: u64,
    pub encode_errors: u64,
    pub damaged: u64,
    pub mismatches: u64,
    pub inline_active: u32,
}

/// Counters of a pass. See `struct zm_meld_result` for each field.
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

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ClassShape {
    pub object_size: u32,
    pub pages: u32,
    pub objects: u32,
}

#[repr(C)]
#[derive(Clone)]
pub struct Geometry {
    pub page_size: u32,
    pub class_count: u32,
    pub huge_size: u32,
    pub delta: u32,
    pub size_min: u32,
    pub classes: [ClassShape; CLASSES_MAX],
    pub class_of_step: [u16; CLASSES_MAX],
}

impl Default for Geometry {
    fn default() -> Self {
        Geometry {
            page_size: 0,
            class_count: 0,
            huge_size: 0,
            delta: 0,
            size_min: 0,
            classes: [ClassShape::default(); CLASSES_MAX],
            class_of_step: [0; CLASSES_MAX],
        }
    }
}

/// `struct zm_store` and `struct zm_fingerprint_key`, known by address only.
#[repr(C)]
pub struct Opaque {
    _private: [u8; 0],
}

#[repr(C)]
#[derive(Debug)]
pub struct Abi {
    pub page_size: usize,
    pub options: usize,
    pub stats: usize,
    pub meld_options: usize,
    pub meld_result: usize,
    pub geometry: usize,
    pub share: usize,
}

extern "C" {
    pub static zm_abi: Abi;

    pub fn zm_store_create(options: *const Options, store: *mut *mut Opaque) -> c_int;
    pub fn zm_store_destroy(store: *mut Opaque);
    pub fn zm_page_write(store: *mut Opaque, index: u64, page: *const c_void) -> c_int;
    pub fn zm_page_read(store: *mut Opaque, index: u64, page: *mut c_void) -> c_int;
    pub fn zm_meld_run(
        store: *mut Opaque,
        options: *const MeldOptions,
        result: *mut MeldResult,
    ) -> c_int;
    pub fn zm_store_compact(store: *mut Opaque) -> u64;
    pub fn zm_store_stats(store: *mut Opaque, stats: *mut Stats);
    pub fn zm_page_fill(page: *const c_void, word: *mut u64) -> bool;
    pub fn zm_fingerprint_key_create(key: *const u8) -> *mut Opaque;
    pub fn zm_fingerprint_key_destroy(key: *mut Opaque);
    pub fn zm_fingerprint(key: *const Opaque, page: *const c_void) -> u32;

    pub fn zm_geometry_init(
        geometry: *mut Geometry,
        page_size: u32,
        chain: u32,
        rule: c_int,
    ) -> c_int;
    pub fn zm_geometry_class(geometry: *const Geometry, size: u32) -> u32;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::size_of;

    #[test]
    fn structs_have_the_sizes_that_c_gives_them() {
        // SAFETY: a constant of plain numbers.
        let abi = unsafe { &zm_abi };
        assert_eq!(abi.options, size_of::<Options>());
        assert_eq!(abi.stats, size_of::<Stats>());
        assert_eq!(abi.meld_options, size_of::<MeldOptions>());
        assert_eq!(abi.meld_result, size_of::<MeldResult>());
        assert_eq!(abi.geometry, size_of::<Geometry>());
        assert_eq!(abi.share as u64, crate::SHARE_BYTES);
    }
}
