//! How an input becomes another one. All chance comes from a seed.

/// A generator of numbers, the same from the same seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next_number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// At least 0 and less than `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let number = self.next_number() % bound as u64;
        usize::try_from(number).expect("it is less than one that fits")
    }

    fn byte(&mut self) -> u8 {
        self.next_number().to_le_bytes()[0]
    }
}

/// Numbers at which something often changes, as varints and as text they mean trouble too.
const NUMBERS: [i128; 14] = [
    0,
    -1,
    127,
    128,
    255,
    65_535,
    65_536,
    2_147_483_647,
    2_147_483_648,
    4_294_967_295,
    4_294_967_296,
    -2_147_483_648,
    9_223_372_036_854_775_807,
    18_446_744_073_709_551_615,
];
/// The most that a piece is repeated: enough for every bound on depth and number.
const TIMES_MAX: usize = 2_000;

pub(crate) fn mutate(random: &mut Random, input: &mut Vec<u8>, others: &[Vec<u8>], dictionary: &[&str]) {
    let at = random.below(input.len() + 1);
    let piece = piece(random, input);
    match random.below(12) {
        0 if at < input.len() => input[at] ^= 1 << random.below(8),
        1 if at < input.len() => input[at] = random.byte(),
        2 => input.insert(at, random.byte()),
        3 => drop(input.drain(piece)),
        4 => input.truncate(at),
        5 => {
            let again = input[piece].to_vec();
            insert(input, at, &again);
        }
        6 => {
            let times = 1 << random.below(TIMES_MAX.ilog2() as usize + 1);
            let few = &input[piece.start..piece.end.min(piece.start + 16)];
            insert(input, at, &few.repeat(times));
        }
        7 => {
            let other = &others[random.below(others.len())];
            let some = other[self::piece(random, other)].to_vec();
            insert(input, at, &some);
        }
        8 => {
            let other = &others[random.below(others.len())];
            let from = random.below(other.len() + 1);
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        9 => {
            let number = NUMBERS[random.below(NUMBERS.len())];
            let bytes = if random.below(2) == 0 { number.to_string().into_bytes() } else { varint(number) };
            input.splice(piece.start..piece.end.min(piece.start + bytes.len()), bytes);
        }
        _ if !dictionary.is_empty() => {
            let some = dictionary[random.below(dictionary.len())].as_bytes();
            if random.below(2) == 0 {
                insert(input, at, some);
            } else {
                input.splice(piece, some.iter().copied());
            }
        }
        _ => input.extend((0..random.below(8)).map(|_| random.byte()).collect::<Vec<_>>()),
    }
}

/// Mostly a short one.
fn piece(random: &mut Random, of: &[u8]) -> std::ops::Range<usize> {
    let start = random.below(of.len() + 1);
    let length_max = if random.below(4) == 0 { of.len() - start } else { (of.len() - start).min(12) };
    start..start + random.below(length_max + 1)
}

fn insert(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    drop(input.splice(at..at, bytes.iter().copied()));
}

/// As protobuf and postcard have it.
fn varint(number: i128) -> Vec<u8> {
    let bytes = number.to_le_bytes();
    let mut left = u64::from_le_bytes(bytes[..8].try_into().expect("it has so many"));
    let mut varint = Vec::new();
    loop {
        let [low, ..] = left.to_le_bytes();
        left >>= 7;
        if left == 0 {
            varint.push(low & 0x7f);
            return varint;
        }
        varint.push(low | 0x80);
    }
}
