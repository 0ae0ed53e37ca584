//! Who owns something, as a watcher over owners asks for it. No front end can ask, so scenarios cannot either.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use tenure_core::*;

fn acquire(namespace: &str, pool: &str, owner: &str) -> Command {
    Command::Acquire(Acquire {
        pool: PoolPath::new(Namespace::parse(namespace).unwrap(), PoolName::parse(pool).unwrap()),
        demand: Demand { amount: Amount::Count(1), selector: None, dirty: false },
        size: None,
        lifetime: Some(Lifetime::Bound(OwnerId::parse(owner).unwrap())),
        wait: Wait::Forever,
        priority: Priority::default(),
        holder: Arc::new(Holder::parse("tester", []).unwrap()),
        session: None,
        request: None,
        also: Box::default(),
        holds_on: false,
    })
}

#[test]
fn owners_of_holds_and_of_waits_are_listed_in_pages_over_all_namespaces() {
    let mut machine = Machine::new(Limits::default());
    let mut apply = |nonce, command| machine.apply(Stamp { at: Timestamp::from_millis(1), nonce }, command).reply;
    apply(1, acquire("a", "db", "one"));
    apply(2, acquire("a", "db", "waiting"));
    apply(3, acquire("b", "db", "one"));
    apply(4, acquire("b", "cache", "one"));
    let mut listed = Vec::new();
    let mut after = None;
    loop {
        let View::Owners(page) = machine.state().query(&Query::Owners { after, limit: 1 }).unwrap() else { panic!() };
        listed.extend(page.items.iter().map(|(namespace, owner)| format!("{namespace}/{owner}")));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(listed, ["a/one", "a/waiting", "b/one"]);
}
