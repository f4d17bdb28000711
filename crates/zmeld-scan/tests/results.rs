//! Whole results of scans of pages that are always the same, on a machine of a test's own: what
//! they say as JSON, CSV, text and on a page stands in `shown`. With ZMELD_SHOW=1 it is written.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use zmeld_config::advice::ModulePresence;
use zmeld_linux::{Host, KernelVersion};
use zmeld_report::Style;
use zmeld_scan::kernel::PoolModel;
use zmeld_scan::memory::{
    Batch, ColdPages, ColdReport, Coldness, Counted, Error, Note, Owner, Region, RegionId,
    RegionKind, Sink, SkipReason, Skipped, Source, Visit,
};
use zmeld_scan::report::{self, Asked};
use zmeld_scan::{advice, Candidate, CodecTimes, ScanError, ScanOptions, ScanProgress, ScanResult};

use zmeld_tests::script::difference;
use zmeld_tests::values::{changed, lines, masked, show, values, Values};

const PAGE: usize = 4096;

/// Lines with the page's number: it compresses well.
fn text(number: u64) -> Vec<u8> {
    let line = |at: u64| format!("{number} {} {at}\n", at * at % 977).into_bytes();
    (0..).flat_map(line).take(PAGE).collect()
}

fn noise(number: u64) -> Vec<u8> {
    let mut chance = fastrand::Rng::with_seed(number);
    (0..PAGE).map(|_| chance.u8(..)).collect()
}

/// Half of it noise.
fn mixed(number: u64) -> Vec<u8> {
    let mut page = noise(number);
    page[PAGE / 2..].fill(b' ');
    page
}

fn filled(byte: u8) -> Vec<u8> {
    vec![byte; PAGE]
}

/// A source whose pages and counts are a test's.
#[derive(Default)]
struct Known {
    regions: Vec<Region>,
    /// The region, and its pages.
    pages: Vec<(u32, Vec<Vec<u8>>)>,
    maybe_shared: bool,
    visit: Visit,
    /// Whether its size is not known before, and it can be read once only.
    is_stream: bool,
    /// It ends where it has told so many batches.
    stops_after: Option<usize>,
    /// Regions that are read at first, and not again.
    gone: u32,
    visits: AtomicUsize,
    /// Whether it is of some processes of a machine.
    is_part: bool,
}

impl Known {
    fn process(&mut self, pid: i32, comm: &str, kind: RegionKind, pages: Vec<Vec<u8>>) {
        let owner = Owner::Process {
            pid,
            comm: comm.into(),
        };
        self.region(owner, kind, pages);
    }

    fn region(&mut self, owner: Owner, kind: RegionKind, pages: Vec<Vec<u8>>) {
        self.pages.push((self.regions.len() as u32, pages));
        self.regions.push(Region {
            owner,
            kind,
            start: 0,
        });
    }

    fn file(pages: Vec<Vec<u8>>) -> Known {
        let mut known = Known::default();
        known.region(Owner::File("pages".into()), RegionKind::File, pages);
        known
    }
}

impl Source for Known {
    fn describe(&self) -> String {
        let is_of_processes = |it: &Region| matches!(it.owner, Owner::Process { .. });
        match self.regions.iter().any(is_of_processes) && !self.is_part {
            true => "the memory of all processes".to_owned(),
            false => "known pages".to_owned(),
        }
    }

    fn page_size(&self) -> usize {
        PAGE
    }

    fn expected_pages(&self) -> Option<u64> {
        let pages = self.pages.iter().map(|it| it.1.len() as u64).sum();
        Some(pages).filter(|_| !self.is_stream)
    }

    fn can_revisit(&self) -> bool {
        !self.is_stream
    }

