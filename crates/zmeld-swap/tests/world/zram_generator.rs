//! zram-generator: its units, and what it writes for each device to a folder in the place
//! of sysfs.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::{
    damaged, is_masked, is_one_in, one, put, put_masks, swap_discard, swap_option, Areas, Judge,
    Theirs,
};

pub const JUDGE: Judge = Judge {
    name: "zram-generator",
    program: "bin/zram-generator",
    cases: "world/zram-generator.txt",
    theirs,
    grammar,
    keys,
};

fn keys(attribute: &str) -> &'static [&'static str] {
    match attribute {
        "size" => &["zram-size", "zram-fraction", "max-zram-size"],
        "limit" => &["zram-resident-limit"],
        "codec" | "recompress" => &["compression-algorithm"],
        "writeback" => &["writeback-device"],
        "priority" => &["swap-priority", "options"],
        _ => &["options"],
    }
}

/// Its units, then each device as the kernel would be told of it. Where nobody else sees it,
/// that folder stands in sysfs' place, and a file in that of the kernel's log. What it would
/// load or look up it does not find.
const RUN: &str = r#"
mount --bind "$3/sys" /sys/block
mount --bind "$3/log" /dev/kmsg
export ZRAM_GENERATOR_ROOT="$2" PATH=/nonexistent
"$1" "$3/units" || exit 0
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
for unit in "$3"/units/dev-zram*.swap; do
    test -e "$unit" || continue
    name=${unit##*/dev-} name=${name%.swap}
    mkdir "$3/sys/$name"
    touch "$3/sys/$name/backing_dev"
    # More than one codec is written to it.
    mkfifo "$3/sys/$name/recomp_algorithm"
    exec 3<>"$3/sys/$name/recomp_algorithm"
    PATH=/nonexistent "$1" --setup-device "$name" || true
    echo end >&3
    head -n 1 <&3 >"$3/sys/$name/again"
done
"#;

fn theirs(program: &Path, root: &Path) -> Theirs {
    let place = tempfile::tempdir().expect("a folder can be made");
    for folder in ["units", "sys"] {
        fs::create_dir(place.path().join(folder)).expect("it can be made");
    }
    put(place.path(), "log", "");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-euc", RUN, "sh"]);
    command.arg(program);
    let output = command.args([root, place.path()]).output();
    let output = output.expect("unshare is there");
    assert!(output.status.success(), "{output:?}");
    let log = fs::read(place.path().join("log")).expect("its log");
    if is_masked(root, "swap.target") {
        // Whatever its files say.
        return Theirs {
            areas: Areas::new(),
            ignored: Vec::new(),
        };
    }
    let mut areas = areas(place.path());
    areas.retain(|name, _| {
        let units = [
            format!("dev-{name}.swap"),
            format!("systemd-zram-setup@{name}.service"),
        ];
        !units.iter().any(|unit| is_masked(root, unit))
    });
    Theirs {
        areas,
        ignored: ignored(&String::from_utf8_lossy(&log)),
    }
}

fn areas(place: &Path) -> Areas {
    let mut areas = Areas::new();
    for entry in fs::read_dir(place.join("units")).expect("its units") {
        let path = entry.expect("a name").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(name) = name
            .strip_prefix("dev-")
            .and_then(|it| it.strip_suffix(".swap"))
        else {
            continue;
        };
        let unit = fs::read_to_string(&path).expect("a unit");
        let value = |key: &str| {
            let value = unit
                .lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            value.unwrap_or_default().replace("%%", "%")
        };
        let written = |file: &str| {
            let text = fs::read_to_string(place.join("sys").join(name).join(file));
            text.unwrap_or_default().trim().to_owned()
        };
        let in_pages = |text: String| match text.parse::<u64>() {
            Ok(bytes) => (bytes.div_ceil(4096).saturating_mul(4096)).to_string(),
            Err(_) => "0".to_owned(),
        };
        let options = value("Options");
        let discard = swap_discard(&options);
        let priority = swap_option(&options, "pri").and_then(|it| it.strip_prefix("pri="));
        let mut codec = written("comp_algorithm");
        let parameters = written("algorithm_params");
        let parameter = |key: &str| {
            let mut words = parameters.split_whitespace().rev();
            words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
        };
        let with: Vec<String> = parameter("level").map(str::to_owned).into_iter().collect();
        let dict = parameter("dict").map(|path| format!("dict={path}"));
        let with: Vec<String> = with.into_iter().chain(dict).collect();
        if !with.is_empty() {
            codec = format!("{codec}:{}", with.join(","));
        }
        let again = written("again");
        let again = again
            .trim_end_matches("end")
            .split("algo=")
            .filter(|it| !it.is_empty());
        let again: Vec<String> = again
            .filter_map(|it| Some(it.split_once(" priority=")?.0.to_owned()))
            .collect();
        areas.insert(
            name.to_owned(),
            BTreeMap::from([
                ("size", in_pages(written("disksize"))),
                ("limit", in_pages(written("mem_limit"))),
                ("codec", codec),
                ("recompress", again.join(" ")),
                ("writeback", written("backing_dev")),
                (
                    "priority",
                    priority.map_or(value("Priority"), str::to_owned),
                ),
                ("discard", discard.to_owned()),
                (
                    "optional",
                    swap_option(&options, "nofail").is_some().to_string(),
                ),
            ]),
        );
    }
    areas
}

/// The keys and sections of which it says so.
fn ignored(log: &str) -> Vec<String> {
    let between = |line: &str, from: &str, to: &str| {
        let (_, rest) = line.split_once(from)?;
        // Of a key over several lines the first.
        let word = rest.split(to).next()?.split(['\n', '\\']).next()?;
        Some(
            word.split_whitespace()
                .next()
                .unwrap_or_default()
                .to_owned(),
        )
    };
    let found = log.lines().filter_map(|line| {
        between(line, "unknown key ", ", ignoring")
            .or_else(|| between(line, "outside-of-section key ", ", ignoring"))
            .or_else(|| between(line, "outside-of-section operation ", ", ignoring"))
            .or_else(|| between(line, "Ignoring section \"", "\""))
    });
    // Escaped characters are not in its line.
    let is_plain = |it: &String| !it.is_empty() && !it.contains(char::is_control);
    found.filter(is_plain).collect()
}

const FOLDERS: [&str; 4] = ["usr/lib", "usr/local/lib", "etc", "run"];

/// Main files, drop-ins, masks, a kernel's command line.
fn grammar(random: &mut ChaCha8Rng, root: &Path) {
    put_masks(
        random,
        root,
        &[
            "dev-zram0.swap",
            "dev-zram1.swap",
            "systemd-zram-setup@zram0.service",
            "swap.target",
        ],
    );
    let main = one(random, &FOLDERS);
    let name = "systemd/zram-generator.conf";
    put(root, &format!("{main}/{name}"), &file(random));
    if is_one_in(random, 8) {
        let other = one(random, &FOLDERS);
        put(root, &format!("{other}/{name}"), &file(random));
    }
    for _ in 0..random.random_range(0..4) {
        let folder = one(random, &FOLDERS);
        let drop_in = one(
            random,
            &[
                "10-a.conf",
                "20-b.conf",
                "20-b.conf",
                ".hidden.conf",
                "30-c.cfg",
                "9.conf",
            ],
        );
        let path = format!("{folder}/{name}.d/{drop_in}");
        let target = root.join(&path);
        if target.symlink_metadata().is_ok() {
            continue;
        }
        if is_one_in(random, 5) {
            fs::create_dir_all(target.parent().expect("a folder")).expect("it can be made");
            let to = one(random, &["/dev/null", "../zram-generator.conf", "nowhere"]);
            symlink(to, target).expect("a link");
        } else {
            put(root, &path, &file(random));
        }
    }
    if is_one_in(random, 12) {
        let word = one(
            random,
            &[
                "systemd.zram",
                "systemd.zram=0",
                "systemd.zram=1",
                "systemd.zram=off",
                "systemd.zram=0 systemd.zram=maybe",
                "systemd.zram=no systemd.zram=yes",
                "systemd.zramx=0",
                "quiet",
            ],
        );
        put(
            root,
            "proc/cmdline",
            &format!("root=/dev/vda1 {word} quiet\n"),
        );
    }
}

fn file(random: &mut ChaCha8Rng) -> String {
    let mut text = String::new();
    if is_one_in(random, 25) {
        text.push('\u{feff}');
    }
    if is_one_in(random, 10) {
        text += one(
            random,
            &[
                "zram-size = ram\n",
                "set!x = echo 512\n",
                "swap-priority: 5\n",
                "get!x = 1\n",
                "set!half = echo 'ram / 2'\n",
            ],
        );
    }
    for _ in 0..random.random_range(1..4) {
        if is_one_in(random, 6) {
            text += one(
                random,
                &[
                    "# a comment\n",
                    "; a comment\n",
                    "\n",
                    "  \t\n",
                    " # indented\n",
                ],
            );
        }
        text += one(
            random,
            &[
                "[zram0]\n",
                "[zram0]\n",
                "[zram0]\n",
                "[zram1]\n",
                "[ zram2 ]\n",
                "[zram0] ",
                "[zram07]\n",
                "[zswap]\n",
                "[zram]\n",
                "[zram1]\r\n",
                "[ZRAM0]\n",
            ],
        );
        for _ in 0..random.random_range(0..6) {
            text += &line(random);
        }
    }
    let text = match random.random_range(0..40) {
        0 => text.replace('\n', "\r\n"),
        1 => text + "zram-size = ram \\",
        2 => text + "[zram3",
        3 => text + "nonsense\n",
        4 => text.trim_end().to_owned(),
        _ => text,
    };
    damaged(random, text)
}

fn line(random: &mut ChaCha8Rng) -> String {
    if is_one_in(random, 15) {
        return one(
            random,
            &[
                "# zram-size = 5\n",
                ";\n",
                "\n",
                "nonsense\n",
                "= 5\n",
                "colour = blue\n",
                "\tkey=v\n",
                "Zram-Size = 100\n",
                "zram-size\n = 300\n",
                "zram-size = \\\n 400\n",
            ],
        )
        .to_owned();
    }
    let (key, value) = key_and_value(random);
    let sign = one(random, &[" = ", "=", " =", "= ", ": ", ":", " : ", "\t=\t"]);
    let value = match random.random_range(0..12) {
        0 => format!("\"{value}\""),
        1 => format!("'{value}'"),
        2 => value.replacen(' ', " \\\n  ", 1),
        3 => format!("{value}  "),
        4 if is_one_in(random, 3) => format!("{value} # why"),
        5 if is_one_in(random, 3) => format!("\"{value}\" ; why"),
        6 if is_one_in(random, 3) => format!("\"{value}"),
        7 if is_one_in(random, 3) => value.replacen('r', "\\x0072", 1),
        _ => value,
    };
    format!("{key}{sign}{value}\n")
}

#[rustfmt::skip]
fn key_and_value(random: &mut ChaCha8Rng) -> (&'static str, String) {
    let key = one(random, &[
        "zram-size", "zram-size", "zram-size", "zram-resident-limit", "compression-algorithm",
        "compression-algorithm", "swap-priority", "options", "writeback-device",
        "host-memory-limit", "memory-limit", "zram-fraction", "max-zram-size", "fs-type",
        "mount-point",
    ]);
    // Of what it refuses little: with it no device is left.
    let is_right = !is_one_in(random, 20);
    let value = match (key, is_right) {
        ("zram-size" | "zram-resident-limit", true) => return (key, expression(random)),
        ("compression-algorithm", _) => return (key, codecs(random)),
        ("swap-priority", true) => one(random, &["100", "-1", "32767", "0", "+5", "5"]),
        ("options", _) => one(random, &[
            "", "discard", "discard=once", "discard=pages", "discard,pri=7", "pri=7,pri=9", "nofail",
            "discard, nofail", "async discard", "discard=both", "noauto", "50%", "discard=once,discard",
            "pri=-1", "pri=x,discard",
        ]),
        ("writeback-device", true) => one(random, &[
            "/dev/vdb", "/dev/disk/by-partuuid/2-01", "/dev//vdb", "/dev/./vdb", "/dev/zvol/p/w",
        ]),
        ("host-memory-limit" | "memory-limit", true) => one(random, &[
            "none", "1024", "8192", "16384", "20000", "+9000",
        ]),
        ("zram-fraction", true) => one(random, &["0.5", "1", "2.0", "0.1", "0", "1e0", ".25", "inf", "0.333"]),
        ("max-zram-size", true) => one(random, &["none", "4096", "1000", "0", "12000"]),
        ("fs-type", _) => one(random, &["swap", "swap", "swap", "ext4", "none", ""]),
        // Two of one name it does not finish.
        ("mount-point", true) => return (key, format!("/m/./{}", random.random::<u32>())),
        _ => one(random, &[
            "", "none", "half", "4G", "9048.5", "-1", "-2", "32768", "tmp", "/var/../tmp", "nan", "50%",
            "8192MB", "ram /", "ram // 2", "min(ram", "0 - 5", "ram*", "-0.5",
        ]),
    };
    (key, value.to_owned())
}

#[rustfmt::skip]
fn expression(random: &mut ChaCha8Rng) -> String {
    let number = one(random, &["2", "4", "0.5", "1024", "4096", "1.25", "3", "8k", "0", "100", "1e3", "ram", "8192"]);
    match random.random_range(0..18) {
        0 => number.to_owned(),
        1..=4 => format!("ram / {number}"),
        5 | 6 => format!("ram * {number}"),
        7 | 8 => format!("min(ram / {number}, {})", one(random, &["4096", "1024", "16 * 1024"])),
        9 => format!("ram - {number}"),
        10 => format!("max(ram / 4, {number})"),
        11 => format!("min({}, {})", expression(random), expression(random)),
        12 => format!("({} + {number}) / 2", expression(random)),
        13 => format!("{number} % {number} + floor(ram ^ 0.5)"),
        14 => format!("min(min(ram, {number}) + max(ram - {number}, 0) / 2, 32 * 1024)"),
        15 if is_one_in(random, 3) => one(random, &[
            "ram and 512", "x", "ram * x", "half", "print(\"size\", 512)", "ram(1)", "inf", "NaN",
        ]).to_owned(),
        _ => one(random, &[
            "ram < 4096", "log(ram)", "pi() * 100", "ram() / 2", "4G", "0.001", "0.03", "1T", "1M", "ram^2",
        ]).to_owned(),
    }
}

fn codecs(random: &mut ChaCha8Rng) -> String {
    let mut codecs = String::new();
    for _ in 0..random.random_range(1..4) {
        codecs += one(
            random,
            &[
                "zstd",
                "lz4",
                "lzo-rle",
                "lzo",
                "zstd(level=3)",
                "zstd(level=99)",
                "lz4(level=1,dict=/d)",
                "zstd(dict=/etc/d)",
                "lz4hc",
                "snappy",
                "842",
                "deflate",
                "zstd()",
                "zstd(level=x)",
                "lzo(level=1)",
                "zstd(level=3",
                "zstd(level=3, dict=/d)",
                "zstd (level=3)",
                "zstd(foo=1)",
                "zstd(level=3,level=4)",
            ],
        );
        codecs.push(' ');
    }
    if is_one_in(random, 4) {
        codecs += one(
            random,
            &[
                "(type=idle)",
                "(type=huge,threshold=2000)",
                "(max_pages=5)",
                "(type=huge, threshold=3)",
                "()",
            ],
        );
    }
    codecs.trim_end().to_owned()
}
