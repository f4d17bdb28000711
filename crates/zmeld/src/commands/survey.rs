//! `zmeld scan --survey`: a file for who looks at many machines.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use zmeld_config::Span;
use zmeld_linux::Host;
use zmeld_report::units::{duration, percent};
use zmeld_scan::memory::Selection;
use zmeld_scan::survey::report::{document, owner_table, SurveyResult};
use zmeld_scan::survey::{key, pressure, Key, Place, Schedule, Survey, SurveyOptions};
use zmeld_scan::ScanProgress;

use crate::args::{ScanArgs, SurveyArgs};
use crate::exit::Outcome;
use crate::{output, progress};

/// With a shorter interval, memory would be read all the time.
const EVERY_MIN: Span = Span::seconds(600);
/// How soon a stop is heard between two surveys.
const TICK: Duration = Duration::from_millis(500);

/// Makes the fleet's secret.
pub fn new_key(path: &Path) -> anyhow::Result<Outcome> {
    let key = Key::create(path)?;
    output::print(&format!(
        "{} is a new key, {}. Copy it to each machine of the fleet, readable by root\n\
         alone: it lets its owner test surveys for pages that are known.\n",
        path.display(),
        key.id()
    ))?;
    Ok(Outcome::Done)
}

pub fn run(place: &str, selection: Selection, args: &ScanArgs) -> anyhow::Result<Outcome> {
    let Some(every) = args.survey.every else {
        return once(place, selection, args);
    };
    // Wrong options are refused now, not when the first moment comes.
    often_enough(every)?;
    Asked::new(place, selection.clone(), &args.survey)?;
    let schedule = Schedule::new(every.duration());
    let mut moment = schedule.first(SystemTime::now());
    loop {
        if !progress::is_quiet() {
            let left = duration(left(moment));
            output::say(format_args!("the next survey is in {left}"));
        }
        if !wait(&schedule, moment) {
            return Ok(Outcome::Done);
        }
        match once(place, selection.clone(), args) {
            Ok(Outcome::Done) => {}
            Ok(other) => return Ok(other),
            Err(err) => output::say(format_args!("{}", for_this_time(err)?)),
        }
        moment = schedule.next(SystemTime::now());
    }
}

fn left(moment: SystemTime) -> Duration {
    let left = moment.duration_since(SystemTime::now());
    left.unwrap_or_default()
}

/// Waits for a moment; false where it was stopped before.
fn wait(schedule: &Schedule, mut moment: SystemTime) -> bool {
    let stop = progress::interrupt_flag();
    while !stop.load(Ordering::SeqCst) {
        if schedule.is_too_far(moment, SystemTime::now()) {
            moment = schedule.first(SystemTime::now());
        }
        match left(moment) {
            Duration::ZERO => return true,
            left => std::thread::sleep(TICK.min(left)),
        }
    }
    false
}

/// Message of an error that the next moment may mend by itself.
fn for_this_time(err: anyhow::Error) -> anyhow::Result<String> {
    use zmeld_scan::survey::Error;
    let stopped = progress::interrupt_flag().load(Ordering::SeqCst);
    match err.downcast_ref() {
        Some(Error::Pressure { .. }) if !stopped => Ok(format!("no survey this time: {err}")),
        _ => Err(err),
    }
}

fn often_enough(every: Span) -> anyhow::Result<()> {
    let tested = std::env::var_os("ZMELD_TEST_EVERY").is_some();
    if every < EVERY_MIN && !tested {
        anyhow::bail!(
            "--every {every} is too often, since a survey reads all memory; write \
                       {EVERY_MIN} or more"
        );
    }
    Ok(())
}

struct Asked {
    options: SurveyOptions,
    key: Key,
    place: Place,
}

impl Asked {
    fn new(place: &str, selection: Selection, args: &SurveyArgs) -> anyhow::Result<Asked> {
        let options = SurveyOptions {
            selection,
            labels: zmeld_scan::survey::labels(&args.labels)?,
            sketch: args.sketch as usize,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let key_path = args.key.clone().unwrap_or_else(|| PathBuf::from(key::PATH));
        let key = Key::read(&key_path)?;
        let place = Place::parse(place)?;
        place.check()?;
        Ok(Asked {
            options,
            key,
            place,
        })
    }
}

/// Surveys, keeps the file, and says what is in it.
fn once(place: &str, selection: Selection, args: &ScanArgs) -> anyhow::Result<Outcome> {
    let (format, args) = (&args.format, &args.survey);
    let stop = progress::interrupt_flag();
    let host = Host::here();
    let Asked {
        options,
        key,
        place,
    } = Asked::new(place, selection, args)?;
    let is_idle = pressure::be_idle();
    pressure::be_first_to_go(&host);
    let done = ScanProgress::default();
    let page_size = rustix::param::page_size() as u64;
    let read = || zmeld_scan::survey::survey(&host, &key, &options, stop, &done);
    let survey = progress::show(&["reading"], &done, page_size, read);
    let is_whole = options.selection == Selection::All;
    if matches!(survey, Err(zmeld_scan::survey::Error::Pressure { .. })) && is_whole {
        // Those in need would be missing first, and nobody would know.
        let refusal = Survey::refusal(&host, &key, &options)?;
        place.put(&refusal, &zmeld_scan::survey::parquet(&refusal)?)?;
    }
    let survey = survey?;
    let written = zmeld_scan::survey::parquet(&survey)?;
    let file = place.put(&survey, &written)?;
    let outcome = match survey.interrupted {
        true => Outcome::Interrupted,
        false => Outcome::Done,
    };
    if let (Some(share), None) = (survey.partial(), &survey.selection) {
        // It is kept, and will not count: that is said to cron, too.
        output::say(format_args!(
            "{} process{} with {} of the memory in use could not be read; zmeld-fleet ignores \
             this survey as incomplete (1 % and more)",
            survey.refused,
            if survey.refused == 1 { "" } else { "es" },
            percent(share)
        ));
    }
    if progress::is_quiet() {
        return Ok(outcome);
    }
    let result = SurveyResult::new(&survey, file, written.len() as u64, is_idle);
    let document = || document(&result);
    let table = || owner_table(&result, usize::MAX);
    output::show(format, document, table, ("zmeld.survey.result", 1), &result)?;
    Ok(outcome)
}
