//! Imports of other tools' files: each folder of `tests/import` has a machine's files in `root` and
//! the configuration that comes out of them, on a machine with 8 GiB, in `zmeld.toml`.
//!
//! `ZMELD_BLESS=1 cargo test -p zmeld-swap --test import` writes them anew.

use std::fs;
use std::path::Path;

use zmeld_config::{Config, Finding, Severity};
use zmeld_linux::Host;
use zmeld_swap::migrate::import::import;

const RAM: u64 = 8 << 30;

#[test]
fn each_set_up_becomes_a_configuration() {
    let bless = std::env::var_os("ZMELD_BLESS").is_some();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import");
    let mut count = 0;
    for case in fs::read_dir(folder).unwrap() {
        let case = case.unwrap().path();
        let imported = import(&case.join("root"), RAM).unwrap();
        let text = imported.to_toml();
        let expected = case.join("zmeld.toml");
        if bless {
            fs::write(&expected, &text).unwrap();
        }
        assert_eq!(
            text,
            fs::read_to_string(&expected).unwrap(),
            "{}",
            case.display()
        );
        // It is a configuration that zmeld reads, and the same one; where two
        // of its tiers do not go together, check says so.
        match Config::from_text(&expected, &text) {
            Ok(loaded) => assert_eq!(loaded.config, imported.config, "{}", case.display()),
            Err(err) => {
                let errors = |problems: Vec<Finding>| -> Vec<_> {
                    let problems = problems.into_iter();
                    let errors = problems.filter(|it| it.severity == Severity::Critical);
                    errors.map(|it| (it.about, it.what)).collect()
                };
                let (read, said) = (errors(err.problems), errors(imported.config.check()));
                assert_eq!(read, said, "{}", case.display());
            }
        }
        count += 1;
    }
    assert!(count >= 9, "the cases are gone");
}

#[test]
fn a_machine_without_swap_gives_nothing() {
    let root = tempfile::tempdir().unwrap();
    let imported = import(root.path(), RAM).unwrap();
    assert!(imported.files.is_empty() && imported.left.is_empty());
    assert_eq!(imported.config, Config::default());
}

/// A volume that is opened without an option on its offset or header is another, and may be written
/// over.
#[test]
fn a_volume_with_an_option_that_is_not_known_stays_as_it_is() {
    let (root, host) = Host::planted(&[]);
    let put = |name: &str, text: &str| host.plant(format!("/etc/{name}"), text);
    put("fstab", "/dev/mapper/one none swap sw 0 0\n");
    let device = |key: &str, options: &str| {
        put("crypttab", &format!("one /dev/sdc1 {key} {options}\n"));
        let imported = import(root.path(), RAM).unwrap();
        let text = imported.to_toml();
        (imported.left, text.contains("device = \"/dev/sdc1\""), text)
    };
    const RANDOM: &str = "swap,cipher=aes-xts-plain64,size=256";
    for (key, known, unknown) in [
        ("/dev/urandom", RANDOM, "offset=1024"),
        ("/dev/urandom", "swap,cipher=aes-xts-plain64", "size=large"),
        ("/etc/key", "luks", "header=/boot/header"),
        ("/etc/key", "noearly", "tcrypt"),
        // That is plain dm-crypt, too.
        ("/etc/key", "noearly", "swap"),
    ] {
        let (left, is_opened, _) = device(key, known);
        assert!(left.is_empty() && is_opened, "{known}: {left:?}");
        for options in [format!("{known},{unknown}"), format!("{unknown},{known}")] {
            let (left, is_opened, text) = device(key, &options);
            let is_named = |it: &String| it.ends_with(&format!("{unknown:?}: it stays as it is"));
            assert!(left.iter().any(is_named), "{options}: {left:?}");
            assert!(
                !is_opened && text.contains("device = \"/dev/mapper/one\""),
                "{text}"
            );
        }
    }
    for place in ["LABEL=keydev", "UUID=12-34", "/dev/sdd1"] {
        let (left, is_opened, _) = device(&format!("/etc/key:{place}"), "luks");
        let said = format!("its key is on {place}: it stays as it is");
        assert!(
            left.iter().any(|it| it.ends_with(&said)) && !is_opened,
            "{left:?}"
        );
    }
    let (left, is_opened, _) = device("/etc/a:key", "luks");
    assert!(left.is_empty() && is_opened, "{left:?}");
    let (_, _, text) = device("/etc/key", "luks,nofail");
    assert!(text.contains("optional = true"), "{text}");
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let (root, host) = Host::planted(&[]);
    host.plant("/etc/fstab", vec![b'#'; 1 << 20]);
    assert!(import(root.path(), RAM).unwrap().left.is_empty());
    host.plant("/etc/fstab", vec![b'#'; (1 << 20) + 1]);
    let err = import(root.path(), RAM).unwrap_err();
    assert_eq!(err.to_string(), "/etc/fstab is longer than 1 MiB");
    host.plant("/etc/fstab", b"\xff\x00\x1b[2J none swap sw 0 0\n");
    let imported = import(root.path(), RAM).unwrap();
    assert_eq!(imported.left.len(), 1);
    assert!(!imported.to_toml().contains('\x1b'));
}
