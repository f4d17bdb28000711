//! Kernel figures of compressed swap: the devices of zram and zmeld, and zswap's parameters.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{Host, HostError};

/// Folder of zswap's parameters.
pub const ZSWAP: &str = "/sys/module/zswap/parameters";

/// The most that zswap's pool may take of so much RAM, by its `max_pool_percent`, as the kernel
/// computes it.
pub fn pool_max_bytes(ram_bytes: u64, percent: u64) -> u64 {
    ram_bytes / 100 * percent.min(100)
}

/// The word that is chosen of several, `lzo [lz4] zstd`, or the only one.
pub fn chosen(text: &str) -> Option<&str> {
    let mut words = text.split_whitespace();
    let bracketed = words.find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    let only = || Some(text.trim()).filter(|it| !it.contains(char::is_whitespace));
    bracketed.or_else(only)
}

/// All of those words.
pub fn choices(text: &str) -> Vec<String> {
    let words = text.split_whitespace();
    words
        .map(|word| word.trim_matches(['[', ']']).to_owned())
        .collect()
}

/// The codecs that pages are compressed with again, by their priority: lines of
/// `recomp_algorithm` such as `#1: lzo lz4 [zstd]`. Linux 7.2 leaves zeros between them.
pub fn recompression(text: &str) -> BTreeMap<u8, String> {
    let lines = text.lines().filter_map(|line| {
        let (priority, names) = line.split_once('#')?.1.split_once(':')?;
        let codec = chosen(names).filter(|_| names.contains('['))?;
        Some((priority.trim().parse().ok()?, codec.to_owned()))
    });
    lines.collect()
}

/// The number that no other disk has had since boot, of the device of that name; none before Linux
/// 5.15.
pub fn disk_sequence(host: &Host, name: &str) -> Result<Option<String>, HostError> {
    let text = host.read_optional(format!("/sys/block/{name}/diskseq"))?;
    Ok(text.filter(|text| !text.is_empty()))
}

/// The columns of `mm_stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct MmStat {
    /// Pages stored, uncompressed: same-filled and written-back ones included
    /// (`orig_data_size`).
    pub stored_bytes: u64,
    /// Size of the compressed objects in memory (`compr_data_size`).
    pub compressed_bytes: u64,
    /// Whole pages that the allocator took for them (`mem_used_total`). The table
    /// of slots is not in it.
    pub memory_used_bytes: u64,
    /// The most it may take (`mem_limit`); 0: all there is.
    pub limit_bytes: u64,
    /// The most it took (`mem_used_max`).
    pub memory_used_max_bytes: u64,
    /// Pages that repeat one machine word and take no memory (`same_pages`).
    pub same_filled_pages: u64,
    /// Pages that compaction gave back (`pages_compacted`).
    pub compacted_pages: u64,
    /// Pages stored as they are, because they do not compress (`huge_pages`).
    pub incompressible_pages: u64,
    /// The same, ever since set-up (`huge_pages_since`; Linux 5.13 and later).
    pub incompressible_since_pages: u64,
}

impl MmStat {
    /// Reads `mm_stat`: seven columns at least, as kernels from 4.8 on have.
    pub fn parse(text: &str) -> Option<MmStat> {
        let columns = numbers(text)?;
        Some(MmStat {
            stored_bytes: columns[0]?,
            compressed_bytes: columns[1]?,
            memory_used_bytes: columns[2]?,
            limit_bytes: columns[3]?,
            memory_used_max_bytes: columns[4]?,
            same_filled_pages: columns[5]?,
            compacted_pages: columns[6]?,
            incompressible_pages: columns[7].unwrap_or(0),
            incompressible_since_pages: columns[8].unwrap_or(0),
        })
    }
}

/// The columns of `bd_stat`. The kernel counts 4 KiB units whatever its page size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Backed {
    /// Bytes on the backing device now.
    pub held_bytes: u64,
    /// Read from it since set-up.
    pub read_bytes: u64,
    /// Written to it since set-up.
    pub written_bytes: u64,
}

impl Backed {
    /// Reads `bd_stat`.
    pub fn parse(text: &str) -> Option<Backed> {
        let columns = numbers(text)?;
        let bytes = |at: usize| Some(columns[at]?.saturating_mul(4096));
        Some(Backed {
            held_bytes: bytes(0)?,
            read_bytes: bytes(1)?,
            written_bytes: bytes(2)?,
        })
    }
}

/// Columns of a line of numbers, the most that is read of any file.
const COLUMNS_MAX: usize = 16;

/// All columns of a line of numbers; `None` if one is none. It takes no memory, for
/// those who look when there is none.
pub fn numbers(text: &str) -> Option<[Option<u64>; COLUMNS_MAX]> {
    let mut columns = [None; COLUMNS_MAX];
    let words = text.lines().next()?.split_whitespace();
    for (column, word) in columns.iter_mut().zip(words) {
        // A high-water mark is signed in the kernel.
        *column = Some(word.parse::<i128>().ok()?.clamp(0, u64::MAX.into()) as u64);
    }
    columns[0].map(|_| columns)
}

/// Whether a parameter says that it is on.
pub fn is_on(text: &str) -> bool {
    matches!(text.trim(), "Y" | "y" | "1")
}

/// The numbers of a driver's devices.
pub fn device_numbers(host: &Host, driver: &str) -> Result<Vec<u32>, HostError> {
    let mut numbers: Vec<u32> = host
        .list("/sys/block")?
        .iter()
        .filter_map(|name| name.strip_prefix(driver)?.parse().ok())
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_of_every_age_are_read() {
        let old = MmStat::parse("  8192  300  4096  0  4096  1  2\n").unwrap();
        assert_eq!((old.same_filled_pages, old.incompressible_pages), (1, 0));
        let new = MmStat::parse("1 2 3 4 5 6 7 8 9 10 11\n").unwrap();
        assert_eq!(
            (new.incompressible_pages, new.incompressible_since_pages),
            (8, 9)
        );
        for wrong in ["", "1 2 3", "a b c d e f g", "1 2 3 4 5 6 7x"] {
            assert_eq!(MmStat::parse(wrong), None, "{wrong}");
        }
        let odd = MmStat::parse("18446744073709551615 0 0 0 -5 0 0 0 0").unwrap();
        assert_eq!((odd.stored_bytes, odd.memory_used_max_bytes), (u64::MAX, 0));
        let many = "99999999999999999999999999999 0 0 0 0 0 0";
        assert_eq!(MmStat::parse(many).unwrap().stored_bytes, u64::MAX);
        assert_eq!(Backed::parse("2 3 4").unwrap().held_bytes, 8192);
    }

    #[test]
    fn the_codec_in_brackets_recompresses() {
        let text = "#1: lzo lz4 [zstd] \n????#2: [lz4hc] \n#3: lzo\nx\n";
        let expected = [(1, "zstd".to_owned()), (2, "lz4hc".to_owned())];
        assert_eq!(recompression(text), expected.into());
    }

    #[test]
    fn the_word_in_brackets_or_the_only_one_is_chosen() {
        assert_eq!(chosen("lzo [lzo-rle] lz4\n"), Some("lzo-rle"));
        assert_eq!(chosen("off\n"), Some("off"));
        assert_eq!(chosen("lzo lz4"), None);
        assert_eq!(choices("lzo [lzo-rle] lz4\n"), ["lzo", "lzo-rle", "lz4"]);
    }
}
