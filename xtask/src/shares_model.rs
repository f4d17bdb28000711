//! The model of shares, checked by spin: it holds in all interleavings, and each error
//! of order that is put into it is found.

use std::path::Path;
use std::process::Command;

use anyhow::{bail, Result};

use crate::c_build;
use crate::process::Log;
use crate::step::Tally;
use crate::tools;
use crate::workspace;

pub const STEP: &str = "shares-model";

/// The errors of order that the model has, from 1 on.
const FAULTS: u32 = 6;

pub fn test(log: &Log) -> Result<Tally> {
    tools::need(&["spin"])?;
    let folder = workspace::work_folder(STEP)?;
    let mut tally = Tally::default();
    for fault in 0..=FAULTS {
        let errors = errors(log, &folder, fault)?;
        let why = match fault {
            0 => "the protocol is broken in some interleaving, see the log",
            _ => "an error of order is not found",
        };
        let name = format!("{STEP} with FAULT={fault}");
        tally.add(Tally::of(&name, errors == (fault > 0), why));
    }
    Ok(tally)
}

/// Whether the model with that error breaks one of its assertions, or stops.
fn errors(log: &Log, folder: &Path, fault: u32) -> Result<bool> {
    let mut generate = Command::new("spin");
    generate.current_dir(folder).arg(format!("-DFAULT={fault}"));
    generate
        .arg("-a")
        .arg(c_build::tests_folder().join("model/shares.pml"));
    let mut compile = Command::new(tools::c_compiler());
    compile.current_dir(folder);
    compile.args(["-O2", "-w", "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c"]);
    for command in [&mut generate, &mut compile] {
        log.must(command)?;
    }
    let mut check = Command::new(folder.join("pan"));
    let ran = log.run(check.current_dir(folder).arg("-m100000"))?;
    errors_told(&ran.text)
}

/// What spin's checker said in the end. A search that did not see all is none.
fn errors_told(text: &str) -> Result<bool> {
    let errors = text
        .lines()
        .find_map(|line| line.rsplit_once("errors: ")?.1.trim().parse::<u64>().ok());
    match errors {
        Some(0) if text.contains("max search depth too small") => {
            bail!("the model is deeper than was searched")
        }
        Some(count) => Ok(count > 0),
        None => bail!("spin's checker did not come to an end"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_checker_says_is_read() {
        let end = "State-vector 72 byte, depth reached 137, errors: ";
        assert!(!errors_told(&format!("{end}0\n")).unwrap());
        assert!(errors_told(&format!("pan:1: assertion violated\n{end}1\n")).unwrap());
        assert!(errors_told(&format!("error: max search depth too small\n{end}0\n")).is_err());
        assert!(errors_told("pan: out of memory\n").is_err());
    }
}
