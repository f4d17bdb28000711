//! zword from its description, `docs/zword.md`: a decoder that shares nothing
//! with the C one.
//!
//! The decoder is plain on purpose, bit by bit and step by step: it judges the
//! other one in tests. An [`Observer`] is told of every symbol that it reads;
//! that is how training counts (the example `train_zword` of zmeld-store).

pub mod code;
pub mod decoder;
pub mod lengths;

/// Why bytes are no page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// The code lengths are not of this format, or leave codes without a symbol.
    Lengths,
    /// The object does not hold a page of that size.
    Damaged,
}

impl std::fmt::Display for Error {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(match self {
            Error::Lengths => "these are no code lengths of zword",
            Error::Damaged => "the object is damaged, or of a page of another size",
        })
    }
}

impl std::error::Error for Error {}
