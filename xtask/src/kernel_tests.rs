//! In real kernels: the module builds for each, and the guest tests pass, those of
//! the modules (`store/kmod/tests`, `store/crypto/tests`) and those of the command line
//! (`crates/zmeld-swap/tests/guest`).
//!
//! A guest test says in its head, behind `# guest:`, what it needs:
//! `upstream` (it also has to pass on the kernel's own zram), `kernel=NAME,NAME`,
//! `memory=MIB`, `disk=MIB` for each empty disk, `program=NAME`,
//! `packages=NAME,NAME`, `module` (the command line's tests go without), `small-blocks`
//! (its blocks are smaller than a page), `narrow-fingerprints` (they have one bit),
//! `systemd` (it runs in a Debian that systemd started), `dist` (the program's packages),
//! `groups-v1=NAME` (there systemd mounts control groups of version 1),
//! `dkms` (that Debian has both packages and two kernels), `dkms-broken` (the module
//! builds for the first of them alone), `long` (only with `--long`).
//! It prints a line a check, `ok N - name` or `not ok N - name`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, Context, Result};

use crate::apt::{Reason, Suite};
use crate::debian;
use crate::guest::{self, Addition};
use crate::kernel_features;
use crate::kernels::{self, Arch, Kernel, KernelRecipe, Kind};
use crate::machine::{self, BootOptions, GuestOutcome};
use crate::module_build::{self, Flavour};
use crate::package_tests::{self, Sources};
use crate::process::Log;
use crate::rust_tests;
use crate::signing;
use crate::step::{Stage, Tally, TestScope};
use crate::tools;
use crate::vm;
use crate::workspace;

const CHECK_LIMIT: Duration = Duration::from_secs(300);

/// The kernels of a scope: the newest, and each stock one; the one that checks
/// most is some twenty times slower, and is for those who have the time.
pub fn kernels(scope: TestScope) -> &'static [&'static str] {
    match scope {
        TestScope::Quick => &[],
        TestScope::Default => &["um", "6.1", "6.12"],
        TestScope::Long => &[
            "um-debug",
            "um",
            "6.1",
            "6.12",
            "6.12-rt",
            "7.2",
            "7.3",
            "7.3-rt",
            "6.1-arm64",
            "6.12-arm64-16k",
            "7.3-arm64",
            "7.3-arm64-16k",
        ],
    }
}

/// The tests that stock kernels run where time is short: there they show that
/// nothing depends on the newest kernel, with two processors. QEMU is slow.
const COMPACT: &[&str] = &["attributes", "meddled", "meld", "parts", "readers", "swap"];

/// The kernel in which a Debian for arm64 is set up.
const SETS_UP_ARM64: &str = "6.1-arm64";

/// The kernels of `cargo xtask soak`: the one that checks most, whose processors
/// stay, and one whose processors come and go.
pub const SOAK_KERNELS: &[&str] = &["um-debug", "6.12"];

/// The script that they run.
const SOAK: &str = "soak";

/// The step of the kernel that watches for data races, which is also its name and its
/// script's; and how many seconds it swaps.
pub const RACES: &str = "kcsan";
const RACES_SECONDS: u64 = 1800;

/// Kernels that are here, and why others are not: asked for once.
#[derive(Default)]
pub struct KernelCache {
    kernels: RefCell<BTreeMap<&'static str, std::result::Result<Arc<Kernel>, Reason>>>,
}

impl KernelCache {
    fn take(
        &self,
        log: &Log,
        name: &'static str,
    ) -> Result<std::result::Result<Arc<Kernel>, Reason>> {
        if let Some(known) = self.kernels.borrow().get(name) {
            return Ok(known.clone());
        }
        let recipe = kernels::recipe(name).context("a kernel without a recipe")?;
        let found = kernels::provide(log, recipe)?.map(Arc::new);
        self.kernels.borrow_mut().insert(name, found.clone());
        Ok(found)
    }
}

