//! Measurements for a plan: which codec does best on this machine's memory, and how fast swap is
//! against the file system.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use rustix::param::page_size;
use zmeld_config::advice::machine::Machine;
use zmeld_config::advice::tunables::MeasuredReads;
use zmeld_config::advice::CodecVerdict;
use zmeld_config::{Codec, Config, Kind, Swappiness, Tier};
use zmeld_linux::Host;
use zmeld_scan::kernel::PoolModel;
use zmeld_scan::memory::{LiveMemory, LiveOptions, Selection};
use zmeld_scan::{measure_pages, Candidate, ScanProgress};
use zmeld_store::CodecSpec;
use zmeld_swap::setup::journal::State;

use super::random_read::{pages_per_second, root_device};
use crate::exit::{self, Outcome, Stopped};
use crate::{apart, output, progress};

/// A plan does not wait longer for a scan; what was read until then counts.
const SCAN_TIME: Duration = Duration::from_secs(10);

/// Codecs measured where the kernel does not name its own.
pub const USUAL: [&str; 3] = ["lzo-rle", "lz4", "zstd"];

/// How many pages of this program a codec is timed on.
const TIMED_PAGES: usize = 512;

/// A codec without its dictionary, which only the kernel's has.
fn measured_as(codec: &Codec) -> String {
    let codec = Codec {
        dict: None,
        ..codec.clone()
    };
    codec.to_string()
}

/// Arguments of the measuring process.
#[derive(Args)]
pub struct MeasureArgs {
    /// The one codec is what was asked for, and no proposal
    #[arg(long)]
    asked: bool,
    /// Names of codecs
    #[arg(required = true)]
    codecs: Vec<CodecSpec>,
}

/// Scans the memory of all processes with the codecs that the kernel has, in a process apart.
/// A machine is set up without where that fails.
pub fn measured(codec: Option<&Codec>, machine: &Machine) -> anyhow::Result<CodecVerdict> {
    let names: Vec<String> = match codec {
        Some(codec) => vec![measured_as(codec)],
        None if machine.zram.codecs.is_empty() => USUAL.map(str::to_owned).to_vec(),
        // lz4hc and deflate take longer than a swapped page should.
        None => USUAL
            .iter()
            .filter(|name| machine.zram.codecs.iter().any(|it| it == *name))
            .map(|name| (*name).to_owned())
            .collect(),
    };
    let mut words = vec!["measure".to_owned()];
    words.extend(codec.map(|_| "--asked".to_owned()));
    let before = words.len();
    let is_known = |name: &String| name.parse::<CodecSpec>().is_ok();
    words.extend(names.into_iter().filter(is_known));
    if words.len() == before {
        return Ok(CodecVerdict::Not);
    }
    let why = match apart::answer(&words) {
        Ok(Ok(said)) => match serde_json::from_str(&said) {
            Ok(verdict) => return Ok(verdict),
            Err(err) => err.to_string(),
        },
        Ok(Err(exit::INTERRUPTED)) => {
            return Err(Stopped("before there was a plan".to_owned()).into());
        }
        Ok(Err(code)) => format!("it ended with {code}"),
        Err(err) => err.to_string(),
    };
    output::say(format!(
        "memory is not measured ({why}); the codec is chosen without"
    ));
    Ok(CodecVerdict::Not)
}

/// The verdict as JSON, for [`measured`].
pub fn measure(args: &MeasureArgs) -> anyhow::Result<Outcome> {
    let Some(verdict) = scanned(args)? else {
        return Ok(Outcome::Interrupted);
    };
    output::print(&serde_json::to_string(&verdict)?)?;
    Ok(Outcome::Done)
}

