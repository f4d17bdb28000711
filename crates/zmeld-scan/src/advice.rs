//! Recommendations, in plain words.
//!
//! Which codec, how large a device and whether melding pays `zmeld_config::advice` decides,
//! from what was measured here; `zmeld plan` asks the same.

use zmeld_config::advice::codec::{CodecVerdict, JUDGED_FROM};
use zmeld_config::advice::machine::not_short;
use zmeld_config::advice::meld;
use zmeld_config::advice::{size, tier, Choice, Facts, Machine, ModulePresence, Recommendation};
use zmeld_report::units::{bytes, count, percent};
use zmeld_store::SHARE_BYTES;

pub use crate::result::{Advice, AdviceKind};
use crate::result::{CodecResult, ScanResult};

/// Pages swapped out, and as many in, that costs are given for: decimal MB a second.
const SWAP_MB_PER_S: f64 = 100.0;
/// Share of one core that a codec may take at that rate.
const CPU_SHARE_MAX: f64 = 0.5;
/// Bytes of RAM below which only the ratio counts: there a faster codec with a low ratio
/// runs out of memory where a slower one survives.
const SMALL_RAM: u64 = 1 << 30;
/// Below this many bytes saved for each byte swapped, compression is not worth it.
const GAIN_MIN: f64 = 0.1;

impl CodecResult {
    /// Share of one core at that rate.
    fn cpu_share(&self) -> f64 {
        let times = &self.times;
        if times.compress_mb_per_s <= 0.0 || times.decompress_mb_per_s <= 0.0 {
            return 0.0;
        }
        SWAP_MB_PER_S / times.compress_mb_per_s + SWAP_MB_PER_S / times.decompress_mb_per_s
    }

    fn gains(&self) -> bool {
        self.pages_measured > 0 && 1.0 - 1.0 / self.effective_ratio >= GAIN_MIN
    }
}

/// The codecs that the kernel has, as far as it can be told.
fn offered(result: &ScanResult) -> impl Iterator<Item = &CodecResult> {
    let codecs = result.codecs.iter();
    codecs.filter(|codec| codec.offered != Some(false))
}

pub fn measured(result: &ScanResult) -> CodecVerdict {
    let bytes = result.measured_bytes();
    if result.codecs.is_empty() {
        return CodecVerdict::Not;
    }
    if bytes < JUDGED_FROM {
        return CodecVerdict::TooLittle(bytes);
    }
    match choose(result) {
        Some((codec, _)) => CodecVerdict::Codec {
            name: codec.codec.clone(),
            ratio: size::rounded(codec.effective_ratio),
            bytes,
        },
        None => {
            let measured = offered(result).filter(|codec| codec.pages_measured > 0);
            let ratios = measured.map(|codec| codec.effective_ratio);
            let best = ratios.max_by(f64::total_cmp);
            match best {
                None => CodecVerdict::Not,
                Some(ratio) if result.is_too_little() => {
                    CodecVerdict::FewHardlyCompress { ratio, bytes }
                }
                Some(ratio) => CodecVerdict::NothingToGain(ratio),
            }
        }
    }
}

/// Whether a codec takes no more than is advised. With little RAM only the ratio counts.
fn is_cheap(result: &ScanResult, codec: &CodecResult) -> bool {
    result.ram_bytes < SMALL_RAM || codec.cpu_share() <= CPU_SHARE_MAX
}

/// Of some codecs the one that gains most among those that are cheap enough, else the cheapest.
fn best(result: &ScanResult, among: impl Fn(&CodecResult) -> bool) -> Option<&CodecResult> {
    let usable = || result.codecs.iter().filter(|codec| among(codec));
    let cheap = usable().filter(|codec| is_cheap(result, codec));
    let densest = cheap.max_by(|a, b| a.effective_ratio.total_cmp(&b.effective_ratio));
    densest.or_else(|| usable().min_by(|a, b| a.cpu_share().total_cmp(&b.cpu_share())))
}

