//! Benchmarks: built with optimisation, run in front of the user.

use std::process::ExitCode;

use anyhow::{bail, ensure, Result};

use crate::bench_arm64;
use crate::bench_fault;
use crate::bench_guard;
use crate::bench_guest;
use crate::bench_surveys;
use crate::pages::{self, Set};
use crate::process::run_in_front;
use crate::rust_tests::cargo;
use crate::workspace;

/// The arguments of `bench`.
pub const USAGE: &str = "WHAT [ARGUMENTS...]";

/// What `bench` does.
pub const ABOUT: &str = "\
Runs a benchmark and prints its tables. WHAT is
  store   the page store: codecs, passes, inline melding, threads, hashes
          [--json FILE] [--rounds N] [--pages N] [--only PART] [--codec NAME]
          [--input PATH...]
  codec   zword beside zram's codecs, on the pages that `cargo xtask pages` kept; the
          bar is of the programs that zword's tables never saw
          [--json FILE] [--rounds N] [--pages N]
  kernel  zmeld.ko beside zram, in one boot of one kernel, on the same pages; and
          one codec beside the other, on pages that `cargo xtask pages` kept
          [--kernel NAME] [--json FILE] [--rounds N] [--pages N]
          [--only melding|codecs] [--codec NAME] [--input PATH...]
  swap    a program that needs more memory than there is, with swap on zmeld,
          on zram, on a disk, and without
          [--kernel NAME]
  fault   how long the faults of such a program take and how large it may be, with
          swap on zram and on zmeld with each codec, on the same kept pages
          [--kernel NAME] [--json FILE] [--rounds N] [--only time|largest]
  guard   programs that run away and others that only take much, in guests that are
          looked after by the kernel alone, earlyoom, systemd-oomd and zmeld's guard
          [--kernel NAME] [--json FILE] [--rounds N] [--seed N] [--arm NAME]...
          [--kind NAME]...
  surveys surveys of guests that run programs of this machine, some of them the same
          [--place FOLDER] [--sketch N]
  arm64   instructions that codecs take for a page on arm64, or on x86-64, counted by an
          emulator, on the same kept pages
          [--json FILE] [--pages N] [--x86-64]";

struct Bench {
    name: &'static str,
    run: fn(&[String]) -> Result<ExitCode>,
}

const BENCHES: &[Bench] = &[
    Bench {
        name: "store",
        run: store,
    },
    Bench {
        name: "codec",
        run: codec,
    },
    Bench {
        name: "kernel",
        run: bench_guest::kernel,
    },
    Bench {
        name: "swap",
        run: bench_guest::swap,
    },
    Bench {
        name: "fault",
        run: bench_fault::run,
    },
    Bench {
        name: "guard",
        run: bench_guard::run,
    },
    Bench {
        name: "surveys",
        run: bench_surveys::run,
    },
    Bench {
        name: "arm64",
        run: bench_arm64::run,
    },
];

/// Runs the benchmark that the first argument names.
pub fn run(arguments: &[String]) -> Result<ExitCode> {
    let known: Vec<&str> = BENCHES.iter().map(|bench| bench.name).collect();
    let Some((name, rest)) = arguments.split_first() else {
        bail!("name a benchmark: {}", known.join(", "));
    };
    let Some(bench) = BENCHES.iter().find(|bench| bench.name == name) else {
        bail!("there is no benchmark {name:?}: {}", known.join(", "));
    };
    (bench.run)(rest)
}

fn store(arguments: &[String]) -> Result<ExitCode> {
    of_store("store", arguments)
}

fn codec(arguments: &[String]) -> Result<ExitCode> {
    let mut arguments = arguments.to_vec();
    for program in pages::programs()? {
        let file = pages::file_of(&program);
        ensure!(
            file.exists(),
            "{} is missing: cargo xtask pages makes it",
            workspace::shown(&file)
        );
        if program.set == Set::Train {
            arguments.push("--trained".to_owned());
        }
        arguments.push(file.display().to_string());
    }
    of_store("codec", &arguments)
}

fn of_store(name: &str, arguments: &[String]) -> Result<ExitCode> {
    let mut command = cargo(&["bench", "--quiet", "--package", "zmeld-store"]);
    command.args(["--bench", name, "--"]).args(arguments);
    // Paths among the arguments are meant from where the user is.
    command.env("ZMELD_BENCH_FOLDER", std::env::current_dir()?);
    let status = run_in_front(&mut command)?;
    Ok(ExitCode::from(if status.success() { 0 } else { 1 }))
}
