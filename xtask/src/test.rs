//! `cargo xtask test`: which steps there are, in which scope.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{bail, Result};

use crate::c_tests::{self, CTestEnvironment};
use crate::clean_root;
use crate::freestanding;
use crate::fuzz;
use crate::kernel_features;
use crate::kernel_patch;
use crate::kernel_tests::{self, KernelCache};
use crate::mutants;
use crate::package_tests;
use crate::process::Log;
use crate::processors;
use crate::proofs;
use crate::python;
use crate::rust_tests;
use crate::seeded;
use crate::setup;
use crate::signing;
use crate::step::TestScope::{Default as Usual, Long};
use crate::step::{run_all, Action, Rest, Step, Tally, TestScope};
use crate::world;

/// Run all tests that this machine can run and name those that it cannot, with the reason
///
/// Missing programs that the tests need are installed first where root runs the tests on Debian or
/// Ubuntu; elsewhere the line that would is printed. The last line is
/// `N passed, N failed, N skipped`; before it stands NOT A FULL RUN where something was left out.
/// Output is kept in target/xtask/logs.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Longer fuzzing, longer sequences, more seeds, more kernels
    #[arg(long)]
    long: bool,
    /// Only the steps whose name begins with NAME
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Random numbers from N, to repeat a run
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// As root, too, install nothing
    #[arg(long)]
    no_install: bool,
    /// Name the steps and what they do
    #[arg(long)]
    list: bool,
}

pub fn run(options: &Options) -> Result<ExitCode> {
    let scope = match options.long {
        true => Long,
        false => Usual,
    };
    let seed = options.seed.unwrap_or_else(seed_of_today);
    let environment = CTestEnvironment::default();
    let kernels = KernelCache::default();
    let mut steps = steps(scope, seed, &environment, &kernels)?;
    let mut partial = Vec::new();
    if !options.only.is_empty() {
        partial.push(format!("only what begins with {}", options.only.join(", ")));
        let known: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
        let is_known = |name: &&String| known.iter().any(|it| it.starts_with(name.as_str()));
        if let Some(wrong) = options.only.iter().find(|it| !is_known(it)) {
            let nearest = zmeld_config::choices(wrong, &known);
            bail!("no step is called {wrong}: {nearest} (--list names all, with --long more)");
        }
        steps.retain(|step| options.only.iter().any(|name| step.name.starts_with(name)));
    }
    if options.list {
        for step in &steps {
            println!("{:<20} {}", step.name, step.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    println!("random numbers from seed {seed}; repeat this run with --seed {seed}");
    let names: Vec<String> = steps.iter().map(|step| step.name.clone()).collect();
    partial.extend(setup::set_up(&names, !options.no_install)?);
    let total = run_all(&steps, partial)?;
    Ok(ExitCode::from(u8::from(!total.failed.is_empty())))
}

/// Another one each run, so that many runs see more than one.
fn seed_of_today() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(1, |time| time.as_millis() as u64 % 1_000_000 + 1)
}

struct Steps<'a> {
    scope: TestScope,
    all: Vec<Step<'a>>,
}

impl<'a> Steps<'a> {
    /// One that is in front as a whole, from that scope on.
    fn add(
        &mut self,
        from: TestScope,
        name: impl Into<String>,
        about: &str,
        run: impl Fn(&Log) -> Result<Tally> + 'a,
    ) {
        if self.scope >= from {
            self.push(name.into(), about, Action::Whole(Box::new(run)));
        }
    }

    /// One that runs in the background once what it needs is built.
    fn add_staged(
        &mut self,
        name: impl Into<String>,
        about: &str,
        start: impl Fn(&Log) -> Result<Rest> + 'a,
    ) {
        self.push(name.into(), about, Action::Staged(Box::new(start)));
    }

    fn push(&mut self, name: String, about: &str, run: Action<'a>) {
        self.all.push(Step {
            name,
            about: about.to_owned(),
            run,
        });
    }
}

type PlainStep = (
    TestScope,
    &'static str,
    &'static str,
    fn(&Log) -> Result<Tally>,
);

/// Steps that need nothing of the others: from which scope on, the name, what they are about.
#[rustfmt::skip]
const PLAIN: &[PlainStep] = &[
    (Usual, "format", "the code is formatted", rust_tests::format),
    (Usual, "core-sources", "the core has no conditions and names no kernel version", freestanding::sources),
    (Usual, "clippy", "no lint has anything to say", rust_tests::clippy),
    (Usual, "documentation", "it builds and no link is broken", rust_tests::documentation),
    (Usual, python::DUMPS, "pages of dumps, counted by readers that are not ours", python::dumps),
    (Usual, python::MANIFEST, "the manifest against Kubernetes' schemas", python::manifest),
    (Long, python::CONTAINER, "a survey in a container with the manifest's rights, and with one less", python::container),
    (Long, clean_root::STEP, "the README's command in a new Debian, and where nothing is allowed", clean_root::test),
    (Long, package_tests::LIFE, "what `dist` makes, installed, upgraded, removed and purged in a Debian", package_tests::life),
    (Long, package_tests::TWICE, "what `dist` makes is the same to the byte when it is made elsewhere", package_tests::twice),
    (Long, package_tests::REPOSITORY, "signed repositories for apt and dnf, and what was changed in them", package_tests::repository),
    (Long, processors::STEP, "zword gives the same bytes on other processors, emulated", processors::test),
    (Long, processors::MODULES, "zmeld.ko builds for i386 and arm, by gcc and clang", processors::modules),
    (Long, processors::NARROW, "the store's C tests on i386 and armhf, emulated", processors::narrow),
];

fn steps<'a>(
    scope: TestScope,
    seed: u64,
    environment: &'a CTestEnvironment,
    kernels: &'a KernelCache,
) -> Result<Vec<Step<'a>>> {
    let mut steps = Steps {
        scope,
        all: Vec::new(),
    };
    for (from, name, about, run) in PLAIN {
        steps.add(*from, *name, about, run);
    }
    let about = "the core needs its port and nothing else, by its symbols";
    steps.add(Usual, "freestanding", about, |log| {
        freestanding::symbols(log, &environment.compiler)
    });
    let about = "the C compiler has nothing to say";
    steps.add(Usual, "c-warnings", about, |log| {
        freestanding::warnings(log, &environment.compiler)
    });
    steps.add_staged("cargo-test", "all tests that cargo runs", rust_tests::tests);
    let about = "tests of this machine, each alone where zmeld never ran; all where --long";
    steps.add(Usual, rust_tests::ALONE, about, move |log| {
        rust_tests::alone(log, scope, seed)
    });
    let about = "what others wrote judges: imports by the tools themselves; more where --long";
    steps.add(Usual, world::STEP, about, move |log| {
        world::test(log, scope, seed)
    });
    // Steps that take all processors, between those that are long and take one.
    kernels_and_builds(&mut steps, kernels);
    let about = "zmeld-fleet: its style, its types, its tests; Spark where --long";
    let start = move |log: &Log| python::fleet(log, scope);
    steps.add_staged(python::FLEET, about, start);
    let about = "CBMC proves bounds of the codec and the core; larger blocks where --long";
    steps.add(Usual, proofs::STEP, about, move |log| {
        proofs::test(log, scope)
    });
    for target in fuzz::targets()? {
        let name = target.clone();
        let start = move |log: &Log| fuzz::start(log, environment, &target, scope, seed);
        steps.add_staged(name, "libFuzzer attacks", start);
    }
    for test in c_tests::TESTS {
        let start = move |log: &Log| test.start(log, environment, scope, seed);
        steps.add_staged(test.step_name(), test.about, start);
    }
    let about = "faults put into the store are found by its tests; four, all where --long";
    steps.add(Usual, seeded::STEP, about, move |log| {
        seeded::test(log, environment, scope)
    });
    for room in mutants::ROOMS {
        let about = "small changes by tools are found by its tests; some, drawn by the seed";
        steps.add(Long, room.step(), about, move |log| {
            room.test(log, environment, seed)
        });
    }
    kernel_steps(&mut steps, seed, kernels)?;
    Ok(steps.all)
}

