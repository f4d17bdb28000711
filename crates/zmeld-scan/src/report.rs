//! A scan's result as people read it: the same sections as text, Markdown and HTML.

use zmeld_config::advice::size::{self, Sizing};
use zmeld_report::text;
use zmeld_report::units::{bytes, count, percent, plural};
use zmeld_report::{
    cells, Axis, Bars, Column, Document, Estimate, Histogram, Lines, Section, Table,
};
use zmeld_report::{Tone, Unit};
use zmeld_store::SHARE_BYTES;

use crate::advice::{not_short_here, Advice, AdviceKind};
use crate::programs::INTERVAL_MAX;
use crate::result::CodecResult;
use crate::{Program, ScanResult};

/// Scan options that a report names.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// Shared memory was read.
    pub shared: bool,
    /// Pages of mapped files were read.
    pub mapped_files: bool,
    /// All programs are told, not the first ten.
    pub programs: bool,
}

/// A scan in the order in which it is asked for: what to do, what that gains, and why.
pub fn document(result: &ScanResult, asked: Asked) -> Document {
    let mut document = Document::new(&format!("zmeld scan of {}", result.source))
        .lead(lead(result))
        .section(advice_section(result));
    if result.recommended.is_some() && result.speaks_for_machine() {
        document = document.section(gain_section(result));
    }
    if result.pages.total > 0 || result.memory.never_written > 0 {
        document = document.section(memory_section(result, asked));
    }
    if result.pages.compressible() > 0 {
        if result.told_codec().is_some() {
            document = document.section(codec_section(result));
        }
        document = document
            .section(program_section(result, asked))
            .section(duplicate_section(result));
    }
    document = document
        .section(cold_section(result))
        .section(limits_section(result));
    let machine = &result.machine;
    let kernel = format!("Linux {}", machine.kernel);
    let (predicted_for, kernel) = match result.ram_bytes == machine.ram_bytes {
        true => ("kernel", kernel),
        false => (
            "predicted for",
            format!("{kernel}, {} of RAM", bytes(result.ram_bytes)),
        ),
    };
    document
        .provenance(
            "machine",
            format!(
                "{}, {} processor{}, {} of RAM",
                machine.processor,
                machine.processors,
                plural(machine.processors as u64),
                bytes(machine.ram_bytes)
            ),
        )
        .provenance(predicted_for, kernel)
        .provenance(
            "took",
            format!(
                "{:.1} s with {} thread{}",
                result.seconds,
                result.threads,
                plural(result.threads as u64)
            ),
        )
}

fn lead(result: &ScanResult) -> String {
    let prefix = match (result.interrupted, result.is_whole()) {
        (true, _) => "Stopped before the end: figures are of what was read. ",
        (false, false) => "Incomplete, without other users' processes (see What to do). ",
        (false, true) => "",
    };
    let pages = &result.pages;
    if pages.total == 0 {
        return format!("{prefix}No page was read.");
    }
    let Some(codec) = result.told_codec() else {
        let what = match pages.compressible() {
            0 if pages.zero == pages.total => "all of them zeros",
            0 => "all of them same-filled",
            _ => "none of which was compressed yet",
        };
        return format!(
            "{prefix}{} of pages, {what}.",
            bytes(pages.total * result.page_size)
        );
    };
    let plain = bytes(codec.memory_at_scale_bytes);
    let is_of_no_use = result.advice.iter().any(melds_nothing);
    let and_melded = match bytes(codec.melded_memory_at_scale_bytes) {
        melded if melded == plain || pages.duplicate == 0 || is_of_no_use => String::new(),
        melded => format!(", and {melded} with identical pages melded"),
    };
    let given = pages.given(result.zero_pages_credited);
    let figures = format!(
        "{} of pages{} would take {plain} with {} ({}x){and_melded}.",
        bytes(given * result.page_size),
        if given < pages.total {
            ", those of zeros left out,"
        } else {
            ""
        },
        codec.codec,
        size::tenths(codec.effective_ratio),
    );
    match result.is_of_some_processes() {
        true => format!("{prefix}{figures} What the machine would gain: zmeld scan."),
        false => format!("{prefix}{}{figures}", gain_words(result)),
    }
}

