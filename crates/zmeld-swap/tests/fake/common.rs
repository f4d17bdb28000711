//! A machine in a directory: devices, swap areas and mappings come and go as a
//! kernel and its commands would have it. It counts what is done to it, and can
//! die or fail at any of these operations.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::io::Errno;
use zmeld_config::{Config, Finding};
use zmeld_linux::command::{Ending, Finished, Invocation};
use zmeld_linux::host::{Access, Direct};
use zmeld_linux::Host;
use zmeld_swap::observe::applied::Applied;
use zmeld_swap::observe::Observation;
use zmeld_swap::setup::event::Event;
use zmeld_swap::setup::execute::{self, Removal, Report};
use zmeld_swap::setup::journal::{Journal, Owner, State};
use zmeld_swap::setup::plan::{Options, Plan};
use zmeld_swap::setup::Error;
use zmeld_swap::status::config_check::config_check;
use zmeld_swap::status::findings::findings;
use zmeld_swap::status::outstanding::Outstanding;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The program is killed before it.
    DieBefore,
    /// The program is killed after it, before it learns what came of it.
    DieAfter,
    /// The operation fails.
    Fail,
}

/// Thrown where the program is killed.
pub struct Killed;

#[derive(Default)]
struct Inner {
    count: usize,
    fate: Option<(usize, Fate)>,
    // After the operation that failed, this one fails too.
    then_fail: Option<usize>,
    // Signatures, by path below the root.
    signatures: BTreeMap<PathBuf, String>,
    sequence: u64,
    // Further attributes of added devices.
    offered: Vec<(&'static str, &'static str)>,
    // The path swapon refuses.
    refused: Option<PathBuf>,
    // Swapoff fails on this path so many times.
    kept_on: Option<(PathBuf, usize)>,
    /// The commands that were run.
    ran: BTreeSet<String>,
    // Action before the operation of that number.
    at: Option<(usize, Box<dyn FnOnce() + Send>)>,
    // Action while swapoff runs, which then goes on until it is told to end.
    meanwhile: Option<Box<dyn FnOnce() + Send>>,
}

pub struct Machine {
    pub dir: tempfile::TempDir,
    notes: Mutex<Vec<String>>,
    inner: Arc<Fake>,
}

struct Fake {
    root: PathBuf,
    // A path that fails when it is read.
    unread: Mutex<Option<(PathBuf, Errno)>>,
    inner: Mutex<Inner>,
}

/// How long a run waits for the lock of its machine. Nobody else has it, but a program
/// that another test starts meanwhile inherits it, and keeps it until it has ended.
pub const PATIENCE: Duration = Duration::from_secs(600);

pub const MEMINFO: &str = "MemTotal: 4194304 kB\nMemFree: 1048576 kB\nMemAvailable: 2097152 kB\n\
    Buffers: 0 kB\nCached: 0 kB\nSwapCached: 0 kB\nActive: 0 kB\nInactive: 0 kB\nSwapTotal: 0 kB\n\
    SwapFree: 0 kB\nDirty: 0 kB\nWriteback: 0 kB\nMapped: 0 kB\nSlab: 0 kB\nCommitted_AS: 0 kB\n\
    VmallocTotal: 0 kB\nVmallocUsed: 0 kB\nVmallocChunk: 0 kB\n";
/// Those of a new device, beside what a case offers.
const ATTRIBUTES: [(&str, &str); 6] = [
    ("comp_algorithm", "lzo [lzo-rle] lz4 zstd \n"),
    ("algorithm_params", ""),
    ("disksize", "0\n"),
    ("mem_limit", ""),
    ("backing_dev", "none\n"),
    ("mm_stat", "0 0 0 0 0 0 0 0 0\n"),
];
const SWAPS: &str = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";

/// The journal of an owner, by a run that nobody stops.
pub fn lock(host: &Host, owner: Owner) -> Result<Journal, Error> {
    Journal::lock(host, owner, PATIENCE, &AtomicBool::new(false), &mut |_| {})
}

impl Machine {
    /// With a zram device that somebody else made, zswap on, and drives. In
    /// memory where that can be, since much is synced; no swap file can be there.
    pub fn new() -> Machine {
        match tempfile::tempdir_in("/dev/shm") {
            Ok(dir) => Machine::within(dir),
            Err(_) => Machine::on_disk(),
        }
    }

