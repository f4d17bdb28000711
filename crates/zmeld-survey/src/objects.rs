//! What a page takes in the kernel's pool, with each codec.

use zmeld_scan::kernel::PoolModel;
use zmeld_scan::{Candidate, CodecMeasurement};
use zmeld_store::CodecSpec;

use crate::Error;

/// The codecs that a survey measures: as columns are called, and as zmeld names them.
pub const CODECS: [(&str, &str); 4] = [
    ("lzo_rle", "lzo-rle"),
    ("lz4", "lz4"),
    ("zstd", "zstd"),
    ("zword", "zword"),
];

/// Bytes of the pool for each of [`CODECS`].
pub(crate) type PoolBytes = [f64; CODECS.len()];

/// One page's measurements.
pub(crate) struct Objects {
    pool: PoolModel,
    codecs: Vec<CodecMeasurement>,
}

impl Objects {
    /// For the running kernel's pool.
    pub fn new(pool: PoolModel) -> Result<Objects, Error> {
        let open = |(_, name): &(&str, &str)| {
            let spec: CodecSpec = name.parse().map_err(zmeld_scan::ScanError::from)?;
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
