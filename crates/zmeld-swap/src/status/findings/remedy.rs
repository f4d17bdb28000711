//! Remedies of several rules, as commands for this machine.

use super::view::View;
use crate::observe::{Services, Swap};
use zmeld_config::Remedy;
use zmeld_linux::groups::Version;
use zmeld_linux::shell;
use zmeld_report::units::bytes;

/// Drop-ins of this folder are read last, and key by key.
const DROP_INS: &str = "/etc/zmeld.toml.d";

/// The priority by which an area is filled before a disk that is not filled after it; nothing is
/// above the highest.
pub(super) fn priority_above(disk: &Swap, area: &Swap) -> Option<i32> {
    let by = match disk.area.priority == area.area.priority {
        true => 100,
        false => 10,
    };
    let priority = disk.area.priority.max(0);
    let above = priority.saturating_add(by).min(PRIORITY_MAX);
    (above > priority).then_some(above)
}

/// The highest priority of a swap area.
const PRIORITY_MAX: i32 = 32_767;

/// A key of the configuration: its table, its name, its value.
pub(super) type Setting = (String, &'static str, String);

impl View<'_> {
    /// The commands that have the configuration say that, too, and then `up`: a drop-in for each
    /// key, so that none takes back what another has said. Where the tiers are those of a `zmeld
    /// up --tier`, they are written down before. A file that was named has no drop-ins.
    pub(super) fn configured(&self, settings: &[Setting], up: &str) -> Remedy {
        if self.asked().is_named() {
            let lines = settings
                .iter()
                .map(|(table, key, value)| format!("{table}.{key} = {value}"));
            let lines: Vec<String> = lines.collect();
            let file = self.asked().file();
            return format!("{} in {file}, then {up}", lines.join(", ")).into();
        }
        let mut commands = vec![format!("mkdir -p {DROP_INS}")];
        if !self.outstanding.is_by_file {
            commands.push(format!("zmeld plan --toml --output {DROP_INS}/tiers.toml"));
        }
        for (table, key, value) in settings {
            let text = format!("[{table}]\n{key} = {value}\n");
            let text = text.replace('%', "%%").replace('\n', "\\n");
            let name = table.trim_start_matches("tier.");
            let text = shell::word(&text);
            commands.push(format!("printf {text} > {DROP_INS}/zz-{name}-{key}.toml"));
        }
        commands.push(up.to_owned());
        Remedy::run(commands)
    }

    /// How a control group gets a higher limit on this machine, of its memory or of its swap: twice
    /// what it has.
    pub(super) fn raise_limit(&self, group: &str, of_swap: bool, is: Option<u64>) -> String {
        let facts = &self.now.facts;
        let shown = |of_swap: bool| {
            let file = facts.limit_file(group, of_swap);
            file.map_or("its limit".to_owned(), |it| shell::path(&it))
        };
        let file = match (&facts.groups, of_swap) {
            // Its limit of memory may not be above that of both together.
            (Some((Version::One, _)), false) => {
                format!("{} (where it is there), then {}", shown(true), shown(false))
            }
            _ => shown(of_swap),
        };
        let property = match of_swap {
            true => "MemorySwapMax",
            false => "MemoryMax",
        };
        let Some((Version::Two, _)) = facts.groups else {
            // Its limits have other names on version 1.
            return format!("raise {file}");
        };
        let twice = is.filter(|is| *is > 0);
        let twice = twice.map(|is| format!("{}M", is.saturating_mul(2).div_ceil(1 << 20)));
        // Units of a user are known to the user's systemd alone.
        let unit = group.rsplit('/').next().filter(|name| {
            let is_unit = [".service", ".slice"].iter().any(|end| name.ends_with(end));
            is_unit && !group.contains("/user@")
        });
        match (facts.services, unit, twice) {
            (Services::Systemd, Some(unit), Some(twice)) => {
                let unit = shell::word(unit);
                format!("raise it: systemctl set-property {unit} {property}={twice}")
            }
            (_, _, Some(twice)) => {
                format!("raise it: echo {twice} > {file}; for good, where the group is made")
            }
            (_, _, None) => format!("raise {file}"),
        }
    }

    /// The same of one table, in words as well.
    pub(super) fn set_up(&self, table: &str, keys: &[(&'static str, String)]) -> Remedy {
        let settings = keys
            .iter()
            .map(|(key, value)| (table.to_owned(), *key, value.clone()));
        let settings: Vec<Setting> = settings.collect();
        let keys: Vec<String> = keys
            .iter()
            .map(|(key, value)| format!("{key} = {value}"))
            .collect();
        let place = match table {
            "tunables" => "[tunables]",
            table => table,
        };
        let up = self.asked().command("up");
        let words = format!("{} in {place}, then {up}", keys.join(" and "));
        self.configured(&settings, &up).said(words)
    }

    /// Has an area switched off, where another is left to swap to.
    pub(super) fn switched_off(&self, swap: &Swap) -> Remedy {
        let area = shell::path(&swap.area.path);
        let used = swap.area.used_bytes;
        let is_last = self.now.swaps.len() == 1;
        match used < self.now.memory.available_bytes && !is_last {
            true => Remedy::run([format!("swapoff {area}")])
                .and(", and take it out of what switches it on (/etc/fstab)"),
            false => format!(
                "swap on a drive, or on a compressed device itself (zmeld plan); then swapoff {area}"
            )
            .into(),
        }
    }

    /// Has a compressed area filled before a disk.
    pub(super) fn put_above(&self, area: &Swap, disk: &Swap) -> Remedy {
        let Some(priority) = priority_above(disk, area) else {
            return format!(
                "give {} a priority below {PRIORITY_MAX} where it is switched on (/etc/fstab: \
                 pri=), then switch both off and on again",
                disk.area.shown()
            )
            .into();
        };
        if let Some(tier) = self.applied.and_then(|it| it.tier_on(&area.area.shown())) {
            let key = ("priority", priority.to_string());
            return self.set_up(&format!("tier.{}", tier.name), &[key]);
        }
        self.switched_anew(area, &format!("--priority {priority}"))
    }

    /// Has an area switched off and on again with these options of swapon.
    pub(super) fn switched_anew(&self, swap: &Swap, options: &str) -> Remedy {
        let area = shell::path(&swap.area.path);
        let anew = format!("swapoff {area} && swapon {options} {area}");
        if self.now.facts.is_swapon_busybox {
            return format!(
                "install util-linux (BusyBox's swapon has no such options), then {anew}"
            )
            .into();
        }
        let used = swap.area.used_bytes;
        match used < self.now.memory.available_bytes {
            true => Remedy::run(anew.split(" && ")),
            false => format!(
                "end programs, so that the {} in it fit back into RAM; then {anew}",
                bytes(used)
            )
            .into(),
        }
    }
}
