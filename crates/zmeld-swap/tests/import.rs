//! What other tools' files become: each folder of `tests/import` has a machine's
//! files in `root` and the configuration that comes out of them, on a machine
//! with 8 GiB, in `zmeld.toml`.
//!
//! `ZMELD_BLESS=1 cargo test -p zmeld-swap --test import` writes them anew.

use std::fs;
use std::path::Path;

use zmeld_swap::config::{Config, Severity};
use zmeld_swap::import::import;

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
                let said: Vec<_> = imported
                    .config
                    .check()
                    .into_iter()
                    .filter(|problem| problem.severity == Severity::Error)
                    .map(|problem| (problem.key, problem.what))
                    .collect();
                let read: Vec<_> = err
                    .problems
                    .into_iter()
                    .map(|problem| (problem.key, problem.what))
                    .collect();
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

#[test]
fn files_that_cannot_be_read_are_named() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("etc")).unwrap();
    fs::write(root.path().join("etc/fstab"), vec![b'#'; (1 << 20) + 1]).unwrap();
    let err = import(root.path(), RAM).unwrap_err();
    assert_eq!(err.to_string(), "/etc/fstab is longer than 1 MiB");
    fs::write(
        root.path().join("etc/fstab"),
        b"\xff\x00\x1b[2J none swap sw 0 0\n",
    )
    .unwrap();
    let imported = import(root.path(), RAM).unwrap();
    assert_eq!(imported.left.len(), 1);
    assert!(!imported.to_toml().contains('\x1b'));
}
