//! Paths as the kernel's tables have them: white space and backslashes stand as
//! three octal digits behind a backslash, `\040`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// The bytes that were escaped: `value` tells what three bytes behind a backslash stand for. Text
/// without an escape stays as it is.
pub fn unescape_bytes(text: &[u8], value: impl Fn(&[u8]) -> Option<u8>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        match after.get(..3).filter(|_| byte == b'\\').and_then(&value) {
            Some(value) => {
                bytes.push(value);
                rest = &after[3..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    bytes
}

/// The name that was escaped, which need not be UTF-8.
pub fn unescape_name(text: &[u8]) -> OsString {
    OsString::from_vec(unescape_bytes(text, value))
}

/// The text that was escaped; what is not UTF-8 in it is replaced.
pub fn unescape(text: &str) -> String {
    String::from_utf8_lossy(&unescape_bytes(text.as_bytes(), value)).into_owned()
}

/// Three octal digits that make a byte.
fn value(digits: &[u8]) -> Option<u8> {
    digits.iter().try_fold(0u8, |sum, digit| match digit {
        b'0'..=b'7' => sum.checked_mul(8)?.checked_add(digit - b'0'),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_become_what_they_stand_for() {
        assert_eq!(unescape("/a\\040b\\011c\\012d\\134e"), "/a b\tc\nd\\e");
        // Once: what an escaped backslash makes is no escape.
        assert_eq!(unescape("\\134040"), "\\040");
        assert_eq!(unescape_bytes(b"\\377", value), [0xff]);
    }

    #[test]
    fn what_is_no_escape_stays() {
        for text in [
            "", "\\", "\\0", "\\04", "\\08x", "\\400", "\\+12", "é\\", "\\é0",
        ] {
            assert_eq!(unescape(text), text);
        }
    }
}
