//! Names of an experiment's folders and groups. They hold its process's number, which is given
//! again, and the time at which the process began, which is not: what a killed experiment left can
//! be told from what is in use.

use std::ffi::OsStr;

use zmeld_linux::process::began_of;

/// How all of it begins; the process's number follows.
pub const PREFIX: &str = "zmeld-lab-";

/// The name of something of this experiment's: `zmeld-lab-NUMBER-BEGAN` and what it is.
pub(crate) fn own(what: &str) -> String {
    let pid = std::process::id();
    match began_of(pid) {
        Some(began) => format!("{PREFIX}{pid}-{began}{what}"),
        None => format!("{PREFIX}{pid}{what}"),
    }
}

/// Whether something of this name was made by an experiment that is gone.
pub(crate) fn is_left_behind(name: &OsStr) -> bool {
    let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else {
        return false;
    };
    let (maker, rest) = digits(rest);
    let Ok(maker) = maker.parse() else {
        return false;
    };
    let told = digits(rest.trim_start_matches('-')).0;
    began_of(maker).is_none_or(|began| began.to_string() != told)
}

fn digits(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_use_is_told_from_what_was_left() {
        let is_left = |name: &str| is_left_behind(OsStr::new(name));
        assert!(!is_left(&own("-run")) && !is_left(&own("")) && !is_left(&own("-x.disk")));
        // Above the largest number that the kernel gives.
        assert!(is_left("zmeld-lab-4194999-run") && is_left("zmeld-lab-4194999"));
        assert!(!is_left("zmeld-lab-") && !is_left("zmeld-lab-x") && !is_left("other-4194999"));
    }

    #[test]
    fn a_number_that_was_given_again_brings_nothing_back_to_life() {
        let pid = std::process::id();
        let earlier = began_of(pid).unwrap() - 1;
        let name = format!("{PREFIX}{pid}-{earlier}-run");
        assert!(is_left_behind(OsStr::new(&name)), "{name}");
    }
}