/// Whether it says that melding does not pay.
fn melds_nothing(advice: &Advice) -> bool {
    advice.topic == "meld" && advice.kind == AdviceKind::Nothing
}

/// What the lead promises a gain of.
fn promised(result: &ScanResult) -> Option<&Sizing> {
    let to = result.recommendation.as_ref();
    let to = to.filter(|_| result.recommended.is_some() && result.speaks_for_machine());
    to?.sizing.as_ref()
}

/// The gain of the advised swap and the share of RAM that this is known from.
fn gain_words(result: &ScanResult) -> String {
    if result.recommended.is_none() {
        return String::new();
    }
    let measured = result.measured_bytes();
    let share = percent((measured as f64 / result.ram_bytes.max(1) as f64).min(1.0));
    if result.is_too_little() {
        return format!(
            "Pages of only {share} of RAM were measured, too few to promise a gain or advise a \
             size: scan the machine under its usual load. "
        );
    }
    let Some(sizing) = promised(result) else {
        return format!("{share} of RAM was measured. ");
    };
    let whose = match result.ram_bytes == result.machine.ram_bytes {
        true if not_short_here(result).is_some() => format!(
            "Memory is not short here now ({} of {} are available); when it is, this machine",
            bytes(result.machine.available_bytes),
            bytes(result.ram_bytes)
        ),
        true => "This machine".to_owned(),
        false => format!("A machine with {} of RAM", bytes(result.ram_bytes)),
    };
    format!(
        "{whose} would gain {} of memory with {} of swap in RAM, if all its pages are like the \
         {} that were measured, {share} of RAM. ",
        size::signed(sizing.gains_bytes),
        bytes(sizing.size_bytes),
        bytes(measured),
    )
}

fn memory_section(result: &ScanResult, asked: Asked) -> Section {
    let pages = &result.pages;
    let parts = [
        ("zero", pages.zero),
        ("same-filled", pages.same_filled),
        ("unique", pages.unique),
        ("duplicate", pages.duplicate),
    ];
    let mut table = zmeld_report::table!("", for (name, count) in parts,
        Column::text("pages") => name,
        Column::count("count") => count,
        Column::bytes("size") => count * result.page_size,
        Column::percent("share") => count as f64 / pages.total.max(1) as f64,
    );
    table.row(cells![
        "total",
        pages.total,
        pages.total * result.page_size,
        1.0
    ]);
    let section = Section::new("What the pages are");
    let section = match result.told_codec().filter(|_| pages.compressible() > 0) {
        Some(codec) => section.plot(becomes(result, codec)),
        None => section,
    };
    let section = section.table(table);
    match where_they_are(result, asked) {
        values if values.is_empty() => section,
        values => section.values(values),
    }
}

/// The counts that are not zero, in words. Pages that were not read are marked.
fn where_they_are(result: &ScanResult, asked: Asked) -> Vec<(String, String)> {
    let unless = |read: bool, hint: &'static str| if read { "" } else { hint };
    let see_swap = " (not read: see --swap)";
    let see_shared = unless(asked.shared, " (not read: see --shared)");
    let see_files = unless(asked.mapped_files, " (not read: see --mapped-files)");
    let memory = &result.memory;
    let words = [
        (memory.anon_present, "private, in RAM", ""),
        (memory.anon_swapped, "private, swapped out", see_swap),
        (memory.shmem_present, "shared memory, in RAM", see_shared),
        (memory.shmem_swapped, "shared memory, swapped out", see_swap),
        (memory.file_present, "of mapped files", see_files),
        (
            memory.shared_again,
            "mapped again elsewhere",
            " (read once)",
        ),
        (memory.ksm, "melded by KSM already", ""),
        (memory.locked, "locked in RAM", " (swap never takes it)"),
        (memory.swap_slots, "slots of swap in use", ""),
        (memory.never_written, "holes, never written", " (not read)"),
    ];
    let mut values = Vec::new();
    let mut add = |words: &str, value: String| values.push((words.to_owned(), value));
    if memory.processes > 0 {
        add("processes read", count(memory.processes));
    }
    for (pages, words, remark) in words.into_iter().filter(|it| it.0 > 0) {
        add(words, bytes(pages * result.page_size) + remark);
    }
    if memory.padded > 0 {
        add("last page", "filled up with zeros".to_owned());
    }
    values
}