    /// The same where a swap file can be.
    pub fn on_disk() -> Machine {
        Machine::within(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    fn within(dir: tempfile::TempDir) -> Machine {
        let root = dir.path().to_path_buf();
        let inner = Arc::new(Fake {
            root,
            unread: Mutex::default(),
            inner: Mutex::new(Inner::default()),
        });
        let machine = Machine {
            dir,
            notes: Mutex::default(),
            inner,
        };
        for (path, text) in [
            ("/proc/meminfo", MEMINFO),
            ("/proc/swaps", SWAPS),
            ("/proc/cmdline", "quiet\n"),
            ("/proc/sys/kernel/osrelease", "6.12.0\n"),
            ("/proc/sys/kernel/random/boot_id", "boot-1\n"),
            ("/proc/sys/vm/swappiness", "60\n"),
            ("/proc/sys/vm/page-cluster", "3\n"),
            ("/sys/class/zram-control/hot_add", ""),
            ("/sys/class/zram-control/hot_remove", ""),
            ("/sys/module/zswap/parameters/enabled", "Y\n"),
            ("/sys/module/zswap/parameters/compressor", "lzo\n"),
            ("/sys/module/zswap/parameters/zpool", "zbud\n"),
            ("/sys/module/zswap/parameters/max_pool_percent", "20\n"),
            ("/dev/sdb1", ""),
            ("/dev/sdc1", ""),
            ("/dev/mapper/control", ""),
            ("/var/place", ""),
        ] {
            machine.put(path, text);
        }
        machine
            .inner
            .add_zram(&mut machine.inner.inner.lock().unwrap());
        for disk in ["sdb1", "sdc1"] {
            machine.attach(disk);
        }
        machine
    }

    /// Another disk has that name from now on, and carries nothing.
    pub fn attach(&self, name: &str) {
        let path = self.path("/dev").join(name);
        fs::write(&path, "").unwrap();
        let mut inner = self.inner.inner.lock().unwrap();
        inner.signatures.remove(&path);
        self.inner.add_disk(&mut inner, name, None);
    }

    pub fn others_mkswap(&self, path: &str) {
        let other = "01234567-89ab-4cde-8f01-23456789abcd";
        let mkswap = Invocation::new("mkswap").args(["--uuid", other]);
        self.host().run(&mkswap.arg(self.path(path))).unwrap();
    }

    pub fn others_swap(&self, path: &str) {
        self.others_mkswap(path);
        self.host()
            .run(&Invocation::new("swapon").arg(self.path(path)))
            .unwrap();
    }

    pub fn others_swapoff(&self, path: &str) {
        let swapoff = Invocation::new("swapoff").arg(self.path(path));
        self.host().run(&swapoff).unwrap();
    }

    /// A device of which nobody can tell whether a killed run made it is named, in what
    /// was noted: here one did.
    pub fn remove_doubtful(&self) {
        let is_doubtful = |note: &String| note.contains("a run that was stopped may have made it");
        if let Some(note) = self.notes().into_iter().find(is_doubtful) {
            let number = note
                .trim_start_matches("/dev/zram")
                .split(' ')
                .next()
                .unwrap();
            assert_eq!(
                self.text(&format!("/sys/block/zram{number}/disksize")),
                "0\n"
            );
            let control = "/sys/class/zram-control/hot_remove";
            self.host().write(control, number).unwrap();
        }
    }

    /// Takes the notes since the last call.
    pub fn notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(|notes| notes.into_inner()))
    }

    pub fn host(&self) -> Host {
        Host::with(self.dir.path(), self.inner.clone())
    }

    pub fn put(&self, path: &str, text: &str) {
        self.host().plant(path, text);
    }

