//! zword with code lengths of the caller's: what training and measuring need.
//! Stores use the codec `zword`, which has the trained ones.

use std::ffi::c_int;

#[repr(C)]
struct RawTables {
    _opaque: [u8; 0],
}

extern "C" {
    fn zword_tables_size() -> usize;
    fn zword_work_size() -> usize;
    fn zword_tables_build(tables: *mut RawTables, lengths: *const u8, size: usize) -> c_int;
    fn zword_compress(
        tables: *const RawTables,
        work: *mut u64,
        level: c_int,
        src: *const u8,
        src_size: usize,
        dst: *mut u8,
        dst_size: *mut usize,
    ) -> c_int;
    fn zword_decompress(
        tables: *const RawTables,
        work: *mut u64,
        src: *const u8,
        src_size: usize,
        dst: *mut u8,
        dst_size: usize,
    ) -> c_int;
    static zword_lengths: [u8; 0];
    static zword_lengths_size: usize;
}

/// How hard the encoder tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// `ZWORD_LEVEL_GLANCE`: one mode, parsed quickly.
    Glance = 1,
    /// `ZWORD_LEVEL_ALL`: all modes, the best of them parsed thoroughly.
    All = 2,
}

/// The lengths that the codec was trained to.
pub fn trained_lengths() -> &'static [u8] {
    // SAFETY: an array of zword_lengths_size bytes, constant for good.
    unsafe { std::slice::from_raw_parts(zword_lengths.as_ptr(), zword_lengths_size) }
}

/// Tables and working memory of one thread.
pub struct Zword {
    // In u64: aligned for everything in the structure.
    tables: Vec<u64>,
    work: Vec<u64>,
}

impl Zword {
    /// With tables of these lengths; nothing if they are none.
    pub fn new(lengths: &[u8]) -> Option<Zword> {
        // SAFETY: both read nothing.
        let (tables, work) = unsafe { (zword_tables_size(), zword_work_size()) };
        let mut zword = Zword {
            tables: vec![0; tables.div_ceil(8)],
            work: vec![0; work.div_ceil(8)],
        };
        // SAFETY: the tables have the size that was asked for, the lengths theirs.
        let ret = unsafe {
            zword_tables_build(
                zword.tables.as_mut_ptr().cast(),
                lengths.as_ptr(),
                lengths.len(),
            )
        };
        (ret == 0).then_some(zword)
    }

    /// The object's size, nothing if it does not fit.
    pub fn compress(&mut self, level: Level, page: &[u8], object: &mut [u8]) -> Option<usize> {
        let mut size = object.len();
        // SAFETY: tables and memory are of their sizes, and built; both slices
        // are told with theirs.
        let ret = unsafe {
            zword_compress(
                self.tables.as_ptr().cast(),
                self.work.as_mut_ptr(),
                level as c_int,
                page.as_ptr(),
                page.len(),
                object.as_mut_ptr(),
                &mut size,
            )
        };
        (ret == 0).then_some(size)
    }

    /// Whether the object holds a page of exactly that size.
    pub fn decompress(&mut self, object: &[u8], page: &mut [u8]) -> bool {
        // SAFETY: as for compress().
        let ret = unsafe {
            zword_decompress(
                self.tables.as_ptr().cast(),
                self.work.as_mut_ptr(),
                object.as_ptr(),
                object.len(),
                page.as_mut_ptr(),
                page.len(),
            )
        };
        ret == 0
    }
}
