//! The generator's golden trees: each folder of `tests/generator` has a machine's
//! root directory in `root` and the units that come out of it in `units`, with a
//! link as a file that says "-> TARGET", and what is said in `log`.
//!
//! `ZMELD_BLESS=1 cargo test -p zmeld-migrate --test generator` writes them anew.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use zmeld_migrate::generator::{generate, BootEnvironment, GeneratorOutcome, SkipReason};

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/generator");
    let entries = fs::read_dir(folder).unwrap();
    let mut cases: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    cases
}

/// All files below a folder; a link is the text "-> TARGET".
fn tree(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let Ok(entries) = fs::read_dir(&next) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            let kind = fs::symlink_metadata(&path).unwrap().file_type();
            let name = path.strip_prefix(folder).unwrap().to_owned();
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                files.insert(name, format!("-> {}\n", target.display()));
            } else {
                files.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    files
}

fn plant(files: &BTreeMap<PathBuf, String>, root: &Path) {
    for (name, text) in files {
        let at = root.join(name);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(at, text).unwrap();
    }
}

fn environment(root: &Path) -> BootEnvironment {
    BootEnvironment {
        root: root.to_owned(),
        program: PathBuf::from("/usr/bin/zmeld"),
        virtualization: None,
        in_initrd: None,
    }
}

/// What came out of a case: the units, and what was said.
struct Run {
    out: tempfile::TempDir,
    ending: GeneratorOutcome,
    log: String,
}

fn run(case: &Path) -> Run {
    let root = tempfile::tempdir().unwrap();
    plant(&tree(&case.join("root")), root.path());
    // The kernel's log takes what is appended to it.
    fs::create_dir_all(root.path().join("dev")).unwrap();
    fs::write(root.path().join("dev/kmsg"), "").unwrap();
    let out = tempfile::tempdir().unwrap();
    let ending = generate(&environment(root.path()), &out.path().join("normal"));
    let log = fs::read_to_string(root.path().join("dev/kmsg")).unwrap();
    Run { out, ending, log }
}

#[test]
fn each_configuration_gives_its_units() {
    let bless = std::env::var_os("ZMELD_BLESS").is_some();
    let cases = cases();
    assert!(cases.len() >= 12, "the cases are gone");
    for case in cases {
        let run = run(&case);
        let units = tree(&run.out.path().join("normal"));
        let said = format!("{}\n{}", run.ending, run.log);
        let expected = case.join("units");
        if bless {
            let _ = fs::remove_dir_all(&expected);
            plant(&units, &expected);
            fs::write(case.join("log"), &said).unwrap();
        }
        assert_eq!(units, tree(&expected), "{}", case.display());
        let log = fs::read_to_string(case.join("log")).unwrap();
        assert_eq!(said, log, "{}", case.display());
        // Nothing at all where something is wrong, and one line about it.
        if let GeneratorOutcome::Failed(_) = run.ending {
            assert!(units.is_empty());
            assert_eq!(run.log.lines().count(), 1);
        } else {
            assert_eq!(run.log, "");
        }
    }
}

#[test]
fn what_systemd_says_of_the_machine_is_heard() {
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/generator/zram-only/root");
    let out = tempfile::tempdir().unwrap();
    for (virtualization, in_initrd, skip_reason) in [
        (Some("container:lxc"), None, Some(SkipReason::Container)),
        (Some("vm:kvm"), None, None),
        (Some(""), Some("0"), None),
        (None, Some("1"), Some(SkipReason::Initrd)),
    ] {
        let mut here = environment(&case);
        here.virtualization = virtualization.map(str::to_owned);
        here.in_initrd = in_initrd.map(str::to_owned);
        let normal = out.path().join(format!("{virtualization:?}{in_initrd:?}"));
        let expected = skip_reason.map_or(GeneratorOutcome::Written(2), GeneratorOutcome::None);
        assert_eq!(generate(&here, &normal), expected);
    }
}

#[test]
fn units_that_cannot_be_written_leave_nothing_behind() {
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/generator/several-tiers/root");
    let out = tempfile::tempdir().unwrap();
    // In the way of the last link.
    let blocked = out.path().join("swap.target.wants");
    fs::write(&blocked, "").unwrap();
    let ending = generate(&environment(&case), out.path());
    let GeneratorOutcome::Failed(why) = ending else {
        panic!("{ending:?}")
    };
    assert!(why.contains("swap.target.wants"), "{why}");
    assert!(why.ends_with("; no swap is set up"), "{why}");
    let left: Vec<_> = tree(out.path()).into_keys().collect();
    assert_eq!(left, [PathBuf::from("swap.target.wants")]);
}

