//! The proof that the core stands on the port alone: by the undefined symbols
//! of its objects, and by what its sources do not say.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{bail, Result};

use crate::c_build::{self, Compiler, Flavour};
use crate::process::Log;
use crate::step::Tally;
use crate::tools;
use crate::workspace;

/// Bytes of a function's stack frame, as a warning of the compiler.
const FRAME_MAX: &str = "-Wframe-larger-than=1024";

const EXPECTED: &[&str] = &["memcmp", "memcpy", "memmove", "memset"];

/// Symbols that some distributions' compilers add to harden a program; no source of ours names
/// them.
const HARDENING: &[&str] = &[
    "_GLOBAL_OFFSET_TABLE_",
    "__memcpy_chk",
    "__memmove_chk",
    "__memset_chk",
    "__stack_chk_fail",
];

/// Words that would tie the core to a kernel's version.
const KERNEL_VERSIONS: &[&str] = &["LINUX_VERSION", "KERNEL_VERSION", "UTS_RELEASE", "linux/"];

/// Links the core's objects, as they were built, with one another and with
/// nothing else, and looks at what is missing.
pub fn symbols(log: &Log, compiler: &Compiler) -> Result<Tally> {
    tools::need(&["ld", "nm"])?;
    let objects = compiler.built(log)?.core_objects()?;
    let sources = workspace::files(&workspace::root().join("store/core"), "c")?;
    let (objects_count, count) = (objects.len(), sources.len());
    if objects_count != count {
        bail!("{objects_count} objects were built of {count} sources in store/core");
    }
    let linked = workspace::work_folder("c")?.join("core.o");
    let mut link = Command::new("ld");
    log.must(link.arg("-r").arg("-o").arg(&linked).args(&objects))?;
    let said = log.must(Command::new("nm").args(["-u", "-P"]).arg(&linked))?;
    let missing = undefined(&said);
    if !missing.iter().any(|symbol| symbol.starts_with("zm_port_")) {
        bail!("the core does not use its port: was it linked at all?");
    }
    let strangers: Vec<&str> = missing.into_iter().filter(|s| !is_allowed(s)).collect();
    let why = format!("the core needs {}", strangers.join(", "));
    let mut tally = Tally::of("freestanding", strangers.is_empty(), why);
    tally.add(frames(log, compiler, &sources)?);
    Ok(tally)
}

/// A kernel's stack is short: no function of the core takes much of it.
fn frames(log: &Log, compiler: &Compiler, sources: &[PathBuf]) -> Result<Tally> {
    let mut command = compiler.command(log, Flavour::AsBuilt)?;
    command
        .current_dir(workspace::work_folder("c/frames")?)
        .args(["-Werror", FRAME_MAX, "-c"])
        .args(sources);
    let why = "a function of the core has a stack frame above 1 KiB";
    Tally::of_run(log, "freestanding", &mut command, why)
}

fn undefined(text: &str) -> Vec<&str> {
    text.lines()
        .filter(|line| !line.starts_with("$ "))
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

fn is_allowed(symbol: &str) -> bool {
    symbol.starts_with("zm_port_") || EXPECTED.contains(&symbol) || HARDENING.contains(&symbol)
}

/// The core and the public headers have no conditions but include guards and
/// name no kernel version.
pub fn sources(_: &Log) -> Result<Tally> {
    let store = workspace::root().join("store");
    let mut faults = Vec::new();
    for (folder, extension) in [("core", "c"), ("core", "h"), ("include/zmeld", "h")] {
        for path in workspace::files(&store.join(folder), extension)? {
            let text = fs::read_to_string(&path)?;
            let found = source_faults(extension == "h", &text);
            faults.extend(found.map(|line| format!("{}: {line}", workspace::shown(&path))));
        }
    }
    let why = faults.join("\n");
    Ok(Tally::of("core-sources", faults.is_empty(), why))
}

/// Lines with conditions, but for a header's guard, and those that name a kernel.
fn source_faults(is_header: bool, text: &str) -> impl Iterator<Item = &str> {
    let mut guards = usize::from(is_header);
    text.lines().filter(move |line| {
        let directive = line
            .trim_start()
            .strip_prefix('#')
            .unwrap_or_default()
            .trim_start();
        if guards > 0 && directive.starts_with("ifndef") {
            guards -= 1;
            return false;
        }
        let is_condition = directive.starts_with("if") || directive.starts_with("el");
        is_condition || KERNEL_VERSIONS.iter().any(|word| line.contains(word))
    })
}

pub fn warnings(log: &Log, compiler: &Compiler) -> Result<Tally> {
    let mut sources = c_build::sources()?;
    sources.extend(workspace::files(&c_build::tests_folder(), "c")?);
    let mut command = compiler.command(log, Flavour::AsBuilt)?;
    command.args(["-Werror", "-fsyntax-only"]).args(&sources);
    Tally::of_run(log, "c-warnings", &mut command, "warnings, see above")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_told_from_the_port() {
        let text = "$ nm -u -P core.o\nzm_port_time_ns U         \nmemcpy U\nmalloc U\n";
        let missing = undefined(text);
        assert_eq!(missing, ["zm_port_time_ns", "memcpy", "malloc"]);
        let strangers: Vec<_> = missing.into_iter().filter(|s| !is_allowed(s)).collect();
        assert_eq!(strangers, ["malloc"]);
    }

    #[test]
    fn only_include_guards_may_be_conditions() {
        let guard = "#ifndef A_H\n#define A_H\n#endif\n";
        assert_eq!(source_faults(true, guard).count(), 0);
        assert_eq!(source_faults(false, guard).count(), 1);
        let second = format!("{guard}#  if X\n#elif Y\n#endif\nint x = LINUX_VERSION_CODE;\n");
        assert_eq!(source_faults(true, &second).count(), 3);
    }
}
