//! From an object to a page.

use super::code::Bits;
use super::lengths::{self, Lengths, LiteralPlace, ESCAPE};
use super::Error;

/// Bytes of a block.
pub const BLOCK: usize = 4096;

/// Streams of a block of words, and of one of bytes.
const STREAMS: [usize; 2] = [6, 7];

const KIND_ZERO: u8 = 1;
const KIND_NEAR: u8 = 2;
const KIND_FAR: u8 = 3;
const KIND_LINEAR: u8 = 4;

/// Observer of what is read. `width` is 0 for 64 bits, 1 for 32.
pub trait Observer {
    /// A block begins: its mode, and the set of codes that the rest is of.
    fn block(&mut self, _mode: u8, _set: usize) {}
    /// A token of words, behind one of that context.
    fn token(&mut self, _width: usize, _context: usize, _token: u16) {}
    /// A literal of a word.
    fn literal(&mut self, _width: usize, _place: &LiteralPlace, _byte: u8) {}
    /// An offset's or a run's byte, of that table.
    fn extra(&mut self, _width: usize, _table: usize, _byte: u8) {}
    /// A token of bytes.
    fn byte_token(&mut self, _symbol: u8) {}
    /// A literal of bytes, behind that literal of its lane.
    fn byte_literal(&mut self, _before: u8, _byte: u8) {}
    /// Whatever else there is of bytes, by table.
    fn byte(&mut self, _table: usize, _byte: u8) {}
}

/// Nobody does.
impl Observer for () {}

/// The page of `size` bytes that an object holds.
pub fn decode(
    lengths: &Lengths,
    mut object: &[u8],
    size: usize,
    observer: &mut dyn Observer,
) -> Result<Vec<u8>, Error> {
    if size == 0 || !size.is_multiple_of(BLOCK) || size > 16 * BLOCK {
        return Err(Error::Damaged);
    }
    if object.len() > size + size / 512 {
        return Err(Error::Damaged);
    }
    let mut page = Vec::with_capacity(size);
    while page.len() < size {
        let mut block = object;
        if page.len() + BLOCK < size {
            let (head, rest) = object.split_at_checked(2).ok_or(Error::Damaged)?;
            let length = usize::from(u16::from_le_bytes([head[0], head[1]]));
            (block, object) = rest.split_at_checked(length).ok_or(Error::Damaged)?;
        }
        decode_block(lengths, block, &mut page, observer)?;
    }
    Ok(page)
}

struct Header<'a> {
    mode: u8,
    set: usize,
    count: usize,
    tokens: &'a [u8],
    /// Of words the second half of the tokens, of bytes the offsets.
    second: &'a [u8],
    /// Of bytes only.
    counts: &'a [u8],
    lanes: [&'a [u8]; 4],
}

fn header(block: &[u8]) -> Result<Header<'_>, Error> {
    let first = usize::from(u16::from_le_bytes([
        *block.first().ok_or(Error::Damaged)?,
        *block.get(1).ok_or(Error::Damaged)?,
    ]));
    let mut header = Header {
        mode: (first & 3) as u8,
        set: first >> 3 & 3,
        count: first >> 5,
        tokens: &[],
        second: &[],
        counts: &[],
        lanes: [&[]; 4],
    };
    if header.mode == 3 {
        header.tokens = &block[2..];
        return if first == 3 {
            Ok(header)
        } else {
            Err(Error::Damaged)
        };
    }
    let each = if first & 4 != 0 { 2 } else { 1 };
    let streams = STREAMS[usize::from(header.mode == 2)];
    let sizes = (streams - 1) * each;
    let mut rest = block.get(2 + sizes..).ok_or(Error::Damaged)?;
    let mut parts: Vec<&[u8]> = Vec::new();
    for size in block[2..2 + sizes].chunks(each) {
        let size = usize::from(size[0]) | usize::from(*size.get(1).unwrap_or(&0)) << 8;
        let (part, behind) = rest.split_at_checked(size).ok_or(Error::Damaged)?;
        parts.push(part);
        rest = behind;
    }
    parts.push(rest);
    header.tokens = parts[0];
    header.second = parts[1];
    if streams == 7 {
        header.counts = parts[2];
    }
    header.lanes.copy_from_slice(&parts[streams - 4..]);
    Ok(header)
}

