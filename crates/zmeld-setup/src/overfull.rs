//! What does not fit back into a control group, for errors to name.

/// A control group whose pages in swap do not fit back into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwapoffConflict {
    /// Its path below the root of its hierarchy: `/app`.
    pub group: String,
    /// What would come back to it, in bytes, at most.
    pub swapped_bytes: u64,
    /// What it has room for, in bytes.
    pub room_bytes: u64,
    /// Its limit in bytes.
    pub limit_bytes: u64,
    /// The program in it with the most pages in swap; none where none has any.
    pub largest: Option<Program>,
}

/// A program with pages in swap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Its name, as `/proc/PID/comm` has it.
    pub name: String,
    /// Its number.
    pub pid: u32,
    /// What it has in swap, in bytes.
    pub swapped_bytes: u64,
}

impl std::fmt::Display for SwapoffConflict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} come back to the control group {}, which has room for {} below its limit of {}",
            mib(self.swapped_bytes.div_ceil(1 << 20)),
            self.group,
            mib(self.room_bytes >> 20),
            mib(self.limit_bytes >> 20),
        )?;
        match &self.largest {
            Some(program) => write!(
                f,
                " (most of it: {}, process {}, {} in swap)",
                program.name,
                program.pid,
                mib(program.swapped_bytes.div_ceil(1 << 20))
            ),
            None => Ok(()),
        }
    }
}

pub(crate) fn mib(count: u64) -> String {
    format!("{count} MiB")
}
