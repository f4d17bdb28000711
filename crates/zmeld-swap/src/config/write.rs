//! A configuration as a file, with comments that say why.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};

use toml::Value;

use super::named::{EncryptionName, KindName, Named};
use super::*;

/// What a comment above a key or a table says, by the key with its tables:
/// `tier.fast.size`, `tier.fast`, `tunables.swappiness`; under the empty key,
/// what stands at the head of the file.
pub type Comments = BTreeMap<String, String>;

/// How wide a comment gets.
const WIDTH: usize = 76;

impl Config {
    /// The configuration as the text of a file. Read again it is this
    /// configuration. Only what differs from its default is written, and what
    /// has a comment.
    pub fn to_toml(&self, comments: &Comments) -> String {
        let mut file = Writer {
            comments,
            text: String::new(),
            path: String::new(),
        };
        file.comment("");
        if !comments.get("").is_none_or(String::is_empty) {
            file.text.push('\n');
        }
        if !self.accept.is_empty() || comments.contains_key("accept") {
            let traps = self.accept.iter().map(text).collect();
            file.line("accept", Value::Array(traps));
        }
        for tier in &self.tiers {
            file.tier(tier);
        }
        if self.without_tiers {
            // A file that names none says nothing of them.
            file.push("# No tier is asked for.");
            file.push("[tier.none]");
            file.push("kind = \"zram\"");
            file.push("enabled = false");
        }
        file.tunables(&self.tunables);
        file.watch(&self.watch);
        file.metrics(&self.metrics);
        file.text
    }
}

fn text(value: impl Display) -> Value {
    Value::String(value.to_string())
}

struct Writer<'a> {
    comments: &'a Comments,
    text: String,
    path: String,
}

