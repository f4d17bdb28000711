//! Configurations from all keys that there are, most of them right.

use rand::seq::IndexedRandom;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use zmeld_config::FindingId;

use crate::keys::{keys, Key, KEYS};

pub struct Grammar {
    work: String,
    drives: Vec<String>,
}

/// Each kind of tier and the types that have its keys.
const KINDS: [(&str, &[&str]); 4] = [
    ("zram", &["Swap", "RamDevice"]),
    ("zmeld", &["Swap", "RamDevice"]),
    ("zswap", &["Zswap"]),
    ("disk", &["Swap", "DiskSwap"]),
];

const RULES: [(&str, &str); 5] = [
    ("recompress", "RecompressRule"),
    ("writeback", "WritebackRule"),
    ("meld", "MeldRule"),
    ("reclaim", "ReclaimRule"),
    ("guard", "GuardRule"),
];

fn one<'a>(random: &mut ChaCha8Rng, all: &[&'a str]) -> &'a str {
    all.choose(random).expect("there are some")
}

impl Grammar {
    pub fn new(work: &str, drives: &[String]) -> Grammar {
        Grammar {
            work: work.to_owned(),
            drives: drives.to_vec(),
        }
    }

    pub fn file(&self, random: &mut ChaCha8Rng) -> String {
        let mut text = String::new();
        if random.random_bool(0.5) {
            let names = FindingId::ALL.iter().map(|id| format!("{:?}", id.name()));
            let names: Vec<String> = names.filter(|_| random.random_bool(0.3)).collect();
            text += &format!("accept = [{}]\n", names.join(", "));
        }
        for number in 0..*[1, 1, 1, 1, 2, 2, 3].choose(random).expect("some") {
            self.tier(random, number, &mut text);
        }
        if random.random_bool(0.3) {
            text += "[tunables]\n";
            self.lines(random, "Tunables", 0.3, &mut text);
        }
        if random.random_bool(0.3) {
            text += "[watch]\n";
            let plain = ["interval", "cpu_pressure_max", "dry_run"];
            for key in keys("Watch").filter(|key| plain.contains(&&*key.name)) {
                self.line(random, key, 0.3, &mut text);
            }
            for (rule, of) in RULES {
                if random.random_bool(0.3) {
                    text += &format!("[watch.{rule}]\n");
                    self.lines(random, of, 0.3, &mut text);
                }
            }
        }
        if random.random_bool(0.1) {
            text += "[metrics]\n";
            self.lines(random, "Metrics", 0.6, &mut text);
        }
        text
    }

    /// The same with one or two of its values another, or taken out.
    pub fn changed(&self, random: &mut ChaCha8Rng, text: &str) -> String {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for _ in 0..random.random_range(1..=2) {
            let at = random.random_range(0..lines.len().max(1));
            let Some((name, _)) = lines.get(at).and_then(|line| line.split_once(" = ")) else {
                continue;
            };
            let mut of_name = KEYS.iter().filter(|key| key.name == name);
            match of_name
                .next()
                .filter(|_| name != "kind" && name != "accept")
            {
                Some(key) if random.random_bool(0.8) => {
                    lines[at] = format!("{name} = {}", self.value(random, key));
                }
                _ if name == "kind" => {}
                _ => drop(lines.remove(at)),
            }
        }
        lines.join("\n") + "\n"
    }

    fn tier(&self, random: &mut ChaCha8Rng, number: usize, text: &mut String) {
        let name = match random.random_range(0..60) {
            0 => one(random, &["\"\"", "\"ä\"", "-x", "\"a b\"", "\"a.b\""]).to_owned(),
            1 => "x".repeat(*[31, 32, 33].choose(random).expect("some")),
            _ => {
                let stems = [
                    "fast", "Slow", "zram", "0", "tier", "A-b_c", "tunables", "zswap-1_",
                ];
                format!("{}{number}", one(random, &stems))
            }
        };
        let (kind, types) = KINDS[*[0, 0, 0, 1, 2, 3, 3, 3].choose(random).expect("some")];
        *text += &format!("[tier.{name}]\nkind = \"{kind}\"\n");
        let is_file = kind == "disk" && random.random_bool(0.5);
        let of_file = ["file", "size"];
        let of_device = [
            "device",
            "format",
            "encryption",
            "key_file",
            "cipher",
            "key_size",
        ];
        for key in types.iter().flat_map(|of| keys(of)) {
            let likely = match (key.of, &*key.name) {
                (_, "kind") => continue,
                (_, "meld" | "check_writes") if kind == "zram" => 0.01,
                (_, "enabled") => 0.05,
                ("DiskSwap", name)
                    if of_file.contains(&name) != is_file
                        && (of_file.contains(&name) || of_device.contains(&name)) =>
                {
                    0.01
                }
                ("DiskSwap", "file" | "device") => 0.98,
                ("DiskSwap", "size" | "format") => 0.85,
                ("DiskSwap", "key_file") if text.ends_with("\"luks\"\n") => 0.95,
                ("RamDevice", "size" | "memory_limit") => 0.6,
                ("RamDevice", "writeback") => 0.25,
                (_, "timeout") => 0.1,
                (_, "cipher" | "key_size") if !text.contains("\nencryption = \"r") => 0.01,
                _ if of_device.contains(&&*key.name) => 0.15,
                _ => 0.2,
            };
            self.line(random, key, likely, text);
        }
    }

