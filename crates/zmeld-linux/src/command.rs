//! Running commands.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{mpsc, Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{kill_process, kill_process_group, Pid, Signal};

use crate::root_owned;
use crate::shell::word;
use crate::text::made_text;

/// More than any of them has to say; the rest is read and dropped.
const OUTPUT_MAX: u64 = 1 << 20;

/// Folders of the system's commands; the last is NixOS's.
pub(crate) const SYSTEM_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin:/run/current-system/sw/bin";
/// Folders of the machine's own; on some a group may write them.
const LOCAL: [&str; 2] = ["/usr/local/sbin", "/usr/local/bin"];

/// How a command names the file that it is given as its standard input.
const GIVEN: &str = "/proc/self/fd/0";

/// A command to run.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// The program: zmeld's own by its path, any other by its name. For root it is
    /// looked up where the system has its commands, and nowhere else; for others in
    /// `PATH` first.
    pub program: String,
    pub arguments: Vec<OsString>,
    /// The argument that stands for an open file.
    pub object: Option<Object>,
    /// How long it may take; none for what takes as long as there is work.
    pub limit: Option<Duration>,
}

/// Default time limit of a command. A drive that does not answer would hold up all others.
const LIMIT: Duration = Duration::from_secs(120);
/// How long a killed command is waited for: the kernel does not end one that waits for
/// a drive.
const END_WITHIN: Duration = Duration::from_secs(2);

/// Whether a killed command is left behind.
static LEFT_BEHIND: AtomicBool = AtomicBool::new(false);

/// Returns true if a killed command does not end and keeps its descriptors (a lock).
pub fn is_left_behind() -> bool {
    LEFT_BEHIND.load(Ordering::SeqCst)
}

/// A request that a command end.
#[derive(Debug, Default)]
pub struct Ending(AtomicU8);

impl Ending {
    /// It is asked to end (SIGINT).
    pub fn ask(&self) {
        self.0.fetch_max(1, Ordering::SeqCst);
    }

    /// It is killed.
    pub fn kill(&self) {
        self.0.store(2, Ordering::SeqCst);
    }

    /// Whether it is to end, either way.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }

    fn is_killed(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 1
    }
}

/// An argument that names a file which is held open: the command works on that file,
/// whatever has its name by then.
#[derive(Debug, Clone)]
pub struct Object {
    at: usize,
    pub file: Arc<File>,
}

impl Invocation {
    /// A program without arguments.
    pub fn new(program: impl Into<String>) -> Invocation {
        Invocation {
            program: program.into(),
            arguments: Vec::new(),
            object: None,
            limit: Some(LIMIT),
        }
    }

    /// It may take as long as there is work.
    pub fn unlimited(mut self) -> Invocation {
        self.limit = None;
        self
    }

    /// It may take so long.
    pub fn within(mut self, limit: Duration) -> Invocation {
        self.limit = Some(limit);
        self
    }

    pub fn arg(mut self, argument: impl Into<OsString>) -> Invocation {
        self.arguments.push(argument.into());
        self
    }

    /// Some arguments more.
    pub fn args<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Invocation {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// One argument more, which names that open file. In messages it is called by its path.
    pub fn object(mut self, path: &Path, file: &Arc<File>) -> Invocation {
        self.object = Some(Object {
            at: self.arguments.len(),
            file: Arc::clone(file),
        });
        self.arg(path)
    }
}

/// As one would type it.
impl fmt::Display for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.program)?;
        for argument in &self.arguments {
            write!(f, " {}", word(&argument.to_string_lossy()))?;
        }
        Ok(())
    }
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Finished {
    /// Its exit code; none where a signal ended it.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub output: String,
    pub errors: String,
}

impl Finished {
    /// Its standard error in one line, or what stands in for it.
    pub fn said(&self) -> String {
        let lines = self.errors.lines().map(str::trim);
        let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
        match lines.is_empty() {
            true => "it said nothing".to_owned(),
            false => lines.join("; "),
        }
    }

