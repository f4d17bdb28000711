//! Recommended set-up: a compressed device, or zswap in front of a disk.

use serde::Serialize;
use zmeld_linux::swaps::SwapArea;
use zmeld_report::units::bytes;

use crate::advice::active::{ActiveSwap, ZswapFacts};
use crate::advice::codec::CodecVerdict;
use crate::advice::machine::Machine;
use crate::advice::meld;
use crate::advice::module::{way_to_module, ModulePresence};
use crate::advice::size::{is_too_little, tenths, Sizing, RATIO_ASSUMED};
use crate::codec::Codec;
use crate::location::Location;
use crate::tier::{RamDriver, Size, SlotTable, TierKind};

#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub machine: Machine,
    /// Bytes of a page.
    pub page_size: u64,
    /// Swap areas that zmeld did not set up.
    pub swaps: Vec<ActiveSwap>,
    /// Codec measurements on its memory.
    pub measured: CodecVerdict,
}

/// Limit and expected gain of zswap's pool.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Pool {
    /// Its codec.
    pub compressor: String,
    /// Percent of RAM that it may take (`max_pool_percent`).
    pub limit_percent: u64,
    /// The same in bytes.
    pub limit_bytes: u64,
    /// Bytes of pages that it holds when it is full.
    pub holds_bytes: u64,
    /// RAM gained when it is full.
    pub gains_bytes: u64,
    /// Bytes of pages for each byte of memory used that this counts on.
    pub ratio: f64,
    /// Whether that was measured with this codec on this machine's pages.
    pub measured: bool,
    /// On how many bytes of them.
    #[serde(skip)]
    pub measured_bytes: u64,
    /// Whether those were too few for a gain to be promised.
    #[serde(skip)]
    pub is_too_little: bool,
    /// The allocator of its pages, where that bounds the ratio: `zbud` keeps two in a page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bounded_by: Option<String>,
    /// Room in the swap behind it, where that bounds what it holds: each page in the pool
    /// has its slot there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bounded_by_swap_bytes: Option<u64>,
}

impl Pool {
    /// The pool of such a zswap on a machine with that much RAM, on the same basis as a
    /// device: what was measured with its codec, else what is usual. `behind_bytes`: room
    /// in the swap that it stands in front of; none where nobody can tell.
    pub fn of(
        zswap: &ZswapFacts,
        ram_bytes: u64,
        behind_bytes: Option<u64>,
        measured: &CodecVerdict,
    ) -> Option<Pool> {
        let limit_percent = zswap.max_pool_percent?.min(100);
        let is_its = measured.codec() == Some(zswap.compressor.as_str());
        let ratio = measured.ratio().filter(|_| is_its);
        let limit_bytes = zswap.pool_max_bytes(ram_bytes)?;
        let counted = ratio.unwrap_or(RATIO_ASSUMED).max(1.0);
        let most = zswap.most_in_a_page();
        let bound = most.filter(|(_, most)| counted >= *most);
        let counted = bound.map_or(counted, |(_, most)| most);
        let full_bytes = (limit_bytes as f64 * counted) as u64;
        let by_swap = behind_bytes.filter(|room| *room < full_bytes);
        let holds_bytes = by_swap.unwrap_or(full_bytes);
        let takes_bytes = match by_swap {
            Some(room) => (room as f64 / counted) as u64,
            None => limit_bytes,
        };
        Some(Pool {
            compressor: zswap.compressor.clone(),
            limit_percent,
            limit_bytes,
            holds_bytes,
            gains_bytes: holds_bytes.saturating_sub(takes_bytes),
            ratio: counted,
            measured: ratio.is_some(),
            measured_bytes: measured.basis().map_or(0, |basis| basis.bytes),
            is_too_little: measured
                .basis()
                .is_some_and(|basis| is_too_little(basis.bytes, ram_bytes)),
            bounded_by: bound.map(|(name, _)| name.to_owned()),
            bounded_by_swap_bytes: by_swap,
        })
    }