/// The table of codecs for CSV: everything.
pub fn codec_table(result: &ScanResult) -> Table {
    zmeld_report::table!("", for codec in &result.codecs,
        Column::text("codec") => codec.codec.as_str(),
        Column::ratio("effective ratio") => codec.effective_ratio,
        Column::count("pages measured") => codec.pages_measured,
        Column::ratio("compression").with_interval() =>
            Estimate::around(codec.ratio, codec.ratio_interval),
        Column::bytes("compressed") => codec.compressed_bytes,
        Column::bytes("memory used") => codec.memory_used_bytes,
        Column::bytes("melded compressed") => codec.melded_compressed_bytes,
        Column::bytes("melded memory used") => codec.melded_memory_used_bytes,
        Column::count("incompressible pages") => codec.incompressible_pages,
        Column::mb_per_s("compress") => codec.times.compress_mb_per_s,
        Column::mb_per_s("decompress") => codec.times.decompress_mb_per_s,
        Column::nanoseconds("compress median") => codec.times.compress_ns_median,
        Column::nanoseconds("compress p99") => codec.times.compress_ns_p99,
        Column::nanoseconds("decompress median") => codec.times.decompress_ns_median,
        Column::nanoseconds("decompress p99") => codec.times.decompress_ns_p99,
    )
}

/// The codec, and whether this kernel lacks it.
pub fn told_name(codec: &str, offered: Option<bool>) -> String {
    match offered {
        Some(false) => format!("{codec} (not here)"),
        _ => codec.to_owned(),
    }
}

/// What that means, for the note below a table.
pub const NOT_HERE: &str = "Not here: this kernel's zram is built without that codec.";

/// How fast it decompresses; raw pages are only copied.
fn told_speed(result: &ScanResult, codec: &CodecResult) -> Option<f64> {
    let all = result.pages.compressible().max(1) as f64;
    let speed = codec.times.decompress_mb_per_s;
    (codec.incompressible_pages as f64 / all < 0.99).then_some(speed)
}

/// The table of codecs for people: what fits 80 columns.
fn main_table(result: &ScanResult) -> Table {
    let mut table = zmeld_report::table!("", for codec in &result.codecs,
        where { let all = result.pages.compressible().max(1) as f64; }
        Column::text("codec") => told_name(&codec.codec, codec.offered),
        Column::text("ratio") => format!("{}x", size::tenths(codec.effective_ratio)),
        Column::bytes("memory used") => codec.memory_at_scale_bytes,
        Column::bytes("melded") => codec.melded_memory_at_scale_bytes,
        Column::percent("raw") => codec.incompressible_pages as f64 / all,
        Column::mb_per_s("compress") => codec.times.compress_mb_per_s,
        Column::mb_per_s("decompress") => told_speed(result, codec),
        ; strong if Some(&codec.codec) == result.recommended.as_ref()
    );
    if result.codecs.iter().any(|it| it.offered == Some(false)) {
        table.note(NOT_HERE);
    }
    table.note(
        "Ratio: size before compression divided by RAM used, for a full device, overhead \
         included. Memory used: RAM of all pages in the pool of such a device; melded: identical \
         pages are kept once (needs zmeld.ko), and the cost of sharing is included. Raw: pages that do not \
         compress and are kept as they are.",
    );
    if result.recommended.is_some() {
        table.note("Marked (* or bold): the codec that is advised.");
    }
    table
}

fn codec_section(result: &ScanResult) -> Section {
    let how = if result.sample.full {
        "Every distinct page was compressed and read back.".to_owned()
    } else {
        format!(
            "Measured on {} distinct pages, chosen by content and read back. Compressed sizes are \
             within {} of those of all pages (95 % confidence).",
            count(result.sample.contents_measured),
            // Within "<0.1 %" would be no bound.
            percent(result.sample.interval.max(0.001))
        )
    };
    let section = Section::new("Codecs").paragraph(how);
    let section = match result.told_codec() {
        Some(codec) => section.plot(sizes(result, codec)),
        None => section,
    };
    // Speeds of a few pages are the clock's.
    let section = match result.codecs.len() {
        2.. if !result.is_too_little() => section.plot(speeds(result)),
        _ => section,
    };
    section.table(main_table(result))
}

