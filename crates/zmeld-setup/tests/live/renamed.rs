//! An ordinary user renames folders and makes links as fast as that
//! goes while root sets a swap file up and takes it down. It is refused, or it is
//! root's own file; what root alone may read is never written to.
//!
//! ROUNDS=1000 in the environment asks for so many in all.

use std::fs::{self, Permissions};
use std::os::unix::fs::{chown, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::{areas, config, down, turn, up};

const NOBODY: u32 = 65534;

/// Takes the name by turns: his own folder, and a link to root's.
const ATTACK: &str = "
import os, sys
folder, away, victim = sys.argv[1:4]
file = folder + '/swap'
def attempt(call, *arguments):
    try:
        call(*arguments)
    except OSError:
        pass
def own():
    os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
print(flush=True)
while True:
    attempt(os.rename, folder, away)
    attempt(os.symlink, victim, folder)
    attempt(os.unlink, folder)
    attempt(os.rename, away, folder)
    attempt(os.symlink, victim + '/swap', file)
    attempt(os.unlink, file)
    attempt(own)
    attempt(os.unlink, file)
";

/// Set up and taken down: whether it was, and what was swapped to meanwhile.
fn round(file: &Path) -> Result<Vec<String>, zmeld_setup::Error> {
    let text = format!(
        "accept = [\"file-in-ram\", \"lru-inversion\", \"priorities\"]\n\
         [tier.file]\nkind = \"disk\"\nfile = \"{}\"\nsize = \"1MiB\"\n",
        file.display()
    );
    up(&config(&text))?;
    let meta = fs::symlink_metadata(file).unwrap();
    assert_eq!((meta.uid(), meta.mode()), (0, 0o100_600));
    let on = areas();
    down()?;
    Ok(on)
}

struct Attacker(Child);

impl Attacker {
    fn begin(folder: &Path, victim: &Path) -> Attacker {
        let mut away = folder.as_os_str().to_owned();
        away.push("-away");
        let mut child = Command::new("python3")
            .args(["-c", ATTACK])
            .args([folder, Path::new(&away), victim])
            .uid(NOBODY)
            .gid(NOBODY)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
        Attacker(child)
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn who_renames_and_links_does_not_have_root_swap_to_another_file() {
    let Some(_turn) = turn(&[]) else {
        return;
    };
    if Command::new("python3").arg("-V").output().is_err() {
        eprintln!("SKIP: there is no python3");
        return;
    }
    let rounds = std::env::var("ROUNDS").map_or(30, |it| it.parse().unwrap());
    // Above the build others may write, where it is below /tmp.
    let base = tempfile::tempdir_in("/var/lib").unwrap();
    // The user gets as far as his own folder.
    fs::set_permissions(base.path(), Permissions::from_mode(0o755)).unwrap();
    let victim = base.path().join("victim");
    fs::create_dir(&victim).unwrap();
    let secret = "root's own ".repeat(200_000);
    fs::write(victim.join("swap"), &secret).unwrap();
    fs::set_permissions(victim.join("swap"), Permissions::from_mode(0o600)).unwrap();
    let owned = |folder: PathBuf, uid: u32| {
        fs::create_dir_all(&folder).unwrap();
        chown(&folder, Some(uid), Some(uid)).unwrap();
        folder
    };
    let shared = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(shared.path(), Permissions::from_mode(0o1777)).unwrap();
    owned(base.path().join("home"), NOBODY);
    let places = [
        owned(base.path().join("home/d"), NOBODY),
        owned(shared.path().join("d"), NOBODY),
        shared.path().to_owned(),
        owned(base.path().join("roots"), 0),
    ];
    let before = areas();
    for (at, place) in places.iter().enumerate() {
        let attacker = Attacker::begin(place, &victim);
        let (mut refused, mut set_up) = (0, 0);
        for _ in 0..rounds / places.len() {
            match round(&place.join("swap")) {
                Ok(on) => {
                    assert_eq!(on.len(), before.len() + 1);
                    let own = place.join("swap").display().to_string();
                    assert!(on.contains(&own), "{on:?}");
                    set_up += 1;
                }
                Err(_) => refused += 1,
            }
            assert_eq!(areas(), before);
            assert!(fs::read_to_string(victim.join("swap")).unwrap() == secret);
        }
        drop(attacker);
        let is_roots = at == places.len() - 1;
        println!("{}: {set_up} set up, {refused} refused", place.display());
        assert_eq!(set_up == 0, !is_roots, "{}", place.display());
        assert_eq!(refused == 0, is_roots, "{}", place.display());
    }
}