fn decode_block(
    lengths: &Lengths,
    block: &[u8],
    page: &mut Vec<u8>,
    observer: &mut dyn Observer,
) -> Result<(), Error> {
    let header = header(block)?;
    let sets = lengths::SETS.get(usize::from(header.mode));
    if sets.is_some_and(|&sets| header.set >= sets) {
        return Err(Error::Damaged);
    }
    observer.block(header.mode, header.set);
    match header.mode {
        3 if header.tokens.len() == BLOCK => page.extend_from_slice(header.tokens),
        3 => return Err(Error::Damaged),
        2 => decode_bytes(lengths, &header, page, observer)?,
        mode => decode_words(lengths, &header, usize::from(mode), page, observer)?,
    }
    Ok(())
}

fn read_tokens(
    lengths: &Lengths,
    header: &Header<'_>,
    width: usize,
    observer: &mut dyn Observer,
) -> Result<Vec<u16>, Error> {
    let codes = &lengths.words[width];
    let set = &codes.sets[header.set];
    let mut tokens = Vec::new();
    let second = header.count / 2;
    for (stream, count) in [
        (header.tokens, header.count - second),
        (header.second, second),
    ] {
        let mut bits = Bits::new(stream);
        let mut context = 0;
        for _ in 0..count {
            let symbol = set.token[context].read(&mut bits)?;
            let token = match symbol {
                ESCAPE => bits.read(11)? as u16,
                known => codes.tokens[usize::from(known)],
            };
            if usize::from(token & 7) >= lengths::KINDS {
                return Err(Error::Damaged);
            }
            observer.token(width, context, token);
            context = lengths::context_of((token & 7) as u8);
            tokens.push(token);
        }
        if !bits.is_used_up() {
            return Err(Error::Damaged);
        }
    }
    Ok(tokens)
}

/// Four lanes, from which literals are taken in turn.
struct Lanes<'a> {
    lanes: [Bits<'a>; 4],
    next: usize,
}

impl Lanes<'_> {
    fn take(&mut self, code: &super::code::Code) -> Result<u8, Error> {
        let byte = code.read(&mut self.lanes[self.next % 4])?;
        self.next += 1;
        Ok(byte)
    }
}

fn word_at(page: &[u8], at: usize, back: usize, bytes: usize) -> u64 {
    let Some(from) = at.checked_sub(back) else {
        return 0;
    };
    let mut word = [0; 8];
    word[..bytes].copy_from_slice(&page[from..from + bytes]);
    u64::from_le_bytes(word)
}

fn decode_words(
    lengths: &Lengths,
    header: &Header<'_>,
    width: usize,
    page: &mut Vec<u8>,
    observer: &mut dyn Observer,
) -> Result<(), Error> {
    let bytes = if width == 0 { 8 } else { 4 };
    let masks = lengths::masks(bytes);
    let codes = &lengths.words[width];
    let set = &codes.sets[header.set];
    if header.count > BLOCK / bytes {
        return Err(Error::Damaged);
    }
    let tokens = read_tokens(lengths, header, width, observer)?;
    let mut lanes = Lanes {
        lanes: header.lanes.map(Bits::new),
        next: 0,
    };
    let end = page.len() + BLOCK;
    let mut back = bytes;
    for token in tokens {
        let (kind, mask, run) = ((token & 7) as u8, usize::from(token >> 3 & 63), token >> 9);
        let mask = *masks.get(mask).ok_or(Error::Damaged)?;
        let mut differ = 0u64;
        for byte in 0..bytes {
            if mask >> byte & 1 == 0 {
                continue;
            }
            let place = LiteralPlace {
                kind,
                byte,
                count: mask.count_ones(),
            };
            let literal = lanes.take(&set.literal[codes.table_of(&place)])?;
            observer.literal(width, &place, literal);
            let digit = match kind {
                KIND_ZERO => i64::from(literal),
                _ => i64::from(literal) - 128,
            };
            differ = differ.wrapping_add((digit << (8 * byte)) as u64);
        }
        let mut run = usize::from(run);
        let mut extra = |table: usize| {
            let byte = lanes.take(&set.literal[table])?;
            observer.extra(width, table, byte);
            Ok(usize::from(byte))
        };
        match kind {
            KIND_NEAR => back = bytes * (1 + extra(lengths::OFFSETS)?),
            KIND_FAR => {
                let low = extra(lengths::RUNS)?;
                back = bytes * (1 + low + 256 * extra(lengths::RUNS)?);
            }
            _ => {}
        }
        if run == 3 {
            run += extra(lengths::RUNS)?;
        }
        let at = page.len();
        let mut reference = match kind {
            KIND_ZERO => 0,
            _ => word_at(page, at, back, bytes),
        };
        if kind == KIND_LINEAR {
            reference =
                (2u64.wrapping_mul(reference)).wrapping_sub(word_at(page, at, 2 * back, bytes));
        }
        let word = reference.wrapping_add(differ).to_le_bytes();
        if at + bytes * (1 + run) > end {
            return Err(Error::Damaged);
        }
        page.extend_from_slice(&word[..bytes]);
        for _ in 0..run {
            let word = match kind {
                KIND_ZERO => 0,
                _ => word_at(page, page.len(), back, bytes),
            };
            page.extend_from_slice(&word.to_le_bytes()[..bytes]);
        }
    }
    if page.len() != end || !lanes.lanes.iter().all(Bits::is_used_up) {
        return Err(Error::Damaged);
    }
    Ok(())
}

