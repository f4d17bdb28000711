//! What has the name of something that zmeld made may be somebody else's by now: it is
//! left as it is, and named.

use crate::common::{config, Fate, Machine};
use crate::crash::{killed, quietly};
use zmeld_linux::Host;
use zmeld_setup::execute::Done;
use zmeld_setup::journal::State;
use zmeld_setup::plan::{Group, Options};

const RAM: &str = "[tier.fast]\nkind = \"zram\"\nsize = \"50%\"\n";
const DRIVE: &str = "[tier.d]\nkind = \"disk\"\ndevice = \"/dev/sdc1\"\nformat = true\n";
const FILE: &str = "[tier.d]\nkind = \"disk\"\nfile = \"/var/swap\"\nsize = \"1MiB\"\n";
const RANDOM: &str = "accept = [\"unstable-name\"]\n[tier.d]\nkind = \"disk\"\n\
                      device = \"/dev/sdb1\"\nencryption = \"random\"\n";

fn is_on(machine: &Machine, path: &str) -> bool {
    let areas = machine.text("/proc/swaps");
    areas
        .lines()
        .any(|line| line.starts_with(&format!("{path} ")))
}

/// Going down takes nothing of that area, and names it in each line that it says.
fn is_left(machine: &Machine, path: &str, why: &str) {
    assert!(is_on(machine, path));
    let report = machine.down().unwrap();
    assert!(is_on(machine, path), "{path} was switched off");
    let notes = machine.notes();
    for said in [&report.left, &notes] {
        let line = format!("{path} is left as it is: {why}");
        assert!(said.iter().any(|it| it.contains(&line)), "{said:?}");
    }
    // What was left is not called undone.
    let of_tier = |it: &&Done| Group::is_tier(&it.group);
    let undone: Vec<_> = report.undone.iter().filter(of_tier).collect();
    assert!(undone.is_empty(), "{undone:?}");
    assert!(report.not_undone.iter().any(|it| of_tier(&it)));
    assert!(State::read(&machine.host()).unwrap().is_none());
}

/// The tier is not taken for set up, and why is said.
fn is_lost(machine: &Machine, tier: &str) {
    let applied = machine.applied().unwrap();
    let tier = applied.tier(tier).unwrap();
    assert!(tier.area.is_none() && tier.lost.is_some(), "{tier:?}");
}

/// Another tool's device in place of zmeld's, swapped to.
fn replace_zram(machine: &Machine) {
    let host = machine.host();
    machine.others_swapoff("/dev/zram1");
    host.write("/sys/class/zram-control/hot_remove", "1")
        .unwrap();
    assert_eq!(host.read("/sys/class/zram-control/hot_add").unwrap(), "1");
    host.write("/sys/block/zram1/disksize", "4096").unwrap();
    machine.others_swap("/dev/zram1");
}

#[test]
fn another_tools_device_of_the_same_number_is_not_touched() {
    let machine = Machine::new();
    machine.up(&config(RAM)).unwrap();
    replace_zram(&machine);
    is_lost(&machine, "fast");
    let applied = machine.applied().unwrap();
    assert_eq!(applied.tier("fast").unwrap().device, None);
    assert!(applied.tier_on("/dev/zram1").is_none());
    is_left(&machine, "/dev/zram1", "it is another device by now");
    assert_eq!(machine.text("/sys/block/zram1/disksize"), "4096\n");
}