    pub fn text(&self, path: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.path(path)).unwrap()).into_owned()
    }

    pub fn carry(&self, path: &str, what: &str) {
        let signatures = &mut self.inner.inner.lock().unwrap().signatures;
        signatures.insert(self.path(path), what.to_owned());
    }

    /// The next swapoff takes its time: this happens meanwhile, and it goes on until
    /// it is told to end. Where nobody does, it is done at last.
    pub fn during_swapoff(&self, reversible: impl FnOnce() + Send + 'static) {
        self.inner.inner.lock().unwrap().meanwhile = Some(Box::new(reversible));
    }

    /// Before the operation of that number, counted from now, this happens.
    pub fn before_operation(&self, number: usize, what: impl FnOnce() + Send + 'static) {
        let mut inner = self.inner.inner.lock().unwrap();
        inner.at = Some((inner.count + number, Box::new(what)));
    }

    /// Sets the mode of a file.
    pub fn mode(&self, path: &str, mode: u32) {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs::set_permissions(self.path(path), mode).unwrap();
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path.trim_start_matches('/'))
    }

    /// zram's devices have that attribute too.
    pub fn offer(&self, name: &'static str, text: &'static str) {
        let zram0 = self.path("/sys/block/zram0");
        if zram0.exists() {
            fs::write(zram0.join(name), text).unwrap();
        }
        self.inner.inner.lock().unwrap().offered.push((name, text));
    }

    pub fn refuse_swapon(&self, path: &str) {
        self.inner.inner.lock().unwrap().refused = Some(self.path(path));
    }

    /// A drive that does not answer any more.
    pub fn silence(&self, path: &str) {
        self.silencer(path)();
    }

    pub fn silencer(&self, path: &str) -> impl FnOnce() + Send + 'static {
        let (fake, path) = (self.inner.clone(), self.path(path));
        move || *fake.unread.lock().unwrap() = Some((path, Errno::TIMEDOUT))
    }

    /// The kernel's file is there and cannot be read, or the command of that name not run.
    pub fn refuse_read(&self, path: &str, errno: Errno) {
        *self.inner.unread.lock().unwrap() = Some((self.path(path), errno));
    }

    pub fn ran(&self) -> BTreeSet<String> {
        self.inner.inner.lock().unwrap().ran.clone()
    }

    pub fn fail_swapoff(&self, path: &str, times: usize) {
        self.inner.inner.lock().unwrap().kept_on = Some((self.path(path), times));
    }

    /// Sets the fate of an operation from now on; gives how many there were.
    pub fn fate(&self, fate: Option<(usize, Fate)>) -> usize {
        let mut inner = self.inner.inner.lock().unwrap();
        inner.fate = fate;
        inner.then_fail = None;
        std::mem::take(&mut inner.count)
    }

    /// After the operation that fails, one more does, so many later.
    pub fn then_fail(&self, after: usize) {
        self.inner.inner.lock().unwrap().then_fail = Some(after);
    }

    /// Everything that a run may change, but for zmeld's own directory and the
    /// numbers of disks, which never come again.
    pub fn snapshot(&self) -> BTreeMap<PathBuf, String> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.dir.path().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let own = self.dir.path().join("run/zmeld");
                if path.as_os_str().len() > 3 << 10 {
                    // No path leads there.
                } else if path.is_dir() {
                    folders.push(path);
                } else if !path.starts_with(own) && !path.ends_with("diskseq") {
                    let mut text = fs::read(&path).unwrap_or_default();
                    text.truncate(4096);
                    // A header's UUID is new each time.
                    if let Some(uuid) = text.get_mut(1036..1052) {
                        uuid.fill(0);
                    }
                    let text = format!("{:?}", String::from_utf8_lossy(&text));
                    files.insert(path, text);
                }
            }
        }
        let inner = self.inner.inner.lock().unwrap();
        for (path, what) in &inner.signatures {
            // Missing paths carry nothing.
            if path.exists() {
                files.insert(path.join("signature"), what.clone());
            }
        }
        files
    }

    /// Whether a line of the snapshot is of an attribute that nobody has set. That of its size
    /// says that there is a device.
    pub fn is_as_new(&self, path: &Path, text: &str) -> bool {
        let inner = self.inner.inner.lock().unwrap();
        let mut attributes = inner.offered.iter().chain(&ATTRIBUTES);
        path.starts_with(self.path("/sys/block"))
            && !path.ends_with("disksize")
            && attributes.any(|(name, new)| path.ends_with(name) && text == format!("{new:?}"))
    }

    pub fn plan(&self, config: &Config) -> Result<Plan, Error> {
        self.plan_with(config, &Options::default())
    }

    pub fn plan_with(&self, config: &Config, options: &Options) -> Result<Plan, Error> {
        let host = self.host();
        let state = State::read(&host)?;
        Plan::new(&host, config, state.as_ref(), options)
    }

    pub fn up(&self, config: &Config) -> Result<Report, Error> {
        self.up_with(config, &Options::default())
    }

    /// As the command does it: zram stands in where the kernel does not take the module.
    pub fn up_with(&self, config: &Config, options: &Options) -> Result<Report, Error> {
        let host = self.host();
        let mut journal = lock(&host, Owner::Setup)?;
        let state = journal.state().clone();
        let plan = match options.at_boot {
            true => Plan::make(&host, config, Some(&state), options)?.1?,
            false => Plan::new(&host, config, Some(&state), options)?,
        };
        let mut notes = self.notes.lock().unwrap_or_else(|notes| notes.into_inner());
        let stop = false.into();
        execute::up(&host, &mut journal, &plan, &stop, &mut |event| {
            note(event, &mut notes);
        })
    }

    pub fn down(&self) -> Result<Report, Error> {
        self.down_until(&false.into())
    }

    pub fn down_until(&self, stop: &AtomicBool) -> Result<Report, Error> {
        self.down_with(Removal::default(), stop)
    }

    pub fn down_with(&self, removal: Removal<'_>, stop: &AtomicBool) -> Result<Report, Error> {
        let host = self.host();
        let never = AtomicBool::new(false);
        let (mut journal, left) = match removal.force {
            true => Journal::lock_by_force(&host, Owner::Setup, PATIENCE, &never, &mut |_| {})?,
            false => (lock(&host, Owner::Setup)?, vec![]),
        };
        let mut notes = self.notes.lock().unwrap_or_else(|notes| notes.into_inner());
        let mut report = execute::down(&host, &mut journal, removal, stop, &mut |event| {
            note(event, &mut notes);
        })?;
        report.left.extend(left);
        Ok(report)
    }

    pub fn findings(&self, text: &str) -> Vec<Finding> {
        let now = Observation::read(&self.host(), rustix::param::page_size() as u64);
        findings(&now, &self.outstanding(text))
    }

    pub fn outstanding(&self, text: &str) -> Outstanding {
        Outstanding::read(&self.host(), Some(&config(text)), None)
    }

    /// Findings of a check of that configuration.
    pub fn config_check(&self, config: &Config) -> Vec<Finding> {
        let host = self.host();
        let state = State::read(&host).unwrap();
        let seen = zmeld_config::advice::machine::Machine::read(&host).unwrap();
        config_check(&host, &seen, config, state.as_ref())
    }

    pub fn applied(&self) -> Option<Applied> {
        zmeld_swap::setup::applied::read(&self.host()).unwrap()
    }
}

