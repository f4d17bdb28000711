//! Whose turn it is to change this machine's swap and RAM devices. The tests of all
//! crates, and the tasks that do so, wait for each other here: what one sets up, another
//! would take for what is there.

use std::path::Path;

use zmeld_linux::lock::FileLock;

/// The file that is locked.
pub const TURN: &str = "/tmp/zmeld-host-memory.lock";

/// Waits until nobody else changes them; it is our turn until this is dropped.
pub fn turn() -> std::io::Result<FileLock> {
    FileLock::wait(Path::new(TURN))
}
