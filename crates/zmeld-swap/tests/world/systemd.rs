//! fstab and crypttab: systemd's generators, in a root without the marks of a container.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::{
    damaged, is_masked, is_one_in, one, put, put_masks, swap_discard, swap_option, Areas, Judge,
    Theirs,
};

pub const JUDGE: Judge = Judge {
    name: "systemd",
    program: "/lib/systemd/system-generators",
    cases: "world/fstab.txt",
    theirs,
    grammar,
    keys,
};

fn keys(attribute: &str) -> &'static [&'static str] {
    match attribute {
        // Of an area that is not there.
        "size" => &["names no device"],
        "priority" => &["pri="],
        "discard" => &["discard="],
        "timeout" => &["its time-out has no counterpart"],
        "encryption" => &["no cipher is named"],
        _ => &[],
    }
}

const RUN: &str = r#"
mount -t tmpfs none "$2/new"
cd "$2/new"
mkdir usr proc sys etc machine units run
for link in bin sbin lib lib64; do ln -s usr/$link $link; done
mount --rbind /usr usr
mount --rbind /proc proc
mount --rbind /sys sys
mount --bind "$1" machine
mount --bind "$2/units" units
export SYSTEMD_FSTAB=/machine/etc/fstab SYSTEMD_SYSROOT_FSTAB=/none SYSTEMD_IN_INITRD=0
export SYSTEMD_CRYPTTAB=/machine/etc/crypttab SYSTEMD_LOG_TARGET=console
export SYSTEMD_PROC_CMDLINE="$(cat machine/proc/cmdline || echo quiet)"
for generator in fstab cryptsetup; do
    chroot . "$3/systemd-$generator-generator" /units /units /units || true
done
"#;

