//! `zmeld numa machines` and `policies`: what can be named.

use serde::Serialize;
use zmeld_numa::machine::{presets, NumaMachine};
use zmeld_numa::policy::{PolicyDescription, ALL};

use super::{Context, Error};
use crate::exit::Outcome;
use zmeld_numa::pages;

/// Machines that can be named.
#[derive(Serialize, schemars::JsonSchema)]
pub struct MachinesBody {
    /// `machines`.
    command: &'static str,
    /// The presets, or the one that was asked for.
    machines: Vec<NumaMachine>,
}

/// Policies that can be named.
#[derive(Serialize, schemars::JsonSchema)]
pub struct PoliciesBody {
    /// `policies`.
    command: &'static str,
    /// Each policy: its `name`, its rule and its source, in words.
    policies: &'static [PolicyDescription],
}

pub(super) fn machines(name: Option<&str>, context: &mut Context<'_>) -> Result<Outcome, Error> {
    let (page, machines) = match name {
        Some(name) => {
            let machine = NumaMachine::find(name)?;
            (pages::lists::machine(&machine), vec![machine])
        }
        None => (pages::lists::machines(), presets()),
    };
    let body = MachinesBody {
        command: "machines",
        machines,
    };
    context.show(&page, &body)?;
    Ok(Outcome::Done)
}

pub(super) fn policies(context: &mut Context<'_>) -> Result<Outcome, Error> {
    let body = PoliciesBody {
        command: "policies",
        policies: ALL,
    };
    context.show(&pages::lists::policies(), &body)?;
    Ok(Outcome::Done)
}
