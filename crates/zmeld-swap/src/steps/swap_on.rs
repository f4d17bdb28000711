//! A swap area, switched on and off.

use std::path::Path;
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::Discard;
use crate::error::Error;
use crate::event::Event;
use crate::kernel::{Host, Invocation};
use crate::step::{Act, DeviceRef, Record, Scene};

/// How often progress is told while pages come back.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Switch a swap area on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwapOn {
    /// Which.
    pub device: DeviceRef,
    /// The higher first; below 0 the kernel chooses.
    pub priority: i16,
    /// Which freed pages the device is told of.
    pub discard: Discard,
}

impl Act for SwapOn {
    fn describe(&self) -> String {
        let mut text = format!("swap to {}", self.device.name());
        if self.priority >= 0 {
            text.push_str(&format!(" with priority {}", self.priority));
        }
        match self.discard {
            Discard::None => {}
            Discard::Once => text.push_str(", discarding once"),
            Discard::Pages => text.push_str(", discarding freed pages"),
            Discard::Both => text.push_str(", discarding at once and as pages are freed"),
        }
        text
    }

    fn before(&self, scene: &mut Scene<'_>) -> Result<Option<String>, Error> {
        let path = scene.path(&self.device)?;
        match scene.host.swap_on(&path)? {
            None => Ok(None),
            Some(_) => Err(Error::InUse {
                device: path,
                by: "swap that zmeld did not set up".to_owned(),
                way_out: "switch it off (swapoff) or take it out of the configuration".to_owned(),
            }),
        }
    }

    fn apply(&self, scene: &mut Scene<'_>, _: Option<&str>) -> Result<Option<String>, Error> {
        let path = scene.path(&self.device)?;
        let mut swapon = Invocation::new("swapon");
        if self.priority >= 0 {
            swapon = swapon.args(["--priority", &self.priority.to_string()]);
        }
        swapon = match self.discard {
            Discard::None => swapon,
            Discard::Once => swapon.arg("--discard=once"),
            Discard::Pages => swapon.arg("--discard=pages"),
            Discard::Both => swapon.arg("--discard"),
        };
        scene.host.run(&swapon.arg(scene.host.path(&path)))?;
        match scene.host.swap_on(&path)? {
            Some(swap) if self.priority < 0 || swap.priority == i32::from(self.priority) => {
                Ok(None)
            }
            Some(swap) => Err(Error::malformed(
                "/proc/swaps",
                format!(
                    "gives {} the priority {} instead of {}",
                    path.display(),
                    swap.priority,
                    self.priority
                ),
            )),
            None => Err(Error::malformed(
                "/proc/swaps",
                format!("does not list {} after swapon", path.display()),
            )),
        }
    }

    fn holds(&self, scene: &mut Scene<'_>, record: &Record) -> Result<bool, Error> {
        let path = scene.path(&self.device)?;
        Ok(record.done && scene.host.swap_on(&path)?.is_some())
    }

    fn undo(&self, scene: &mut Scene<'_>, _: &Record) -> Result<(), Error> {
        let Some(path) = scene.path_of(&self.device) else {
            return Ok(());
        };
        if scene.host.swap_on(&path)?.is_none() {
            return Ok(());
        }
        switch_off(scene, &path)
    }
}

/// Switches an area off and tells how far it is. The command runs beside, since
/// all of its work is one system call.
pub(super) fn switch_off(scene: &mut Scene<'_>, path: &Path) -> Result<(), Error> {
    let host: &Host = scene.host;
    let used = |host: &Host| -> Option<u64> { Some(host.swap_on(path).ok()??.used_bytes) };
    let total_bytes = used(host).unwrap_or(0);
    let swapoff = Invocation::new("swapoff").arg(host.path(path));
    let result = std::thread::scope(|scope| {
        let (over, is_over) = channel();
        let worker = scope.spawn(move || {
            let result = host.run(&swapoff);
            // Nobody listens any more only where this thread's result is awaited.
            let _ = over.send(());
            result
        });
        while is_over.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            if let Some(left_bytes) = used(host) {
                scene.tell(Event::SwappingIn {
                    path,
                    left_bytes,
                    total_bytes,
                });
            }
        }
        worker
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    if host.swap_on(path)?.is_none() {
        return Ok(());
    }
    result.and(Err(Error::malformed(
        "/proc/swaps",
        format!("still lists {} after swapoff", path.display()),
    )))
}
