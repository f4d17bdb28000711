//! The machine: nodes, processors, the distances between nodes (ACPI SLIT) and what memory costs there.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use zmeld_config::{choices, ConfigError};
use zmeld_linux::FileError;
use zmeld_report::units::plural;

use crate::error::{within, Error};

/// The distance of a node to itself in every SLIT: one local access costs 10 tenths of a local access.
pub const LOCAL_DISTANCE: u32 = 10;
/// SLIT entry for memory that a processor cannot reach.
pub const UNREACHABLE: u32 = 255;
/// The most nodes a machine may have: a page's node is kept in 16 bits and the largest number means "nowhere".
pub const NODES_MAX: usize = 4096;

/// An error in the machine of that preset, file or folder.
fn wrong(source: impl fmt::Display, why: impl fmt::Display) -> Error {
    Error::Wrong(format!("{source}: {why}"))
}

/// Costs of memory on a machine. All values are for an idle machine; queueing comes on top.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MemoryCosts {
    /// One access to local memory, in nanoseconds. A remote access costs this times distance / 10.
    #[default = 100.0]
    pub access_ns: f64,
    /// Speed of copying pages to a node at distance 10, in MB/s (10^6 bytes). It falls with distance / 10.
    #[default = 4000.0]
    pub copy_mb_per_s: f64,
    /// Taking and ending one page fault, in microseconds (`Chint` for hinting faults).
    #[default = 1.0]
    pub fault_us: f64,
    /// Bookkeeping for moving one page beyond the copy (allocation, page table, TLB shootdown), in microseconds.
    #[default = 2.0]
    pub move_page_us: f64,
    /// Changing one page-table entry while scanning (`Cpte`), in microseconds.
    #[default = 0.05]
    pub pte_us: f64,
    /// A switch from one process to another, in microseconds.
    #[default = 3.0]
    pub switch_us: f64,
}

impl MemoryCosts {
    /// The same with some values changed, by name.
    pub fn changed(&self, changes: &toml::Table) -> Result<Self, ConfigError> {
        let mut table = toml::Table::try_from(self).unwrap_or_default();
        table.extend(changes.clone());
        zmeld_config::from_table(&table)
    }
}

/// A machine: which processors and how much memory each node has, and how far apart the nodes are.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct NumaMachine {
    /// A preset's name, or `host`.
    pub name: String,
    /// Machine that it stands for, in a sentence.
    pub about: String,
    /// Distances between nodes, from a processor's node (rows) to the memory's: square, 10 on the diagonal, 10 to 254
    /// elsewhere, 255 where it cannot be reached.
    pub slit: Vec<Vec<u32>>,
    /// The kernel's numbers of the nodes, which may have gaps; else 0, 1 and so on.
    pub node_numbers: Vec<usize>,
    /// Processors of each node; 0 for a node of memory only.
    pub processors: Vec<usize>,
    /// Page size in bytes.
    pub page_bytes: u64,
    /// Memory of each node in pages; `None` where it is as large as need be.
    pub memory_pages: Vec<Option<u64>>,
    /// Costs of memory.
    pub costs: MemoryCosts,
}

