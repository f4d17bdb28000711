//! The tiers: where swapped pages live.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use zmeld_advice::TierKind;

use super::keys::Section;
use super::named::{named, Named};
use super::read::{Open, Reader};
use super::section::{kernel_values, section, KernelValue, Keys, Line, Row, Setting, Table};
use super::size::text_form;
use super::{Bytes, Codec, Encryption, Location, Recompression, Size, Span};

/// One place for swapped pages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Tier {
    /// Its name: in messages, in the journal, in `/dev/mapper/zmeld-NAME`.
    pub name: TierName,
    /// A missing or failing device does not stop the others, nor a boot.
    pub optional: bool,
    /// What it is.
    pub kind: Kind,
}

impl Tier {
    /// How it is swapped to; zswap has none, since it is no swap area.
    pub fn swap(&self) -> Option<&Swap> {
        match &self.kind {
            Kind::Ram(device) => Some(&device.swap),
            Kind::Disk(disk) => Some(&disk.swap),
            Kind::Zswap(_) => None,
        }
    }
}

/// A tier's name: a letter or digit, then letters, digits, `-` or `_`, at most 32.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
pub struct TierName(String);

impl TierName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TierName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fits = text.len() <= 32
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if !fits {
            return Err(format!(
                "{text:?} cannot name a tier; use up to 32 letters, digits, \"-\" and \"_\", the \
                 first a letter or digit"
            ));
        }
        Ok(TierName(text.to_owned()))
    }
}

impl fmt::Display for TierName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

text_form!(TierName);

/// What a tier is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A compressed block device in RAM.
    Ram(RamDevice),
    /// The kernel's compressed cache in front of disk swap.
    Zswap(Zswap),
    /// A partition, a file or a logical volume.
    Disk(DiskSwap),
}

/// What `kind` says.
impl Named for TierKind {
    const ALL: &'static [(&'static str, Self)] = &[
        ("zram", TierKind::Zram),
        ("zmeld", TierKind::Zmeld),
        ("zswap", TierKind::Zswap),
        ("disk", TierKind::Disk),
    ];
}

impl Kind {
    /// What the file calls it.
    pub(super) fn kind(&self) -> TierKind {
        match self {
            Kind::Ram(device) => match device.driver {
                RamDriver::Zram => TierKind::Zram,
                RamDriver::Zmeld => TierKind::Zmeld,
            },
            Kind::Zswap(_) => TierKind::Zswap,
            Kind::Disk(_) => TierKind::Disk,
        }
    }

    /// One of which nothing else is said.
    pub(super) fn bare(kind: TierKind) -> Kind {
        match kind {
            TierKind::Zram => Kind::Ram(RamDevice::default()),
            TierKind::Zmeld => Kind::Ram(RamDevice {
                driver: RamDriver::Zmeld,
                meld: MeldMode::Manual,
                ..RamDevice::default()
            }),
            TierKind::Zswap => Kind::Zswap(Zswap::default()),
            TierKind::Disk => Kind::Disk(DiskSwap::default()),
        }
    }
}

/// Where the keys of such a tier stand.
pub(super) fn sections(kind: TierKind) -> &'static [Section] {
    use Section::{Disk, Ram, Swapped, Tier, Zmeld, Zswap};
    match kind {
        TierKind::Zram => &[Tier, Swapped, Ram],
        TierKind::Zmeld => &[Tier, Swapped, Ram, Zmeld],
        TierKind::Zswap => &[Tier, Zswap],
        TierKind::Disk => &[Tier, Swapped, Disk],
    }
}

section! {
    /// How an area is swapped to.
    #[derive(Copy, Eq)]
    pub struct Swap in Swapped {
        /// 0 to 32767, the higher first; -1 lets the kernel choose. Without, the
        /// order of the tiers decides: see [`super::Config::areas`].
        priority: Option<i16>, range(-1, 32_767), without("by the order of the tiers");
        /// Which freed pages the device is told of.
        discard: Discard;
    }
}

/// It has the keys of each tier that is swapped to.
impl Setting for Swap {
    fn read(_: &Row<Self>, reader: &mut Reader, open: &Open<'_>) -> Option<Self> {
        let mut swap = Swap::default();
        swap.take(reader, open);
        Some(swap)
    }

    fn lines(&self, _: &Row<Self>) -> Vec<Line> {
        self.rows()
    }
}

named! {
    /// Which freed pages a swap device is told of (`swapon --discard`).
    #[derive(Default)]
    pub enum Discard {
        /// None. RAM devices hear of freed pages on their own.
        #[default]
        None = "none",
        /// The whole area, once, when it is switched on.
        Once = "once",
        /// Clusters of pages as they are freed.
        Pages = "pages",
        /// Both.
        Both = "both",
    }
}

