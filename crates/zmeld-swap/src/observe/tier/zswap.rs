//! zswap in front of swap on disk.

use zmeld_config::tier::compressor;
use zmeld_config::{Kind, Zpool, Zswap};

use super::inputs::Inputs;
use super::state::{judged, ObservedKind, TierState};
use crate::observe::observation::Observation;

/// The tier in front of swap areas.
pub(super) fn in_front(of: &Observation) -> Option<TierState> {
    let zswap = of.zswap.as_ref()?;
    // Switched off, it still holds what went in before.
    if !zswap.enabled && zswap.stored_bytes == 0 {
        return None;
    }
    let pages = |name: &str| {
        let pages = zswap.counters.get(name)?;
        Some(pages.saturating_mul(of.page_size))
    };
    let limit = zswap.limit_bytes(&of.memory);
    Some(TierState {
        name: "zswap".to_owned(),
        kind: ObservedKind::Zswap,
        codec: Some(zswap.compressor.clone()),
        size_bytes: limit,
        stored_bytes: Some(zswap.stored_bytes),
        memory_used_bytes: Some(zswap.memory_used_bytes),
        ratio: judged(zswap.stored_bytes, zswap.memory_used_bytes),
        same_filled_bytes: pages("same_filled_pages"),
        incompressible_bytes: zswap.incompressible_bytes,
        writeback_bytes: of
            .activity
            .zswap_written_back_pages
            .map(|pages| pages.saturating_mul(of.page_size))
            .or_else(|| pages("written_back_pages")),
        limit_bytes: Some(limit),
        ..TierState::default()
    })
}

pub(super) fn recommended(inputs: &Inputs<'_>) -> Result<Kind, String> {
    let zswap = inputs.machine.zswap.as_ref();
    let has_shrinker = zswap.is_some_and(|it| it.has_shrinker);
    // zswap takes the codecs of the crypto interface, which a scan does
    // not ask: the kernel's own choice stays unless one was asked for, or
    // zword is there, which is denser and no slower to read.
    let asked = inputs.choice.codec.as_ref();
    let asked = asked.map(|codec| compressor(&codec.to_string()));
    let zword = || zswap?.compressor_to_name().map(str::to_owned);
    let zpool = zswap.and_then(|it| it.wants_zsmalloc.then_some(Zpool::Zsmalloc));
    Ok(Kind::Zswap(Zswap {
        compressor: asked.transpose()?.or_else(zword),
        zpool,
        shrinker: has_shrinker.then_some(true),
        ..Zswap::default()
    }))
}
