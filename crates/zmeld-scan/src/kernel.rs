//! Page handling of zram and swap, by the kernel's version and build.

use zmeld_linux::{release, Host, KernelVersion};
use zmeld_store::{ChainRule, Geometry};

/// Parameters of page memory in the kernel's pool.
#[derive(Clone)]
pub struct PoolModel {
    pub geometry: Geometry,
    /// Longest chain of pages in a span.
    pub chain: u32,
    /// Pages of zeros never reach a swap device: from Linux 6.12 on the swap
    /// layer only notes them (`mm/page_io.c`, `swap_zeromap`).
    pub swap_keeps_zeros: bool,
}

impl PoolModel {
    /// The pool of a kernel of that version. `chain` is its
    /// `CONFIG_ZSMALLOC_CHAIN_SIZE`, where that is known.
    ///
    /// # Panics
    /// When `page_size` is none that a kernel has.
    pub fn of_kernel(version: KernelVersion, chain: Option<u32>, page_size: u32) -> PoolModel {
        let (chain, rule) = if version < KernelVersion::new(6, 3) {
            (4, ChainRule::BestPercent)
        } else {
            (chain.unwrap_or(8), ChainRule::LeastWaste)
        };
        PoolModel {
            geometry: Geometry::new(page_size, chain, rule).expect("a kernel's pool"),
            chain,
            swap_keeps_zeros: version >= KernelVersion::new(6, 12),
        }
    }

    /// The running kernel's pool; of a kernel of today where it cannot be told.
    pub fn running(release: &str, page_size: u32) -> PoolModel {
        let version = KernelVersion::parse(release).unwrap_or(KernelVersion::new(6, 12));
        PoolModel::of_kernel(version, configured_chain(release), page_size)
    }
}

/// `CONFIG_ZSMALLOC_CHAIN_SIZE` of the running kernel, if its configuration can be read.
fn configured_chain(kernel: &str) -> Option<u32> {
    let config = release::configuration(&Host::here(), kernel)?;
    let chain = release::option(&config, "CONFIG_ZSMALLOC_CHAIN_SIZE")?;
    chain.parse().ok().filter(|chain| (1..=16).contains(chain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_differ_where_their_sources_do() {
        let of = |minor| PoolModel::of_kernel(KernelVersion::new(6, minor), None, 4096);
        let (old, new) = (of(1), of(12));
        assert_eq!((old.chain, new.chain), (4, 8));
        assert_eq!(old.geometry.huge_size(), 3257);
        assert_eq!(new.geometry.huge_size(), 3625);
        assert!(!old.swap_keeps_zeros && new.swap_keeps_zeros);
    }

    #[test]
    fn the_running_kernel_says_its_longest_chain() {
        let config = std::process::Command::new("zcat")
            .arg("/proc/config.gz")
            .output();
        let config = config.map(|it| it.stdout).unwrap_or_default();
        let config = String::from_utf8_lossy(&config).into_owned();
        let mut lines = config.lines();
        let chain = lines.find_map(|it| it.strip_prefix("CONFIG_ZSMALLOC_CHAIN_SIZE="));
        let Some(chain) = chain else {
            println!("SKIP: this kernel does not say how it was built");
            return;
        };
        let chain: u32 = chain.parse().unwrap();
        assert_eq!(configured_chain("6.12.0"), Some(chain));
        assert_eq!(PoolModel::running("6.12.0", 4096).chain, chain);
        assert_eq!(PoolModel::running("6.2.0", 4096).chain, 4);
        assert!(PoolModel::running("none", 4096).swap_keeps_zeros);
    }
}
