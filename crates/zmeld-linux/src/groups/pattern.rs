//! Which control groups are meant, by name or by path.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::text_form;

/// Which control groups: a name as `postgresql.service`, wherever it stands, or a path
/// as `/user.slice/user-*.slice` from the root on. `*` is any part of one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct GroupPattern(String);

impl GroupPattern {
    /// Whether the group of that path, from the root of its hierarchy on, is meant:
    /// `/system.slice/ssh.service`.
    pub fn matches(&self, path: &str) -> bool {
        let mut names = parts(path);
        if !self.is_path() {
            return names.last().is_some_and(|name| is_like(&self.0, name));
        }
        let is_each_like =
            parts(&self.0).all(|wanted| names.next().is_some_and(|name| is_like(wanted, name)));
        is_each_like && names.next().is_none()
    }

    /// Whether it is a path from the root on, and no name that may stand anywhere.
    pub fn is_path(&self) -> bool {
        self.0.starts_with('/')
    }

    /// The form of the names in the group of that path that are meant, or lead to what is.
    pub(super) fn leads_below(&self, path: &str) -> Option<&str> {
        let mut forms = parts(&self.0);
        if self.is_path() {
            for name in parts(path) {
                forms.next().filter(|form| is_like(form, name))?;
            }
        }
        forms.next()
    }
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty())
}

/// Whether a name is of that form, in which `*` stands for any characters.
pub(super) fn is_like(form: &str, name: &str) -> bool {
    let Some((begin, rest)) = form.split_once('*') else {
        return form == name;
    };
    let Some(mut name) = name.strip_prefix(begin) else {
        return false;
    };
    let mut pieces: Vec<&str> = rest.split('*').collect();
    let end = pieces.pop().unwrap_or_default();
    for piece in pieces {
        // The first place that fits leaves most to those behind it.
        let Some(at) = name.find(piece) else {
            return false;
        };
        name = &name[at + piece.len()..];
    }
    name.len() >= end.len() && name.ends_with(end)
}

impl FromStr for GroupPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_name = !text.contains('/');
        let is_path = text.starts_with('/') && !text.split('/').any(|part| part == "..");
        if text.is_empty() || text.contains(char::is_control) || !(is_name || is_path) {
            return Err(format!(
                "{text:?} names no control group; write its name, \"ssh.service\", or its path \
                 from the root on, \"/system.slice/ssh.service\"; * is any part of a name"
            ));
        }
        // The kernel allows commas in names; one with a space behind it is a list.
        if text.contains(", ") {
            let names = text.split(',').map(|name| format!("{:?}", name.trim()));
            let names: Vec<String> = names.collect();
            return Err(format!(
                "{text:?} is one name; several are a list: [{}]",
                names.join(", ")
            ));
        }
        Ok(GroupPattern(text.to_owned()))
    }
}

impl fmt::Display for GroupPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

text_form!(GroupPattern: str::parse);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_meant_wherever_it_stands_and_a_path_from_the_root_on() {
        let matches = |pattern: &str, path: &str| {
            let pattern: GroupPattern = pattern.parse().unwrap();
            pattern.matches(path)
        };
        for (pattern, path) in [
            ("ssh.service", "/system.slice/ssh.service"),
            ("pipewire*", "/user.slice/pipewire-pulse.service"),
            ("*", "/a"),
            ("user@*.service", "/user.slice/user@1000.service"),
            ("a*b*c", "/axbybzc"),
            ("a*a", "/aa"),
            ("/", "/"),
            ("/a/*", "/a/b"),
            ("/a/", "/a"),
        ] {
            assert!(matches(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("ssh.service", "/system.slice/ssh.service/below"),
            ("ssh", "/ssh.service"),
            ("a*a", "/a"),
            ("a*b*c", "/acb"),
            ("/a/*", "/a"),
            ("/a/*", "/a/b/c"),
            ("/", "/a"),
            ("*", "/"),
        ] {
            assert!(!matches(pattern, path), "{pattern} {path}");
        }
    }

    #[test]
    fn what_names_no_group_is_refused() {
        for text in ["", "system.slice/ssh.service", "/a/../b", "a\nb"] {
            assert!(text.parse::<GroupPattern>().is_err(), "{text:?}");
        }
    }
}
