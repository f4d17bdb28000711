//! `zmeld up` and `zmeld down`.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use zmeld_config::{Config, Finding, Location, Severity};
use zmeld_lab::experiment::{running, take_back_left_behind, Running, TakingBack};
use zmeld_linux::boot::uptime;
use zmeld_linux::command::Invocation;
use zmeld_linux::{service, Host};
use zmeld_swap::setup::event::Event;
use zmeld_swap::setup::execute::{self, Done, Removal, Report, Skipped};
use zmeld_swap::setup::journal::{Journal, Owner, State};
use zmeld_swap::setup::plan::{OnUnreadable, Options, Plan, PlanPart};

use super::report::{run_document, RunBody};
use super::{measured, planned, readable_state, wanted};
use super::{DownArgs, Occasion, Origin, UpArgs, Wanted};
use crate::exit::{Outcome, Stopped};
use crate::progress::Message;
use crate::{output, progress};

/// How long another run is waited for; at boot several units start at once.
const PATIENCE: Duration = Duration::from_secs(10);
const PATIENCE_AT_BOOT: Duration = Duration::from_secs(280);

pub fn up(args: &UpArgs) -> anyhow::Result<Outcome> {
    let host = Host::here();
    if args.dry_run {
        undisturbed()?;
        cleared(&host)?;
        return would_go_up(args, &host);
    }
    let stop = progress::interrupt_flag();
    if args.boot {
        let file = args.wanted.config.as_deref();
        let loaded = Config::load_at_boot(host.root(), file)?;
        await_drives(&host, &loaded.config, args.wanted.only.as_deref())?;
    }
    let line = Message::of_swapping();
    let (mut journal, (plan, refused)) = loop {
        // A refusal, or a wait for another run, comes before anything is measured.
        let state = recorded(&lock(&host, args.boot, &line)?);
        undisturbed()?;
        cleared(&host)?;
        // Measuring reads what others have, and may take long: nobody waits for the lock meanwhile.
        let prepared = prepare(args, &host, state.as_ref(), OnUnreadable::Fails)?;
        let Some((wanted, options)) = prepared else {
            return Ok(Outcome::Done);
        };
        let journal = lock(&host, args.boot, &line)?;
        undisturbed()?;
        cleared(&host)?;
        if recorded(&journal) == state {
            let planned = planned(&wanted, &host, state.as_ref(), options)?;
            warn(&planned.0);
            break (journal, planned);
        }
    };
    let mut told = |event: Event<'_>| tell(&line, event);
    let result = execute::up(&host, &mut journal, &plan, stop, &mut told);
    drop(line);
    let mut report = result?;
    report.skipped.splice(0..0, plan.skipped.iter().cloned());
    let lead = if plan.groups.is_empty() {
        "There was nothing to set up.".to_owned()
    } else if report.is_unchanged() && report.skipped.is_empty() {
        "Nothing to do: all of it is set up.".to_owned()
    } else {
        "Set up. zmeld status shows how it is doing, zmeld down takes it back.".to_owned()
    };
    print("up", &lead, args.json, false, &report)?;
    // The others are set up by now.
    if let Some(err) = refused {
        return Err(err.into());
    }
    let is_meant = |it: &&Skipped| {
        let mut tiers = plan.config.tiers.iter();
        tiers.any(|tier| !tier.swap.optional && PlanPart::of_tier(tier.name.as_str()) == it.group)
    };
    match report.skipped.iter().find(is_meant) {
        Some(Skipped { group, reason }) => anyhow::bail!("{group}: {reason}"),
        None => Ok(Outcome::Done),
    }
}

/// State of the journal, if it has records.
fn recorded(journal: &Journal) -> Option<State> {
    let state = journal.state();
    (!state.records.is_empty()).then(|| state.clone())
}

/// Configuration and options for its plan. A boot sets up what is configured; where nothing is, it
/// says so.
fn prepare(
    args: &UpArgs,
    host: &Host,
    state: Option<&State>,
    doubt: OnUnreadable,
) -> anyhow::Result<Option<(Wanted, Options)>> {
    let occasion = match args.boot {
        true => Occasion::Boot,
        false => Occasion::Asked,
    };
    let wanted = wanted(&args.wanted, host, state, occasion)?;
    if args.boot && matches!(wanted.origin, Origin::Recommended) && wanted.config.tiers.is_empty() {
        output::say("nothing is configured in /etc/zmeld.toml: nothing is set up");
        return Ok(None);
    }
    let options = Options {
        force: args.force,
        doubt,
        ..Options::default()
    };
    let options = measured(&wanted, &args.wanted, host, state, options, occasion)?;
    Ok(Some((wanted, options)))
}

