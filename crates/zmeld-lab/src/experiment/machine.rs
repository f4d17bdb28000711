//! One run in a virtual machine of its own.

use std::path::Path;

use super::result::{CaseFacts, Experiment, Run};
use super::Lab;
use crate::arm::Arm;
use crate::error::Error;
use crate::recipe::{Case, Recipe};
use crate::vm::host::{BootImage, MachineEnd};
use crate::vm::GuestRequest;

impl Lab<'_> {
    /// What the machines of a case boot from, packed when it is first asked for.
    pub(super) fn boot_image(&mut self, case: &Case) -> Result<&BootImage, Error> {
        let size = case
            .machine
            .as_ref()
            .ok_or_else(|| Error::Result(format!("case {} has no machine", case.name)))?;
        if !self.boot_images.contains_key(&case.name) {
            let name = format!("machine-{}", self.boot_images.len());
            let folder = self.folder.path().join(name);
            std::fs::create_dir_all(&folder).map_err(|err| Error::io("create", &folder, err))?;
            let own = self.settings.launcher.first().map_or("", String::as_str);
            let kernel = self.settings.kernel.as_deref();
            let image = BootImage::new(case, size, kernel, Path::new(own), &folder)?;
            self.boot_images.insert(case.name.clone(), image);
        }
        Ok(&self.boot_images[&case.name])
    }

    /// Boots a machine that makes the run, and notes what machine it was.
    pub(super) fn in_machine(
        &mut self,
        experiment: &mut Experiment,
        case: &Case,
        arm: &Arm,
        facts: &CaseFacts,
        block: usize,
    ) -> Result<Run, Error> {
        let recipe = Recipe {
            cases: vec![Case {
                machine: None,
                ..case.clone()
            }],
            arms: vec![arm.clone()],
            ..experiment.recipe.clone()
        };
        let request = GuestRequest::new(recipe, facts.footprint_bytes, block, self.settings.seed);
        self.boot_image(case)?;
        let (folder, stop) = (self.folder.path(), self.stop);
        let stopped = || stop.load(std::sync::atomic::Ordering::SeqCst);
        let ended =
            self.boot_images[&case.name].run(request, &self.settings.launcher, folder, &stopped)?;
        match ended {
            MachineEnd::Answer(answer, on) => {
                let facts = experiment
                    .cases
                    .iter_mut()
                    .find(|facts| facts.case == case.name);
                if let Some(facts) = facts {
                    if let Some(before) = facts.on.as_ref().filter(|before| !before.is_like(&on)) {
                        return Err(Error::Result(format!(
                            "the runs so far were made on a machine with kernel {}{}, and this one has {}{}: their \
                             figures do not belong together",
                            before.kernel,
                            before.way(),
                            on.kernel,
                            on.way()
                        )));
                    }
                    facts.on = Some(on);
                }
                answer.run()
            }
            MachineEnd::Ended(outcome) => Ok(Run {
                case: case.name.clone(),
                arm: arm.name.clone(),
                block,
                warm_up: block < experiment.recipe.warm_ups,
                outcome,
                value: experiment.recipe.metric.better.worst(),
                ..Run::default()
            }),
        }
    }
}
