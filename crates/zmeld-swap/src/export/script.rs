//! A POSIX shell script that sets up the same without zmeld: with `swapon`,
//! `mkswap`, `wipefs`, `flock` and `fallocate` of util-linux, and `cryptsetup`
//! where something is encrypted.
//!
//! `script up` does nothing twice, `script undo` takes back what it did, and what
//! a killed run left is noted below `/run` before it is done.

use std::fmt::Write;

use super::left::left_to_zmeld;
use crate::config::{
    Config, Discard, DiskSwap, Encryption, Kind, MeldMode, RamDevice, RamDriver, Size, Source,
    Swap, Swappiness, Tier, Tunables, Zpool, Zswap,
};

/// The functions that every script has.
const FUNCTIONS: &str = include_str!("script.sh");

const ZSWAP: &str = "/sys/module/zswap/parameters";

/// The whole script for a configuration.
pub fn script(config: &Config) -> String {
    let mut text = String::from(
        "#!/bin/sh\n\
         # Sets up compressed swap. Written by zmeld export script; zmeld is not needed to\n\
         # run it.\n\
         #\n\
         #   script         set up what is not set up yet\n\
         #   script undo    take it back\n\
         #\n\
         # Functions are called by their names, and not all of them by every set-up.\n\
         # shellcheck disable=SC2317,SC2329\n",
    );
    for line in left_to_zmeld(config, true) {
        let _ = writeln!(
            text,
            "#\n# Left out: {}",
            line.replace(char::is_control, "?")
        );
    }
    text.push_str(FUNCTIONS);
    let areas = config.areas();
    for (number, tier) in (1..).zip(&config.tiers) {
        let priority = areas
            .iter()
            .find(|(area, ..)| area.name == tier.name)
            .map_or(-1, |(.., priority)| *priority);
        function(&mut text, tier, number, priority);
    }
    let ram = |tier: &Tier| matches!(tier.kind, Kind::Ram(_));
    let zswap_off = config.tiers.iter().any(ram) && config.zswap().is_none();
    let values = tunable_values(&config.tunables);
    if !values.is_empty() {
        text.push_str("\ntunables() {\n");
        for (name, value) in &values {
            let _ = writeln!(text, "\tset_value /proc/sys/vm/{name} {value}");
        }
        text.push_str("}\n");
    }
    // No tier's name starts with a dot.
    text.push_str("\nset_up() {\n");
    if zswap_off {
        text.push_str("\ttier .zswap required zswap_off\n");
    }
    for (number, tier) in (1..).zip(&config.tiers) {
        let need = if tier.optional {
            "optional"
        } else {
            "required"
        };
        let _ = writeln!(text, "\ttier {} {need} tier_{number}", tier.name);
    }
    if !values.is_empty() {
        text.push_str("\ttier .tunables required tunables\n");
    }
    text.push_str("\t:\n}\n\nmain \"$@\"\n");
    text
}

/// The shell function that sets a tier up.
fn function(text: &mut String, tier: &Tier, number: usize, priority: i16) {
    let name = tier.name.as_str();
    let _ = writeln!(text, "\n# {name}\ntier_{number}() {{");
    let mut body = Body { text, name };
    match &tier.kind {
        Kind::Ram(device) => body.ram(device, priority),
        Kind::Zswap(zswap) => body.zswap(zswap),
        Kind::Disk(disk) => body.disk(disk, priority),
    }
    text.push_str("}\n");
}

struct Body<'a> {
    text: &'a mut String,
    name: &'a str,
}

