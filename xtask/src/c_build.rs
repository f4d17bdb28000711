//! Compiling the store's C programs: its own sources anew with a sanitizer, on
//! the codec libraries that cargo built.
//!
//! The build script of zmeld-store is the one place that knows include folders
//! and libraries; it tells them to the crate's environment, which cargo repeats
//! in its messages.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{anyhow, bail, Context, Result};

use crate::process::{command_line, output_of, Log};
use crate::recipes::jobs;
use crate::rust_tests::cargo;
use crate::tools;
use crate::workspace;

pub struct Built {
    variables: BTreeMap<String, String>,
}

impl Built {
    /// Has cargo build the crate and reads what its build script told.
    fn new(log: &Log) -> Result<Built> {
        // Alone: a run of one C test does not wait for all crates.
        let mut build = cargo(&["build", "--package", "zmeld-store"]);
        build.arg("--message-format=json-render-diagnostics");
        log.note(&format!("$ {}", command_line(&build)))?;
        let variables = output_of(&mut build)?
            .lines()
            .filter_map(variables_of)
            .next_back()
            .ok_or_else(|| anyhow!("zmeld-store's build script told no ZMELD_C_ variables"))?;
        Ok(Built { variables })
    }

    fn variable(&self, name: &str) -> Result<&str> {
        self.variables
            .get(name)
            .map(String::as_str)
            .with_context(|| format!("zmeld-store's build script does not tell {name}"))
    }

    fn paths(&self, name: &str) -> Result<Vec<PathBuf>> {
        Ok(std::env::split_paths(self.variable(name)?).collect())
    }

    pub fn core_objects(&self) -> Result<Vec<PathBuf>> {
        self.paths("ZMELD_C_CORE_OBJECTS")
    }
}

/// The variables of zmeld-store, if that is what the message is about.
fn variables_of(message: &str) -> Option<BTreeMap<String, String>> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let pairs = message.get("env")?.as_array()?;
    let variables: BTreeMap<String, String> = pairs
        .iter()
        .filter_map(|pair| Some((pair[0].as_str()?.to_owned(), pair[1].as_str()?.to_owned())))
        .collect();
    variables
        .contains_key("ZMELD_C_INCLUDES")
        .then_some(variables)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flavour {
    /// On the library as it is built for Rust.
    AsBuilt,
    /// With the address and undefined-behaviour sanitizers.
    Address,
    Thread,
    /// By clang, with libFuzzer and the sanitizers of `Address`.
    Fuzzer,
    /// As `Address`, with fingerprints of one bit, so that they collide, and shares of three slots.
    OneBit,
    Pages16K,
    Pages64K,
    /// zword alone, as `Address`, with blocks of 64 bytes and limits to suit them.
    Blocks64,
    Blocks128,
    /// zword alone with blocks of 64 bytes; it tells each read and write to the test.
    Reads64,
}

const ADDRESS: &str = "-fsanitize=address,undefined -fno-sanitize-recover=all";
const THREAD: &str = "-fsanitize=thread";
const ONE_BIT: &str = "-DZM_FINGERPRINT_BITS=1 -DZM_SHARE_SLOTS_MAX=3";

/// zword's limits where a block is 64 and where it is 128 bytes.
const LIMITS_64: &str = "-DZWORD_BLOCK_SIZE=64u -DZWORD_MATCH_MAX=12u -DZWORD_RUN_MAX=5u \
    -DZWORD_COUNT_MAX=3u -DZWORD_NARROW_MAX=7u -DZWORD_NEAR_MAX=8u -DZWORD_POSITION_BITS=2 \
    -DZWORD_CHAIN_LINKS=2u -DZWORD_SKIP_SHIFT=2 -include small_limits.h";
const LIMITS_128: &str = "-DZWORD_BLOCK_SIZE=128u -DZWORD_MATCH_MAX=15u -DZWORD_RUN_MAX=6u \
    -DZWORD_COUNT_MAX=7u -DZWORD_NARROW_MAX=15u -DZWORD_NEAR_MAX=16u -DZWORD_POSITION_BITS=2 \
    -DZWORD_CHAIN_LINKS=3u -DZWORD_SKIP_SHIFT=3 -include small_limits.h";

