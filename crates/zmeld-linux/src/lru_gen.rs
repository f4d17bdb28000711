//! The generations of the kernel's multi-generational LRU (MGLRU, Linux 6.1,
//! `CONFIG_LRU_GEN`), as debugfs tells them: since when the pages of each control group
//! were not used.
//!
//! ```text
//! memcg     5 /system.slice/web.service
//!  node     0
//!          12     600123      1200        40
//! ```
//!
//! A line of four numbers is a generation: its own number, milliseconds since it began, pages of
//! anonymous and shared memory, pages of files. Pages in it that are mapped by page tables were
//! used before the next one began, and were not seen to be used since. Of the page cache that is
//! read through descriptors this says nothing: such pages begin in the oldest one.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The kernel's file that lists generations, begins them and reclaims them.
pub const PATH: &str = "/sys/kernel/debug/lru_gen";
/// Which parts of it are on, as bits of a hexadecimal number.
pub const ENABLED: &str = "/sys/kernel/mm/lru_gen/enabled";
/// The bits without which no page is found to be used when a generation begins: the lists
/// themselves, and the walk through page tables.
pub const WALKS: u64 = 0b11;
/// The youngest ones, which the kernel does not reclaim when it is told to.
pub const YOUNGEST: usize = 2;

/// A control group; the kernel may tell of several with one path, where all but one ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupGenerations {
    pub id: u64,
    /// Its path from the root of the hierarchy on, `/` for that.
    pub path: PathBuf,
    pub nodes: Vec<Node>,
}

/// A control group's memory on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub node: u32,
    /// The generations, the oldest one first.
    pub generations: Vec<Generation>,
}

/// Pages that were used last at about the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation {
    /// Larger for younger ones.
    pub number: u64,
    /// Milliseconds since it began.
    pub age_ms: u64,
    /// Pages of anonymous and shared memory.
    pub anonymous_pages: u64,
    pub file_pages: u64,
}

impl Node {
    /// Each generation with the milliseconds for which its pages were not seen to be used,
    /// without the youngest one, of which nothing is known yet.
    pub fn idle(&self) -> impl Iterator<Item = (&Generation, u64)> {
        let next = self.generations.iter().skip(1);
        self.generations.iter().zip(next.map(|next| next.age_ms))
    }
}

/// Groups of the file whose path is `wanted`; lines of another form are passed over. Byte by byte,
/// since a group's name need not be text.
pub fn parse(text: &[u8], wanted: impl Fn(&Path) -> bool) -> Vec<GroupGenerations> {
    let mut groups: Vec<GroupGenerations> = Vec::new();
    let mut is_wanted = false;
    for line in text.split(|byte| *byte == b'\n') {
        if let Some(rest) = line.strip_prefix(b"memcg ") {
            let group = group(rest).filter(|group| wanted(&group.path));
            is_wanted = group.is_some();
            groups.extend(group);
            continue;
        }
        let nodes = groups.last_mut().map(|group| &mut group.nodes);
        let (Some(nodes), Ok(line)) = (nodes.filter(|_| is_wanted), std::str::from_utf8(line))
        else {
            continue;
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["node", number] => {
                let Ok(node) = number.parse() else { continue };
                nodes.push(Node {
                    node,
                    generations: Vec::new(),
                });
            }
            [number, age, anonymous, file] => {
                let numbers = [number, age, anonymous, file].map(|word| word.parse().ok());
                let (
                    [Some(number), Some(age_ms), Some(anonymous_pages), Some(file_pages)],
                    Some(node),
                ) = (numbers, nodes.last_mut())
                else {
                    continue;
                };
                node.generations.push(Generation {
                    number,
                    age_ms,
                    anonymous_pages,
                    file_pages,
                });
            }
            _ => {}
        }
    }
    groups
}

/// The id and the path behind `memcg`; there may be blanks in the path.
fn group(text: &[u8]) -> Option<GroupGenerations> {
    let text = text.trim_ascii_start();
    let end = text.iter().position(|byte| *byte == b' ');
    let (id, path) = text.split_at(end.unwrap_or(text.len()));
    let path = match path {
        [] | [b' '] => b"/",
        [_, path @ ..] => path,
    };
    Some(GroupGenerations {
        id: std::str::from_utf8(id).ok()?.parse().ok()?,
        path: OsStr::from_bytes(path).into(),
        nodes: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
memcg     1 /
 node     0
          0   90000000         10          0\x20
          1   80000000        500          7\x20
memcg    22 /a  b.slice/web.service
 node     0
         10    7200000       1000        40
 node     1
          5    1000000         50         0
          6     700000          2         0
";

    #[test]
    fn groups_have_nodes_and_those_generations() {
        let groups = parse(TEXT.as_bytes(), |_| true);
        let shape = |group: &GroupGenerations| {
            let nodes = group.nodes.iter();
            let counts = nodes.map(|node| (node.node, node.generations.len()));
            (group.id, group.path.clone(), counts.collect::<Vec<_>>())
        };
        let shapes: Vec<_> = groups.iter().map(shape).collect();
        assert_eq!(
            shapes,
            [
                (1, "/".into(), vec![(0, 2)]),
                (22, "/a  b.slice/web.service".into(), vec![(0, 1), (1, 2)]),
            ]
        );
        let youngest = groups[1].nodes[1].generations[1];
        assert_eq!((youngest.number, youngest.age_ms), (6, 700_000));
        assert_eq!((youngest.anonymous_pages, youngest.file_pages), (2, 0));
    }

    #[test]
    fn what_is_of_another_form_is_passed_over() {
        let all = |text: &[u8]| parse(text, |_| true);
        assert_eq!(all(b"node 0\n 1 2 3 4\n"), []);
        let group = &all(b"memcg 3 /x\n node 0\n 1 2 3\n 1 2 -3 4\n a b c d\n")[0];
        assert_eq!(group.nodes[0].generations, []);
        assert_eq!(all(b"memcg x /y\n node 0\n 1 2 3 4\n"), []);
        assert_eq!(all(b"memcg     7 \n")[0].path, Path::new("/"));
        assert_eq!(all(b"memcg 8")[0].path, Path::new("/"));
        let name = all(b"memcg 9 /\xff\x01\n").remove(0).path;
        assert_eq!(name.as_os_str().as_bytes(), b"/\xff\x01");
    }
}
