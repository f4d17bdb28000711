//! Debian's zram-tools: variables of a shell in `/etc/default/zramswap`.

use std::path::Path;

use zmeld_linux::shell;

use super::{lines, Imported, Line, Tool};
use zmeld_config::{Bytes, Codec, Percent, RamDevice, Size, Swap};
use zmeld_linux::HostError;

const FILE: &str = "/etc/default/zramswap";

/// Reads the file and adds its device, if it is there.
pub(super) fn import(root: &Path, into: &mut Imported) -> Result<(), HostError> {
    let Some(lines) = lines(root, Path::new(FILE))? else {
        return Ok(());
    };
    into.found(Tool::ZramTools, Path::new(FILE));
    // What zramswap takes where the file says nothing.
    let mut size = Size::Bytes(Bytes(256 << 20));
    let mut size_comment = "zram-tools' default".to_owned();
    let mut percent = false;
    let mut codec = Codec::new("lz4");
    let mut codec_comment = size_comment.clone();
    let mut priority = 100;
    let mut priority_comment = size_comment.clone();
    for line in &lines {
        let Some((name, value)) = variable(line) else {
            into.left(line, "it is more than VARIABLE=VALUE");
            continue;
        };
        match name.as_str() {
            "ALGO" => match value.parse::<Codec>() {
                Ok(named) => {
                    codec = named;
                    codec_comment = line.to_string();
                }
                Err(why) => into.left(line, &why),
            },
            // PERCENTAGE and ALLOCATION are names of older versions.
            "PERCENT" | "PERCENTAGE" => match format!("{value}%").parse::<Percent>() {
                Ok(share) if share > Percent::whole(0) => {
                    size = Size::Ram {
                        percent: share,
                        at_most: None,
                    };
                    size_comment = line.to_string();
                    percent = true;
                }
                _ => into.left(line, "it is no percentage"),
            },
            "SIZE" | "ALLOCATION" if percent => {
                into.left(line, "a percentage is given, which zram-tools prefers");
            }
            "SIZE" | "ALLOCATION" => match value.parse::<u32>() {
                Ok(mebibytes @ 1..) => {
                    size = Size::Bytes(Bytes(u64::from(mebibytes) << 20));
                    size_comment = line.to_string();
                }
                _ => into.left(line, "it is no number of MiB"),
            },
            "PRIORITY" => match value.parse::<i16>() {
                Ok(number @ -1..) => {
                    priority = number;
                    priority_comment = line.to_string();
                }
                _ => into.left(line, "a priority is a number from -1 to 32767"),
            },
            "CORES" => into.left(line, "one device serves all processors"),
            _ => into.left(line, "this variable is not known"),
        }
    }
    let device = RamDevice {
        size,
        codec: vec![codec],
        swap: Swap {
            priority: Some(priority),
            ..Swap::default()
        },
        ..RamDevice::default()
    };
    let tier = into.add("zram", false, device, FILE.to_owned());
    into.comment(&tier, "size", size_comment);
    into.comment(&tier, "codec", codec_comment);
    into.comment(&tier, "priority", priority_comment);
    Ok(())
}

/// `NAME=VALUE`, quoted or not, with a comment after it or not.
fn variable(line: &Line) -> Option<(String, String)> {
    let words = shell::words(&line.text)?;
    let words = words.strip_prefix(&["export".to_owned()]).unwrap_or(&words);
    let [word] = words else {
        return None;
    };
    let (name, value) = word.split_once('=')?;
    // What a shell would put in is not known here.
    let is_plain =
        |text: &str| !text.contains(|c: char| c.is_whitespace() || "$`\\;&|\"'".contains(c));
    (is_plain(name) && is_plain(value)).then(|| (name.to_owned(), value.to_owned()))
}
