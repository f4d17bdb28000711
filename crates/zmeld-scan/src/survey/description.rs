//! Figures of the machine from the kernel. Missing ones are absent, never 0.

use std::os::unix::fs::MetadataExt;

use zmeld_linux::boot::uptime;
use zmeld_linux::compressed::{choices, chosen, is_on, ZSWAP};
use zmeld_linux::meminfo::{self, Meminfo};
use zmeld_linux::modules::{loadable, Loadable};
use zmeld_linux::pressure::Pressure;
use zmeld_linux::release::{configuration, option};
use zmeld_linux::Host;

use crate::survey::Error;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct MachineDescription {
    pub host: Option<String>,
    /// `uname -r`.
    pub kernel: Option<String>,
    /// `uname -m`.
    pub architecture: Option<String>,
    /// PRETTY_NAME of os-release.
    pub distribution: Option<String>,
    pub ram_bytes: Option<u64>,
    pub swap_bytes: Option<u64>,
    pub swap_used_bytes: Option<u64>,
    /// `none`, `zram lz4`, `zswap zstd`, `zmeld zword`; several joined by ` + `.
    pub compressed_swap: String,
    /// Pages that same-page merging keeps.
    pub ksm_pages_shared: Option<u64>,
    /// Mappings of these beyond the first.
    pub ksm_pages_sharing: Option<u64>,
    pub stalls: Option<Pressure>,
    pub uptime_seconds: Option<f64>,
    /// Codecs of the kernel's zram, with spaces between; empty where there is no zram.
    pub zram_codecs: Option<String>,
    /// Whether a module that the kernel's makers did not sign can be loaded.
    pub modules: bool,
}

impl MachineDescription {
    pub fn look(host: &Host) -> MachineDescription {
        let text = |path: &str| host.read(path).ok().filter(|text| !text.is_empty());
        let memory = text(meminfo::PATH).unwrap_or_default();
        let memory = Meminfo::new(&memory);
        let swap = memory.bytes("SwapTotal");
        let free = memory.bytes("SwapFree");
        let name = rustix::system::uname();
        MachineDescription {
            host: host_name(host),
            kernel: text("/proc/sys/kernel/osrelease"),
            architecture: Some(name.machine().to_string_lossy().into_owned()),
            distribution: distribution(host),
            ram_bytes: memory.total_bytes(),
            swap_bytes: swap,
            swap_used_bytes: swap.zip(free).map(|(all, free)| all.saturating_sub(free)),
            compressed_swap: compressed_swap(host),
            ksm_pages_shared: host.read_u64("/sys/kernel/mm/ksm/pages_shared").ok(),
            ksm_pages_sharing: host.read_u64("/sys/kernel/mm/ksm/pages_sharing").ok(),
            stalls: text(crate::survey::pressure::PATH).and_then(|it| Pressure::parse(&it)),
            uptime_seconds: uptime(host).ok().flatten(),
            zram_codecs: zram_codecs(host),
            modules: loadable(host) == Loadable::Anything,
        }
    }
}

/// The files that the first process sees: the machine's, also where this is a container
/// that sees the machine's processes.
const FIRST_ROOT: &str = "/proc/1/root";

/// A file of the machine: as the first process sees it, or where that is not to be known
/// as this one does.
pub(crate) fn of_host(host: &Host, path: &str) -> Option<String> {
    let read = |path: &str| host.read(path).ok().filter(|text| !text.is_empty());
    read(&format!("{FIRST_ROOT}{path}")).or_else(|| read(path))
}

/// The machine's name. A container has one of its own, and the kernel tells nobody
/// another's: then it is the one that the machine takes when it boots.
fn host_name(host: &Host) -> Option<String> {
    let names = |process: &str| {
        let space = format!("/proc/{process}/ns/uts");
        let found = host.tree().metadata(space.as_ref()).ok()?;
        Some((found.dev(), found.ino()))
    };
    let text = match (names("self"), names("1")) {
        (Some(own), Some(first)) if own != first => {
            host.read(format!("{FIRST_ROOT}/etc/hostname")).ok()?
        }
        _ => host.read("/proc/sys/kernel/hostname").ok()?,
    };
    let is_name = |line: &&str| !line.is_empty() && !line.starts_with('#');
    text.lines().map(str::trim).find(is_name).map(str::to_owned)
}

const IDS: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];

