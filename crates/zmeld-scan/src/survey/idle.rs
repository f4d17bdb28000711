//! How old pages are, where the kernel's multi-generational LRU says it in debugfs.

use std::collections::HashMap;

use zmeld_linux::lru_gen::{self, Node};
use zmeld_linux::Host;

use crate::survey::description::of_host;

/// Milliseconds of `idle_1m`, `idle_10m`, `idle_1h`.
const AGES_MS: [u64; 3] = [60_000, 600_000, 3_600_000];

/// Pages that were not used for a minute, ten, an hour.
pub(crate) type IdlePages = [u64; AGES_MS.len()];

/// Idle pages of each control group that the kernel knows by path.
pub(crate) struct Ages(Option<HashMap<String, IdlePages>>);

impl Ages {
    /// As the kernel says it now.
    pub fn of(host: &Host) -> Ages {
        Ages(of_host(host, lru_gen::PATH).map(|text| parse(&text)))
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

/// For groups of one path, the sum of what they have.
fn parse(text: &str) -> HashMap<String, IdlePages> {
    let mut groups: HashMap<String, IdlePages> = HashMap::new();
    for group in lru_gen::parse(text.as_bytes(), |_| true) {
        let path = group.path.to_string_lossy().into_owned();
        let idle = groups.entry(path).or_default();
        for (generation, idle_ms) in group.nodes.iter().flat_map(Node::idle) {
            for (sum, least) in idle.iter_mut().zip(AGES_MS) {
                *sum += match idle_ms >= least {
                    true => generation.anonymous_pages,
                    false => 0,
                };
            }
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
