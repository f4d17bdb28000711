//! The configuration that suits a machine for which nobody wrote one.

use crate::config::tier::{SIZE, TIMEOUT};
use crate::config::{
    Codec, Comments, Config, Discard, DiskSwap, Encryption, Kind, Location, MeldMode, RamDevice,
    RamDriver, Size, Source, Swap, Swappiness, Tier, TierName, Zswap,
};
use crate::error::Error;
use crate::machine::Machine;

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

/// What a scan of the memory found.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    /// The codec that does best here.
    pub codec: Codec,
    /// How many times smaller pages get with it, the pool's overhead included.
    pub ratio: f64,
}

/// What pages are expected to shrink to where nobody measured it: half.
const RATIO_ASSUMED: f64 = 2.0;

/// A configuration, and comments that say why it is so.
///
/// # Errors
/// When the choices contradict each other or the machine.
pub fn recommend(
    machine: &Machine,
    choice: &Choice,
    expected: Option<&Expected>,
) -> Result<(Config, Comments), Error> {
    let mut config = Config::default();
    let mut comments = Comments::new();
    let on_disk = machine.swaps.iter().find(|swap| {
        let compressed = ["/dev/zram", "/dev/zmeld"];
        !compressed.iter().any(|path| swap.path.starts_with(path))
    });
    let (kind, why) = match (choice.kind, on_disk) {
        (Some(kind), _) => (kind, "as asked for".to_owned()),
        (None, Some(disk)) if choice.place.is_none() && machine.zswap.is_some() => (
            TierKind::Zswap,
            format!(
                "{} is swapped to: zswap keeps what is used in RAM and lets the rest go to disk, \
                 where zram above it by priority would do the opposite",
                disk.path
            ),
        ),
        (None, _) if choice.place.is_some() => (TierKind::Disk, "a place is given".to_owned()),
        (None, _) => (
            TierKind::Zram,
            "there is no swap on disk: pages are compressed in RAM".to_owned(),
        ),
    };
    if choice.place.is_some() != (kind == TierKind::Disk) {
        return Err(Error::Refused {
            what: match kind {
                TierKind::Disk => "a disk tier needs --device: a partition, or a file and --size",
                _ => "--device is for --tier disk",
            }
            .to_owned(),
        });
    }
    let name = match kind {
        TierKind::Zram | TierKind::Zmeld => "fast",
        TierKind::Zswap => "cache",
        TierKind::Disk => "disk",
    };
    comments.insert(format!("tier.{name}"), why);
    let codec = choice
        .codec
        .clone()
        .or_else(|| expected.map(|expected| expected.codec.clone()));
    let kind = match kind {
        TierKind::Zram => ram(
            RamDriver::Zram,
            machine,
            choice,
            codec,
            expected,
            &mut comments,
        ),
        TierKind::Zmeld => ram(
            RamDriver::Zmeld,
            machine,
            choice,
            codec,
            expected,
            &mut comments,
        ),
        TierKind::Zswap => {
            // zswap takes the codecs of the crypto interface, which a scan does
            // not ask: the kernel's own choice stays unless one was asked for.
            Kind::Zswap(Zswap {
                compressor: choice.codec.as_ref().map(|codec| codec.name.clone()),
                shrinker: Some(true),
                ..Zswap::default()
            })
        }
        TierKind::Disk => disk(choice),
    };
    let name: TierName = name.parse().map_err(|what| Error::Refused { what })?;
    let in_ram = !matches!(kind, Kind::Disk(_));
    config.tiers.push(Tier {
        name,
        optional: false,
        kind,
    });
    config.tunables.swappiness = Some(Swappiness::Auto);
    if in_ram {
        config.tunables.page_cluster = Some(0);
    }
    Ok((config, comments))
}

fn ram(
    driver: RamDriver,
    machine: &Machine,
    choice: &Choice,
    codec: Option<Codec>,
    expected: Option<&Expected>,
    comments: &mut Comments,
) -> Kind {
    let size = choice.size.unwrap_or(SIZE);
    let measured = expected.filter(|expected| Some(&expected.codec) == codec.as_ref());
    let ratio = measured.map_or(RATIO_ASSUMED, |expected| expected.ratio);
    if let Some(expected) = measured {
        let text = format!(
            "pages of this machine get {:.1} times smaller",
            expected.ratio
        );
        comments.insert("tier.fast.codec".to_owned(), text);
    }
    let (memory_limit, reason) = memory_limit(size, machine.ram_bytes, ratio);
    comments.insert(
        "tier.fast.memory_limit".to_owned(),
        format!("{reason}; what compresses worse does not fill RAM"),
    );
    Kind::Ram(RamDevice {
        driver,
        size,
        memory_limit: Some(memory_limit),
        codec,
        recompress: Vec::new(),
        writeback: None,
        meld: match driver {
            RamDriver::Zram => MeldMode::Off,
            RamDriver::Zmeld => MeldMode::Auto,
        },
        swap: Swap::default(),
    })
}

