//! What a recommended tier is made of.

use zmeld_config::advice::machine::Machine;
use zmeld_config::advice::{Recommendation, TierKind};
use zmeld_config::{Codec, Comments, Location, Size};

/// The user's decisions.
#[derive(Debug, Clone, Default)]
pub struct UserChoice {
    pub kind: Option<TierKind>,
    pub size: Option<Size>,
    pub codec: Option<Codec>,
    /// Place of a disk tier: a device, or a file.
    pub place: Option<Location>,
}

/// Inputs of a recommended tier.
pub(crate) struct Inputs<'a> {
    pub machine: &'a Machine,
    pub choice: &'a UserChoice,
    pub advised: &'a Recommendation,
    pub comments: Comments,
}

/// The name that a recommended one gets in the configuration.
pub(crate) fn name(kind: TierKind) -> &'static str {
    match kind {
        TierKind::Zram | TierKind::Zmeld => "fast",
        TierKind::Zswap => "cache",
        TierKind::Disk => "disk",
    }
}
