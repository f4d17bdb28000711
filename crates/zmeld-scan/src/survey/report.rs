//! Result of a survey, for people and as JSON: schema `zmeld.survey.result/1`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use zmeld_report::units::{bytes, bytes_real, count, count_real, plural, seconds};
use zmeld_report::{cells, Column, Document, Section, Table};

use crate::survey::objects::CODECS;
use crate::survey::pressure;
use crate::survey::run::{OwnerResult, Survey};
use crate::survey::sketch::Estimate;

/// Owners that are listed; the file has all.
const LISTED: usize = 12;

/// Summary of a survey.
#[derive(Serialize, JsonSchema)]
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
    /// Processes that hold up whoever reads their memory, so that they were left out.
    held_processes: u64,
    /// Each owner, the largest first.
    owners: Vec<SurveyOwner>,
    /// All of them together, as one.
    total: SurveyOwner,
    /// Limits of its precision.
    notes: Vec<String>,
}

/// One owner's pages. Same-filled pages and those of zeros take no bytes of the pool.
#[derive(Serialize, JsonSchema)]
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
    pages_distinct: Estimate,
    /// Pages that could not be read.
    pages_skipped: u64,
    /// Contents in its sketch.
    contents_sampled: usize,
    /// Bytes of the pool without melding, by codec.
    pool_bytes: BTreeMap<&'static str, Estimate>,
    /// The same, each content once.
    melded_pool_bytes: BTreeMap<&'static str, Estimate>,
}

impl SurveyOwner {
    fn new(found: &OwnerResult) -> SurveyOwner {
        let by_codec = |estimates: &[Estimate; CODECS.len()]| {
            let named = CODECS.iter().zip(estimates);
            named.map(|((_, name), &found)| (*name, found)).collect()
        };
        SurveyOwner {
            owner: found.owner.id.clone(),
            kind: found.owner.kind.as_str(),
            name: found.owner.name.clone(),
            processes: found.counted.processes,
            pages: found.pages.all,
            pages_zero: found.pages.zero,
            pages_same: found.pages.same,
            pages_distinct: found.distinct.at_most(found.pages.rest() as f64),
            pages_skipped: found.pages.skipped,
            contents_sampled: found.sketch.rows.len(),
            pool_bytes: by_codec(&found.pool),
            melded_pool_bytes: by_codec(&found.melded),
        }
    }
}

impl SurveyResult {
    /// Of a survey that is kept in that file.
    pub fn new(survey: &Survey, file: String, file_bytes: u64, is_idle: bool) -> SurveyResult {
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
            held_processes: survey.held,
            owners: survey.owners.iter().map(SurveyOwner::new).collect(),
            total: SurveyOwner::new(&survey.total()),
            notes: survey.notes.iter().map(ToString::to_string).collect(),
        }
    }
}

/// For the terminal and Markdown.
pub fn document(result: &SurveyResult) -> Document {
    let total = &result.total;
    let lead = format!(
        "{} pages of {} owner{}, {} distinct contents; {} of Parquet.",
        count(total.pages),
        count(result.owners.len() as u64),
        plural(result.owners.len() as u64),
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
    let cost = format!(
        "It took {}, {} of one processor.",
        seconds(result.seconds),
        seconds(result.cpu_seconds)
    );
    Document::new("zmeld scan --survey")
        .lead(lead)
        .section(Section::new("File").code(result.file.as_str()))
        .section(owners)
        .section(Section::new("All together").table(total_table(total)))
        .section(Section::new("Limits").list(limits(result)))
        .section(Section::new("Cost").paragraph(cost))
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

/// The largest owners, so many at most.
pub fn owner_table(result: &SurveyResult, most: usize) -> Table {
    let mut table = Table::new("Pages, and their bytes in a pool without melding")
        .column(Column::path("owner").names_row())
        .column(Column::text("kind"))
        .column(Column::count("pages"))
        .column(Column::count("distinct"));
    for (_, name) in CODECS {
        table = table.column(Column::bytes(name));
    }
    for owner in result.owners.iter().take(most) {
        let distinct = owner.pages_distinct.value.round() as u64;
        let head = cells![owner.name.as_str(), owner.kind, owner.pages, distinct];
        let pool = CODECS.map(|(_, name)| owner.pool_bytes[name].value.into());
        table.row(head.into_iter().chain(pool));
    }
    table
}

fn total_table(total: &SurveyOwner) -> Table {
    let interval = |it: &Estimate| format!("{} to {}", bytes_real(it.low), bytes_real(it.high));
    // Each is estimated from a sample of its own: melded, it may seem to take more.
    let saved = |pool: &Estimate, melded: &Estimate| {
        let half = |it: &Estimate| (it.high - it.low) / 2.0;
        let (saved, half) = (pool.value - melded.value, half(pool).hypot(half(melded)));
        match saved > half {
            true => format!(
                "{} to {}",
                bytes_real(saved - half),
                bytes_real(saved + half)
            ),
            false => format!("at most {}", bytes_real((saved + half).max(0.0))),
        }
    };
    zmeld_report::table!("All pages in a pool, with 95 % intervals", for (_, name) in CODECS,
        where {
            let (pool, melded) = (&total.pool_bytes[name], &total.melded_pool_bytes[name]);
        }
        Column::text("codec").names_row() => name,
        Column::text("pool") => bytes_real(pool.value),
        Column::text("interval") => interval(pool),
        Column::text("melding saves") => saved(pool, melded),
    )
}