impl Flavour {
    /// Its name, the flags for the store's own sources, and the definitions for everything
    /// that includes its headers.
    fn row(self) -> [&'static str; 3] {
        match self {
            Flavour::AsBuilt => ["built", "", ""],
            Flavour::Address => ["asan", ADDRESS, ""],
            Flavour::Thread => ["tsan", THREAD, ""],
            Flavour::Fuzzer => [
                "fuzzer",
                "-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all",
                "",
            ],
            Flavour::OneBit => ["1-bit", ADDRESS, ONE_BIT],
            Flavour::Pages16K => ["16-kib", ADDRESS, "-UZM_PAGE_SHIFT -DZM_PAGE_SHIFT=14"],
            Flavour::Pages64K => ["64-kib", ADDRESS, "-UZM_PAGE_SHIFT -DZM_PAGE_SHIFT=16"],
            Flavour::Blocks64 => ["64-bytes", ADDRESS, LIMITS_64],
            Flavour::Blocks128 => ["128-bytes", ADDRESS, LIMITS_128],
            Flavour::Reads64 => ["64-bytes-reads", THREAD, LIMITS_64],
        }
    }

    /// In names of steps and folders.
    pub fn name(self) -> &'static str {
        self.row()[0]
    }

    pub fn flags(self) -> Vec<&'static str> {
        self.row()[1].split_whitespace().collect()
    }

    fn link_flags(self) -> Vec<&'static str> {
        match self {
            Flavour::Fuzzer => vec![
                "-fsanitize=fuzzer,address,undefined",
                "-fno-sanitize-recover=all",
            ],
            // The test hears the reads that the sanitizer would.
            Flavour::Reads64 => Vec::new(),
            other => other.flags(),
        }
    }

    /// Sanitizer to try out before programs with it run, if there is one.
    pub fn sanitizer(self) -> Option<&'static str> {
        let flag = self.link_flags().first().copied()?;
        (self != Flavour::Fuzzer && flag.starts_with("-fsanitize")).then_some(flag)
    }

    fn sources(self) -> Result<Vec<PathBuf>> {
        match self {
            Flavour::Blocks64 | Flavour::Blocks128 | Flavour::Reads64 => {
                workspace::files(&workspace::root().join("store/zword"), "c")
            }
            _ => sources(),
        }
    }

    pub fn compiler(self) -> OsString {
        match self {
            Flavour::Fuzzer => clang(),
            _ => tools::c_compiler(),
        }
    }
}

pub fn clang() -> OsString {
    std::env::var_os("CLANG").unwrap_or_else(|| "clang".into())
}

/// Compiles programs; of the store what is newer than its object, for each flavour.
#[derive(Default)]
pub struct Compiler {
    built: OnceCell<Built>,
}

impl Compiler {
    pub fn built(&self, log: &Log) -> Result<&Built> {
        if let Some(built) = self.built.get() {
            return Ok(built);
        }
        let built = Built::new(log)?;
        Ok(self.built.get_or_init(|| built))
    }

    pub fn program(&self, log: &Log, flavour: Flavour, name: &str) -> Result<PathBuf> {
        let objects = workspace::work_folder(&format!("c/{}", flavour.name()))?;
        let program = workspace::work_folder("c")?.join(format!("{name}-{}", flavour.name()));
        self.make(log, flavour, name, (&store(), &objects), &program)?;
        Ok(program)
    }

    /// The same of a copy of the store, with the times of its files, in which something is
    /// changed.
    pub fn program_of_copy(
        &self,
        log: &Log,
        flavour: Flavour,
        name: &str,
        copy: &Path,
    ) -> Result<PathBuf> {
        self.program(log, flavour, name)?;
        let own = workspace::work_folder(&format!("c/{}", flavour.name()))?;
        let objects = copy.join("objects").join(flavour.name());
        if !objects.exists() {
            fs::create_dir_all(copy.join("objects"))?;
            log.must(Command::new("cp").arg("-a").arg(own).arg(&objects))?;
            // A changed file may be older than these objects, which are not of it.
            for path in workspace::all_files(&store())? {
                let other = copy.join(path.strip_prefix(store())?);
                if fs::read(&path)? != fs::read(&other)? {
                    fs::File::options()
                        .append(true)
                        .open(other)?
                        .set_modified(SystemTime::now())?;
                }
            }
        }
        let program = objects.join(name);
        self.make(log, flavour, name, (copy, &objects), &program)?;
        Ok(program)
    }