fn driver_of(path: &Path) -> &'static str {
    match path.to_str().unwrap().contains("zmeld-control") {
        true => "zmeld",
        false => "zram",
    }
}

/// Whether a line is of that area, which may have been switched on where another path
/// leads to it.
fn is_line_of(line: &str, path: &str) -> bool {
    let shown = line.split_whitespace().next();
    shown == Some(path) || shown == path.strip_prefix("/dev")
}

/// Writes the first page of a device or file; a device that is wiped has none.
fn write_start(path: &Path, page: &[u8]) {
    let mut bytes = fs::read(path).unwrap_or_default();
    let size = rustix::param::page_size();
    if bytes.len() <= size {
        return fs::write(path, page).unwrap();
    }
    bytes[..size].fill(0);
    bytes[..page.len()].copy_from_slice(page);
    fs::write(path, bytes).unwrap();
}

fn swap_header(uuid: Option<&str>) -> Vec<u8> {
    let mut page = vec![0; rustix::param::page_size()];
    let digits = uuid.unwrap_or_default().replace('-', "");
    for (at, byte) in page[1036..1052].iter_mut().enumerate() {
        let digits = digits.get(2 * at..2 * at + 2);
        *byte = digits.map_or(0, |it| u8::from_str_radix(it, 16).unwrap());
    }
    let end = page.len() - 10;
    page[end..].copy_from_slice(b"SWAPSPACE2");
    page
}

