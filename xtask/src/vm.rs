//! `cargo xtask vm`: the module, or the kernel's own zram, in a kernel of its own.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{bail, Context, Result};

use crate::arguments::Arguments;
use crate::guest::Addition;
use crate::kernels::{self, Kernel, KernelRecipe};
use crate::machine::{self, BootOptions, GuestOutcome};
use crate::module_build::{self, Flavour};
use crate::process::Log;
use crate::workspace;

/// What a run that could not take place ends with.
const SKIPPED: u8 = 77;
/// The script succeeded, and the kernel complained.
const COMPLAINED: u8 = 100;
/// The guest ended before its script did.
const DIED: u8 = 101;

/// The arguments of `vm`.
pub const USAGE: &str = "KERNEL [OPTION]... [SCRIPT [ARGUMENT]...]";

/// What `vm` does.
pub const ABOUT: &str = "\
Boots zmeld.ko in a kernel and runs a script there, or a shell without one. The
script's output goes to standard output and its exit code is ours; 77: it cannot
run here, and why; 100: the kernel complained; 101: the guest died. KERNEL is
  um        user-mode Linux from the newest linux-source
  um-debug  the same with KASAN, lockdep, kmemleak and fault injection
  kcsan     the newest linux-source in QEMU, watching for data races
  6.1, 6.12, 7.2, 7.3, 6.12-rt, 7.3-rt
            Debian's kernels in QEMU, -rt: with PREEMPT_RT
  6.1-arm64, 7.3-arm64, 6.12-arm64-16k, 7.3-arm64-16k
            the same for arm64, -16k: with pages of 16 KiB
What is missing is fetched and built under target/kernels, once. Remove a folder
there to take a newer kernel. Options:
  --module PATH     this module, and not one built from store/kmod
  --no-module       none: the kernel's own zram is there
  --no-load         the script loads the module itself
  --debug           with assertions and self-tests (always so in um-debug)
  --memory MIB      the guest's memory (512)
  --cpus N          its processors (2)
  --disk MIB        an empty disk; may be repeated
  --file PATH[=AT]  a file for the guest, in /guest or AT; may be repeated
  --with PROGRAM    a program of this machine; may be repeated
  --set NAME=VALUE  a variable for the script; may be repeated
  --append WORDS    more for the kernel's command line
  --messages PATH   keep the kernel's messages there
  --time-limit S    the longest it may take (900)";

struct Options {
    recipe: &'static KernelRecipe,
    module: Module,
    boot: BootOptions,
    messages: Option<PathBuf>,
}

enum Module {
    Built(Flavour),
    Given(PathBuf),
    None,
}

fn parse(arguments: &[String]) -> Result<Options> {
    let known: Vec<&str> = kernels::RECIPES.iter().map(|recipe| recipe.name).collect();
    let Some((name, rest)) = arguments.split_first() else {
        bail!("name a kernel: {}", known.join(", "));
    };
    let Some(recipe) = kernels::recipe(name) else {
        bail!("there is no kernel {name:?}: {}", known.join(", "));
    };
    let mut options = Options {
        recipe,
        module: Module::Built(Flavour::of(recipe)),
        boot: BootOptions::default(),
        messages: None,
    };
    let mut arguments = Arguments::new(rest);
    while let Some(argument) = arguments.next() {
        let boot = &mut options.boot;
        match argument {
            "--module" => options.module = Module::Given(PathBuf::from(arguments.value()?)),
            "--no-module" => options.module = Module::None,
            "--no-load" => boot.load = false,
            "--debug" => options.module = Module::Built(Flavour::Debug),
            "--memory" => boot.memory = number(argument, arguments.value()?)?,
            "--cpus" => boot.processors = number(argument, arguments.value()?)? as u32,
            "--disk" => boot.disks.push(number(argument, arguments.value()?)?),
            "--file" => boot.files.push(file(arguments.value()?)?),
            "--with" => boot.programs.push(arguments.value()?.to_owned()),
            "--set" => boot.variables.push(variable(arguments.value()?)?),
            "--append" => boot.append += &format!(" {}", arguments.value()?),
            "--messages" => options.messages = Some(PathBuf::from(arguments.value()?)),
            "--time-limit" => {
                boot.limit = Duration::from_secs(number(argument, arguments.value()?)?)
            }
            other if other.starts_with('-') => bail!("there is no option {other:?}: vm {USAGE}"),
            script => {
                boot.script = Some(self::script(Path::new(script))?);
                boot.arguments = arguments.by_ref().map(str::to_owned).collect();
            }
        }
    }
    Ok(options)
}

