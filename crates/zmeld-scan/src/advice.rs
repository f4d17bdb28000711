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
    /// What it is about: "codec", "size", "meld", "zeros", ...
    pub topic: String,
    /// The sentence.
    pub text: String,
}

fn say(kind: Kind, topic: &str, text: String) -> Advice {
    Advice {
        kind,
        topic: topic.to_owned(),
        text,
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

/// The codec to take, if there is anything to gain at all.
pub fn recommend(result: &ScanResult, swap_mb_per_s: f64) -> Option<&CodecResult> {
    let usable = |codec: &&CodecResult| codec.offered != Some(false) && codec.pages_measured > 0;
    let affordable = |codec: &&CodecResult| {
        result.ram_bytes < SMALL_RAM || cpu_share(codec, swap_mb_per_s) <= CPU_SHARE_MAX
    };
    let by_ratio =
        |a: &&CodecResult, b: &&CodecResult| a.effective_ratio.total_cmp(&b.effective_ratio);
    let by_cost = |a: &&CodecResult, b: &&CodecResult| {
        cpu_share(a, swap_mb_per_s).total_cmp(&cpu_share(b, swap_mb_per_s))
    };
    let best = result
        .codecs
        .iter()
        .filter(usable)
        .filter(affordable)
        .max_by(by_ratio);
    best.or_else(|| result.codecs.iter().filter(usable).min_by(by_cost))
        .filter(|codec| 1.0 - stored(codec.effective_ratio) >= GAIN_MIN)
}

/// Everything there is to say. `swap_mb_per_s`: pages out, and as many in, that
/// the costs are given for.
pub fn advise(result: &ScanResult, swap_mb_per_s: f64) -> Vec<Advice> {
    let mut advice = Vec::new();
    if result.pages.total == 0 {
        advice.push(say(
            Kind::Nothing,
            "codec",
            "No page was read, so there is nothing to say.".to_owned(),
        ));
        return advice;
    }
    match recommend(result, swap_mb_per_s) {
        Some(codec) => {
            advice.push(codec_advice(result, codec, swap_mb_per_s));
            advice.push(size_advice(result, codec));
        }
        None if result.pages.compressible() == 0 => advice.push(say(
            Kind::Nothing,
            "codec",
            "All pages are same-filled: any compressed swap holds them in next to no memory, \
             and the codec does not matter."
                .to_owned(),
        )),
        None => advice.push(say(
            Kind::Nothing,
            "codec",
            format!(
                "Nothing to gain: these pages hardly compress (the best ratio is {:.2}x), so \
                 compressed swap would cost CPU and save next to nothing.",
                result
                    .codecs
                    .iter()
                    .filter(|codec| codec.offered != Some(false))
                    .map(|codec| codec.effective_ratio)
                    .fold(0.0, f64::max)
            ),
        )),
    }
    advice.extend(better_elsewhere(result, swap_mb_per_s));
    advice.push(meld_advice(result, swap_mb_per_s));
    if result.pages.zero > 0 && !result.zero_pages_credited {
        advice.push(say(
            Kind::Note,
            "zeros",
            format!(
                "{:.1} % of the pages are zeros. This kernel never passes those to a swap \
                 device, so they are not counted as a gain here.",
                100.0 * result.pages.zero as f64 / result.pages.total as f64
            ),
        ));
    }
    advice
}

fn codec_advice(result: &ScanResult, codec: &CodecResult, rate: f64) -> Advice {
    let reason = if result.ram_bytes < SMALL_RAM {
        "with this little RAM the ratio decides"
    } else {
        "the best ratio among those that stay cheap"
    };
    say(
        Kind::Do,
        "codec",
        format!(
            "Use {}: {:.2}x on these pages, pool overhead included ({reason}). At {rate:.0} MB/s \
             swapped out and in again it takes {:.0} % of one core.",
            codec.codec,
            codec.effective_ratio,
            100.0 * cpu_share(codec, rate)
        ),
    )
}

/// Disk size: all of RAM where that leaves half of it for other pages, else
/// what does. The limit is what such a device needs, and a fifth more.
fn size_advice(result: &ScanResult, codec: &CodecResult) -> Advice {
    let ram = result.ram_bytes;
    let stored = stored(codec.effective_ratio);
    let disksize = ram.min(predict::disksize_max(ram, ram / 2, stored));
    let limit = ((disksize as f64 * stored * 1.2) as u64).min(ram / 2);
    let gained = predict::gained(disksize, stored, page_size() as u64);
    say(
        Kind::Do,
        "size",
        format!(
            "Disk size {} ({:.0} % of RAM) with a memory limit of {}: when full it takes {} and \
             gains {}.",
            gib(disksize as f64),
            100.0 * disksize as f64 / ram.max(1) as f64,
            gib(limit as f64),
            gib(disksize as f64 * stored),
            gib(gained as f64),
        ),
    )
}

/// A codec that this kernel has not got and that would gain clearly more.
fn better_elsewhere(result: &ScanResult, rate: f64) -> Option<Advice> {
    let here = recommend(result, rate).map_or(1.0, |codec| codec.effective_ratio);
    let there = result
        .codecs
        .iter()
        .filter(|codec| codec.offered == Some(false))
        .filter(|codec| cpu_share(codec, rate) <= CPU_SHARE_MAX)
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

fn meld_advice(result: &ScanResult, rate: f64) -> Advice {
    let pages = &result.pages;
    let share = pages.duplicate as f64 / pages.total as f64;
    let codec = recommend(result, rate).or(result.codecs.first());
    let saved = codec.map_or(0, |codec| {
        codec
            .memory_used_bytes
            .saturating_sub(codec.melded_memory_used_bytes)
    });
    let pool = codec.map_or(0, |codec| codec.memory_used_bytes);
    // Each page swapped out is fingerprinted once.
    let cost = rate * 1e6 / page_size() as f64 * result.fingerprint_ns as f64 * 1e-9;
    let figures = format!(
        "{:.1} % of the pages are duplicates, which is {} or {:.1} % of the pool",
        100.0 * share,
        gib(saved as f64),
        100.0 * saved as f64 / pool.max(1) as f64,
    );
    if share < MELD_MIN {
        return say(
            Kind::Nothing,
            "meld",
            format!("Melding would not pay here: {figures}."),
        );
    }
    say(
        Kind::Do,
        "meld",
        format!(
            "Melding pays: {figures}. The fingerprints take {:.2} % of one core at {rate:.0} MB/s. \
             zram does not meld; a device that does is needed for it.",
            100.0 * cost
        ),
    )
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
            memory_used_bytes: 1_000_000,
            melded_memory_used_bytes: 800_000,
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
            let disksize = (8u64 << 30).min(predict::disksize_max(8 << 30, 4 << 30, 1.0 / ratio));
            assert!(disksize as f64 / ratio <= (4u64 << 30) as f64 * 1.001);
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
}
