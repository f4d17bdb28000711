//! Layers under a swap area: a compressed device, a partition, an encrypted mapping, a file on a
//! file system.

use std::path::Path;

use serde::Serialize;

use zmeld_linux::swaps::SwapArea;
use zmeld_linux::Host;

use super::device::Mounts;
use super::reader::Reader;

/// One block device on the way from a swap area down to a drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Layer {
    /// The kernel's name, `dm-0`.
    pub name: String,
    /// Its kind.
    pub kind: LayerKind,
    /// Whether the kernel takes it for a spinning disk.
    pub rotational: bool,
    /// A virtual machine's, which calls itself spinning, whatever its host has.
    #[serde(skip)]
    is_virtual: bool,
    /// Whether it takes discards.
    pub discards: bool,
}

/// Kind of a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LayerKind {
    /// dm-crypt with a LUKS header.
    Luks,
    /// dm-crypt without a header: plain, often with a fresh key at each boot.
    PlainCrypt,
    /// Any other device-mapper target: LVM, for instance.
    Mapper,
    /// A file as a block device.
    Loop,
    /// Software RAID.
    Raid,
    /// zram or zmeld.
    Compressed,
    /// A RAM disk.
    Ram,
    /// A drive or a partition of one.
    Drive,
}

impl LayerKind {
    /// Its name in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            LayerKind::Luks => "LUKS",
            LayerKind::PlainCrypt => "plain dm-crypt",
            LayerKind::Mapper => "device mapper",
            LayerKind::Loop => "loop",
            LayerKind::Raid => "RAID",
            LayerKind::Compressed => "compressed RAM",
            LayerKind::Ram => "RAM disk",
            LayerKind::Drive => "drive",
        }
    }
}

/// Words in the vendor or model of virtual machines' disks.
const HYPERVISORS: [&str; 5] = ["QEMU", "VBOX", "VMware", "Msft", "Virtual"];

/// Layers under a swap area.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct BlockStack {
    /// From the swap area's own device down.
    pub layers: Vec<Layer>,
    /// The file system of a swap file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_system: Option<String>,
}

impl BlockStack {
    /// Whether what is swapped out is unreadable on the drive.
    pub fn is_encrypted(&self) -> bool {
        self.layers
            .iter()
            .any(|layer| matches!(layer.kind, LayerKind::Luks | LayerKind::PlainCrypt))
    }

    /// The RAM-backed device below another one: memory comes back from it only by
    /// discards that reach it.
    pub fn hidden_ram(&self) -> Option<&Layer> {
        let below = self.layers.get(1..).unwrap_or_default();
        let is_ram = |layer: &&Layer| matches!(layer.kind, LayerKind::Compressed | LayerKind::Ram);
        below.iter().find(is_ram)
    }

    /// The RAM-backed device that a swap file, or a device below layers, stands on.
    pub fn ram_below(&self) -> Option<&Layer> {
        let is_ram = |layer: &&Layer| matches!(layer.kind, LayerKind::Compressed | LayerKind::Ram);
        match self.file_system {
            Some(_) => self.layers.iter().find(is_ram),
            None => self.hidden_ram(),
        }
    }

    /// Whether it ends on a drive that spins.
    pub fn is_spinning(&self) -> bool {
        let drive = self.layers.last();
        drive.is_some_and(|drive| drive.rotational && !drive.is_virtual)
    }

    pub(super) fn read(reader: &mut Reader, area: &SwapArea, mounts: &Mounts) -> BlockStack {
        let mut stand = BlockStack::default();
        let first = match area.device() {
            Some(name) => name.to_owned(),
            None => match mounts.of_file(&area.path) {
                Some(mount) => {
                    stand.file_system = Some(mount.kind.clone());
                    base_name(&mount.source)
                }
                None => return stand,
            },
        };
        let mut pending = vec![resolve(reader, &first)];
        while let Some(name) = pending.pop() {
            let known = stand.layers.iter().any(|layer| layer.name == name);
            if known || stand.layers.len() >= LAYERS_MAX {
                continue;
            }
            let Some(place) = DeviceFolders::find(reader, &name) else {
                continue;
            };
            stand.layers.push(place.layer(reader, &name));
            pending.extend(place.below(reader, mounts));
        }
        stand
    }
}

