//! Predictions are for the source's page size, whatever this machine's is.

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

/// 40 pages: text with the page's number in each line, but for one of noise, four of zeros and
/// four that are another one again.
fn pages(page_size: usize) -> Vec<Vec<u8>> {
    let page = |number: usize| -> Vec<u8> {
        let line = |at: usize| format!("{number} {} {at}\n", at * at % 977).into_bytes();
        (0..).flat_map(line).take(page_size).collect()
    };
    let noise = |at: u64| (at.wrapping_mul(at | 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
    let mut pages: Vec<Vec<u8>> = (0..31).map(page).collect();
    pages.push((1..=page_size as u64).map(noise).collect());
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
                // Incompressible pages stay as they are.
                sizes.push(size.min(page_size) as u32);
            }
            let what = format!("{} on pages of {page_size}", candidate.name);
            let bytes = sizes.iter().map(|&size| u64::from(size)).sum::<u64>();
            assert_eq!(codec.compressed_bytes, bytes, "{what}");
            let raw =
                |sizes: &[u32]| sizes.iter().filter(|it| **it == page_size as u32).count() as u64;
            assert_eq!(codec.incompressible_pages, 1, "{what}");
            assert_eq!(
                codec.melded_incompressible_pages,
                raw(&sizes[..32]),
                "{what}"
            );
            for (range, &count) in codec.pages_by_size.iter().enumerate() {
                let part = page_size / 32;
                let is_in = |size: &&u32| {
                    (range * part + 1..=(range + 1) * part).contains(&(**size as usize))
                        && **size < page_size as u32
                };
                let found = sizes.iter().filter(is_in).count() as u64;
                assert_eq!(count, found, "{what}, range {range}");
            }
            let compressed: u64 = codec.pages_by_size.iter().sum();
            assert_eq!(compressed + codec.incompressible_pages, 36, "{what}");
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
