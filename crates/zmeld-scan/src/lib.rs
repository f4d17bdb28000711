//! Savings of a store on given pages: duplicates and same-filled pages exactly, compression on a
//! sample or on all of them, and what follows from it for the machine.
//!
//! A [`scan()`] reads a [`Source`](crate::memory::Source) once. Each page is looked
//! at for a repeated word, hashed with 128 bits under a random seed, and noted
//! in at most 24 bytes; pages of the sample are compressed with every codec that
//! was asked for, decompressed, and compared. With [`ScanOptions::full`] the source
//! is read a second time and every distinct content is compressed.
//!
//! This crate prints nothing.

pub mod advice;
mod codecs;
mod conclude;
mod contents;
mod duplicates;
mod error;
pub mod facts;
mod histogram;
pub mod kernel;
pub mod memory;
mod predict;
mod programs;
mod progress;
pub mod report;
mod result;
mod sample;
mod scan;
pub mod survey;

pub use codecs::{measure_pages, Candidate, CodecMeasurement, CodecReport};
pub use error::ScanError;
pub use progress::ScanProgress;
pub use result::{
    CodecResult, CodecTimes, ColdResult, Duplicates, Gain, PageCounts, Program, SampleResult,
    ScanResult, SkippedResult,
};
pub use scan::{scan, ScanOptions};
