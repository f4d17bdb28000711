//! Known traps that a configuration can be told to walk into.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::size::text_form;

macro_rules! traps {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A trap, of a configuration or of a machine that `zmeld status` looks at:
        /// all that `accept` may name. It says that it is meant: what was an error, a
        /// warning or a finding is then passed over in silence.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        pub enum Trap {
            $($(#[$doc])* $name,)*
        }

        impl Trap {
            /// All of them.
            pub const ALL: &'static [Trap] = &[$(Trap::$name,)*];

            /// Its name in the configuration.
            pub const fn name(self) -> &'static str {
                match self { $(Trap::$name => $text,)* }
            }
        }
    };
}

traps! {
    /// zswap in front of a RAM device: pages are compressed twice, and the
    /// figures of both mislead.
    ZramWithZswap = "zram-with-zswap",
    /// A RAM device above a disk by priority alone: what was swapped first
    /// stays in RAM, what is swapped later, and needed sooner, goes to disk.
    LruInversion = "lru-inversion",
    /// A RAM device as large as RAM or larger, and no limit to the memory it uses.
    NoMemoryLimit = "no-memory-limit",
    /// Priorities that contradict the order of the tiers.
    Priorities = "priorities",
    /// One drive encrypted and another not, so that pages end up readable anyway.
    ReadableCopy = "readable-copy",
    /// A device that is overwritten, named by a path that may mean another
    /// drive after a reboot.
    UnstableName = "unstable-name",
    /// Hibernation with a RAM device.
    Hibernation = "hibernation",
    /// Something set up for `zmeld watch` and no rule that uses it, or the reverse.
    UnusedRule = "unused-rule",
    /// A limit of nothing, which any cost is above.
    ZeroLimit = "zero-limit",
    /// All services of the system are among what may be ended.
    EndsServices = "ends-services",
    /// Swap pages read ahead, where only RAM devices are swapped to.
    ReadAhead = "read-ahead",
    /// Recompression with a codec that compresses less.
    WeakerRecompression = "weaker-recompression",
    /// A compressed device beside one that somebody else set up.
    SecondDevice = "second-device",
    /// A swap file in a folder that is often kept in RAM.
    FileInRam = "file-in-ram",
    /// A zmeld device read pages that are not what was written.
    VerifyMismatch = "verify-mismatch",
    /// A codec of a zmeld device encoded pages wrongly.
    EncodeErrors = "encode-errors",
    /// A device refused writes.
    FailedWrites = "failed-writes",
    /// The kernel killed processes for want of the machine's memory.
    OomKills = "oom-kills",
    /// The kernel killed processes at a control group's limit.
    GroupOomKills = "group-oom-kills",
    /// RAM and a disk of the same priority.
    EqualPriority = "equal-priority",
    /// What `zmeld up` would change.
    NotApplied = "not-applied",
    /// zram in the place of zmeld.ko, which the kernel cannot have.
    StandIn = "stand-in",
    /// A device larger than RAM holds of it.
    Oversized = "oversized",
    /// A limit that is nearly reached.
    NearLimit = "near-limit",
    /// zswap at its limit.
    ZswapFull = "zswap-full",
    /// A control group that was refused swap.
    GroupRefused = "group-refused",
    /// Tasks that wait for memory.
    Pressure = "pressure",
    /// Pages that compress badly.
    LowRatio = "low-ratio",
    /// Slots that swap has given back and the device has not.
    StaleSlots = "stale-slots",
    /// Swap on RAM through a layer that passes no discards.
    DiscardBlocked = "discard-blocked",
    /// Notes that cannot be read.
    UnreadableNotes = "unreadable-notes",
    /// A file system that keeps what is deleted.
    MountedWithoutDiscard = "mounted-without-discard",
    /// Rules, and no `zmeld watch` that carries them out.
    NoWatch = "no-watch",
    /// Two services that end programs.
    TwoGuards = "two-guards",
    /// A compressor of zswap that the command line names and zswap does not have.
    ZswapCompressor = "zswap-compressor",
    /// Two that reclaim ahead of time.
    TwoReclaimers = "two-reclaimers",
    /// A drive that is to be encrypted, swapped to as it is: shown all the same.
    NotEncrypted = "not-encrypted",
    /// Pages that do not compress.
    Incompressible = "incompressible",
    /// Pages that repeat one word.
    SameFilled = "same-filled",
    /// Swappiness that does not fit the kind of swap.
    Swappiness = "swappiness",
    /// Identical pages, and nothing melds them.
    DuplicatesUnused = "duplicates-unused",
    /// Inline melding that finds nothing.
    PassNotWorth = "pass-not-worth",
}

impl FromStr for Trap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Trap::ALL
            .iter()
            .copied()
            .find(|trap| trap.name() == text)
            .ok_or_else(|| {
                let names: Vec<_> = Trap::ALL.iter().map(|trap| trap.name()).collect();
                format!(
                    "{text:?} is no trap that is known; {}",
                    super::choices(text, &names)
                )
            })
    }
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

text_form!(Trap);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_has_every_trap() {
        let page = |name: &str| {
            let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
            std::fs::read_to_string(std::path::Path::new(docs).join(name)).unwrap()
        };
        let (of_files, of_machines) = (page("configuration.md"), page("status.md"));
        for trap in Trap::ALL {
            let row = format!("\n| `{trap}` | ");
            assert!(
                of_files.contains(&row) || of_machines.contains(&row),
                "{trap}"
            );
        }
    }
}
