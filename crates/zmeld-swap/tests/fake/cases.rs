//! Cases in `cases`: what zmeld does to the machine, and what others do.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use zmeld_config::advice::tunables::MeasuredReads;
use zmeld_config::Config;
use zmeld_linux::command::Invocation;
use zmeld_report::Style;
use zmeld_swap::observe::applied::AppliedTier;
use zmeld_swap::setup::execute::{self, Done, Removal, Report};
use zmeld_swap::setup::journal::State;
use zmeld_swap::setup::plan::{Leaving, Options, Plan, Skipped, StandIn};
use zmeld_swap::setup::Error;
use zmeld_swap::status::{page, Status};
use zmeld_tests::script::{self, unescaped, Outcome, Script};

use crate::as_lines;
use crate::common::{config, note, Machine};

/// A test for each file.
macro_rules! each_case_comes_out_as_it_says {
    ($($name:ident $file:literal,)*) => {$(
        #[test]
        fn $name() {
            script::run(concat!("fake/cases/", $file, ".txt"), Case::new);
        }
    )*};
}

each_case_comes_out_as_it_says! {
    identity "identity",
    keys "keys",
    left_out "left-out",
    owner "owner",
    reconcile "reconcile",
    room "room",
    stand_in "stand-in",
    status "status",
    take_over "take-over",
    traps "traps",
    truth "truth",
}

/// A machine after the steps of that part.
pub fn machine(file: &str, part: &str) -> Machine {
    script::take(&format!("fake/cases/{file}"), part, Case::new()).machine
}

/// Of what may fail, and of what was noted.
fn outcome(result: Result<(Vec<String>, bool), Error>, notes: Vec<String>) -> Outcome {
    let mut outcome = Outcome::default();
    match result {
        Ok((lines, is_unchanged)) => (outcome.lines, outcome.is_unchanged) = (lines, is_unchanged),
        Err(err) => outcome.errors = vec![with_kind(&err)],
    }
    let notes = notes.iter().map(|it| format!("note {it}"));
    outcome.lines.extend(notes);
    outcome
}

/// Of a run, before which the journal had these records. It has to have what was applied, and no
/// longer what was undone.
fn reported(result: Result<Report, Error>, machine: &Machine, before: BTreeSet<String>) -> Outcome {
    let (mut more, mut expected) = (Vec::new(), before);
    if let Ok(report) = &result {
        more = in_words(report);
        for done in &report.undone {
            expected.remove(&of_step(done));
        }
        expected.extend(report.applied.iter().map(of_step));
    }
    let now = records(machine);
    let differences = [
        ("on record", now.difference(&expected)),
        ("not on record", expected.difference(&now)),
    ];
    for (what, all) in differences {
        more.extend(all.map(|step| format!("{what} {step}")));
    }
    let result = result.map(|it| (of_report(&it), it.is_unchanged()));
    Outcome {
        more,
        ..outcome(result, machine.notes())
    }
}

/// Steps in the journal, as [`of_step`] says them.
fn records(machine: &Machine) -> BTreeSet<String> {
    let state = State::read(&machine.host()).ok().flatten();
    let records = state.iter().flat_map(|state| &state.records);
    let words = records.map(|it| format!("{}: {}", it.group, it.step.describe()));
    words.collect()
}

fn with_kind(err: &Error) -> (String, String) {
    (err.to_string(), format!("{:?}", err.kind()))
}

fn told<T>(what: &str, all: &[T], words: impl Fn(&T) -> String) -> Vec<String> {
    let line = |it: &T| format!("{what} {}", words(it));
    all.iter().map(line).collect()
}

fn of_step(done: &Done) -> String {
    format!("{}: {}", done.group, done.step)
}

fn of_skipped(skipped: &Skipped) -> String {
    format!("{}: {}", skipped.group, skipped.reason)
}

