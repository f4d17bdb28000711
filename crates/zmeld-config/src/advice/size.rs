//! How large a compressed device is, what it may take, and what it gains.
//!
//! A device is as large as RAM where half of RAM holds that many pages with a fifth
//! to spare, else three quarters, a half or a quarter of it: steps, so that two
//! measurements of one machine rarely differ. More than half of RAM is advised only
//! where pages of at least a quarter of RAM were measured ([`BASIS_MIN_PERCENT`]): a
//! machine that has just booted does not show yet what it will hold. Half is also what
//! zram-generator and zram-tools take. Its limit is what it takes when it is full and a
//! fifth more, but enough for pages that get only 2 times smaller, and at most half of RAM.

use serde::Serialize;
use zmeld_report::units::bytes;

use crate::tier::SlotTable;

/// Assumed ratio of pages where nobody measured it.
pub const RATIO_ASSUMED: f64 = 2.0;
/// Size in percent of RAM where nothing was measured.
pub const UNMEASURED_PERCENT: u32 = 50;
/// Pages that have to be measured, in percent of RAM, before a device is advised that
/// is larger than where nothing was.
pub const BASIS_MIN_PERCENT: u32 = 25;
/// The share of RAM that has to be measured before a gain is promised.
pub(crate) const PROMISED_FROM: f64 = 0.01;
/// Sizes that are advised, in percent of RAM.
const STEPS: [u32; 4] = [100, 75, 50, 25];
/// Memory that the pool may take at most, in percent of RAM: the rest is for pages
/// that are not swapped out.
pub const LIMIT_MAX_PERCENT: u32 = 50;
/// The share of RAM beyond which full devices leave too little for all else.
pub const FILLED: f64 = 0.8;
/// Room above what is expected, so that other pages than today's do not meet the
/// limit at once.
pub const MARGIN: f64 = 1.2;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Basis {
    /// Bytes of pages for each byte of memory used.
    pub ratio: f64,
    /// Bytes of the pages that it was measured on.
    pub bytes: u64,
}

impl Basis {
    /// Whether so few pages were measured that no large device follows from them.
    fn is_thin(&self, ram_bytes: u64) -> bool {
        self.bytes < part(ram_bytes, BASIS_MIN_PERCENT)
    }
}

/// A device's size, with what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Sizing {
    /// Disk size in percent of RAM.
    pub size_percent: u32,
    /// Disk size in bytes: pages before compression.
    pub size_bytes: u64,
    /// The pool's limit in percent of RAM.
    pub memory_limit_percent: u32,
    /// The same in bytes: what `mem_limit` is set to.
    pub memory_limit_bytes: u64,
    /// Memory that it takes when it is full, its table included.
    pub takes_bytes: u64,
    /// Memory that it takes at its limit, its table included.
    pub takes_at_most_bytes: u64,
    /// RAM gained when it is full; negative where it costs more than it gives.
    pub gains_bytes: i64,
    /// Bytes of pages for each byte of memory used that this counts on.
    pub ratio: f64,
    /// Whether that was measured on this machine's pages.
    pub measured: bool,
    /// Bytes of the pages that it was measured on; 0 where nothing was.
    pub measured_bytes: u64,
    /// Whether those were too few for a larger device.
    pub held_back: bool,
    /// Whether they were too few to speak for RAM.
    #[serde(skip)]
    pub is_thin: bool,
    /// Whether they were too few for a gain to be promised.
    #[serde(skip)]
    pub is_too_little: bool,
    /// Why it has this limit.
    pub limit_why: &'static str,
}

impl Sizing {
    /// The size and limit for a machine with that much RAM, whose pages were measured;
    /// `None`: nothing was.
    pub fn advised(table: SlotTable, ram_bytes: u64, basis: Option<Basis>) -> Sizing {
        let held = basis.map(|basis| {
            let room = f64::from(LIMIT_MAX_PERCENT) / MARGIN * basis.ratio.max(1.0);
            let fits = STEPS.iter().find(|step| f64::from(**step) <= room);
            *fits.unwrap_or(&STEPS[STEPS.len() - 1])
        });
        let is_thin = basis.is_some_and(|basis| basis.is_thin(ram_bytes));
        let held_back = is_thin && held > Some(UNMEASURED_PERCENT);
        let percent = match held {
            Some(percent) if !held_back => percent,
            _ => UNMEASURED_PERCENT,
        };
        Sizing {
            held_back,
            ..Sizing::of_size(table, part(ram_bytes, percent), ram_bytes, basis)
        }
    }

