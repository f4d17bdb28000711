//! A zram or zmeld device.

use zmeld_config::advice::module::lacks_encryption;
use zmeld_config::advice::tier::missing_driver;
use zmeld_config::advice::ModulePresence;
use zmeld_report::units::bytes as amount;

use crate::setup::context::added;
use crate::setup::error::Error;
use crate::setup::step::{DeviceRef, Record, Step};
use crate::setup::steps::{
    check_dictionary, AddDevice, LoadModule, MakeSwap, Mode, OpenCrypt, SetAttribute, SetValue,
    SwapOn, CODEC, LIMIT, PARAMETERS, SIZE,
};
use zmeld_config::advice::machine::Machine;
use zmeld_config::{
    Codec, Encryption, Finding, MeldMode, RamDevice, RamDriver, Severity, Tier, Writeback,
};
use zmeld_linux::compressed::MmStat;
use zmeld_linux::Host;

use super::disk::refuse_tiny;
use super::parts::{Plan, PlanPart, Planned, Planner, Skipped, Steps};

/// The part of a plan that switches zswap off.
pub(super) const ZSWAP_OFF: &str = "zswap-off";

pub(super) fn plan(
    device: &RamDevice,
    draft: &mut Planner<'_>,
    tier: &Tier,
    priority: i16,
    steps: &mut Steps<'_>,
) -> Result<(), Error> {
    let driver = device.driver;
    draft.load(driver, steps)?;
    let backing = match &device.writeback {
        Some(writeback) => draft.backing(tier, writeback, steps)?,
        None => None,
    };
    steps.add(
        Step::AddDevice(AddDevice { driver }),
        "a device of its own: no other is touched",
    );
    let recompress = device.recompress.iter();
    for dictionary in device
        .codec
        .iter()
        .chain(recompress)
        .filter_map(|it| it.dict.as_ref())
    {
        if driver == RamDriver::Zmeld {
            let path = dictionary.display();
            let what = format!("zmeld.ko takes no dictionary, {path} is not used: zram does");
            let about = PlanPart::of_tier(tier.name.as_str());
            draft
                .problems
                .push(Finding::new(Severity::Warning, about, what));
            continue;
        }
        check_dictionary(draft.host, dictionary)?;
    }
    codecs(device, draft.machine, draft.options.only_named, steps)?;
    if let Some((writeback, backing)) = device.writeback.as_ref().zip(backing) {
        written_back(writeback, backing, steps);
    }
    draft.sizes(device, steps)?;
    if device.meld != MeldMode::Off {
        steps.set(
            "meld_mode",
            zmeld_config::name_of(&device.meld),
            "when identical pages are melded",
        );
    }
    if let Some(check_writes) = device.check_writes {
        steps.set(
            "check_writes",
            zmeld_config::name_of(&check_writes),
            "whether what is encoded is decoded and compared before it is used",
        );
    }
    if !draft.options.only_named {
        let refused = lacking(driver, draft.machine, draft.host, steps).next();
        refused.map_or(Ok(()), Err)?;
    }
    let make = MakeSwap {
        device: DeviceRef::Added,
        label: tier.name.to_string(),
    };
    steps.add(Step::MakeSwap(make), "swapon needs a header on it");
    let on = SwapOn {
        device: DeviceRef::Added,
        priority,
        discard: tier.swap.discard,
    };
    steps.add(Step::SwapOn(on), "the fastest tier is filled first");
    draft.zswap_off();
    Ok(())
}

