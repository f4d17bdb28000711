//! The configuration as its writer meets it: every error is one line that says
//! where and what to do, and what is written comes back.

mod keys;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use keys::{keys, Key, KEYS};
use zmeld_config::*;
use zmeld_tests::script::{self, Outcome, Script};
use zmeld_tests::shown::shown;

/// Messages on a text called `z.toml`: its errors, else its warnings.
fn said(text: &str) -> Vec<String> {
    let lines = match Config::from_text(Path::new("z.toml"), text) {
        Err(err) => err.problems.iter().map(Finding::to_string).collect(),
        Ok(loaded) => loaded
            .warnings
            .iter()
            .map(|problem| format!("warning: {problem}"))
            .collect::<Vec<_>>(),
    };
    for line in &lines {
        assert!(!line.contains('\n') && line.len() < 400, "{line}");
    }
    lines
}

fn read(text: &str) -> Config {
    Config::from_text(Path::new("z.toml"), text)
        .unwrap_or_else(|err| panic!("{err}"))
        .config
}

const MISTAKES: &str = "config/mistakes.txt";

/// Each text, and below it the lines that are said of it; none where it is faultless. With
/// ZMELD_SHOW=1 these are written.
#[test]
fn each_mistake_is_one_line_with_its_place_and_the_way_out() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let cases = fs::read_to_string(tests.join(MISTAKES)).unwrap();
    let mut now = String::new();
    for text in cases.lines().filter(|line| !line.starts_with("    ")) {
        now += &format!("{text}\n");
        if !text.starts_with('#') {
            let lines = said(&(text.replace("\\n", "\n") + "\n"));
            now.extend(lines.iter().map(|line| format!("    {line}\n")));
        }
    }
    shown(MISTAKES, &now);
}

/// Every key there is, with a value that is not its default.
const EVERYTHING: &str = include_str!("config/everything.toml");

#[test]
fn what_is_written_comes_back() {
    // A tunable that is a number needs no line there.
    let missing = keys("Tunables").filter(|key| !EVERYTHING.contains(&key.name));
    let numbers = missing.filter_map(|key| Some(format!("{} = {}\n", key.name, key.range?.0)));
    let tunables = format!("[tunables]\n{}", numbers.collect::<String>());
    let everything = EVERYTHING.replace("[tunables]\n", &tunables);
    let config = read(&everything);
    let written = config.to_toml(&Comments::new());
    assert_eq!(read(&written), config, "{written}");
    // A second writing changes nothing.
    assert_eq!(read(&written).to_toml(&Comments::new()), written);
    // As does the way through JSON that the journal takes.
    let json = serde_json::to_string(&config).unwrap();
    assert_eq!(serde_json::from_str::<Config>(&json).unwrap(), config);
    // Nothing is in the file for a configuration that says nothing.
    assert_eq!(Config::default().to_toml(&Comments::new()), "");
    // Each key is in the text above, and each was understood: what is not its
    // default is in what was written.
    for key in KEYS.iter() {
        let there = |text: &str| {
            text.lines().any(|line| {
                line.starts_with(&format!("{} =", key.name))
                    || (line.starts_with('[') && line.contains(&key.name))
            })
        };
        assert!(there(&everything), "{key:?} is not tried");
        assert!(
            there(&written) || key.name == "enabled",
            "{key:?} is not written"
        );
    }
}

/// Lines before a key that put it into its table.
fn head(key: &Key) -> String {
    let kind = |of| format!("[tier.a]\nkind = \"{of}\"\n");
    match key.of {
        "Config" => String::new(),
        "RamDevice" if key.name == "kind" => "[tier.a]\n".to_owned(),
        "Swap" | "RamDevice" => kind("zmeld"),
        "Zswap" => kind("zswap"),
        "DiskSwap" => kind("disk"),
        "Writeback" => kind("zram") + "[tier.a.writeback]\n",
        "Tunables" | "Watch" | "Metrics" => format!("[{}]\n", key.of.to_lowercase()),
        rule => format!("[watch.{}]\n", rule.trim_end_matches("Rule").to_lowercase()),
    }
}

/// Lines that a message offers in place of `name = ...`.
fn offered(name: &str, message: &str) -> Vec<String> {
    let (_, way_out) = message.split_once("; ").unwrap_or_default();
    let texts = || way_out.split('"').skip(1).step_by(2);
    let words = || way_out.split([' ', ',', ';']);
    let numbers = || words().filter(|word| word.parse::<i64>().is_ok());
    let values: Vec<String> = if let Some(names) = way_out.strip_prefix("there are: ") {
        names.split(", ").map(|name| format!("{name:?}")).collect()
    } else if way_out.contains("true or false") {
        vec!["true".to_owned(), "false".to_owned()]
    } else if let Some((_, line)) = way_out
        .split_once("write ")
        .filter(|it| it.1.contains(" = "))
    {
        let line = line.trim_end_matches(" or more");
        let lines = line.split(" or ").filter(|line| line.contains(" = "));
        return lines.map(str::to_owned).collect();
    } else if way_out.contains("write ") || way_out.starts_with("did you mean") {
        let texts = texts().map(|text| format!("{text:?}"));
        texts.chain(numbers().map(str::to_owned)).collect()
    } else {
        Vec::new()
    };
    values
        .iter()
        .map(|value| format!("{name} = {value}"))
        .collect()
}

