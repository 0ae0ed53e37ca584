//! The least that a server could do, to show what the machine allows: it hears what is asked, syncs all that has come meanwhile at once, and
//! answers, all in one thread, which is what does most on two processors. It knows no names, no holds and no rules, and of HTTP/2 no more than the
//! generator sends.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex};

use prost::Message;
use rustix::fs::OFlags;
use tenure_bench::calls::{
    ACK, DATA, END_HEADERS, END_STREAM, FRAME_BYTES_MAX, FRAME_HEADER_BYTES, HEADERS, PREFACE, READ_BYTES, SETTINGS,
    WINDOW_UPDATE, frame, whole_messages,
};
use tenure_proto::v1::{
    ClientMessage, Grant, Released, ServerAnswer, ServerMessage, SessionEnded, SessionOpened, client_request::Request,
    server_answer::Answer,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use crate::load::Outcome;

/// `:status: 200`, by its number in HPACK's table. It also does for what comes at the end, which the generator does not look at.
const STATUS_OK: &[u8] = &[0x88];
/// About as long as the answer to an acquire, in a field that no answer has, so that it does for a release too.
const UNARY_ANSWER: [u8; 103] = {
    let mut answer = [b'x'; 103];
    (answer[0], answer[1], answer[2]) = (0xc2, 0x0c, 100);
    answer
};

const BLOCK_BYTES: usize = 4_096;
const FILE_BYTES: usize = 16 * 1024 * 1024;
/// More than all that the generator can have under way.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;
/// What a command takes in our log.
const COMMAND_BYTES: usize = 64;
/// How often others may say what they have before it is synced: once to be read, and once to be heard.
const TURNS_BEFORE_SYNC: usize = 2;

/// Serves on a port that the system chooses, and says which, until the process is ended. Its file is in `folder`.
pub(crate) fn main(folder: &Path) -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let commits = start_syncing(folder)?;
        println!("grpc {address}");
        io::stdout().flush()?;
        accept(listener, commits).await
    })
}

async fn accept(listener: TcpListener, commits: UnboundedSender<Job>) -> Outcome<()> {
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let commits = commits.clone();
        tokio::spawn(async move {
            if let Err(error) = serve(socket, commits).await {
                eprintln!("a connection has ended: {error}");
            }
        });
    }
}

/// What is to be said to a client once it is synced, and how many commands that answers.
struct Job {
    to: Arc<Line>,
    answer: Vec<u8>,
    commands: usize,
}

/// What is to be written to a connection.
#[derive(Debug, Default)]
struct Line {
    out: Mutex<Vec<u8>>,
    more: Notify,
}

impl Line {
    fn out(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.out.lock().expect("nobody panics with it")
    }
}

fn start_syncing(folder: &Path) -> io::Result<UnboundedSender<Job>> {
    std::fs::create_dir_all(folder)?;
    let path = folder.join("bare.log");
    let file = File::create(&path)?;
    file.write_all_at(&vec![0; FILE_BYTES], 0)?;
    file.sync_all()?;
    // As our log is written, where the file system lets it be.
    let open = |flags: OFlags| File::options().write(true).custom_flags(flags.bits().cast_signed()).open(&path);
    let file = open(OFlags::DIRECT | OFlags::DSYNC).or_else(|_| open(OFlags::DSYNC))?;
    let (commits, jobs) = mpsc::unbounded_channel();
    tokio::spawn(async move { sync_all(&file, jobs).await.expect("the disk takes what is written") });
    Ok(commits)
}