impl Plan {
    /// Limits below what a device in use takes already, which would refuse each write from
    /// then on.
    pub(super) fn limits_in_use(&self, host: &Host) -> Vec<Finding> {
        let found = self.groups.iter().filter_map(|part| {
            let adds = |it: &Planned| it.done && matches!(it.step, Step::AddDevice(_));
            let limits = |it: &Planned| match &it.step {
                Step::SetAttribute(set) if set.attribute == LIMIT && it.is_open() => {
                    set.value.parse::<u64>().ok()
                }
                _ => None,
            };
            let limit = part.steps.iter().find_map(limits)?;
            part.steps.iter().find(|it| adds(it))?;
            let device = added(host, &self.records, &part.name).ok()??;
            let stat = host.read(format!("/sys/block/{device}/mm_stat")).ok()?;
            let used = MmStat::parse(&stat)?.memory_used_bytes;
            let tier = part.name.strip_prefix("tier.")?;
            (limit < used).then(|| {
                Finding::new(
                    Severity::Critical,
                    format!("{}.memory_limit", part.name),
                    format!(
                        "{device} takes {} for its pages now: with {} each write to it would fail, \
                         and what is to be swapped out would stay in RAM; write more, or empty it \
                         first: zmeld down --only {tier}, then zmeld up",
                        amount(used),
                        amount(limit)
                    ),
                )
            })
        });
        found.collect()
    }
}

impl Planner<'_> {
    /// The driver, unless it is there by itself.
    fn load(&self, driver: RamDriver, steps: &mut Steps<'_>) -> Result<(), Error> {
        let feature = self.machine.feature(driver);
        let is_load = |step: &Step| matches!(step, Step::LoadModule(_));
        let loaded = self.recorded(steps.name).any(|it| is_load(&it.step));
        if feature.ready && !loaded {
            return Ok(());
        }
        let reason = match feature.presence {
            _ if loaded => "the kernel has it as a module",
            ModulePresence::Module => "the kernel has it as a module",
            ModulePresence::Absent | ModulePresence::Impossible => {
                return Err(no_driver(driver, self.machine))
            }
            ModulePresence::Ready | ModulePresence::Unknown => {
                "it is not loaded; whether the kernel has it cannot be told"
            }
        };
        steps.add(Step::LoadModule(LoadModule { driver }), reason);
        Ok(())
    }

    /// How large the device is, what it may take, and what is written of it a day.
    fn sizes(&self, device: &RamDevice, steps: &mut Steps<'_>) -> Result<(), Error> {
        let ram = self.machine.ram_bytes;
        let size = device.size.bytes(ram);
        let table = device.slot_table().bytes(size);
        refuse_absurd(size, table, ram)?;
        refuse_tiny(size)?;
        if let Some(limit) = device.memory_limit.map(|it| it.bytes(ram)) {
            refuse_no_room(limit)?;
        }
        let reason = format!(
            "size = \"{}\": {} before compression; to keep account of its pages takes {} of RAM",
            device.size,
            amount(size),
            amount(table)
        );
        steps.set(SIZE, size, reason);
        if let Some(limit) = &device.memory_limit {
            let bytes = limit.bytes(ram);
            let reason = format!("memory_limit = \"{limit}\": {} at most", amount(bytes));
            steps.set(LIMIT, bytes, reason);
        }
        if let Some(limit) = device.writeback.as_ref().and_then(|it| it.daily_limit) {
            // In blocks of 4 KiB, whatever the page size.
            let blocks = limit.0 / 4096;
            for (name, value) in [("writeback_limit", blocks), ("writeback_limit_enable", 1)] {
                steps.set(name, value, "to spare the drive");
            }
        }
        Ok(())
    }

    /// The writeback device; none where an optional drive is missing.
    fn backing(
        &mut self,
        tier: &Tier,
        writeback: &Writeback,
        steps: &mut Steps<'_>,
    ) -> Result<Option<DeviceRef>, Error> {
        let path = match self.device(&writeback.device, steps.name) {
            Ok(path) => path,
            Err(err) if writeback.optional => {
                self.skipped.push(Skipped {
                    group: format!("{}.writeback", steps.name),
                    reason: err.to_string(),
                });
                return Ok(None);
            }
            Err(err) => return Err(err),
        };
        self.must_be_free(&path, steps.name)?;
        self.may_be_lost(&path, "")?;
        let below = DeviceRef::Path(path);
        let name = format!("zmeld-{}", tier.name);
        match self.open(
            writeback.encryption(),
            name.clone(),
            below.clone(),
            false,
            steps,
        )? {
            true => Ok(Some(DeviceRef::Mapped(name))),
            false => Ok(Some(below)),
        }
    }

    /// The mapping in front of a device; says whether there is one.
    pub(super) fn open(
        &self,
        encryption: Encryption,
        name: String,
        device: DeviceRef,
        allow_discards: bool,
        steps: &mut Steps<'_>,
    ) -> Result<bool, Error> {
        let (mode, reason) = match encryption {
            Encryption::None => return Ok(false),
            Encryption::Luks { key_file, .. } => {
                (Mode::Luks { key_file }, "the drive sees ciphertext only")
            }
            Encryption::Random { cipher } => {
                (Mode::Random { cipher }, "the key is gone with the power")
            }
        };
        let is_open = |it: &Record| matches!(it.step, Step::OpenCrypt(_));
        let is_open = self.recorded(steps.name).any(is_open);
        let lacks = lacks_encryption(self.host, &self.machine.kernel);
        if let Some((what, way_out)) = lacks.filter(|_| !is_open) {
            return Err(Error::Lacks {
                what: format!("encryption needs {what}"),
                way_out,
            });
        }
        let open = OpenCrypt {
            name,
            device,
            mode,
            allow_discards,
        };
        steps.add(Step::OpenCrypt(open), reason);
        Ok(true)
    }

    /// zswap in front of a RAM device compresses every page twice; where the
    /// kernel has it switched on by itself, it is switched off meanwhile.
    fn zswap_off(&mut self) {
        let accepted = self
            .config
            .accept
            .contains(&zmeld_config::FindingId::ZramWithZswap);
        let enabled = self
            .machine
            .zswap
            .as_ref()
            .is_some_and(|zswap| zswap.is_enabled);
        let recorded = self.recorded(ZSWAP_OFF).next().is_some();
        let there = self.groups.iter().any(|part| part.name == ZSWAP_OFF);
        if there || accepted || self.config.zswap().is_some() || !(enabled || recorded) {
            return;
        }
        let mut steps = Steps::new(ZSWAP_OFF, self.records);
        let path = format!("{}/enabled", zmeld_linux::compressed::ZSWAP);
        steps.add_over(
            Step::SetValue(SetValue::new(path, "N")),
            "zswap would take the pages first, and the RAM device only those that it evicts",
            Some("Y".to_owned()),
        );
        self.groups.push(steps.part(false));
    }
}