/// The codec to take, and why, if any gains anything, however few pages say so.
fn choose(result: &ScanResult) -> Option<(&CodecResult, String)> {
    let codec = best(result, |it| it.offered != Some(false) && it.gains())?;
    let limit = format!("{:.0} % of a core", 100.0 * CPU_SHARE_MAX);
    let why = if result.ram_bytes < SMALL_RAM {
        "with this little RAM the ratio decides".to_owned()
    } else if is_cheap(result, codec) {
        format!("the best ratio of those measured that take at most {limit}")
    } else {
        format!("the cheapest codec: none stays below {limit}")
    };
    Some((codec, why))
}

/// The set-up for a machine with such pages. `own_swaps`: paths of the areas that zmeld set up.
pub fn recommendation(
    result: &ScanResult,
    measured: &CodecVerdict,
    own_swaps: &[String],
) -> Option<Recommendation> {
    measured.ratio()?;
    let machine = Machine {
        ram_bytes: result.ram_bytes,
        ..result.machine.facts.clone()
    };
    let facts = Facts::new(&machine, result.page_size, measured, own_swaps);
    Some(tier::recommend(&facts, &Choice::default()))
}

/// Everything there is to say of what was read.
pub fn advise(result: &ScanResult, measured: &CodecVerdict) -> Vec<Advice> {
    let pages = &result.pages;
    if pages.total == 0 {
        let text = "No page was read, so there is nothing to say.".to_owned();
        return vec![Advice::new(AdviceKind::Nothing, "codec", text)];
    }
    if pages.compressible() == 0 {
        return vec![same_filled_advice(result)];
    }
    let mut advice = Vec::new();
    let to = result.recommendation.as_ref();
    let chosen = choose(result).filter(|_| measured.ratio().is_some());
    let elsewhere = better_elsewhere(result, measured);
    let is_elsewhere = elsewhere.is_some();
    match chosen {
        Some((codec, why)) => {
            advice.push(codec_advice(codec, &why, to));
            let to_size = to.filter(|_| result.speaks_for_machine());
            advice.extend(to_size.and_then(size_advice));
        }
        None => advice.push(no_codec(result, measured, is_elsewhere)),
    }
    advice.extend(elsewhere);
    advice.extend(meld_advice(result, measured));
    let zeros = pages.zero as f64 / pages.total as f64;
    if zeros >= 0.01 && !result.zero_pages_credited {
        advice.push(Advice::new(
            AdviceKind::Note,
            "zeros",
            format!(
                "{:.1} % of the pages are zeros. This kernel never passes those to a swap \
                 device, so they are not counted as a gain here.",
                100.0 * zeros
            ),
        ));
    }
    let gains = is_elsewhere || !matches!(measured, CodecVerdict::NothingToGain(_));
    let not_short = not_short_here(result).filter(|_| gains);
    advice.extend(not_short.map(|text| Advice::new(AdviceKind::Note, "need", text)));
    advice
}

fn same_filled_advice(result: &ScanResult) -> Advice {
    let text = if result.pages.zero == result.pages.total && !result.zero_pages_credited {
        "Nothing to gain: all pages are zeros, which this kernel never passes to a swap device."
    } else {
        "All pages are same-filled: any compressed swap holds them in next to no memory, and the \
         codec does not matter."
    };
    Advice::new(AdviceKind::Nothing, "codec", text.to_owned())
}

fn no_codec(result: &ScanResult, measured: &CodecVerdict, is_elsewhere: bool) -> Advice {
    let text = match (offered(result).next(), measured) {
        (None, _) => {
            "This kernel's zram has none of the codecs that were measured: try --codecs all."
                .to_owned()
        }
        (_, CodecVerdict::NothingToGain(ratio)) if is_elsewhere => format!(
            "Little to gain with this kernel's codecs: {ratio:.2}x at best, pool overhead included."
        ),
        _ => {
            let why = measured.why_none();
            let why =
                why.unwrap_or_else(|| "No page was compressed, so no codec is advised".to_owned());
            format!("{why}.")
        }
    };
    Advice::new(AdviceKind::Nothing, "codec", text)
}