impl Body<'_> {
    fn line(&mut self, line: &str) {
        self.text.push('\t');
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn put(&mut self, value: &str, attribute: &str) {
        self.line(&format!("put {value} \"$sys/{attribute}\""));
    }

    fn ram(&mut self, device: &RamDevice, priority: i16) {
        let driver = match device.driver {
            RamDriver::Zram => "zram",
            RamDriver::Zmeld => "zmeld",
        };
        let mut backing = None;
        if let Some(writeback) = &device.writeback {
            let path = word(&writeback.device.path().to_string_lossy());
            let wait = format!("await {path} {}", writeback.timeout.seconds);
            if writeback.optional {
                self.line(&format!("if ({wait}); then"));
                self.line("\tbacking=yes");
                self.line("else");
                self.line("\tbacking=");
                self.line("fi");
            } else {
                self.line(&wait);
                self.line("backing=yes");
            }
            let mut device = path.clone();
            if let Encryption::Random { cipher } = &writeback.encryption {
                device = format!("/dev/mapper/zmeld-{}", self.name);
                self.line(&format!(
                    "[ -z \"$backing\" ] || open_random {path} zmeld-{} {} {}",
                    self.name,
                    word(&cipher.name),
                    cipher.key_size
                ));
            }
            backing = Some((device, writeback));
        }
        self.line(&format!("add_ram {driver}"));
        if let Some(codec) = &device.codec {
            self.put(&codec.name, "comp_algorithm");
            if let Some(parameters) = codec.parameters(0) {
                self.put(&word(&parameters), "algorithm_params");
            }
        }
        for recompression in &device.recompress {
            let (codec, priority) = (&recompression.codec, recompression.priority);
            let value = format!("'algo={} priority={priority}'", codec.name);
            self.put(&value, "recomp_algorithm");
            if let Some(parameters) = codec.parameters(priority) {
                self.put(&word(&parameters), "algorithm_params");
            }
        }
        if let Some((device, writeback)) = &backing {
            let value = format!("\"$(readlink -f {device})\"");
            self.line(&format!(
                "[ -z \"$backing\" ] || put {value} \"$sys/backing_dev\""
            ));
            if writeback.compressed {
                self.line("[ -z \"$backing\" ] || put 1 \"$sys/compressed_writeback\"");
            }
        }
        self.put(&bytes(&device.size), "disksize");
        if let Some(limit) = &device.memory_limit {
            self.put(&bytes(limit), "mem_limit");
        }
        if let Some(limit) = backing.and_then(|(_, writeback)| writeback.daily_limit) {
            self.line("if [ -n \"$backing\" ]; then");
            self.line(&format!(
                "\tput {} \"$sys/writeback_limit\"",
                limit.0 / 4096
            ));
            self.line("\tput 1 \"$sys/writeback_limit_enable\"");
            self.line("fi");
        }
        let mode = match device.meld {
            MeldMode::Off => None,
            MeldMode::Manual => Some("manual"),
            MeldMode::Auto => Some("auto"),
            MeldMode::Inline => Some("inline"),
        };
        if let Some(mode) = mode {
            self.put(mode, "meld_mode");
        }
        self.line(&format!("make_swap \"$device\" {}", label(self.name)));
        self.on("\"$device\"", device.swap, priority);
    }

    fn on(&mut self, device: &str, swap: Swap, priority: i16) {
        let discard = match swap.discard {
            Discard::None => "none",
            Discard::Once => "once",
            Discard::Pages => "pages",
            Discard::Both => "both",
        };
        self.line(&format!("switch_on {device} {priority} {discard}"));
    }

    fn zswap(&mut self, zswap: &Zswap) {
        for (name, value, always) in zswap_parameters(zswap) {
            let set = if always { "set_value" } else { "set_optional" };
            self.line(&format!("{set} {ZSWAP}/{name} {value}"));
        }
    }

    fn disk(&mut self, disk: &DiskSwap, priority: i16) {
        let name = self.name;
        let path = match &disk.source {
            Source::Device(location) => location.path(),
            Source::File { path, .. } => path.clone(),
        };
        let path = word(&path.to_string_lossy());
        match &disk.source {
            Source::Device(_) => {
                self.line(&format!("await {path} {}", disk.timeout.seconds));
            }
            Source::File { size, .. } => {
                if let Some(size) = size {
                    self.line(&format!("create_file {path} {} {name}", bytes(size)));
                }
                self.line(&format!("[ -f {path} ] || fail {path} is not there"));
            }
        }
        self.line(&format!("if is_on {path}; then return; fi"));
        let discards = if disk.swap.discard == Discard::None {
            ""
        } else {
            " --allow-discards"
        };
        let made = disk.format || matches!(disk.source, Source::File { size: Some(_), .. });
        let mapped = format!("/dev/mapper/zmeld-{name}");
        let label = label(name);
        let device = match &disk.encryption {
            Encryption::None => {
                if made {
                    self.line(&format!("make_swap {path} {label}"));
                } else {
                    self.line(&format!("must_carry {path} swap"));
                }
                path
            }
            Encryption::Luks { key_file, cipher } => {
                let key = word(&key_file.to_string_lossy());
                if disk.format {
                    let (cipher, size) = (word(&cipher.name), cipher.key_size);
                    self.line(&format!("format_luks {path} {key} {cipher} {size}"));
                } else {
                    self.line(&format!("must_carry {path} crypto_LUKS"));
                }
                self.line(&format!("open_luks {path} zmeld-{name} {key}{discards}"));
                self.line(&format!("make_swap {mapped} {label}"));
                mapped
            }
            Encryption::Random { cipher } => {
                let (cipher, size) = (word(&cipher.name), cipher.key_size);
                self.line(&format!(
                    "open_random {path} zmeld-{name} {cipher} {size}{discards}"
                ));
                self.line(&format!("make_swap {mapped} {label}"));
                mapped
            }
        };
        // A step names its device without spaces: a file behind a link does.
        if device.starts_with('\'') {
            self.line(&format!("ln -sfn {device} \"$state/area-{name}\""));
            self.on(&format!("\"$state/area-{name}\""), disk.swap, priority);
        } else {
            self.on(&device, disk.swap, priority);
        }
    }
}

