//! zram and zmeld devices, and sizes as shares of RAM.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::de::value::{self, StrDeserializer};
use serde::de::IntoDeserializer;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use zmeld_linux::amount::{bare, Bytes, Percent, Span, BARE_MIN};
use zmeld_linux::{text_form, Host};

use super::swap::{Place, TIMEOUT};
use crate::check::Check;
use crate::codec::Codec;
use crate::encryption::{cipher_key, Encryption, EncryptionKind, KEY_SIZES};
use crate::location::Location;

/// A zram or zmeld device.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RamDevice {
    /// zram stands in for zmeld [where zmeld.ko cannot be
    /// had](kernel-module.md#where-zmeldko-cannot-be-had).
    #[serde(rename = "kind")]
    pub driver: RamDriver,
    /// Pages *before* compression (`disksize`). Each takes 16 bytes of RAM from the start (zmeld:
    /// 20; `auto`, `inline`: 25), and 4 in the kernel's swap code.
    #[default(Size::percent(50))]
    pub size: Size,
    /// RAM that its compressed pages may take; else they can fill it.
    pub memory_limit: Option<Size>,
    /// Of a list, `["zstd:3", "lz4"]`, the first that the kernel has, else the default, with a
    /// warning.
    pub codec: Vec<Codec>,
    /// Up to 3 codecs for `[watch.recompress]` (Linux 6.2), in the order of trial: `["zstd:9"]`.
    pub recompress: Vec<Codec>,
    /// Its backing device, `[tier.NAME.writeback]`.
    pub writeback: Option<Writeback>,
    /// When [identical pages are melded](melding.md#modes).
    pub meld: MeldMode,
    /// Whether [encoded pages are decoded and compared](kernel-module.md#checking-pages); the
    /// module's own default is `auto`.
    pub check_writes: Option<CheckWrites>,
}

/// The driver of a RAM device.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum RamDriver {
    /// The kernel's zram.
    #[default]
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

    /// That of a device: zmeld's, under its own name or under zram's, has `meld_stat`.
    pub fn of(host: &Host, device: &str) -> RamDriver {
        match host.exists(format!("/sys/block/{device}/meld_stat")) {
            true => RamDriver::Zmeld,
            false => RamDriver::Zram,
        }
    }

    /// The directory of `hot_add` and `hot_remove`.
    pub fn control(self) -> PathBuf {
        PathBuf::from(format!("/sys/class/{}-control", self.name()))
    }
}

/// When identical pages are melded.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
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

impl MeldMode {
    /// The mode of that name, as `meld_mode` of a device has it; off where there is none.
    pub fn chosen(name: &str) -> MeldMode {
        let name: StrDeserializer<'_, value::Error> = name.into_deserializer();
        MeldMode::deserialize(name).unwrap_or_default()
    }
}

/// The table of a device's slots, with what else it keeps for each page of its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotTable {
    /// Bytes for one page.
    pub slot_bytes: u64,
    page_size: u64,
}

impl SlotTable {
    /// A slot is 16 bytes. zmeld has 4 more, for when it was last accessed, and 5 of an index once
    /// twins are looked for at write time.
    pub fn new(driver: RamDriver, meld: MeldMode, page_size: u64) -> SlotTable {
        let slot_bytes = match (driver, meld) {
            (RamDriver::Zram, _) => 16,
            (RamDriver::Zmeld, MeldMode::Off | MeldMode::Manual) => 16 + 4,
            (RamDriver::Zmeld, MeldMode::Auto | MeldMode::Inline) => 16 + 4 + 5,
        };
        SlotTable {
            slot_bytes,
            page_size: page_size.max(1),
        }
    }

    /// Bytes of the table of a device of that size.
    pub fn bytes(self, size_bytes: u64) -> u64 {
        (size_bytes / self.page_size).saturating_mul(self.slot_bytes)
    }
}

/// Whether what a codec encoded is decoded and compared with the page before it is
/// used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckWrites {
    /// zword's, and every codec's in recompression.
    Auto,
    /// Every codec's.
    On,
    /// None's.
    Off,
}