fn theirs(generators: &Path, root: &Path) -> Theirs {
    let place = tempfile::tempdir().expect("a folder can be made");
    for folder in ["new", "units"] {
        fs::create_dir(place.path().join(folder)).expect("it can be made");
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-euc", RUN, "sh"]);
    let output = command.args([root, place.path(), generators]).output();
    let output = output.expect("unshare is there");
    assert!(output.status.success(), "{output:?}");
    Theirs {
        areas: areas(root, &place.path().join("units")),
        ignored: Vec::new(),
    }
}

/// The value of a unit's key.
fn value(unit: &str, key: &str) -> Option<String> {
    let mut lines = unit.lines();
    let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
    Some(value.replace("%%", "%"))
}

/// Encryption by the options of a volume, with `cryptsetup`'s default: a random key or a key file,
/// and whatever zmeld does not do.
fn encryption(service: &str) -> (String, bool) {
    let line = value(service, "ExecStart").unwrap_or_default();
    let mut words = line.split('\'').skip(3).step_by(2);
    let device = words.next().unwrap_or_default().replace("\\\\x", "\\x");
    let key = words.next().unwrap_or_default().to_owned();
    let options = words.next().unwrap_or_default().to_owned();
    let (mut cipher, mut size) = ("aes-cbc-essiv:sha256", "256");
    let mut others = Vec::new();
    for option in options.split(',').filter(|it| !it.is_empty()) {
        match option.split_once('=').unwrap_or((option, "")) {
            ("cipher", name) => cipher = name,
            ("size", bits) => size = bits,
            ("hash", _) | ("plain" | "swap" | "luks" | "nofail" | "discard" | "noearly", "") => {}
            _ => others.push(option),
        }
    }
    let is_random = ["/dev/urandom", "/dev/random", "/dev/hwrng"].contains(&&*key);
    let is_swap = options.split(',').any(|it| it == "swap");
    let how = match is_random && is_swap {
        true => format!("random {cipher} {size}"),
        false => format!("luks {key}"),
    };
    let others = others.join(",");
    let may_fail = options.split(',').any(|it| it == "nofail");
    (format!("{how} {device}{others}"), may_fail)
}

fn areas(root: &Path, units: &Path) -> Areas {
    let mut areas = Areas::new();
    if is_masked(root, "swap.target") {
        return areas;
    }
    for entry in fs::read_dir(units).expect("its units") {
        let path = entry.expect("a name").path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if !name.ends_with(".swap") {
            continue;
        }
        let unit = fs::read_to_string(&path).expect("a unit");
        let what = value(&unit, "What").expect("a swap unit has it");
        let is_wanted = units.join("swap.target.wants").join(&name).exists();
        let is_required = units.join("swap.target.requires").join(&name).exists();
        // systemd takes no unit with another path.
        if !what.starts_with('/') || !is_wanted && !is_required || is_masked(root, &name) {
            continue;
        }
        let options = value(&unit, "Options").unwrap_or_default();
        let discard = swap_discard(&options);
        let priority = swap_option(&options, "pri").and_then(|it| it.strip_prefix("pri="));
        let is_formatted = units.join(format!("{name}.requires")).exists();
        let mut area = BTreeMap::from([
            ("discard", discard.to_owned()),
            // The kernel's own choice is below all others.
            (
                "priority",
                match priority.map(str::parse::<i16>) {
                    Some(Ok(priority)) => priority.max(-1).to_string(),
                    _ => priority.unwrap_or("-1").to_owned(),
                },
            ),
            ("format", is_formatted.to_string()),
            ("encryption", String::new()),
        ]);
        let mut may_fail = is_wanted;
        let stem = name.trim_end_matches(".swap");
        if let Some(volume) = stem.strip_prefix("dev-mapper-") {
            let service = units.join(format!("systemd-cryptsetup@{volume}.service"));
            if let Ok(service) = fs::read_to_string(service) {
                let (how, volume_may_fail) = encryption(&service);
                area.insert("encryption", how);
                may_fail |= volume_may_fail;
            }
        }
        area.insert("optional", may_fail.to_string());
        let timeout = units.join(format!("{stem}.device.d/50-device-timeout.conf"));
        if let Ok(timeout) = fs::read_to_string(timeout) {
            let span = value(&timeout, "JobRunningTimeoutSec").unwrap_or_default();
            let said = match &*span {
                "90" | "90s" => "90s",
                "1min" | "1m" => "1min",
                "5s" | "5" => "5s",
                "30" => "30s",
                other => other,
            };
            area.insert("timeout", said.to_owned());
        }
        let path: std::path::PathBuf = Path::new(&what).components().collect();
        areas.insert(path.display().to_string(), area);
    }
    areas
}

#[rustfmt::skip]
fn grammar(random: &mut ChaCha8Rng, root: &Path) {
    let mut text = String::new();
    for _ in 0..random.random_range(1..7) {
        let device = one(random, &[
            "/dev/sda5", "/dev/sda5", "/dev/sdb1", "UUID=12-34", "UUID=\"12-34\"", "UUID='12-34'", "LABEL=\"my\\040swap\"", "/dev/disk/by-uuid/12-34",
            "LABEL=my\\040swap", "PARTLABEL=swap", "PARTUUID=0a-01", "/dev/mapper/c", "/dev/mapper/d",
            "/dev/mapper/vg-swap", "/swapfile", "/var/swap\\040file", "//swapfile", "/dev/./sdb1", "/a/../swap",
            "sdb3", "UUID=", "/dev/zram0", "/dev/vg0/swap", "/dev/disk/by-id/dm-name-c", "ID=5", "tmpfs",
        ]);
        let kind = one(random, &["swap", "swap", "swap", "swap", "swap", "ext4", "SWAP", "swap,x"]);
        // A mount of the same device would say how long both wait for it.
        let device = if kind == "swap" { device } else { "/dev/sdz1" };
        let mut options = Vec::new();
        for _ in 0..random.random_range(1..4) {
            options.push(one(random, &[
                "sw", "defaults", "pri=5", "pri=32767", "pri=0", "pri=-2", "pri=high", "pri", "discard", "discard=once",
                "discard=pages", "nofail", "noauto", "auto", "fail", "x-systemd.device-timeout=5s",
                "x-systemd.device-timeout=1min", "x-systemd.device-timeout=0", "x-systemd.makefs", "user",
                "noatime", "", "x-systemd.device-timeout=soon", "discard=all",
            ]));
        }
        let between = one(random, &[" ", "\t", "  \t", " "]);
        let end = one(random, &["", " 0 0", " 0 0", " 0 0", "\t0\t0 # low", " 0", " 0 0 /dev/sdc1 none swap sw 0 0", " 0 0\r"]);
        let mut line = [device, one(random, &["none", "swap", "/x"]), kind].join(between);
        if !is_one_in(random, 8) {
            line += &format!("{between}{}{end}", options.join(","));
        }
        let before = one(random, &["", "", "", "", " ", "\t", "#", "# ", ";"]);
        text += &format!("{before}{line}\n");
    }
    put(root, "etc/fstab", &damaged(random, text));
    let mut text = String::new();
    for _ in 0..random.random_range(0..4) {
        let name = one(random, &["c", "d", "vg-swap", "c"]);
        let device = one(random, &[
            "/dev/sdd1", "UUID=77-88", "PARTUUID=0a-02", "/swapfile", "/dev/disk/by-partuuid/0a-03", "LABEL=x", "PARTLABEL=a",
        ]);
        let key = one(random, &["/dev/urandom", "/dev/urandom", "/dev/random", "none", "-", "/etc/key", "/dev/sde", "/dev/hw_random"]);
        let mut options = Vec::new();
        for _ in 0..random.random_range(1..5) {
            options.push(one(random, &[
                "swap", "swap", "swap", "plain", "luks", "cipher=aes-xts-plain64", "cipher=aes-cbc-essiv:sha256", "size=256",
                "size=512", "hash=sha1", "discard", "nofail", "noauto", "offset=8", "size=100", "cipher=aes", "tmp=ext4", "",
                "keyfile-size=32", "sector-size=4096", "cipher=serpent-xts-plain64", "noearly", "x-initrd.attach",
            ]));
        }
        let before = if is_one_in(random, 10) { one(random, &["#", " ", "\t"]) } else { "" };
        let options = options.join(",");
        text += &match random.random_range(0..10) {
            0 => format!("{before}{name} {device}\n"),
            1 => format!("{before}{name} {device} {key}\n"),
            2 => format!("{before}{name}\t{device}\t{key}\t{options} more\r\n"),
            _ => format!("{before}{name} {device} {key} {options}\n"),
        };
    }
    if !text.is_empty() {
        put(root, "etc/crypttab", &damaged(random, text));
    }
    put_masks(random, root, &["dev-sda5.swap", "dev-sdb1.swap", "swapfile.swap", "dev-mapper-c.swap", "swap.target", "dev-disk-by\\x2duuid-12\\x2d34.swap", "var-swap\\x20file.swap"]);
    if is_one_in(random, 12) {
        let word = one(random, &["systemd.swap=0", "systemd.swap=no systemd.swap=yes", "fstab=no", "systemd.swap", "fstab=0",
            "luks=0", "luks.crypttab=no", "luks.crypttab=no luks.crypttab=yes", "luks", "rd.luks=0", "luks=false", "luks.crypttab"]);
        put(root, "proc/cmdline", &format!("root=/dev/vda1 {word} quiet\n"));
    }
}
