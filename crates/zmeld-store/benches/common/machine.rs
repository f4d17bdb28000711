//! The machine that the figures are of.

use std::fs;
use std::process::Command;

/// Facts of the machine for a reader.
pub struct Machine {
    pub cpu: String,
    /// Processors that this program may use.
    pub cpus: usize,
    pub kernel: String,
    pub c_compiler: String,
    pub rust_compiler: String,
    /// Programs that wanted to run in the minute before the start.
    pub load_at_start: f64,
}

impl Machine {
    pub fn look() -> Machine {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = zmeld_linux::cpuinfo::model_name(&cpuinfo).unwrap_or("unknown");
        Machine {
            cpu: format!("{model} ({})", std::env::consts::ARCH),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .map_or("unknown".to_owned(), |text| text.trim().to_owned()),
            c_compiler: version_of(&std::env::var("CC").unwrap_or_else(|_| "cc".to_owned())),
            rust_compiler: version_of("rustc"),
            load_at_start: load(),
        }
    }

    /// Warning that the machine was busy, if it was.
    pub fn warning(&self) -> Option<String> {
        (self.load_at_start > 0.5).then(|| {
            format!(
                "The machine was busy: its load average was {:.2} at the start, on {} processors. \
                 Others used its caches and memory; ratios suffer less from that than speeds, \
                 and the wall-clock times of the threads most.",
                self.load_at_start, self.cpus
            )
        })
    }
}

pub fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split_whitespace().next().unwrap_or_default();
    first.parse().unwrap_or(f64::NAN)
}

fn version_of(program: &str) -> String {
    let Ok(output) = Command::new(program).arg("--version").output() else {
        return format!("{program}: unknown");
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().next().unwrap_or(program).to_owned()
}
