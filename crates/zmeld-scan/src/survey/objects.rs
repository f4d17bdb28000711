//! Size of a page in the kernel's pool, with each codec.

use crate::kernel::PoolModel;
use crate::{Candidate, CodecMeasurement};
use zmeld_store::CodecSpec;

use crate::survey::Error;

/// The codecs that a survey measures: as columns are called, and as zmeld names them.
pub(crate) const CODECS: [(&str, &str); 4] = [
    ("lzo_rle", "lzo-rle"),
    ("lz4", "lz4"),
    ("zstd", "zstd"),
    ("zword", "zword"),
];

/// Bytes of the pool for each of [`CODECS`].
pub(crate) type PoolBytes = [f64; CODECS.len()];

/// Classes of size that contents are told apart by.
const CLASSES: usize = 8;

/// The codec whose sizes make the classes: zstd.
const CLASS_CODEC: usize = 2;

/// Contents of a class below which a survey does not say what they take: it would be a
/// content's exact size, by which the same content is known under another key.
const CLASS_CONTENTS_MIN: u64 = 256;

/// Bytes to which all is rounded that a survey says of what pages take: four pages. The size of few
/// contents would tell which they are, to whoever has a page and four codecs, and so would the
/// difference of two surveys.
const ROUNDED_BYTES: u64 = 1 << 14;

/// Bytes as they stand in a file.
pub(crate) fn rounded(bytes: f64) -> f64 {
    (bytes / ROUNDED_BYTES as f64).round() * ROUNDED_BYTES as f64
}

/// The class of a content: which eighth of a page it takes with zstd.
pub(crate) fn class(bytes: &PoolBytes, page_size: u64) -> usize {
    let eighths = bytes[CLASS_CODEC] * CLASSES as f64 / page_size as f64;
    (eighths.ceil() as usize).clamp(1, CLASSES) - 1
}

/// Sums of the sampled contents of one class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ClassSums {
    /// Contents of owners' samples.
    pub contents: u64,
    /// Bytes, for each of [`CODECS`].
    pub bytes: [u64; CODECS.len()],
    /// Sums of their squares.
    pub squares: [u64; CODECS.len()],
}

/// The sums of each class that has contents enough, with its number.
pub(crate) fn class_sums<'a>(
    contents: impl Iterator<Item = &'a PoolBytes>,
    page_size: u64,
) -> Vec<(usize, ClassSums)> {
    let mut sums = [ClassSums::default(); CLASSES];
    for bytes in contents {
        let sum = &mut sums[class(bytes, page_size)];
        sum.contents += 1;
        for (codec, &size) in bytes.iter().enumerate() {
            sum.bytes[codec] += size as u64;
            sum.squares[codec] += (size * size) as u64;
        }
    }
    let told = |(_, sum): &(usize, ClassSums)| sum.contents >= CLASS_CONTENTS_MIN;
    let coarse = |(class, mut sum): (usize, ClassSums)| {
        sum.bytes = sum.bytes.map(|bytes| rounded(bytes as f64) as u64);
        let page = page_size as f64;
        sum.squares = sum
            .squares
            .map(|it| (rounded(it as f64 / page) * page) as u64);
        (class, sum)
    };
    let told = sums.into_iter().enumerate().filter(told);
    told.map(coarse).collect()
}

pub(crate) struct Objects {
    pool: PoolModel,
    codecs: Vec<CodecMeasurement>,
}

impl Objects {
    /// For the running kernel's pool.
    pub fn new(pool: PoolModel) -> Result<Objects, Error> {
        let open = |(_, name): &(&str, &str)| {
            let spec: CodecSpec = name.parse().map_err(crate::ScanError::from)?;
            CodecMeasurement::new(&Candidate::open(&spec)?, &pool.geometry)
        };
        let codecs = CODECS.iter().map(open).collect::<Result<_, _>>()?;
        Ok(Objects { pool, codecs })
    }

    /// A page's share of a pool that is full of such objects.
    pub fn measure(&mut self, page: &[u8]) -> Result<PoolBytes, Error> {
        let geometry = &self.pool.geometry;
        let mut bytes = PoolBytes::default();
        for (codec, bytes) in self.codecs.iter_mut().zip(&mut bytes) {
            let size = codec.measure(page)?;
            // Whole bytes: as it stands in the file, so that all count with the same.
            *bytes = geometry.object_bytes(geometry.class(size)).round();
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_an_eighth_of_a_page() {
        let of = |bytes: f64| class(&[0.0, 0.0, bytes, 0.0], 4096);
        let found: Vec<usize> = [1.0, 512.0, 513.0, 4095.0, 4096.0].map(of).into();
        assert_eq!(found, [0, 0, 1, 7, 7]);
    }

    #[test]
    fn what_few_contents_take_is_not_told() {
        let few = [[90.0, 80.0, 100.0, 70.0]; 255];
        let many = [[900.0, 800.0, 1000.0, 700.0]; 256];
        let found = class_sums(few.iter().chain(&many), 4096);
        let [(1, sums)] = found[..] else {
            panic!("{found:?}")
        };
        // 256,000 and 256,000,000, to four pages and four times a page's square.
        assert_eq!((sums.contents, sums.bytes[2]), (256, 16 << 14));
        assert_eq!(sums.squares[2], 4 << 26);
    }

    /// A page that is known, with what it takes with each codec, beside a page that is not: two
    /// surveys, the second with one page more, told which of the two it was.
    #[test]
    fn one_page_more_does_not_say_which() {
        let told = |more: [f64; 4]| {
            let owner = std::iter::repeat_n([1500.0, 1600.0, 1000.0, 900.0], 300);
            class_sums(owner.chain([more]).collect::<Vec<_>>().iter(), 4096)
        };
        let (known, other) = (
            [1501.0, 1611.0, 1003.0, 909.0],
            [1702.0, 1843.0, 1017.0, 980.0],
        );
        assert_eq!(told(known), told(other));
        let owner = |more: f64| rounded(300.0 * 1000.0 + more);
        assert!((owner(1003.0) - owner(1017.0)).abs() < 1.0);
    }
}
