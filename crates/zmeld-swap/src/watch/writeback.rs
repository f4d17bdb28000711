//! `[watch.writeback]`: pages that are not worth RAM go to the device's drive.

use std::sync::atomic::AtomicBool;

use zmeld_report::units::{bytes, percent, share};

use crate::observe::{Backed, Device};
use crate::watch::action::{path, stat, ActionResult, Pieces, UNIT};
use crate::watch::error::Error;
use crate::watch::limit::{self, LentLimit};
use crate::watch::rule::{idle_after, Plan, WatchRule};
use zmeld_config::{name_of, PageFilter, WritebackRule};
use zmeld_linux::Host;

pub(super) fn rule(rule: WritebackRule) -> WatchRule {
    WatchRule {
        name: "writeback",
        every: rule.every,
        idle_after: idle_after(rule.pages, rule.idle_after),
        plan: Box::new(move |device, part, is_pressed| plan(&rule, device, part, is_pressed)),
    }
}

fn plan(
    rule: &WritebackRule,
    device: &Device,
    part: Option<u64>,
    is_pressed: bool,
) -> Option<Plan> {
    device.backing.as_ref()?;
    let held = device.held.unwrap_or_default();
    let whole = match held.limit_bytes {
        0 => device.size_bytes,
        limit => limit,
    };
    let fill = share(held.memory_used_bytes, whole);
    if !is_pressed && fill < rule.above.fraction() {
        return None;
    }
    let asked = part.unwrap_or(0).saturating_mul(UNIT);
    let (pages, most) = (rule.pages, rule.at_most.0.saturating_sub(asked));
    Some(Plan {
        what: format!(
            "write back {} pages, at most {}",
            name_of(&pages),
            bytes(most)
        ),
        why: format!(
            "it uses {} of its limit, the rule begins at {}",
            percent(fill),
            percent(rule.above.fraction())
        ),
        act: Box::new(move |host, device, stop| write_back(host, device, pages, most, stop)),
    })
}

/// The kernel's own limit bounds what one request writes. A limit that the day's
/// budget set is shortened by what was written, and never lengthened.
fn write_back(
    host: &Host,
    device: &str,
    which: PageFilter,
    bytes_max: u64,
    stop: &AtomicBool,
) -> Result<ActionResult, Error> {
    let limited = limit::is_on(host, device)?;
    let left = || -> Result<_, Error> {
        Ok(match limited {
            true => Some(host.read_u64(path(device, "writeback_limit"))?),
            false => None,
        })
    };
    let nothing = match left()? {
        Some(0) => Some("nothing: today's writeback budget is used up"),
        _ if bytes_max < UNIT => Some("nothing: at_most allows not a page more at a time"),
        _ => None,
    };
    if let Some(nothing) = nothing {
        return Ok(ActionResult::Done(nothing.to_owned()));
    }
    let before = stat(host, device, "bd_stat", Backed::parse)?;
    let mut pieces = Pieces::new(host, bytes_max / UNIT, stop);
    let is_over = loop {
        let left = left()?;
        let units = pieces.next().min(left.unwrap_or(u64::MAX));
        let lent = LentLimit::take(host, device, left, units)?;
        let asked = host.write(path(device, "writeback"), &name_of(&which));
        let rest = lent.give_back(host)?;
        // The limit itself ends a request with an I/O error on some kernels.
        if rest > 0 {
            asked?;
        }
        // Less than it was allowed: there is no more.
        if rest > 0 || pieces.is_all() || left == Some(units) {
            break false;
        }
        if pieces.is_over() {
            break true;
        }
    };
    let after = stat(host, device, "bd_stat", Backed::parse)?;
    let text = format!(
        "wrote {}; {} are on the backing device",
        bytes(after.written_bytes.saturating_sub(before.written_bytes)),
        bytes(after.held_bytes)
    );
    Ok(match is_over {
        true => ActionResult::Stopped(text, pieces.asked),
        false => ActionResult::Done(text),
    })
}
