//! Pages that kernels really swap out: the stated programs run one at a time in a
//! memory control group that is too small for them, with swap on a zram device,
//! and what is on the device is kept.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};
use zmeld_linux::Host;
use zmeld_tests::group::Group;
use zmeld_tests::turn::{turn, Swap};

use crate::process::{output_of, run_in_front, was_interrupted};
use crate::rust_tests::cargo;
use crate::tools;
use crate::workspace;

/// Run programs under memory pressure and keep pages of each that were swapped out
///
/// The programs of xtask/pages/programs.txt, one at a time; the pages go to target/pages.
/// It takes root, a machine with zram and a memory control group, and about 20 minutes.
/// Those that are kept are not run again; one that is not there is left out, with the packages
/// that have it.
#[derive(clap::Args)]
pub struct Options {
    /// Only these
    names: Vec<String>,
}

/// Make the tables of a codec
///
/// Makes store/zword/lengths.c from the pages of the programs that are for training, which
/// `cargo xtask pages` keeps, and xtask/pages/trained.txt with their hashes. The same pages give
/// the same file.
#[derive(clap::Args)]
pub struct Train {
    #[arg(value_parser = ["zword"])]
    codec: String,
}

pub fn train(_: &Train) -> Result<ExitCode> {
    let programs = programs()?;
    let train = programs.iter().filter(|program| program.trains);
    let files: Vec<PathBuf> = train.map(kept_file_of).collect::<Result<_>>()?;
    let mut command = cargo(&["run", "--quiet", "--release", "--package", "zmeld-store"]);
    command.args(["--example", "train_zword", "--"]);
    command.arg(workspace::root().join("store/zword/lengths.c"));
    let is_made = run_in_front(command.args(&files))?.success();
    ensure!(is_made, "the training fails");
    let names = files.iter().filter_map(|file| file.file_name());
    let sums = output_of(Command::new("sha256sum").current_dir(folder()).args(names))?;
    workspace::put(&list_folder().join("trained.txt"), sums + "\n")?;
    Ok(ExitCode::SUCCESS)
}

pub const NONE: &str = "there are no pages to measure with: cargo xtask pages keeps some";

pub const PAGE: usize = 4096;
/// Pages kept of each program, drawn at random.
const KEPT_PAGES: usize = 4096;
/// With fewer, the program is not there, or did not get far.
const FEWEST_PAGES: usize = 256;
/// Swapped out, this is enough to draw from.
const ENOUGH_BYTES: u64 = 200 << 20;
const DEVICE_BYTES: u64 = 2 << 30;
/// After so many seconds without more swapped out, a program is done with.
const STILL_S: u32 = 8;
/// After so many seconds, in any case.
const LIMIT_S: u64 = 60;

pub struct Program {
    pub name: String,
    /// Tables are made of its pages; those of the others they never see.
    pub trains: bool,
    kind: String,
    packages: String,
    limit_mib: u64,
    run: String,
}

impl Program {
    /// `NAME SET KIND limit=MIB packages=NAME,NAME`, and its script.
    fn read(text: &str) -> Option<Program> {
        let (head, run) = text.split_once('\n')?;
        let [name, set, kind, limit, packages] = head.split(' ').collect::<Vec<_>>()[..] else {
            return None;
        };
        let packages = packages.strip_prefix("packages=")?;
        Some(Program {
            name: name.to_owned(),
            trains: ["test", "train"].iter().position(|known| *known == set)? == 1,
            kind: kind.to_owned(),
            packages: packages.to_owned(),
            limit_mib: limit.strip_prefix("limit=")?.parse().ok()?,
            run: run.to_owned(),
        })
    }
}

fn list_folder() -> PathBuf {
    workspace::root().join("xtask/pages")
}

pub fn folder() -> PathBuf {
    workspace::root().join("target/pages")
}

pub fn file_of(program: &Program) -> PathBuf {
    folder().join(format!("{}.pages", program.name))
}

pub fn kept_file_of(program: &Program) -> Result<PathBuf> {
    let file = file_of(program);
    let shown = workspace::shown(&file);
    ensure!(
        file.exists(),
        "{shown} is missing: cargo xtask pages makes it"
    );
    Ok(file)
}

pub fn programs() -> Result<Vec<Program>> {
    let path = list_folder().join("programs.txt");
    let text = workspace::read(&path)?;
    let listed = text.split("\n#: ").skip(1);
    let unclear = |text: &str| format!("{}: unclear: {text}", workspace::shown(&path));
    listed
        .map(|text| Program::read(text).with_context(|| unclear(text)))
        .collect()
}

/// Pages of programs that tables never saw: of each as many, in turn one of each.
pub struct HeldOut {
    pub bytes: Vec<u8>,
    pub about: String,
}

/// Up to `wanted` of them; none where none are kept.
pub fn held_out(wanted: usize) -> Result<Option<HeldOut>> {
    let mut files: Vec<Vec<u8>> = Vec::new();
    for program in programs()? {
        let file = file_of(&program);
        if !program.trains && file.exists() {
            files.push(fs::read(&file).with_context(|| workspace::shown(&file))?);
        }
    }
    let bytes = in_turn(&files, wanted);
    if bytes.is_empty() {
        return Ok(None);
    }
    let about = format!(
        "{} pages that were swapped out, of {} programs that zword's tables never saw",
        bytes.len() / PAGE,
        files.len()
    );
    Ok(Some(HeldOut { bytes, about }))
}

