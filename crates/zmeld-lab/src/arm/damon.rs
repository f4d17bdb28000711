//! DAMON's own proactive reclaim (`DAMON_RECLAIM`, Linux 5.16) while a run lasts, by the
//! parameters of its module: what `[watch.reclaim]` is held against.

use std::collections::BTreeMap;

use zmeld_linux::Host;
use zmeld_swap::plan::{Group, Planned};
use zmeld_swap::step::Step;
use zmeld_swap::steps::SetValue;

use crate::error::Error;

/// Where a kernel that has it keeps its parameters.
const PARAMETERS: &str = "/sys/module/damon_reclaim/parameters";
/// The parameter that starts and ends it; the others hold from then on.
const SWITCH: &str = "enabled";

/// Parameters as a recipe has them, by name.
pub(super) type Written = BTreeMap<String, toml::Value>;

/// What is wrong with parameters, where something is.
pub(super) fn problem(written: &Written) -> Option<String> {
    written.iter().find_map(|(name, value)| {
        let is_name = name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        let is_value = value.is_integer() || value.is_bool();
        match (is_name && !name.is_empty() && name != SWITCH, is_value) {
            (false, _) => Some(format!(
                "damon_reclaim.{name} is no parameter to set: there are min_age and others, and enabled is set by itself"
            )),
            (_, false) => Some(format!(
                "damon_reclaim.{name} is {value}: write a whole number, true or false"
            )),
            _ => None,
        }
    })
}

/// Whether this kernel has it.
pub(super) fn check(host: &Host) -> Result<(), Error> {
    match host.exists(PARAMETERS) {
        true => Ok(()),
        false => Err(Error::Missing {
            what: format!("this kernel has no DAMON_RECLAIM ({PARAMETERS} is not there)"),
        }),
    }
}

/// What sets it up: its parameters, and then its switch.
pub(super) fn group(written: &Written) -> Group {
    let text = |value: &toml::Value| match value {
        toml::Value::Boolean(true) => "Y".to_owned(),
        toml::Value::Boolean(false) => "N".to_owned(),
        other => other.to_string(),
    };
    let values = written
        .iter()
        .map(|(name, value)| (name.as_str(), text(value)));
    let steps = values.chain([(SWITCH, "Y".to_owned())]);
    Group {
        name: "damon_reclaim".to_owned(),
        optional: false,
        steps: steps
            .map(|(name, value)| Planned {
                step: Step::SetValue(SetValue::new(format!("{PARAMETERS}/{name}"), value)),
                reason: "the arm's".to_owned(),
                before: None,
                done: false,
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Written {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn it_is_switched_on_last() {
        let group = group(&written("min_age = 10_000_000\nskip_anon = true\n"));
        let said: Vec<String> = group.steps.iter().map(|it| it.step.describe()).collect();
        assert_eq!(
            said,
            [
                format!("set {PARAMETERS}/min_age to 10000000"),
                format!("set {PARAMETERS}/skip_anon to Y"),
                format!("set {PARAMETERS}/enabled to Y"),
            ]
        );
    }

    #[test]
    fn what_is_no_parameter_is_refused() {
        assert_eq!(problem(&written("min_age = 1")), None);
        for (text, word) in [
            ("enabled = true", "enabled"),
            ("'../x' = 1", "../x"),
            ("min_age = 'soon'", "soon"),
        ] {
            let said = problem(&written(text)).unwrap();
            assert!(said.contains(word), "{text}: {said}");
        }
    }

    #[test]
    fn a_kernel_without_it_is_named() {
        let root = tempfile::tempdir().unwrap();
        let host = Host::at(root.path());
        assert!(check(&host)
            .unwrap_err()
            .to_string()
            .contains("DAMON_RECLAIM"));
        std::fs::create_dir_all(root.path().join(&PARAMETERS[1..])).unwrap();
        check(&host).unwrap();
    }
}
