//! What a kernel's zram and swap do with a page, by its version and build.

use zmeld_linux::KernelVersion;
use zmeld_store::{ChainRule, Geometry};

/// What decides how much memory pages take in the kernel's pool.
#[derive(Clone)]
pub struct PoolModel {
    /// zsmalloc's geometry.
    pub geometry: Geometry,
    /// Longest chain of pages in a span.
    pub chain: u32,
    /// Pages of zeros never reach a swap device: from Linux 6.12 on the swap
    /// layer only notes them (`mm/page_io.c`, `swap_zeromap`).
    pub swap_keeps_zeros: bool,
}

impl std::fmt::Debug for PoolModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("page_size", &self.geometry.page_size())
            .field("huge_size", &self.geometry.huge_size())
            .field("chain", &self.chain)
            .field("swap_keeps_zeros", &self.swap_keeps_zeros)
            .finish()
    }
}

impl PoolModel {
    /// The pool of a kernel of that version. `chain` is its
    /// `CONFIG_ZSMALLOC_CHAIN_SIZE`, where that is known.
    ///
    /// # Panics
    /// When `page_size` is none that a kernel has.
    pub fn of_kernel(version: KernelVersion, chain: Option<u32>, page_size: u32) -> PoolModel {
        let before_6_3 = version < KernelVersion { major: 6, minor: 3 };
        let (chain, rule) = if before_6_3 {
            (4, ChainRule::BestPercent)
        } else {
            (chain.unwrap_or(8), ChainRule::LeastWaste)
        };
        PoolModel {
            geometry: Geometry::new(page_size, chain, rule).expect("a kernel's pool"),
            chain,
            swap_keeps_zeros: version
                >= KernelVersion {
                    major: 6,
                    minor: 12,
                },
        }
    }

    /// The running kernel's pool; of a kernel of today where it cannot be told.
    pub fn running(release: &str, page_size: u32) -> PoolModel {
        let version = KernelVersion::parse(release).unwrap_or(KernelVersion {
            major: 6,
            minor: 12,
        });
        PoolModel::of_kernel(version, configured_chain(), page_size)
    }
}

/// `CONFIG_ZSMALLOC_CHAIN_SIZE` of the running kernel, if its configuration can be read.
fn configured_chain() -> Option<u32> {
    let config = procfs::kernel_config().ok()?;
    match config.get("CONFIG_ZSMALLOC_CHAIN_SIZE")? {
        procfs::ConfigSetting::Value(value) => value.parse().ok().filter(|c| (1..=16).contains(c)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read() {
        let v = |major, minor| Some(KernelVersion { major, minor });
        assert_eq!(KernelVersion::parse("6.1.0-18-amd64"), v(6, 1));
        assert_eq!(KernelVersion::parse("6.18.44"), v(6, 18));
        assert_eq!(KernelVersion::parse("7.2-rc1"), v(7, 2));
        assert_eq!(KernelVersion::parse("5.10"), v(5, 10));
        assert_eq!(KernelVersion::parse("linux"), None);
        assert_eq!(KernelVersion::parse(""), None);
    }

    #[test]
    fn kernels_differ_where_their_sources_do() {
        let old = PoolModel::of_kernel(KernelVersion { major: 6, minor: 1 }, None, 4096);
        let new = PoolModel::of_kernel(
            KernelVersion {
                major: 6,
                minor: 12,
            },
            None,
            4096,
        );
        assert_eq!((old.chain, new.chain), (4, 8));
        assert_eq!(old.geometry.huge_size(), 3257);
        assert_eq!(new.geometry.huge_size(), 3625);
        assert!(!old.swap_keeps_zeros && new.swap_keeps_zeros);
    }
}