/// Fails while an experiment runs: swap set up meanwhile is the experiment's. The journal's lock
/// must be held: an experiment that begins afterwards waits for it, and then finds what was set up.
fn undisturbed() -> anyhow::Result<()> {
    match running() {
        Running::No => Ok(()),
        Running::Unknown if rustix::process::geteuid().is_root() => anyhow::bail!(
            "/run/zmeld/experiment does not show whether an experiment is running: see what it \
             is, and remove it"
        ),
        // A user who may not ask changes nothing.
        Running::Unknown => Ok(()),
        Running::Yes(who) => anyhow::bail!(
            "an experiment is running ({who}), and this would remove its swap: wait for it, or \
             stop it with Ctrl-C"
        ),
    }
}

/// A note on an experiment that runs, or on one that was killed.
pub(super) fn experiment(host: &Host) -> anyhow::Result<Option<String>> {
    let is_running = running();
    if let Running::Yes(who) = is_running {
        return Ok(Some(format!(
            "An experiment is running ({who}). The plan may take its temporary swap for the \
             machine's: plan again when it has ended."
        )));
    }
    let left = zmeld_lab::experiment::left_behind(host)?;
    let what = match is_running {
        Running::Unknown => {
            "the running experiment removes it; if none is running (root can tell), zmeld down \
             --experiment does"
        }
        _ => "zmeld down --experiment takes it back",
    };
    Ok(
        (!left.is_empty())
            .then(|| format!("On this machine there is {}: {what}.", left.join(", "))),
    )
}

/// Fails if a dead experiment left swap, which would be used beside ours.
fn cleared(host: &Host) -> anyhow::Result<()> {
    let left = zmeld_lab::experiment::left_set_up(host)?;
    if left.is_empty() {
        return Ok(());
    }
    anyhow::bail!(
        "there is {}: take it back first with zmeld down --experiment, which leaves what zmeld up did",
        left.join(", ")
    )
}

fn would_go_up(args: &UpArgs, host: &Host) -> anyhow::Result<Outcome> {
    let state = readable_state(host)?;
    let prepared = prepare(args, host, state.as_ref(), OnUnreadable::Recorded)?;
    let Some((wanted, options)) = prepared else {
        return as_the_run_would_end();
    };
    let (plan, refused) = planned(&wanted, host, state.as_ref(), options)?;
    warn(&plan);
    let line = Message::of_swapping();
    execute::may_go_up(host, &plan, &mut |event| tell(&line, event))?;
    drop(line);
    let steps = |done: bool| {
        plan.groups.iter().flat_map(move |group| {
            let steps = group.steps.iter();
            let steps = steps.filter(move |it| if done { it.done } else { it.is_open() });
            steps.map(|planned| Done::new(&group.name, planned))
        })
    };
    let report = Report {
        applied: steps(false).collect(),
        undone: plan.undone.clone(),
        kept: steps(true).count(),
        skipped: plan.skipped.clone(),
        stand_ins: plan.stand_ins.clone(),
        ..Report::default()
    };
    let lead = match report.is_unchanged() {
        true if plan.groups.is_empty() => "There is nothing to set up.",
        true => "Nothing to do: all of it is set up.",
        false => "This would be done; nothing was changed.",
    };
    print("up", lead, args.json, true, &report)?;
    match refused {
        Some(err) => Err(err.into()),
        None => as_the_run_would_end(),
    }
}

/// A dry run ends as the run that it describes: for want of root that does nothing.
pub fn as_the_run_would_end() -> anyhow::Result<Outcome> {
    match rustix::process::geteuid().is_root() {
        true => Ok(Outcome::Done),
        false => Err(zmeld_swap::setup::Error::Privilege {
            what: "this was a dry run: the run itself".to_owned(),
            is_root: false,
        }
        .into()),
    }
}

