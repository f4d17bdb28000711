//! The kernel's tunables.

use serde::Serialize;

use crate::config::{Problem, Severity, Swappiness};
use crate::error::Error;
use crate::step::Step;
use crate::steps::SetValue;

use super::{Draft, Group, Steps};

const GROUP: &str = "tunables";
const VM: &str = "/proc/sys/vm";

/// Random I/O of swap against the file system's, measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measured {
    /// Pages a second that swap gives back.
    pub swap_pages_per_s: f64,
    /// Pages a second that are read from the file system at random.
    pub files_pages_per_s: f64,
}

impl Measured {
    /// `vm.swappiness` by 200 k / (k + 1), where swap is k times as fast as the
    /// file system (`Documentation/admin-guide/sysctl/vm.rst`: twice as fast
    /// gives 133). Within 1 and 200: 0 would mean something else to the kernel.
    pub fn swappiness(&self) -> u8 {
        let (swap, files) = (
            self.swap_pages_per_s.max(0.0),
            self.files_pages_per_s.max(0.0),
        );
        let share = if swap + files > 0.0 {
            swap / (swap + files)
        } else {
            0.5
        };
        (200.0 * share).round().clamp(1.0, 200.0) as u8
    }
}

impl Draft<'_> {
    pub(super) fn tunables(&mut self) -> Result<(), Error> {
        let wanted = &self.config.tunables;
        let mut steps = Steps {
            name: GROUP,
            records: self.records,
            steps: Vec::new(),
        };
        let number = |value: Option<u64>| value.map(|value| value.to_string());
        let swappiness = self.swappiness();
        if wanted.swappiness == Some(Swappiness::Auto) && swappiness.1.is_none() {
            self.problems.push(Problem {
                place: None,
                key: "tunables.swappiness".to_owned(),
                what: "cannot be measured: no drive may be read; it stays as it is (write a \
                       number, 100 where swap is as fast as the file system, 133 where it is \
                       twice as fast)"
                    .to_owned(),
                severity: Severity::Warning,
                trap: None,
            });
        }
        let values = [
            swappiness,
            (
                "page-cluster",
                number(wanted.page_cluster.map(u64::from)),
                "what is compressed is not read faster in a row".to_owned(),
            ),
            (
                "watermark_scale_factor",
                number(wanted.watermark_scale_factor.map(u64::from)),
                "reclaim begins earlier, and in the background".to_owned(),
            ),
            (
                "watermark_boost_factor",
                number(wanted.watermark_boost_factor.map(u64::from)),
                "how much is reclaimed against fragmentation".to_owned(),
            ),
            (
                "compaction_proactiveness",
                number(wanted.compaction_proactiveness.map(u64::from)),
                "how hard free memory is kept in one piece".to_owned(),
            ),
            (
                "vfs_cache_pressure",
                number(wanted.vfs_cache_pressure.map(u64::from)),
                "how readily names and inodes are dropped".to_owned(),
            ),
            (
                "min_free_kbytes",
                number(wanted.min_free.map(|bytes| bytes.0 / 1024)),
                "memory for what cannot wait".to_owned(),
            ),
        ];
        for (name, value, reason) in values {
            let Some(value) = value else { continue };
            let path = format!("{VM}/{name}");
            let Some(before) = self.host.read_optional(&path)? else {
                return Err(Error::KernelFeature {
                    what: format!("tunables.{} sets {path}", name.replace('-', "_")),
                    way_out: "remove it from the configuration".to_owned(),
                });
            };
            steps.add_over(
                Step::SetValue(SetValue::new(path, value)),
                reason,
                Some(before),
            );
        }
        let steps = steps.steps;
        if !steps.is_empty() {
            self.groups.push(Group {
                name: GROUP.to_owned(),
                optional: false,
                steps,
            });
        }
        Ok(())
    }

    fn swappiness(&self) -> (&'static str, Option<String>, String) {
        const NAME: &str = "swappiness";
        let most = if self.machine.kernel_from(5, 8) {
            200
        } else {
            100
        };
        match self.config.tunables.swappiness {
            None => (NAME, None, String::new()),
            Some(Swappiness::Value(value)) => {
                let reason = "how pages and cached files are weighed".to_owned();
                (NAME, Some(value.to_string()), reason)
            }
            Some(Swappiness::Auto) => {
                // Measured anew, it would be a little different each time.
                let asked_before = self.old.is_some_and(|old| {
                    old.tunables.swappiness == Some(Swappiness::Auto)
                        && old.tiers == self.config.tiers
                });
                let recorded = self.recorded(GROUP).find_map(|record| match &record.step {
                    Step::SetValue(set) if set.path.ends_with(NAME) => Some(set.value.clone()),
                    _ => None,
                });
                if let Some(value) = recorded.filter(|_| asked_before) {
                    return (NAME, Some(value), "as it was measured".to_owned());
                }
                let Some(measured) = self.options.swappiness else {
                    return (NAME, None, String::new());
                };
                let value = measured.swappiness().min(most);
                let reason = format!(
                    "200 k / (k + 1): swap gives {:.0} pages/s back, the file system {:.0}",
                    measured.swap_pages_per_s, measured.files_pages_per_s
                );
                (NAME, Some(value.to_string()), reason)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swappiness_follows_the_published_formula() {
        let value = |swap, files| {
            Measured {
                swap_pages_per_s: swap,
                files_pages_per_s: files,
            }
            .swappiness()
        };
        assert_eq!(value(2.0, 1.0), 133);
        assert_eq!(value(1.0, 1.0), 100);
        assert_eq!(value(1e9, 1.0), 200);
        assert_eq!(value(1.0, 1e9), 1);
        assert_eq!(value(0.0, 0.0), 100);
        assert_eq!(value(f64::NAN, 1.0), 1);
    }
}
