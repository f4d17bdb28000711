//! `cargo xtask test`: which steps there are, in which scope.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{bail, Result};

use crate::arguments::Arguments;
use crate::c_tests::{self, CTestEnvironment};
use crate::clean_root;
use crate::coverage;
use crate::fleet;
use crate::freestanding;
use crate::fuzz::{self, Fuzzer};
use crate::kernel_features;
use crate::kernel_tests::{self, KernelCache};
use crate::kubernetes;
use crate::module_build;
use crate::narrow;
use crate::package_tests;
use crate::process::Log;
use crate::processors;
use crate::proofs;
use crate::rust_tests;
use crate::seeded;
use crate::setup;
use crate::shares_model;
use crate::step::{run_all, Action, Stage, Step, Tally, TestScope};

/// The arguments of `test`.
pub const USAGE: &str = "[--quick|--long] [--only NAME]... [--seed N] [--no-install] [--list]
     test --coverage [--quick|--long] [--seed N]";

/// What `test` does.
pub const ABOUT: &str = "\
Runs all tests that this machine can run and names those that it cannot, with
the reason. What the tests need and the machine missing is installed first where
root runs them on Debian or Ubuntu; elsewhere the line that would is printed.
The last line is `N passed, N failed, N skipped`; before it stands NOT A FULL RUN
where something was left out.
  --quick       what fits between two edits
  --long        longer fuzzing, longer sequences, more seeds
  --only NAME   only the steps whose name begins with NAME
  --seed N      random numbers from N, to repeat a run
  --no-install  as root, too, install nothing
  --list        name the steps and what they do
  --coverage    only the C tests: which lines and branches of store/core and
                store/zword they do not reach. Exit code 1: one of them is not
                among those that docs/testing.md names with the reason
Output is kept in target/xtask/logs.";

#[derive(Debug, PartialEq)]
struct Options {
    scope: TestScope,
    only: Vec<String>,
    seed: Option<u64>,
    install: bool,
    list: bool,
    coverage: bool,
}

fn parse(arguments: &[String]) -> Result<Options> {
    let mut options = Options {
        scope: TestScope::Default,
        only: Vec::new(),
        seed: None,
        install: true,
        list: false,
        coverage: false,
    };
    let mut arguments = Arguments::new(arguments);
    while let Some(argument) = arguments.next() {
        match argument {
            "--quick" => options.scope = TestScope::Quick,
            "--long" => options.scope = TestScope::Long,
            "--only" => options.only.push(arguments.value()?.to_owned()),
            "--seed" => options.seed = Some(arguments.number()?),
            "--no-install" => options.install = false,
            "--list" => options.list = true,
            "--coverage" => options.coverage = true,
            other => bail!("there is no argument {other:?}: test {USAGE}"),
        }
    }
    Ok(options)
}

