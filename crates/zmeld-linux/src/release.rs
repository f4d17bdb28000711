//! The release of a kernel, and how it was built, as far as what it can do depends on it.

use std::io::Read;

use crate::Host;

/// The first two numbers of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion {
    pub major: u32,
    /// The second number.
    pub minor: u32,
}

impl KernelVersion {
    /// These two numbers.
    pub const fn new(major: u32, minor: u32) -> KernelVersion {
        KernelVersion { major, minor }
    }

    /// Reads a release such as `6.1.0-18-amd64`.
    pub fn parse(release: &str) -> Option<KernelVersion> {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit());
        Some(KernelVersion {
            major: numbers.next()?.parse().ok()?,
            minor: numbers.next()?.parse().ok()?,
        })
    }

    /// The running kernel's; none where `/proc` does not say it.
    pub fn running() -> Option<KernelVersion> {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
        KernelVersion::parse(&release)
    }
}

/// How the machine's kernel, of that release, was configured: the text of its `.config`. None
/// where neither the kernel nor a file of a distribution says it.
pub fn configuration(host: &Host, release: &str) -> Option<String> {
    let release = release.trim();
    let own = host.read_bytes("/proc/config.gz").ok().and_then(|packed| {
        let mut text = String::new();
        let mut unpacked = flate2::read::GzDecoder::new(&packed[..]).take(CONFIGURATION_MAX);
        unpacked.read_to_string(&mut text).ok()?;
        Some(text)
    });
    let files = [
        format!("/boot/config-{release}"),
        format!("/lib/modules/{release}/config"),
    ];
    own.or_else(|| files.iter().find_map(|path| host.read(path).ok()))
}

/// The value of an option of such a text: `y`, `m`, a number; none where it is not set.
pub fn option<'a>(configuration: &'a str, name: &str) -> Option<&'a str> {
    let value = |line: &'a str| line.strip_prefix(name)?.strip_prefix('=');
    configuration.lines().find_map(value)
}

/// More is no configuration: Debian's has a third of a megabyte.
const CONFIGURATION_MAX: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn what_the_kernel_was_built_with_is_found_where_distributions_keep_it() {
        let (_folder, host) = Host::planted(&[]);
        assert_eq!(configuration(&host, "6.1.0"), None);
        let found = || configuration(&host, "6.1.0").unwrap();
        for (path, text) in [
            ("/lib/modules/6.1.0/config", "CONFIG_A=y"),
            ("/boot/config-6.1.0", "CONFIG_B=y"),
        ] {
            host.plant(path, text);
            assert_eq!(found(), text);
        }
        // The kernel's own goes before them.
        let mut packed = GzEncoder::new(Vec::new(), flate2::Compression::default());
        packed.write_all(b"CONFIG_ZRAM=m\n").unwrap();
        host.plant("/proc/config.gz", packed.finish().unwrap());
        assert_eq!(found(), "CONFIG_ZRAM=m\n");
        assert_eq!(option(&found(), "CONFIG_ZRAM"), Some("m"));
        assert_eq!(option(&found(), "CONFIG_ZR"), None);
    }
}
