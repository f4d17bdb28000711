//! Swap on a drive or in a file.

use std::path::{Path, PathBuf};

use rustix::param::page_size;

use crate::setup::error::Error;
use crate::setup::step::{DeviceRef, Record, Step};
use crate::setup::steps::{
    carries, check_device, check_file, check_key_file, check_owner, check_place, is_unwritten,
    refuse_cut, signatures, swap_signatures, CreateFile, FormatLuks, MakeSwap, Mode, SwapOn,
};
use zmeld_config::{
    Discard, DiskSwap, Encryption, EncryptionKind, Finding, FindingId, Location, Severity, Size,
    Source, Tier,
};
use zmeld_linux::shell;
use zmeld_linux::swap_header::SwapHeader;
use zmeld_linux::swaps::SwapArea;
use zmeld_linux::HostError;
use zmeld_report::units::bytes;

use super::parts::{Planner, Steps};

pub(super) fn plan(
    disk: &DiskSwap,
    draft: &mut Planner<'_>,
    tier: &Tier,
    priority: i16,
    steps: &mut Steps<'_>,
) -> Result<(), Error> {
    let path = match disk.source() {
        Source::Device(location) => draft.device(&location, steps.name)?,
        Source::File { path, .. } => {
            // That something is missing, or not seen by this user, is said below.
            if let Err(err @ Error::Host(HostError::NotOurs { .. })) =
                check_owner(draft.host, &path)
            {
                return Err(err);
            }
            path
        }
    };
    draft.must_be_free(&path, steps.name)?;
    let after = draft.carried_after(&path);
    let active = draft.host.swap_on(&path)?.filter(|_| after.is_none());
    // It has to leave that first, and nothing else may keep it from being encrypted then.
    let is_plain = active.is_some() && disk.encryption != EncryptionKind::None;
    if let Some(active) = active.filter(|_| !is_plain) {
        draft.warn_of_priority(steps.name, &path, &active, priority);
        if disk.file.is_some() {
            draft.warn_of_size(steps.name, &path, disk.size.as_ref());
        }
        return Ok(());
    }
    let device = DeviceRef::Path(path.clone());
    if disk.file.is_some() {
        draft.file(&path, disk.size.as_ref(), steps)?;
    }
    let created = steps
        .steps
        .iter()
        .any(|it| matches!(it.step, Step::CreateFile(_)));
    let makes_header = match disk.encryption() {
        Encryption::None => disk.format || created || draft.was_begun(disk, &device, steps.name),
        _ => true,
    };
    if !created && makes_header && !is_plain {
        match disk.encryption() {
            Encryption::None => draft.may_become_swap(&path)?,
            Encryption::Luks { .. } => draft.may_be_lost(&path, "crypto_LUKS")?,
            Encryption::Random { .. } => draft.may_be_lost(&path, "")?,
        }
    }
    let area = match disk.encryption() {
        Encryption::None => device,
        encryption => {
            if let Encryption::Luks { key_file, cipher } = encryption.clone() {
                check_key_file(draft.host, &key_file)?;
                let is_ours =
                    |step: &Step| matches!(step, Step::FormatLuks(it) if it.device == device);
                if disk.format || draft.recorded(steps.name).any(|it| is_ours(&it.step)) {
                    let format = FormatLuks {
                        device: device.clone(),
                        key_file,
                        cipher,
                    };
                    steps.add(Step::FormatLuks(format), "unless it is one already");
                } else if is_plain {
                    return Err(Error::place(
                        path,
                        "it is in use by swap that is not encrypted, and carries no LUKS volume",
                        "add format = true to its tier, which makes it one",
                    ));
                } else {
                    draft.must_carry(&path, "crypto_LUKS")?;
                }
            }
            let name = format!("zmeld-{}", tier.name);
            let discards = tier.swap.discard != Discard::None;
            draft.open(encryption, name.clone(), device, discards, steps)?;
            DeviceRef::Mapped(name)
        }
    };
    if makes_header {
        let make = MakeSwap {
            device: area.clone(),
            label: tier.name.to_string(),
        };
        steps.add(Step::MakeSwap(make), "unless it is one already");
    } else {
        draft.must_be_swap(&path)?;
    }
    if disk.encryption == EncryptionKind::None {
        draft.tell_of_page_size(steps.name, &path);
    }
    let on = SwapOn {
        device: area,
        priority,
        discard: tier.swap.discard,
    };
    steps.add(Step::SwapOn(on), "what RAM cannot hold goes here");
    match is_plain {
        true => Err(in_plain(&path)),
        false => Ok(()),
    }
}

