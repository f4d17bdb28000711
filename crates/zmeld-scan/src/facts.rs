//! The machine in front of us, as far as a scan and its advice need to know it.

use serde::Serialize;
use zmeld_config::advice::machine::{self, Machine};
use zmeld_config::advice::ModulePresence;
use zmeld_linux::compressed::is_on;
use zmeld_linux::cpuinfo;
use zmeld_linux::swaps::SwapArea;
use zmeld_linux::Host;

/// RAM, processors, kernel, and the compressed swap that there is.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub struct MachineFacts {
    /// The kernel's release, as `uname -r` prints it.
    pub kernel: String,
    /// The first processor's model name.
    pub processor: String,
    /// Processors that this process may use.
    pub processors: usize,
    /// Bytes of RAM (`MemTotal`).
    pub ram_bytes: u64,
    /// Bytes of RAM that could be had without swapping (`MemAvailable`).
    pub available_bytes: u64,
    /// Codecs that the kernel's zram offers; empty where there is no zram.
    pub zram_codecs: Vec<String>,
    /// Active swap, as `/proc/swaps` lists it.
    pub swaps: Vec<SwapArea>,
    /// Whether the kernel's same-page merging (KSM) runs; absent where the kernel
    /// has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ksm_runs: Option<bool>,
    /// Basis of a recommendation.
    #[serde(skip)]
    pub facts: Machine,
    /// The kernel's zram.
    pub zram: ModulePresence,
    /// The module zmeld.
    pub zmeld: ModulePresence,
}

impl MachineFacts {
    pub fn here() -> MachineFacts {
        MachineFacts::look(&Host::here())
    }

    /// Looks at a machine. Unreadable facts stay empty.
    pub(crate) fn look(host: &Host) -> MachineFacts {
        let text = |path: &str| host.read(path).unwrap_or_default();
        let facts = Machine::read(host).unwrap_or_default();
        // Whatever else cannot be read.
        let memory = machine::memory(host).ok();
        let ksm = host.read("/sys/kernel/mm/ksm/run").ok();
        let processor = text("/proc/cpuinfo");
        let processor = cpuinfo::model_name(&processor).unwrap_or(std::env::consts::ARCH);
        MachineFacts {
            kernel: text("/proc/sys/kernel/osrelease"),
            processor: processor.to_owned(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            ram_bytes: memory.map_or(0, |it| it.total_bytes),
            available_bytes: memory.map_or(0, |it| it.available_bytes),
            zram_codecs: facts.zram.codecs.clone(),
            swaps: facts.swaps.clone(),
            ksm_runs: ksm.map(|text| is_on(&text)),
            zram: facts.zram.presence,
            zmeld: facts.zmeld.presence,
            facts,
        }
    }
}
