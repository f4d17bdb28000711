//! What an experiment makes is called after its process, so that what one that
//! was killed left behind can be told from what is in use.

use std::ffi::OsStr;
use std::path::Path;

/// How all of it begins; the process's number follows.
pub const PREFIX: &str = "zmeld-lab-";

/// The name of something of this experiment's.
pub(crate) fn own(what: &str) -> String {
    format!("{PREFIX}{}{what}", std::process::id())
}

/// Whether something of this name was made by an experiment that is gone.
pub(crate) fn is_left_behind(name: &OsStr) -> bool {
    let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else {
        return false;
    };
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let maker = rest[..end].parse::<u32>();
    maker.is_ok_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_use_is_told_from_what_was_left() {
        let is_left = |name: &str| is_left_behind(OsStr::new(name));
        assert!(!is_left(&own("-run")) && !is_left(&own("")) && !is_left(&own(".disk")));
        // Above the largest number that the kernel gives.
        assert!(is_left("zmeld-lab-4194999-run") && is_left("zmeld-lab-4194999"));
        assert!(!is_left("zmeld-lab-") && !is_left("zmeld-lab-x") && !is_left("other-4194999"));
    }
}