    fn make(
        &self,
        log: &Log,
        flavour: Flavour,
        name: &str,
        (at, out): (&Path, &Path),
        program: &Path,
    ) -> Result<()> {
        let built = self.built(log)?;
        let flags = flags(built, flavour)?;
        let mut sources = Vec::new();
        if flavour != Flavour::AsBuilt {
            for source in flavour.sources()? {
                sources.push(at.join(source.strip_prefix(store())?));
            }
        }
        let mut libraries = Vec::new();
        let wanted = ["libzmeld_store.a", "liblz4.a", "libzstd.a", "libz.a"];
        let left_out = usize::from(flavour != Flavour::AsBuilt);
        let folders = built.paths("ZMELD_C_LIBRARIES")?;
        for name in &wanted[left_out..] {
            libraries.extend(
                folders
                    .iter()
                    .map(|it| it.join(name))
                    .find(|it| it.exists()),
            );
        }
        let [link, own] = [flavour.link_flags(), flavour.flags()].map(|flags| flags.join(" "));
        let compiler = flavour.compiler().to_string_lossy().into_owned();
        let options = format!("{compiler} {flags} {own} {link}");
        let kept = out.join("options");
        if fs::read_to_string(&kept).ok().as_ref() != Some(&options) {
            fs::write(&kept, options)?;
        }
        let joined = |paths: &[PathBuf]| -> String {
            paths
                .iter()
                .map(|path| format!("{} ", path.display()))
                .collect()
        };
        let test = at.join("tests").join(name).with_extension("c");
        let mut make = Command::new("make");
        // Compilers' files beside a program, as for coverage, stay out of the checkout.
        make.current_dir(out)
            .arg(jobs())
            .arg("-f")
            .arg(workspace::root().join("xtask/c.mk"));
        for (name, value) in [
            ("CC", compiler),
            (
                "CFLAGS",
                format!("{flags} {}", includes(built, at)?.join(" ")),
            ),
            ("FLAGS", own),
            ("LINK", link),
            ("LDLIBS", "-lpthread".to_owned()),
            ("LIBRARIES", joined(&libraries)),
            ("SOURCES", joined(&sources)),
            ("STORE", at.display().to_string()),
            ("OUT", out.display().to_string()),
            ("TEST", test.display().to_string()),
            ("PROGRAM", program.display().to_string()),
        ] {
            make.arg(format!("{name}={value}"));
        }
        log.must(&mut make)?;
        Ok(())
    }

    /// The compiler with what every C file of ours needs.
    pub fn command(&self, log: &Log, flavour: Flavour) -> Result<Command> {
        let built = self.built(log)?;
        let mut command = Command::new(flavour.compiler());
        command.args(flags(built, flavour)?.split_whitespace());
        command.args(includes(built, &store())?);
        Ok(command)
    }

    /// Assembly of a text in the place of one of the store's files, with more flags; none where it
    /// does not compile without a warning.
    pub fn assembly(
        &self,
        log: &Log,
        file: &Path,
        text: &Path,
        flags: [&str; 2],
    ) -> Result<Option<String>> {
        let mut command = self.command(log, Flavour::AsBuilt)?;
        let beside = file.parent().context("a file is in a folder")?;
        command.arg("-I").arg(beside);
        command.arg("-Werror").args(flags);
        command.args(["-g0", "-S", "-x", "c", "-", "-o", "-"]);
        command.stdin(fs::File::open(text)?);
        let output = command.output().context("no C compiler")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(output.status.success().then_some(text))
    }
}

fn flags(built: &Built, flavour: Flavour) -> Result<String> {
    let level = match flavour {
        Flavour::Thread | Flavour::AsBuilt => "-O2",
        _ => "-O1",
    };
    let shift = built.variable("ZMELD_C_PAGE_SHIFT")?;
    let definitions = flavour.row()[2];
    let more = std::env::var("TEST_CFLAGS").unwrap_or_default();
    Ok(format!(
        "-std=gnu11 -g -Wall -Wextra -fno-omit-frame-pointer {level} -DZM_PAGE_SHIFT={shift} \
         {definitions} {more}"
    ))
}

/// Those of a store that is elsewhere are its own.
fn includes(built: &Built, at: &Path) -> Result<Vec<String>> {
    let store = store().canonicalize()?;
    let folders = built.paths("ZMELD_C_INCLUDES")?.into_iter();
    let folders = folders.map(|folder| match folder.strip_prefix(&store) {
        Ok(own) => at.join(own),
        Err(_) => folder,
    });
    Ok(folders
        .map(|folder| format!("-I{}", folder.display()))
        .collect())
}

pub fn sources() -> Result<Vec<PathBuf>> {
    let store = store();
    let mut sources = workspace::files(&store.join("core"), "c")?;
    sources.extend(workspace::files(&store.join("zword"), "c")?);
    sources.extend(workspace::files(&store.join("port/user"), "c")?);
    let mut stems: Vec<String> = sources.iter().map(|path| workspace::stem(path)).collect();
    stems.sort();
    // Objects of all of them share one folder.
    if let Some(pair) = stems.windows(2).find(|pair| pair[0] == pair[1]) {
        bail!("two folders of the store have a {}.c", pair[0]);
    }
    Ok(sources)
}

fn store() -> PathBuf {
    workspace::root().join("store")
}

pub fn tests_folder() -> PathBuf {
    store().join("tests")
}