/// The kernel is here: a step of its own, since it may take minutes.
pub fn provide(log: &Log, kernels: &KernelCache, name: &'static str) -> Result<Tally> {
    Ok(match kernels.take(log, name)? {
        Ok(_) => Tally::pass(),
        Err(reason) => Tally::skip(&format!("kernel-{name}"), reason),
    })
}

/// The modules build without a warning, zmeld.ko in two flavours; sparse is content
/// where there is one.
pub fn build(log: &Log, kernels: &KernelCache, name: &'static str) -> Result<Tally> {
    let step = format!("module-{name}");
    let kernel = match kernels.take(log, name)? {
        Ok(kernel) => kernel,
        Err(reason) => return Ok(Tally::skip(&step, reason)),
    };
    let mut tally = Tally::default();
    for flavour in [Flavour::Release, Flavour::Debug, Flavour::Codec] {
        let built = module_build::build(log, &kernel, flavour);
        let why = built.as_ref().err().map(|error| format!("{error:#}"));
        tally.add(Tally::of(&step, built.is_ok(), why.unwrap_or_default()));
        if let Ok(module) = built {
            tally.add(kernel_features::judge_build(
                &step,
                &kernel.release,
                flavour,
                &module,
            )?);
        }
    }
    if !is_read_by_sparse(kernel.recipe) {
        return Ok(tally);
    }
    if !tools::is_on_path("sparse") {
        tally.add(Tally::skip(&step, "sparse is not installed"));
    } else if tally.failed.is_empty() {
        for flavour in [Flavour::Debug, Flavour::Codec] {
            tally.add(match module_build::sparse(log, &kernel, flavour)? {
                Some(said) => Tally::of(&step, said.is_empty(), said.join("\n")),
                None => Tally::skip(&step, "its build takes a newer sparse than there is here"),
            });
        }
    }
    Ok(tally)
}

/// The same sources on other processors have nothing new for it, and its count of locks
/// takes those of a real-time kernel twice: as the core's and as the kernel's.
fn is_read_by_sparse(recipe: &KernelRecipe) -> bool {
    recipe.compilers.is_none() && recipe.arch == Arch::Amd64 && !recipe.series.1.starts_with("rt-")
}

/// What checkpatch says of code that is written for one kernel, and for a kernel:
/// the core has no BIT() and other homes have no XArray; libraries choose their
/// own names; macros that print a field's name use it twice; kmalloc_obj() is newer
/// than two kernels; what only sparse reads is empty for compilers. SPACING takes one
/// pointer for a product.
const CHECKPATCH_IGNORED: &str = "CONST_STRUCT,BIT_MACRO,CAMELCASE,MACRO_ARG_REUSE,\
    MACRO_ARG_PRECEDENCE,ALLOC_WITH_SIZEOF,CONSTANT_COMPARISON,\
    UNCOMMENTED_DEFINITION,MACRO_ARG_UNUSED,DEPRECATED_API,LONG_LINE_STRING,SPACING";

/// The kernel's own style check has nothing to say about the module.
pub fn checkpatch(log: &Log, kernels: &KernelCache) -> Result<Tally> {
    let kernel = match kernels.take(log, "um")? {
        Ok(kernel) => kernel,
        Err(reason) => return Ok(Tally::skip("checkpatch", reason)),
    };
    let Some(source) = kernel
        .source
        .as_deref()
        .filter(|_| tools::is_on_path("perl"))
    else {
        return Ok(Tally::skip("checkpatch", "no perl, or no kernel source"));
    };
    let mut command = Command::new(source.join("scripts/checkpatch.pl"));
    command.current_dir(source);
    command.args([
        "--no-tree",
        "--strict",
        "--terse",
        "--show-types",
        "--no-summary",
    ]);
    command.args([
        "--max-line-length=100",
        "--ignore",
        CHECKPATCH_IGNORED,
        "--file",
    ]);
    let store = workspace::root().join("store");
    for part in module_build::SOURCES.iter().chain(&["crypto"]) {
        for extension in ["c", "h"] {
            command.args(sources(&store.join(part), extension)?);
        }
    }
    let ran = log.run(&mut command, CHECK_LIMIT)?;
    Ok(Tally::of(
        "checkpatch",
        ran.succeeded(),
        "it has a point, see above",
    ))
}

