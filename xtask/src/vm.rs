//! `cargo xtask vm`: the module, or the kernel's own zram, in a kernel of its own.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::guest::Addition;
use crate::kernels;
use crate::machine::{self, BootOptions};
use crate::module_build::{self, Flavour};
use crate::process::Log;
use crate::recipes::{self, KernelRecipe};
use crate::workspace;

/// The script succeeded, and the kernel complained.
const COMPLAINED: u8 = 100;
/// The guest ended before its script did.
const DIED: u8 = 101;

/// Boot zmeld.ko in a kernel and run a script there, or a shell without one
///
/// The script's output goes to standard output and its exit code is ours; 77: it cannot
/// run here, and why; 100: the kernel complained; 101: the guest died. KERNEL is um
/// (user-mode Linux from the newest linux-source), um-debug (the same with KASAN, lockdep,
/// kmemleak and fault injection), um-zword, um-zword-6.12 and um-zword-7.3 (with the patches of
/// `kernel-patch`, which zram takes), kcsan (the newest linux-source in QEMU, watching for data
/// races), or one of Debian's in QEMU: 6.1, 6.12, 7.2, 7.3; 6.12-rt and 7.3-rt with
/// PREEMPT_RT; 6.1-arm64, 7.3-arm64, 6.12-arm64-16k and 7.3-arm64-16k for arm64, -16k with
/// pages of 16 KiB. A missing kernel is fetched and built under target/kernels, once. Remove
/// a folder there to take a newer kernel.
#[derive(clap::Args)]
pub struct Options {
    #[arg(value_parser = recipes::named)]
    kernel: &'static KernelRecipe,
    /// None: the kernel's own zram is there
    #[arg(long)]
    no_module: bool,
    /// The guest's memory
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..))]
    memory: u64,
    /// Its processors
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    cpus: u32,
    /// An empty disk; may be repeated
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..))]
    disk: Vec<u64>,
    /// A file for the guest, in /guest or AT; may be repeated
    #[arg(long, value_name = "PATH[=AT]", value_parser = file)]
    file: Vec<Addition>,
    /// A program of this machine; may be repeated
    #[arg(long, value_name = "PROGRAM")]
    with: Vec<String>,
    /// The script and its arguments
    #[arg(
        value_name = "SCRIPT",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    script: Vec<String>,
}

fn file(text: &str) -> Result<Addition, String> {
    let (path, at) = text.split_once('=').unwrap_or((text, ""));
    let name = Path::new(path).file_name().unwrap_or_default();
    let own = format!("/guest/{}", name.to_string_lossy());
    let at = if at.is_empty() { &own } else { at };
    Addition::file(at, Path::new(path)).map_err(|error| format!("{error:#}"))
}

/// The script, under the name that the guest's first program starts.
pub fn script(path: &Path) -> Result<Addition> {
    let mut script = Addition::file("/guest/script", path)?;
    script.executable = true;
    Ok(script)
}

pub fn run(options: Options) -> Result<ExitCode> {
    let recipe = options.kernel;
    let mut arguments = options.script.into_iter();
    let script = arguments.next().map(|path| script(Path::new(&path)));
    let script = script.transpose()?;
    let log = Log::named(&format!("vm-{}", recipe.name))?;
    let kernel = kernels::provide(&log, recipe).context(recipe.name)?;
    machine::need(&kernel).context(recipe.name)?;
    let build = || module_build::build(&log, &kernel, Flavour::Release);
    let module = (!options.no_module).then(build);
    let boot = BootOptions {
        script,
        arguments: arguments.collect(),
        module: module
            .transpose()?
            .map(|path| Addition::module(&path))
            .transpose()?,
        files: options.file,
        programs: options.with,
        memory: options.memory,
        processors: options.cpus,
        disks: options.disk,
        ..BootOptions::default()
    };
    let outcome = machine::run(&kernel, &boot, &mut std::io::stdout())?;
    log.note(&outcome.messages)?;
    for complaint in &outcome.complaints {
        eprintln!("the kernel complained: {complaint}");
    }
    Ok(ExitCode::from(match outcome.code {
        None => {
            let name = recipe.name;
            eprintln!(
                "{}\nthe guest ({name}) ended before its script did",
                outcome.tail()
            );
            DIED
        }
        Some(0) if !outcome.complaints.is_empty() => {
            eprintln!("all that it said is in {}", workspace::shown(log.path()));
            COMPLAINED
        }
        Some(code) => code as u8,
    }))
}