    /// How it ended, in words.
    pub fn status(&self) -> String {
        match (self.code, self.signal) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "no exit code".to_owned(),
        }
    }
}

/// Runs a command to its end, or ends it. It does not see
/// this program's standard input, and speaks English, so that its messages can be
/// quoted beside ours. It has a process group of its own: Ctrl-C on a terminal is
/// for zmeld, which finishes or goes back, and not for a `mkswap` half way.
///
/// One that can be asked to end also ends with the thread that waits for it, however
/// that ends (SIGKILL): nobody would look after it any more.
pub(crate) fn run(invocation: &Invocation, ending: Option<&Ending>) -> io::Result<Finished> {
    let path = lookup_path();
    let mut command = match ending.is_some() && is_there(&invocation.program, &path) {
        true if can_tie(&path) => tied(&invocation.program),
        _ => Command::new(&invocation.program),
    };
    // zmeld itself takes credentials from there.
    if is_root() && !invocation.program.starts_with('/') {
        command.env_clear();
    }
    let mut arguments = invocation.arguments.clone();
    let mut input = Stdio::null();
    let mut name = None;
    if let Some(object) = &invocation.object {
        input = object.file.try_clone()?.into();
        let named = std::mem::replace(&mut arguments[object.at], GIVEN.into());
        name = Some(named.to_string_lossy().into_owned());
    }
    let mut child = command
        .args(&arguments)
        .env("PATH", path)
        .env("LC_ALL", "C")
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let (output, errors) = converse(&mut child, invocation, ending)?;
    let status = child.wait()?;
    let said = |bytes: &[u8]| match &name {
        Some(name) => made_text(bytes).replace(GIVEN, name),
        None => made_text(bytes),
    };
    Ok(Finished {
        code: status.code(),
        signal: status.signal(),
        output: said(&output),
        errors: said(&errors),
    })
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Search path of commands. Whoever calls root's zmeld does not choose what root runs
/// (`su`, `sudo -E`, a folder of root's `PATH` that others may write).
fn lookup_path() -> String {
    if is_root() {
        let mut path = SYSTEM_PATH.to_owned();
        for folder in LOCAL.map(Path::new) {
            let is_roots = |it: &Path| root_owned::check_folder(it, 0).is_ok();
            if is_roots(folder) && folder.parent().is_some_and(is_roots) {
                path.push_str(&format!(":{}", folder.display()));
            }
        }
        return path;
    }
    // A login shell's, or a service's, may lack root's commands.
    match std::env::var("PATH") {
        Ok(path) if !path.is_empty() => format!("{path}:{SYSTEM_PATH}"),
        _ => SYSTEM_PATH.to_owned(),
    }
}

/// A command that the kernel kills when the thread that starts it ends: `setpriv`
/// asks for that, and the shell looks whether it was in time.
fn tied(program: &str) -> Command {
    const IN_TIME: &str = r#"[ "$PPID" = "$0" ] && exec "$@""#;
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "sh", "-c", IN_TIME])
        .arg(std::process::id().to_string())
        .arg(program);
    command
}

/// Whether this system's `setpriv` can do that (util-linux from 2.33).
fn can_tie(path: &str) -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| {
        let mut attempt = tied("true");
        let attempt = attempt.env("PATH", path).stdin(Stdio::null());
        let status = attempt.stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    })
}

fn is_there(program: &str, path: &str) -> bool {
    let found = |folder: &Path| folder.join(program).is_file();
    std::env::split_paths(path).any(|folder| found(&folder))
}

