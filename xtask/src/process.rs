//! Running programs: output into a log, a limit of time, and an end to all of
//! them when the user presses Ctrl-C.
//!
//! Each program leads a process group of its own, so that what it started ends
//! with it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use zmeld_linux::shell::word;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C, a hang-up and a request to end stop what runs.
pub fn stop_children_when_interrupted() {
    // Without a handler Ctrl-C still ends this program, only less tidily.
    let _ = ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::SeqCst));
}

/// Whether somebody asked for an end.
pub fn was_interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// Where a step's programs write.
pub struct Log {
    path: PathBuf,
    file: File,
}

/// A program that ended.
pub struct FinishedProgram {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote, both outputs as they came.
    pub text: String,
}

impl FinishedProgram {
    /// Whether it ended with success.
    pub fn succeeded(&self) -> bool {
        self.status.success()
    }
}

impl Log {
    /// A new, empty log.
    pub fn create(path: &Path) -> Result<Log> {
        // Truncated here, appended to by every program that gets the handle.
        File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let file = OpenOptions::new().append(true).open(path)?;
        Ok(Log {
            path: path.to_path_buf(),
            file,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a line of our own.
    pub fn note(&self, line: &str) -> Result<()> {
        writeln!(&self.file, "{line}").context("cannot write the log")
    }

    /// All that was written so far.
    pub fn text(&self) -> Result<String> {
        self.text_from(0)
    }

    fn size(&self) -> Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn text_from(&self, offset: u64) -> Result<String> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(offset))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Runs a program to its end, or kills it after `limit`.
    pub fn run(&self, command: &mut Command, limit: Duration) -> Result<FinishedProgram> {
        self.run_watched(command, limit, &mut |_| {})
    }

    /// The same, and says again and again what the program wrote meanwhile.
    pub fn run_watched(
        &self,
        command: &mut Command,
        limit: Duration,
        watch: &mut dyn FnMut(&str),
    ) -> Result<FinishedProgram> {
        let from = self.size()?;
        let mut told = from;
        let mut child = self.spawn(command)?;
        let status = wait_watching(&mut child, limit, &mut || {
            let Ok(text) = self.text_from(told) else {
                return;
            };
            told += text.len() as u64;
            watch(&text);
        })?;
        Ok(FinishedProgram {
            status,
            text: self.text_from(from)?,
        })
    }

    /// Runs several programs side by side; the first that failed, or the last.
    pub fn run_together(&self, commands: Vec<Command>, limit: Duration) -> Result<FinishedProgram> {
        let from = self.size()?;
        let mut children = Vec::new();
        for mut command in commands {
            children.push(self.spawn(&mut command)?);
        }
        let mut worst: Option<ExitStatus> = None;
        let mut broken = None;
        for child in &mut children {
            match wait(child, limit) {
                Ok(status) if worst.is_none_or(|worst| worst.success()) => worst = Some(status),
                Ok(_) => {}
                Err(error) => broken = Some(error),
            }
        }
        match (worst, broken) {
            (Some(status), None) => Ok(FinishedProgram {
                status,
                text: self.text_from(from)?,
            }),
            (_, Some(error)) => Err(error),
            (None, None) => bail!("there was nothing to run"),
        }
    }

    fn spawn(&self, command: &mut Command) -> Result<Child> {
        self.note(&format!("$ {}", command_line(command)))?;
        command
            .stdin(Stdio::null())
            .stdout(self.file.try_clone()?)
            .stderr(self.file.try_clone()?)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))
    }
}

/// Runs a program that talks to the user itself.
pub fn run_in_front(command: &mut Command) -> Result<ExitStatus> {
    let mut child = command
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))?;
    wait(&mut child, Duration::MAX)
}

fn wait(child: &mut Child, limit: Duration) -> Result<ExitStatus> {
    wait_watching(child, limit, &mut || {})
}

/// Waits for the end, ends the program after `limit` or when interrupted, and
/// calls `watch` between.
pub fn wait_watching(
    child: &mut Child,
    limit: Duration,
    watch: &mut dyn FnMut(),
) -> Result<ExitStatus> {
    let started = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if was_interrupted() {
            end_group(child)?;
            bail!("interrupted");
        }
        if started.elapsed() > limit {
            end_group(child)?;
            bail!("took longer than {} s and was ended", limit.as_secs());
        }
        watch();
        sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// Asks the child's whole group to end, and does not ask twice.
pub fn end_group(child: &mut Child) -> Result<()> {
    let group = format!("-{}", child.id());
    for signal in ["-TERM", "-KILL"] {
        // The shell's own kill: not every machine has a program of that name.
        let _ = Command::new("sh")
            .args(["-c", "kill \"$0\" -- \"$1\" 2>/dev/null", signal, &group])
            .status();
        let asked = Instant::now();
        while asked.elapsed() < Duration::from_secs(2) {
            if child.try_wait()?.is_some() {
                return Ok(());
            }
            sleep(Duration::from_millis(20));
        }
    }
    child.kill()?;
    child.wait()?;
    Ok(())
}

/// A command as it would be typed, its environment in front.
pub fn command_line(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        let value = value.unwrap_or_default().to_string_lossy();
        words.push(format!("{}={}", name.to_string_lossy(), word(&value)));
    }
    words.push(word(&command.get_program().to_string_lossy()));
    for argument in command.get_args() {
        words.push(word(&argument.to_string_lossy()));
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_pasted_into_a_shell() {
        let mut command = Command::new("cc");
        command.env("A", "b c").args(["-o", "it's", "-DX=1", ""]);
        assert_eq!(command_line(&command), r"A='b c' cc -o 'it'\''s' -DX=1 ''");
    }

    #[test]
    fn what_takes_too_long_is_ended_with_what_it_started() {
        let folder = crate::workspace::work_folder("unit").unwrap();
        let log = Log::create(&folder.join("too-long.log")).unwrap();
        let started = Instant::now();
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 60 & sleep 60"]);
        let said = log.run(&mut command, Duration::from_millis(50));
        assert!(said.err().unwrap().to_string().contains("was ended"));
        assert!(started.elapsed() < Duration::from_secs(20));
    }
}
