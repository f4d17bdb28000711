//! Profiles on machines that are a directory.

use std::fs;
use std::path::Path;

use zmeld_config::{Comments, Config, Named};
use zmeld_linux::Host;
use zmeld_status::profile::Profile;

const GIB: u64 = 1 << 30;

/// A machine with control groups of version 2 that has these files and, where a path ends
/// with a slash, groups.
fn machine(root: &Path, has: &[(&str, &str)]) -> Host {
    let base = [
        (
            "proc/self/mountinfo",
            "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        ),
        ("proc/self/cgroup", "0::/\n"),
        ("sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n"),
        ("sys/fs/cgroup/system.slice/memory.reclaim", ""),
        ("sys/fs/cgroup/user.slice/memory.reclaim", ""),
    ];
    for (path, text) in base.iter().chain(has) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match path.to_str().unwrap().ends_with('/') {
            true => fs::create_dir_all(path).unwrap(),
            false => fs::write(path, text).unwrap(),
        }
    }
    Host::at(root)
}

/// The configuration of a profile as a file, or why there is none.
fn file(host: &Host, profile: Profile) -> Result<String, String> {
    let (mut config, mut comments) = (Config::default(), Comments::new());
    profile.add_to(host, &mut config, &mut comments)?;
    let text = config.to_toml(&comments);
    let read = Config::from_text("x".as_ref(), &text).unwrap();
    assert_eq!(read.config, config, "{text}");
    Ok(text)
}

#[test]
fn a_desktop_protects_the_terminals_that_it_has() {
    let root = tempfile::tempdir().unwrap();
    let user = "sys/fs/cgroup/user.slice/user-1000.slice";
    let terminal = format!("{user}/user@1000.service/app.slice/vte-spawn-1.scope/");
    let login = format!("{user}/session-2.scope/");
    let display = "etc/systemd/system/display-manager.service";
    let host = machine(root.path(), &[(&terminal, ""), (&login, ""), (display, "")]);
    assert_eq!(Profile::of(&host, GIB), Profile::Desktop);
    let text = file(&host, Profile::Desktop).unwrap();
    let protect = r#"protect = ["session-*.scope", "vte-spawn-*.scope"]"#;
    for line in [r#"end = ["/user.slice"]"#, protect, "[watch.reclaim]"] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn a_server_leaves_its_database_alone_and_a_small_one_has_no_rules() {
    let root = tempfile::tempdir().unwrap();
    let database = "sys/fs/cgroup/system.slice/postgresql@15-main.service/";
    let host = machine(root.path(), &[(database, "")]);
    assert_eq!(Profile::of(&host, 4 * GIB), Profile::Server);
    let text = file(&host, Profile::Server).unwrap();
    assert!(
        text.contains(r#"protect = ["postgresql*.service"]"#),
        "{text}"
    );
    assert!(!text.contains("guard"), "{text}");
    assert_eq!(Profile::of(&host, 2 * GIB), Profile::Small);
    assert!(!file(&host, Profile::Small).unwrap().contains("[watch"));
}

#[test]
fn a_machine_gets_only_a_profile_that_it_can_have() {
    let kubelet = "var/lib/kubelet/config.yaml";
    let pods = ("sys/fs/cgroup/kubepods.slice/", "");
    for (has, profile, expected) in [
        (vec![], Profile::Pi, Err("does not name a Raspberry Pi")),
        (vec![], Profile::VmHost, Err("/dev/kvm")),
        (vec![], Profile::Kubernetes, Err("there is no")),
        (
            vec![(kubelet, "failSwapOn: true\n")],
            Profile::Kubernetes,
            Err("failSwapOn: false"),
        ),
        (
            vec![(kubelet, "kind: x\nfailSwapOn: false\n"), pods],
            Profile::Kubernetes,
            Ok(r#"protect = ["/kubepods.slice"]"#),
        ),
        (
            vec![("proc/device-tree/model", "Raspberry Pi 4 Model B\0")],
            Profile::Pi,
            Ok("For a machine of the profile pi."),
        ),
        (
            vec![("dev/kvm", ""), ("sys/fs/cgroup/machine.slice/", "")],
            Profile::VmHost,
            Ok(r#"protect = ["/machine.slice"]"#),
        ),
    ] {
        let root = tempfile::tempdir().unwrap();
        let host = machine(root.path(), &has);
        let found = file(&host, profile);
        let is_it = match (&found, expected) {
            (Ok(text), Ok(words)) => text.contains(words) && Profile::of(&host, GIB) == profile,
            (Err(why), Err(words)) => why.contains(words) && why.contains(profile.name()),
            _ => false,
        };
        assert!(is_it, "{profile:?} {expected:?}: {found:?}");
    }
}

#[test]
fn without_a_way_to_reclaim_the_file_says_why() {
    let root = tempfile::tempdir().unwrap();
    let host = machine(root.path(), &[]);
    fs::remove_file(root.path().join("sys/fs/cgroup/cgroup.controllers")).unwrap();
    let text = file(&host, Profile::Server).unwrap();
    assert!(
        text.contains("Nothing is reclaimed ahead of time:"),
        "{text}"
    );
    assert!(file(&host, Profile::Desktop).is_err());
}
