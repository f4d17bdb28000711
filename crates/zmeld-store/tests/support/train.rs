//! Code lengths from pages.
//!
//! The encoder parses by what codes cost, and codes follow from how it parses;
//! so pages are encoded and counted in rounds, each with the codes of the round
//! before. Counts are whole numbers and ties go by the symbol: the same pages in
//! the same order give the same lengths on every machine.

use crate::zword::code::limited_lengths;
use crate::zword::decoder::{decode, Observer, BLOCK};
use crate::zword::lengths::{
    self, layout, Lengths, LiteralPlace, CLASSES, CONTEXTS, KINDS, MASKS, SETS, TOKENS_KNOWN,
    WORD_LITERALS,
};
use crate::zword::Error;

const TOKENS: usize = 1 << 11;
const PLACES: usize = 4 * 8 * 4;
const CLUSTER_ROUNDS: usize = 40;

/// Sizes of objects up to which the first sets go, before pages choose.
const SPLIT: [usize; SETS[0] - 1] = [200, 500, 900];
/// How many symbols of all sets stand beside those of one.
const PRIOR: u128 = 64;

/// Counts of one set of one width of words.
#[derive(Clone)]
struct WordCounts {
    token: Vec<Vec<u64>>,
    literal: Vec<[u64; 256]>,
    extra: [[u64; 256]; 2],
}

/// Counts of one set of bytes.
#[derive(Clone)]
struct ByteCounts {
    token: [u64; lengths::BYTE_TOKENS],
    table: Vec<[u64; 256]>,
    /// Literals by the literal before.
    literal: Vec<[u64; 256]>,
}

/// All that is counted in a round.
pub struct Counts {
    words: [Vec<WordCounts>; 2],
    bytes: Vec<ByteCounts>,
    blocks: [u64; 4],
    set: usize,
    /// Of the block to come, whatever set it has.
    forced: Option<usize>,
}

impl Counts {
    fn new() -> Counts {
        let words = WordCounts {
            token: vec![vec![0; TOKENS]; CONTEXTS],
            literal: vec![[0; 256]; PLACES],
            extra: [[0; 256]; 2],
        };
        let bytes = ByteCounts {
            token: [0; lengths::BYTE_TOKENS],
            table: vec![[0; 256]; lengths::BYTE_TABLES],
            literal: vec![[0; 256]; 256],
        };
        Counts {
            words: [vec![words.clone(); SETS[0]], vec![words; SETS[1]]],
            bytes: vec![bytes; SETS[2]],
            blocks: [0; 4],
            set: 0,
            forced: None,
        }
    }

    /// How many blocks each mode had.
    pub fn blocks(&self) -> [u64; 4] {
        self.blocks
    }
}

