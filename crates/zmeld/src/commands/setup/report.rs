//! Plans and what came of them, as tables and JSON.

use serde::Serialize;
use zmeld_config::advice::machine::not_short;
use zmeld_config::advice::size::{tenths, Sizing};
use zmeld_config::advice::{Recommendation, TierKind};
use zmeld_config::{Finding, Named, Number, RamDriver, Severity, SlotTable, Tier};
use zmeld_linux::service::runs_systemd;
use zmeld_linux::Host;
use zmeld_report::units::bytes;
use zmeld_report::{Column, Document, Section, Table, Tone};
use zmeld_swap::setup::execute::{Done, Report};
use zmeld_swap::setup::plan::{tunables, Plan};
use zmeld_swap::setup::step::Step;
use zmeld_swap::status::page::tone;
use zmeld_swap::status::profile::Profile;

/// Body of a plan. Schema `zmeld.plan/1`.
#[derive(Serialize, schemars::JsonSchema)]
pub struct PlanBody<'a> {
    /// Origin of the configuration.
    pub origin: &'a str,
    /// Whether all of it is done already.
    pub done: bool,
    /// How many times smaller pages are expected to get, where measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_ratio: Option<f64>,
    /// Recommendation for the machine, as in `zmeld scan`; absent where a configuration decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommendation: Option<&'a Recommendation>,
    /// Which profile the machine is of; absent where a configuration or `--profile` decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<&'static str>,
    /// Profile that was asked for.
    #[serde(skip)]
    pub profile_asked: Option<Profile>,
    /// The other options of the plan, as they are typed.
    #[serde(skip)]
    pub options: String,
    /// Whether it is for the machine that it is typed on.
    #[serde(skip)]
    pub is_here: bool,
    /// `vm.swappiness` on another machine, where `zmeld up` would measure and set it: a step of that
    /// run, though none of this plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_there: Option<String>,
    /// What that profile adds.
    #[serde(skip)]
    pub profile_hint: Option<String>,
    /// Why no codec and size were measured; absent where they were, or nobody tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmeasured: Option<String>,
    /// The configuration.
    pub toml: &'a str,
    /// A note on an experiment that runs, or was killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experiment: Option<String>,
    /// Steps, problems, the machine.
    #[serde(flatten)]
    pub plan: &'a Plan,
}

const SET_SWAPPINESS: &str = "set vm.swappiness";
const BACK: &str = "zmeld down takes them back";

pub fn steps_table(body: &PlanBody<'_>) -> Table {
    let groups = body.plan.groups.iter();
    let steps = groups.flat_map(|group| group.steps.iter().map(move |planned| (group, planned)));
    let steps = steps.filter(|(_, planned)| !planned.passed_over);
    let rows = steps.map(|(group, planned)| {
        let now = match (&planned.before, planned.done) {
            (Some(before), true) if planned.was_so() => format!("{before}, as wanted"),
            (Some(before), true) => format!("done (was {before})"),
            (None, true) => "done".to_owned(),
            (Some(before), false) => before.clone(),
            (None, false) => String::new(),
        };
        let (part, why) = (group.name.to_string(), planned.reason.to_string());
        (planned.is_open(), [part, planned.step.words(), now, why])
    });
    let mut rows: Vec<_> = rows.collect();
    if let Some(now) = &body.measured_there {
        let part = tunables::PART;
        let last = rows.iter().rposition(|(_, [of, ..])| of == part);
        let why = "\"auto\": zmeld up would measure it on that machine first";
        let row = [part, SET_SWAPPINESS, now.trim(), why].map(str::to_owned);
        rows.insert(last.map_or(rows.len(), |at| at + 1), (true, row));
    }
    // Numbers count what is left to do.
    let mut left = 0u64;
    let mut number = |is_open: bool| {
        left += u64::from(is_open);
        match is_open {
            true => left.to_string(),
            false => "done".to_owned(),
        }
    };
    zmeld_report::table!("", for (is_open, [part, what, now, why]) in rows,
        Column::text("step") => number(is_open),
        Column::text("part") => part,
        Column::text("what") => what,
        Column::text("now") => now,
        Column::text("why") => why,
    )
}

