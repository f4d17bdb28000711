//! Whether a machine hibernates, by one reading for plans and findings: it says where to
//! resume from on the kernel's command line, or an initramfs wrote that into
//! `/sys/power/resume`.

/// Where the kernel was told, and what an initramfs told it.
pub(crate) const COMMAND_LINE: &str = "/proc/cmdline";
/// The device that the kernel resumes from: `8:2`, or `0:0` for none.
pub(crate) const POWER: &str = "/sys/power/resume";

/// Where a machine resumes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resume {
    /// The device, as it is named there.
    pub device: String,
    /// What says so.
    pub said_by: &'static str,
}

impl std::fmt::Display for Resume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.said_by {
            COMMAND_LINE => write!(f, "resume={} on the kernel's command line", self.device),
            path => write!(f, "{} in {path}", self.device),
        }
    }
}

/// What the two files come to; none where the machine does not hibernate.
pub(crate) fn resume(command_line: &str, power: Option<&str>) -> Option<Resume> {
    let words = || command_line.split_whitespace();
    if words().any(|word| word == "noresume" || word == "nohibernate") {
        return None;
    }
    // The kernel takes the last.
    let named = words().rev().find_map(|word| word.strip_prefix("resume="));
    let named = named.filter(|device| !device.is_empty());
    let found = |device: &str, said_by| Resume {
        device: device.to_owned(),
        said_by,
    };
    let power = || {
        power
            .map(str::trim)
            .filter(|it| !it.is_empty() && *it != "0:0")
    };
    named
        .map(|device| found(device, COMMAND_LINE))
        .or_else(|| power().map(|device| found(device, POWER)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_of_the_command_line_counts_and_then_what_an_initramfs_said() {
        let said = |line: &str, power| resume(line, power).map(|it| it.to_string());
        let by_line = |device: &str| Some(format!("resume={device} on the kernel's command line"));
        assert_eq!(
            said("quiet resume=UUID=12", Some("0:0")),
            by_line("UUID=12")
        );
        assert_eq!(
            said("resume=/dev/a resume=/dev/b", Some("8:2")),
            by_line("/dev/b")
        );
        let by_power = Some("8:2 in /sys/power/resume".to_owned());
        assert_eq!(said("quiet", Some("8:2\n")), by_power);
        assert_eq!(said("resume=", Some("8:2")), by_power);
        for (line, power) in [
            ("quiet", Some("0:0")),
            ("quiet", None),
            ("resume=/dev/a noresume", Some("8:2")),
            ("nohibernate", Some("8:2")),
            ("", Some("")),
        ] {
            assert_eq!(said(line, power), None, "{line} {power:?}");
        }
    }
}
