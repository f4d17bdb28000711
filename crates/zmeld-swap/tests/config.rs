//! The configuration as its writer meets it: every error is one line that says
//! where and what to do, and what is written comes back.

use std::fs;
use std::path::Path;

use zmeld_swap::config::*;

/// What is said of a text called `z.toml`: its errors, else its warnings.
fn said(text: &str) -> Vec<String> {
    let lines = match Config::from_text(Path::new("z.toml"), text) {
        Err(err) => err.problems.iter().map(Problem::to_string).collect(),
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

/// Each text, with the only line that is said of it.
#[test]
fn each_mistake_is_one_line_with_its_place_and_the_way_out() {
    for (text, line) in MISTAKES {
        assert_eq!(said(text), [*line], "of:\n{text}");
    }
}

const MISTAKES: &[(&str, &str)] = &[
    // Syntax.
    ("[tier.a\n", "z.toml:1:8: unclosed table, expected `]`; see docs/configuration.md or toml.io"),
    ("a = \n", "z.toml:1:5: string values must be quoted, expected literal string; see docs/configuration.md or toml.io"),
    // Unknown keys.
    (
        "[tunabels]\nswappiness = 1\n",
        "z.toml:1:2: tunabels: there is no such key; did you mean \"tunables\"?",
    ),
    (
        "[tunables]\nswapiness = 1\n",
        "z.toml:2:1: tunables.swapiness: there is no such key; did you mean \"swappiness\"?",
    ),
    (
        "[metrics]\nq = 1\n",
        "z.toml:2:1: metrics.q: there is no such key; there are: textfile, melding",
    ),
    // What the last version had.
    (
        "[watch.survey]\nplace = \"/srv\"\n",
        "warning: z.toml:1:8: watch.survey: is ignored, since this version has it no more; enable zmeld-survey.timer, or run zmeld scan --survey PLACE --every 1d",
    ),
    (
        "[metrics]\nlisten = \"127.0.0.1:9890\"\n",
        "warning: z.toml:2:1: metrics.listen: is ignored, since this version has it no more; write textfile, which node_exporter reads",
    ),
    (
        "[watch.reclaim]\nmechanism = \"process_madvise\"\n",
        "warning: z.toml:2:13: watch.reclaim.mechanism: is ignored, since this version has it no more; remove it: memory goes by lru_gen or memory.reclaim",
    ),
    (
        "accept = [\"survey-failed\"]\n",
        "warning: z.toml:1:11: accept[0]: is ignored, since this version has it no more; remove it",
    ),
    (
        "[tier.a]\nkind = \"zram\"\ndevice = \"/dev/sda1\"\n",
        "z.toml:3:1: tier.a.device: is for disk tiers; remove it here",
    ),
    (
        "[tier.a]\nkind = \"zmeld\"\ncheck_writes = \"yes\"\n",
        "z.toml:3:16: tier.a.check_writes: \"yes\" is none of its values; there are: auto, on, off",
    ),
    (
        "[tier.a]\nkind = \"zram\"\nmeld = \"auto\"\n",
        "z.toml:3:1: tier.a.meld: is for zmeld tiers; remove it here",
    ),
    (
        "[tunables]\npage-cluster = 0\npage_cluster = 0\n",
        "z.toml:3:1: page_cluster: is the same key as page-cluster in line 2; keep one of them",
    ),
    // Kinds and names.
    (
        "[tier.a]\n",
        "z.toml:1:7: tier.a: has no kind; write kind = \"zram\", \"zmeld\", \"zswap\" or \"disk\"",
    ),
    (
        "[tier.a]\nkind = \"zramm\"\n",
        "z.toml:2:8: tier.a.kind: \"zramm\" is none of its values; did you mean \"zram\"?",
    ),
    (
        "[tier.a]\nkind = 3\n",
        "z.toml:2:8: tier.a.kind: is the number 3; a text is needed: write it in quotes, with its unit if it has one",
    ),
    (
        "[tier.\"a/b\"]\nkind = \"zram\"\n",
        "z.toml:1:7: tier: \"a/b\" cannot name a tier; use up to 32 letters, digits, \"-\" and \"_\", the first a letter or digit",
    ),
    ("tier = 3\n", "z.toml:1:8: tier: is the number 3; write [tier.NAME] and its keys"),
    ("tier.a = 3\n", "z.toml:1:10: tier.a: is the number 3; write [tier.a] and its keys"),
    ("watch = true\n", "z.toml:1:9: watch: is true; write [watch] and its keys"),
    // Values.
    (
        "[tier.a]\nkind = \"zram\"\nsize = \"4GB\"\n",
        "z.toml:3:8: tier.a.size: \"4GB\": GB may be powers of 1000 or of 1024; write GiB",
    ),
    (
        "[tier.a]\nkind = \"zram\"\nsize = -4096\n",
        "z.toml:3:8: tier.a.size: \"-4096\" is not a size; write 50%, 4GiB, min(50%, 4GiB), or ufpr for RAM - RAM/4 + RAM/2",
    ),
    (
        "[tier.a]\nkind = \"zram\"\nsize = \"half\"\n",
        "z.toml:3:8: tier.a.size: \"half\" is not a size; write 50%, 4GiB, min(50%, 4GiB), or ufpr for RAM - RAM/4 + RAM/2",
    ),
    (
        "[tier.a]\nkind = \"zram\"\nsize = \"12\"\n",
        "z.toml:3:8: tier.a.size: \"12\" does not hold a single page of 4 KiB",
    ),
    (
        "[tier.a]\nkind = \"zram\"\ncodec = \"snappy\"\n",
        "z.toml:3:9: tier.a.codec: \"snappy\" is no codec; there are: lzo, lzo-rle, lz4, lz4hc, zstd, deflate, 842, zword",
    ),
    (
        "[tier.a]\nkind = \"zram\"\npriority = 40000\n",
        "z.toml:3:12: tier.a.priority: is the number 40000; write a whole number from -1 to 32767, without quotes",
    ),
    (
        "[tier.a]\nkind = \"zram\"\npriority = -2\n",
        "z.toml:3:12: tier.a.priority: is the number -2; write a whole number from -1 to 32767, without quotes",
    ),
    (
        "[tier.a]\nkind = \"zram\"\npriority = 99999999999999999999\n",
        "z.toml:3:12: tier.a.priority: is the number 99999999999999999999; write a whole number from -1 to 32767, without quotes",
    ),
    (
        "[tier.a]\nkind = \"zram\"\npriority = 1.5\n",
        "z.toml:3:12: tier.a.priority: is the number 1.5; write a whole number from -1 to 32767, without quotes",
    ),
    (
        "[tier.a]\nkind = \"zram\"\noptional = \"yes\"\n",
        "z.toml:3:12: tier.a.optional: is the text \"yes\"; write true or false, without quotes",
    ),
    (
        "[tier.a]\nkind = \"zram\"\ndiscard = \"page\"\n",
        "z.toml:3:11: tier.a.discard: \"page\" is none of its values; did you mean \"pages\"?",
    ),
    (
        "[tunables]\nswappiness = 201\n",
        "z.toml:2:14: tunables.swappiness: is the number 201; write a whole number from 0 to 200, without quotes",
    ),
    (
        "[tunables]\nswappiness = \"60\"\n",
        "z.toml:2:14: tunables.swappiness: \"60\" is no value; write \"auto\", or 0 to 200 without quotes",
    ),
    (
        "[watch]\ninterval = \"often\"\n",
        "z.toml:2:12: watch.interval: \"often\" is not a time; write 30s, 5min, 2h or 1d",
    ),
    (
        "[watch]\ncpu_pressure_max = \"120%\"\n",
        "z.toml:2:20: watch.cpu_pressure_max: \"120%\" is more than all of it; write 0% to 100%",
    ),
    (
        "[watch]\ncpu_pressure_max = \"1 in 5\"\n",
        "z.toml:2:20: watch.cpu_pressure_max: \"1 in 5\" is not a percentage such as \"25%\"",
    ),
    (
        "[watch.reclaim]\nstep = \"0%\"\n",
        "z.toml:2:8: watch.reclaim.step: 0% reclaims nothing; write more, or enabled = false",
    ),
    (
        "[watch.reclaim]\nmechanism = \"damon\"\n",
        "z.toml:2:13: watch.reclaim.mechanism: \"damon\" is none of its values; there are: auto, lru_gen, memory.reclaim",
    ),
    (
        "[watch.reclaim]\ngroups = []\n",
        "z.toml:2:10: watch.reclaim.groups: from no group nothing is reclaimed; write [\"/\"] for all, or enabled = false",
    ),
    (
        "[watch.reclaim]\nprotect = [\"/\"]\n",
        "z.toml:2:11: watch.reclaim.protect: \"/\" protects all that there is; name some groups, or write enabled = false",
    ),
    (
        "[watch.reclaim]\ngroups = [\"a/b\"]\n",
        "z.toml:2:11: watch.reclaim.groups[0]: \"a/b\" names no control group; write its name, \"ssh.service\", or its path from the root on, \"/system.slice/ssh.service\"; * is any part of a name",
    ),
    (
        "[watch.guard]\nroom_below = \"2%\"\n",
        "z.toml:2:14: watch.guard.room_below: 2% is less than end_below, 3%: what was not tried is not given up; write more",
    ),
    (
        "[watch.guard]\nend = [\"/\"]\n",
        "z.toml:2:7: watch.guard.end: \"/\" is all that runs; name the groups that may be ended",
    ),
    (
        "[watch.guard]\nend = [\"*\"]\n",
        "z.toml:2:7: watch.guard.end: \"*\" is all that runs; name the groups that may be ended",
    ),
    (
        "[watch.guard]\nend = [\"batch-*.service\", \"*.service\"]\n",
        "warning: z.toml:2:27: watch.guard.end[1]: \"*.service\" is all services of the system, which others need; name those that may be ended (if it is meant: accept = [\"ends-services\"])",
    ),
    (
        "[watch.guard]\nend = [\"/system.slice\"]\n",
        "warning: z.toml:2:8: watch.guard.end[0]: \"/system.slice\" is all services of the system, which others need; name those that may be ended (if it is meant: accept = [\"ends-services\"])",
    ),
    (
        "[watch.guard]\nend = [\"/system.slice/*\"]\n",
        "warning: z.toml:2:8: watch.guard.end[0]: \"/system.slice/*\" is all services of the system, which others need; name those that may be ended (if it is meant: accept = [\"ends-services\"])",
    ),
    (
        "[watch.reclaim]\npressure_max = \"0%\"\n",
        "warning: z.toml:2:16: watch.reclaim.pressure_max: 0% is reached by the first wait or page, so that it rests nearly all the time; write 0.1%, or enabled = false (if it is meant: accept = [\"zero-limit\"])",
    ),
    (
        "[watch.reclaim]\ncomeback_max = \"0.0%\"\n",
        "warning: z.toml:2:16: watch.reclaim.comeback_max: 0% is reached by the first wait or page, so that it rests nearly all the time; write 0.2%, or enabled = false (if it is meant: accept = [\"zero-limit\"])",
    ),
    (
        "[watch.reclaim]\ngroups = [\"a.slice\", \"b.slice\"]\nprotect = [\"b.slice\"]\n",
        "warning: z.toml:3:11: watch.reclaim.protect: \"b.slice\" is in groups, too, and nothing is reclaimed from it; remove it from one of them (if it is meant: accept = [\"unused-rule\"])",
    ),
    (
        "[watch.reclaim]\nprotect = [\"/sys/fs/cgroup/db.slice\"]\n",
        "z.toml:2:12: watch.reclaim.protect[0]: \"/sys/fs/cgroup/db.slice\" names no control group: paths begin at the first group, not where they are mounted; write \"/db.slice\"",
    ),
    (
        "[watch.guard]\nend = [\"a.slice\", \"/sys/fs/cgroup/b.slice\"]\n",
        "z.toml:2:19: watch.guard.end[1]: \"/sys/fs/cgroup/b.slice\" names no control group: paths begin at the first group, not where they are mounted; write \"/b.slice\"",
    ),
    (
        "[watch.guard]\ngrace = \"1h\"\n",
        "z.toml:2:9: watch.guard.grace: 1h: memory is gone long before; write 1min at most",
    ),
    (
        "[watch.guard]\nprotect = [\"/\"]\n",
        "z.toml:2:11: watch.guard.protect: \"/\" protects all that there is; name some groups, or leave end empty",
    ),
    (
        "[watch.recompress]\nthreshold = \"5000\"\n",
        "z.toml:2:13: watch.recompress.threshold: \"5000\" is more than a page; write 0 to 4KiB",
    ),
    (
        "accept = [\"zram-with-swap\"]\n",
        "z.toml:1:11: accept[0]: \"zram-with-swap\" is no trap that is known; did you mean \"zram-with-zswap\"?",
    ),
    ("accept = \"all\"\n", "z.toml:1:10: accept: is the text \"all\"; write a list in [ ]"),
    // Metrics.
    (
        "[metrics]\ntextfile = \"/var/lib/zmeld\"\n",
        "z.toml:2:12: metrics.textfile: node_exporter reads files whose names end in .prom only; write /var/lib/zmeld.prom",
    ),
    (
        "[metrics]\ntextfile = \"zmeld.prom\"\n",
        "z.toml:2:12: metrics.textfile: \"zmeld.prom\" is no absolute path; start it with /",
    ),
    // Disks.
    (
        "[tier.d]\nkind = \"disk\"\n",
        "z.toml:1:7: tier.d: names no place; write device = \"UUID=...\" or file = \"/swapfile\"",
    ),
    (
        "[tier.d]\nkind = \"disk\"\ndevice = \"LABEL=swap\"\nfile = \"/swapfile\"\n",
        "z.toml:4:8: tier.d.file: a tier is one place; remove either device or file, or make two tiers",
    ),
    (
        "[tier.d]\nkind = \"disk\"\ndevice = \"LABEL=swap\"\nsize = \"1GiB\"\n",
        "z.toml:4:8: tier.d.size: is for a file; a device is used whole: remove it",
    ),
    (
        "[tier.d]\nkind = \"disk\"\ndevice = \"sda2\"\n",
        "z.toml:3:10: tier.d.device: \"sda2\" names no device; write an absolute path, or UUID=, LABEL=, PARTUUID= or PARTLABEL= with its value",
    ),
    (
        "[tier.d]\nkind = \"disk\"\ndevice = \"/swapfile\"\n",
        "z.toml:3:10: tier.d.device: /swapfile is not below /dev; for a swap file write file = \"/swapfile\"",
    ),
    (
        "[tier.d]\nkind = \"disk\"\nfile = \"/dev/sda2\"\n",
        "z.toml:3:8: tier.d.file: /dev/sda2 is no place for a file; for a device write device = \"/dev/sda2\"",
    ),
    (
        "[tier.d]\nkind = \"disk\"\nfile = \"/tmp/swap\"\n",
        "warning: z.toml:3:8: tier.d.file: /tmp/swap is often kept in RAM, where a swap file cannot be; put it on a disk, such as /var/swap (if it is meant: accept = [\"file-in-ram\"])",
    ),
    (
        "[tier.d]\nkind = \"disk\"\ndevice = \"/dev/zram0\"\n",
        "z.toml:3:10: tier.d.device: /dev/zram0 is in RAM itself; name a drive, or use kind = \"zram\"",
    ),
    (
        "[tier.d]\nkind = \"disk\"\ndevice = \"LABEL=a\"\n[tier.e]\nkind = \"disk\"\ndevice = \"LABEL=a\"\n",
        "z.toml:6:10: tier.e.device: LABEL=a is used by tier.d.device already; each needs a place of its own",
    ),
    (
        "[tier.d]\nkind = \"disk\"\ndevice = \"LABEL=a\"\n[tier.e]\nkind = \"disk\"\ndevice = \"/dev/disk//by-label/a\"\n",
        "z.toml:6:10: tier.e.device: /dev/disk//by-label/a is used by tier.d.device already; each needs a place of its own",
    ),
    // Encryption.
    (
        "[tier.d]\nkind = \"disk\"\ndevice = \"LABEL=a\"\nencryption = \"luks\"\n",
        "z.toml:4:14: tier.d.encryption: luks needs a key file, since nobody types a passphrase when swap is set up; write key_file = \"/etc/zmeld/NAME.key\"",
    ),
    (
        "[tier.d]\nkind = \"disk\"\ndevice = \"LABEL=a\"\nkey_size = 256\n",
        "z.toml:4:12: tier.d.key_size: says how, but nothing is encrypted; add encryption = \"luks\" or \"random\", or remove it",
    ),
    (
        "[tier.d]\nkind = \"disk\"\ndevice = \"PARTLABEL=a\"\nencryption = \"random\"\nkey_file = \"/k\"\n",
        "z.toml:5:12: tier.d.key_file: is for encryption = \"luks\"; a random key is kept nowhere: remove it",
    ),
    (
        "[tier.d]\nkind = \"disk\"\ndevice = \"PARTLABEL=a\"\nencryption = \"random\"\nkey_size = 128\n",
        "z.toml:5:12: tier.d.key_size: aes-xts-plain64 takes no key of 128 bits; write key_size = 256 or 384 or 512",
    ),
    (
        "[tier.d]\nkind = \"disk\"\ndevice = \"PARTLABEL=a\"\nencryption = \"random\"\ncipher = \"aes-ecb-plain\"\n",
        "z.toml:5:10: tier.d.cipher: \"aes-ecb-plain\" shows which blocks are equal; write aes-xts-plain64",
    ),
    (
        "[tier.d]\nkind = \"disk\"\ndevice = \"PARTLABEL=a\"\nencryption = \"random\"\ncipher = \"aes\"\n",
        "z.toml:5:10: tier.d.cipher: \"aes\" is no cipher; write it as cryptsetup does, such as aes-xts-plain64",
    ),
    (
        "[tier.d]\nkind = \"disk\"\ndevice = \"UUID=1-2\"\nencryption = \"random\"\n",
        "z.toml:3:10: tier.d.device: UUID=1-2 is written over with the area, so the device would not be found again; use PARTUUID= or a path below /dev/disk/by-id",
    ),
    (
        "[tier.d]\nkind = \"disk\"\ndevice = \"/dev/sda2\"\nencryption = \"random\"\n",
        "warning: z.toml:3:10: tier.d.device: /dev/sda2 may be another drive after a reboot, and it is written over with the area; use PARTUUID= or a path below /dev/disk/by-id (if it is meant: accept = [\"unstable-name\"])",
    ),
    (
        "[tier.d]\nkind = \"disk\"\nfile = \"/swapfile\"\nencryption = \"random\"\n",
        "z.toml:4:14: tier.d.encryption: is for devices; put the file on an encrypted file system, or use a partition",
    ),
    (
        "[tier.d]\nkind = \"disk\"\ndevice = \"LABEL=a\"\nencryption = \"luks\"\nkey_file = \"/run/key\"\n",
        "z.toml:5:12: tier.d.key_file: /run/key does not outlive a reboot, and without it the volume stays shut; put it below /etc",
    ),
    (
        "[tier.d]\nkind = \"disk\"\ndevice = \"PARTLABEL=a\"\nencryption = \"random\"\nhibernation = true\n",
        "z.toml:5:15: tier.d.hibernation: the key is new at each boot, so the image could not be read back; use encryption = \"luks\" or hibernate elsewhere",
    ),
    (
        "[tier.d]\nkind = \"disk\"\ndevice = \"PARTLABEL=a\"\nencryption = \"random\"\n[tier.e]\nkind = \"disk\"\ndevice = \"LABEL=b\"\n",
        "warning: z.toml:5:7: tier.e.encryption: pages are written here as they are, while those of tier.d are encrypted; add encryption = \"random\" (if it is meant: accept = [\"readable-copy\"])",
    ),
    (
        "[tier.a]\nkind = \"zram\"\n[tier.a.writeback]\ndevice = \"PARTLABEL=a\"\nencryption = \"luks\"\n[watch.writeback]\n",
        "z.toml:5:14: tier.a.writeback.encryption: what is written back is lost with RAM, so a key that lasts protects nothing more; write \"random\"",
    ),
    (
        "[tier.a]\nkind = \"zram\"\n[tier.a.writeback]\noptional = true\n[watch.writeback]\n",
        "z.toml:3:9: tier.a.writeback: has no device; write device = \"PARTUUID=...\"",
    ),
    (
        "[tier.a]\nkind = \"zram\"\nwriteback.device = \"LABEL=a\"\n[watch.writeback]\n",
        "z.toml:3:20: tier.a.writeback.device: LABEL=a is written over with the backing device, so the device would not be found again; use PARTLABEL= or a path below /dev/disk/by-id",
    ),
    // Codecs.
    (
        "[tier.a]\nkind = \"zram\"\ncodec = \"zword\"\n",
        "z.toml:3:9: tier.a.codec: zram has no zword; write kind = \"zmeld\", or another codec",
    ),
    (
        "[tier.a]\nkind = \"zmeld\"\ncodec = \"zword:3\"\n",
        "z.toml:3:9: tier.a.codec: \"3\" is no level of zword; it takes 1 to 2",
    ),
    // Recompression.
    (
        "[tier.a]\nkind = \"zram\"\ncodec = \"zstd\"\nrecompress = [\"zstd\"]\n[watch.recompress]\n",
        "z.toml:4:15: tier.a.recompress[0]: zstd is what the pages are compressed with already; choose another codec or level",
    ),
    (
        "[tier.a]\nkind = \"zram\"\ncodec = \"zstd\"\nrecompress = [\"lz4\"]\n[watch.recompress]\n",
        "warning: z.toml:4:15: tier.a.recompress[0]: lz4 compresses less than zstd, so that pages are compressed again and nothing is saved; exchange them (if it is meant: accept = [\"weaker-recompression\"])",
    ),
    (
        "[tier.a]\nkind = \"zram\"\nrecompress = [\"zstd:1\", \"zstd:2\", \"zstd:3\", \"zstd:4\"]\n[watch.recompress]\n",
        "z.toml:3:14: tier.a.recompress: zram takes 3 more codecs, not 4; remove some",
    ),
    (
        "[tier.a]\nkind = \"zram\"\nrecompress = [{ codec = \"zstd\", priority = 2 }, { codec = \"deflate\", priority = 2 }]\n[watch.recompress]\n",
        "z.toml:3:49: tier.a.recompress[1]: priority 2 is taken by another codec of the list; give each its own, 1 to 3",
    ),
    (
        "[tier.a]\nkind = \"zram\"\nrecompress = [\"zstd\", \"zstd\"]\n[watch.recompress]\n",
        "z.toml:3:23: tier.a.recompress[1]: zstd is listed twice",
    ),
    (
        "[tier.a]\nkind = \"zram\"\nrecompress = [{ codec = \"zstd\" }]\n[watch.recompress]\n",
        "z.toml:3:15: tier.a.recompress[0]: has no priority; write { codec = \"zstd\", priority = 1 }",
    ),
    // Rules without a use, and uses without a rule.
    (
        "[tier.a]\nkind = \"zram\"\nrecompress = [\"zstd\"]\n",
        "warning: z.toml:3:14: tier.a.recompress: the kernel compresses nothing again by itself; add [watch.recompress] and run zmeld watch (if it is meant: accept = [\"unused-rule\"])",
    ),
    (
        "[watch.writeback]\n",
        "warning: z.toml:1:8: watch.writeback: no tier has a writeback device; add one, or remove the rule (if it is meant: accept = [\"unused-rule\"])",
    ),
    (
        "[watch.meld]\n",
        "warning: z.toml:1:8: watch.meld: no tier melds pages; add a tier with kind = \"zmeld\", or remove the rule (if it is meant: accept = [\"unused-rule\"])",
    ),
    // Tiers together.
    (
        "[tier.z]\nkind = \"zswap\"\n[tier.a]\nkind = \"zram\"\n",
        "z.toml:1:7: tier.z: zswap compresses the pages first and passes on what is left, so that tier.a holds pages that were compressed before and its figures mislead; keep one of the two (if it is meant: accept = [\"zram-with-zswap\"])",
    ),
    (
        "[tier.z]\nkind = \"zswap\"\n[tier.y]\nkind = \"zswap\"\n[tier.d]\nkind = \"disk\"\ndevice = \"LABEL=s\"\n",
        "z.toml:3:7: tier.y: the kernel has one zswap; put its settings into one tier",
    ),
    (
        "[tier.z]\nkind = \"zswap\"\n",
        "warning: z.toml:1:7: tier.z: zswap is a cache in front of swap on a disk, and no disk tier is given; add one, unless /etc/fstab has it (if it is meant: accept = [\"unused-rule\"])",
    ),
    (
        "[tier.z]\nkind = \"zswap\"\ncompressor = \"zstd:3\"\n",
        "z.toml:3:14: tier.z.compressor: \"zstd:3\": zswap takes no level and no dictionary; write just \"zstd\"",
    ),
    (
        "[tier.z]\nkind = \"zswap\"\nmax_pool_percent = 0\n",
        "z.toml:3:20: tier.z.max_pool_percent: is the number 0; write a whole number from 1 to 100, without quotes",
    ),
    (
        "[tier.z]\nkind = \"zswap\"\npriority = 3\n",
        "z.toml:3:1: tier.z.priority: is for zram, zmeld and disk tiers; remove it here",
    ),
    (
        "[tier.a]\nkind = \"zram\"\n[tier.d]\nkind = \"disk\"\ndevice = \"LABEL=s\"\n",
        "warning: z.toml:1:7: tier.a: cold pages stay in tier.a and hot ones go to tier.d once it is full; give it a writeback device instead of the disk tier, or use kind = \"zswap\" (if it is meant: accept = [\"lru-inversion\"])",
    ),
    (
        "[tier.d]\nkind = \"disk\"\ndevice = \"LABEL=s\"\n[tier.a]\nkind = \"zram\"\npriority = 100\n",
        "warning: z.toml:6:12: tier.a.priority: tier.d and tier.a share priority 100, so that pages go to RAM and to disk in turn; give the disk a lower one (if it is meant: accept = [\"priorities\"])",
    ),
    (
        "[tier.d]\nkind = \"disk\"\ndevice = \"LABEL=s\"\npriority = 5\n[tier.e]\nkind = \"disk\"\ndevice = \"LABEL=t\"\npriority = 10\n",
        "warning: z.toml:8:12: tier.e.priority: tier.e is filled first (priority 10, tier.d has 5), though it stands below it; exchange the tiers or the priorities (if it is meant: accept = [\"priorities\"])",
    ),
    (
        "[tier.a]\nkind = \"zram\"\nsize = \"ufpr\"\n",
        "warning: z.toml:3:8: tier.a.size: ufpr takes pages as large as RAM and more, and nothing limits the memory they use when they compress badly; add memory_limit = \"50%\" (if it is meant: accept = [\"no-memory-limit\"])",
    ),
    (
        "[tier.a]\nkind = \"zram\"\nmemory_limit = \"150%\"\n",
        "z.toml:3:16: tier.a.memory_limit: 150% is more than all of RAM; write at most 100%",
    ),
    (
        "[tier.a]\nkind = \"zram\"\nmemory_limit = \"60%\"\n[tier.b]\nkind = \"zram\"\nmemory_limit = \"60%\"\n",
        "z.toml:6:16: tier.b.memory_limit: the limits add up to 120% of RAM; 100% is all there is",
    ),
    (
        "[tier.a]\nkind = \"zram\"\n[tunables]\npage-cluster = 3\n",
        "warning: z.toml:4:16: tunables.page_cluster: 8 pages are decompressed for each that is needed, and nothing is gained by reading ahead in RAM; write 0 (if it is meant: accept = [\"read-ahead\"])",
    ),
    (
        "accept = [\"lru-inversion\"]\n[tier.a]\nkind = \"zram\"\n[tier.d]\nkind = \"disk\"\ndevice = \"LABEL=s\"\nhibernation = true\n",
        "warning: z.toml:7:15: tier.d.hibernation: pages in tier.a are part of the hibernation image and cannot be swapped out before it, so hibernation may fail; use zswap instead (if it is meant: accept = [\"hibernation\"])",
    ),
];

/// Every key there is, with a value that is not its default.
const EVERYTHING: &str = include_str!("export/everything.toml");

#[test]
fn what_is_written_comes_back() {
    let config = read(EVERYTHING);
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
    for key in keys::KEYS.iter() {
        let there = |text: &str| {
            text.lines().any(|line| {
                line.starts_with(&format!("{} =", key.name))
                    || line.contains(&format!("{{ {} =", key.name))
                    || line.contains(&format!(", {} =", key.name))
                    || (line.starts_with('[') && line.contains(key.name))
            })
        };
        assert!(there(EVERYTHING), "{key:?} is not tried");
        assert!(
            there(&written) || key.name == "enabled",
            "{key:?} is not written"
        );
    }
}

#[test]
fn comments_stand_above_what_they_are_about() {
    let config = read("[tier.a]\nkind = \"zram\"\nsize = \"25%\"\n[tunables]\nswappiness = 150\n");
    let comments: Comments = [
        ("", "Made for this machine."),
        ("tier.a", "The machine has 4 GiB."),
        ("tier.a.size", "a line\nthat\u{1b}[2J breaks, and is long enough to be broken again where the words allow it"),
        ("tier.a.optional", "It cannot be missing."),
        ("tunables.swappiness", "zram is 3 times as fast as the file system."),
    ]
    .into_iter()
    .map(|(key, comment)| (key.to_owned(), comment.to_owned()))
    .collect();
    let text = config.to_toml(&comments);
    assert_eq!(
        text,
        "\
# Made for this machine.

# The machine has 4 GiB.
[tier.a]
kind = \"zram\"
# a line
# that?[2J breaks, and is long enough to be broken again where the words
# allow it
size = \"25%\"
# It cannot be missing.
optional = false

[tunables]
# zram is 3 times as fast as the file system.
swappiness = 150
"
    );
    assert_eq!(read(&text), config);
}

#[test]
fn priorities_follow_the_order_unless_they_are_given() {
    let priorities = |text: &str| -> Vec<(String, i16)> {
        let config = read(text);
        let areas = config.areas();
        areas
            .iter()
            .map(|(tier, _, priority)| (tier.name.to_string(), *priority))
            .collect()
    };
    // The order is that of the file, not of the alphabet.
    let text = "accept = [\"lru-inversion\", \"priorities\"]\n\
                [tier.z]\nkind = \"zram\"\n\
                [tier.cache]\nkind = \"zswap\"\nenabled = false\n\
                [tier.m]\nkind = \"disk\"\nfile = \"/m\"\nPRIORITY\n\
                [tier.a]\nkind = \"disk\"\nfile = \"/a\"\n";
    let pairs = |numbers: [i16; 3]| -> Vec<(String, i16)> {
        ["z", "m", "a"]
            .map(str::to_owned)
            .into_iter()
            .zip(numbers)
            .collect()
    };
    for (given, expected) in [
        ("", [100, 90, 80]),
        ("priority = 5", [100, 5, 0]),
        ("priority = 0", [100, 0, 0]),
        ("priority = -1", [100, -1, 90]),
        ("priority = 200", [100, 200, 90]),
    ] {
        assert_eq!(
            priorities(&text.replace("PRIORITY", given)),
            pairs(expected),
            "{given}"
        );
    }
}

/// A root directory with those files; a text that starts with "->" is a link.
fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let at = root.path().join(&path[1..]);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        match text.strip_prefix("->") {
            Some(target) => std::os::unix::fs::symlink(target, at).unwrap(),
            None => fs::write(at, text).unwrap(),
        }
    }
    root
}

