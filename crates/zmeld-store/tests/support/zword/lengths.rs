//! The trained lengths in one row of bytes, as `docs/zword.md` lays them out.

use super::code::Code;
use super::Error;

/// Kinds of reference.
pub const KINDS: usize = 5;
/// Tokens of words that have codes.
pub const TOKENS_KNOWN: usize = 255;
/// The symbol before any other token.
pub const ESCAPE: u8 = 255;
/// Masks of words of 64 bits; those of 32 bits have 16.
pub const MASKS: usize = 48;
/// Sets of codes that a block chooses from, by mode: words of 64 bits, of 32, bytes.
pub const SETS: [usize; 3] = [4, 1, 4];
/// Contexts of a token of words.
pub const CONTEXTS: usize = 4;
/// Tables for the bytes of words.
pub const WORD_LITERALS: usize = 8;
/// The table of near offsets.
pub const OFFSETS: usize = 8;
/// The table of long runs, and of both bytes of a far offset.
pub const RUNS: usize = 9;
/// All tables of words.
pub const WORD_TABLES: usize = 10;
/// Classes of the literal before, in bytes.
pub const CLASSES: usize = 8;
/// The table of near offsets, in bytes.
pub const BYTE_NEAR: usize = 8;
/// The table of the high byte of far offsets.
pub const BYTE_FAR: usize = 9;
/// The table of lengths.
pub const BYTE_LENGTH: usize = 10;
/// All tables of bytes.
pub const BYTE_TABLES: usize = 11;
/// Tokens of bytes.
pub const BYTE_TOKENS: usize = 8 * 9 * 3 + 8;
/// Bits of the longest code of a token of words.
pub const TOKEN_BITS: u8 = 10;
/// The same of a token of bytes.
pub const BYTE_TOKEN_BITS: u8 = 10;
/// The same of a literal, and of anything else.
pub const LITERAL_BITS: u8 = 10;

/// Offsets in a row.
pub mod layout {
    use super::{BYTE_TABLES, CONTEXTS, KINDS, MASKS, SETS, WORD_TABLES};

    /// Behind the known tokens: table by group, place and count.
    pub const TABLE_OF: usize = 512;
    /// Cost of a kind with a mask; for encoders.
    pub const COSTS: usize = TABLE_OF + 4 * 8 * 4;
    /// The sets of one width.
    pub const WORD_SETS: usize = COSTS + KINDS * MASKS;
    /// Bytes of a set: token lengths by context, literal lengths by table.
    pub const WORD_SET: usize = (CONTEXTS + WORD_TABLES) * 256;
    /// Words of 32 bits, behind those of 64.
    pub const WORDS_32: usize = WORD_SETS + SETS[0] * WORD_SET;
    /// Bytes, behind both.
    pub const BYTES: usize = WORDS_32 + WORD_SETS + SETS[1] * WORD_SET;
    /// The sets of bytes, behind the class of each byte.
    pub const BYTE_SETS: usize = 256;
    /// Bytes of a set: token lengths, then lengths by table.
    pub const BYTE_SET: usize = (1 + BYTE_TABLES) * 256;
    /// All.
    pub const SIZE: usize = BYTES + BYTE_SETS + SETS[2] * BYTE_SET;
}

/// The context of a token behind one of this kind.
pub fn context_of(kind: u8) -> usize {
    usize::from(if kind <= 2 { kind } else { kind - 1 })
}

/// Which bytes of a word are told, by index of the mask.
pub fn masks(width: usize) -> Vec<u8> {
    if width == 4 {
        return (0..16).collect();
    }
    let ranges = (0..8u32)
        .flat_map(|first| (first..8).map(move |last| (0xff >> (7 - last)) & (0xff << first)));
    let mut masks = vec![0u8];
    masks.extend(ranges.map(|mask: u32| mask as u8));
    masks.extend([
        0x05, 0x09, 0x11, 0x21, 0x13, 0x31, 0x33, 0x50, 0x90, 0x77, 0x0d,
    ]);
    masks
}

