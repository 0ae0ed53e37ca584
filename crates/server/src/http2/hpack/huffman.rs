//! The strings that a peer has shortened by the code of RFC 7541 (appendix B). We never shorten any: it would cost us more time
//! than the bytes cost anybody.
//!
//! The code is canonical, that is, codes of the same length are numbers that follow each other in the order of what they stand
//! for, and longer ones come after shorter ones. So the lengths say it all.

use super::Malformed;

/// Every byte, and an end that no string may contain; its first bits fill the last byte.
const SYMBOLS: usize = 257;
const LENGTH_MAX: usize = 30;
/// Whatever is common in header fields has a code of at most so many bits, and is found at once.
const SHORT_BITS: usize = 8;

/// In bits, of the code of each byte and of the end.
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, //
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, //
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, //
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, //
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, //
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, //
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, //
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, //
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, //
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, //
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, //
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, //
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, //
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, //
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, //
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, //
    30,
];

static CODE: Code = Code::new();

/// Adds what a string stands for.
pub(super) fn decode(string: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    let mut bytes = string.iter();
    // Those that are still to be understood, from the highest on.
    let mut bits: u64 = 0;
    let mut count: usize = 0;
    loop {
        while count <= 32 {
            let Some(byte) = bytes.next() else { break };
            bits |= u64::from(*byte) << (56 - count);
            count += 8;
        }
        // What comes after the last byte looks like the end's code.
        let next = ((bits | (u64::MAX >> count)) >> 32) as u32;
        let (symbol, length) = CODE.find(next);
        if length > count {
            let is_padding = count < 8 && next == u32::MAX;
            return if is_padding { Ok(()) } else { Err(Malformed::Huffman) };
        }
        out.push(u8::try_from(symbol).map_err(|_| Malformed::Huffman)?);
        bits <<= length;
        count -= length;
    }
}

/// What finds the symbol of a code.
#[derive(Debug)]
struct Code {
    /// By the next bits: the symbol, and the length of its code. That is 0 where the code is longer than these bits.
    short: [(u8, u8); 1 << SHORT_BITS],
    /// In the order of their codes.
    symbols: [u16; SYMBOLS],
    /// By length: before which 32 bits all codes come that are not longer; the first code, and the place of its symbol.
    ends: [u64; LENGTH_MAX + 1],
    firsts: [u32; LENGTH_MAX + 1],
    places: [usize; LENGTH_MAX + 1],
}

impl Code {
    #[allow(clippy::cast_possible_truncation, reason = "of const functions; symbols and lengths are small")]
    const fn new() -> Self {
        let mut code = Self {
            short: [(0, 0); 1 << SHORT_BITS],
            symbols: [0; SYMBOLS],
            ends: [0; LENGTH_MAX + 1],
            firsts: [0; LENGTH_MAX + 1],
            places: [0; LENGTH_MAX + 1],
        };
        let mut next: u32 = 0;
        let mut found = 0;
        let mut length = 1;
        while length <= LENGTH_MAX {
            next <<= 1;
            (code.firsts[length], code.places[length]) = (next, found);
            let mut symbol = 0;
            while symbol < SYMBOLS {
                if LENGTHS[symbol] as usize == length {
                    code.symbols[found] = symbol as u16;
                    found += 1;
                    if length <= SHORT_BITS {
                        let mut tail = 0;
                        while tail < 1 << (SHORT_BITS - length) {
                            code.short[((next as usize) << (SHORT_BITS - length)) + tail] =
                                (symbol as u8, length as u8);
                            tail += 1;
                        }
                    }
                    next += 1;
                }
                symbol += 1;
            }
            code.ends[length] = (next as u64) << (32 - length);
            length += 1;
        }
        // There is one for any bits.
        assert!(found == SYMBOLS && code.ends[LENGTH_MAX] == 1 << 32);
        code
    }

