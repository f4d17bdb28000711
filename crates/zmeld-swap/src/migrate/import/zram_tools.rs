//! Debian's zram-tools: variables of a shell in `/etc/default/zramswap`, which its script
//! reads with bash.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

use zmeld_linux::shell;
use zmeld_linux::tree::Tree;

use super::imported::{bytes, carriage_return, Imported, SourceLine, Tool};
use super::others::mask;
use zmeld_config::{Bytes, Codec, Kind, Number, Percent, RamDevice, Size, Swap};
use zmeld_linux::HostError;

const FILE: &str = "/etc/default/zramswap";

const BY_DEFAULT: &str = "zram-tools' default";

/// Each variable with its value and the line that sets it last; those without a value are
/// known to bash alone.
type Variables = BTreeMap<String, (Option<String>, SourceLine)>;

/// Reads the file and adds its device, if it is there.
pub(super) fn import(root: &Path, into: &mut Imported) -> Result<(), HostError> {
    let Some(text) = bytes(root, Path::new(FILE))? else {
        return Ok(());
    };
    into.found(Tool::ZramTools, Path::new(FILE));
    if let Some(file) = mask(&Tree::new(root), &["zramswap.service"]) {
        into.left(
            &SourceLine::of_tool(&file, "a mask"),
            "it keeps zram-tools from making a device",
        );
        return Ok(());
    }
    let device = variables(&String::from_utf8_lossy(&text), into)
        .and_then(|variables| device(&variables, into));
    match device {
        Ok((swap, device, comments)) => {
            let tier = into.add("zram", swap, Kind::Ram(device), FILE.to_owned());
            for (key, comment) in comments {
                into.comment(&tier, key, comment);
            }
        }
        Err((line, why)) => into.left(&line, &why),
    }
    Ok(())
}

/// The source of each key.
type Comments = [(&'static str, String); 3];

/// The line for which there is no tier, and why.
type Refused = (SourceLine, String);

fn gives_up(line: &SourceLine, why: impl Display) -> Refused {
    (line.clone(), format!("{why}, so there is no device here"))
}

/// The script may make a device nevertheless.
fn left_to_bash(line: &SourceLine, why: &str) -> Refused {
    let way_out = "what bash makes of it zmeld does not know; write that device as a tier";
    (line.clone(), format!("{why}: {way_out}"))
}

fn variables(text: &str, into: &mut Imported) -> Result<Variables, Refused> {
    let mut variables = Variables::new();
    for (number, text) in (1..).zip(text.split('\n')) {
        let text = text.trim_matches([' ', '\t']);
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let line = SourceLine {
            file: FILE.into(),
            number,
            text: text.to_owned(),
        };
        let Some((name, value)) = variable(text) else {
            return Err(left_to_bash(&line, "it is more than VARIABLE=VALUE"));
        };
        match name.as_str() {
            "ALGO" | "PERCENT" | "SIZE" | "PRIORITY" => {
                variables.insert(name, (value, line));
            }
            "PERCENTAGE" | "ALLOCATION" | "CORES" => {
                into.left(
                    &line,
                    "a name of versions before 0.3.3, which zramswap ignores",
                );
            }
            _ => into.left(&line, "this variable is not known"),
        }
    }
    Ok(variables)
}

/// `NAME=VALUE`, quoted or not, with a comment after it or not; no value where a shell would
/// put something in.
fn variable(line: &str) -> Option<(String, Option<String>)> {
    let words = shell::words(line)?;
    let words = words.strip_prefix(&["export".to_owned()]).unwrap_or(&words);
    let [word] = words else {
        return None;
    };
    let (name, value) = word.split_once('=')?;
    // A name in quotes is a command's.
    let begin = line.strip_prefix("export").unwrap_or(line).trim_start();
    let is_name = begin.starts_with(&format!("{name}="));
    let is_name = is_name && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    // These end a command outside of quotes.
    let is_one = !value.contains([';', '&', '|', '<', '>', '(', ')']) || value.starts_with("$(");
    let is_plain = |text: &&str| {
        !text.contains(|c: char| c.is_whitespace() || c.is_control() || "$`\\\"'()".contains(c))
    };
    (is_name && is_one).then(|| {
        let value = Some(value).filter(is_plain).map(str::to_owned);
        (name.to_owned(), value)
    })
}

/// The device as its script makes it, with where each key came from.
fn device(
    variables: &Variables,
    into: &mut Imported,
) -> Result<(Swap, RamDevice, Comments), Refused> {
    // Empty values count as not set.
    let get = |name: &str| match variables.get(name) {
        None => Ok(None),
        Some((Some(value), line)) => Ok(Some((value.as_str(), line)).filter(|it| !it.0.is_empty())),
        Some((None, line)) if line.text.ends_with('\r') => {
            Err(gives_up(line, carriage_return(FILE)))
        }
        Some((None, line)) => Err(left_to_bash(line, "only a shell knows its value")),
    };
    // 010 is 8 for bash.
    let number = |name: &str| {
        let Some((value, line)) = get(name)? else {
            return Ok(None);
        };
        let is_plain = value == "0" || !value.starts_with('0');
        let is_plain = is_plain && value.bytes().all(|byte| byte.is_ascii_digit());
        let number = value.parse::<u32>().ok().filter(|_| is_plain);
        match number {
            None => Err(gives_up(line, "it is no plain number")),
            Some(0) if name == "PERCENT" || get("PERCENT")?.is_none() => {
                Err(gives_up(line, "its size is 0"))
            }
            Some(number) => Ok(Some((number, line))),
        }
    };
    let comment =
        |line: Option<&SourceLine>| line.map_or(BY_DEFAULT.to_owned(), SourceLine::to_string);
    let codec = match get("ALGO")? {
        None => (Codec::new("lz4"), None),
        Some((value, line)) => match value.parse::<Codec>() {
            Ok(codec) if codec == Codec::new(value) => (codec, Some(line)),
            Ok(_) => return Err(gives_up(line, "the kernel takes the name alone")),
            Err(why) => return Err(gives_up(line, why)),
        },
    };
    let (size, percent) = (number("SIZE")?, number("PERCENT")?);
    let (size, line) = match (size, percent) {
        (size, Some((percent, line))) => {
            if let Some((_, line)) = size {
                into.left(line, "a percentage is given, which zram-tools prefers");
            }
            let share = format!("{percent}%").parse::<Percent>();
            let percent = share.map_err(|why| gives_up(line, why))?;
            let at_most = None;
            (Size::Ram { percent, at_most }, Some(line))
        }
        (Some((mebibytes, line)), None) => {
            (Size::Bytes(Bytes(u64::from(mebibytes) << 20)), Some(line))
        }
        (None, None) => (Size::Bytes(Bytes(256 << 20)), None),
    };
    let (priority, by) = match get("PRIORITY")? {
        None => (100, None),
        Some((value, line)) => match value.parse::<i16>() {
            Ok(priority @ -1..) => (priority, Some(line)),
            Ok(_) => {
                into.left(line, "the kernel chooses, below all that are given");
                (-1, Some(line))
            }
            Err(_) => {
                let what = "a priority is a number from -1 to 32767";
                return Err(gives_up(line, what));
            }
        },
    };
    let device = RamDevice {
        size,
        codec: vec![codec.0],
        ..RamDevice::default()
    };
    let comments = [
        ("size", comment(line)),
        ("codec", comment(codec.1)),
        ("priority", comment(by)),
    ];
    let swap = Swap {
        priority: Some(Number(priority)),
        ..Swap::default()
    };
    Ok((swap, device, comments))
}