/// A set of codes of words.
#[derive(Debug, Clone)]
pub struct WordSet {
    /// By context.
    pub token: Vec<Code>,
    /// By table.
    pub literal: Vec<Code>,
}

/// Codes of one width of words.
#[derive(Debug, Clone)]
pub struct WordCodes {
    /// The known tokens.
    pub tokens: Vec<u16>,
    /// The sets of codes.
    pub sets: Vec<WordSet>,
    table_of: Vec<u8>,
}

fn codes(bytes: &[u8], bits: u8) -> Result<Vec<Code>, Error> {
    bytes.chunks(256).map(|row| Code::new(row, bits)).collect()
}

impl WordCodes {
    fn new(bytes: &[u8]) -> Result<WordCodes, Error> {
        let set = |bytes: &[u8]| {
            let (tokens, literals) = bytes.split_at(CONTEXTS * 256);
            Ok(WordSet {
                token: codes(tokens, TOKEN_BITS)?,
                literal: codes(literals, LITERAL_BITS)?,
            })
        };
        Ok(WordCodes {
            tokens: bytes[..2 * TOKENS_KNOWN]
                .chunks(2)
                .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
                .collect(),
            sets: bytes[layout::WORD_SETS..]
                .chunks(layout::WORD_SET)
                .map(set)
                .collect::<Result<_, _>>()?,
            table_of: bytes[layout::TABLE_OF..layout::COSTS].to_vec(),
        })
    }

    /// The table of a literal by its place.
    pub fn table_of(&self, place: &LiteralPlace) -> usize {
        usize::from(self.table_of[place.index()])
    }
}

/// Context of a literal of a word before it is read.
#[derive(Debug, Clone, Copy)]
pub struct LiteralPlace {
    /// The kind of its token.
    pub kind: u8,
    /// Which byte of the word it is, 0 the lowest.
    pub byte: usize,
    /// How many bytes of the word are told.
    pub count: u32,
}

impl LiteralPlace {
    /// Which of the 128.
    pub fn index(&self) -> usize {
        let group = match self.kind {
            0 => 0,
            1 => 1,
            4 => 3,
            _ => 2,
        };
        let class = match self.count {
            0 | 1 => 0,
            2 => 1,
            3 | 4 => 2,
            _ => 3,
        };
        (group * 8 + self.byte) * 4 + class
    }
}

/// A set of codes of bytes.
#[derive(Debug, Clone)]
pub struct ByteSet {
    /// Tokens.
    pub token: Code,
    /// By table.
    pub table: Vec<Code>,
}

/// All codes.
#[derive(Debug, Clone)]
pub struct Lengths {
    /// 64 bits, 32 bits.
    pub words: [WordCodes; 2],
    /// The sets of bytes.
    pub bytes: Vec<ByteSet>,
    /// The class of a literal.
    pub class_of: Vec<u8>,
}

impl Lengths {
    /// From the row of bytes.
    pub fn new(bytes: &[u8]) -> Result<Lengths, Error> {
        if bytes.len() != layout::SIZE {
            return Err(Error::Lengths);
        }
        let (words, rest) = bytes.split_at(layout::BYTES);
        let (wide, narrow) = words.split_at(layout::WORDS_32);
        let (class_of, sets) = rest.split_at(layout::BYTE_SETS);
        if class_of.iter().any(|&class| usize::from(class) >= CLASSES) {
            return Err(Error::Lengths);
        }
        let set = |bytes: &[u8]| {
            Ok(ByteSet {
                token: Code::new(&bytes[..BYTE_TOKENS], BYTE_TOKEN_BITS)?,
                table: codes(&bytes[256..], LITERAL_BITS)?,
            })
        };
        Ok(Lengths {
            words: [WordCodes::new(wide)?, WordCodes::new(narrow)?],
            bytes: sets
                .chunks(layout::BYTE_SET)
                .map(set)
                .collect::<Result<_, _>>()?,
            class_of: class_of.to_vec(),
        })
    }
}