/// Kernels, and the module built for each.
fn kernels_and_builds<'a>(steps: &mut Steps<'a>, kernels: &'a KernelCache) {
    let about = "what kernels have is found by compiling, also in those not to be had";
    steps.add(Usual, kernel_features::STEP, about, kernel_features::test);
    for name in kernel_tests::kernels(steps.scope) {
        // A step of its own, since it may take minutes.
        let about = "that kernel is here, fetched or built";
        steps.add(Usual, format!("kernel-{name}"), about, move |log| {
            kernels.take(log, name).map(|_| Tally::pass())
        });
        if kernel_tests::has_zword(name) {
            continue;
        }
        let about = "zmeld.ko builds for it without warnings";
        steps.add(Usual, format!("module-{name}"), about, move |log| {
            kernel_tests::build(log, kernels, name)
        });
    }
    steps.add(Usual, "checkpatch", "the kernel's style, strictly", |log| {
        kernel_tests::checkpatch(log, kernels)
    });
    let about = "zword as patches for a plain kernel: written, applied, the kernel's style";
    steps.add(Long, kernel_patch::STEP, about, |log| {
        kernel_patch::test(log, &*kernels.take(log, "um")?)
    });
    let about = "DKMS builds and signs it";
    steps.add(Usual, signing::STEP, about, |log| {
        signing::test(log, &*kernels.take(log, "6.1")?)
    });
}

fn kernel_steps<'a>(steps: &mut Steps<'a>, seed: u64, kernels: &'a KernelCache) -> Result<()> {
    let scope = steps.scope;
    // Long steps begin early, so that nothing waits for them in the end.
    let machine = |name| move |log: &Log| kernel_tests::machines(log, kernels, name);
    let experiments = "experiments in machines of a given size";
    steps.add_staged("machine-6.12", experiments, machine("6.12"));
    let about = "half an hour of swap in a kernel that watches for data races, none ours";
    steps.add(Long, kernel_tests::RACES, about, move |log| {
        kernel_tests::races(log, kernels, seed)
    });
    for test in kernel_tests::tests(scope)? {
        let (name, about) = (test.step_name(), test.about());
        let start = move |log: &Log| test.start(log, kernels, scope, seed);
        steps.add_staged(name, &about, start);
    }
    steps.add_staged("machine-um", experiments, machine("um"));
    Ok(())
}
