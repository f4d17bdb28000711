//! The configuration that suits a machine for which nobody wrote one: what
//! `zmeld-advice` says, as a configuration.

use zmeld_advice::{
    self as advice, CodecVerdict, Facts, Recommendation, Sizing, SwapKinds, TierKind, Wish,
};

use crate::machine::Machine;
use zmeld_config::{
    Codec, Comments, Config, DiskSwap, Kind, Location, MeldMode, RamDevice, RamDriver, Size,
    Source, Swappiness, Tier, TierName, Zpool, Zswap,
};

/// What the user decided.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs)] // Their names say what the fields are.
pub struct Choice {
    pub kind: Option<TierKind>,
    pub size: Option<Size>,
    pub codec: Option<Codec>,
    /// Where a disk tier is: a device, or a file.
    pub place: Option<Location>,
}

/// A configuration that is recommended, and why it is so.
#[derive(Debug, Clone)]
pub struct Recommended {
    /// The configuration.
    pub config: Config,
    /// Why it is so.
    pub comments: Comments,
    /// What it follows from, the same that `zmeld scan` says; none where a disk tier
    /// was asked for.
    pub recommendation: Option<Recommendation>,
}

/// A configuration, and comments that say why it is so.
///
/// # Errors
/// When the choices contradict each other or the machine; when nobody chose a kind,
/// and pages were measured not to compress.
pub fn recommend(
    machine: &Machine,
    choice: &Choice,
    measured: &CodecVerdict,
    own_swaps: &[String],
) -> Result<Recommended, String> {
    let page_size = rustix::param::page_size() as u64;
    let facts = Facts::new(machine, page_size, measured, own_swaps);
    let kind = match choice.kind {
        None if choice.place.is_some() => Some(TierKind::Disk),
        kind => kind,
    };
    let advised = advice::recommend(
        &facts,
        &Wish {
            kind,
            size_bytes: choice.size.map(|size| size.bytes(machine.ram_bytes)),
            codec: choice.codec.as_ref().map(Codec::to_string),
        },
    );
    let kind = advised.kind;
    check_choice(choice, kind, measured)?;
    let (name, why) = match kind {
        TierKind::Zram | TierKind::Zmeld => ("fast", &*advised.why),
        TierKind::Zswap => ("cache", &*advised.why),
        TierKind::Disk if choice.kind.is_none() => ("disk", "a place is given"),
        TierKind::Disk => ("disk", "as asked for"),
    };
    let mut config = Config::default();
    let mut comments = Comments::from([(format!("tier.{name}"), why.to_owned())]);
    let resumed_from = advised.swaps_to.clone();
    // A device has a size, and only a disk tier has a place.
    let tier = match (&advised.sizing, choice.place.clone()) {
        (Some(sizing), _) => ram(choice.size, &advised, sizing, &mut comments),
        (None, Some(Location::Path(path))) if !path.starts_with("/dev") => {
            let size = choice.size;
            disk(Source::File { path, size }, false)
        }
        (None, Some(device)) => disk(Source::Device(device), false),
        (None, None) => {
            let zswap = machine.zswap.as_ref();
            let has_shrinker = zswap.is_some_and(|it| it.has_shrinker);
            // zswap takes the codecs of the crypto interface, which a scan does
            // not ask: the kernel's own choice stays unless one was asked for, or
            // zword is there, which is denser and no slower to read.
            let asked = choice
                .codec
                .as_ref()
                .map(|codec| zmeld_config::tier::compressor(&codec.to_string()));
            let zword = || zswap?.compressor_to_name().map(str::to_owned);
            Kind::Zswap(Zswap {
                compressor: asked.transpose()?.flatten().or_else(zword),
                zpool: zswap.and_then(|it| it.wants_zsmalloc.then_some(Zpool::Zsmalloc)),
                shrinker: has_shrinker.then_some(true),
                ..Zswap::default()
            })
        }
    };
    let recommendation = (kind != TierKind::Disk).then_some(advised);
    let name: TierName = name.parse()?;
    let kinds = SwapKinds {
        in_ram: matches!(tier, Kind::Ram(_)),
        on_disk: matches!(tier, Kind::Disk(_))
            || resumed_from.is_some()
            || facts.swaps.iter().any(|it| !it.area.is_in_ram()),
        // Whether it spins makes no difference to what is set here.
        ..SwapKinds::default()
    };
    if let Some(path) = resumed_from {
        let why = "hibernation keeps its image here; it has to be as large as that";
        comments.insert("tier.disk".to_owned(), why.to_owned());
        config.tiers.push(Tier {
            name: "disk".parse()?,
            optional: false,
            kind: disk(Source::Device(path.parse()?), true),
        });
    }
    config.tiers.push(Tier {
        name,
        optional: false,
        kind: tier,
    });
    config.tunables.swappiness = Some(Swappiness::Auto);
    config.tunables.page_cluster = kinds.page_cluster();
    Ok(Recommended {
        config,
        comments,
        recommendation,
    })
}

