//! In real kernels: the module builds for each, and the guest tests pass, those of
//! the modules (`store/kmod/tests`, `store/crypto/tests`) and those of the command line
//! (`crates/zmeld-swap/tests/guest`).
//!
//! A guest test speaks TAP. It says in its head, behind `# guest:`, what it needs:
//!
//! - `upstream`: it must pass on the kernel's own zram, too
//! - `kernel=NAME,NAME`: only on these
//! - `memory=MIB`, `disk=MIB`: the guest's memory; an empty disk, one for each word
//! - `program=`, `packages=`, `script=`, `test=NAME`: programs of this machine, files of
//!   packages, a script beside it, a test of `crates/zmeld-swap`
//! - `module`: zmeld.ko, for a test of the command line
//! - `small-blocks`: a module whose blocks are 512 bytes, so that a page has parts
//! - `load`: the programs of `cargo xtask bench guard`
//! - `systemd`: a Debian (with `trixie`, 13) that systemd starts, of debootstrap (root): the
//!   script prepares it where `PREPARE` is set, then runs there as a service. Nothing may be
//!   left mounted, swapped to or mapped
//! - `dist`: the program's package of the last commit, and the same as a later version; `dkms`,
//!   with `systemd`: both packages and 6.1, later 6.12 (`xtask/guest/dkms.sh`)
//! - `groups-v1=NAME`: in that kernel systemd mounts control groups of version 1
//! - `urgent`: it goes before all other programs of this machine (user-mode Linux alone)
//! - `counted`: a nanosecond of QEMU's guest is an instruction
//! - `reboots`: QEMU's guest begins anew where it reboots, with the same disks
//! - `long`: only with `--long`

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::apt::Suite;
use crate::debian;
use crate::guest::{self, Addition};
use crate::kernel_features;
use crate::kernel_patch;
use crate::kernels;
use crate::machine::{self, BootOptions, GuestOutcome};
use crate::module_build::{self, Flavour};
use crate::package_tests;
use crate::process::{reason, Log, Unavailable};
use crate::recipes::{self, Arch, Kernel, KernelRecipe, Kind};
use crate::rust_tests;
use crate::step::{Rest, Tally, TestScope};
use crate::tools;
use crate::vm;
use crate::workspace;

/// The kernels that are always tried, the slowest first: stock ones, and the newest.
const USUAL: &[&str] = &["6.12", "6.1", "um"];

/// The kernels of a scope; the one that checks most is some twenty times slower.
pub fn kernels(scope: TestScope) -> Vec<&'static str> {
    let is_of_all = |recipe: &&KernelRecipe| recipe.kind != Kind::Watching;
    match scope {
        TestScope::Default => USUAL.to_vec(),
        TestScope::Long => {
            let all = recipes::RECIPES.iter().filter(is_of_all);
            all.map(|recipe| recipe.name).collect()
        }
    }
}

/// The tests that stock kernels run where time is short: there they show that
/// nothing depends on the newest kernel, with two processors. QEMU is slow.
const COMPACT: &[&str] = &["attributes", "meddled", "meld", "parts", "readers", "swap"];
/// Those of them at every commit: a kernel's interfaces are its own.
const SHORT: &[&str] = &["attributes", "readers", "swap"];

const OLDEST: &str = "6.1";

/// The kernel in which a Debian for arm64 is set up.
const SETS_UP_ARM64: &str = "6.1-arm64";

/// The step of the kernel that watches for data races, which is also its name and its
/// script's; and how many seconds it swaps.
pub const RACES: &str = "kcsan";
const RACES_SECONDS: u64 = 1800;

/// The script for hours.
pub const SOAK: &str = "soak";

/// Kernels that are here, and why others are not: asked for once.
#[derive(Default)]
pub struct KernelCache {
    kernels: RefCell<BTreeMap<&'static str, std::result::Result<Arc<Kernel>, String>>>,
}

