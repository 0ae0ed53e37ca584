//! Frames of HTTP/2, as bytes: what each kind is called, how one begins, and how one is written.

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

/// Of a ping and of settings.
pub(crate) const ACK: u8 = 1;
pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
pub(super) const PADDED: u8 = 8;
pub(super) const HAS_PRIORITY: u8 = 0x20;

/// What a client says first.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const HEAD_BYTES: usize = 9;
/// The largest payload that may be sent to anybody who has not said otherwise, and that we take.
pub(super) const PAYLOAD_BYTES: u32 = 16 * 1024;
pub(super) const PAYLOAD_BYTES_MAX: usize = PAYLOAD_BYTES as usize;
/// What may be sent at first, on a stream and in all, to anybody who has not said otherwise.
pub(super) const WINDOW_BYTES: u32 = 65_535;
pub(super) const WINDOW_BYTES_MAX: u32 = 0x7fff_ffff;
pub(super) const STREAM_MAX: u32 = 0x7fff_ffff;

pub(super) const SETTING_TABLE_BYTES: u16 = 1;
pub(super) const SETTING_PUSH: u16 = 2;
pub(super) const SETTING_WINDOW_BYTES: u16 = 4;
pub(super) const SETTING_PAYLOAD_BYTES: u16 = 5;
pub(super) const SETTING_HEADER_BYTES: u16 = 6;

/// Why a stream, or a whole connection, ends before its time. The numbers are those of HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Why {
    NoError = 0,
    Protocol = 1,
    Internal = 2,
    FlowControl = 3,
    StreamClosed = 5,
    FrameSize = 6,
    Refused = 7,
    Compression = 9,
    EnhanceYourCalm = 11,
}

/// How a frame begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    /// Of its payload.
    pub(crate) bytes: usize,
}

impl Head {
    pub(crate) fn read(head: [u8; HEAD_BYTES]) -> Self {
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = head;
        let bytes = u32::from_be_bytes([0, l0, l1, l2]) as usize;
        Self { kind, flags, stream: u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]), bytes }
    }

    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

pub(super) fn write(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    write_head(out, kind, flags, stream, payload.len());
    out.extend_from_slice(payload);
}

pub(super) fn write_head(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, bytes: usize) {
    let [_, l0, l1, l2] = u32::try_from(bytes).expect("a payload has at most 24 bits").to_be_bytes();
    let [s0, s1, s2, s3] = stream.to_be_bytes();
    out.extend_from_slice(&[l0, l1, l2, kind, flags, s0, s1, s2, s3]);
}

pub(super) fn write_setting(payload: &mut Vec<u8>, setting: u16, value: u32) {
    payload.extend(setting.to_be_bytes());
    payload.extend(value.to_be_bytes());
}
