//! The configuration that suits a machine for which nobody wrote one: what
//! `zmeld-advice` says, as a configuration.

use zmeld_advice::{
    self as advice, ActiveSwap, CodecVerdict, Facts, Recommendation, Sizing, SwapKinds,
};

use zmeld_linux::swaps::SwapArea;

use crate::machine::Machine;
use zmeld_config::{
    Codec, Comments, Config, DiskSwap, Kind, Location, MeldMode, RamDevice, RamDriver, Size,
    Source, Swappiness, Tier, TierName, Zswap,
};

/// Kinds of tiers, as they are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TierKind {
    /// A zram device.
    Zram,
    /// A zmeld device.
    Zmeld,
    /// zswap in front of the disk swap that there is.
    Zswap,
    /// Swap on a drive or in a file.
    Disk,
}

/// What the user decided.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// The kind of tier.
    pub kind: Option<TierKind>,
    /// Its size.
    pub size: Option<Size>,
    /// Its codec.
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

/// What is known of the machine. `own_swaps`: paths of the areas that zmeld set up.
pub fn facts(machine: &Machine, measured: &CodecVerdict, own_swaps: &[String]) -> Facts {
    let area = |swap: &SwapArea| {
        let mut compressed = machine.compressed.iter();
        let compressed = compressed.find(|it| it.area.path == swap.path);
        compressed.cloned().unwrap_or_else(|| ActiveSwap {
            area: swap.clone(),
            ..ActiveSwap::default()
        })
    };
    let others = machine
        .swaps
        .iter()
        .filter(|swap| !own_swaps.iter().any(|own| *own == swap.shown()));
    Facts {
        ram_bytes: machine.ram_bytes,
        page_size: rustix::param::page_size() as u64,
        swaps: others.map(area).collect(),
        zswap: machine.zswap.as_ref().map(|it| it.facts.clone()),
        resume_from: machine.resume_from.clone(),
        resume_bytes: machine.resume_bytes,
        zram: machine.zram.presence,
        zmeld: machine.zmeld.presence,
        measured: measured.clone(),
    }
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
    let mut config = Config::default();
    let mut comments = Comments::new();
    let facts = facts(machine, measured, own_swaps);
    let ram_kind = match choice.kind {
        Some(TierKind::Zram) => Some(advice::AdvisedTier::Zram),
        Some(TierKind::Zmeld) => Some(advice::AdvisedTier::Zmeld),
        Some(TierKind::Zswap) => Some(advice::AdvisedTier::Zswap),
        Some(TierKind::Disk) | None => None,
    };
    let advised = advice::recommend(&facts, ram_kind);
    let (kind, why) = kind_of_tier(choice, &advised);
    check_choice(choice, kind, measured)?;
    let name = match kind {
        TierKind::Zram | TierKind::Zmeld => "fast",
        TierKind::Zswap => "cache",
        TierKind::Disk => "disk",
    };
    comments.insert(format!("tier.{name}"), why);
    let resumed_from = advised.swaps_to.clone().filter(|_| kind == TierKind::Zswap);
    let recommendation = (kind != TierKind::Disk).then_some(advised);
    let recommendation = recommendation.map(|advised| chosen(advised, machine, choice, &facts));
    let kind = match kind {
        TierKind::Zram | TierKind::Zmeld => {
            let driver = match kind {
                TierKind::Zmeld => RamDriver::Zmeld,
                _ => RamDriver::Zram,
            };
            ram(driver, machine, choice, measured, &mut comments)
        }
        TierKind::Zswap => {
            let has_shrinker = machine.zswap.as_ref().is_some_and(|it| it.has_shrinker);
            // zswap takes the codecs of the crypto interface, which a scan does
            // not ask: the kernel's own choice stays unless one was asked for, or
            // zword is there, which is denser and no slower to read.
            let asked = choice.codec.as_ref().map(|codec| codec.name.as_str());
            let zword = || machine.zswap.as_ref()?.compressor_to_name();
            Kind::Zswap(Zswap {
                compressor: asked.or_else(zword).map(str::to_owned),
                shrinker: has_shrinker.then_some(true),
                ..Zswap::default()
            })
        }
        TierKind::Disk => disk(choice),
    };
    let name: TierName = name.parse()?;
    let kinds = SwapKinds {
        in_ram: matches!(kind, Kind::Ram(_)),
        on_disk: matches!(kind, Kind::Disk(_))
            || resumed_from.is_some()
            || facts.swaps.iter().any(|it| !it.area.is_in_ram()),
        // It makes no difference to what is set here.
        on_spinning_disk: false,
    };
    if let Some(tier) = resumed_from.as_deref().map(image_tier).transpose()? {
        let why = "hibernation keeps its image here; it has to be as large as that";
        comments.insert(format!("tier.{}", tier.name), why.to_owned());
        config.tiers.push(tier);
    }
    config.tiers.push(Tier {
        name,
        optional: false,
        kind,
    });
    config.tunables.swappiness = Some(Swappiness::Auto);
    config.tunables.page_cluster = kinds.page_cluster();
    Ok(Recommended {
        config,
        comments,
        recommendation,
    })
}