pub fn down(args: &DownArgs) -> anyhow::Result<Outcome> {
    let host = Host::here();
    if args.boot && is_shutting_down(&host) {
        output::say("the machine is shut down: nothing is taken back");
        return Ok(Outcome::Done);
    }
    if args.dry_run {
        would_go_down(args, &host)?;
        return as_the_run_would_end();
    }
    undisturbed()?;
    let mut left = Vec::new();
    if args.force && args.only.is_none() {
        // Experiments read their own leftovers.
        let line = Message::of_swapping();
        left = lock_to_take_back(&host, Owner::Experiment, args, &line)?.1;
    }
    let mut report = match args.experiment {
        true => Report::default(),
        false => taken_down(args, &host)?,
    };
    report.left.append(&mut left);
    if args.only.is_none() {
        let mut taken = Vec::new();
        if !zmeld_lab::experiment::left_behind(&host)?.is_empty() {
            taken = taken_back(args, &host, &mut report.left)?;
        }
        // Found is not gone: what could not be removed is there still.
        let left = zmeld_lab::experiment::left_behind(&host)?;
        taken.retain(|it| !left.contains(it));
        report.undone.extend(of_an_experiment(taken));
        report.left.extend(left);
    } else {
        report
            .left
            .extend(zmeld_lab::experiment::left_behind(&host)?);
    }
    let lead = down_lead(&report, args.experiment);
    print("down", lead, args.json, false, &report)
}

/// Whether systemd is about to stop everything. A file system that goes away then takes its
/// unit with it, which is no reason to read all of swap back.
fn is_shutting_down(host: &Host) -> bool {
    let asked = Invocation::new("systemctl").arg("is-system-running");
    let said = host.attempt(&asked);
    said.is_ok_and(|said| said.output.trim() == "stopping")
}

/// Takes back what experiments left, until Ctrl-C; what is not as before is added to
/// `left`.
fn taken_back(args: &DownArgs, host: &Host, left: &mut Vec<String>) -> anyhow::Result<Vec<String>> {
    let line = Message::of_swapping();
    let how = TakingBack {
        force: args.force,
        stop: progress::interrupt_flag(),
        listener: &mut |event| tell(&line, event),
        left,
    };
    Ok(take_back_left_behind(host, how)?)
}

fn down_lead(report: &Report, experiment: bool) -> &'static str {
    match (report.is_unchanged(), report.left.is_empty()) {
        (true, false) => "Nothing was taken back, and this is not as it was before:",
        (false, false) => "Taken back, but this is not as it was before:",
        (true, true) if experiment => "No experiment left anything.",
        (true, true) if report.kept == 0 => "Nothing is set up.",
        (true, true) => "Nothing to do.",
        (false, true) if report.kept == 0 && !experiment => "Everything is as it was before.",
        (false, true) => "Taken back; the rest stays.",
    }
}

/// How long others are waited for: at a boot they take their time.
fn patience(is_boot: bool) -> Duration {
    match is_boot {
        true => PATIENCE_AT_BOOT,
        false => PATIENCE,
    }
}

/// The journal, as soon as nobody else has it.
fn lock(host: &Host, is_boot: bool, line: &Message) -> Result<Journal, zmeld_swap::setup::Error> {
    let stop = progress::interrupt_flag();
    let listener = &mut |event: Event<'_>| tell(line, event);
    Journal::lock(host, Owner::Setup, patience(is_boot), stop, listener)
}

/// The journal to take back from, and what is left of one that is not understood.
fn lock_to_take_back(
    host: &Host,
    owner: Owner,
    args: &DownArgs,
    line: &Message,
) -> Result<(Journal, Vec<String>), zmeld_swap::setup::Error> {
    let (patience, stop) = (patience(args.boot), progress::interrupt_flag());
    let listener = &mut |event: Event<'_>| tell(line, event);
    // An unreadable journal is of all tiers: one tier alone is no reason to give it up.
    match args.force && args.only.is_none() {
        true => Journal::lock_by_force(host, owner, patience, stop, listener),
        false => Ok((
            Journal::lock(host, owner, patience, stop, listener)?,
            Vec::new(),
        )),
    }
}

