//! What is exported, for every configuration of the generator's cases and one
//! with every key; Nix is read by its own programs. The texts
//! themselves are in `tests/export`, one of those that are alike; `ZMELD_BLESS=1` writes
//! them anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use zmeld_config::Config;
use zmeld_migrate::export::{nixos::nixos, units};

const RAM: u64 = 8 << 30;

/// Names and configurations: those of the generator that can be used, and
/// those that are here.
fn configurations() -> Vec<(String, Config)> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut found = Vec::new();
    for case in fs::read_dir(tests.join("generator")).unwrap() {
        let case = case.unwrap().path();
        if let Ok(loaded) = Config::load(&case.join("root")) {
            let name = case.file_name().unwrap().to_str().unwrap().to_owned();
            found.push((name, loaded.config));
        }
    }
    for file in fs::read_dir(tests.join("export")).unwrap() {
        let file = file.unwrap().path();
        if file.extension().is_some_and(|end| end == "toml") {
            let loaded = Config::load_file(&file).unwrap_or_else(|err| panic!("{err}"));
            let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
            found.push((name, loaded.config));
        }
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    assert!(found.len() >= 10, "the cases are gone");
    found
}

/// A program's output; nothing, and a word about it, where it is not installed.
fn run(program: &str, arguments: &[&str]) -> Option<Output> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => Some(output),
        Err(_) => {
            eprintln!("SKIP: {program} is not installed");
            None
        }
    }
}

fn accepts(output: &Output, what: &str) {
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    assert!(
        output.status.success(),
        "{what}: {}",
        String::from_utf8_lossy(&said)
    );
}

#[test]
fn what_is_exported_is_as_it_was() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export");
    let entries = fs::read_dir(&folder).unwrap().map(|it| it.unwrap().path());
    let files = entries.filter(|path| path.extension().is_some_and(|end| end == "nix"));
    let mut compared = 0;
    for (name, config) in configurations() {
        // Others say the same.
        let file = folder.join(format!("{name}.nix"));
        let Ok(expected) = fs::read_to_string(&file) else {
            continue;
        };
        let text = nixos(&config, RAM);
        if std::env::var_os("ZMELD_BLESS").is_some() {
            fs::write(&file, &text).unwrap();
        } else {
            assert_eq!(text, expected, "{}", file.display());
        }
        compared += 1;
    }
    assert_eq!(compared, files.count());
}

#[test]
fn shellcheck_accepts_the_services_of_openrc() {
    let openrc = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/openrc");
    for file in ["zmeld", "zmeld-watch"] {
        let file = openrc.join(file);
        // Variables are read by OpenRC, which the shebang names.
        let arguments = ["--shell=sh", "--exclude=SC2034", file.to_str().unwrap()];
        if let Some(output) = run("shellcheck", &arguments) {
            accepts(&output, &file.to_string_lossy());
        }
    }
}

#[test]
fn a_parser_of_nix_accepts_the_modules() {
    for (name, config) in configurations() {
        let text = nixos(&config, RAM);
        let parsed = rnix::Root::parse(&text);
        assert!(
            parsed.errors().is_empty(),
            "{name}: {:?}\n{text}",
            parsed.errors()
        );
    }
    assert!(!rnix::Root::parse("{ ... }: { a = ; }").errors().is_empty());
}

