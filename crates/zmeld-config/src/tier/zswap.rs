//! zswap in front of disk swap.

use super::*;

section! {
    /// zswap's parameters; what is not given is left as the kernel has it. The kernel's names
    /// are those below `/sys/module/zswap/parameters`.
    pub struct Zswap in Zswap {
        /// The codec's name; zswap takes no level, and has zword's level 2 by a name of its own.
        compressor: Option<String>, by(compressor), kernel("compressor", "the codec of new pages");
        /// The pool, where the kernel still has a choice (up to 6.17).
        zpool: Option<Zpool>, kernel("zpool", "how compressed pages are kept");
        /// How much of RAM it may use, in percent.
        max_pool_percent: Option<u8>, range(1, 100), kernel("max_pool_percent", "how much of RAM they may take");
        /// Once full, it takes pages again below so many percent of its limit.
        accept_threshold_percent: Option<u8>, range(0, 100), kernel("accept_threshold_percent", "when pages are taken again after it was full");
        /// Whether it writes cold pages to disk before it is full.
        shrinker: Option<bool>, kernel("shrinker_enabled", "cold pages go to disk before it is full");
        /// Whether pages of one value are kept as that value, where the kernel
        /// still has the choice (up to 6.11).
        same_filled: Option<bool>, kernel("same_filled_pages_enabled", "a page of one value is kept as that value");
    }
}

/// The name that zswap has for a codec.
///
/// # Errors
/// A level or a dictionary, which zswap does not take; an unknown codec.
pub fn compressor(text: &str) -> Result<Option<String>, String> {
    match text {
        "zword-dense" | "zword:2" => return Ok(Some("zword-dense".to_owned())),
        _ => {}
    }
    let codec: Codec = text.parse()?;
    if codec.level.is_some() || codec.dict.is_some() {
        return Err(format!(
            "{text:?}: zswap takes no level and no dictionary; write just {:?}",
            codec.name
        ));
    }
    Ok(Some(codec.name))
}

impl Zswap {
    /// Given parameters, and that zswap is on, in the order in which it takes effect: compressor
    /// and zpool, which make a new pool, come first.
    pub fn parameters(&self) -> Vec<KernelValue> {
        let mut parameters = kernel_values(self);
        parameters.push(KernelValue {
            name: "enabled",
            value: "Y".to_owned(),
            purpose: "pages stay in RAM, compressed, before they go to disk",
        });
        parameters
    }
}

named! {
    /// zswap's pool.
    pub enum Zpool {
        /// At most two objects a page.
        Zbud = "zbud",
        /// At most three objects a page.
        Z3fold = "z3fold",
        /// As zram's pool.
        Zsmalloc = "zsmalloc",
    }
}

pub(super) fn check(key: &str, tier: &Tier, config: &Config, check: &mut Check<'_>) {
    let mut all = config.tiers.iter();
    let first = all.find(|it| matches!(it.kind, Kind::Zswap(_)));
    if first.is_some_and(|first| first.name != tier.name) {
        let what = "the kernel has one zswap; put its settings into one tier";
        check.error(key, what);
    } else if let Some((ram, _)) = config.in_ram().next() {
        let what = format!(
            "zswap compresses the pages first and passes on what is left, so that tier.{} holds \
             pages that were compressed before and its figures mislead; keep one of the two",
            ram.name
        );
        check.add(
            Severity::Critical,
            Some(FindingId::ZramWithZswap),
            key,
            what,
        );
    }
}
