//! The reproduction of the study, for a reader who has not read it.

use crate::scenario::Scenario;
use crate::study::{self, JudgedClaim, Measure, MeasuredPoint, Reproduction, StudyPoint};
use zmeld_report::{Column, Document, Section, Table};

use super::{cell, narrower, provenance, share, simulated, REPLICATIONS_USUAL};

/// The reproduction of the study, for a reader who has not read it.
pub fn reproduction(study: &Reproduction, scenario: &Scenario) -> Document {
    let agree = study.claims.iter().filter(|claim| claim.agrees).count();
    let hold = study.shapes.iter().filter(|shape| shape.holds).count();
    let sizes = study.points.iter().map(|it| it.point.size_kb);
    let (least, most) = (sizes.clone().min(), sizes.max());
    let load = format!(
        "processes of {} to {} KB",
        least.unwrap_or(0),
        most.unwrap_or(0)
    );
    let lead = format!(
        "{} {agree} of {} published numbers and {hold} of {} described shapes come out, with one \
         set of parameters for all.{}",
        simulated(&load),
        study.claims.len(),
        study.shapes.len(),
        precision(study)
    );
    let mut document =
        Document::new("Page migration on a NUMA machine: a published study, reproduced")
            .lead(lead)
            .section(question())
            .section(
                Section::new("What agrees")
                    .table(claims(study))
                    .table(shapes(study)),
            );
    for figure in FIGURES {
        document = document.section(figure.section(study));
    }
    provenance(document.section(free_parameters(scenario)), scenario)
        .provenance("replications", study.replications.to_string())
}

/// How many verdicts chance may have decided, and what more replications would change.
fn precision(study: &Reproduction) -> String {
    let open = study.claims.iter().filter(|claim| !claim.is_decided);
    let open = match open.count() {
        0 => return String::new(),
        open => open,
    };
    if study.replications < 2 {
        return " No verdict is decided: a single replication cannot tell chance from a policy; give \
                --replications 200."
            .to_owned();
    }
    let mut widths: Vec<f64> = study.claims.iter().map(|it| it.ours.half_width).collect();
    widths.sort_by(f64::total_cmp);
    let typical = widths[widths.len() / 2];
    let more = narrower(study.replications).map_or(String::new(), |times| {
        format!(
            "; with {REPLICATIONS_USUAL} it would be about ± {:.1}",
            typical / times
        )
    });
    format!(
        " {open} of the {} verdicts on numbers are open: with {} replications ours are known to ± \
         {typical:.1} percentage points (median){more}.",
        study.claims.len(),
        study.replications
    )
}

fn question() -> Section {
    Section::new("The question")
        .paragraph(
            "The study: Guilherme A. A. Tesser and Avelino F. Zorzo, on the migration of memory pages in Linux; Workshop de \
             Sistemas Operacionais (WSO), 2006.",
        )
        .paragraph(
            "A NUMA machine consists of nodes: processors with memory of their own. Every processor can use all memory, but \
             memory of another node is slower. When Linux moves a process to another node to even out the load, the \
             process's pages stay behind, and its accesses become slow. Should the pages follow?",
        )
        .list([
            "no-balancing: pages never move. New pages are placed near the processor, old ones stay.",
            "full: the whole address space is copied at the moment the process is moved.",
            "on-demand: at the move all pages are marked not present; each is moved when it is next touched.",
        ])
        .paragraph(
            "The study simulated four nodes of two processors and measured the time until all submitted processes \
             had ended. A process spends a share a of its run time in memory accesses, and a share r of those goes \
             to places that it accessed before.",
        )
}

fn claims(study: &Reproduction) -> Table {
    let mut table = zmeld_report::table!("Published numbers beside ours", for judged in &study.claims,
        where {
            let claim = &judged.claim;
            let bound = claim.tolerance.of(claim.published);
            let (low, high) = (claim.published - bound, claim.published + bound);
            let (published, remark) = match claim.wording {
                "" => (claim.published.to_string(), String::new()),
                wording if wording.ends_with(char::is_numeric) => (wording.to_owned(), String::new()),
                wording => (claim.published.to_string(), format!(", {wording}")),
            };
            let is_of = |figure: &&Figure| figure.title.eq_ignore_ascii_case(claim.figure);
            let load = FIGURES.iter().find(is_of).map(|figure| (figure.name)(&claim.point));
            let measure = match claim.measure {
                Measure::OnDemandGain => "on-demand saves",
                Measure::FullLoss => "full takes longer",
            };
        }
        Column::text("what is compared") =>
            format!("{}: {}: {measure}{remark}", claim.figure, load.unwrap_or_default()),
        Column::text("published (near enough)") => format!("{published} % ({low:.1} to {high:.1})"),
        Column::percent("ours").with_interval() => share(judged.ours),
        Column::text("verdict") => verdict(judged),
    );
    table.note(
        "Percent of no-balancing's total time. What else a figure's processes are like stands with it \
         below. Intervals are 95 %, from paired replications. Open: the interval reaches over what \
         is near enough, so chance may decide.",
    );
    table
}

