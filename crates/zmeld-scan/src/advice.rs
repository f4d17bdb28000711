//! What to do about it, in plain words.
//!
//! The choice of codec weighs what it saves against what it costs: of the codecs
//! that the kernel offers, the one that gains most RAM while compressing and
//! decompressing at the given swap rate takes at most [`CPU_SHARE_MAX`] of one
//! core. On a machine with little RAM the ratio alone decides: there a faster
//! codec with a low ratio runs out of memory where a slower one survives.

use serde::Serialize;
use zmeld_store::page_size;

use crate::predict;
use crate::result::{CodecResult, ScanResult};

/// Share of one core that a codec may take at the swap rate that was given.
pub const CPU_SHARE_MAX: f64 = 0.5;
/// Bytes of RAM below which only the ratio counts.
pub const SMALL_RAM: u64 = 1 << 30;
/// Below this many bytes saved for each byte swapped, compression is not worth it.
const GAIN_MIN: f64 = 0.1;
/// Share of pages that melding has to drop before it is advised.
const MELD_MIN: f64 = 0.02;
/// From this share of its size on, a swap device is called nearly full.
const NEARLY_FULL: f64 = 0.9;

/// How a sentence of advice is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Do this.
    Do,
    /// There is nothing to gain here.
    Nothing,
    /// Take care.
    Warning,
    /// Good to know.
    Note,
}

/// A sentence or two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// How it is meant.
    pub kind: Kind,
    /// What it is about: "codec", "size", "meld", "zeros", "swap", "zswap",
    /// "need", "privilege".
    pub topic: String,
    /// The sentence.
    pub text: String,
    /// The commands that do it, for root, a line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
}

fn say(kind: Kind, topic: &str, text: String) -> Advice {
    Advice {
        kind,
        topic: topic.to_owned(),
        text,
        commands: Vec::new(),
    }
}

/// Share of one core that a codec takes when `mb_per_s` are swapped out and as much in.
pub fn cpu_share(codec: &CodecResult, mb_per_s: f64) -> f64 {
    if codec.compress_mb_per_s <= 0.0 || codec.decompress_mb_per_s <= 0.0 {
        return 0.0;
    }
    mb_per_s / codec.compress_mb_per_s + mb_per_s / codec.decompress_mb_per_s
}

/// Memory used for each byte given to the device.
fn stored(effective_ratio: f64) -> f64 {
    if effective_ratio > 0.0 {
        1.0 / effective_ratio
    } else {
        0.0
    }
}

/// Why a codec is the one to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// It has the best ratio of those that stay below [`CPU_SHARE_MAX`].
    BestCheap,
    /// It has the best ratio, and little RAM makes that decide.
    SmallRam,
    /// None stays below [`CPU_SHARE_MAX`]; it is the cheapest.
    Cheapest,
}

/// The codec to take, if there is anything to gain at all.
pub fn recommend(result: &ScanResult, swap_mb_per_s: f64) -> Option<&CodecResult> {
    choose(result, swap_mb_per_s).map(|(codec, _)| codec)
}

fn choose(result: &ScanResult, rate: f64) -> Option<(&CodecResult, Reason)> {
    let usable = |codec: &&CodecResult| {
        codec.offered != Some(false)
            && codec.pages_measured > 0
            && 1.0 - stored(codec.effective_ratio) >= GAIN_MIN
    };
    let usable = || result.codecs.iter().filter(usable);
    let by_ratio =
        |a: &&CodecResult, b: &&CodecResult| a.effective_ratio.total_cmp(&b.effective_ratio);
    if result.ram_bytes < SMALL_RAM {
        return Some((usable().max_by(by_ratio)?, Reason::SmallRam));
    }
    let cheap = usable().filter(|codec| cpu_share(codec, rate) <= CPU_SHARE_MAX);
    if let Some(codec) = cheap.max_by(by_ratio) {
        return Some((codec, Reason::BestCheap));
    }
    let by_cost =
        |a: &&CodecResult, b: &&CodecResult| cpu_share(a, rate).total_cmp(&cpu_share(b, rate));
    Some((usable().min_by(by_cost)?, Reason::Cheapest))
}