impl NumaMachine {
    /// Checks the parts of a machine against each other.
    ///
    /// # Errors
    /// The first distance that breaks a rule, by row and column counted from 0; lists whose length is not the number of
    /// nodes, no processor at all, costs that are not positive.
    pub fn check(mut self) -> Result<Self, Error> {
        let nodes = self.slit.len();
        if self.node_numbers.len() != nodes {
            self.node_numbers = (0..nodes).collect();
        }
        let failed = |why: String| Err(wrong(&self.name, why));
        if !(1..=NODES_MAX).contains(&nodes) {
            return failed(format!(
                "a distance matrix of {nodes} nodes; 1 to {NODES_MAX} are supported"
            ));
        }
        for (row, distances) in self.slit.iter().enumerate() {
            let found = distances.len();
            if found != nodes {
                return failed(format!(
                    "distance matrix row {row}: {found} columns where {nodes} rows need {nodes}"
                ));
            }
            for (column, &found) in distances.iter().enumerate() {
                let rule = match row == column {
                    true if found != LOCAL_DISTANCE => "a node's distance to itself is 10",
                    // The SLIT keeps a byte.
                    false if !(LOCAL_DISTANCE..=UNREACHABLE).contains(&found) => {
                        "distances are 10 to 254, and 255 for what cannot be reached"
                    }
                    _ => continue,
                };
                return failed(format!(
                    "distance matrix row {row}, column {column}: {found}; {rule}"
                ));
            }
        }
        for (what, found) in [
            ("processors", self.processors.len()),
            ("memory", self.memory_pages.len()),
        ] {
            if found != nodes {
                return failed(format!("{what}: {found} entries for {nodes} nodes"));
            }
        }
        if self.processors.iter().all(|&n| n == 0) {
            return failed("no node has a processor".into());
        }
        let costs = &self.costs;
        for (what, value, least) in [
            ("access_ns", costs.access_ns, f64::MIN_POSITIVE),
            ("copy_mb_per_s", costs.copy_mb_per_s, f64::MIN_POSITIVE),
            ("fault_us", costs.fault_us, 0.0),
            ("move_page_us", costs.move_page_us, 0.0),
            ("pte_us", costs.pte_us, 0.0),
            ("switch_us", costs.switch_us, 0.0),
            ("page_bytes", self.page_bytes as f64, f64::MIN_POSITIVE),
        ] {
            within(what, value, least..=f64::MAX).map_err(|(_, why)| wrong(&self.name, why))?;
        }
        Ok(self)
    }

    /// Which node has that number.
    pub fn place(&self, number: usize) -> Option<usize> {
        self.node_numbers.iter().position(|it| *it == number)
    }

    /// Checks that each processor reaches the memory of each node, as a simulation takes it.
    ///
    /// # Errors
    /// The first two nodes of which that is not so.
    pub fn check_reachable(&self) -> Result<(), Error> {
        for (from, row) in self.slit.iter().enumerate() {
            if let Some(to) = row.iter().position(|&it| it == UNREACHABLE) {
                let (from, to) = (self.node_numbers[from], self.node_numbers[to]);
                let why = format!(
                    "node {to} is unreachable from node {from} (distance 255), and pages are simulated \
                     on all nodes: give a scenario with the others' distances (machine.slit)"
                );
                return Err(wrong(&self.name, why));
            }
        }
        Ok(())
    }

    pub fn nodes(&self) -> usize {
        self.slit.len()
    }

    pub fn processors_total(&self) -> usize {
        self.processors.iter().sum()
    }

    /// The node of each processor: processors are numbered node by node.
    pub fn processor_nodes(&self) -> Vec<usize> {
        let of_node = |(node, &count): (usize, &usize)| std::iter::repeat_n(node, count);
        self.processors
            .iter()
            .enumerate()
            .flat_map(of_node)
            .collect()
    }

    /// A machine by what a user writes: a preset or `host`.
    ///
    /// # Errors
    /// An unknown name, or what is wrong with /sys.
    pub fn find(name: &str) -> Result<Self, Error> {
        if let Some(machine) = presets().into_iter().find(|preset| preset.name == name) {
            return Ok(machine);
        }
        if name == "host" {
            return Self::from_sysfs(Path::new("/sys/devices/system/node"));
        }
        let presets = presets();
        let names = presets.iter().map(|preset| preset.name.as_str());
        let names: Vec<&str> = names.chain(["host"]).collect();
        Err(Error::Wrong(format!(
            "no machine is called {name:?} (machine.slit in a scenario gives one of your own); {}",
            choices(name, &names)
        )))
    }

