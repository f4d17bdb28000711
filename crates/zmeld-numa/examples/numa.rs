//! `zmeld numa` on its own, without the other commands: `cargo run --release -p zmeld-numa --example numa -- reproduce`.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;
use zmeld_numa::cli::{run, NumaArgs};
use zmeld_report::Style;

#[derive(Parser)]
struct Numa {
    #[command(flatten)]
    args: NumaArgs,
}

fn main() -> ExitCode {
    let args = Numa::parse().args;
    let stdout = std::io::stdout();
    let style = Style::from_env(stdout.is_terminal(), None, |name| std::env::var(name).ok());
    let mut out = std::io::BufWriter::new(stdout.lock());
    let code = match run(args, &mut out, &style) {
        Ok(kind) => kind.code(),
        Err(error) => {
            eprintln!("zmeld numa: {error}");
            error.code()
        }
    };
    // A closed pipe is the reader's choice.
    let _closed = out.flush();
    ExitCode::from(code)
}