/// Everything there is to say. `swap_mb_per_s`: pages out, and as many in, that
/// the costs are given for.
pub fn advise(result: &ScanResult, swap_mb_per_s: f64) -> Vec<Advice> {
    let pages = &result.pages;
    if pages.total == 0 {
        let text = "No page was read, so there is nothing to say.".to_owned();
        return vec![say(Kind::Nothing, "codec", text)];
    }
    if pages.compressible() == 0 {
        return vec![same_filled_advice(result)];
    }
    let mut advice = Vec::new();
    match choose(result, swap_mb_per_s) {
        Some((codec, reason)) => {
            advice.push(codec_advice(codec, reason, swap_mb_per_s));
            advice.push(size_advice(result, codec));
        }
        None => advice.push(nothing_to_gain(result)),
    }
    advice.extend(better_elsewhere(result, swap_mb_per_s));
    advice.push(meld_advice(result, swap_mb_per_s));
    let zeros = pages.zero as f64 / pages.total as f64;
    if zeros >= 0.01 && !result.zero_pages_credited {
        advice.push(say(
            Kind::Note,
            "zeros",
            format!(
                "{:.1} % of the pages are zeros. This kernel never passes those to a swap \
                 device, so they are not counted as a gain here.",
                100.0 * zeros
            ),
        ));
    }
    advice.extend(swap_advice(result));
    advice.extend(zswap_advice(result));
    advice.extend(need_advice(result));
    advice
}

fn same_filled_advice(result: &ScanResult) -> Advice {
    let text = if result.pages.zero == result.pages.total && !result.zero_pages_credited {
        "Nothing to gain: all pages are zeros, which this kernel never passes to a swap device."
    } else {
        "All pages are same-filled: any compressed swap holds them in next to no memory, and the \
         codec does not matter."
    };
    say(Kind::Nothing, "codec", text.to_owned())
}

fn nothing_to_gain(result: &ScanResult) -> Advice {
    let offered = || {
        let offered = |codec: &&CodecResult| codec.offered != Some(false);
        result.codecs.iter().filter(offered)
    };
    let text = if offered().next().is_none() {
        "This kernel's zram has none of the codecs that were measured: try --codecs all.".to_owned()
    } else {
        format!(
            "Nothing to gain: these pages hardly compress ({:.2}x at best, pool overhead \
             included), so compressed swap would cost CPU and save next to nothing.",
            offered()
                .map(|codec| codec.effective_ratio)
                .fold(0.0, f64::max)
        )
    };
    say(Kind::Nothing, "codec", text)
}

fn codec_advice(codec: &CodecResult, reason: Reason, rate: f64) -> Advice {
    let limit = 100.0 * CPU_SHARE_MAX;
    let reason = match reason {
        Reason::SmallRam => "with this little RAM the ratio decides".to_owned(),
        Reason::BestCheap => {
            format!("the best ratio of the codecs that take at most {limit:.0} % of a core")
        }
        Reason::Cheapest => {
            format!("the cheapest codec: none stays below {limit:.0} % of a core")
        }
    };
    let unseen = if codec.offered.is_none() {
        " Whether this kernel's zram has it could not be seen: there is no zram device to ask."
    } else {
        ""
    };
    say(
        Kind::Do,
        "codec",
        format!(
            "Use {}: {:.2}x on these pages, pool overhead included ({reason}). At {rate:.0} MB/s \
             swapped out and as much in it takes {:.0} % of a core.{unseen}",
            codec.codec,
            codec.effective_ratio,
            100.0 * cpu_share(codec, rate)
        ),
    )
}

/// Bytes of the advised device and of its memory limit. Disk size: all of RAM
/// where that leaves half of it for other pages, else what does.
fn advised_size(ram: u64, stored: f64) -> (u64, u64) {
    let disksize = ram.min(predict::disksize_max(ram, ram / 2, stored));
    (disksize, predict::memory_limit(ram, disksize, stored))
}

fn size_advice(result: &ScanResult, codec: &CodecResult) -> Advice {
    let ram = result.ram_bytes;
    let stored = stored(codec.effective_ratio);
    let (disksize, limit) = advised_size(ram, stored);
    let gained = predict::gained(disksize, stored, page_size() as u64);
    let takes = disksize as i64 - gained;
    let text = format!(
        "Disk size {} ({:.0} % of RAM) with a memory limit of {}: when full of such pages it \
         takes {} and gains {}.",
        gib(disksize as f64),
        100.0 * disksize as f64 / ram.max(1) as f64,
        gib(limit as f64),
        gib(takes as f64),
        gib(gained as f64),
    );
    let mut advice = say(Kind::Do, "size", text);
    if result.machine.swaps.iter().all(|swap| swap.zram.is_none()) {
        advice.commands = set_up(result, &codec.codec, disksize, limit);
    }
    advice
}

