//! What other systems have no words for.

use crate::config::{Config, Swappiness};

/// What only zmeld does, each with the way to have it done; `bare` where zmeld
/// is not there.
pub(super) fn left_to_zmeld(config: &Config, bare: bool) -> Vec<String> {
    let mut left = Vec::new();
    if config.tunables.swappiness == Some(Swappiness::Auto) {
        left.push(
            "swappiness = \"auto\" is measured by zmeld up; write the number that it finds"
                .to_owned(),
        );
    }
    let watch = &config.watch;
    let rules = [
        ("recompress", watch.recompress.is_some()),
        ("writeback", watch.writeback.is_some()),
        ("meld", watch.meld.is_some()),
        ("reclaim", watch.reclaim.is_some()),
        ("guard", watch.guard.is_some()),
    ];
    if bare {
        for (rule, given) in rules {
            if given {
                left.push(format!("[watch.{rule}] is done by zmeld watch"));
            }
        }
        if config.metrics != Default::default() {
            left.push("[metrics] are zmeld's".to_owned());
        }
    }
    left
}
