//! Kind of memory of a mapping, and whether it was asked for.
//!
//! A private mapping of a file holds two kinds of page: the process's own
//! modified copies, and the file's. The page table tells which is which.

use super::live_memory::LiveOptions;
use super::processes;
use crate::memory::{RegionKind, SkipReason};
use zmeld_linux::smaps::Mapping;

#[derive(Debug)]
pub(crate) struct KindFilter {
    shared: bool,
    files: bool,
    /// File systems whose files are memory.
    memory_devices: Vec<(u32, u32)>,
}

impl KindFilter {
    pub(crate) fn new(options: &LiveOptions) -> Self {
        KindFilter {
            shared: options.shared,
            files: options.files,
            memory_devices: processes::all_mounts()
                .into_iter()
                .filter(|mount| matches!(mount.kind.as_str(), "tmpfs" | "devtmpfs" | "ramfs"))
                .map(|mount| mount.device)
                .collect(),
        }
    }

    pub(crate) fn wanted(&self, kind: RegionKind) -> bool {
        match kind {
            RegionKind::SharedMemory => self.shared,
            RegionKind::FileBacked => self.files,
            _ => true,
        }
    }

    /// The kind of pages that are the process's own.
    pub(crate) fn own(&self, mapping: &Mapping) -> RegionKind {
        match &*mapping.name {
            "[heap]" => RegionKind::Heap,
            "[stack]" => RegionKind::Stack,
            _ if mapping.inode != 0 => RegionKind::PrivateFile,
            _ => RegionKind::Anonymous,
        }
    }

    /// The kind of pages that belong to the file or shared object.
    pub(crate) fn object(&self, mapping: &Mapping) -> RegionKind {
        if self.is_memory_object(mapping) {
            RegionKind::SharedMemory
        } else {
            RegionKind::FileBacked
        }
    }

    /// Has the mapping no page of the process's own?
    pub(crate) fn only_object(&self, mapping: &Mapping) -> bool {
        !mapping.private || mapping.inode != 0 && mapping.anonymous == 0
    }

    /// One kind for a whole mapping; `None` if nothing of it is delivered.
    pub(crate) fn of_mapping(&self, mapping: &Mapping) -> Option<RegionKind> {
        let kind = if self.only_object(mapping) {
            self.object(mapping)
        } else {
            self.own(mapping)
        };
        (self.skip(mapping).is_none() && self.wanted(kind)).then_some(kind)
    }

    /// Why no page of a mapping is read, and how many pages that leaves out.
    pub(crate) fn skip(&self, mapping: &Mapping) -> Option<(SkipReason, u64)> {
        let name = &*mapping.name;
        let kernel_pages = [
            "[vdso]",
            "[vsyscall]",
            "[uprobes]",
            "[sigpage]",
            "[vectors]",
        ];
        if name.starts_with("[vvar") || kernel_pages.contains(&name) {
            Some((SkipReason::KernelPages, mapping.rss))
        } else if mapping.flags.hugetlb {
            Some((SkipReason::HugeTlb, mapping.hugetlb))
        } else if mapping.flags.device
            || name.starts_with("/dev/") && !self.is_memory_object(mapping)
        {
            Some((SkipReason::DeviceMapping, mapping.rss))
        } else if !mapping.readable {
            Some((SkipReason::NoAccess, mapping.rss))
        } else {
            None
        }
    }

    fn is_memory_object(&self, mapping: &Mapping) -> bool {
        let name = &*mapping.name;
        ["/dev/zero", "/memfd:", "/SYSV", "[anon_shmem:"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
            || self.memory_devices.contains(&mapping.device)
    }
}
