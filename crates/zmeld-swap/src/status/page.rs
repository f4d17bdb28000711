//! A status as people read it.

use crate::observe::reclaimed::ProtectedGroup;
use crate::observe::{
    Difference, Guarded, Headroom, Lately, Observation, ObservedKind, Reclaimed, Since, Swap,
    TierState,
};
use zmeld_config::advice::codec::JUDGED_FROM;
use zmeld_report::text;
use zmeld_report::units::{bytes, count, percent, plural};
use zmeld_report::{Cell, Column, Document, Section, Table, Tone};

use crate::status::findings::{Finding, FindingId, Severity};
use crate::status::Status;

pub fn document(status: &Status) -> Document {
    let mut document = Document::new("zmeld status");
    document = document.lead(judged(&status.findings) + &lead(status));
    if !status.tiers.is_empty() {
        document = document.section(
            Section::new("Tiers, in the order in which pages meet them")
                .table(side_by_side(&status.tiers)),
        );
    }
    details(document, status).section(findings(status))
}

/// Adds what is told below the tiers, but for findings.
pub fn details(mut document: Document, status: &Status) -> Document {
    if status.accounting.compressed_pages_bytes >= JUDGED_FROM {
        document = document.section(differences(status));
    }
    document = document.section(pressure(status));
    if let Some(reclaim) = &status.observation.reclaim {
        document = document.section(reclaimed(reclaim));
    }
    if let Some(guard) = &status.observation.guard {
        document = document.section(guarded(guard));
    }
    document.section(problems(status))
}

fn problems(status: &Status) -> Section {
    let warnings = status.observation.warnings.iter();
    let mut problems: Vec<String> = warnings.map(ToString::to_string).collect();
    for (what, problem) in [
        (
            "the configuration was not compared with",
            &status.configuration_problem,
        ),
        ("what zmeld up did is not known", &status.journal_problem),
    ] {
        problems.extend(problem.iter().map(|problem| format!("{what}: {problem}")));
    }
    Section::new("What could not be read").list(problems)
}

fn lead(status: &Status) -> String {
    let now = &status.observation;
    let memory = &now.memory;
    let ram = format!(
        "{} of {} of RAM are available",
        bytes(memory.available_bytes),
        bytes(memory.total_bytes)
    );
    if now.swaps.is_empty() {
        // The finding has the way out.
        let is_asked_for = status
            .findings
            .iter()
            .any(|it| it.id == Some(FindingId::NotApplied));
        let way_out = match is_asked_for {
            true => "",
            false => " sudo zmeld plan says what would suit.",
        };
        return format!("{ram}; there is no active swap.{way_out}");
    }
    let saved = compressed(status, " of pages are compressed", "which saves");
    let saved = saved.map_or(String::new(), |saved| format!("; {saved}"));
    let room = headroom(&status.headroom, behind_zswap(now));
    let leaving = match now.is_switching_off() {
        true => format!(
            " Swap is being switched off: {} of {} are in use.",
            bytes(memory.swap_used_bytes()),
            bytes(now.swap_size_bytes())
        ),
        false => String::new(),
    };
    format!("{ram}{saved}.{leaving} {room}")
}

/// How many findings there are, and their names; nothing where there are none.
fn judged(findings: &[Finding]) -> String {
    let names: Vec<&str> = findings.iter().map(Finding::name).collect();
    let count = names.len();
    match count {
        0 => String::new(),
        _ => format!(
            "{count} finding{}, below: {}. ",
            plural(count as u64),
            counted(&names)
        ),
    }
}

/// Names, and of one that repeats how often it does.
pub fn counted(names: &[impl AsRef<str> + PartialEq]) -> String {
    let each = names.chunk_by(|one, next| one == next);
    let each = each.map(|same| match same {
        [one] => one.as_ref().to_owned(),
        same => format!("{} ({})", same[0].as_ref(), same.len()),
    });
    each.collect::<Vec<_>>().join(", ")
}