/// What a tier's device asks for and the kernel's driver lacks, by files alone: no device is opened.
pub fn not_offered(
    host: &Host,
    machine: &Machine,
    tier: &Tier,
    device: &RamDevice,
) -> Result<Vec<Error>, Error> {
    let part = PlanPart::of_tier(tier.name.as_str());
    let mut steps = Steps::new(&part, &[]);
    codecs(device, machine, false, &mut steps)?;
    if let Some(writeback) = &device.writeback {
        written_back(writeback, DeviceRef::Added, &mut steps);
    }
    Ok(lacking(device.driver, machine, host, &steps).collect())
}

/// Of the attributes that are to be set, those that the driver does not offer.
fn lacking<'a>(
    driver: RamDriver,
    machine: &'a Machine,
    host: &'a Host,
    steps: &'a Steps<'_>,
) -> impl Iterator<Item = Error> + 'a {
    let open = steps.steps.iter().filter(|it| !it.done);
    open.filter_map(move |planned| match &planned.step {
        Step::SetAttribute(set) => set.offered_by(driver, machine, host, steps.name).err(),
        _ => None,
    })
}

/// Adds the drive that pages are written back to.
fn written_back(writeback: &Writeback, backing: DeviceRef, steps: &mut Steps<'_>) {
    let set = Step::SetAttribute(SetAttribute::backing(backing));
    steps.add(set, "where pages that are not worth RAM go");
    if writeback.compressed {
        steps.set("compressed_writeback", 1, "written as they are compressed");
    }
}