/// Whatever has come meanwhile shares a sync, which nothing else is done beside.
async fn sync_all(file: &File, mut jobs: UnboundedReceiver<Job>) -> io::Result<()> {
    let memory = vec![7; BATCH_BYTES_MAX + BLOCK_BYTES];
    let blocks = &memory[memory.as_ptr().align_offset(BLOCK_BYTES)..][..BATCH_BYTES_MAX];
    let mut at = 0;
    while let Some(first) = jobs.recv().await {
        let mut batch = vec![first];
        for _ in 0..TURNS_BEFORE_SYNC {
            tokio::task::yield_now().await;
        }
        batch.extend(std::iter::from_fn(|| jobs.try_recv().ok()));
        let commands: usize = batch.iter().map(|job| job.commands).sum();
        let bytes = (commands * COMMAND_BYTES).next_multiple_of(BLOCK_BYTES).min(blocks.len());
        if at + bytes > FILE_BYTES {
            at = 0;
        }
        file.write_all_at(&blocks[..bytes], at as u64)?;
        at += bytes;
        for Job { to, answer, .. } in &batch {
            to.out().extend(answer);
        }
        batch.iter().for_each(|job| job.to.more.notify_one());
    }
    Ok(())
}

async fn serve(mut socket: TcpStream, commits: UnboundedSender<Job>) -> Outcome<()> {
    let line = Arc::<Line>::default();
    frame(&mut line.out(), SETTINGS, 0, 0, &[]);
    let mut heard = Heard::default();
    let mut reading = vec![0; READ_BYTES];
    let (mut read, mut writing) = (0, Vec::new());
    socket.read_exact(&mut reading[..PREFACE.len()]).await?;
    loop {
        std::mem::swap(&mut writing, &mut *line.out());
        if !writing.is_empty() {
            socket.write_all(&writing).await?;
            writing.clear();
        }
        tokio::select! {
            biased;
            () = line.more.notified() => {}
            count = socket.read(&mut reading[read..]) => match count? {
                0 => return Ok(()),
                count => {
                    let end = read + count;
                    let begin = heard.frames(&reading[..end], &line, &commits)?;
                    reading.copy_within(begin..end, 0);
                    read = end - begin;
                }
            }
        }
    }
}

/// What was said on streams that go on, as far as it is not a whole message yet.
#[derive(Debug, Default)]
struct Heard(HashMap<u32, Vec<u8>>);

impl Heard {
    /// Gives how many bytes were frames.
    fn frames(&mut self, bytes: &[u8], line: &Arc<Line>, commits: &UnboundedSender<Job>) -> Outcome<usize> {
        let mut rest = bytes;
        while let Some((&[a, b, c, kind, flags, s0, s1, s2, s3], after)) =
            rest.split_first_chunk::<FRAME_HEADER_BYTES>()
        {
            let length = u32::from_be_bytes([0, a, b, c]);
            let Some((payload, others)) = after.split_at_checked(length as usize) else { break };
            rest = others;
            let stream = u32::from_be_bytes([s0, s1, s2, s3]);
            match kind {
                SETTINGS if flags & ACK == 0 => frame(&mut line.out(), SETTINGS, ACK, 0, &[]),
                DATA => {
                    let mut answer = Vec::new();
                    // What was said may be said again.
                    frame(&mut answer, WINDOW_UPDATE, 0, 0, &length.to_be_bytes());
                    let commands = match flags & END_STREAM {
                        0 => self.go_on(stream, payload, &mut answer)?,
                        _ => {
                            answer_call(stream, &mut answer);
                            1
                        }
                    };
                    commits.send(Job { to: line.clone(), answer, commands })?;
                }
                _ => {}
            }
        }
        Ok(bytes.len() - rest.len())
    }

