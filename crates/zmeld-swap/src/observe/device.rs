//! Compressed block devices: what a zram or zmeld device says of itself in sysfs.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use zmeld_config::{MeldMode, RamDriver, SlotTable};
use zmeld_linux::compressed::{self, choices, chosen, numbers};
pub use zmeld_linux::compressed::{Backed, MmStat};
use zmeld_linux::mounts::{self, Mount};
use zmeld_linux::{swaps, Host, HostError};
use zmeld_report::units::share;

use super::reader::Reader;

/// A compressed block device.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Device {
    /// Its name, `zram0`.
    pub name: String,
    /// Its driver.
    pub driver: RamDriver,
    /// Whether it has been given a size.
    pub initialised: bool,
    /// Bytes that can be written to it (`disksize`).
    pub size_bytes: u64,
    /// The codec in use; empty where it cannot be told.
    pub codec: String,
    /// The codecs that the device offers.
    pub codecs: Vec<String>,
    /// Codecs for recompression, by priority.
    pub recompression: BTreeMap<u8, String>,
    /// The backing device of writeback; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backing: Option<String>,
    /// Whether the kernel can write back at all.
    pub can_write_back: bool,
    /// Whether writeback is limited, and to how many bytes from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writeback_limit_bytes: Option<u64>,
    /// Stored data (`mm_stat`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<MmStat>,
    /// Errors since it was set up (`io_stat`, `debug_stat`).
    pub io: Io,
    /// Data on the backing device (`bd_stat`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backed: Option<Backed>,
    /// Melding; zmeld devices only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub melding: Option<Melding>,
    /// Device-mapper, loop and other devices that stand on it.
    pub holders: Vec<String>,
    /// A file system is mounted from it: where, and whether it discards by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mounted: Option<Mounted>,
}

/// A file system on a compressed device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Mounted {
    /// The mount point.
    pub at: String,
    /// The file system's type.
    pub file_system: String,
    /// Mounted with `discard`.
    pub discards: bool,
    /// Nothing is deleted there.
    #[serde(skip)]
    pub is_read_only: bool,
}

/// Requests that failed, and slots freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Io {
    /// Reads that failed.
    pub failed_reads: u64,
    /// Writes that failed: no memory, or the limit was reached.
    pub failed_writes: u64,
    /// Slots that swap or a discard gave back (`notify_free`).
    pub freed_pages: u64,
    /// Slots whose freeing was missed because they were busy (`debug_stat`); their
    /// memory comes back with the next write or discard.
    pub missed_free_pages: u64,
}

impl Io {
    /// Reads `io_stat`. Fields of `debug_stat` stay 0.
    pub fn parse(text: &str) -> Option<Io> {
        let columns = numbers(text)?;
        Some(Io {
            failed_reads: columns[0]?,
            failed_writes: columns[1]?,
            freed_pages: columns[3]?,
            missed_free_pages: 0,
        })
    }
}

/// Melding of a zmeld device: `meld_mode`, `verify`, `check_writes`, and the lines of `meld_stat`,
/// by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Melding {
    /// `off`, `manual`, `auto` or `inline`.
    pub mode: String,
    /// Whether fingerprints are checked on every read.
    pub verify: bool,
    /// Whether what is encoded is decoded and compared: `auto`, `on` or `off`; empty where
    /// the module has no such check.
    pub check_writes: String,
    /// The lines of `meld_stat` with a number: name and number.
    pub counters: BTreeMap<String, i64>,
}

/// The counter of pages that did not have their fingerprint.
pub const MISMATCHES: &str = "mismatches";
/// The counter of pages that a codec encoded wrongly.
pub const ENCODE_ERRORS: &str = "encode_errors";

impl Melding {
    /// Reads a device's melding.
    ///
    /// # Errors
    /// When an attribute may not be read, or is not understood.
    pub fn read(host: &Host, name: &str) -> Result<Melding, HostError> {
        let folder = format!("/sys/block/{name}");
        host.read(format!("{folder}/meld_stat"))?;
        let mut reader = Reader::new(host);
        let found = melding(&mut reader, &folder).unwrap_or_default();
        match reader.warnings.pop() {
            None => Ok(found),
            Some(warning) => Err(HostError::malformed(
                &warning.path,
                warning.to_string().replace(&warning.path, "").trim_start(),
            )),
        }
    }

