//! The machine's memory tiers at one instant: what is in RAM, in compressed
//! devices, in zswap, on disk, and how hard the machine is at it.
//!
//! [`Observation::read`] never fails: a file that is missing, hostile or forbidden
//! becomes a [`Warning`] that names it. It reads and changes nothing.

pub mod accounting;
pub mod applied;
pub mod damon;
mod device;
pub mod difference;
mod disk;
pub mod facts;
pub mod guarded;
pub mod headroom;
pub mod lately;
mod note;
mod observation;
mod reader;
pub mod reclaimed;
mod system;
pub mod tier;
mod zswap;

pub use accounting::Accounting;
pub use damon::DamonReclaim;
pub use device::{Backed, Device, Io, Melding, MmStat, Mounted, ENCODE_ERRORS, MISMATCHES};
pub use difference::Difference;
pub use disk::{is_encrypted, is_spinning, BlockStack, Layer, LayerKind};
pub use facts::{Facts, Services};
pub use guarded::Guarded;
pub use headroom::Headroom;
pub use lately::{Lately, Since};
pub use observation::{Observation, Swap};
pub use reader::{Problem, Warning};
pub use reclaimed::Reclaimed;
pub use system::{Activity, Hibernation, LimitedGroup, Memory, Tunables};
pub use tier::{ObservedKind, TierState};
pub use zmeld_linux::pressure::{Pressure, Stall};
pub use zswap::Zswap;
