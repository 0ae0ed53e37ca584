//! Numbers that look random and are the same for the same seed, on every machine.

/// SplitMix64: every seed is as good as another, and a stream can be branched off anywhere.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 up to, not including, the bound.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        u64::try_from((u128::from(self.next()) * u128::from(bound)) >> 64).expect("less than the bound")
    }

    pub(crate) fn small(&mut self, bound: u32) -> u32 {
        u32::try_from(self.below(u64::from(bound))).expect("less than the bound")
    }

    pub(crate) fn byte(&mut self, bound: u8) -> u8 {
        u8::try_from(self.below(u64::from(bound))).expect("less than the bound")
    }

    /// From the first to the last.
    pub(crate) fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    /// True once in so many times.
    pub(crate) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, things: &'a [T]) -> &'a T {
        &things[usize::try_from(self.below(things.len() as u64)).expect("less than a length")]
    }
}