/// DKMS builds and signs it for 6.1, and signatures are what they should be.
pub fn dkms(log: &Log, kernels: &KernelCache) -> Result<Tally> {
    match kernels.take(log, "6.1")? {
        Ok(kernel) => signing::test(log, &kernel),
        Err(reason) => Ok(Tally::skip("dkms", reason)),
    }
}

/// Experiments in machines that boot this kernel.
pub fn machines(log: &Log, kernels: &KernelCache, name: &'static str) -> Result<Tally> {
    let step = format!("machine-{name}");
    let kernel = match kernels.take(log, name)? {
        Ok(kernel) => kernel,
        Err(reason) => return Ok(Tally::skip(&step, reason)),
    };
    match machine::cannot_run(&kernel) {
        Some(reason) => Ok(Tally::skip(&step, reason)),
        None if !tools::is_root() => Ok(Tally::skip(&step, "experiments are for root")),
        None => rust_tests::machines(log, &step, &kernel.image),
    }
}

fn sources(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = workspace::files(folder, extension)?;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("tests") {
            found.extend(sources(&path, extension)?);
        }
    }
    Ok(found)
}

/// What a guest test's head asks for.
#[derive(Clone, Debug, Default, PartialEq)]
struct GuestNeeds {
    upstream: bool,
    small_blocks: bool,
    narrow_fingerprints: bool,
    module: bool,
    systemd: bool,
    dist: bool,
    dkms: Option<Sources>,
    long: bool,
    groups_v1: Vec<String>,
    kernels: Vec<String>,
    memory: Option<u64>,
    disks: Vec<u64>,
    programs: Vec<String>,
    packages: Vec<String>,
}

/// None: not a guest test.
fn needs(script: &str) -> Option<GuestNeeds> {
    let line = script
        .lines()
        .find_map(|line| line.strip_prefix("# guest:"))?;
    let mut needs = GuestNeeds::default();
    for word in line.split_whitespace() {
        match word.split_once('=') {
            None if word == "upstream" => needs.upstream = true,
            None if word == "small-blocks" => needs.small_blocks = true,
            None if word == "narrow-fingerprints" => needs.narrow_fingerprints = true,
            None if word == "module" => needs.module = true,
            None if word == "systemd" => needs.systemd = true,
            None if word == "dist" => needs.dist = true,
            None if word == "dkms" => needs.dkms = Some(Sources::Sound),
            None if word == "dkms-broken" => needs.dkms = Some(Sources::Broken),
            None if word == "long" => needs.long = true,
            Some(("kernel", names)) => {
                needs.kernels = names.split(',').map(str::to_owned).collect();
            }
            Some(("groups-v1", names)) => {
                needs.groups_v1 = names.split(',').map(str::to_owned).collect();
            }
            Some(("memory", mib)) => needs.memory = mib.parse().ok(),
            Some(("disk", mib)) => needs.disks.push(mib.parse().ok()?),
            Some(("program", name)) => needs.programs.push(name.to_owned()),
            Some(("packages", names)) => {
                needs.packages = names.split(',').map(str::to_owned).collect();
            }
            _ => return None,
        }
    }
    Some(needs)
}

/// What systemd says last where nothing is mounted, swapped to or mapped any more.
const DETACHED: &str = "All filesystems, swaps, loop devices, MD devices and DM devices detached.";

/// What a folder's guest tests are about.
#[derive(Clone, Copy, Debug, PartialEq)]
enum TestSubject {
    Module,
    /// zword.ko, which its script loads.
    Codec,
    /// The command line, which is in the guest.
    CommandLine,
}

