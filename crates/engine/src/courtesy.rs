//! Giving the processor to other threads: where there are few, somebody who has to answer or waits for an answer may want it. Who has
//! something short to do gives it back soon; who computes keeps it, and is not given it again so soon.

use std::time::{Duration, Instant};

/// Whoever has something short to do gives the processor back sooner. Who computes keeps it until the system takes it away, for some
/// milliseconds.
pub(crate) const BACK_SOON: Duration = Duration::from_millis(1);

/// Gives the processor to other threads, and tells how long it was before it came back.
pub(crate) fn give_way() -> Duration {
    let given = Instant::now();
    std::thread::yield_now();
    given.elapsed()
}

/// Of a thread whose work nobody waits for, and which must get done: others are given way to as long as they give it back soon.
#[derive(Debug)]
pub(crate) struct Courtesy {
    give_way: fn() -> Duration,
    is_over: bool,
}

impl Courtesy {
    pub(crate) fn new() -> Self {
        Self { give_way, is_over: false }
    }

    /// Of one whose work is waited for.
    pub(crate) fn none() -> Self {
        Self { give_way, is_over: true }
    }

    pub(crate) fn give_way(&mut self) {
        if !self.is_over {
            self.is_over = (self.give_way)() > BACK_SOON;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn somebody_who_keeps_the_processor_is_given_it_once() {
        let mut courtesy = Courtesy { give_way: || BACK_SOON, is_over: false };
        courtesy.give_way();
        assert!(!courtesy.is_over, "it came back soon");
        courtesy.give_way = || Duration::from_secs(60);
        courtesy.give_way();
        courtesy.give_way = || panic!("it is not given away again");
        courtesy.give_way();
    }
}