fn luks_header(uuid: &str) -> Vec<u8> {
    let mut page = vec![0; 512];
    page[..6].copy_from_slice(b"LUKS\xba\xbe");
    page[168..168 + uuid.len()].copy_from_slice(uuid.as_bytes());
    page
}

pub fn note(event: Event<'_>, notes: &mut Vec<String>) {
    if let Event::Note { text } = event {
        notes.push(text.to_owned());
    }
}

fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

const EBUSY: i32 = 16;
const EINVAL: i32 = 22;
const EIO: i32 = 5;

impl Fake {
    /// Counts an operation; true where it is to fail.
    fn enter(&self) -> io::Result<Option<Fate>> {
        let mut inner = self.inner.lock().unwrap();
        let now = inner.count;
        inner.count += 1;
        if inner.at.as_ref().is_some_and(|(at, _)| *at == now) {
            if let Some((_, what)) = inner.at.take() {
                what();
            }
        }
        match inner.fate {
            Some((at, fate)) if at == now => {
                inner.fate = inner
                    .then_fail
                    .take()
                    .map(|after| (now + 1 + after, Fate::Fail));
                drop(inner);
                match fate {
                    Fate::DieBefore => std::panic::panic_any(Killed),
                    Fate::DieAfter => Ok(Some(fate)),
                    Fate::Fail => Err(errno(EIO)),
                }
            }
            _ => Ok(None),
        }
    }

    fn leave<T>(&self, fate: Option<Fate>, result: T) -> T {
        if fate == Some(Fate::DieAfter) {
            std::panic::panic_any(Killed);
        }
        result
    }

    fn add_zram(&self, inner: &mut Inner) -> u32 {
        self.add_device(inner, "zram")
    }

    fn add_device(&self, inner: &mut Inner, driver: &str) -> u32 {
        let folder = |number: &u32| self.root.join(format!("sys/block/{driver}{number}"));
        let number = (0..).find(|number| !folder(number).exists()).unwrap();
        inner.sequence += 1;
        let folder = folder(&number);
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in inner.offered.iter().chain(&ATTRIBUTES) {
            fs::write(folder.join(name), text).unwrap();
        }
        fs::write(folder.join("diskseq"), format!("{}\n", inner.sequence)).unwrap();
        if self.has_old_zram() {
            fs::remove_file(folder.join("algorithm_params")).unwrap();
        }
        if self.is_release("5.") {
            fs::remove_file(folder.join("diskseq")).unwrap();
        }
        let device = self.root.join(format!("dev/{driver}{number}"));
        fs::write(&device, "").unwrap();
        inner.signatures.remove(&device);
        number
    }

    /// It asks the crypto interface for codecs, and knows no parameters of them.
    fn has_old_zram(&self) -> bool {
        self.is_release("6.1.")
    }

    /// Up to 5.14 the kernel does not number its disks.
    fn is_release(&self, begin: &str) -> bool {
        let release = fs::read_to_string(self.root.join("proc/sys/kernel/osrelease"));
        release.is_ok_and(|release| release.starts_with(begin))
    }

    /// A disk that is new, by a number that none had before.
    fn add_disk(&self, inner: &mut Inner, name: &str, below: Option<&str>) {
        inner.sequence += 1;
        let folder = self.root.join("sys/block").join(name);
        fs::create_dir_all(folder.join("slaves")).unwrap();
        if !self.is_release("5.") {
            fs::write(folder.join("diskseq"), format!("{}\n", inner.sequence)).unwrap();
        }
        if let Some(below) = below {
            fs::write(folder.join("slaves").join(below), "").unwrap();
            fs::create_dir(folder.join("dm")).unwrap();
            fs::write(folder.join("dm/uuid"), format!("CRYPT-{name}\n")).unwrap();
        }
    }

    fn swaps(&self) -> String {
        fs::read_to_string(self.root.join("proc/swaps")).unwrap()
    }

    fn shown(&self, path: &Path) -> String {
        format!("/{}", path.strip_prefix(&self.root).unwrap().display())
    }

    /// Behaviour of a command or an attribute, where a file of its name in `/does` says one.
    fn does(&self, name: &str) -> String {
        let says = fs::read_to_string(self.root.join("does").join(name));
        says.unwrap_or_default().trim().to_owned()
    }