    /// The symbol that these 32 bits begin with, and how many of them are its code.
    fn find(&self, bits: u32) -> (u16, usize) {
        let (symbol, length) = self.short[(bits >> (32 - SHORT_BITS)) as usize];
        if length > 0 {
            return (symbol.into(), length.into());
        }
        let mut length = SHORT_BITS + 1;
        while u64::from(bits) >= self.ends[length] {
            length += 1;
        }
        let after = (bits >> (32 - length)) - self.firsts[length];
        (self.symbols[self.places[length] + after as usize], length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: u16 = 256;

    fn decoded(string: &[u8]) -> Result<Vec<u8>, Malformed> {
        let mut out = Vec::new();
        decode(string, &mut out).map(|()| out)
    }

    /// By the code of each symbol, as it is found by our own table.
    fn coded(symbols: &[u16]) -> Vec<u8> {
        let bits: String = symbols.iter().map(|symbol| code(*symbol)).collect();
        packed(&bits)
    }

    /// Filled up with ones.
    fn packed(bits: &str) -> Vec<u8> {
        let digits: Vec<_> = bits.bytes().collect();
        let byte = |digits: &[u8]| (0..8).fold(0, |byte, at| byte << 1 | u8::from(digits.get(at) != Some(&b'0')));
        digits.chunks(8).map(byte).collect()
    }

    fn code(symbol: u16) -> String {
        let length = usize::from(LENGTHS[usize::from(symbol)]);
        let place = CODE.symbols.iter().position(|it| *it == symbol).unwrap();
        let code = usize::try_from(CODE.firsts[length]).unwrap() + place - CODE.places[length];
        format!("{code:0length$b}")
    }

    #[test]
    fn the_first_and_the_last_of_each_length_are_as_in_the_rfc() {
        let ends = [
            ("00000", b'0', "01001", b't'),
            ("010100", b' ', "101101", b'u'),
            ("1011100", b':', "1111011", b'z'),
            ("11111000", b'&', "11111101", b'Z'),
            ("1111111000", b'!', "1111111100", b'?'),
            ("11111111010", b'\'', "11111111100", b'|'),
            ("111111111010", b'#', "111111111011", b'>'),
            ("1111111111000", 0, "1111111111101", b'~'),
            ("11111111111100", b'^', "11111111111101", b'}'),
            ("111111111111100", b'<', "111111111111110", b'{'),
            ("1111111111111110000", b'\\', "1111111111111110010", 208),
            ("11111111111111100110", 128, "11111111111111101101", 226),
            ("111111111111111011100", 153, "111111111111111101000", 230),
            ("1111111111111111010010", 129, "1111111111111111101011", 233),
            ("11111111111111111011000", 1, "11111111111111111110100", 239),
            ("111111111111111111101010", 9, "111111111111111111110101", 237),
            ("1111111111111111111101100", 199, "1111111111111111111101111", 235),
            ("11111111111111111111100000", 192, "11111111111111111111101110", 255),
            ("111111111111111111111011110", 203, "111111111111111111111110000", 254),
            ("1111111111111111111111100010", 2, "1111111111111111111111111110", 249),
            ("111111111111111111111111111100", 10, "111111111111111111111111111110", 22),
        ];
        for (first, first_byte, last, last_byte) in ends {
            assert_eq!(decoded(&packed(&format!("{first}{last}"))), Ok(vec![first_byte, last_byte]), "{first} {last}");
        }
    }

    #[test]
    fn every_byte_is_understood_beside_every_other() {
        for first in 0..256 {
            for second in 0..256 {
                let both = [first, second].map(|symbol| u8::try_from(symbol).unwrap());
                assert_eq!(decoded(&coded(&[first, second])), Ok(both.to_vec()));
            }
        }
        let all: Vec<_> = (0..256).collect();
        assert_eq!(decoded(&coded(&all)), Ok((0..=255).collect()));
        assert_eq!(decoded(&[]), Ok(Vec::new()));
    }

    #[test]
    fn the_end_is_refused_wherever_it_comes() {
        for string in [&[END][..], &[48, END], &[END, 48], &[255, END, 255]] {
            assert_eq!(decoded(&coded(string)), Err(Malformed::Huffman), "{string:?}");
        }
    }

    #[test]
    fn padding_is_at_most_seven_ones() {
        for symbol in 0..256 {
            let code = code(symbol);
            let padding = (8 - code.len() % 8) % 8;
            let byte = vec![u8::try_from(symbol).unwrap()];
            assert_eq!(decoded(&packed(&code)), Ok(byte));
            assert_eq!(decoded(&[packed(&code), vec![0xff]].concat()), Err(Malformed::Huffman));
            // With a zero in each place of it. Where that is long enough it is another symbol, with padding of its own.
            for zero in 0..padding {
                let padded = format!("{code}{}0", "1".repeat(zero));
                let filled = format!("{padded}{}", "1".repeat(padding - zero - 1));
                let all = decoded(&packed(&filled));
                let is_symbol = padding >= 5 && all.as_ref().is_ok_and(|all| all.len() == 2);
                assert!(is_symbol || all == Err(Malformed::Huffman), "{filled}");
            }
        }
    }
}
