//! Whether a machine that hibernates can keep its image, by one function for plans and for
//! findings: the partition that it resumes from has to be swapped to, and to be as large
//! as the image that the kernel aims at.

use std::path::Path;

use zmeld_report::units::bytes;

use crate::finding::Finding;

/// Why it cannot be kept; none where it can, or nobody can tell. `resume`: what says that the
/// machine hibernates; `disks`: swap on disks, with sizes in bytes; `area`: the one of them that it
/// resumes from, where that is known; `idle`: the swap partition that it resumes from, where
/// nothing is swapped to it; `image_bytes`: how large an image the kernel aims at, where it says so.
pub fn lack<'a>(
    resume: &str,
    disks: impl Iterator<Item = (&'a str, u64)>,
    area: Option<&Path>,
    idle: Option<&str>,
    image_bytes: Option<u64>,
) -> Option<Finding> {
    let disks = disks.filter(|(path, _)| area.is_none_or(|it| it == Path::new(path)));
    let largest = disks.max_by_key(|(_, size)| *size);
    let (what, why, remedy) = match (idle, largest) {
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
            "swap on what it resumes from, or say noresume on the kernel's command line".to_owned(),
        ),
        (None, Some((path, size))) => {
            let image = image_bytes.filter(|image| *image > size)?;
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
