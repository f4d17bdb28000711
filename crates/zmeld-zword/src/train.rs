//! Code lengths from pages.
//!
//! The encoder parses by what codes cost, and codes follow from how it parses;
//! so pages are encoded and counted in rounds, each with the codes of the round
//! before. Counts are whole numbers and ties go by the symbol: the same pages in
//! the same order give the same lengths on every machine.

use crate::code::limited_lengths;
use crate::decoder::{decode, Observer, BLOCK};
use crate::lengths::{
    self, layout, Lengths, Place, CLASSES, KINDS, MASKS, TOKENS_KNOWN, WORD_LITERALS,
};
use crate::Error;

const TOKENS: usize = 1 << 11;
const PLACES: usize = 4 * 8 * 4;
const CLUSTER_ROUNDS: usize = 40;

/// Counts of one width of words.
struct WordCounts {
    token: [Vec<u64>; 2],
    literal: Vec<[u64; 256]>,
    extra: [[u64; 256]; 2],
}

/// All that is counted in a round.
pub struct Counts {
    words: [WordCounts; 2],
    byte_token: [u64; lengths::BYTE_TOKENS],
    byte: Vec<[u64; 256]>,
    /// Literals by the literal before.
    byte_literal: Vec<[u64; 256]>,
    blocks: [u64; 4],
}

impl Counts {
    fn new() -> Counts {
        let words = || WordCounts {
            token: [vec![0; TOKENS], vec![0; TOKENS]],
            literal: vec![[0; 256]; PLACES],
            extra: [[0; 256]; 2],
        };
        Counts {
            words: [words(), words()],
            byte_token: [0; lengths::BYTE_TOKENS],
            byte: vec![[0; 256]; lengths::BYTE_TABLES],
            byte_literal: vec![[0; 256]; 256],
            blocks: [0; 4],
        }
    }

    /// How many blocks each mode had.
    pub fn blocks(&self) -> [u64; 4] {
        self.blocks
    }
}

impl Observer for Counts {
    fn block(&mut self, mode: u8) {
        self.blocks[usize::from(mode)] += 1;
    }
    fn token(&mut self, width: usize, context: usize, token: u16) {
        self.words[width].token[context][usize::from(token)] += 1;
    }
    fn literal(&mut self, width: usize, place: &Place, byte: u8) {
        self.words[width].literal[place.index()][usize::from(byte)] += 1;
    }
    fn extra(&mut self, width: usize, table: usize, byte: u8) {
        self.words[width].extra[table - lengths::OFFSETS][usize::from(byte)] += 1;
    }
    fn byte_token(&mut self, symbol: u8) {
        self.byte_token[usize::from(symbol)] += 1;
    }
    fn byte_literal(&mut self, before: u8, byte: u8) {
        self.byte_literal[usize::from(before)][usize::from(byte)] += 1;
    }
    fn byte(&mut self, table: usize, byte: u8) {
        self.byte[table][usize::from(byte)] += 1;
    }
}

/// The class of a literal of bytes, to begin with: what may follow it.
fn class_of(byte: u8) -> u8 {
    match byte {
        0 => 0,
        b' ' | b'\n' | b'\t' | b'_' | b'-' | b'/' | b'.' => 1,
        b if b.is_ascii_alphabetic() && b"aeiouyAEIOUY".contains(&b) => 2,
        b if b.is_ascii_alphabetic() => 3,
        b'0'..=b'9' => 4,
        33..=126 => 5,
        1..=31 => 6,
        _ => 7,
    }
}

fn token(kind: usize, mask: usize, run: usize) -> usize {
    kind | mask << 3 | run << 9
}

/// Codes that prefer nothing much, to begin with.
pub fn flat_lengths() -> Vec<u8> {
    let mut row = Vec::with_capacity(layout::SIZE);
    for width in [8, 4] {
        let count = lengths::masks(width).len();
        let mut tokens: Vec<usize> = (0..4)
            .flat_map(|run| (0..count).flat_map(move |m| (0..KINDS).map(move |k| token(k, m, run))))
            .collect();
        tokens.truncate(TOKENS_KNOWN);
        push_tokens(&mut row, &tokens);
        row.extend(vec![8; 2 * 256 + lengths::WORD_TABLES * 256]);
        row.extend(vec![0; PLACES]);
        let masks = lengths::masks(width);
        for kind in 0..KINDS {
            for m in 0..MASKS {
                let bytes = masks.get(m).map_or(0, |mask| mask.count_ones());
                let start = if kind < 2 { 8 } else { 14 };
                row.push((start + 12 * bytes) as u8);
            }
        }
    }
    let mut flat = limited_lengths(&[1; lengths::BYTE_TOKENS], lengths::TOKEN_BITS);
    flat.resize(256, 0);
    row.extend(flat);
    row.extend(vec![8; lengths::BYTE_TABLES * 256]);
    row.extend((0..=255).map(class_of));
    row
}