fn gain_section(result: &ScanResult) -> Section {
    let section = Section::new("What this machine would gain");
    let Some(codec) = result.told_codec() else {
        return section;
    };
    let signed = |bytes: i64| bytes as f64;
    let title = format!("Swap in RAM with {}, full of such pages", codec.codec);
    let ram = result.ram_bytes as f64;
    let advised = result.recommendation.as_ref();
    let advised = advised.and_then(|to| to.sizing.as_ref());
    let advised = advised.map(|sizing| sizing.size_percent);
    let is_advised = |percent: u32| advised == Some(percent);
    let bars = Bars::new(
        match advised {
            Some(_) => "Pages that the machine holds with swap in RAM, * advised",
            None => "Pages that the machine holds with swap in RAM",
        },
        "pages",
        Unit::Bytes,
    )
    .parts(["RAM", "gained"])
    .coloured([0, PARTS.len()])
    .stack("as it is", [ram, 0.0]);
    let bars = codec.gains.iter().fold(bars, |bars, gain| {
        let mark = if is_advised(gain.disksize_percent) {
            " *"
        } else {
            ""
        };
        let name = format!("{} % of RAM{mark}", gain.disksize_percent);
        bars.stack(&name, [ram, signed(gain.gained_bytes)])
    });
    let mut table = zmeld_report::table!(&title, for gain in &codec.gains,
        Column::text("size") => format!("{} % of RAM", gain.disksize_percent),
        Column::bytes("pages") => gain.disksize_bytes,
        Column::bytes("takes") => gain.memory_bytes,
        Column::bytes("gains") => signed(gain.gained_bytes),
        Column::bytes("gains, melded").key("melded_gains_bytes") => signed(gain.melded_gained_bytes),
        Column::bytes("machine holds") => signed(gain.holds_bytes),
        ; strong if is_advised(gain.disksize_percent)
    );
    table.note(
        "Pages: before compression. Takes: RAM of full swap, its table included; gains: pages \
         less that; gains, melded: the same with identical pages kept once (needs zmeld.ko, \
         whose table is larger). Machine holds: RAM plus the gain, not melded.",
    );
    if advised.is_some() {
        table.note("Marked (* or bold): the size that is advised.");
    }
    section.plot(bars).table(table)
}

fn duplicate_section(result: &ScanResult) -> Section {
    let found = &result.duplicates;
    let section = Section::new("Identical pages (melding needs zmeld.ko)");
    if result.pages.duplicate == 0 {
        return section.paragraph("No two pages are identical.");
    }
    let size = |pages: u64| bytes(pages * result.page_size);
    // Less than duplicates hold.
    let saved = result.told_codec().map(|codec| {
        let shares = found.groups * SHARE_BYTES;
        let freed = codec.memory_at_scale_bytes + shares;
        let freed = freed.saturating_sub(codec.melded_memory_at_scale_bytes);
        let said = format!(
            "{}: compressed with {} they take {}, and sharing costs {}",
            bytes(freed.saturating_sub(shares)),
            codec.codec,
            bytes(freed),
            bytes(shares)
        );
        ("melding would save".to_owned(), said)
    });
    if result.advice.iter().any(melds_nothing) {
        return section.values(saved);
    }
    let mut values = vec![
        (
            "repeated".to_owned(),
            format!(
                "{} content{}, {} extra cop{}",
                count(found.groups),
                plural(found.groups),
                count(result.pages.duplicate),
                if result.pages.duplicate == 1 {
                    "y"
                } else {
                    "ies"
                }
            ),
        ),
        (
            "melding would drop".to_owned(),
            format!("{} before compression", size(result.pages.duplicate)),
        ),
    ];
    if result.memory.processes > 0 {
        values.extend([
            (
                "of these within a process".to_owned(),
                size(found.within_owner_pages),
            ),
            (
                "of these between processes".to_owned(),
                size(found.between_owners_pages),
            ),
        ]);
    }
    for (kind, pages) in &found.by_kind {
        let memory = match kind.as_str() {
            "anonymous" => "anonymous memory",
            kind => kind,
        };
        values.push((format!("of these in {memory}"), size(*pages)));
    }
    values.extend(saved);
    section.values(values)
}

const PROGRAMS_SHOWN: usize = 10;

