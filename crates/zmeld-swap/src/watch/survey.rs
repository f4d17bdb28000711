//! `[watch.survey]`: a survey now and then, by `zmeld scan --survey` in a process of its
//! own. That one runs where nobody else wants to, is the first to go where memory runs
//! out, and gives up where it is short; the watch goes on meanwhile.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use zmeld_linux::command::{Finished, Invocation};
use zmeld_linux::{pressure, Host, HostError};

use super::WatchEvent;
use crate::config::SurveyRule;
use crate::error::Error;
use crate::observe::surveyed::{Surveyed, EVERY_S};

/// What a survey ends with where memory is short.
const GAVE_UP: i32 = 75;
/// Tasks that waited for memory more than this share of the last 10 s, in percent: no
/// survey is even started. What the survey itself takes for short.
const SOME_PERCENT: f64 = 10.0;
const FULL_PERCENT: f64 = 2.0;
/// A survey that is told to end has so long: it sends or keeps what it has.
const ENDS_WITHIN: Duration = Duration::from_secs(6);

/// Surveys, and what became of them.
pub(super) struct Surveyor {
    rule: SurveyRule,
    dry_run: bool,
    program: PathBuf,
    /// When the next one is due; unknown before the first look.
    next: Option<Instant>,
    running: Option<Running>,
    told: Surveyed,
    noted: Option<Instant>,
}

struct Running {
    since: Instant,
    /// It took as long as until the next would begin, and was told to end.
    is_late: bool,
    thread: JoinHandle<Result<Finished, HostError>>,
    stop: Arc<AtomicBool>,
}

impl Surveyor {
    /// Surveys by that program, as the rule has it.
    pub fn new(rule: SurveyRule, dry_run: bool, program: PathBuf) -> Surveyor {
        Surveyor {
            rule,
            dry_run,
            program,
            next: None,
            running: None,
            told: Surveyed::default(),
            noted: None,
        }
    }

    /// Starts one where it is due, and hears what became of it.
    pub fn round(&mut self, host: &Host, now: Instant, listener: &mut dyn FnMut(WatchEvent)) {
        let before = self.told.clone();
        if self
            .running
            .as_ref()
            .is_some_and(|it| it.thread.is_finished())
        {
            self.ended(now, listener);
        }
        let period = self.rule.every.duration();
        if let Some(running) = &mut self.running {
            if now.duration_since(running.since) >= period {
                running.is_late = true;
                running.stop.store(true, Ordering::SeqCst);
            }
        }
        let next = *self.next.get_or_insert_with(|| now + part(period));
        if self.running.is_none() && now >= next && !is_short(host) {
            self.start(host, now, listener);
        }
        let is_old = self
            .noted
            .is_none_or(|at| now.duration_since(at).as_secs() >= EVERY_S);
        if !self.dry_run && (is_old || self.told != before) {
            self.noted = Some(now);
            // Where it cannot be noted, the journal has it.
            let _ = self.told.clone().keep(host);
        }
    }