/// What is not said of a value that a message offers: that it is wrong, too.
#[test]
fn every_value_that_a_message_offers_is_taken() {
    const WRONG: &str = r#"-1|0|3|50|150|500|4096|65536|2000000|70000000000|1.5|0.25|true|""|"x"|"0"|"0.5"|"50"|"500"|"99999"|"80000000"|"150%"|"0%"|"1001%"|"4KB"|"1GB"|"xGB"|"min(50%, 4096)"|"min(50%, 4GB)"|"2h"|"1d"|"/x"|"/dev/x"|"zstd:99"|"zstd:3"|"lzo:3"|"zsdt"|"zstd(level=3)"|"zstd9"|"aes"|"aes-ecb-plain"|"a, b"|"luks"|"rando"|["x"]|["/"]|["zsdt"]|2026-11-29"#;
    let wrong = |key: &Key, lines: &str| {
        let about = format!(".{}: ", key.name);
        let needed = match &*key.name {
            "cipher" | "key_size" => "encryption = \"random\"\n",
            "key_file" => "encryption = \"luks\"\n",
            _ => "",
        };
        let mut found = said(&format!("{}{needed}{lines}\n", head(key)));
        // What is of no table is no TOML.
        let tables = [": tier", ": tunables", ": watch", ": metrics"];
        let is_syntax = |it: &str| !tables.iter().any(|table| it.contains(table));
        found.retain(|it| !it.starts_with("warning: ") && (it.contains(&about) || is_syntax(it)));
        found
    };
    let (mut count, mut not_taken) = (0, Vec::new());
    for key in KEYS.iter().filter(|key| key.of != "Config") {
        for value in WRONG.split('|') {
            for message in wrong(key, &format!("{} = {value}", key.name)) {
                for line in offered(&key.name, &message) {
                    count += 1;
                    let mut lines = vec![line];
                    let replaces = [&*key.name, "device", "file"];
                    if !replaces.iter().any(|name| lines[0].starts_with(name)) {
                        lines.push(format!("{} = {value}", key.name));
                    }
                    let still = wrong(key, &lines.join("\n"));
                    // What this needs beside it.
                    let beside = still.iter().flat_map(|it| offered("", it));
                    let beside: Vec<_> = beside.filter(|it| !it.starts_with(' ')).collect();
                    let name = |line: &String| line.split(' ').next().map(str::to_owned);
                    lines.retain(|line| !beside.iter().any(|it| name(it) == name(line)));
                    let refused = match beside.is_empty() {
                        true => still.clone(),
                        false => wrong(key, &[lines.clone(), beside].concat().join("\n")),
                    };
                    if !refused.is_empty() {
                        not_taken.push(format!("{value}: {message}\n{lines:?}: {refused:#?}"));
                    }
                }
            }
        }
    }
    assert!(not_taken.is_empty(), "{}", not_taken.join("\n"));
    assert!(count > 300, "{count} offers");
}

/// A word that is none of theirs is not offered in quotes.
#[test]
fn keys_that_are_true_or_false_are_offered_both() {
    for key in KEYS.iter() {
        let is_offered = |name: &str, value: &str| {
            let found = said(&format!("{}{name} = {value}\n", head(key)));
            found.iter().any(|it| it.ends_with("write true or false"))
        };
        for name in [key.name.to_owned(), format!("\"{}\"", key.name)] {
            assert_eq!(is_offered(&name, "3"), is_offered(&name, "ja"), "{key:?}");
        }
    }
}

/// serde would take its items for the values of a table, in their order.
#[test]
fn no_key_takes_a_list_but_those_of_lists() {
    for key in KEYS.iter() {
        // A codec may be a list of some; the schema knows no default of it.
        if key.default.starts_with('[') || key.name == "codec" {
            continue;
        }
        let found = said(&format!("{}{} = []", head(key), key.name));
        let words = format!("{}: is ", key.name);
        assert!(
            found.iter().any(|it| it.contains(&words)),
            "{key:?}: {found:?}"
        );
    }
}

