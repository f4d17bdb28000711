//! A NixOS module, in NixOS's own options as far as it has them: `swapDevices`,
//! `services.zram-generator`, `boot.kernelParams` for zswap, `boot.kernel.sysctl`.
//! The rest is done by zmeld itself, as `services.zmeld` of `packaging/nix`.

use std::fmt::Write;

use super::units::wants_watch;
use zmeld_config::{
    Codec, Comments, Config, Discard, DiskSwap, Encryption, EncryptionKind, FindingId, KernelValue,
    Kind, PageFilter, RamDevice, RamDriver, Size, Source, Swappiness, Tier, Tunables, Zswap,
};

/// zswap's parameters that no kernel with zswap lacks.
const IN_EVERY_KERNEL: [&str; 3] = ["compressor", "max_pool_percent", "enabled"];

/// The module for a configuration. `ram_bytes` is the RAM of the machine that it
/// is for: NixOS takes sizes of swap files as numbers.
pub fn nixos(config: &Config, ram_bytes: u64) -> String {
    let mut module = Module {
        config,
        ram_bytes,
        text: String::new(),
        left: Vec::new(),
    };
    if config.tunables.swappiness == Some(Swappiness::Auto) {
        module.left.push(
            "swappiness = \"auto\" is measured by zmeld up; write the number that it finds"
                .to_owned(),
        );
    }
    module.ram();
    module.disks();
    if let Some(zswap) = config.zswap() {
        module.zswap(zswap);
    }
    module.sysctl();
    module.zmeld();
    let mut text = String::from(
        "# Swap, written by zmeld export nixos. Import it in configuration.nix:\n\
         #   imports = [ ./swap.nix ];\n",
    );
    for left in &module.left {
        let _ = writeln!(text, "#\n# {}", left.replace(char::is_control, "?"));
    }
    let _ = write!(text, "{{ ... }}:\n\n{{\n{}}}\n", module.text);
    text
}

struct Module<'a> {
    config: &'a Config,
    ram_bytes: u64,
    text: String,
    left: Vec<String>,
}