    /// [`Sizing::advised`] for a device whose size its owner chose.
    pub fn of_size(
        table: SlotTable,
        size_bytes: u64,
        ram_bytes: u64,
        basis: Option<Basis>,
    ) -> Sizing {
        let ratio = basis.map_or(RATIO_ASSUMED, |basis| basis.ratio).max(1.0);
        let (limit, limit_why) = limit_percent(size_bytes, ram_bytes, ratio);
        let limit_bytes = part(ram_bytes, limit);
        Sizing {
            memory_limit_percent: limit,
            limit_why,
            ..Sizing::limited(table, size_bytes, limit_bytes, ram_bytes, basis)
        }
    }

    /// [`Sizing::of_size`] where its owner chose the limit, too.
    pub fn limited(
        table: SlotTable,
        size_bytes: u64,
        limit_bytes: u64,
        ram_bytes: u64,
        basis: Option<Basis>,
    ) -> Sizing {
        let ratio = basis.map_or(RATIO_ASSUMED, |basis| basis.ratio).max(1.0);
        let table = table.bytes(size_bytes);
        // At its limit it takes no more pages.
        let held = ((limit_bytes as f64 * ratio) as u64).min(size_bytes);
        let pool = (held as f64 / ratio) as u64;
        let takes_bytes = pool.saturating_add(table);
        let percent = |bytes: u64| (bytes as f64 * 100.0 / ram_bytes.max(1) as f64).round() as u32;
        Sizing {
            size_percent: percent(size_bytes),
            size_bytes,
            memory_limit_percent: percent(limit_bytes),
            memory_limit_bytes: limit_bytes,
            takes_bytes,
            takes_at_most_bytes: limit_bytes.min(size_bytes).saturating_add(table),
            gains_bytes: held.saturating_sub(pool) as i64 - table as i64,
            ratio,
            measured: basis.is_some(),
            measured_bytes: basis.map_or(0, |basis| basis.bytes),
            held_back: false,
            is_thin: basis.is_some_and(|basis| basis.is_thin(ram_bytes)),
            is_too_little: basis.is_some_and(|basis| is_too_little(basis.bytes, ram_bytes)),
            limit_why: "",
        }
    }

    pub fn why(&self) -> String {
        if !self.measured {
            return "half of RAM: without a measurement, pages are expected to get 2 times smaller"
                .to_owned();
        }
        let (times, of) = (tenths(self.ratio), bytes(self.measured_bytes));
        if self.held_back {
            return format!(
                "only {of} of pages were measured, less than a quarter of RAM, so no more than \
                 half of RAM: these get {times} times smaller"
            );
        }
        format!(
            "pages of this machine get {times} times smaller ({of} of them were measured): \
             compressed, with a fifth to spare, so many fit into half of RAM"
        )
    }

    /// Its result, in a sentence.
    pub fn words(&self) -> String {
        let when = match (self.measured, self.is_thin) {
            (true, false) => "when it is full, the device".to_owned(),
            (true, true) => format!(
                "if all pages are like the {} that were measured, the full device",
                bytes(self.measured_bytes)
            ),
            (false, _) => {
                "if pages get 2 times smaller (a guess; zmeld scan measures it under the usual load), the full device"
                    .to_owned()
            }
        };
        let most = bytes(self.takes_at_most_bytes);
        let most = match self.memory_limit_bytes {
            limit if limit < self.size_bytes => {
                format!("it never takes more than {most}, its limit and the table")
            }
            u64::MAX => format!("nothing limits it: it takes {most} if its pages do not compress"),
            _ => format!("it never takes more than {most}, even if nothing compresses"),
        };
        if self.is_too_little {
            return format!(
                "only {} of pages were measured, less than {:.0} % of RAM, too few to promise a \
                 gain: plan under the usual load; {most}",
                bytes(self.measured_bytes),
                100.0 * PROMISED_FROM
            );
        }
        format!(
            "{when} holds {} of pages and takes {} of RAM for them and its table, a gain of {}; \
             {most}",
            bytes(self.takes_bytes.saturating_add_signed(self.gains_bytes)),
            bytes(self.takes_bytes),
            signed(self.gains_bytes)
        )
    }
}

