//! zswap in front of disk swap.

use serde::{Deserialize, Deserializer, Serialize};
use smart_default::SmartDefault;

use super::swap::TierName;
use crate::check::Check;
use crate::codec::{respelt, Codec};
use crate::finding::{FindingId, Severity};
use crate::kernel_value::{kernel_values, KernelValue};
use crate::key::{by, Number};

/// zswap's parameters; what is not given is left as the kernel has it. The kernel's names
/// are those below `/sys/module/zswap/parameters`.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Zswap {
    /// The codec of new pages, without a level; `zword-dense` is zword's level 2.
    #[serde(deserialize_with = "compressor_key")]
    pub compressor: Option<String>,
    /// How compressed pages are kept, up to 6.17 (zbud and z3fold up to 6.14).
    pub zpool: Option<Zpool>,
    /// How much of RAM it may take.
    pub max_pool_percent: Option<Number<u8, 1, 100>>,
    /// When pages are taken again after it was full: below this share of its limit.
    pub accept_threshold_percent: Option<Number<u8, 0, 100>>,
    /// Cold pages go to disk before it is full; Linux 6.8.
    pub shrinker: Option<bool>,
    /// A page of one value is kept as that value, a choice up to 6.11.
    pub same_filled: Option<bool>,
}

/// The name that zswap has for a codec.
///
/// # Errors
/// A level or a dictionary, which zswap does not take; an unknown codec.
pub fn compressor(text: &str) -> Result<String, String> {
    if ["zword-dense", "zword:2"].contains(&text) {
        return Ok("zword-dense".to_owned());
    }
    let codec: Codec = respelt(text).as_deref().unwrap_or(text).parse()?;
    if codec.level.is_some() || codec.dict.is_some() {
        return Err(format!(
            "{text:?}: zswap takes no level and no dictionary; write just {:?}",
            codec.name
        ));
    }
    Ok(codec.name)
}

fn compressor_key<'de, D: Deserializer<'de>>(it: D) -> Result<Option<String>, D::Error> {
    by(it, compressor)
}

impl Zswap {
    /// Given parameters, and that zswap is on, in the order in which it takes effect: compressor
    /// and zpool, which make a new pool, come first.
    pub fn parameters(&self) -> Vec<KernelValue> {
        let mut parameters = kernel_values(self);
        parameters.push(KernelValue {
            name: "enabled".to_owned(),
            value: "Y".to_owned(),
            purpose: "pages stay in RAM, compressed, before they go to disk".to_owned(),
        });
        parameters
    }
}

/// zswap's pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Zpool {
    /// At most two objects a page.
    Zbud,
    /// At most three objects a page.
    Z3fold,
    /// As zram's pool.
    Zsmalloc,
}

pub(super) fn check(key: &str, is_second: bool, in_ram: Option<&TierName>, check: &mut Check<'_>) {
    if is_second {
        let what = "the kernel has one zswap; put its settings into one tier";
        check.error(key, what);
    } else if let Some(ram) = in_ram {
        let what = format!(
            "zswap compresses the pages first and passes on what is left, so that tier.{ram} holds \
             pages that were compressed before and its figures mislead; keep one of the two"
        );
        check.add(
            Severity::Critical,
            Some(FindingId::ZramWithZswap),
            key,
            what,
        );
    }
}
