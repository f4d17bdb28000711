//! Which modules this kernel loads.

use crate::{Host, HostError};

/// What a kernel loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loadable {
    Nothing,
    /// Modules with a signature of a key that it knows.
    Signed,
    Anything,
}

/// What the running kernel loads. One without modules has no list of them; others may refuse all
/// until the next boot, or what nobody signed.
pub fn loadable(host: &Host) -> Loadable {
    let says = |path: &str, word: &str| host.read(path).is_ok_and(|text| text.contains(word));
    let lockdown = |level: &str| says("/sys/kernel/security/lockdown", level);
    if !host.exists("/proc/modules") || are_disabled(host) {
        Loadable::Nothing
    } else if says("/sys/module/module/parameters/sig_enforce", "Y")
        || lockdown("[integrity]")
        || lockdown("[confidentiality]")
    {
        Loadable::Signed
    } else {
        Loadable::Anything
    }
}

/// Whether this kernel has a module of that name that it has loaded, or would load.
pub fn is_loadable(host: &Host, kernel: &str, name: &str) -> Result<bool, HostError> {
    let aliases = host.read_optional(format!("/lib/modules/{kernel}/modules.alias"))?;
    let loaded = host.read_optional("/proc/modules")?.unwrap_or_default();
    let loads = loadable(host) != Loadable::Nothing;
    let alias = format!("alias {name} ");
    let aliases = aliases.unwrap_or_default();
    let mut modules = aliases.lines().filter_map(|line| line.strip_prefix(&alias));
    let is_loaded = |module: &str| {
        let mut names = loaded.lines().filter_map(|line| line.split(' ').next());
        names.any(|name| name == module)
    };
    Ok(modules.any(|module| loads || is_loaded(module)))
}

/// Whether somebody said that it loads none until the next boot.
pub fn are_disabled(host: &Host) -> bool {
    let said = host.read("/proc/sys/kernel/modules_disabled");
    said.is_ok_and(|text| text.trim() == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_loaded_depends_on_modules_signatures_and_lockdown() {
        let (_dir, host) = Host::planted(&[]);
        assert_eq!(loadable(&host), Loadable::Nothing);
        host.plant("/proc/modules", "");
        host.plant("/proc/sys/kernel/modules_disabled", "0\n");
        assert_eq!(loadable(&host), Loadable::Anything);
        let lockdown = "/sys/kernel/security/lockdown";
        for (path, no, is) in [
            (
                lockdown,
                "none [integrity] confidentiality\n",
                Loadable::Signed,
            ),
            (
                lockdown,
                "none integrity [confidentiality]\n",
                Loadable::Signed,
            ),
            (
                "/sys/module/module/parameters/sig_enforce",
                "Y\n",
                Loadable::Signed,
            ),
            (
                "/proc/sys/kernel/modules_disabled",
                "1\n",
                Loadable::Nothing,
            ),
        ] {
            host.plant(path, no);
            assert_eq!(loadable(&host), is, "{path}");
            host.plant(path, "");
        }
    }
}
