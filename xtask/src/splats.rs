//! Complaints that fail a test if a kernel's messages have them.

use std::collections::BTreeSet;

/// Words that begin a complaint of the kernel about itself.
#[rustfmt::skip]
const COMPLAINTS: &[&str] = &[
    "BUG:", "WARNING:", "KASAN:", "UBSAN:", "ODEBUG:", "Oops", "Kernel panic", "kernel BUG at",
    "general protection fault", "possible circular locking", "possible recursive locking",
    "possible irq lock inversion", "inconsistent lock state", "inconsistent {",
    "bad unlock balance", "held lock freed", "lock held when returning to user space",
    "suspicious RCU usage", "trying to register non-static key", "DEBUG_LOCKS_WARN_ON",
    "blocked for more than", "self-detected stall", "detected stalls", "soft lockup",
    "hard LOCKUP", "refcount_t:", "list_add corruption", "list_del corruption",
    "unreferenced object", "Bad page state", "Bad rss-counter", "Objects remaining in",
    "scheduling while atomic", "sleeping function called", "stack-protector", "Internal error",
    "unable to handle", "Segfault with no mm", "Kernel mode fault",
];

/// Words of a kernel that has no page to give; they are no complaint where a test wants that.
const SHORT_OF_MEMORY: &[&str] = &[
    "invoked oom-killer",
    "Out of memory",
    "Write-error on swap-device",
    "page allocation failure",
    "Free swap",
];

/// Lines about a kernel that was short of memory.
pub fn short_of_memory(messages: &str) -> Vec<&str> {
    let is_about = |line: &&str| SHORT_OF_MEMORY.iter().any(|word| line.contains(word));
    messages.lines().filter(is_about).take(20).collect()
}

pub fn found(messages: &str) -> Vec<String> {
    let mut lines: Vec<String> = messages
        .lines()
        .filter(|line| COMPLAINTS.iter().any(|word| line.contains(word)))
        .filter(|line| !is_race_of_others(line))
        .map(|line| without_time(line).trim_end().to_owned())
        .collect();
    lines.dedup();
    lines
}

/// A data race between two places of the kernel, of which it has its own: what is ours
/// names our module at one of them.
fn is_race_of_others(line: &str) -> bool {
    line.contains("BUG: KCSAN:") && !line.contains("[zmeld]")
}

/// Those that a boot without the module does not show.
pub fn new_ones(found: Vec<String>, boot_alone: &str) -> Vec<String> {
    let known: BTreeSet<String> = self::found(boot_alone)
        .iter()
        .map(|line| shape(line))
        .collect();
    found
        .into_iter()
        .filter(|line| !known.contains(&shape(line)))
        .collect()
}

/// `[    1.234567] text` without its time.
fn without_time(line: &str) -> &str {
    match line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "))
    {
        Some((time, text)) if time.trim().parse::<f64>().is_ok() => text,
        _ => line,
    }
}

/// Shape of a line from boot to boot: numbers differ.
fn shape(line: &str) -> String {
    let mut shape = String::new();
    for word in line.split_whitespace() {
        let is_number = word
            .trim_matches(|c: char| !c.is_ascii_alphanumeric())
            .chars()
            .all(|c| c.is_ascii_hexdigit() || c == 'x');
        shape += if is_number { "#" } else { word };
        shape.push(' ');
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_found_and_the_kernels_own_left_out() {
        let alone = "[    0.100000] Booting\n[    1.0] WARNING: suspicious RCU usage 17 at cpu 0\n";
        let with = "[    0.200000] Booting\n[    2.0] WARNING: suspicious RCU usage 23 at cpu 1\n\
                    [    3.5] BUG: KASAN: slab-use-after-free in zm_slot_read+0x1\n\
                    [    4.0] zmeld: all is well\n";
        let found = found(with);
        assert_eq!(found.len(), 2);
        assert_eq!(
            new_ones(found, alone),
            ["BUG: KASAN: slab-use-after-free in zm_slot_read+0x1"]
        );
    }

    #[test]
    fn a_race_is_ours_where_it_names_the_module() {
        let ours = "BUG: KCSAN: data-race in zm_page_read [zmeld] / zs_malloc";
        assert_eq!(found(ours).len(), 1);
        assert!(found("BUG: KCSAN: data-race in tick_sched / tick_do").is_empty());
    }
}