/// Of each file as many pages, from all over it, in turn one of each.
fn in_turn(files: &[Vec<u8>], wanted: usize) -> Vec<u8> {
    let fewest = files.iter().map(|file| file.len() / PAGE).min();
    let each = fewest.unwrap_or(0).min(wanted / files.len().max(1));
    let mut bytes = Vec::with_capacity(each * files.len() * PAGE);
    for number in 0..each {
        for file in files {
            let at = number * (file.len() / PAGE) / each;
            bytes.extend_from_slice(&file[at * PAGE..][..PAGE]);
        }
    }
    bytes
}

pub fn run(options: &Options) -> Result<ExitCode> {
    let all = programs()?;
    let names = &options.names;
    let is_known = |name: &&String| all.iter().any(|program| program.name == **name);
    if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
        bail!("there is no program {unknown:?} in xtask/pages/programs.txt");
    }
    tools::need_root("swap devices and control groups")?;
    let is_zram = Path::new("/sys/class/zram-control/hot_add").exists();
    ensure!(is_zram, "there is no zram here: modprobe zram");
    let wanted = |program: &&Program| names.is_empty() || names.contains(&program.name);
    let chosen: Vec<&Program> = all.iter().filter(wanted).collect();
    fs::create_dir_all(folder())?;
    for program in chosen {
        if file_of(program).exists() {
            println!("{}: kept before", program.name);
            continue;
        }
        match collect(program) {
            Ok(pages) => println!("{} ({}): {pages} pages", program.name, program.kind),
            Err(error) if was_interrupted() => return Err(error),
            Err(error) => {
                let (name, packages) = (&program.name, &program.packages);
                println!("{name} (of {packages}): left out: {error:#}");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn used_bytes(swap: &Swap) -> Result<u64> {
    let area = Host::here().swap_on(swap.path())?;
    Ok(area.context("the swap device is gone")?.used_bytes)
}

/// All pages on it but same-filled ones, which free slots read as too.
fn pages_of(swap: &Swap) -> Result<Vec<Vec<u8>>> {
    let mut device = File::open(swap.path())?;
    // Slots are given from the front.
    let most = (4 * used_bytes(swap)? + (64 << 20)).min(DEVICE_BYTES) as usize / PAGE;
    let mut pages = Vec::new();
    let mut page = vec![0; PAGE];
    for number in 0..most {
        device.read_exact(&mut page)?;
        // The first one is the header.
        if number > 0 && page[8..] != page[..PAGE - 8] {
            pages.push(page.clone());
        }
    }
    Ok(pages)
}

/// Runs one program until enough of it is swapped out; how many pages were kept.
fn collect(program: &Program) -> Result<usize> {
    let _turn = turn().context("cannot wait for this machine's swap")?;
    let place = workspace::work_folder(&format!("pages/{}", program.name))?;
    workspace::empty_folder(&place)?;
    let swap = Swap::zram(DEVICE_BYTES, 100).map_err(anyhow::Error::msg)?;
    let group = Group::limited(program.limit_mib << 20);
    let group = group.context("no control group with a memory limit can be made")?;
    let log = File::create(folder().join(format!("{}.log", program.name)))?;
    // The shell joins the group before it becomes the program.
    let group_path = group.0.display();
    let script = format!("echo $$ > {group_path}/cgroup.procs\n{}", program.run);
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .current_dir(&place)
        .env("LIST", list_folder())
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .spawn()?;
    wait_for_swap(&swap, &group)?;
    group.signal("STOP");
    sleep(Duration::from_millis(200));
    let pages = drawn(pages_of(&swap)?, &program.name);
    drop(group);
    child.wait()?;
    drop(swap);
    fs::remove_dir_all(&place)?;
    ensure!(
        pages.len() >= FEWEST_PAGES,
        "{} pages of it were swapped out, see target/pages/{}.log",
        pages.len(),
        program.name
    );
    zmeld_linux::file::replace(&file_of(program), &pages.concat(), None)?;
    Ok(pages.len())
}

fn wait_for_swap(swap: &Swap, group: &Group) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(LIMIT_S);
    let (mut before, mut still) = (0, 0);
    while Instant::now() < end && still < STILL_S {
        sleep(Duration::from_secs(1));
        ensure!(!was_interrupted(), "interrupted");
        let used = used_bytes(swap)?;
        if used >= ENOUGH_BYTES || group.processes().is_empty() {
            break;
        }
        let moved = used.abs_diff(before) >= 256 << 10 || used < 24 << 20;
        still = if moved { 0 } else { still + 1 };
        before = used;
    }
    Ok(())
}

/// So many of them in an order that only looks random.
fn drawn(mut pages: Vec<Vec<u8>>, name: &str) -> Vec<Vec<u8>> {
    let mut state = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |state, byte| {
        (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    for k in (1..pages.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        pages.swap(k, (state % (k as u64 + 1)) as usize);
    }
    pages.truncate(KEPT_PAGES);
    pages
}
