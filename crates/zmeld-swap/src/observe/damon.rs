//! Whether the kernel's DAMON reclaims memory ahead of time. Looked at only: what it does is
//! its owner's.

use std::path::{Path, PathBuf};

use serde::Serialize;
use zmeld_config::{Finding, FindingId};
use zmeld_linux::Host;

/// The module that reclaims by itself; in the kernel or not, it has its folder.
const MODULE: &str = "/sys/module/damon_reclaim/parameters/enabled";
const THREADS: &str = "/sys/kernel/mm/damon/admin/kdamonds";

/// Somebody who reclaims ahead of time by DAMON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct DamonReclaim {
    /// Its name: `damon_reclaim`, `kdamond 0`.
    pub name: String,
    /// The file or folder that says so.
    pub path: PathBuf,
}

impl DamonReclaim {
    /// Those of a machine; what cannot be read is none.
    pub fn read(host: &Host) -> Vec<DamonReclaim> {
        let says = |path: &Path, word: &str| host.read(path).is_ok_and(|text| text == word);
        let mut found = Vec::new();
        if says(Path::new(MODULE), "Y") {
            found.push(DamonReclaim {
                name: "damon_reclaim".to_owned(),
                path: MODULE.into(),
            });
        }
        let below = |folder: &Path| host.folders(folder).unwrap_or_default();
        for thread in below(Path::new(THREADS)) {
            let contexts = below(&thread.join("contexts"));
            let mut schemes = contexts.iter().flat_map(|it| below(&it.join("schemes")));
            let reclaims = schemes.any(|it| says(&it.join("action"), "pageout"));
            if reclaims && says(&thread.join("state"), "on") {
                let number = thread.file_name().unwrap_or_default().to_string_lossy();
                found.push(DamonReclaim {
                    name: format!("kdamond {number}"),
                    path: thread.clone(),
                });
            }
        }
        found
    }

    /// The finding on its use beside `[watch.reclaim]`.
    pub fn beside_reclaim(&self) -> Finding {
        let path = self.path.display();
        let way_out = match self.path == Path::new(MODULE) {
            true => format!(
                "echo N > {MODULE} (and damon_reclaim.enabled=Y off the kernel's command line), \
                 or remove [watch.reclaim]"
            ),
            false => format!(
                "end it where it was begun (echo off > {path}/state stops it until then), or \
                 remove [watch.reclaim]"
            ),
        };
        let what = "DAMON reclaims memory ahead of time, as [watch.reclaim] does, but ignores its \
                    limits and what it protects";
        let why = format!("{path} says so, and there is [watch.reclaim]");
        Finding::of_machine(&self.name, what, why, way_out).of(FindingId::TwoReclaimers)
    }
}