fn push_tokens(row: &mut Vec<u8>, tokens: &[usize]) {
    for k in 0..256 {
        let token = tokens.get(k).copied().unwrap_or(0) as u16;
        row.extend(token.to_le_bytes());
    }
}

/// Counts one and a bit for what never occurred: it may occur elsewhere.
fn smoothed(counts: &[u64]) -> Vec<u64> {
    counts.iter().map(|count| 16 * count + 5).collect()
}

/// Which of the tables each place has: places of like counts together.
fn cluster(places: &[[u64; 256]], tables: usize, mut table_of: Vec<u8>) -> Vec<u8> {
    for _ in 0..CLUSTER_ROUNDS {
        let bits: Vec<Vec<u64>> = merged(places, tables, &table_of)
            .iter()
            .map(bits_of)
            .collect();
        for (place, table) in places.iter().zip(&mut table_of) {
            let cost = |bits: &Vec<u64>| -> u128 {
                let each = place.iter().zip(bits);
                each.map(|(&count, &bits)| u128::from(count) * u128::from(bits))
                    .sum()
            };
            let best = (0..tables).min_by_key(|&k| (cost(&bits[k]), k));
            *table = best.unwrap_or(0) as u8;
        }
    }
    table_of
}

fn merged(places: &[[u64; 256]], tables: usize, table_of: &[u8]) -> Vec<[u64; 256]> {
    let mut sums = vec![[0; 256]; tables];
    for (place, &table) in places.iter().zip(table_of) {
        for (sum, count) in sums[usize::from(table)].iter_mut().zip(place) {
            *sum += count;
        }
    }
    sums
}

/// What each byte would cost an ideal coder, in whole 1/1024 bits.
fn bits_of(counts: &[u64; 256]) -> Vec<u64> {
    let total: u64 = counts.iter().map(|count| 2 * count + 1).sum();
    let bits = |count: u64| log2_1024(total) - log2_1024(2 * count + 1);
    counts.iter().map(|&count| bits(count)).collect()
}

/// 1024 times the logarithm, in integers: no two machines may differ.
fn log2_1024(value: u64) -> u64 {
    let whole = u64::from(value.ilog2());
    let mut fraction = (u128::from(value) << 63) >> whole;
    let mut result = whole;
    for _ in 0..10 {
        fraction = (fraction * fraction) >> 63;
        let bit = fraction >> 64;
        result = result << 1 | bit as u64;
        fraction >>= bit;
    }
    result
}

fn known_tokens(counts: &WordCounts) -> Vec<usize> {
    let sum = |k: usize| counts.token[0][k] + counts.token[1][k];
    let mut order: Vec<usize> = (0..TOKENS).collect();
    order.sort_by_key(|&k| (u64::MAX - sum(k), k));
    order.truncate(TOKENS_KNOWN);
    order.retain(|&k| sum(k) > 0);
    order
}

/// Mean bits of what is counted, doubled.
fn mean_half_bits(counts: impl Iterator<Item = (u64, u64)>) -> u64 {
    let (mut sum, mut total) = (0, 0);
    for (count, bits) in counts {
        sum += 2 * bits * (16 * count + 1);
        total += 16 * count + 1;
    }
    (sum + total / 2) / total.max(1)
}

