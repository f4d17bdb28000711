//! `zmeld up` and `zmeld down`.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use zmeld_report::schema::Envelope;
use zmeld_report::text::inert;
use zmeld_swap::config::{Config, Kind, Location, Severity, Source};
use zmeld_swap::event::Event;
use zmeld_swap::execute::{self, Done, Report, Skipped};
use zmeld_swap::journal::{Journal, State};
use zmeld_swap::plan::Plan;
use zmeld_swap::step::Record;
use zmeld_swap::Host;

use super::report::{run_document, RunBody};
use super::{planned, readable_state, wanted, DownArgs, UpArgs};
use crate::exit::Outcome;
use crate::{output, progress};

/// How long another run is waited for; at boot several units start at once.
const PATIENCE: Duration = Duration::from_secs(10);
const PATIENCE_AT_BOOT: Duration = Duration::from_secs(120);

/// Sets up what is wanted.
pub fn up(args: &UpArgs) -> anyhow::Result<Outcome> {
    let host = Host::here();
    if args.dry_run {
        undisturbed()?;
        return would_go_up(args, &host);
    }
    let stop = progress::interrupt_flag();
    if args.boot {
        await_drives(&host, args)?;
    }
    let mut told = Telling::new();
    let patience = if args.boot {
        PATIENCE_AT_BOOT
    } else {
        PATIENCE
    };
    let mut journal = Journal::lock(&host, patience, &mut |event| told.tell(event))?;
    undisturbed()?;
    let state = journal.state().clone();
    let state = (!state.records.is_empty()).then_some(state);
    let wanted = wanted(&args.wanted, &host, state.as_ref())?;
    if args.boot && wanted.origin.starts_with("recommended") {
        eprintln!("zmeld: nothing is configured in /etc/zmeld.toml: nothing is set up");
        return Ok(Outcome::Done);
    }
    let plan = planned(&wanted, &args.wanted, &host, state.as_ref())?;
    warn(&plan);
    let result = execute::up(&host, &mut journal, &plan, stop, &mut |event| {
        told.tell(event)
    });
    drop(told);
    let mut report = result?;
    report.skipped.splice(0..0, plan.skipped.iter().cloned());
    let lead = if plan.groups.is_empty() {
        "There was nothing to set up.".to_owned()
    } else if report.is_unchanged() {
        "Nothing to do: all of it is set up.".to_owned()
    } else {
        "Set up. zmeld status shows how it is doing, zmeld down takes it back.".to_owned()
    };
    print("zmeld up", "zmeld.up", &lead, args.json, false, &report)
}

/// What is set up while an experiment runs is the experiment's. Looked at under the journal's lock: an experiment that
/// begins afterwards waits for it, and then finds what was set up.
fn undisturbed() -> anyhow::Result<()> {
    match zmeld_lab::experiment::running() {
        None => Ok(()),
        Some(who) => anyhow::bail!(
            "an experiment is running ({who}), whose swap this would take away: wait for it, or stop it with Ctrl-C"
        ),
    }
}

/// What `up` would do.
fn would_go_up(args: &UpArgs, host: &Host) -> anyhow::Result<Outcome> {
    let state = readable_state(host)?;
    let wanted = wanted(&args.wanted, host, state.as_ref())?;
    let plan = planned(&wanted, &args.wanted, host, state.as_ref())?;
    warn(&plan);
    plan.refuse()?;
    let steps = |done: bool| {
        plan.groups.iter().flat_map(move |group| {
            let steps = group
                .steps
                .iter()
                .filter(move |planned| planned.done == done);
            steps.map(|planned| Done {
                group: group.name.clone(),
                step: planned.step.describe(),
            })
        })
    };
    let records = state.as_ref().map_or(&[][..], |state| &state.records);
    let is_planned = |record: &&Record| {
        let mut groups = plan
            .groups
            .iter()
            .filter(|group| group.name == record.group);
        groups.any(|group| {
            group
                .steps
                .iter()
                .any(|it| it.step == record.step && it.done)
        })
    };
    let report = Report {
        applied: steps(false).collect(),
        undone: undone(
            records
                .iter()
                .rev()
                .filter(|record| plan.speaks_of(&record.group) && !is_planned(record)),
        ),
        kept: steps(true).count(),
        skipped: plan.skipped.clone(),
    };
    let lead = match report.is_unchanged() {
        true => "Nothing to do: all of it is set up.",
        false => "This would be done; nothing was changed.",
    };
    print(
        "zmeld up --dry-run",
        "zmeld.up",
        lead,
        args.json,
        true,
        &report,
    )
}

fn undone<'a>(records: impl Iterator<Item = &'a Record>) -> Vec<Done> {
    records
        .map(|record| Done {
            group: record.group.clone(),
            step: record.step.describe(),
        })
        .collect()
}