    /// Reads the lines of `meld_stat`, a name and a value each; lines whose value is
    /// a word are passed over. The first line that has no value is an error.
    fn parse_counters(text: &str) -> Result<BTreeMap<String, i64>, String> {
        let mut counters = BTreeMap::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let mut words = line.split_whitespace();
            let (Some(name), Some(value), None) = (words.next(), words.next(), words.next()) else {
                return Err(line.to_owned());
            };
            if let Ok(value) = value.parse() {
                counters.insert(name.trim_end_matches(':').to_owned(), value);
            }
        }
        Ok(counters)
    }

    /// A counter, 0 where the device has none of that name, or it is below 0.
    pub fn counter(&self, name: &str) -> u64 {
        let value = self.counters.get(name).copied().unwrap_or(0);
        u64::try_from(value).unwrap_or(0)
    }

    /// Whether it is known what melding saves: only root is told, and not everybody
    /// that zmeld tells.
    pub fn is_told(&self) -> bool {
        self.counters.contains_key("bytes_melded")
    }

    /// Compressed bytes that shared objects save now, before what their shares cost.
    pub fn melded_bytes(&self) -> u64 {
        self.counter("bytes_melded")
    }

    /// The share of duplicates in the last sample, 0 to 1; `None` before the first.
    pub fn duplicates_sampled(&self) -> Option<f64> {
        let sampled = self.counter("pass_pages_sampled");
        (sampled > 0).then(|| share(self.counter("pass_duplicates_sampled"), sampled))
    }
}

impl Device {
    /// Leaves out what tells whether a page had a twin, as the device itself does
    /// for readers without privileges: the counters of melding, and what it takes
    /// off the compressed size.
    pub fn hide_melding(&mut self) {
        let Some(melding) = &mut self.melding else {
            return;
        };
        if let Some(held) = &mut self.held {
            held.compressed_bytes = held.compressed_bytes.saturating_add(melding.melded_bytes());
        }
        melding
            .counters
            .retain(|name, _| [MISMATCHES, ENCODE_ERRORS].contains(&name.as_str()));
    }

    /// Stored pages that are in memory: without those that were written back.
    pub fn in_memory_bytes(&self) -> u64 {
        let held = self.held.unwrap_or_default();
        held.stored_bytes
            .saturating_sub(self.backed.unwrap_or_default().held_bytes)
    }

    /// Size of the table of slots, beside `memory_used_bytes`.
    pub fn metadata_bytes(&self, page_size: u64) -> u64 {
        match self.initialised {
            true => self.slot_table(page_size).bytes(self.size_bytes),
            false => 0,
        }
    }

    pub(crate) fn slot_table(&self, page_size: u64) -> SlotTable {
        let melding = self.melding.as_ref();
        let mode = melding.map_or(MeldMode::Off, |it| MeldMode::chosen(&it.mode));
        SlotTable::new(self.driver, mode, page_size)
    }

    pub(super) fn read(reader: &mut Reader, name: &str, mounts: &Mounts) -> Device {
        let folder = format!("/sys/block/{name}");
        let at = |attribute: &str| format!("{folder}/{attribute}");
        let codecs = reader.line(&at("comp_algorithm")).unwrap_or_default();
        let backing = reader.line(&at("backing_dev"));
        let recompression = reader.optional(&at("recomp_algorithm"));
        let melding = melding(reader, &folder);
        let initialised = reader.number(&at("initstate")) == Some(1);
        let held = stat(reader, &at("mm_stat"), MmStat::parse);
        Device {
            name: name.to_owned(),
            driver: RamDriver::of(reader.host(), name),
            initialised,
            size_bytes: reader.number(&at("disksize")).unwrap_or(0),
            codec: chosen(&codecs).unwrap_or_default().to_owned(),
            codecs: choices(&codecs),
            recompression: recompression
                .map(|text| compressed::recompression(&text))
                .unwrap_or_default(),
            can_write_back: backing.is_some(),
            backing: backing.filter(|path| !path.is_empty() && path != "none"),
            writeback_limit_bytes: match reader.number(&at("writeback_limit_enable")) {
                Some(1) => reader
                    .number(&at("writeback_limit"))
                    .map(|units| units.saturating_mul(4096)),
                _ => None,
            },
            held,
            io: io(reader, &folder),
            backed: stat(reader, &at("bd_stat"), Backed::parse),
            melding,
            holders: reader.names(&at("holders")),
            mounted: mounts.of_device(name),
        }
    }
}

/// The zram and zmeld devices that there are.
pub(super) fn devices(reader: &mut Reader, mounts: &Mounts) -> Vec<Device> {
    let mut names = reader.names("/sys/block");
    names.retain(|name| swaps::is_compressed(name));
    names
        .iter()
        .map(|name| Device::read(reader, name, mounts))
        .collect()
}