/// The first reason for which `zmeld up` refuses the plan.
fn refusal(plan: &Plan) -> Option<&Finding> {
    let mut problems = plan.problems.iter();
    problems.find(|it| it.severity == Severity::Critical)
}

/// The areas that a plan takes the place of, where it does.
fn in_place_of(plan: &Plan) -> String {
    let steps = plan.groups.iter().flat_map(|group| &group.steps);
    let open = steps.filter(|planned| planned.is_open());
    let paths = open.filter_map(|planned| match &planned.step {
        Step::SwapOff(off) => Some(off.path.display().to_string()),
        _ => None,
    });
    let paths: Vec<String> = paths.collect();
    match paths[..] {
        [] => String::new(),
        _ => format!(" in place of {}", paths.join(" and ")),
    }
}

fn plan_lead(body: &PlanBody<'_>, count: usize) -> String {
    let plan = body.plan;
    if let Some(reason) = refusal(plan) {
        format!("zmeld up would refuse this. {reason}")
    } else if count == 0 && plan.undone.is_empty() {
        "There is nothing to set up.".to_owned()
    } else if body.done {
        "All of this is set up: zmeld up would change nothing.".to_owned()
    } else {
        let steps = plan.groups.iter().flat_map(|group| &group.steps);
        let open = steps.filter(|planned| planned.is_open());
        let mut open: Vec<String> = open.map(|planned| planned.step.words()).collect();
        let measured = body.measured_there.as_ref();
        open.extend(measured.map(|_| format!("{SET_SWAPPINESS} to a measured value")));
        let left = open.len();
        // Without the options it would do something else.
        let up = match body.options.is_empty() {
            true => "zmeld up",
            false => "With these options zmeld up",
        };
        let what = match (begun(body), tiers_words(body)) {
            (begun, _) if !begun.is_empty() => {
                format!("On already: {}. {up} would", begun.join(", "))
            }
            (_, Some(tiers)) if plan.switches_zswap_off() => {
                format!("{up} would switch zswap off and set up {tiers}. It would")
            }
            (_, Some(tiers)) => {
                format!("{up} would set up {tiers}{}. It would", in_place_of(plan))
            }
            (_, None) => format!("{up} would"),
        };
        // enable takes none of these options.
        let is_for_enable = body.options.is_empty();
        let at_boot = match is_for_enable && (!body.is_here || runs_systemd(&Host::here())) {
            true => ", zmeld enable takes them at every boot",
            false => "",
        };
        let steps = match (plan.undone.len(), left) {
            (0, 1) => format!("take 1 step: {}; zmeld down takes it back.", open[0]),
            (0, 2) => format!("take 2 steps: {}; {BACK}{at_boot}.", open.join(", and ")),
            (0, _) => format!("take {left} steps; {BACK}{at_boot}."),
            (1, _) => format!("take back 1 step and take {left}."),
            (undone, _) => format!("take back {undone} steps and take {left}."),
        };
        let guard = match plan.config.watch.guard {
            Some(_) => " It does not start the guard: zmeld enable does.",
            None => "",
        };
        format!("{what} {steps}{guard}")
    }
}

/// The tiers that compress and are at work already, where the plan changes anything.
fn begun(body: &PlanBody<'_>) -> Vec<String> {
    let on = body.plan.compressed_on().filter(|_| !body.done);
    let named = on.map(|tier| format!("{} (tier.{})", tier.kind.kind().name(), tier.name));
    named.collect()
}

/// The compressed swap that would be set up.
fn tiers_words(body: &PlanBody<'_>) -> Option<String> {
    if let Some(to) = body.recommendation {
        let is_compressed = to.sizing.is_some() || to.pool.is_some();
        // A codec that the kernel lacks is none of the steps.
        let there = &body.plan.machine.zram.codecs;
        let is_there = |codec: &String| there.is_empty() || there.contains(codec);
        let mut to = to.clone();
        if to.kind == TierKind::Zram {
            to.codec = to.codec.filter(is_there);
        }
        return is_compressed.then(|| to.words());
    }
    let tiers = sizings_as_written(body).map(|(tier, driver, sizing)| {
        let (driver, size) = (driver.name(), bytes(sizing.size_bytes));
        format!("{} ({driver}, {size})", tier.name)
    });
    let tiers: Vec<_> = tiers.collect();
    (!tiers.is_empty()).then(|| tiers.join(" and "))
}

