//! Machines as directories: files under `machines` name paths and contents.
//! They are written after the formats in those kernels' sources.

use std::fs;
use std::io;
use std::path::Path;

use zmeld_linux::Host;

pub const MACHINES: [(&str, &str); 3] = [
    ("6.1", include_str!("../machines/6.1.txt")),
    ("6.12", include_str!("../machines/6.12.txt")),
    ("7.2", include_str!("../machines/7.2.txt")),
];

pub fn files(text: &str) -> Vec<(String, String)> {
    text.split("== ")
        .skip(1)
        .map(|part| {
            let (path, contents) = part.split_once('\n').expect("a path and a line feed");
            (path.to_owned(), contents.to_owned())
        })
        .collect()
}

pub fn put(root: &Path, path: &str, contents: impl AsRef<[u8]>) {
    Host::at(root).plant(path, contents);
}

/// The files of the machine of that kernel below a root.
pub fn plant_in(kernel: &str, root: &Path) {
    let (_, text) = MACHINES.iter().find(|(name, _)| *name == kernel).unwrap();
    for (path, contents) in files(text) {
        put(root, &path, contents);
    }
}

/// The machine of that kernel as a directory.
pub fn plant(kernel: &str) -> (tempfile::TempDir, Host) {
    let dir = tempfile::tempdir().unwrap();
    plant_in(kernel, dir.path());
    let host = Host::at(dir.path());
    (dir, host)
}

/// The error with the number in the file that has that name and `.read` or `.write` behind it.
pub fn refuse(path: &Path, what: &str) -> io::Result<()> {
    match fs::read_to_string(format!("{}.{what}", path.display())) {
        Ok(number) => Err(io::Error::from_raw_os_error(number.trim().parse().unwrap())),
        Err(_) => Ok(()),
    }
}
