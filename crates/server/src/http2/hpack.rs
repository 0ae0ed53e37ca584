//! HPACK (RFC 7541): what header blocks say, and how ours are written. Whether the fields make a request is decided by those
//! who are told them.
//!
//! Nearly all fields of nearly all requests are numbers of what was said before, so nothing is allocated for those, nor for
//! anything else once a connection has seen its largest header block.

mod encoder;
mod huffman;
mod table;

pub(super) use encoder::Encoder;
use table::Table;

/// What a dynamic table can hold unless settings say otherwise, and ours never do.
const TABLE_BYTES: usize = 4_096;
/// After the first one. With so many bits a number can be no size that we know, and still nothing overflows.
const NUMBER_BYTES_MAX: u32 = 4;

/// The first bits of a representation (section 6), and the bits after them that a number begins in.
const INDEXED: (u8, u32) = (0b1000_0000, 7);
const INDEXING: (u8, u32) = (0b0100_0000, 6);
const SIZE_UPDATE: (u8, u32) = (0b0010_0000, 5);
/// Whether or not it may ever be indexed, which says nothing to those who do not pass it on.
const NOT_INDEXING: (u8, u32) = (0b0000_0000, 4);
/// Of a string, the same: whether it is in Huffman's code, and its length.
const HUFFMAN: (u8, u32) = (0b1000_0000, 7);
const PLAIN: (u8, u32) = (0b0000_0000, 7);

/// Why a header block cannot be understood. The connection is over then, as nobody knows what its table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("a header block ends within a field")]
    CutOff,
    #[error("a header block has a number that is too large")]
    Number,
    #[error("a header block names a field that is not in the table")]
    Index,
    #[error("a header block makes the table larger than we said")]
    TableSize,
    #[error("a header block changes the size of the table after its first field")]
    TableSizeLate,
    #[error("a header block has a string that is not in Huffman's code")]
    Huffman,
}

/// Understands the header blocks of one connection.
#[derive(Debug)]
pub(super) struct Decoder {
    table: Table,
    /// Where strings are put together that do not lie in the block as they are.
    name: Vec<u8>,
    value: Vec<u8>,
    /// An entry on its way into the table, which its name may come from.
    entry: Vec<u8>,
}

impl Decoder {
    pub(super) fn new() -> Self {
        Self { table: Table::new(TABLE_BYTES), name: Vec::new(), value: Vec::new(), entry: Vec::new() }
    }

    /// Tells every field of a header block in order, names first. The table follows the block whatever becomes of its fields, so
    /// every block must pass here. After an error the connection is over.
    pub(super) fn decode(&mut self, block: &[u8], mut field: impl FnMut(&[u8], &[u8])) -> Result<(), Malformed> {
        let mut rest = Rest(block);
        let mut is_first = true;
        while let Some(&first) = rest.0.first() {
            if first & INDEXED.0 != 0 {
                let (name, value) = self.table.get(rest.number(INDEXED.1)?).ok_or(Malformed::Index)?;
                field(name, value);
            } else if first & INDEXING.0 != 0 {
                self.literal(&mut rest, INDEXING.1, &mut field)?;
            } else if first & SIZE_UPDATE.0 != 0 {
                if !is_first {
                    return Err(Malformed::TableSizeLate);
                }
                let bytes = rest.number(SIZE_UPDATE.1)?;
                if bytes > TABLE_BYTES {
                    return Err(Malformed::TableSize);
                }
                self.table.set_max(bytes);
                // There may be another one.
                continue;
            } else {
                self.literal(&mut rest, NOT_INDEXING.1, &mut field)?;
            }
            is_first = false;
        }
        Ok(())
    }