    fn visit(&self, _: usize, stop: &AtomicBool, sink: Sink<'_>) -> Result<Visit, Error> {
        let is_second = self.visits.fetch_add(1, Ordering::Relaxed) > 0;
        let mut visit = self.visit.clone();
        visit.regions.clone_from(&self.regions);
        for (at, (region, pages)) in self.pages.iter().enumerate() {
            if is_second && *region < self.gone {
                continue;
            }
            let shared = vec![true; pages.len()];
            sink(Batch {
                region: RegionId(*region),
                kind: self.regions[*region as usize].kind,
                first_page: 3,
                bytes: &pages.concat(),
                maybe_shared: self.maybe_shared.then_some(&shared[..]),
            });
            visit.counted.delivered += pages.len() as u64;
            if self.stops_after == Some(at + 1) {
                stop.store(true, Ordering::Relaxed);
                visit.interrupted = true;
                break;
            }
        }
        Ok(visit)
    }
}

/// Half a gibibyte of RAM, so that the ratio alone decides, and swap on zram.
fn machine(kernel: &str) -> (tempfile::TempDir, Host) {
    let (folder, host) = Host::planted(&[
        ("/proc/sys/kernel/osrelease", kernel),
        (
            "/proc/meminfo",
            "MemTotal: 524288 kB\nMemFree: 9000 kB\nMemAvailable: 400000 kB\n",
        ),
        ("/proc/cpuinfo", "model name\t: A processor\n"),
        ("/proc/modules", ""),
        (
            "/proc/swaps",
            "Filename Type Size Used Priority\n/dev/zram0 partition 1024 0 100\n",
        ),
        ("/sys/block/zram0/comp_algorithm", "lzo-rle [lz4] zstd\n"),
        (
            "/sys/block/zram0/mm_stat",
            "8192 300 4096 1048576 9 0 0 0 0\n",
        ),
        ("/sys/kernel/mm/ksm/run", "1\n"),
        (
            "/proc/self/mountinfo",
            "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        ),
        ("/sys/fs/cgroup/cgroup.controllers", "memory\n"),
    ]);
    for (pid, group) in [
        (100, "/web"),
        (101, "/web"),
        (200, "/system.slice/database.service"),
    ] {
        host.plant(format!("/proc/{pid}/cgroup"), format!("0::{group}\n"));
    }
    (folder, host)
}

fn options(host: &Host) -> ScanOptions {
    let specs = ["lz4", "zstd", "zword"].map(|it| it.parse().unwrap());
    ScanOptions {
        full: true,
        threads: 1,
        seed: Some(7),
        host: host.clone(),
        ..ScanOptions::new(Candidate::open_all(&specs).unwrap())
    }
}

/// Puts times of a test's own in the place of those that were taken.
fn steady(times: &mut CodecTimes, at: u64, is_measured: bool) {
    // No processor compresses a terabyte in a second.
    let most = if is_measured { 1e6 } else { 1e-9 };
    for speed in [times.compress_mb_per_s, times.decompress_mb_per_s] {
        assert!(speed < most, "{times:?}");
    }
    for (median, p99) in [
        (times.compress_ns_median, times.compress_ns_p99),
        (times.decompress_ns_median, times.decompress_ns_p99),
    ] {
        assert!(median <= p99 && (p99 > 1) == is_measured, "{times:?}");
    }
    *times = CodecTimes {
        compress_mb_per_s: 1000.0 / at as f64,
        decompress_mb_per_s: 2000.0 / at as f64,
        compress_ns_median: 4000 * at,
        compress_ns_p99: 5000 * at,
        decompress_ns_median: 2000 * at,
        decompress_ns_p99: 3000 * at,
    };
}

/// A scan's result with times of a test's own in the place of those that were taken.
fn scanned(source: &dyn Source, options: &ScanOptions) -> Result<ScanResult, ScanError> {
    let (stop, progress) = (AtomicBool::new(false), ScanProgress::default());
    let mut result = zmeld_scan::scan(source, options, &stop, &progress)?;
    for (at, codec) in (1..).zip(&mut result.codecs) {
        steady(&mut codec.times, at, codec.pages_measured > 0);
    }
    assert!(result.seconds > 0.0 && result.fingerprint_ns > 1);
    result.seconds = 1.5;
    result.fingerprint_ns = 700;
    result.machine.processors = 4;
    Ok(result)
}

fn json(result: &ScanResult) -> Values {
    values(&serde_json::to_value(result).unwrap())
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = tag.split_once(&format!("{name}=\""))?;
    Some(rest.split_once('"')?.0)
}

/// The page's headings, what its plots say, and each row of a table, its cells behind their classes;
/// of the rest, whose words the text has, each kind of line once behind how often it comes. How a
/// plot is drawn zmeld-report's tests show.
fn of_page(page: &str) -> String {
    let (mut told, mut others) = (String::new(), Vec::<(String, &str, usize)>::new());
    let (mut is_plot, mut is_row) = (false, false);
    for line in page.lines() {
        let (tag, rest) = line.split_once('>').unwrap_or(("", line));
        let words = rest.split('<').next().unwrap_or_default();
        if ["<h1", "<h2"].contains(&tag) {
            told += &format!("{line}\n");
        } else if is_plot || tag.starts_with("<figure") {
            is_plot = tag != "</figure";
            let said = attribute(tag, "title").unwrap_or(words);
            let is_tick = tag.contains("\"tick") || tag.starts_with("<span");
            if !is_tick && !said.is_empty() {
                told += &format!("  {said}\n");
            }
        } else if is_row || tag.starts_with("<tr") {
            is_row = tag != "</tr";
            let class = attribute(tag, "class").map(|class| format!(" | {class} "));
            told += &(class.unwrap_or_default() + words);
            told += if is_row { "" } else { "\n" };
        } else {
            let mut is_tag = false;
            let tags = line.chars().filter(|c| {
                is_tag = (is_tag || *c == '<') && *c != '>';
                is_tag
            });
            let kind: String = tags.collect();
            match others.iter_mut().find(|(other, ..)| *other == kind) {
                Some((.., count)) => *count += 1,
                None => others.push((kind, line, 1)),
            }
        }
    }
    let rest = others
        .iter()
        .map(|(_, line, count)| format!("{count} {line}\n"));
    told + &rest.collect::<String>()
}

/// The pages of three programs and of twelve small ones.
fn processes() -> Known {
    use RegionKind::{Anonymous, Heap, PrivateFile, Stack};
    let mut known = Known::default();
    let mut heap: Vec<Vec<u8>> = (0..60).map(text).collect();
    heap.extend((0..7).map(|at| filled([0, 0, 0, 0, 7, 7, 9][at])));
    heap.extend([noise(1), noise(2), noise(1)]);
    known.process(100, "web", Heap, heap);
    known.process(100, "web", Anonymous, (0..10).map(text).collect());
    known.process(101, "web", Heap, (5..25).map(text).collect());
    let rows = (0..4200).map(|at| mixed(100 + at % 70));
    known.process(
        200,
        "db",
        PrivateFile,
        rows.chain((0..5).map(text)).collect(),
    );
    known.process(300, "sh", Stack, (300..331).map(text).collect());
    for job in 0..12 {
        let pages = vec![text(400), text(500 + job), filled(0)];
        known.process(400 + job as i32, &format!("job{job}"), Anonymous, pages);
    }
    known
}

fn skip(visit: &mut Visit, reason: SkipReason, processes: u64, regions: u64, pages: u64) {
    let skipped = Skipped {
        processes,
        regions,
        pages,
    };
    visit.skipped.0.insert(reason, skipped);
}

/// Each count with another number, and what a visit may say beside.
fn visit() -> Visit {
    let mut counted = Counted::default();
    counted.anon_present = 4400;
    counted.anon_swapped = 11;
    counted.shmem_present = 120;
    counted.shmem_swapped = 13;
    counted.file_present = 140;
    counted.shared_again = 15;
    counted.zero_mapped = 16;
    counted.ksm = 17;
    counted.huge = 18;
    counted.locked = 19;
    counted.swap_slots = 20;
    counted.padded = 1;
    counted.never_written = 22;
    counted.processes = 16;
    let mut visit = Visit {
        counted,
        notes: vec![
            Note::NoFrameNumbers,
            Note::ProcessesHidden,
            Note::PtraceScope { scope: 1 },
            Note::Held {
                named: vec!["a (1)".to_owned(), "b (2)".to_owned()],
                more: 3,
            },
            Note::SlotsUnattributed { used: 9, found: 8 },
            Note::ZswapInFront,
            Note::ZeroSlotsNotWritten,
            Note::AsItIs { format: "a form" },
        ],
        ..Visit::default()
    };
    skip(&mut visit, SkipReason::Permission, 2, 0, 3000);
    skip(&mut visit, SkipReason::Held, 0, 0, 0);
    use SkipReason::*;
    let others = [
        NotTried,
        Vanished,
        NoAccess,
        KernelPages,
        DeviceMapping,
        HugeTlb,
        KernelThread,
        Myself,
        ReadFailed,
        Touched,
        NotInDump,
        Shrunk,
        TooManyRegions,
    ];
    for (at, reason) in (0..).zip(others) {
        skip(&mut visit, reason, at % 3, at / 3 % 3, at);
    }
    let cold = |resident, cold, delivered| ColdPages {
        resident,
        cold,
        delivered,
    };
    visit.cold = Some(ColdReport {
        coldness: Coldness::PerPage,
        waited: Duration::from_secs(61),
        pages: BTreeMap::from([
            (RegionKind::Heap, cold(100, 40, 30)),
            (RegionKind::Stack, cold(7, 0, 0)),
        ]),
    });
    visit
}

#[test]
fn a_scan_of_processes_is_told_whole() {
    let (_folder, host) = machine("6.1.0-test");
    let known = Known {
        visit: visit(),
        ..processes()
    };
    let mut result = scanned(&known, &options(&host)).unwrap();
    // The way out depends on who asks.
    let privilege = result.advice.iter_mut().find(|it| it.topic == "privilege");
    privilege.unwrap().text.truncate(60);
    result.advice.extend(advice::of_shared_memory(&result));
    let mut values = json(&result);
    values.retain(|(place, _)| !place.ends_with("].text"));
    show("processes.json.txt", &lines(&values));
    let asked = Asked::default();
    let all = Asked {
        shared: true,
        mapped_files: true,
        programs: true,
    };
    let style = Style::plain(100);
    let text = |asked| report::document(&result, asked).to_text(&style);
    let mut told = text(asked);
    told += &difference(&told, &text(all));
    told += &report::codec_table(&result).to_csv();
    told += &report::program_table(&result).to_csv();
    show("processes.txt", &masked(&told));
    let page = report::document(&result, asked).to_html();
    let page = page.split_once("</style>").unwrap().1.replace("><", ">\n<");
    show("processes.page.txt", &of_page(&masked(&page)));
}

/// A sample of the same, and others that say what they are of in other words: each by what it
/// has other than the one before.
#[test]
fn scans_of_parts_are_told_whole() {
    let (_folder, host) = machine("6.1.0-test");
    let (mut told, mut before) = (String::new(), Values::new());
    let mut tell = |title: &str, source: &Known, options: &ScanOptions| {
        writeln!(told, "== {title}").unwrap();
        let found = match scanned(source, options) {
            Ok(found) => found,
            Err(err) => return writeln!(told, "{err}").unwrap(),
        };
        let parts = [
            "pages.",
            "sample.",
            "duplicates.",
            "interrupted",
            "notes",
            "programs[0]",
            "programs[1]",
        ];
        let mut now = json(&found);
        now.retain(|(place, _)| {
            let of_codec = |it: &str| {
                let is_figure = ["bytes", "pages", "size"]
                    .iter()
                    .any(|end| it.ends_with(end));
                is_figure && !it.starts_with("gains") || it.contains("ratio")
            };
            let is_of_codec = place.strip_prefix("codecs[0].").is_some_and(of_codec);
            is_of_codec || parts.iter().any(|part| place.starts_with(part))
        });
        let mut say = |place: String, words: &str| now.push((place, masked(words)));
        let asked = Asked::default();
        let text = report::document(&found, asked).to_text(&Style::plain(100));
        say("text".to_owned(), text.split("\n\n").nth(1).unwrap());
        for (at, advice) in found.advice.iter().enumerate() {
            let place = format!("advice {at}, {:?} {}", advice.kind, advice.topic);
            say(place, &advice.text);
        }
        let visits = source.visits.load(Ordering::Relaxed);
        say("visits".to_owned(), &visits.to_string());
        told += &lines(&changed(&before, &now));
        before = now;
    };
    let whole = options(&host);
    let sample = |sample, interval_max| ScanOptions {
        full: false,
        sample,
        interval_max,
        ..whole.clone()
    };
    tell(
        "all of them are in a sample",
        &processes(),
        &sample(9000, 0.01),
    );
    tell(
        "a sample that is good enough",
        &processes(),
        &sample(40, 1.0),
    );
    tell("a sample that is enlarged", &processes(), &sample(40, 0.01));
    let stream = || Known {
        is_stream: true,
        ..processes()
    };
    tell("a sample of a stream", &stream(), &sample(20, 0.01));
    let few = ScanOptions {
        sample: 20,
        ..whole.clone()
    };
    tell(
        "a stream of which everything was asked for",
        &stream(),
        &few,
    );
    let few = ScanOptions {
        sample: 1,
        ..whole.clone()
    };
    let mut part = Known {
        is_part: true,
        ..processes()
    };
    part.visit.counted.processes = 2;
    tell("some processes", &part, &whole);
    let shared = Known {
        maybe_shared: true,
        ..processes()
    };
    tell("pages that may be shared", &shared, &few);
    let gone = Known {
        gone: 1,
        ..processes()
    };
    tell("pages that are gone when they are compressed", &gone, &few);
    let stopped = Known {
        stops_after: Some(2),
        ..processes()
    };
    tell(
        "a scan that is stopped before its sample began",
        &stopped,
        &few,
    );
    let few = ScanOptions { full: false, ..few };
    tell(
        "a scan that is stopped before its sample began",
        &stopped,
        &few,
    );
    let pages = (0..4000).map(|_| filled(0)).chain((0..3).map(text));
    let zeros = Known::file(pages.collect());
    tell("few pages among many of zeros", &zeros, &few);
    let few = (0..5).map(text).chain([text(0), text(1)]);
    tell("few pages of a file", &Known::file(few.collect()), &whole);
    let noise = Known::file((0..4100).map(|at| noise(at % 20)).collect());
    tell("pages that do not compress", &noise, &whole);
    let cheap = (0..4096).map(|at| text(at % 4096 / 64 * 64)).collect();
    tell(
        "pages that melding makes small",
        &Known::file(cheap),
        &whole,
    );
    tell("zeros", &Known::file(vec![filled(0); 3]), &whole);
    let same = vec![filled(0), filled(3)];
    tell("same-filled pages", &Known::file(same), &whole);
    tell("no page", &Known::file(Vec::new()), &whole);
    for processes in [1, 2] {
        let mut refused = Known::file(Vec::new());
        skip(&mut refused.visit, SkipReason::Permission, processes, 0, 9);
        let said = scanned(&refused, &whole).unwrap_err().to_string();
        writeln!(told, "{}", said.split(';').next().unwrap()).unwrap();
        for is_root in [false, true] {
            let err = ScanError::NotPermitted { processes, is_root };
            writeln!(told, "{err}").unwrap();
        }
    }
    show("parts.txt", &told);
}

/// Advice by what the machine is and what the codecs do.
#[test]
fn advice_is_told_whole() {
    let (_folder, host) = machine("6.1.0-test");
    let known = processes();
    let base = scanned(&known, &options(&host)).unwrap();
    // Of a case, what it says other than the one before.
    let (mut told, mut before) = (String::new(), Values::new());
    let mut tell = |title: &str, change: &dyn Fn(&mut ScanResult)| {
        let mut result = base.clone();
        result.ram_bytes = 1 << 30;
        result.machine.ram_bytes = 16 << 30;
        result.machine.available_bytes = 1 << 30;
        result
            .codecs
            .iter_mut()
            .for_each(|it| it.offered = Some(true));
        change(&mut result);
        let measured = advice::measured(&result);
        result.recommendation = advice::recommendation(&result, &measured, &[]);
        result.recommended = measured.codec().map(str::to_owned);
        writeln!(told, "== {title}").unwrap();
        let advice = advice::advise(&result, &measured).into_iter().enumerate();
        let said = advice.map(|(at, advice)| {
            let place = format!("{at}, {:?} {}", advice.kind, advice.topic);
            (place, advice.text)
        });
        let now = Values::from_iter(said);
        told += &lines(&changed(&before, &now));
        before = now;
    };
    tell("a machine", &|_| ());
    tell("a machine too large for these pages", &|result| {
        result.ram_bytes = 16 << 30;
    });
    let slower = |by: f64| {
        move |result: &mut ScanResult| {
            for codec in &mut result.codecs {
                codec.times.compress_mb_per_s /= by;
                codec.times.decompress_mb_per_s /= by;
            }
        }
    };
    // The third takes 45 % of a core.
    tell("a slow machine", &slower(1.2));
    tell("a slower machine", &slower(1.7));
    tell("one that is too slow for any", &slower(9.0));
    tell("codecs whose speed is not known", &|result| {
        for codec in &mut result.codecs {
            codec.times = CodecTimes::default();
        }
    });
    for ram in [(1 << 30) - 1, 1 << 30] {
        tell("a small machine", &|result| {
            slower(9.0)(result);
            result.ram_bytes = ram;
        });
    }
    tell("a kernel that does not say what it has", &|result| {
        result.codecs.iter_mut().for_each(|it| it.offered = None);
    });
    for (has, factor) in [
        ([true, false, false], 1.0),
        ([true, true, false], 1.0),
        ([true, true, false], 9.0),
    ] {
        tell("a kernel without some codecs", &|result| {
            slower(factor)(result);
            for (codec, has) in result.codecs.iter_mut().zip(has) {
                codec.offered = Some(has);
            }
        });
    }
    for (at, ratio, by) in [(1, 2.5, 1.0), (2, 2.5, 1.0), (2, 1.9, 1.0), (2, 2.5, 1.2)] {
        tell(
            &format!("codec {at} is not there and reaches {ratio}"),
            &|result| {
                slower(by)(result);
                result.codecs[at].offered = Some(false);
                result.codecs[at].effective_ratio = ratio;
            },
        );
    }
    tell("codec 2 is zword, and no module can be loaded", &|result| {
        slower(1.0)(result);
        result.codecs[2].offered = Some(false);
        result.codecs[2].effective_ratio = 2.5;
        result.machine.zmeld = ModulePresence::Impossible;
    });
    tell("a kernel without any of them", &|result| {
        result
            .codecs
            .iter_mut()
            .for_each(|it| it.offered = Some(false));
    });
    tell("no codec", &|result| result.codecs.clear());
    for effective in [1.1, 1.12] {
        tell("codecs that save a tenth or less", &|result| {
            result
                .codecs
                .iter_mut()
                .for_each(|it| it.effective_ratio = effective);
        });
    }
    for ram in [1 << 30, 16 << 30] {
        tell("only a codec that is not there saves more", &|result| {
            result.ram_bytes = ram;
            result
                .codecs
                .iter_mut()
                .for_each(|it| it.effective_ratio = 1.1);
            result.codecs[1].offered = Some(false);
            result.codecs[1].effective_ratio = 1.8;
        });
    }
    tell("pages of which none was measured", &|result| {
        result
            .codecs
            .iter_mut()
            .for_each(|it| it.pages_measured = 0);
    });
    for zmeld in [
        ModulePresence::Ready,
        ModulePresence::Module,
        ModulePresence::Absent,
        ModulePresence::Impossible,
        ModulePresence::Unknown,
    ] {
        tell(&format!("melding with {zmeld:?}"), &|result| {
            result.machine.zmeld = zmeld
        });
    }
    // Of 10,000,000 bytes; 5 % of them, and of the memory that is scanned 1 %.
    for (compressed, melded) in [
        (10_000_000, 9_500_000),
        (10_000_000, 9_500_001),
        (10_000_000, 10_000_000),
        (10_000_000, 11_000_000),
        (280_000, 100_000),
        (278_000, 100_000),
    ] {
        tell(&format!("{compressed} bytes, melded {melded}"), &|result| {
            for codec in &mut result.codecs {
                codec.memory_at_scale_bytes = compressed;
                codec.melded_memory_at_scale_bytes = melded;
            }
        });
    }
    for saved in [102_399, 102_400] {
        tell(
            &format!("melding saves {saved} of 10,240,000 bytes"),
            &|result| {
                result.pages.total = 2500;
                for codec in &mut result.codecs {
                    codec.memory_at_scale_bytes = 200_000 + saved;
                    codec.melded_memory_at_scale_bytes = 200_000;
                }
            },
        );
    }
    for (zero, credited) in [(43, false), (45, false), (45, true)] {
        tell(&format!("{zero} pages of zeros, {credited}"), &|result| {
            result.pages.zero = zero;
            result.zero_pages_credited = credited;
        });
    }
    for pages in [4095, 4096] {
        tell(&format!("{pages} pages"), &|result| {
            (result.pages.unique, result.pages.duplicate) = (pages, 0);
        });
    }
    for (available, used, processes) in [(8, 0, 1), (7, 0, 1), (8, 1, 1), (8, 0, 0)] {
        tell("how much is available", &|result| {
            result.machine.available_bytes = available << 30;
            result.machine.swaps[0].used_bytes = used;
            result.memory.processes = processes;
        });
    }
    for (left_out, total) in [(10, 1000), (11, 1000)] {
        let mut result = base.clone();
        result.memory.shmem_present = left_out;
        result.pages.total = total;
        let said = advice::of_shared_memory(&result).map(|it| it.text);
        writeln!(told, "shared {said:?}").unwrap();
    }
    show("advice.txt", &told);
}

/// From Linux 6.12 on pages of zeros never reach a device.
#[test]
fn zeros_count_where_the_kernel_hands_them_on() {
    let mut told = String::new();
    for kernel in ["6.2.99", "6.11.0", "6.12.0"] {
        let (_folder, host) = machine(kernel);
        let zeros = Known::file(vec![filled(0), filled(0), text(1)]);
        let result = scanned(&zeros, &options(&host)).unwrap();
        let (gain, is_old) = (&result.codecs[0].gains, result.pool_chain == 4);
        let ratio = result.codecs[0].effective_ratio;
        let given = (ratio * result.codecs[0].memory_at_scale_bytes as f64 / 4096.0).round();
        writeln!(
            told,
            "{kernel}: {is_old}, {} {given} {}",
            result.zero_pages_credited,
            gain.len()
        )
        .unwrap();
    }
    assert_eq!(
        told,
        "6.2.99: true, true 3 4\n6.11.0: false, true 3 4\n6.12.0: false, false 1 4\n"
    );
}

#[test]
fn codecs_are_measured_page_by_page() {
    let pages = (0..20).map(text).chain([noise(1), noise(2), mixed(3)]);
    let pages = pages
        .chain([filled(0), filled(0), filled(4)])
        .collect::<Vec<_>>()
        .concat();
    let specs = ["lz4", "zstd", "zword"].map(|it| it.parse().unwrap());
    let candidates = Candidate::open_all(&specs).unwrap();
    let pool = PoolModel::of_kernel(KernelVersion::new(6, 1), None, PAGE as u32);
    let mut told = String::new();
    for is_stopped in [false, true] {
        let (stop, progress) = (AtomicBool::new(is_stopped), ScanProgress::default());
        let geometry = &pool.geometry;
        let reports = zmeld_scan::measure_pages(&pages, &candidates, geometry, &stop, &progress);
        let mut reports = reports.unwrap();
        for (at, report) in (1..).zip(&mut reports) {
            steady(&mut report.times, at, !is_stopped);
        }
        told += &lines(&values(&serde_json::to_value(&reports).unwrap()));
        let (phase, done) = (progress.phase(), progress.done());
        writeln!(told, "{phase} {done} of {:?}", progress.expected()).unwrap();
    }
    show("codecs.txt", &told);
}