/// The backing device of a RAM device.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Writeback {
    /// The block device. Its contents are overwritten.
    #[default(Location::Path(PathBuf::new()))]
    pub device: Location,
    /// How what is written is kept from whoever reads the drive: not, or with a random key.
    pub encryption: EncryptionKind,
    /// The cipher, as `cryptsetup --cipher` takes it.
    #[serde(deserialize_with = "cipher_key")]
    pub cipher: Option<String>,
    /// The size of its key in bits; for xts this is two keys: 512 is AES-256.
    #[schemars(range(min = KEY_SIZES[0], max = KEY_SIZES[1]))]
    pub key_size: Option<u16>,
    /// How much may be written a day, to spare flash.
    pub daily_limit: Option<Bytes>,
    /// Pages are written as they are compressed (Linux 7.1).
    pub compressed: bool,
    /// The RAM device is set up without it when the drive is missing.
    pub optional: bool,
    /// How long a boot waits for the drive.
    #[default(TIMEOUT)]
    pub timeout: Span,
}

impl Writeback {
    /// How what is written is kept from whoever reads the drive.
    pub fn encryption(&self) -> Encryption {
        Encryption::of(self.encryption, None, &self.cipher, self.key_size)
    }
}

impl RamDevice {
    /// Its table on this machine.
    pub fn slot_table(&self) -> SlotTable {
        let page_size = rustix::param::page_size() as u64;
        SlotTable::new(self.driver, self.meld, page_size)
    }

    pub(super) fn place(&self) -> Option<Place<'_>> {
        self.writeback.as_ref().map(|writeback| Place {
            table: "writeback.",
            device: Some(&writeback.device),
            path: writeback.device.path(),
            encryption: writeback.encryption(),
            timeout: writeback.timeout,
            is_dispensable: writeback.optional,
        })
    }

    /// Dictionaries.
    pub(super) fn files(&self) -> Vec<&Path> {
        let codecs = self.recompress.iter().chain(&self.codec);
        codecs.filter_map(|codec| codec.dict.as_deref()).collect()
    }

    pub(super) fn check(&self, key: &str, check: &mut Check<'_>) {
        recompression(self, key, check);
        for (at, codec) in self.codec.iter().enumerate() {
            let name = &codec.name;
            if self.codec[..at].iter().any(|it| it.name == *name) {
                let what = format!("{name} is listed twice; the second is never used, remove it");
                check.error_of_value(&format!("{key}.codec[{at}]"), what);
            }
        }
        if let Some(limit) = &self.memory_limit {
            let is_more = |percent: Percent| percent > Percent::whole(100);
            let is_above_ram = matches!(
                *limit,
                Size::Ram { percent, at_most: None } if is_more(percent)
            );
            if is_above_ram {
                let what = format!("{limit} is more than all of RAM; write \"100%\" at most");
                check.error_of_value(&format!("{key}.memory_limit"), what);
            }
        }
        if self.driver == RamDriver::Zram {
            let is_there = [self.meld != MeldMode::Off, self.check_writes.is_some()];
            for (name, _) in ["meld", "check_writes"]
                .iter()
                .zip(is_there)
                .filter(|it| it.1)
            {
                let what = "is for kind = \"zmeld\"; remove it";
                check.error(&format!("{key}.{name}"), what);
            }
        }
        if let Some(writeback) = &self.writeback {
            let key = format!("{key}.writeback");
            let kind = writeback.encryption;
            if kind == EncryptionKind::Luks {
                let what = "what is written back is lost with RAM, so a key that lasts protects \
                            nothing more; write \"random\"";
                check.error_of_value(&format!("{key}.encryption"), what);
            } else {
                check.encryption(&key, kind, None, &writeback.cipher, writeback.key_size);
            }
            if writeback.device == Writeback::default().device {
                check.error(&key, "has no device; write device = \"PARTUUID=...\"");
                return;
            }
            let key = format!("{key}.device");
            check.device(&writeback.device, &key);
            check.overwritten(&writeback.device, &key, "the backing device");
        }
    }
}