/// What compression in RAM saves, in the words `are` and `saves`; none where no page is compressed.
pub fn compressed(status: &Status, are: &str, saves: &str) -> Option<String> {
    let in_ram = status.accounting.compressed_pages_bytes;
    let taken = status.accounting.compression_bytes;
    let pages = bytes(in_ram) + are;
    if in_ram == 0 {
        return None;
    }
    if in_ram < JUDGED_FROM {
        let needed = bytes(JUDGED_FROM);
        return Some(format!(
            "{pages} so far, too little to judge ({needed} are needed)"
        ));
    }
    // The column "RAM taken" is without tables.
    let now = &status.observation;
    let tables = now
        .devices
        .iter()
        .map(|it| it.metadata_bytes(now.page_size));
    let tables = tables.fold(0, u64::saturating_add).min(taken);
    let pools = taken - tables;
    let tables = match tables {
        0 => String::new(),
        tables => format!(" and {} of tables", bytes(tables)),
    };
    let saved = match in_ram.saturating_sub(taken) {
        0 => "nothing".to_owned(),
        saved => bytes(saved),
    };
    Some(format!(
        "{pages} into {}{tables}, {saves} {saved}",
        bytes(pools)
    ))
}

/// Free swap on drives whose pages zswap gets first; none beside a device in RAM, which saves, too.
fn behind_zswap(now: &Observation) -> u64 {
    let is_on = now.zswap.as_ref().is_some_and(|zswap| zswap.enabled);
    if !is_on || now.swaps.iter().any(|swap| now.device_of(swap).is_some()) {
        return 0;
    }
    let free = |swap: &Swap| swap.area.size_bytes.saturating_sub(swap.area.used_bytes);
    now.swaps.iter().map(free).sum()
}

/// How much more programs can take, in a sentence. `behind_zswap`: free swap on drives that zswap
/// stands in front of.
fn headroom(room: &Headroom, behind_zswap: u64) -> String {
    let unknown = match &room.unknown[..] {
        [] => String::new(),
        devices => format!(
            " Not counted yet, with too little in it to estimate a ratio: {}.",
            devices.join(", ")
        ),
    };
    let parts = match (room.compressed_bytes, room.disk_bytes) {
        (0, 0) => ", all of it available RAM".to_owned(),
        (compressed, disk) => {
            let mut parts = vec![format!(
                ": {} are available now",
                bytes(room.available_bytes)
            )];
            if compressed > 0 {
                let what = match (disk, behind_zswap) {
                    (0, 1..) => format!("compressing {} more into zswap", bytes(behind_zswap)),
                    _ => "compressing more".to_owned(),
                };
                let freed = bytes(compressed);
                parts.push(format!("{what} would free {freed} (at today's ratio)"));
            }
            if disk > 0 {
                parts.push(format!("{} fit on drives", bytes(disk)));
            }
            let last = parts.pop().unwrap_or_default();
            format!("{}, and {last}", parts.join(", "))
        }
    };
    format!(
        "About {} can still be allocated before the OOM killer runs{parts}.{unknown}",
        bytes(room.bytes),
    )
}

/// The table of tiers for files, and for a live screen: a row a tier.
pub fn tiers(states: &[TierState]) -> Table {
    zmeld_report::table!("", for tier in states,
        Column::path("tier") => &tier.name,
        Column::text("priority") => tier.priority.map(|priority| priority.to_string()),
        Column::text("kind") => tier.kind.name(),
        Column::text("codec") => tier.codec.clone(),
        Column::bytes("size") => tier.size_bytes,
        Column::bytes("used") => tier.used_bytes,
        Column::bytes("RAM taken").key("memory_used_bytes") => tier.memory_used_bytes,
        Column::ratio("ratio") => tier.ratio,
        Column::bytes("stored") => tier.stored_bytes,
        Column::bytes("compressed").key("compressed_bytes") => tier.compressed_bytes,
        Column::bytes("same-filled").key("same_filled_bytes") => tier.same_filled_bytes,
        Column::bytes("incompressible").key("incompressible_bytes") => tier.incompressible_bytes,
        Column::bytes("melded") => tier.melded_bytes,
        Column::bytes("written back").key("writeback_bytes") => tier.writeback_bytes,
        Column::bytes("limit") => tier.limit_bytes,
        Column::text("set up as") => tier.set_up_as.clone(),
    )
}