#[test]
fn priorities_follow_the_order_unless_they_are_given() {
    // The order is that of the file, not of the alphabet.
    let text = "accept = [\"lru-inversion\", \"priorities\"]\n\
                [tier.z]\nkind = \"zram\"\n\
                [tier.cache]\nkind = \"zswap\"\nenabled = false\n\
                [tier.m]\nkind = \"disk\"\nfile = \"/m\"\nPRIORITY\n\
                [tier.a]\nkind = \"disk\"\nfile = \"/a\"\n";
    for (given, expected) in [
        ("", "z 100 m 90 a 80 "),
        ("priority = 5", "z 100 m 5 a 0 "),
        ("priority = 0", "z 100 m 0 a 0 "),
        ("priority = -1", "z 100 m -1 a 90 "),
        ("priority = 200", "z 100 m 200 a 90 "),
    ] {
        let config = read(&text.replace("PRIORITY", given));
        let areas = config.areas();
        let pairs = areas
            .iter()
            .map(|(tier, priority)| format!("{} {priority} ", tier.name));
        assert_eq!(pairs.collect::<String>(), expected, "{given}");
    }
}

struct Root(tempfile::TempDir);

impl script::Case for Root {
    fn root(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    fn step(&mut self, script: &Script, what: &str, rest: &str, place: &str) -> Outcome {
        let loaded = Config::load(self.0.path(), None);
        match what {
            // The files that were read, and what is said of them.
            "load" => match loaded {
                Ok(loaded) => {
                    let files = loaded.files.iter().map(|file| file.display().to_string());
                    // As findings of others, in any order and without places.
                    let placed = |it: &Finding| Finding {
                        place: loaded.place(&it.about).cloned(),
                        ..it.clone()
                    };
                    let said = loaded.in_order(loaded.warnings.iter().rev().map(placed).collect());
                    assert_eq!(said, loaded.warnings, "{place}");
                    let lines = files.chain(said.iter().map(Finding::to_string)).enumerate();
                    lines.map(|(at, line)| format!("{at} {line}")).collect()
                }
                Err(err) => Outcome {
                    errors: vec![(err.to_string(), String::new())],
                    ..Outcome::default()
                },
            },
            // The same at boot, of the machine's file or of one that is named.
            "boot" | "boot-of" => {
                let file = self.0.path().join("etc/zmeld.toml");
                let named = (what == "boot-of").then_some(&*file);
                match Config::load_at_boot(self.0.path(), named) {
                    Ok(loaded) => {
                        let tiers = loaded.config.tiers.iter();
                        let tiers = tiers.map(|tier| format!("tier {}", tier.name));
                        let left = loaded.left_out.iter();
                        let left = left.map(|(part, it)| format!("left {part}: {it}"));
                        let none = loaded.config.without_tiers;
                        let none = none.then(|| "and no other tier".to_owned());
                        tiers.chain(left).chain(none).collect()
                    }
                    Err(err) => Outcome {
                        errors: vec![(err.to_string(), String::new())],
                        ..Outcome::default()
                    },
                }
            }
            "is" => {
                assert_eq!(loaded.unwrap().config, read(&script.text(rest)), "{place}");
                Outcome::default()
            }
            _ => panic!("{place}: there is no such step"),
        }
    }
}

#[test]
fn each_case_of_loading_comes_out_as_it_says() {
    script::run("config/loading.txt", || Root(tempfile::tempdir().unwrap()));
}

const ZRAM: &str = "[tier.a]\nkind = \"zram\"\n";

const MANUAL: &str = "../../../docs/keys.md";

/// Keys of one name have their rows in the order of their types. What a key does is its comment,
/// unless the row leaves that out: with ZMELD_SHOW=1 it is written, with a row for a new number.
#[test]
fn the_key_tables_are_those_of_the_keys() {
    let manual = fs::read_to_string(Path::new("tests").join(MANUAL)).unwrap();
    let mut lines: Vec<String> = manual.lines().map(str::to_owned).collect();
    let is_of = |row: &str, key: &Key| {
        row.starts_with(&format!("| `{}` | ", key.name)) && row.contains(&*key.default)
    };
    let (mut without_row, mut last_rows) = (Vec::from_iter(KEYS.iter()), BTreeMap::new());
    for (at, row) in lines.iter_mut().enumerate() {
        if row.starts_with("| `") {
            let key = without_row.iter().position(|key| is_of(row, key));
            let key = key.unwrap_or_else(|| panic!("{MANUAL} has a row for no key: {row}"));
            let key = without_row.remove(key);
            last_rows.insert(key.of, at);
            let takes = row.split(" | ").nth(1).unwrap();
            if let Some((least, most)) = key.range {
                let range = match most {
                    i64::MAX => format!("{least} or more"),
                    _ => format!("{least} to {most}"),
                };
                assert_eq!(takes, range, "{key:?}");
            }
            let (columns, does) = row.rsplit_once(" | ").unwrap();
            if does != "|" {
                *row = format!("{columns} | {} |", key.does);
            }
        }
    }
    // Some are explained once, with others of their name.
    without_row.retain(|key| !lines.iter().any(|row| is_of(row, key)));
    for key in without_row {
        let Some((least, most)) = key.range else {
            panic!("{MANUAL} has no row for {key:?}");
        };
        let (name, does) = (&key.name, &key.does);
        let row = format!("| `{name}` | {least} to {most} | left alone | {does} |");
        lines.insert(last_rows[key.of] + 1, row);
    }
    shown(MANUAL, &(lines.join("\n") + "\n"));
}

#[test]
fn the_sample_is_a_configuration_without_a_warning() {
    let path = Path::new("zmeld.toml");
    let sample = include_str!("../../../packaging/zmeld.toml");
    let loaded = Config::from_text(path, sample).unwrap_or_else(|err| panic!("{err}"));
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    // And so is what it proposes beside and instead.
    let proposed = |behind: &str| {
        let (_, rule) = sample.split_once(&format!("{behind}\n#\n")).unwrap();
        let (rule, _) = rule.split_once("\n\n").unwrap();
        let loaded = Config::from_text(path, &rule.replace("# ", ""));
        loaded.unwrap_or_else(|err| panic!("{err}")).config.watch
    };
    assert!(proposed("version 2 only):").reclaim.is_some());
    assert!(proposed("(zmeld-guard):").guard.is_some());
    let (_, other) = sample.split_once("each boot.\n#\n").unwrap();
    let other = other.replace("# ", "").replace("#\n", "\n");
    let loaded = Config::from_text(path, &other).unwrap_or_else(|err| panic!("{err}"));
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    assert_eq!(loaded.config.tiers.len(), 2);
}

/// As a recipe, or what a recipe has of a configuration.
#[test]
fn mistakes_of_other_files_are_told_alike() {
    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Other {
        ratio: f64,
        count: u64,
        work: Option<Work>,
    }
    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
    enum Work {
        Walk { bytes: u64, touches: u64 },
    }
    let read = |text: &str| from_toml::<Other>(Path::new("z.toml"), text);
    let right = Other {
        ratio: 0.5,
        count: 2,
        work: None,
    };
    assert_eq!(read("ratio = 0.5\ncount = 2\n"), Ok(right));
    for (text, expected) in [
        (
            "ratio = \"x\"\ncount = \"x\"\n",
            "z.toml:1:9: ratio: is the text \"x\"; write a number, without quotes",
        ),
        (
            "ratio = 0.5\ncount = 0.5\n",
            "z.toml:2:9: count: is the number 0.5; write a whole number",
        ),
        // serde knows no places within a table whose kind stands in it.
        (
            "ratio = 1.0\ncount = 2\nwork = { kind = \"walk\", bytes = 1, bites = 1 }\n",
            "z.toml:3:36: work.bites: there is no such key; did you mean \"bytes\"?",
        ),
        (
            "ratio = 1.0\ncount = 2\n[work]\nkind = \"walk\"\nbytes = \"1MiB\"\ntouches = 1\n",
            "z.toml:5:9: work.bytes: is the text \"1MiB\"; write a whole number, without quotes",
        ),
        (
            "ratio = 1.0\ncount = 2\n[work]\nkind = \"walk\"\nbytes = 1\n",
            "z.toml:3:2: work: has no touches",
        ),
        (
            "ratio = 1.0\ncount = 2\n[work]\nkind = \"run\"\nbytes = 1\n",
            "z.toml:4:8: work.kind: \"run\" is none of its values; there are: walk",
        ),
    ] {
        assert_eq!(read(text).unwrap_err().to_string(), expected);
    }
    assert_eq!(Config::from_part(EVERYTHING), Ok(self::read(EVERYTHING)));
    let wrong = Config::from_part("[tunables]\nswappiness = true\n").unwrap_err();
    let words = "tunables.swappiness: is true; ";
    assert!(wrong.to_string().starts_with(words), "{wrong}");
}

#[test]
fn a_codec_may_be_a_list() {
    const LIST: &str = r#"codec = ["zstd:3", "lz4"]"#;
    let config = read(&format!("{ZRAM}{LIST}\n"));
    let written = config.to_toml(&Comments::default());
    assert!(
        read(&written) == config && written.contains(LIST),
        "{written}"
    );
}

/// Each mistake costs a reading of the whole file.
#[test]
fn of_many_mistakes_the_first_are_told_and_that_there_are_more() {
    let tiers = (0..100).map(|at| format!("[tier.t{at}]\nkind = \"zran\"\n"));
    let found = said(&tiers.collect::<String>());
    assert_eq!(found.len(), 21, "{found:#?}");
    assert!(found[20].ends_with(": 20 mistakes are told at once; mend them to see the rest"));
}
