//! A melding pass on a zmeld device: starting it, stopping it, what came of it.
//!
//! The kernel runs the pass in the context of whoever asks for it: [`run`] returns
//! when it is over. [`stop`], from another thread, ends it early; the device is
//! consistent at any time, since a page is either melded or not.

use serde::Serialize;

use zmeld_advice::module::ModulePresence;

use rustix::io::Errno;
use zmeld_linux::{Host, HostError};
use zmeld_observe::machine::Machine;
use zmeld_observe::{share, Melding};

/// How a pass is to be run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassOptions {
    /// Run only if the sampled share of duplicates is at least this, in thousandths.
    pub threshold_permille: u32,
    /// Bytes that the pass may borrow; absent: 8 for each stored page.
    pub memory_max_bytes: Option<u64>,
    /// Stop after so many milliseconds.
    pub time_max_ms: Option<u64>,
    /// Go on where a stopped pass left off.
    pub resume: bool,
    /// Only sample, and change nothing.
    pub estimate_only: bool,
}

impl PassOptions {
    /// What is written to the device's `meld`.
    pub fn request(&self) -> String {
        if self.estimate_only {
            return "estimate".to_owned();
        }
        let mut request = "start".to_owned();
        if self.threshold_permille > 0 {
            request += &format!(" threshold={}", self.threshold_permille);
        }
        if let Some(bytes) = self.memory_max_bytes {
            request += &format!(" memory={bytes}");
        }
        if let Some(ms) = self.time_max_ms {
            request += &format!(" time_ms={ms}");
        }
        if self.resume {
            request += " resume";
        }
        request
    }
}

/// What a pass did, from the `pass_` lines of `meld_stat`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct PassResult {
    /// Pages with a fingerprint.
    pub pages_stored: u64,
    /// Pages written while melding was off, which cannot be melded.
    pub pages_unfingerprinted: u64,
    /// Pages in the sample.
    pub pages_sampled: u64,
    /// Pages in the sample that melding would drop.
    pub duplicates_sampled: u64,
    /// Pages whose bytes were compared with another's.
    pub candidates: u64,
    /// Pages that now share another's object.
    pub pages_melded: u64,
    /// Compressed bytes that this saved.
    pub bytes_saved: u64,
    /// Bytes that new shares cost.
    pub bytes_metadata: u64,
    /// Pages with the same fingerprint and other bytes.
    pub collisions: u64,
    /// Pages that changed while the pass ran.
    pub raced: u64,
    /// Memory that the pass borrowed, at the most at one time.
    pub memory_borrowed_bytes: u64,
    /// Nanoseconds that it took.
    pub time_ns: u64,
    /// The sample was below the threshold: nothing was done.
    pub below_threshold: bool,
    /// It was stopped before its end.
    pub stopped: bool,
}

impl PassResult {
    /// What the device says of its last pass.
    pub fn of(melding: &Melding) -> PassResult {
        let last = |name: &str| melding.counter(&format!("pass_{name}"));
        PassResult {
            pages_stored: last("pages_stored"),
            pages_unfingerprinted: last("pages_unfingerprinted"),
            pages_sampled: last("pages_sampled"),
            duplicates_sampled: last("duplicates_sampled"),
            candidates: last("candidates"),
            pages_melded: last("pages_melded"),
            bytes_saved: last("bytes_saved"),
            bytes_metadata: last("bytes_metadata"),
            collisions: last("collisions"),
            raced: last("raced"),
            memory_borrowed_bytes: last("memory_borrowed"),
            time_ns: ["time_sample_ns", "time_find_ns", "time_meld_ns"]
                .iter()
                .fold(0, |sum: u64, name| sum.saturating_add(last(name))),
            below_threshold: last("below_threshold") != 0,
            stopped: last("stopped") != 0,
        }
    }

    /// The share of duplicates in the sample, 0 to 1; `None` without a sample.
    pub fn duplicate_share(&self) -> Option<f64> {
        (self.pages_sampled > 0).then(|| share(self.duplicates_sampled, self.pages_sampled))
    }
}

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
    let melders = zmeld_advice::meld::melders(zmeld, ksm.map(|text| text.trim() == "1"));
    melders.trim_end_matches('.').to_owned()
}

/// Runs a pass to its end, or until [`stop`]; says what came of it.
///
/// # Errors
/// When the device is busy or the kernel refuses.
pub fn run(host: &Host, name: &str, options: &PassOptions) -> Result<PassResult, MeldError> {
    if Melding::read(host, name)?.mode == "off" {
        return Err(MeldError::Off(name.to_owned()));
    }
    let asked = host.write(format!("/sys/block/{name}/meld"), &options.request());
    match asked {
        Ok(()) => {}
        Err(err) if err.is(Errno::BUSY) || err.is(Errno::AGAIN) => {
            return Err(MeldError::Busy(name.to_owned()))
        }
        Err(err) => return Err(err.into()),
    }
    Ok(PassResult::of(&Melding::read(host, name)?))
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
    fn requests_are_as_the_kernel_takes_them() {
        let mut options = PassOptions::default();
        assert_eq!(options.request(), "start");
        options.threshold_permille = 50;
        options.memory_max_bytes = Some(1 << 20);
        options.time_max_ms = Some(30_000);
        options.resume = true;
        assert_eq!(
            options.request(),
            "start threshold=50 memory=1048576 time_ms=30000 resume"
        );
        options.estimate_only = true;
        assert_eq!(options.request(), "estimate");
    }

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