fn read_literals(
    lengths: &Lengths,
    header: &Header<'_>,
    count: usize,
    observer: &mut dyn Observer,
) -> Result<Vec<u8>, Error> {
    let quarter = count.div_ceil(4);
    let mut literals = Vec::new();
    for (k, lane) in header.lanes.iter().enumerate() {
        let mut bits = Bits::new(lane);
        let mut before = 0;
        let count = count.saturating_sub(k * quarter).min(quarter);
        for _ in 0..count {
            let class = lengths.class_of[usize::from(before)];
            let byte = lengths.bytes[header.set].table[usize::from(class)].read(&mut bits)?;
            observer.byte_literal(before, byte);
            before = byte;
            literals.push(byte);
        }
        if !bits.is_used_up() {
            return Err(Error::Damaged);
        }
    }
    Ok(literals)
}

struct ByteToken {
    literals: usize,
    length: usize,
    offset: usize,
}

fn read_byte_tokens(
    lengths: &Lengths,
    header: &Header<'_>,
    observer: &mut dyn Observer,
) -> Result<Vec<ByteToken>, Error> {
    let set = &lengths.bytes[header.set];
    let mut bits = Bits::new(header.tokens);
    let mut offsets = Bits::new(header.second);
    let mut counts = Bits::new(header.counts);
    let mut offset = 8;
    let mut tokens = Vec::new();
    for _ in 0..header.count {
        let symbol = set.token.read(&mut bits)?;
        observer.byte_token(symbol);
        let symbol = usize::from(symbol);
        let (mut literals, mut length, place) = match symbol.checked_sub(216) {
            Some(literals) => (literals, 0, 0),
            None => (symbol / 27, 4 + symbol / 3 % 9, symbol % 3 + 1),
        };
        let mut number = |table: usize, stream: &mut Bits<'_>| {
            let byte = set.table[table].read(stream)?;
            observer.byte(table, byte);
            Ok(usize::from(byte))
        };
        if literals == 7 {
            loop {
                let more = number(lengths::BYTE_LENGTH, &mut counts)?;
                literals += more;
                if more < 255 || literals > BLOCK {
                    break;
                }
            }
        }
        if length == 12 {
            length += number(lengths::BYTE_LENGTH, &mut counts)?;
        }
        match place {
            2 => offset = 1 + number(lengths::BYTE_NEAR, &mut offsets)?,
            3 => {
                let high = number(lengths::BYTE_FAR, &mut offsets)?;
                offset = 1 + 256 * high + offsets.read(8)? as usize;
            }
            _ => {}
        }
        tokens.push(ByteToken {
            literals,
            length,
            offset,
        });
    }
    if !bits.is_used_up() || !offsets.is_used_up() || !counts.is_used_up() {
        return Err(Error::Damaged);
    }
    Ok(tokens)
}

fn decode_bytes(
    lengths: &Lengths,
    header: &Header<'_>,
    page: &mut Vec<u8>,
    observer: &mut dyn Observer,
) -> Result<(), Error> {
    if header.count > BLOCK / 4 + 1 {
        return Err(Error::Damaged);
    }
    let tokens = read_byte_tokens(lengths, header, observer)?;
    let count = tokens.iter().map(|token| token.literals).sum();
    if count > BLOCK {
        return Err(Error::Damaged);
    }
    let literals = read_literals(lengths, header, count, observer)?;
    let mut literals = literals.as_slice();
    let end = page.len() + BLOCK;
    for token in tokens {
        let (copied, rest) = literals.split_at(token.literals);
        literals = rest;
        page.extend_from_slice(copied);
        if page.len() + token.length > end || token.literals + token.length == 0 {
            return Err(Error::Damaged);
        }
        if token.length > 0 && token.offset > page.len() {
            return Err(Error::Damaged);
        }
        for _ in 0..token.length {
            page.push(page[page.len() - token.offset]);
        }
    }
    if page.len() != end {
        return Err(Error::Damaged);
    }
    Ok(())
}
