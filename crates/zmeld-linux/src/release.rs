//! The release of a kernel, as far as what it can do depends on it.

/// The first two numbers of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion {
    /// The first number.
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