const ZRAM: &str = "[tier.a]\nkind = \"zram\"\n";

#[test]
fn drop_ins_change_the_main_file_in_the_order_of_their_names() {
    let root = root(&[
        (
            "/etc/zmeld.toml",
            "[tier.a]\nkind = \"zram\"\nsize = \"10%\"\ncodec = \"lz4\"\n",
        ),
        ("/run/zmeld.toml", "this is not read"),
        ("/usr/lib/zmeld.toml", "nor is this"),
        (
            "/usr/lib/zmeld.toml.d/50-vendor.toml",
            "[tier.a]\nsize = \"20%\"\npriority = 7\n",
        ),
        (
            "/etc/zmeld.toml.d/40-mine.toml",
            "[tier.a]\nsize = \"30%\"\n[tunables]\npage-cluster = 0\n",
        ),
        (
            "/run/zmeld.toml.d/60-now.toml",
            "[tunables]\npage_cluster = 1\nswappiness = 100\n",
        ),
        ("/usr/lib/zmeld.toml.d/60-now.toml", "hidden by /run"),
        ("/usr/lib/zmeld.toml.d/70-off.toml", "hidden by a link"),
        ("/etc/zmeld.toml.d/70-off.toml", "->/dev/null"),
        ("/etc/zmeld.toml.d/.hidden.toml", "not read"),
        ("/etc/zmeld.toml.d/README", "not read"),
        ("/etc/zmeld.toml.d/80-old.conf", "not read"),
    ]);
    let loaded = Config::load(root.path()).unwrap();
    let names: Vec<_> = loaded
        .files
        .iter()
        .map(|file| file.to_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "/etc/zmeld.toml",
            "/etc/zmeld.toml.d/40-mine.toml",
            "/usr/lib/zmeld.toml.d/50-vendor.toml",
            "/run/zmeld.toml.d/60-now.toml",
        ]
    );
    let Kind::Ram(device) = &loaded.config.tiers[0].kind else {
        panic!("{:?}", loaded.config)
    };
    assert_eq!(device.size, Size::percent(20));
    assert_eq!(device.codec, [Codec::new("lz4")]);
    assert_eq!(device.swap.priority, Some(7));
    assert_eq!(loaded.config.tunables.page_cluster, Some(1));
    assert_eq!(
        loaded.config.tunables.swappiness,
        Some(Swappiness::Value(100))
    );
    let warnings: Vec<_> = loaded.warnings.iter().map(Problem::to_string).collect();
    assert_eq!(
        warnings,
        [
            "/etc/zmeld.toml.d/80-old.conf:1:1: is not read, since its name does not end in .toml; rename it to 80-old.toml",
            "/run/zmeld.toml.d/60-now.toml:2:16: tunables.page_cluster: 2 pages are decompressed for each that is needed, and nothing is gained by reading ahead in RAM; write 0 (if it is meant: accept = [\"read-ahead\"])",
        ]
    );
}

