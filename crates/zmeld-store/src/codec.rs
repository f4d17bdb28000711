//! Codecs: how a page is compressed.
//!
//! A [`Codec`] is what a store chose: an algorithm and its level, prepared once and
//! then shared by all threads. A [`Stream`] is the working memory of one thread,
//! reused for every page.
//!
//! Names, levels, defaults and formats are those of the kernel's zram, so what
//! a page takes here it takes there. 842 is missing: no user-space
//! implementation of it is sound enough to rely on.
//!
//! ```
//! use zmeld_store::codec::{CodecSpec, Stream};
//!
//! let codec = "zstd:3".parse::<CodecSpec>()?.open()?;
//! let mut stream = Stream::new(&codec)?;
//! let page = [7u8; 4096];
//! let mut object = [0u8; 4096];
//! let size = stream.compress(&page, &mut object)?;
//! let mut back = [0u8; 4096];
//! stream.decompress(&object[..size], &mut back)?;
//! assert_eq!(page, back);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::ffi::{c_void, CStr};
use std::fmt;
use std::ptr;
use std::str::FromStr;
use std::sync::Arc;

use crate::geometry::page_size;
use crate::raw::codec as raw;

// Named, so that the libraries under the C codecs are linked in.
use libz_sys as _;
use lz4_sys as _;
use zstd_sys as _;

/// Facts about a codec, known before it is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodecInfo {
    /// The name, as zram's `comp_algorithm` spells it.
    pub name: &'static str,
    /// The lowest level. Equal to `level_max` where there are no levels.
    pub level_min: i32,
    /// The highest level.
    pub level_max: i32,
    /// The level that zram takes when none is given.
    pub level_default: i32,
}

impl CodecInfo {
    /// Whether there is a level to choose.
    pub fn takes_level(&self) -> bool {
        self.level_min != self.level_max
    }

    fn of(ops: &'static raw::Ops) -> Self {
        CodecInfo {
            name: name_of(ops),
            level_min: ops.level_min,
            level_max: ops.level_max,
            level_default: ops.level_default,
        }
    }
}

/// All codecs, in the order in which a list shows them.
pub fn codecs() -> Vec<CodecInfo> {
    tables().map(CodecInfo::of).collect()
}

/// Why a codec cannot be had: what was refused, in words that name it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CodecError(String);

fn no_memory(codec: &str) -> CodecError {
    CodecError(format!("no memory for {codec}"))
}

/// The page does not become small enough for the space that was offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the compressed page does not fit into {capacity} bytes")]
pub struct NoFit {
    /// The space that was offered, in bytes.
    pub capacity: usize,
}

/// The object is not what the codec made of a page of that size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{size} bytes are no {codec} object of a page of {page_size} bytes")]
#[allow(missing_docs)] // The fields are in the message.
pub struct Damaged {
    pub codec: &'static str,
    pub size: usize,
    pub page_size: usize,
}

/// A codec with its level, ready for all threads. Cloning it shares it.
#[derive(Clone)]
pub struct Codec(Arc<Prepared>);

struct Prepared {
    ops: &'static raw::Ops,
    params: raw::Params,
}

// SAFETY: once they are prepared the params are only read, by any number of
// threads (the contract's words), until the last owner releases them.
unsafe impl Send for Prepared {}
// SAFETY: as above.
unsafe impl Sync for Prepared {}

impl Codec {
    /// The codec of that name, at a level (`None`: zram's default).
    ///
    /// # Errors
    /// [`CodecError`], naming what was refused.
    pub fn new(name: &str, level: Option<i32>) -> Result<Codec, CodecError> {
        Codec::prepare(name, level, page_size())
    }

    /// The same codec for pages of another size: some choose by it how they work.
    ///
    /// # Errors
    /// Those of [`Codec::new`].
    pub fn for_pages(&self, page_size: usize) -> Result<Codec, CodecError> {
        let level = self.info().takes_level().then(|| self.level());
        Codec::prepare(self.name(), level, page_size)
    }

    fn prepare(name: &str, level: Option<i32>, page_size: usize) -> Result<Codec, CodecError> {
        let ops = find(name)?;
        check(&CodecInfo::of(ops), level)?;
        let mut params = raw::Params {
            level: level.unwrap_or(ops.level_default),
            page_size: page_size as u32,
            prepared: ptr::null_mut(),
        };
        // SAFETY: params is valid for the call, and its level one of the codec's.
        let ret = ops
            .prepare
            .map_or(0, |prepare| unsafe { prepare(&mut params) });
        match ret {
            0 => Ok(Codec(Arc::new(Prepared { ops, params }))),
            _ => Err(no_memory(name)),
        }
    }

    fn info(&self) -> CodecInfo {
        CodecInfo::of(self.0.ops)
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        name_of(self.0.ops)
    }

    /// The level in use, the default where none was given.
    pub fn level(&self) -> i32 {
        self.0.params.level
    }

    /// The functions and the params before their set-up, for a C store, which
    /// sets them up itself.
    pub(crate) fn raw_parts(&self) -> (*const raw::Ops, raw::Params) {
        let params = raw::Params {
            prepared: std::ptr::null_mut(),
            ..self.0.params
        };
        (self.0.ops, params)
    }
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codec")
            .field("name", &self.name())
            .field("level", &self.level())
            .finish()
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if let Some(release) = self.ops.release {
            // SAFETY: the params were set up and nobody else has them any more.
            unsafe { release(&mut self.params) }
        }
    }
}

/// The longest source and destination that the contract has.
const SIZE_MAX: usize = 1 << 30;

/// One thread's working memory for a codec, reused for every page.
pub struct Stream {
    codec: Codec,
    context: *mut c_void,
}