/// What sets up such a device by zram's own files. The memory limit goes before
/// `swapon`; codec and parameters go before the disk size.
fn set_up(result: &ScanResult, codec: &str, disksize: u64, limit: u64) -> Vec<String> {
    let (name, parameters) = match codec.split_once(':') {
        None => (codec, None),
        Some((name, level)) => (name, Some(level)),
    };
    let parameters = parameters.map(|parameters| {
        let mut words = vec![format!("algo={name}")];
        let (level, dict) = match parameters.split_once(',') {
            Some((level, dict)) => (Some(level), Some(dict)),
            None if parameters.starts_with("dict=") => (None, Some(parameters)),
            None => (Some(parameters), None),
        };
        words.extend(level.map(|level| format!("level={}", level.trim_start_matches("level="))));
        words.extend(dict.map(str::to_owned));
        format!(
            "echo {} > /sys/block/zram$N/algorithm_params",
            words.join(" ")
        )
    });
    let highest = result.machine.swaps.iter().map(|swap| swap.priority).max();
    let priority = highest.map_or(100, |highest| (highest + 1).clamp(100, 32767));
    let mib = |bytes: u64| bytes >> 20;
    let mut commands = vec![
        "modprobe zram num_devices=0".to_owned(),
        "N=$(cat /sys/class/zram-control/hot_add)".to_owned(),
        format!("echo {name} > /sys/block/zram$N/comp_algorithm"),
    ];
    commands.extend(parameters);
    commands.extend([
        format!("echo {}M > /sys/block/zram$N/disksize", mib(disksize)),
        format!("echo {}M > /sys/block/zram$N/mem_limit", mib(limit)),
        "mkswap /dev/zram$N".to_owned(),
        format!("swapon --priority {priority} /dev/zram$N"),
    ]);
    commands
}

/// A codec that this kernel has not got and that would gain clearly more.
fn better_elsewhere(result: &ScanResult, rate: f64) -> Option<Advice> {
    let here = recommend(result, rate).map_or(1.0, |codec| codec.effective_ratio);
    let there = result
        .codecs
        .iter()
        .filter(|codec| codec.offered == Some(false))
        .filter(|codec| result.ram_bytes < SMALL_RAM || cpu_share(codec, rate) <= CPU_SHARE_MAX)
        .max_by(|a, b| a.effective_ratio.total_cmp(&b.effective_ratio))?;
    (there.effective_ratio > 1.1 * here).then(|| {
        say(
            Kind::Note,
            "codec",
            format!(
                "{} would reach {:.2}x, but this kernel's zram is built without it.",
                there.codec, there.effective_ratio
            ),
        )
    })
}

/// What melding would save, and what can do it today. There is no device yet
/// that melds; the kernel's same-page merging (KSM) melds pages in RAM, of
/// programs that ask for it.
fn meld_advice(result: &ScanResult, rate: f64) -> Advice {
    let pages = &result.pages;
    if pages.duplicate == 0 {
        let text = "Nothing to meld: no page stands twice.".to_owned();
        return say(Kind::Nothing, "meld", text);
    }
    let share = pages.duplicate as f64 / pages.total as f64;
    let codec = recommend(result, rate).or(result.codecs.first());
    let saved = codec.map_or(0, |codec| {
        codec
            .memory_at_scale_bytes
            .saturating_sub(codec.melded_memory_at_scale_bytes)
    });
    let pool = codec.map_or(0, |codec| codec.memory_at_scale_bytes);
    let figures = format!(
        "{} of the pages are duplicates ({}); melded, they would save {}, {} of the compressed \
         memory",
        percent(share),
        gib((pages.duplicate * result.page_size) as f64),
        gib(saved as f64),
        percent(saved as f64 / pool.max(1) as f64),
    );
    if share < MELD_MIN {
        return say(
            Kind::Nothing,
            "meld",
            format!("Melding would not pay here: {figures}."),
        );
    }
    // Each page swapped out is fingerprinted once.
    let cost = rate * 1e6 / page_size() as f64 * result.fingerprint_ns as f64 * 1e-9;
    let ksm = match result.machine.ksm_runs {
        None => "this kernel is built without KSM, which could meld them in RAM".to_owned(),
        Some(runs) => format!(
            "KSM, which is {}, melds them in RAM, of programs that ask for it: \
             madvise(MADV_MERGEABLE), or MemoryKSM=yes for a systemd service (Linux 6.4 and \
             newer). It costs scanning, and lets one program learn by timing what another holds",
            if runs { "running" } else { "switched off" }
        ),
    };
    say(
        Kind::Do,
        "meld",
        format!(
            "Melding would pay: {figures}. Fingerprints would take {} of a core at {rate:.0} MB/s. \
             zram does not meld; {ksm}.",
            percent(cost)
        ),
    )
}

