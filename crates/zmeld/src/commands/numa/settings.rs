//! What the arguments say of a scenario: its file, the machine, single settings.

use zmeld_numa::scenario::{Scenario, ScenarioText};

use super::{Error, ScenarioArgs};

/// On one node there is nothing to compare.
pub(super) fn several_nodes(scenario: &Scenario) -> Result<(), Error> {
    match scenario.case.machine.nodes() {
        0 | 1 => Err(Error::Argument(
            "this machine has one node: there is nothing to migrate, and every policy comes out the same; \
             name another with --machine (zmeld numa machines lists some)"
                .into(),
        )),
        _ => Ok(()),
    }
}

/// Reads the scenario that the arguments describe.
pub(super) fn read(args: &ScenarioArgs) -> Result<(ScenarioText, Scenario), Error> {
    let mut source = match &args.scenario {
        Some(file) => ScenarioText::read(file)?,
        None => ScenarioText::new(String::new(), "defaults".into())?,
    };
    let mut settings = args
        .set
        .iter()
        .map(|text| parse_setting(text))
        .collect::<Result<Vec<_>, _>>()?;
    if let Some(machine) = &args.machine {
        // A file is meant from where the command runs.
        settings.push(("machine.from".into(), toml::Value::String(machine.clone())));
    }
    for (path, value) in [("seed", args.seed), ("replications", args.replications)] {
        let Some(value) = value else { continue };
        let value = i64::try_from(value)
            .map_err(|_| Error::Argument(format!("--{path} {value}: too large")))?;
        settings.push((path.into(), toml::Value::Integer(value)));
    }
    if settings.is_empty() {
        let scenario = source.scenario()?;
        return Ok((source, scenario));
    }
    let plain = source.clone();
    let made = source
        .set(&settings)
        .and_then(|()| source.with(&[]))
        .map_err(|error| blamed(&plain, &args.set, error))?;
    Ok((source, made))
}

/// The error with the `--set` that leads to it, where one does by itself.
fn blamed(plain: &ScenarioText, set: &[String], error: zmeld_numa::Error) -> Error {
    let alone = set.iter().find_map(|text| {
        let setting = parse_setting(text).ok()?;
        let mut source = plain.clone();
        let made = source.set(&[setting]).and_then(|()| source.with(&[]));
        Some((text, made.err()?))
    });
    match alone {
        Some((text, error)) => Error::Argument(format!("--set {text}: {error}")),
        None => error.into(),
    }
}

fn split(text: &str) -> Result<(&str, &str), Error> {
    let parts = text
        .split_once('=')
        .filter(|(path, value)| !path.trim().is_empty() && !value.trim().is_empty());
    parts.ok_or_else(|| {
        Error::Argument(format!(
            "{text:?}: write PATH=VALUE, as workload.processes=200"
        ))
    })
}

/// A value as TOML has it; what is no TOML is a text.
fn parse_value(text: &str) -> toml::Value {
    let parsed: Result<toml::Table, _> = toml::from_str(&format!("value = {text}"));
    let value = parsed.ok().and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| toml::Value::String(text.to_owned()))
}

fn parse_setting(text: &str) -> Result<(String, toml::Value), Error> {
    let (path, value) = split(text)?;
    Ok((path.trim().to_owned(), parse_value(value.trim())))
}
