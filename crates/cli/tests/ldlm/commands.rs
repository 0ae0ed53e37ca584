//! `tenure ldlm list` and `unlock`, for those who are used to `ldlm-lock`.

use crate::client::sized;
use crate::fixture::Fixture;
use crate::support::tool::{Ended, Tool};

const UNKNOWN: &str = "error: a lock by that name does not exist\n";

fn assert_refused(ended: Ended, error: &str) {
    let Ended { code, stdout, stderr } = ended;
    assert_eq!((code, &*stdout), (Some(1), ""), "{stderr}");
    assert!(stderr.starts_with(error), "{stderr}");
}

#[tokio::test]
async fn locks_are_listed_as_people_are_used_to() {
    let fixture = Fixture::start().await;
    let (tool, client) = (Tool::of(&fixture.server), fixture.client().await);
    assert_eq!(tool.printed(&["ldlm", "list"]), "No locks found\n");
    for (name, size) in [("x", 1), ("y", 2), ("y", 2)] {
        client.locked(sized(name, size)).await;
    }
    let listed = "{Name: x, Key: 1, Size: 1}\n{Name: y, Key: 2, Size: 2}\n{Name: y, Key: 3, Size: 2}\n";
    assert_eq!(tool.printed(&["ldlm", "list"]), listed);
}

#[tokio::test]
async fn a_name_alone_unlocks_the_last_one_listed() {
    let fixture = Fixture::start().await;
    let (tool, client) = (Tool::of(&fixture.server), fixture.client().await);
    for _ in 0..2 {
        client.locked(sized("y", 2)).await;
    }
    assert_eq!(tool.printed(&["ldlm", "unlock", "y"]), "Unlocked: true\n");
    assert_eq!(tool.printed(&["ldlm", "list"]), "{Name: y, Key: 1, Size: 2}\n");
    assert_eq!(tool.printed(&["ldlm", "unlock", "y"]), "Unlocked: true\n");
    // In use lately, but nobody has it.
    assert_refused(tool.run(&["ldlm", "unlock", "y"]), UNKNOWN);
    client.locked(sized("y", 2)).await;
}

#[tokio::test]
async fn a_lock_is_unlocked_by_its_key_or_by_what_is_listed_for_it() {
    let fixture = Fixture::start().await;
    let (tool, client) = (Tool::of(&fixture.server), fixture.client().await);
    let mut keys = Vec::new();
    for _ in 0..3 {
        keys.push(client.locked(sized("y", 3)).await);
    }
    assert_eq!(tool.printed(&["ldlm", "unlock", "y", "2"]), "Unlocked: true\n");
    assert_eq!(tool.printed(&["ldlm", "unlock", "y", &keys[0]]), "Unlocked: true\n");
    assert_eq!(tool.printed(&["ldlm", "list"]), "{Name: y, Key: 3, Size: 3}\n");
    let json = tool.printed(&["ldlm", "unlock", "y", &keys[2], "--json"]);
    assert_eq!(json, "{\"token\":3}\n");
    assert_eq!(tool.printed(&["ldlm", "list"]), "No locks found\n");
}

#[tokio::test]
async fn what_is_not_there_is_told_in_the_words_that_people_know() {
    let fixture = Fixture::start().await;
    let (tool, client) = (Tool::of(&fixture.server), fixture.client().await);
    let (key, other) = (client.locked("x").await, client.locked("y").await);
    let nobodys = "4c7d4a3e-0000-4000-8000-000000000000";
    for name in ["nothing", "a\nb", ""] {
        assert_refused(tool.run(&["ldlm", "unlock", name]), UNKNOWN);
        assert_refused(tool.run(&["ldlm", "unlock", name, &key]), UNKNOWN);
        assert_refused(tool.run(&["ldlm", "unlock", name, "1"]), UNKNOWN);
    }
    for wrong in ["7", "key", "", nobodys, &other] {
        assert_refused(tool.run(&["ldlm", "unlock", "x", wrong]), "error: invalid lock key\n");
    }
    assert!(!client.is_free("x").await && !client.is_free("y").await);
}

#[tokio::test]
async fn a_name_that_no_pool_can_have_is_known_by_both_its_names() {
    let fixture = Fixture::start().await;
    let (tool, client) = (Tool::of(&fixture.server), fixture.client().await);
    for name in ["a\nb", "ldlm:sha256:x", &"long".repeat(1_000)] {
        let key = client.locked(name).await;
        assert_eq!(tool.printed(&["ldlm", "unlock", name, &key]), "Unlocked: true\n");
        client.locked(name).await;
        let pool = fixture.holds().await[0].pool.clone();
        assert!(pool.starts_with("ldlm:sha256:") && pool != name, "{pool}");
        assert_eq!(tool.printed(&["ldlm", "unlock", name]), "Unlocked: true\n");
        let key = client.locked(name).await;
        assert_eq!(tool.printed(&["ldlm", "unlock", &pool]), "Unlocked: true\n");
        assert_refused(tool.run(&["ldlm", "unlock", name, &key]), "error: invalid lock key\n");
        let key = client.locked(name).await;
        assert_eq!(tool.printed(&["ldlm", "unlock", &pool, &key]), "Unlocked: true\n");
    }
}

#[tokio::test]
async fn a_place_in_a_rate_is_no_lock() {
    let fixture = Fixture::start().await;
    let tool = Tool::of(&fixture.server);
    let rate = ["rate", "--nonblock", "r", "--limit", "1", "--per", "1h"];
    assert_eq!(tool.printed(&rate), "");
    assert_eq!(tool.printed(&["ldlm", "list"]), "No locks found\n");
    assert_refused(tool.run(&["ldlm", "unlock", "r"]), UNKNOWN);
    assert_eq!(tool.run(&rate).code, Some(75), "it is as taken as it was");
}