impl TestSubject {
    const ALL: [TestSubject; 3] = [
        TestSubject::Module,
        TestSubject::Codec,
        TestSubject::CommandLine,
    ];

    fn folder(self) -> PathBuf {
        workspace::root().join(match self {
            TestSubject::Module => "store/kmod/tests",
            TestSubject::Codec => "store/crypto/tests",
            TestSubject::CommandLine => "crates/zmeld-swap/tests/guest",
        })
    }
}

/// One script in one kernel, on zmeld or on the kernel's own zram.
#[derive(Clone)]
pub struct GuestTest {
    /// The script's name.
    pub name: String,
    path: PathBuf,
    subject: TestSubject,
    needs: GuestNeeds,
    kernel: &'static str,
    upstream: bool,
    /// How many seconds, where that is not the scope's.
    seconds: Option<u64>,
    /// What the module is built from, where that is not the workspace's store.
    store: Option<PathBuf>,
}

impl GuestTest {
    /// Its step's name.
    pub fn step_name(&self) -> String {
        let device = if self.upstream { "-zram" } else { "" };
        format!("guest-{}-{}{device}", self.kernel, self.name)
    }

    /// What it does, for lists.
    pub fn about(&self) -> &'static str {
        match self.subject {
            TestSubject::Module if self.upstream => "the test itself, on the zram of that kernel",
            TestSubject::Module => "in that kernel, see store/kmod/tests",
            TestSubject::Codec => "in that kernel, see store/crypto/tests",
            TestSubject::CommandLine => "in that kernel, see crates/zmeld-swap/tests/guest",
        }
    }

    /// How many processors its guest has.
    pub fn processors(&self, scope: TestScope) -> u32 {
        let is_user_mode = is_newest(self.kernel);
        // With two, this young part of the kernel panics now and then by itself
        // ("scheduling from the idle thread"); QEMU's guests have two.
        if is_user_mode && scope != TestScope::Long {
            1
        } else {
            2
        }
    }

    /// Builds what it needs; what is left is to boot it. Each of its checks counts as one
    /// test.
    pub fn start(
        &self,
        log: &Log,
        kernels: &KernelCache,
        scope: TestScope,
        seed: u64,
    ) -> Result<Stage> {
        let skip = |reason| Ok(Stage::Ended(Tally::skip(&self.step_name(), reason)));
        let kernel = match kernels.take(log, self.kernel)? {
            Ok(kernel) => kernel,
            Err(reason) => return skip(reason),
        };
        if let Some(reason) = machine::cannot_run(&kernel) {
            return skip(reason);
        }
        let absent = |name: &&String| guest::program(&kernel, name).is_none();
        if let Some(name) = self.needs.programs.iter().find(absent) {
            return skip(format!("{name} is not on this machine"));
        }
        let mut boot = self.boot(log, &kernel, scope, seed)?;
        if self.needs.dist {
            match package_tests::for_guests(log, kernel.recipe.arch)? {
                Ok(packages) => boot.files.extend(under_names(&packages)?),
                Err(reason) => return skip(reason),
            }
        }
        if self.needs.systemd {
            boot.root = match self.image(log, kernels, &kernel)? {
                Ok(image) => Some(image),
                Err(reason) => return skip(reason),
            };
        }
        let test = self.clone();
        Ok(Stage::Rest(Box::new(move |log| {
            test.boots(log, &kernel, &boot)
        })))
    }

    /// The file system that its guest boots.
    fn image(
        &self,
        log: &Log,
        kernels: &KernelCache,
        kernel: &Kernel,
    ) -> Result<std::result::Result<PathBuf, Reason>> {
        let Some(sources) = self.needs.dkms else {
            return match kernel.recipe.arch {
                Arch::Amd64 => debian::image(log),
                Arch::Arm64 => match kernels.take(log, SETS_UP_ARM64)? {
                    Ok(kernel) => debian::foreign_image(log, &kernel),
                    Err(reason) => Ok(Err(reason)),
                },
            };
        };
        let mut releases = Vec::new();
        for name in package_tests::DKMS_KERNELS {
            match kernels.take(log, name)? {
                Ok(kernel) => releases.push(kernel.release.clone()),
                Err(reason) => return Ok(Err(reason)),
            }
        }
        package_tests::image_with_dkms(log, &releases, sources)
    }

    fn boots(&self, log: &Log, kernel: &Kernel, boot: &BootOptions) -> Result<Tally> {
        let step = self.step_name();
        let mut output = Vec::new();
        let ended = machine::run(kernel, boot, &mut output);
        let output = String::from_utf8_lossy(&output).into_owned();
        log.note(&output)?;
        let outcome = ended?;
        log.note(&format!(
            "---- the kernel's messages ----\n{}",
            outcome.messages
        ))?;
        if self.seconds.is_some() && died_by_itself(kernel, &outcome) {
            log.note("note: that panic is the kernel's own, with two processors")?;
            return Ok(Tally::default());
        }
        let mut tally = checks(&step, &output);
        for complaint in &outcome.complaints {
            log.note(&format!("the kernel complained: {complaint}"))?;
        }
        let quiet = outcome.complaints.is_empty();
        tally.add(Tally::of(&step, quiet, outcome.complaints.join("\n")));
        if self.needs.systemd {
            let clean = outcome.messages.contains(DETACHED);
            tally.add(Tally::of(
                &step,
                clean,
                "the shutdown left something behind",
            ));
        }
        match outcome.code {
            None => tally.add(Tally::fail(&step, "the guest died, see its messages")),
            Some(0) => {}
            Some(code) if tally.failed.is_empty() => {
                tally.add(Tally::fail(&step, format!("exit code {code}")));
            }
            Some(_) => {}
        }
        Ok(tally)
    }

    fn boot(&self, log: &Log, kernel: &Kernel, scope: TestScope, seed: u64) -> Result<BootOptions> {
        let tests = TestSubject::Module.folder();
        let mut boot = BootOptions {
            script: Some(vm::script(&self.path)?),
            load: false,
            programs: self.needs.programs.clone(),
            memory: self.needs.memory.unwrap_or(512),
            processors: self.processors(scope),
            disks: self.needs.disks.clone(),
            ..BootOptions::default()
        };
        for name in ["pages", "meddle"] {
            let source = tests.join(name).with_extension("c");
            let program = module_build::guest_program(log, kernel.recipe, &source)?;
            boot.files
                .push(Addition::file(&format!("/guest/{name}"), &program)?);
        }
        boot.files
            .push(Addition::file("/guest/guest.sh", &tests.join("guest.sh"))?);
        for package in &self.needs.packages {
            boot.files.extend(package_files(log, &[package])?);
        }
        // Where the package brings it, it is not put over that.
        let has_package = self.needs.dist || self.needs.dkms.is_some();
        if self.subject == TestSubject::CommandLine && !has_package {
            boot.files.extend(command_line_files(log)?);
        }
        if self.upstream {
            boot.variables.push(("DEVICE".into(), "zram".into()));
        } else if self.needs.module || self.subject != TestSubject::CommandLine {
            let flavour = if self.subject == TestSubject::Codec {
                Flavour::Codec
            } else if self.needs.small_blocks {
                Flavour::SmallBlocks
            } else if self.needs.narrow_fingerprints {
                Flavour::NarrowFingerprints
            } else if self.kernel == RACES {
                // Assertions look at what nobody else does.
                Flavour::Release
            } else if self.seconds.is_some() {
                Flavour::Debug
            } else {
                Flavour::of(kernel.recipe)
            };
            let module = match &self.store {
                Some(store) => module_build::build_from(log, kernel, flavour, store)?,
                None => module_build::build(log, kernel, flavour)?,
            };
            boot.module = Some(Addition::module(&module)?);
        }
        if self.needs.groups_v1.iter().any(|name| name == self.kernel) {
            boot.append = "systemd.unified_cgroup_hierarchy=0".to_owned();
        }
        boot.variables.push(("SEED".into(), seed.to_string()));
        if kernel.recipe.checks {
            // Its checks need memory of their own, about a quarter, and time: with
            // every allocation traced, a page takes as long as a hundred elsewhere.
            boot.memory += boot.memory / 2;
            boot.variables.push(("SIZE".into(), "16".into()));
            boot.variables.push(("TIME".into(), "30".into()));
        } else if scope == TestScope::Long {
            boot.variables.push(("TIME".into(), "120".into()));
        }
        if scope == TestScope::Long {
            boot.limit = Duration::from_secs(2 * 3600);
        }
        if let Some(seconds) = self.seconds {
            // The last of a variable's values counts.
            boot.variables.push(("TIME".into(), seconds.to_string()));
        }
        Ok(boot)
    }
}

