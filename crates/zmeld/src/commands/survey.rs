//! `zmeld scan --survey`: a file for who looks at many machines.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use zmeld_config::Span;
use zmeld_linux::Host;
use zmeld_memory::Selection;
use zmeld_report::units::{bytes, bytes_real, count, count_real, duration, seconds};
use zmeld_report::{cells, Column, Document, Section, Table};
use zmeld_scan::ScanProgress;
use zmeld_survey::{
    key, pressure, Estimate, Key, OwnerResult, Place, Schedule, Survey, SurveyOptions, CODECS,
};

use crate::cli::{ScanArgs, SurveyArgs};
use crate::exit::Outcome;
use crate::{output, progress};

/// Owners that are listed; the file has all.
const LISTED: usize = 12;
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

/// Surveys once, or on and on.
pub fn run(place: &str, selection: Selection, args: &ScanArgs) -> anyhow::Result<Outcome> {
    let Some(every) = args.survey.every else {
        return once(place, selection, args);
    };
    // What is wrong with the question is said now, not when the first moment comes.
    often_enough(every)?;
    Asked::new(place, selection.clone(), &args.survey)?;
    let schedule = Schedule::new(every.duration());
    let mut moment = schedule.first(SystemTime::now())?;
    loop {
        if !args.survey.quiet {
            say_when(moment);
        }
        if !wait(&schedule, moment)? {
            return Ok(Outcome::Done);
        }
        match once(place, selection.clone(), args) {
            Ok(Outcome::Done) => {}
            Ok(other) => return Ok(other),
            Err(err) => output::say(format_args!("{}", for_this_time(err)?)),
        }
        moment = schedule.next(SystemTime::now())?;
    }
}

fn say_when(moment: SystemTime) {
    output::say(format_args!(
        "the next survey is in {}",
        duration(left(moment))
    ));
}

fn left(moment: SystemTime) -> Duration {
    let left = moment.duration_since(SystemTime::now());
    left.unwrap_or_default()
}

/// Waits for a moment; false where it was stopped before.
fn wait(schedule: &Schedule, mut moment: SystemTime) -> anyhow::Result<bool> {
    let stop = progress::interrupt_flag();
    while !stop.load(Ordering::SeqCst) {
        if schedule.is_too_far(moment, SystemTime::now()) {
            moment = schedule.first(SystemTime::now())?;
        }
        match left(moment) {
            Duration::ZERO => return Ok(true),
            left => std::thread::sleep(TICK.min(left)),
        }
    }
    Ok(false)
}

/// What an error says that the next moment may mend by itself.
fn for_this_time(err: anyhow::Error) -> anyhow::Result<String> {
    use zmeld_survey::Error;
    let stopped = progress::interrupt_flag().load(Ordering::SeqCst);
    match err.downcast_ref() {
        Some(Error::Pressure { .. }) if !stopped => Ok(format!("no survey this time: {err}")),
        _ => Err(err),
    }
}

/// Refuses to read memory all the time.
fn often_enough(every: Span) -> anyhow::Result<()> {
    let tested = std::env::var_os("ZMELD_TEST_EVERY").is_some();
    if every < EVERY_MIN && !tested {
        anyhow::bail!("--every {every}: a survey reads all memory; write {EVERY_MIN} or more");
    }
    Ok(())
}

/// What a survey is asked for.
struct Asked {
    options: SurveyOptions,
    key: Key,
    place: Place,
}

