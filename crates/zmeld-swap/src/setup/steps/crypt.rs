//! Encrypted mappings: LUKS2 with a key file, or plain dm-crypt with a key that
//! nobody ever knows and that is gone with the power.

use std::path::{Path, PathBuf};

use super::header::{before_header, has_header, refuse_to_lose, signatures, wipe, written_over};
use super::pin::{self, check_key_file, thing};
use crate::setup::context::{Before, Reversible, StepContext};
use crate::setup::error::Error;
use crate::setup::identity::{stands_on, Identity, PathMatch};
use crate::setup::step::{DeviceRef, FormatLuks, Mode, OpenCrypt, Record};
use zmeld_linux::command::Invocation;
use zmeld_linux::Host;

/// How `wipefs` calls a LUKS volume.
const LUKS: &str = "crypto_LUKS";

/// So much of a device's begin (VMFS has a signature at 2 MiB) and of its end stays clear of what a
/// random key makes of pages, which would look like a file system, volume or array to `wipefs` by
/// chance, some day, and the device be refused at every boot from then on. A signature that has its
/// place further from either end is not kept clear.
const BEGIN_BYTES: u64 = 4 << 20;
const END_BYTES: u64 = 1 << 20;
/// A smaller device is not worth that.
const SMALL_BYTES: u64 = 16 << 20;
const SECTOR: u64 = 512;

fn mapping(name: &str) -> PathBuf {
    Path::new("/dev/mapper").join(name)
}

impl Reversible for FormatLuks {
    fn describe(&self) -> String {
        format!(
            "make {} a LUKS2 volume ({}, {} bits)",
            self.device.name(),
            self.cipher.name,
            self.cipher.key_size
        )
    }

    fn before(&self, context: &mut StepContext<'_>) -> Result<Before, Error> {
        let path = context.path(&self.device)?;
        check_key_file(context.host, &self.key_file)?;
        let found = signatures(context.host, &path)?;
        before_header(context.host, &path, &found, LUKS, |it| &mut it.luks)
    }

    fn apply(&self, context: &mut StepContext<'_>, record: &Record) -> Result<(), Error> {
        if record.before.is_some() {
            return Ok(());
        }
        let device = pin::same_device(context, &self.device, record)?;
        // Another may have had the name when it was looked at.
        refuse_to_lose(context.host, &device)?;
        // The key file is random, not a passphrase: stretching it adds nothing,
        // and argon2 would take memory on a machine that is short of it.
        let mut format = Invocation::new("cryptsetup")
            .args(["luksFormat", "--batch-mode", "--type", "luks2"])
            .args(["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"])
            .args(["--cipher", &self.cipher.name])
            .args(["--key-size", &self.cipher.key_size.to_string()]);
        if let Some(uuid) = record.identity.as_ref().and_then(|it| it.luks.as_ref()) {
            format = format.args(["--uuid", uuid]);
        }
        let format = format
            .arg(context.host.path(&device))
            .arg(context.host.path(&self.key_file));
        context.host.run(&format)?;
        Ok(())
    }

    fn holds(&self, context: &mut StepContext<'_>, record: &Record) -> Result<bool, Error> {
        has_header(context, &self.device, record, |path| {
            Ok(signatures(context.host, path)? == [LUKS])
        })
    }

    fn undo(&self, context: &mut StepContext<'_>, record: &Record) -> Result<(), Error> {
        let path = match &self.device {
            DeviceRef::Path(path) if record.before.is_none() => &pin::own_name(context.host, path),
            _ => return Ok(()),
        };
        wipe(context, path, record, LUKS)
    }
}

impl Reversible for OpenCrypt {
    fn describe(&self) -> String {
        let how = match &self.mode {
            Mode::Luks { key_file } => format!("with the key in {}", key_file.display()),
            Mode::Random { cipher } => {
                format!(
                    "with a random key ({}, {} bits)",
                    cipher.name, cipher.key_size
                )
            }
        };
        format!(
            "open {} as /dev/mapper/{} {how}",
            self.device.name(),
            self.name
        )
    }

