//! The configuration that suits a machine for which nobody wrote one: what is recommended, as
//! tiers and tunables.

use crate::advice::codec::CodecVerdict;
use crate::advice::machine::Machine;
use crate::advice::meld;
use crate::advice::size::{tenths, Sizing};
use crate::advice::tier::{recommend, Choice, Facts, Recommendation};
use crate::advice::tunables::SwapKinds;
use crate::config::Config;
use crate::key::Number;
use crate::location::Location;
use crate::settings::Swappiness;
use crate::tier::{
    compressor, DiskSwap, Kind, RamDevice, RamDriver, Size, Tier, TierKind, Zpool, Zswap,
};
use crate::write::Comments;

/// A configuration that is recommended, and why it is so.
#[derive(Debug, Clone)]
pub struct Recommended {
    pub config: Config,
    /// Why it is so.
    pub comments: Comments,
    /// Its basis, the same as of `zmeld scan`; none where a disk tier was asked for.
    pub recommendation: Option<Recommendation>,
}

impl Recommended {
    /// The configuration of a machine, within its owner's choices. `own_swaps`: paths of the
    /// areas that zmeld set up.
    ///
    /// # Errors
    /// When the choices contradict each other or the machine; when nobody chose a kind,
    /// and pages were measured not to compress.
    pub fn new(
        machine: &Machine,
        choice: &Choice,
        measured: &CodecVerdict,
        own_swaps: &[String],
    ) -> Result<Recommended, String> {
        let page_size = rustix::param::page_size() as u64;
        let facts = Facts::new(machine, page_size, measured, own_swaps);
        let advised = recommend(&facts, choice);
        let kind = advised.kind;
        if let (None, true, CodecVerdict::NothingToGain(_)) =
            (choice.kind, kind.is_in_ram(), measured)
        {
            return Err(format!(
                "{}; use a disk tier (--tier disk --device ...), or --tier zram all the same",
                measured.why_none().unwrap_or_default()
            ));
        }
        if choice.place.is_some() && !kind.is_on_disk() {
            return Err("--device is for --tier disk".to_owned());
        }
        let mut comments = Comments::new();
        let (name, tier) = match (kind, kind.driver().zip(advised.sizing.as_ref())) {
            (TierKind::Zswap, _) => ("cache", Kind::Zswap(zswap(machine, choice)?)),
            (TierKind::Disk, _) => ("disk", Kind::Disk(disk(choice)?)),
            (TierKind::Zram | TierKind::Zmeld, None) => {
                return Err("a device needs a size".to_owned())
            }
            (TierKind::Zram | TierKind::Zmeld, Some((driver, sizing))) => {
                let device = ram(machine, choice, driver, &advised, sizing, &mut comments);
                ("fast", Kind::Ram(device))
            }
        };
        comments.insert(format!("tier.{name}"), advised.why.clone());
        let mut config = Config::default();
        if let Some(path) = &advised.swaps_to {
            let why = "hibernation keeps its image here; it has to be as large as that";
            comments.insert("tier.disk".to_owned(), why.to_owned());
            let disk = DiskSwap {
                device: Some(path.parse()?),
                hibernation: true,
                ..DiskSwap::default()
            };
            let tier = Tier::new("disk".parse()?, Kind::Disk(disk));
            config.tiers.push(tier);
        }
        config.tiers.push(Tier::new(name.parse()?, tier));
        let kinds = SwapKinds {
            in_ram: kind.is_in_ram(),
            on_disk: advised.swaps_to.is_some()
                || facts.swaps.iter().any(|it| !it.area.is_in_ram()),
            // Its own place makes no difference to what is set here, nor does whether that spins.
            ..SwapKinds::default()
        };
        config.tunables.swappiness = Some(Swappiness::Auto);
        config.tunables.page_cluster = kinds.page_cluster().map(Number);
        Ok(Recommended {
            config,
            comments,
            recommendation: (!kind.is_on_disk()).then_some(advised),
        })
    }
}

/// A device of the advised size and memory limit.
fn ram(
    machine: &Machine,
    choice: &Choice,
    driver: RamDriver,
    advised: &Recommendation,
    sizing: &Sizing,
    comments: &mut Comments,
) -> RamDevice {
    let mut say = |key: &str, text: String| comments.insert(format!("tier.fast.{key}"), text);
    if sizing.measured {
        let mut why = format!(
            "pages of this machine get {} times smaller",
            tenths(sizing.ratio)
        );
        let codecs = &machine.feature(driver).codecs;
        if choice.codec.is_none() && !codecs.iter().any(|codec| codec == "zstd") {
            why += match codecs.is_empty() {
                true => "",
                false => ": the best of those measured; this kernel has no zstd",
            };
        }
        say("codec", why);
    }
    let size = choice.size.unwrap_or_else(|| {
        say("size", sizing.why());
        Size::percent(sizing.size_percent)
    });
    let why = sizing.limit_why;
    say(
        "memory_limit",
        format!("{why}; what compresses worse does not fill RAM"),
    );
    let codec = advised.codec.as_ref().and_then(|codec| codec.parse().ok());
    RamDevice {
        driver,
        size,
        memory_limit: Some(Size::percent(sizing.memory_limit_percent)),
        codec: codec.into_iter().collect(),
        meld: meld::advised(driver),
        ..RamDevice::default()
    }
}

fn zswap(machine: &Machine, choice: &Choice) -> Result<Zswap, String> {
    let zswap = machine.zswap.as_ref();
    let has_shrinker = zswap.is_some_and(|it| it.has_shrinker);
    // zswap takes the codecs of the crypto interface, which a scan does
    // not ask: the kernel's own choice stays unless one was asked for, or
    // zword is there, which is denser and no slower to read.
    let asked = choice.codec.as_ref();
    let asked = asked.map(|codec| compressor(&codec.to_string()));
    let zword = || zswap?.compressor_to_name().map(str::to_owned);
    Ok(Zswap {
        compressor: asked.transpose()?.or_else(zword),
        zpool: zswap.and_then(|it| it.wants_zsmalloc.then_some(Zpool::Zsmalloc)),
        shrinker: has_shrinker.then_some(true),
        ..Zswap::default()
    })
}

fn disk(choice: &Choice) -> Result<DiskSwap, String> {
    let place = choice.place.clone();
    let place = place.ok_or("a disk tier needs --device: a partition, or a file and --size")?;
    let mut disk = DiskSwap::default();
    match place {
        Location::Path(path) if !path.starts_with("/dev") => {
            (disk.file, disk.size) = (Some(path), choice.size);
        }
        device => disk.device = Some(device),
    }
    Ok(disk)
}
