//! The trained lengths in one row of bytes, as `docs/zword.md` lays them out.

use crate::code::Code;
use crate::Error;

/// Kinds of reference.
pub const KINDS: usize = 5;
/// Tokens of words that have codes.
pub const TOKENS_KNOWN: usize = 255;
/// The symbol before any other token.
pub const ESCAPE: u8 = 255;
/// Masks of words of 64 bits; those of 32 bits have 16.
pub const MASKS: usize = 48;
/// Tables for the bytes of words.
pub const WORD_LITERALS: usize = 5;
/// The table of near offsets.
pub const OFFSETS: usize = 5;
/// The table of long runs, and of both bytes of a far offset.
pub const RUNS: usize = 6;
/// All tables of words.
pub const WORD_TABLES: usize = 7;
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
/// Bits of the longest code of a token, and of anything else.
pub const TOKEN_BITS: u8 = 10;
/// The same of a literal.
pub const LITERAL_BITS: u8 = 9;

/// Where things stand in the part of one width of words.
pub mod layout {
    use super::{BYTE_TABLES, KINDS, MASKS, WORD_TABLES};

    /// Known tokens, two bytes each.
    pub const SYMBOLS: usize = 0;
    /// Token lengths by context.
    pub const TOKENS: usize = 512;
    /// Literal lengths by table.
    pub const LITERALS: usize = TOKENS + 2 * 256;
    /// Table by group, place and count.
    pub const TABLE_OF: usize = LITERALS + WORD_TABLES * 256;
    /// What a kind with a mask costs; for encoders.
    pub const COSTS: usize = TABLE_OF + 4 * 8 * 4;
    /// Bytes for one width.
    pub const WORDS: usize = COSTS + KINDS * MASKS;
    /// Literal, offset and length tables of bytes.
    pub const BYTE_TABLES_AT: usize = 256;
    /// Class of each byte.
    pub const CLASS_OF: usize = BYTE_TABLES_AT + BYTE_TABLES * 256;
    /// All.
    pub const SIZE: usize = 2 * WORDS + CLASS_OF + 256;
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

/// Codes of one width of words.
#[derive(Debug, Clone)]
pub struct WordCodes {
    /// The known tokens.
    pub tokens: Vec<u16>,
    /// By context.
    pub token: [Code; 2],
    /// By table.
    pub literal: Vec<Code>,
    table_of: Vec<u8>,
}

impl WordCodes {
    fn new(bytes: &[u8]) -> Result<WordCodes, Error> {
        let row = |at: usize| &bytes[at..at + 256];
        let code = |at: usize| Code::new(row(at), TOKEN_BITS);
        Ok(WordCodes {
            tokens: bytes[..2 * TOKENS_KNOWN]
                .chunks(2)
                .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
                .collect(),
            token: [code(layout::TOKENS)?, code(layout::TOKENS + 256)?],
            literal: (0..WORD_TABLES)
                .map(|k| Code::new(row(layout::LITERALS + 256 * k), LITERAL_BITS))
                .collect::<Result<_, _>>()?,
            table_of: bytes[layout::TABLE_OF..layout::COSTS].to_vec(),
        })
    }

    /// The table of a literal by its place.
    pub fn table_of(&self, place: &Place) -> usize {
        usize::from(self.table_of[place.index()])
    }
}

/// What is known of a literal of a word before it is read.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// The kind of its token.
    pub kind: u8,
    /// Which byte of the word it is, 0 the lowest.
    pub byte: usize,
    /// How many bytes of the word are told.
    pub count: u32,
}

impl Place {
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

/// All codes.
#[derive(Debug, Clone)]
pub struct Lengths {
    /// 64 bits, 32 bits.
    pub words: [WordCodes; 2],
    /// Tokens of bytes.
    pub byte_token: Code,
    /// Tables of bytes.
    pub byte_table: Vec<Code>,
    /// The class of a literal.
    pub class_of: Vec<u8>,
}

impl Lengths {
    /// From the row of bytes.
    pub fn new(bytes: &[u8]) -> Result<Lengths, Error> {
        if bytes.len() != layout::SIZE {
            return Err(Error::Lengths);
        }
        let (wide, rest) = bytes.split_at(layout::WORDS);
        let (narrow, rest) = rest.split_at(layout::WORDS);
        let class_of = rest[layout::CLASS_OF..].to_vec();
        if class_of.iter().any(|&class| usize::from(class) >= CLASSES) {
            return Err(Error::Lengths);
        }
        Ok(Lengths {
            words: [WordCodes::new(wide)?, WordCodes::new(narrow)?],
            byte_token: Code::new(&rest[..BYTE_TOKENS], TOKEN_BITS)?,
            byte_table: (0..BYTE_TABLES)
                .map(|k| {
                    let at = layout::BYTE_TABLES_AT + 256 * k;
                    Code::new(&rest[at..at + 256], LITERAL_BITS)
                })
                .collect::<Result<_, _>>()?,
            class_of,
        })
    }
}
