//! The geometry of the kernel's object pool (zsmalloc): how much memory objects
//! of given sizes take.

use std::ffi::c_int;

use crate::raw;

/// Bytes of a page in the store, fixed when it is compiled; 4096 by default.
pub fn page_size() -> usize {
    // SAFETY: a constant of plain numbers.
    unsafe { raw::zm_abi.page_size }
}

/// How a kernel chooses the number of pages that it chains into one span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainRule {
    /// Linux 6.3 and later: the fewest bytes wasted, powers of two alone.
    LeastWaste,
    /// Up to Linux 6.2: the best use in whole percents.
    BestPercent,
}

/// The pool of one kernel: page size, longest chain, and rule.
///
/// Sources: `mm/zsmalloc.c` and `CONFIG_ZSMALLOC_CHAIN_SIZE` of the kernel.
#[derive(Clone)]
pub struct Geometry {
    raw: Box<raw::Geometry>,
}

/// The requested geometry does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "no pool has pages of {page_size} bytes in chains of up to {chain}: pages are a power of two \
     from 4096 to 65536 bytes, chains have 1 to 16 pages"
)]
pub struct BadGeometry {
    /// Bytes of a page.
    pub page_size: u32,
    /// Pages in the longest chain.
    pub chain: u32,
}

impl Geometry {
    /// A pool of pages of `page_size` bytes whose spans have at most `chain` of them.
    pub fn new(page_size: u32, chain: u32, rule: ChainRule) -> Result<Geometry, BadGeometry> {
        let mut raw: Box<raw::Geometry> = Box::default();
        let rule = match rule {
            ChainRule::LeastWaste => 0,
            ChainRule::BestPercent => 1,
        };
        // SAFETY: `raw` is a valid place for the struct, which the function fills.
        match unsafe { raw::zm_geometry_init(&mut *raw, page_size, chain, rule as c_int) } {
            0 => Ok(Geometry { raw }),
            _ => Err(BadGeometry { page_size, chain }),
        }
    }

    /// Bytes of a page.
    pub fn page_size(&self) -> u32 {
        self.raw.page_size
    }

    /// Compressed size, in bytes, from which a page is kept raw.
    pub fn huge_size(&self) -> u32 {
        self.raw.huge_size
    }

    /// Number of size classes.
    pub fn classes(&self) -> usize {
        self.raw.class_count as usize
    }

    /// The class of an object of `size` stored bytes, 1 to the page size.
    pub fn class(&self, size: u32) -> usize {
        assert!(size >= 1 && size <= self.raw.page_size);
        // SAFETY: `raw` was filled by `zm_geometry_init`; size is in range.
        unsafe { raw::zm_geometry_class(&*self.raw, size) as usize }
    }

    /// Bytes that `objects` objects of a class take when packed: whole spans.
    pub fn class_bytes(&self, class: usize, objects: u64) -> u64 {
        let shape = self.raw.classes[class];
        objects.div_ceil(shape.objects.into()) * u64::from(shape.pages) * self.page_bytes()
    }

    /// Bytes of one object of a class, its share of the span's waste included.
    pub fn object_bytes(&self, class: usize) -> f64 {
        let shape = self.raw.classes[class];
        f64::from(shape.pages) * self.page_bytes() as f64 / f64::from(shape.objects)
    }

    fn page_bytes(&self) -> u64 {
        self.raw.page_size.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_today_keep_pages_raw_from_3625_bytes() {
        let pool = Geometry::new(4096, 8, ChainRule::LeastWaste).unwrap();
        assert_eq!(pool.huge_size(), 3625);
        assert_eq!(pool.class(4096), pool.class(4090));
        assert_eq!(pool.class_bytes(pool.class(4096), 3), 3 * 4096);
    }

    #[test]
    fn kernels_before_6_3_keep_pages_raw_from_3257_bytes() {
        let pool = Geometry::new(4096, 4, ChainRule::BestPercent).unwrap();
        assert_eq!(pool.huge_size(), 3257);
    }

    #[test]
    fn every_size_has_a_class_that_holds_it_and_its_handle() {
        for page in [4096u32, 16384, 65536] {
            for chain in [1, 4, 8, 16] {
                for rule in [ChainRule::LeastWaste, ChainRule::BestPercent] {
                    let pool = Geometry::new(page, chain, rule).unwrap();
                    for size in 1..=page {
                        let shape = pool.raw.classes[pool.class(size)];
                        let needed = if shape.objects == 1 { size } else { size + 8 };
                        assert!(shape.object_size >= needed, "{page} {chain} {size}");
                        assert!(shape.objects * shape.object_size <= shape.pages * page);
                    }
                }
            }
        }
    }

    #[test]
    fn impossible_pools_are_refused() {
        assert!(Geometry::new(4095, 8, ChainRule::LeastWaste).is_err());
        assert!(Geometry::new(4096, 0, ChainRule::LeastWaste).is_err());
        assert!(Geometry::new(4096, 17, ChainRule::LeastWaste).is_err());
    }
}
