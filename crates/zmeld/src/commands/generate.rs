//! `zmeld man` and `zmeld completions`: made from the definition of all commands.

use anyhow::bail;

use crate::args::{CompletionsArgs, ManArgs};
use crate::exit::Outcome;
use crate::output;

/// The man page of one command, or of zmeld and all its commands.
pub fn man(args: &ManArgs, whole: &clap::Command) -> anyhow::Result<Outcome> {
    let mut text = Vec::new();
    match &args.command {
        None => {
            clap_mangen::Man::new(whole.clone()).render(&mut text)?;
            for command in whole.get_subcommands() {
                render(whole, command.get_name(), &mut text)?;
            }
        }
        Some(name) => {
            if whole.find_subcommand(name).is_none() {
                let names: Vec<_> = whole.get_subcommands().map(|c| c.get_name()).collect();
                bail!(
                    "there is no command {name}; there are: {}",
                    names.join(", ")
                );
            }
            render(whole, name, &mut text)?;
        }
    }
    output::print(&String::from_utf8(text)?)?;
    Ok(Outcome::Done)
}

/// A command's page under its full name, `zmeld-scan`.
fn render(whole: &clap::Command, name: &str, text: &mut Vec<u8>) -> anyhow::Result<()> {
    let command = whole
        .find_subcommand(name)
        .expect("the caller looked")
        .clone()
        .name(format!("zmeld-{name}"))
        .bin_name(format!("zmeld {name}"))
        .version(env!("CARGO_PKG_VERSION"));
    clap_mangen::Man::new(command).render(text)?;
    Ok(())
}

/// Completions for a shell.
pub fn completions(args: &CompletionsArgs, mut whole: clap::Command) -> anyhow::Result<Outcome> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut whole, "zmeld", &mut text);
    output::print(&String::from_utf8(text)?)?;
    Ok(Outcome::Done)
}
