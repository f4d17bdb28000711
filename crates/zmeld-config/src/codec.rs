//! Codecs and their parameters, as zram's `comp_algorithm` and
//! `algorithm_params` take them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Serialize;

use crate::choices::choices;

/// The codecs of zram and zmeld, a row each.
const ROWS: &str = include_str!("../../../store/include/zmeld/codecs.h");

/// A codec that may be named: a kernel may have been built without it.
struct Known {
    name: &'static str,
    /// The levels that make sense, none where it has no levels.
    levels: Option<(i32, i32)>,
    takes_dictionary: bool,
}

fn known() -> impl Iterator<Item = Known> {
    let of_row = |line: &'static str| {
        let row = line.trim_start().strip_prefix("ROW(")?;
        let fields: Vec<&str> = row.split(',').map(str::trim).collect();
        let (least, most) = (fields[2].parse().ok()?, fields[3].parse().ok()?);
        Some(Known {
            name: fields[1].trim_matches('"'),
            levels: (least != most).then_some((least, most)),
            takes_dictionary: fields[4] == "1",
        })
    };
    let of_zram_alone = Known {
        name: "842",
        levels: None,
        takes_dictionary: false,
    };
    ROWS.lines().filter_map(of_row).chain([of_zram_alone])
}

/// A codec with its parameters. Its text is `zstd`, `zstd:3` or
/// `zstd:3,dict=/etc/zmeld/pages.dict`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, schemars::JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Codec {
    /// Its name.
    pub name: String,
    /// Its level; the kernel's default without.
    pub level: Option<i32>,
    /// A dictionary, read by the kernel when the device is set up.
    pub dict: Option<PathBuf>,
}

impl Codec {
    /// A codec with the kernel's default parameters.
    pub fn new(name: &str) -> Self {
        Codec {
            name: name.to_owned(),
            level: None,
            dict: None,
        }
    }

    /// The codec that zram-generator's `NAME(level=3,dict=/d)` names; `left` hears of what of it
    /// is not taken.
    pub fn of_zram_generator(
        name: &str,
        parameters: &str,
        left: &mut dyn FnMut(String),
    ) -> Option<Codec> {
        let codec: Result<Codec, String> = name.parse();
        let mut codec = codec.map_err(&mut *left).ok()?;
        let parameters = parameters.split(',').map(str::trim);
        for parameter in parameters.filter(|it| !it.is_empty()) {
            let text = match parameter.split_once('=') {
                Some(("level", level)) => format!("{name}:{level}"),
                Some(("dict", path)) => format!("{name}:dict={path}"),
                Some(("type" | "threshold" | "max_pages", _)) => {
                    left(format!(
                        "{parameter:?} is left out: a rule for pages, not a parameter of {name}, \
                         stands in parentheses of its own"
                    ));
                    continue;
                }
                _ => {
                    left(format!("parameter {parameter:?} of {name} is left out"));
                    continue;
                }
            };
            match text.parse::<Codec>() {
                Ok(with) => {
                    codec.level = with.level.or(codec.level);
                    codec.dict = with.dict.or(codec.dict);
                }
                Err(why) => left(why),
            }
        }
        Some(codec)
    }

    /// Its parameters as `algorithm_params` takes them, for the codec of that
    /// priority; nothing where there are none.
    pub fn parameters(&self, priority: u8) -> Option<String> {
        let mut text = format!("priority={priority}");
        if let Some(level) = self.level {
            text.push_str(&format!(" level={level}"));
        }
        if let Some(dict) = &self.dict {
            text.push_str(&format!(" dict={}", dict.display()));
        }
        (self.level.is_some() || self.dict.is_some()).then_some(text)
    }
}

impl FromStr for Codec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, parameters) = match text.split_once(':') {
            Some((name, parameters)) => (name, Some(parameters)),
            None => (text, None),
        };
        let Some(found) = known().find(|codec| codec.name == name) else {
            if let Some(meant) = respelt(text) {
                return Err(format!("{text:?} is no codec; did you mean {meant:?}?"));
            }
            let names: Vec<_> = known().map(|codec| codec.name).collect();
            return Err(format!("{name:?} is no codec; {}", choices(name, &names)));
        };
        let mut codec = Codec::new(name);
        // A path may hold commas: the dictionary comes last.
        let (level, dict) = match parameters {
            None => (None, None),
            Some(all) => match (all.strip_prefix("dict="), all.split_once(",dict=")) {
                (Some(path), _) => (None, Some(path)),
                (None, Some((level, path))) => (Some(level), Some(path)),
                (None, None) => (Some(all), None),
            },
        };
        if let Some(level) = level {
            let level = level.strip_prefix("level=").unwrap_or(level);
            codec.level = Some(self::level(name, found.levels, level)?);
        }
        if let Some(path) = dict {
            if !found.takes_dictionary {
                let others = known().filter(|codec| codec.takes_dictionary);
                let others: Vec<_> = others.map(|codec| codec.name).collect();
                return Err(format!(
                    "{name} takes no dictionary: {} do",
                    others.join(", ")
                ));
            }
            codec.dict = Some(dictionary(path)?);
        }
        Ok(codec)
    }
}

/// A codec with its parameters, where they are spelt as elsewhere: `zstd9`, `zstd(level=9)`.
pub(super) fn respelt(text: &str) -> Option<String> {
    if let Some((name, parameters)) = text.strip_suffix(')').and_then(|it| it.split_once('(')) {
        let mut left = Vec::new();
        let codec = Codec::of_zram_generator(name, parameters, &mut |why| left.push(why));
        return codec.filter(|_| left.is_empty()).map(|it| it.to_string());
    }
    if text.contains(':') {
        return None;
    }
    let name = text.trim_end_matches(|c: char| c.is_ascii_digit());
    let level = &text[name.len()..];
    let (name, between) = name.split_at(name.trim_end_matches(['-', '_', '=', ' ']).len());
    // Between a name and a level of its own sign stands something else.
    let sign = match between.len() > 1 && between.ends_with('-') {
        true => "-",
        false => "",
    };
    let found = format!("{name}:{sign}{level}");
    found.parse::<Codec>().is_ok().then_some(found)
}

fn level(name: &str, levels: Option<(i32, i32)>, text: &str) -> Result<i32, String> {
    let Some((lowest, highest)) = levels else {
        return Err(format!("{name} has no levels; write just {name:?}"));
    };
    text.parse()
        .ok()
        .filter(|level| (lowest..=highest).contains(level))
        .ok_or_else(|| format!("{text:?} is no level of {name}; it takes {lowest} to {highest}"))
}

fn dictionary(path: &str) -> Result<PathBuf, String> {
    // The kernel reads it, and splits its parameters at white space.
    if !path.starts_with('/') || path.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(format!(
            "{path:?} cannot name a dictionary; give an absolute path without spaces"
        ));
    }
    Ok(PathBuf::from(path))
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        let mut separator = ':';
        if let Some(level) = self.level {
            write!(f, "{separator}{level}")?;
            separator = ',';
        }
        if let Some(dict) = &self.dict {
            write!(f, "{separator}dict={}", dict.display())?;
        }
        Ok(())
    }
}

zmeld_linux::text_form!(Codec: str::parse);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back() {
        for text in ["lz4", "zstd:3", "zstd:-7,dict=/etc/a,b", "lz4:dict=/d"] {
            assert_eq!(text.parse::<Codec>().unwrap().to_string(), text);
        }
    }
}