// SAFETY: a context belongs to one stream and is not tied to a thread; every
// use of it goes through &mut self.
unsafe impl Send for Stream {}

impl Stream {
    /// A stream for that codec.
    ///
    /// # Errors
    /// [`CodecError`]: no memory.
    pub fn new(codec: &Codec) -> Result<Stream, CodecError> {
        let codec = codec.clone();
        let mut context = ptr::null_mut();
        // SAFETY: the params were set up by the same ops; context is a valid
        // place for the result.
        let ret = unsafe { (codec.0.ops.context_create)(&codec.0.params, &mut context) };
        if ret != 0 {
            return Err(no_memory(codec.name()));
        }
        Ok(Stream { codec, context })
    }

    /// Compresses a page into `object`; the number of bytes written. The same
    /// page always becomes the same bytes.
    ///
    /// # Errors
    /// [`NoFit`] when the result is longer than `object`, which then holds
    /// rubbish.
    ///
    /// # Panics
    /// When either is longer than 1 GiB.
    pub fn compress(&mut self, page: &[u8], object: &mut [u8]) -> Result<usize, NoFit> {
        assert!(page.len() <= SIZE_MAX && object.len() <= SIZE_MAX);
        let capacity = object.len();
        let mut size = capacity;
        // SAFETY: context and params belong together; both slices are valid
        // for their lengths, and the codec writes at most size bytes.
        let ret = unsafe {
            (self.codec.0.ops.compress)(
                self.context,
                &self.codec.0.params,
                page.as_ptr().cast(),
                page.len(),
                object.as_mut_ptr().cast(),
                &mut size,
            )
        };
        if ret == 0 && size <= capacity {
            Ok(size)
        } else {
            Err(NoFit { capacity })
        }
    }

    /// Decompresses an object into a page of exactly `page.len()` bytes.
    ///
    /// # Errors
    /// [`Damaged`] when the object is not that of such a page; `page` then
    /// holds rubbish. Whatever the object holds, nothing worse happens.
    ///
    /// # Panics
    /// When either is longer than 1 GiB.
    pub fn decompress(&mut self, object: &[u8], page: &mut [u8]) -> Result<(), Damaged> {
        assert!(page.len() <= SIZE_MAX && object.len() <= SIZE_MAX);
        // SAFETY: context and params belong together; both slices are valid
        // for their lengths, and the codec stays within them.
        let ret = unsafe {
            (self.codec.0.ops.decompress)(
                self.context,
                &self.codec.0.params,
                object.as_ptr().cast(),
                object.len(),
                page.as_mut_ptr().cast(),
                page.len(),
            )
        };
        if ret == 0 {
            return Ok(());
        }
        Err(Damaged {
            codec: self.codec.name(),
            size: object.len(),
            page_size: page.len(),
        })
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("codec", &self.codec)
            .finish_non_exhaustive()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the context was created by the same ops and ends here.
        unsafe { (self.codec.0.ops.context_destroy)(self.context) }
    }
}

/// A codec in words: `lz4`, `zstd:3`, `zstd:level=3`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CodecSpec {
    /// The codec's name.
    pub name: &'static str,
    /// Its level; `None` is zram's default.
    pub level: Option<i32>,
}

impl CodecSpec {
    /// Prepares the codec.
    ///
    /// # Errors
    /// [`CodecError`]: no memory.
    pub fn open(&self) -> Result<Codec, CodecError> {
        Codec::new(self.name, self.level)
    }
}

impl FromStr for CodecSpec {
    type Err = CodecError;

    fn from_str(spec: &str) -> Result<Self, CodecError> {
        let (name, level) = match spec.split_once(':') {
            Some((name, level)) => (name, Some(level.strip_prefix("level=").unwrap_or(level))),
            None => (spec, None),
        };
        let info = CodecInfo::of(find(name)?);
        let wrong = |_| CodecError(format!("{spec:?}: expected a level or level=NUMBER"));
        let level = level
            .map(|level| level.parse().map_err(wrong))
            .transpose()?;
        check(&info, level)?;
        Ok(CodecSpec {
            name: info.name,
            level,
        })
    }
}

impl fmt::Display for CodecSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        match self.level {
            None => Ok(()),
            Some(level) => write!(f, ":{level}"),
        }
    }
}

fn tables() -> impl Iterator<Item = &'static raw::Ops> {
    // SAFETY: the C side defines both as constants, the array with that many
    // pointers to constant tables.
    let tables =
        unsafe { std::slice::from_raw_parts((&raw const raw::CODECS).cast(), raw::CODEC_COUNT) };
    // SAFETY: as above.
    tables
        .iter()
        .map(|table: &*const raw::Ops| unsafe { &**table })
}

fn find(name: &str) -> Result<&'static raw::Ops, CodecError> {
    tables().find(|ops| name_of(ops) == name).ok_or_else(|| {
        let known = tables().map(name_of).collect::<Vec<_>>().join(", ");
        CodecError(format!("there is no codec {name:?}; there are {known}"))
    })
}

fn name_of(ops: &'static raw::Ops) -> &'static str {
    // SAFETY: the name is a constant string of the C side, in ASCII.
    unsafe { CStr::from_ptr(ops.name) }
        .to_str()
        .expect("a codec's name is ASCII")
}

/// Refuses a level that the codec does not take.
fn check(info: &CodecInfo, level: Option<i32>) -> Result<(), CodecError> {
    let (name, min, max) = (info.name, info.level_min, info.level_max);
    Err(CodecError(match level {
        Some(_) if !info.takes_level() => format!("{name} has no levels"),
        Some(level) if !(min..=max).contains(&level) => {
            format!("{name} takes levels {min} to {max}, not {level}")
        }
        _ => return Ok(()),
    }))
}

#[cfg(test)]
mod tests;
