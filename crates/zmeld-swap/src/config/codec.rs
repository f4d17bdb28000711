//! Codecs and their parameters, as zram's `comp_algorithm` and
//! `algorithm_params` take them.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What is known of a codec before a kernel is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// The name in `comp_algorithm`.
    pub name: &'static str,
    /// The levels that make sense; none where the codec has no levels.
    pub levels: Option<(i32, i32)>,
    /// Whether it takes a dictionary.
    pub takes_dict: bool,
}

/// The codecs of zram, from `drivers/block/zram/backend_*.c` of Linux 7.2. A
/// kernel may have been built without some.
pub const CODECS: [Known; 7] = [
    Known {
        name: "lzo",
        levels: None,
        takes_dict: false,
    },
    Known {
        name: "lzo-rle",
        levels: None,
        takes_dict: false,
    },
    // For lz4 the level is its acceleration.
    Known {
        name: "lz4",
        levels: Some((1, 65_537)),
        takes_dict: true,
    },
    Known {
        name: "lz4hc",
        levels: Some((1, 16)),
        takes_dict: true,
    },
    Known {
        name: "zstd",
        levels: Some((-131_072, 22)),
        takes_dict: true,
    },
    Known {
        name: "deflate",
        levels: Some((0, 9)),
        takes_dict: false,
    },
    Known {
        name: "842",
        levels: None,
        takes_dict: false,
    },
];

/// A codec with its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Codec {
    /// Its name, one of [`CODECS`].
    pub name: String,
    /// Its level; the kernel's default without.
    pub level: Option<i32>,
    /// A dictionary, read by the kernel when the device is set up.
    pub dict: Option<PathBuf>,
}

impl Codec {
    /// A codec with the kernel's default parameters.
    pub fn new(name: &str) -> Self {
        Codec {
            name: name.to_owned(),
            level: None,
            dict: None,
        }
    }
}

impl fmt::Display for Codec {
    /// `zstd`, `zstd:3`, `zstd:3,dict=/etc/zmeld/dict`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        let mut separator = ':';
        if let Some(level) = self.level {
            write!(f, "{separator}{level}")?;
            separator = ',';
        }
        if let Some(dict) = &self.dict {
            write!(f, "{separator}dict={}", dict.display())?;
        }
        Ok(())
    }
}

/// A codec that pages may be compressed with a second time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Recompression {
    /// Its place in zram's `recomp_algorithm`, 1 to 3: a higher one is tried
    /// when a lower one did not do.
    pub priority: u8,
    /// The codec.
    pub codec: Codec,
}