fn shapes(study: &Reproduction) -> Table {
    zmeld_report::table!("Shapes that the text describes", for shape in &study.shapes,
        where {
            let verdict = if shape.holds {
                "holds"
            } else {
                "does not hold"
            };
        }
        Column::text("what must hold") => shape.claim.as_str(),
        Column::text("evidence") => shape.evidence.as_str(),
        Column::text("verdict") => verdict,
    )
}

fn verdict(judged: &JudgedClaim) -> &'static str {
    match (judged.agrees, judged.is_decided) {
        (true, true) => "agrees",
        (false, true) => "disagrees",
        (true, false) => "open, agrees",
        (false, false) => "open, disagrees",
    }
}

/// A figure of the study: one quantity of the load varies.
struct Figure {
    title: &'static str,
    text: &'static str,
    is_on: fn(&StudyPoint) -> bool,
    /// The quantity.
    x: fn(&StudyPoint) -> u32,
    /// The same in words.
    name: fn(&StudyPoint) -> String,
}

fn has_base_shares(point: &StudyPoint) -> bool {
    point.access_percent == 60 && point.reuse_percent == 40
}

const FIGURES: [Figure; 4] = [
    Figure {
        title: "Run time",
        text: "50 processes of 50 KB, a = 60 %, r = 40 %, mean run time from 500 ms to 100 s. After a move, memory that \
             stayed behind is replaced by new memory near the processor; the longer a process runs on, the less \
             there is left to gain. A move of everything is dear once, and weighs less in a longer run.",
        is_on: |p| has_base_shares(p) && p.processes == 50 && p.size_kb == 50,
        x: |p| p.run_time_ms,
        name: |p| match p.run_time_ms {
            ms @ ..1000 => format!("{ms} ms"),
            ms => format!("{} s", f64::from(ms) / 1000.0),
        },
    },
    Figure {
        title: "Size",
        text: "50 processes of 10 s, a = 60 %, r = 40 %. A larger process takes longer to replace its memory, so more \
             is to be gained by moving it, and a move of everything costs more.",
        is_on: |p| has_base_shares(p) && p.processes == 50 && p.run_time_ms == 10_000,
        x: |p| p.size_kb,
        name: |p| format!("{} KB", p.size_kb),
    },
    Figure {
        title: "Load",
        text: "10 to 750 processes of 50 KB and 500 ms, a = 60 %, r = 40 %. The more processes wait in each queue, the less a \
             single one that ends unbalances them, and the fewer are moved.",
        is_on: |p| has_base_shares(p) && p.size_kb == 50 && p.run_time_ms == 500,
        x: |p| p.processes,
        name: |p| format!("{} processes", p.processes),
    },
    Figure {
        title: "Access shares",
        text: "Processes of 50 KB and 500 ms: a is the share of time in accesses, r the share of \
             accesses to known places. The gain is the time lost to remote accesses, so it grows \
             with both shares.",
        is_on: |p| [200, 400].contains(&p.processes) && p.run_time_ms == 500 && p.size_kb == 50,
        x: |p| (p.processes * 100 + p.access_percent) * 100 + p.reuse_percent,
        name: |p| {
            let (a, r) = (p.access_percent, p.reuse_percent);
            format!("{} processes, a {a} %, r {r} %", p.processes)
        },
    },
];

impl Figure {
    fn section(&self, study: &Reproduction) -> Section {
        let mut points = study::points();
        points.retain(self.is_on);
        points.sort_by_key(self.x);
        points.dedup();
        let measured: Vec<_> = points.iter().filter_map(|&p| study.at(p)).collect();
        Section::new(self.title)
            .paragraph(self.text)
            .table(self.table(&measured))
    }

    fn table(&self, measured: &[&MeasuredPoint]) -> Table {
        zmeld_report::table!(&format!("{}: every point", self.title), for m in measured,
            Column::text(&self.title.to_lowercase()) => (self.name)(&m.point),
            Column::seconds("no-balancing, total time").with_interval() => cell(m.no_balancing_s),
            Column::percent("on-demand saves").with_interval() => share(m.on_demand_gain),
            Column::percent("full takes longer").with_interval() => share(m.full_loss),
            Column::number("moves between nodes") => m.node_moves,
            Column::percent("local accesses") => m.local_share,
        )
    }
}

fn free_parameters(scenario: &Scenario) -> Section {
    let free = zmeld_report::table!("Free parameters", for parameter in &scenario.free,
        Column::text("parameter") => parameter.path.as_str(),
        Column::text("why it has its value") => parameter.reason.as_str(),
    );
    Section::new("What the study does not say")
        .paragraph(
            "The study does not give these. They were chosen once, for all figures together, from the values that are \
             written beside them in the scenario file.",
        )
        .table(free)
}