/// The table of programs: the first so many.
fn programs(result: &ScanResult, most: usize) -> Table {
    zmeld_report::table!("", for program in result.programs.iter().take(most),
        Column::text("program") => program.program.as_str(),
        Column::count("procs").key("processes") => program.processes,
        Column::path("control group") => &program.group,
        Column::bytes("pages") => program.bytes,
        Column::ratio("ratio") => program.ratio(),
        Column::bytes("saved") => program.saved_bytes(),
        Column::bytes("identical") => program.duplicate_bytes,
    )
}

/// The table of programs for CSV: everything.
pub fn program_table(result: &ScanResult) -> Table {
    programs(result, usize::MAX)
}

fn program_section(result: &ScanResult, asked: Asked) -> Section {
    let section = Section::new("Who would gain");
    let (Some(codec), false) = (result.told_codec(), result.programs.is_empty()) else {
        return section;
    };
    let most = match asked.programs {
        true => usize::MAX,
        false => PROGRAMS_SHOWN,
    };
    let is_measured = |program: &Program| program.compressed_bytes.is_some();
    let section = match result.programs.iter().any(is_measured) {
        true => section.plot(by_program(result, codec)),
        false => section,
    };
    let mut table = programs(result, most);
    table.whole_with("--json");
    let more = match result.programs.len().saturating_sub(most) {
        0 => String::new(),
        left => format!(" {} more: --programs.", count(left as u64)),
    };
    let shown = || result.programs.iter().take(most);
    let note = |is_shown: bool, words: &'static str| if is_shown { words } else { "" };
    let from_memory = note(
        shown().any(|program| program.program.starts_with("memfd:")),
        " memfd: started from memory, not from a file.",
    );
    let unmeasured = match shown().any(|program| program.compressed_bytes.is_none()) {
        true => format!(
            " –: the sample does not tell its compressed size within {}.",
            percent(INTERVAL_MAX)
        ),
        false => String::new(),
    };
    let without_group = note(
        shown().any(|program| program.group.is_empty()),
        " Where no control group stands, the program is in none.",
    );
    let pages = &result.pages;
    let counted = match result.zero_pages_credited {
        true => (pages.zero + pages.same_filled, "them"),
        false => (pages.same_filled, "the latter"),
    };
    let counted = match counted {
        // Too few to be seen in the ratio.
        (few, _) if 100 * few < pages.total => String::new(),
        (_, which) => format!(" (the table of codecs counts {which}, so its ratio is higher)"),
    };
    table.note(format!(
        "Pages: without those of zeros and of one repeated word{counted}. Saved: with \
         {}, all of them swapped out, nothing melded. Identical: pages that melding would \
         drop.{unmeasured}{without_group}{from_memory}{more}",
        codec.codec
    ));
    section.table(table)
}

/// Pages by what becomes of them: the first two have the same colours in the histogram of sizes.
const PARTS: [&str; 5] = ["compressible", "raw", "duplicate", "same-filled", "zero"];

/// The pages as they are, compressed, and melded, too.
fn becomes(result: &ScanResult, codec: &CodecResult) -> Bars {
    let pages = &result.pages;
    let size = |pages: u64| (pages * result.page_size) as f64;
    let raw = size(codec.melded_incompressible_pages);
    let melded = codec.melded_memory_at_scale_bytes as f64;
    let of_twins = codec.memory_at_scale_bytes as f64 - melded;
    let bars = Bars::new("What the pages become", "RAM", Unit::Bytes)
        .parts(PARTS)
        .stack(
            match pages.zero {
                0 => "as they are",
                _ => "as they are, with zeros",
            },
            [
                size(pages.unique) - raw,
                raw,
                size(pages.duplicate),
                size(pages.same_filled),
                size(pages.zero),
            ],
        )
        .stack(
            &format!("kept with {}", codec.codec),
            [melded - raw, raw, of_twins, 0.0, 0.0],
        );
    match pages.duplicate {
        0 => bars,
        _ => bars.stack("and melded", [melded - raw, raw, 0.0, 0.0, 0.0]),
    }
}

