//! What a service tells the service manager that started it (sd_notify(3)).

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Tells it, as `READY=1`; nothing where none started this process, or it does not listen.
pub fn notify(what: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty()) else {
        return;
    };
    let path = path.to_string_lossy();
    let address = match path.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&*path),
    };
    // A service manager that does not listen is no reason to stop, or to wait.
    if let (Ok(socket), Ok(address)) = (UnixDatagram::unbound(), address) {
        let _ = socket.set_nonblocking(true);
        let _ = socket.send_to_addr(what.as_bytes(), &address);
    }
}
