//! One run in a virtual machine of its own.

use super::result::{CaseFacts, Experiment, Run};
use super::{same, Lab};
use crate::error::Error;
use crate::recipe::{Case, Recipe};
use crate::variant::Variant;
use crate::vm::host::{BootImage, MachineEnd};
use crate::vm::{GuestFacts, GuestRequest};

impl Lab<'_> {
    /// Boot image of a case's machines, packed when it is first asked for.
    pub(super) fn boot_image(&mut self, case: &Case) -> Result<&BootImage, Error> {
        let size = case
            .machine
            .as_ref()
            .ok_or_else(|| Error::Result(format!("case {} has no machine", case.name)))?;
        if !self.boot_images.contains_key(&case.name) {
            let name = format!("machine-{}", self.boot_images.len());
            let folder = self.folder.path().join(name);
            std::fs::create_dir_all(&folder).map_err(|err| Error::io("create", &folder, err))?;
            let kernel = self.settings.kernel.as_deref();
            let image = BootImage::new(case, size, kernel, &self.settings.program, &folder)?;
            self.boot_images.insert(case.name.clone(), image);
        }
        Ok(&self.boot_images[&case.name])
    }

    /// Boots a machine that makes the run, and notes what machine it was.
    pub(super) fn in_machine(
        &mut self,
        experiment: &mut Experiment,
        case: &Case,
        variant: &Variant,
        facts: &CaseFacts,
        block: usize,
    ) -> Result<Run, Error> {
        let recipe = Recipe {
            cases: vec![Case {
                machine: None,
                ..case.clone()
            }],
            variants: vec![variant.clone()],
            ..experiment.recipe.clone()
        };
        let request = GuestRequest {
            recipe,
            footprint_bytes: facts.footprint_bytes,
            block,
            answer: String::new(),
            disk: None,
            files: None,
        };
        self.boot_image(case)?;
        let (folder, stop) = (self.folder.path(), self.stop);
        let stopped = || stop.load(std::sync::atomic::Ordering::SeqCst);
        let own = &self.settings.program;
        let ended = self.boot_images[&case.name].run(request, own, folder, &stopped)?;
        match ended {
            MachineEnd::Answer(answer, on) => {
                let mut cases = experiment.cases.iter_mut();
                if let Some(facts) = cases.find(|facts| facts.case == case.name) {
                    if let Some(before) = &facts.on {
                        // Programs may differ a little in size between two builds.
                        let now = GuestFacts {
                            programs_bytes: before.programs_bytes,
                            visible_bytes: before.visible_bytes,
                            ..on.clone()
                        };
                        same("machine", before, &now)?;
                    }
                    facts.on = Some(on);
                }
                Ok(answer.run?)
            }
            MachineEnd::Ended(outcome) => Ok(Run {
                case: case.name.clone(),
                variant: variant.name.clone(),
                block,
                warm_up: block < experiment.recipe.warm_ups,
                outcome,
                value: experiment.recipe.metric.better.worst(),
                ..Run::default()
            }),
        }
    }
}