#[test]
fn a_second_up_sets_up_its_own_beside_another_tools_device() {
    let machine = Machine::new();
    let beside = format!("accept = [\"second-device\"]\n{RAM}");
    machine.up(&config(&beside)).unwrap();
    replace_zram(&machine);
    assert!(!machine.plan(&config(&beside)).unwrap().is_done());
    machine.up(&config(&beside)).unwrap();
    assert!(is_on(&machine, "/dev/zram1") && is_on(&machine, "/dev/zram2"));
    assert_eq!(machine.text("/sys/block/zram1/disksize"), "4096\n");
    assert!(machine
        .notes()
        .iter()
        .any(|it| it.contains("/dev/zram1 is left")));
    // With another plan, too.
    let other = beside.replace("50%", "25%");
    machine.up(&config(&other)).unwrap();
    assert!(is_on(&machine, "/dev/zram1") && is_on(&machine, "/dev/zram2"));
    machine.down().unwrap();
    assert!(is_on(&machine, "/dev/zram1") && !is_on(&machine, "/dev/zram2"));
}

#[test]
fn another_tools_area_on_zmelds_device_is_not_switched_off() {
    let machine = Machine::new();
    machine.up(&config(RAM)).unwrap();
    machine.others_swapoff("/dev/zram1");
    machine.others_swap("/dev/zram1");
    is_lost(&machine, "fast");
    let left = "somebody else has made it a swap area since";
    let report = machine.down().unwrap();
    assert!(is_on(&machine, "/dev/zram1"));
    assert!(machine.notes().iter().any(|it| it.contains(left)));
    let named = "/dev/zram1 is left as it is: somebody else swaps to it";
    assert_eq!(report.left, [named]);
}

#[test]
fn a_drive_whose_name_is_another_drives_by_now_is_not_touched() {
    for text in [DRIVE, RANDOM] {
        let machine = Machine::new();
        machine.up(&config(text)).unwrap();
        let (name, path) = match text == DRIVE {
            true => ("sdc1", "/dev/sdc1"),
            false => ("zmeld-d", "/dev/mapper/zmeld-d"),
        };
        machine.others_swapoff(path);
        if text == DRIVE {
            machine.attach(name);
        } else {
            let host = machine.host();
            host.run(&command(&["cryptsetup", "close", name])).unwrap();
            let drive = machine.path("/dev/sdc1").display().to_string();
            let open = ["cryptsetup", "open", &drive, name];
            host.run(&command(&open)).unwrap();
        }
        machine.others_swap(path);
        is_lost(&machine, "d");
        is_left(&machine, path, "it is another device by now");
        // Nor is its header wiped.
        assert!(!machine.text(path).is_empty(), "{path}");
    }
}

fn command(words: &[&str]) -> zmeld_linux::command::Invocation {
    zmeld_linux::command::Invocation::new(words[0]).args(words[1..].iter().copied())
}

#[test]
fn a_header_that_somebody_wrote_since_is_not_wiped() {
    let machine = Machine::new();
    machine.up(&config(DRIVE)).unwrap();
    machine.others_swapoff("/dev/sdc1");
    machine.others_swap("/dev/sdc1");
    machine.others_swapoff("/dev/sdc1");
    let report = machine.down().unwrap();
    assert!(!machine.text("/dev/sdc1").is_empty());
    let left = "/dev/sdc1 is left as it is: somebody else has made it a swap area since";
    assert_eq!(report.left, [left]);
}

/// The admin's own swap file in place of zmeld's.
fn replace_file(machine: &Machine) {
    std::fs::remove_file(machine.path("/var/swap")).unwrap();
    machine.put("/var/swap", "the admin's own");
    machine.mode("/var/swap", 0o600);
    machine.carry("/var/swap", "");
}

#[test]
fn a_file_that_was_replaced_is_neither_switched_off_nor_removed() {
    let machine = Machine::on_disk();
    machine.up(&config(FILE)).unwrap();
    machine.others_swapoff("/var/swap");
    replace_file(&machine);
    machine.others_swap("/var/swap");
    is_lost(&machine, "d");
    is_left(&machine, "/var/swap", "it is another file by now");
    assert!(machine.path("/var/swap").exists());
    // Nor by a second up.
    machine.others_swapoff("/var/swap");
    std::fs::remove_file(machine.path("/var/swap")).unwrap();
    machine.carry("/var/swap", "");
    machine.up(&config(FILE)).unwrap();
    machine.others_swapoff("/var/swap");
    replace_file(&machine);
    machine.others_swap("/var/swap");
    let larger = FILE.replace("1MiB", "2MiB");
    let err = machine.up(&config(&larger)).unwrap_err().to_string();
    assert!(err.contains("/var/swap: it is there already"), "{err}");
    assert!(
        err.contains("what is not as before: tier.d: create /var/swap"),
        "{err}"
    );
    assert!(is_on(&machine, "/var/swap") && machine.path("/var/swap").exists());
    let left = "/var/swap is left as it is: it is another file by now";
    assert!(machine.notes().iter().any(|it| it == left));
}