/// A tier's name where several stand beside each other.
const NAME_WIDTH: usize = 16;

/// The table of tiers for readers: a column a tier, so that five of them fit into
/// 80 columns. Rows that no tier has are left out.
fn side_by_side(states: &[TierState]) -> Table {
    let mut table = Table::new("").column(Column::text("tier"));
    for tier in states {
        let name = match states.len() {
            1 => tier.name.as_str().into(),
            _ => text::shorten(&tier.name, NAME_WIDTH),
        };
        table = table.column(Column::number(&name));
    }
    for (column, cells) in tiers(states).without_empty_columns().columns().skip(1) {
        let shown = cells.iter().map(|cell| match cell {
            Cell::Empty => Cell::Empty,
            cell => Cell::Text(column.show(cell)),
        });
        table.row(std::iter::once(Cell::from(column.title())).chain(shown));
    }
    explain_kinds(&mut table, states);
    table
}

/// Says below a table of tiers what the one kind is that does not speak for itself.
pub fn explain_kinds(table: &mut Table, states: &[TierState]) {
    if states.iter().any(|tier| tier.kind == ObservedKind::Device) {
        table.note("Kind device: a compressed device that is not swapped to.");
    }
}

fn differences(status: &Status) -> Section {
    let mut section = Section::new("Where the numbers differ, and why");
    // Not those that are shown as one number.
    let is_shown = |it: &&Difference| bytes(it.from_bytes) != bytes(it.to_bytes);
    for difference in status.differences.iter().filter(is_shown) {
        section = section
            .paragraph(format!(
                "{}: {} {}, {} {}",
                difference.tier,
                bytes(difference.from_bytes),
                difference.from,
                bytes(difference.to_bytes),
                difference.to
            ))
            .list(difference.reasons.clone());
    }
    section
}

fn pressure(status: &Status) -> Section {
    let now = &status.observation;
    let section = Section::new("Pressure");
    let mut values = Vec::new();
    match now.pressure {
        Some(pressure) => {
            for (name, stall) in [
                ("some task waited", pressure.some),
                ("all tasks waited", pressure.full),
            ] {
                values.push((
                    name,
                    format!(
                        "{} of 10 s, {} of 60 s, {} of 300 s",
                        percent(stall.avg10_percent / 100.0),
                        percent(stall.avg60_percent / 100.0),
                        percent(stall.avg300_percent / 100.0)
                    ),
                ));
            }
        }
        None => values.push((
            "waiting for memory",
            "not measured by this kernel (psi=1 on its command line may help)".to_owned(),
        )),
    }
    let activity = &now.activity;
    let of_pages = |pages: u64| bytes(pages.saturating_mul(now.page_size));
    let pages = |pages: Option<u64>| pages.map_or("unknown".to_owned(), of_pages);
    values.push((
        "swapped since boot",
        format!(
            "{} in, {} out",
            pages(activity.pages_in()),
            pages(activity.pages_out())
        ),
    ));
    // The finding tells those of unknown times, where it is not accepted.
    let tells = |found: &Finding| found.id == Some(FindingId::UnattributedOomKills);
    let is_told = now.lately.undated_oom_kills() > 0 && status.findings.iter().any(tells);
    if let Some(kills) = activity.oom_kills.filter(|_| !is_told) {
        values.push(("killed for memory", killed(kills, &now.lately)));
    }
    section.values(values)
}

/// Groups in the table; the rest is in the JSON.
const GROUPS_SHOWN: usize = 8;
const GROUP_WIDTH: usize = 28;

