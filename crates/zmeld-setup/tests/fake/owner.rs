//! Swap is set up where nobody but root may read it or give its name to another file.

use std::fs::{self, Permissions};
use std::os::unix::fs::{chown, symlink, PermissionsExt};

use crate::common::{config, Machine};
use zmeld_config::{Config, Severity};
use zmeld_status::outstanding::Outstanding;

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

/// `up` refuses it, and everybody who looks is told so.
fn is_refused(machine: &Machine, config: &Config, said: &str) {
    let err = machine.up(config).unwrap_err().to_string();
    assert!(err.contains(said), "{err}");
    assert_eq!(machine.text("/proc/swaps").lines().count(), 1);
    let problems = machine.against(config);
    let is_told = |it: &zmeld_config::Finding| {
        it.severity == Severity::Critical && it.to_string().contains(said)
    };
    assert!(problems.iter().any(is_told), "{problems:?}");
    let outstanding = Outstanding::read(&machine.host(), Some(config));
    assert!(format!("{outstanding:?}").contains(said), "{outstanding:?}");
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

#[test]
fn taking_back_removes_no_file_of_another() {
    let machine = machine();
    machine.up(&config(NEW)).unwrap();
    let secret = machine.text(SECRET);
    fs::rename(machine.path("/srv/swap"), machine.path("/srv/was")).unwrap();
    symlink(machine.path("/etc/keys"), machine.path("/srv/swap")).unwrap();
    machine.down().unwrap();
    assert_eq!(machine.text(SECRET), secret);
}

#[test]
fn a_file_that_others_may_read_is_refused() {
    for text in [NEW, THERE] {
        let machine = machine();
        put_file(&machine);
        mode(&machine, "/srv/swap/file", 0o644);
        let said = "/srv/swap/file: others may read it (mode 0644)";
        is_refused(&machine, &config(text), said);
        // Even where it is swapped to already.
        machine.others_swap("/srv/swap/file");
        let err = machine.up(&config(text)).unwrap_err().to_string();
        assert!(err.contains(said) && err.contains("remove it"), "{err}");
    }
    let machine = machine();
    put_file(&machine);
    mode(&machine, "/srv/swap/file", 0o666);
    is_refused(&machine, &config(THERE), "others may write it (mode 0666)");
    mode(&machine, "/srv/swap/file", 0o600);
    fs::hard_link(machine.path("/srv/swap/file"), machine.path("/srv/name")).unwrap();
    is_refused(&machine, &config(THERE), "it has 2 names");
    fs::remove_file(machine.path("/srv/name")).unwrap();
    if rustix::process::geteuid().is_root() {
        chown(machine.path("/srv/swap/file"), Some(65534), None).unwrap();
        let said = "/srv/swap/file: it belongs to another user (uid 65534)";
        is_refused(&machine, &config(THERE), said);
    }
}

#[test]
fn a_place_that_others_may_write_is_refused() {
    for text in [NEW, THERE] {
        let machine = machine();
        if text == THERE {
            put_file(&machine);
        }
        for open in [0o777, 0o1777] {
            for folder in ["/srv", "/srv/swap"] {
                mode(&machine, folder, open);
                let said = format!("{folder}: others may write it (mode {open:04o})");
                is_refused(&machine, &config(text), &said);
                mode(&machine, folder, 0o755);
            }
        }
        if rustix::process::geteuid().is_root() {
            chown(machine.path("/srv"), Some(65534), None).unwrap();
            let said = "/srv: it belongs to another user (uid 65534)";
            is_refused(&machine, &config(text), said);
            chown(machine.path("/srv"), Some(0), None).unwrap();
        }
        fs::rename(machine.path("/srv/swap"), machine.path("/srv/was")).unwrap();
        symlink("was", machine.path("/srv/swap")).unwrap();
        let said = "/srv/swap: it is a symbolic link";
        is_refused(&machine, &config(text), said);
        let err = machine.up(&config(text)).unwrap_err().to_string();
        assert!(err.contains("name the file as /srv/was/file"), "{err}");
    }
}

#[test]
fn a_device_that_is_named_in_a_folder_of_others_is_refused() {
    let machine = machine();
    machine.put("/dev/shm/link", "");
    mode(&machine, "/dev/shm", 0o1777);
    let text = "[tier.d]\nkind = \"disk\"\ndevice = \"/dev/shm/link\"\nformat = true\n";
    let said = "/dev/shm: others may write it (mode 1777)";
    is_refused(&machine, &config(text), said);
}

/// A stick that is plugged in meanwhile takes the label of a drive.
#[test]
fn what_takes_the_label_of_a_drive_between_two_operations_is_not_touched() {
    const LINK: &str = "/dev/disk/by-partlabel/swap";
    let plain = "[tier.d]\nkind = \"disk\"\ndevice = \"PARTLABEL=swap\"\nformat = true\n";
    let random = plain.replace("format = true", "encryption = \"random\"");
    let luks = format!("{plain}encryption = \"luks\"\nkey_file = \"/etc/key\"\n");
    let written_back = "[tier.z]\nkind = \"zram\"\nmemory_limit = \"10%\"\n\
                        [tier.z.writeback]\ndevice = \"PARTLABEL=swap\"\n";
    for text in [plain, &random, &luks, written_back] {
        let config = config(text);
        for number in 0.. {
            let machine = machine();
            machine.put("/etc/key", "key");
            mode(&machine, "/etc/key", 0o600);
            machine.carry("/dev/sdb1", "ext4");
            let link = machine.path(LINK);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink("../../sdc1", &link).unwrap();
            let moved = machine.path("/moved");
            machine.before_operation(number, move || {
                fs::write(moved, "").unwrap();
                fs::remove_file(&link).unwrap();
                symlink("../../sdb1", &link).unwrap();
            });
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

/// The label that a drive was set up by leads elsewhere, at any operation of what takes it
/// back: the drive is switched off, and the stick is not touched.
#[test]
fn a_label_that_moved_is_not_followed_back() {
    const LINK: &str = "/dev/disk/by-partlabel/swap";
    let plain = "[tier.d]\nkind = \"disk\"\ndevice = \"PARTLABEL=swap\"\nformat = true\n";
    let luks = format!("{plain}encryption = \"luks\"\nkey_file = \"/etc/key\"\n");
    for text in [plain, &luks] {
        for number in 0.. {
            let machine = machine();
            machine.put("/etc/key", "key");
            mode(&machine, "/etc/key", 0o600);
            let link = machine.path(LINK);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink("../../sdc1", &link).unwrap();
            machine.up(&config(text)).unwrap();
            machine.others_mkswap("/dev/sdb1");
            let stick = fs::read(machine.path("/dev/sdb1")).unwrap();
            let moved = machine.path("/moved");
            machine.before_operation(number, move || {
                fs::write(moved, "").unwrap();
                fs::remove_file(&link).unwrap();
                symlink("../../sdb1", &link).unwrap();
            });
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

/// A label leads to any device, and a user's loop device to his file.
#[test]
fn a_device_that_is_made_of_a_file_of_others_is_refused() {
    let text = "[tier.d]\nkind = \"disk\"\ndevice = \"/dev/sdc1\"\nformat = true\n";
    for at in ["sdc1", "dm-0"] {
        let machine = Machine::new();
        if at == "dm-0" {
            machine.put("/sys/class/block/sdc1/slaves/dm-0", "");
        }
        machine.put(
            &format!("/sys/class/block/{at}/loop/backing_file"),
            "/srv/image\n",
        );
        machine.put("/srv/image", "");
        mode(&machine, "/srv/image", 0o644);
        let said = "/srv/image: others may read it (mode 0644)";
        is_refused(&machine, &config(text), said);
        mode(&machine, "/srv/image", 0o600);
        machine.plan(&config(text)).unwrap();
        if rustix::process::geteuid().is_root() {
            // A user's file has that path where he mounted it.
            let really = format!("/sys/class/block/{at}/loop/really");
            machine.put(&really, "");
            let err = machine.up(&config(text)).unwrap_err().to_string();
            assert!(err.contains("nobody knows who else does"), "{err}");
            fs::remove_file(machine.path(&really)).unwrap();
        }
        fs::remove_file(machine.path("/srv/image")).unwrap();
        is_refused(&machine, &config(text), "a loop device has it");
    }
    if rustix::process::geteuid().is_root() {
        let machine = Machine::new();
        chown(machine.path("/dev/sdc1"), Some(65534), None).unwrap();
        is_refused(&machine, &config(text), "who is not root may open it");
    }
}

#[test]
fn a_dictionary_that_others_may_write_is_refused() {
    let machine = Machine::new();
    machine.put("/etc/keys/words", "");
    let text = "[tier.a]\nkind = \"zram\"\ncodec = \"zstd:3,dict=/etc/keys/words\"\n\
                memory_limit = \"50%\"\n";
    machine.plan(&config(text)).unwrap();
    mode(&machine, "/etc/keys/words", 0o666);
    is_refused(
        &machine,
        &config(text),
        "/etc/keys/words: others may write it (mode 0666)",
    );
}

/// Who may put another key in its place reads what is swapped.
#[test]
fn a_key_that_others_may_exchange_is_refused() {
    let machine = Machine::new();
    machine.put("/etc/keys/key", "key");
    fs::set_permissions(machine.path("/etc/keys/key"), Permissions::from_mode(0o600)).unwrap();
    let text = |key: &str| {
        config(&format!(
            "[tier.d]\nkind = \"disk\"\ndevice = \"/dev/sdc1\"\nencryption = \"luks\"\n\
             key_file = \"{key}\"\nformat = true\n"
        ))
    };
    machine.plan(&text("/etc/keys/key")).unwrap();
    std::os::unix::fs::symlink("key", machine.path("/etc/keys/link")).unwrap();
    std::os::unix::fs::symlink("keys", machine.path("/etc/others")).unwrap();
    for key in ["/etc/keys/link", "/etc/others/key"] {
        let err = machine.plan(&text(key)).unwrap_err().to_string();
        assert!(err.contains("it is a symbolic link"), "{err}");
    }
    fs::set_permissions(machine.path("/etc/keys"), Permissions::from_mode(0o777)).unwrap();
    let err = machine
        .plan(&text("/etc/keys/key"))
        .unwrap_err()
        .to_string();
    assert!(err.contains("/etc/keys: others may write it"), "{err}");
}