/// A machine's identity: the id of /etc/machine-id.
pub fn id(host: &Host) -> Result<String, Error> {
    let is_id =
        |text: &String| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let id = IDS
        .iter()
        .find_map(|path| of_host(host, path))
        .map(|text| text.to_ascii_lowercase());
    match id.filter(is_id) {
        Some(id) => Ok(id),
        None if is_hidden(host) => Err(Error::HiddenMachine),
        None => Err(Error::NoMachineId),
    }
}

/// Whether the first process's files are there and root may not read them.
fn is_hidden(host: &Host) -> bool {
    let looked = host.tree().metadata(FIRST_ROOT.as_ref());
    host.is_root()
        && looked.is_err_and(|cause| cause.kind() == std::io::ErrorKind::PermissionDenied)
}

fn distribution(host: &Host) -> Option<String> {
    let text = of_host(host, "/etc/os-release").or_else(|| of_host(host, "/usr/lib/os-release"))?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    let value = value.trim();
    let quoted = value
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    Some(quoted.unwrap_or(value).to_owned())
}

fn compressed_swap(host: &Host) -> String {
    let read = |path: String| host.read(path).unwrap_or_default();
    let mut found = Vec::new();
    if is_on(&read(format!("{ZSWAP}/enabled"))) {
        found.push(format!("zswap {}", read(format!("{ZSWAP}/compressor"))));
    }
    let areas = host.swaps().unwrap_or_default();
    for area in areas.iter().filter(|area| area.is_in_ram()) {
        let name = area.name();
        let codecs = read(format!("/sys/block/{name}/comp_algorithm"));
        let driver = name.trim_end_matches(|c: char| c.is_ascii_digit());
        found.push(format!("{driver} {}", chosen(&codecs).unwrap_or_default()));
    }
    found.dedup();
    let words: Vec<&str> = found.iter().map(|it| it.trim_end()).collect();
    match words.is_empty() {
        true => "none".to_owned(),
        false => words.join(" + "),
    }
}

