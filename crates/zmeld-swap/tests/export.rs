//! Exports: the texts of a few configurations, and of one with every key, are in `tests/export`;
//! `ZMELD_BLESS=1` writes them anew. Nix reads them with its own programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use zmeld_config::{Config, EncryptionKind, Kind};
use zmeld_swap::migrate::export::{nixos::nixos, units};

const RAM: u64 = 8 << 30;

fn read(text: &str) -> Config {
    let loaded = Config::from_text(Path::new("z.toml"), text);
    loaded.unwrap_or_else(|err| panic!("{err}")).config
}

/// Names and configurations, of which each has a text beside it.
fn configurations() -> Vec<(&'static str, Config)> {
    let lines = include_str!("export/configurations.txt").lines();
    let named = lines.map(|line| {
        let (name, text) = line.split_once(" | ").unwrap();
        (name, read(&text.replace("; ", "\n")))
    });
    let everything = read(include_str!("export/everything.toml"));
    named.chain([("everything", everything)]).collect()
}

/// A program's output; nothing, and a word about it, where it is not installed.
fn run(program: &mut Command) -> Option<Output> {
    let output = program.output().ok();
    if output.is_none() {
        eprintln!("SKIP: {program:?} cannot be started");
    }
    output
}

fn accepts(output: &Output, what: &str) {
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{what}: {said}");
}

#[test]
fn what_is_exported_is_as_it_was_and_a_parser_of_nix_accepts_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export");
    for (name, config) in configurations() {
        let text = nixos(&config, RAM);
        let file = folder.join(format!("{name}.nix"));
        if std::env::var_os("ZMELD_BLESS").is_some() {
            fs::write(&file, &text).unwrap();
        }
        assert_eq!(text, fs::read_to_string(&file).unwrap(), "{name}");
        let parsed = rnix::Root::parse(&text);
        assert!(parsed.errors().is_empty(), "{name}: {:?}", parsed.errors());
    }
    assert!(!rnix::Root::parse("{ ... }: { a = ; }").errors().is_empty());
}

#[test]
fn shellcheck_accepts_the_services_of_openrc() {
    let openrc = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/openrc");
    for file in ["zmeld", "zmeld-watch"] {
        // Variables are read by OpenRC, which the shebang names.
        let mut shellcheck = Command::new("shellcheck");
        shellcheck.args(["--shell=sh", "--exclude=SC2034"]);
        if let Some(output) = run(shellcheck.arg(openrc.join(file))) {
            accepts(&output, file);
        }
    }
}

/// Nix's own evaluator finds no name twice, and as many areas as there are disks; what zmeld
/// is to do itself is a configuration that it accepts.
#[test]
fn nix_finds_in_the_modules_what_was_configured() {
    let folder = tempfile::tempdir().unwrap();
    for (name, config) in configurations() {
        let file: PathBuf = folder.path().join(format!("{name}.nix"));
        fs::write(&file, nixos(&config, RAM)).unwrap();
        let call = format!("import {} {{ }}", file.display());
        let mut nix = Command::new("nix-instantiate");
        nix.args(["--eval", "--strict", "--json", "-E", &call]);
        // Nothing of the machine's own is needed, or written to.
        for place in [
            "NIX_STORE_DIR",
            "NIX_STATE_DIR",
            "NIX_LOG_DIR",
            "NIX_CONF_DIR",
        ] {
            nix.env(place, folder.path().join(place));
        }
        let Some(output) = run(nix.env("HOME", folder.path())) else {
            return;
        };
        accepts(&output, name);
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let is_disk = |tier: &&zmeld_config::Tier| match &tier.kind {
            Kind::Disk(disk) => disk.encryption != EncryptionKind::Luks,
            _ => false,
        };
        let disks = config.tiers.iter().filter(is_disk).count();
        let areas = value["swapDevices"].as_array().map_or(0, Vec::len);
        assert_eq!(areas, disks, "{name}: {value}");
        let settings = &value["services"]["zmeld"]["settings"];
        if settings.is_object() {
            let text = toml::to_string(settings).unwrap();
            assert_eq!(read(&text).watch, config.watch, "{name}");
        }
    }
}

#[test]
fn units_read_the_file_that_they_were_made_from() {
    let config = read(include_str!("export/everything.toml"));
    let texts = |file: Option<&Path>| -> String {
        let maker = units::Maker {
            program: Path::new("/usr/bin/zmeld"),
            source: file,
            fstab: &Default::default(),
            install: true,
        };
        let units = units::units(&config, &maker).into_iter();
        let text = |unit: units::Unit| match unit.content {
            units::Content::Text(text) => Some(text),
            units::Content::Link(_) => None,
        };
        units.filter_map(text).collect()
    };
    let said = texts(Some(Path::new("/etc/my swap.toml")));
    let starts: Vec<&str> = said
        .lines()
        .filter(|it| it.starts_with("ExecStart="))
        .collect();
    assert!(!starts.is_empty(), "{said}");
    for line in starts {
        assert!(line.contains(" --config \"/etc/my swap.toml\""), "{line}");
    }
    assert!(!texts(None).contains("--config"));
}
