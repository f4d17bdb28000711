//! Fields of `/proc/PID/stat` and `/proc/PID/status`.

use rustix::io::Errno;

use crate::HostError;

/// The fields of `stat` from the third on, the state; none where it is none. The
/// second, the program's name, may have anything in it, blanks and parentheses too.
pub fn fields(stat: &str) -> Option<Vec<&str>> {
    let (_, rest) = stat.rsplit_once(") ")?;
    Some(rest.split_whitespace().collect())
}

/// When a process that lives began, in ticks after the boot: field 22. None for one
/// that has ended and is only not waited for yet.
pub fn began(stat: &str) -> Option<u64> {
    let fields = fields(stat)?;
    match fields.first()? {
        &"Z" | &"X" => None,
        _ => fields.get(19)?.parse().ok(),
    }
}

/// [`began`] of the process with that number.
pub fn began_of(pid: u32) -> Option<u64> {
    began(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// How long it has computed, in seconds: fields 14 and 15, in ticks that are hundredths
/// of a second on every architecture that Linux shows to user space.
pub fn processor_seconds(stat: &str) -> Option<f64> {
    let fields = fields(stat)?;
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / 100.0)
}

/// Value of a name in `status`, without blanks around it.
pub fn status<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines();
    lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
}

/// The real user in `status`.
pub fn user(text: &str) -> Option<u32> {
    status(text, "Uid")?.split_whitespace().next()?.parse().ok()
}

/// The result of a read, none where the process has ended.
///
/// # Errors
/// Other errors of the read.
pub fn unless_gone<T>(read: Result<T, HostError>) -> Result<Option<T>, HostError> {
    match read {
        Err(err) if err.is_absent() || err.is(Errno::SRCH) => Ok(None),
        read => read.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_the_fields_behind_it() {
        let stat = |state: &str| {
            format!("7 (a) S 1 (b) {state} 1 7 7 0 -1 4194304 9 0 0 0 150 50 0 0 20 0 1 0 4711 0\n")
        };
        assert_eq!(began(&stat("S")), Some(4711));
        assert_eq!(began(&stat("Z")), None);
        assert_eq!(processor_seconds(&stat("R")), Some(2.0));
        assert_eq!((began("7 (a"), processor_seconds("")), (None, None));
    }
}