fn codec_advice(codec: &CodecResult, why: &str, to: Option<&Recommendation>) -> Advice {
    let unseen = if codec.offered.is_none() {
        " Whether this kernel's zram has it could not be seen: there is no zram device to ask."
    } else {
        ""
    };
    let figures = format!(
        "{}x on these pages, pool overhead included ({}). At {SWAP_MB_PER_S:.0} MB/s swapped out \
         and as much swapped in, it takes {:.0} % of a core.{unseen}",
        size::tenths(codec.effective_ratio),
        why,
        100.0 * codec.cpu_share()
    );
    match to {
        Some(to) if to.kind.is_in_front() => Advice::new(
            AdviceKind::Note,
            "codec",
            format!(
                "Of the codecs {} does best: {figures} zswap keeps the kernel's own choice unless \
                 --codec names another.",
                codec.codec
            ),
        ),
        _ => Advice::new(
            AdviceKind::Do,
            "codec",
            format!("Use {}: {figures}", codec.codec),
        ),
    }
}

/// Advice on a device's size; none for zswap, which has no size of its own.
fn size_advice(to: &Recommendation) -> Option<Advice> {
    let sizing = to.sizing.as_ref()?;
    let why = match sizing.held_back {
        true => {
            " No larger one is advised, since pages of less than a quarter of RAM were measured: \
             scan again under the usual load."
        }
        false => "",
    };
    let text = format!(
        "Set up swap of {} in RAM ({} % of it) with a memory limit of {} ({} %): {}.{why}",
        bytes(sizing.size_bytes),
        sizing.size_percent,
        bytes(sizing.memory_limit_bytes),
        sizing.memory_limit_percent,
        sizing.words()
    );
    Some(Advice::new(AdviceKind::Do, "size", text))
}

/// A codec that this kernel has not got and that would gain clearly more.
fn better_elsewhere(result: &ScanResult, measured: &CodecVerdict) -> Option<Advice> {
    let here = match measured {
        CodecVerdict::NothingToGain(ratio) | CodecVerdict::FewHardlyCompress { ratio, .. } => {
            *ratio
        }
        _ => measured.ratio()?,
    };
    let there = best(result, |it| {
        it.offered == Some(false) && it.gains() && it.effective_ratio > 1.1 * here
    })?;
    let loads_modules = result.machine.zmeld != ModulePresence::Impossible;
    let why = match there.codec.starts_with("zword") && loads_modules {
        true => {
            "this kernel's zram has none of it (the packages zmeld-dkms and zword-dkms bring it)"
        }
        false => "this kernel's zram is built without it",
    };
    let ratio = size::tenths(there.effective_ratio);
    let text = match is_cheap(result, there) {
        true => format!("{} would reach {ratio}x, but {why}.", there.codec),
        false => format!(
            "{} would reach {ratio}x, but at {SWAP_MB_PER_S:.0} MB/s it takes {:.0} % of a core (at \
             most {:.0} % is advised), and {why}.",
            there.codec,
            100.0 * there.cpu_share(),
            100.0 * CPU_SHARE_MAX
        ),
    };
    Some(Advice::new(AdviceKind::Note, "codec", text))
}