/// How often is looked whether a command is to end.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Listens to both at once, so that neither waits for the other, until the command closes
/// what it writes to. It is asked to end as `ending` says, and killed at
/// its limit. The child is waited for afterwards, so that its number is its own all the
/// while; where even a killed one does not end, it is left alone.
fn converse(
    child: &mut Child,
    invocation: &Invocation,
    ending: Option<&Ending>,
) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let pid = Pid::from_child(child);
    let (sender, receiver) = mpsc::channel();
    listen(child.stdout.take(), true, &sender);
    listen(child.stderr.take(), false, &sender);
    let began = Instant::now();
    let (mut output, mut errors) = (None, None);
    let (mut asked, mut killed) = (false, None);
    while output.is_none() || errors.is_none() {
        match receiver.recv_timeout(LOOK_EVERY) {
            Ok((true, bytes)) => output = Some(bytes),
            Ok((false, bytes)) => errors = Some(bytes),
            Err(_) => {}
        }
        if !asked && ending.is_some_and(Ending::is_asked) {
            // One that has ended by itself needs no signal.
            let _ = kill_process(pid, Signal::INT);
            asked = true;
        }
        let is_late = invocation
            .limit
            .is_some_and(|limit| began.elapsed() > limit);
        if killed.is_none() && (is_late || ending.is_some_and(Ending::is_killed)) {
            let _ = kill_process_group(pid, Signal::KILL);
            killed = Some(Instant::now());
        }
        if killed.is_some_and(|since| since.elapsed() > END_WITHIN) {
            LEFT_BEHIND.store(true, Ordering::SeqCst);
            break;
        }
    }
    let Some(killed) = killed else {
        return Ok((output.unwrap_or_default(), errors.unwrap_or_default()));
    };
    // It is reaped where it has ended.
    let _ = child.try_wait();
    let text = format!(
        "it did not end within {} s and was killed; look whether its drive answers (dmesg)",
        killed.duration_since(began).as_secs()
    );
    Err(io::Error::new(io::ErrorKind::TimedOut, text))
}

/// How long a drive may take to give back its first page.
pub const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

/// The first bytes of a device; none where it cannot be read. Another process reads them:
/// a thread that waits for a drive would keep this program from ending, however it is
/// killed.
///
/// # Errors
/// When it does not answer within that time ([`io::ErrorKind::TimedOut`]).
pub fn read_device(path: &Path, bytes: usize, within: Duration) -> io::Result<Vec<u8>> {
    let words = ["-A", "n", "-v", "-t", "x1", "-N"];
    let od = Invocation::new("od").args(words).arg(bytes.to_string());
    let finished = match run(&od.arg(path).within(within), None) {
        // Without that command it is read here, and waited for.
        Err(err) if err.kind() == io::ErrorKind::NotFound => {
            let mut read = Vec::new();
            let file = File::open(path).map(|file| file.take(bytes as u64));
            // An unreadable file has no bytes.
            let _ = file.and_then(|mut file| file.read_to_end(&mut read));
            return Ok(read);
        }
        finished => finished?,
    };
    let numbers = finished.output.split_ascii_whitespace();
    let read: Result<Vec<u8>, _> = numbers.map(|it| u8::from_str_radix(it, 16)).collect();
    match (finished.code, read) {
        (Some(0), Ok(read)) => Ok(read),
        _ => Ok(Vec::new()),
    }
}

/// Reads to the end beside, and hands over what was read.
fn listen(
    pipe: Option<impl Read + Send + 'static>,
    is_output: bool,
    sender: &mpsc::Sender<(bool, Vec<u8>)>,
) {
    let sender = sender.clone();
    // Nobody listens any more to a command that was given up.
    thread::spawn(move || sender.send((is_output, drain(pipe))));
}

fn drain(pipe: Option<impl Read>) -> Vec<u8> {
    let mut kept = Vec::new();
    if let Some(mut pipe) = pipe {
        // Unreadable output is missing from a message, no more.
        let _ = pipe.by_ref().take(OUTPUT_MAX).read_to_end(&mut kept);
        let _ = io::copy(&mut pipe, &mut io::sink());
    }
    kept
}