impl Planner<'_> {
    /// Whether zmeld made it a swap area, or would have made the file, and whoever did wrote
    /// nothing into it.
    fn was_begun(&self, disk: &DiskSwap, device: &DeviceRef, part: &str) -> bool {
        let is_made = |it: &Record| matches!(&it.step, Step::MakeSwap(it) if it.device == *device);
        let is_empty = |path: &Path| disk.size.is_some() && is_unwritten(self.host, path);
        self.recorded(part).any(is_made) || device.path().as_deref().is_some_and(is_empty)
    }

    /// Signatures of a place once the changes of earlier runs are taken back; none where they made
    /// none.
    fn carried_after(&self, path: &Path) -> Option<Vec<String>> {
        let path = self.host.resolved(path);
        let records = self.records.iter();
        let records = records.filter(|it| {
            let place = it.step.place();
            place.is_some_and(|it| self.host.resolved(it) == path)
        });
        let mut carried = None;
        for record in records {
            let was_there = |kind: &str| match record.before.is_some() {
                true => vec![kind.to_owned()],
                false => Vec::new(),
            };
            let found = match &record.step {
                Step::FormatLuks(_) => was_there("crypto_LUKS"),
                Step::MakeSwap(_) => was_there("swap"),
                Step::OpenCrypt(open) if matches!(open.mode, Mode::Luks { .. }) => {
                    vec!["crypto_LUKS".to_owned()]
                }
                Step::SwapOn(_) => vec!["swap".to_owned()],
                _ => Vec::new(),
            };
            // The first that was done to it found it as it was before.
            carried.get_or_insert(found);
        }
        carried
    }

    /// Signatures of a place, now or later, before any change to it. None where this user may not
    /// look, who can plan all the same: `zmeld up` looks again before it writes, and swapon takes
    /// nothing but swap.
    fn carried(&mut self, path: &Path) -> Result<Option<Vec<String>>, Error> {
        let found = self.carried_after(path);
        match found.map_or_else(|| signatures(self.host, path), Ok) {
            Err(err) if err.is_unasked() => Ok(None),
            Err(err) if err.is_unseen(self.host) => {
                let resolved = self.host.resolved(path);
                let tier = self.places.iter().find(|it| it.0 == resolved);
                let what = format!(
                    "{} can be read by root only: run this as root to check what it carries",
                    path.display()
                );
                let about = tier.map_or("", |(_, name)| name);
                self.problems
                    .push(Finding::new(Severity::Notice, about, what));
                Ok(None)
            }
            found => found.map(Some),
        }
    }

    /// Refuses a place that another tier has by another name.
    pub(super) fn must_be_free(&mut self, path: &Path, part: &str) -> Result<(), Error> {
        let resolved = self.host.resolved(path);
        if let Some((_, other)) = self.places.iter().find(|it| it.0 == resolved) {
            let problem = format!("{other} has it already");
            let way_out = "each tier needs a place of its own: name another";
            return Err(Error::place(path, problem, way_out));
        }
        self.places.push((resolved, part.to_owned()));
        Ok(())
    }

    /// Warns that an active area keeps its priority.
    fn warn_of_priority(&mut self, part: &str, path: &Path, active: &SwapArea, wanted: i16) {
        if wanted < 0 || active.priority == i32::from(wanted) {
            return;
        }
        let (shown, pasted) = (path.display(), shell::path(path));
        self.warn(
            FindingId::Priorities,
            &format!("{part}.priority"),
            format!(
                "{shown} is swapped to already, with priority {} instead of {wanted}, and is left \
                 so; to change it: swapoff {pasted}, then zmeld up",
                active.priority,
            ),
        );
    }

    /// A header that another page size was made for is not kept.
    fn tell_of_page_size(&mut self, part: &str, path: &Path) {
        let header = SwapHeader::read(self.host, path);
        let other = header.filter(|it| it.page_bytes != page_size() as u64);
        self.problems.extend(other.map(|it| {
            let what = format!(
                "the swap header of {} is for pages of {}: it is made anew for this kernel's \
                 (swapon --fixpgsz), with its UUID and label",
                path.display(),
                bytes(it.page_bytes)
            );
            Finding::new(Severity::Notice, part, what)
        }));
    }

    /// A file that is there keeps its size: what it holds is not known to be zmeld's.
    fn warn_of_size(&mut self, part: &str, path: &Path, size: Option<&Size>) {
        let (Some(size), Ok(meta)) = (size, self.host.tree().metadata(path)) else {
            return;
        };
        let (wanted, is) = (size.bytes(self.machine.ram_bytes), meta.len());
        let is_near = match size {
            Size::Bytes(_) => wanted == is,
            _ => wanted.abs_diff(is) <= wanted / SHARE_APART,
        };
        if is_near {
            return;
        }
        let (shown, pasted) = (path.display(), shell::path(path));
        self.problems.push(Finding::new(
            Severity::Warning,
            format!("{part}.size"),
            format!(
                "{shown} has {}, and {} are asked for: a file that is there keeps its size; for a \
                 new one: zmeld down, swapoff {pasted}, rm {pasted}, zmeld up",
                bytes(is),
                bytes(wanted)
            ),
        ));
    }

    /// The path of a device that is there, or was when it was set up.
    pub(super) fn device(&self, location: &Location, part: &str) -> Result<PathBuf, Error> {
        let path = location.path();
        if self.host.exists(&path) {
            // The drive of an experiment is made of a file of its own, in a folder for all.
            if !self.options.only_named {
                check_device(self.host, &path)?;
            }
            return Ok(path);
        }
        if self.recorded(part).any(|it| it.step.place() == Some(&path)) {
            return Ok(path);
        }
        Err(Error::place(
            path,
            match location {
                Location::Path(_) => "there is no such device".to_owned(),
                Location::Tag { .. } => format!("no device has {location}"),
            },
            "connect it, or correct the configuration (lsblk --fs lists what there is)",
        ))
    }

    fn file(
        &mut self,
        path: &Path,
        size: Option<&Size>,
        steps: &mut Steps<'_>,
    ) -> Result<(), Error> {
        let is_create = |step: &Step| matches!(step, Step::CreateFile(_));
        let made = self.recorded(steps.name).find(|it| is_create(&it.step));
        let made = made.map(|it| it.step.clone());
        let is_made_here = matches!(&made, Some(Step::CreateFile(create)) if create.path == *path);
        let there = self.host.exists(path);
        match size {
            Some(size) if !there || is_made_here => {
                let size_bytes = size.bytes(self.machine.ram_bytes);
                let create = Step::CreateFile(CreateFile {
                    path: path.to_path_buf(),
                    size_bytes,
                });
                if made.as_ref() != Some(&create) {
                    refuse_tiny(size_bytes)?;
                    // The other one goes first.
                    let freed = match &made {
                        Some(Step::CreateFile(it)) if it.path.parent() == path.parent() => {
                            it.size_bytes
                        }
                        _ => 0,
                    };
                    let more = size_bytes.saturating_sub(freed);
                    check_place(self.host, path, more, &mut self.new_files)?;
                }
                steps.add(create, format!("{size}, with all its blocks"));
                Ok(())
            }
            // It would go with the step that made it.
            None if there && is_made_here => {
                let made = made.into_iter();
                made.for_each(|step| steps.add(step, "made when it had a size"));
                Ok(())
            }
            _ if there => {
                check_file(self.host, path)?;
                self.warn_of_size(steps.name, path, size);
                Ok(())
            }
            _ => Err(Error::place(
                path,
                "there is no such file",
                "give its size, and it is created",
            )),
        }
    }

    /// Refuses a drive that carries anything but what it is to become.
    pub(super) fn may_be_lost(&mut self, path: &Path, keeps: &str) -> Result<(), Error> {
        let found = self.carried(path)?.unwrap_or_default();
        match found.iter().all(|it| it == keeps) {
            true => Ok(()),
            false => Err(carries(path, &found)),
        }
    }

    /// [`Self::may_be_lost`] for a swap area without encryption.
    fn may_become_swap(&mut self, path: &Path) -> Result<(), Error> {
        match self.is_swap(path)? {
            true => Ok(()),
            false => self.may_be_lost(path, "swap"),
        }
    }

    fn must_be_swap(&mut self, path: &Path) -> Result<(), Error> {
        match self.is_swap(path)? {
            true => Ok(()),
            false => self.must_carry(path, "swap"),
        }
    }

    /// Whether somebody else made it a swap area; refuses one that was cut.
    fn is_swap(&self, path: &Path) -> Result<bool, Error> {
        if self.carried_after(path).is_some() {
            return Ok(false);
        }
        match swap_signatures(self.host, path) {
            Ok(found) if found == ["swap"] => refuse_cut(self.host, path).map(|()| true),
            _ => Ok(false),
        }
    }

    /// Refuses a place that is not yet what it is used as.
    fn must_carry(&mut self, path: &Path, wanted: &str) -> Result<(), Error> {
        let Some(found) = self.carried(path)? else {
            return Ok(());
        };
        if found == [wanted] {
            return Ok(());
        }
        if found == ["swsuspend"] {
            let problem = "it holds the image of a hibernated system";
            let way_out = format!(
                "resume that system, or, if the image is not needed, name the device by its UUID \
                 (blkid {0}), or run mkswap {0}",
                shell::path(path)
            );
            return Err(Error::place(path, problem, way_out));
        }
        let problem = match found.is_empty() {
            true => format!("carries nothing that wipefs knows, and {wanted} is expected"),
            false => {
                let problem = format!("carries {} instead of {wanted}", found.join(", "));
                return Err(Error::place(path, problem, "name another device"));
            }
        };
        let way_out = format!(
            "mkswap {} prepares it, or format = true in its tier of the configuration does; both \
             write over what it holds",
            shell::path(path)
        );
        Err(Error::place(path, problem, way_out))
    }
}

/// mkswap makes no smaller area.
const AREA_PAGES_MIN: u64 = 10;

/// A size that no swap area can have.
pub(super) fn refuse_tiny(size: u64) -> Result<(), Error> {
    let least = AREA_PAGES_MIN * page_size() as u64;
    match size < least {
        false => Ok(()),
        true => Err(Error::Refused {
            what: format!(
                "a swap area of {} cannot be: write at least {}",
                bytes(size),
                bytes(least)
            ),
        }),
    }
}

/// That a device which is to be encrypted is swapped to as it is.
pub fn in_plain(path: &Path) -> Error {
    let shown = shell::path(path);
    Error::place(
        path,
        "it is in use by swap that is not encrypted, and encryption is asked for",
        format!(
            "take it out of what switches it on (/etc/fstab), then swapoff {shown}, wipefs --all \
             {shown}, and zmeld up"
        ),
    )
}

/// A share of RAM is a little different with each kernel: so many parts of the size.
const SHARE_APART: u64 = 16;