    fn writeback(&self, random: &mut ChaCha8Rng) -> String {
        let mut table = String::new();
        for key in keys("Writeback") {
            let likely = match &*key.name {
                "device" => 0.98,
                "cipher" | "key_size" if !table.contains("random") => 0.01,
                _ => 0.2,
            };
            self.line(random, key, likely, &mut table);
        }
        let table: Vec<&str> = table.lines().collect();
        format!("{{ {} }}", table.join(", "))
    }

    fn lines(&self, random: &mut ChaCha8Rng, of: &str, likely: f64, text: &mut String) {
        for key in keys(of) {
            self.line(random, key, likely, text);
        }
    }

    fn line(&self, random: &mut ChaCha8Rng, key: &Key, likely: f64, text: &mut String) {
        if random.random_bool(likely) {
            *text += &format!("{} = {}\n", key.name, self.value(random, key));
        }
    }

    /// Of a new key there is no value here yet, and the run ends.
    fn value(&self, random: &mut ChaCha8Rng, key: &Key) -> String {
        if key.of == "RamDevice" && key.name == "writeback" {
            return self.writeback(random);
        }
        if random.random_bool(0.01) {
            let wrong = [
                "-1",
                "\"\"",
                "true",
                "[]",
                "{}",
                "\"x\"",
                "\"4GB\"",
                "1.5",
                "99999999999",
            ];
            return one(random, &wrong).to_owned();
        }
        let number = |random: &mut ChaCha8Rng, from: i64, to: i64| match random.random_range(0..6) {
            0 => from.to_string(),
            1 => to.to_string(),
            _ => random.random_range(from..=to).to_string(),
        };
        let plain = match (key.of, &*key.name) {
            (
                _,
                "enabled" | "optional" | "shrinker" | "same_filled" | "format" | "hibernation"
                | "compressed" | "dry_run" | "protect_real_time" | "melding",
            ) => one(random, &["true", "false"]),
            (_, "recompress") => return self.recompressed(random),
            (_, "priority") => return number(random, -1, 200),
            (_, "discard") => one(random, &["\"none\"", "\"once\"", "\"pages\"", "\"both\""]),
            ("DiskSwap", "size") => one(
                random,
                &[
                    "\"16MiB\"",
                    "\"9M\"",
                    "16777216",
                    "\"2%\"",
                    "\"min(4%, 12MiB)\"",
                    "\"40K\"",
                    "\"1GiB\"",
                    "\"10000\"",
                    "\"44KiB\"",
                    "\"0.5GiB\"",
                ],
            ),
            (_, "size") => one(
                random,
                &[
                    "\"50%\"",
                    "\"96MiB\"",
                    "\"64M\"",
                    "100000000",
                    "\"10%\"",
                    "\"min(50%, 4GiB)\"",
                    "\"150%\"",
                    "\"8K\"",
                    "\"4096\"",
                    "\"40KiB\"",
                    "\"12.5%\"",
                    "\"1T\"",
                    "\"3GiB\"",
                    "\"36K\"",
                    "\"1000%\"",
                    "\"300TiB\"",
                    "\"min(1TiB, 25%)\"",
                ],
            ),
            (_, "memory_limit") => one(
                random,
                &[
                    "\"25%\"",
                    "\"16MiB\"",
                    "\"64M\"",
                    "30000000",
                    "\"4K\"",
                    "\"100%\"",
                    "\"min(50%, 1GiB)\"",
                    "\"2MiB\"",
                    "\"1GiB\"",
                ],
            ),
            (_, "codec") => match random.random_bool(0.3) {
                true => return format!("[{}, {}]", self.codec(random), self.codec(random)),
                false => return self.codec(random),
            },
            (_, "meld") => one(random, &["\"off\"", "\"manual\"", "\"auto\"", "\"inline\""]),
            (_, "check_writes") => one(random, &["\"auto\"", "\"on\"", "\"off\""]),
            (_, "compressor") => one(
                random,
                &[
                    "\"lzo\"",
                    "\"lz4\"",
                    "\"zstd\"",
                    "\"lzo-rle\"",
                    "\"deflate\"",
                    "\"842\"",
                    "\"lz4hc\"",
                    "\"zword\"",
                    "\"zword-dense\"",
                    "\"zstd:3\"",
                ],
            ),
            (_, "zpool") => one(random, &["\"zbud\"", "\"z3fold\"", "\"zsmalloc\""]),
            (_, "device") => return format!("{:?}", self.device(random)),
            (_, "file") => {
                let name = one(
                    random,
                    &[
                        "swap",
                        "swap",
                        "other swap",
                        "sub/swap",
                        "ä",
                        "lost+found",
                        ".",
                        "a\\\"b",
                    ],
                );
                return match random.random_range(0..40) {
                    0 => "\"/swapfile\"".to_owned(),
                    1 => one(random, &["\"/dev/swap\"", "\"/tmp/swap\"", "\"/proc/x\""]).to_owned(),
                    _ => format!("\"{}/{name}\"", self.work),
                };
            }
            ("DiskSwap", "encryption") => one(
                random,
                &["\"none\"", "\"random\"", "\"random\"", "\"luks\""],
            ),
            (_, "encryption") => one(random, &["\"none\"", "\"random\""]),
            (_, "key_file") => one(
                random,
                &[
                    "\"/etc/zmeld.key\"",
                    "\"/etc/zmeld.key\"",
                    "\"/nowhere\"",
                    "\"/tmp/key\"",
                ],
            ),
            (_, "cipher") => one(
                random,
                &[
                    "\"aes-xts-plain64\"",
                    "\"aes-cbc-essiv:sha256\"",
                    "\"serpent-xts-plain64\"",
                    "\"none\"",
                    "\"aes-ctr-plain\"",
                    "\"aes-xts-plain\"",
                    "\"aes-ecb\"",
                ],
            ),
            (_, "key_size") => one(random, &["128", "256", "512", "192", "384", "1024", "250"]),
            (_, "timeout" | "interval" | "grace" | "every" | "idle_after") => one(
                random,
                &[
                    "\"1s\"", "\"30s\"", "\"5min\"", "\"2h\"", "\"1d\"", "\"90s\"", "\"3min\"",
                ],
            ),
            (_, "daily_limit") => one(random, &["\"2GiB\"", "\"1M\"", "4096", "\"100\""]),
            (_, "at_most") => one(random, &["\"256MiB\"", "\"1M\"", "4096", "\"100\""]),
            (_, "swappiness") => match random.random_range(0..4) {
                0 => "\"auto\"",
                _ => return number(random, 0, 200),
            },
            (_, "min_free") => one(
                random,
                &[
                    "\"8MiB\"",
                    "\"1M\"",
                    "\"40MiB\"",
                    "\"200MiB\"",
                    "\"4K\"",
                    "\"64\"",
                ],
            ),
            (_, "pages") => one(random, &["\"idle\"", "\"huge\"", "\"huge_idle\""]),
            (_, "threshold") => one(random, &["0", "\"1KiB\"", "\"4KiB\"", "3000", "\"8KiB\""]),
            (
                _,
                "cpu_pressure_max" | "above" | "duplicates_min" | "step" | "pressure_max"
                | "refault_max" | "room_below" | "end_below" | "stalled_above",
            ) => one(
                random,
                &[
                    "\"0%\"", "\"0.1%\"", "\"5%\"", "\"20%\"", "\"100%\"", "\"101%\"",
                ],
            ),
            (_, "groups" | "protect" | "end") => one(
                random,
                &[
                    "[\"/\"]",
                    "[]",
                    "[\"nobody.service\"]",
                    "[\"*.service\"]",
                    "[\"/user.slice\"]",
                ],
            ),
            (_, "on_end") => one(
                random,
                &[
                    "[]",
                    "[\"/bin/true\"]",
                    "[\"/bin/echo\", \"ended\"]",
                    "[\"true\"]",
                ],
            ),
            (_, "textfile") => one(random, &["\"/tmp/zmeld.prom\"", "\"/nowhere/x.prom\""]),
            _ => {
                let (least, most) = key.range.expect(&key.name);
                return number(random, least, most.min(100_000));
            }
        };
        plain.to_owned()
    }