fn stat<T>(reader: &mut Reader, path: &str, parse: fn(&str) -> Option<T>) -> Option<T> {
    let text = reader.optional(path)?;
    let stat = parse(&text);
    if stat.is_none() {
        reader.malformed(path, "its columns are not the kernel's");
    }
    stat
}

fn io(reader: &mut Reader, folder: &str) -> Io {
    let missed = reader
        .optional(&format!("{folder}/debug_stat"))
        .and_then(|text| {
            // "version: 1", then "writestall miss_free".
            let line = text.lines().nth(1)?;
            line.split_whitespace().nth(1)?.parse().ok()
        });
    Io {
        missed_free_pages: missed.unwrap_or(0),
        ..stat(reader, &format!("{folder}/io_stat"), Io::parse).unwrap_or_default()
    }
}

fn melding(reader: &mut Reader, folder: &str) -> Option<Melding> {
    let path = format!("{folder}/meld_stat");
    // It is root's: whoever may not read it still sees that the device melds.
    if !reader.exists(&path) {
        return None;
    }
    let text = reader.optional(&path).unwrap_or_default();
    let counters = Melding::parse_counters(&text).unwrap_or_else(|line| {
        reader.malformed(&path, &format!("\"{line}\" is not a name with a value"));
        BTreeMap::new()
    });
    let mut chosen = |name: &str| {
        let text = reader.line(&format!("{folder}/{name}"));
        let chosen = text.as_deref().and_then(chosen);
        chosen.unwrap_or_default().to_owned()
    };
    Some(Melding {
        mode: chosen("meld_mode"),
        check_writes: chosen("check_writes"),
        verify: reader.switch(&format!("{folder}/verify")) == Some(true),
        counters,
    })
}

/// The mount table, as far as compressed devices and swap files need it.
pub(super) struct Mounts(Vec<Mount>);

impl Mounts {
    pub fn read(reader: &mut Reader) -> Mounts {
        let all = mounts::read(reader.host(), mounts::PATH);
        Mounts(reader.known(all).unwrap_or_default())
    }

    fn of_device(&self, name: &str) -> Option<Mounted> {
        let path = Path::new("/dev").join(name);
        let mount = self.0.iter().find(|mount| mount.source == path)?;
        let options = [&mount.options, &mount.file_system_options];
        let mut options = options.into_iter().flat_map(|all| all.split(','));
        Some(Mounted {
            at: mount.point.to_string_lossy().into_owned(),
            file_system: mount.kind.clone(),
            is_read_only: options.clone().any(|it| it == "ro"),
            discards: options.any(|it| it == "discard" || it.starts_with("discard=")),
        })
    }

    /// The mount of the file system that holds a file.
    pub fn of_file(&self, path: &Path) -> Option<&Mount> {
        let above = self.0.iter().filter(|it| path.starts_with(&it.point));
        // Of two mounts on one place, the later covers the earlier.
        above.max_by_key(|it| it.point.components().count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounts(table: &str) -> Mounts {
        let (_dir, host) = zmeld_linux::Host::planted(&[(mounts::PATH, table)]);
        Mounts::read(&mut Reader::new(&host))
    }

    #[test]
    fn a_file_belongs_to_the_deepest_and_latest_mount() {
        let table = [
            ("/", "/dev/a"),
            ("/var", "/dev/b"),
            ("/var\\040x", "/dev/c"),
            ("/var", "/dev/d"),
        ];
        let table = table.map(|(point, source)| format!("1 1 8:1 / {point} rw - ext4 {source}\n"));
        let all = mounts(&table.concat());
        for (file, source) in [
            ("/swap", "/dev/a"),
            ("/variable", "/dev/a"),
            ("/var x/s", "/dev/c"),
            ("/var/s", "/dev/d"),
        ] {
            let found = all.of_file(Path::new(file)).unwrap();
            assert_eq!(found.source, Path::new(source), "{file}");
        }
        let mount = "1 1 252:0 / /x rw - btrfs /dev/zram0 rw,discard=async\n";
        assert!(mounts(mount).of_device("zram0").unwrap().discards);
    }

    #[test]
    fn a_device_whose_meld_stat_is_not_for_us_is_zmeld_even_so() {
        let dir = tempfile::tempdir().unwrap();
        // A folder cannot be read, by root either.
        std::fs::create_dir_all(dir.path().join("sys/block/zmeld0/meld_stat")).unwrap();
        let host = zmeld_linux::Host::at(dir.path());
        let mut reader = Reader::new(&host);
        let device = Device::read(&mut reader, "zmeld0", &Mounts(Vec::new()));
        assert_eq!(device.driver, RamDriver::Zmeld);
        assert_eq!(device.melding.unwrap().counter("pages_melded"), 0);
    }
}
