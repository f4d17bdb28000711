//! The kernel's tunables.

use std::cmp::Ordering;

use zmeld_config::advice::tunables::{LEAST, MOST_IN_RAM};
use zmeld_config::advice::{unsupported, SwapKinds};
use zmeld_config::kernel_value::kernel_values;
use zmeld_report::units::count;

use crate::observe::is_spinning;
use crate::setup::error::Error;
use crate::setup::step::Step;
use crate::setup::steps::SetValue;
use zmeld_config::{Finding, FindingId, Severity, Swappiness};

use super::parts::{Planner, Steps};

/// Name of their part of a plan.
pub const PART: &str = "tunables";
const SWAPPINESS: &str = "swappiness";
const PAGE_CLUSTER: &str = "page-cluster";
const NO_READ_AHEAD: &str = "all swap is in RAM: reading ahead decompresses pages without need; \
                             tunables.page_cluster sets another value";
const VM: &str = "/proc/sys/vm";

/// A rate to two digits.
fn rough(rate: f64) -> String {
    let rate = rate.max(0.0).round() as u64;
    let unit = 10u64.pow(rate.checked_ilog10().unwrap_or(0));
    count((rate + unit / 2) / unit * unit)
}

impl Planner<'_> {
    pub(super) fn tunables(&mut self) -> Result<(), Error> {
        let wanted = &self.config.tunables;
        let mut steps = Steps::new(PART, self.records);
        let measured = self.measured_swappiness();
        let is_unmeasured = wanted.swappiness == Some(Swappiness::Auto) && measured.is_none();
        if is_unmeasured && self.host.is_here() {
            self.problems.push(Finding::new(
                Severity::Warning,
                "tunables.swappiness",
                "\"auto\" cannot be measured, since no drive may be read: vm.swappiness stays as \
                 it is (write a number, 100 where swap is as fast as the file system, 133 where it \
                 is twice as fast)",
            ));
        }
        let kept_free = unsupported::kept_free(self.machine, self.config);
        self.problems.extend(kept_free);
        let given = kernel_values(wanted).into_iter();
        let given = given.map(|it| (it.name, it.value, it.purpose));
        let measured = measured.map(|(value, reason)| (SWAPPINESS.to_owned(), value, reason));
        let fitting = self.fitting_read_ahead();
        let fitting = fitting.map(|it| (PAGE_CLUSTER.to_owned(), it, NO_READ_AHEAD.to_owned()));
        let all = measured.into_iter().chain(given).chain(fitting);
        for (name, value, reason) in all {
            let path = format!("{VM}/{name}");
            let key = format!("tunables.{}", name.replace('-', "_"));
            let Some(before) = self.host.read_optional(&path)? else {
                if self.options.only_named {
                    return Err(Error::feature(
                        format!("{key} sets {path}"),
                        "remove it from the configuration",
                    ));
                }
                // A boot is not to be without swap for it.
                let what = format!("kernel {} has no {path}; remove it", self.machine.kernel);
                self.warn(FindingId::UnusedRule, &key, what);
                continue;
            };
            steps.add_over(
                Step::SetValue(SetValue::new(path, value)),
                reason,
                Some(before),
            );
        }
        if !steps.steps.is_empty() {
            self.groups.push(steps.part(false));
        }
        Ok(())
    }

    /// Kinds of swap on once the plan is carried out.
    pub(super) fn kinds(&self) -> SwapKinds {
        let own = self.own_areas();
        let others = self.machine.swaps.iter();
        let others = others.filter(|area| !own.contains(&area.path));
        let (in_ram, others): (Vec<_>, Vec<_>) = others.partition(|area| area.is_in_ram());
        let mut kinds = SwapKinds {
            in_ram: self.has_device() || !in_ram.is_empty() && !self.options.take_over,
            ..SwapKinds::default()
        };
        let others = others
            .into_iter()
            .map(|area| (area.path.clone(), area.is_file));
        let tiers = self.config.tiers.iter().filter(|it| it.kind.is_on_disk());
        let tiers = tiers.filter_map(|tier| tier.kind.place());
        let tiers = tiers.map(|place| match place.device {
            Some(_) => (self.host.resolved(&place.path), false),
            None => (place.path, true),
        });
        for (path, is_file) in others.chain(tiers) {
            kinds.on_disk = true;
            kinds.on_spinning_disk |= is_spinning(self.host, &path, is_file);
        }
        kinds
    }

    fn has_device(&self) -> bool {
        self.config.in_ram().next().is_some()
    }

    /// `vm.page-cluster` for tiers in RAM whose configuration says nothing of it. Nothing
    /// where it means the kernel's own, and where the kernel has none.
    fn fitting_read_ahead(&self) -> Option<String> {
        let config = self.config;
        let is_left_out = config.tunables.page_cluster.is_none() && !self.options.only_named;
        let is_meant = config.accept.contains(&FindingId::ReadAhead);
        let path = format!("{VM}/{PAGE_CLUSTER}");
        if !is_left_out || is_meant || !self.has_device() || !self.host.exists(path) {
            return None;
        }
        // A drive that is swapped to later, as those of /etc/fstab are at boot, changes
        // nothing: what is set up would depend on which came first.
        let asked_before = self.old.is_some_and(|old| {
            old.tunables.page_cluster.is_none() && old.tiers == self.asked.tiers
        });
        let recorded = self.recorded_value(PAGE_CLUSTER);
        recorded
            .filter(|_| asked_before)
            .or_else(|| self.kinds().page_cluster().map(|value| value.to_string()))
    }

    fn recorded_value(&self, name: &str) -> Option<String> {
        self.recorded(PART).find_map(|record| match &record.step {
            Step::SetValue(set) if set.path.ends_with(name) => Some(set.value.clone()),
            _ => None,
        })
    }

    /// The swappiness that was measured, and how it follows from that; nothing where
    /// none is to be measured, or none was.
    fn measured_swappiness(&self) -> Option<(String, String)> {
        if self.config.tunables.swappiness != Some(Swappiness::Auto) {
            return None;
        }
        // Measured anew, it would be a little different each time.
        let asked_before = self.old.is_some_and(|old| {
            old.tunables.swappiness == Some(Swappiness::Auto) && old.tiers == self.asked.tiers
        });
        let recorded = self.recorded_value(SWAPPINESS);
        let kinds = self.kinds();
        let fits = |value: &String| {
            let value = value.parse();
            value.is_ok_and(|value| kinds.swappiness(value) == value)
        };
        if let Some(value) = recorded.filter(|value| asked_before && fits(value)) {
            return Some((value, "as it was measured".to_owned()));
        }
        let measured = self.options.swappiness?;
        let most = match self.machine.kernel_from(5, 8) {
            true => 200,
            false => 100,
        };
        let by_speed = measured.swappiness();
        let preferred = match by_speed.cmp(&100) {
            Ordering::Greater => "swapping is preferred to dropping file pages",
            Ordering::Equal => "neither is preferred",
            Ordering::Less => "dropping file pages is preferred to swapping",
        };
        // Rates that are so far apart differ from run to run, and decide nothing.
        let mut reason = match by_speed {
            MOST_IN_RAM => format!(
                "swap-in is many times faster than reading files again: {preferred}; {by_speed} is \
                 the highest that zmeld sets"
            ),
            LEAST => format!(
                "reading files again is many times faster than swap-in: {preferred}; {by_speed} is \
                 the lowest that zmeld sets"
            ),
            _ => format!(
                "swap-in gives about {} pages/s, reading files again {}: {preferred}",
                rough(measured.swap_pages_per_s),
                rough(measured.files_pages_per_s)
            ),
        };
        let value = kinds.swappiness(by_speed);
        match value.cmp(&by_speed) {
            Ordering::Less => {
                reason += &format!("; at most {value} where swap ends on a spinning disk");
            }
            Ordering::Greater => {
                reason += &format!("; at least {value} where no swap is on a spinning disk");
            }
            Ordering::Equal => {}
        }
        Some((value.min(most).to_string(), reason))
    }
}

#[cfg(test)]
mod tests {
    use super::rough;

    #[test]
    fn rates_are_told_as_roughly_as_they_are_known() {
        assert_eq!(rough(639_723.0), "600\u{202f}000");
        assert_eq!(rough(13_876.0), "10\u{202f}000");
        assert_eq!(rough(77.4), "80");
        assert_eq!(rough(0.0), "0");
        assert_eq!(rough(f64::NAN), "0");
    }
}