/// Takes back what was set up.
pub fn down(args: &DownArgs) -> anyhow::Result<Outcome> {
    let host = Host::here();
    let only = args.only.as_deref();
    if args.dry_run {
        undisturbed()?;
        let state = readable_state(&host)?.unwrap_or_default();
        check_names(only, &state)?;
        let leaving = execute::leaving(&state.records, only);
        let report = Report {
            undone: undone(leaving.iter().rev().map(|&index| &state.records[index])),
            ..Report::default()
        };
        let lead = match report.is_unchanged() {
            true => "Nothing is set up.",
            false => "This would be undone; nothing was changed.",
        };
        return print(
            "zmeld down --dry-run",
            "zmeld.down",
            lead,
            args.json,
            true,
            &report,
        );
    }
    let stop = progress::interrupt_flag();
    let mut told = Telling::new();
    let mut journal = Journal::lock(&host, PATIENCE, &mut |event| told.tell(event))?;
    undisturbed()?;
    check_names(only, journal.state())?;
    let result = execute::down(&host, &mut journal, only, stop, &mut |event| {
        told.tell(event)
    });
    drop(told);
    let report = result?;
    let lead = match (report.is_unchanged(), report.kept) {
        (true, 0) => "Nothing is set up.",
        (true, _) => "Nothing to do.",
        (false, 0) => "Everything is as it was before.",
        (false, _) => "Taken back; the rest stays.",
    };
    print("zmeld down", "zmeld.down", lead, args.json, false, &report)
}

fn check_names(only: Option<&[String]>, state: &State) -> anyhow::Result<()> {
    for name in only.unwrap_or_default() {
        if state.config.tier(name).is_none() && !state.records.is_empty() {
            let tiers = state.config.tiers.iter().map(|tier| tier.name.as_str());
            let names: Vec<&str> = tiers.collect();
            anyhow::bail!(
                "no tier \"{name}\" is set up: there are {}",
                names.join(", ")
            );
        }
    }
    Ok(())
}

fn print(
    title: &str,
    schema: &str,
    lead: &str,
    json: bool,
    dry_run: bool,
    report: &Report,
) -> anyhow::Result<Outcome> {
    if json {
        let body = RunBody { dry_run, report };
        let envelope = Envelope::new(schema, 1, env!("CARGO_PKG_VERSION"), body);
        output::print(&envelope.to_text())?;
    } else {
        output::print(&run_document(title, lead, report).to_text(&output::style()))?;
    }
    Ok(Outcome::Done)
}

fn warn(plan: &Plan) {
    let warnings = plan
        .problems
        .iter()
        .filter(|it| it.severity == Severity::Warning);
    for problem in warnings {
        eprintln!("zmeld: warning: {}", inert(&problem.to_string()));
    }
    for Skipped { group, reason } in &plan.skipped {
        eprintln!("zmeld: warning: {group} is left out: {}", inert(reason));
    }
}

/// At boot a drive may show up late: each is waited for as long as it was given.
fn await_drives(host: &Host, args: &UpArgs) -> anyhow::Result<()> {
    let loaded = match &args.wanted.config {
        Some(path) => Config::load_file(path)?,
        None => Config::load(host.root())?,
    };
    let begin = Instant::now();
    for (location, limit) in drives(&loaded.config, args.wanted.only.as_deref()) {
        while !host.exists(location.path()) && begin.elapsed() < limit {
            if progress::interrupt_flag().load(Ordering::SeqCst) {
                anyhow::bail!("stopped while waiting for {location}; nothing was changed");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    Ok(())
}

/// Drives and how long a boot waits for each.
fn drives<'a>(config: &'a Config, only: Option<&[String]>) -> Vec<(&'a Location, Duration)> {
    let asked = |name: &str| only.is_none_or(|only| only.iter().any(|it| it == name));
    let tiers = config.tiers.iter().filter(|tier| asked(tier.name.as_str()));
    tiers
        .filter_map(|tier| match &tier.kind {
            Kind::Disk(disk) => match &disk.source {
                Source::Device(location) => Some((location, disk.timeout.duration())),
                Source::File { .. } => None,
            },
            Kind::Ram(device) => {
                let writeback = device.writeback.as_ref()?;
                Some((&writeback.device, writeback.timeout.duration()))
            }
            Kind::Zswap(_) => None,
        })
        .collect()
}

/// What happens, on standard error: notes at once, and a line while pages come
/// back, since that may take minutes.
struct Telling {
    line: progress::Meter,
}

impl Telling {
    fn new() -> Telling {
        Telling {
            line: progress::Meter::new(&["swapping in"]),
        }
    }

    fn tell(&mut self, event: Event<'_>) {
        match event {
            Event::SwappingIn {
                left_bytes,
                total_bytes,
                ..
            } => self
                .line
                .draw(total_bytes.saturating_sub(left_bytes), total_bytes),
            Event::Waiting { holder } => {
                eprintln!("zmeld: waiting for another run {}", inert(holder));
            }
            Event::Note { text } => eprintln!("zmeld: {}", inert(text)),
            _ => self.line.clear(),
        }
    }
}