/// Runs the steps that the arguments choose.
pub fn run(arguments: &[String]) -> Result<ExitCode> {
    let options = parse(arguments)?;
    let seed = options.seed.unwrap_or_else(seed_of_today);
    let environment = CTestEnvironment::default();
    if options.coverage {
        return coverage::run(&environment, options.scope, seed);
    }
    let fuzzer = Fuzzer::default();
    let kernels = KernelCache::default();
    let mut steps = steps(&options, seed, &environment, &fuzzer, &kernels)?;
    let mut partial = Vec::new();
    if options.scope == TestScope::Quick {
        partial.push("--quick leaves out the module, kernels and the longer tests".to_owned());
    }
    if !options.only.is_empty() {
        partial.push(format!("only what begins with {}", options.only.join(", ")));
        let known: Vec<String> = steps.iter().map(|step| step.name.clone()).collect();
        steps.retain(|step| options.only.iter().any(|name| step.name.starts_with(name)));
        if steps.is_empty() {
            bail!("no step has that name: {}", known.join(", "));
        }
    }
    if options.list {
        for step in &steps {
            println!("{:<20} {}", step.name, step.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    println!("random numbers from seed {seed}; repeat this run with --seed {seed}");
    let names: Vec<String> = steps.iter().map(|step| step.name.clone()).collect();
    let missing = setup::set_up(&names, options.scope, options.install)?;
    partial.extend(missing.describe());
    let total = run_all(&steps, partial)?;
    Ok(ExitCode::from(u8::from(!total.failed.is_empty())))
}

/// Another one each run, so that many runs see more than one.
fn seed_of_today() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(1, |time| time.as_millis() as u64 % 1_000_000 + 1)
}

fn steps<'a>(
    options: &Options,
    seed: u64,
    environment: &'a CTestEnvironment,
    fuzzer: &'a Fuzzer,
    kernels: &'a KernelCache,
) -> Result<Vec<Step<'a>>> {
    let scope = options.scope;
    let quick = scope == TestScope::Quick;
    let mut steps = vec![
        step("format", "the code is formatted", rust_tests::format),
        step(
            "core-sources",
            "the core has no conditions and names no kernel version",
            freestanding::sources,
        ),
    ];
    if !quick {
        steps.push(step(
            "clippy",
            "no lint has anything to say",
            rust_tests::clippy,
        ));
    }
    steps.push(step(
        "cargo-test",
        "all tests that cargo runs; those inside the crates where --quick",
        move |log: &Log| rust_tests::tests(log, quick),
    ));
    if !quick {
        steps.push(step(
            fleet::STEP,
            "zmeld-fleet: its style, its types, its tests; Spark where --long",
            move |log: &Log| fleet::test(log, scope),
        ));
        steps.push(step(
            kubernetes::STEP,
            "the manifest against Kubernetes' schemas",
            kubernetes::test,
        ));
    }
    if scope == TestScope::Long {
        steps.push(step(
            kubernetes::RUN,
            "a survey in a container with the manifest's rights, and with one less",
            kubernetes::run,
        ));
        steps.push(step(
            clean_root::STEP,
            "the README's command in a new Debian, and where nothing is allowed",
            clean_root::test,
        ));
        steps.push(step(
            package_tests::LIFE,
            "what `dist` makes, installed, upgraded, removed and purged in a Debian",
            package_tests::life,
        ));
        steps.push(step(
            package_tests::TWICE,
            "what `dist` makes is the same to the byte when it is made elsewhere",
            package_tests::twice,
        ));
        steps.push(step(
            processors::STEP,
            "zword gives the same bytes on other processors, emulated",
            processors::test,
        ));
        steps.push(step(
            narrow::STEP,
            "the store's C tests on i386 and armhf, emulated",
            narrow::test,
        ));
        steps.push(step(
            "numa-boot",
            "the simulator's counters against a kernel booted in QEMU",
            rust_tests::numa_boot,
        ));
    }
    if !quick {
        steps.push(step(
            "documentation",
            "it builds and no link is broken",
            rust_tests::documentation,
        ));
    }
    steps.push(step(
        "freestanding",
        "the core needs its port and nothing else, by its symbols",
        |log: &Log| freestanding::symbols(log, &environment.compiler),
    ));
    steps.push(step(
        "c-warnings",
        "the C compiler has nothing to say",
        |log: &Log| freestanding::warnings(log, &environment.compiler),
    ));
    if !quick {
        steps.push(step(
            proofs::STEP,
            "CBMC proves bounds of the codec and the core; larger blocks where --long",
            move |log: &Log| proofs::test(log, scope),
        ));
    }
    for test in c_tests::tests(scope) {
        let start = move |log: &Log| test.start(log, environment, scope, seed);
        let processors = test.processors();
        steps.push(staged(&test.step_name(), test.about, processors, start));
    }
    steps.push(step(
        shares_model::STEP,
        "the protocol of shares in all interleavings of three threads, by spin",
        shares_model::test,
    ));
    if !quick {
        steps.push(step(
            seeded::STEP,
            "faults put into the store are found by its tests; four, all where --long",
            move |log: &Log| seeded::test(log, environment, kernels, scope),
        ));
    }
    for target in fuzz::targets()? {
        let name = target.clone();
        steps.push(step(&name, "libFuzzer attacks", move |log: &Log| {
            fuzzer.run(log, environment, &target, scope, seed)
        }));
    }
    if !quick && module_build::is_there() {
        steps.extend(kernel_steps(scope, seed, kernels)?);
    }
    Ok(steps)
}