impl Observer for Counts {
    fn block(&mut self, mode: u8, set: usize) {
        self.blocks[usize::from(mode)] += 1;
        let most = SETS.get(usize::from(mode)).map_or(0, |sets| sets - 1);
        self.set = self.forced.unwrap_or(set).min(most);
    }
    fn token(&mut self, width: usize, context: usize, token: u16) {
        self.words[width][self.set].token[context][usize::from(token)] += 1;
    }
    fn literal(&mut self, width: usize, place: &LiteralPlace, byte: u8) {
        self.words[width][self.set].literal[place.index()][usize::from(byte)] += 1;
    }
    fn extra(&mut self, width: usize, table: usize, byte: u8) {
        self.words[width][self.set].extra[table - lengths::OFFSETS][usize::from(byte)] += 1;
    }
    fn byte_token(&mut self, symbol: u8) {
        self.bytes[self.set].token[usize::from(symbol)] += 1;
    }
    fn byte_literal(&mut self, before: u8, byte: u8) {
        self.bytes[self.set].literal[usize::from(before)][usize::from(byte)] += 1;
    }
    fn byte(&mut self, table: usize, byte: u8) {
        self.bytes[self.set].table[table][usize::from(byte)] += 1;
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
    for (width, sets) in [(8, SETS[0]), (4, SETS[1])] {
        let count = lengths::masks(width).len();
        let mut tokens: Vec<usize> = (0..4)
            .flat_map(|run| (0..count).flat_map(move |m| (0..KINDS).map(move |k| token(k, m, run))))
            .collect();
        tokens.truncate(TOKENS_KNOWN);
        push_tokens(&mut row, &tokens);
        row.extend(vec![0; PLACES]);
        let masks = lengths::masks(width);
        for kind in 0..KINDS {
            for m in 0..MASKS {
                let bytes = masks.get(m).map_or(0, |mask| mask.count_ones());
                let start = if kind < 2 { 8 } else { 14 };
                row.push((start + 12 * bytes) as u8);
            }
        }
        row.extend(vec![8; sets * layout::WORD_SET]);
    }
    row.extend((0..=255).map(class_of));
    for _ in 0..SETS[2] {
        let mut flat = limited_lengths(&[1; lengths::BYTE_TOKENS], lengths::BYTE_TOKEN_BITS);
        flat.resize(256, 0);
        row.extend(flat);
        row.extend(vec![8; lengths::BYTE_TABLES * 256]);
    }
    row
}

fn push_tokens(row: &mut Vec<u8>, tokens: &[usize]) {
    for k in 0..256 {
        let token = tokens.get(k).copied().unwrap_or(0) as u16;
        row.extend(token.to_le_bytes());
    }
}

/// Counts one and a bit for what never occurred, and what occurs in other sets: it
/// may occur elsewhere.
fn smoothed(counts: &[u64], all: &[u64]) -> Vec<u64> {
    let total = u128::from(all.iter().sum::<u64>().max(1));
    let prior = |count: u64| (16 * PRIOR * u128::from(count) / total) as u64;
    let each = counts.iter().zip(all);
    each.map(|(&count, &all)| 16 * count + prior(all) + 5)
        .collect()
}

fn sum_rows<const N: usize>(rows: impl Iterator<Item = [u64; N]>) -> [u64; N] {
    rows.fold([0; N], |mut sum, row| {
        for (sum, count) in sum.iter_mut().zip(row) {
            *sum += count;
        }
        sum
    })
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

/// Cost of each byte for an ideal coder, in whole 1/1024 bits.
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

fn known_tokens(sets: &[WordCounts]) -> Vec<usize> {
    let tables = || sets.iter().flat_map(|set| &set.token);
    let sum = |k: usize| tables().map(|table| table[k]).sum::<u64>();
    let sums: Vec<u64> = (0..TOKENS).map(sum).collect();
    let mut order: Vec<usize> = (0..TOKENS).collect();
    order.sort_by_key(|&k| (u64::MAX - sums[k], k));
    order.truncate(TOKENS_KNOWN);
    order.retain(|&k| sums[k] > 0);
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

/// Counts of the known tokens, and of all others together.
fn by_symbol(known: &[usize], counts: &[u64]) -> Vec<u64> {
    let mut by_symbol: Vec<u64> = known.iter().map(|&k| counts[k]).collect();
    by_symbol.push(counts.iter().sum::<u64>() - by_symbol.iter().sum::<u64>());
    by_symbol
}

/// Cost of a width's symbols, by set.
struct WordBits {
    /// By context and token.
    token: Vec<Vec<u64>>,
    /// By table.
    literal: Vec<Vec<u8>>,
}

/// The code lengths of a set, and what follows from them.
fn push_word_set(
    row: &mut Vec<u8>,
    known: &[usize],
    table_of: &[u8],
    set: &WordCounts,
    sets: &[WordCounts],
) -> WordBits {
    let mut bits = WordBits {
        token: vec![vec![0; TOKENS]; CONTEXTS],
        literal: Vec::new(),
    };
    for context in 0..CONTEXTS {
        let mut all = vec![0; TOKENS_KNOWN + 1];
        for set in sets {
            let one = by_symbol(known, &set.token[context]);
            all.iter_mut().zip(one).for_each(|(sum, one)| *sum += one);
        }
        let counts = by_symbol(known, &set.token[context]);
        let lengths = limited_lengths(&smoothed(&counts, &all), lengths::TOKEN_BITS);
        let bits = &mut bits.token[context];
        bits.fill(u64::from(lengths[TOKENS_KNOWN]) + 11);
        for (&token, &length) in known.iter().zip(&lengths) {
            bits[token] = u64::from(length);
        }
        row.extend(lengths);
    }
    let tables = |set: &WordCounts| {
        let mut tables = merged(&set.literal, WORD_LITERALS, table_of);
        tables.extend(set.extra);
        tables
    };
    let of_sets: Vec<_> = sets.iter().map(tables).collect();
    for (k, counts) in tables(set).iter().enumerate() {
        let all = sum_rows(of_sets.iter().map(|tables| tables[k]));
        let lengths = limited_lengths(&smoothed(counts, &all), lengths::LITERAL_BITS);
        row.extend(&lengths);
        bits.literal.push(lengths);
    }
    bits
}

/// Cost of a kind with a mask, over all sets.
fn cost_of(
    kind: usize,
    m: usize,
    mask: u8,
    table_of: &[u8],
    sets: &[WordCounts],
    bits: &[WordBits],
) -> u8 {
    let each = || sets.iter().zip(bits);
    let tokens = each().flat_map(|(counts, bits)| {
        (0..CONTEXTS).flat_map(move |context| {
            (0..4).map(move |run| {
                let token = token(kind, m, run);
                (counts.token[context][token], bits.token[context][token])
            })
        })
    });
    let mut cost = mean_half_bits(tokens);
    for byte in (0..8).filter(|byte| mask >> byte & 1 != 0) {
        let place = LiteralPlace {
            kind: kind as u8,
            byte,
            count: mask.count_ones(),
        };
        let table = usize::from(table_of[place.index()]);
        cost += mean_half_bits(each().flat_map(|(counts, bits)| {
            let counts = &counts.literal[place.index()];
            (0..256).map(move |k| (counts[k], u64::from(bits.literal[table][k])))
        }));
    }
    cost.min(255) as u8
}

fn push_words(row: &mut Vec<u8>, sets: &[WordCounts], width: usize) {
    let mut known = known_tokens(sets);
    // Known entries must be tokens, if ones that never occur.
    let masks = lengths::masks(width);
    let with_run =
        |run| (0..masks.len()).flat_map(move |m| (0..KINDS).map(move |k| token(k, m, run)));
    let spare: Vec<usize> = (0..4)
        .flat_map(with_run)
        .filter(|token| !known.contains(token))
        .collect();
    known.extend(spare);
    known.truncate(TOKENS_KNOWN);
    push_tokens(row, &known);
    let places: Vec<[u64; 256]> = (0..PLACES)
        .map(|place| sum_rows(sets.iter().map(|set| set.literal[place])))
        .collect();
    let start = (0..PLACES).map(|k| (k % WORD_LITERALS) as u8).collect();
    let table_of = cluster(&places, WORD_LITERALS, start);
    row.extend(&table_of);
    let mut rows = Vec::new();
    let bits: Vec<WordBits> = sets
        .iter()
        .map(|set| push_word_set(&mut rows, &known, &table_of, set, sets))
        .collect();
    for kind in 0..KINDS {
        for m in 0..MASKS {
            let mask = masks.get(m).copied().unwrap_or(0);
            row.push(cost_of(kind, m, mask, &table_of, sets, &bits));
        }
    }
    row.extend(rows);
}

fn push_bytes(row: &mut Vec<u8>, sets: &[ByteCounts]) {
    let start = (0..=255).map(class_of).collect();
    let literals: Vec<[u64; 256]> = (0..256)
        .map(|before| sum_rows(sets.iter().map(|set| set.literal[before])))
        .collect();
    let classes = cluster(&literals, CLASSES, start);
    row.extend(&classes);
    let tables = |set: &ByteCounts| {
        let mut tables = merged(&set.literal, CLASSES, &classes);
        tables.extend_from_slice(&set.table[CLASSES..]);
        tables
    };
    let all_tokens = sum_rows(sets.iter().map(|set| set.token));
    let of_sets: Vec<_> = sets.iter().map(tables).collect();
    for (set, tables) in sets.iter().zip(&of_sets) {
        let smooth = smoothed(&set.token, &all_tokens);
        let mut token = limited_lengths(&smooth, lengths::BYTE_TOKEN_BITS);
        token.resize(256, 0);
        row.extend(token);
        for (k, counts) in tables.iter().enumerate() {
            let all = sum_rows(of_sets.iter().map(|tables| tables[k]));
            row.extend(limited_lengths(
                &smoothed(counts, &all),
                lengths::LITERAL_BITS,
            ));
        }
    }
}

/// The lengths that follow from what was counted.
fn lengths_of(counts: &Counts) -> Vec<u8> {
    let mut row = Vec::with_capacity(layout::SIZE);
    push_words(&mut row, &counts.words[0], 8);
    push_words(&mut row, &counts.words[1], 4);
    push_bytes(&mut row, &counts.bytes);
    row
}

/// Basis of a page's set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// The size of its object: what makes sets differ to begin with.
    Size,
    /// The encoder.
    Encoder,
}

/// One round: what the objects of these pages say, encoded with `row`.
///
/// `encode` gives nothing for a page that does not get smaller.
pub fn round<'a>(
    row: &[u8],
    choice: Choice,
    pages: impl Iterator<Item = &'a [u8]>,
    mut encode: impl FnMut(&[u8]) -> Option<Vec<u8>>,
) -> Result<(Vec<u8>, Counts), Error> {
    let codes = Lengths::new(row)?;
    let mut counts = Counts::new();
    for page in pages {
        let Some(object) = encode(page) else { continue };
        counts.forced = match choice {
            Choice::Size => Some(SPLIT.iter().filter(|&&size| object.len() > size).count()),
            Choice::Encoder => None,
        };
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
