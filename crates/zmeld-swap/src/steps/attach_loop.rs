//! A file as a block device.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::kernel::Invocation;
use crate::step::{Act, Record, Scene};

/// Attach a file to a free loop device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachLoop {
    /// The file.
    pub file: PathBuf,
}

impl AttachLoop {
    /// The loop devices that the file is attached to.
    fn attached(&self, scene: &Scene<'_>) -> Result<Vec<String>, Error> {
        let losetup = Invocation::new("losetup")
            .args(["--noheadings", "--output", "NAME", "--associated"])
            .arg(scene.host.path(&self.file));
        let text = scene.host.run(&losetup)?;
        Ok(text.lines().map(|line| line.trim().to_owned()).collect())
    }
}

impl Act for AttachLoop {
    fn describe(&self) -> String {
        format!("attach {} to a loop device", self.file.display())
    }

    fn before(&self, scene: &mut Scene<'_>) -> Result<Option<String>, Error> {
        match self.attached(scene)?.first() {
            None => Ok(None),
            Some(device) => Err(Error::InUse {
                device: self.file.clone(),
                by: format!("the loop device {device}"),
                way_out: format!("detach it: losetup --detach {device}"),
            }),
        }
    }

    fn apply(&self, scene: &mut Scene<'_>, _: Option<&str>) -> Result<Option<String>, Error> {
        let losetup = Invocation::new("losetup")
            .args(["--find", "--show", "--nooverlap"])
            .arg(scene.host.path(&self.file));
        Ok(Some(scene.host.run(&losetup)?.trim().to_owned()))
    }

    fn holds(&self, scene: &mut Scene<'_>, record: &Record) -> Result<bool, Error> {
        let attached = self.attached(scene)?;
        Ok(record.done
            && record
                .outcome
                .as_ref()
                .is_some_and(|it| attached.contains(it)))
    }

    fn undo(&self, scene: &mut Scene<'_>, _: &Record) -> Result<(), Error> {
        if !scene.host.exists(&self.file) {
            return Ok(());
        }
        // Nobody else had it attached before; what is attached now is ours.
        for device in self.attached(scene)? {
            scene
                .host
                .run(&Invocation::new("losetup").args(["--detach", &device]))?;
        }
        Ok(())
    }
}