/// Adds the codec and those for recompression. An experiment compares the codecs it names; a
/// machine is better off with another codec than without swap, so a missing one is passed over.
fn codecs(
    device: &RamDevice,
    machine: &Machine,
    must_have: bool,
    steps: &mut Steps<'_>,
) -> Result<(), Error> {
    let driver = device.driver;
    let there = &machine.feature(driver).codecs;
    let is_missing = |codec: &Codec| machine.offers(driver, &codec.name) == Some(false);
    let check = |codec: &Codec| match must_have && is_missing(codec) {
        true => Err(Error::NoCodec {
            codec: codec.name.clone(),
            there: match there.is_empty() {
                true => "only those that it was built with".to_owned(),
                false => there.join(", "),
            },
        }),
        false => Ok(()),
    };
    let parameters = |codec: &Codec, priority: u8, steps: &mut Steps<'_>| {
        let mut codec = codec.clone();
        // zmeld.ko takes none.
        codec.dict.take_if(|_| device.driver == RamDriver::Zmeld);
        if let Some(parameters) = codec.parameters(priority) {
            steps.set(PARAMETERS, parameters, "how it is to compress");
        }
    };
    if let Some(first) = device.codec.first() {
        check(first)?;
    }
    // It is the usual one: who reads a plan looks for it.
    let is_without = device.codec.iter().all(|it| it.name != "zstd")
        && machine.offers(driver, "zstd") == Some(false);
    let mut is_found = false;
    for (at, codec) in device.codec.iter().enumerate() {
        let reason = match at {
            0 if is_without => "the codec of new pages; this kernel's has no zstd",
            0 => "the codec of new pages",
            _ => "the first of the list that the kernel has",
        };
        let begin = steps.steps.len();
        steps.set(CODEC, &codec.name, reason);
        parameters(codec, 0, steps);
        steps.pass_over(begin, is_found || is_missing(codec));
        is_found |= there.contains(&codec.name);
    }
    for (codec, priority) in device.recompress.iter().zip(1..) {
        check(codec)?;
        let begin = steps.steps.len();
        let again = SetAttribute::recompression(&codec.name, priority);
        let again = Step::SetAttribute(again);
        steps.add(again, "what pages may be compressed with again");
        parameters(codec, priority, steps);
        steps.pass_over(begin, is_missing(codec));
    }
    Ok(())
}

/// A driver that the kernel has not got, and what can be had.
fn no_driver(driver: RamDriver, machine: &Machine) -> Error {
    let has_disk_swap = machine.swaps.iter().any(|swap| !swap.is_in_ram());
    let way_out = missing_driver(machine, driver, has_disk_swap);
    Error::feature(
        format!("this tier needs the driver {}", driver.name()),
        way_out.unwrap_or_else(|| "choose another tier".to_owned()),
    )
}

/// The least that a device may take: what the kernel's allocator adds at once, and a few pages.
const LIMIT_PAGES_MIN: u64 = 16;

/// A limit below which not even the header of the swap area can be written.
fn refuse_no_room(limit: u64) -> Result<(), Error> {
    let least = LIMIT_PAGES_MIN * rustix::param::page_size() as u64;
    match limit < least {
        false => Ok(()),
        true => Err(Error::Refused {
            what: format!(
                "a memory_limit of {} holds no page: write at least {}",
                amount(limit),
                amount(least)
            ),
        }),
    }
}

/// A device whose table takes more of RAM than one part in so many is refused.
const TABLE_PART_MAX: u64 = 5;

/// A size that no RAM can fill costs RAM all the same.
fn refuse_absurd(size: u64, table: u64, ram: u64) -> Result<(), Error> {
    if table <= ram / TABLE_PART_MAX {
        return Ok(());
    }
    Err(Error::Refused {
        what: format!(
            "to keep account of the pages of a device of {} takes {} of RAM before any \
             is stored, and the machine has {}: choose a smaller size, 4 times RAM (400%) is \
             more than compression gives back",
            amount(size),
            amount(table),
            amount(ram)
        ),
    })
}