    /// A command as it was run. A UUID is new each time.
    fn line(&self, invocation: &Invocation) -> String {
        let mut words = vec![invocation.program.clone()];
        let arguments = invocation.arguments.iter();
        words.extend(arguments.map(|it| it.to_string_lossy().into_owned()));
        if let Some(at) = words.iter().position(|it| it == "--uuid") {
            words[at + 1] = "UUID".to_owned();
        }
        let line = words.join(" ").replace(&*self.root.to_string_lossy(), "");
        match invocation.limit == Invocation::new("").limit {
            true => line,
            false => format!("{line} within {:?}", invocation.limit),
        }
    }

    fn is_swap(&self, path: &Path) -> bool {
        let shown = self.shown(path);
        self.swaps().lines().any(|line| is_line_of(line, &shown))
    }

    fn store(&self, path: &Path, value: &str) -> io::Result<()> {
        let folder = path.parent().unwrap();
        let sized = || fs::read_to_string(folder.join("disksize")).unwrap().trim() != "0";
        let name = path.file_name().unwrap().to_str().unwrap();
        match &*self.does(name) {
            "" => {}
            "refuses" => return Err(errno(EINVAL)),
            "busy" => {
                fs::remove_file(self.root.join("does").join(name))?;
                return Err(errno(EBUSY));
            }
            says => return fs::write(path, format!("{says}\n")),
        }
        match name {
            "hot_remove" => {
                let driver = driver_of(path);
                let device = self.root.join(format!("dev/{driver}{value}"));
                let held = self.inner.lock().unwrap().signatures.get(&device).cloned();
                if self.is_swap(&device) || held.as_deref() == Some("mounted") {
                    return Err(errno(EBUSY));
                }
                fs::remove_dir_all(self.root.join(format!("sys/block/{driver}{value}")))?;
                fs::remove_file(device)
            }
            "comp_algorithm" => {
                let text = fs::read_to_string(path)?;
                let mut names: Vec<&str> = text
                    .split_whitespace()
                    .map(|it| it.trim_matches(['[', ']']))
                    .collect();
                if value == "zword" && self.has_old_zram() {
                    names.push(value);
                }
                if !names.contains(&value) {
                    return Err(errno(EINVAL));
                }
                if sized() {
                    return Err(errno(EBUSY));
                }
                let mark = |name: &&str| match *name == value {
                    true => format!("[{name}]"),
                    false => (*name).to_owned(),
                };
                let words: Vec<String> = names.iter().map(mark).collect();
                fs::write(path, words.join(" ") + "\n")
            }
            "algorithm_params" | "disksize" if sized() => Err(errno(EBUSY)),
            "mem_limit" => fs::write(folder.join("mm_stat"), format!("0 0 0 {value} 0 0 0 0 0\n")),
            "algorithm_params" if value.contains("damaged") => Err(errno(EINVAL)),
            "algorithm_params" => Ok(()),
            "recomp_algorithm" => {
                let (codec, priority) = value.split_once(" priority=").unwrap();
                let codec = codec.strip_prefix("algo=").unwrap();
                let text = fs::read_to_string(folder.join("comp_algorithm"))?;
                let mut names = text
                    .split_whitespace()
                    .map(|it| it.trim_matches(['[', ']']));
                if !names.any(|it| it == codec) {
                    return Err(errno(EINVAL));
                }
                // As Linux 7.2 writes it.
                let before = fs::read_to_string(path)?;
                let gap = "\0".repeat(if before.is_empty() { 0 } else { 4 });
                let line = format!("{gap}#{priority}: lzo lz4 [{codec}] \n");
                fs::write(path, before + &line)
            }
            _ => {
                // Neither made nor found elsewhere.
                fs::metadata(path)?;
                fs::write(path, format!("{value}\n"))
            }
        }
    }