#[test]
fn a_file_that_was_moved_is_switched_off_where_it_is() {
    let machine = Machine::on_disk();
    machine.up(&config(FILE)).unwrap();
    std::fs::rename(machine.path("/var/swap"), machine.path("/var/moved")).unwrap();
    let areas = machine.text("/proc/swaps").replace("partition", "file");
    machine.put("/proc/swaps", &areas.replace("/var/swap", "/var/moved"));
    machine.put("/var/swap", "the admin's own");
    machine.down().unwrap();
    assert!(!is_on(&machine, "/var/moved"));
    assert_eq!(machine.text("/var/swap"), "the admin's own");
}

#[test]
fn a_file_that_was_removed_while_it_is_on_is_named() {
    let machine = Machine::on_disk();
    machine.up(&config(FILE)).unwrap();
    std::fs::remove_file(machine.path("/var/swap")).unwrap();
    let areas = machine.text("/proc/swaps").replace("partition", "file");
    let deleted = areas.replace("/var/swap", "/var/swap\\040(deleted)");
    machine.put("/proc/swaps", &deleted);
    let report = machine.down().unwrap();
    assert_eq!(report.left.len(), 1, "{report:?}");
    assert!(report.left[0].contains("/var/swap was removed while it was swapped to"));
}

/// Killed at every operation, before anything of that name was there; then somebody
/// else makes it.
fn killed_and_made(machine: impl Fn() -> Machine, text: &str, make: impl Fn(&Machine) -> bool) {
    quietly();
    let mut made = 0;
    for at in 0.. {
        let machine = machine();
        machine.fate(Some((at, Fate::DieBefore)));
        let was_killed = killed(|| machine.up(&config(text)).map(drop));
        machine.fate(None);
        if !was_killed {
            break;
        }
        made += usize::from(make(&machine));
    }
    assert!(made > 3, "only {made}");
}

#[test]
fn what_somebody_makes_after_a_run_was_killed_is_not_taken_for_its_own() {
    killed_and_made(Machine::new, RAM, |machine| {
        if machine.path("/sys/block/zram1").exists() {
            return false;
        }
        let host = machine.host();
        assert_eq!(host.read("/sys/class/zram-control/hot_add").unwrap(), "1");
        let begun = is_begun(&host, "add a zram device");
        let report = machine.down().unwrap();
        assert!(machine.path("/sys/block/zram1").exists());
        assert_eq!(
            report.left.iter().any(|it| it.contains("/dev/zram1")),
            begun
        );
        true
    });
    killed_and_made(Machine::on_disk, FILE, |machine| {
        if machine.path("/var/swap").exists() {
            return false;
        }
        machine.put("/var/swap", "the admin's own");
        machine.down().unwrap();
        assert_eq!(machine.text("/var/swap"), "the admin's own");
        true
    });
    killed_and_made(Machine::new, RANDOM, |machine| {
        if machine.path("/dev/mapper/zmeld-d").exists() {
            return false;
        }
        let drive = machine.path("/dev/sdc1").display().to_string();
        let open = ["cryptsetup", "open", &drive, "zmeld-d"];
        let host = machine.host();
        host.run(&command(&open)).unwrap();
        let begun = is_begun(&host, "open /dev/sdb1");
        let report = machine.down().unwrap();
        assert!(machine.path("/dev/mapper/zmeld-d").exists());
        assert_eq!(report.left.iter().any(|it| it.contains("zmeld-d")), begun);
        true
    });
}