fn recompression(device: &RamDevice, key: &str, check: &mut Check<'_>) {
    let list = &device.recompress;
    let key = format!("{key}.recompress");
    if list.len() > 3 {
        let what = format!(
            "a device takes 3 more codecs, not {}; remove some",
            list.len()
        );
        check.error_of_value(&key, what);
        return;
    }
    for (at, codec) in list.iter().enumerate() {
        let key = format!("{key}[{at}]");
        if device.codec.contains(codec) {
            let why = "is what the pages are compressed with already";
            check.error(
                &key,
                format!("{codec} {why}; choose another codec or level"),
            );
        }
        if list[..at].contains(codec) {
            check.error_of_value(&key, format!("{codec} is listed twice"));
        }
    }
}

/// Swap page size. Devices are sized in multiples of it.
const PAGE: u64 = 4096;

/// Advice on a text that is no size.
const SUCH_AS: &str = r#"write "50%", "4GiB" or "min(50%, 4GiB)""#;

/// How large something is: for RAM tiers, how much they hold *before*
/// compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, schemars::JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub enum Size {
    /// So many bytes. Text: `4GiB`.
    Bytes(Bytes),
    /// A share of RAM, perhaps up to a limit. Text: `50%` or `min(50%, 4GiB)`.
    Ram {
        /// The share of the RAM that the kernel has (`MemTotal`).
        percent: Percent,
        /// At most so much.
        at_most: Option<Bytes>,
    },
}

impl Size {
    /// A share of RAM without a limit.
    pub const fn percent(percent: u32) -> Self {
        Size::Ram {
            percent: Percent::whole(percent),
            at_most: None,
        }
    }

    /// In bytes on a machine with `ram_bytes` of RAM, rounded down to whole pages of the
    /// running kernel's, but never less than one: zram rounds what it is given to those.
    pub fn bytes(&self, ram_bytes: u64) -> u64 {
        self.in_pages(ram_bytes, rustix::param::page_size() as u64)
    }

    fn in_pages(&self, ram_bytes: u64, page_size: u64) -> u64 {
        let bytes = match *self {
            Size::Bytes(Bytes(bytes)) => bytes,
            Size::Ram { percent, at_most } => {
                let share = percent.of(ram_bytes);
                at_most.map_or(share, |Bytes(limit)| share.min(limit))
            }
        };
        (bytes / page_size * page_size).max(page_size)
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a size; {SUCH_AS}");
        // Bytes by themselves are no shares: what they look like is half of it.
        let bytes = |part: &str| Bytes::parse(part, wrong);
        // Which sizes there are helps who wrote none, not who wrote one too large.
        let share = |share: &str| match Percent::hundredths(share) {
            Some(_) => share.parse::<Percent>(),
            None => Err(wrong()),
        };
        if let Some(arguments) = text.strip_prefix("min(").and_then(|t| t.strip_suffix(')')) {
            let (one, other) = arguments.split_once(',').ok_or_else(wrong)?;
            let (one, other) = (one.trim(), other.trim());
            let (percent, limit) = if other.ends_with('%') {
                (other, one)
            } else {
                (one, other)
            };
            let percent = share(percent)?;
            if let Some(number @ 1..BARE_MIN) = bare(limit) {
                return Err(format!(
                    "{text:?} has a number of bytes, less than 1 MiB; write \"min({percent}, \
                     {number}MiB)\""
                ));
            }
            let size = Size::Ram {
                percent,
                at_most: Some(bytes(limit)?),
            };
            return size.checked(text);
        }
        let size = if text.ends_with('%') {
            Size::Ram {
                percent: share(text)?,
                at_most: None,
            }
        } else {
            Size::Bytes(bytes(text)?)
        };
        size.checked(text)
    }
}

