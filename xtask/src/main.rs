//! The project's own tasks: tests and benchmarks, each with all its set-up.
//!
//! `cargo xtask` prints what there is. Tasks that only start a program of the
//! workspace hand their arguments on.

mod apt;
mod bench;
mod bench_fault;
mod bench_guard;
mod bench_guest;
mod bench_runs;
mod c_build;
mod c_tests;
mod clean_root;
mod debian;
mod dist;
mod freestanding;
mod fuzz;
mod guest;
mod kernel_features;
mod kernel_patch;
mod kernel_tests;
mod kernels;
mod machine;
mod module_build;
mod mutants;
mod package;
mod package_tests;
mod pages;
mod process;
mod processors;
mod proofs;
mod python;
mod recipes;
mod rust_tests;
mod seeded;
mod setup;
mod signing;
mod soak;
mod splats;
mod step;
mod stock_kernels;
mod test;
mod tools;
mod totals;
mod vm;
mod workspace;
mod world;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Exit code of a task that cannot take place here.
const UNAVAILABLE: u8 = 77;

/// Tasks of zmeld
#[derive(Parser)]
#[command(bin_name = "cargo xtask", arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    Test(test::Options),
    Soak(soak::Options),
    #[command(subcommand)]
    Bench(bench::Bench),
    Pages(pages::Options),
    Train(pages::Train),
    Vm(vm::Options),
    Dist(dist::Options),
    KernelPatch(kernel_patch::Options),
}

fn main() -> ExitCode {
    process::stop_children_when_interrupted();
    let done = match Arguments::parse().task {
        Task::Test(options) => test::run(&options),
        Task::Soak(options) => soak::run(&options),
        Task::Bench(bench) => bench::run(bench),
        Task::Pages(options) => pages::run(&options),
        Task::Train(what) => pages::train(&what),
        Task::Vm(options) => vm::run(options),
        Task::Dist(options) => dist::run(&options),
        Task::KernelPatch(options) => kernel_patch::run(&options),
    };
    match done {
        Ok(code) => code,
        Err(error) if process::was_interrupted() => {
            eprintln!("stopped: {error}");
            ExitCode::from(130)
        }
        Err(error) if process::reason(&error).is_some() => {
            eprintln!("SKIP: {error:#}");
            ExitCode::from(UNAVAILABLE)
        }
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn options_are_told_apart() {
        <super::Arguments as clap::CommandFactory>::command().debug_assert();
    }
}