/// Compressed swap that is there already.
fn swap_advice(result: &ScanResult) -> Vec<Advice> {
    let zrams = result
        .machine
        .swaps
        .iter()
        .filter_map(|swap| Some((swap, swap.zram.as_ref()?)));
    zrams
        .map(|(swap, zram)| {
            let full = swap.used_bytes as f64 / swap.size_bytes.max(1) as f64;
            let holds = if zram.data_bytes == 0 {
                "it holds nothing yet".to_owned()
            } else {
                format!(
                    "its {} of pages take {}",
                    gib(zram.data_bytes as f64),
                    gib(zram.memory_used_bytes as f64)
                )
            };
            let kind = if full >= NEARLY_FULL {
                Kind::Warning
            } else {
                Kind::Note
            };
            let text = format!(
                "Swap on zram is active already: {} ({}, {}) is {} full; {holds}. Change that \
                 device rather than add one; `zmeld scan --swap {}` reads what is in it.",
                swap.path,
                zram.codec,
                gib(swap.size_bytes as f64),
                percent(full),
                swap.path,
            );
            say(kind, "swap", text)
        })
        .collect()
}

fn zswap_advice(result: &ScanResult) -> Option<Advice> {
    if result.machine.zswap_enabled != Some(true) {
        return None;
    }
    let zram = result.machine.swaps.iter().any(|swap| swap.zram.is_some());
    let (kind, text) = if zram {
        (
            Kind::Warning,
            "zswap is on in front of zram: it compresses pages, and decompresses them again to \
             hand them on to zram, which compresses them once more. Use one of the two: \
             `echo N > /sys/module/zswap/parameters/enabled` switches zswap off.",
        )
    } else {
        (
            Kind::Note,
            "zswap is on: it compresses pages in front of the swap devices. Switch it off before \
             you swap to zram (`echo N > /sys/module/zswap/parameters/enabled`), or the two do \
             the work twice.",
        )
    };
    Some(say(kind, "zswap", text.to_owned()))
}

/// Where this machine's own memory is meant, and is not short.
fn need_advice(result: &ScanResult) -> Option<Advice> {
    let machine = &result.machine;
    let is_live = result.memory.get("processes").is_some_and(|&n| n > 0);
    let swapped = machine.swaps.iter().any(|swap| swap.used_bytes > 0);
    if !is_live || swapped || result.ram_bytes != machine.ram_bytes {
        return None;
    }
    (machine.available_bytes as f64 >= 0.5 * machine.ram_bytes as f64).then(|| {
        say(
            Kind::Note,
            "need",
            format!(
                "Memory is not short here now: {} of {} can be had without swapping. Compressed \
                 swap gains when that changes.",
                gib(machine.available_bytes as f64),
                gib(machine.ram_bytes as f64)
            ),
        )
    })
}

/// What root would see beyond this.
pub(crate) fn others_processes(processes: u64, bytes: u64) -> Advice {
    let are = if processes == 1 {
        "1 process of other users was"
    } else {
        &format!("{processes} processes of other users were")
    };
    let size = if bytes == 0 {
        String::new()
    } else {
        format!(" ({} in RAM)", gib(bytes as f64))
    };
    let text = format!("{are} not read{size}: run zmeld as root to see the whole machine.");
    say(Kind::Warning, "privilege", text)
}

/// A share with one decimal, or "less than 0.1 %".
fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent > 0.0 && percent < 0.05 {
        "less than 0.1 %".to_owned()
    } else {
        format!("{percent:.1} %")
    }
}