/// The program's package and its later version, as guests find them.
fn under_names(packages: &[PathBuf; 2]) -> Result<Vec<Addition>> {
    let names = ["/guest/zmeld.deb", "/guest/next.deb"];
    let files = names.iter().zip(packages);
    files
        .map(|(name, package)| Addition::file(name, package))
        .collect()
}

/// What user-mode Linux does with two processors now and then, whatever runs in it.
fn died_by_itself(kernel: &Kernel, outcome: &GuestOutcome) -> bool {
    kernel.recipe.kind == Kind::UserMode
        && outcome.code.is_none()
        && outcome.messages.contains("scheduling from the idle thread")
}

/// A program without its debugging information, which a guest has no room for.
fn stripped(log: &Log, program: &Path) -> Result<PathBuf> {
    let name = program.file_name().unwrap_or_default();
    let stripped = workspace::work_folder("guest")?.join(name);
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(&stripped).arg(program);
    if !log.run(&mut strip, CHECK_LIMIT)?.succeeded() {
        bail!("strip fails on {}", program.display());
    }
    Ok(stripped)
}

/// The command line and the guard, as guests have them, with their libraries.
pub fn command_line_files(log: &Log) -> Result<Vec<Addition>> {
    let Some(program) = rust_tests::zmeld(log)? else {
        bail!("zmeld does not build");
    };
    let guard = stripped(log, &program.with_file_name("zmeld-guard"))?;
    let program = stripped(log, &program)?;
    let mut files = vec![
        Addition::file("/usr/bin/zmeld", &program)?,
        Addition::file("/usr/bin/zmeld-guard", &guard)?,
    ];
    for library in zmeld_vm::libraries_of(&program) {
        files.push(Addition::file(&library.to_string_lossy(), &library)?);
    }
    Ok(files)
}

