//! The memory of running processes.
//!
//! Per process: smaps says which mappings there are, pagemap which of their
//! pages are in RAM, and only those are read. Reading therefore brings nothing
//! back from swap and touches nothing that was never touched. (A page that is
//! swapped out in the microseconds between looking and reading is brought back;
//! that cannot be told beforehand. And reading counts as use: the kernel marks
//! the page as recently accessed.)
//!
//! Whether a page is delivered is decided in one place, `visit.rs`.

pub(crate) mod cold_pages;
pub(crate) mod frames;
pub(crate) mod kinds;
mod live_memory;
pub(crate) mod pagemap;
pub(crate) mod processes;
mod reader;
pub(crate) mod visit;

use std::sync::atomic::AtomicBool;

use crate::memory::{Error, Sink, Source, Visit};
use processes::ChosenProcess;

pub use cold_pages::ColdPagesFound;
pub use frames::SeenFrames;
pub use live_memory::{LiveMemory, LiveOptions, Member};
pub use processes::Selection;

/// What a scan of the whole machine says that it is of.
pub(crate) const ALL_PROCESSES: &str = "the memory of all processes";

impl Source for LiveMemory {
    fn describe(&self) -> String {
        match &self.options.selection {
            Selection::All => ALL_PROCESSES.to_owned(),
            Selection::Pids(pids) if pids.len() == 1 => {
                format!("the memory of process {}", pids[0])
            }
            Selection::Pids(pids) => format!("the memory of {} processes", pids.len()),
            Selection::Tree(pid) => format!("the memory of process {pid} and its descendants"),
            Selection::Cgroup(path) => format!("the memory of control group {}", path.display()),
        }
    }

    fn page_size(&self) -> usize {
        self.page_size
    }

    fn expected_pages(&self) -> Option<u64> {
        let kib = |process: &ChosenProcess| {
            let resident = process.resident;
            resident.anonymous
                + u64::from(self.options.shared) * resident.shared
                + u64::from(self.options.files) * resident.file
        };
        let kib: u64 = self.readable().map(kib).sum();
        Some(kib * 1024 / self.page_size as u64)
    }

    fn visit(&self, threads: usize, stop: &AtomicBool, sink: Sink<'_>) -> Result<Visit, Error> {
        visit::visit(self, threads, stop, sink)
    }
}