fn sizes(result: &ScanResult, codec: &CodecResult) -> Histogram {
    let share = |pages: u64| pages as f64 / result.pages.compressible().max(1) as f64;
    let ranges = codec.pages_by_size.len();
    let compressed = codec.pages_by_size.iter().map(|it| share(*it));
    // They take the whole page, and so stand in the last range.
    let raw = (1..=ranges).map(|range| match range == ranges {
        true => share(codec.incompressible_pages),
        false => 0.0,
    });
    Histogram::new(
        &format!("Sizes of pages compressed with {}", codec.codec),
        Axis::new("size of a page when it is compressed", Unit::Bytes),
        Axis::new("share of the pages", Unit::Fraction),
        result.page_size as f64 / ranges.max(1) as f64,
    )
    .series("compressed", compressed)
    .series("raw (does not compress)", raw)
}

/// A point for each codec: the best stand at the top right.
fn speeds(result: &ScanResult) -> Lines {
    let title = "Up: compresses better; right: reads back faster";
    let plot = Lines::new(
        &match result.recommended {
            Some(_) => format!("Codecs, * advised. {title}"),
            None => format!("Codecs. {title}"),
        },
        Axis::new("decompressed", Unit::MbPerSecond).from_zero(),
        Axis::new("ratio", Unit::Ratio).from_zero(),
    );
    result.codecs.iter().fold(plot, |plot, codec| {
        let speed = told_speed(result, codec).filter(|speed| *speed > 0.0);
        let point = (speed.unwrap_or(f64::NAN), codec.effective_ratio);
        let is_advised = Some(&codec.codec) == result.recommended.as_ref();
        let mark = if is_advised { " *" } else { "" };
        plot.series(
            &format!("{}{mark}", told_name(&codec.codec, codec.offered)),
            [point],
        )
    })
}

fn by_program(result: &ScanResult, codec: &CodecResult) -> Bars {
    let title = format!(
        "Who would gain with {} (on the right: what is saved)",
        codec.codec
    );
    let bars = Bars::new(&title, "pages", Unit::Bytes)
        .parts(["RAM taken", "saved"])
        .coloured([0, PARTS.len()])
        .telling(1);
    let shown = result.programs.iter().take(PROGRAMS_SHOWN);
    let names: Vec<String> = shown.clone().map(named).collect();
    shown.zip(&names).fold(bars, |bars, (program, name)| {
        let parts = program.compressed_bytes.zip(program.saved_bytes());
        let is_one_of_many = names.iter().filter(|it| *it == name).count() > 1;
        let name = match id_of(&program.group).filter(|_| is_one_of_many) {
            Some(id) => format!("{name} ({})", text::prefix(id, 12)),
            None => name.clone(),
        };
        match parts {
            Some((taken, saved)) => bars.stack(&name, [taken as f64, saved as f64]),
            None => bars,
        }
    })
}

/// A program with the last name of its control group, unless that is a hash.
fn named(program: &Program) -> String {
    match program.group.rsplit('/').next() {
        Some(group) if !group.is_empty() && id_of(group).is_none() => {
            format!("{} ({})", program.program, text::shorten(group, 12))
        }
        _ => program.program.clone(),
    }
}

/// The number that a container or a pod was given, where a group's last name has one.
fn id_of(group: &str) -> Option<&str> {
    let mut runs = group
        .rsplit('/')
        .next()?
        .split(|letter: char| !letter.is_ascii_hexdigit());
    runs.find(|run| run.len() >= 12)
}

fn cold_section(result: &ScanResult) -> Section {
    let section = Section::new("Cold memory");
    let Some(cold) = &result.cold else {
        return section;
    };
    let how = if cold.precision == "page" {
        "Each page was watched by itself."
    } else {
        "This kernel reports references for each mapping, not for each page: the cold pages of \
         all \
         mappings are counted, and those of mappings in which none was touched were scanned."
    };
    let kinds = cold.by_kind.iter();
    let kinds = kinds.map(|(kind, counts)| (kind.as_str(), counts));
    let rows = kinds.chain([("total", &cold.total)]);
    let table = zmeld_report::table!("", for (kind, [resident, pages, delivered]) in rows,
        Column::text("memory") => kind,
        Column::bytes("in RAM") => resident * result.page_size,
        Column::bytes("cold") => pages * result.page_size,
        Column::percent("share") => *pages as f64 / (*resident).max(1) as f64,
        Column::bytes("scanned") => delivered * result.page_size,
    );
    section
        .paragraph(format!("Not touched for {:.0} s. {how}", cold.seconds))
        .table(table)
}

