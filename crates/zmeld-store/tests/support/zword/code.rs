//! Canonical codes, read bit by bit.

use super::Error;

/// A code: symbols in the order of their codes, and how many have each length.
#[derive(Debug, Clone)]
pub struct Code {
    symbols: Vec<u8>,
    count_of_length: [u32; 16],
}

impl Code {
    /// The code of these lengths, from 1 to `length_max`, one for each symbol. Every row
    /// of bits must begin with a code.
    pub fn new(lengths: &[u8], length_max: u8) -> Result<Code, Error> {
        let mut code = Code {
            symbols: Vec::new(),
            count_of_length: [0; 16],
        };
        let mut room = 1u32 << length_max;
        for length in 1..=length_max {
            for (symbol, _) in lengths.iter().enumerate().filter(|(_, &l)| l == length) {
                code.symbols.push(symbol as u8);
                code.count_of_length[usize::from(length)] += 1;
                room = room
                    .checked_sub(1 << (length_max - length))
                    .ok_or(Error::Lengths)?;
            }
        }
        let mut all = lengths.iter();
        if room != 0 || all.any(|length| !(1..=length_max).contains(length)) {
            return Err(Error::Lengths);
        }
        Ok(code)
    }

    /// The next symbol of a stream.
    pub fn read(&self, bits: &mut Bits<'_>) -> Result<u8, Error> {
        let (mut value, mut first, mut before) = (0u32, 0u32, 0u32);
        for length in 1..16 {
            value = value << 1 | bits.read(1)?;
            first <<= 1;
            let count = self.count_of_length[length];
            if value - first < count {
                return Ok(self.symbols[(before + value - first) as usize]);
            }
            first += count;
            before += count;
        }
        Err(Error::Damaged)
    }
}

/// A stream of bits, the lowest of a byte first.
#[derive(Debug, Clone)]
pub struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bits<'a> {
    /// Of these bytes, all of which must be read in the end.
    pub fn new(bytes: &'a [u8]) -> Bits<'a> {
        Bits { bytes, at: 0 }
    }

    /// So many bits as a number, the first one lowest.
    pub fn read(&mut self, count: u32) -> Result<u32, Error> {
        let mut value = 0;
        for k in 0..count {
            let byte = self.bytes.get(self.at / 8).ok_or(Error::Damaged)?;
            value |= u32::from(byte >> (self.at % 8) & 1) << k;
            self.at += 1;
        }
        Ok(value)
    }

    /// Whether a bit of the last byte was read, and none is missing.
    pub fn is_used_up(&self) -> bool {
        self.at.div_ceil(8) == self.bytes.len()
    }
}

/// Lengths of at most `length_max` bits for symbols that occur so often, the best
/// ones there are: package-merge. A symbol that does not occur gets none.
pub fn limited_lengths(counts: &[u64], length_max: u8) -> Vec<u8> {
    let mut lengths = vec![0u8; counts.len()];
    let mut order: Vec<usize> = (0..counts.len()).filter(|&k| counts[k] > 0).collect();
    order.sort_by_key(|&k| (counts[k], k));
    if order.len() < 2 {
        for &k in &order {
            lengths[k] = 1;
        }
        return lengths;
    }
    // A package: its weight, and how often each symbol is in it.
    let leaves: Vec<(u64, Vec<u16>)> = order.iter().map(|&k| (counts[k], vec![k as u16])).collect();
    let mut row: Vec<(u64, Vec<u16>)> = Vec::new();
    for _ in 0..length_max {
        let mut packages = row.chunks_exact(2).map(|pair| {
            let mut symbols = pair[0].1.clone();
            symbols.extend_from_slice(&pair[1].1);
            (pair[0].0 + pair[1].0, symbols)
        });
        let mut next = Vec::with_capacity(2 * leaves.len());
        let mut leaf = leaves.iter().cloned().peekable();
        let mut package = packages.next();
        while leaf.peek().is_some() || package.is_some() {
            let leaf_first = match (leaf.peek(), &package) {
                (Some(one), Some(other)) => one.0 <= other.0,
                (one, _) => one.is_some(),
            };
            if leaf_first {
                next.extend(leaf.next());
            } else {
                next.extend(package.take());
                package = packages.next();
            }
        }
        row = next;
    }
    for (_, symbols) in row.iter().take(2 * order.len() - 2) {
        for &symbol in symbols {
            lengths[usize::from(symbol)] += 1;
        }
    }
    lengths
}