/// The devices in RAM of a configuration that somebody wrote, with the driver that each gets;
/// nothing was measured for it.
fn sizings_as_written<'b>(
    body: &'b PlanBody<'_>,
) -> impl Iterator<Item = (&'b Tier, RamDriver, Sizing)> {
    let (plan, ram) = (body.plan, body.plan.machine.ram_bytes);
    let page_size = rustix::param::page_size() as u64;
    plan.config.in_ram().map(move |(tier, device)| {
        let size = device.size.bytes(ram);
        let limit = device
            .memory_limit
            .map_or(u64::MAX, |limit| limit.bytes(ram));
        let stand_in = plan
            .stand_ins
            .iter()
            .any(|it| tier.name.to_string() == it.tier);
        let driver = match stand_in {
            true => RamDriver::Zram,
            false => device.driver,
        };
        let table = SlotTable::new(driver, device.meld, page_size);
        let sizing = Sizing::limited(table, size, limit, ram, None);
        (tier, driver, sizing)
    })
}

/// What the tiers of a configuration that somebody wrote come to.
fn outcome_as_written(body: &PlanBody<'_>) -> Option<Section> {
    let (config, ram) = (&body.plan.config, body.plan.machine.ram_bytes);
    let devices = sizings_as_written(body);
    let devices =
        devices.map(|(tier, _, sizing)| format!("tier.{}: {}.", tier.name, sizing.words()));
    let zswap = config.zswap().and_then(|zswap| zswap.max_pool_percent);
    let zswap = zswap.map(|Number(percent)| {
        let most = bytes(ram / 100 * u64::from(percent));
        format!("zswap: the pool takes at most {most} of RAM ({percent} %); the rest goes to disk.")
    });
    let mut lines = devices.chain(zswap).peekable();
    lines.peek()?;
    let section = Section::new("What it comes to");
    Some(lines.fold(section, |section, line| section.advice(Tone::Neutral, line)))
}

fn outcome_section(body: &PlanBody<'_>) -> Option<Section> {
    let Some(recommendation) = body.recommendation else {
        return outcome_as_written(body);
    };
    let mut section = Section::new("What it comes to");
    let text = match (&recommendation.sizing, &recommendation.pool) {
        (Some(sizing), _) => sizing.words(),
        (None, pool) => pool.as_ref()?.words(),
    };
    let text = match (&*begun(body).join(", "), &recommendation.pool) {
        ("", _) => text,
        // Its ratio is no guess any more.
        (on, Some(pool)) => format!(
            "on already: {on}. Its pool takes at most {} of RAM ({} %), and what does not fit goes to \
             disk; zmeld status says what it saves today",
            bytes(pool.limit_bytes),
            pool.limit_percent
        ),
        (on, None) => format!(
            "{text}. No new gain where it is on already: {on}; zmeld status has today's ratio"
        ),
    };
    if let Some(why) = &body.unmeasured {
        let text = format!("{why}: pages are expected to get 2 times smaller.");
        section = section.advice(Tone::Neutral, text);
    }
    section = section.advice(Tone::Neutral, format!("{}.", capital(&text)));
    let machine = &body.plan.machine;
    // What is above the tiers' own priority is filled first.
    let areas = body.plan.config.areas().into_iter();
    let own = areas.map(|(_, priority)| i32::from(priority)).max();
    let mut below = machine
        .swaps
        .iter()
        .filter(|area| Some(area.priority) < own);
    let disk = below.find(|area| !area.is_in_ram());
    if let Some(disk) = disk.filter(|_| recommendation.kind.is_in_ram()) {
        let text = format!(
            "Pages that do not fit still go to {}: to spare that drive, switch its swap off first.",
            disk.shown()
        );
        section = section.advice(Tone::Neutral, text);
    }
    let is_swapped = machine.swaps.iter().any(|area| area.used_bytes > 0);
    let not_short = not_short(machine.available_bytes, machine.ram_bytes, is_swapped);
    let not_short = not_short.filter(|_| !body.done);
    Some(
        not_short
            .into_iter()
            .fold(section, |section, text| section.advice(Tone::Neutral, text)),
    )
}

/// The same with a capital at its head.
pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|it| it.to_uppercase().collect());
    let first: String = first.unwrap_or_default();
    first + letters.as_str()
}