    /// The expected gain, in a sentence.
    pub fn words(&self) -> String {
        if self.measured && self.is_too_little {
            return format!(
                "only {} of pages were measured, too few to promise a gain: plan under the usual \
                 load; the pool takes at most {} of RAM, {} %, and what does not fit goes to disk",
                bytes(self.measured_bytes),
                bytes(self.limit_bytes),
                self.limit_percent
            );
        }
        let ratio = tenths(self.ratio);
        let basis = match (&self.bounded_by, self.measured) {
            (Some(zpool), _) => {
                let most = self.ratio.round() as u64;
                format!("{zpool} keeps {most} pages in one at most, however small they get")
            }
            (None, true) => format!(
                "pages of this machine get {ratio} times smaller ({} of them were measured)",
                bytes(self.measured_bytes)
            ),
            (None, false) => format!("pages usually get {ratio} times smaller"),
        };
        if let Some(room) = self.bounded_by_swap_bytes {
            return format!(
                "with {}, {basis}: the pool holds no more than the swap behind it has room for, {}, \
                 and takes {} of RAM for that, a gain of {}; its limit is {} ({} % of RAM), and a \
                 larger swap on disk lets it hold more",
                self.compressor,
                bytes(room),
                bytes(self.holds_bytes.saturating_sub(self.gains_bytes)),
                bytes(self.gains_bytes),
                bytes(self.limit_bytes),
                self.limit_percent
            );
        }
        format!(
            "with {}, {basis}: when it is full, the pool holds {} of pages and takes {} of RAM for \
             them (its limit, {} % of RAM), a gain of {}; what does not fit goes to disk",
            self.compressor,
            bytes(self.holds_bytes),
            bytes(self.limit_bytes),
            self.limit_percent,
            bytes(self.gains_bytes)
        )
    }
}

/// A recommended set-up, and the reason.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Recommendation {
    /// The kind of tier.
    pub kind: TierKind,
    /// Why that kind.
    pub why: String,
    /// The codec that was measured to do best; absent: the kernel's own choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codec: Option<String>,
    /// The device's size; absent for zswap, whose pool has the kernel's limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizing: Option<Sizing>,
    /// zswap's pool; absent for a device, and where the kernel does not say its limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<Pool>,
    /// The feature that this kernel lacks for it, and an alternative; absent where
    /// `zmeld up` can set it up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// The swap partition that hibernation needs, which is swapped to as well, behind
    /// zswap; absent where it is already, or where the machine does not hibernate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swaps_to: Option<String>,
    /// Compressed swap that zmeld did not set up: `zmeld up --take-over` puts this
    /// in its place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replaces: Vec<ActiveSwap>,
}

impl Facts {
    /// Those of a machine; `own_swaps`: paths of the areas that zmeld set up.
    pub fn new(
        machine: &Machine,
        page_size: u64,
        measured: &CodecVerdict,
        own_swaps: &[String],
    ) -> Facts {
        let is_own = |area: &SwapArea| own_swaps.iter().any(|own| *own == area.shown());
        // zswap writes to what is below it when memory is short, which a zvol needs memory for.
        let others = machine.swaps.iter();
        let others = others.filter(|area| !is_own(area) && !area.is_zvol());
        let active = |area: &SwapArea| {
            let mut compressed = machine.compressed.iter();
            let compressed = compressed.find(|it| it.area.path == area.path);
            compressed.cloned().unwrap_or_else(|| ActiveSwap {
                area: area.clone(),
                ..ActiveSwap::default()
            })
        };
        Facts {
            swaps: others.map(active).collect(),
            machine: machine.clone(),
            page_size,
            measured: measured.clone(),
        }
    }

    /// Room in the disk swap that zswap would stand in front of; none where nobody can
    /// tell. Used slots count where zswap is on: their pages may be in its pool.
    fn room_behind_zswap(&self) -> Option<u64> {
        let zswap = self.machine.zswap.as_ref();
        let is_on = zswap.is_some_and(|zswap| zswap.is_enabled);
        let disks = self.swaps.iter().filter(|swap| !swap.area.is_in_ram());
        let room = disks.map(|swap| match is_on {
            true => swap.area.size_bytes,
            false => swap.area.size_bytes.saturating_sub(swap.area.used_bytes),
        });
        let room = room.fold(0, u64::saturating_add);
        match &self.machine.resume_from {
            Some(_) => Some(room.saturating_add(self.machine.resume_bytes?)),
            // None is known while no swap is on disk.
            None => (self.swaps.iter().any(|swap| !swap.area.is_in_ram())).then_some(room),
        }
    }

    /// The size of all swap on disks.
    fn disk_bytes(&self) -> u64 {
        let disks = self.swaps.iter().filter(|swap| !swap.area.is_in_ram());
        disks.fold(0, |sum: u64, swap| sum.saturating_add(swap.area.size_bytes))
    }

