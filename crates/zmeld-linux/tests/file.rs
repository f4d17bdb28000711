//! Files written whole, with somebody else at work in the folder.

use std::fs::{self, File, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{lchown, symlink, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{mknodat, FileType, Mode, CWD};
use tempfile::TempDir;
use zmeld_linux::file::{check, create, remove_parts, replace};

/// A user that is neither root nor whoever runs the tests.
const SOMEBODY: u32 = 54321;

fn folder() -> (TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let (victim, name) = (dir.path().join("victim"), dir.path().join("name"));
    fs::write(&victim, "old").unwrap();
    (dir, victim, name)
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o7777
}

fn names(dir: &TempDir) -> Vec<String> {
    let mut all: Vec<String> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    all.sort();
    all
}

/// Gives a thing to somebody else. Only root can; others see the rest of the test.
fn given_away(path: &Path) -> bool {
    let given = lchown(path, Some(SOMEBODY), Some(SOMEBODY)).is_ok();
    if !given {
        eprintln!("skipped in part: only root can make another user's link");
    }
    given
}

fn refused(path: &Path) -> String {
    let early = check(path).unwrap_err().to_string();
    let late = replace(path, b"new", None).unwrap_err().to_string();
    assert_eq!(early, late);
    late
}

#[test]
fn a_file_is_made_and_replaced_and_nothing_else_is_left() {
    let (dir, victim, name) = folder();
    replace(&name, b"one", None).unwrap();
    assert_eq!(text(&name), "one");
    // The mode of a plain file: by the umask, no more.
    let plain = dir.path().join("plain");
    File::create(&plain).unwrap();
    assert_eq!(mode(&name), mode(&plain));
    // Another name of the old content keeps the old content.
    fs::hard_link(&victim, dir.path().join("other")).unwrap();
    fs::set_permissions(&victim, Permissions::from_mode(0o640)).unwrap();
    replace(&victim, b"new", None).unwrap();
    assert_eq!((text(&victim).as_str(), mode(&victim)), ("new", 0o640));
    assert_eq!(text(&dir.path().join("other")), "old");
    replace(&victim, b"newer", Some(0o600)).unwrap();
    assert_eq!((text(&victim).as_str(), mode(&victim)), ("newer", 0o600));
    assert_eq!(names(&dir), ["name", "other", "plain", "victim"]);
}

#[test]
fn bits_that_lend_rights_are_not_passed_on() {
    let (_dir, victim, _) = folder();
    fs::set_permissions(&victim, Permissions::from_mode(0o4755)).unwrap();
    replace(&victim, b"new", None).unwrap();
    assert_eq!(mode(&victim), 0o755);
}

#[test]
fn a_mode_is_not_taken_over_from_somebody_elses_file() {
    let (dir, victim, _) = folder();
    fs::set_permissions(&victim, Permissions::from_mode(0o666)).unwrap();
    if !given_away(&victim) {
        return;
    }
    replace(&victim, b"new", None).unwrap();
    let plain = dir.path().join("plain");
    File::create(&plain).unwrap();
    assert_eq!(mode(&victim), mode(&plain));
    assert_ne!(victim.metadata().unwrap().uid(), SOMEBODY);
}

#[test]
fn another_users_link_is_refused_and_ones_own_is_followed() {
    let (dir, victim, name) = folder();
    symlink(&victim, &name).unwrap();
    replace(&name, b"through", None).unwrap();
    assert_eq!(text(&victim), "through");
    assert!(name.is_symlink(), "the link stays");
    if given_away(&name) {
        let said = refused(&name);
        assert!(
            said.contains("a symbolic link of another user (uid 54321)"),
            "{said}"
        );
        assert_eq!(text(&victim), "through");
        // One's own link to it, too.
        let second = dir.path().join("second");
        symlink("name", &second).unwrap();
        assert!(refused(&second).contains("uid 54321"));
        assert_eq!(text(&victim), "through");
    }
}

#[test]
fn links_to_nothing_make_it_and_links_in_a_circle_end() {
    let (dir, _, name) = folder();
    symlink("later", &name).unwrap();
    replace(&name, b"made", None).unwrap();
    assert_eq!(text(&dir.path().join("later")), "made");
    let (_dir, _, name) = folder();
    symlink(&name, &name).unwrap();
    let said = refused(&name);
    assert!(said.contains("Too many levels of symbolic links"), "{said}");
}

#[test]
fn what_is_no_regular_file_is_not_written_to() {
    let (dir, victim, name) = folder();
    assert!(refused(dir.path()).ends_with("it is a directory; name a file in it"));
    assert!(refused(Path::new("/dev/null")).contains("no regular file"));
    let fifo = dir.path().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    assert!(refused(&fifo).contains("no regular file"));
    let file = File::open(&victim).unwrap();
    let open = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    assert!(refused(&open).contains("an open descriptor"));
    // A loop device that is not there: nothing can come to harm.
    let (mode, number) = (Mode::from_raw_mode(0o600), rustix::fs::makedev(7, 255));
    match mknodat(CWD, &name, FileType::BlockDevice, mode, number) {
        Ok(()) => assert!(refused(&name).contains("it is a block device")),
        Err(cause) => eprintln!("skipped in part: cannot make a block device: {cause}"),
    }
}

#[test]
fn a_new_file_replaces_nothing() {
    let (dir, victim, name) = folder();
    let said = create(&victim, b"new", None).unwrap_err().to_string();
    assert!(said.contains("victim: it is there already"), "{said}");
    symlink("nothing", &name).unwrap();
    assert!(create(&name, b"new", None).is_err());
    assert_eq!(text(&victim), "old");
    create(&dir.path().join("fresh"), b"new", None).unwrap();
    assert_eq!(names(&dir), ["fresh", "name", "victim"]);
}

#[test]
fn errors_name_the_file_and_not_the_one_beside_it() {
    let (dir, _, _) = folder();
    let path = dir.path().join("no/name");
    let early = check(&path).unwrap_err().to_string();
    assert!(early.ends_with("no; create it first"), "{early}");
    let said = replace(&path, b"x", None).unwrap_err().to_string();
    assert_eq!(
        said,
        format!("cannot write {}: No such file or directory", path.display())
    );
    assert!(replace(Path::new(""), b"x", None).is_err());
}

#[test]
fn what_a_killed_writer_left_is_removed_and_nothing_else() {
    let (dir, _, _) = folder();
    let others = [".zmeld-mine", ".zmeld-watch.json-x8Fq2.part", "other.part"];
    for name in others.iter().chain(&[".zmeld-state.json-x8Fq2.part"]) {
        fs::write(dir.path().join(name), "").unwrap();
    }
    remove_parts(&dir.path().join("state.json")).unwrap();
    assert_eq!(names(&dir), [&others[..], &["victim"]].concat());
}
