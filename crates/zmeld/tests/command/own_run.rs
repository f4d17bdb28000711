//! `/run` of a test's own: what the machine has there, without what zmeld has noted. So no test
//! depends on what was run before, nor leaves anything there. Only the test's thread sees it,
//! and what it starts.

use std::fs;
use std::io;
use std::path::Path;

use nix::mount::{mount, MsFlags};
use nix::sched::{unshare, CloneFlags};
use zmeld_tests::is_root;
use zmeld_tests::turn::NOTES;

/// Says in such a `/run` whose it is, and whether zmeld has set the machine up.
const MARK: &str = "/run/own-run-of";
const SET_UP: &str = "set up";

#[derive(Clone, Copy, PartialEq)]
pub enum Owner {
    /// The test whose turn it is to change the machine: the next one finds what a killed one noted.
    Turn,
    /// Any other test; it is gone with it.
    Other,
}

/// Sees to it that `/run` is a test's own; false without root, for whom there is nothing to
/// see to, and in a chroot, where mounts would be seen outside.
pub fn enter(owner: Owner) -> bool {
    let mark = fs::read_to_string(MARK).ok();
    let is = |mark: &String| owner == Owner::Other || mark.starts_with("turn");
    if !is_root() || mark.as_ref().is_some_and(is) {
        return is_root();
    }
    match mount_own(owner) {
        Err(cause) if cause.kind() == io::ErrorKind::InvalidInput => false,
        made => made.map(|()| true).expect("/run can be mounted"),
    }
}

/// Whether zmeld has set the machine up, without any test.
pub fn is_set_up() -> bool {
    match fs::read_to_string(MARK) {
        Ok(mark) => mark.ends_with(SET_UP),
        Err(_) => Path::new("/run/zmeld/state.json").exists(),
    }
}

fn mount_own(owner: Owner) -> io::Result<()> {
    let (own, set_up) = (Path::new(NOTES).join("run"), is_set_up());
    fs::create_dir_all(&own)?;
    unshare(CloneFlags::CLONE_NEWNS)?;
    let none = None::<&str>;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(none, "/", none, private, none)?;
    let bind =
        |from: &Path, to: &Path, more| mount(Some(from), to, none, MsFlags::MS_BIND | more, none);
    if owner == Owner::Other {
        mount(
            Some("own"),
            &own,
            Some("tmpfs"),
            MsFlags::empty(),
            Some("mode=755"),
        )?;
    }
    for entry in fs::read_dir("/run")? {
        let entry = entry?;
        let is_ours = entry.file_name().as_encoded_bytes().starts_with(b"zmeld");
        if entry.file_type()?.is_dir() && !is_ours {
            let to = own.join(entry.file_name());
            fs::create_dir_all(&to)?;
            bind(&entry.path(), &to, MsFlags::MS_REC)?;
        }
    }
    let notes = own.join("zmeld-tests");
    fs::create_dir_all(&notes)?;
    bind(Path::new(NOTES), &notes, MsFlags::empty())?;
    let mark = own.join(Path::new(MARK).file_name().expect("a name"));
    let of = if owner == Owner::Turn {
        "turn"
    } else {
        "other"
    };
    fs::write(mark, format!("{of} {}", if set_up { SET_UP } else { "" }))?;
    Ok(bind(&own, Path::new("/run"), MsFlags::MS_REC)?)
}