impl Module<'_> {
    fn line(&mut self, line: &str) {
        self.text.push_str("  ");
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn priority(&self, tier: &Tier) -> i16 {
        let areas = self.config.areas();
        let area = areas.iter().find(|(area, ..)| area.name == tier.name);
        area.map_or(-1, |(_, priority)| *priority)
    }

    /// RAM devices that zram-generator makes.
    fn ram(&mut self) {
        let config = self.config;
        let ram = config
            .in_ram()
            .filter(|(_, device)| by_zram_generator(device));
        let ram: Vec<_> = ram.collect();
        if ram.is_empty() {
            return;
        }
        self.line("services.zram-generator.enable = true;");
        for (number, (tier, device)) in ram.into_iter().enumerate() {
            let priority = self.priority(tier);
            let size = zram_size(&device.size);
            self.line(&format!(
                "services.zram-generator.settings.zram{number} = {{"
            ));
            self.line(&format!("  zram-size = {};", string(&size)));
            if let Some(limit) = &device.memory_limit {
                let limit = zram_size(limit);
                self.line(&format!("  zram-resident-limit = {};", string(&limit)));
            }
            if let Some(algorithm) = algorithm(self.config, device) {
                self.line(&format!(
                    "  compression-algorithm = {};",
                    string(&algorithm)
                ));
            }
            if let Some(writeback) = &device.writeback {
                let path = writeback.device.path();
                let path = string(&path.to_string_lossy());
                self.line(&format!("  writeback-device = {path};"));
            }
            self.line(&format!("  swap-priority = {};", int(priority.into())));
            let options = match tier.swap.discard {
                Discard::None => "defaults",
                Discard::Once => "discard=once",
                Discard::Pages => "discard=pages",
                Discard::Both => "discard",
            };
            self.line(&format!("  options = {};", string(options)));
            self.line("};");
        }
        self.text.push('\n');
    }

    fn disks(&mut self) {
        let config = self.config;
        let disks = config.disks().filter(|(_, disk)| !is_luks(disk));
        let disks: Vec<_> = disks.collect();
        if !disks.is_empty() {
            self.line("swapDevices = [");
            for (tier, disk) in &disks {
                self.area(tier, disk);
            }
            self.line("];\n");
        }
        for (tier, disk) in config.disks() {
            self.hibernation(tier, disk);
        }
    }

    fn area(&mut self, tier: &Tier, disk: &DiskSwap) {
        let path = match disk.source() {
            Source::Device(location) => location.path().to_string_lossy().into_owned(),
            Source::File { path, .. } => path.to_string_lossy().into_owned(),
        };
        self.line("  {");
        self.line(&format!("    device = {};", string(&path)));
        if let Some(size) = &disk.size {
            let mebibytes = (size.bytes(self.ram_bytes) >> 20).max(1);
            if !matches!(size, Size::Bytes(_)) {
                let ram = self.ram_bytes >> 20;
                self.line(&format!("    # {size} of {ram} MiB of RAM"));
            }
            self.line(&format!("    size = {mebibytes};"));
        }
        let priority = self.priority(tier);
        if priority >= 0 {
            self.line(&format!("    priority = {priority};"));
        }
        let discard = match tier.swap.discard {
            Discard::None => None,
            Discard::Once => Some("once"),
            Discard::Pages => Some("pages"),
            Discard::Both => Some("both"),
        };
        if let Some(discard) = discard {
            self.line(&format!("    discardPolicy = {};", string(discard)));
        }
        let mut options = Vec::new();
        if tier.swap.optional {
            options.push("nofail".to_owned());
        }
        if disk.device.is_some() {
            options.push(format!("x-systemd.device-timeout={}", disk.timeout));
            if !disk.encryption_is_random() && disk.format {
                options.push("x-systemd.makefs".to_owned());
            }
        }
        if !options.is_empty() {
            let options: Vec<_> = options.iter().map(|option| string(option)).collect();
            self.line(&format!("    options = [ {} ];", options.join(" ")));
        }
        if let Encryption::Random { cipher } = disk.encryption() {
            self.line("    randomEncryption = {");
            self.line("      enable = true;");
            self.line(&format!("      cipher = {};", string(&cipher.name)));
            self.line(&format!("      keySize = {};", cipher.key_size));
            if discard.is_some() {
                self.line("      allowDiscards = true;");
            }
            self.line("    };");
        }
        self.line("  }");
    }

    fn hibernation(&mut self, tier: &Tier, disk: &DiskSwap) {
        match disk.source() {
            _ if !disk.hibernation => {}
            _ if is_luks(disk) => self.left.push(format!(
                "To hibernate into the volume of tier {name}, boot.initrd.luks.devices.zmeld-{name} and \
                 boot.resumeDevice have to be written by hand",
                name = tier.name
            )),
            Source::File { path, .. } => self.left.push(format!(
                "To hibernate into {}, boot.resumeDevice and the kernel parameter \
                 resume_offset have to be written by hand (filefrag -v shows the offset)",
                path.display()
            )),
            Source::Device(location) => {
                let device = string(&location.path().to_string_lossy());
                self.line(&format!("boot.resumeDevice = {device};\n"));
            }
        }
    }

    fn zswap(&mut self, zswap: &Zswap) {
        let parameters = zswap.parameters();
        self.line("boot.kernelParams = [");
        for parameter in &parameters {
            // At boot it is a number; the others read alike there and later.
            let value = match &*parameter.name {
                "enabled" => "1",
                _ => &parameter.value,
            };
            let word = format!("zswap.{}={value}", parameter.name);
            self.line(&format!("  {}", string(&word)));
        }
        self.line("];");
        self.line("# A codec that is a module cannot be had as early as the parameters are read.");
        self.line("systemd.services.zmeld-zswap = {");
        self.line("  description = \"zswap's parameters\";");
        self.line("  wantedBy = [ \"multi-user.target\" ];");
        self.line("  unitConfig.ConditionPathExists = \"/sys/module/zswap/parameters\";");
        self.line("  serviceConfig.Type = \"oneshot\";");
        self.line("  serviceConfig.RemainAfterExit = true;");
        self.line("  script = ''");
        self.line("    cd /sys/module/zswap/parameters");
        for KernelValue { name, value, .. } in &parameters {
            let guard = match IN_EVERY_KERNEL.contains(&&**name) {
                true => String::new(),
                false => format!("[ ! -e {name} ] || "),
            };
            self.line(&format!("    {guard}echo {value} > {name}"));
        }
        self.line("  '';");
        self.line("};\n");
    }

    fn sysctl(&mut self) {
        let values = self.config.tunables.values();
        if values.is_empty() {
            return;
        }
        self.line("boot.kernel.sysctl = {");
        for tunable in values {
            self.line(&format!("  \"vm.{}\" = {};", tunable.name, tunable.value));
        }
        self.line("};\n");
    }

    /// Settings without a NixOS option, as a configuration of zmeld.
    fn zmeld(&mut self) {
        let config = self.config;
        let has_option = |kind: &Kind| match kind {
            Kind::Ram(device) => by_zram_generator(device),
            Kind::Disk(disk) => !is_luks(disk),
            Kind::Zswap(_) => true,
        };
        let is_left = |tier: &&Tier| !has_option(&tier.kind);
        let mut tiers: Vec<Tier> = config.tiers.iter().filter(is_left).cloned().collect();
        let has_rules = wants_watch(config) || config.watch.guard.is_some();
        let auto = config.tunables.swappiness == Some(Swappiness::Auto);
        if tiers.is_empty() && !has_rules && !auto {
            return;
        }
        // Priorities follow from all the tiers together.
        for tier in &mut tiers {
            tier.swap.priority = Some(self.priority(tier));
        }
        let mut rest = Config {
            tiers,
            without_tiers: config.without_tiers,
            tunables: Tunables {
                swappiness: config.tunables.swappiness.filter(|_| auto),
                ..Tunables::default()
            },
            watch: config.watch.clone(),
            metrics: config.metrics.clone(),
            accept: config.accept.clone(),
        };
        // The tiers that its rules are for are set up by NixOS.
        if has_rules && !rest.accept.contains(&FindingId::UnusedRule) {
            rest.accept.push(FindingId::UnusedRule);
        }
        self.left.push(
            "What NixOS has no option for is done by zmeld: import packaging/nix/module.nix, too"
                .to_owned(),
        );
        let text = string(&rest.to_toml(&Comments::new()));
        self.line("services.zmeld.enable = true;");
        self.line(&format!(
            "services.zmeld.settings = builtins.fromTOML {text};\n"
        ));
    }
}

