//! Trains zword: `cargo xtask train zword` runs this with the pages to learn from.
//!
//! `train_zword OUT FILE...`: three of four pages of each file are learnt from, in
//! the order given; OUT becomes the C source of the code lengths. The last rounds are of
//! level 1, by which nearly all pages are written; the first ones try all modes, since one
//! that no page has learns nothing.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use zmeld_store::zword::{Level, Zword};
use zword::lengths::layout;

#[path = "../tests/support/train.rs"]
mod train;
#[path = "../tests/support/zword/mod.rs"]
mod zword;

const PAGE: usize = 4096;
/// The first rounds settle how pages are parsed, on one page of so many.
const ROUNDS_FIRST: [usize; 7] = [8, 8, 4, 4, 4, 4, 4];
/// How many of them let sizes choose the set.
const ROUNDS_SPLIT: usize = 3;
/// Number of starts, each with other pages; the one whose tables make the fewest bytes goes on.
const STARTS: usize = 8;
/// The pages on which the starts are compared, one of so many.
const COMPARED: usize = 4;
const ROUNDS_LAST: [usize; 5] = [2, 2, 2, 1, 1];

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
    let (mut row, start) = best_start(&pages)?;
    eprintln!("start {start} goes on");
    for step in ROUNDS_LAST {
        row = round(&row, train::Choice::Encoder, Level::Glance, &pages, 0, step)?.0;
    }
    Zword::new(&row).ok_or("the encoder refuses the lengths")?;
    std::fs::write(out, source(&row))?;
    Ok(())
}

/// The lengths that the best of the starts led to, and which one that was.
fn best_start(pages: &[Vec<u8>]) -> Result<(Vec<u8>, usize), String> {
    let start = |first: usize| {
        let mut row = train::flat_lengths();
        for (number, step) in ROUNDS_FIRST.into_iter().enumerate() {
            let choice = if number < ROUNDS_SPLIT {
                train::Choice::Size
            } else {
                train::Choice::Encoder
            };
            row = round(&row, choice, Level::All, pages, first % step, step)?.0;
        }
        let (_, bytes) = round(
            &row,
            train::Choice::Encoder,
            Level::Glance,
            pages,
            0,
            COMPARED,
        )?;
        Ok::<_, String>((bytes, first, row))
    };
    let mut results = Vec::new();
    std::thread::scope(|scope| {
        let starts: Vec<_> = (0..STARTS).map(|k| scope.spawn(move || start(k))).collect();
        results.extend(starts.into_iter().map(|start| start.join()));
    });
    let mut best: Option<(usize, usize, Vec<u8>)> = None;
    for result in results {
        let result = result.map_err(|_| "a start failed".to_owned())??;
        if best.as_ref().is_none_or(|best| result.0 < best.0) {
            best = Some(result);
        }
    }
    let (_, start, row) = best.ok_or("there are no starts")?;
    Ok((row, start))
}

/// The next lengths, and the bytes that these ones make of the pages: from `first` on
/// one of `step`.
fn round(
    row: &[u8],
    choice: train::Choice,
    level: Level,
    pages: &[Vec<u8>],
    first: usize,
    step: usize,
) -> Result<(Vec<u8>, usize), String> {
    let mut zword = Zword::new(row).ok_or("the encoder refuses the lengths")?;
    let mut object = vec![0; 2 * PAGE];
    let (mut bytes, mut count) = (0, 0);
    let encode = |page: &[u8]| {
        // A page that level 1 keeps raw teaches, too: else it is kept raw for good.
        let size = [level, Level::All].into_iter().find_map(|level| {
            zword
                .compress(level, page, &mut object)
                .filter(|&size| size < PAGE)
        });
        bytes += size.unwrap_or(PAGE);
        count += 1;
        size.map(|size| object[..size].to_vec())
    };
    let sample = pages.iter().skip(first).step_by(step).map(Vec::as_slice);
    let (next, counts) =
        train::round(row, choice, sample, encode).map_err(|err| err.to_string())?;
    eprintln!(
        "from page {first}, each {step}: {} bytes a page, blocks of 64 and 32 bits, bytes, raw: {:?}",
        bytes / count.max(1),
        counts.blocks()
    );
    Ok((next, bytes))
}

fn source(row: &[u8]) -> String {
    let mut text = String::from(
        "// SPDX-\
         License-Identifier: GPL-2.0-or-later\n\
         /* Made by `cargo xtask train zword`; docs/zword.md says what stands where. */\n\
         #include \"tables.h\"\n\nconst u8 zword_lengths[] = {\n",
    );
    for line in row.chunks(16) {
        let line: Vec<String> = line.iter().map(u8::to_string).collect();
        let _ = writeln!(text, "\t{},", line.join(", "));
    }
    text += "};\n\nconst size_t zword_lengths_size = sizeof(zword_lengths);\n\n\
             static_assert(sizeof(zword_lengths) == ZWORD_L_SIZE, \"a whole set\");\n";
    debug_assert_eq!(row.len(), layout::SIZE);
    text
}