/// Bytes in the largest fitting unit, three digits.
fn gib(bytes: f64) -> String {
    let (mut value, mut unit) = (bytes, "B");
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if value.abs() < 1000.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    let digits = match value.abs() {
        v if v >= 100.0 || unit == "B" => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Pages;

    fn codec(name: &str, ratio: f64, speed: f64, offered: Option<bool>) -> CodecResult {
        CodecResult {
            codec: name.to_owned(),
            offered,
            pages_measured: 1000,
            effective_ratio: ratio,
            melded_effective_ratio: ratio * 1.2,
            memory_at_scale_bytes: 1_000_000,
            melded_memory_at_scale_bytes: 800_000,
            compress_mb_per_s: speed,
            decompress_mb_per_s: 4.0 * speed,
            ..CodecResult::default()
        }
    }

    fn result(ram: u64, codecs: Vec<CodecResult>) -> ScanResult {
        ScanResult {
            ram_bytes: ram,
            codecs,
            pages: Pages {
                total: 1000,
                unique: 900,
                duplicate: 100,
                ..Pages::default()
            },
            ..ScanResult::default()
        }
    }

    #[test]
    fn the_best_ratio_that_is_cheap_enough_wins() {
        let codecs = vec![
            codec("lz4", 2.1, 700.0, None),
            codec("zstd", 2.9, 300.0, None),
            codec("deflate", 3.0, 60.0, None),
        ];
        let big = result(16 << 30, codecs.clone());
        assert_eq!(recommend(&big, 100.0).unwrap().codec, "zstd");
        assert_eq!(recommend(&big, 250.0).unwrap().codec, "lz4");
        // Nothing is cheap enough: the cheapest.
        assert_eq!(recommend(&big, 5000.0).unwrap().codec, "lz4");
        let small = result(256 << 20, codecs);
        assert_eq!(recommend(&small, 100.0).unwrap().codec, "deflate");
    }

    #[test]
    fn codecs_that_the_kernel_has_not_got_are_named_not_advised() {
        let found = result(
            16 << 30,
            vec![
                codec("lz4", 2.1, 700.0, Some(true)),
                codec("zstd", 2.9, 300.0, Some(false)),
            ],
        );
        assert_eq!(recommend(&found, 100.0).unwrap().codec, "lz4");
        let all = advise(&found, 100.0);
        assert!(
            all.iter().any(|a| a.text.contains("built without it")),
            "{all:?}"
        );
    }

    #[test]
    fn nothing_to_gain_is_a_valid_answer() {
        let found = result(16 << 30, vec![codec("lz4", 1.01, 700.0, None)]);
        let all = advise(&found, 100.0);
        assert_eq!(all[0].kind, Kind::Nothing);
        assert!(all[0].text.starts_with("Nothing to gain"));
        let empty = ScanResult::default();
        assert_eq!(advise(&empty, 100.0)[0].kind, Kind::Nothing);
    }

    #[test]
    fn the_advised_device_leaves_half_of_ram() {
        for ratio in [1.2, 1.5, 2.0, 4.0] {
            let found = result(8 << 30, vec![codec("lz4", ratio, 700.0, None)]);
            let size = size_advice(&found, &found.codecs[0]);
            let (disksize, limit) = advised_size(8 << 30, 1.0 / ratio);
            assert!(disksize as f64 / ratio <= (4u64 << 30) as f64 * 1.001);
            assert!(limit <= 4 << 30 && limit as f64 >= disksize as f64 / ratio * 0.999);
            assert!(size.text.contains("Disk size"), "{}", size.text);
        }
    }

    #[test]
    fn melding_is_advised_only_where_pages_repeat() {
        let mut found = result(8 << 30, vec![codec("lz4", 2.0, 700.0, None)]);
        assert_eq!(meld_advice(&found, 100.0).kind, Kind::Do);
        found.pages.duplicate = 5;
        found.pages.unique = 995;
        assert_eq!(meld_advice(&found, 100.0).kind, Kind::Nothing);
    }

    #[test]
    fn a_codec_that_is_not_cheap_is_not_called_cheap() {
        let found = result(16 << 30, vec![codec("lz4", 2.0, 160.0, None)]);
        let text = &advise(&found, 100.0)[0].text;
        assert!(text.contains("none stays below 50 %"), "{text}");
        assert!(text.contains("78 % of a core"), "{text}");
    }

    /// By hand: 8 GiB of RAM at 2x. Half of RAM may be used, so the disk size is
    /// all of RAM: 2097152 pages. They take 4 GiB and a table of 32 MiB; 8 GiB
    /// less that is 3.97 GiB. A fifth above 4 GiB would be more than half of RAM.
    #[test]
    fn the_arithmetic_of_the_size_is_right() {
        let found = result(8 << 30, vec![codec("lz4", 2.0, 700.0, Some(true))]);
        let size = &advise(&found, 100.0)[1];
        assert_eq!(
            size.text,
            "Disk size 8.00 GiB (100 % of RAM) with a memory limit of 4.00 GiB: when full of such \
             pages it takes 4.03 GiB and gains 3.97 GiB."
        );
        assert!(size
            .commands
            .contains(&"echo 8192M > /sys/block/zram$N/disksize".to_owned()));
        assert!(size
            .commands
            .contains(&"echo 4096M > /sys/block/zram$N/mem_limit".to_owned()));
    }

    #[test]
    fn levels_and_dictionaries_go_into_the_parameters() {
        let found = result(8 << 30, Vec::new());
        for (codec, line) in [
            (
                "zstd:1",
                "echo algo=zstd level=1 > /sys/block/zram$N/algorithm_params",
            ),
            (
                "zstd:3,dict=/d",
                "echo algo=zstd level=3 dict=/d > /sys/block/zram$N/algorithm_params",
            ),
            (
                "lz4:dict=/d",
                "echo algo=lz4 dict=/d > /sys/block/zram$N/algorithm_params",
            ),
        ] {
            let commands = set_up(&found, codec, 1 << 30, 1 << 29);
            assert!(commands.contains(&line.to_owned()), "{commands:?}");
        }
    }

    fn with_zram(used: u64) -> ScanResult {
        let mut found = result(8 << 30, vec![codec("lz4", 2.0, 700.0, Some(true))]);
        found.machine.swaps.push(crate::machine::Swap {
            path: "/dev/zram0".to_owned(),
            size_bytes: 1 << 30,
            used_bytes: used,
            priority: 5,
            zram: Some(crate::machine::Zram {
                codec: "lzo-rle".to_owned(),
                data_bytes: used,
                memory_used_bytes: used / 3,
                memory_limit_bytes: 0,
            }),
        });
        found
    }

    #[test]
    fn zram_that_swaps_already_is_named_and_not_doubled() {
        let said = |found: &ScanResult| {
            let all = advise(found, 100.0);
            assert!(all.iter().all(|advice| advice.commands.is_empty()));
            let swap = all.iter().find(|advice| advice.topic == "swap");
            swap.expect("said").clone()
        };
        let half = said(&with_zram(1 << 29));
        assert_eq!(half.kind, Kind::Note);
        assert!(half.text.contains("50.0 % full"), "{}", half.text);
        assert!(
            half.text.contains("512 MiB of pages take 171 MiB"),
            "{}",
            half.text
        );
        assert_eq!(said(&with_zram(1 << 30)).kind, Kind::Warning);
        assert!(said(&with_zram(0)).text.contains("holds nothing yet"));
    }

    #[test]
    fn zswap_beside_zram_is_warned_of() {
        let kind = |found: &ScanResult| zswap_advice(found).map(|advice| advice.kind);
        let mut both = with_zram(0);
        assert_eq!(kind(&both), None);
        both.machine.zswap_enabled = Some(true);
        assert_eq!(kind(&both), Some(Kind::Warning));
        both.machine.swaps.clear();
        assert_eq!(kind(&both), Some(Kind::Note));
        both.machine.zswap_enabled = Some(false);
        assert_eq!(kind(&both), None);
    }

    #[test]
    fn same_filled_pages_alone_get_one_answer() {
        let mut found = result(8 << 30, vec![codec("lz4", 2.0, 700.0, None)]);
        found.pages = Pages {
            total: 10,
            zero: 10,
            ..Pages::default()
        };
        let all = advise(&found, 100.0);
        assert_eq!((all.len(), all[0].kind), (1, Kind::Nothing));
        assert!(all[0].text.contains("never passes"), "{all:?}");
        found.zero_pages_credited = true;
        assert!(advise(&found, 100.0)[0].text.contains("next to no memory"));
    }
}