/// The kind that the user chose, or the one that suits the machine; and why.
fn kind_of_tier(choice: &Choice, advised: &Recommendation) -> (TierKind, String) {
    match choice.kind {
        Some(kind) => (kind, "as asked for".to_owned()),
        None if choice.place.is_some() => (TierKind::Disk, "a place is given".to_owned()),
        None => {
            let kind = match advised.kind {
                advice::AdvisedTier::Zram => TierKind::Zram,
                advice::AdvisedTier::Zmeld => TierKind::Zmeld,
                advice::AdvisedTier::Zswap => TierKind::Zswap,
            };
            (kind, advised.why.clone())
        }
    }
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

/// What is recommended, with what the user decided in it.
fn chosen(
    advised: Recommendation,
    machine: &Machine,
    choice: &Choice,
    facts: &Facts,
) -> Recommendation {
    let measured = &facts.measured;
    let codec = choice.codec.as_ref().map(Codec::to_string);
    let page_size = rustix::param::page_size() as u64;
    let sizing = advised.sizing.map(|sizing| match choice.size {
        Some(size) => {
            let ram = machine.ram_bytes;
            Sizing::of_size(size.bytes(ram), ram, page_size, measured.basis())
        }
        None => sizing,
    });
    let pool = advised.pool.and_then(|pool| {
        let now = machine.zswap.as_ref();
        let zword = || Some(now?.compressor_to_name()?.to_owned());
        let zswap = advice::ZswapFacts {
            compressor: codec.clone().or_else(zword).unwrap_or(pool.compressor),
            max_pool_percent: Some(pool.limit_percent),
            ..now.map(|it| it.facts.clone()).unwrap_or_default()
        };
        advice::Pool::of(
            &zswap,
            machine.ram_bytes,
            facts.room_behind_zswap(),
            measured,
        )
    });
    Recommendation {
        codec: codec.or(advised.codec),
        sizing,
        pool,
        ..advised
    }
}

fn ram(
    driver: RamDriver,
    machine: &Machine,
    choice: &Choice,
    measured: &CodecVerdict,
    comments: &mut Comments,
) -> Kind {
    let found = match measured {
        CodecVerdict::Codec { name, .. } => name.parse::<Codec>().ok(),
        _ => None,
    };
    let codec = choice.codec.clone();
    let codec = codec.or_else(|| found.clone());
    let basis = measured.basis().filter(|_| found == codec);
    if let Some(basis) = basis {
        let times = advice::size::tenths(basis.ratio);
        let text = format!("pages of this machine get {times} times smaller");
        comments.insert("tier.fast.codec".to_owned(), text);
    }
    let page_size = rustix::param::page_size() as u64;
    let ram = machine.ram_bytes;
    let (size, sizing) = match choice.size {
        Some(size) => (
            size,
            Sizing::of_size(size.bytes(ram), ram, page_size, basis),
        ),
        None => {
            let sizing = Sizing::advised(ram, page_size, basis);
            comments.insert("tier.fast.size".to_owned(), sizing.why());
            (Size::percent(sizing.size_percent), sizing)
        }
    };
    comments.insert(
        "tier.fast.memory_limit".to_owned(),
        format!(
            "{}; what compresses worse does not fill RAM",
            sizing.limit_why
        ),
    );
    Kind::Ram(RamDevice {
        driver,
        size,
        memory_limit: Some(Size::percent(sizing.memory_limit_percent)),
        codec: codec.into_iter().collect(),
        meld: match driver {
            RamDriver::Zram => MeldMode::Off,
            RamDriver::Zmeld => MeldMode::Auto,
        },
        ..RamDevice::default()
    })
}

/// The partition that is resumed from.
fn image_tier(path: &str) -> Result<Tier, String> {
    let choice = Choice {
        place: Some(path.parse()?),
        ..Choice::default()
    };
    let kind = match disk(&choice) {
        Kind::Disk(disk) => Kind::Disk(DiskSwap {
            hibernation: true,
            ..disk
        }),
        kind => kind,
    };
    Ok(Tier {
        name: "disk".parse()?,
        optional: false,
        kind,
    })
}

fn disk(choice: &Choice) -> Kind {
    let place = choice.place.clone();
    let source = match place {
        Some(Location::Path(path)) if !path.starts_with("/dev") => Source::File {
            path,
            size: choice.size,
        },
        Some(location) => Source::Device(location),
        None => Source::Device(Location::Path("/dev".into())),
    };
    Kind::Disk(DiskSwap {
        source,
        ..DiskSwap::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Feature;
    use zmeld_advice::codec::Reason;

    fn machine() -> Machine {
        Machine {
            kernel: "6.12.0".to_owned(),
            ram_bytes: 4 << 30,
            available_bytes: 2 << 30,
            swaps: Vec::new(),
            compressed: Vec::new(),
            zram: Feature::default(),
            zmeld: Feature::default(),
            zswap: Some(crate::machine::Zswap {
                facts: advice::ZswapFacts {
                    compressor: "lzo".to_owned(),
                    max_pool_percent: Some(20),
                    ..Default::default()
                },
                has_zword: false,
                has_shrinker: true,
            }),
            hibernation: None,
            resume_from: None,
            resume_bytes: None,
            image_bytes: None,
        }
    }

    fn only_tier(config: &Config) -> &Kind {
        assert_eq!(config.tiers.len(), 1);
        assert!(config.check().is_empty(), "{:?}", config.check());
        &config.tiers[0].kind
    }

    fn measured(name: &str, ratio: f64) -> CodecVerdict {
        CodecVerdict::Codec {
            name: name.to_owned(),
            ratio,
            bytes: 2 << 30,
            reason: Reason::BestCheap,
        }
    }

    fn recommended(machine: &Machine, choice: &Choice, measured: &CodecVerdict) -> Config {
        recommend(machine, choice, measured, &[]).unwrap().config
    }

    fn sizes(config: &Config) -> (Size, Option<Size>) {
        let Kind::Ram(device) = only_tier(config) else {
            panic!("{config:?}")
        };
        (device.size, device.memory_limit)
    }

    #[test]
    fn without_disk_swap_it_is_zram_with_the_codec_that_was_measured() {
        let found = measured("zstd", 3.2);
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
    fn what_was_not_measured_gets_half_of_ram() {
        for found in [CodecVerdict::Not, CodecVerdict::TooLittle(68 * 4096)] {
            let config = recommended(&machine(), &Choice::default(), &found);
            let half = (Size::percent(50), Some(Size::percent(30)));
            assert_eq!(sizes(&config), half, "{found:?}");
        }
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
        recommended(&machine(), &choice, &nothing);
    }

    #[test]
    fn a_device_that_ram_could_not_hold_gets_a_limit() {
        let choice = Choice {
            size: Some(Size::percent(200)),
            ..Choice::default()
        };
        let found = recommend(&machine(), &choice, &CodecVerdict::Not, &[]).unwrap();
        assert_eq!(sizes(&found.config).1, Some(Size::percent(50)));
        // What it comes to is told of the size that was asked for.
        let sizing = found.recommendation.unwrap().sizing.unwrap();
        assert_eq!(sizing.size_bytes, 8 << 30);
        assert!(
            sizing.takes_bytes <= sizing.takes_at_most_bytes,
            "{sizing:?}"
        );
    }

    #[test]
    fn disk_swap_gets_zswap_in_front_of_it() {
        let mut machine = machine();
        machine.swaps.push(SwapArea {
            path: "/dev/sda2".into(),
            size_bytes: 1 << 30,
            priority: -2,
            ..SwapArea::default()
        });
        let config = recommended(&machine, &Choice::default(), &measured("zstd", 3.0));
        assert!(matches!(&config.tiers[0].kind, Kind::Zswap(_)));
    }

    #[test]
    fn a_disk_tier_needs_a_place_and_others_take_none() {
        let choice = |kind, place: Option<&str>| Choice {
            kind,
            place: place.map(|place| place.parse().unwrap()),
            ..Choice::default()
        };
        let machine = machine();
        assert!(recommend(
            &machine,
            &choice(Some(TierKind::Disk), None),
            &CodecVerdict::Not,
            &[]
        )
        .is_err());
        assert!(recommend(
            &machine,
            &choice(Some(TierKind::Zram), Some("/dev/sda")),
            &CodecVerdict::Not,
            &[]
        )
        .is_err());
        let config = recommended(
            &machine,
            &choice(None, Some("/swapfile")),
            &CodecVerdict::Not,
        );
        let Kind::Disk(disk) = only_tier(&config) else {
            panic!()
        };
        assert!(matches!(disk.source, Source::File { .. }));
    }
}
