//! How header blocks are written: strings as they are, and what we say in every answer by its number. No more is remembered,
//! so that the little that is stays where it is.

use super::table::{Table, known_name};
use super::{INDEXED, INDEXING, NOT_INDEXING, PLAIN, SIZE_UPDATE, TABLE_BYTES};

/// Of `:status`, from that of 200 on.
const STATUS: usize = 8;
const STATUSES: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];

/// Writes the header blocks of one connection.
#[derive(Debug)]
pub(in crate::http2) struct Encoder {
    table: Table,
    /// If the peer has still to be told that the table has another size: the smallest that it has had meanwhile.
    untold: Option<usize>,
    /// An entry on its way into the table.
    entry: Vec<u8>,
}

impl Encoder {
    pub(in crate::http2) fn new() -> Self {
        Self { table: Table::new(TABLE_BYTES), untold: None, entry: Vec::new() }
    }

    /// What the peer's SETTINGS_HEADER_TABLE_SIZE says. We never use more than we do without it.
    pub(in crate::http2) fn set_table_max(&mut self, bytes: u32) {
        let bytes = usize::try_from(bytes).map_or(TABLE_BYTES, |bytes| bytes.min(TABLE_BYTES));
        if bytes != self.table.max() {
            self.table.set_max(bytes);
            self.untold = Some(self.untold.map_or(bytes, |smallest| smallest.min(bytes)));
        }
    }

    /// To be called before the first field of each header block.
    pub(in crate::http2) fn begin(&mut self, out: &mut Vec<u8>) {
        let Some(smallest) = self.untold.take() else { return };
        if smallest < self.table.max() {
            number(SIZE_UPDATE, smallest, out);
        }
        number(SIZE_UPDATE, self.table.max(), out);
    }

    pub(in crate::http2) fn status(&mut self, status: u16, out: &mut Vec<u8>) {
        if let Some(at) = STATUSES.iter().position(|known| *known == status) {
            return number(INDEXED, STATUS + at, out);
        }
        number(NOT_INDEXING, STATUS, out);
        string(status.to_string().as_bytes(), out);
    }

    /// A field that is the same in many answers: said by its number, except for the first time.
    pub(in crate::http2) fn constant(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        if let Some(index) = self.table.find(name, value) {
            return number(INDEXED, index, out);
        }
        if !self.table.fits(name, value) {
            return self.field(name, value, out);
        }
        literal(INDEXING, name, value, out);
        self.entry.clear();
        self.entry.extend_from_slice(name);
        self.entry.extend_from_slice(value);
        self.table.insert(&self.entry, name.len());
    }

    /// Any other field.
    pub(in crate::http2) fn field(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        literal(NOT_INDEXING, name, value, out);
    }
}

fn literal(how: (u8, u32), name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    match known_name(name) {
        Some(index) => number(how, index, out),
        None => {
            number(how, 0, out);
            string(name, out);
        }
    }
    string(value, out);
}

fn string(string: &[u8], out: &mut Vec<u8>) {
    number(PLAIN, string.len(), out);
    out.extend_from_slice(string);
}

/// In the last bits of a byte, if it has room there, and after it otherwise (RFC 7541, section 5.1).
fn number((bits, prefix): (u8, u32), number: usize, out: &mut Vec<u8>) {
    let mask = u8::MAX >> (8 - prefix);
    let mut left = match u8::try_from(number) {
        Ok(small) if small < mask => return out.push(bits | small),
        _ => number - usize::from(mask),
    };
    out.push(bits | mask);
    while left >= 0x80 {
        out.push(0x80 | low_bits(left));
        left >>= 7;
    }
    out.push(low_bits(left));
}

#[allow(clippy::cast_possible_truncation, reason = "seven bits have room in a byte")]
fn low_bits(number: usize) -> u8 {
    (number & 0x7f) as u8
}

#[cfg(test)]
impl Encoder {
    pub(super) fn table(&self) -> &Table {
        &self.table
    }
}