section! {
    /// A zram or zmeld device.
    pub struct RamDevice in Ram {
        /// Which driver.
        driver: RamDriver = RamDriver::Zram;
        /// How many bytes of pages it takes, before compression (`disksize`).
        size: Size = Size::percent(50), always();
        /// How much RAM its compressed pages may use (`mem_limit`).
        memory_limit: Option<Size>, without("no limit");
        /// What pages are compressed with: the first of them that the kernel has, and its
        /// default where it has none.
        codec: Vec<Codec>, without("the kernel's default");
        /// What they may be compressed with again, by ascending priority, each
        /// priority once.
        recompress: Vec<Recompression>;
        /// Where pages that are not worth RAM may be written to.
        writeback: Option<Writeback>, without("no backing device");
        /// When identical pages are melded. [`MeldMode::Off`] for zram.
        meld: MeldMode, of(Section::Zmeld), without("manual"), always();
        /// Whether zmeld checks what its codecs encode; without, as the module has it.
        check_writes: Option<CheckWrites>, of(Section::Zmeld);
        /// How it is swapped to.
        swap: Swap;
    }
}

/// The driver of a RAM device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RamDriver {
    /// The kernel's zram.
    Zram,
    /// zmeld.ko: zram's interface with melding.
    Zmeld,
}

impl RamDriver {
    /// Its name, also of its module and of its devices.
    pub fn name(self) -> &'static str {
        match self {
            RamDriver::Zram => "zram",
            RamDriver::Zmeld => "zmeld",
        }
    }

    /// The directory of `hot_add` and `hot_remove`.
    pub fn control(self) -> PathBuf {
        PathBuf::from(format!("/sys/class/{}-control", self.name()))
    }

    /// The numbers of its devices.
    pub fn numbers(self, host: &zmeld_linux::Host) -> Result<Vec<u32>, zmeld_linux::HostError> {
        let mut numbers: Vec<u32> = host
            .list("/sys/block")?
            .iter()
            .filter_map(|name| name.strip_prefix(self.name())?.parse().ok())
            .collect();
        numbers.sort_unstable();
        Ok(numbers)
    }
}

/// The tier's kind says it.
impl Setting for RamDriver {
    fn read(_: &Row<Self>, _: &mut Reader, _: &Open<'_>) -> Option<Self> {
        None
    }

    fn lines(&self, _: &Row<Self>) -> Vec<Line> {
        Vec::new()
    }
}

named! {
    /// When identical pages are melded.
    #[derive(Default)]
    pub enum MeldMode {
        /// Never; pages are not fingerprinted.
        #[default]
        Off = "off",
        /// When a pass is asked for.
        Manual = "manual",
        /// At write time too, as long as enough pages turn out to repeat.
        Auto = "auto",
        /// At write time, always.
        Inline = "inline",
    }

    /// Whether what a codec encoded is decoded and compared with the page before it is
    /// used.
    pub enum CheckWrites {
        /// zword's, and every codec's in recompression.
        Auto = "auto",
        /// Every codec's.
        On = "on",
        /// None's.
        Off = "off",
    }
}

section! {
    /// The backing device of a RAM device.
    pub struct Writeback in Writeback {
        /// The block device. Its contents are overwritten.
        device: Location = Location::Path(PathBuf::new()), needed("device = \"PARTUUID=...\""), always();
        /// How what is written is kept from whoever reads the drive.
        encryption: Encryption;
        /// How much may be written a day, to spare flash.
        daily_limit: Option<Bytes>, without("no limit");
        /// Pages are written as they are compressed (`compressed_writeback`, Linux 7.1).
        compressed: bool;
        /// The RAM device is set up without it when the drive is missing.
        optional: bool;
        /// How long a boot waits for the drive.
        timeout: Span = TIMEOUT;
    }
}

impl Table for Writeback {}

section! {
    /// zswap's parameters; what is not given is left as the kernel has it. The kernel's names
    /// are those below `/sys/module/zswap/parameters`.
    pub struct Zswap in Zswap {
        /// The codec's name; zswap takes no level, and has zword's level 2 by a name of its own.
        compressor: Option<String>, by(compressor), kernel("compressor", "what pages are compressed with");
        /// The pool, where the kernel still has a choice (up to 6.17).
        zpool: Option<Zpool>, kernel("zpool", "how compressed pages are kept");
        /// How much of RAM it may use.
        max_pool_percent: Option<u8>, range(1, 100), kernel("max_pool_percent", "how much of RAM they may take");
        /// Once full, it takes pages again below this share of its limit.
        accept_threshold_percent: Option<u8>, range(0, 100), kernel("accept_threshold_percent", "when pages are taken again after it was full");
        /// Whether it writes cold pages to disk before it is full.
        shrinker: Option<bool>, kernel("shrinker_enabled", "cold pages go to disk before it is full");
        /// Whether pages of one value are kept as that value, where the kernel
        /// still has the choice (up to 6.11).
        same_filled: Option<bool>, kernel("same_filled_pages_enabled", "a page of one value is kept as that value");
    }
}

