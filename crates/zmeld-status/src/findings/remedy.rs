//! What several rules say to do, as commands for this machine.

use super::{Remedy, View};
use zmeld_linux::shell;
use zmeld_observe::Swap;
use zmeld_report::units::bytes;

/// Drop-ins of this folder are read last, and key by key.
const DROP_INS: &str = "/etc/zmeld.toml.d";

impl View<'_> {
    /// The commands that have the configuration say what is in `text`, too, which a drop-in
    /// does. Where the tiers are those of a `zmeld up --tier`, they are written down before.
    pub(super) fn configured(&self, name: &str, text: &str) -> Vec<String> {
        let text = text.replace('%', "%%").replace('\n', "\\n");
        let mut commands = vec![format!("mkdir -p {DROP_INS}")];
        if !self.outstanding.is_by_file {
            commands.push(format!("zmeld plan --toml --output {DROP_INS}/tiers.toml"));
        }
        commands.push(format!(
            "printf {} > {DROP_INS}/zz-{name}.toml",
            shell::word(&text)
        ));
        commands
    }

    /// The same, and set up.
    pub(super) fn set_up(&self, name: &str, text: &str, words: String) -> Remedy {
        let mut commands = self.configured(name, text);
        commands.push("zmeld up".to_owned());
        Remedy::run(commands).said(words)
    }

    /// Has an area switched off and on again with these options of swapon.
    pub(super) fn switched_anew(&self, swap: &Swap, options: &str) -> Remedy {
        let area = shell::path(&swap.area.path);
        let anew = format!("swapoff {area} && swapon {options} {area}");
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