/// Names and values of zswap's parameters, in the order in which they take
/// effect, and whether every kernel with zswap has them.
pub(super) fn zswap_parameters(zswap: &Zswap) -> Vec<(&'static str, String, bool)> {
    let switch = |on: bool| if on { "Y" } else { "N" }.to_owned();
    let zpool = zswap.zpool.map(|zpool| match zpool {
        Zpool::Zbud => "zbud".to_owned(),
        Zpool::Z3fold => "z3fold".to_owned(),
        Zpool::Zsmalloc => "zsmalloc".to_owned(),
    });
    let percent = |value: Option<u8>| value.map(|value| value.to_string());
    let all = [
        ("compressor", zswap.compressor.clone(), true),
        ("zpool", zpool, false),
        ("max_pool_percent", percent(zswap.max_pool_percent), true),
        (
            "accept_threshold_percent",
            percent(zswap.accept_threshold_percent),
            false,
        ),
        ("shrinker_enabled", zswap.shrinker.map(switch), false),
        (
            "same_filled_pages_enabled",
            zswap.same_filled.map(switch),
            false,
        ),
        ("enabled", Some("Y".to_owned()), true),
    ];
    all.into_iter()
        .filter_map(|(name, value, always)| Some((name, value?, always)))
        .collect()
}

/// Names below `/proc/sys/vm` with their values.
pub(super) fn tunable_values(tunables: &Tunables) -> Vec<(&'static str, u64)> {
    let swappiness = match tunables.swappiness {
        Some(Swappiness::Value(value)) => Some(u64::from(value)),
        Some(Swappiness::Auto) | None => None,
    };
    let all = [
        ("swappiness", swappiness),
        ("page-cluster", tunables.page_cluster.map(u64::from)),
        (
            "watermark_scale_factor",
            tunables.watermark_scale_factor.map(u64::from),
        ),
        (
            "watermark_boost_factor",
            tunables.watermark_boost_factor.map(u64::from),
        ),
        (
            "compaction_proactiveness",
            tunables.compaction_proactiveness.map(u64::from),
        ),
        (
            "vfs_cache_pressure",
            tunables.vfs_cache_pressure.map(u64::from),
        ),
        (
            "min_free_kbytes",
            tunables.min_free.map(|bytes| bytes.0 / 1024),
        ),
    ];
    all.into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

/// A size as shell arithmetic over the machine's RAM.
fn bytes(size: &Size) -> String {
    match size {
        Size::Bytes(_) => size.bytes(0).to_string(),
        Size::Ram { percent, at_most } => {
            let hundredths = (percent.fraction() * 10_000.0).round() as u64;
            match at_most {
                None => format!("\"$(share {hundredths})\""),
                Some(limit) => format!("\"$(share {hundredths} {})\"", limit.0),
            }
        }
        Size::Ufpr => "\"$(((ram - ram / 4 + ram / 2) / 4096 * 4096))\"".to_owned(),
    }
}

/// A swap area's label holds 15 bytes.
fn label(name: &str) -> String {
    name.chars().take(15).collect()
}

/// A word of a shell's command line.
pub(super) fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,=@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}
