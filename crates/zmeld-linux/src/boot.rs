//! Which boot of the machine this is, and how long ago it was.

use serde::{Deserialize, Serialize};

use crate::{Host, HostError};

/// Id of this boot; empty where the kernel does not say.
pub fn boot_id(host: &Host) -> Result<String, HostError> {
    let id = host.read_optional("/proc/sys/kernel/random/boot_id")?;
    Ok(id.unwrap_or_default())
}

/// Seconds since boot; none where `/proc/uptime` is not there, or says no time.
pub fn uptime(host: &Host) -> Result<Option<f64>, HostError> {
    let text = host.read_optional("/proc/uptime")?.unwrap_or_default();
    let seconds = text.split_whitespace().next().map(str::parse::<f64>);
    let is_time = |it: &f64| it.is_finite() && *it >= 0.0;
    Ok(seconds.and_then(Result::ok).filter(is_time))
}

/// A note that lasts as long as the machine is up.
#[derive(Debug, Serialize, Deserialize)]
pub struct Note<T> {
    /// Its schema, with the version.
    pub schema: String,
    /// The boot that it was in.
    pub boot: String,
    /// How long the machine was up then, in seconds.
    pub uptime_s: f64,
    /// The note itself.
    pub told: T,
}

impl<T> Note<T> {
    /// One of now; none where the machine does not say how long it has been up.
    pub fn new(host: &Host, schema: &str, told: T) -> Result<Option<Note<T>>, HostError> {
        let boot = boot_id(host)?;
        Ok(uptime(host)?.map(|uptime_s| Note {
            schema: schema.to_owned(),
            boot,
            uptime_s,
            told,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_time_is_none() {
        let (_dir, host) = Host::planted(&[("/proc/uptime", "12.50 3.00\n")]);
        assert_eq!(uptime(&host).unwrap(), Some(12.5));
        for text in ["NaN 1\n", "inf 1\n", "-1 1\n", "\n"] {
            host.plant("/proc/uptime", text);
            assert_eq!(uptime(&host).unwrap(), None, "{text}");
        }
    }
}
