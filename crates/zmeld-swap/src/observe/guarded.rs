//! The note that `zmeld-guard` keeps.

use zmeld_guard::note::{EVERY_S, FILE, SCHEMA};
pub use zmeld_guard::Guarded;
use zmeld_linux::groups::Hierarchy;

use super::note;
use super::reader::Reader;

/// The note of a running guard.
pub(super) fn read(reader: &mut Reader) -> Option<Guarded> {
    note::read(reader, FILE, SCHEMA, |_| EVERY_S)
}

/// Services that end programs when memory is short, as distributions have them.
const OTHERS: [&str; 4] = [
    "systemd-oomd.service",
    "earlyoom.service",
    "nohang.service",
    "nohang-desktop.service",
];

/// Those of them that run, by their control groups.
pub(super) fn others(reader: &Reader) -> Vec<String> {
    let hierarchy = Hierarchy::find(reader.host()).ok().flatten();
    let services = hierarchy.map(|it| it.top.join("system.slice"));
    let Some(services) = services else {
        return Vec::new();
    };
    let mut others = OTHERS.map(str::to_owned).to_vec();
    others.retain(|name| reader.host().exists(services.join(name)));
    others
}