/// The module in kernels, one kernel after the other.
fn kernel_steps(scope: TestScope, seed: u64, kernels: &KernelCache) -> Result<Vec<Step<'_>>> {
    let mut steps = vec![step(
        kernel_features::STEP,
        "what kernels have is found by compiling, also in those not to be had",
        kernel_features::test,
    )];
    for &name in kernel_tests::kernels(scope) {
        steps.push(step(
            &format!("kernel-{name}"),
            "that kernel is here, fetched or built",
            move |log: &Log| kernel_tests::provide(log, kernels, name),
        ));
        steps.push(step(
            &format!("module-{name}"),
            "zmeld.ko builds for it without warnings",
            move |log: &Log| kernel_tests::build(log, kernels, name),
        ));
    }
    steps.push(step(
        "checkpatch",
        "the kernel's style, strictly",
        move |log: &Log| kernel_tests::checkpatch(log, kernels),
    ));
    steps.push(step(
        "dkms",
        "DKMS builds and signs it, and signatures are enforced",
        move |log: &Log| kernel_tests::dkms(log, kernels),
    ));
    for name in ["um", "6.12"] {
        steps.push(step(
            &format!("machine-{name}"),
            "experiments in machines of a given size",
            move |log: &Log| kernel_tests::machines(log, kernels, name),
        ));
    }
    if scope == TestScope::Long {
        steps.push(step(
            kernel_tests::RACES,
            "half an hour of swap in a kernel that watches for data races, none ours",
            move |log: &Log| kernel_tests::races(log, kernels, seed),
        ));
    }
    for test in kernel_tests::tests(scope)? {
        let (name, about) = (test.step_name(), test.about());
        let processors = test.processors(scope);
        let start = move |log: &Log| test.start(log, kernels, scope, seed);
        steps.push(staged(&name, about, processors, start));
    }
    Ok(steps)
}

fn step<'a>(name: &str, about: &str, run: impl Fn(&Log) -> Result<Tally> + 'a) -> Step<'a> {
    Step {
        name: name.to_owned(),
        about: about.to_owned(),
        run: Action::Alone(Box::new(run)),
    }
}

/// One that runs beside others where it takes but one processor.
fn staged<'a>(
    name: &str,
    about: &str,
    processors: u32,
    start: impl Fn(&Log) -> Result<Stage> + 'a,
) -> Step<'a> {
    if processors > 1 {
        return step(name, about, move |log: &Log| start(log)?.finish(log));
    }
    Step {
        name: name.to_owned(),
        about: about.to_owned(),
        run: Action::Beside(Box::new(start)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::words;

    #[test]
    fn arguments_are_understood_or_refused() {
        let options = parse(&words("--long --only model --only fuzz --seed 7 --list")).unwrap();
        assert_eq!(options.scope, TestScope::Long);
        assert_eq!(options.only, ["model", "fuzz"]);
        assert_eq!(options.seed, Some(7));
        assert!(options.list && options.install);
        assert!(parse(&words("--only")).is_err());
        assert!(parse(&words("--seed x")).is_err());
        assert!(parse(&words("everything")).is_err());
    }

    #[test]
    fn quick_is_a_part_of_the_rest() {
        let (environment, fuzzer) = (CTestEnvironment::default(), Fuzzer::default());
        let kernels = KernelCache::default();
        let names = |arguments: &str| -> Vec<String> {
            let options = parse(&words(arguments)).unwrap();
            let steps = steps(&options, 1, &environment, &fuzzer, &kernels).unwrap();
            steps.into_iter().map(|step| step.name).collect()
        };
        let all = names("");
        assert!(names("--quick").iter().all(|name| all.contains(name)));
        let long = names("--long");
        assert!(all.iter().all(|name| long.contains(name)));
    }
}
