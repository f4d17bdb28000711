//! The name of a thing that zmeld made may be somebody else's by now: that is left as it is, and
//! named. Most cases are in `cases/identity.txt`.

use zmeld_linux::command::Invocation;
use zmeld_linux::Host;
use zmeld_swap::setup::journal::{Owner, State};

use crate::common::{config, lock, Fate, Machine};
use crate::crash::{killed, quietly};

const RAM: &str = "[tier.fast]\nkind = \"zram\"\nsize = \"50%\"\n";
const FILE: &str = "[tier.d]\nkind = \"disk\"\nfile = \"/var/swap\"\nsize = \"1MiB\"\n";
const RANDOM: &str = "accept = [\"unstable-name\"]\n[tier.d]\nkind = \"disk\"\n\
                      device = \"/dev/sdb1\"\nencryption = \"random\"\n";

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
        let host = machine.host();
        let open = Invocation::new("cryptsetup").arg("open");
        let open = open.arg(machine.path("/dev/sdc1")).arg("zmeld-d");
        host.run(&open).unwrap();
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

/// A folder that only root may enter: an ordinary user's look goes by the name. This
/// test again, as a program of its own, is that user.
#[test]
fn who_may_not_look_at_a_file_goes_by_its_name() {
    use std::process::Command;
    const ROOT: &str = "ZMELD_TEST_LOOK_AT";
    if let Some(root) = std::env::var_os(ROOT) {
        let host = Host::at(root);
        assert!(!host.exists("/root/other"));
        let applied = zmeld_swap::setup::applied::read(&host).unwrap().unwrap();
        let area = applied.tier("d").unwrap().area.clone();
        assert_eq!(area.as_deref(), Some("/root/swap"));
        let said = lock(&host, Owner::Setup).unwrap_err().to_string();
        assert!(said.starts_with("changing the machine's swap needs root: run it with sudo"));
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