/// Of a report, what people read where that is other than the step.
fn in_words(report: &Report) -> Vec<String> {
    let all = [&report.applied, &report.undone, &report.not_undone];
    let steps = all.into_iter().flatten();
    let words = |it: &Done| {
        let words = Some(it.words.clone()).filter(|words| *words != it.step);
        [words, it.restores.clone()]
    };
    let words = steps.flat_map(words).flatten();
    words.chain([format!("kept {}", report.kept)]).collect()
}

fn of_report(report: &Report) -> Vec<String> {
    [
        told("applied", &report.applied, of_step),
        told("undone", &report.undone, of_step),
        told("not-taken", &report.not_undone, of_step),
        told("skipped", &report.skipped, of_skipped),
        told("instead", &report.stand_ins, StandIn::words),
        told("left", &report.left, String::clone),
    ]
    .concat()
}

fn of_plan(plan: &Plan) -> Vec<String> {
    let mut lines = as_lines::of_problems(&plan.problems);
    for group in &plan.groups {
        for it in &group.steps {
            let what = match it.done {
                true => "done",
                false if it.passed_over => "passed-over",
                false => "open",
            };
            let step = it.step.describe();
            lines.push(format!("{what} {}: {step} ({})", group.name, it.reason));
        }
    }
    let rest = [
        told("undone", &plan.undone, of_step),
        told("skipped", &plan.skipped, of_skipped),
        told("instead", &plan.stand_ins, StandIn::words),
        told("leaving", &plan.leaving, Leaving::words),
    ];
    lines.extend(rest.concat());
    lines
}

struct Case {
    machine: Machine,
    marked: BTreeMap<PathBuf, String>,
}

impl script::Case for Case {
    fn root(&self) -> PathBuf {
        self.machine.path("/")
    }

    fn everything(&self) -> Vec<String> {
        let path = self.machine.path("/run/zmeld/state.json");
        let mut all = vec![format!("on record: {}", path.exists())];
        if let Ok(Some(state)) = State::read(&self.machine.host()) {
            let records = state.records.iter();
            all.extend(records.map(|it| format!("{} {}", it.group, it.step.describe())));
            // Changes on a device in use are put back behind what stands.
            all.sort_unstable();
        }
        all.extend(self.machine.snapshot().iter().map(|it| format!("{it:?}")));
        all
    }

    /// Whether there is a journal, commands that ran, and what the machine has: its areas, and
    /// all files but attributes that nobody has set and the contents of devices, whose signatures
    /// say what they carry.
    fn recorded(&self) -> Vec<String> {
        let machine = &self.machine;
        let journal = machine.path("/run/zmeld/state.json").exists();
        let mut all = vec![format!("on record: {journal}")];
        let ran = machine.ran().into_iter();
        all.extend(ran.map(|command| format!("ran {command}")));
        for line in machine.text("/proc/swaps").lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            all.push(format!("area:{}", words.join(" ")));
        }
        let mut files = machine.snapshot();
        files.retain(|path, text| !machine.is_as_new(path, text));
        let files = files.into_iter();
        let files = files.map(|(path, text)| (format!("/{}", self.below(&path)), text));
        let is_told = |(path, text): &(String, String)| {
            let is_header = text.starts_with(r#""\0"#) || text.starts_with(r#""LUKS"#);
            path != "/proc/swaps" && !is_header
        };
        let files = files.filter(is_told);
        all.extend(files.map(|(path, text)| format!("{path} {text}")));
        all
    }