/// The files of packages that the guest's own suite has, under the first one's name;
/// nothing where they cannot be had, which the test then says.
pub fn package_files(log: &Log, packages: &[&str]) -> Result<Vec<Addition>> {
    let place = kernels::folder("packages")?;
    let _held = kernels::lock(&place)?;
    let package = packages.first().copied().unwrap_or_default();
    let folder = place.join(package);
    if !folder.exists() {
        match Suite::open(log, "bookworm", Arch::Amd64, &place.join("apt"))? {
            Ok(suite) => {
                let names: Vec<String> = packages.iter().map(|it| (*it).to_owned()).collect();
                suite.unpack(log, &names, &folder)?;
            }
            Err(reason) => {
                log.note(&format!("note: no {package}: {reason}"))?;
                return Ok(Vec::new());
            }
        }
    }
    let mut files = Vec::new();
    collect(&folder, &format!("/guest/{package}"), &mut files)?;
    Ok(files)
}

fn collect(folder: &Path, at: &str, files: &mut Vec<Addition>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let place = format!("{at}/{name}");
        if path.is_symlink() || place.contains("/usr/share/") {
            continue;
        }
        if path.is_dir() {
            collect(&path, &place, files)?;
        } else {
            let file = Addition::file(&place, &path)?;
            if file.executable {
                for library in zmeld_vm::libraries_of(&path) {
                    files.push(Addition::file(&library.to_string_lossy(), &library)?);
                }
            }
            files.push(file);
        }
    }
    Ok(())
}

