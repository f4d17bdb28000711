//! What was asked for and is not so: the kernel, another tool or a missing module
//! silently decided otherwise.

use super::{Found, View};
use crate::config::{Kind, Tier};
use crate::observe::Swap;

/// What `zmeld up` would change: see [`crate::outstanding`].
pub(super) fn not_applied(view: &View) -> Vec<Found> {
    let way_out = match (way_to_apply(view), view.outstanding.is_refused) {
        (way, true) if way == "zmeld up" => "zmeld plan says why zmeld up refuses it".to_owned(),
        (way, _) => way,
    };
    let changes = view.outstanding.changes.iter();
    let changes = changes.map(|change| {
        Found::new(
            change.subject.as_str(),
            change.what.as_str(),
            change.evidence.as_str(),
            way_out.as_str(),
        )
    });
    interrupted(view).into_iter().chain(changes).collect()
}

/// A run that was killed, and nobody carried on.
fn interrupted(view: &View) -> Option<Found> {
    let applied = view.applied.filter(|applied| !applied.complete)?;
    Some(Found::new(
        "zmeld up",
        "it was interrupted, and only a part is set up",
        format!(
            "steps of {} of {} tiers were begun",
            applied.tiers.len(),
            applied.config.tiers.len()
        ),
        "zmeld up carries on, zmeld down takes it back",
    ))
}

/// What brings about what was asked for. Beside compressed swap that is not zmeld's,
/// `zmeld up` sets nothing up that compresses.
fn way_to_apply(view: &View) -> String {
    let tiers = || view.applied.iter().flat_map(|applied| &applied.tiers);
    let stands = |wanted: &Tier| {
        tiers().any(|tier| {
            let is_on = |swap: &Swap| tier.area.as_ref() == Some(&swap.area.path);
            let zswap = || view.now.zswap.as_ref().is_some_and(|zswap| zswap.enabled);
            let is_there = match wanted.kind {
                Kind::Zswap(_) => zswap(),
                _ => view.now.swaps.iter().any(is_on),
            };
            tier.name == wanted.name.as_str() && tier.lost.is_none() && is_there
        })
    };
    let compresses = |tier: &&Tier| !matches!(tier.kind, Kind::Disk(_));
    let mut wanted = view.wanted.tiers.iter().filter(compresses);
    let mut compressed = view.compressed();
    let other = compressed.find(|(swap, _)| !view.is_own(swap));
    match (other, wanted.find(|tier| !stands(tier))) {
        (Some((swap, _)), Some(_)) => format!(
            "zmeld up --take-over ({} was set up by another tool)",
            swap.area.path
        ),
        _ => "zmeld up".to_owned(),
    }
}
