//! The frames of HTTP/2 in a stream of bytes, as far as somebody has to know who only looks on: where each begins, and
//! what some of them hold.

/// The frames that are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Data = 0,
    Reset = 3,
}

/// What a client sends first.
pub(super) const PREFACE_BYTES: usize = 24;
const HEAD_BYTES: usize = 9;

/// Follows one direction of a connection.
#[derive(Debug)]
pub(super) struct Frames {
    kind: Kind,
    /// Larger frames are passed over.
    payload_bytes_max: usize,
    head: Vec<u8>,
    /// Bytes of the current frame that are still to come, and what there is of it if it is one to look at.
    left: usize,
    payload: Option<(u32, Vec<u8>)>,
}

impl Frames {
    /// Looks at frames of a kind, after so many bytes of something else.
    pub(super) fn new(kind: Kind, preface_bytes: usize, payload_bytes_max: usize) -> Self {
        Self { kind, payload_bytes_max, head: Vec::with_capacity(HEAD_BYTES), left: preface_bytes, payload: None }
    }

    /// Goes on with `bytes`, and tells of each frame that ends in them: its stream and its payload.
    pub(super) fn follow(&mut self, mut bytes: &[u8], mut found: impl FnMut(u32, &[u8])) {
        while !bytes.is_empty() {
            if self.left > 0 {
                let (some, rest) = bytes.split_at(self.left.min(bytes.len()));
                self.left -= some.len();
                bytes = rest;
                if let Some((_, payload)) = &mut self.payload {
                    payload.extend_from_slice(some);
                }
            } else {
                let (some, rest) = bytes.split_at((HEAD_BYTES - self.head.len()).min(bytes.len()));
                self.head.extend_from_slice(some);
                bytes = rest;
                if let Ok(head) = <[u8; HEAD_BYTES]>::try_from(&*self.head) {
                    self.head.clear();
                    self.begin(head);
                }
            }
            if self.left == 0
                && let Some((stream, payload)) = self.payload.take()
            {
                found(stream, &payload);
            }
        }
    }

    fn begin(&mut self, head: [u8; HEAD_BYTES]) {
        let [l0, l1, l2, kind, _flags, s0, s1, s2, s3] = head;
        self.left = u32::from_be_bytes([0, l0, l1, l2]) as usize;
        if kind == self.kind as u8 && self.left <= self.payload_bytes_max {
            self.payload = Some((u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]), Vec::with_capacity(self.left)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut frame = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
        frame.extend([kind, 0]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        frame
    }

    #[test]
    fn frames_are_found_however_their_bytes_come() {
        let bytes = [
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
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
            let mut frames = Frames::new(Kind::Reset, PREFACE_BYTES, 4);
            let mut found = Vec::new();
            for some in bytes.chunks(size) {
                frames.follow(some, |stream, payload| found.push((stream, payload.to_vec())));
            }
            assert_eq!(found, [(1, vec![0, 0, 0, 8]), (5, vec![0, 0, 0, 7]), (9, vec![])], "{size} bytes at a time");
        }
    }
}
