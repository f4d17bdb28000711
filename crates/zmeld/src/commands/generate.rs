//! `zmeld man` and `zmeld completions`: made from the definition of all commands.

use crate::args::CompletionsArgs;
use crate::exit::{Outcome, EXIT_CODES, EXIT_TABLE};
use crate::output;

/// The man page of zmeld, and of each of its commands under its full name, `zmeld-scan`.
pub fn man(whole: &clap::Command) -> anyhow::Result<Outcome> {
    let mut text = Vec::new();
    let with_table = |command: clap::Command| match command.get_after_long_help() {
        Some(words) => {
            let words = words.to_string().replace(EXIT_CODES, EXIT_TABLE);
            command.after_long_help(words)
        }
        None => command,
    };
    clap_mangen::Man::new(with_table(whole.clone())).render(&mut text)?;
    for command in whole.get_subcommands() {
        let name = command.get_name();
        let command = command
            .clone()
            .name(format!("zmeld-{name}"))
            .bin_name(format!("zmeld {name}"))
            .version(env!("CARGO_PKG_VERSION"));
        clap_mangen::Man::new(with_table(command)).render(&mut text)?;
    }
    output::print(&String::from_utf8(text)?)?;
    Ok(Outcome::Done)
}

pub fn completions(args: &CompletionsArgs, mut whole: clap::Command) -> anyhow::Result<Outcome> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut whole, "zmeld", &mut text);
    output::print(&String::from_utf8(text)?)?;
    Ok(Outcome::Done)
}