    /// Whether a device in RAM suits the machine better than zswap in front of the disk
    /// swap that it has, which is too small.
    fn is_disk_too_small(&self) -> bool {
        let machine = &self.machine;
        let is_little =
            |zswap: &ZswapFacts| zswap.is_held_back_by(self.disk_bytes(), machine.ram_bytes);
        (machine.zram.presence.is_there() || machine.zmeld.presence.is_there())
            && machine.resume_from.is_none()
            && machine.zswap.as_ref().is_some_and(is_little)
    }
}

/// Choices of the machine's owner.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    pub kind: Option<TierKind>,
    pub size: Option<Size>,
    pub codec: Option<Codec>,
    /// Place of a disk tier: a device, or a file.
    pub place: Option<Location>,
}

/// The set-up that suits a machine, within its owner's choices.
pub fn recommend(facts: &Facts, choice: &Choice) -> Recommendation {
    let machine = &facts.machine;
    let (zram, zmeld) = (machine.zram.presence, machine.zmeld.presence);
    let zswap = machine.zswap.as_ref();
    let disk = facts.swaps.iter().find(|swap| !swap.area.is_in_ram());
    let disk = disk.map(|swap| swap.area.shown());
    let is_gone = matches!(zram, ModulePresence::Absent | ModulePresence::Impossible);
    let device = match is_gone && zmeld.is_there() {
        true => (TierKind::Zmeld, "; this kernel has no zram"),
        false => (TierKind::Zram, ""),
    };
    let in_front = (TierKind::Zswap, "");
    let asked_codec = choice.codec.as_ref().map(Codec::to_string);
    let ((kind, but), why) = match (choice.kind, &disk, zswap) {
        (Some(kind), ..) => ((kind, ""), "as asked for".to_owned()),
        (None, ..) if choice.place.is_some() => {
            ((TierKind::Disk, ""), "a place is given".to_owned())
        }
        (None, Some(disk), Some(_)) if !facts.is_disk_too_small() => (
            in_front,
            format!(
                "{disk} is swapped to: zswap keeps what is used in RAM and lets the rest go to \
                 disk, where zram above it by priority would do the opposite"
            ),
        ),
        (None, Some(disk), Some(_)) => (
            device,
            format!(
                "{disk} is swapped to, and swap on disk has {} only: zswap in front of it could \
                 hold no more than that, and a device in RAM holds more; a larger swap on disk \
                 would suit zswap",
                bytes(facts.disk_bytes())
            ),
        ),
        (None, Some(disk), None) => (
            device,
            format!(
                "{disk} is swapped to, and this kernel has no zswap: a device in RAM takes the \
                 pages first"
            ),
        ),
        (None, None, _) => match machine.resume_from.as_ref().filter(|_| zswap.is_some()) {
            Some(image) => (
                in_front,
                format!(
                    "the machine hibernates to {image}, where an image is kept that RAM cannot \
                     keep: it is swapped to, and zswap in front of it keeps in RAM what is used"
                ),
            ),
            None => {
                let why = "there is no swap on disk: pages are compressed in RAM";
                (device, why.to_owned())
            }
        },
    };
    let (in_ram, is_zswap) = (kind.is_in_ram(), kind.is_in_front());
    let measured = &facts.measured;
    // zswap takes the codecs of the crypto interface, which nobody asked.
    let codec = measured.codec().filter(|_| in_ram).map(str::to_owned);
    let sizing = kind.driver().map(|driver| {
        let is_it = asked_codec.is_none() || asked_codec.as_deref() == measured.codec();
        let basis = measured.basis().filter(|_| is_it);
        let table = SlotTable::new(driver, meld::advised(driver), facts.page_size);
        let ram_bytes = machine.ram_bytes;
        match choice.size.map(|size| size.bytes(ram_bytes)) {
            Some(bytes) => Sizing::of_size(table, bytes, ram_bytes, basis),
            None => Sizing::advised(table, ram_bytes, basis),
        }
    });
    let compressed = facts.swaps.iter().filter(|swap| swap.area.is_in_ram());
    let missing = kind.driver();
    let missing = missing.map(|driver| missing_driver(machine, driver, disk.is_some()));
    let pool = |zswap: &ZswapFacts| {
        let named = asked_codec.as_deref().or(zswap.compressor_to_name());
        let zswap = ZswapFacts {
            compressor: named.unwrap_or(&zswap.compressor).to_owned(),
            zpool: zswap.zpool.clone().filter(|_| !zswap.wants_zsmalloc),
            ..zswap.clone()
        };
        let room = facts.room_behind_zswap();
        Pool::of(&zswap, machine.ram_bytes, room, measured)
    };
    // DKMS is of no use to a kernel that loads no modules.
    let lacks_zword = zswap.is_some_and(|it| is_zswap && asked_codec.is_none() && !it.has_zword)
        && machine.zmeld.presence != ModulePresence::Impossible;
    let mut why = why + but;
    if lacks_zword {
        why +=
            "; zword-dkms (docs/packages.md) makes most programs' pages a tenth smaller than zstd \
             does (zmeld scan --codecs zword,zstd)";
    }
    if machine.has_large_folios && (is_zswap || zswap.is_some_and(|it| it.is_enabled)) {
        why +=
            "; large folios are swapped in whole only from a device in RAM, and only where zswap \
                was off since the boot";
    }
    Recommendation {
        kind,
        why,
        codec: asked_codec.clone().or(codec),
        sizing,
        pool: zswap.filter(|_| is_zswap).and_then(pool),
        missing: missing.flatten(),
        swaps_to: machine.resume_from.clone().filter(|_| is_zswap),
        replaces: compressed.cloned().collect(),
    }
}

