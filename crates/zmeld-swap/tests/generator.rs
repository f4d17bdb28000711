//! The systemd generator: the cases are in `generator.txt`, and systemd itself reads what
//! comes out of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use zmeld_config::Config;
use zmeld_linux::Host;
use zmeld_swap::migrate::generator::{generate, BootEnvironment, GeneratorOutcome};
use zmeld_swap::migrate::units;
use zmeld_tests::script::{self, Outcome, Script};

const PLAIN: &str = include_str!("plain.service");
const PACKAGED: [(&str, &str); 2] = [
    (
        "zmeld-watch.service",
        include_str!("../../../packaging/systemd/zmeld-watch.service"),
    ),
    (
        "zmeld-guard.service",
        include_str!("../../../packaging/systemd/zmeld-guard.service"),
    ),
];

/// A machine, with the generator's output in its folder `out`.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Machine {
        Machine(tempfile::tempdir().unwrap())
    }

    fn boot(&self, virtualization: Option<&str>, in_initrd: Option<&str>) -> GeneratorOutcome {
        let root = self.0.path();
        // The kernel's log takes what is appended to it.
        Host::at(root).plant("/dev/kmsg", "");
        let environment = BootEnvironment {
            root: root.to_owned(),
            program: PathBuf::from("/usr/bin/zmeld"),
            virtualization: virtualization.map(str::to_owned),
            in_initrd: in_initrd.map(str::to_owned),
        };
        generate(&environment, &root.join("out"))
    }

    fn outcome(&self, ended: &GeneratorOutcome) -> Outcome {
        let mut lines = vec![ended.to_string()];
        let log = fs::read_to_string(self.0.path().join("dev/kmsg")).unwrap();
        lines.extend(log.lines().map(|line| format!("log {line}")));
        for (name, text) in tree(&self.0.path().join("out")) {
            match ended {
                _ if text.starts_with("-> ") => lines.push(format!("{name} {text}")),
                GeneratorOutcome::Written(_) => lines.extend(differences(&name, &text)),
                _ => lines.push(format!("left {name}")),
            }
        }
        lines.into_iter().collect()
    }
}

