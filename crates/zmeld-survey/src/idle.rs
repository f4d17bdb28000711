//! How old pages are, where the kernel's multi-generational LRU says it in debugfs.

use std::collections::HashMap;

use zmeld_linux::Host;

use crate::machine::of_host;

/// Where it says it.
const PATH: &str = "/sys/kernel/debug/lru_gen";

/// Milliseconds of `idle_1m`, `idle_10m`, `idle_1h`.
const AGES_MS: [u64; 3] = [60_000, 600_000, 3_600_000];

/// Pages that were not used for a minute, ten, an hour.
pub(crate) type IdlePages = [u64; AGES_MS.len()];

/// Idle pages of each control group that the kernel knows by path.
pub(crate) struct Ages(Option<HashMap<String, IdlePages>>);

impl Ages {
    /// As the kernel says it now.
    pub fn of(host: &Host) -> Ages {
        Ages(of_host(host, PATH).map(|text| parse(&text)))
    }

    /// Of all those groups; none where the kernel does not say it of one of them.
    pub fn of_groups<'a>(&self, groups: impl Iterator<Item = &'a str>) -> Option<IdlePages> {
        let known = self.0.as_ref()?;
        let mut sum = IdlePages::default();
        for group in groups {
            let found = known.get(group)?;
            for (sum, pages) in sum.iter_mut().zip(found) {
                *sum += pages;
            }
        }
        Some(sum)
    }
}

/// ```text
/// memcg     5 /system.slice/web.service
///  node     0
///         12     600123      1200        40
/// ```
///
/// A line is a generation: its number, milliseconds since it began, pages of anonymous
/// and shared memory, pages of files. A page in it was used before the next one began,
/// and not since: that is how long it is idle at least.
fn parse(text: &str) -> HashMap<String, IdlePages> {
    let mut groups: HashMap<String, IdlePages> = HashMap::new();
    let mut group = None;
    let mut waiting: Option<u64> = None;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["memcg", _, ref path @ ..] => {
                // A path may hold blanks; the root's is empty, or a slash.
                let path = path.join(" ");
                let path = if path.is_empty() { "/" } else { &path };
                group = Some(path.to_owned());
                waiting = None;
            }
            ["node", _] => waiting = None,
            [number, age, anonymous, _] if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                let (Some(group), Ok(age)) = (&group, age.parse::<u64>()) else {
                    continue;
                };
                let idle = groups.entry(group.clone()).or_default();
                if let Some(pages) = waiting {
                    for (sum, least) in idle.iter_mut().zip(AGES_MS) {
                        *sum += if age >= least { pages } else { 0 };
                    }
                }
                waiting = anonymous.parse().ok();
            }
            _ => {}
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
memcg     1 /
 node     0
          0   90000000         10          0\x20
          1   80000000        500          7
          2         10          3          0
memcg    22 /system.slice/web.service
 node     0
         10    7200000       1000        40
         11    3600000        300         1
         12      90000         20         0
         13      30000          1         0
 node     1
          5    1000000         50         0
          6     700000          2         0
          7          5          9         0
";

    #[test]
    fn a_page_is_idle_since_the_next_generation_began() {
        let groups = parse(TEXT);
        // 1000 until an hour ago, 300 until 90 s ago, 20 until 30 s ago; on the other
        // node 50 until 700 s ago.
        assert_eq!(groups["/system.slice/web.service"], [1350, 1050, 1000]);
        assert_eq!(groups["/"], [10, 10, 10]);
    }

    #[test]
    fn a_group_that_is_not_told_of_is_not_idle_but_unknown() {
        let ages = Ages(Some(parse(TEXT)));
        assert_eq!(ages.of_groups(["/", "/none"].into_iter()), None);
        assert!(ages.of_groups(["/"].into_iter()).is_some());
        assert_eq!(Ages(None).of_groups(["/"].into_iter()), None);
    }
}
