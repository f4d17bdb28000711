//! Exit codes, and which error is which.

use std::io;
use std::process::ExitCode;

use zmeld_memory::ErrorKind;
use zmeld_scan::ScanError;

/// How a command that ran to its end came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Done,
    /// Done, and a threshold that was asked for was missed.
    Missed,
    /// Stopped by Ctrl-C; the result so far was printed.
    Interrupted,
}

/// The text of `--help` and of the man page about exit codes.
pub const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    done, and a threshold that was asked for (--require-...) was missed
  2    wrong use, or input that is wrong or cannot be read
  3    a privilege or a kernel feature is missing
  4    integrity failure: bytes did not come back as they were
  130  stopped by Ctrl-C; the result so far was printed";

const WRONG: u8 = 2;
const MISSING: u8 = 3;
const INTEGRITY: u8 = 4;

/// Prints the error, if it is one, in one line, and picks the exit code.
pub fn conclude(result: anyhow::Result<Outcome>) -> ExitCode {
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Missed) => ExitCode::from(1),
        Ok(Outcome::Interrupted) => ExitCode::from(130),
        // Whoever read our output has seen enough.
        Err(err) if is_closed_pipe(&err) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("zmeld: {}", one_line(&err));
            ExitCode::from(code(&err))
        }
    }
}

fn one_line(err: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in err.chain() {
        let cause = cause.to_string();
        // Errors that quote their cause already are not quoted again.
        if text.contains(&cause) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause);
    }
    zmeld_report::text::inert(&text.replace('\n', " ")).into_owned()
}

fn is_closed_pipe(err: &anyhow::Error) -> bool {
    err.chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

fn code(err: &anyhow::Error) -> u8 {
    for cause in err.chain() {
        if let Some(err) = cause.downcast_ref::<ScanError>() {
            match err {
                ScanError::Integrity { .. } => return INTEGRITY,
                ScanError::Source(err) => return source_code(err),
                _ => return WRONG,
            }
        }
        if let Some(err) = cause.downcast_ref::<zmeld_memory::Error>() {
            return source_code(err);
        }
        if let Some(err) = cause.downcast_ref::<crate::commands::numa::Error>() {
            return err.code();
        }
    }
    WRONG
}

fn source_code(err: &zmeld_memory::Error) -> u8 {
    match err.kind() {
        ErrorKind::Missing => MISSING,
        ErrorKind::Input | ErrorKind::System => WRONG,
    }
}
