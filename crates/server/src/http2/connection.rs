//! A connection: one task that reads what is said, looks after the calls, and writes what there is to say.
//!
//! What was read together is handed over together, and what is ready together is written at once. Calls are no tasks of their own: most are
//! answered by somebody else, and all that is to do here is to pass that on.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::http::{Request, Response};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tower::Service;

use super::bells::Bells;
use super::calls::{Calls, Direct};
use super::protocol::Protocol;

/// What is read at once.
const READ_BYTES: usize = 64 * 1024;
/// Calls that are looked after before it is others' turn: a client can give news to all of its calls with a few bytes.
const CALLS_PER_TURN: usize = 1_024;
/// Memory that a connection keeps for what it writes next.
const KEPT_BYTES_MAX: usize = 16 * 1024;

thread_local! {
    /// Where all connections of a thread read, one after the other: most are silent most of the time, and shall have no memory for what they
    /// do not say.
    static READING: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into());
}

/// How it is found out that a client is gone without a word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeepAlive {
    /// After this long without a word it is asked.
    pub(crate) interval: Duration,
    /// How long it has to say something.
    pub(crate) timeout: Duration,
}

/// Until the client hangs up or breaks the rules; or, once the server stops, until all of its calls are answered.
pub(crate) async fn serve<I, S, D>(io: I, service: S, direct: D, keep_alive: KeepAlive, stopping: &CancellationToken)
where
    I: AsyncRead + AsyncWrite + Unpin,
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send> + Clone + Send + 'static,
    D: Direct,
{
    let bells = Arc::<Bells>::default();
    let mut connection = Connection {
        io,
        protocol: Protocol::new(),
        calls: Calls::new(service, direct, bells.clone()),
        bells,
        written: 0,
        is_closing: false,
        has_hung_up: false,
        keep_alive,
        heard: Instant::now(),
        asked: None,
        alarm: Box::pin(sleep(keep_alive.interval)),
    };
    // The first thing that is done, so that it is sure to be set. From then on it is looked at when it rings: the task is always the same.
    poll_fn(|cx| Poll::Ready(connection.has_gone_silent(cx))).await;
    let stopped = {
        let mut stopping = pin!(stopping.cancelled());
        poll_fn(|cx| match connection.poll(cx) {
            Poll::Pending => stopping.as_mut().poll(cx).map(|()| Ok(true)),
            Poll::Ready(ended) => Poll::Ready(ended.map(|()| false)),
        })
        .await
    };
    let ended = match stopped {
        Ok(true) => {
            connection.protocol.announce_end();
            poll_fn(|cx| connection.poll(cx)).await
        }
        Ok(false) => Ok(()),
        Err(error) => Err(error),
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection has failed");
    }
}

struct Connection<I, S, D: Direct> {
    io: I,
    protocol: Protocol,
    calls: Calls<S, D>,
    bells: Arc<Bells>,
    /// How much of what is to be written has been.
    written: usize,
    /// No more is listened to: what is to be written still is, and then it is hung up.
    is_closing: bool,
    /// So has the client.
    has_hung_up: bool,
    keep_alive: KeepAlive,
    /// When the client has last said something, and when it was asked to.
    heard: Instant,
    asked: Option<Instant>,
    alarm: Pin<Box<Sleep>>,
}

impl<I, S, D> Connection<I, S, D>
where
    I: AsyncRead + AsyncWrite + Unpin,
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send> + Clone + Send + 'static,
    D: Direct,
{
    /// Ready when it is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.bells.is_awake();
        let mut turn = CALLS_PER_TURN;
        loop {
            while !self.is_closing && self.calls.go_on(&mut self.protocol, &mut turn) {}
            if self.protocol.is_over() {
                self.close();
            }
            let is_written = self.poll_write(cx)?.is_ready();
            if self.is_closing {
                return self.poll_close(is_written, cx);
            }
            if self.poll_read(cx)?.is_ready() {
                continue;
            }
            if self.alarm.is_elapsed() && self.has_gone_silent(cx) {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer")));
            }
            if turn == 0 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let can_write = is_written && !self.protocol.out.is_empty();
            if !can_write && !self.calls.has_more(&self.protocol) && self.bells.sleep(cx.waker()) {
                return Poll::Pending;
            }
        }
    }

    /// From now on it has as long to end as one that says nothing has.
    fn close(&mut self) {
        if !std::mem::replace(&mut self.is_closing, true) {
            self.alarm.as_mut().reset(Instant::now() + self.keep_alive.interval + self.keep_alive.timeout);
        }
    }

    /// Says the last word to one that listens, and hangs up.
    fn poll_close(&mut self, is_written: bool, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.alarm.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "it does not hang up")));
        }
        match is_written {
            true => Pin::new(&mut self.io).poll_shutdown(cx),
            false if self.has_hung_up => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }

    /// Ready when there is nothing left to write.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let out = &mut self.protocol.out;
        if out.is_empty() {
            return Poll::Ready(Ok(()));
        }
        while self.written < out.len() {
            match Pin::new(&mut self.io).poll_write(cx, &out[self.written..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(bytes)) => self.written += bytes,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    out.drain(..std::mem::take(&mut self.written));
                    return Poll::Pending;
                }
            }
        }
        ready!(Pin::new(&mut self.io).poll_flush(cx))?;
        self.written = 0;
        out.clear();
        out.shrink_to(KEPT_BYTES_MAX);
        Poll::Ready(Ok(()))
    }

    /// Ready when something was said, or it is over.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { io, protocol, calls, .. } = self;
        let heard = READING.with_borrow_mut(|reading| {
            let mut reading = ReadBuf::new(reading);
            ready!(Pin::new(io).poll_read(cx, &mut reading))?;
            let said = reading.filled();
            let is_all = said.is_empty();
            Poll::Ready(io::Result::Ok((is_all, protocol.hear(said, calls))))
        });
        let (is_all, heard) = ready!(heard)?;
        if is_all {
            self.has_hung_up = true;
            self.close();
        }
        self.heard = Instant::now();
        self.asked = None;
        if let Err(why) = heard {
            tracing::debug!(?why, "a client does not keep to HTTP/2");
            self.protocol.give_up(why);
            self.calls.forget_all();
            self.close();
        }
        Poll::Ready(Ok(()))
    }

    /// Whether it has been asked if it is there, and has not said so in time.
    fn has_gone_silent(&mut self, cx: &mut Context<'_>) -> bool {
        while self.alarm.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            let next = match self.asked {
                Some(asked) if now >= asked + self.keep_alive.timeout => return true,
                Some(asked) => asked + self.keep_alive.timeout,
                None if now >= self.heard + self.keep_alive.interval => {
                    self.protocol.ask();
                    self.asked = Some(now);
                    now + self.keep_alive.timeout
                }
                None => self.heard + self.keep_alive.interval,
            };
            self.alarm.as_mut().reset(next);
        }
        false
    }
}