#[test]
fn a_tier_can_be_switched_off_and_a_rule_too() {
    let root = root(&[
        (
            "/usr/lib/zmeld.toml",
            &format!("{ZRAM}[watch.recompress]\npages = \"huge\"\n"),
        ),
        (
            "/etc/zmeld.toml.d/10.toml",
            "tier.a.enabled = false\nwatch.recompress.enabled = false\n",
        ),
    ]);
    // It asks for no tier, where one that names none says nothing of them.
    let off = Config {
        without_tiers: true,
        ..Config::default()
    };
    assert_eq!(Config::load(root.path()).unwrap().config, off);
    let written = off.to_toml(&Default::default());
    let read = Config::from_text("z.toml".as_ref(), &written).unwrap();
    assert_eq!(read.config, off, "{written}");
    // No configuration at all is none that says anything.
    let empty = tempfile::tempdir().unwrap();
    let loaded = Config::load(empty.path()).unwrap();
    assert_eq!(loaded.config, Config::default());
    assert!(loaded.files.is_empty());
    // Not even its directory.
    assert!(Config::load(&empty.path().join("none")).is_ok());
}

#[test]
fn errors_name_the_file_that_they_are_in() {
    for (files, line) in [
        (
            &[("/etc/zmeld.toml", ZRAM), ("/etc/zmeld.toml.d/1.toml", "\n[tier.a]\nsize = \"x\"\n")][..],
            "/etc/zmeld.toml.d/1.toml:3:8: tier.a.size: \"x\" is not a size; write 50%, 4GiB, min(50%, 4GiB), or ufpr for RAM - RAM/4 + RAM/2",
        ),
        (
            &[("/etc/zmeld.toml", ZRAM), ("/etc/zmeld.toml.d/1.toml", "tier = 5\n")],
            "/etc/zmeld.toml.d/1.toml:1:8: tier: is the number 5, but a table in /etc/zmeld.toml; write [tier] and its keys",
        ),
        // The first of several, and how many there are.
        (
            &[("/etc/zmeld.toml", "[tier.a]\nkind = \"zram\"\nx = 1\ny = 2\n")],
            "/etc/zmeld.toml:3:1: tier.a.x: there is no such key; there are: kind, enabled, optional, priority, discard, size, memory_limit, codec, recompress, writeback (and 1 more: zmeld config check)",
        ),
        (&[("/etc/zmeld.toml/sub", "")], "cannot read /etc/zmeld.toml: it is not a file"),
        (&[("/etc/zmeld.toml", "->/nowhere")], "cannot read /etc/zmeld.toml: No such file or directory"),
        (&[("/etc/zmeld.toml", "->zmeld.toml")], "cannot read /etc/zmeld.toml: Too many levels of symbolic links"),
        (&[("/etc/zmeld.toml.d", "a file")], "cannot read /etc/zmeld.toml.d: Not a directory"),
    ] {
        let root = root(files);
        let err = Config::load(root.path()).unwrap_err();
        assert_eq!(err.to_string(), line);
    }
}

