//! Swap is set up where nobody but root may read it or give its name to another file. What
//! is refused is in `cases/owner.txt`.

use std::fs::{self, Permissions};
use std::os::unix::fs::{chown, symlink, PermissionsExt};

use crate::common::{config, Machine};

const NEW: &str = "[tier.d]\nkind = \"disk\"\nfile = \"/srv/swap/file\"\nsize = \"64KiB\"\n";
const THERE: &str = "[tier.d]\nkind = \"disk\"\nfile = \"/srv/swap/file\"\nformat = true\n";
const SECRET: &str = "/etc/keys/file";

fn machine() -> Machine {
    let machine = Machine::on_disk();
    machine.put("/srv/swap/other", "");
    machine.put(SECRET, &"secret ".repeat(2000));
    machine
}

fn mode(machine: &Machine, path: &str, mode: u32) {
    fs::set_permissions(machine.path(path), Permissions::from_mode(mode)).unwrap();
}

fn put_file(machine: &Machine) {
    machine.put("/srv/swap/file", &"x".repeat(65536));
    mode(machine, "/srv/swap/file", 0o600);
}

#[test]
fn what_takes_the_place_of_a_swap_file_between_two_operations_is_not_touched() {
    for text in [NEW, THERE] {
        let config = config(text);
        let mut refused = 0;
        for number in 0.. {
            let machine = machine();
            if text == THERE {
                put_file(&machine);
            }
            let secret = machine.text(SECRET);
            let (place, away) = (machine.path("/srv/swap"), machine.path("/srv/was"));
            let other = machine.path("/etc/keys");
            machine.before_operation(number, move || {
                fs::rename(&place, away).unwrap();
                symlink(other, place).unwrap();
            });
            let result = machine.up(&config);
            assert_eq!(machine.text(SECRET), secret, "{number}: {result:?}");
            if !machine.path("/srv/was").exists() {
                // All of it was over before.
                result.unwrap();
                break;
            }
            refused += usize::from(result.is_err());
            let _ = machine.down();
            assert_eq!(machine.text("/proc/swaps").lines().count(), 1, "{number}");
            assert_eq!(machine.text(SECRET), secret, "{number}");
        }
        assert!(refused > 3, "{refused}");
    }
}

/// A machine with a drive by a label, and what has a stick take that label.
fn labelled() -> (Machine, impl FnOnce() + Send + 'static) {
    let machine = machine();
    machine.put("/etc/key", "key");
    mode(&machine, "/etc/key", 0o600);
    let (link, moved) = (machine.path(LINK), machine.path("/moved"));
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    symlink("../../sdc1", &link).unwrap();
    let moves = move || {
        fs::write(moved, "").unwrap();
        fs::remove_file(&link).unwrap();
        symlink("../../sdb1", &link).unwrap();
    };
    (machine, moves)
}

const LINK: &str = "/dev/disk/by-partlabel/swap";
const PLAIN: &str = "[tier.d]\nkind = \"disk\"\ndevice = \"PARTLABEL=swap\"\nformat = true\n";

/// A stick that is plugged in meanwhile takes the label of a drive.
#[test]
fn what_takes_the_label_of_a_drive_between_two_operations_is_not_touched() {
    let random = PLAIN.replace("format = true", "encryption = \"random\"");
    let luks = format!("{PLAIN}encryption = \"luks\"\nkey_file = \"/etc/key\"\n");
    let written_back = "[tier.z]\nkind = \"zram\"\nmemory_limit = \"10%\"\n\
                        [tier.z.writeback]\ndevice = \"PARTLABEL=swap\"\n";
    for text in [PLAIN, &random, &luks, written_back] {
        let config = config(text);
        for number in 0.. {
            let (machine, moves) = labelled();
            machine.carry("/dev/sdb1", "ext4");
            machine.before_operation(number, moves);
            let result = machine.up(&config);
            let said = format!("{number} of {text}: {result:?}");
            assert_eq!(machine.text("/dev/sdb1"), "", "{said}");
            assert!(!machine.text("/proc/swaps").contains("/dev/sdb1"), "{said}");
            let mapped = machine.path("/sys/block/zmeld-d/slaves/sdb1");
            assert!(!mapped.exists(), "{said}");
            for zram in ["zram0", "zram1"] {
                let backing = machine.path(&format!("/sys/block/{zram}/backing_dev"));
                let backing = fs::read_to_string(backing).unwrap_or_default();
                assert!(!backing.contains("sdb1"), "{said}");
            }
            if !machine.path("/moved").exists() {
                // All of it was over before.
                result.unwrap();
                break;
            }
        }
    }
}

/// What another user may write from any operation on is not made a swap area.
#[test]
fn a_drive_that_is_given_away_between_two_operations_is_not_written_to() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let config = config(&PLAIN.replace("PARTLABEL=swap", "/dev/sdc1"));
    for number in 0.. {
        let machine = machine();
        let (drive, was) = (machine.path("/dev/sdc1"), machine.path("/was"));
        machine.before_operation(number, move || {
            fs::copy(&drive, was).unwrap();
            chown(drive, Some(65534), None).unwrap();
        });
        let result = machine.up(&config);
        let Ok(was) = fs::read(machine.path("/was")) else {
            // All of it was over before.
            result.unwrap();
            break;
        };
        // It may be taken back.
        let is = fs::read(machine.path("/dev/sdc1")).unwrap();
        let said = format!("{number}: {result:?}");
        assert!(is == was || is.iter().all(|byte| *byte == 0), "{said}");
    }
}

/// The label that a drive was set up by leads elsewhere, at any operation of what takes it
/// back: the drive is switched off, and the stick is not touched.
#[test]
fn a_label_that_moved_is_not_followed_back() {
    let luks = format!("{PLAIN}encryption = \"luks\"\nkey_file = \"/etc/key\"\n");
    for text in [PLAIN, &luks] {
        for number in 0.. {
            let (machine, moves) = labelled();
            machine.up(&config(text)).unwrap();
            machine.others_mkswap("/dev/sdb1");
            let stick = fs::read(machine.path("/dev/sdb1")).unwrap();
            machine.before_operation(number, moves);
            machine.down().unwrap();
            let said = format!("{number} of {text}");
            assert!(
                fs::read(machine.path("/dev/sdb1")).unwrap() == stick,
                "{said}"
            );
            assert_eq!(machine.text("/proc/swaps").lines().count(), 1, "{said}");
            if !machine.path("/moved").exists() {
                break;
            }
        }
    }
}