/// No sane stack is deeper; one that goes in circles ends here.
const LAYERS_MAX: usize = 16;

/// Folders of a block device: its own, and its drive's for what only the drive has.
struct DeviceFolders {
    folder: String,
    drive: String,
}

impl DeviceFolders {
    fn find(reader: &Reader, name: &str) -> Option<DeviceFolders> {
        let drives = reader.names("/sys/block").into_iter();
        let mut drives = drives.filter(|drive| name.starts_with(drive));
        // A partition is a folder in its drive's.
        drives.find_map(|it| {
            let drive = format!("/sys/block/{it}");
            let folder = match it == name {
                true => drive.clone(),
                false => format!("{drive}/{name}"),
            };
            let is_it = reader.exists(&folder);
            is_it.then_some(DeviceFolders { folder, drive })
        })
    }

    fn layer(&self, reader: &mut Reader, name: &str) -> Layer {
        let kind = match reader.line(&format!("{}/dm/uuid", self.folder)) {
            Some(uuid) if uuid.starts_with("CRYPT-PLAIN") => LayerKind::PlainCrypt,
            Some(uuid) if uuid.starts_with("CRYPT-") => LayerKind::Luks,
            Some(_) => LayerKind::Mapper,
            None if name.starts_with("loop") => LayerKind::Loop,
            None if name.starts_with("zram") || name.starts_with("zmeld") => LayerKind::Compressed,
            None if name.starts_with("ram") || name.starts_with("brd") => LayerKind::Ram,
            None if reader.exists(&format!("{}/md", self.folder)) => LayerKind::Raid,
            None => LayerKind::Drive,
        };
        let words = ["vendor", "model"].map(|it| format!("{}/device/{it}", self.drive));
        let words = words.map(|it| reader.line(&it).unwrap_or_default());
        let is_made = |it: &String| HYPERVISORS.iter().any(|name| it.contains(name));
        let has_bus = ["vd", "xvd"].iter().any(|bus| name.starts_with(bus));
        let mut queue = |name: &str| reader.number(&format!("{}/queue/{name}", self.drive));
        Layer {
            name: name.to_owned(),
            kind,
            rotational: queue("rotational") == Some(1),
            is_virtual: has_bus || words.iter().any(is_made),
            discards: queue("discard_max_bytes").is_some_and(|bytes| bytes > 0),
        }
    }

    fn below(&self, reader: &mut Reader, mounts: &Mounts) -> Vec<String> {
        let mut names = reader.names(&format!("{}/slaves", self.folder));
        if let Some(file) = reader.line(&format!("{}/loop/backing_file", self.folder)) {
            let file = Path::new(&file);
            let device = match file.starts_with("/dev") {
                true => Some(file),
                false => mounts.of_file(file).map(|mount| mount.source.as_path()),
            };
            names.extend(device.map(base_name));
        }
        names
    }
}

fn base_name(device: &Path) -> String {
    let name = device.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The kernel's name of a device: `dm-3` for a name under `/dev/mapper`.
fn resolve(reader: &mut Reader, name: &str) -> String {
    let drives = reader.names("/sys/block");
    if drives.iter().any(|drive| drive == name) {
        return name.to_owned();
    }
    drives
        .into_iter()
        .filter(|drive| drive.starts_with("dm-"))
        .find(|drive| {
            reader
                .line(&format!("/sys/block/{drive}/dm/name"))
                .is_some_and(|mapped| mapped == name)
        })
        .unwrap_or_else(|| name.to_owned())
}

/// Whether a swap area, or a place for one, is on a drive that spins. An unreadable one
/// is on none.
pub fn is_spinning(host: &Host, path: &Path, is_file: bool) -> bool {
    below(host, path, is_file).is_spinning()
}

/// Whether what is written to a device is unreadable on the drive.
pub fn is_encrypted(host: &Host, device: &Path) -> bool {
    // A name below /dev/mapper, or a volume's, leads to the kernel's own.
    below(host, &host.resolved(device), false).is_encrypted()
}

fn below(host: &Host, path: &Path, is_file: bool) -> BlockStack {
    let mut reader = Reader::new(host);
    let mounts = Mounts::read(&mut reader);
    let area = SwapArea {
        path: path.to_path_buf(),
        is_file,
        ..SwapArea::default()
    };
    BlockStack::read(&mut reader, &area, &mounts)
}