impl Asked {
    fn new(place: &str, selection: Selection, args: &SurveyArgs) -> anyhow::Result<Asked> {
        let options = SurveyOptions {
            selection,
            labels: zmeld_survey::labels(&args.labels)?,
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
    let read = || zmeld_survey::survey(&host, &key, &options, stop, &done);
    let survey = match args.quiet {
        true => read(),
        false => progress::show(&["reading"], &done, page_size, read),
    }?;
    let written = zmeld_survey::parquet(&survey)?;
    let file = place.put(&survey, &written)?;
    let outcome = match survey.interrupted {
        true => Outcome::Interrupted,
        false => Outcome::Done,
    };
    if survey.refused > 0 && survey.selection.is_none() {
        // It is kept, and will not count: that is said to cron, too.
        output::say(format_args!(
            "processes that might not be read: {}; zmeld-fleet leaves such a survey out as partial",
            survey.refused
        ));
    }
    if args.quiet {
        return Ok(outcome);
    }
    let result = SurveyResult::new(&survey, file, written.len() as u64, is_idle);
    let document = || document(&result);
    let table = || owner_table(&result, usize::MAX);
    output::show(format, document, table, ("zmeld.survey.result", 1), &result)?;
    Ok(outcome)
}

/// What was left behind.
#[derive(Serialize, schemars::JsonSchema)]
pub struct SurveyResult {
    /// The file that was written.
    file: String,
    /// Its size.
    file_bytes: u64,
    /// The machine, as its key names it.
    machine: String,
    /// This survey.
    survey: String,
    /// Tells the key from others.
    key_id: String,
    /// Bytes of a page.
    page_size: u64,
    /// Contents that a sketch keeps.
    sketch_size: u64,
    /// Stopped before everything was read: the owners that were read whole are in the file.
    interrupted: bool,
    /// Whether it ran at idle priority, which some systems refuse.
    is_idle: bool,
    /// Whether the kernel says who waits for memory; where not, the survey could not give way.
    is_pressure_told: bool,
    /// How long it took.
    seconds: f64,
    /// Processor time that it cost.
    cpu_seconds: f64,
    /// Processes that this user may not read.
    refused_processes: u64,
    /// Each owner, the largest first.
    owners: Vec<SurveyOwner>,
    /// All of them together, as one.
    total: SurveyOwner,
    /// What limits how exact this is.
    notes: Vec<String>,
}

/// One owner's pages. Same-filled pages and those of zeros take no bytes of the pool.
#[derive(Serialize, schemars::JsonSchema)]
pub struct SurveyOwner {
    /// Its name in the survey.
    owner: String,
    /// `service`, `scope`, `user`, `cgroup`, `container`, `vm`, `other`.
    kind: &'static str,
    /// Its name for people.
    name: String,
    /// Processes that were read.
    processes: u64,
    /// Pages that were read.
    pages: u64,
    /// Of these: of zeros.
    pages_zero: u64,
    /// Of these: one word repeated, not zero.
    pages_same: u64,
    /// Distinct contents among the rest.
    pages_distinct: SurveyEstimate,
    /// Pages that could not be read.
    pages_skipped: u64,
    /// Contents in its sketch.
    contents_sampled: usize,
    /// Bytes of the pool without melding, by codec.
    pool_bytes: BTreeMap<&'static str, SurveyEstimate>,
    /// The same, each content once.
    melded_pool_bytes: BTreeMap<&'static str, SurveyEstimate>,
}

/// An estimate with its 95 % confidence interval.
#[derive(Serialize, Clone, Copy, schemars::JsonSchema)]
pub struct SurveyEstimate {
    /// The estimate.
    value: f64,
    /// Where the interval begins.
    low: f64,
    /// Where it ends.
    high: f64,
}

impl From<Estimate> for SurveyEstimate {
    fn from(found: Estimate) -> SurveyEstimate {
        SurveyEstimate {
            value: found.value,
            low: found.low,
            high: found.high,
        }
    }
}

impl SurveyOwner {
    fn new(found: &OwnerResult) -> SurveyOwner {
        let by_codec = |estimates: &[Estimate; CODECS.len()]| {
            let named = CODECS.iter().zip(estimates);
            named
                .map(|((_, name), &found)| (*name, found.into()))
                .collect()
        };
        SurveyOwner {
            owner: found.owner.id.clone(),
            kind: found.owner.kind.as_str(),
            name: found.owner.name.clone(),
            processes: found.processes,
            pages: found.pages.pages,
            pages_zero: found.pages.zero,
            pages_same: found.pages.same,
            pages_distinct: found.distinct.at_most(found.pages.rest() as f64).into(),
            pages_skipped: found.pages.skipped,
            contents_sampled: found.sketch.rows.len(),
            pool_bytes: by_codec(&found.pool),
            melded_pool_bytes: by_codec(&found.melded),
        }
    }
}

impl SurveyResult {
    fn new(survey: &Survey, file: String, file_bytes: u64, is_idle: bool) -> SurveyResult {
        SurveyResult {
            file,
            file_bytes,
            machine: survey.machine.clone(),
            survey: survey.id.clone(),
            key_id: survey.key_id.clone(),
            page_size: survey.page_size,
            sketch_size: survey.sketch_size,
            interrupted: survey.interrupted,
            is_idle,
            is_pressure_told: survey.is_pressure_told,
            seconds: survey.elapsed.as_secs_f64(),
            cpu_seconds: survey.cpu.as_secs_f64(),
            refused_processes: survey.refused,
            owners: survey.owners.iter().map(SurveyOwner::new).collect(),
            total: SurveyOwner::new(&survey.total()),
            notes: survey.notes.iter().map(ToString::to_string).collect(),
        }
    }
}

fn document(result: &SurveyResult) -> Document {
    let total = &result.total;
    let lead = format!(
        "{} pages of {} owners, {} distinct contents; {} of Parquet.",
        count(total.pages),
        count(result.owners.len() as u64),
        count_real(total.pages_distinct.value),
        bytes(result.file_bytes),
    );
    let mut owners = Section::new("Owners").table(owner_table(result, LISTED));
    if let Some(more) = result.owners.len().checked_sub(LISTED).filter(|&n| n > 0) {
        owners = owners.paragraph(format!(
            "{} more are in the file, --csv and --json.",
            count(more as u64)
        ));
    }
    let mut document = Document::new("zmeld scan --survey")
        .lead(lead)
        .section(Section::new("File").code(result.file.as_str()))
        .section(owners)
        .section(Section::new("All together").table(total_table(total)));
    let limits = limits(result);
    if !limits.is_empty() {
        document = document.section(Section::new("Limits").list(limits));
    }
    document.section(Section::new("Cost").paragraph(format!(
        "It took {}, {} of one processor.",
        seconds(result.seconds),
        seconds(result.cpu_seconds)
    )))
}

fn limits(result: &SurveyResult) -> Vec<String> {
    let mut limits = Vec::new();
    if result.interrupted {
        limits.push("Stopped: only the owners above were read, and those whole.".to_owned());
    }
    if result.refused_processes > 0 {
        let way_out = match rustix::process::geteuid().is_root() {
            true => {
                "they protect themselves, or this container lacks CAP_SYS_PTRACE or \
                 CAP_DAC_READ_SEARCH"
            }
            false => "run it as root",
        };
        limits.push(format!(
            "Processes not permitted to this user: {}; {way_out}.",
            count(result.refused_processes)
        ));
    }
    if !result.is_idle {
        limits.push("The system refused idle priority; it ran as any program.".to_owned());
    }
    if !result.is_pressure_told {
        limits.push(format!(
            "This kernel does not say who waits for memory ({}): the survey could not \
             have given way; it takes CONFIG_PSI, and psi=1 where that is off by default.",
            pressure::PATH
        ));
    }
    limits.extend(result.notes.iter().cloned());
    limits
}

fn owner_table(result: &SurveyResult, most: usize) -> Table {
    let mut table = Table::new("Pages, and their bytes in a pool without melding")
        .column(Column::path("owner").names_row())
        .column(Column::text("kind"))
        .column(Column::count("pages"))
        .column(Column::count("distinct"));
    for (_, name) in CODECS {
        table = table.column(Column::bytes(name));
    }
    for owner in result.owners.iter().take(most) {
        let pool = |at: usize| owner.pool_bytes[CODECS[at].1].value;
        table.row(cells![
            owner.name.as_str(),
            owner.kind,
            owner.pages,
            owner.pages_distinct.value.round() as u64,
            pool(0),
            pool(1),
            pool(2),
            pool(3)
        ]);
    }
    table
}

fn total_table(total: &SurveyOwner) -> Table {
    let mut table = Table::new("All pages in a pool, with 95 % intervals")
        .column(Column::text("codec").names_row())
        .column(Column::text("pool"))
        .column(Column::text("interval"))
        .column(Column::text("melded"))
        .column(Column::text("interval of melded"));
    let interval =
        |it: &SurveyEstimate| format!("{} to {}", bytes_real(it.low), bytes_real(it.high));
    for (_, name) in CODECS {
        let (pool, melded) = (&total.pool_bytes[name], &total.melded_pool_bytes[name]);
        table.row(cells![
            name,
            bytes_real(pool.value),
            interval(pool),
            bytes_real(melded.value),
            interval(melded)
        ]);
    }
    table
}
