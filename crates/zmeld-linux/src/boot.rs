//! Which boot of the machine this is, and how long ago it was.

use crate::{Host, HostError};

/// What tells this boot from all others.
pub const ID: &str = "/proc/sys/kernel/random/boot_id";
/// How long the machine has been up.
pub const UPTIME: &str = "/proc/uptime";

/// What [`ID`] says; empty where it is not there.
pub fn boot_id(host: &Host) -> Result<String, HostError> {
    Ok(host.read_optional(ID)?.unwrap_or_default())
}

/// Seconds since boot; none where [`UPTIME`] is not there, or says no time.
pub fn uptime(host: &Host) -> Result<Option<f64>, HostError> {
    let text = host.read_optional(UPTIME)?.unwrap_or_default();
    let seconds = text.split_whitespace().next().map(str::parse::<f64>);
    let is_time = |it: &f64| it.is_finite() && *it >= 0.0;
    Ok(seconds.and_then(Result::ok).filter(is_time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_time_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::at(dir.path());
        assert_eq!(uptime(&host).unwrap(), None);
        std::fs::create_dir(dir.path().join("proc")).unwrap();
        for (text, seconds) in [
            ("12.50 3.00\n", Some(12.5)),
            ("NaN 1\n", None),
            ("inf 1\n", None),
            ("-1 1\n", None),
            ("\n", None),
        ] {
            std::fs::write(host.path(UPTIME), text).unwrap();
            assert_eq!(uptime(&host).unwrap(), seconds, "{text}");
        }
    }
}
