//! A reusable buffer that starts on a boundary that direct I/O accepts.

/// Satisfies every device's logical block size that Linux supports with pages of 4 KiB.
const ALIGNMENT: usize = 4096;

pub(crate) struct Buffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    pub(crate) fn new(len: usize) -> Self {
        let memory = vec![0; len + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        assert!(start < ALIGNMENT, "bytes can always be aligned");
        Buffer { memory, start, len }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}
