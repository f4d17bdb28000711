//! The tiers: where swapped pages live.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::size::text_form;
use super::{Bytes, Codec, Location, Named, Percent, Recompression, Size, Span};

/// One place for swapped pages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A compressed block device in RAM.
    Ram(RamDevice),
    /// The kernel's compressed cache in front of disk swap.
    Zswap(Zswap),
    /// A partition, a file or a logical volume.
    Disk(DiskSwap),
}

/// How an area is swapped to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swap {
    /// 0 to 32767, the higher first; -1 lets the kernel choose. Without, the
    /// order of the tiers decides: see [`super::Config::areas`].
    pub priority: Option<i16>,
    /// Which freed pages the device is told of.
    pub discard: Discard,
}

/// Which freed pages a swap device is told of (`swapon --discard`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Discard {
    /// None. RAM devices hear of freed pages on their own.
    #[default]
    None,
    /// The whole area, once, when it is switched on.
    Once,
    /// Clusters of pages as they are freed.
    Pages,
    /// Both.
    Both,
}

/// A zram or zmeld device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RamDevice {
    /// Which driver.
    pub driver: RamDriver,
    /// How many bytes of pages it takes, before compression (`disksize`).
    pub size: Size,
    /// How much RAM its compressed pages may use (`mem_limit`); without, no limit.
    pub memory_limit: Option<Size>,
    /// What pages are compressed with: the first of them that the kernel has, and its
    /// default where it has none.
    pub codec: Vec<Codec>,
    /// What they may be compressed with again, by ascending priority, each
    /// priority once.
    pub recompress: Vec<Recompression>,
    /// Where pages that are not worth RAM may be written to.
    pub writeback: Option<Writeback>,
    /// When identical pages are melded. [`MeldMode::Off`] for zram.
    pub meld: MeldMode,
    /// Whether zmeld checks what its codecs encode; without, as the module has it.
    #[serde(default)]
    pub check_writes: Option<CheckWrites>,
    /// How it is swapped to.
    pub swap: Swap,
}

/// The driver of a RAM device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RamDriver {
    /// The kernel's zram.
    Zram,
    /// zmeld.ko: zram's interface with melding.
    Zmeld,
}

/// When identical pages are melded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MeldMode {
    /// Never; pages are not fingerprinted.
    #[default]
    Off,
    /// When a pass is asked for.
    Manual,
    /// At write time too, as long as enough pages turn out to repeat.
    Auto,
    /// At write time, always.
    Inline,
}

/// Whether what a codec encoded is decoded and compared with the page before it is
/// used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckWrites {
    /// zword's, and every codec's in recompression.
    Auto,
    /// Every codec's.
    On,
    /// None's.
    Off,
}

/// The backing device of a RAM device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Writeback {
    /// The block device. Its contents are overwritten.
    pub device: Location,
    /// How what is written is kept from whoever reads the drive.
    pub encryption: Encryption,
    /// How much may be written a day, to spare flash; without, no limit.
    pub daily_limit: Option<Bytes>,
    /// Pages are written as they are compressed (`compressed_writeback`, Linux 7.0).
    pub compressed: bool,
    /// The RAM device is set up without it when the drive is missing.
    pub optional: bool,
    /// How long a boot waits for the drive.
    pub timeout: Span,
}

/// zswap's parameters; what is not given is left as the kernel has it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Zswap {
    /// The codec's name; zswap takes no level.
    pub compressor: Option<String>,
    /// The pool, where the kernel still has a choice (up to 6.17).
    pub zpool: Option<Zpool>,
    /// How much of RAM it may use, 1 to 100.
    pub max_pool_percent: Option<u8>,
    /// Once full, it takes pages again below this share of its limit, 0 to 100.
    pub accept_threshold_percent: Option<u8>,
    /// Whether it writes cold pages to disk before it is full (`shrinker_enabled`).
    pub shrinker: Option<bool>,
    /// Whether pages of one value are kept as that value, where the kernel
    /// still has the choice (up to 6.11).
    pub same_filled: Option<bool>,
}

/// A parameter of zswap that is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZswapParameter {
    /// Its name below `/sys/module/zswap/parameters`.
    pub name: &'static str,
    /// What is written.
    pub value: String,
    /// Whether no kernel with zswap lacks it.
    pub in_every_kernel: bool,
    /// What it is for.
    pub purpose: &'static str,
}

