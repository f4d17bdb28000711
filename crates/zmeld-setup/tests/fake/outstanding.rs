//! What a status calls not applied is what `up` would change, key by key.

use std::collections::BTreeSet;

use zmeld_config::keys::{Section, KEYS};
use zmeld_status::findings::Finding;

use crate::common::{config, Machine};

const ACCEPT: &str = "accept = [\"unstable-name\", \"lru-inversion\", \"readable-copy\", \
                      \"unused-rule\", \"no-memory-limit\", \"read-ahead\"]\n";
const RAM: &str = "[tier.fast]\nkind = \"zram\"\nmemory_limit = \"25%\"\n";
const BACKED: &str = "[tier.fast]\nkind = \"zram\"\nmemory_limit = \"25%\"\n\
                      [tier.fast.writeback]\n";
const ZMELD: &str = "[tier.fast]\nkind = \"zmeld\"\n";
const ZSWAP: &str = "[tier.cache]\nkind = \"zswap\"\n";
const DISK: &str = "[tier.disk]\nkind = \"disk\"\n";

/// A key, what stands before it, and the two lines that are exchanged.
type Exchange = (
    Section,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

#[rustfmt::skip]
const EXCHANGES: &[Exchange] = &[
    (Section::Top, "tier", "", RAM, ""),
    (Section::Top, "tunables", "", "", "[tunables]\npage_cluster = 1\n"),
    (Section::Top, "watch", RAM, "", "[watch]\ninterval = \"2min\"\n"),
    (Section::Top, "metrics", RAM, "", "[metrics]\nmelding = true\n"),
    (Section::Top, "accept", RAM, "", ""),
    (Section::Tier, "kind", "[tier.fast]\n", "kind = \"zram\"\n", "kind = \"zmeld\"\n"),
    (Section::Tier, "enabled", RAM, "", "enabled = false\n"),
    (Section::Swapped, "optional", RAM, "", "optional = true\n"),
    (Section::Swapped, "priority", RAM, "", "priority = 7\n"),
    (Section::Swapped, "discard", RAM, "", "discard = \"pages\"\n"),
    (Section::Ram, "size", RAM, "size = \"1GiB\"\n", "size = \"2GiB\"\n"),
    (Section::Ram, "memory_limit", "[tier.fast]\nkind = \"zram\"\n", "", "memory_limit = \"1GiB\"\n"),
    (Section::Ram, "codec", RAM, "codec = \"lz4\"\n", "codec = \"zstd\"\n"),
    (Section::Ram, "recompress", RAM, "", "recompress = [\"zstd\"]\n"),
    (Section::Ram, "writeback", RAM, "", "writeback = { device = \"/dev/sdb1\" }\n"),
    (Section::Zmeld, "meld", ZMELD, "meld = \"manual\"\n", "meld = \"auto\"\n"),
    (Section::Zmeld, "check_writes", ZMELD, "", "check_writes = \"on\"\n"),
    (Section::Zswap, "compressor", ZSWAP, "compressor = \"lzo\"\n", "compressor = \"zstd\"\n"),
    (Section::Zswap, "zpool", ZSWAP, "zpool = \"zsmalloc\"\n", "zpool = \"z3fold\"\n"),
    (Section::Zswap, "max_pool_percent", ZSWAP, "", "max_pool_percent = 30\n"),
    (Section::Zswap, "accept_threshold_percent", ZSWAP, "", "accept_threshold_percent = 80\n"),
    (Section::Zswap, "shrinker", ZSWAP, "shrinker = false\n", "shrinker = true\n"),
    (Section::Zswap, "same_filled", ZSWAP, "", "same_filled = false\n"),
    (Section::Disk, "device", DISK, "format = true\ndevice = \"/dev/sdb1\"\n", "format = true\ndevice = \"/dev/sdc1\"\n"),
    (Section::Disk, "file", DISK, "size = \"64KiB\"\nfile = \"/var/one\"\n", "size = \"64KiB\"\nfile = \"/var/two\"\n"),
    (Section::Disk, "size", DISK, "file = \"/var/one\"\nsize = \"64KiB\"\n", "file = \"/var/one\"\nsize = \"128KiB\"\n"),
    (Section::Disk, "format", DISK, "device = \"/dev/sdc1\"\n", "device = \"/dev/sdc1\"\nformat = true\n"),
    (Section::Disk, "encryption", DISK, "device = \"/dev/sdc1\"\nformat = true\n", "device = \"/dev/sdc1\"\nencryption = \"random\"\n"),
    (Section::Disk, "key_file", DISK, "device = \"/dev/sdc1\"\nencryption = \"luks\"\nformat = true\nkey_file = \"/etc/a\"\n", "device = \"/dev/sdc1\"\nencryption = \"luks\"\nformat = true\nkey_file = \"/etc/b\"\n"),
    (Section::Disk, "cipher", DISK, "device = \"/dev/sdc1\"\nencryption = \"random\"\n", "device = \"/dev/sdc1\"\nencryption = \"random\"\ncipher = \"serpent-xts-plain64\"\n"),
    (Section::Disk, "key_size", DISK, "device = \"/dev/sdc1\"\nencryption = \"random\"\n", "device = \"/dev/sdc1\"\nencryption = \"random\"\nkey_size = 256\n"),
    (Section::Disk, "hibernation", DISK, "device = \"/dev/sdc1\"\nformat = true\n", "device = \"/dev/sdc1\"\nformat = true\nhibernation = true\n"),
    (Section::Disk, "timeout", DISK, "device = \"/dev/sdc1\"\nformat = true\n", "device = \"/dev/sdc1\"\nformat = true\ntimeout = \"5s\"\n"),
    (Section::Writeback, "device", BACKED, "device = \"/dev/sdb1\"\n", "device = \"/dev/sdc1\"\n"),
    (Section::Writeback, "encryption", BACKED, "device = \"/dev/sdb1\"\n", "device = \"/dev/sdb1\"\nencryption = \"random\"\n"),
    (Section::Writeback, "cipher", BACKED, "device = \"/dev/sdb1\"\nencryption = \"random\"\n", "device = \"/dev/sdb1\"\nencryption = \"random\"\ncipher = \"serpent-xts-plain64\"\n"),
    (Section::Writeback, "key_size", BACKED, "device = \"/dev/sdb1\"\nencryption = \"random\"\n", "device = \"/dev/sdb1\"\nencryption = \"random\"\nkey_size = 256\n"),
    (Section::Writeback, "daily_limit", BACKED, "device = \"/dev/sdb1\"\ndaily_limit = \"1GiB\"\n", "device = \"/dev/sdb1\"\ndaily_limit = \"2GiB\"\n"),
    (Section::Writeback, "compressed", BACKED, "device = \"/dev/sdb1\"\n", "device = \"/dev/sdb1\"\ncompressed = true\n"),
    (Section::Writeback, "optional", BACKED, "device = \"/dev/sdb1\"\n", "device = \"/dev/sdb1\"\noptional = true\n"),
    (Section::Writeback, "timeout", BACKED, "device = \"/dev/sdb1\"\n", "device = \"/dev/sdb1\"\ntimeout = \"5s\"\n"),
    (Section::Recompression, "codec", RAM, "recompress = [{ codec = \"lz4\", priority = 1 }]\n", "recompress = [{ codec = \"zstd\", priority = 1 }]\n"),
    (Section::Recompression, "priority", RAM, "recompress = [{ codec = \"zstd\", priority = 1 }]\n", "recompress = [{ codec = \"zstd\", priority = 2 }]\n"),
    (Section::Tunables, "swappiness", "[tunables]\n", "swappiness = 100\n", "swappiness = 120\n"),
    (Section::Tunables, "page_cluster", "[tunables]\n", "page_cluster = 0\n", "page_cluster = 1\n"),
    (Section::Tunables, "watermark_scale_factor", "[tunables]\n", "", "watermark_scale_factor = 125\n"),
    (Section::Tunables, "watermark_boost_factor", "[tunables]\n", "watermark_boost_factor = 0\n", ""),
    (Section::Tunables, "compaction_proactiveness", "[tunables]\n", "", "compaction_proactiveness = 0\n"),
    (Section::Tunables, "vfs_cache_pressure", "[tunables]\n", "vfs_cache_pressure = 50\n", "vfs_cache_pressure = 60\n"),
    (Section::Tunables, "min_free", "[tunables]\n", "min_free = \"64MiB\"\n", "min_free = \"96MiB\"\n"),
];

/// Rules and figures are for `zmeld watch`: `up` has nothing to do with them.
const OF_WATCH: &[Section] = &[
    Section::Watch,
    Section::WatchRecompress,
    Section::WatchWriteback,
    Section::WatchMeld,
    Section::WatchReclaim,
    Section::WatchGuard,
    Section::Metrics,
];

fn machine() -> Machine {
    crate::cases::machine("reconcile.txt", "every-key")
}

/// What status says of it.
fn not_applied(machine: &Machine, text: &str) -> Vec<String> {
    let all = machine.findings(text);
    let found = all.iter().filter(|found| found.name() == "not-applied");
    let line = |it: &Finding| format!("{}: {} ({})", it.about, it.what, it.why);
    found.map(line).collect()
}

/// Whether `up` would change something.
fn would_change(machine: &Machine, text: &str) -> bool {
    let plan = machine.plan(&config(text));
    !plan.is_ok_and(|plan| plan.is_done())
}

#[test]
fn every_key_that_up_would_change_is_not_applied_and_no_other() {
    let mut changed = BTreeSet::new();
    for (section, name, head, before, after) in EXCHANGES {
        let machine = machine();
        if *name == "format" {
            machine.carry("/dev/sdc1", "swap");
        }
        let head = format!("{ACCEPT}{head}");
        let (before, after) = (format!("{head}{before}"), format!("{head}{after}"));
        let up = |text: &str| {
            machine
                .up(&config(text))
                .map_err(|err| format!("{name}: {err}"))
        };
        up(&before).unwrap();
        assert_eq!(not_applied(&machine, &before), [""; 0], "{name}");
        // A file without tiers leaves them as they are.
        let is_other = would_change(&machine, &after) && *name != "tier";
        let found = not_applied(&machine, &after);
        assert_eq!(!found.is_empty(), is_other, "{section:?} {name}: {found:?}");
        if is_other {
            changed.insert(*name);
            assert!(found.len() <= 3, "{name}: {found:?}");
        }
        // And what somebody else changes.
        up(&after).unwrap();
        assert_eq!(not_applied(&machine, &after), [""; 0], "{name}");
    }
    // Every key is looked at, and those that set something differ.
    for key in KEYS.iter().filter(|key| !OF_WATCH.contains(&key.section)) {
        let is_it = |it: &&Exchange| it.0 == key.section && it.1 == key.name;
        assert!(EXCHANGES.iter().any(|it| is_it(&it)), "{key:?}");
        let sets_nothing = "tier watch metrics accept optional hibernation timeout";
        let differs = changed.contains(key.name);
        let sets_something = !sets_nothing.split(' ').any(|it| it == key.name);
        assert_eq!(differs, sets_something, "{key:?}");
    }
}

const RULES: &str = "[watch.reclaim]\n[watch.guard]\nend = [\"/user.slice\"]\n";

/// Rules are those of the file that is read, never of an earlier run with another one;
/// tiers, tunables and the traps that are meant for them stay until a file says otherwise.
#[test]
fn the_file_that_is_read_has_the_rules_and_what_is_set_up_stays() {
    let machine = machine();
    let text = format!("{ACCEPT}{RAM}[tunables]\nswappiness = 77\n{RULES}");
    machine.up(&config(&text)).unwrap();
    machine.put("/proc/1/comm", "init\n");
    let asked = |file: &str| machine.outstanding(file).wanted;
    let is_watched = |file: &str| machine.outstanding(file).is_watched;
    let without = asked("");
    assert!(!without.watch.has_rules());
    assert_eq!(is_watched(""), None);
    assert_eq!(without.tiers, config(&text).tiers);
    assert_eq!(without.accept, config(&text).accept);
    assert_eq!(without.tunables, config(&text).tunables);
    assert_eq!(asked(RULES).watch, config(RULES).watch);
    assert_eq!(is_watched(RULES), Some(false));
    assert_eq!(not_applied(&machine, RULES), [""; 0]);
    // A file with tiers says all.
    let other = asked("[tier.fast]\nkind = \"zram\"\n");
    assert_eq!(other.tunables, Default::default());
    assert_eq!(other.accept, []);
}
