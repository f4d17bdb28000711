//! Whether a machine that hibernates can keep its image, by one function for plans and for
//! findings: the partition that it resumes from has to be swapped to, and to be as large
//! as the image that the kernel aims at.

use zmeld_config::Finding;
use zmeld_report::units::bytes;

/// What is known of where an image would be kept.
#[derive(Debug)]
pub struct Image<'a> {
    /// What says that the machine hibernates.
    pub resume: &'a str,
    /// The largest swap on a disk, with its size in bytes.
    pub largest: Option<(&'a str, u64)>,
    /// The swap partition that it resumes from, where nothing is swapped to it.
    pub idle: Option<&'a str>,
    /// How large an image the kernel aims at; none where it does not say.
    pub bytes: Option<u64>,
}

impl Image<'_> {
    /// Why it cannot be kept; none where it can, or nobody can tell.
    pub fn lack(&self) -> Option<Finding> {
        let resume = self.resume;
        let (what, why, remedy) = match (self.idle, self.largest) {
            (Some(idle), _) => (
                format!(
                    "{idle}, which the machine resumes from, is not swapped to: no image can be \
                     kept"
                ),
                format!("{idle} is not in /proc/swaps"),
                "zmeld plan puts zswap in front of it (zmeld plan --take-over where there is \
                 compressed swap already); or say noresume on the kernel's command line"
                    .to_owned(),
            ),
            (None, None) => (
                "there is no swap on a disk: no image can be kept".to_owned(),
                "/proc/swaps lists no disk".to_owned(),
                "swap on what it resumes from, or say noresume on the kernel's command line"
                    .to_owned(),
            ),
            (None, Some((path, size))) => {
                let image = self.bytes.filter(|image| *image > size)?;
                let smaller = size / 5 * 4;
                (
                    "no swap on a disk is as large as the image that the kernel aims at: it may \
                     fail"
                        .to_owned(),
                    format!(
                        "/sys/power/image_size is {}, {path} has {}",
                        bytes(image),
                        bytes(size)
                    ),
                    format!(
                        "echo {smaller} > /sys/power/image_size, for a smaller one, or a larger \
                         swap partition"
                    ),
                )
            }
        };
        let what = format!("hibernation is set up, and {what}");
        let why = format!("{resume}; {why}");
        Some(Finding::of_machine("hibernation", what, why, remedy))
    }
}