#[test]
fn a_file_that_others_may_write_is_not_believed() {
    use std::os::unix::fs::PermissionsExt;
    const FILES: [&str; 2] = ["/usr/lib/zmeld.toml", "/usr/lib/zmeld.toml.d/1.toml"];
    let root = root(&[
        (FILES[0], ZRAM),
        (FILES[1], ZRAM),
        (
            "/usr/local/lib/zmeld.toml",
            "[tier.local]\nkind = \"zram\"\n",
        ),
        ("/home/it/z.toml", ZRAM),
    ]);
    let set = |path: &str, mode| {
        let path = root.path().join(&path[1..]);
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    // A group may write that folder on some machines, and then nothing is read there.
    let names_local = || {
        let loaded = Config::load(root.path()).unwrap();
        loaded.config.tier("local").is_some()
    };
    assert!(names_local());
    set("/usr/local/lib", 0o2775);
    assert!(!names_local());
    let refuses = |path: &str, mode: u32, file: &str| {
        set(path, mode);
        let said = Config::load(root.path()).unwrap_err().to_string();
        assert_eq!(
            said,
            format!(
                "cannot believe {file}: {path}: others may write it (mode {mode:04o}); root does \
                 what it says, so nobody else may write it (chmod, chown)"
            )
        );
        set(path, 0o755);
    };
    refuses(FILES[0], 0o646, FILES[0]);
    refuses(FILES[1], 0o646, FILES[1]);
    refuses("/usr/lib/zmeld.toml.d", 0o757, FILES[1]);
    refuses("/usr", 0o757, FILES[0]);
    // There nobody else can rename what is root's.
    set("/usr", 0o1777);
    Config::load(root.path()).unwrap();
    // Where a link leads is looked at.
    let link = root.path().join("usr/lib/zmeld.toml");
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("/home/it/z.toml", &link).unwrap();
    Config::load(root.path()).unwrap();
    refuses("/home/it", 0o757, FILES[0]);
    // What hides others is no file of anybody's.
    let hidden = root.path().join("usr/lib/zmeld.toml.d/1.toml");
    fs::remove_file(&hidden).unwrap();
    std::os::unix::fs::symlink("/dev/null", &hidden).unwrap();
    Config::load(root.path()).unwrap();
    if rustix::process::geteuid().is_root() {
        let file = root.path().join("home/it/z.toml");
        std::os::unix::fs::chown(file, Some(65534), None).unwrap();
        let said = Config::load(root.path()).unwrap_err().to_string();
        assert!(said.contains("another user (uid 65534)"), "{said}");
    }
}

#[test]
fn files_that_are_no_text_are_refused_and_not_waited_for() {
    let root = root(&[("/etc/other", "")]);
    let at = root.path().join("etc/zmeld.toml");
    fs::write(&at, b"[tier.a]\n  \xff").unwrap();
    let said = || Config::load(root.path()).unwrap_err().to_string();
    assert_eq!(
        said(),
        "/etc/zmeld.toml:2:3: this is no UTF-8 text; save the file as UTF-8"
    );
    fs::write(&at, vec![b'#'; (1 << 20) + 1]).unwrap();
    assert_eq!(
        said(),
        "cannot read /etc/zmeld.toml: it is longer than 1 MiB"
    );
    fs::remove_file(&at).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &at, rustix::fs::Mode::RUSR).unwrap();
    assert_eq!(said(), "cannot read /etc/zmeld.toml: it is not a file");
    // Nesting that would exhaust the stack.
    fs::remove_file(&at).unwrap();
    fs::write(&at, format!("a = {}", "[".repeat(500_000))).unwrap();
    assert!(said().starts_with("/etc/zmeld.toml:1:"), "{}", said());
    // A quoted key cannot break a line.
    fs::write(&at, "\"a\\nb\" = 1\n").unwrap();
    assert!(!said().contains('\n'), "{}", said());
}

