//! Swap that is there already, and zswap as it is set.

use serde::Serialize;
use zmeld_linux::compressed::{chosen, is_on, pool_max_bytes, MmStat, ZSWAP};
use zmeld_linux::crypto::{has_compressor, ZWORD};
use zmeld_linux::modules::is_loadable;
use zmeld_linux::swaps::SwapArea;
use zmeld_linux::{Host, HostError};
use zmeld_report::units::bytes;

use crate::tier::{MeldMode, RamDriver};

/// An active swap area, and what a compressed device in RAM says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ActiveSwap {
    /// Its line in `/proc/swaps`.
    #[serde(flatten)]
    pub area: SwapArea,
    /// Its driver, where it is a compressed device in RAM.
    #[serde(skip)]
    pub driver: RamDriver,
    /// When it melds, where it is one of zmeld's.
    #[serde(skip)]
    pub meld: MeldMode,
    /// Its codec, where it is such a device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codec: Option<String>,
    /// Limit of its pool; 0: none.
    pub memory_limit_bytes: u64,
    /// Pool statistics, where it is such a device.
    #[serde(skip)]
    pub held: Option<MmStat>,
}

impl ActiveSwap {
    /// An area, with what its device says of itself where it is a compressed one.
    pub fn read(host: &Host, area: &SwapArea) -> Result<ActiveSwap, HostError> {
        let mut swap = ActiveSwap {
            area: area.clone(),
            ..ActiveSwap::default()
        };
        if let Some(name) = area.device().filter(|_| area.is_in_ram()) {
            let text = |file: &str| host.read_optional(format!("/sys/block/{name}/{file}"));
            swap.driver = RamDriver::of(host, name);
            let named = |file: &str| -> Result<Option<String>, HostError> {
                Ok(text(file)?.as_deref().and_then(chosen).map(str::to_owned))
            };
            swap.meld = MeldMode::chosen(&named("meld_mode")?.unwrap_or_default());
            swap.codec = named("comp_algorithm")?;
            swap.held = text("mm_stat")?.and_then(|text| MmStat::parse(&text));
            swap.memory_limit_bytes = swap.held.map_or(0, |held| held.limit_bytes);
        }
        Ok(swap)
    }

    /// A description in a few words.
    pub fn words(&self) -> String {
        let limit = match self.memory_limit_bytes {
            0 => "no memory limit".to_owned(),
            limit => format!("a memory limit of {}", bytes(limit)),
        };
        let codec = match &self.codec {
            Some(codec) => format!("{codec}, "),
            None => String::new(),
        };
        format!(
            "{codec}{} with {limit}, priority {}",
            bytes(self.area.size_bytes),
            self.area.priority
        )
    }
}

/// zswap as it is set, used or not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ZswapFacts {
    /// Whether it takes pages now.
    #[serde(rename = "enabled")]
    pub is_enabled: bool,
    /// Its codec.
    pub compressor: String,
    /// Percent of RAM that its pool may take; none where the kernel does not say.
    pub max_pool_percent: Option<u64>,
    /// The allocator of its pages, where the kernel has a choice: `zbud`.
    pub zpool: Option<String>,
    /// Whether that bounds the ratio and the kernel would load zsmalloc, which does not.
    pub wants_zsmalloc: bool,
    /// Whether it can be told to write cold pages on to disk by itself (Linux 6.8 and
    /// later).
    pub has_shrinker: bool,
    /// Whether the kernel has zword for it, or would load it.
    pub has_zword: bool,
}

impl ZswapFacts {
    /// A machine's with that kernel; none where it was built without.
    pub fn read(host: &Host, kernel: &str) -> Result<Option<ZswapFacts>, HostError> {
        let text = |name: &str| host.read_optional(format!("{ZSWAP}/{name}"));
        let Some(enabled) = text("enabled")? else {
            return Ok(None);
        };
        let mut facts = ZswapFacts {
            is_enabled: is_on(&enabled),
            compressor: text("compressor")?.unwrap_or_default(),
            max_pool_percent: text("max_pool_percent")?.and_then(|text| text.parse().ok()),
            zpool: text("zpool")?,
            wants_zsmalloc: false,
            has_shrinker: host.exists(format!("{ZSWAP}/shrinker_enabled")),
            has_zword: has_compressor(host, kernel, ZWORD)?,
        };
        facts.wants_zsmalloc =
            facts.most_in_a_page().is_some() && is_loadable(host, kernel, "zpool-zsmalloc")?;
        Ok(Some(facts))
    }

    /// The compressor that a recommendation names, where it is not left as it is.
    pub fn compressor_to_name(&self) -> Option<&str> {
        self.has_zword.then_some(ZWORD)
    }

    pub(super) fn pool_max_bytes(&self, ram_bytes: u64) -> Option<u64> {
        Some(pool_max_bytes(ram_bytes, self.max_pool_percent?))
    }

    /// Whether swap is smaller than the pool in front of it may get: so little is no place
    /// for what the pool lets go of, and a device in RAM holds clearly more.
    pub fn is_held_back_by(&self, swap_bytes: u64, ram_bytes: u64) -> bool {
        let limit = self.pool_max_bytes(ram_bytes);
        !self.is_enabled && limit.is_some_and(|limit| swap_bytes < limit)
    }

    /// The pool's name where it keeps so many pages in one at the most, however small
    /// they get, and how many.
    pub(super) fn most_in_a_page(&self) -> Option<(&str, f64)> {
        match self.zpool.as_deref()? {
            name @ "zbud" => Some((name, 2.0)),
            name @ "z3fold" => Some((name, 3.0)),
            _ => None,
        }
    }
}
