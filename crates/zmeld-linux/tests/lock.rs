//! Locks by themselves: no program is started here, which would have the file open, too.

use std::fs;
use std::os::unix::fs::{symlink, MetadataExt};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use zmeld_linux::lock::{holder, Attempt, FileLock, Holder};

#[test]
fn the_second_is_told_of_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lock");
    assert_eq!(holder(&path).unwrap(), None);
    let Attempt::Taken(first) = FileLock::attempt(&path).unwrap() else {
        panic!("nobody has it");
    };
    let us = Holder {
        pid: Some(std::process::id()),
    };
    let Attempt::Held(told) = FileLock::attempt(&path).unwrap() else {
        panic!("it is held");
    };
    assert_eq!((told, holder(&path).unwrap()), (us, Some(us)));
    let mode = fs::metadata(&path).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600, "others can open and so lock it");
    drop(first);
    assert_eq!(holder(&path).unwrap(), None);
    // Asking keeps nobody from it.
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                holder(&path).unwrap();
            }
        });
        let mut attempts = (0..2000).map(|_| FileLock::attempt(&path).unwrap());
        let refused = attempts.find(|it| matches!(it, Attempt::Held(_)));
        is_over.store(true, Ordering::Relaxed);
        assert!(refused.is_none(), "{refused:?}");
    });
}

#[test]
fn a_link_is_refused_and_what_it_leads_to_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (target, link) = (folder.path().join("target"), folder.path().join("lock"));
    fs::write(&target, "untouched").unwrap();
    symlink(&target, &link).unwrap();
    assert!(FileLock::attempt(&link).is_err());
    assert!(FileLock::wait(&link).is_err());
    assert_eq!(fs::read_to_string(&target).unwrap(), "untouched");
}
