//! zram and zmeld devices.

use super::*;

/// A zram or zmeld device.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RamDevice {
    /// Which driver: the tier's kind says it.
    #[serde(rename = "kind")]
    #[default(RamDriver::Zram)]
    pub driver: RamDriver,
    /// How many bytes of pages it takes, before compression (`disksize`).
    #[default(Size::percent(50))]
    pub size: Size,
    /// How much RAM its compressed pages may use (`mem_limit`).
    pub memory_limit: Option<Size>,
    /// Codecs of pages: the first of them that the kernel has counts, else its default.
    pub codec: Vec<Codec>,
    /// Codecs to compress again with, in the order of trial: their priorities are 1, 2 and 3.
    pub recompress: Vec<Codec>,
    /// Writeback of pages that are not worth RAM.
    pub writeback: Option<Writeback>,
    /// When identical pages are melded. [`MeldMode::Off`] for zram.
    pub meld: MeldMode,
    /// Whether zmeld checks what its codecs encode; without, as the module has it.
    pub check_writes: Option<CheckWrites>,
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
    #[serde(deserialize_with = "within::<128, 1024, _, _>")]
    pub key_size: Option<u16>,
    /// How much may be written a day, to spare flash.
    pub daily_limit: Option<Bytes>,
    /// Pages are written as they are compressed (`compressed_writeback`, Linux 7.1).
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
                let what = format!("{limit} is more than all of RAM; write at most 100%");
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
