//! Clients that ask more often than need be whether the server is there. LDLM, as every server made with grpc-go, closes
//! their connection with a word about why; it costs little here, but a client that gets away with it is wrong elsewhere.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A ping every 10 s is fine. A second less, because a line may delay one ping more than the next.
const OFTEN: Duration = Duration::from_secs(9);
/// Pings in a row that may come too soon after the one before. LDLM closes on the seventh ping in a hurry.
const OFTEN_MAX: u32 = 5;
/// How long a client has to read why, and to hang up itself.
const LINGER: Duration = Duration::from_secs(1);

/// The pings of one connection.
#[derive(Debug, Default)]
pub(super) struct Pings {
    last: Option<Instant>,
    too_soon: u32,
}

impl Pings {
    pub(super) fn came(&mut self, now: Instant) {
        let soon = self.last.replace(now).is_some_and(|last| now - last < OFTEN);
        self.too_soon = if soon { self.too_soon.saturating_add(1) } else { 0 };
    }

    /// Something was sent to the client. Many measure with a ping how fast that was.
    pub(super) fn excused(&mut self) {
        if !self.are_too_many() {
            *self = Self::default();
        }
    }

    /// Once they are, they remain so.
    pub(super) fn are_too_many(&self) -> bool {
        self.too_soon > OFTEN_MAX
    }
}

/// The last word to a client that pings too often.
pub(super) struct Farewell {
    unsaid: &'static [u8],
    lingers: Pin<Box<Sleep>>,
}

impl Farewell {
    pub(super) fn new() -> Self {
        Self { unsaid: TOO_MANY_PINGS, lingers: Box::pin(sleep(LINGER)) }
    }

    /// Says it, and hangs up when the client has, or has had the time to. If it were hung up on while it goes on
    /// talking, it would be told of a reset, perhaps before it has read this.
    pub(super) fn poll<I: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        mut io: Pin<&mut I>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        if self.lingers.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        while !self.unsaid.is_empty() {
            let said = ready!(io.as_mut().poll_write(cx, self.unsaid))?;
            self.unsaid = &self.unsaid[said..];
        }
        ready!(io.as_mut().poll_shutdown(cx))?;
        loop {
            let mut unheard = [0; 512];
            let mut unheard = ReadBuf::new(&mut unheard);
            ready!(io.as_mut().poll_read(cx, &mut unheard))?;
            if unheard.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

/// The frame: its head, the last stream that may have been served (any), `ENHANCE_YOUR_CALM`, and why.
const TOO_MANY_PINGS: &[u8] = b"\0\0\x16\x07\0\0\0\0\0\x7f\xff\xff\xff\0\0\0\x0btoo_many_pings";

#[cfg(test)]
mod tests {
    use super::*;

    /// After pings that came so many seconds after each other.
    fn pinged(gaps: &[u64]) -> Pings {
        let (mut pings, mut now) = (Pings::default(), Instant::now());
        for gap in gaps {
            now += Duration::from_secs(*gap);
            pings.came(now);
        }
        pings
    }

    #[test]
    fn the_seventh_ping_in_a_hurry_is_one_too_many() {
        assert!(!pinged(&[0; 6]).are_too_many());
        assert!(pinged(&[0; 7]).are_too_many());
        assert!(pinged(&[60, 60, 1, 1, 1, 1, 1, 1]).are_too_many());
    }

    #[test]
    fn pings_every_ten_seconds_are_never_too_many() {
        assert!(!pinged(&[10; 100]).are_too_many());
        assert!(!pinged(&[1, 1, 1, 1, 1, 10, 1, 1, 1, 1, 1]).are_too_many(), "now and then one may come sooner");
    }

    #[test]
    fn what_is_sent_in_between_excuses_pings_until_there_are_too_many() {
        let mut pings = Pings::default();
        let now = Instant::now();
        for _ in 0..20 {
            for _ in 0..6 {
                pings.came(now);
            }
            pings.excused();
        }
        assert!(!pings.are_too_many());
        (0..7).for_each(|_| pings.came(now));
        pings.excused();
        assert!(pings.are_too_many());
    }
}
