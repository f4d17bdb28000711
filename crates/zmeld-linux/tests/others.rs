//! Only one place opens files of other processes that can keep a reader waiting.

use std::fs;
use std::path::Path;

/// The files of `/proc/PID` that take the lock of its address space.
const LOCKED: [&str; 11] = [
    "smaps",
    "smaps_rollup",
    "maps",
    "numa_maps",
    "mem",
    "pagemap",
    "clear_refs",
    "cmdline",
    "environ",
    "auxv",
    "map_files",
];
/// One's own: that waits for nobody else.
const OWN: [&str; 4] = [
    "/proc/self/",
    "/proc/thread-self/",
    "/proc/cmdline",
    "proc/cmdline",
];

fn each_source(folder: &Path, each: &mut dyn FnMut(&Path, &str)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !matches!(&*name, "tests" | "benches" | "examples" | "target") {
            each_source(&path, each);
        } else if path.extension().is_some_and(|it| it == "rs") {
            each(&path, &fs::read_to_string(&path).unwrap());
        }
    }
}

/// The words between quotation marks that end in the name of such a file, with their lines.
fn suspects(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap();
    let lines = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let mut found = Vec::new();
    for line in lines {
        let mut rest = line;
        for own in OWN {
            if line.contains(own) {
                rest = "";
            }
        }
        for literal in rest.split('"').skip(1).step_by(2) {
            let last = literal.rsplit('/').next().unwrap();
            let is_locked = LOCKED.contains(&last) || last.starts_with("map_files");
            let is_other = literal.contains("locks") && literal.contains("/proc");
            if is_locked || is_other {
                found.push(line.trim().to_owned());
            }
        }
    }
    found
}

#[test]
fn nothing_else_opens_what_another_process_can_hold_up() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut all = Vec::new();
    let mut is_home_seen = false;
    each_source(crates, &mut |path, text| {
        let found = suspects(text);
        match path.ends_with("zmeld-linux/src/others.rs") {
            true => is_home_seen = !found.is_empty(),
            false => all.extend(
                found
                    .into_iter()
                    .map(|it| format!("{}: {it}", path.display())),
            ),
        }
    });
    assert!(
        is_home_seen,
        "the one that does is not found: what is looked for?"
    );
    assert!(all.is_empty(), "{all:#?}");
}

#[test]
fn what_is_looked_for_is_found() {
    for line in [
        r#"File::open(format!("/proc/{pid}/smaps"))"#,
        r#"process.open_relative("mem")"#,
        r#"host.read("/proc/locks")"#,
        r#"folder.join("numa_maps")"#,
    ] {
        assert_eq!(suspects(line), [line]);
    }
    for line in [
        r#"File::open("/proc/self/mem")"#,
        r#"host.read("/proc/cmdline")"#,
        r#"// reads "smaps""#,
        r#"("memory", "maps of")"#,
    ] {
        assert!(suspects(line).is_empty(), "{line}");
    }
}
