//! Which name was meant.

/// More names than these are not listed.
const LISTED_MAX: usize = 12;

/// The name most likely meant, or all names, the nearest of many: the way out where a name is
/// wrong.
pub fn choices(wrong: &str, names: &[&str]) -> String {
    if let Some(way_out) = known_elsewhere(wrong, names) {
        return way_out;
    }
    match meant(wrong, names.iter().copied()) {
        Some(name) => format!("did you mean {name:?}?"),
        None if names.len() <= LISTED_MAX => format!("there are: {}", names.join(", ")),
        None => {
            let mut nearest = names.to_vec();
            nearest.sort_by(|one, other| {
                let likeness = |name| strsim::jaro_winkler(wrong, name);
                likeness(other).total_cmp(&likeness(one))
            });
            let nearest = nearest[..3].join(", ");
            format!("the nearest of {} are: {nearest}", names.len())
        }
    }
}

/// The way out for a name of other tools, or of a machine.
pub(super) fn known_elsewhere(wrong: &str, names: &[&str]) -> Option<String> {
    let has = |name: &str| names.contains(&name);
    let (is_top, is_tier) = (has("tunables"), has("kind"));
    let did_you_mean = |name: &str| format!("did you mean {name:?}?");
    let lower = wrong.to_lowercase();
    match lower.trim_end_matches(|c: char| c.is_ascii_digit()) {
        kind @ ("zram" | "zmeld" | "zswap" | "disk") if is_top => {
            Some(format!("write [tier.NAME] and kind = \"{kind}\""))
        }
        "kind" | "size" | "memory_limit" | "codec" | "device" | "file" | "priority" if is_top => {
            Some("write [tier.NAME] above it".to_owned())
        }
        rule @ ("recompress" | "writeback" | "meld" | "reclaim" | "guard") if is_top => {
            Some(format!("write [watch.{rule}]"))
        }
        // earlyoom's, of names of processes.
        "prefer" if has("end") => {
            Some("write end, the list of owners and control groups that alone may be ended".into())
        }
        "avoid" | "ignore" if has("protect") => {
            Some("write protect, the list of owners and control groups that are never ended".into())
        }
        "vm" if is_top => Some("write [tunables] and the name without \"vm.\"".to_owned()),
        "vm" if has("swappiness") => Some("leave out \"vm.\"".to_owned()),
        "swappiness" | "page_cluster" if is_top || is_tier => {
            Some("it belongs in [tunables]".to_owned())
        }
        "size" | "memory_limit" | "mem_limit" if has("max_pool_percent") => Some(
            "write max_pool_percent, the most that the pool takes, in percent of RAM".to_owned(),
        ),
        key @ ("device" | "file") if has("max_pool_percent") => Some(format!(
            "zswap has no {key}: put it into a tier with kind = \"disk\""
        )),
        "linux" if has("no-balancing") => Some(
            "it is called no-balancing now: what Linux does is no-balancing or autonuma".to_owned(),
        ),
        "path" if has("file") => Some("write file, or device for a partition".to_owned()),
        // zswap calls a codec as the kernel does.
        "codec"
        | "compressor"
        | "comp_algorithm"
        | "algorithm"
        | "algo"
        | "compression-algorithm"
            if is_tier =>
        {
            let names = ["codec", "compressor"].into_iter();
            names.filter(|name| has(name)).map(did_you_mean).next()
        }
        "zram-size" | "zram-fraction" | "max-zram-size" | "disksize" | "percent"
            if is_tier && has("size") =>
        {
            Some("write size, with its unit: \"4096MiB\" or \"50%\"".to_owned())
        }
        "zram-resident-limit" | "mem_limit" if has("memory_limit") => {
            Some(did_you_mean("memory_limit"))
        }
        "swap-priority" | "pri" if is_tier && has("priority") => Some(did_you_mean("priority")),
        "writeback-device" | "backing_dev" if has("writeback") && is_tier => {
            Some("write [tier.NAME.writeback] and its device".to_owned())
        }
        _ => None,
    }
}

/// The name that was most likely meant.
pub(super) fn meant<'n>(wrong: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let wrong = wrong.to_lowercase();
    let likeness = names.map(|name| (strsim::jaro_winkler(&wrong, name), name));
    let near = likeness.filter(|(likeness, _)| *likeness > 0.8);
    let nearest = near.max_by(|one, other| one.0.total_cmp(&other.0));
    nearest.map(|(_, name)| name)
}