/// The name that zswap has for a codec.
///
/// # Errors
/// A level or a dictionary, which zswap does not take; an unknown codec.
pub fn compressor(text: &str) -> Result<Option<String>, String> {
    match text {
        "zword-dense" | "zword:2" => return Ok(Some("zword-dense".to_owned())),
        _ => {}
    }
    let codec: Codec = text.parse()?;
    if codec.level.is_some() || codec.dict.is_some() {
        return Err(format!(
            "{text:?}: zswap takes no level and no dictionary; write just {:?}",
            codec.name
        ));
    }
    Ok(Some(codec.name))
}

impl Zswap {
    /// What is given, and that zswap is on, in the order in which it takes effect:
    /// the codec first, for the others hold for a pool that is made with it.
    pub fn parameters(&self) -> Vec<KernelValue> {
        let mut parameters = kernel_values(self);
        parameters.push(KernelValue {
            name: "enabled",
            value: "Y".to_owned(),
            purpose: "pages stay in RAM, compressed, before they go to disk",
        });
        parameters
    }
}

named! {
    /// zswap's pool.
    pub enum Zpool {
        /// Two objects a page.
        Zbud = "zbud",
        /// Three objects a page.
        Z3fold = "z3fold",
        /// As zram's pool.
        Zsmalloc = "zsmalloc",
    }
}

section! {
    /// Swap on a drive.
    pub struct DiskSwap in Disk {
        /// Where.
        source: Source = Source::Device(Location::Path(PathBuf::new()));
        /// A device that carries nothing known is made a swap area (or a LUKS
        /// volume with one). Never done to a device that carries something else.
        format: bool;
        /// How what is written is kept from whoever reads the drive.
        encryption: Encryption;
        /// The image of hibernation goes here.
        hibernation: bool;
        /// How long a boot waits for the drive.
        timeout: Span = TIMEOUT;
        /// How it is swapped to.
        swap: Swap;
    }
}

impl DiskSwap {
    /// Whether nothing on it can be read after a reboot.
    pub fn encryption_is_random(&self) -> bool {
        matches!(self.encryption, Encryption::Random { .. })
    }
}

/// What a disk tier swaps to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A block device.
    Device(Location),
    /// A file.
    File {
        /// Its absolute path.
        path: PathBuf,
        /// Created with this size if it is not there; without, it has to be.
        size: Option<Size>,
    },
}

/// `device`, or `file` and its `size`.
impl Setting for Source {
    fn read(_: &Row<Self>, reader: &mut Reader, open: &Open<'_>) -> Option<Self> {
        let (mut device, mut path, mut size) = (None::<Location>, None::<PathBuf>, None::<Size>);
        DEVICE.take(reader, open, &mut device);
        FILE.take(reader, open, &mut path);
        FILE_SIZE.take(reader, open, &mut size);
        match (open.node("device"), open.node("file"), open.node("size")) {
            (Some(_), None, Some(node)) => {
                let what = "is for a file; a device is used whole: remove it";
                reader.wrong(&node.place, &open.key("size"), what);
            }
            (None, None, _) => {
                let what = "names no place; write device = \"UUID=...\" or file = \"/swapfile\"";
                reader.wrong(&open.place, &open.path, what);
            }
            (Some(_), Some(node), _) => {
                let what = "a tier is one place; remove either device or file, or make two tiers";
                reader.wrong(&node.place, &open.key("file"), what);
            }
            _ => {}
        }
        match device {
            Some(device) => Some(Source::Device(device)),
            None => path.map(|path| Source::File { path, size }),
        }
    }

    fn lines(&self, _: &Row<Self>) -> Vec<Line> {
        let (device, path, size) = match self {
            Source::Device(device) => (Some(device.clone()), None, None),
            Source::File { path, size } => (None, Some(path.clone()), *size),
        };
        [
            DEVICE.lines(&device),
            FILE.lines(&path),
            FILE_SIZE.lines(&size),
        ]
        .concat()
    }
}

/// Whether each tier that is swapped to is optional.
pub(super) const OPTIONAL: Row<bool> = Row::new(Section::Swapped, "optional");

const EITHER: &str = "device or file has to be given";
const DEVICE: Row<Option<Location>> = Row::new(Section::Disk, "device").without(EITHER);
const FILE: Row<Option<PathBuf>> = Row::new(Section::Disk, "file").without(EITHER);
const FILE_SIZE: Row<Option<Size>> =
    Row::new(Section::Disk, "size").without("the file has to be there");

/// How long a boot waits for a drive that is not given another time.
pub const TIMEOUT: Span = Span::seconds(30);