    fn command(&self, invocation: &Invocation) -> Result<String, String> {
        let words: Vec<String> = invocation
            .arguments
            .iter()
            .map(|it| it.to_string_lossy().into_owned())
            .collect();
        let has = |word: &str| words.iter().any(|it| it == word);
        let after = |word: &str| {
            let at = words.iter().position(|it| it == word)?;
            Some(words[at + 1].as_str())
        };
        // The present path of its argument.
        let last = match &invocation.object {
            Some(object) => {
                let link = format!("/proc/self/fd/{}", object.file.as_raw_fd());
                fs::read_link(link).unwrap()
            }
            None => PathBuf::from(words.last().unwrap()),
        };
        // As a command opens a device.
        let last = match last.starts_with(self.root.join("dev")) {
            true => last.canonicalize().unwrap_or(last),
            false => last,
        };
        let mut inner = self.inner.lock().unwrap();
        match invocation.program.as_str() {
            "wipefs" if has("--all") => {
                inner.signatures.remove(&last);
                write_start(&last, &[]);
                Ok(String::new())
            }
            "wipefs"
                if inner
                    .signatures
                    .get(&last)
                    .is_some_and(|it| it == "mounted") =>
            {
                Err(
                    "wipefs: error: probing initialization failed: Device or resource busy"
                        .to_owned(),
                )
            }
            // As an ordinary user sees root's device, and root one that a security module keeps.
            "wipefs"
                if inner
                    .signatures
                    .get(&last)
                    .is_some_and(|it| SECRETS.contains(&&**it)) =>
            {
                Err("wipefs: error: probing initialization failed: Permission denied".to_owned())
            }
            "wipefs" => Ok(inner.signatures.get(&last).cloned().unwrap_or_default()),
            "mkswap" => {
                if self.is_swap(&last) {
                    return Err("is mounted".to_owned());
                }
                write_start(&last, &swap_header(after("--uuid")));
                inner.signatures.insert(last, "swap".to_owned());
                Ok(String::new())
            }
            "swapon" => {
                let is_refused = inner.refused.as_ref() == Some(&last);
                match inner.signatures.get(&last).map(String::as_str) {
                    Some("swap") if !is_refused => {}
                    // It rewrites the signature of what was suspended.
                    Some("swsuspend") => {
                        inner.signatures.insert(last.clone(), "swap".to_owned());
                    }
                    _ => return Err("read swap header failed".to_owned()),
                }
                if self.is_swap(&last) {
                    return Err("Device or resource busy".to_owned());
                }
                let at = words.iter().position(|it| it == "--priority");
                let priority = at.map_or("-2", |at| &words[at + 1]);
                let priority = match &*self.does("swapon") {
                    "nothing" => return Ok(String::new()),
                    "chooses" => "-2",
                    _ => priority,
                };
                let line = format!("{} partition\t1024\t\t0\t\t{priority}\n", self.shown(&last));
                fs::write(self.root.join("proc/swaps"), self.swaps() + &line).unwrap();
                Ok(String::new())
            }
            "swapoff" if matches!(&inner.kept_on, Some((path, 1..)) if *path == last) => {
                inner.kept_on = inner.kept_on.take().map(|(path, times)| (path, times - 1));
                Err("Cannot allocate memory".to_owned())
            }
            "swapoff" if self.does("swapoff") == "nothing" => Ok(String::new()),
            "swapoff" => {
                let shown = self.shown(&last);
                let rest: String = self
                    .swaps()
                    .lines()
                    .filter(|line| !is_line_of(line, &shown))
                    .map(|line| format!("{line}\n"))
                    .collect();
                fs::write(self.root.join("proc/swaps"), rest).unwrap();
                Ok(String::new())
            }
            "cryptsetup" if has("open") => {
                let mapped = self.root.join("dev/mapper").join(words.last().unwrap());
                if mapped.exists() {
                    return Err("already exists".to_owned());
                }
                fs::write(&mapped, "").unwrap();
                // Noise may look like something.
                if !has("plain") {
                    inner.signatures.remove(&mapped);
                }
                let below = Path::new(&words[words.len() - 2]).file_name().unwrap();
                self.add_disk(&mut inner, words.last().unwrap(), below.to_str());
                Ok(String::new())
            }
            "cryptsetup" if has("close") => {
                let mapped = self.root.join("dev/mapper").join(words.last().unwrap());
                if self.is_swap(&mapped) {
                    return Err("is still in use".to_owned());
                }
                fs::remove_file(mapped).map_err(|err| err.to_string())?;
                let folder = self.root.join("sys/block").join(words.last().unwrap());
                fs::remove_dir_all(folder).unwrap();
                Ok(String::new())
            }
            "losetup" if self.does("losetup").is_empty() => {
                let folder = self.root.join("sys/class/block");
                let folder = folder.join(last.file_name().unwrap()).join("loop");
                let meta = fs::metadata(folder.join("really")).unwrap_or_else(|_| {
                    let file = fs::read_to_string(folder.join("backing_file")).unwrap();
                    let file = file.trim().trim_start_matches('/');
                    fs::metadata(self.root.join(file)).unwrap()
                });
                let (major, minor) = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
                Ok(format!(" {major}:{minor}  {}\n", meta.ino()))
            }
            "cryptsetup" if has("--help") => Ok(match &*self.does("cryptsetup") {
                "" => "--disable-external-tokens".to_owned(),
                says => says.to_owned(),
            }),
            "cryptsetup" if has("luksFormat") => {
                let device = PathBuf::from(&words[words.len() - 2]);
                write_start(&device, &luks_header(after("--uuid").unwrap_or_default()));
                inner.signatures.insert(device, "crypto_LUKS".to_owned());
                Ok(String::new())
            }
            "modprobe" if !self.does("modprobe").is_empty() => {
                let control = |name: &str| self.root.join(format!("sys/class/{name}-control"));
                let nothing = self.does("modprobe") == "nothing";
                match (words[0].as_str(), words.last().unwrap()) {
                    _ if nothing => {}
                    ("-r", name) => fs::remove_dir_all(control(name)).unwrap(),
                    (name, _) => {
                        fs::create_dir_all(control(name)).unwrap();
                        fs::write(control(name).join("hot_add"), "").unwrap();
                        fs::write(control(name).join("hot_remove"), "").unwrap();
                    }
                }
                Ok(String::new())
            }
            other => Err(format!("{other} is not known here: {words:?}")),
        }
    }
}

