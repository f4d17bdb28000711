//! `/proc/meminfo`.
//!
//! Not by the `procfs` crate: that refuses the whole file where one line of some
//! thirty is missing, and what is asked for here is any of them.

pub const PATH: &str = "/proc/meminfo";

/// From this share of RAM on that can be had, the machine is not short of it: who waits then waits
/// at the limit of a control group.
const AVAILABLE_ENOUGH: f64 = 0.2;

/// Whether a machine with that much RAM is not short of it.
pub fn is_enough(available_bytes: u64, total_bytes: u64) -> bool {
    total_bytes > 0 && available_bytes as f64 / total_bytes as f64 >= AVAILABLE_ENOUGH
}

/// The text of `/proc/meminfo`.
#[derive(Debug, Clone, Copy)]
pub struct Meminfo<'a>(&'a str);

impl<'a> Meminfo<'a> {
    pub fn new(text: &'a str) -> Meminfo<'a> {
        Meminfo(text)
    }

    /// The bytes on the line of that name, `MemTotal`; absent where there is no
    /// such line or it holds no number of KiB.
    pub fn bytes(&self, name: &str) -> Option<u64> {
        let rest = self
            .0
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        let mut words = rest.split_ascii_whitespace();
        let kibibytes = words.next()?.parse::<u64>().ok()?;
        (words.next() == Some("kB") && words.next().is_none())
            .then(|| kibibytes.checked_mul(1024))?
    }

    /// RAM that the kernel manages; absent where the text is not the kernel's,
    /// for no machine is without.
    pub fn total_bytes(&self) -> Option<u64> {
        self.bytes("MemTotal").filter(|bytes| *bytes > 0)
    }

    /// Memory that can be had without swapping. Before Linux 3.14, which does not say it: free
    /// memory, file cache and reclaimable slab.
    pub fn available_bytes(&self) -> Option<u64> {
        let dropped = ["Active(file)", "Inactive(file)", "SReclaimable"];
        let sum = || {
            let dropped = dropped.iter().filter_map(|name| self.bytes(name));
            Some(dropped.fold(self.bytes("MemFree")?, u64::saturating_add))
        };
        self.bytes("MemAvailable").or_else(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_by_their_whole_name() {
        let text = "MemTotal:       24616480 kB\nSwapTotal: 8 kB\nZswap:  3 kB\nZswapped: 9 kB\n\
                    HugePages_Total:       5\nMemFree: 7 kB\n";
        let memory = Meminfo::new(text);
        assert_eq!(memory.total_bytes(), Some(24_616_480 << 10));
        assert_eq!(memory.bytes("Zswap"), Some(3 << 10));
        assert_eq!(memory.bytes("Swap"), None);
        // A count of pages is no size.
        assert_eq!(memory.bytes("HugePages_Total"), None);
        assert_eq!(memory.available_bytes(), Some(7 << 10));
        let text = format!("{text}Active(file): 2 kB\nInactive(file): 3 kB\nSReclaimable: 4 kB\n");
        assert_eq!(Meminfo::new(&text).available_bytes(), Some(16 << 10));
        let text = format!("{text}MemAvailable: 5 kB\n");
        assert_eq!(Meminfo::new(&text).available_bytes(), Some(5 << 10));
    }

    #[test]
    fn what_no_kernel_writes_is_absent() {
        for line in [
            "",
            "MemTotal",
            "MemTotal:",
            "MemTotal: 0 kB",
            "MemTotal: -1 kB",
            "MemTotal: 1 MB",
            "MemTotal: 1 kB 2",
            "MemTotal: 18446744073709551615 kB",
        ] {
            assert_eq!(Meminfo::new(line).total_bytes(), None, "{line}");
        }
    }
}