    fn step(&mut self, script: &Script, what: &str, rest: &str, place: &str) -> Outcome {
        let (machine, mut notes) = (&self.machine, Vec::new());
        let before = records(machine);
        let (options, keep_files, rest) = options(rest);
        let text = || script.text(rest);
        let plan = || machine.plan_with(&config(&text()), &options);
        machine.notes();
        match what {
            "up" => {
                let result = machine.up_with(&config(&text()), &options);
                return reported(result, machine, before);
            }
            "down" => {
                let removal = Removal {
                    force: options.force,
                    keep_files,
                    only: options.only.as_deref(),
                };
                let result = machine.down_with(removal, &false.into());
                return reported(result, machine, before);
            }
            "plan" => return outcome(plan().map(|it| (of_plan(&it), it.is_done())), notes),
            "json" => {
                let mut plan = serde_json::to_value(plan().unwrap()).unwrap();
                for input in ["machine", "config"] {
                    plan.as_object_mut().unwrap().remove(input);
                }
                let text = serde_json::to_string_pretty(&plan).unwrap();
                return text.lines().collect();
            }
            // A plan that was made, and is refused.
            "refuse" => return outcome(plan().unwrap().refuse().map(|()| (vec![], true)), notes),
            "dry" => {
                let (host, plan) = (machine.host(), plan().unwrap());
                let result = execute::may_go_up(&host, &plan, &mut |it| note(it, &mut notes));
                return outcome(result.map(|()| (vec![], true)), notes);
            }
            // Down, and up with that configuration; a dry run says the same of both.
            "neither" => {
                let (host, plan) = (machine.host(), plan().unwrap());
                let records = State::read(&host).unwrap().unwrap().records;
                let dry_down =
                    execute::may_go_down(&host, &records, Removal::default(), &mut |_| {});
                let dry_up = execute::may_go_up(&host, &plan, &mut |_| {});
                let dry = [dry_down.map(drop), dry_up].map(|it| it.unwrap_err().to_string());
                let errors = [machine.down(), machine.up(&config(&text()))].map(Result::unwrap_err);
                assert_eq!(errors.each_ref().map(Error::to_string), dry, "{place}");
                return Outcome {
                    errors: errors.iter().map(with_kind).collect(),
                    ..Outcome::default()
                };
            }
            "check" => {
                let problems = machine.config_check(&config(&text()));
                return as_lines::of_problems(&problems).iter().collect();
            }
            "status" => return as_lines::of_findings(&machine.findings(&text())),
            // Each tier as it is taken to be set up: its device, its area, and why it is lost.
            "applied" => {
                let applied = machine.applied().unwrap();
                let line = |it: &AppliedTier| {
                    let AppliedTier {
                        name,
                        device,
                        area,
                        lost,
                    } = it;
                    format!("{name}: {device:?}, {area:?}, {lost:?}")
                };
                return applied.tiers.iter().map(line).collect();
            }
            // The whole status, by the file of that name, or by the machine's own (-).
            "page" => {
                let (file, text) = rest.split_once(' ').unwrap();
                let file = Some(Path::new(file)).filter(|it| it.is_absolute());
                let config = Config::from_text(Path::new("z.toml"), &script.text(text));
                let config = config.as_ref().map(|it| &it.config);
                let config = config.map_err(ToString::to_string);
                let status = Status::read(&machine.host(), config, file);
                let text = page::document(&status).to_text(&Style::plain(200));
                return text.lines().collect();
            }
            // The plan made beforehand lists what `up` then does.
            "agrees" => crate::reconcile::agrees(machine, &text()),
            _ => self.arrange(what, rest, place),
        }
        Outcome::default()
    }
}

impl Case {
    fn new() -> Case {
        Case {
            machine: Machine::new(),
            marked: BTreeMap::new(),
        }
    }

    /// A path below the machine's root.
    fn below(&self, path: &Path) -> String {
        let path = path.strip_prefix(script::Case::root(self)).unwrap();
        path.display().to_string()
    }