/// The package that has a program, as most distributions call it.
pub(crate) fn package(program: &str) -> &'static str {
    let name = Path::new(program)
        .file_name()
        .and_then(|name| name.to_str());
    match name.unwrap_or(program) {
        "cryptsetup" => "cryptsetup (cryptsetup-bin on Debian)",
        "modprobe" => "kmod",
        "dmsetup" => "dmsetup (device-mapper)",
        _ => "util-linux",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_errors_codes_and_signals_come_back() {
        let script = "cat; echo hello; echo one >&2; echo >&2; echo two >&2; exit 3";
        let finished = run(&Invocation::new("sh").args(["-c", script]), None).unwrap();
        assert_eq!(finished.output, "hello\n");
        assert_eq!(finished.said(), "one; two");
        assert_eq!(finished.status(), "exit code 3");
        let sh = Invocation::new("sh").args(["-c", "kill -9 $$"]);
        let finished = run(&sh, None).unwrap();
        assert_eq!(finished.status(), "signal 9");
        assert_eq!(finished.said(), "it said nothing");
    }

    #[test]
    fn a_command_that_does_not_end_is_killed_at_its_limit() {
        let mut sleep = Invocation::new("sh").args(["-c", "sleep 1000; true"]);
        sleep.limit = Some(Duration::from_millis(50));
        let err = run(&sleep, None).unwrap_err();
        assert_eq!(err.kind(), io::ErrorKind::TimedOut);
        // A survivor that keeps its output open keeps nobody waiting.
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let script = "setsid sh -c 'echo $$ > \"$0\"; exec sleep 60' \"$0\" & sleep 1000";
        sleep.arguments = vec!["-c".into(), script.into(), file.clone().into()];
        sleep.limit = Some(Duration::from_millis(500));
        let err = run(&sleep, None).unwrap_err();
        assert_eq!(err.kind(), io::ErrorKind::TimedOut);
        let pid = std::fs::read_to_string(&file).unwrap();
        let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        kill_process(pid, Signal::KILL).expect("it goes on");
    }

    #[test]
    fn a_command_is_ended_when_it_is_to_stop_and_not_by_a_terminal() {
        let ending = Ending::default();
        ending.ask();
        let sleep = Invocation::new("sleep").arg("1000");
        let finished = run(&sleep, Some(&ending)).unwrap();
        assert_eq!(finished.status(), "signal 2");
        // Field 5 of stat is the group that a terminal's Ctrl-C goes to.
        let stat = Invocation::new("sh").args(["-c", "cut -d' ' -f1,5 /proc/$$/stat"]);
        let finished = run(&stat, None).unwrap();
        let words: Vec<&str> = finished.output.split_whitespace().collect();
        assert_eq!(words[0], words[1]);
    }

    #[test]
    fn a_command_that_does_not_heed_the_request_to_end_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ready");
        let script = "trap ': > \"$0.asked\"' INT; : > \"$0\"; while :; do sleep 0.01; done";
        let deaf = Invocation::new("sh").args(["-c", script]).arg(&file);
        let ending = Ending::default();
        let wait_for = |file: &Path| {
            while !file.exists() {
                thread::sleep(LOOK_EVERY);
            }
        };
        let err = thread::scope(|scope| {
            scope.spawn(|| {
                wait_for(&file);
                ending.ask();
                wait_for(&folder.path().join("ready.asked"));
                ending.kill();
            });
            run(&deaf.unlimited(), Some(&ending)).unwrap_err()
        });
        assert_eq!(err.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn the_start_of_a_device_is_read_by_another_process() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("device");
        let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
        std::fs::write(&file, &bytes).unwrap();
        let within = Duration::from_secs(60);
        assert_eq!(read_device(&file, 4096, within).unwrap(), bytes[..4096]);
        assert!(read_device(folder.path(), 4096, within).unwrap().is_empty());
        // Nobody writes to a pipe: it does not answer.
        let pipe = folder.path().join("pipe");
        let status = Command::new("mkfifo").arg(&pipe).status();
        assert!(status.unwrap().success());
        let err = read_device(&pipe, 4096, Duration::ZERO).unwrap_err();
        assert_eq!(err.kind(), io::ErrorKind::TimedOut);
    }

    /// This test again, as a program of its own, is the one that is killed.
    #[test]
    fn a_command_that_can_be_stopped_ends_with_a_killed_program() {
        const FILE: &str = "ZMELD_TEST_PID_FILE";
        if let Some(file) = std::env::var_os(FILE) {
            let script = "echo $$ > \"$0\"; exec sleep 1000";
            let sh = Invocation::new("sh").args(["-c", script]).arg(file);
            run(&sh, Some(&Ending::default())).unwrap();
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let name = "command::tests::a_command_that_can_be_stopped_ends_with_a_killed_program";
        let mut program = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env(FILE, &file)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pid: i32 = wait_for(|| std::fs::read_to_string(&file).ok()?.trim().parse().ok())
            .expect("the command has started");
        program.kill().unwrap();
        program.wait().unwrap();
        let is_over = wait_for(|| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
            // Nobody may have waited for it yet.
            stat.map_or(true, |stat| stat.contains(") Z")).then_some(())
        });
        if is_over.is_none() {
            let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
        }
        assert!(is_over.is_some(), "it goes on");
    }

    /// Asks again for so long that a busy machine has answered.
    fn wait_for<T>(mut ask: impl FnMut() -> Option<T>) -> Option<T> {
        (0..3000).find_map(|_| {
            thread::sleep(LOOK_EVERY);
            ask()
        })
    }

    /// This test again, as a program of its own, is the one whose caller chose that.
    #[test]
    fn a_caller_does_not_choose_what_root_runs() {
        const AGAIN: &str = "ZMELD_TEST_PATH";
        if std::env::var_os(AGAIN).is_some() {
            let finished = run(&Invocation::new("env"), None).unwrap();
            assert!(finished.output.contains("LC_ALL=C\n"), "{finished:?}");
            assert!(!finished.output.contains("LD_LIBRARY_PATH"), "{finished:?}");
            let finished = run(&Invocation::new("wipefs").arg("--version"), None).unwrap();
            assert!(finished.output.contains("util-linux"), "{finished:?}");
            return;
        }
        if !is_root() {
            eprintln!("SKIP: this needs root");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        for name in ["env", "wipefs"] {
            let at = folder.path().join(name);
            std::fs::write(&at, "#!/bin/sh\necho taken\n").unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&at, mode).unwrap();
        }
        let path = format!("{}:/usr/bin:/bin", folder.path().display());
        let output = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "command::tests::a_caller_does_not_choose_what_root_runs",
            ])
            .env("PATH", path)
            .env("LD_LIBRARY_PATH", folder.path())
            .env(AGAIN, "1")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    #[test]
    fn a_command_works_on_the_file_that_it_is_given() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "ours").unwrap();
        let pinned = root_owned::Pinned::open(dir.path(), &path, None).unwrap();
        std::fs::rename(&path, dir.path().join("away")).unwrap();
        std::fs::write(&path, "another").unwrap();
        let file = pinned.file().unwrap();
        let cat = Invocation::new("cat").object(&path, file);
        assert_eq!(cat.to_string(), format!("cat {}", path.display()));
        assert_eq!(run(&cat, None).unwrap().output, "ours");
        let script = "echo \"cannot open $0\" >&2; exit 1";
        let sh = Invocation::new("sh")
            .args(["-c", script])
            .object(&path, file);
        let said = run(&sh, None).unwrap().said();
        assert_eq!(said, format!("cannot open {}", path.display()));
    }

    #[test]
    fn much_output_and_many_errors_do_not_wait_for_each_other() {
        let script = "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2";
        let sh = Invocation::new("sh").args(["-c", script]);
        let finished = run(&sh, None).unwrap();
        assert_eq!(finished.code, Some(0));
        assert_eq!(finished.output.len() as u64, OUTPUT_MAX);
        assert_eq!(finished.errors.len() as u64, OUTPUT_MAX);
    }

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let err = crate::Host::here()
            .run(&Invocation::new("/nonexistent/cryptsetup"))
            .unwrap_err();
        assert_eq!(
            err.to_string(),
            "/nonexistent/cryptsetup is not installed: install cryptsetup (cryptsetup-bin on Debian)"
        );
    }
}