/// Reads `ok N - name`, `not ok N - name` and `ok N - name # SKIP reason`.
fn checks(step: &str, output: &str) -> Tally {
    let mut tally = Tally::default();
    for line in output.lines() {
        if let Some(rest) = line.strip_prefix("not ok ") {
            let name = rest.split_once(" - ").map_or(rest, |(_, name)| name);
            tally.add(Tally::fail(step, name));
        } else if let Some(rest) = line.strip_prefix("ok ") {
            match rest.split_once(" # SKIP ") {
                Some((name, reason)) => {
                    let name = name.split_once(" - ").map_or(name, |(_, name)| name);
                    tally.add(Tally::skip(&format!("{step} {name}"), reason));
                }
                None => tally.passed += 1,
            }
        }
    }
    let planned = output
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("1.."));
    let seen = tally.passed + (tally.failed.len() + tally.skipped.len()) as u64;
    if planned.and_then(|count| count.trim().parse().ok()) != Some(seen) {
        tally.add(Tally::fail(
            step,
            format!("{seen} checks and no proper end"),
        ));
    }
    tally
}

/// The guest tests of a scope.
pub fn tests(scope: TestScope) -> Result<Vec<GuestTest>> {
    let mut all = Vec::new();
    if !module_build::is_there() {
        return Ok(all);
    }
    for &kernel in kernels(scope) {
        for subject in TestSubject::ALL {
            for path in workspace::files(&subject.folder(), "sh")? {
                let Some(needs) = needs(&fs::read_to_string(&path)?) else {
                    continue;
                };
                let name = workspace::stem(&path);
                if !is_run(subject, &name, &needs, kernel, scope) {
                    continue;
                }
                // The reference is the newest zram; on others it differs.
                let upstream = needs.upstream
                    && is_newest(kernel)
                    && (scope == TestScope::Long
                        || matches!(name.as_str(), "attributes" | "backing"));
                for upstream in [false, true].into_iter().take(1 + usize::from(upstream)) {
                    all.push(GuestTest {
                        name: name.clone(),
                        path: path.clone(),
                        subject,
                        needs: needs.clone(),
                        kernel,
                        upstream,
                        seconds: None,
                        store: None,
                    });
                }
            }
        }
    }
    Ok(all)
}

/// The script of the soak, in one of its kernels, for so many seconds and the rest of
/// a round.
pub fn soak(
    log: &Log,
    kernels: &KernelCache,
    kernel: &'static str,
    seed: u64,
    seconds: u64,
) -> Result<Tally> {
    for_long(SOAK, kernel, seconds)?
        .start(log, kernels, TestScope::Long, seed)?
        .finish(log)
}

/// Swap, passes, recompression and writeback in a kernel that watches for data races.
pub fn races(log: &Log, kernels: &KernelCache, seed: u64) -> Result<Tally> {
    for_long(RACES, RACES, RACES_SECONDS)?
        .start(log, kernels, TestScope::Long, seed)?
        .finish(log)
}

fn for_long(script: &str, kernel: &'static str, seconds: u64) -> Result<GuestTest> {
    let path = TestSubject::Module.folder().join(format!("{script}.sh"));
    let needs = needs(&fs::read_to_string(&path)?)
        .with_context(|| format!("{} does not say what it needs", path.display()))?;
    Ok(GuestTest {
        name: script.to_owned(),
        path,
        subject: TestSubject::Module,
        needs,
        kernel,
        upstream: false,
        seconds: Some(seconds),
        store: None,
    })
}

