//! `/proc/swaps`: the active swap areas.
//!
//! One parser for everybody. What to do about a line that is none is the
//! caller's: who is about to switch swap off refuses it, who shows it says so.

use std::path::PathBuf;

use crate::octal;

/// Where the kernel lists them.
pub const PATH: &str = "/proc/swaps";

/// An active swap area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwapArea {
    /// Its path, symbolic links resolved, as the kernel shows it. That of a
    /// deleted file ends in ` (deleted)`.
    pub path: PathBuf,
    /// A block device, not a file.
    pub is_device: bool,
    /// Its size, without the header page.
    pub size_bytes: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Higher is filled first; below 0 the kernel chose it.
    pub priority: i32,
}

/// A line that is no swap area.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {number} is no swap area: {line}")]
pub struct WrongLine {
    /// Its number in the file, from 1.
    pub number: usize,
    /// What it says, unchanged.
    pub line: String,
}

/// The areas in the text of `/proc/swaps`, in its order. The first line, a
/// heading, and empty ones are passed over.
pub fn parse(text: &str) -> impl Iterator<Item = Result<SwapArea, WrongLine>> + '_ {
    text.lines()
        .enumerate()
        .skip(1)
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(at, line)| {
            area(line).ok_or_else(|| WrongLine {
                number: at + 1,
                line: line.to_owned(),
            })
        })
}

fn area(line: &str) -> Option<SwapArea> {
    // The kernel escapes the white space in paths, that of " (deleted)" too.
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [path, kind, size, used, priority] = fields[..] else {
        return None;
    };
    let kibibytes = |text: &str| text.parse::<u64>().ok()?.checked_mul(1024);
    Some(SwapArea {
        path: PathBuf::from(octal::unescape_name(path.as_bytes())),
        is_device: match kind {
            "partition" => true,
            "file" => false,
            _ => return None,
        },
        size_bytes: kibibytes(size)?,
        used_bytes: kibibytes(used)?,
        priority: priority.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const HEAD: &str = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";

    #[test]
    fn areas_are_read() {
        let text = format!(
            "{HEAD}/dev/zram1                              partition\t1024\t\t512\t\t100\n\
             \n\
             /var/swap\\040file\\040(deleted)            file\t\t2048\t\t0\t\t-2\n"
        );
        let areas: Vec<_> = parse(&text).map(Result::unwrap).collect();
        assert_eq!(
            areas,
            [
                SwapArea {
                    path: "/dev/zram1".into(),
                    is_device: true,
                    size_bytes: 1 << 20,
                    used_bytes: 1 << 19,
                    priority: 100,
                },
                SwapArea {
                    path: "/var/swap file (deleted)".into(),
                    is_device: false,
                    size_bytes: 2 << 20,
                    used_bytes: 0,
                    priority: -2,
                },
            ]
        );
        assert_eq!(parse(HEAD).count() + parse("").count(), 0);
    }

    #[test]
    fn a_line_that_is_no_area_is_named() {
        for line in [
            "/dev/zram1 partition 1024 512",
            "/dev/zram1 partition 1024 512 high",
            "/dev/zram1 partition -1 512 1",
            "/dev/zram1 partition 99999999999999999999 0 1",
            "/dev/zram1 partition 18446744073709551615 0 1",
            "/dev/zram1 pipe 1024 0 1",
            "/a b file 1024 0 1",
        ] {
            let text = format!("{HEAD}/dev/a file 8 0 -2\n{line}\n");
            let areas: Vec<_> = parse(&text).collect();
            assert_eq!(areas[0].as_ref().unwrap().path, Path::new("/dev/a"));
            let wrong = areas[1].as_ref().unwrap_err();
            assert_eq!((wrong.number, wrong.line.as_str()), (3, line));
        }
    }
}