impl KernelCache {
    pub fn take(&self, log: &Log, name: &'static str) -> Result<Arc<Kernel>> {
        if let Some(known) = self.kernels.borrow().get(name) {
            return known.clone().map_err(|reason| Unavailable(reason).into());
        }
        let recipe = recipes::recipe(name).context("a kernel without a recipe")?;
        let found = kernels::provide(log, recipe).map(Arc::new);
        let known = match (&found, found.as_ref().err().and_then(reason)) {
            (Ok(kernel), _) => Ok(kernel.clone()),
            (Err(_), Some(reason)) => Err(reason.to_owned()),
            (Err(_), None) => return found,
        };
        self.kernels.borrow_mut().insert(name, known);
        found
    }
}

/// The modules build without a warning; sparse is content where there is one.
pub fn build(log: &Log, kernels: &KernelCache, name: &'static str) -> Result<Tally> {
    let step = format!("module-{name}");
    let kernel = kernels.take(log, name)?;
    let mut tally = Tally::default();
    let mut objects = BTreeSet::new();
    for flavour in [Flavour::Release, Flavour::Codec] {
        match module_build::build(log, &kernel, flavour) {
            Ok(module) => {
                let release = &kernel.release;
                // Both may be built in one tree at the same time.
                let twice = module_build::objects(&module)?;
                let twice: Vec<_> = twice
                    .into_iter()
                    .filter(|it| !objects.insert(it.clone()))
                    .collect();
                tally.add(Tally::of(&step, twice.is_empty(), twice.join(" ")));
                tally.add(Tally::pass());
                tally.add(kernel_features::judge_build(
                    &step, release, flavour, &module,
                )?);
            }
            Err(error) => tally.add(Tally::fail(&step, format!("{error:#}"))),
        }
    }
    if !is_read_by_sparse(kernel.recipe) {
        return Ok(tally);
    }
    if !tools::is_on_path("sparse") {
        tally.add(Tally::skip(&step, "sparse is not installed"));
    } else if tally.failed.is_empty() {
        for flavour in [Flavour::Release, Flavour::Codec] {
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
    recipe.compilers().is_none()
        && recipe.arch() == Arch::Amd64
        && !recipe.series.1.starts_with("rt-")
}

/// Types of checkpatch that are for code of one kernel, and for a kernel:
/// the core has no BIT() and other ports have no XArray; libraries choose their
/// own names; macros that print a field's name use it twice; kmalloc_obj() is newer
/// than two kernels, and a header moved between them; what only sparse reads is empty
/// for compilers. SPACING takes one pointer for a product.
const CHECKPATCH_IGNORED: &str = "CONST_STRUCT,BIT_MACRO,CAMELCASE,MACRO_ARG_REUSE,\
    MACRO_ARG_PRECEDENCE,ALLOC_WITH_SIZEOF,CONSTANT_COMPARISON,\
    UNCOMMENTED_DEFINITION,MACRO_ARG_UNUSED,DEPRECATED_API,LONG_LINE_STRING,SPACING,\
    LINUX_VERSION_CODE";

/// Files of the codecs' rows, of which lists and declarations are made: they can stand in no
/// brackets, end as these do, and are compiled without the kernel's attributes.
const ROWS: [&str; 2] = ["include/zmeld/codecs.h", "port/linux/codec.c"];
const ROWS_IGNORED: &str = "COMPLEX_MACRO,TRAILING_SEMICOLON,PREFER_DEFINED_ATTRIBUTE_MACRO";

pub fn checkpatch(log: &Log, kernels: &KernelCache) -> Result<Tally> {
    let kernel = kernels.take(log, "um")?;
    tools::need(&["perl"])?;
    let source = kernel.source.as_deref();
    let source = source.context("user-mode Linux without its sources")?;
    let store = workspace::root().join("store");
    let (mut rows, mut others) = (Vec::new(), Vec::new());
    for part in module_build::ZMELD.sources.iter().chain(&["crypto"]) {
        for path in workspace::all_files(&store.join(part))? {
            let is_source = path.extension().is_some_and(|it| it == "c" || it == "h");
            let is_row = ROWS.iter().any(|row| path.ends_with(row));
            if is_source && !path.iter().any(|folder| folder == "tests") {
                if is_row { &mut rows } else { &mut others }.push(path);
            }
        }
    }
    let mut tally = Tally::default();
    let rows_ignored = format!("{CHECKPATCH_IGNORED},{ROWS_IGNORED}");
    for (files, ignored) in [(others, CHECKPATCH_IGNORED), (rows, &rows_ignored)] {
        let mut command = kernel_patch::style_of(source, ignored);
        command.arg("--file").args(files);
        let why = "it has a point, see above";
        tally.add(Tally::of_run(log, "checkpatch", &mut command, why)?);
    }
    Ok(tally)
}

pub fn machines(log: &Log, kernels: &KernelCache, name: &'static str) -> Result<Rest> {
    /// A machine has one experiment at a time.
    static EXPERIMENT: Mutex<()> = Mutex::new(());
    let kernel = kernels.take(log, name)?;
    machine::need(&kernel)?;
    tools::need_root("experiments")?;
    rust_tests::build_machines(log)?;
    Ok(Box::new(move |log| {
        let _one = EXPERIMENT.lock().unwrap_or_else(PoisonError::into_inner);
        rust_tests::machines(log, &format!("machine-{name}"), &kernel.image)
    }))
}

/// Words without a value in a guest test's head.
const FLAGS: &[&str] = &[
    "upstream",
    "small-blocks",
    "module",
    "systemd",
    "trixie",
    "dist",
    "dkms",
    "long",
    "counted",
    "urgent",
    "load",
    "reboots",
];

#[derive(Clone, Default)]
struct GuestNeeds {
    flags: Vec<&'static str>,
    groups_v1: Vec<String>,
    kernels: Vec<String>,
    memory: Option<u64>,
    disks: Vec<u64>,
    programs: Vec<String>,
    /// Programs of tests of zmeld-swap.
    tests: Vec<String>,
    /// Scripts beside it, which it takes in.
    scripts: Vec<String>,
    packages: Vec<String>,
}

impl GuestNeeds {
    fn has(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }
}

/// Needs that a script states behind `# guest:`, if it does.
fn needs(script: &str) -> Result<Option<GuestNeeds>> {
    let mut lines = script.lines();
    let Some(line) = lines.find_map(|line| line.strip_prefix("# guest:")) else {
        return Ok(None);
    };
    let mut needs = GuestNeeds::default();
    for word in line.split_whitespace() {
        let unknown = || format!("# guest: {word}?");
        let names = |names: &str| names.split(',').map(str::to_owned).collect();
        match word.split_once('=') {
            Some(("kernel", value)) => {
                needs.kernels = names(value);
                for name in &needs.kernels {
                    recipes::recipe(name).with_context(unknown)?;
                }
            }
            Some(("groups-v1", value)) => needs.groups_v1 = names(value),
            Some(("memory", mib)) => needs.memory = Some(mib.parse().with_context(unknown)?),
            Some(("disk", mib)) => needs.disks.push(mib.parse().with_context(unknown)?),
            Some(("program", name)) => needs.programs.push(name.to_owned()),
            Some(("test", name)) => needs.tests.push(name.to_owned()),
            Some(("script", name)) => needs.scripts.push(name.to_owned()),
            Some(("packages", value)) => needs.packages = names(value),
            _ => {
                let flag = FLAGS.iter().find(|flag| **flag == word);
                needs.flags.push(flag.with_context(unknown)?);
            }
        }
    }
    Ok(Some(needs))
}

/// Systemd's last message if nothing is mounted, swapped to or mapped any more.
const DETACHED: &str = "All filesystems, swaps, loop devices, MD devices and DM devices detached.";

#[derive(Clone, Copy, Debug, PartialEq)]
enum TestSubject {
    Module,
    /// zword.ko, which its script loads.
    Codec,
    CommandLine,
}

impl TestSubject {
    const ALL: [TestSubject; 3] = [
        TestSubject::CommandLine,
        TestSubject::Codec,
        TestSubject::Module,
    ];

    fn shown(self) -> &'static str {
        match self {
            TestSubject::Module => "store/kmod/tests",
            TestSubject::Codec => "store/crypto/tests",
            TestSubject::CommandLine => "crates/zmeld-swap/tests/guest",
        }
    }

    fn folder(self) -> PathBuf {
        workspace::root().join(self.shown())
    }
}

/// One script in one kernel, on zmeld or on the kernel's own zram.
#[derive(Clone)]
pub struct GuestTest {
    pub name: String,
    path: PathBuf,
    subject: TestSubject,
    needs: GuestNeeds,
    kernel: &'static str,
    upstream: bool,
    seconds: Option<u64>,
}

impl GuestTest {
    /// The script of that path; none where it is no guest test.
    fn read(subject: TestSubject, path: &Path, kernel: &'static str) -> Result<Option<GuestTest>> {
        let needs = needs(&fs::read_to_string(path)?).with_context(|| workspace::shown(path))?;
        Ok(needs.map(|needs| GuestTest {
            name: workspace::stem(path),
            path: path.to_owned(),
            subject,
            needs,
            kernel,
            upstream: false,
            seconds: None,
        }))
    }

    pub fn step_name(&self) -> String {
        let device = if self.upstream { "-zram" } else { "" };
        format!("guest-{}-{}{device}", self.kernel, self.name)
    }

    pub fn about(&self) -> String {
        match self.upstream {
            true => "the test itself, on the zram of that kernel".to_owned(),
            false => format!("in that kernel, see {}", self.subject.shown()),
        }
    }

    fn processors(&self, scope: TestScope) -> u32 {
        // With two, this young part of the kernel panics now and then by itself
        // ("scheduling from the idle thread").
        match is_newest(self.kernel) {
            true => 2 - u32::from(scope != TestScope::Long),
            false if self.name == SOAK => 4,
            false => 2,
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
    ) -> Result<Rest> {
        let kernel = kernels.take(log, self.kernel)?;
        machine::need(&kernel)?;
        for name in &self.needs.programs {
            guest::program(&kernel, name)?;
        }
        let mut boot = self.boot(log, &kernel, scope, seed)?;
        if self.needs.has("dist") {
            let packages = package_tests::for_guests(log, kernel.recipe.arch())?;
            for (name, package) in ["/guest/zmeld.deb", "/guest/next.deb"].iter().zip(packages) {
                boot.files.push(Addition::file(name, &package)?);
            }
        }
        if self.needs.has("systemd") {
            boot.root = Some(self.image(log, kernels, &kernel)?);
        }
        let test = self.clone();
        Ok(Box::new(move |log| test.boots(log, &kernel, &boot)))
    }

    fn image(&self, log: &Log, kernels: &KernelCache, kernel: &Kernel) -> Result<PathBuf> {
        match (self.needs.has("dkms"), kernel.recipe.arch()) {
            (true, _) => {}
            (_, Arch::Amd64) => {
                let later = self.needs.has("trixie").then_some("trixie");
                return debian::image(log, later);
            }
            (_, Arch::Arm64) => {
                return machine::foreign_image(log, &*kernels.take(log, SETS_UP_ARM64)?)
            }
        }
        let [now, next] = package_tests::DKMS_KERNELS;
        let now = kernels.take(log, now)?.release.clone();
        let next = kernels.take(log, next)?.release.clone();
        package_tests::image_with_dkms(log, &[now, next])
    }

    fn boots(&self, log: &Log, kernel: &Kernel, boot: &BootOptions) -> Result<Tally> {
        let step = self.step_name();
        let (output, outcome) = machine::logged(log, kernel, boot)?;
        if self.seconds.is_some() && died_by_itself(kernel, &outcome) {
            return Ok(Tally::skip(&step, "the kernel died by itself"));
        }
        let mut tally = Tally::of_tap(&step, &output);
        for complaint in &outcome.complaints {
            log.note(&format!("the kernel complained: {complaint}"))?;
        }
        let quiet = outcome.complaints.is_empty();
        tally.add(Tally::of(&step, quiet, outcome.complaints.join("\n")));
        if self.needs.has("systemd") {
            let clean = outcome.messages.contains(DETACHED);
            let why = "the shutdown left something behind";
            tally.add(Tally::of(&step, clean, why));
        }
        match outcome.code {
            None => tally.add(Tally::fail(&step, "the guest died, see its messages")),
            Some(code) if code != 0 && tally.failed.is_empty() => {
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
            counts_time: self.needs.has("counted"),
            urgent: self.needs.has("urgent"),
            reboots: self.needs.has("reboots"),
            disks: self.needs.disks.clone(),
            ..BootOptions::default()
        };
        let pages = module_build::guest_program(log, kernel.recipe, &tests.join("pages.c"))?;
        boot.files.push(Addition::file("/guest/pages", &pages)?);
        if self.needs.has("load") {
            let load = workspace::root().join("xtask/guest/load.c");
            let load = module_build::guest_program(log, kernel.recipe, &load)?;
            boot.files.push(Addition::file("/guest/load", &load)?);
        }
        let shared = Addition::file("/guest/guest.sh", &tests.join("guest.sh"))?;
        boot.files.push(shared);
        for name in &self.needs.tests {
            let program = stripped(log, &rust_tests::test_program(log, name)?)?;
            let place = format!("/guest/{name}");
            boot.files.push(Addition::file(&place, &program)?);
        }
        for name in &self.needs.scripts {
            let file = self.subject.folder().join(name);
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let place = format!("/guest/{name}");
            boot.files.push(Addition::file(&place, &file)?);
        }
        for package in &self.needs.packages {
            boot.files.extend(package_files(log, &[package])?);
        }
        // A package that brings it is not overwritten.
        let has_package = self.needs.has("dist") || self.needs.has("dkms");
        if self.subject == TestSubject::CommandLine && !has_package {
            boot.files.extend(command_line_files(log)?);
        }
        let codec_of_zram = self.upstream && self.kernel == OLDEST;
        if self.upstream {
            let codec = match &*self.name {
                _ if !codec_of_zram => "",
                "swap" => "zword-dense",
                _ => "zword",
            };
            boot.variables.push(("DEVICE", "zram".into()));
            boot.variables.push(("CODEC", codec.into()));
        }
        let of_module = self.needs.has("module") || self.subject != TestSubject::CommandLine;
        if codec_of_zram || of_module && !self.upstream {
            let flavour = match self.subject {
                _ if codec_of_zram => Flavour::Codec,
                TestSubject::Codec => Flavour::Codec,
                _ if self.needs.has("small-blocks") => Flavour::SmallBlocks,
                _ => Flavour::Release,
            };
            let module = module_build::build(log, kernel, flavour)?;
            boot.module = Some(Addition::module(&module)?);
        }
        if self.subject == TestSubject::Codec && self.needs.has("module") {
            let module = module_build::build(log, kernel, Flavour::Release)?;
            let place = format!("/usr/lib/modules/{}/updates/zmeld.ko", kernel.release);
            boot.files.push(Addition::file(&place, &module)?);
        }
        if self.needs.groups_v1.iter().any(|name| name == self.kernel) {
            boot.append = "systemd.unified_cgroup_hierarchy=0".to_owned();
        }
        boot.variables.push(("SEED", seed.to_string()));
        if kernel.recipe.checks {
            // Its checks need memory of their own, about a quarter, and time: with
            // every allocation traced, a page takes as long as a hundred elsewhere.
            boot.memory += boot.memory / 2;
            boot.variables.push(("SIZE", "16".into()));
            boot.variables.push(("TIME", "30".into()));
        } else if scope == TestScope::Long {
            boot.variables.push(("TIME", "120".into()));
        }
        if scope == TestScope::Long {
            boot.limit = Duration::from_secs(2 * 3600);
        }
        if let Some(seconds) = self.seconds {
            // The last of a variable's values counts.
            boot.variables.push(("TIME", seconds.to_string()));
        }
        Ok(boot)
    }
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
    log.must(&mut strip)?;
    Ok(stripped)
}

/// The command line and the guard, as guests have them, with their libraries.
pub fn command_line_files(log: &Log) -> Result<Vec<Addition>> {
    let program = rust_tests::zmeld(log)?;
    let guard = stripped(log, &program.with_file_name("zmeld-guard"))?;
    let program = stripped(log, &program)?;
    let mut files = vec![
        Addition::file("/usr/bin/zmeld", &program)?,
        Addition::file("/usr/bin/zmeld-guard", &guard)?,
    ];
    files.extend(libraries(&program)?);
    Ok(files)
}

/// The files of packages that the guest's own suite has, under the first one's name;
/// nothing where they cannot be had, which the test then says.
pub fn package_files(log: &Log, packages: &[&str]) -> Result<Vec<Addition>> {
    let place = recipes::folder("packages")?;
    let _held = recipes::lock(&place)?;
    let package = packages.first().copied().unwrap_or_default();
    let suite = ("bookworm", Arch::Amd64);
    let folder = match Suite::unpacked(log, suite, packages, place.join(package)) {
        Err(error) if reason(&error).is_some() => {
            log.note(&format!("note: no {package}: {error}"))?;
            return Ok(Vec::new());
        }
        folder => folder?,
    };
    let mut files = Vec::new();
    for path in workspace::all_files(&folder)? {
        let place = format!("/guest/{package}/{}", path.strip_prefix(&folder)?.display());
        if place.contains("/usr/share/") {
            continue;
        }
        let file = Addition::file(&place, &path)?;
        if file.executable {
            files.extend(libraries(&path)?);
        }
        files.push(file);
    }
    Ok(files)
}

fn libraries(program: &Path) -> Result<Vec<Addition>> {
    let all = zmeld_vm::libraries_of(program);
    let added = all
        .iter()
        .map(|it| Addition::file(&it.to_string_lossy(), it));
    added.collect()
}

pub fn tests(scope: TestScope) -> Result<Vec<GuestTest>> {
    let mut all = Vec::new();
    for kernel in kernels(scope) {
        for subject in TestSubject::ALL {
            for path in workspace::files(&subject.folder(), "sh")? {
                let test = GuestTest::read(subject, &path, kernel)?;
                let Some(test) = test.filter(|test| test.is_run(scope)) else {
                    continue;
                };
                // The reference is the newest zram; on others it differs. The oldest has zword.ko.
                let is_short = matches!(test.name.as_str(), "attributes" | "backing");
                let upstream = test.needs.has("upstream")
                    && (is_newest(kernel) || kernel == OLDEST)
                    && (scope == TestScope::Long || is_newest(kernel) && is_short);
                if !has_zword(kernel) {
                    all.push(test.clone());
                }
                all.extend(upstream.then_some(GuestTest { upstream, ..test }));
            }
        }
    }
    Ok(all)
}

pub fn races(log: &Log, kernels: &KernelCache, seed: u64) -> Result<Tally> {
    for_long(log, kernels, (RACES, RACES), seed, RACES_SECONDS)?(log)
}

/// A script of the module's in a kernel, for so many seconds and the rest of a round.
pub fn for_long(
    log: &Log,
    kernels: &KernelCache,
    (script, kernel): (&str, &'static str),
    seed: u64,
    seconds: u64,
) -> Result<Rest> {
    let path = TestSubject::Module.folder().join(format!("{script}.sh"));
    let test = GuestTest::read(TestSubject::Module, &path, kernel)?;
    let mut test = test.with_context(|| format!("{} says no needs", path.display()))?;
    test.seconds = Some(seconds);
    test.start(log, kernels, TestScope::Long, seed)
}

/// Whether a kernel runs all tests where time is long. The others show that nothing
/// depends on a kernel's age, on preemption or on a processor, and are emulated.
fn runs_all(kernel: &str) -> bool {
    USUAL.contains(&kernel) || is_newest(kernel)
}

/// Whether the kernel's own zram is tested, with zword in it.
pub fn has_zword(kernel: &str) -> bool {
    recipes::recipe(kernel).is_some_and(|recipe| recipe.has_zword)
}

fn is_newest(kernel: &str) -> bool {
    recipes::recipe(kernel).is_some_and(|recipe| recipe.kind == Kind::UserMode)
}

impl GuestTest {
    fn is_run(&self, scope: TestScope) -> bool {
        let (subject, needs, kernel) = (self.subject, &self.needs, self.kernel);
        let is_named = needs.kernels.iter().any(|only| only == kernel);
        // The command line does not depend on kernels as the module does.
        let kernel_fits = is_named || needs.kernels.is_empty() && subject == TestSubject::Module;
        let is_left_out = match subject {
            TestSubject::Module => {
                let compact = match scope {
                    TestScope::Default => SHORT,
                    TestScope::Long => COMPACT,
                };
                !is_newest(kernel) && !compact.contains(&self.name.as_str())
            }
            TestSubject::Codec => needs.has("long") || !is_newest(kernel) && kernel != "6.12",
            TestSubject::CommandLine => !is_newest(kernel) || needs.has("long"),
        };
        // An emulated kernel that is named is meant.
        let is_meant = runs_all(kernel) || is_named;
        kernel_fits && (!is_left_out || scope == TestScope::Long && is_meant)
    }
}