impl Writer<'_> {
    fn comment(&mut self, key: &str) {
        let Some(comment) = self.comments.get(key) else {
            return;
        };
        for paragraph in comment.lines() {
            let mut line = String::from("#");
            for word in paragraph.split_whitespace() {
                if line.len() > 1 && line.chars().count() + 1 + word.chars().count() > WIDTH {
                    self.push(&line);
                    line.truncate(1);
                }
                line.push(' ');
                line.push_str(word);
            }
            self.push(&line);
        }
    }

    fn push(&mut self, line: &str) {
        // What TOML forbids in a comment.
        let clean = line.replace(|c: char| c.is_control() && c != '\t', "?");
        self.text.push_str(&clean);
        self.text.push('\n');
    }

    fn table(&mut self, path: String) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
        self.comment(&path);
        // Names of tiers are bare keys by what they may consist of.
        let _ = writeln!(self.text, "[{path}]");
        self.path = path;
    }

    fn line(&mut self, name: &str, value: Value) {
        self.comment(&tree::dotted(&self.path, name));
        let _ = writeln!(self.text, "{name} = {value}");
    }

    fn commented(&self, name: &str) -> bool {
        self.comments.contains_key(&tree::dotted(&self.path, name))
    }

    /// A value that is left out where it is the default and nothing is said of it.
    fn unless<T: PartialEq>(&mut self, name: &str, value: &T, default: &T, written: Value) {
        if value != default || self.commented(name) {
            self.line(name, written);
        }
    }

    fn flag(&mut self, name: &str, value: bool) {
        self.unless(name, &value, &false, Value::Boolean(value));
    }

    fn given<T>(&mut self, name: &str, value: Option<T>, written: impl FnOnce(T) -> Value) {
        if let Some(value) = value {
            self.line(name, written(value));
        }
    }

    fn number(&mut self, name: &str, value: Option<impl Into<i64>>) {
        self.given(name, value, |value| Value::Integer(value.into()));
    }

    fn tier(&mut self, tier: &Tier) {
        self.table(format!("tier.{}", tier.name));
        let kind = match &tier.kind {
            Kind::Ram(device) => KindName::Ram(device.driver),
            Kind::Zswap(_) => KindName::Zswap,
            Kind::Disk(_) => KindName::Disk,
        };
        self.line("kind", text(kind.name()));
        match &tier.kind {
            Kind::Ram(device) => self.ram(device, tier.optional),
            Kind::Zswap(zswap) => self.zswap(zswap),
            Kind::Disk(disk) => self.disk(disk, tier.optional),
        }
    }

    fn swap(&mut self, swap: &Swap, optional: bool) {
        self.flag("optional", optional);
        self.number("priority", swap.priority);
        self.unless(
            "discard",
            &swap.discard,
            &Discard::None,
            text(swap.discard.name()),
        );
    }

    fn ram(&mut self, device: &RamDevice, optional: bool) {
        self.line("size", text(device.size));
        self.given("memory_limit", device.memory_limit, text);
        match device.codec.as_slice() {
            [] => {}
            [codec] => self.line("codec", text(codec)),
            list => self.line("codec", Value::Array(list.iter().map(text).collect())),
        }
        if !device.recompress.is_empty() {
            // Priorities that follow from the order are left out.
            let in_order = device
                .recompress
                .iter()
                .zip(1..)
                .all(|(recompression, turn)| recompression.priority == turn);
            let list = device.recompress.iter().map(|recompression| {
                if in_order {
                    return text(&recompression.codec);
                }
                let mut table = toml::Table::new();
                table.insert("codec".to_owned(), text(&recompression.codec));
                table.insert(
                    "priority".to_owned(),
                    Value::Integer(recompression.priority.into()),
                );
                Value::Table(table)
            });
            self.line("recompress", Value::Array(list.collect()));
        }
        if device.driver == RamDriver::Zmeld {
            self.line("meld", text(device.meld.name()));
            let check_writes = device.check_writes.map(CheckWrites::name);
            self.given("check_writes", check_writes, text);
        }
        self.swap(&device.swap, optional);
        if let Some(writeback) = &device.writeback {
            self.table(format!("{}.writeback", self.path));
            self.line("device", text(&writeback.device));
            self.encryption(&writeback.encryption);
            self.given("daily_limit", writeback.daily_limit, text);
            self.flag("compressed", writeback.compressed);
            self.flag("optional", writeback.optional);
            self.timeout(writeback.timeout);
        }
    }

    fn zswap(&mut self, zswap: &Zswap) {
        self.given("compressor", zswap.compressor.as_ref(), text);
        self.given("zpool", zswap.zpool, |zpool| text(zpool.name()));
        self.number("max_pool_percent", zswap.max_pool_percent);
        self.number("accept_threshold_percent", zswap.accept_threshold_percent);
        self.given("shrinker", zswap.shrinker, Value::Boolean);
        self.given("same_filled", zswap.same_filled, Value::Boolean);
    }

    fn disk(&mut self, disk: &DiskSwap, optional: bool) {
        match &disk.source {
            Source::Device(device) => self.line("device", text(device)),
            Source::File { path, size } => {
                self.line("file", text(path.display()));
                self.given("size", size.as_ref(), text);
            }
        }
        self.flag("format", disk.format);
        self.encryption(&disk.encryption);
        self.flag("hibernation", disk.hibernation);
        self.timeout(disk.timeout);
        self.swap(&disk.swap, optional);
    }

    fn timeout(&mut self, timeout: Span) {
        self.unless("timeout", &timeout, &tier::TIMEOUT, text(timeout));
    }

    fn encryption(&mut self, encryption: &Encryption) {
        let (name, key_file, cipher) = match encryption {
            Encryption::None => (EncryptionName::None, None, None),
            Encryption::Luks { key_file, cipher } => {
                (EncryptionName::Luks, Some(key_file), Some(cipher))
            }
            Encryption::Random { cipher } => (EncryptionName::Random, None, Some(cipher)),
        };
        self.unless(
            "encryption",
            &name,
            &EncryptionName::None,
            text(name.name()),
        );
        self.given("key_file", key_file, |path| text(path.display()));
        if let Some(cipher) = cipher {
            let standard = Cipher::default();
            self.unless("cipher", &cipher.name, &standard.name, text(&cipher.name));
            self.unless(
                "key_size",
                &cipher.key_size,
                &standard.key_size,
                Value::Integer(cipher.key_size.into()),
            );
        }
    }

    fn tunables(&mut self, tunables: &Tunables) {
        if *tunables == Tunables::default() {
            return;
        }
        self.table("tunables".to_owned());
        self.given(
            "swappiness",
            tunables.swappiness,
            |swappiness| match swappiness {
                Swappiness::Auto => text("auto"),
                Swappiness::Value(value) => Value::Integer(value.into()),
            },
        );
        self.number("page_cluster", tunables.page_cluster);
        self.number("watermark_scale_factor", tunables.watermark_scale_factor);
        self.number("watermark_boost_factor", tunables.watermark_boost_factor);
        self.number(
            "compaction_proactiveness",
            tunables.compaction_proactiveness,
        );
        self.number("vfs_cache_pressure", tunables.vfs_cache_pressure);
        self.given("min_free", tunables.min_free, text);
    }

    fn watch(&mut self, watch: &Watch) {
        let standard = Watch::default();
        if *watch == standard {
            return;
        }
        let bare = Watch {
            recompress: None,
            writeback: None,
            meld: None,
            reclaim: None,
            guard: None,
            ..watch.clone()
        };
        if bare != standard || self.comments.contains_key("watch") {
            self.table("watch".to_owned());
            let interval = text(watch.interval);
            self.unless("interval", &watch.interval, &standard.interval, interval);
            self.unless(
                "cpu_pressure_max",
                &watch.cpu_pressure_max,
                &standard.cpu_pressure_max,
                text(watch.cpu_pressure_max),
            );
            self.flag("dry_run", watch.dry_run);
        }
        if let Some(rule) = &watch.recompress {
            self.table("watch.recompress".to_owned());
            self.line("pages", text(rule.pages.name()));
            self.line("idle_after", text(rule.idle_after));
            self.line("every", text(rule.every));
            self.unless(
                "threshold",
                &rule.threshold,
                &Bytes(0),
                text(rule.threshold),
            );
            self.given("max_pages", rule.max_pages, |pages| {
                Value::Integer(i64::try_from(pages).unwrap_or(i64::MAX))
            });
        }
        if let Some(rule) = &watch.writeback {
            self.table("watch.writeback".to_owned());
            self.line("pages", text(rule.pages.name()));
            self.line("idle_after", text(rule.idle_after));
            self.line("every", text(rule.every));
            self.unless("above", &rule.above, &Percent::whole(0), text(rule.above));
            self.line("at_most", text(rule.at_most));
        }
        if let Some(rule) = &watch.meld {
            self.table("watch.meld".to_owned());
            self.line("every", text(rule.every));
            self.line("duplicates_min", text(rule.duplicates_min));
        }
        let list = |groups: &[GroupPattern]| Value::Array(groups.iter().map(text).collect());
        if let Some(rule) = &watch.reclaim {
            self.table("watch.reclaim".to_owned());
            self.line("groups", list(&rule.groups));
            self.unless("protect", &rule.protect, &Vec::new(), list(&rule.protect));
            self.line("protect_real_time", Value::Boolean(rule.protect_real_time));
            self.line("mechanism", text(rule.mechanism.name()));
            self.line("idle_after", text(rule.idle_after));
            self.line("every", text(rule.every));
            self.line("step", text(rule.step));
            self.line("pressure_max", text(rule.pressure_max));
            self.line("comeback_max", text(rule.comeback_max));
        }
        if let Some(rule) = &watch.guard {
            self.table("watch.guard".to_owned());
            self.line("room_below", text(rule.room_below));
            self.line("end_below", text(rule.end_below));
            self.line("stalled_max", text(rule.stalled_max));
            self.unless("end", &rule.end, &Vec::new(), list(&rule.end));
            self.unless("protect", &rule.protect, &Vec::new(), list(&rule.protect));
            let real_time = rule.protect_real_time;
            let written = Value::Boolean(real_time);
            self.unless("protect_real_time", &real_time, &true, written);
            let sessions = rule.protect_sessions;
            let written = Value::Boolean(sessions);
            self.unless("protect_sessions", &sessions, &true, written);
            let (most, standard) = (rule.protected_max, GuardRule::default().protected_max);
            self.unless("protected_max", &most, &standard, text(most));
            self.line("grace", text(rule.grace));
        }
    }

    fn metrics(&mut self, metrics: &Metrics) {
        if *metrics == Metrics::default() {
            return;
        }
        self.table("metrics".to_owned());
        self.given("textfile", metrics.textfile.as_ref(), |path| {
            text(path.display())
        });
        let melding = metrics.melding;
        self.unless("melding", &melding, &false, Value::Boolean(melding));
    }
}
