//! One program's pages, and what they took with each codec.

use std::path::Path;

use zmeld_store::{fill_word, ChainRule, Codec, Geometry};

use crate::measure::{measure, Taken, PAGE};
use crate::Settings;

/// Of so many pages of a program that training knows, it leaves out the last.
const TRAINING_LEAVES_ONE_OF: usize = 4;
/// Of a page's bytes, from which on it counts as text.
const TEXT_SHARE: f64 = 0.75;

/// One program: by codec, what its pages took.
pub struct Program {
    /// Of the file.
    pub name: String,
    /// By page.
    pub is_text: Vec<bool>,
    /// By codec.
    pub taken: Vec<Taken>,
    /// By codec and page: bytes of the pool.
    pub pool: Vec<Vec<f64>>,
}

impl Program {
    /// So many pages of a file, evenly spread, none of them filled with one word.
    pub fn measure(
        path: &Path,
        is_trained: bool,
        codecs: &[Codec],
        settings: &Settings,
    ) -> Result<Program, String> {
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let left_out = |k: usize| k % TRAINING_LEAVES_ONE_OF == TRAINING_LEAVES_ONE_OF - 1;
        let all: Vec<&[u8]> = bytes
            .chunks_exact(PAGE)
            .enumerate()
            .filter(|(k, page)| (!is_trained || left_out(*k)) && fill_word(page).is_none())
            .map(|(_, page)| page)
            .collect();
        let step = all.len().div_ceil(settings.pages).max(1);
        let pages: Vec<&[u8]> = all.into_iter().step_by(step).collect();
        if pages.is_empty() {
            return Err(format!("{}: there are no pages in it", path.display()));
        }
        let pool = Geometry::new(PAGE as u32, 8, ChainRule::LeastWaste)
            .map_err(|error| format!("the pool: {error}"))?;
        let taken = measure(codecs, &pages, settings.rounds, pool.huge_size())
            .map_err(|why| format!("{}: {why}", path.display()))?;
        let cost = |&size: &u32| pool.object_bytes(pool.class(size));
        Ok(Program {
            name: path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into(),
            is_text: pages.iter().map(|page| is_text(page)).collect(),
            pool: taken
                .iter()
                .map(|taken| taken.sizes.iter().map(cost).collect())
                .collect(),
            taken,
        })
    }
}

fn is_text(page: &[u8]) -> bool {
    let text = |&&b: &&u8| (32..127).contains(&b) || b == b'\n' || b == b'\t';
    page.iter().filter(text).count() as f64 > TEXT_SHARE * PAGE as f64
}

pub fn pool(program: &Program, codec: usize) -> Vec<f64> {
    program.pool[codec].clone()
}

pub fn stored(program: &Program, codec: usize) -> Vec<f64> {
    let sizes = program.taken[codec].sizes.iter();
    sizes.map(|&size| f64::from(size)).collect()
}

pub fn text_pool(program: &Program, codec: usize) -> Vec<f64> {
    let pages = program.pool[codec].iter().zip(&program.is_text);
    pages
        .filter_map(|(&bytes, &is_text)| is_text.then_some(bytes))
        .collect()
}

pub fn compress(program: &Program, codec: usize) -> Vec<f64> {
    program.taken[codec].compress.clone()
}

pub fn decompress(program: &Program, codec: usize) -> Vec<f64> {
    program.taken[codec].decompress.clone()
}

pub fn cold(program: &Program, codec: usize) -> Vec<f64> {
    program.taken[codec].cold.clone()
}
