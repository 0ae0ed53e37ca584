//! The frames of HTTP/2 in a stream of bytes, as far as somebody has to know who only looks on: where each begins, and
//! what some of them hold.

use crate::http2::frame::{HEAD_BYTES, Head};

/// Somebody who looks on.
pub(super) trait Look {
    /// A frame begins. Whether its payload is to be seen too.
    fn begins(&mut self, frame: Head) -> bool;
    /// The whole payload of such a frame has passed.
    fn passed(&mut self, frame: Head, payload: &[u8]);
}

/// Follows one direction of a connection.
#[derive(Debug)]
pub(super) struct Frames {
    head: Vec<u8>,
    /// Bytes of the current frame that are still to come, and what there is of it if it is one to look at.
    left: usize,
    seen: Option<(Head, Vec<u8>)>,
}

impl Frames {
    /// Those that come after so many bytes of something else.
    pub(super) fn after(preface_bytes: usize) -> Self {
        Self { head: Vec::with_capacity(HEAD_BYTES), left: preface_bytes, seen: None }
    }

    /// Whether the bytes so far end where a frame does.
    pub(super) fn are_whole(&self) -> bool {
        self.left == 0 && self.head.is_empty()
    }

    pub(super) fn follow(&mut self, mut bytes: &[u8], look: &mut impl Look) {
        while !bytes.is_empty() {
            if self.left == 0 {
                let (some, rest) = bytes.split_at((HEAD_BYTES - self.head.len()).min(bytes.len()));
                self.head.extend_from_slice(some);
                bytes = rest;
                let Ok(head) = <[u8; HEAD_BYTES]>::try_from(&*self.head) else { return };
                self.head.clear();
                let head = Head::read(head);
                self.left = head.bytes;
                self.seen = look.begins(head).then(|| (head, Vec::new()));
            }
            let (some, rest) = bytes.split_at(self.left.min(bytes.len()));
            self.left -= some.len();
            bytes = rest;
            match &mut self.seen {
                Some((head, before)) if self.left == 0 => {
                    // Most frames come in one piece, and are not copied.
                    let payload = if before.is_empty() {
                        some
                    } else {
                        before.extend_from_slice(some);
                        before
                    };
                    look.passed(*head, payload);
                    self.seen = None;
                }
                Some((_, before)) => before.extend_from_slice(some),
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http2::frame::{PREFACE, RST_STREAM};

    fn frame(kind: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut frame = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
        frame.extend([kind, 0]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        frame
    }

    /// Looks at resets of up to four bytes.
    #[derive(Default)]
    struct Resets {
        begun: usize,
        passed: Vec<(u32, Vec<u8>)>,
    }

    impl Look for Resets {
        fn begins(&mut self, frame: Head) -> bool {
            self.begun += 1;
            frame.kind == RST_STREAM && frame.bytes <= 4
        }

        fn passed(&mut self, frame: Head, payload: &[u8]) {
            self.passed.push((frame.stream, payload.to_vec()));
        }
    }

    #[test]
    fn frames_are_found_however_their_bytes_come() {
        let bytes = [
            PREFACE.to_vec(),
            frame(4, 0, &[0; 30]),
            frame(3, 1, &[0, 0, 0, 8]),
            frame(0, 3, b"data"),
            frame(3, 0x8000_0005, &[0, 0, 0, 7]),
            frame(3, 7, &[0; 9]),
            frame(4, 0, &[]),
            frame(3, 9, &[]),
        ]
        .concat();
        for size in [1, 2, 5, 9, 10, 33, bytes.len()] {
            let (mut frames, mut resets) = (Frames::after(PREFACE.len()), Resets::default());
            for some in bytes.chunks(size) {
                frames.follow(some, &mut resets);
            }
            let expected = [(1, vec![0, 0, 0, 8]), (5, vec![0, 0, 0, 7]), (9, vec![])];
            assert_eq!((resets.begun, &*resets.passed), (7, &expected[..]), "{size} bytes at a time");
            assert!(frames.are_whole());
            frames.follow(&[0], &mut resets);
            assert!(!frames.are_whole());
        }
    }
}

#[cfg(test)]
mod fuzzing {
    use tenure_fuzz::fuzz;

    use super::*;
    use crate::http2::frame::{DATA, RST_STREAM};

    #[derive(Debug, Default, PartialEq, Eq)]
    struct Seen(Vec<(u8, u8, u32, Option<Vec<u8>>)>);

    impl Look for Seen {
        fn begins(&mut self, frame: Head) -> bool {
            self.0.push((frame.kind, frame.flags, frame.stream, None));
            frame.kind != DATA
        }

        fn passed(&mut self, frame: Head, payload: &[u8]) {
            assert_eq!(payload.len(), frame.bytes);
            self.0.push((frame.kind, frame.flags, frame.stream, Some(payload.to_vec())));
        }
    }

    #[test]
    fn any_bytes_are_followed_the_same_however_they_come() {
        let sample =
            [&[0, 0, 4, RST_STREAM, 0, 0, 0, 0, 1, 0, 0, 0, 8][..], &[0, 0, 2, DATA, 1, 0, 0, 0, 3, 7, 7]].concat();
        fuzz("http2_frames", &[sample], &["\0\0\0", "\0\0\u{8}\u{6}"], |input| {
            let (mut whole, mut pieces) = (Seen::default(), Seen::default());
            Frames::after(0).follow(input, &mut whole);
            let mut frames = Frames::after(0);
            let length = 1 + usize::from(input.first().copied().unwrap_or_default()) % 7;
            input.chunks(length).for_each(|piece| frames.follow(piece, &mut pieces));
            // Where nothing follows, an empty payload is told with the bytes after it.
            assert_eq!(whole, pieces);
            format!("{} {}", whole.0.len().min(20), frames.are_whole())
        });
    }
}
