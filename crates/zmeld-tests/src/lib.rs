//! What tests of several crates share. No program of users links with it.

pub mod child;
pub mod group;
pub mod machine;
pub mod mixed;
pub mod random;
pub mod script;
pub mod shown;
pub mod turn;
pub mod values;
pub mod zram;

/// CAP_SETGID, CAP_SETUID and CAP_SYS_ADMIN.
const PRIVILEGES: u64 = 1 << 6 | 1 << 7 | 1 << 21;

/// Whether this test may do what root may. Root of a container that may become nobody else, nor
/// mount, counts as any other user.
pub fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = zmeld_linux::process::status(&status, "CapEff");
    let effective = effective.and_then(|bits| u64::from_str_radix(bits, 16).ok());
    rustix::process::geteuid().is_root()
        && effective.is_none_or(|bits| bits & PRIVILEGES == PRIVILEGES)
}
