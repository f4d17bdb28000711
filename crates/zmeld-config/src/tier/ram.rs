//! zram and zmeld devices.

use super::*;

section! {
    /// A zram or zmeld device.
    pub struct RamDevice in Ram {
        /// Which driver.
        driver: RamDriver = RamDriver::Zram;
        /// How many bytes of pages it takes, before compression (`disksize`).
        size: Size = Size::percent(50), always();
        /// How much RAM its compressed pages may use (`mem_limit`).
        memory_limit: Option<Size>, without("no limit");
        /// Codecs of pages: the first of them that the kernel has counts, else its default.
        codec: Vec<Codec>, without("the kernel's default");
        /// Codecs to compress again with, by ascending priority, each priority once.
        recompress: Vec<Recompression>;
        /// Writeback of pages that are not worth RAM.
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
    fn read(_: &Row<Self>, _: &mut Reader, _: &OpenTable<'_>) -> Option<Self> {
        None
    }

    fn lines(&self, _: &Row<Self>) -> Vec<KeyValue> {
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
        daily_limit: Option<Bytes>, without("2GiB by `zmeld watch`");
        /// Pages are written as they are compressed (`compressed_writeback`, Linux 7.1).
        compressed: bool;
        /// The RAM device is set up without it when the drive is missing.
        optional: bool;
        /// How long a boot waits for the drive.
        timeout: Span = TIMEOUT;
    }
}

impl Table for Writeback {}

impl RamDevice {
    pub(super) fn place(&self) -> Option<Place<'_>> {
        self.writeback.as_ref().map(|writeback| Place {
            table: "writeback.",
            device: Some(&writeback.device),
            path: writeback.device.path(),
            encryption: &writeback.encryption,
            timeout: writeback.timeout,
            is_dispensable: writeback.optional,
        })
    }

    /// Dictionaries.
    pub(super) fn files(&self) -> Vec<&Path> {
        let others = self.recompress.iter().map(|it| &it.codec);
        let codecs = others.chain(&self.codec);
        codecs.filter_map(|codec| codec.dict.as_deref()).collect()
    }

    pub(super) fn check(&self, key: &str, check: &mut Check<'_>) {
        recompression(self, key, check);
        for (at, codec) in self.codec.iter().enumerate() {
            let name = &codec.name;
            if self.codec[..at].iter().any(|it| it.name == *name) {
                let what = format!("{name} is listed twice; the second is never used, remove it");
                check.error(&format!("{key}.codec[{at}]"), what);
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
                check.error(&format!("{key}.memory_limit"), what);
            }
        }
        if let Some(writeback) = &self.writeback {
            let key = format!("{key}.writeback.device");
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
        check.error(&key, what);
        return;
    }
    for (at, Recompression { priority, codec }) in list.iter().enumerate() {
        let key = format!("{key}[{at}]");
        let before = &list[..at];
        if device.codec.contains(codec) {
            let why = "is what the pages are compressed with already";
            check.error(
                &key,
                format!("{codec} {why}; choose another codec or level"),
            );
        }
        if before.iter().any(|other| other.priority == *priority) {
            let why = "is taken by another codec of the list; give each its own, 1 to 3";
            check.error(&key, format!("priority {priority} {why}"));
        }
        if before.iter().any(|other| other.codec == *codec) {
            check.error(&key, format!("{codec} is listed twice"));
        }
    }
}