#[test]
fn the_key_tables_are_those_of_the_keys() {
    let text = include_str!("../../../docs/configuration.md");
    let mut lines = text.lines();
    let mut rows = Vec::new();
    while lines.any(|line| line == "| key | takes | default | what it does |") {
        rows.extend(
            lines
                .by_ref()
                .skip(1)
                .take_while(|line| line.starts_with('|')),
        );
    }
    let is_of = |row: &str, key: &keys::Key| {
        row.starts_with(&format!("| `{}` | {} | ", key.name, key.takes))
            && row.contains(&*key.default)
    };
    for key in keys::KEYS.iter() {
        let has_row = rows.iter().any(|row| is_of(row, key));
        assert!(has_row, "docs/configuration.md has no row for {key:?}");
    }
    for row in rows {
        let is_key = keys::KEYS.iter().any(|key| is_of(row, key));
        assert!(is_key, "docs/configuration.md has a row for no key: {row}");
    }
}

#[test]
fn the_sample_is_a_configuration_without_a_trap() {
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

/// Two devices of half of RAM each fill it as one of that size does.
#[test]
fn sizes_without_a_limit_are_summed() {
    let tiers = |sizes: [&str; 2]| {
        let tier = |(name, size): (&str, &str)| {
            format!("[tier.{name}]\nkind = \"zram\"\nsize = \"{size}\"\n")
        };
        said(&(tier(("a", sizes[0])) + &tier(("b", sizes[1]))))
    };
    let [line] = &tiers(["50%", "50%"])[..] else {
        panic!("{:?}", tiers(["50%", "50%"]));
    };
    let what = "tier.b.size: tier.a and tier.b take pages as large as RAM and more together (100%)";
    assert!(line.contains(what), "{line}");
    assert_eq!(tiers(["50%", "40%"]), Vec::<String>::new());
    let limited = "50%\"\nmemory_limit = \"20%";
    assert_eq!(tiers(["50%", limited]), Vec::<String>::new());
}

/// A list of codecs, and what is wrong in one.
#[test]
fn a_codec_may_be_a_list() {
    let of = |codec: &str| format!("[tier.a]\nkind = \"zram\"\ncodec = {codec}\n");
    let config = read(&of(r#"["zstd:3", "lz4"]"#));
    assert_eq!(read(&config.to_toml(&Comments::default())), config);
    assert!(config
        .to_toml(&Comments::default())
        .contains(r#"codec = ["zstd:3", "lz4"]"#));
    for (codec, why) in [
        (r#"["zstd", "lz"]"#, "tier.a.codec[1]: \"lz\" is no codec"),
        (
            r#"["zstd", "zstd:3"]"#,
            "tier.a.codec[1]: zstd is listed twice; the second is never used, remove it",
        ),
    ] {
        let said = said(&of(codec));
        assert!(said.len() == 1 && said[0].contains(why), "{said:?}");
    }
}