/// Section of proactive reclaim: the groups, and what it cost.
fn reclaimed(reclaim: &Reclaimed) -> Section {
    let table = zmeld_report::table!("", for group in reclaim.groups.iter().take(GROUPS_SHOWN),
        where {
            let name = text::shorten(&group.group, GROUP_WIDTH).into_owned();
            let waited = group.stalled_us as f64 / 1e6 / reclaim.seconds.max(1) as f64;
        }
        Column::text("control group") => name,
        Column::bytes("at first") => group.first_memory_bytes,
        Column::bytes("now") => group.memory_bytes,
        Column::bytes("reclaimed") => group.reclaimed_bytes,
        Column::bytes("came back") => group.came_back_bytes,
        Column::number("waited") => Cell::Text(percent(waited)),
    );
    let mut section = Section::new("Reclaimed ahead of time").paragraph(format!(
        "zmeld watch reclaimed {} in {}; {} came back.",
        bytes(reclaim.reclaimed_bytes()),
        zmeld_report::units::duration(std::time::Duration::from_secs(reclaim.seconds)),
        bytes(reclaim.came_back_bytes()),
    ));
    if !reclaim.groups.is_empty() {
        section = section.table(table);
    }
    let holding = reclaim.holding.iter();
    let mut notes: Vec<String> = holding
        .map(|why| format!("held back everywhere: {why}"))
        .collect();
    for group in reclaim.groups.iter().take(GROUPS_SHOWN) {
        if let Some(seconds) = group.idle_after_s {
            let time = zmeld_report::units::duration(std::time::Duration::from_secs(seconds));
            notes.push(format!(
                "{}: only what is idle for {time} goes",
                group.group
            ));
        }
        let why = group.backing_off.iter();
        notes.extend(why.map(|why| format!("{} backs off: {why}", group.group)));
    }
    notes.extend(left_alone(&reclaim.protected, &reclaim.unmatched));
    section.list(notes)
}

fn guarded(guard: &Guarded) -> Section {
    let section = Section::new("Guard").paragraph(format!(
        "zmeld-guard looked {} times in {}, {} ms late at most; memory is {}. It ended {}.",
        count(guard.looks),
        zmeld_report::units::duration(std::time::Duration::from_secs(guard.seconds)),
        guard.late_us_max.div_ceil(1000),
        match guard.is_short {
            true => "short",
            false => "not short",
        },
        match guard.ended_total {
            0 => "nothing".to_owned(),
            1 => "one process".to_owned(),
            more => format!("{} processes", count(more)),
        }
    ));
    let mut notes = Vec::new();
    for ended in guard.ended.iter().rev().take(GROUPS_SHOWN) {
        notes.push(format!(
            "{}, {}",
            ended.why,
            match (ended.took_ms, ended.was_killed) {
                (None, _) => "does not end".to_owned(),
                (Some(ms), true) => format!("killed, and had ended after {} ms", count(ms)),
                (Some(ms), false) => format!("had ended after {} ms", count(ms)),
            }
        ));
    }
    section.list(notes)
}

/// The groups that a rule is not for, and why.
fn left_alone<'a>(
    protected: &'a [ProtectedGroup],
    unmatched: &'a [String],
) -> impl Iterator<Item = String> + 'a {
    let protected = protected
        .iter()
        .take(GROUPS_SHOWN)
        .map(|it| format!("{} is protected: {}", it.group, it.why));
    let unmatched = unmatched
        .iter()
        .take(GROUPS_SHOWN)
        .map(|pattern| format!("{pattern}: no control group is called so now"));
    protected.chain(unmatched)
}

fn killed(since_boot: u64, lately: &Lately) -> String {
    let all = format!("{} since boot", count(since_boot));
    if since_boot == 0 {
        return all;
    }
    let of_groups: u64 = lately.group_oom_kills.values().sum();
    let mut split = format!(
        "{} by the machine, {} at limits of control groups",
        count(lately.oom_kills),
        count(of_groups)
    );
    if lately.unattributed_oom_kills > 0 {
        let more = count(lately.unattributed_oom_kills);
        split.push_str(&format!(", {more} that may be either"));
    }
    if lately.experiment_kills() > 0 {
        let more = count(lately.experiment_kills());
        split.push_str(&format!(", {more} in experiments of zmeld bench"));
    }
    match lately.since {
        Since::Boot => format!("{all}: {split}"),
        Since::Note => format!("{all}; {}: {split}", lately.words()),
        Since::Unknown => format!("{all}, at unknown times"),
    }
}