fn number(name: &str, text: &str) -> Result<u64> {
    match text.parse() {
        Ok(0) | Err(_) => bail!("{name} {text}: not a number above zero"),
        Ok(number) => Ok(number),
    }
}

fn variable(text: &str) -> Result<(String, String)> {
    let (name, value) = text
        .split_once('=')
        .with_context(|| format!("--set {text}: not NAME=VALUE"))?;
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(fits) {
        bail!("--set {text}: {name:?} is no name of a variable");
    }
    Ok((name.to_owned(), value.to_owned()))
}

fn file(text: &str) -> Result<Addition> {
    let (path, at) = match text.split_once('=') {
        Some((path, at)) => (path, at.to_owned()),
        None => (text, format!("/guest/{}", name_of(Path::new(text)))),
    };
    Addition::file(&at, Path::new(path))
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// The script, under the name that the guest's first program starts.
pub fn script(path: &Path) -> Result<Addition> {
    let mut script = Addition::file("/guest/script", path)?;
    script.executable = true;
    Ok(script)
}

/// Runs what the arguments say.
pub fn run(arguments: &[String]) -> Result<ExitCode> {
    let mut options = parse(arguments)?;
    let logs = workspace::work_folder("logs")?;
    let log = Log::create(&logs.join(format!("vm-{}.log", options.recipe.name)))?;
    let skip = |reason: &str| {
        eprintln!("SKIP: {}: {reason}", options.recipe.name);
        Ok(ExitCode::from(SKIPPED))
    };
    let kernel = match kernels::provide(&log, options.recipe)? {
        Ok(kernel) => kernel,
        Err(reason) => return skip(&reason),
    };
    if let Some(reason) = machine::cannot_run(&kernel) {
        return skip(&reason);
    }
    options.boot.module = match &options.module {
        Module::None => None,
        Module::Given(path) => Some(Addition::module(path)?),
        Module::Built(_) if !module_build::is_there() => {
            bail!("there is no module to build: store/kmod has no Kbuild (--no-module?)")
        }
        Module::Built(flavour) => {
            let module = module_build::build(&log, &kernel, *flavour)?;
            Some(Addition::module(&module)?)
        }
    };
    let outcome = machine::run(&kernel, &options.boot, &mut std::io::stdout())?;
    if let Some(path) = &options.messages {
        std::fs::write(path, &outcome.messages)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(ExitCode::from(verdict(&kernel, &outcome)))
}

/// The exit code, with what there is to say about it said.
fn verdict(kernel: &Kernel, outcome: &GuestOutcome) -> u8 {
    let mut err = std::io::stderr().lock();
    for complaint in &outcome.complaints {
        let _ = writeln!(err, "the kernel complained: {complaint}");
    }
    match outcome.code {
        None => {
            let _ = writeln!(
                err,
                "{}\nthe guest ({}) ended before its script did; its kernel's last words are above",
                outcome.tail(),
                kernel.recipe.name
            );
            DIED
        }
        Some(0) if !outcome.complaints.is_empty() => {
            let _ = writeln!(err, "keep all that it said with --messages PATH");
            COMPLAINED
        }
        Some(code) => code as u8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::words;

    #[test]
    fn arguments_are_understood_or_refused() {
        let options = parse(&words(
            "um-debug --memory 256 --disk 64 --disk 32 --set A=b=c --no-load Cargo.toml x --y",
        ))
        .unwrap();
        assert_eq!(options.recipe.name, "um-debug");
        assert!(matches!(options.module, Module::Built(Flavour::Debug)));
        assert_eq!(options.boot.memory, 256);
        assert_eq!(options.boot.disks, [64, 32]);
        assert_eq!(options.boot.variables, [("A".into(), "b=c".into())]);
        assert_eq!(options.boot.arguments, ["x", "--y"]);
        assert!(!options.boot.load);
        for bad in [
            "",
            "7.9",
            "um --memory",
            "um --memory 0",
            "um --set =x",
            "um --what",
            "um /no/such/script",
        ] {
            assert!(parse(&words(bad)).is_err(), "{bad}");
        }
    }
}
