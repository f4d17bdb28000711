//! `zmeld-guard`: the guard as a service. It reads `[watch.guard]` of the configuration,
//! looks until it is told to end, and says a line on standard error for each thing that it
//! does.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use zmeld_guard::rule::Wanted;
use zmeld_guard::{outlook, Guard, GuardEvent, Rule};
use zmeld_linux::Host;

const HELP: &str = "\
Usage: zmeld-guard [--dry-run] [--config FILE]

Ends what [watch.guard] of /etc/zmeld.toml names before the machine stands still, and tells
zmeld watch to make room before that; see docs/status.md. SIGTERM ends it.

  --dry-run      only say what would be ended, and why
  --config FILE  this file in place of /etc/zmeld.toml and its drop-ins
  --version      print the version";

/// No more groups are named when it begins.
const GROUPS_SHOWN: usize = 10;

fn main() -> ExitCode {
    let (mut dry_run, mut file) = (false, None);
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--dry-run") => dry_run = true,
            Some("--config") => file = arguments.next().map(PathBuf::from),
            Some("--help" | "-h") => return said(HELP),
            Some("--version") => return said(concat!("zmeld-guard ", env!("CARGO_PKG_VERSION"))),
            _ => {
                log(&format!("there is no argument {argument:?}; see --help"));
                return ExitCode::from(2);
            }
        }
    }
    match run(dry_run, file) {
        Ok(code) => code,
        Err(err) => {
            log(&err.to_string());
            ExitCode::from(2)
        }
    }
}

fn said(text: &str) -> ExitCode {
    // A closed pipe is no failure.
    let _ = writeln!(std::io::stdout(), "{text}");
    ExitCode::SUCCESS
}

fn run(dry_run: bool, file: Option<PathBuf>) -> Result<ExitCode, zmeld_guard::Error> {
    let host = Host::here();
    let wanted = Wanted::load(host.root(), file.as_deref())?;
    let Some(rule) = wanted.rule else {
        log("there is nothing to guard: write [watch.guard] into /etc/zmeld.toml");
        return Ok(ExitCode::SUCCESS);
    };
    // Behind the first event, by the thread that may wait for who reads it.
    let mut begins = Some(outlook_of(&host, &rule));
    let say = move |event: GuardEvent| {
        let text = begins.take().into_iter().chain([event.to_string()]);
        text.filter(|it| !it.is_empty()).for_each(|it| log(&it));
    };
    let guard = Guard::start(host, rule, dry_run || wanted.dry_run, say)?;
    ready();
    while !guard.has_stopped() {
        std::thread::sleep(Duration::from_secs(1));
    }
    log("the guard stopped by itself: this is a fault of zmeld, please report it");
    Ok(ExitCode::FAILURE)
}

/// What it follows.
fn outlook_of(host: &Host, rule: &Rule) -> String {
    let groups = outlook(host, rule).map_or_else(Vec::new, |found| found.groups);
    let named: Vec<_> = groups.iter().take(GROUPS_SHOWN).cloned().collect();
    let more = match groups.len().saturating_sub(GROUPS_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match named.is_empty() {
        true => "it follows this machine's memory, and ends nothing".to_owned(),
        false => format!(
            "it follows this machine's memory, and may end: {}{more}",
            named.join(", ")
        ),
    }
}

/// A line on standard error, as the journal likes it.
fn log(text: &str) {
    let text = zmeld_linux::text::made_text(text.as_bytes()).replace('\n', " ");
    // Nobody may read it.
    let _ = writeln!(std::io::stderr(), "zmeld-guard: {text}");
}

/// Tells systemd that it looks, where that started it.
fn ready() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let path = path.to_string_lossy();
    let address = match path.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&*path),
    };
    // A service manager that does not listen is no reason to stop.
    if let (Ok(socket), Ok(address)) = (UnixDatagram::unbound(), address) {
        let _ = socket.send_to_addr(b"READY=1", &address);
    }
}
