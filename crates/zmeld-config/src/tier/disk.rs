//! Swap on a drive or in a file.

use super::*;

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

/// Swap space of a disk tier.
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
    fn read(_: &Row<Self>, reader: &mut Reader, open: &OpenTable<'_>) -> Option<Self> {
        let (mut device, mut path, mut size) = (None::<Location>, None::<PathBuf>, None::<Size>);
        DEVICE.take(reader, open, &mut device);
        FILE.take(reader, open, &mut path);
        FILE_SIZE.take(reader, open, &mut size);
        match (open.node("device"), open.node("file"), open.node("size")) {
            (Some(_), None, Some(node)) => {
                let what = "is for a swap file; a device is used whole: remove it, or write file = for device =";
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

    fn lines(&self, _: &Row<Self>) -> Vec<KeyValue> {
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

const EITHER: &str = "device or file has to be given";
const DEVICE: Row<Option<Location>> = Row::new(Section::Disk, "device").without(EITHER);
const FILE: Row<Option<PathBuf>> = Row::new(Section::Disk, "file").without(EITHER);
const FILE_SIZE: Row<Option<Size>> =
    Row::new(Section::Disk, "size").without("the file has to be there");

impl DiskSwap {
    /// Whether nothing on it can be read after a reboot.
    pub fn encryption_is_random(&self) -> bool {
        matches!(self.encryption, Encryption::Random { .. })
    }

    pub(super) fn place(&self) -> Place<'_> {
        let (device, path) = match &self.source {
            Source::Device(device) => (Some(device), device.path()),
            Source::File { path, .. } => (None, path.clone()),
        };
        Place {
            table: "",
            device,
            path,
            encryption: &self.encryption,
            timeout: self.timeout,
            is_dispensable: false,
        }
    }

    /// The file may have to be made: its folder is what has to be there.
    pub(super) fn files(&self) -> Vec<&Path> {
        let mut files = Vec::new();
        if let Source::File { path, .. } = &self.source {
            files.extend(path.parent());
        }
        if let Encryption::Luks { key_file, .. } = &self.encryption {
            files.push(key_file);
        }
        files
    }

    pub(super) fn check(&self, key: &str, tier: &Tier, check: &mut Check<'_>) {
        match &self.source {
            Source::Device(device) => {
                let key = format!("{key}.device");
                check.device(device, &key);
                if let Encryption::Random { .. } = self.encryption {
                    check.overwritten(device, &key, "the area");
                }
            }
            Source::File { path, .. } => {
                file(path, &format!("{key}.file"), check);
                if self.encryption != Encryption::None {
                    let what = "is for devices; put the file on an encrypted file system, or use \
                                a partition";
                    check.error(&format!("{key}.encryption"), what);
                }
            }
        }
        if let Encryption::Luks { key_file, .. } = &self.encryption {
            if in_ram(key_file) || key_file.starts_with("/dev") {
                let what = format!(
                    "{} does not outlive a reboot, and without it the volume stays shut; put it \
                     below /etc",
                    key_file.display()
                );
                check.error(&format!("{key}.key_file"), what);
            }
        }
        if self.hibernation && self.encryption_is_random() {
            let what = "the key is new at each boot, so the image could not be read back; use \
                        encryption = \"luks\" or hibernate elsewhere";
            check.error(&format!("{key}.hibernation"), what);
        }
        if self.hibernation && tier.optional {
            let what = "the image of hibernation is on a drive that may be missing; it is lost \
                        with it";
            check.warning(FindingId::Hibernation, &format!("{key}.optional"), what);
        }
    }
}

fn file(path: &Path, key: &str, check: &mut Check<'_>) {
    let shown = path.display();
    let mut no_place = ["/dev", "/proc", "/sys"].iter();
    if no_place.any(|no| path.starts_with(no)) {
        let way_out = format!("for a device write device = \"{shown}\"");
        check.error(key, format!("{shown} is no place for a file; {way_out}"));
    } else if in_ram(path) {
        let what = format!(
            "{shown} is often kept in RAM, where a swap file cannot be; put it on a disk, such \
                 as /var/swap"
        );
        check.warning(FindingId::FileInRam, key, what);
    }
}
