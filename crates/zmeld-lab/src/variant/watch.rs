//! `zmeld watch` beside a run, with the rules of its variant: a process of its own, as it is
//! where it is installed.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use zmeld_linux::process::processor_seconds;

use crate::error::Error;
use crate::limit::RunGroup;

/// How soon it has to end when it is told to.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// A table `[watch]` as in `/etc/zmeld.toml`, whose rules are about the run's group.
pub(super) type Written = toml::Table;

/// A daemon that looks after a run; dropping it ends it.
#[derive(Debug)]
pub struct RunningWatch {
    child: Child,
    said: PathBuf,
}

/// The configuration of such a daemon, for a group.
pub(super) fn config(written: &Written, group: &str) -> toml::Table {
    let mut watch = written.clone();
    if let Some(toml::Value::Table(reclaim)) = watch.get_mut("reclaim") {
        let groups = vec![toml::Value::from(group)];
        reclaim.insert("groups".to_owned(), toml::Value::Array(groups));
    }
    toml::Table::from_iter([("watch".to_owned(), toml::Value::Table(watch))])
}

/// Starts it; `own` is this program, `folder` one of the experiment's own.
pub(super) fn start(
    written: &Written,
    group: &RunGroup,
    own: &Path,
    folder: &Path,
) -> Result<RunningWatch, Error> {
    let (place, said) = (folder.join("watch.toml"), folder.join("watch.said"));
    let text = config(written, &group.path).to_string();
    fs::write(&place, text).map_err(|err| Error::io("write", &place, err))?;
    let out = File::create(&said).map_err(|err| Error::io("create", &said, err))?;
    let child = Command::new(own)
        .args(["watch", "--with-parent", "--config"])
        .arg(&place)
        // Ctrl-C is for the experiment, which then ends it.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(out)
        .spawn()
        .map_err(|err| Error::io("start", own, err))?;
    Ok(RunningWatch { child, said })
}

impl RunningWatch {
    /// Ends it, and says how many seconds it has computed.
    pub fn end(mut self) -> Result<f64, Error> {
        let stat = format!("/proc/{}/stat", self.child.id());
        let ended = self.child.try_wait();
        if ended.is_ok_and(|ended| ended.is_some()) {
            let text = fs::read_to_string(&self.said).unwrap_or_default();
            let last = text.lines().last().unwrap_or("it said nothing");
            return Err(Error::Missing(format!(
                "zmeld watch ended before the run: {last}"
            )));
        }
        let stat = fs::read_to_string(stat).unwrap_or_default();
        Ok(processor_seconds(&stat).unwrap_or(f64::NAN))
    }
}

impl Drop for RunningWatch {
    fn drop(&mut self) {
        let pid = Pid::from_raw(self.child.id() as i32);
        let begin = Instant::now();
        // Until it is waited for, nobody else has its number.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill(pid, Signal::SIGTERM);
        }
        while begin.elapsed() < ENDS_WITHIN {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_rules_are_about_the_runs_group() {
        let written = toml::from_str("[reclaim]\nrefault_max = \"0.5%\"\n").unwrap();
        let text = config(&written, "/run").to_string();
        let config = zmeld_config::Config::from_part(&text);
        let rule = config.unwrap().watch.reclaim.unwrap();
        assert_eq!(rule.groups.len(), 1);
        assert!(text.contains("groups = [\"/run\"]"), "{text}");
    }
}