    fn start(&mut self, host: &Host, now: Instant, listener: &mut dyn FnMut(WatchEvent)) {
        let asked = self.invocation();
        self.next = Some(now + self.rule.every.duration());
        if self.dry_run {
            listener(WatchEvent::Survey(format!("would run {asked}")));
            return;
        }
        listener(WatchEvent::Survey(format!(
            "a survey to {} begins",
            self.rule.place
        )));
        let stop = Arc::<AtomicBool>::default();
        let (host, heard) = (host.clone(), Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name("survey".to_owned())
            .spawn(move || host.attempt_until(&asked, &heard));
        match thread {
            Ok(thread) => {
                self.told.is_running = true;
                self.running = Some(Running {
                    since: now,
                    is_late: false,
                    thread,
                    stop,
                });
            }
            Err(cause) => self.failed(format!("no thread for it: {cause}"), listener),
        }
    }

    /// What is run: all of it stands in the rule, but for credentials.
    fn invocation(&self) -> Invocation {
        let mut asked = Invocation::new(self.program.to_string_lossy())
            .args(["scan", "--quiet", "--survey"])
            .arg(&self.rule.place)
            .arg("--key")
            .arg(&self.rule.key);
        for label in &self.rule.labels {
            asked = asked.arg("--label").arg(label);
        }
        if let Some(sketch) = self.rule.sketch {
            asked = asked.arg("--sketch").arg(sketch.to_string());
        }
        asked
    }

    fn ended(&mut self, now: Instant, listener: &mut dyn FnMut(WatchEvent)) {
        let Some(running) = self.running.take() else {
            return;
        };
        self.told.is_running = false;
        let period = self.rule.every.duration();
        self.next = Some(now + period + part(period));
        match running.thread.join() {
            Ok(Ok(ended)) if ended.code == Some(0) => {
                self.told.done += 1;
                self.told.problem = None;
                self.told.last_done = Some(seconds_now());
                listener(WatchEvent::Survey(format!(
                    "a survey is in {}",
                    self.rule.place
                )));
            }
            Ok(Ok(ended)) if ended.code == Some(GAVE_UP) => {
                self.told.gave_up += 1;
                self.next = Some(now + period / 10 + part(period));
                listener(WatchEvent::Survey(said(&ended)));
            }
            Ok(Ok(_)) if running.is_late => {
                let why = format!("it took longer than {}, and was stopped", self.rule.every);
                self.failed(why, listener);
            }
            Ok(Ok(ended)) => self.failed(said(&ended), listener),
            Ok(Err(err)) => self.failed(err.to_string(), listener),
            Err(_) => self.failed("it ended by a fault of zmeld".to_owned(), listener),
        }
    }

    /// Told once, as long as it stays the same.
    fn failed(&mut self, why: String, listener: &mut dyn FnMut(WatchEvent)) {
        self.told.failed += 1;
        if self.told.problem.as_deref().map(kind) != Some(kind(&why)) {
            listener(WatchEvent::SurveyFailed(Error::Survey { why: why.clone() }));
        }
        self.told.problem = Some(why);
    }
}

impl Drop for Surveyor {
    /// A survey does not outlive who would hear what became of it.
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop.store(true, Ordering::SeqCst);
            // One that does not hear is ended by the kernel together with this program.
            let begun = Instant::now();
            while !running.thread.is_finished() && begun.elapsed() < ENDS_WITHIN {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// A message without what differs each time: names of surveys, and figures.
fn kind(why: &str) -> String {
    let words = why.split_whitespace();
    let same: Vec<&str> = words.filter(|word| !word.contains(".parquet")).collect();
    same.join(" ")
}

/// What it said, without its name in front.
fn said(ended: &Finished) -> String {
    match ended.errors.trim().is_empty() {
        true => ended.status(),
        false => ended.said().replace("zmeld: ", ""),
    }
}

fn seconds_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

/// A moment of chance within a tenth of a period: not all machines at once.
fn part(period: Duration) -> Duration {
    let mut bytes = [0; 4];
    // Without chance there is the process, which differs, too.
    if rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).is_err() {
        bytes = std::process::id().to_ne_bytes();
    }
    let drawn = f64::from(u32::from_ne_bytes(bytes)) / (f64::from(u32::MAX) + 1.0);
    (period / 10).mul_f64(drawn)
}

/// Whether tasks wait for memory.
fn is_short(host: &Host) -> bool {
    let text = host.read("/proc/pressure/memory").unwrap_or_default();
    let short = pressure::parse(&text).any(|stall| {
        let percent = stall.averages_percent[0];
        match stall.kind {
            "some" => percent >= SOME_PERCENT,
            "full" => percent >= FULL_PERCENT,
            _ => false,
        }
    });
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use zmeld_linux::host::Direct;

    /// A program that ends as it is told by a file beside it.
    fn program(folder: &std::path::Path) -> PathBuf {
        let program = folder.join("zmeld");
        let script = "#!/bin/sh\necho \"$@\" >> \"$0.ran\"\n. \"$0.does\"\n";
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        program
    }

    struct Machine {
        dir: tempfile::TempDir,
        surveyor: Surveyor,
        now: Instant,
        said: Vec<String>,
    }

    impl Machine {
        fn new(dry_run: bool) -> Machine {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir_all(dir.path().join("proc/pressure")).unwrap();
            let rule = SurveyRule {
                labels: vec!["role=web".to_owned()],
                sketch: Some(64),
                ..SurveyRule::default()
            };
            let surveyor = Surveyor::new(rule, dry_run, program(dir.path()));
            Machine {
                dir,
                surveyor,
                now: Instant::now(),
                said: Vec::new(),
            }
        }

        fn put(&self, file: &str, text: &str) {
            fs::write(self.dir.path().join(file), text).unwrap();
        }

        fn after(&mut self, hours: u64) {
            self.now += Duration::from_secs(hours * 3600);
            let host = Host::with(self.dir.path(), Arc::new(Direct));
            let said = &mut self.said;
            self.surveyor
                .round(&host, self.now, &mut |event| match event {
                    WatchEvent::Survey(text) => said.push(text),
                    WatchEvent::SurveyFailed(err) => said.push(err.to_string()),
                    _ => {}
                });
        }

        /// The same, and until what was started has ended.
        fn ended(&mut self, hours: u64) -> Surveyed {
            self.after(hours);
            while let Some(running) = &self.surveyor.running {
                if running.thread.is_finished() {
                    self.after(0);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            self.surveyor.told.clone()
        }

        fn runs(&self) -> usize {
            let text = fs::read_to_string(self.dir.path().join("zmeld.ran"));
            text.unwrap_or_default().lines().count()
        }
    }

    #[test]
    fn a_survey_is_made_each_day_within_a_tenth_of_it_and_never_two_at_once() {
        let mut machine = Machine::new(false);
        machine.put(
            "zmeld.does",
            "while [ ! -e \"$0.end\" ]; do sleep 0.01; done\n",
        );
        machine.after(0);
        machine.after(3);
        assert!(machine.surveyor.running.is_some() && machine.surveyor.told.is_running);
        machine.after(20);
        machine.put("zmeld.end", "");
        let told = machine.ended(0);
        assert_eq!((told.done, told.failed, told.is_running), (1, 0, false));
        assert_eq!(machine.runs(), 1);
        let ran = fs::read_to_string(machine.dir.path().join("zmeld.ran")).unwrap();
        assert_eq!(
            ran.trim(),
            "scan --quiet --survey /var/lib/zmeld/surveys --key /etc/zmeld/fleet.key \
             --label role=web --sketch 64"
        );
        assert_eq!(machine.ended(23).done, 1, "not within a day");
        assert_eq!(machine.ended(4).done, 2, "within a tenth more");
    }

    #[test]
    fn none_is_started_where_memory_is_short_and_one_that_gave_up_is_tried_sooner() {
        let mut machine = Machine::new(false);
        machine.put("zmeld.does", "echo 'zmeld: memory is short' >&2; exit 75\n");
        let short = "some avg10=55.00 avg60=0.00 avg300=0.00 total=1\n";
        machine.put("proc/pressure/memory", short);
        machine.after(0);
        machine.after(30);
        assert_eq!((machine.runs(), machine.said.len()), (0, 0));
        machine.put("proc/pressure/memory", &short.replace("55", "5"));
        let told = machine.ended(0);
        assert_eq!((told.gave_up, told.problem), (1, None));
        assert_eq!(machine.said.last().unwrap(), "memory is short");
        assert_eq!(machine.ended(5).gave_up, 2);
    }

    #[test]
    fn what_fails_is_told_once_and_counted() {
        let mut machine = Machine::new(false);
        machine.put(
            "zmeld.does",
            "echo \"zmeld: $$.parquet no key\" >&2; exit 2\n",
        );
        machine.after(0);
        for _ in 0..3 {
            machine.ended(30);
        }
        let failed = |machine: &Machine| {
            let mut said = machine.said.clone();
            said.retain(|text| text.contains("no key"));
            said.len()
        };
        assert_eq!((machine.surveyor.told.failed, failed(&machine)), (3, 1));
        assert!(machine.surveyor.told.problem.is_some());
        machine.put("zmeld.does", "exit 0\n");
        assert_eq!(machine.ended(30).problem, None);
        machine.put("zmeld.does", "echo 'zmeld: no key' >&2; exit 2\n");
        machine.ended(30);
        assert_eq!(failed(&machine), 2, "it failed anew");
    }

    #[test]
    fn one_that_takes_longer_than_until_the_next_is_stopped() {
        let mut machine = Machine::new(false);
        machine.put("zmeld.does", "exec sleep 1000\n");
        machine.after(0);
        machine.after(3);
        machine.after(23);
        assert!(machine.surveyor.running.is_some(), "within its day");
        let told = machine.ended(2);
        assert_eq!((told.failed, told.done), (1, 0));
        let why = told.problem.unwrap();
        assert!(why.contains("longer than 1d"), "{why}");
    }

    #[test]
    fn a_dry_run_starts_nothing_and_a_watch_that_ends_leaves_none() {
        let mut machine = Machine::new(true);
        machine.after(0);
        machine.after(30);
        assert_eq!(machine.runs(), 0);
        assert!(
            machine.said[0].starts_with("would run "),
            "{:?}",
            machine.said
        );
        let mut machine = Machine::new(false);
        machine.put("zmeld.does", "echo $$ > \"$0.pid\"; exec sleep 1000\n");
        machine.after(0);
        machine.after(30);
        let pid = machine.dir.path().join("zmeld.pid");
        let pid = std::iter::repeat_with(|| {
            std::thread::sleep(Duration::from_millis(5));
            fs::read_to_string(&pid).unwrap_or_default()
        });
        let pid = pid.take(4000).find(|text| text.ends_with('\n')).unwrap();
        let Machine { surveyor, .. } = machine;
        drop(surveyor);
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        assert!(stat.map_or(true, |stat| stat.contains(") Z")));
    }
}