fn taken_down(args: &DownArgs, host: &Host) -> anyhow::Result<Report> {
    let stop = progress::interrupt_flag();
    let only = args.only.as_deref();
    let line = Message::of_swapping();
    let (mut journal, left) = lock_to_take_back(host, Owner::Setup, args, &line)?;
    // One that began meanwhile waits for this lock.
    undisturbed()?;
    if !args.boot {
        check_names(only, journal.state())?;
    }
    let removal = Removal {
        only,
        force: args.force,
        keep_files: args.boot,
    };
    let result = execute::down(host, &mut journal, removal, stop, &mut |event| {
        tell(&line, event)
    });
    if result.is_err() {
        let left = left.iter();
        left.for_each(|it| line.say(&format!("this is not as it was before: {it}")));
    }
    drop(line);
    let mut report = result?;
    report.left.extend(left);
    Ok(report)
}

pub fn would_go_down(args: &DownArgs, host: &Host) -> anyhow::Result<Outcome> {
    undisturbed()?;
    let only = args.only.as_deref();
    let (mut undone, mut left) = (Vec::new(), Vec::new());
    if !args.experiment {
        let state = match readable_state(host) {
            Err(_) if args.force && only.is_none() => {
                let salvaged = State::salvage(host, Owner::Setup)?;
                left = salvaged.1;
                salvaged.0
            }
            state => state?.unwrap_or_default(),
        };
        check_names(only, &state)?;
        let removal = Removal {
            only,
            force: args.force,
            keep_files: args.boot,
        };
        let line = Message::of_swapping();
        let leaving = execute::may_go_down(host, &state.records, removal, &mut |event| {
            tell(&line, event)
        })?;
        drop(line);
        undone.extend(
            leaving
                .iter()
                .rev()
                .map(|&index| &state.records[index])
                .filter(|record| record.is_change())
                .map(Done::of),
        );
    }
    if only.is_none() {
        undone.extend(of_an_experiment(zmeld_lab::experiment::left_behind(host)?));
    }
    let report = Report {
        undone,
        left,
        ..Report::default()
    };
    let lead = match report.is_unchanged() && report.left.is_empty() {
        true => "Nothing is set up.",
        false => "This would be undone; nothing was changed.",
    };
    print("down", lead, args.json, true, &report)
}

fn of_an_experiment(found: Vec<String>) -> impl Iterator<Item = Done> {
    found.into_iter().map(|step| Done {
        group: "experiment".to_owned(),
        words: step.clone(),
        restores: None,
        step,
    })
}

/// A tier is one that was set up, whatever the configuration calls it by now.
fn check_names(only: Option<&[String]>, state: &State) -> anyhow::Result<()> {
    let mut tiers: Vec<&str> = Vec::new();
    for record in &state.records {
        let tier = PlanPart::current(&record.group).strip_prefix("tier.");
        tiers.extend(tier.filter(|name| !tiers.contains(name)));
    }
    for name in only.unwrap_or_default() {
        if !tiers.contains(&name.as_str()) && !state.records.is_empty() {
            anyhow::bail!(
                "no tier \"{name}\" is set up: there are {}",
                tiers.join(", ")
            );
        }
    }
    Ok(())
}

fn print(
    command: &str,
    lead: &str,
    json: bool,
    dry_run: bool,
    report: &Report,
) -> anyhow::Result<Outcome> {
    if json {
        let body = RunBody { dry_run, report };
        output::print(&output::json((&format!("zmeld.{command}"), 1), &body))?;
    } else {
        let how = if dry_run { " --dry-run" } else { "" };
        let title = format!("zmeld {command}{how}");
        let document = run_document(&title, lead, report, dry_run);
        output::print_as_it_is(&document.to_text(&output::style()))?;
    }
    Ok(Outcome::Done)
}

/// Prints problems of the plan on standard error, for callers that ask for the configuration alone.
pub(super) fn tell_problems(plan: &Plan) {
    for problem in of(plan, Severity::Critical) {
        output::say(format_args!("zmeld up refuses this: {problem}"));
    }
    warn(plan);
}

fn warn(plan: &Plan) {
    for problem in of(plan, Severity::Warning) {
        output::say(format_args!("warning: {problem}"));
    }
    for Skipped { group, reason } in &plan.skipped {
        output::say(format_args!("warning: {group} is left out: {reason}"));
    }
}

fn of(plan: &Plan, severity: Severity) -> impl Iterator<Item = &Finding> {
    let problems = plan.problems.iter();
    problems.filter(move |it| it.severity == severity)
}