/// The limit for a device of that size, in whole percent of RAM, and why. Where
/// pages get smaller than half it is enough for pages that get half as small, so
/// that other pages than today's do not meet it at once.
fn memory_limit(size: Size, ram_bytes: u64, ratio: f64) -> (Size, &'static str) {
    let disksize = size.bytes(ram_bytes);
    let needed = zmeld_scan::predict::memory_limit(ram_bytes, disksize, 1.0 / ratio);
    let (limit, reason) = if needed.max(disksize / 2) >= ram_bytes / 2 {
        (ram_bytes / 2, "half of RAM stays for other pages")
    } else if needed >= disksize / 2 {
        (needed, "a fifth more than it takes when it is full")
    } else {
        (disksize / 2, "enough for pages that get half as small")
    };
    let percent = (limit as f64 * 100.0 / ram_bytes.max(1) as f64).ceil();
    (Size::percent((percent as u32).clamp(1, 50)), reason)
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
        encryption: Encryption::None,
        format: false,
        hibernation: false,
        timeout: TIMEOUT,
        swap: Swap {
            priority: None,
            discard: Discard::None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Area, Feature};

    fn machine() -> Machine {
        Machine {
            kernel: "6.12.0".to_owned(),
            ram_bytes: 4 << 30,
            available_bytes: 2 << 30,
            swaps: Vec::new(),
            zram: Feature::default(),
            zmeld: Feature::default(),
            zswap: Some(crate::machine::Zswap {
                enabled: false,
                compressor: "lzo".to_owned(),
                zpool: None,
            }),
            hibernation: None,
        }
    }

    fn only_tier(config: &Config) -> &Kind {
        assert_eq!(config.tiers.len(), 1);
        assert!(config.check().is_empty(), "{:?}", config.check());
        &config.tiers[0].kind
    }

    #[test]
    fn without_disk_swap_it_is_zram_with_the_codec_that_was_measured() {
        let expected = Expected {
            codec: Codec::new("zstd"),
            ratio: 3.2,
        };
        let (config, comments) =
            recommend(&machine(), &Choice::default(), Some(&expected)).unwrap();
        let Kind::Ram(device) = only_tier(&config) else {
            panic!()
        };
        assert_eq!(device.codec, Some(Codec::new("zstd")));
        assert_eq!(device.size, Size::percent(50));
        assert_eq!(device.memory_limit, Some(Size::percent(25)));
        let text = config.to_toml(&comments);
        let read = Config::from_text("x".as_ref(), &text).unwrap().config;
        assert_eq!(read, config);
        assert!(text.contains("3.2 times smaller"), "{text}");
    }

    #[test]
    fn a_device_that_ram_could_not_hold_gets_a_limit() {
        let choice = Choice {
            size: Some(Size::percent(200)),
            ..Choice::default()
        };
        let (config, _) = recommend(&machine(), &choice, None).unwrap();
        let Kind::Ram(device) = only_tier(&config) else {
            panic!()
        };
        assert_eq!(device.memory_limit, Some(Size::percent(50)));
    }

    #[test]
    fn a_limit_leaves_room_above_what_is_expected_and_half_of_ram() {
        let ram = 4 << 30;
        for (size, ratio, percent) in [
            (50, 2.0, 30),
            (50, 1.5, 40),
            (50, 4.0, 25),
            (100, 2.0, 50),
            (200, 3.0, 50),
            (1, 9.0, 1),
        ] {
            let (limit, _) = memory_limit(Size::percent(size), ram, ratio);
            assert_eq!(limit, Size::percent(percent), "{size} % at {ratio}");
            // What `oversized` expects of a device nobody has filled yet.
            let holds = limit.bytes(ram) * 2;
            assert!(holds >= Size::percent(size).bytes(ram) || percent == 50);
        }
    }

    #[test]
    fn disk_swap_gets_zswap_in_front_of_it() {
        let mut machine = machine();
        machine.swaps.push(Area {
            path: "/dev/sda2".to_owned(),
            size_bytes: 1 << 30,
            used_bytes: 0,
            priority: -2,
        });
        let (config, _) = recommend(&machine, &Choice::default(), None).unwrap();
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
        assert!(recommend(&machine, &choice(Some(TierKind::Disk), None), None).is_err());
        assert!(recommend(
            &machine,
            &choice(Some(TierKind::Zram), Some("/dev/sda")),
            None
        )
        .is_err());
        let (config, _) = recommend(&machine, &choice(None, Some("/swapfile")), None).unwrap();
        let Kind::Disk(disk) = only_tier(&config) else {
            panic!()
        };
        assert!(matches!(disk.source, Source::File { .. }));
    }
}