/// Findings with their remedies. Commands that several of them have, which would fail the second
/// time, stand below the first.
pub fn findings(status: &Status) -> Section {
    let section = Section::new("Findings");
    let found = &status.findings;
    if found.is_empty() {
        return section.paragraph(match status.observation.swaps.is_empty() {
            true => "None; without swap there is little to find fault with.",
            false => "None.",
        });
    }
    let entries = found.iter().enumerate();
    entries.fold(section, |section, (at, finding)| {
        let why = match finding.why.as_str() {
            "" => String::new(),
            why => format!(" ({why})"),
        };
        let block = block(finding);
        let is_same = |other: &&Finding| block.is_some() && self::block(other) == block;
        let first = found[..at].iter().find(is_same);
        let also: Vec<String> = found[at + 1..].iter().filter(is_same).map(named).collect();
        let remedy = match (first, &also[..]) {
            (Some(first), _) => format!("Do: the same as for {}", named(first)),
            (None, []) => format!("Do: {}", finding.remedy),
            (None, also) => format!("Do, for {} too: {}", also.join(" and "), finding.remedy),
        };
        let section = section.advice(
            tone(finding.severity),
            format!(
                "{} {}: {}{why}. {remedy}",
                named(finding),
                finding.about,
                finding.what
            ),
        );
        match block.filter(|_| first.is_none()) {
            Some(commands) => section.code(commands),
            None => section,
        }
    })
}

fn named(finding: &Finding) -> String {
    format!("[{}]", finding.name())
}

/// Commands that the remedy's words leave out.
fn block(finding: &Finding) -> Option<String> {
    let is_said = finding.remedy.contains(&finding.commands.join(" && "));
    (!finding.commands.is_empty() && !is_said).then(|| finding.commands.join("\n"))
}

/// How a finding of that severity is shown.
pub fn tone(severity: Severity) -> Tone {
    match severity {
        Severity::Notice => Tone::Neutral,
        Severity::Warning => Tone::Warning,
        Severity::Critical => Tone::Critical,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zmeld_config::finding::Remedy;
    use zmeld_config::Config;
    use zmeld_linux::Host;
    use zmeld_report::Style;

    /// A command that writes a new file fails when it is typed a second time.
    #[test]
    fn commands_that_several_findings_have_are_shown_once() {
        let (_dir, host) = Host::planted(&[("proc/meminfo", "MemTotal: 2097152 kB\n")]);
        let mut status = Status::read(&host, Ok(&Config::default()), None);
        let set_up = |size: &str| {
            let commands = [
                format!("zmeld config set size {size}"),
                "zmeld up".to_owned(),
            ];
            Remedy::run(commands).that("set it up anew")
        };
        let of = |id, remedy| Finding::of_machine("zram1", "it is so", "", remedy).of(id);
        status.findings = vec![
            of(FindingId::FailedWrites, set_up("1%")),
            of(FindingId::Pressure, "zmeld top".into()),
            of(FindingId::Oversized, set_up("1%")),
            of(FindingId::NearLimit, set_up("1%")),
            of(FindingId::NoMemoryLimit, set_up("2%")),
        ];
        let document = Document::new("").section(findings(&status));
        let text = document.to_text(&Style::plain(200));
        let said: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        let expected = [
            "FINDINGS",
            "Critical: [failed-writes] zram1: it is so. Do, for [oversized] and [near-limit] too: \
             set it up anew",
            "    zmeld config set size 1%",
            "    zmeld up",
            "Critical: [pressure] zram1: it is so. Do: zmeld top",
            "Critical: [oversized] zram1: it is so. Do: the same as for [failed-writes]",
            "Critical: [near-limit] zram1: it is so. Do: the same as for [failed-writes]",
            "Critical: [no-memory-limit] zram1: it is so. Do: set it up anew",
            "    zmeld config set size 2%",
            "    zmeld up",
        ];
        assert_eq!(said, expected);
    }
}
