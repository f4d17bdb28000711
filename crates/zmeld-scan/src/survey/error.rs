//! Why there is no survey.

use std::io;
use std::path::PathBuf;

/// Why there is no survey.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(
        "there is no key {}: copy the fleet's there, or make the first with zmeld scan \
         --survey-new-key {}", path.display(), path.display()
    )]
    NoKey { path: PathBuf },
    #[error("the key {}: {problem}", path.display())]
    BadKey { path: PathBuf, problem: String },
    #[error("the kernel gives no random bytes: {0}")]
    NoChance(#[source] io::Error),
    #[error(
        "this machine has no id in /etc/machine-id, by which surveys know it again: \
         systemd-machine-id-setup or dbus-uuidgen --ensure=/etc/machine-id makes one"
    )]
    NoMachineId,
    /// A container that may not look at the machine's first process.
    #[error(
        "this container sees the machine's processes and may not read their files \
         (/proc/1/root), so it does not know whose memory this is: give it CAP_SYS_PTRACE, and \
         no AppArmor or SELinux profile that forbids it, or mount /etc/machine-id there"
    )]
    HiddenMachine,
    #[error("\"{text}\" is no label: {problem}")]
    BadLabel { text: String, problem: &'static str },
    #[error("\"{text}\" is no place for surveys: {problem}")]
    BadPlace { text: String, problem: String },
    /// Memory is short, so the survey stays out of the way.
    #[error(
        "memory is short ({what} {percent} % of the last 10 seconds): no survey now; \
         try again later"
    )]
    Pressure { what: &'static str, percent: f64 },
    /// Every process belongs to somebody else.
    #[error(
        "no memory could be read: {processes} processes are not permitted to this user{}",
        if *is_root { "; in a container it takes CAP_SYS_PTRACE and the host's processes" }
        else { "; run it as root" }
    )]
    NotPermitted { processes: u64, is_root: bool },
    /// Stopped before any owner was read.
    #[error("stopped before anything was read whole; nothing was written")]
    Interrupted,
    #[error(transparent)]
    Host(#[from] zmeld_linux::HostError),
    #[error(transparent)]
    File(#[from] zmeld_linux::FileError),
    #[error(transparent)]
    Memory(#[from] crate::memory::Error),
    #[error(transparent)]
    Scan(#[from] crate::ScanError),
    /// The rows do not make a file. This must never happen.
    #[error("the survey cannot be written as Parquet: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
}