/// None where it was interrupted.
fn scanned(args: &MeasureArgs) -> anyhow::Result<Option<CodecVerdict>> {
    let Ok(live) = LiveMemory::open(LiveOptions::new(Selection::All)) else {
        return Ok(Some(CodecVerdict::Not));
    };
    let options = zmeld_scan::ScanOptions::new(Candidate::open_all(&args.codecs)?);
    let interrupted = progress::interrupt_flag();
    let stop = AtomicBool::new(false);
    let done = ScanProgress::default();
    let begin = Instant::now();
    let names = ["scanning memory", "sampling more"];
    let scan = || zmeld_scan::scan(&live, &options, &stop, &done);
    let shown = || progress::show(&names, &done, page_size() as u64, scan);
    let result = progress::beside(shown, || {
        let late = begin.elapsed() > SCAN_TIME;
        if late || interrupted.load(Ordering::Relaxed) {
            stop.store(true, Ordering::Relaxed);
        }
    });
    if interrupted.load(Ordering::Relaxed) {
        return Ok(None);
    }
    // An ordinary user who may read nothing gets a plan without a measurement.
    let Ok(result) = result else {
        return Ok(Some(CodecVerdict::Not));
    };
    let measured = zmeld_scan::advice::measured(&result);
    Ok(Some(match (measured, args.asked, result.codecs.first()) {
        // A codec that was asked for is taken, if it saves next to nothing too.
        (
            CodecVerdict::NothingToGain(_) | CodecVerdict::FewHardlyCompress { .. },
            true,
            Some(it),
        ) => CodecVerdict::Codec {
            name: it.codec.clone(),
            ratio: zmeld_config::advice::size::rounded(it.effective_ratio),
            bytes: result.pages.compressible() * result.page_size,
        },
        (measured, _, _) => measured,
    }))
}

/// Random reads of swap against the file system, where the configuration wants
/// swappiness measured and it was not before.
pub fn swappiness(
    host: &Host,
    config: &Config,
    state: Option<&State>,
) -> anyhow::Result<Option<MeasuredReads>> {
    let auto = |config: &Config| config.tunables.swappiness == Some(Swappiness::Auto);
    if !auto(config) || state.is_some_and(|it| auto(&it.config) && it.config.tiers == config.tiers)
    {
        return Ok(None);
    }
    // The drive under the root directory; where that cannot be read, this
    // program's file on it, which is smaller but as good as random.
    let drive = root_device(host)?.map(|drive| pages_per_second(host, &drive));
    let files_pages_per_s = match drive {
        Some(Ok(rate)) => rate,
        _ => match pages_per_second(&Host::here(), &std::env::current_exe()?) {
            Ok(rate) => rate,
            Err(_) => return Ok(None),
        },
    };
    let Some(Tier { kind, .. }) = config.tiers.first() else {
        return Ok(None);
    };
    let swap_pages_per_s = match kind.place().filter(|_| kind.is_on_disk()) {
        None => decompressed(kind)?,
        Some(place) if place.device.is_some() => {
            pages_per_second(host, &place.path).unwrap_or(files_pages_per_s)
        }
        // In the file system it is as fast as the file system.
        Some(_) => files_pages_per_s,
    };
    Ok(Some(MeasuredReads {
        swap_pages_per_s,
        files_pages_per_s,
    }))
}

/// Pages a second that one processor decompresses with that tier's codec, measured on the pages of
/// this program.
fn decompressed(kind: &Kind) -> anyhow::Result<f64> {
    let codec = match kind {
        Kind::Ram(device) => device.codec.first().cloned(),
        Kind::Zswap(zswap) => zswap.compressor.as_deref().map(Codec::new),
        Kind::Disk(_) => None,
    };
    let name = codec
        .as_ref()
        .map_or_else(|| USUAL[0].to_owned(), measured_as);
    let spec: CodecSpec = match name.parse() {
        Ok(spec) => spec,
        // One that only the kernel has: the default stands in.
        Err(_) => USUAL[0].parse()?,
    };
    let mut pages = std::fs::read(std::env::current_exe()?)?;
    pages.truncate((pages.len() / page_size()).min(TIMED_PAGES) * page_size());
    let pool = PoolModel::running(
        &std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default(),
        page_size() as u32,
    );
    let stop = AtomicBool::new(false);
    let reports = measure_pages(
        &pages,
        &[Candidate::open(&spec)?],
        &pool.geometry,
        &stop,
        &ScanProgress::default(),
    )?;
    let rate = reports
        .first()
        .map_or(0.0, |report| report.times.decompress_mb_per_s);
    Ok(rate * 1e6 / page_size() as f64)
}