fn is_luks(disk: &DiskSwap) -> bool {
    disk.encryption == EncryptionKind::Luks
}

/// Whether zram-generator has words for all of it.
fn by_zram_generator(device: &RamDevice) -> bool {
    let writeback = device.writeback.as_ref().is_none_or(|writeback| {
        writeback.encryption == EncryptionKind::None
            && writeback.daily_limit.is_none()
            && !writeback.compressed
            && !writeback.optional
    });
    // Its further codecs are those to compress again with.
    let one_codec = device.codec.len() <= 1;
    device.driver == RamDriver::Zram && writeback && one_codec
}

/// A size in zram-generator's arithmetic: `ram` is in MiB.
fn zram_size(size: &Size) -> String {
    let mib = |bytes: u64| match bytes.is_multiple_of(1 << 20) {
        true => (bytes >> 20).to_string(),
        false => format!("{bytes} / 1048576"),
    };
    match size {
        Size::Bytes(bytes) => mib(bytes.0),
        Size::Ram { percent, at_most } => {
            let share = format!("ram * {}", percent.fraction());
            match at_most {
                None => share,
                Some(limit) => format!("min({share}, {})", mib(limit.0)),
            }
        }
    }
}

/// `lz4 zstd(level=9) (type=idle)`; zram-generator 1.2 has parameters.
fn algorithm(config: &Config, device: &RamDevice) -> Option<String> {
    let with = |codec: &Codec| {
        let mut parameters = Vec::new();
        if let Some(level) = codec.level {
            parameters.push(format!("level={level}"));
        }
        if let Some(dict) = &codec.dict {
            parameters.push(format!("dict={}", dict.display()));
        }
        if parameters.is_empty() {
            codec.name.clone()
        } else {
            format!("{}({})", codec.name, parameters.join(","))
        }
    };
    let mut words = vec![with(device.codec.first()?)];
    words.extend(device.recompress.iter().map(with));
    if let (Some(rule), false) = (&config.watch.recompress, device.recompress.is_empty()) {
        let pages = match rule.pages {
            PageFilter::Idle => "idle",
            PageFilter::Huge => "huge",
            PageFilter::HugeIdle => "huge_idle",
        };
        words.push(format!("(type={pages})"));
    }
    Some(words.join(" "))
}

/// A string of Nix.
fn string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '$' => quoted.push_str("\\$"),
            '\n' => quoted.push_str("\\n"),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A number of Nix; one below zero has parentheses, as arguments need them.
fn int(number: i64) -> String {
    if number < 0 {
        format!("({number})")
    } else {
        number.to_string()
    }
}