    fn codec(&self, random: &mut ChaCha8Rng) -> String {
        let codecs = [
            "lzo",
            "lzo-rle",
            "lz4",
            "lz4:5",
            "lz4hc",
            "lz4hc:9",
            "zstd",
            "zstd:3",
            "zstd:19",
            "zstd:-5",
            "deflate",
            "deflate:9",
            "842",
            "zword",
            "zword:2",
            "zstd:3,dict=/etc/zmeld.key",
            "zstd:dict=/nowhere",
            "deflate:0",
        ];
        format!("{:?}", one(random, &codecs))
    }

    fn recompressed(&self, random: &mut ChaCha8Rng) -> String {
        let count = *[0, 1, 1, 1, 2, 3, 4].choose(random).expect("some");
        let entries = (0..count).map(|_| self.codec(random));
        format!("[{}]", entries.collect::<Vec<_>>().join(", "))
    }

    fn device(&self, random: &mut ChaCha8Rng) -> String {
        let others = [
            "/dev/nowhere",
            "LABEL=none",
            "UUID=",
            "/dev/null",
            "/etc/zmeld.key",
            "/dev/zram0",
        ];
        match random.random_range(0..20) {
            0 => one(random, &others).to_owned(),
            _ => self.drives.choose(random).expect("drives").clone(),
        }
    }
}