/// The values that come out, by Nix's own evaluator.
#[test]
fn nix_finds_in_the_modules_what_was_configured() {
    let folder = tempfile::tempdir().unwrap();
    let evaluate = |name: &str, config: &Config| -> Option<serde_json::Value> {
        let file: PathBuf = folder.path().join(format!("{name}.nix"));
        fs::write(&file, nixos(config, RAM)).unwrap();
        let call = format!("import {} {{ }}", file.display());
        let output = Command::new("nix-instantiate")
            .args(["--eval", "--strict", "--json", "-E", &call])
            // Nothing of the machine's own is needed, or written to.
            .env("NIX_STORE_DIR", folder.path().join("store"))
            .env("NIX_STATE_DIR", folder.path().join("state"))
            .env("NIX_LOG_DIR", folder.path().join("log"))
            .env("NIX_CONF_DIR", folder.path().join("conf"))
            .env("HOME", folder.path())
            .output();
        let Ok(output) = output else {
            eprintln!("SKIP: nix-instantiate is not installed");
            return None;
        };
        accepts(&output, name);
        Some(serde_json::from_slice(&output.stdout).unwrap())
    };
    for (name, config) in configurations() {
        let Some(value) = evaluate(&name, &config) else {
            return;
        };
        let disks = config
            .tiers
            .iter()
            .filter(|tier| matches!(tier.kind, zmeld_config::Kind::Disk(_)))
            .count();
        let areas = value["swapDevices"].as_array().map_or(0, Vec::len);
        assert_eq!(areas, disks, "{name}: {value}");
        match name.as_str() {
            "optional-drive" => {
                let area = &value["swapDevices"][0];
                assert_eq!(area["device"], "/dev/disk/by-id/nvme-CHEAP_1-part2");
                assert_eq!(area["randomEncryption"]["enable"], true);
                assert_eq!(area["randomEncryption"]["keySize"], 512);
                assert_eq!(area["randomEncryption"]["allowDiscards"], true);
                assert_eq!(area["discardPolicy"], "once");
                assert_eq!(area["options"][0], "nofail");
                assert_eq!(area["options"][1], "x-systemd.device-timeout=5s");
            }
            "zswap-with-encrypted-disk" => {
                assert_eq!(value["boot"]["kernelParams"][0], "zswap.compressor=lz4");
                assert_eq!(value["boot"]["kernelParams"][1], "zswap.enabled=1");
                assert_eq!(value["swapDevices"][0]["device"], "/dev/mapper/zmeld-nvme");
                assert_eq!(
                    value["environment"]["etc"]["crypttab"]["text"],
                    "zmeld-nvme /dev/disk/by-uuid/7a0b1c2d-0000-4000-8000-0123456789ab \
                     /etc/zmeld/nvme\\0401.key luks,x-systemd.device-timeout=30s\n"
                );
            }
            "zram-swap" => {
                assert_eq!(value["zramSwap"]["memoryPercent"], 50);
                assert_eq!(value["zramSwap"]["memoryMax"], 4_294_967_296_i64);
                assert_eq!(value["zramSwap"]["algorithm"], "zstd");
                assert_eq!(value["boot"]["kernel"]["sysctl"]["vm.swappiness"], 150);
            }
            "several-tiers" => {
                // What zmeld is to do is a configuration that it accepts.
                let text = value["environment"]["etc"]["zmeld.toml"]["text"]
                    .as_str()
                    .unwrap();
                let loaded = Config::from_text(Path::new("zmeld.toml"), text).unwrap();
                assert_eq!(loaded.config.tiers.len(), 1);
                assert_eq!(loaded.config.watch, config.watch);
                let command = &value["systemd"]["services"]["zmeld"]["serviceConfig"]["ExecStart"];
                assert_eq!(
                    command,
                    "/run/current-system/sw/bin/zmeld up --boot --only fast"
                );
            }
            _ => {}
        }
    }
}

/// The units of a configuration that is in that file.
fn texts(config: &Config, file: Option<&Path>) -> Vec<String> {
    let maker = units::Maker {
        program: Path::new("/usr/bin/zmeld"),
        made: "A test.",
        source: file,
        config: file,
        install: true,
    };
    let units = units::units(config, &maker).into_iter();
    let text = |unit: units::Unit| match unit.content {
        units::Content::Text(text) => Some(text),
        units::Content::Link(_) => None,
    };
    units.filter_map(text).collect()
}

#[test]
fn units_read_the_file_that_they_were_made_from() {
    let everything = include_str!("export/everything.toml");
    let config = Config::from_text(Path::new("z.toml"), everything)
        .unwrap()
        .config;
    let text = |file: Option<&Path>| texts(&config, file).concat();
    let said = text(Some(Path::new("/etc/my swap.toml")));
    let starts: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("ExecStart="))
        .collect();
    assert!(!starts.is_empty(), "{said}");
    for line in starts {
        assert!(line.contains(" --config \"/etc/my swap.toml\""), "{line}");
    }
    assert!(!text(None).contains("--config"));
}

/// `tmp.mount` comes after `swap.target`: what waits for it does not come before that.
#[test]
fn a_file_below_tmp_makes_no_cycle() {
    for (file, waits) in [("/tmp/swap/file", false), ("/var/swap/file", true)] {
        let text = format!("[tier.f]\nkind = \"disk\"\nfile = \"{file}\"\nsize = \"1GiB\"\n");
        let config = Config::from_text(Path::new("z.toml"), &text)
            .unwrap()
            .config;
        let mut texts = texts(&config, None).into_iter();
        let text = texts.find(|it| it.contains("RequiresMountsFor=/")).unwrap();
        assert_eq!(text.contains("Before=swap.target"), waits, "{file}");
    }
}