impl Zswap {
    /// What is given, and that zswap is on, in the order in which it takes effect:
    /// the codec first, for the others hold for a pool that is made with it.
    pub fn parameters(&self) -> Vec<ZswapParameter> {
        let switch = |on: bool| if on { "Y" } else { "N" }.to_owned();
        let percent = |value: u8| value.to_string();
        let all = [
            (
                "compressor",
                self.compressor.clone(),
                true,
                "what pages are compressed with",
            ),
            (
                "zpool",
                self.zpool.map(|zpool| zpool.name().to_owned()),
                false,
                "how compressed pages are kept",
            ),
            (
                "max_pool_percent",
                self.max_pool_percent.map(percent),
                true,
                "how much of RAM they may take",
            ),
            (
                "accept_threshold_percent",
                self.accept_threshold_percent.map(percent),
                false,
                "when pages are taken again after it was full",
            ),
            (
                "shrinker_enabled",
                self.shrinker.map(switch),
                false,
                "cold pages go to disk before it is full",
            ),
            (
                "same_filled_pages_enabled",
                self.same_filled.map(switch),
                false,
                "a page of one value is kept as that value",
            ),
            (
                "enabled",
                Some(switch(true)),
                true,
                "pages stay in RAM, compressed, before they go to disk",
            ),
        ];
        let given = all
            .into_iter()
            .filter_map(|(name, value, in_every_kernel, purpose)| {
                Some(ZswapParameter {
                    name,
                    value: value?,
                    in_every_kernel,
                    purpose,
                })
            });
        given.collect()
    }
}

/// zswap's pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Zpool {
    /// Two objects a page.
    Zbud,
    /// Three objects a page.
    Z3fold,
    /// As zram's pool.
    Zsmalloc,
}

/// Swap on a drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiskSwap {
    /// Where.
    pub source: Source,
    /// How what is written is kept from whoever reads the drive.
    pub encryption: Encryption,
    /// A device that carries nothing known is made a swap area (or a LUKS
    /// volume with one). Never done to a device that carries something else.
    pub format: bool,
    /// The image of hibernation goes here.
    pub hibernation: bool,
    /// How long a boot waits for the drive.
    pub timeout: Span,
    /// How it is swapped to.
    pub swap: Swap,
}

impl DiskSwap {
    /// Whether nothing on it can be read after a reboot.
    pub fn encryption_is_random(&self) -> bool {
        matches!(self.encryption, Encryption::Random { .. })
    }
}

/// What a disk tier swaps to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

/// How what is written to a drive is kept from whoever reads the drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encryption {
    /// It is not.
    None,
    /// A LUKS2 volume that a key file opens; outlives a reboot.
    Luks {
        /// Its absolute path. Only root may read it.
        key_file: PathBuf,
        /// For a volume that is created; an existing one knows its own.
        cipher: Cipher,
    },
    /// dm-crypt with a key from the kernel's random numbers, new each boot.
    Random {
        /// How.
        cipher: Cipher,
    },
}

/// A cipher of dm-crypt and the size of its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cipher {
    /// As `cryptsetup --cipher` takes it.
    pub name: String,
    /// In bits. For xts this is two keys: 512 is AES-256, 256 is AES-128.
    pub key_size: u16,
}

impl Default for Cipher {
    /// aes-xts-plain64 with 512 bits, cryptsetup's own default for LUKS2.
    fn default() -> Self {
        Cipher {
            name: "aes-xts-plain64".to_owned(),
            key_size: 512,
        }
    }
}

impl Cipher {
    /// Whether the cipher takes a key of that size, as far as that is known here.
    pub(super) fn check(&self) -> Result<(), String> {
        let sizes: &[u16] = match self.name.as_str() {
            name if name.starts_with("aes-xts-") => &[256, 384, 512],
            name if name.starts_with("aes-") => &[128, 192, 256],
            name if name.contains("adiantum") => &[256],
            name if name.starts_with("serpent-xts-") || name.starts_with("twofish-xts-") => {
                &[256, 384, 512]
            }
            _ if self.key_size.is_multiple_of(8) => return Ok(()),
            _ => {
                return Err(format!(
                    "{} bits are no whole number of bytes",
                    self.key_size
                ))
            }
        };
        if sizes.contains(&self.key_size) {
            return Ok(());
        }
        let sizes: Vec<_> = sizes.iter().map(u16::to_string).collect();
        Err(format!(
            "{} takes no key of {} bits; write key_size = {}",
            self.name,
            self.key_size,
            sizes.join(" or ")
        ))
    }
}

/// The priorities that `swapon` takes, -1 being the kernel's choice.
pub const PRIORITIES: std::ops::RangeInclusive<i64> = -1..=32_767;

/// How long a boot waits for a drive that is not given another time.
pub const TIMEOUT: Span = Span::seconds(30);

/// What a RAM device holds when its size is not given.
pub const SIZE: Size = Size::Ram {
    percent: Percent::whole(50),
    at_most: None,
};