fn notes_section(body: &PlanBody<'_>) -> Option<Section> {
    let plan = body.plan;
    let is_told = plan.problems.len() == usize::from(refusal(plan).is_some());
    let is_quiet = is_told && plan.skipped.is_empty();
    if is_quiet && plan.leaving.is_empty() && body.experiment.is_none() {
        return None;
    }
    let mut section = Section::new("Please note");
    if let Some(text) = &body.experiment {
        section = section.advice(Tone::Warning, text.as_str());
    }
    let told = refusal(plan);
    let problems = plan.problems.iter();
    for problem in problems.filter(|it| told.is_none_or(|told| !std::ptr::eq(*it, told))) {
        section = section.advice(tone(problem.severity), problem.to_string());
    }
    for skipped in &plan.skipped {
        let text = format!("{} is left out: {}", skipped.group, skipped.reason);
        section = section.advice(Tone::Neutral, text);
    }
    for leaving in &plan.leaving {
        section = section.advice(Tone::Neutral, leaving.words());
    }
    Some(section)
}

pub fn plan_document(body: &PlanBody<'_>) -> Document {
    let plan = body.plan;
    let machine = &plan.machine;
    let count = plan.groups.iter().map(|group| group.steps.len());
    let count = count.sum::<usize>() + usize::from(body.measured_there.is_some());
    let mut document = Document::new("zmeld plan")
        .lead(plan_lead(body, count))
        .provenance(
            "configuration",
            match body.origin {
                super::RECOMMENDED => "chosen by zmeld",
                named => named,
            },
        )
        .provenance("kernel", machine.kernel.as_str())
        .provenance("RAM", bytes(machine.ram_bytes));
    if let Some(ratio) = body.expected_ratio {
        document = document.provenance("expected ratio", format!("{}x", tenths(ratio)));
    }
    let is_refused = refusal(plan).is_some();
    let outcome = outcome_section(body).filter(|_| !is_refused);
    for section in outcome.into_iter().chain(notes_section(body)) {
        document = document.section(section);
    }
    let refused_title = |title: &str| match is_refused {
        true => format!("{title}, were it not refused"),
        false => title.to_owned(),
    };
    let taken_back = |title: &str, undone: Vec<&Done>| {
        let table = zmeld_report::table!("", for done in &undone,
            Column::text("part") => done.group.as_str(),
            Column::text("what") => done.restores.as_ref().unwrap_or(&done.words).as_str(),
        );
        (!undone.is_empty()).then(|| Section::new(title).table(table))
    };
    let (last, first) = plan.undone.iter().partition(|done| is_last(done));
    let steps = (count > 0).then(|| Section::new(&refused_title("Steps")).table(steps_table(body)));
    let first = taken_back("Taken back first", first);
    for section in [first, steps, taken_back("Taken back last", last)] {
        document = section.into_iter().fold(document, Document::section);
    }
    let mut configuration = Section::new(&refused_title("Configuration")).code(body.toml);
    let profile = body.profile_asked.map(Named::name);
    let profile = profile.map_or(String::new(), |name| format!(" --profile {name}"));
    let is_ahead = !body.done && plan.refuse().is_ok();
    if body.recommendation.is_some() && is_ahead {
        // zswap has neither a codec that is measured nor a size.
        let codec = body.recommendation.and_then(|to| to.codec.as_ref());
        let sizing = body.recommendation.and_then(|to| to.sizing.as_ref());
        let may_differ = match (sizing, codec) {
            (Some(sizing), None) if !sizing.measured && body.options.is_empty() => {
                "zmeld up measures, and chooses codec, size and limit by that. To keep this plan, \
                 with the kernel's default codec"
            }
            (Some(_), _) if !body.options.is_empty() => {
                "zmeld up without these options may set up something else. To keep this plan"
            }
            (Some(_), _) => {
                "zmeld up measures again, and may choose another codec, or a size and limit that \
                 differ by some percent of RAM. To choose now"
            }
            (None, _) => "To keep this plan",
        };
        let text = format!(
            "{may_differ}, run zmeld plan{profile}{} --toml --output /etc/zmeld.toml{}: zmeld up \
             goes by that file.",
            body.options,
            if body.is_here { "" } else { " on that machine" }
        );
        configuration = configuration.advice(Tone::Neutral, text);
    }
    if let Some(hint) = &body.profile_hint {
        configuration = configuration.advice(Tone::Neutral, hint.as_str());
    }
    document.section(configuration)
}

