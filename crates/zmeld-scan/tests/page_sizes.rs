//! What is predicted is for the pages that the source has, whatever this machine's are.

use std::fs;
use std::sync::atomic::AtomicBool;

use zmeld_scan::kernel::PoolModel;
use zmeld_scan::memory::FileSource;
use zmeld_scan::{scan, Candidate, ScanError, ScanOptions, ScanProgress, ScanResult};
use zmeld_store::{Stream, SHARE_BYTES};

const NAMES: [&str; 4] = ["lz4", "lzo-rle", "zstd", "zword"];

fn candidates() -> Vec<Candidate> {
    let open = |name: &str| Candidate::open(&name.parse().unwrap()).unwrap();
    NAMES.into_iter().map(open).collect()
}

fn scanned(bytes: &[u8], page_size: usize) -> Result<ScanResult, ScanError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pages");
    fs::write(&path, bytes).unwrap();
    let source = FileSource::open(&path, page_size).unwrap();
    let mut options = ScanOptions::new(candidates());
    options.full = true;
    scan(
        &source,
        &options,
        &AtomicBool::new(false),
        &ScanProgress::default(),
    )
}

/// 40 pages: text with the page's number in each line, but for four of zeros and four
/// that are another one again.
fn pages(page_size: usize) -> Vec<Vec<u8>> {
    let page = |number: usize| -> Vec<u8> {
        let line = |at: usize| format!("{number} {} {at}\n", at * at % 977).into_bytes();
        (0..).flat_map(line).take(page_size).collect()
    };
    let mut pages: Vec<Vec<u8>> = (0..32).map(page).collect();
    pages.extend(vec![vec![0; page_size]; 4]);
    pages.extend((0..4).map(page));
    pages
}

#[test]
fn pages_of_other_machines_are_predicted_for() {
    for page_size in [4 << 10, 16 << 10, 64 << 10] {
        let pages = pages(page_size);
        let result = scanned(&pages.concat(), page_size).unwrap();
        assert_eq!(result.page_size, page_size as u64);
        assert_eq!(result.pages.total, 40);
        assert_eq!((result.pages.zero, result.pages.duplicate), (4, 4));
        let pool = PoolModel::running(&result.machine.kernel, page_size as u32);
        for (candidate, codec) in candidates().iter().zip(&result.codecs) {
            let mut stream = Stream::new(&candidate.codec.for_pages(page_size).unwrap()).unwrap();
            let mut object = vec![0; 2 * page_size];
            let mut sizes = Vec::new();
            for page in pages.iter().filter(|page| page[0] != 0) {
                let size = stream.compress(page, &mut object).unwrap();
                let mut back = vec![1; page_size];
                stream.decompress(&object[..size], &mut back).unwrap();
                assert_eq!(&back, page);
                sizes.push(size as u32);
            }
            let what = format!("{} on pages of {page_size}", candidate.name);
            let bytes = sizes.iter().map(|&size| u64::from(size)).sum::<u64>();
            assert_eq!(codec.compressed_bytes, bytes, "{what}");
            let used = |sizes: &[u32]| -> u64 {
                let mut classes = vec![0; pool.geometry.classes()];
                for &size in sizes {
                    classes[pool.geometry.class(size)] += 1;
                }
                let used = classes.iter().enumerate();
                used.map(|(class, &count)| pool.geometry.class_bytes(class, count))
                    .sum()
            };
            assert_eq!(codec.memory_used_bytes, used(&sizes), "{what}");
            // The last four are shared.
            let melded = used(&sizes[..32]) + 4 * SHARE_BYTES;
            assert_eq!(codec.melded_memory_used_bytes, melded, "{what}");
        }
    }
}

#[test]
fn the_same_bytes_in_larger_pages_have_fewer_twins() {
    let small = pages(4 << 10).concat();
    let result = scanned(&small, 16 << 10).unwrap();
    // The last four pages are the first four: one page, and so one twin.
    assert_eq!((result.pages.total, result.pages.duplicate), (10, 1));
}

#[test]
fn pages_that_no_kernel_has_are_refused() {
    let error = scanned(&[1; 8192], 2048).unwrap_err().to_string();
    assert!(
        error.contains("2048 bytes: pages are a power of two from 4096"),
        "{error}"
    );
}