    /// Others' actions, and the new state.
    fn arrange(&mut self, what: &str, rest: &str, place: &str) {
        let (path, second) = rest.split_once(' ').unwrap_or((rest, ""));
        let (path, machine) = (&*unescaped(path), &self.machine);
        match what {
            "on-disk" => self.machine = Machine::on_disk(),
            // SIZE USED PRIORITY, in KiB.
            "area" => {
                let line = format!("{path} partition\t{}\n", second.replace(' ', "\t\t"));
                machine.put("/proc/swaps", &(machine.text("/proc/swaps") + &line));
            }
            "carry" => machine.carry(path, second),
            "swap" => machine.others_swap(path),
            "swapoff" => machine.others_swapoff(path),
            "mkswap" => machine.others_mkswap(path),
            "refuse-swapon" => machine.refuse_swapon(path),
            // PATH TIMES, or always.
            "fail-swapoff" => machine.fail_swapoff(path, second.parse().unwrap_or(usize::MAX)),
            "silence" => machine.silence(path),
            "broken" => machine.refuse_read(path, Errno::IO),
            "denied" => machine.refuse_read(path, Errno::PERM),
            "unnamed" => machine.refuse_read(&format!("/proc/{path}/cgroup"), Errno::NAMETOOLONG),
            // A command that has these words was run.
            "ran" => assert!(
                machine.ran().iter().any(|it| script::has(it, rest)),
                "{place}"
            ),
            "offer" => machine.offer(path.to_owned().leak(), format!("{second}\n").leak()),
            // As the kernel and its commands are asked.
            "write" => machine.host().write(path, second).unwrap(),
            "add-zram" => drop(
                machine
                    .host()
                    .read("/sys/class/zram-control/hot_add")
                    .unwrap(),
            ),
            "open" | "close" => {
                let cryptsetup = Invocation::new("cryptsetup").arg(what);
                let cryptsetup = match what {
                    "open" => cryptsetup.arg(machine.path(path)).arg(second),
                    _ => cryptsetup.arg(path),
                };
                machine.host().run(&cryptsetup).unwrap();
            }
            "attach" => machine.attach(path),
            "look" => {}
            "mark" => self.marked = machine.snapshot(),
            // But for that file.
            "as-marked" => {
                let (mut now, mut then) = (machine.snapshot(), self.marked.clone());
                now.remove(&machine.path(path));
                then.remove(&machine.path(path));
                assert_eq!(now, then, "{place}");
            }
            "has" => assert!(script::has(&machine.text(path), second), "{place}"),
            // PATH PRIORITY, PATH PRIORITY: these areas and no others.
            "swaps" => {
                let swaps = machine.text("/proc/swaps");
                let words = swaps.lines().skip(1).map(|line| line.split_whitespace());
                let mut areas: Vec<String> = words
                    .map(|mut words| format!("{} {}", words.next().unwrap(), words.last().unwrap()))
                    .collect();
                areas.sort_unstable();
                assert_eq!(areas.join(", "), rest, "{place}");
            }
            _ => panic!("{place}: there is no such step"),
        }
    }
}

/// The options of a step, whether files are kept, and the rest of it.
fn options(mut rest: &str) -> (Options, bool, &str) {
    let (mut options, mut keep_files) = (Options::default(), false);
    while rest.starts_with("--") {
        let (option, behind) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = behind;
        match option.split_once('=').unwrap_or((option, "")) {
            ("--take-over", _) => options.take_over = true,
            ("--force", _) => options.force = true,
            ("--named", _) => options.only_named = true,
            ("--ratio", ratio) => options.expected_ratio = Some(ratio.parse().unwrap()),
            ("--boot", _) => options.at_boot = true,
            ("--keep-files", _) => keep_files = true,
            ("--only", tier) => options.only = Some(vec![tier.to_owned()]),
            ("--measured", speeds) => {
                let (swap, files) = speeds.split_once(',').unwrap();
                options.swappiness = Some(MeasuredReads {
                    swap_pages_per_s: swap.parse().unwrap(),
                    files_pages_per_s: files.parse().unwrap(),
                });
            }
            other => panic!("there is no option {other:?}"),
        }
    }
    (options, keep_files, rest)
}