impl Size {
    /// Refuses sizes that hold no page at all, and numbers that lack a unit.
    fn checked(self, text: &str) -> Result<Self, String> {
        let nothing = match self {
            Size::Bytes(Bytes(bytes)) => bytes < PAGE,
            Size::Ram { percent, at_most } => {
                percent == Percent::whole(0) || at_most.is_some_and(|Bytes(limit)| limit < PAGE)
            }
        };
        let is_bare = text.ends_with(|c: char| c.is_ascii_digit());
        match (self, bare(text)) {
            (Size::Bytes(Bytes(0..BARE_MIN)), Some(number @ 1..)) => {
                let percent = if number <= 100 { text } else { "50" };
                let in_gib = match number {
                    ..128 => format!("\"{text}GiB\" or "),
                    _ => String::new(),
                };
                Err(format!(
                    "{text:?} is a number of bytes, less than 1 MiB; write {in_gib}\"{text}MiB\", \
                     or a share as \"{percent}%\""
                ))
            }
            _ if nothing && is_bare => {
                let percent = Percent::of_fraction(text);
                let way_out = percent.map_or(SUCH_AS.to_owned(), |it| format!("write \"{it}\""));
                Err(format!(
                    "{text:?} is a number of bytes, less than 1 MiB; {way_out}"
                ))
            }
            _ if nothing => Err(format!("{text:?} is less than a page of 4 KiB; {SUCH_AS}")),
            _ => Ok(self),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Size::Bytes(bytes) => write!(f, "{bytes}"),
            Size::Ram {
                percent,
                at_most: None,
            } => write!(f, "{percent}"),
            Size::Ram {
                percent,
                at_most: Some(limit),
            } => write!(f, "min({percent}, {limit})"),
        }
    }
}

text_form!(Size: str::parse);

#[cfg(test)]
mod tests {
    use super::*;

    /// 16 KiB on a Raspberry Pi 5 and on Asahi.
    #[test]
    fn sizes_are_whole_pages_of_the_kernel() {
        let ram = 8_000_000 << 10;
        for page_size in [4096, 16384, 65536] {
            for percent in 1..200 {
                let size = Size::percent(percent).in_pages(ram, page_size);
                assert_eq!(size % page_size, 0, "{percent} % of pages of {page_size}");
                assert!(size > 0);
            }
            let least = Size::Bytes(Bytes(4096)).in_pages(ram, page_size);
            assert_eq!(least, page_size);
        }
    }

    #[test]
    fn texts_come_back() {
        let texts =
            "4GiB|1536MiB|4KiB|4097B|1048577B|50%|12.5%|0.25%|min(50%, 4KiB)|min(0.01%, 4097B)";
        for text in texts.split('|') {
            assert_eq!(text.parse::<Size>().unwrap().to_string(), text);
        }
        assert_eq!(
            "min( 4G , 50% )".parse::<Size>().unwrap().to_string(),
            "min(50%, 4GiB)"
        );
        for text in ["30s", "5min", "2h", "1d", "90s", "36h"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
        assert_eq!("1.5G".parse::<Bytes>(), Ok(Bytes(3 << 29)));
        assert_eq!("512 MiB".parse::<Bytes>(), Ok(Bytes(512 << 20)));
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        let no_size = "|-1|4X|1e9|%|-5%|nan|1.G|.5G|min(50%)|min(50%, 50%)|max(1G, 50%)|١G";
        for (texts, said) in [
            (no_size, "is not a size; write \"50%\""),
            ("50 percent|min(50%, half)", "is not a size; write \"50%\""),
            (
                "0",
                "is a number of bytes, less than 1 MiB; write \"50%\", \"",
            ),
            (
                "0.125",
                "is a number of bytes, less than 1 MiB; write \"12.5%\"",
            ),
            (
                "50|4096|1048575",
                "is a number of bytes, less than 1 MiB; write \"",
            ),
            ("0%|1KiB", "is less than a page of 4 KiB; write \"50%\""),
            ("4GB|1001%|99999999999T", ""),
        ] {
            for text in texts.split('|') {
                let why = text.parse::<Size>().unwrap_err();
                let is_told = why.starts_with(&format!("{text:?}")) && why.contains(said);
                assert!(is_told, "{why}");
            }
        }
        for text in ["", "5", "0s", "-1s", "99999999999s"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_follow_ram() {
        let ram = 4_000_000_000;
        assert_eq!(Size::percent(25).bytes(ram), 1_000_000_000 / 4096 * 4096);
        let limited: Size = "min(50%, 1GiB)".parse().unwrap();
        assert_eq!(limited.bytes(4 << 30), 1 << 30);
        assert_eq!(limited.bytes(1 << 30), 512 << 20);
        assert_eq!(Size::percent(1).bytes(1000), 4096);
    }
}
