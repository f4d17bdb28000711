//! The project's own tasks: tests and benchmarks, each with all its set-up.
//!
//! `cargo xtask` prints what there is. Tasks that only start a program of the
//! workspace hand their arguments on.

mod apt;
mod arguments;
mod bench;
mod bench_arm64;
mod bench_fault;
mod bench_guard;
mod bench_guest;
mod bench_runs;
mod bench_surveys;
mod c_build;
mod c_tests;
mod clean_root;
mod compilers;
mod coverage;
mod debian;
mod dist;
mod fleet;
mod foreign;
mod freestanding;
mod fuzz;
mod guest;
mod kernel_features;
mod kernel_tests;
mod kernels;
mod kubernetes;
mod library_sources;
mod machine;
mod module_build;
mod narrow;
mod pace;
mod package;
mod package_tests;
mod pages;
mod process;
mod processors;
mod progress;
mod proofs;
mod python;
mod rust_tests;
mod seeded;
mod setup;
mod shares_model;
mod signing;
mod soak;
mod splats;
mod step;
mod stock_kernels;
mod test;
mod tools;
mod train;
#[path = "../../crates/zmeld-linux/tests/support/turn.rs"]
mod turn;
mod vm;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;

/// One task: its name, what its help says, and what it does.
struct Task {
    name: &'static str,
    usage: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<ExitCode>,
}

/// All tasks, in the order in which the help shows them.
const TASKS: &[Task] = &[
    Task {
        name: "test",
        usage: test::USAGE,
        about: test::ABOUT,
        run: test::run,
    },
    Task {
        name: "soak",
        usage: soak::USAGE,
        about: soak::ABOUT,
        run: soak::run,
    },
    Task {
        name: "bench",
        usage: bench::USAGE,
        about: bench::ABOUT,
        run: bench::run,
    },
    Task {
        name: "pages",
        usage: pages::USAGE,
        about: pages::ABOUT,
        run: pages::run,
    },
    Task {
        name: "train",
        usage: train::USAGE,
        about: train::ABOUT,
        run: train::run,
    },
    Task {
        name: "vm",
        usage: vm::USAGE,
        about: vm::ABOUT,
        run: vm::run,
    },
    Task {
        name: "package",
        usage: package::USAGE,
        about: package::ABOUT,
        run: package::run,
    },
    Task {
        name: "dist",
        usage: dist::USAGE,
        about: dist::ABOUT,
        run: dist::run,
    },
];

fn main() -> ExitCode {
    process::stop_children_when_interrupted();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = arguments.split_first() else {
        print!("{}", help());
        return ExitCode::SUCCESS;
    };
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        print!("{}", help());
        return ExitCode::SUCCESS;
    }
    let Some(task) = TASKS.iter().find(|task| task.name == name) else {
        eprint!("there is no task {name:?}\n\n{}", help());
        return ExitCode::from(2);
    };
    // What stands behind `--`, and what a program is handed, is not ours.
    if rest.first().is_some_and(|first| first == "--help") {
        println!("cargo xtask {} {}\n\n{}", task.name, task.usage, task.about);
        return ExitCode::SUCCESS;
    }
    match (task.run)(rest) {
        Ok(code) => code,
        Err(error) if process::was_interrupted() => {
            eprintln!("xtask {name}: stopped: {error}");
            ExitCode::from(130)
        }
        Err(error) => {
            eprintln!("xtask {name}: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn help() -> String {
    let mut text = String::from("Tasks of zmeld, started by `cargo xtask TASK`:\n");
    for task in TASKS {
        text += &format!("\n{} {}\n", task.name, task.usage);
        for line in task.about.lines() {
            text += &format!("    {line}\n");
        }
    }
    text
}