fn limits_section(result: &ScanResult) -> Section {
    let mut points: Vec<String> = result.notes.clone();
    for left in &result.skipped {
        let skipped = &left.skipped;
        let mut parts = Vec::new();
        let some = |number: u64, one: &str, many: &str| {
            (number > 0)
                .then(|| format!("{} {}", count(number), if number == 1 { one } else { many }))
        };
        parts.extend(some(skipped.processes, "process", "processes"));
        parts.extend(some(skipped.regions, "mapping", "mappings"));
        if skipped.pages > 0 {
            parts.push(bytes(skipped.pages * result.page_size));
        }
        points.push(format!("{}: {}", left.reason, parts.join(", ")));
    }
    Section::new("Not read").list(points)
}

fn advice_section(result: &ScanResult) -> Section {
    let mut section = Section::new("What to do");
    // The lead has told that memory is not short.
    let is_told = |advice: &Advice| {
        let of_this_machine = result.ram_bytes == result.machine.ram_bytes;
        advice.topic == "need" && of_this_machine && promised(result).is_some()
    };
    let mut all: Vec<&Advice> = result.advice.iter().filter(|it| !is_told(it)).collect();
    all.sort_by_key(|advice| match advice.kind {
        AdviceKind::Warning => 0,
        AdviceKind::Do => 1,
        AdviceKind::Nothing | AdviceKind::Note => 2,
    });
    for advice in all {
        let tone = match advice.kind {
            AdviceKind::Do => Tone::Good,
            AdviceKind::Warning => Tone::Warning,
            AdviceKind::Nothing | AdviceKind::Note => Tone::Neutral,
        };
        section = section.advice(tone, advice.text.as_str());
        if !advice.commands.is_empty() {
            section = section.code(advice.commands.join("\n"));
        }
    }
    section
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::others_processes;
    use crate::result::PageCounts;
    use zmeld_report::Style;

    #[test]
    fn a_bar_is_not_named_after_a_hash() {
        let id = "25aba0c6fe1d4f3a9d5c2b7e8f60a1b2";
        let pod = "kubepods-pod0a1b2c3d_1111_2222_3333_444455556666.slice";
        for (group, name) in [
            ("/web", "cargo (web)"),
            ("/system.slice/db.service", "cargo (db.service)"),
            ("", "cargo"),
            (&format!("/docker/{id}"), "cargo"),
            (&format!("/system.slice/docker-{id}.scope"), "cargo"),
            (&format!("/kubepods.slice/{pod}"), "cargo"),
        ] {
            let program = Program {
                program: "cargo".to_owned(),
                group: group.to_owned(),
                ..Program::default()
            };
            assert_eq!(named(&program), name, "{group}");
        }
    }

    #[test]
    fn the_headline_has_the_pages_that_the_ratio_is_of() {
        let mut result = ScanResult {
            page_size: 4096,
            pages: PageCounts {
                total: 1000,
                zero: 250,
                unique: 750,
                ..PageCounts::default()
            },
            codecs: vec![CodecResult {
                codec: "lz4".to_owned(),
                pages_measured: 750,
                effective_ratio: 3.0,
                memory_at_scale_bytes: 1 << 20,
                ..CodecResult::default()
            }],
            ..ScanResult::default()
        };
        let said =
            "2.93 MiB of pages, those of zeros left out, would take 1.00 MiB with lz4 (3.0x).";
        assert_eq!(lead(&result), said);
        result.zero_pages_credited = true;
        assert!(lead(&result).starts_with("3.91 MiB of pages would take"));
        result.recommended = Some("lz4".to_owned());
        result.ram_bytes = 40_960_000;
        assert!(lead(&result).starts_with("7.5 % of RAM was measured. 3.91 MiB of pages"));
        result.ram_bytes = 1 << 40;
        let page = document(&result, Asked::default()).to_text(&Style::plain(80));
        let is_promised = page.contains("WHAT THIS MACHINE WOULD GAIN");
        assert!(
            page.contains("too few to promise") && !is_promised,
            "{page}"
        );
        result.advice.push(others_processes(2, 0, false));
        assert!(lead(&result).starts_with("Incomplete, without other users' processes"));
    }
}