impl Recommendation {
    /// A description in a few words: "a zram device of 8.00 GiB with zstd and a memory
    /// limit of 4.00 GiB".
    pub fn words(&self) -> String {
        let Some(sizing) = &self.sizing else {
            return match &self.swaps_to {
                Some(path) => format!("swap on {path}, and zswap in front of it"),
                None => "zswap in front of the swap on disk".to_owned(),
            };
        };
        let with = match &self.codec {
            Some(codec) => format!(" with {codec} and"),
            None => " with".to_owned(),
        };
        format!(
            "a {} device of {} ({} % of RAM){with} a memory limit of {} ({} %)",
            self.kind.name(),
            bytes(sizing.size_bytes),
            sizing.size_percent,
            bytes(sizing.memory_limit_bytes),
            sizing.memory_limit_percent
        )
    }

    /// How it compares with compressed swap that is there already.
    pub fn compared(&self) -> Option<String> {
        let first = self.replaces.first()?;
        let others = match self.replaces.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!(
            "{}{others} is swapped to already ({}); zmeld would set up {}",
            first.area.shown(),
            first.words(),
            self.words()
        ))
    }
}

/// Advice where a device's driver is missing, with what can be had: the module itself, a device of
/// the other driver, zswap, or swap on a disk where there is none. None where the driver is there,
/// or may be.
pub fn missing_driver(machine: &Machine, driver: RamDriver, has_disk_swap: bool) -> Option<String> {
    let is_zram = driver == RamDriver::Zram;
    let presence = machine.feature(driver).presence;
    let driver = driver.name();
    let other = match is_zram {
        true => machine.zmeld.presence,
        false => machine.zram.presence,
    };
    let (what, module) = match presence {
        ModulePresence::Ready | ModulePresence::Module | ModulePresence::Unknown => return None,
        ModulePresence::Absent => (
            format!("this kernel has no {driver}"),
            Some(way_to_module(driver)),
        ),
        ModulePresence::Impossible => (
            format!("this kernel loads no modules, and {driver} is not built in"),
            None,
        ),
    };
    let device = match other {
        other if other.is_there() && is_zram => {
            Some("a zmeld device (zmeld up --tier zmeld)".to_owned())
        }
        other if other.is_there() => Some("a zram device (zmeld up --tier zram)".to_owned()),
        ModulePresence::Absent if is_zram => Some(format!("zmeld.ko: {}", way_to_module("zmeld"))),
        _ => None,
    };
    let disk = match (machine.zswap.is_some(), has_disk_swap) {
        (true, true) => {
            Some("zswap in front of the swap on disk that there is (zmeld up --tier zswap)")
        }
        (true, false) => {
            Some("zswap in front of swap on a disk (zmeld plan --tier disk --device ...)")
        }
        (false, false) => Some("swap on a disk (zmeld plan --tier disk --device ...)"),
        // It stays as it is.
        (false, true) => None,
    };
    let leads_to = if module.is_some() {
        ":"
    } else {
        "; it can have"
    };
    let ways = module.map(str::to_owned).into_iter().chain(device);
    let ways: Vec<String> = ways.chain(disk.map(str::to_owned)).collect();
    Some(match ways.is_empty() {
        true => what,
        false => format!("{what}{leads_to} {}", ways.join("; or ")),
    })
}
