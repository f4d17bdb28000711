//! zram-tools: its script, which a folder in the place of sysfs and programs that only note
//! what they are told keep from the machine.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::{damaged, is_masked, is_one_in, one, put, put_masks, Areas, Judge, Theirs};

pub const JUDGE: Judge = Judge {
    name: "zram-tools",
    program: "zram-tools/usr/sbin/zramswap",
    cases: "world/zram-tools.txt",
    theirs,
    grammar,
    keys,
};

const FILE: &str = "etc/default/zramswap";

fn keys(attribute: &str) -> &'static [&'static str] {
    match attribute {
        "size" => &["SIZE", "PERCENT"],
        "codec" => &["ALGO"],
        "priority" => &["PRIORITY"],
        _ => &[],
    }
}

const RUN: &str = r#"
mount --bind "$3/sys" /sys/block
mount --bind "$2/proc/meminfo" /proc/meminfo
mount --bind "$2/etc/default" /etc/default
# By another process: what the test has open to be written its other threads' children have, too.
cp -a "$3/stubs" "$3/programs"
export PATH="$3/programs:/usr/bin:/bin" PLACE="$3"
cd "$2"
bash "$1" start
"#;

/// swapon says what is no priority before it looks for the device.
const SWAPON: &str = r#"#!/bin/sh
said=$(LC_ALL=C /sbin/swapon "$1" "$2" /nonexistent 2>&1)
case $said in *"failed to parse"*) exit 1;; esac
echo "$2" >"$PLACE/priority"
"#;

const CODECS: [&str; 7] = ["lzo", "lzo-rle", "lz4", "lz4hc", "zstd", "deflate", "842"];

fn theirs(program: &Path, root: &Path) -> Theirs {
    let place = tempfile::tempdir().expect("a folder can be made");
    let place = place.path();
    put(place, "sys/zram0/disksize", "");
    for name in ["modprobe", "mkswap", "logger"] {
        put(place, &format!("stubs/{name}"), "#!/bin/sh\n");
    }
    put(place, "stubs/swapon", SWAPON);
    for program in fs::read_dir(place.join("stubs")).expect("they are there") {
        let path = program.expect("a name").path();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("its mode");
    }
    let mut areas = Areas::new();
    // Without its file it is not installed, or removed.
    if root.join(FILE).exists() && !is_masked(root, "zramswap.service") {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-euc", RUN, "sh"]);
        command.arg(program);
        command.args([root, place]);
        command.output().expect("unshare is there");
        let written = |file: &str| fs::read_to_string(place.join(file)).unwrap_or_default();
        let codec = written("sys/zram0/comp_algorithm");
        let size = written("sys/zram0/disksize").parse::<u64>().unwrap_or(0);
        let priority = written("priority").trim().parse::<i16>();
        // The script gives up where the kernel would refuse.
        let is_taken = CODECS.contains(&&*codec) && size >= 40 << 10;
        if let (true, Ok(priority)) = (is_taken, priority) {
            let area = [
                ("size", (size.div_ceil(4096) * 4096).to_string()),
                ("codec", codec),
                ("priority", priority.to_string()),
                ("discard", "none".to_owned()),
            ];
            areas.insert("zram".to_owned(), BTreeMap::from(area));
        }
    }
    Theirs {
        areas,
        ignored: Vec::new(),
    }
}

#[rustfmt::skip]
fn grammar(random: &mut ChaCha8Rng, root: &Path) {
    let mut text = String::new();
    for _ in 0..random.random_range(0..6) {
        let name = one(random, &["ALGO", "PERCENT", "SIZE", "PRIORITY", "PERCENTAGE", "ALLOCATION", "CORES", "#ALGO"]);
        let value = match name {
            _ if is_one_in(random, 10) => one(random, &["$SIZE", "\"$ALGO\"", "$(echo 5)", "`echo 5`", "$((2*20))", "x y", "'", "\\"]),
            "ALGO" | "#ALGO" => one(random, &["lz4", "zstd", "lzo-rle", "zstd", "", "LZ4", "snappy", "zstd:3", "842"]),
            "PERCENT" | "PERCENTAGE" => one(random, &["50", "25", "200", "0", "", "50%", "050", "08", "0x20", "12.5", "-5", "25*2", "half"]),
            "PRIORITY" => one(random, &["100", "5", "-1", "32767", "32768", "-5", "high", "", "0", "050"]),
            _ => one(random, &["256", "512", "1024", "0", "", "2G", "0512", "1e3", "4096", "-1", "1.5"]),
        };
        let value = match random.random_range(0..8) {
            0 => format!("\"{value}\""),
            1 => format!("'{value}'"),
            2 => format!("{value} # why"),
            3 if is_one_in(random, 3) => format!("{value}; PERCENT=10"),
            _ => value.to_owned(),
        };
        let sign = if is_one_in(random, 20) { " = " } else { "=" };
        let before = if is_one_in(random, 15) { one(random, &["export ", "  ", "readonly ", "\t"]) } else { "" };
        text += &format!("{before}{name}{sign}{value}\n");
        if is_one_in(random, 10) {
            text += one(random, &["# a comment\n", "\n", "; no comment\n", "echo\n", "if true; then\n", "true && ALGO=lzo\n", "[zram]\n"]);
        }
    }
    if is_one_in(random, 20) {
        text = text.replace('\n', "\r\n");
    }
    put_masks(random, root, &["zramswap.service", "zramswap.timer"]);
    put(root, FILE, &damaged(random, text));
}
