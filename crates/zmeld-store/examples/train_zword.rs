//! Trains zword: `cargo xtask train zword` runs this with the pages to learn from.
//!
//! `train_zword OUT FILE...`: three of four pages of each file are learnt from, in
//! the order given; OUT becomes the C source of the code lengths.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use zmeld_store::zword::Zword;
use zmeld_zword::{lengths::layout, train};

const PAGE: usize = 4096;
/// The first rounds settle how pages are parsed, on one page of so many.
const ROUNDS: [usize; 12] = [8, 8, 4, 4, 4, 4, 4, 2, 2, 2, 1, 1];
/// The last round in which sizes choose the set.
const ROUND_SPLIT: usize = 2;

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let Some((out, files)) = arguments.split_first() else {
        eprintln!("train_zword OUT FILE...");
        return ExitCode::from(2);
    };
    match run(out, files) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("train_zword: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(out: &PathBuf, files: &[PathBuf]) -> Result<(), Box<dyn std::error::Error>> {
    let mut pages: Vec<Vec<u8>> = Vec::new();
    for file in files {
        let bytes = std::fs::read(file).map_err(|err| format!("{}: {err}", file.display()))?;
        let learnt = bytes.chunks_exact(PAGE).enumerate();
        pages.extend(
            learnt
                .filter(|(k, _)| k % 4 != 3)
                .map(|(_, page)| page.to_vec()),
        );
    }
    let mut row = train::flat_lengths();
    for (number, step) in ROUNDS.into_iter().enumerate() {
        let mut zword = Zword::new(&row).ok_or("the encoder refuses the lengths")?;
        let mut object = vec![0; 2 * PAGE];
        let mut sizes = 0;
        let encode = |page: &[u8]| {
            let size = zword
                .compress(page, &mut object)
                .filter(|&size| size < PAGE);
            sizes += size.unwrap_or(PAGE);
            size.map(|size| object[..size].to_vec())
        };
        let choice = if number <= ROUND_SPLIT {
            train::Choice::Size
        } else {
            train::Choice::Encoder
        };
        let sample = pages.iter().step_by(step).map(Vec::as_slice);
        let (next, counts) = train::round(&row, choice, sample, encode)?;
        let mean = sizes / pages.len().div_ceil(step).max(1);
        eprintln!(
            "round {number}: {mean} bytes a page, blocks of 64 and 32 bits, bytes, raw: {:?}",
            counts.blocks()
        );
        row = next;
    }
    Zword::new(&row).ok_or("the encoder refuses the lengths")?;
    std::fs::write(out, source(&row))?;
    Ok(())
}

fn source(row: &[u8]) -> String {
    let mut text = String::from(
        "// SPDX-License-Identifier: GPL-2.0-or-later\n\
         /* Made by `cargo xtask train zword`; docs/zword.md says what stands where. */\n\
         #include \"tables.h\"\n\nconst u8 zword_lengths[] = {\n",
    );
    for line in row.chunks(16) {
        let line: Vec<String> = line.iter().map(u8::to_string).collect();
        let _ = writeln!(text, "\t{},", line.join(", "));
    }
    text += "};\n\nconst size_t zword_lengths_size = sizeof(zword_lengths);\n\n\
             _Static_assert(sizeof(zword_lengths) == ZWORD_L_SIZE, \"a whole set\");\n";
    debug_assert_eq!(row.len(), layout::SIZE);
    text
}