    /// This machine as the kernel shows it below `/sys/devices/system/node`.
    pub fn from_sysfs(nodes_dir: &Path) -> Result<Self, Error> {
        let read = |path: &Path| {
            fs::read_to_string(path).map_err(|cause| FileError::new("read", path, cause))
        };
        let no_nodes = "no nodes are there: this kernel has no NUMA; name a preset, or machine.slit in a scenario";
        let entries = fs::read_dir(nodes_dir).map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound => wrong(nodes_dir.display(), no_nodes),
            _ => FileError::new("list", nodes_dir, cause).into(),
        })?;
        let number = |name: &str| name.strip_prefix("node")?.parse().ok();
        let mut ids: Vec<usize> = entries
            .filter_map(|entry| number(entry.ok()?.file_name().to_str()?))
            .collect();
        ids.sort_unstable();
        if ids.is_empty() {
            return Err(wrong(nodes_dir.display(), no_nodes));
        }
        let (mut rows, mut processors, mut memory_pages) = (Vec::new(), Vec::new(), Vec::new());
        for id in &ids {
            let dir = nodes_dir.join(format!("node{id}"));
            let file = |name: &str| dir.join(name);
            let distances = read(&file("distance"))?;
            let distance = |word: &str| {
                let no_number = |_| {
                    wrong(
                        file("distance").display(),
                        format!("{word:?} is no distance"),
                    )
                };
                word.parse().map_err(no_number)
            };
            let row: Result<Vec<u32>, _> = distances.split_whitespace().map(distance).collect();
            rows.push(row?);
            let cpus = read(&file("cpulist"))?;
            let no_list = || wrong(file("cpulist").display(), format!("{cpus:?} is no list"));
            processors.push(count_cpus(cpus.trim()).ok_or_else(no_list)?);
            let kib = read(&file("meminfo"))?
                .lines()
                .find(|line| line.contains("MemTotal:"))
                .and_then(|line| line.split_whitespace().rev().nth(1)?.parse::<u64>().ok());
            memory_pages.push(kib.map(|kib| kib / 4));
        }
        Self {
            name: "host".into(),
            about: "This machine, as the kernel describes it".into(),
            slit: rows,
            node_numbers: ids,
            processors,
            page_bytes: 4096,
            memory_pages,
            costs: MemoryCosts::default(),
        }
        .check()
    }
}

impl fmt::Display for NumaMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (nodes, processors) = (self.nodes(), self.processors_total());
        write!(
            f,
            "{}: {nodes} node{}, {processors} processor{}",
            self.name,
            plural(nodes as u64),
            plural(processors as u64)
        )
    }
}

/// Processors in a kernel list such as `0-3,8`; an empty list has none.
fn count_cpus(list: &str) -> Option<usize> {
    if list.is_empty() {
        return Some(0);
    }
    list.split(',').try_fold(0, |sum, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        (last >= first).then(|| sum + last - first + 1)
    })
}

/// The machines that need no description, the study's first.
pub fn presets() -> Vec<NumaMachine> {
    let preset = |name: &str, about: &str, rows: &[&[u32]], processors: &[usize], costs| {
        let [access_ns, copy_mb_per_s, fault_us, move_page_us, pte_us, switch_us] = costs;
        NumaMachine {
            name: name.into(),
            about: about.into(),
            slit: rows.iter().map(|row| row.to_vec()).collect(),
            node_numbers: (0..rows.len()).collect(),
            processors: processors.to_vec(),
            page_bytes: 4096,
            memory_pages: vec![None; processors.len()],
            costs: MemoryCosts {
                access_ns,
                copy_mb_per_s,
                fault_us,
                move_page_us,
                pte_us,
                switch_us,
            },
        }
    };
    vec![
        preset(
            "altix-4x2",
            "the machine of Tesser and Zorzo's study: 4 nodes of 2 processors, four levels of memory access, after the SGI Altix",
            &[&[10, 20, 30, 40], &[20, 10, 20, 30], &[30, 20, 10, 20], &[40, 30, 20, 10]],
            &[2, 2, 2, 2],
            [100.0, 1000.0, 2.0, 5.0, 0.1, 5.0],
        ),
        preset(
            "two-socket",
            "a two-socket server: 2 nodes of 32 processors, remote memory at 2.1 times the local cost",
            &[&[10, 21], &[21, 10]],
            &[32, 32],
            [90.0, 10_000.0, 0.7, 1.5, 0.03, 2.0],
        ),
        preset(
            "four-socket",
            "a four-socket server, fully meshed: 4 nodes of 24 processors",
            &[&[10, 21, 21, 21], &[21, 10, 21, 21], &[21, 21, 10, 21], &[21, 21, 21, 10]],
            &[24, 24, 24, 24],
            [95.0, 8_000.0, 0.8, 2.0, 0.03, 2.0],
        ),
        preset(
            "cxl-far",
            "a two-socket server with a far-memory node on CXL that has no processors",
            &[&[10, 21, 24], &[21, 10, 34], &[24, 34, 10]],
            &[16, 16, 0],
            [100.0, 9_000.0, 0.7, 1.5, 0.03, 2.0],
        ),
    ]
}