/// Whether so little of RAM was measured that no gain follows from it.
pub fn is_too_little(measured_bytes: u64, ram_bytes: u64) -> bool {
    (measured_bytes as f64) < PROMISED_FROM * ram_bytes as f64
}

/// A ratio to the tenth, one near 1 to the hundredth: the same digits wherever it is told.
pub fn tenths(ratio: f64) -> String {
    if ratio < 1.2 {
        return format!("{:.2}", rounded(ratio));
    }
    format!("{:.1}", (rounded(ratio) * 10.0).round() / 10.0)
}

/// The ratio that is counted on. With the tenth, gains of two measurements at its edge were 4 %
/// apart; with the hundredth they are as far apart as the measurements, and limits a percent of RAM
/// at most.
pub fn rounded(ratio: f64) -> f64 {
    (ratio * 100.0).round() / 100.0
}

/// Bytes that may be below zero, in words.
pub fn signed(value: i64) -> String {
    match value {
        0.. => bytes(value.unsigned_abs()),
        _ => format!("-{}", bytes(value.unsigned_abs())),
    }
}

/// So many percent of RAM, rounded down.
fn part(ram_bytes: u64, percent: u32) -> u64 {
    u64::try_from(u128::from(ram_bytes) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}

/// RAM gained by a device of `disksize` bytes when it is full, in bytes; negative
/// where it costs more than it gives. `stored` is memory used for each byte kept
/// (the inverse of the ratio, pool overhead included).
///
/// gain = disksize (1 - stored) - slots; the table is allocated with the device.
pub fn gained(table: SlotTable, disksize: u64, stored: f64) -> i64 {
    (disksize as f64 * (1.0 - stored) - table.bytes(disksize) as f64) as i64
}

/// From this share of RAM on, a limit is never above its device's size: in whole percent a smaller
/// one may be, by less than a percent of RAM.
const CAPPED_FROM_PERCENT: f64 = 10.0;

/// The pool's limit for a device of that size, in whole percent of RAM (1 to 50), and why. What
/// is stored takes no more than the size, so that a limit above it limits nothing.
pub fn limit_percent(size_bytes: u64, ram_bytes: u64, ratio: f64) -> (u32, &'static str) {
    let percent = |bytes: f64| bytes * 100.0 / ram_bytes.max(1) as f64;
    let size = size_bytes as f64;
    let needed = size / ratio.max(1.0) * MARGIN;
    let half_as_small = size / RATIO_ASSUMED;
    let most = ram_bytes as f64 * f64::from(LIMIT_MAX_PERCENT) / 100.0;
    let (limit, reason) = if needed.min(size).max(half_as_small) >= most {
        (most, "half of RAM stays for other pages")
    } else if needed >= size {
        (size, "no more than its size")
    } else if needed >= half_as_small {
        (needed, "a fifth more than it takes when it is full")
    } else {
        (
            half_as_small,
            "enough for pages that get only 2 times smaller",
        )
    };
    // Of whole pages, a size may be a little less than the percent that was written.
    let whole = match percent(size) >= CAPPED_FROM_PERCENT {
        true => percent(limit).ceil().min((percent(size) + 0.01).floor()),
        false => percent(limit).ceil(),
    };
    ((whole as u32).clamp(1, LIMIT_MAX_PERCENT), reason)
}

/// Whether devices without a limit can fill RAM: they are as large, or their pages, once
/// compressed, take four fifths of it.
pub fn fills_ram(size_bytes: u64, full_bytes: u64, ram_bytes: u64) -> bool {
    size_bytes >= ram_bytes || full_bytes as f64 > FILLED * ram_bytes as f64
}

/// The most that so many devices may have been meant to have in all: the size of each is rounded
/// down to whole pages, so that two halves of RAM may be less than all of it.
pub fn meant_bytes(size_bytes: u64, devices: usize, page_size: u64) -> u64 {
    size_bytes.saturating_add((devices as u64).saturating_mul(page_size.saturating_sub(1)))
}

/// Bytes of pages that `room` bytes of memory hold. A device that is larger than
/// that promises more than memory can hold. `measured`: the ratio, where enough
/// pages say one.
pub fn holds(room_bytes: u64, measured: Option<f64>) -> u64 {
    (room_bytes as f64 * measured.unwrap_or(RATIO_ASSUMED).max(1.0)) as u64
}

/// A ratio is of the pages that are there now: from one hour to the next it differs by a tenth.
const RATIO_VARIES: f64 = 1.1;

/// Whether a device of that size promises more than `room` bytes of memory hold, beyond what
/// ratios vary by.
pub fn is_oversized(size_bytes: u64, room_bytes: u64, measured: Option<f64>) -> bool {
    size_bytes as f64 > RATIO_VARIES * holds(room_bytes, measured) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::meld;
    use crate::tier::RamDriver::{self, Zmeld, Zram};

    const GIB: u64 = 1 << 30;

    fn table(driver: RamDriver) -> SlotTable {
        SlotTable::new(driver, meld::advised(driver), 4096)
    }

    /// A ratio that was measured on more than enough pages.
    fn basis(ratio: f64) -> Option<Basis> {
        let bytes = u64::MAX;
        Some(Basis { ratio, bytes })
    }

    /// By hand: 8 GiB of RAM at 2.5x. Half of RAM less a fifth holds 104 % of RAM, so
    /// the size is all of RAM: 2 097 152 pages, a table of 32 MiB. They take 3.2 GiB
    /// and the table; a fifth more would be 48 %, and half as small needs 50 %.
    #[test]
    fn the_arithmetic_of_the_size_is_right() {
        let found = Sizing::advised(table(Zram), 8 * GIB, basis(2.5));
        let table = 32 << 20;
        assert_eq!((found.size_percent, found.memory_limit_percent), (100, 50));
        assert_eq!(found.memory_limit_bytes, 4 * GIB);
        assert_eq!(found.takes_bytes, (3.2 * GIB as f64) as u64 + table);
        assert_eq!(found.takes_at_most_bytes, 4 * GIB + table);
        let gains = 8 * GIB - found.takes_bytes;
        assert!(found.gains_bytes.abs_diff(gains as i64) <= 1);
        assert_eq!(
            found.words(),
            "when it is full, the device holds 8.00 GiB of pages and takes 3.23 GiB of RAM for \
             them and its table, a gain of 4.77 GiB; it never takes more than 4.03 GiB, its \
             limit and the table"
        );
    }

    /// By hand: a table of 25 bytes a slot instead of 16 is 50 MiB instead of 32 for 8 GiB.
    #[test]
    fn a_device_of_zmeld_takes_more_for_its_table() {
        let of = |driver| Sizing::advised(table(driver), 8 * GIB, basis(2.5));
        let (zram, zmeld) = (of(Zram), of(Zmeld));
        assert_eq!(zmeld.takes_bytes, zram.takes_bytes + (18 << 20));
        assert_eq!(zmeld.takes_at_most_bytes, 4 * GIB + (50 << 20));
        assert_eq!(zmeld.gains_bytes, zram.gains_bytes - (18 << 20));
    }

    /// An eighth of RAM does not speak for all of it.
    #[test]
    fn a_size_says_on_how_little_it_rests() {
        let bytes = GIB;
        let found = Sizing::advised(table(Zram), 8 * GIB, Some(Basis { ratio: 2.5, bytes }));
        assert!(found.held_back);
        let said = found.why() + "; " + &found.words();
        for words in [
            "only 1.00 GiB of pages were measured, less than a quarter of RAM, so no more than half",
            "; if all pages are like the 1.00 GiB that were measured, the full device holds 4.00 GiB",
        ] {
            assert!(said.contains(words), "{said}");
        }
    }

    /// By hand: 16 GiB of device in 8 GiB of RAM at 2x. The limit of 4 GiB holds 8 GiB
    /// of pages; the table of 16 GiB takes 64 MiB. Gained: 8 - 4 GiB, less the table.
    #[test]
    fn a_device_that_its_limit_bounds_gains_what_the_limit_holds() {
        let found = Sizing::of_size(table(Zram), 16 * GIB, 8 * GIB, basis(2.0));
        let table = 64 << 20;
        assert_eq!((found.size_percent, found.memory_limit_percent), (200, 50));
        assert_eq!(found.takes_bytes, 4 * GIB + table);
        assert_eq!(found.takes_bytes, found.takes_at_most_bytes);
        assert_eq!(found.gains_bytes, (4 * GIB - table) as i64);
    }

    /// The fleet's report has the same rule, and reads the same table.
    #[test]
    fn sizes_go_in_steps_and_what_is_not_measured_is_half() {
        let percent = |it: Sizing| (it.size_percent, it.memory_limit_percent);
        assert_eq!(
            percent(Sizing::advised(table(Zram), 100 * GIB, None)),
            (50, 30)
        );
        for line in include_str!("sizes.txt").lines().skip(1) {
            let row: Vec<f64> = line.split_whitespace().flat_map(str::parse).collect();
            let (ratio, bytes) = (row[0], GIB * row[1] as u64);
            let found = Sizing::advised(table(Zram), 100 * GIB, Some(Basis { ratio, bytes }));
            assert_eq!(percent(found), (row[2] as u32, row[3] as u32), "{line}");
        }
    }

    /// By hand: four fifths of 1000 are 800; a limit of 1000 holds 2000 at a ratio of 2, and a
    /// tenth more is within what ratios vary by; 100 pages of which a quarter stays give 75 back, less
    /// 16 bytes each, or 25.
    #[test]
    fn what_is_too_large_begins_where_it_says() {
        let filling = [(999, 800), (999, 801), (999, 900), (1000, 0)];
        let filling = filling.map(|(size, full)| fills_ram(size, full, 1000));
        assert_eq!(filling, [false, true, true, true]);
        // All but a page of an odd number of pages: two halves of it, and no size of one device.
        let ram = 6_171_023 * 4096;
        let meant = [1, 2].map(|devices| meant_bytes(ram - 4096, devices, 4096));
        assert_eq!(meant.map(|size| fills_ram(size, 0, ram)), [false, true]);
        let sizes = [2000, 2199, 2201];
        let oversized = sizes.map(|size| is_oversized(size, 1000, Some(2.0)));
        assert_eq!(oversized, [false, false, true]);
        let gains = [Zram, Zmeld].map(|driver| gained(table(driver), 100 * 4096, 0.25));
        assert_eq!(gains, [75 * 4096 - 100 * 16, 75 * 4096 - 100 * 25]);
    }

    /// Whatever the size is, the limit that goes with it holds its pages, and is no more than it.
    #[test]
    fn a_limit_holds_what_a_device_of_any_size_has() {
        let ram = 25_276_510_208;
        for (size, hundredths) in (1..=2000).flat_map(|at| (100..=400).map(move |it| (at, it))) {
            let (size, ratio) = (ram / 2000 * size, f64::from(hundredths) / 100.0);
            let found = Sizing::of_size(table(Zram), size, ram, basis(ratio));
            let limit = found.memory_limit_bytes;
            if size >= ram / 10 {
                assert!(limit <= size + 4096, "{found:?}");
            }
            let of_half = limit >= part(ram, LIMIT_MAX_PERCENT);
            assert!(
                of_half || !is_oversized(size, limit, Some(ratio)),
                "{found:?}"
            );
        }
    }

    /// The advice of one is never the fault that another finds.
    #[test]
    fn nothing_that_is_advised_is_oversized() {
        for hundredths in 110..=2000 {
            let ratio = f64::from(hundredths) / 100.0;
            for ram in [256 << 20, GIB - 12_345, 8 * GIB, 23_999_999_999] {
                let found = Sizing::advised(table(Zram), ram, basis(rounded(ratio)));
                let (size, limit) = (found.size_bytes, found.memory_limit_bytes);
                assert!(STEPS.contains(&found.size_percent), "{found:?}");
                assert!(!is_oversized(size, limit, None), "{ratio} {found:?}");
                assert!(!is_oversized(size, limit, Some(ratio)), "{ratio} {found:?}");
                assert!(found.takes_bytes <= found.takes_at_most_bytes, "{found:?}");
                assert!(limit <= ram / 2, "{found:?}");
            }
        }
        let unmeasured = Sizing::advised(table(Zram), 8 * GIB, None);
        let (size, limit) = (unmeasured.size_bytes, unmeasured.memory_limit_bytes);
        assert!(!is_oversized(size, limit, None));
        assert!(is_oversized(8 * GIB, limit, None));
    }
}