/// All files below a folder; a link is the text "-> TARGET".
fn tree(folder: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            if let Ok(target) = fs::read_link(&path) {
                files.insert(name, format!("-> {}", target.display()));
            } else if path.is_dir() {
                folders.push(path);
            } else {
                files.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    files
}

/// Differences of a unit from its kind.
fn differences(name: &str, text: &str) -> Vec<String> {
    let packaged = PACKAGED.iter().find(|(packaged, _)| *packaged == name);
    let usual = match (packaged, name.strip_prefix("zmeld-tier-")) {
        (Some((_, text)), _) => text.split("\n[Install]").next().unwrap().to_owned(),
        (None, Some(tier)) => {
            let tier = tier.trim_end_matches(".service");
            PLAIN
                .replace(
                    "Compressed swap of zmeld: fast",
                    &format!("Swap tier {tier} of zmeld"),
                )
                .replace("--only fast", &format!("--only {tier}"))
                .replace("StartSec=90s", "StartSec=5min")
                .replace(
                    "Before=",
                    "After=systemd-remount-fs.service\nAfter=zmeld.service\nBefore=",
                )
        }
        _ if name.ends_with(".conf") => "[Unit]\n".to_owned(),
        _ => PLAIN.to_owned(),
    };
    let lines = |text: &str| -> Vec<String> {
        let is_said = |line: &&str| !line.is_empty() && !line.starts_with('#');
        text.lines().filter(is_said).map(str::to_owned).collect()
    };
    let (usual, now) = (lines(&usual), lines(text));
    let more = now.iter().filter(|line| !usual.contains(line));
    let less = usual.iter().filter(|line| !now.contains(line));
    let more = more.map(|line| format!("{name} + {line}"));
    more.chain(less.map(|line| format!("{name} - {line}")))
        .collect()
}

impl script::Case for Machine {
    fn root(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    fn step(&mut self, script: &Script, what: &str, rest: &str, place: &str) -> Outcome {
        match what {
            "file" => {
                Host::at(self.root()).plant("/etc/zmeld.toml", script.text(rest));
                Outcome::default()
            }
            "boot" => {
                let outcome = self.outcome(&self.boot(None, None));
                self.is_accepted();
                outcome
            }
            // SYSTEMD_VIRTUALIZATION,SYSTEMD_IN_INITRD
            "boot-in" => {
                let (virtualization, in_initrd) = rest.split_once(',').unwrap();
                self.outcome(&self.boot(Some(virtualization), Some(in_initrd)))
            }
            // All that can be written, of the file of that path or of none that is named.
            "export" => {
                let text = include_str!("config/everything.toml");
                let config = Config::from_text(Path::new("z.toml"), text).unwrap().config;
                let maker = units::Maker {
                    program: Path::new("/usr/bin/zmeld"),
                    source: Some(Path::new(rest)).filter(|_| !rest.is_empty()),
                    fstab: &Default::default(),
                    install: true,
                };
                let lines = units::units(&config, &maker).into_iter().flat_map(|unit| {
                    let text = match unit.content {
                        units::Content::Text(text) => text,
                        units::Content::Link(path) => format!("-> {}", path.display()),
                    };
                    let name = unit.path.display().to_string();
                    let lines = text.lines().map(|line| format!("{name} {line}"));
                    lines.collect::<Vec<_>>()
                });
                lines.collect()
            }
            _ => panic!("{place}: there is no such step"),
        }
    }
}

#[test]
fn each_configuration_gives_its_units() {
    script::run("generator.txt", Machine::new);
}

impl Machine {
    fn is_accepted(&self) {
        let out = self.0.path().join("out");
        let files = tree(&out);
        let is_unit = |name: &&String| name.ends_with(".service") && !name.contains('/');
        let units: Vec<PathBuf> = files
            .keys()
            .filter(is_unit)
            .map(|it| out.join(it))
            .collect();
        for unit in &units {
            // The program has to be there for systemd to be content.
            let text = fs::read_to_string(unit).unwrap();
            let text = text.replace("/usr/bin/zmeld-guard", "/bin/true");
            fs::write(unit, text.replace("/usr/bin/zmeld", "/bin/true")).unwrap();
        }
        if units.is_empty() {
            return;
        }
        // Beside what systemd itself makes of the same machine.
        let beside = self.0.path().join("beside");
        for (generator, variable, table) in GENERATORS {
            let folder = &beside;
            fs::create_dir_all(folder).unwrap();
            let ran = Command::new(Path::new(FOLDER).join(generator))
                .args([folder, folder, folder])
                .env(variable, self.0.path().join(table))
                .env("SYSTEMD_PROC_CMDLINE", "")
                .env("SYSTEMD_LOG_TARGET", "console")
                .output();
            match ran {
                Ok(ran) => assert!(ran.status.success(), "{ran:?}"),
                Err(_) => eprintln!("SKIP: {generator} is not installed"),
            }
        }
        analyze(&VERIFY, &out, &units);
        let own = self.0.path().join("etc/systemd/system");
        for target in ["swap.target", "default.target"] {
            assert!(!has_cycle(&[&own, &out, &beside], target), "{units:?}");
        }
        fs::remove_dir_all(beside).unwrap();
        let runs_on = |unit: &&PathBuf| ON.iter().any(|name| unit.ends_with(name));
        for unit in units.iter().filter(runs_on) {
            analyze(&RATE, &out, std::slice::from_ref(unit));
        }
    }
}

const FOLDER: &str = "/usr/lib/systemd/system-generators";
const GENERATORS: [(&str, &str, &str); 2] = [
    ("systemd-fstab-generator", "SYSTEMD_FSTAB", "etc/fstab"),
    (
        "systemd-cryptsetup-generator",
        "SYSTEMD_CRYPTTAB",
        "etc/crypttab",
    ),
];

/// The services that go on, as root.
const ON: [&str; 2] = ["zmeld-watch.service", "zmeld-guard.service"];
/// systemd rates what a service may do, from 250 on without running it; 10.0 is all.
const RATE: [&str; 4] = ["security", "--offline=yes", "--no-pager", "--threshold=30"];

const VERIFY: [&str; 3] = ["verify", "--man=no", "--recursive-errors=no"];

/// Whether systemd, starting that unit with what is in those folders, meets a cycle, which it
/// breaks by leaving something out.
fn has_cycle(folders: &[&Path], unit: &str) -> bool {
    let folders = folders.iter().map(|it| format!("{}:", it.display()));
    let mut command = Command::new("systemd-analyze");
    command.args(["verify", "--man=no", unit]);
    command.env("SYSTEMD_UNIT_PATH", folders.collect::<String>());
    let output = command.output();
    output.is_ok_and(|it| String::from_utf8_lossy(&it.stderr).contains("ordering cycle"))
}

#[test]
fn systemd_tells_a_cycle() {
    if Command::new("systemd-analyze").output().is_err() {
        eprintln!("SKIP: systemd-analyze is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // The generator's output if it knew nothing of the mount.
    let unit = "[Unit]\nDefaultDependencies=no\nRequiresMountsFor=/ram/key\nBefore=swap.target\n\
                [Service]\nType=oneshot\nExecStart=/bin/true\n";
    fs::write(folder.path().join("late.service"), unit).unwrap();
    let mount = "[Mount]\nWhat=none\nWhere=/ram\nType=tmpfs\n";
    fs::write(folder.path().join("ram.mount"), mount).unwrap();
    let wants = folder.path().join("swap.target.wants");
    fs::create_dir(&wants).unwrap();
    std::os::unix::fs::symlink("../late.service", wants.join("late.service")).unwrap();
    assert!(has_cycle(&[folder.path()], "swap.target"));
}

/// Output of systemd on these units, with which it has to be content; none, and a word about it,
/// where it is not installed.
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

#[test]
fn systemd_rates_the_services_that_go_on_at_3_at_most() {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
    for name in ON {
        analyze(&RATE, &packaging, &[packaging.join(name)]);
    }
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
        if analyze(&VERIFY, folder.path(), &units).is_none() {
            return;
        }
        let said = analyze(&RATE[..3], folder.path(), &units).unwrap();
        let line = said.lines().find(|line| line.contains("PrivateNetwork="));
        assert!(line.is_some_and(|line| line.contains(network)), "{said}");
    }
}

#[test]
fn shellcheck_accepts_the_services_of_openrc() {
    let openrc = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/openrc");
    for file in ["zmeld", "zmeld-watch"] {
        // Variables are read by OpenRC, which the shebang names.
        let mut shellcheck = Command::new("shellcheck");
        shellcheck.args(["--shell=sh", "--exclude=SC2034"]);
        match shellcheck.arg(openrc.join(file)).output() {
            Ok(output) => assert!(output.status.success(), "{file}: {output:?}"),
            Err(_) => eprintln!("SKIP: shellcheck cannot be started"),
        }
    }
}
