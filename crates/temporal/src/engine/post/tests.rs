use futures_util::FutureExt;
use tenure_core::{
    Grant, Holder, Key, Lifetime, Limits, Namespace, PoolName, PoolPath, SessionOpen, Timestamp, Token, Ttl,
};
use tenure_engine::answers;

use super::super::Options;
use super::*;
use crate::link::Link;

/// A post whose messages reach nobody: what comes back is put into its hands.
async fn post() -> Post {
    let (line, letters) = Line::new(0, "keeper".into());
    let shared = Shared::new(Arc::new(Link::to_nobody().await), options(), Vec::new());
    let room = shared.room.clone();
    Post::new(Arc::new(shared), Arc::new(line), letters, room)
}

fn options() -> Options {
    Options {
        limits: Limits::default(),
        keepers: 1,
        mailbox_max: 100,
        prefix: "keeper".into(),
        name: "server".into(),
        time_told_from: None,
    }
}

/// A caller who asks for something, and what it hears.
fn ask(post: &mut Post, ticket: u64) -> answers::Receiver {
    let (answers, heard) = answers::channel();
    let listener = Listener::One { reply_to: ReplyTo { id: ticket, answers, returns: false }, carries: false };
    post.room.enter_anyway(1);
    post.take(Letter::Command { ticket, command: Box::new(Command::Expire), nonce: None, listener });
    heard
}

/// What is sent next in a lane.
fn next(post: &mut Post, lane: Lane) -> Arc<Batch> {
    let before = (post.server, post.sequences[lane as usize]);
    let mail = post.unsent.iter().map(|(_, mail)| mail.clone()).collect();
    drop(post.send(lane));
    assert_eq!((post.server, post.sequences[lane as usize]), (before.0, before.1 + 1));
    Arc::new(Batch {
        server: post.server,
        name: String::new(),
        lane,
        sequence: before.1 + 1,
        seed: [0; 32],
        mail: if lane == Lane::Mail { mail } else { Vec::new() },
        follow: None,
        park_millis: 0,
    })
}

fn said(number: u64, answers: Vec<(u64, Reply)>) -> Result<Answer, Undelivered> {
    let (last, at) = (Seq(0), Timestamp::default());
    Ok(Answer::Said(Said { number, at, answers, views: Vec::new(), last, happened: Vec::new(), servers: 1 }))
}

fn granted(token: u64) -> Reply {
    Reply::Granted(Box::new(Grant {
        pool: PoolPath::new(Namespace::default(), PoolName::parse("db").unwrap()),
        token: Token(token),
        key: Key::from_nonce(7),
        units: 1,
        resources: Vec::new(),
        lifetime: Lifetime::Kept,
        since: Timestamp::default(),
        deadline: None,
        also: Vec::new(),
    }))
}

fn take_backs(post: &Post) -> Vec<Token> {
    let mails = post.unsent.iter().filter_map(|(_, mail)| match mail {
        Mail::HangUp { unreceived, .. } => *unreceived,
        _ => None,
    });
    mails.collect()
}

#[tokio::test]
async fn a_session_that_one_keeper_refuses_is_attached_nowhere() {
    let (lines, mut letters): (Vec<_>, Vec<_>) = (0..2).map(|index| Line::new(index, "keeper".into())).unzip();
    let shared = Shared::new(Arc::new(Link::to_nobody().await), options(), lines.into_iter().map(Arc::new).collect());
    let (answers, mut heard) = answers::channel();
    let gather = Gather::new(ReplyTo { id: 1, answers, returns: false }, 0..2, true);
    let open = SessionOpen {
        id: SessionId(3),
        key: Key::from_nonce(7),
        holder: Arc::new(Holder::parse("job", []).unwrap()),
        grace: Ttl::from_millis(1),
        deadline: None,
        attachment: 4,
    };
    assert!(matches!(gather.take(0, Reply::Session(open)), Gathered::NotYet));
    let Gathered::All(reply, sessions) = gather.take(1, Reply::Refused(Box::new(Refusal::UnknownSession))) else {
        panic!("all have answered");
    };
    shared.conclude(&gather, reply, sessions);
    assert!(matches!(heard.try_recv().unwrap().reply, Ok(Reply::Refused(_))));
    let told = letters[0].try_recv().ok();
    assert!(matches!(told, Some(Letter::Detach { session: SessionId(3), attachment: 4 })), "it would never end");
}

#[tokio::test]
async fn a_server_that_the_keeper_forgot_begins_again_once_and_is_heard_from_then_on() {
    let mut post = post().await;
    let mut waits = ask(&mut post, 1);
    let first = next(&mut post, Lane::Mail);
    post.hear(first, said(1, vec![]));
    // One message is under way in each lane when the keeper forgets.
    let mut lost = ask(&mut post, 2);
    let (mail, news) = (next(&mut post, Lane::Mail), next(&mut post, Lane::News));
    post.hear(mail, Ok(Answer::Unknown));
    assert_eq!(waits.try_recv().unwrap().reply, Err(Failure::Lost));
    assert_eq!(lost.try_recv().unwrap().reply, Err(Failure::Lost));

    let mut asks_anew = ask(&mut post, 3);
    let mail = next(&mut post, Lane::Mail);
    post.hear(news, Ok(Answer::Unknown));
    assert!(asks_anew.try_recv().is_none(), "it is under way, and nobody knows otherwise");
    post.hear(mail, said(1, vec![(3, Reply::Done)]));
    assert_eq!(asks_anew.try_recv().unwrap().reply, Ok(Reply::Done));
}

#[tokio::test]
async fn what_is_said_to_a_former_life_is_not_taken_for_an_answer_and_its_grants_go_back() {
    let mut post = post().await;
    let mut lost = ask(&mut post, 1);
    let (mail, news) = (next(&mut post, Lane::Mail), next(&mut post, Lane::News));
    post.hear(news, Ok(Answer::Unknown));
    assert_eq!(lost.try_recv().unwrap().reply, Err(Failure::Lost));
    // It had been done before the keeper forgot.
    post.hear(mail, said(1, vec![(1, granted(5))]));
    assert_eq!(take_backs(&post), [Token(5)]);

    let mut asks_anew = ask(&mut post, 2);
    let mail = next(&mut post, Lane::Mail);
    post.hear(mail, said(1, vec![(2, Reply::Done)]));
    assert_eq!(asks_anew.try_recv().unwrap().reply, Ok(Reply::Done));
}

#[tokio::test]
async fn a_grant_that_found_nobody_is_taken_back_though_the_keeper_forgot_the_server() {
    let mut post = post().await;
    drop(ask(&mut post, 1));
    let mail = next(&mut post, Lane::Mail);
    post.hear(mail, said(1, vec![(1, granted(5))]));
    assert_eq!(take_backs(&post), [Token(5)]);
    let mail = next(&mut post, Lane::Mail);
    assert_eq!(take_backs(&post), []);
    post.hear(mail, Ok(Answer::Unknown));
    assert_eq!(take_backs(&post), [Token(5)]);
}

#[tokio::test]
async fn a_grant_that_is_said_with_the_farewell_and_finds_nobody_is_taken_back() {
    let mut post = post().await;
    drop(ask(&mut post, 1));
    post.take(Letter::Stop);
    let mail = next(&mut post, Lane::Mail);
    post.hear(mail, said(1, vec![(1, granted(5))]));
    assert!(post.left);
    assert_eq!(take_backs(&post), [Token(5)]);
    // It cannot say so as the one who has left.
    assert!(post.run().now_or_never().is_none(), "it is over only when the keeper has heard of it");
}