/// As a device of zram lists them, or as the kernel was configured.
fn zram_codecs(host: &Host) -> Option<String> {
    let listed = |name: &String| {
        let listed = host.read(format!("/sys/block/{name}/comp_algorithm"));
        listed.ok().filter(|_| name.starts_with("zram"))
    };
    let mut devices = host.list("/sys/block").unwrap_or_default().into_iter();
    if let Some(text) = devices.find_map(|name| listed(&name)) {
        return Some(choices(&text).join(" "));
    }
    let release = host.read("/proc/sys/kernel/osrelease").ok()?;
    let config = configuration(host, &release);
    let config = config.or_else(|| of_host(host, &format!("/boot/config-{release}")))?;
    let is_set = |name: &str| matches!(option(&config, name), Some("y" | "m"));
    // From Linux 6.12 on zram has backends of its own.
    let names = match config.contains("CONFIG_ZRAM_BACKEND_") {
        true => "CONFIG_ZRAM_BACKEND_",
        false => "CONFIG_CRYPTO_",
    };
    let there = |(codec, option): &(&'static str, &str)| {
        (is_set("CONFIG_ZRAM") && is_set(&format!("{names}{option}"))).then_some(*codec)
    };
    let codecs = [("lzo-rle", "LZO"), ("lz4", "LZ4"), ("zstd", "ZSTD")];
    let codecs: Vec<&str> = codecs.iter().filter_map(there).collect();
    Some(codecs.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_the_kernel_does_not_say_is_absent() {
        let dir = tempfile::tempdir().unwrap();
        let machine = MachineDescription::look(&Host::at(dir.path()));
        assert_eq!(machine.compressed_swap, "none");
        assert_eq!(
            (machine.ram_bytes, machine.ksm_pages_shared, machine.stalls),
            (None, None, None)
        );
        assert!(matches!(id(&Host::at(dir.path())), Err(Error::NoMachineId)));
    }

    #[test]
    fn a_machine_says_what_it_is() {
        let (_dir, host) = Host::planted(&[
            (
                "/proc/meminfo",
                "MemTotal: 2048 kB\nSwapTotal: 100 kB\nSwapFree: 40 kB\n",
            ),
            ("/proc/sys/kernel/hostname", "web7\n"),
            ("/proc/uptime", "12.50 3.00\n"),
            (
                "/proc/pressure/memory",
                "some avg10=0.00 avg60=0.00 avg300=1.25 total=9\n\
                  full avg10=0.00 avg60=0.00 avg300=0.50 total=1\n",
            ),
            (
                "/proc/swaps",
                "Filename Type Size Used Priority\n\
                  /dev/zram0 partition 100 60 100\n/dev/sda2 partition 100 0 -2\n",
            ),
            ("/sys/block/zram0/comp_algorithm", "lzo [lz4] zstd\n"),
            ("/sys/module/zswap/parameters/enabled", "Y\n"),
            ("/sys/module/zswap/parameters/compressor", "zstd\n"),
            ("/sys/kernel/mm/ksm/pages_shared", "5\n"),
            ("/etc/os-release", "NAME=x\nPRETTY_NAME=\"Debian 12\"\n"),
            ("/etc/machine-id", "0123456789ABCDEF0123456789abcdef\n"),
        ]);
        let machine = MachineDescription::look(&host);
        assert_eq!(machine.compressed_swap, "zswap zstd + zram lz4");
        assert_eq!(machine.host.as_deref(), Some("web7"));
        assert_eq!(
            (machine.ram_bytes, machine.swap_used_bytes),
            (Some(2 << 20), Some(60 << 10))
        );
        assert_eq!(
            (machine.ksm_pages_shared, machine.ksm_pages_sharing),
            (Some(5), None)
        );
        assert_eq!(machine.stalls.unwrap().some.avg300_percent, 1.25);
        assert_eq!(machine.distribution.as_deref(), Some("Debian 12"));
        assert_eq!(id(&host).unwrap(), "0123456789abcdef0123456789abcdef");
        // In a container with the host's processes, the host's id counts.
        host.plant("/proc/1/root/etc/machine-id", "a".repeat(32));
        assert_eq!(id(&host).unwrap(), "a".repeat(32));
    }

    #[test]
    fn a_machine_says_which_codecs_and_modules_it_takes() {
        let config = "CONFIG_ZRAM=m\nCONFIG_CRYPTO_LZO=y\nCONFIG_CRYPTO_LZ4=m\n\
                      # CONFIG_CRYPTO_ZSTD is not set\n";
        let (_dir, host) = Host::planted(&[
            ("/proc/sys/kernel/osrelease", "6.1.0-x\n"),
            ("/boot/config-6.1.0-x", config),
        ]);
        let look = || MachineDescription::look(&host);
        assert_eq!(look().zram_codecs.as_deref(), Some("lzo-rle lz4"));
        assert!(!look().modules);
        let newer = "CONFIG_ZRAM=m\nCONFIG_CRYPTO_LZO=y\nCONFIG_ZRAM_BACKEND_ZSTD=y\n";
        host.plant("/boot/config-6.1.0-x", newer);
        assert_eq!(look().zram_codecs.as_deref(), Some("zstd"));
        host.plant("/boot/config-6.1.0-x", "CONFIG_CRYPTO_LZO=y\n");
        assert_eq!(look().zram_codecs.as_deref(), Some(""));
        host.plant("/sys/block/zram0/comp_algorithm", "lzo [lz4] zstd\n");
        assert_eq!(look().zram_codecs.as_deref(), Some("lzo lz4 zstd"));
        host.plant("/proc/modules", "");
        assert!(look().modules);
        host.plant("/sys/module/module/parameters/sig_enforce", "Y\n");
        assert!(!look().modules);
    }

    #[test]
    fn in_a_container_the_name_is_the_machines() {
        let (dir, host) = Host::planted(&[
            ("/proc/sys/kernel/hostname", "zmeld-survey-x7k2p\n"),
            ("/proc/self/ns/uts", ""),
        ]);
        let name = || MachineDescription::look(&host).host;
        // The first process is not to be looked at: an ordinary user, or hidden ones.
        assert_eq!(name().as_deref(), Some("zmeld-survey-x7k2p"));
        // It has a name of its own, which this kernel keeps to itself.
        host.plant("/proc/1/ns/uts", "");
        assert_eq!(name(), None);
        host.plant("/proc/1/root/etc/hostname", "# set at boot\nnode7\n");
        assert_eq!(name().as_deref(), Some("node7"));
        // The same namespace: the kernel's word counts.
        let (own, first) = ("proc/self/ns/uts", "proc/1/ns/uts");
        fs::remove_file(dir.path().join(first)).unwrap();
        fs::hard_link(dir.path().join(own), dir.path().join(first)).unwrap();
        assert_eq!(name().as_deref(), Some("zmeld-survey-x7k2p"));
    }
}