/// Refuses choices that contradict each other, and a device of pages that do not
/// compress unless it was asked for by name.
fn check_choice(choice: &Choice, kind: TierKind, measured: &CodecVerdict) -> Result<(), String> {
    if let (None, TierKind::Zram | TierKind::Zmeld, CodecVerdict::NothingToGain(_)) =
        (choice.kind, kind, measured)
    {
        return Err(format!(
            "{}; use a disk tier (--tier disk --device ...), or --tier zram all the same",
            measured.why_none().unwrap_or_default()
        ));
    }
    if choice.place.is_some() != (kind == TierKind::Disk) {
        let what = match kind {
            TierKind::Disk => "a disk tier needs --device: a partition, or a file and --size",
            _ => "--device is for --tier disk",
        };
        return Err(what.to_owned());
    }
    Ok(())
}

fn ram(
    size: Option<Size>,
    advised: &Recommendation,
    sizing: &Sizing,
    comments: &mut Comments,
) -> Kind {
    let mut say = |key: &str, text: String| comments.insert(format!("tier.fast.{key}"), text);
    if sizing.measured {
        let times = advice::size::tenths(sizing.ratio);
        say(
            "codec",
            format!("pages of this machine get {times} times smaller"),
        );
    }
    let size = size.unwrap_or_else(|| {
        say("size", sizing.why());
        Size::percent(sizing.size_percent)
    });
    let why = sizing.limit_why;
    say(
        "memory_limit",
        format!("{why}; what compresses worse does not fill RAM"),
    );
    let (driver, meld) = match advised.kind {
        TierKind::Zmeld => (RamDriver::Zmeld, MeldMode::Auto),
        _ => (RamDriver::Zram, MeldMode::Off),
    };
    let codec = advised.codec.as_ref().and_then(|codec| codec.parse().ok());
    Kind::Ram(RamDevice {
        driver,
        size,
        memory_limit: Some(Size::percent(sizing.memory_limit_percent)),
        codec: codec.into_iter().collect(),
        meld,
        ..RamDevice::default()
    })
}

fn disk(source: Source, hibernation: bool) -> Kind {
    Kind::Disk(DiskSwap {
        source,
        hibernation,
        ..DiskSwap::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        Machine {
            kernel: "6.12.0".to_owned(),
            ram_bytes: 4 << 30,
            ..Machine::default()
        }
    }

    fn only_tier(config: &Config) -> &Kind {
        assert_eq!(config.tiers.len(), 1);
        assert!(config.check().is_empty(), "{:?}", config.check());
        &config.tiers[0].kind
    }

    #[test]
    fn without_disk_swap_it_is_zram_with_the_codec_that_was_measured() {
        let found = CodecVerdict::Codec {
            name: "zstd".to_owned(),
            ratio: 3.2,
            bytes: 2 << 30,
        };
        let found = recommend(&machine(), &Choice::default(), &found, &[]).unwrap();
        let config = found.config;
        let Kind::Ram(device) = only_tier(&config) else {
            panic!()
        };
        assert_eq!(device.codec, [Codec::new("zstd")]);
        assert_eq!(device.size, Size::percent(100));
        assert_eq!(device.memory_limit, Some(Size::percent(50)));
        let text = config.to_toml(&found.comments);
        let read = Config::from_text("x".as_ref(), &text).unwrap().config;
        assert_eq!(read, config);
        assert!(text.contains("3.2 times smaller"), "{text}");
    }

    #[test]
    fn pages_that_do_not_compress_get_no_device_unless_it_is_asked_for() {
        let nothing = CodecVerdict::NothingToGain(1.03);
        let err = recommend(&machine(), &Choice::default(), &nothing, &[]).unwrap_err();
        assert!(err.to_string().contains("1.03x at best"), "{err}");
        let choice = Choice {
            kind: Some(TierKind::Zram),
            ..Choice::default()
        };
        assert!(recommend(&machine(), &choice, &nothing, &[]).is_ok());
    }
}
