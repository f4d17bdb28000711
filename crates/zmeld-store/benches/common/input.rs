//! The pages that are stored: distinct pages of real files, and orders of them
//! in which a chosen share repeats.
#![allow(dead_code)] // Each benchmark uses its part.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::{xxh3_128, xxh3_64};
use zmeld_store::{fill_word, page_size};

/// Default sources of pages: code, its tables of constants, text and databases, as a machine's
/// memory holds them too.
const DEFAULT: &[&str] = &["/usr/lib", "/usr/bin", "/usr/libexec", "/usr/sbin"];

/// Pages of one file at most, so that no file decides the result.
pub const FILE_PAGES_MAX: usize = 2048;

/// Distinct pages, none of them same-filled.
pub struct Pages {
    bytes: Vec<u8>,
    /// Their description.
    pub about: String,
}

impl Pages {
    /// Up to `wanted` pages of the files under `paths`.
    pub fn read(paths: &[PathBuf], wanted: usize) -> Result<Pages, String> {
        let chosen: Vec<PathBuf> = match paths {
            [] => DEFAULT.iter().map(PathBuf::from).collect(),
            given => given.to_vec(),
        };
        let mut files = Vec::new();
        for path in &chosen {
            list_files(path, &mut files);
        }
        // The same order each time, but a mixture of all folders.
        files.sort_by_key(|path| xxh3_64(path.as_os_str().as_encoded_bytes()));
        let mut bytes = Vec::with_capacity(wanted * page_size());
        let mut seen = HashSet::new();
        let mut used = 0;
        for file in &files {
            if bytes.len() == wanted * page_size() {
                break;
            }
            used += usize::from(take_pages(file, wanted, &mut seen, &mut bytes));
        }
        let count = bytes.len() / page_size();
        if count < 64 {
            return Err(format!(
                "only {count} distinct pages were found; name more files with --input"
            ));
        }
        let from: Vec<String> = chosen
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        Ok(Pages {
            bytes,
            about: format!(
                "{count} distinct pages, none same-filled, of {used} files under {}",
                from.join(", ")
            ),
        })
    }

    pub fn count(&self) -> usize {
        self.bytes.len() / page_size()
    }

    pub fn page(&self, index: usize) -> &[u8] {
        &self.bytes[index * page_size()..][..page_size()]
    }
}

fn list_files(path: &Path, files: &mut Vec<PathBuf>) {
    let Ok(about) = fs::symlink_metadata(path) else {
        return;
    };
    if about.is_file() && about.len() >= page_size() as u64 {
        files.push(path.to_path_buf());
    } else if about.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            list_files(&entry.path(), files);
        }
    }
}

/// Whether the file gave any page.
fn take_pages(file: &Path, wanted: usize, seen: &mut HashSet<u128>, bytes: &mut Vec<u8>) -> bool {
    let mut content = Vec::new();
    let limit = (FILE_PAGES_MAX * page_size()) as u64;
    let read = File::open(file).and_then(|file| file.take(limit).read_to_end(&mut content));
    if read.is_err() {
        return false;
    }
    let before = bytes.len();
    for page in content.chunks_exact(page_size()) {
        if bytes.len() == wanted * page_size() {
            break;
        }
        if fill_word(page).is_none() && seen.insert(xxh3_128(page)) {
            bytes.extend_from_slice(page);
        }
    }
    bytes.len() > before
}

/// The number `at` of the sequence that `seed` starts: SplitMix64 (G. Steele, D. Lea,
/// C. Flood, 2014).
pub fn random_at(seed: u64, at: u64) -> u64 {
    let mut z = seed.wrapping_add((at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Random index below `of`.
pub fn chosen(random: u64, of: usize) -> usize {
    ((u128::from(random) * of as u128) >> 64) as usize
}

/// Which page goes to which slot.
pub struct Order {
    /// Page numbers by slot.
    pub pages: Vec<usize>,
    /// Pages that melding would drop.
    pub duplicates: usize,
}

/// `count` pages of which `share` repeat another, well mixed.
pub fn order(count: usize, share: f64, seed: u64) -> Order {
    let duplicates = (count as f64 * share).round() as usize;
    let unique = count - duplicates;
    let mut drawn = 0;
    let mut below = |bound| {
        drawn += 1;
        chosen(random_at(seed, drawn - 1), bound)
    };
    let mut pages: Vec<usize> = (0..unique).collect();
    for _ in 0..duplicates {
        pages.push(below(unique));
    }
    for at in (1..pages.len()).rev() {
        pages.swap(at, below(at + 1));
    }
    Order { pages, duplicates }
}