/// What systemd prints of these units in that folder, with which it has to be content; none,
/// and a word about it, where it is not installed.
fn analyze(words: &[&str], folder: &Path, units: &[PathBuf]) -> Option<String> {
    let mut command = Command::new("systemd-analyze");
    command
        .args(words)
        .args(units)
        .env("SYSTEMD_UNIT_PATH", format!("{}:", folder.display()));
    let Ok(output) = command.output() else {
        eprintln!("SKIP: systemd-analyze is not installed");
        return None;
    };
    assert!(
        output.status.success() && output.stderr.trim_ascii().is_empty(),
        "{output:?}"
    );
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What systemd itself thinks of the units.
#[test]
fn systemd_accepts_the_units() {
    let mut verified = 0;
    for case in cases() {
        let run = run(&case);
        let normal = run.out.path().join("normal");
        let services: Vec<_> = tree(&normal)
            .into_iter()
            .filter(|(name, text)| name.components().count() == 1 && !text.starts_with("-> "))
            .map(|(name, _)| name)
            .collect();
        if services.is_empty() {
            continue;
        }
        // The program has to be there for systemd to be content.
        for service in &services {
            let at = normal.join(service);
            let text = fs::read_to_string(&at).unwrap();
            let text = text.replace("/usr/bin/zmeld-guard", "/bin/true");
            fs::write(at, text.replace("/usr/bin/zmeld", "/bin/true")).unwrap();
        }
        let units: Vec<_> = services
            .iter()
            .map(|service| normal.join(service))
            .collect();
        if analyze(
            &["verify", "--man=no", "--recursive-errors=no"],
            &normal,
            &units,
        )
        .is_none()
        {
            return;
        }
        verified += services.len();
    }
    assert!(verified >= 12, "only {verified} units were verified");
}

/// The service that surveys and the one that sends surveys on: systemd reads both, and only
/// the second has a network.
#[test]
fn systemd_accepts_the_services_for_surveys_and_one_of_them_has_no_network() {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
    let folder = tempfile::tempdir().unwrap();
    let units = [
        ("zmeld-survey.service", "/usr/bin/zmeld", "has no access"),
        (
            "zmeld-survey-upload.service",
            "/etc/zmeld/survey-upload",
            "has access",
        ),
    ];
    for (name, program, _) in units {
        let text = fs::read_to_string(packaging.join(name)).unwrap();
        fs::write(folder.path().join(name), text.replace(program, "/bin/true")).unwrap();
    }
    for (name, _, network) in units {
        let units = [folder.path().join(name)];
        let verify = ["verify", "--man=no", "--recursive-errors=no"];
        if analyze(&verify, folder.path(), &units).is_none() {
            return;
        }
        // systemd rates units that do not run from 250 on.
        let security = ["security", "--offline=yes", "--no-pager"];
        let said = analyze(&security, folder.path(), &units).unwrap();
        let line = said.lines().find(|line| line.contains("PrivateNetwork="));
        assert!(line.is_some_and(|line| line.contains(network)), "{said}");
    }
}

/// Names of device units are systemd's own.
#[test]
fn device_units_are_named_as_systemd_names_them() {
    for (device, path) in [
        ("LABEL=my swap/1", "/dev/disk/by-label/my\\x20swap\\x2f1"),
        ("PARTLABEL=Größe", "/dev/disk/by-partlabel/Größe"),
        ("/dev/mapper/a-b_c.d:e", "/dev/mapper/a-b_c.d:e"),
        ("/dev//sda2/", "/dev/sda2"),
    ] {
        let output = Command::new("systemd-escape")
            .args(["--path", "--suffix=device", path])
            .output();
        let Ok(output) = output else {
            eprintln!("SKIP: systemd-escape is not installed");
            return;
        };
        let name = String::from_utf8(output.stdout).unwrap();
        let text = format!("[tier.d]\nkind = \"disk\"\ndevice = '{device}'\n");
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("etc")).unwrap();
        fs::write(root.path().join("etc/zmeld.toml"), text).unwrap();
        let normal = root.path().join("normal");
        let ending = generate(&environment(root.path()), &normal);
        assert_eq!(ending, GeneratorOutcome::Written(3), "{device}");
        assert!(normal.join(format!("{}.d", name.trim())).is_dir(), "{name}");
    }
}
