//! Settings that are not in effect: the kernel, another tool or a missing module silently decided
//! otherwise.

use super::view::View;
use crate::observe::applied::AppliedTier;
use zmeld_config::{Finding, Remedy};

/// A run was interrupted, or `zmeld up` would change something, such as a codec or a swap file's
/// size; not for an unmeasured `swappiness = "auto"`. Do: `zmeld plan`, `zmeld up` (`--take-over`
/// beside another tool's).
pub(super) fn not_applied(view: &View) -> Vec<Finding> {
    let changes = view.outstanding.changes.iter();
    let changes = changes.map(|change| match change.remedy.is_empty() {
        true => change.clone().with(view.outstanding.remedy.clone()),
        false => change.clone(),
    });
    let otherwise = view.outstanding.otherwise().map(|problem| {
        Finding::of_machine(
            problem.about.trim_start_matches("tier."),
            problem.what.as_str(),
            "",
            format!(
                "change {} in the configuration, or what it names on this machine",
                problem.about
            ),
        )
    });
    let all = interrupted(view).into_iter().chain(changes);
    all.chain(otherwise).collect()
}

/// The drive of a tier with `encryption` is swapped to unencrypted. Do: take it out of
/// `/etc/fstab`, `swapoff`, `wipefs --all`, `zmeld up`; or install the missing part of encryption.
pub(super) fn in_plain(view: &View) -> Vec<Finding> {
    view.outstanding.in_plain.clone()
}

/// The kernel's command line names a compressor (`zswap.compressor=zword`) and zswap has another.
/// Do: set it again, and put the module into the initramfs (`update-initramfs -u -k all`, `dracut
/// --regenerate-all --force`).
///
/// The kernel falls back in silence where it has none of that name and cannot load it that early.
/// The configuration counts more.
pub(super) fn zswap_compressor(view: &View) -> Option<Finding> {
    let wanted = view.wanted.zswap();
    let named = wanted.is_some_and(|it| it.compressor.is_some());
    let zswap = view.now.zswap.as_ref().filter(|_| !named)?;
    let asked = zswap.compressor_at_boot.as_ref();
    let asked = asked.filter(|asked| **asked != zswap.compressor)?;
    Some(Finding::of_machine(
        "zswap",
        format!("its compressor is not {asked}, which the kernel's command line names"),
        format!(
            "zswap.compressor={asked}, and zswap has {}",
            zswap.compressor
        ),
        Remedy::run([format!(
            "echo {asked} > /sys/module/zswap/parameters/compressor"
        )])
        .and("; have its module in the initramfs"),
    ))
}

/// A tier of kind zmeld [is a zram device](kernel-module.md#where-zmeldko-cannot-be-had). Do: what the
/// finding names; or `kind = "zram"`.
pub(super) fn stand_in(view: &View) -> Vec<Finding> {
    let is_set_up = |name: &str| view.applied.is_some_and(|it| it.tier(name).is_some());
    let plan = view.outstanding.plan.iter();
    let stand_ins = plan.flat_map(|plan| &plan.stand_ins);
    let found = stand_ins.filter(|it| is_set_up(&it.tier));
    let up = view.asked().command("up");
    found.map(|it| it.finding(&up)).collect()
}

/// A run that was killed, and nobody carried on.
fn interrupted(view: &View) -> Option<Finding> {
    let applied = view.applied.filter(|applied| !applied.complete)?;
    let is_tier = |it: &&AppliedTier| applied.tier(&it.name) == Some(it);
    let begun = applied.tiers.iter().filter(is_tier).count();
    Some(Finding::of_machine(
        "zmeld",
        "a run was interrupted: only a part is set up",
        format!(
            "steps of {begun} of {} tiers were begun",
            view.wanted.tiers.len().max(begun)
        ),
        format!(
            "{} carries on ({} says with what), zmeld down takes it back",
            view.asked().command("up"),
            view.asked().command("plan")
        ),
    ))
}
