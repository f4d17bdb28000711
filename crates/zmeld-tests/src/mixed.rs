//! This machine's programs, libraries and texts, in whole pages: what swap is given.

use std::fs;

/// The first files of each folder, `file_most` bytes of each, until so many bytes are there.
pub fn files(folders: &[(&str, usize)], file_most: usize, page: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for &(folder, until) in folders {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        paths.retain(|path| path.is_file() && !path.is_symlink());
        paths.sort();
        for path in paths {
            if bytes.len() >= until {
                break;
            }
            let file = fs::read(&path).unwrap_or_default();
            bytes.extend_from_slice(&file[..file.len().min(file_most) / page * page]);
        }
    }
    bytes
}
