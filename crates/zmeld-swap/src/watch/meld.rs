//! `[watch.meld]`, and a melding pass on a zmeld device: starting it, stopping it, what came
//! of it.
//!
//! The kernel runs the pass in the context of whoever asks for it: [`run`] returns
//! when it is over. [`stop`], from another thread, ends it early; the device is
//! consistent at any time, since a page is either melded or not.

use zmeld_config::advice::module::ModulePresence;
use zmeld_report::units::{bytes, count, percent};

use crate::observe::{Device, Melding};
use crate::watch::action::ActionResult;
use crate::watch::error::Error;
use crate::watch::rule::{Plan, WatchRule};
use rustix::io::Errno;
use zmeld_config::advice::machine::Machine;
use zmeld_config::MeldRule;
use zmeld_linux::compressed::is_on;
use zmeld_linux::{Host, HostError};

/// The name of the device that a user means: `/dev/zmeld0`, `zmeld0`, or the only
/// one that melds.
///
/// # Errors
/// When it does not exist, cannot meld, or is not set up.
pub fn choose(host: &Host, wanted: Option<&str>) -> Result<String, Error> {
    let at = |name: &str, attribute: &str| format!("/sys/block/{name}/{attribute}");
    let Some(wanted) = wanted else {
        let mut names = host.list("/sys/block")?;
        names.retain(|name| host.exists(at(name, "meld_stat")));
        names.retain(|name| host.read(at(name, "initstate")).is_ok_and(|it| is_on(&it)));
        return match names.len() {
            0 => Err(Error::Missing(format!(
                "there is no device that melds. {}",
                melders(host)
            ))),
            1 => Ok(names.remove(0)),
            _ => Err(Error::Refused(format!(
                "several devices meld: name one of {}",
                names.join(", ")
            ))),
        };
    };
    let name = wanted.strip_prefix("/dev/").unwrap_or(wanted);
    if name.contains('/') || !host.exists(at(name, "mm_stat")) {
        return Err(Error::Refused(format!(
            "there is no compressed device {wanted}; zmeld status lists those that there are"
        )));
    }
    if !host.exists(at(name, "meld_stat")) {
        return Err(Error::Missing(format!(
            "{name} is a plain zram device, and the kernel's zram cannot meld pages. {}",
            melders(host)
        )));
    }
    if !is_on(&host.read(at(name, "initstate"))?) {
        return Err(Error::Refused(format!(
            "{name} is not set up: it has no disksize, so there is nothing to meld"
        )));
    }
    Ok(name.to_owned())
}

/// The melders of this machine, in a sentence without its full stop.
fn melders(host: &Host) -> String {
    let zmeld =
        Machine::read(host).map_or(ModulePresence::Unknown, |machine| machine.zmeld.presence);
    let ksm = host.read_optional("/sys/kernel/mm/ksm/run").ok().flatten();
    let melders = zmeld_config::advice::meld::melders(zmeld, ksm.map(|text| is_on(&text)));
    melders.trim_end_matches('.').to_owned()
}

/// Runs a pass to its end, or until [`stop`]; what the device says of it then. `request` is what
/// is written to its `meld`.
///
/// # Errors
/// When the device is busy or the kernel refuses.
pub fn run(host: &Host, name: &str, request: &str) -> Result<Melding, Error> {
    if Melding::read(host, name)?.mode == "off" {
        return Err(Error::Refused(format!(
            "melding is off on {name}: switch it on with echo manual > \
             /sys/block/{name}/meld_mode; pages written from then on can be melded"
        )));
    }
    match host.write(format!("/sys/block/{name}/meld"), request) {
        Ok(()) => Ok(Melding::read(host, name)?),
        Err(err) if err.is(Errno::BUSY) || err.is(Errno::AGAIN) => Err(Error::Refused(format!(
            "{name} is busy with another pass, recompression or writeback: try again when \
                 it is done"
        ))),
        Err(err) => Err(err.into()),
    }
}

/// Asks a running pass to stop soon.
///
/// # Errors
/// When the device is gone.
pub fn stop(host: &Host, name: &str) -> Result<(), HostError> {
    host.write(format!("/sys/block/{name}/meld"), "stop")
}

/// A pass is stopped after so long and goes on in the next round.
const PASS_TIME_MAX_MS: u64 = 1_000;

pub(super) fn rule(rule: MeldRule) -> WatchRule {
    WatchRule {
        name: "meld",
        every: rule.every,
        idle_after: None,
        plan: Box::new(move |device, part, _| plan(&rule, device, part)),
    }
}

fn plan(rule: &MeldRule, device: &Device, part: Option<u64>) -> Option<Plan> {
    let melding = device.melding.as_ref().filter(|it| it.mode != "off")?;
    let least = rule.duplicates_min.fraction();
    let why = match melding.duplicates_sampled() {
        Some(part) => format!(
            "the last sample had {} of duplicates; melding pays from {} on",
            percent(part),
            percent(least)
        ),
        None => format!(
            "{} stored and no pass yet; melding pays from {} of duplicates on",
            bytes(device.in_memory_bytes()),
            percent(least)
        ),
    };
    let threshold = (least * 1000.0).round().clamp(0.0, 1000.0);
    let mut request = "start".to_owned();
    if threshold > 0.0 {
        request += &format!(" threshold={threshold}");
    }
    request += &format!(" time_ms={PASS_TIME_MAX_MS}");
    if part.is_some() {
        request += " resume";
    }
    Some(Plan {
        what: "meld identical pages".to_owned(),
        why,
        act: Box::new(move |host, device, _| pass(host, device, &request)),
    })
}

fn pass(host: &Host, device: &str, request: &str) -> Result<ActionResult, Error> {
    let melding = match run(host, device, request) {
        Ok(melding) => melding,
        Err(err @ Error::Host(_)) => return Err(err),
        Err(err) => return Ok(ActionResult::Done(format!("not now: {err}"))),
    };
    let last = |name: &str| melding.counter(&format!("pass_{name}"));
    let part = match melding.duplicates_sampled() {
        Some(part) => format!("{} of the sample repeat", percent(part)),
        None => "nothing to sample".to_owned(),
    };
    if last("below_threshold") != 0 {
        return Ok(ActionResult::Done(format!("{part}: not worth a pass")));
    }
    let text = format!(
        "{part}; melded {} pages, saved {} for {} of metadata",
        count(last("pages_melded")),
        bytes(last("bytes_saved")),
        bytes(last("bytes_metadata"))
    );
    Ok(match last("stopped") != 0 {
        true => ActionResult::Stopped(format!("{text}; stopped by the time limit"), 0),
        false => ActionResult::Done(text),
    })
}
