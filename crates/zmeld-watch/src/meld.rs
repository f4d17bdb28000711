//! A melding pass on a zmeld device: starting it, stopping it, what came of it.
//!
//! The kernel runs the pass in the context of whoever asks for it: [`run`] returns
//! when it is over. [`stop`], from another thread, ends it early; the device is
//! consistent at any time, since a page is either melded or not.

use zmeld_advice::meld::Melders;
use zmeld_advice::module::ModulePresence;

use rustix::io::Errno;
use zmeld_linux::{Host, HostError};
use zmeld_observe::machine::Machine;
use zmeld_observe::Melding;

/// Why a pass cannot be run, or did not end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeldError {
    /// There is no compressed device of that name.
    #[error("there is no compressed device {0}; zmeld status lists those that there are")]
    NoDevice(String),
    /// There is no device that melds.
    #[error("there is no device that melds. {0}")]
    NoneMelds(String),
    /// Several devices meld, and none was named.
    #[error("several devices meld: name one of {}", .0.join(", "))]
    Several(Vec<String>),
    /// The device's driver cannot meld.
    #[error("{name} is a plain zram device, and the kernel's zram cannot meld pages. {melders}")]
    Plain {
        /// The device.
        name: String,
        /// What melds pages here, in a sentence.
        melders: String,
    },
    /// The device has no size yet.
    #[error("{0} is not set up: it has no disksize, so there is nothing to meld")]
    NotSetUp(String),
    /// Pages have no fingerprints.
    #[error("melding is off on {0}: switch it on with echo manual > /sys/block/{0}/meld_mode; pages written from then on can be melded")]
    Off(String),
    /// Another pass, recompression or writeback runs.
    #[error(
        "{0} is busy with another pass, recompression or writeback: try again when it is done"
    )]
    Busy(String),
    /// The kernel refused.
    #[error(transparent)]
    Refused(#[from] HostError),
}

impl MeldError {
    /// Whether a privilege or something of the kernel is missing.
    pub fn is_missing(&self) -> bool {
        match self {
            MeldError::Refused(err) => err
                .cause()
                .is_some_and(|cause| cause.kind() == std::io::ErrorKind::PermissionDenied),
            MeldError::Plain { .. } | MeldError::NoneMelds(_) => true,
            _ => false,
        }
    }
}

/// The name of the device that a user means: `/dev/zmeld0`, `zmeld0`, or the only
/// one that melds.
///
/// # Errors
/// When it does not exist, cannot meld, or is not set up.
pub fn choose(host: &Host, wanted: Option<&str>) -> Result<String, MeldError> {
    let at = |name: &str, attribute: &str| format!("/sys/block/{name}/{attribute}");
    let Some(wanted) = wanted else {
        let mut names = host.list("/sys/block")?;
        names.retain(|name| host.exists(at(name, "meld_stat")));
        names.retain(|name| {
            host.read(at(name, "initstate"))
                .is_ok_and(|text| text == "1")
        });
        return match names.len() {
            0 => Err(MeldError::NoneMelds(melders(host))),
            1 => Ok(names.remove(0)),
            _ => Err(MeldError::Several(names)),
        };
    };
    let name = wanted.strip_prefix("/dev/").unwrap_or(wanted);
    if name.is_empty() || name.contains('/') || !host.exists(at(name, "mm_stat")) {
        return Err(MeldError::NoDevice(wanted.to_owned()));
    }
    if !host.exists(at(name, "meld_stat")) {
        return Err(MeldError::Plain {
            name: name.to_owned(),
            melders: melders(host),
        });
    }
    if host.read(at(name, "initstate"))? != "1" {
        return Err(MeldError::NotSetUp(name.to_owned()));
    }
    Ok(name.to_owned())
}

/// What melds pages on this machine, in a sentence without its full stop.
fn melders(host: &Host) -> String {
    let zmeld =
        Machine::read(host).map_or(ModulePresence::Unknown, |machine| machine.zmeld.presence);
    let ksm = host.read_optional("/sys/kernel/mm/ksm/run").ok().flatten();
    let melders = Melders {
        zmeld,
        ksm_runs: ksm.map(|text| text.trim() == "1"),
    };
    melders.words().trim_end_matches('.').to_owned()
}

/// Runs a pass to its end, or until [`stop`]; what the device says of it then. `request` is what
/// is written to its `meld`.
///
/// # Errors
/// When the device is busy or the kernel refuses.
pub fn run(host: &Host, name: &str, request: &str) -> Result<Melding, MeldError> {
    if Melding::read(host, name)?.mode == "off" {
        return Err(MeldError::Off(name.to_owned()));
    }
    match host.write(format!("/sys/block/{name}/meld"), request) {
        Ok(()) => Ok(Melding::read(host, name)?),
        Err(err) if err.is(Errno::BUSY) || err.is(Errno::AGAIN) => {
            Err(MeldError::Busy(name.to_owned()))
        }
        Err(err) => Err(err.into()),
    }
}

/// Asks a running pass to stop soon.
///
/// # Errors
/// When the device is gone.
pub fn stop(host: &Host, name: &str) -> Result<(), HostError> {
    host.write(format!("/sys/block/{name}/meld"), "stop")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_device_that_cannot_meld_is_refused_in_words() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::at(dir.path());
        let make = |name: &str, files: &[(&str, &str)]| {
            let folder = dir.path().join("sys/block").join(name);
            fs::create_dir_all(&folder).unwrap();
            for (file, text) in files {
                fs::write(folder.join(file), text).unwrap();
            }
        };
        assert!(matches!(choose(&host, None), Err(MeldError::NoneMelds(_))));
        make("zram0", &[("mm_stat", "0"), ("initstate", "1")]);
        let err = choose(&host, Some("/dev/zram0")).unwrap_err();
        assert!(err.to_string().starts_with("zram0 is a plain zram device"));
        assert!(err.is_missing());
        // A kernel without modules is not told to load one.
        fs::create_dir_all(dir.path().join("proc")).unwrap();
        fs::write(
            dir.path().join("proc/meminfo"),
            "MemTotal: 4096 kB\nMemFree: 1024 kB\n",
        )
        .unwrap();
        fs::write(
            dir.path().join("proc/swaps"),
            "Filename Type Size Used Priority\n",
        )
        .unwrap();
        let err = choose(&host, Some("zram0")).unwrap_err().to_string();
        assert!(err.contains("This kernel loads no modules"), "{err}");
        assert!(!err.contains("zmeld up"), "{err}");
        for none in ["sda", "", "../zram0", "/dev/"] {
            assert!(matches!(
                choose(&host, Some(none)),
                Err(MeldError::NoDevice(_))
            ));
        }
        let melds = |init| [("mm_stat", "0"), ("meld_stat", ""), ("initstate", init)];
        make("zmeld0", &melds("0\n"));
        assert!(matches!(
            choose(&host, Some("zmeld0")),
            Err(MeldError::NotSetUp(_))
        ));
        make("zmeld0", &melds("1\n"));
        assert_eq!(choose(&host, None).unwrap(), "zmeld0");
        make("zmeld1", &melds("1\n"));
        assert!(matches!(choose(&host, None), Err(MeldError::Several(names)) if names.len() == 2));
    }
}