/// Signatures of devices that nobody but root may read, and not even root.
const SECRETS: [&str; 2] = ["secret", "secret-of-root"];

impl Fake {
    fn refused(&self, path: &Path) -> io::Result<()> {
        match self.unread.lock().unwrap().as_ref() {
            Some((refused, errno)) if refused == path => Err((*errno).into()),
            _ => Ok(()),
        }
    }
}

impl Access for Fake {
    fn is_root(&self) -> bool {
        let inner = self.inner.lock().unwrap();
        !inner.signatures.values().any(|it| it == SECRETS[0])
    }

    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let fate = self.enter()?;
        let result = if path.ends_with("hot_add") && self.does("hot_add").is_empty() {
            let mut inner = self.inner.lock().unwrap();
            let number = self.add_device(&mut inner, driver_of(path));
            Ok(format!("{number}\n").into_bytes())
        } else {
            self.refused(path).and_then(|()| Direct.read(path, limit))
        };
        self.leave(fate, result)
    }

    fn write(&self, path: &Path, value: &[u8]) -> io::Result<()> {
        let fate = self.enter()?;
        let result = self.store(path, std::str::from_utf8(value).unwrap());
        self.leave(fate, result)
    }

    fn run(&self, invocation: &Invocation, ending: Option<&Ending>) -> io::Result<Finished> {
        let meanwhile = ending.map(|_| self.inner.lock().unwrap().meanwhile.take());
        if let (Some(ending), Some(Some(reversible))) = (ending, meanwhile) {
            reversible();
            for _ in 0..120_000 {
                if ending.is_asked() {
                    return Ok(Finished {
                        signal: Some(2),
                        ..Finished::default()
                    });
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        self.refused(&self.root.join(&invocation.program))?;
        let fate = self.enter()?;
        let line = self.line(invocation);
        self.inner.lock().unwrap().ran.insert(line);
        let result = self.command(invocation);
        let finished = Finished {
            code: Some(result.is_err().into()),
            output: result.clone().unwrap_or_default(),
            errors: result.err().unwrap_or_default(),
            ..Finished::default()
        };
        self.leave(fate, Ok(finished))
    }
}

pub fn config(text: &str) -> Config {
    match Config::from_text(Path::new("test.toml"), text) {
        Ok(loaded) => loaded.config,
        Err(err) => panic!("{err}"),
    }
}
