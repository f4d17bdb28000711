//! Turns of a service, and its messages to its service manager (sd_notify(3)).

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use crate::Host;

/// Whether systemd runs the machine (sd_booted(3)).
pub fn runs_systemd(host: &Host) -> bool {
    host.exists("/run/systemd/system")
}

/// Whether what is done at such intervals has its turn.
pub fn is_due(last: Option<Instant>, every: Duration, now: Instant) -> bool {
    last.is_none_or(|last| now.duration_since(last) >= every)
}

/// Tells the manager, as `READY=1`; nothing where none started this process, or it does not listen.
pub fn notify(what: &str) {
    if let Some(socket) = connected() {
        let _ = socket.send(what.as_bytes());
    }
}

fn connected() -> Option<UnixDatagram> {
    let path = std::env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty())?;
    let path = path.to_string_lossy();
    let address = match path.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&*path),
    };
    let socket = UnixDatagram::unbound().ok()?;
    // A service manager that does not listen is no reason to stop, or to wait.
    socket.set_nonblocking(true).ok()?;
    socket.connect_addr(&address.ok()?).ok()?;
    Some(socket)
}

/// Keeps a service manager from ending this process as one that hangs (`WatchdogSec=`). The loop
/// whose progress counts pings it, and no thread beside.
#[derive(Debug, Default)]
pub struct Watchdog {
    asked: Option<(UnixDatagram, Duration)>,
    last: Option<Instant>,
}

impl Watchdog {
    /// As the service manager asked for it; one that does nothing where it did not.
    pub fn of_manager() -> Watchdog {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        let is_for_us = number("WATCHDOG_PID").is_none_or(|it| it == u64::from(std::process::id()));
        let limit = number("WATCHDOG_USEC").filter(|limit| is_for_us && *limit > 0);
        let every = limit.map(|limit| Duration::from_micros(limit) / 2);
        Watchdog {
            asked: every.and_then(|every| Some((connected()?, every))),
            last: None,
        }
    }

    /// Says that it goes on, where half of the time that it may be silent has passed. This takes
    /// no memory, opens nothing and waits for nobody.
    pub fn ping(&mut self, now: Instant) {
        let Some((socket, every)) = &self.asked else {
            return;
        };
        // One that was not taken is tried again with the next call.
        if is_due(self.last, *every, now) && socket.send(b"WATCHDOG=1").is_ok() {
            self.last = Some(now);
        }
    }
}
