//! The configuration that suits a machine for which nobody wrote one: what
//! `zmeld_config::advice` says, as a configuration.

use zmeld_config::advice::{
    self as advice, CodecVerdict, Facts, Preferences, Recommendation, SwapKinds, TierKind,
};

pub use crate::observe::tier::UserChoice;
use crate::observe::tier::{self, Inputs};
use zmeld_config::advice::machine::Machine;
use zmeld_config::{Codec, Comments, Config, DiskSwap, Kind, Swappiness, Tier, TierName};

/// A configuration that is recommended, and why it is so.
#[derive(Debug, Clone)]
pub struct Recommended {
    pub config: Config,
    /// Why it is so.
    pub comments: Comments,
    /// Its basis, the same as of `zmeld scan`; none where a disk tier was asked for.
    pub recommendation: Option<Recommendation>,
}

/// A configuration, and comments that say why it is so.
///
/// # Errors
/// When the choices contradict each other or the machine; when nobody chose a kind,
/// and pages were measured not to compress.
pub fn recommend(
    machine: &Machine,
    choice: &UserChoice,
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
        &Preferences {
            kind,
            size_bytes: choice.size.map(|size| size.bytes(machine.ram_bytes)),
            codec: choice.codec.as_ref().map(Codec::to_string),
        },
    );
    let kind = advised.kind;
    check_choice(choice, kind, measured)?;
    let name = tier::name(kind);
    let why = match choice.kind {
        None if choice.place.is_some() => "a place is given",
        _ => &*advised.why,
    };
    let mut config = Config::default();
    let resumed_from = advised.swaps_to.clone();
    let mut inputs = Inputs {
        machine,
        choice,
        advised: &advised,
        comments: Comments::from([(format!("tier.{name}"), why.to_owned())]),
    };
    let tier = tier::recommended(kind, &mut inputs)?;
    let mut comments = inputs.comments;
    let recommendation = (!kind.is_on_disk()).then_some(advised);
    let name: TierName = name.parse()?;
    let kinds = SwapKinds {
        in_ram: kind.is_in_ram(),
        on_disk: resumed_from.is_some() || facts.swaps.iter().any(|it| !it.area.is_in_ram()),
        // Its own place makes no difference to what is set here, nor does whether that spins.
        ..SwapKinds::default()
    };
    if let Some(path) = resumed_from {
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
    config.tiers.push(Tier::new(name, tier));
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
fn check_choice(
    choice: &UserChoice,
    kind: TierKind,
    measured: &CodecVerdict,
) -> Result<(), String> {
    if let (None, true, CodecVerdict::NothingToGain(_)) = (choice.kind, kind.is_in_ram(), measured)
    {
        return Err(format!(
            "{}; use a disk tier (--tier disk --device ...), or --tier zram all the same",
            measured.why_none().unwrap_or_default()
        ));
    }
    if choice.place.is_some() && !kind.is_on_disk() {
        return Err("--device is for --tier disk".to_owned());
    }
    Ok(())
}
