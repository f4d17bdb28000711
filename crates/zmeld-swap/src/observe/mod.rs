//! The machine's memory tiers at one instant: what is in RAM, in compressed
//! devices, in zswap, on disk, and how hard the machine is at it.
//!
//! [`Observation::read`] never fails: a file that is missing, hostile or forbidden
//! becomes a [`Warning`] that names it. It reads and changes nothing.
//!
//! | module | what it reads |
//! |---|---|
//! | `observation`, `reader` | everything at one instant; files that cannot stop it |
//! | `system` | meminfo, vmstat, pressure, swaps, tunables, hibernation, control groups |
//! | `device` | zram and zmeld devices in `/sys/block`, and the mount table |
//! | `zswap` | zswap's parameters and counters |
//! | `disk` | what lies under a swap area, down to the drive |
//! | [`lately`] | what happened in the last hour, and in which control group |
//! | [`applied`] | tiers that `zmeld up` set up, by the kernel's names |
//! | [`damon`] | whether the kernel's DAMON reclaims ahead of time |
//! | [`facts`] | what a way out can name here |
//! | `note`, [`guarded`] | notes in zmeld's folder; what its guard saw and did |
//! | [`reclaimed`] | what `zmeld watch` reclaimed ahead of time |
//! | `accounting` | where RAM is: programs, compression, what is left |
//! | `headroom` | how much more programs can take |
//! | [`tier`] | all of it as one table, in the order in which pages go there |
//! | [`difference`] | why the kernel's numbers of one tier differ |

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