/// Savings of melding, and what melds here.
fn meld_advice(result: &ScanResult, measured: &CodecVerdict) -> Option<Advice> {
    let pages = &result.pages;
    if pages.duplicate == 0 {
        let text = "Nothing to meld: no two pages are identical.".to_owned();
        return Some(Advice::new(AdviceKind::Nothing, "meld", text));
    }
    let codec = result.told_codec()?;
    let compressed = codec.memory_at_scale_bytes;
    let saved = compressed.saturating_sub(codec.melded_memory_at_scale_bytes);
    let share = saved as f64 / compressed.max(1) as f64;
    let figures = match saved {
        0 => format!(
            "sharing identical pages costs {} for {} contents, which is no less than it saves",
            bytes(result.duplicates.groups * SHARE_BYTES),
            count(result.duplicates.groups),
        ),
        saved => format!(
            "it would save {}, {} of the compressed memory",
            bytes(saved),
            percent(share),
        ),
    };
    let least = meld::WORTH_OF_SCANNED * (pages.total * result.page_size) as f64;
    let is_too_little = matches!(
        measured,
        CodecVerdict::TooLittle(_) | CodecVerdict::FewHardlyCompress { .. }
    );
    let text = if is_too_little {
        format!("These few pages do not say whether melding pays: {figures}.")
    } else if share < meld::WORTH {
        format!(
            "Melding would not pay here: {figures}; it pays from {} on.",
            percent(meld::WORTH)
        )
    } else if (saved as f64) < least {
        format!(
            "Melding would gain too little here: {figures}, but less than {} of the memory that \
             was scanned.",
            percent(meld::WORTH_OF_SCANNED)
        )
    } else {
        // Each page swapped out is fingerprinted once.
        let cost =
            SWAP_MB_PER_S * 1e6 / result.page_size as f64 * result.fingerprint_ns as f64 * 1e-9;
        let melders = meld::melders(result.machine.zmeld, result.machine.ksm_runs);
        let (kind, text) = match result.machine.zmeld.is_there() {
            true => (
                AdviceKind::Do,
                format!(
                    "Melding would pay: {figures}. {melders} Fingerprints would take {} of a core \
                     at {SWAP_MB_PER_S:.0} MB/s.",
                    percent(cost)
                ),
            ),
            false => (
                AdviceKind::Note,
                format!("Melding would pay, but zmeld.ko is not here: {figures}. {melders}"),
            ),
        };
        return Some(Advice::new(kind, "meld", text));
    };
    Some(Advice::new(AdviceKind::Nothing, "meld", text))
}

/// Advice where shared memory was left out that is more than a hundredth of what was read.
pub fn of_shared_memory(result: &ScanResult) -> Option<Advice> {
    let left_out = result.memory.shmem_present;
    (100 * left_out > result.pages.total).then(|| {
        let text = format!(
            "Shared memory ({}) was not read, which can be swapped, too: --shared adds it.",
            bytes(left_out * result.page_size)
        );
        Advice::new(AdviceKind::Note, "shared", text)
    })
}

/// That this machine's own memory is not short, where it was read and is not.
pub(crate) fn not_short_here(result: &ScanResult) -> Option<String> {
    let machine = &result.machine;
    let is_swapped = machine.swaps.iter().any(|swap| swap.used_bytes > 0);
    let text = not_short(machine.available_bytes, machine.ram_bytes, is_swapped);
    text.filter(|_| result.memory.processes > 0)
}

/// Advice on processes that only root can read, or not even root (in a container).
pub(crate) fn others_processes(processes: u64, skipped_bytes: u64, is_root: bool) -> Advice {
    let are = if processes == 1 {
        "1 process of other users was"
    } else {
        &format!("{processes} processes of other users were")
    };
    let size = match skipped_bytes {
        0 => String::new(),
        skipped => format!(" ({} in RAM)", bytes(skipped)),
    };
    let way_out = way_to_read(is_root);
    let text = format!("{are} not read{size}: {way_out} to see the whole machine.");
    Advice::new(AdviceKind::Warning, "privilege", text)
}

pub(crate) fn way_to_read(is_root: bool) -> &'static str {
    match is_root {
        false => "run zmeld as root",
        true => {
            "root may not read them here (CAP_SYS_PTRACE over them is missing, as in a container, or \
             a security module forbids it): run zmeld outside of it"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_not_told_to_become_root() {
        let told = |processes, bytes, is_root| others_processes(processes, bytes, is_root).text;
        assert_eq!(
            told(2, 1 << 20, false),
            "2 processes of other users were not read (1.00 MiB in RAM): run zmeld as root to see \
             the whole machine."
        );
        let root = told(1, 0, true);
        assert!(root.starts_with("1 process of other users was not read: root may"));
        assert!(
            !root.contains("as root") && root.contains("CAP_SYS_PTRACE"),
            "{root}"
        );
    }
}
