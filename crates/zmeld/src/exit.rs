//! Exit codes, and which error is which.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use zmeld_scan::ScanError;

use crate::output;

/// How a command that ran to its end came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// Done, and a threshold that was asked for was missed.
    Missed,
    /// Said what is wrong, or what the run itself would be refused for.
    Refused,
    /// Stopped by Ctrl-C or SIGTERM; the result so far was printed.
    Interrupted,
}

/// The line of `--help` about exit codes.
pub const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 a threshold missed or a warning of config check, 2 wrong
or refused, 3 no privilege or kernel feature, 4 integrity failure, 75 try
later, 130 stopped; see man zmeld.";

/// The table of the man page in its place.
pub const EXIT_TABLE: &str = "\
Exit codes:
  0    done
  1    done, but a threshold that was asked for (--require-..., --check) was
       missed, or config check found a warning
  2    wrong use, or input that is wrong or cannot be read; or it cannot be
       done now: pages do not fit back, another run holds the lock; or a plan
       that zmeld up would refuse
  3    a privilege or a kernel feature is missing
  4    integrity failure: bytes did not come back as they were
  75   memory is short, so scan --survey gave up: only that is written
  130  stopped by Ctrl-C or SIGTERM; the result so far was printed";

/// Ctrl-C came before there was a result.
#[derive(Debug, thiserror::Error)]
#[error("stopped {0}")]
pub struct Stopped(pub String);

const WRONG: u8 = 2;
const MISSING: u8 = 3;
const INTEGRITY: u8 = 4;
/// Try again later: `EX_TEMPFAIL` of sysexits.h.
const LATER: u8 = 75;
pub const INTERRUPTED: u8 = 130;

/// Prints the error, if it is one, in one line, and picks the exit code.
pub fn conclude(result: anyhow::Result<Outcome>) -> ExitCode {
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Missed) => ExitCode::from(1),
        Ok(Outcome::Refused) => ExitCode::from(WRONG),
        Ok(Outcome::Interrupted) => ExitCode::from(INTERRUPTED),
        Err(err) => {
            output::say(one_line(&err, is_root()));
            ExitCode::from(code(&err))
        }
    }
}

/// Help goes to standard output; what clap refuses goes to standard error, in
/// one line as every other error.
pub fn refuse(err: &clap::Error, whole: clap::Command, arguments: &[OsString]) -> ExitCode {
    use clap::error::ErrorKind::{
        DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion,
    };
    match err.kind() {
        DisplayHelp | DisplayVersion | DisplayHelpOnMissingArgumentOrSubcommand => {
            let code = u8::try_from(err.exit_code()).unwrap_or(WRONG);
            match err.print() {
                // Standard output that is full is an error; one that is closed is not.
                Err(err) if err.kind() != io::ErrorKind::BrokenPipe && code == 0 => {
                    output::say(format_args!(
                        "cannot write to standard output: {}",
                        plain(&err.to_string())
                    ));
                    ExitCode::from(WRONG)
                }
                _ => ExitCode::from(code),
            }
        }
        _ => {
            let help = help_of(whole, arguments);
            let mut said = usage_line(&err.render().to_string(), &help);
            let has_pid = arguments.iter().any(|it| it == "--pid");
            if let (Some(pid @ 1..), "zmeld scan --help", false) = (number(err), &*help, has_pid) {
                said += &format!("; a process: --pid {pid}");
            }
            let wanted = err.get(clap::error::ContextKind::InvalidArg);
            let wanted = wanted.map(ToString::to_string).unwrap_or_default();
            said += match (&*wanted, &*help) {
                ("--profile", "zmeld up --help") => "; zmeld enable takes --profile",
                ("--replications", "zmeld numa run --help") => {
                    "; zmeld numa compare takes --replications"
                }
                _ => "",
            };
            output::say(said);
            ExitCode::from(WRONG)
        }
    }
}

/// The number that stands where no argument is taken.
fn number(err: &clap::Error) -> Option<u32> {
    match err.get(clap::error::ContextKind::InvalidArg)? {
        clap::error::ContextValue::String(argument) => argument.parse().ok(),
        _ => None,
    }
}

/// Joins clap's paragraphs in one line: the complaint, the tip if there is one, and where to read
/// more.
fn usage_line(rendered: &str, help: &str) -> String {
    let mut said = String::new();
    let is_said =
        |line: &&str| !line.starts_with("Usage: ") && !line.starts_with("For more information");
    let lines = rendered.lines().map(str::trim).take_while(is_said);
    for line in lines.filter(|line| !line.is_empty()) {
        if !said.is_empty() {
            let is_new = line.starts_with("tip: ") && !said.ends_with([':', ';', '.']);
            said.push_str(if is_new { "; " } else { " " });
        }
        said.push_str(line.strip_prefix("error: ").unwrap_or(line));
    }
    for (theirs, ours) in WORDS {
        said = said.replace(theirs, ours);
    }
    format!("{said} (see {help})")
}

/// Words of clap and of the standard library, and plain ones.
const WORDS: [(&str, &str); 5] = [
    (
        ": <RECIPE>",
        ": <RECIPE>, of which zmeld bench list has some",
    ),
    (
        "invalid digit found in string",
        "not a whole number from 0 on",
    ),
    (
        "cannot parse integer from empty string",
        "not a whole number from 0 on",
    ),
    ("number too large to fit in target type", "too large"),
    ("number too small to fit in target type", "too small"),
];