/// Report of `up` or `down`. Schemas `zmeld.up/1` and `zmeld.down/1`.
#[derive(Serialize, schemars::JsonSchema)]
pub struct RunBody<'a> {
    /// Whether nothing was done.
    pub dry_run: bool,
    /// The steps done.
    #[serde(flatten)]
    pub report: &'a Report,
}

/// Whether it is taken back behind the steps.
fn is_last(done: &Done) -> bool {
    done.group.ends_with(".replaced")
}

/// Table of the steps done; what is the same for all of it as the lead.
pub fn run_document(title: &str, lead: &str, report: &Report, dry_run: bool) -> Document {
    let head = match dry_run {
        true => "What would be done",
        false => "What was done",
    };
    let how = if dry_run { "to undo" } else { "undone" };
    let said = |how: &str, done: &Done| format!("{how}: {}", done.words);
    // What went with a device, or gave way to another value, needs no row beside that.
    let is_told = |done: &&Done| {
        let mut told = report.undone.iter().filter(|it| it.restores.is_some());
        let mut applied = report.applied.iter();
        done.restores.is_some()
            || !told.any(|it| it.group == done.group) && !applied.any(|it| it.group == done.group)
    };
    let undone = report.undone.iter().filter(is_told).map(|done| {
        let restored = done.restores.clone();
        (done, restored.unwrap_or_else(|| said(how, done)))
    });
    let left = "left, since it is another program's by now";
    let left = report.not_undone.iter().map(|it| (it, said(left, it)));
    let applied = report.applied.iter().map(|it| (it, it.words.clone()));
    let mut rows: Vec<(&Done, String)> = undone.chain(left).chain(applied).collect();
    rows.sort_by_key(|(done, _)| is_last(done));
    let table = zmeld_report::table!(head, for (done, words) in rows,
        Column::text("part") => done.group.as_str(),
        Column::text("what") => words,
    );
    let mut document = Document::new(title).lead(lead);
    let mut section = Section::new("");
    for left in &report.left {
        section = section.advice(Tone::Warning, left.as_str());
    }
    for skipped in &report.skipped {
        let text = format!("{} is left out: {}", skipped.group, skipped.reason);
        section = section.advice(Tone::Warning, text);
    }
    for stand_in in &report.stand_ins {
        let text = format!(
            "tier.{}: {}; {}, then zmeld up again",
            stand_in.tier,
            stand_in.words(),
            stand_in.way_out
        );
        section = section.advice(Tone::Warning, text);
    }
    let is_empty = report.is_unchanged() && report.not_undone.is_empty();
    if !is_empty {
        section = section.table(table);
    }
    let is_told = !report.skipped.is_empty() || !report.stand_ins.is_empty();
    if !is_empty || is_told || !report.left.is_empty() {
        document = document.section(section);
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;
    use zmeld_report::Style;

    #[test]
    fn what_goes_with_a_device_has_no_row_of_its_own() {
        let done = |group: &str, words: &str, restores: Option<&str>| Done {
            group: group.to_owned(),
            step: words.to_owned(),
            words: words.to_owned(),
            restores: restores.map(str::to_owned),
        };
        let report = Report {
            undone: vec![
                done("tier.fast", "swap to the new device", Some("swapped off")),
                done("tier.fast", "make the new device a swap area", None),
                done("tier.fast", "add a zram device", Some("zram1: removed")),
                done("tier.more", "set its mem_limit to 1", None),
                done("tier.last", "set its mem_limit to 2", None),
            ],
            applied: vec![done("tier.more", "set its mem_limit to 3", None)],
            ..Report::default()
        };
        let text = run_document("zmeld up", "", &report, false).to_text(&Style::plain(80));
        let rows = text.lines().filter(|line| line.starts_with("tier."));
        let expected = [
            "tier.fast  swapped off",
            "tier.fast  zram1: removed",
            "tier.last  undone: set its mem_limit to 2",
            "tier.more  set its mem_limit to 3",
        ];
        assert_eq!(rows.collect::<Vec<_>>(), expected);
    }
}