    fn before(&self, context: &mut StepContext<'_>) -> Result<Before, Error> {
        let path = context.path(&self.device)?;
        if context.host.exists(mapping(&self.name)) {
            return Err(Error::place(
                mapping(&self.name),
                "it is in use by a mapping that zmeld did not open",
                format!(
                    "close it (cryptsetup close {}) or rename the tier",
                    self.name
                ),
            ));
        }
        match &self.mode {
            Mode::Luks { key_file } => check_key_file(context.host, key_file)?,
            // Every byte will be overwritten: only what carries nothing.
            Mode::Random { .. } => refuse_to_lose(context.host, &path)?,
        }
        Ok((None, None))
    }

    fn apply(&self, context: &mut StepContext<'_>, record: &Record) -> Result<(), Error> {
        let device = pin::same_device(context, &self.device, record)?;
        if let Mode::Random { .. } = self.mode {
            refuse_to_lose(context.host, &device)?;
        }
        let mut open = Invocation::new("cryptsetup").args(["open", "--batch-mode"]);
        if self.allow_discards {
            open = open.arg("--allow-discards");
        }
        open = match &self.mode {
            Mode::Luks { key_file } => {
                // A volume's own tokens are tried before the key: who made it may have the
                // other half.
                if takes_no_tokens(context.host)? {
                    open = open.arg(NO_TOKENS);
                }
                open.args(["--type", "luks", "--key-file"])
                    .arg(context.host.path(key_file))
            }
            Mode::Random { cipher } => {
                let size = context
                    .host
                    .device_bytes(&device)
                    .filter(|it| *it >= SMALL_BYTES);
                if let Some(size) = size {
                    let sectors = (size - BEGIN_BYTES - END_BYTES) / SECTOR;
                    open = open
                        .args(["--offset", &(BEGIN_BYTES / SECTOR).to_string()])
                        .args(["--size", &sectors.to_string()]);
                }
                open.args(["--type", "plain", "--key-file", "/dev/urandom"])
                    .args(["--cipher", &cipher.name])
                    .args(["--key-size", &cipher.key_size.to_string()])
            }
        };
        let open = open.arg(context.host.path(device));
        context.host.run(&open.arg(self.name.as_str()))?;
        if let Some(identity) = Identity::of(context.host, &mapping(&self.name))? {
            context.remember(identity)?;
            return Ok(());
        }
        Err(Error::malformed(
            mapping(&self.name),
            "is missing although cryptsetup opened it",
        ))
    }

    fn holds(&self, context: &mut StepContext<'_>, record: &Record) -> Result<bool, Error> {
        let found = thing(context.host, &mapping(&self.name), record)?;
        Ok(record.done && matches!(found, PathMatch::Same))
    }

    fn undo(&self, context: &mut StepContext<'_>, record: &Record) -> Result<(), Error> {
        let path = mapping(&self.name);
        let found = self.mapped(context.host, record)?;
        if context.is_own(&path, &found) {
            let close = Invocation::new("cryptsetup").args(["close", &self.name]);
            context.host.run(&close)?;
        }
        if let (PathMatch::Gone | PathMatch::Same, Mode::Random { .. }) = (found, &self.mode) {
            context.remains(written_over(&self.device, record));
        }
        Ok(())
    }
}

/// From cryptsetup 2.4 on; before, it knows none.
const NO_TOKENS: &str = "--disable-external-tokens";

fn takes_no_tokens(host: &Host) -> Result<bool, Error> {
    let said = host.run(&Invocation::new("cryptsetup").arg("--help"))?;
    Ok(said.contains(NO_TOKENS))
}

impl OpenCrypt {
    /// The mapping of that name. Where it was not written down which it is, it has to
    /// stand on this step's device.
    fn mapped(&self, host: &Host, record: &Record) -> Result<PathMatch, Error> {
        let path = mapping(&self.name);
        if record.identity.is_some() || !host.exists(&path) {
            return thing(host, &path, record);
        }
        let is_on = |below: PathBuf| stands_on(host, &path, &below);
        Ok(match self.device.path().map(is_on).transpose()?.flatten() {
            Some(false) => PathMatch::Other("it stands on another device"),
            _ => PathMatch::Same,
        })
    }
}
