//! Files, and what is not one.

use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use zmeld_scan::memory::{open_path, FileSource, SkipReason, Source};

#[test]
fn a_file_that_shrinks_is_counted_not_invented() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), vec![7; 64 * 4096]).unwrap();
    let source = FileSource::open(file.path(), 4096).unwrap();
    file.as_file().set_len(10 * 4096 + 100).unwrap();
    let visit = source
        .visit(1, &AtomicBool::new(false), &|batch| {
            assert!(batch.bytes.iter().all(|&b| b == 7))
        })
        .unwrap();
    assert_eq!(
        (
            visit.counted.delivered,
            visit.skipped.get(SkipReason::Shrunk).pages
        ),
        (10, 54)
    );
}

#[test]
fn a_named_pipe_is_a_stream() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe");
    if !std::process::Command::new("mkfifo")
        .arg(&path)
        .status()
        .is_ok_and(|status| status.success())
    {
        println!("SKIP: no mkfifo");
        return;
    }
    let to = path.clone();
    let writer = std::thread::spawn(move || std::fs::write(to, vec![5; 10_000]).unwrap());
    let source = open_path(&path, 4096, false).unwrap();
    assert_eq!(source.expected_pages(), None);
    let visit = source.visit(1, &AtomicBool::new(false), &|_| {}).unwrap();
    writer.join().unwrap();
    assert_eq!((visit.counted.delivered, visit.counted.padded), (3, 1));
}

/// Two pages and a half of data in a tebibyte, one of them in part, at no page's boundary.
#[test]
fn holes_are_counted_and_not_read() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let written = [
        (1 << 39, 4096),
        ((1 << 39) + 40_000, 8192),
        ((1 << 40) - 9, 9),
    ];
    for (at, bytes) in written {
        file.as_file().write_all_at(&vec![7; bytes], at).unwrap();
    }
    for page_size in [4096, 65536] {
        let source = FileSource::open(file.path(), page_size).unwrap();
        let delivered = AtomicU64::new(0);
        let visit = source
            .visit(2, &AtomicBool::new(false), &|batch| {
                let pages = (batch.first_page..).zip(batch.bytes.chunks(page_size));
                for (number, page) in pages {
                    let sevens = page.iter().filter(|&&byte| byte == 7).count() as u64;
                    delivered.fetch_add(sevens, Ordering::Relaxed);
                    let begin = number * page_size as u64;
                    let within = |(at, bytes): (u64, usize)| {
                        let end = (at + bytes as u64).min(begin + page_size as u64);
                        end.saturating_sub(at.max(begin))
                    };
                    assert_eq!(sevens, written.map(within).iter().sum::<u64>());
                }
            })
            .unwrap();
        assert_eq!(delivered.into_inner(), 4096 + 8192 + 9);
        let counted = visit.counted;
        let pages = (1 << 40) / page_size as u64;
        assert_eq!(counted.delivered + counted.never_written, pages);
        assert_eq!(source.expected_pages(), Some(counted.delivered));
        // A file system may know only larger blocks than a page.
        assert!(counted.delivered < 100, "{}", counted.delivered);
    }
}
