//! A write that goes on beside what else its thread does: the system is given it through `io_uring`, and tells when it is done.
//!
//! This is the only file with `unsafe` code. The system is told an address, and what is there must be neither freed nor changed while it
//! is written: so the ring owns it until then, and whoever drops the ring waits.

#![expect(unsafe_code, reason = "the system is told an address, and borrows what is there")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::task::{Context, Poll, ready};

use io_uring::{IoUring, opcode, types};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;

use super::blocks::Blocks;

/// There is one write at a time.
const ENTRIES: u32 = 2;

/// Where a write is under way, or can be.
pub(super) struct Ring {
    ring: AsyncFd<IoUring>,
    /// What is being written.
    writing: Option<Blocks>,
}

/// What was written, and how much of it.
pub(super) type Written = (Blocks, io::Result<usize>);

impl Ring {
    /// None where the system has no such thing, or does not let us, or where there is no runtime of tokio's.
    pub(super) fn open() -> Option<Self> {
        Handle::try_current().ok()?;
        // To tell what is done the system need not interrupt this thread, which asks it for something soon enough.
        let ring = IoUring::builder().setup_coop_taskrun().build(ENTRIES).or_else(|_| IoUring::new(ENTRIES)).ok()?;
        // SAFETY: the ring owns its descriptor, and has the same one until it is dropped.
        let ring = unsafe { AsyncFd::register_with_interest(ring, Interest::READABLE) };
        Some(Self { ring: ring.ok()?, writing: None })
    }

    pub(super) fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Begins to write whole blocks, as the file's flags want it. Gives them back if that is not possible, and no ring to try it with
    /// again.
    pub(super) fn write(mut self, file: &File, mut blocks: Blocks, at: u64) -> Result<Self, Blocks> {
        assert!(!self.is_writing(), "one write after the other");
        let whole = blocks.whole();
        let Ok(length) = u32::try_from(whole.len()) else { return Err(blocks) };
        let write = opcode::Write::new(types::Fd(file.as_raw_fd()), whole.as_ptr(), length).offset(at).build();
        let ring = self.ring.get_mut();
        // SAFETY: if the system takes it, `writing` has the memory, unchanged, until the system has said that it is done; to move blocks
        // does not move what they point to. If it does not, it cannot find it later: the ring goes.
        let pushed = unsafe { ring.submission().push(&write) };
        let is_taken = pushed.is_ok()
            && loop {
                match ring.submit() {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    taken => break taken.is_ok_and(|count| count == 1),
                }
            };
        if !is_taken {
            return Err(blocks);
        }
        self.writing = Some(blocks);
        Ok(self)
    }

    /// Ready when the write is done.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Written> {
        loop {
            if let Some(written) = self.written() {
                return Poll::Ready(written);
            }
            match ready!(self.ring.poll_read_ready_mut(cx)) {
                // First forgotten, then looked for: what is done in between is told again.
                Ok(mut ready) => ready.clear_ready(),
                // The runtime ends, and wakes nobody any more.
                Err(_) => return Poll::Ready(self.wait()),
            }
        }
    }

    /// Waits until the write is done.
    pub(super) fn wait(&mut self) -> Written {
        assert!(self.is_writing(), "there is something to wait for");
        loop {
            if let Some(written) = self.written() {
                return written;
            }
            // Whatever comes of this, the write goes on.
            if self.ring.get_ref().submit_and_wait(1).is_err() {
                std::thread::yield_now();
            }
        }
    }

    fn written(&mut self) -> Option<Written> {
        let result = self.ring.get_mut().completion().next()?.result();
        let blocks = self.writing.take().expect("what is done was under way");
        Some((blocks, usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))))
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.is_writing() {
            drop(self.wait());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::os::unix::fs::FileExt;

    use super::super::blocks::BLOCK_BYTES;
    use super::*;

    fn blocks(byte: u8, count: usize) -> Blocks {
        let mut blocks = Blocks::default();
        blocks.extend(&vec![byte; count * BLOCK_BYTES]);
        blocks
    }

    /// Some systems have none; then there is nothing to test.
    fn ring() -> Option<Ring> {
        let ring = Ring::open();
        if ring.is_none() {
            eprintln!("this system lets nobody use io_uring: not tested");
        }
        ring
    }

    fn write(ring: Ring, file: &File, blocks: Blocks, at: u64) -> Ring {
        ring.write(file, blocks, at).unwrap_or_else(|_| panic!("the system takes it"))
    }

    #[tokio::test]
    async fn one_write_after_the_other_is_where_it_belongs() {
        let Some(mut ring) = ring() else { return };
        let file = tempfile::tempfile().unwrap();
        for (number, byte) in (0..100).zip(1..) {
            let count = usize::from(byte % 3) + 1;
            ring = write(ring, &file, blocks(byte, count), number * 3 * BLOCK_BYTES as u64);
            assert!(ring.is_writing());
            let (mut written, result) = if byte % 2 == 0 { poll_fn(|cx| ring.poll(cx)).await } else { ring.wait() };
            assert_eq!((result.unwrap(), ring.is_writing()), (count * BLOCK_BYTES, false));
            assert!(written.whole() == vec![byte; count * BLOCK_BYTES], "it comes back as it went");
            let mut read = vec![0; count * BLOCK_BYTES];
            file.read_exact_at(&mut read, number * 3 * BLOCK_BYTES as u64).unwrap();
            assert!(read.iter().all(|it| *it == byte));
        }
    }

    #[tokio::test]
    async fn a_write_that_fails_says_so_and_the_next_is_none_the_worse() {
        let Some(ring) = ring() else { return };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"").unwrap();
        let mut ring = write(ring, &File::open(&path).unwrap(), blocks(1, 1), 0);
        let (_, result) = poll_fn(|cx| ring.poll(cx)).await;
        assert_eq!(
            result.unwrap_err().raw_os_error(),
            Some(rustix::io::Errno::BADF.raw_os_error()),
            "not opened to write"
        );
        let mut ring = write(ring, &File::create(&path).unwrap(), blocks(2, 1), 0);
        assert_eq!(ring.wait().1.unwrap(), BLOCK_BYTES);
    }

    #[tokio::test]
    async fn a_ring_that_is_dropped_has_written() {
        let Some(ring) = ring() else { return };
        let file = tempfile::tempfile().unwrap();
        drop(write(ring, &file, blocks(7, 64), 0));
        assert_eq!(file.metadata().unwrap().len(), 64 * BLOCK_BYTES as u64);
    }

    #[test]
    fn without_a_runtime_there_is_none() {
        assert!(Ring::open().is_none());
    }
}