fn push_words(row: &mut Vec<u8>, counts: &WordCounts, width: usize) {
    let known = known_tokens(counts);
    let mut known_or_not = known.clone();
    // What is known must be a token, if one that never occurs.
    let masks = lengths::masks(width);
    let with_run =
        |run| (0..masks.len()).flat_map(move |m| (0..KINDS).map(move |k| token(k, m, run)));
    let spare = (0..4).flat_map(with_run);
    known_or_not.extend(spare.filter(|token| !known.contains(token)));
    known_or_not.truncate(TOKENS_KNOWN);
    push_tokens(row, &known_or_not);
    let mut token_bits = [[0u64; TOKENS]; 2];
    for (bits, counts) in token_bits.iter_mut().zip(&counts.token) {
        let all: u64 = counts.iter().sum();
        let mut by_symbol: Vec<u64> = known_or_not.iter().map(|&k| counts[k]).collect();
        by_symbol.push(all - by_symbol.iter().sum::<u64>());
        let lengths = limited_lengths(&smoothed(&by_symbol), lengths::TOKEN_BITS);
        bits.fill(u64::from(lengths[TOKENS_KNOWN]) + 11);
        for (&token, &length) in known_or_not.iter().zip(&lengths) {
            bits[token] = u64::from(length);
        }
        row.extend(lengths);
    }
    let start = (0..PLACES).map(|k| (k % WORD_LITERALS) as u8).collect();
    let table_of = cluster(&counts.literal, WORD_LITERALS, start);
    let mut literal_bits = Vec::new();
    for counts in merged(&counts.literal, WORD_LITERALS, &table_of)
        .iter()
        .chain(&counts.extra)
    {
        let lengths = limited_lengths(&smoothed(counts), lengths::LITERAL_BITS);
        row.extend(&lengths);
        literal_bits.push(lengths);
    }
    row.extend(&table_of);
    for kind in 0..KINDS {
        for m in 0..MASKS {
            let mask = masks.get(m).copied().unwrap_or(0);
            let tokens = (0..2).flat_map(|context| {
                let bits = &token_bits[context];
                let counts = &counts.token[context];
                (0..4).map(move |run| {
                    let token = token(kind, m, run);
                    (counts[token], bits[token])
                })
            });
            let mut cost = mean_half_bits(tokens);
            for byte in (0..8).filter(|byte| mask >> byte & 1 != 0) {
                let place = Place {
                    kind: kind as u8,
                    byte,
                    count: mask.count_ones(),
                };
                let bits = &literal_bits[usize::from(table_of[place.index()])];
                let counts = &counts.literal[place.index()];
                cost += mean_half_bits((0..256).map(|k| (counts[k], u64::from(bits[k]))));
            }
            row.push(cost.min(255) as u8);
        }
    }
}

/// The lengths that follow from what was counted.
fn lengths_of(counts: &Counts) -> Vec<u8> {
    let mut row = Vec::with_capacity(layout::SIZE);
    push_words(&mut row, &counts.words[0], 8);
    push_words(&mut row, &counts.words[1], 4);
    let mut token = limited_lengths(&smoothed(&counts.byte_token), lengths::TOKEN_BITS);
    token.resize(256, 0);
    row.extend(token);
    let start = (0..=255).map(class_of).collect();
    let classes = cluster(&counts.byte_literal, CLASSES, start);
    let literals = merged(&counts.byte_literal, CLASSES, &classes);
    for counts in literals.iter().chain(&counts.byte[CLASSES..]) {
        row.extend(limited_lengths(&smoothed(counts), lengths::LITERAL_BITS));
    }
    row.extend(classes);
    row
}

/// One round: what the objects of these pages say, encoded with `row`.
///
/// `encode` gives nothing for a page that does not get smaller.
pub fn round<'a>(
    row: &[u8],
    pages: impl Iterator<Item = &'a [u8]>,
    mut encode: impl FnMut(&[u8]) -> Option<Vec<u8>>,
) -> Result<(Vec<u8>, Counts), Error> {
    let codes = Lengths::new(row)?;
    let mut counts = Counts::new();
    for page in pages {
        let Some(object) = encode(page) else { continue };
        let back = decode(&codes, &object, page.len().max(BLOCK), &mut counts)?;
        if back != page {
            return Err(Error::Damaged);
        }
    }
    Ok((lengths_of(&counts), counts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_integer_logarithm_is_the_logarithm() {
        for value in [1u64, 2, 3, 7, 100, 12345, 1 << 40, u64::MAX >> 1] {
            let exact = (value as f64).log2() * 1024.0;
            assert!((log2_1024(value) as f64 - exact).abs() <= 2.0, "{value}");
        }
    }

    #[test]
    fn flat_lengths_are_lengths() {
        assert_eq!(flat_lengths().len(), layout::SIZE);
        Lengths::new(&flat_lengths()).unwrap();
    }
}
