//! The C declarations of `store/include/zmeld/store.h` and `geometry.h`. Their
//! sizes are tested against the C compiler's.

use std::ffi::{c_int, c_void};

use crate::codec::raw as codec;

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
        result: *mut crate::MeldResult,
    ) -> c_int;
    pub fn zm_store_compact(store: *mut Opaque) -> u64;
    pub fn zm_store_stats(store: *mut Opaque, stats: *mut crate::Stats);
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
        assert_eq!(abi.stats, size_of::<crate::Stats>());
        assert_eq!(abi.meld_options, size_of::<MeldOptions>());
        assert_eq!(abi.meld_result, size_of::<crate::MeldResult>());
        assert_eq!(abi.geometry, size_of::<Geometry>());
        assert_eq!(abi.share as u64, crate::SHARE_BYTES);
    }
}