    /// Messages of a session, as far as they are whole. Gives how many commands they have.
    fn go_on(&mut self, stream: u32, payload: &[u8], answer: &mut Vec<u8>) -> Outcome<usize> {
        frame(answer, WINDOW_UPDATE, 0, stream, &u32::try_from(payload.len())?.to_be_bytes());
        let begun = self.0.entry(stream).or_insert_with(|| {
            frame(answer, HEADERS, END_HEADERS, stream, STATUS_OK);
            Vec::new()
        });
        begun.extend(payload);
        let mut commands = 0;
        whole_messages(begun, |message| {
            let requests = ClientMessage::decode(message)?.requests;
            commands += requests.len();
            let answers = requests.into_iter().map(|asked| ServerAnswer {
                id: asked.id,
                answer: Some(match asked.request {
                    Some(Request::Acquire(acquire)) => {
                        let key = "0123456789abcdef0123456789abcdef".to_owned();
                        Answer::Granted(Grant { pool: acquire.pool, key, token: 1, ..Grant::default() })
                    }
                    Some(Request::Open(_)) => Answer::Opened(SessionOpened::default()),
                    Some(Request::End(_)) => Answer::Ended(SessionEnded {}),
                    _ => Answer::Released(Released { token: 1 }),
                }),
            });
            message_frame(stream, &ServerMessage { answers: answers.collect() }.encode_to_vec(), answer);
            Ok(())
        })?;
        Ok(commands)
    }
}

fn answer_call(stream: u32, answer: &mut Vec<u8>) {
    frame(answer, HEADERS, END_HEADERS, stream, STATUS_OK);
    message_frame(stream, &UNARY_ANSWER, answer);
    frame(answer, HEADERS, END_HEADERS | END_STREAM, stream, STATUS_OK);
}

/// In frames of a size that need not be asked for.
fn message_frame(stream: u32, message: &[u8], out: &mut Vec<u8>) {
    let mut data = vec![0];
    data.extend(u32::try_from(message.len()).expect("answers are short").to_be_bytes());
    data.extend(message);
    data.chunks(FRAME_BYTES_MAX).for_each(|part| frame(out, DATA, 0, stream, part));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Connection, What};
    use crate::tenure::{Stream, Unary};

    async fn take_and_give_back<C: Connection>(address: &str) {
        let mut connection = C::open(address).await.unwrap();
        for number in 0..3 {
            let taken = connection.take(&What::Own(format!("name-{number}"))).await.unwrap();
            connection.give_back(taken).await.unwrap();
        }
        connection.close().await;
    }

    #[tokio::test]
    async fn whatever_the_generator_asks_is_written_and_answered() {
        let folder = tempfile::tempdir_in(crate::target_folder()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(accept(listener, start_syncing(folder.path()).unwrap()));
        take_and_give_back::<Unary>(&address).await;
        take_and_give_back::<Stream>(&address).await;
        let written = std::fs::read(folder.path().join("bare.log")).unwrap();
        // A block for each command: nobody else asked at the same time. A session is opened and ended.
        let blocks = written.chunks(BLOCK_BYTES).take_while(|block| block.iter().all(|byte| *byte == 7)).count();
        assert_eq!((blocks, written.len()), (6 + 8, FILE_BYTES));
    }

    #[test]
    fn frames_are_heard_whole_however_they_are_cut() {
        let session = ClientMessage { requests: vec![Default::default(); 3] }.encode_to_vec();
        let mut said = Vec::new();
        message_frame(1, &session, &mut said);
        frame(&mut said, SETTINGS, 0, 0, &[]);
        frame(&mut said, DATA, END_STREAM, 3, b"a call");
        message_frame(1, &session, &mut said);
        for piece in 1..=said.len() {
            let (line, (commits, mut jobs)) = (Arc::<Line>::default(), mpsc::unbounded_channel());
            let (mut heard, mut begun) = (Heard::default(), Vec::new());
            for bytes in said.chunks(piece) {
                begun.extend(bytes);
                let whole = heard.frames(&begun, &line, &commits).unwrap();
                begun.drain(..whole);
            }
            let commands: Vec<_> = std::iter::from_fn(|| jobs.try_recv().ok()).map(|job| job.commands).collect();
            assert_eq!(
                (commands, line.out().len(), begun.len()),
                (vec![3, 1, 3], FRAME_HEADER_BYTES, 0),
                "in pieces of {piece}"
            );
        }
    }
}