fn is_begun(host: &Host, step: &str) -> bool {
    let state = State::read(host).unwrap().unwrap_or_default();
    let mut records = state.records.iter();
    records.any(|record| record.step.describe().starts_with(step))
}

/// A file is recorded before it has its name: it is not mistaken for anybody's.
#[test]
fn a_file_is_recorded_before_it_has_its_name() {
    let machine = Machine::on_disk();
    machine.put("/var/swap", "");
    std::fs::remove_file(machine.path("/var/swap")).unwrap();
    let host = machine.host();
    let before = machine.snapshot();
    machine.up(&config(FILE)).unwrap();
    let state = State::read(&host).unwrap().unwrap();
    assert!(state.records[0].identity.as_ref().unwrap().file.is_some());
    let report = machine.down().unwrap();
    assert!(report.left.is_empty(), "{report:?}");
    assert_eq!(machine.snapshot(), before);
}

/// Power was lost after the file had its name and before it had a header: the next run
/// writes one. Into a file that holds anything nothing is written.
#[test]
fn a_file_that_nothing_was_written_into_is_made_swap() {
    let machine = Machine::on_disk();
    machine.put("/var/swap", "");
    let path = machine.path("/var/swap");
    let file = std::fs::File::create(&path).unwrap();
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 1 << 20).unwrap();
    // Whoever read it since, as wipefs does, has pages of zeroes in memory.
    file.sync_all().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), [0; 1 << 20]);
    machine.mode("/var/swap", 0o600);
    for _ in 0..2 {
        machine.up(&config(FILE)).unwrap();
        assert!(is_on(&machine, "/var/swap"));
        assert!(machine.up(&config(FILE)).unwrap().is_unchanged());
        let report = machine.down().unwrap();
        assert_eq!(report.left, [""; 0]);
    }
    machine.carry("/var/swap", "");
    std::os::unix::fs::FileExt::write_all_at(&file, &[0; 4096], 0).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"somebody's", 1 << 16).unwrap();
    file.sync_all().unwrap();
    let refused = machine.up(&config(FILE)).unwrap_err().to_string();
    assert!(
        refused.contains("carries nothing that wipefs knows"),
        "{refused}"
    );
}

#[test]
fn another_device_is_not_switched_on_in_place_of_what_was_taken_over() {
    let machine = Machine::new();
    let host = machine.host();
    host.write("/sys/block/zram0/disksize", "4096").unwrap();
    machine.others_swap("/dev/zram0");
    let taking = Options {
        take_over: true,
        ..Options::default()
    };
    machine.up_with(&config(RAM), &taking).unwrap();
    assert!(!is_on(&machine, "/dev/zram0"));
    machine.others_swap("/dev/zram0");
    machine.others_swapoff("/dev/zram0");
    host.write("/sys/class/zram-control/hot_remove", "0")
        .unwrap();
    host.read("/sys/class/zram-control/hot_add").unwrap();
    host.write("/sys/block/zram0/disksize", "8192").unwrap();
    machine.others_swap("/dev/zram0");
    machine.others_swapoff("/dev/zram0");
    let report = machine.down().unwrap();
    assert!(!is_on(&machine, "/dev/zram0"));
    assert_eq!(
        report.left,
        ["/dev/zram0 is left as it is: it is another device by now"]
    );
}

/// Writes the records as an older version did.
fn forget_identities(machine: &Machine) {
    let text = machine.text("/run/zmeld/state.json");
    let mut state: serde_json::Value = serde_json::from_str(&text).unwrap();
    for record in state["records"].as_array_mut().unwrap() {
        let record = record.as_object_mut().unwrap();
        record.remove("identity");
        if record["step"]["do"] == "create-file" {
            record.remove("before");
        }
    }
    machine.put("/run/zmeld/state.json", &state.to_string());
}

