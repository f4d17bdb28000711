//! Whether the kernel has a driver: now, as a module, or not.

use serde::Serialize;
use zmeld_linux::modules::{loadable, Loadable};
use zmeld_linux::Host;

/// Presence of a driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModulePresence {
    /// It can make devices now: built in, or loaded.
    Ready,
    /// Its module is installed for this kernel and is not loaded.
    Module,
    /// This kernel loads modules, and has none of that name.
    Absent,
    /// This kernel loads no modules.
    Impossible,
    /// It is not there now; which modules there are cannot be told.
    #[default]
    Unknown,
}

/// How a kernel gets a module that it has not got.
pub fn way_to_module(module: &str) -> &'static str {
    match module {
        "zmeld" => "build it with DKMS (docs/kernel-module.md)",
        _ => {
            "install the package with the kernel's extra modules (linux-modules-extra-... on \
             Ubuntu, kernel-modules on Fedora)"
        }
    }
}

/// Why a kernel has no zmeld.ko, and the way to it.
pub fn why_no_zmeld(host: &Host, kernel: &str) -> (String, String) {
    let sources = host.list("/usr/src").unwrap_or_default();
    let is_source = |name: &String| {
        name.starts_with("zmeld-") && host.exists(format!("/usr/src/{name}/dkms.conf"))
    };
    if !sources.iter().any(is_source) {
        return (
            "zmeld.ko is not installed".to_owned(),
            "install zmeld-dkms (docs/kernel-module.md)".to_owned(),
        );
    }
    if !host.exists(format!("/lib/modules/{kernel}/build/Makefile")) {
        return (
            format!("DKMS built none for {kernel}, whose headers are not installed"),
            format!("install linux-headers-{kernel} (kernel-devel-{kernel} on Fedora)"),
        );
    }
    (
        format!("DKMS has built none for {kernel}"),
        format!(
            "dkms autoinstall -k {kernel} (why a build failed is in \
             /var/lib/dkms/zmeld/*/build/make.log)"
        ),
    )
}

/// The missing means to encrypt a drive, and the remedy; none where nothing is missing, as far as
/// one can tell. `kernel`: its release.
pub fn lacks_encryption(host: &Host, kernel: &str) -> Option<(String, &'static str)> {
    if host.lacks_program("cryptsetup") {
        return Some((
            "cryptsetup, which is not installed".to_owned(),
            "install it, or leave encryption out",
        ));
    }
    let read = |path: &str| host.read_optional(path).ok().flatten();
    let listed = |list: &str| {
        let list = read(&format!("/lib/modules/{kernel}/{list}"))?;
        Some(list.lines().any(|line| is_of(line, "dm_crypt")))
    };
    let can_load = loadable(host) > Loadable::Nothing && listed("modules.dep") != Some(false);
    // A built-in driver needs the device mapper, which is listed there.
    let may_be_in = || {
        let misc = read("/proc/misc");
        misc.is_none_or(|it| it.lines().any(|line| line.ends_with(" device-mapper")))
    };
    let is_there = can_load
        || host.exists("/sys/module/dm_crypt")
        || listed("modules.builtin").unwrap_or_else(may_be_in);
    (!is_there).then(|| {
        (
            "dm-crypt, which this kernel has not got".to_owned(),
            "use a kernel that has it, or leave encryption out",
        )
    })
}

impl ModulePresence {
    /// Whether it can make devices, once its module is loaded.
    pub fn is_there(self) -> bool {
        matches!(self, ModulePresence::Ready | ModulePresence::Module)
    }

    /// Presence of that driver on a machine. `dep`: its kernel's list of modules
    /// (`/lib/modules/RELEASE/modules.dep`).
    pub fn read(host: &Host, name: &str, dep: Option<&str>) -> ModulePresence {
        match dep {
            _ if host.exists(format!("/sys/class/{name}-control/hot_add")) => ModulePresence::Ready,
            _ if loadable(host) == Loadable::Nothing => ModulePresence::Impossible,
            None => ModulePresence::Unknown,
            Some(dep) if dep.lines().any(|line| is_of(line, name)) => ModulePresence::Module,
            Some(_) => ModulePresence::Absent,
        }
    }
}

/// Whether a line of `modules.dep` is a module's own:
/// `kernel/drivers/block/zram/zram.ko.zst: kernel/mm/zsmalloc.ko.zst`.
fn is_of(line: &str, name: &str) -> bool {
    let path = line.split(':').next().unwrap_or_default();
    let file = path.rsplit('/').next().unwrap_or_default();
    let stem = file.split(".ko").next().unwrap_or_default();
    // A module's name has underscores where its file may have dashes.
    file.contains(".ko") && stem.replace('-', "_") == name.replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEP: &str = "kernel/drivers/block/zram/zram.ko.zst: kernel/mm/zsmalloc.ko.zst\n\
                       kernel/mm/zsmalloc.ko.zst:\nupdates/dkms/zmeld.ko:\n";

    #[test]
    fn what_encryption_needs_is_missing_only_where_that_is_known() {
        let lists = |dep: &str, builtin: &str| {
            let (_dir, host) = Host::planted(&[
                ("/proc/misc", "200 tun\n"),
                ("/lib/modules/6/modules.dep", dep),
                ("/lib/modules/6/modules.builtin", builtin),
            ]);
            host.plant("/proc/modules", "");
            lacks_encryption(&host, "6").is_some()
        };
        assert!(!lists("kernel/drivers/md/dm-crypt.ko.xz:\n", ""));
        assert!(!lists("", "kernel/drivers/md/dm-crypt.ko\n"));
        assert!(lists("", "kernel/drivers/md/dm-mod.ko\n"));
        let (_dir, host) = Host::planted(&[]);
        let lacks = || lacks_encryption(&host, "6").map(|it| it.0);
        assert_eq!(lacks(), None);
        host.plant("/proc/misc", "200 tun\n");
        assert!(lacks().unwrap().starts_with("dm-crypt"));
        host.plant("/proc/misc", " 236 device-mapper\n");
        assert_eq!(lacks(), None);
        host.plant("/usr/sbin/wipefs", "");
        assert!(lacks().unwrap().starts_with("cryptsetup"));
        host.plant("/usr/sbin/cryptsetup", "");
        assert_eq!(lacks(), None);
    }

    #[test]
    fn a_module_is_where_the_index_has_it() {
        let (_dir, host) = Host::planted(&[]);
        let read = |name, dep| ModulePresence::read(&host, name, dep);
        assert_eq!(read("zram", Some(DEP)), ModulePresence::Impossible);
        host.plant("/proc/modules", "");
        assert_eq!(read("zram", Some(DEP)), ModulePresence::Module);
        assert_eq!(read("zmeld", Some(DEP)), ModulePresence::Module);
        assert_eq!(read("meld", Some(DEP)), ModulePresence::Absent);
        host.plant("/proc/sys/kernel/modules_disabled", "1\n");
        assert_eq!(read("zmeld", Some(DEP)), ModulePresence::Impossible);
        host.plant("/proc/sys/kernel/modules_disabled", "0\n");
        let other = "a/b.ko: c/zsmalloc.ko\n";
        assert_eq!(read("zsmalloc", Some(other)), ModulePresence::Absent);
        assert_eq!(read("zram", None), ModulePresence::Unknown);
        host.plant("/sys/class/zram-control/hot_add", "");
        assert_eq!(read("zram", None), ModulePresence::Ready);
    }
}
