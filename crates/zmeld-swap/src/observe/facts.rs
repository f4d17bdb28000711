//! Facts of a machine for a way out: how services are started, and which files its control groups
//! have.

use std::path::PathBuf;

use zmeld_linux::groups::{Hierarchy, Version};
use zmeld_linux::service::runs_systemd;
use zmeld_linux::Host;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Services {
    Systemd,
    OpenRc,
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// It is the machine that zmeld runs on, and no other root.
    pub is_here: bool,
    pub services: Services,
    /// zmeld's units that are installed or exported; its generator makes others.
    pub units: Vec<String>,
    /// Version and folder of the memory controller's groups.
    pub groups: Option<(Version, PathBuf)>,
    /// `swapon` is BusyBox's, which knows neither priorities nor, often, discards.
    pub is_swapon_busybox: bool,
}

impl Facts {
    /// Those of a machine; what cannot be read is not there.
    pub fn read(host: &Host) -> Facts {
        let hierarchy = Hierarchy::find(host).ok().flatten();
        let folders = [
            "/etc/systemd/system",
            "/usr/lib/systemd/system",
            "/etc/init.d",
        ];
        let mut units: Vec<String> = folders
            .iter()
            .flat_map(|it| host.list(it).unwrap_or_default())
            .collect();
        units.retain(|name| name.starts_with("zmeld"));
        Facts {
            is_here: host.is_here(),
            units,
            services: match () {
                _ if runs_systemd(host) => Services::Systemd,
                _ if host.exists("/run/openrc") => Services::OpenRc,
                _ => Services::Unknown,
            },
            groups: hierarchy.map(|it| (it.version, it.top)),
            is_swapon_busybox: zmeld_linux::swaps::is_swapon_busybox(host),
        }
    }

    /// The file with a group's limit of memory, or with that of its swap (version 1: of both
    /// together).
    pub fn limit_file(&self, group: &str, of_swap: bool) -> Option<PathBuf> {
        let (version, top) = self.groups.as_ref()?;
        let file = match (version, of_swap) {
            (version, false) => version.limit_file(),
            (Version::One, true) => "memory.memsw.limit_in_bytes",
            (Version::Two, true) => "memory.swap.max",
        };
        Some(top.join(group.trim_start_matches('/')).join(file))
    }

    pub fn list_groups(&self) -> String {
        match (self.services, &self.groups) {
            (Services::Systemd, _) => "systemd-cgls lists the groups".to_owned(),
            (_, Some((_, top))) => format!("find {} -type d lists the groups", top.display()),
            (_, None) => "no groups are mounted".to_owned(),
        }
    }
}