/// Records without an identity are taken back by what they tell, and that is said.
#[test]
fn what_an_older_version_set_up_is_taken_back() {
    for text in [RAM, DRIVE, FILE, RANDOM] {
        let machine = Machine::on_disk();
        let before = machine.snapshot();
        machine.up(&config(text)).unwrap();
        forget_identities(&machine);
        assert!(machine.plan(&config(text)).unwrap().is_done(), "{text}");
        assert!(machine.up(&config(text)).unwrap().is_unchanged());
        machine.notes();
        machine.down().unwrap();
        assert_eq!(machine.snapshot(), before, "{text}");
        let named = machine.notes();
        let says = named.iter().any(|it| it.contains("told by its name only"));
        // The device's place in the sequence was written down by older versions too.
        assert_eq!(says, text != RAM, "{text} {named:?}");
    }
    // Another label, or another size, is somebody else's.
    let machine = Machine::on_disk();
    machine.up(&config(FILE)).unwrap();
    forget_identities(&machine);
    machine.others_swapoff("/var/swap");
    replace_file(&machine);
    machine.others_swap("/var/swap");
    machine.others_swapoff("/var/swap");
    let report = machine.down().unwrap();
    assert!(machine.text("/var/swap").contains("SWAPSPACE2"));
    let has = |words: &str| report.left.iter().any(|it| it.contains(words));
    assert!(
        has("it has not the size") && has("another label"),
        "{report:?}"
    );
}

/// Whoever swaps to it in a mount namespace of its own gives it another path.
#[test]
fn what_was_set_up_in_another_namespace_is_taken_back() {
    let machine = Machine::new();
    let before = machine.snapshot();
    machine.up(&config(RAM)).unwrap();
    let areas = machine.text("/proc/swaps").replace("/dev/zram1", "/zram1");
    machine.put("/proc/swaps", &areas);
    assert!(machine.plan(&config(RAM)).unwrap().is_done());
    let applied = machine.applied().unwrap();
    assert!(applied.tier_on("/dev/zram1").is_some());
    let observation = zmeld_observe::Observation::read(&machine.host(), 4096);
    assert_eq!(observation.swaps[0].area.shown(), "/dev/zram1");
    machine.down().unwrap();
    assert_eq!(machine.snapshot(), before);
}

/// A folder that only root may enter: an ordinary user's look goes by the name. This
/// test again, as a program of its own, is that user.
#[test]
fn who_may_not_look_at_a_file_goes_by_its_name() {
    use std::process::Command;
    const ROOT: &str = "ZMELD_TEST_LOOK_AT";
    if let Some(root) = std::env::var_os(ROOT) {
        let host = Host::at(root);
        assert!(!host.exists("/root/other"));
        let applied = zmeld_setup::applied::read(&host).unwrap().unwrap();
        let area = applied.tier("d").unwrap().area.clone();
        assert_eq!(area.as_deref(), Some("/root/swap"));
        return;
    }
    let machine = Machine::on_disk();
    machine.put("/root/other", "");
    machine
        .up(&config(&FILE.replace("/var/swap", "/root/swap")))
        .unwrap();
    machine.mode("/", 0o755);
    machine.mode("/root", 0o700);
    let user = |program: &std::path::Path| {
        let mut command = Command::new("setpriv");
        let user = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
        command.args(user).arg(program);
        command
    };
    let exe = std::env::current_exe().unwrap();
    let can = user(&exe).arg("--list").output();
    if !can.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIP: this program cannot be run as an ordinary user");
        return;
    }
    let name = "identity::who_may_not_look_at_a_file_goes_by_its_name";
    let output = user(&exe)
        .args(["--exact", name])
        .env(ROOT, machine.path("/"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
    machine.down().unwrap();
    assert!(!machine.path("/root/swap").exists());
}