/// Whether the guest test whose step has that name fails with a module that is built
/// from this store; or why it cannot run here.
pub fn fails_with(
    log: &Log,
    kernels: &KernelCache,
    step: &str,
    store: &Path,
) -> Result<std::result::Result<bool, Reason>> {
    let mut test = tests(TestScope::Default)?
        .into_iter()
        .find(|test| test.step_name() == step)
        .with_context(|| format!("no guest test is called {step}"))?;
    test.store = Some(store.to_owned());
    let tally = test
        .start(log, kernels, TestScope::Default, 1)?
        .finish(log)?;
    Ok(match tally.skipped.first() {
        Some((_, reason)) if tally.passed == 0 && tally.failed.is_empty() => Err(reason.clone()),
        _ => Ok(!tally.failed.is_empty()),
    })
}

/// Whether a kernel runs all tests where time is long. The others show that nothing
/// depends on a kernel's age, on preemption or on a processor, and are emulated.
fn runs_all(kernel: &str) -> bool {
    kernels(TestScope::Default).contains(&kernel) || kernel == "um-debug"
}

fn is_newest(kernel: &str) -> bool {
    kernels::recipe(kernel).is_some_and(|recipe| recipe.kind == Kind::UserMode)
}

fn is_run(
    subject: TestSubject,
    name: &str,
    needs: &GuestNeeds,
    kernel: &str,
    scope: TestScope,
) -> bool {
    let kernel_fits = match needs.kernels.as_slice() {
        // The command line does not depend on kernels as the module does.
        [] => subject == TestSubject::Module,
        names => names.iter().any(|only| only == kernel),
    };
    let is_left_out = match subject {
        TestSubject::Module => !is_newest(kernel) && !COMPACT.contains(&name),
        TestSubject::Codec => needs.long || kernel == "6.1",
        TestSubject::CommandLine => !is_newest(kernel) || needs.long,
    };
    // Who names one of the emulated kernels means it.
    let is_meant = runs_all(kernel) || needs.kernels.iter().any(|only| only == kernel);
    kernel_fits && (!is_left_out || scope == TestScope::Long && is_meant)
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn every_script_says_what_it_needs() {
        let head = "#!/bin/sh\n# guest: upstream memory=256 program=fio packages=a,b \
                    disk=8 disk=9 systemd long kernel=6.1,um\n";
        let needs = needs(head).unwrap();
        assert!(needs.upstream && needs.systemd && needs.long && !needs.module);
        assert_eq!(needs.disks, [8, 9]);
        assert_eq!(needs.kernels, ["6.1", "um"]);
        assert_eq!(needs.memory, Some(256));
        assert_eq!(needs.packages, ["a", "b"]);
        assert_eq!(super::needs("#!/bin/sh\n"), None);
        for subject in TestSubject::ALL {
            for path in workspace::files(&subject.folder(), "sh").unwrap() {
                let script = fs::read_to_string(&path).unwrap();
                let is_shared = path.ends_with("guest.sh");
                let needs = super::needs(&script);
                assert_eq!(needs.is_none(), is_shared, "{path:?}");
                let names = needs.unwrap_or_default().kernels;
                assert!(is_shared || subject == TestSubject::Module || !names.is_empty());
                for name in names {
                    assert!(kernels::recipe(&name).is_some(), "{path:?}: {name}");
                }
            }
        }
    }

    #[test]
    fn checks_are_counted_and_a_missing_end_is_a_failure() {
        let text = "# x\nok 1 - a\nnot ok 2 - b\nok 3 - c # SKIP no tool\n1..3\n";
        let tally = checks("s", text);
        assert_eq!(
            (tally.passed, tally.failed.len(), tally.skipped.len()),
            (1, 1, 1)
        );
        assert_eq!(tally.failed[0].1, "b");
        let tally = checks("s", "ok 1 - a\n");
        assert_eq!(tally.failed.len(), 1);
    }
}