/// At boot a drive may show up late: each is waited for as long as it was given. That is
/// counted from boot: what systemd, or the unit of another tier, has waited already is not
/// waited for again.
fn await_drives(host: &Host, config: &Config, only: Option<&[String]>) -> anyhow::Result<()> {
    let begin = Instant::now();
    let up = since_boot(host)?;
    for (location, limit) in drives(config, only) {
        while !host.exists(location.path()) && up + begin.elapsed() < limit {
            if progress::interrupt_flag().load(Ordering::SeqCst) {
                let said = format!("while waiting for {location}; nothing was changed");
                return Err(Stopped(said).into());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    Ok(())
}

fn since_boot(host: &Host) -> anyhow::Result<Duration> {
    let seconds = uptime(host)?;
    let seconds = seconds.context("/proc/uptime does not say how long the machine has been up")?;
    Ok(Duration::try_from_secs_f64(seconds)?)
}

/// Drives and how long a boot waits for each.
fn drives<'a>(config: &'a Config, only: Option<&[String]>) -> Vec<(&'a Location, Duration)> {
    let asked = |name: &str| only.is_none_or(|only| only.iter().any(|it| it == name));
    let tiers = config.tiers.iter().filter(|tier| asked(tier.name.as_str()));
    let places = tiers.filter_map(|tier| tier.kind.place());
    let waited = places.filter_map(|place| Some((place.device?, place.timeout.duration())));
    waited.collect()
}

/// Reports events on standard error: notes at once, and a line while pages come back, since that
/// may take minutes.
fn tell(line: &Message, event: Event<'_>) {
    match event {
        Event::SwappingIn {
            left_bytes,
            total_bytes,
            ..
        } => {
            // A unit has a limit for its stop, and this gives up by itself after ten minutes
            // without a page.
            service::notify("EXTEND_TIMEOUT_USEC=660000000");
            let done = total_bytes.saturating_sub(left_bytes);
            line.set_amount("swapping in", done, Some(total_bytes));
        }
        Event::Waiting { holder } => line.say(&format!("waiting for another run {holder}")),
        Event::Note { text } => line.say(text),
        _ => line.clear(),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;
    use std::sync::Arc;

    use zmeld_linux::command::{Ending, Finished};
    use zmeld_linux::host::Access;

    use super::*;

    /// Two units of a boot, of which systemd has waited for each one's drive.
    #[test]
    fn a_missing_drive_is_waited_for_once() {
        let (_dir, host) = Host::planted(&[]);
        let text = "[tier.d]\nkind = \"disk\"\ndevice = \"/dev/sdz1\"\ntimeout = \"1h\"\n";
        let config = Config::from_text("test".as_ref(), text).unwrap().config;
        // Counted from the call, it would be an hour.
        for (uptime, least) in [("3599.50 0.10", 500), ("9999.70 0.10", 0)] {
            host.plant("/proc/uptime", uptime);
            let begin = Instant::now();
            await_drives(&host, &config, None).unwrap();
            assert!(begin.elapsed() >= Duration::from_millis(least), "{uptime}");
        }
    }

    /// Systemd's answer on its state.
    struct Says(&'static str);

    impl Access for Says {
        fn read(&self, _: &Path, _: u64) -> io::Result<Vec<u8>> {
            Err(io::ErrorKind::NotFound.into())
        }

        fn write(&self, _: &Path, _: &[u8]) -> io::Result<()> {
            Err(io::ErrorKind::NotFound.into())
        }

        fn run(&self, _: &Invocation, _: Option<&Ending>) -> io::Result<Finished> {
            Ok(Finished {
                output: self.0.to_owned(),
                ..Finished::default()
            })
        }
    }

    #[test]
    fn nothing_is_taken_back_while_the_machine_is_shut_down() {
        let root = tempfile::tempdir().unwrap();
        for (said, expected) in [("stopping\n", true), ("running\n", false)] {
            let host = Host::with(root.path(), Arc::new(Says(said)));
            assert_eq!(is_shutting_down(&host), expected, "{said}");
        }
    }

    #[test]
    fn nothing_is_as_before_while_something_is_left() {
        let left = vec!["a disk".to_owned()];
        for undone in [Vec::new(), vec!["swap".to_owned()]] {
            let report = Report {
                left: left.clone(),
                undone: of_an_experiment(undone).collect(),
                ..Report::default()
            };
            for experiment in [false, true] {
                let lead = down_lead(&report, experiment);
                assert!(lead.ends_with("this is not as it was before:"), "{lead}");
            }
        }
    }
}