/// The help of the command that the arguments name, as far as they name one.
fn help_of(mut command: clap::Command, arguments: &[OsString]) -> String {
    let mut named = "zmeld".to_owned();
    for argument in arguments.iter().skip(1).filter_map(|it| it.to_str()) {
        if let Some(found) = command.find_subcommand(argument) {
            named = format!("{named} {}", found.get_name());
            command = found.clone();
        }
    }
    format!("{named} --help")
}

/// A cause without the number that the standard library appends: the words say it.
fn plain(cause: &str) -> &str {
    cause
        .split_once(" (os error ")
        .map_or(cause, |(words, _)| words)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn one_line(err: &anyhow::Error, is_root: bool) -> String {
    let mut text = String::new();
    for cause in err.chain() {
        let cause = cause.to_string();
        let cause = plain(&cause);
        // Errors that quote their cause already are not quoted again.
        if text.contains(cause) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(cause);
    }
    // An error that says itself who may do it holds no refusal by the system.
    if is_refused(err) && !is_root {
        text.push_str("; run it as root");
    }
    text.replace('\n', " ")
}

/// The system refused it to this user.
fn is_refused(err: &anyhow::Error) -> bool {
    err.chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::PermissionDenied)
}

fn code(err: &anyhow::Error) -> u8 {
    for cause in err.chain() {
        if cause.is::<Stopped>() {
            return INTERRUPTED;
        }
        if let Some(err) = cause.downcast_ref::<ScanError>() {
            return scan_code(err);
        }
        if let Some(err) = cause.downcast_ref::<zmeld_scan::survey::Error>() {
            return survey_code(err);
        }
        if let Some(err) = cause.downcast_ref::<zmeld_scan::memory::Error>() {
            return missing_or_wrong(err.is_missing());
        }
        if let Some(err) = cause.downcast_ref::<zmeld_swap::setup::Error>() {
            return swap_code(err);
        }
        if let Some(err) = cause.downcast_ref::<zmeld_swap::watch::Error>() {
            return missing_or_wrong(err.is_missing());
        }
        if let Some(err) = cause.downcast_ref::<zmeld_lab::Error>() {
            return lab_code(err);
        }
    }
    WRONG
}

fn scan_code(err: &ScanError) -> u8 {
    match err {
        ScanError::Integrity { .. } => INTEGRITY,
        ScanError::Source(err) => missing_or_wrong(err.is_missing()),
        ScanError::NotPermitted { .. } => MISSING,
        _ => WRONG,
    }
}

fn survey_code(err: &zmeld_scan::survey::Error) -> u8 {
    use zmeld_scan::survey::Error;
    match err {
        Error::Pressure { .. } => LATER,
        Error::NotPermitted { .. } | Error::HiddenMachine => MISSING,
        Error::Interrupted => INTERRUPTED,
        Error::Scan(err) => scan_code(err),
        Error::Memory(err) => missing_or_wrong(err.is_missing()),
        _ => WRONG,
    }
}

fn swap_code(err: &zmeld_swap::setup::Error) -> u8 {
    match err.kind() {
        zmeld_swap::setup::ErrorKind::Input => WRONG,
        zmeld_swap::setup::ErrorKind::Missing => MISSING,
        zmeld_swap::setup::ErrorKind::Interrupted => INTERRUPTED,
    }
}

fn lab_code(err: &zmeld_lab::Error) -> u8 {
    use zmeld_lab::Error;
    match err {
        err if err.is_missing() => MISSING,
        Error::Integrity(_) => INTEGRITY,
        Error::Swap(err) => swap_code(err),
        _ => WRONG,
    }
}

fn missing_or_wrong(is_missing: bool) -> u8 {
    match is_missing {
        true => MISSING,
        false => WRONG,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_is_no_mistake() {
        let err = anyhow::Error::new(Stopped("before there was a plan".to_owned()));
        assert_eq!(code(&err), INTERRUPTED);
        assert_eq!(one_line(&err, false), "stopped before there was a plan");
    }

    #[test]
    fn causes_are_said_once_and_without_numbers() {
        let cause = io::Error::from_raw_os_error(2);
        let err = anyhow::Error::new(cause).context("cannot open it");
        assert_eq!(
            one_line(&err, false),
            "cannot open it: No such file or directory"
        );
        let cause = io::Error::from_raw_os_error(13);
        let err = anyhow::Error::new(zmeld_swap::setup::Error::io("read", "/root/x", cause));
        let said = "cannot read /root/x: Permission denied";
        assert_eq!(one_line(&err, true), said);
        assert_eq!(one_line(&err, false), format!("{said}; run it as root"));
        // Root cannot mend this either.
        let err = anyhow::Error::new(zmeld_swap::setup::Error::NoCodec {
            codec: "842".to_owned(),
            there: "lz4".to_owned(),
        });
        assert_eq!(code(&err), MISSING);
        assert_eq!(
            one_line(&err, false),
            "the kernel has no codec 842: it has lz4"
        );
        let cause = io::Error::other("said");
        let err = anyhow::Error::new(cause).context("already said");
        assert_eq!(one_line(&err, true), "already said");
    }

    #[test]
    fn a_pipe_that_breaks_somewhere_is_an_error_like_any_other() {
        let cause = io::Error::from(io::ErrorKind::BrokenPipe);
        let err = anyhow::Error::new(cause).context("cannot read the supervisor's report");
        assert_eq!(code(&err), WRONG);
        assert_ne!(conclude(Err(err)), ExitCode::SUCCESS);
    }
}
