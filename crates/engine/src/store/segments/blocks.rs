//! Bytes in whole blocks, at an address that is a multiple of their size, so that the system can give them to the disk as they are.

/// What disks and file systems work in. Both ends of a write, and where it is in memory, are multiples of it.
pub(in crate::store) const BLOCK_BYTES: usize = 4_096;

/// The blocks at the end of a file that are not yet full, or not yet written.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    memory: Vec<u8>,
    /// Where in it the first block begins.
    begin: usize,
    length: usize,
}

impl Blocks {
    /// So many zeros.
    pub(super) fn zeros(length: usize) -> Self {
        let mut zeros = Self::default();
        zeros.reserve(length);
        zeros.length = length;
        zeros
    }

    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        let end = self.begin + self.length;
        self.memory[end..end + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// Zeros up to a multiple of this.
    pub(super) fn pad(&mut self, multiple: usize) {
        let padding = self.length.next_multiple_of(multiple) - self.length;
        self.reserve(padding);
        let end = self.begin + self.length;
        self.memory[end..end + padding].fill(0);
        self.length += padding;
    }

    /// All of it, with zeros behind it.
    pub(super) fn whole(&mut self) -> &[u8] {
        let length = self.length;
        self.pad(BLOCK_BYTES);
        let whole = self.begin..self.begin + self.length;
        self.length = length;
        &self.memory[whole]
    }

    /// Keeps only the block that is not yet full, if there is one. Gives how many bytes were before it.
    pub(super) fn keep_last(&mut self) -> u64 {
        let full = self.length - self.length % BLOCK_BYTES;
        self.memory.copy_within(self.begin + full..self.begin + self.length, self.begin);
        self.length -= full;
        full as u64
    }

    pub(super) fn clear(&mut self) {
        self.length = 0;
    }

    fn reserve(&mut self, more: usize) {
        let needed = (self.length + more).next_multiple_of(BLOCK_BYTES);
        if self.begin + needed <= self.memory.len() {
            return;
        }
        let mut memory = vec![0; 2 * needed + BLOCK_BYTES];
        // Where it cannot be found, blocks are written in another way.
        let begin = memory.as_ptr().align_offset(BLOCK_BYTES).min(BLOCK_BYTES);
        memory[begin..begin + self.length].copy_from_slice(&self.memory[self.begin..self.begin + self.length]);
        (self.memory, self.begin) = (memory, begin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_in_a_full_block_is_written_again_with_what_comes_next() {
        let mut blocks = Blocks::default();
        let mut file = vec![7; 5 * BLOCK_BYTES];
        let (mut start, mut all) = (0, Vec::<u8>::new());
        for (byte, length) in [(1, 10), (2, BLOCK_BYTES - 10), (3, 1), (4, 2 * BLOCK_BYTES), (5, 100)] {
            let bytes = vec![byte; length];
            all.extend(&bytes);
            blocks.extend(&bytes);
            let whole = blocks.whole();
            assert_eq!((whole.len() % BLOCK_BYTES, whole.as_ptr().align_offset(BLOCK_BYTES)), (0, 0));
            file[start..start + whole.len()].copy_from_slice(whole);
            start += usize::try_from(blocks.keep_last()).unwrap();
            assert_eq!(file[..all.len()], all, "after {byte}");
            let end = all.len().next_multiple_of(BLOCK_BYTES);
            assert!(file[all.len()..end].iter().all(|byte| *byte == 0), "zeros behind it");
            assert!(file[end..].iter().all(|byte| *byte == 7), "nothing else is touched");
        }
    }
}