    fn literal(
        &mut self,
        rest: &mut Rest<'_>,
        prefix: u32,
        field: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Malformed> {
        let name = match rest.number(prefix)? {
            0 => rest.string(&mut self.name)?,
            index => self.table.get(index).ok_or(Malformed::Index)?.0,
        };
        let value = rest.string(&mut self.value)?;
        field(name, value);
        if prefix == INDEXING.1 {
            self.entry.clear();
            self.entry.extend_from_slice(name);
            self.entry.extend_from_slice(value);
            let name = name.len();
            self.table.insert(&self.entry, name);
        }
        Ok(())
    }
}

/// What is left of a header block.
#[derive(Debug)]
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.0.split_first().ok_or(Malformed::CutOff)?;
        self.0 = rest;
        Ok(*first)
    }

    /// A number that begins in the last bits of the next byte (section 5.1).
    fn number(&mut self, prefix: u32) -> Result<usize, Malformed> {
        let mask = 0xff >> (8 - prefix);
        let first = usize::from(self.byte()?) & mask;
        if first < mask {
            return Ok(first);
        }
        let mut number = first;
        for at in 0..NUMBER_BYTES_MAX {
            let byte = usize::from(self.byte()?);
            number += (byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed::Number)
    }

    /// A string (section 5.2), out of the block if it lies there as it is.
    fn string<'s>(&mut self, scratch: &'s mut Vec<u8>) -> Result<&'s [u8], Malformed>
    where
        'a: 's,
    {
        let is_coded = self.0.first().is_some_and(|first| first & HUFFMAN.0 != 0);
        let bytes = self.number(HUFFMAN.1)?;
        let (string, rest) = self.0.split_at_checked(bytes).ok_or(Malformed::CutOff)?;
        self.0 = rest;
        if !is_coded {
            return Ok(string);
        }
        scratch.clear();
        huffman::decode(string, scratch)?;
        Ok(scratch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: [&str; 4] = [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"];
    const SECOND: [&str; 5] =
        [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com", "cache-control: no-cache"];
    const THIRD: [&str; 5] = [
        ":method: GET",
        ":scheme: https",
        ":path: /index.html",
        ":authority: www.example.com",
        "custom-key: custom-value",
    ];
    const DATE: &str = "date: Mon, 21 Oct 2013 20:13:21 GMT";
    const DATE_LATER: &str = "date: Mon, 21 Oct 2013 20:13:22 GMT";
    const LOCATION: &str = "location: https://www.example.com";
    const PRIVATE: &str = "cache-control: private";
    const GZIP: &str = "content-encoding: gzip";
    const COOKIE: &str = "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";

    /// As the RFC prints bytes.
    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<_> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
        assert!(digits.len().is_multiple_of(2), "{hex}");
        digits.chunks(2).map(|pair| u8::try_from(16 * pair[0] + pair[1]).unwrap()).collect()
    }

    fn fields(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<String>, Malformed> {
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        decoder.decode(block, |name, value| fields.push(format!("{}: {}", text(name), text(value))))?;
        Ok(fields)
    }

    /// A block, what it says, and what is in the table then, of which size.
    type Example<'a> = (&'a str, &'a [&'a str], &'a [&'a str], usize);

    fn are_understood(decoder: &mut Decoder, examples: &[Example<'_>]) {
        for (block, said, table, size) in examples {
            assert_eq!(fields(decoder, &bytes(block)).unwrap(), *said, "{block}");
            assert_eq!(decoder.table.shown(), (table.iter().map(ToString::to_string).collect(), *size), "{block}");
        }
    }

    fn is_refused(block: &[u8], why: Malformed) {
        assert_eq!(fields(&mut Decoder::new(), block), Err(why), "{block:02x?}");
    }

    #[test]
    fn numbers_are_as_in_the_examples_of_the_rfc() {
        for (block, prefix, number) in [("0a", 5, 10), ("1f9a0a", 5, 1337), ("1f00", 5, 31), ("7f8001", 7, 255)] {
            let bytes = bytes(block);
            let mut rest = Rest(&bytes);
            assert_eq!((rest.number(prefix), rest.0.len()), (Ok(number), 0), "{block}");
        }
    }

    #[test]
    fn fields_are_as_in_the_examples_of_the_rfc() {
        let literal = "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572";
        let said = ["custom-key: custom-header"];
        are_understood(&mut Decoder::new(), &[(literal, &said, &said, 55)]);
        let not_indexed = "040c 2f73 616d 706c 652f 7061 7468";
        are_understood(&mut Decoder::new(), &[(not_indexed, &[":path: /sample/path"], &[], 0)]);
        let never_indexed = "1008 7061 7373 776f 7264 0673 6563 7265 74";
        are_understood(&mut Decoder::new(), &[(never_indexed, &["password: secret"], &[], 0)]);
        are_understood(&mut Decoder::new(), &[("82", &[":method: GET"], &[], 0)]);
    }

    #[test]
    fn requests_are_as_in_the_examples_of_the_rfc() {
        let plain = [
            "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "8286 84be 5808 6e6f 2d63 6163 6865",
            "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
        ];
        let coded = [
            "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
            "8286 84be 5886 a8eb 1064 9cbf",
            "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
        ];
        let table = ["custom-key: custom-value", "cache-control: no-cache", ":authority: www.example.com"];
        for [first, second, third] in [plain, coded] {
            let examples: [Example<'_>; 3] =
                [(first, &FIRST, &table[2..], 57), (second, &SECOND, &table[1..], 110), (third, &THIRD, &table, 164)];
            are_understood(&mut Decoder::new(), &examples);
        }
    }

    #[test]
    fn responses_are_as_in_the_examples_of_the_rfc() {
        let plain = [
            "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d
             546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "4803 3330 37c1 c0bf",
            "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f
             6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b
             2076 6572 7369 6f6e 3d31",
        ];
        let coded = [
            "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7
             8f0b 97c8 e9ae 82ae 43d3",
            "4883 640e ffc1 c0bf",
            "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335
             dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
        ];
        for [first, second, third] in [plain, coded] {
            let examples: [Example<'_>; 3] = [
                (first, &[":status: 302", PRIVATE, DATE, LOCATION], &[LOCATION, DATE, PRIVATE, ":status: 302"], 222),
                (second, &[":status: 307", PRIVATE, DATE, LOCATION], &[":status: 307", LOCATION, DATE, PRIVATE], 222),
                (
                    third,
                    &[":status: 200", PRIVATE, DATE_LATER, LOCATION, GZIP, COOKIE],
                    &[COOKIE, GZIP, DATE_LATER],
                    215,
                ),
            ];
            let mut decoder = Decoder::new();
            decoder.table.set_max(256);
            are_understood(&mut decoder, &examples);
        }
    }

    #[test]
    fn numbers_that_are_too_large_or_too_long_are_refused() {
        let four = [0xff, 0xff, 0xff, 0xff, 0x7f];
        // It can be read, and stands for nothing.
        is_refused(&four, Malformed::Index);
        is_refused(&[0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], Malformed::Number);
        is_refused(&[0xff; 20], Malformed::Number);
        // With nothing but zeros.
        is_refused(&[0xff, 0x80, 0x80, 0x80, 0x80, 0x00], Malformed::Number);
        is_refused(&[0x00, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], Malformed::Number);
    }

    #[test]
    fn what_the_table_does_not_have_is_refused() {
        is_refused(&[0x80], Malformed::Index);
        is_refused(&[0x80 | 62], Malformed::Index);
        // As a name.
        is_refused(&[0x40 | 62, 1, b'x'], Malformed::Index);
        is_refused(&[0x0f, 62 - 15, 1, b'x'], Malformed::Index);
        let mut decoder = Decoder::new();
        assert_eq!(fields(&mut decoder, b"\x40\x01a\x01b\xbe").unwrap(), ["a: b", "a: b"]);
        assert_eq!(fields(&mut decoder, &[0xbf]), Err(Malformed::Index));
        assert_eq!(fields(&mut decoder, &[0xbd]).unwrap(), ["www-authenticate: "]);
    }

    #[test]
    fn a_block_that_ends_within_a_field_is_refused() {
        let whole = bytes("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572");
        for end in 1..whole.len() {
            is_refused(&whole[..end], Malformed::CutOff);
        }
        is_refused(&[0xff], Malformed::CutOff);
        is_refused(&[0xff, 0x80], Malformed::CutOff);
        is_refused(&[0x3f], Malformed::CutOff);
        is_refused(&[0x00, 0x85, 0x1f], Malformed::CutOff);
        assert_eq!(fields(&mut Decoder::new(), &[]).unwrap(), [""; 0]);
    }

    #[test]
    fn the_table_is_not_made_larger_than_we_said() {
        let mut decoder = Decoder::new();
        // 4,096 and 0 and 4,096 again.
        assert_eq!(fields(&mut decoder, &[0x3f, 0xe1, 0x1f, 0x20, 0x3f, 0xe1, 0x1f, 0x82]).unwrap(), [":method: GET"]);
        is_refused(&[0x3f, 0xe2, 0x1f], Malformed::TableSize);
    }

    #[test]
    fn the_table_changes_its_size_only_before_the_first_field() {
        is_refused(&[0x82, 0x20], Malformed::TableSizeLate);
        is_refused(b"\x20\x00\x01a\x01b\x20", Malformed::TableSizeLate);
        let mut decoder = Decoder::new();
        assert_eq!(fields(&mut decoder, b"\x40\x01a\x01b").unwrap(), ["a: b"]);
        assert_eq!(fields(&mut decoder, b"\x20").unwrap(), [""; 0]);
        assert_eq!(decoder.table.shown(), (Vec::new(), 0));
        assert_eq!(fields(&mut decoder, b"\xbe"), Err(Malformed::Index));
    }

    #[test]
    fn strings_that_are_not_in_the_code_are_refused() {
        // The end, padding of eight bits, and padding with a zero.
        for string in [&b"\x84\xff\xff\xff\xff"[..], b"\x82\x1f\xff", b"\x81\x1e", b"\x81\x18"] {
            is_refused(&[b"\x04", string].concat(), Malformed::Huffman);
            is_refused(&[b"\x40", string, b"\x01b"].concat(), Malformed::Huffman);
        }
        assert_eq!(fields(&mut Decoder::new(), b"\x40\x81\x1f\x80").unwrap(), ["a: "]);
    }

    #[test]
    fn a_field_larger_than_the_table_empties_it() {
        let mut decoder = Decoder::new();
        let insert = |value: usize| {
            let mut block = vec![0x40, 1, b'a', 0x7f];
            let left = value - 127;
            block.extend([0x80 | u8::try_from(left % 128).unwrap(), u8::try_from(left / 128).unwrap()]);
            block.extend(vec![b'x'; value]);
            block
        };
        // With the name and what every field takes it is as large as the table.
        fields(&mut decoder, b"\x40\x01a\x01b").unwrap();
        fields(&mut decoder, &insert(4_096 - 33)).unwrap();
        assert_eq!((decoder.table.shown().0.len(), decoder.table.shown().1), (1, 4_096));
        let told = fields(&mut decoder, &insert(4_096 - 32)).unwrap();
        assert_eq!(told[0].len(), 3 + 4_096 - 32);
        assert_eq!(decoder.table.shown(), (Vec::new(), 0));
        assert_eq!(fields(&mut decoder, b"\x40\x01a\x01b\xbe").unwrap().len(), 2);
    }

    #[test]
    fn a_field_may_push_out_the_one_that_it_has_its_name_from() {
        let mut decoder = Decoder::new();
        // Room for one.
        decoder.table.set_max(40);
        fields(&mut decoder, b"\x40\x04name\x01a").unwrap();
        for value in b'a'..=b'z' {
            let told = fields(&mut decoder, &[0x7e, 1, value]).unwrap();
            assert_eq!(told, [format!("name: {}", char::from(value))]);
            assert_eq!(decoder.table.shown(), (told, 37));
        }
    }

    #[test]
    fn the_oldest_fields_are_forgotten_first_however_many_come() {
        let mut decoder = Decoder::new();
        for number in 0..10_000 {
            let value = number.to_string();
            let length = u8::try_from(value.len()).unwrap();
            fields(&mut decoder, &[b"\x40\x04name", &[length][..], value.as_bytes()].concat()).unwrap();
            assert!(decoder.table.is_sound());
        }
        let (shown, _) = decoder.table.shown();
        let expected: Vec<_> = (0..4_096 / 40).map(|back| format!("name: {}", 9_999 - back)).collect();
        assert_eq!(shown, expected);
        let oldest = u8::try_from(61 + expected.len() - 127).unwrap();
        assert_eq!(fields(&mut decoder, &[0xff, oldest]).unwrap(), [expected.last().unwrap().as_str()]);
        assert_eq!(fields(&mut decoder, &[0xff, oldest + 1]), Err(Malformed::Index));
    }

    /// What an answer of ours begins with.
    fn answer(encoder: &mut Encoder) -> Vec<u8> {
        let mut block = Vec::new();
        encoder.begin(&mut block);
        encoder.status(200, &mut block);
        encoder.constant(b"content-type", b"application/grpc", &mut block);
        encoder.constant(b"grpc-status", b"0", &mut block);
        block
    }

    #[test]
    fn an_answer_takes_a_byte_for_each_field_that_was_said_before() {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
        let first = answer(&mut encoder);
        assert_eq!(first, b"\x88\x5f\x10application/grpc\x40\x0bgrpc-status\x010");
        let said = [":status: 200", "content-type: application/grpc", "grpc-status: 0"];
        assert_eq!(fields(&mut decoder, &first).unwrap(), said);
        for _ in 0..3 {
            let block = answer(&mut encoder);
            assert_eq!(block, [0x88, 0xbf, 0xbe]);
            assert_eq!(fields(&mut decoder, &block).unwrap(), said);
        }
    }

    #[test]
    fn other_fields_are_spelled_out_each_time() {
        let mut encoder = Encoder::new();
        for _ in 0..2 {
            let mut block = Vec::new();
            encoder.begin(&mut block);
            encoder.status(415, &mut block);
            encoder.field(b"grpc-message", b"", &mut block);
            encoder.field(b"www-authenticate", b"Basic", &mut block);
            assert_eq!(block, b"\x08\x03415\x00\x0cgrpc-message\x00\x0f\x2e\x05Basic");
            let said = [":status: 415", "grpc-message: ", "www-authenticate: Basic"];
            assert_eq!(fields(&mut Decoder::new(), &block).unwrap(), said);
        }
        for status in [200, 204, 206, 304, 400, 404, 500] {
            let mut block = Vec::new();
            encoder.status(status, &mut block);
            assert_eq!(block.len(), 1);
            assert_eq!(fields(&mut Decoder::new(), &block).unwrap(), [format!(":status: {status}")]);
        }
    }

    #[test]
    fn strings_of_any_length_can_be_written() {
        for length in [0, 1, 126, 127, 128, 254, 255, 256, 127 + 128, 16_383, 16_510, 16_511, 100_000] {
            let value = vec![b'x'; length];
            let mut block = Vec::new();
            Encoder::new().field(&value, &value, &mut block);
            let mut told = Vec::new();
            Decoder::new().decode(&block, |name, value| told.push((name.to_vec(), value.to_vec()))).unwrap();
            assert_eq!(told, [(value.clone(), value)]);
        }
    }

    #[test]
    fn a_peer_that_wants_a_smaller_table_is_told_so_once() {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
        let said = fields(&mut decoder, &answer(&mut encoder)).unwrap();
        encoder.set_table_max(0);
        for begin in [&b"\x20\x88\x0f\x10"[..], b"\x88\x0f\x10"] {
            let block = answer(&mut encoder);
            assert!(block.starts_with(begin), "{block:02x?}");
            assert_eq!(fields(&mut decoder, &block).unwrap(), said);
            assert_eq!(decoder.table.shown(), (Vec::new(), 0));
        }
        // Back to what it was.
        encoder.set_table_max(4_096);
        let block = answer(&mut encoder);
        assert!(block.starts_with(b"\x3f\xe1\x1f\x88\x5f\x10"), "{block:02x?}");
        assert_eq!(fields(&mut decoder, &block).unwrap(), said);
        assert_eq!(answer(&mut encoder), [0x88, 0xbf, 0xbe]);
    }

    #[test]
    fn a_table_that_was_smaller_between_two_answers_is_told_with_both_sizes() {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
        let said = fields(&mut decoder, &answer(&mut encoder)).unwrap();
        encoder.set_table_max(10);
        encoder.set_table_max(1);
        encoder.set_table_max(4_096);
        let block = answer(&mut encoder);
        assert!(block.starts_with(b"\x21\x3f\xe1\x1f\x88\x5f\x10"), "{block:02x?}");
        assert_eq!(fields(&mut decoder, &block).unwrap(), said);
        assert_eq!(encoder.table().shown(), decoder.table.shown());
    }

    #[test]
    fn a_peer_that_allows_a_larger_table_changes_nothing() {
        let mut encoder = Encoder::new();
        answer(&mut encoder);
        encoder.set_table_max(4_096);
        encoder.set_table_max(u32::MAX);
        assert_eq!(answer(&mut encoder), [0x88, 0xbf, 0xbe]);
    }

    #[test]
    fn a_table_with_room_for_one_field_is_enough() {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
        encoder.set_table_max(60);
        let said = [":status: 200", "content-type: application/grpc", "grpc-status: 0"];
        for _ in 0..3 {
            assert_eq!(fields(&mut decoder, &answer(&mut encoder)).unwrap(), said);
            assert_eq!(encoder.table().shown(), decoder.table.shown());
            assert_eq!(encoder.table().shown().0.len(), 1);
        }
    }
}

#[cfg(test)]
mod fuzzing {
    use tenure_fuzz::fuzz;

    use super::*;

    /// Blocks of a connection, each after a byte that says its length. That byte also says how large a table is that we write
    /// to.
    #[test]
    fn any_blocks_leave_a_sound_table_and_can_be_written_again() {
        let samples = [
            &b"\x11\x82\x86\x84A\x8c\xf1\xe3\xc2\xe5\xf2:k\xa0\xab\x90\xf4\xff\x0c\x82\x86\x84\xbeX\x86\xa8\xeb\x10d\x9c\xbf"[..],
            b"\x1b@\x0acustom-key\x0dcustom-header\xbe\x06\x20\x3f\xe1\x1f\x82\xbd\x0f\x10\x08password\x06secret",
            b"\x05\x40\x01a\x01b\x03\xbe\x7e\x00\x02\xbf\xbe",
        ]
        .map(<[u8]>::to_vec);
        let words = ["\x40\x01a\x01b", "\u{7f}\u{0}", "\x3f\u{1f}", "\x20", "\x0f\x10", "grpc-status", "\x00\x00\x00"];
        fuzz("hpack", &samples, &words, |input| {
            let (mut decoder, mut encoder, mut again) = (Decoder::new(), Encoder::new(), Decoder::new());
            let (mut rest, mut blocks, mut count) = (input, 0, 0);
            while let Some((length, blocks_left)) = rest.split_first() {
                let (block, left) = blocks_left.split_at(usize::from(*length).min(blocks_left.len()));
                rest = left;
                let mut told = Vec::new();
                let done = decoder.decode(block, |name, value| told.push((name.to_vec(), value.to_vec())));
                assert!(decoder.table.is_sound());
                if let Err(why) = done {
                    return format!("{why:?} {} {}", blocks.min(5), count.min(5));
                }
                encoder.set_table_max(u32::from(*length) * 32);
                let mut written = Vec::new();
                encoder.begin(&mut written);
                for (at, (name, value)) in told.iter().enumerate() {
                    match at % 2 {
                        0 => encoder.constant(name, value, &mut written),
                        _ => encoder.field(name, value, &mut written),
                    }
                }
                let mut told_again = Vec::new();
                let done = again.decode(&written, |name, value| told_again.push((name.to_vec(), value.to_vec())));
                assert_eq!((done, told_again), (Ok(()), told.clone()));
                assert_eq!(encoder.table().shown(), again.table.shown());
                assert!(encoder.table().is_sound() && again.table.is_sound());
                blocks += 1;
                count += told.len();
            }
            format!("{} {} {}", blocks.min(9), count.min(30), decoder.table.shown().0.len().min(9))
        });
    }
}
