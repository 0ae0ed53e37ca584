//! The fields that a number stands for: those that everybody knows (RFC 7541, appendix A), and those that one end of a
//! connection has told the other. Of the latter the oldest are forgotten when they take more room than there may be.

use std::collections::VecDeque;

/// What a field takes in the table, besides its name and its value (section 4.1).
const FIELD_BYTES: usize = 32;

/// From 1 on.
const KNOWN: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// The number of the first field that everybody knows with this name.
pub(super) fn known_name(name: &[u8]) -> Option<usize> {
    KNOWN.iter().position(|known| known.0.as_bytes() == name).map(|at| at + 1)
}

/// One direction of a connection.
#[derive(Debug)]
pub(super) struct Table {
    /// The newest is the last.
    fields: VecDeque<Field>,
    /// Their names and values, one after the other, after those of some that are forgotten.
    bytes: Vec<u8>,
    /// What was taken from the front of `bytes`, ever: places are counted from the very first.
    cut: usize,
    size: usize,
    max: usize,
}

#[derive(Clone, Copy, Debug)]
struct Field {
    begin: usize,
    name: usize,
    value: usize,
}

impl Field {
    fn size(self) -> usize {
        FIELD_BYTES + self.name + self.value
    }
}

impl Table {
    pub(super) fn new(max: usize) -> Self {
        Self { fields: VecDeque::new(), bytes: Vec::new(), cut: 0, size: 0, max }
    }

    pub(super) fn max(&self) -> usize {
        self.max
    }

    pub(super) fn set_max(&mut self, max: usize) {
        self.max = max;
        self.forget();
    }

    /// The name and the value that a number stands for.
    pub(super) fn get(&self, number: usize) -> Option<(&[u8], &[u8])> {
        let at = number.checked_sub(1)?;
        if let Some((name, value)) = KNOWN.get(at) {
            return Some((name.as_bytes(), value.as_bytes()));
        }
        let at = self.fields.len().checked_sub(at - KNOWN.len() + 1)?;
        Some(self.text(self.fields[at]))
    }

    /// The number of a field that was told.
    pub(super) fn find(&self, name: &[u8], value: &[u8]) -> Option<usize> {
        let at = self.fields.iter().rev().position(|field| self.text(*field) == (name, value))?;
        Some(KNOWN.len() + 1 + at)
    }

    /// Whether a field has room at all.
    pub(super) fn fits(&self, name: &[u8], value: &[u8]) -> bool {
        FIELD_BYTES + name.len() + value.len() <= self.max
    }

    /// Remembers a field, whose name has so many bytes and is followed by the value. One that is larger than the table empties
    /// it.
    pub(super) fn insert(&mut self, text: &[u8], name: usize) {
        let field = Field { begin: self.cut + self.bytes.len(), name, value: text.len() - name };
        if field.size() > self.max {
            self.fields.clear();
            self.size = 0;
        } else {
            self.bytes.extend_from_slice(text);
            self.fields.push_back(field);
            self.size += field.size();
        }
        self.forget();
    }

    fn forget(&mut self) {
        while self.size > self.max {
            let Some(oldest) = self.fields.pop_front() else { break };
            self.size -= oldest.size();
        }
        let end = self.cut + self.bytes.len();
        let unused = self.fields.front().map_or(end, |oldest| oldest.begin) - self.cut;
        // Not each time: what is left has to be moved then.
        if unused > self.max || self.fields.is_empty() {
            self.bytes.drain(..unused);
            self.cut += unused;
        }
    }

    fn text(&self, field: Field) -> (&[u8], &[u8]) {
        let begin = field.begin - self.cut;
        self.bytes[begin..begin + field.name + field.value].split_at(field.name)
    }
}

#[cfg(test)]
impl Table {
    /// From the newest on, as the RFC shows them, and their size.
    pub(super) fn shown(&self) -> (Vec<String>, usize) {
        let lossy = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let shown = |field: &Field| {
            let (name, value) = self.text(*field);
            format!("{}: {}", lossy(name), lossy(value))
        };
        (self.fields.iter().rev().map(shown).collect(), self.size)
    }

    /// Whether it is as small as it says, and keeps no more than is of use.
    pub(super) fn is_sound(&self) -> bool {
        self.size <= self.max
            && self.size == self.fields.iter().map(|field| field.size()).sum::<usize>()
            && self.bytes.len() <= 2 * super::TABLE_BYTES
    }
}
