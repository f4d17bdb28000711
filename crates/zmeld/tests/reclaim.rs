//! `[watch.reclaim]` by `process_madvise` on this machine: of a program with one mapping,
//! in part in use and in part not, the idle part goes to swap and the other one stays, and
//! when all of it is used, nothing more goes. And one that holds the map of its memory keeps
//! the watch from nothing else.

#[path = "../../zmeld-linux/tests/support/turn.rs"]
mod turn;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use turn::Swap;

const MIB: u64 = 1 << 20;
const ALL: u64 = 96 * MIB;
/// From the beginning on.
const HOT: u64 = 24 * MIB;
/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(120);

const PROGRAM: &str = "
import ctypes, hashlib, mmap, os, select, sys
ALL, HOT = int(sys.argv[1]), int(sys.argv[2])
m = mmap.mmap(-1, ALL, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
page = bytes(3000)
for at in range(0, ALL, 4096):
    m[at:at + 4096] = os.urandom(1096) + page
def digest():
    return hashlib.sha256(m).hexdigest()
print('%x' % ctypes.addressof(ctypes.c_char.from_buffer(m)), digest(), flush=True)
end = HOT
while True:
    m[0:end:4096]
    if select.select([sys.stdin], [], [], 0.01)[0]:
        line = sys.stdin.readline()
        if line == 'all\\n':
            end = ALL
        else:
            print(digest(), flush=True)
            break
";

/// A file system (fuse(4)) whose one file takes a write only when it is told to, and a program
/// in the control group that maps other memory over that file: the kernel writes the file
/// first, and holds the map of the program's memory meanwhile.
const HOLDER: &str = "
import ctypes, mmap, os, struct, sys, threading
folder, group = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
fuse = os.open('/dev/fuse', os.O_RDWR)
options = f'fd={fuse},rootmode=40000,user_id=0,group_id=0'
if libc.mount(b'hold', folder.encode(), b'fuse', 0, options.encode()):
    print('none', os.strerror(ctypes.get_errno()), flush=True)
    sys.exit()
let = threading.Event()
def attributes(node):
    mode = 0o40755 if node == 1 else 0o100644
    return struct.pack('<6Q10I', node, 4096, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)
def answer(unique, body=b'', error=0):
    os.write(fuse, struct.pack('<IiQ', 16 + len(body), -error, unique) + body)
def hold(unique, size):
    print('held', flush=True)
    let.wait()
    answer(unique, struct.pack('<II', size, 0))
def serve():
    while True:
        request = os.read(fuse, 1 << 20)
        _, what, unique, node = struct.unpack_from('<IIQQ', request)
        if what == 26:
            answer(unique, struct.pack('<4I2H2I2H8I', 7, 31, 4096, 0, 1, 1, 4096, 1, 1, *9 * [0]))
        elif what == 1:
            answer(unique, struct.pack('<4Q2I', 2, 0, 60, 60, 0, 0) + attributes(2))
        elif what in (3, 4):
            answer(unique, struct.pack('<QII', 60, 0, 0) + attributes(node))
        elif what in (14, 27):
            answer(unique, bytes(16))
        elif what == 15:
            answer(unique, bytes(4096))
        elif what == 16:
            size = struct.unpack_from('<I', request, 56)[0]
            threading.Thread(target=hold, args=(unique, size), daemon=True).start()
        elif what in (18, 20, 25, 29, 34):
            answer(unique)
        elif what not in (2, 36, 42):
            answer(unique, error=38)
child = os.fork()
if child == 0:
    with open(group + '/cgroup.procs', 'w') as file:
        file.write('0')
    memory = os.urandom(64 << 20)
    file = os.open(folder + '/file', os.O_RDWR)
    shared = mmap.mmap(file, 4096)
    shared[0] = 1
    at = ctypes.addressof(ctypes.c_char.from_buffer(shared))
    libc.mmap(at, 4096, 3, 0x32, -1, 0)
    os._exit(0)
print(child, flush=True)
threading.Thread(target=serve, daemon=True).start()
sys.stdin.readline()
let.set()
os.waitpid(child, 0)
print('let', flush=True)
";

/// A control group; gone with the test, however it ends.
struct Group(PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        let begin = Instant::now();
        while fs::remove_dir(&self.0).is_err() && begin.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A control group of the memory controller, of either version.
fn group() -> Result<Group, String> {
    let version_one = Path::new("/sys/fs/cgroup/memory");
    let top = match version_one.join("memory.limit_in_bytes").exists() {
        true => version_one,
        false => Path::new("/sys/fs/cgroup"),
    };
    let controllers = fs::read_to_string(top.join("cgroup.controllers")).unwrap_or_default();
    if top != version_one && !controllers.contains("memory") {
        return Err("memory is in no control groups".to_owned());
    }
    let group = top.join(format!("zmeld-test-{}", std::process::id()));
    fs::create_dir(&group).map_err(|error| format!("no control group can be made: {error}"))?;
    Ok(Group(group))
}

struct Program {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    start: u64,
    digest: String,
}

/// Who holds the map of a program's memory; it is let go with the test.
struct Holder {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Holder {
    /// Its program's number, once that is held.
    fn start(folder: &Path, group: &Path) -> Result<(Holder, u32), String> {
        let child = Command::new("unshare")
            .args(["-m", "python3", "-c", HOLDER])
            .args([folder, group])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = child.map_err(|error| error.to_string())?;
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut holder = Holder { child, stdout };
        let line = holder.line();
        let pid = line
            .parse()
            .map_err(|_| format!("no file system of its own: {line}"))?;
        assert_eq!(holder.line(), "held");
        Ok((holder, pid))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // With it ends the file system, and with that what its program waits for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    fn start(group: &Path) -> Option<Program> {
        let (all, hot) = (ALL.to_string(), HOT.to_string());
        let child = Command::new("python3")
            .args(["-c", PROGRAM, &all, &hot])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = child.ok()?;
        fs::write(group.join("cgroup.procs"), child.id().to_string()).unwrap();
        let mut program = Program {
            stdin: child.stdin.take()?,
            stdout: BufReader::new(child.stdout.take()?),
            child,
            start: 0,
            digest: String::new(),
        };
        let line = program.line();
        let (start, digest) = line.split_once(' ')?;
        program.start = u64::from_str_radix(start, 16).unwrap();
        program.digest = digest.to_owned();
        Some(program)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn say(&mut self, word: &str) {
        writeln!(self.stdin, "{word}").unwrap();
    }

    /// How much is in swap of that part of it.
    fn swapped(&self, from: u64, to: u64) -> u64 {
        let page = 4096;
        let file = File::open(format!("/proc/{}/pagemap", self.child.id())).unwrap();
        let mut words = vec![0; ((to - from) / page * 8) as usize];
        file.read_exact_at(&mut words, (self.start + from) / page * 8)
            .unwrap();
        let is_swapped = |word: &[u8]| u64::from_ne_bytes(word.try_into().unwrap()) >> 62 & 1 == 1;
        words.chunks(8).filter(|word| is_swapped(word)).count() as u64 * page
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `zmeld watch`, ended with the test.
struct Watch(Child);

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for it; how long that took.
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(200));
    }
    begin.elapsed()
}

#[test]
fn of_a_program_the_idle_part_goes_and_the_part_in_use_stays() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("SKIP: only root may reclaim from others");
        return;
    }
    let _turn = turn::turn().unwrap();
    let (_swap, group) = match Swap::zram(256 * MIB, 32_000).and_then(|it| Ok((it, group()?))) {
        Ok(both) => both,
        Err(reason) => {
            eprintln!("SKIP: {reason}");
            return;
        }
    };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let config = folder.path().join("zmeld.toml");
    let said = folder.path().join("said");
    let name = group.0.file_name().unwrap().to_str().unwrap();
    let rule = format!(
        "[watch]\ncpu_pressure_max = \"100%\"\n[watch.reclaim]\ngroups = [\"/{name}\"]\n\
         mechanism = \"process_madvise\"\nidle_after = \"2s\"\nevery = \"1s\"\nstep = \"10%\"\n\
         pressure_max = \"100%\"\ncomeback_max = \"5%\"\n"
    );
    fs::write(&config, rule).unwrap();
    let Some(mut program) = Program::start(&group.0) else {
        eprintln!("SKIP: python3 is not there");
        return;
    };
    let zmeld = || Command::new(env!("CARGO_BIN_EXE_zmeld"));
    let watch = zmeld()
        .args(["watch", "--config", config.to_str().unwrap()])
        .stderr(File::create(&said).unwrap())
        .spawn();
    let mut watch = Watch(watch.unwrap());
    let told = || fs::read_to_string(&said).unwrap();

    let cold = ALL - HOT;
    let took = wait_for("half of what is idle is in swap", || {
        told().contains("nothing can be reclaimed") || program.swapped(HOT, ALL) > cold / 2
    });
    if told().contains("nothing can be reclaimed") {
        eprintln!("SKIP: {}", told());
        return;
    }
    let hot = program.swapped(0, HOT);
    eprintln!(
        "of {} MiB that are idle {} MiB were in swap after {:.0} s, of {} MiB in use {} KiB",
        cold / MIB,
        program.swapped(HOT, ALL) / MIB,
        took.as_secs_f64(),
        HOT / MIB,
        hot / 1024
    );
    assert!(hot < HOT / 50, "{hot} bytes of what is in use\n{}", told());
    // The note is written every 10 s.
    let status = || {
        let output = zmeld().args(["status", "--json"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    wait_for("status tells by what", || {
        status().contains("\"mechanism\": \"process_madvise\"")
    });

    program.say("all");
    let took = wait_for("it backs off", || told().contains("backs off"));
    eprintln!(
        "it backed off {:.1} s after all of it was used",
        took.as_secs_f64()
    );
    eprintln!("{}", told());
    assert!(told().contains("came back within a minute"), "{}", told());
    program.say("end");
    let digest = program.line();
    assert_eq!(digest, program.digest, "memory came back as it was");
    let watched = Pid::from_raw(i32::try_from(watch.0.id()).unwrap());
    kill(watched, Signal::SIGTERM).unwrap();
    assert!(watch.0.wait().unwrap().success());
}

#[test]
fn a_process_that_does_not_answer_is_told_and_the_watch_ends_when_it_is_to() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("SKIP: only root may reclaim from others");
        return;
    }
    let _turn = turn::turn().unwrap();
    let (_swap, group) = match Swap::zram(64 * MIB, 32_000).and_then(|it| Ok((it, group()?))) {
        Ok(both) => both,
        Err(reason) => {
            eprintln!("SKIP: {reason}");
            return;
        }
    };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mount = folder.path().join("held");
    fs::create_dir(&mount).unwrap();
    let (mut holder, pid) = match Holder::start(&mount, &group.0) {
        Ok(both) => both,
        Err(reason) => {
            eprintln!("SKIP: {reason}");
            return;
        }
    };
    let config = folder.path().join("zmeld.toml");
    let said = folder.path().join("said");
    let name = group.0.file_name().unwrap().to_str().unwrap();
    let rule = format!(
        "[watch]\ncpu_pressure_max = \"100%\"\n[watch.reclaim]\ngroups = [\"/{name}\"]\n\
         mechanism = \"process_madvise\"\nevery = \"1s\"\npressure_max = \"100%\"\n"
    );
    fs::write(&config, rule).unwrap();
    let start = || {
        let watch = Command::new(env!("CARGO_BIN_EXE_zmeld"))
            .args(["watch", "--config", config.to_str().unwrap()])
            .stderr(File::create(&said).unwrap())
            .spawn();
        Watch(watch.unwrap())
    };
    let mut watch = start();
    let told = || fs::read_to_string(&said).unwrap();
    let stands = format!("process {pid} does not answer");
    wait_for("it says at whom it stands", || {
        told().contains("nothing can be reclaimed") || told().contains(&stands)
    });
    if told().contains("nothing can be reclaimed") {
        eprintln!("SKIP: {}", told());
        return;
    }
    let status = || {
        let output = Command::new(env!("CARGO_BIN_EXE_zmeld"))
            .arg("status")
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    wait_for("status says so", || status().contains(&stands));
    let watched = Pid::from_raw(i32::try_from(watch.0.id()).unwrap());
    kill(watched, Signal::SIGTERM).unwrap();
    assert!(watch.0.wait().unwrap().success(), "{}", told());
    // It was held all the time, and another watch goes on when it is let go.
    let mut watch = start();
    wait_for("it says at whom it stands", || told().contains(&stands));
    writeln!(holder.child.stdin.take().unwrap(), "let").unwrap();
    assert_eq!(holder.line(), "let");
    wait_for("it goes on", || told().contains("goes on"));
    let watched = Pid::from_raw(i32::try_from(watch.0.id()).unwrap());
    kill(watched, Signal::SIGTERM).unwrap();
    assert!(watch.0.wait().unwrap().success(), "{}", told());
}
