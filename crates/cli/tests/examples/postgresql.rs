//! Fencing with a real PostgreSQL: what `docs/fencing.md` says to write, and the example with it.

use crate::cluster::Cluster;
use crate::stage::Stage;
use crate::stale_writer::{late_write_destroys, late_write_is_refused};
use crate::support::job::{Job, until};

const PAGE: &str = include_str!("../../../../docs/fencing.md");

#[test]
fn a_holder_that_wakes_up_late_is_refused_by_postgresql() {
    let (stage, cluster) = (Stage::new(), Cluster::new());
    late_write_is_refused(&|arguments| writer(&stage, &cluster, arguments));
    assert_eq!(cluster.says("SELECT name, token, body FROM report;"), "report|2|beta");
    cluster.says("DROP TABLE report;");

    let stage = Stage::new();
    late_write_destroys(&|arguments| writer(&stage, &cluster, arguments));
}

#[test]
fn the_recipe_with_the_token_in_the_row_refuses_what_is_stale() {
    let cluster = Cluster::new();
    let told = |statement: &str| cluster.says(&format!("\\set QUIET\n{}\n\\unset QUIET\n{statement}", prepared()));
    assert_eq!(cluster.says(&recipe("table")), "CREATE TABLE");

    assert_eq!(told("EXECUTE write('r', 1, 'too early');"), "UPDATE 0", "there is no row yet");
    assert_eq!(told("EXECUTE read('r', 1);"), "UPDATE 0");
    assert_eq!(told("EXECUTE upsert('r', 5, 'first');"), "INSERT 0 1");
    assert_eq!(told("EXECUTE upsert('r', 4, 'stale');"), "INSERT 0 0");
    assert_eq!(told("EXECUTE upsert('r', 5, 'same holder');"), "INSERT 0 1");
    assert_eq!(told("EXECUTE write('r', 4, 'stale');"), "UPDATE 0");
    assert_eq!(told("EXECUTE write('r', 6, 'next');"), "UPDATE 1");
    assert_eq!(told("EXECUTE read('r', 5);"), "UPDATE 0");
    assert_eq!(told("EXECUTE read('r', 9);"), "next\nUPDATE 1");
    assert_eq!(told("EXECUTE write('r', 6, 'read since');"), "UPDATE 0", "whoever read will write it back");
    assert_eq!(told("EXECUTE upsert('r', 6, 'read since');"), "INSERT 0 0");
    assert_eq!(cluster.says("SELECT token, body FROM report;"), "9|next");

    // Two at once: the one who comes second waits for the first, and looks again.
    for (statement, stale) in [("upsert", "INSERT 0 0"), ("write", "UPDATE 0")] {
        let (mut late, mut next) = (session(&cluster), session(&cluster));
        next.hears("BEGIN;\nEXECUTE upsert('r', 20, 'next');\n");
        next.says("INSERT 0 1");
        late.hears(&format!("EXECUTE {statement}('r', 10, 'late');\n"));
        until_one_waits(&cluster);
        next.hears("COMMIT;\n");
        late.says(stale);
        assert_eq!(cluster.says("SELECT token, body FROM report;"), "20|next");
        cluster.says("UPDATE report SET token = 9;");
    }
    // The first row is there for nobody but its writer: the same.
    let (mut late, mut next) = (session(&cluster), session(&cluster));
    next.hears("BEGIN;\nEXECUTE upsert('new', 20, 'next');\n");
    next.says("INSERT 0 1");
    late.hears("EXECUTE upsert('new', 10, 'late');\n");
    until_one_waits(&cluster);
    next.hears("COMMIT;\n");
    late.says("INSERT 0 0");
    // As the page says of stricter transactions.
    let (mut late, mut next) = (session(&cluster), session(&cluster));
    late.hears("BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT 'begun';\n");
    late.says("begun");
    next.hears("EXECUTE write('new', 30, 'next');\n");
    next.says("UPDATE 1");
    late.hears("EXECUTE write('new', 20, 'late');\n");
    late.complains("40001");
}

#[test]
fn nobody_changes_a_table_without_passing_its_fence() {
    let cluster = Cluster::new();
    assert_eq!(cluster.says(&recipe("fence")), "CREATE TABLE\nCREATE FUNCTION");
    assert_eq!(cluster.says(&recipe("trigger")), "CREATE FUNCTION\nCREATE TABLE\nCREATE TRIGGER");
    let (forgotten, stale) = ("ERROR:  TN002", "ERROR:  TN001");
    let entries = || cluster.says("SELECT entry FROM ledger;");
    let changes = [
        "INSERT INTO ledger VALUES ('unasked');",
        "UPDATE ledger SET entry = 'unasked';",
        "DELETE FROM ledger;",
        "TRUNCATE ledger;",
    ];
    for change in changes {
        assert_eq!(cluster.says(change), forgotten, "{change}");
    }
    assert_eq!(cluster.says(&recipe("transaction")), "BEGIN\n\nINSERT 0 1\nCOMMIT");
    for change in changes {
        assert_eq!(cluster.says(change), forgotten, "the pass of one transaction is not another's: {change}");
        let late = cluster.says(&format!("BEGIN;\nSELECT pass_fence('ledger', 6);\n{change}\nCOMMIT;"));
        assert!(late.starts_with("BEGIN\nROLLBACK\n") && late.contains(stale), "{late}");
        let other = cluster.says(&format!("BEGIN;\nSELECT pass_fence('else', 9);\n{change}\nCOMMIT;"));
        assert!(other.ends_with(forgotten), "{other}");
        // What is undone is no pass.
        let undone = "BEGIN;\nSAVEPOINT a;\nSELECT pass_fence('ledger', 8);\nROLLBACK TO a;";
        let undone = cluster.says(&format!("{undone}\n{change}\nCOMMIT;"));
        assert!(undone.ends_with(forgotten), "{undone}");
    }
    assert_eq!(entries(), "paid");
    let inside = "BEGIN;\nSELECT pass_fence('ledger', 7);\nSAVEPOINT a;\nINSERT INTO ledger VALUES ('again');\nCOMMIT;";
    assert!(cluster.says(inside).ends_with("INSERT 0 1\nCOMMIT"), "the same holder, in a part of its transaction");

    // What is deleted does not take its token along.
    cluster.says("BEGIN;\nSELECT pass_fence('ledger', 8);\nDELETE FROM ledger;\nCOMMIT;");
    assert_eq!(entries(), "");
    assert!(cluster.says("SELECT pass_fence('ledger', 7);").ends_with(stale));

    // A holder inside its transaction is waited for, and what it wrote is seen by the next one.
    let (mut late, mut next, mut earlier) = (cluster.connect(), cluster.connect(), cluster.connect());
    late.hears("BEGIN;\nSELECT pass_fence('ledger', 9);\nINSERT INTO ledger VALUES ('nine');\n");
    late.says("INSERT 0 1");
    next.hears("BEGIN;\nSELECT pass_fence('ledger', 10);\nDELETE FROM ledger;\n");
    until_one_waits(&cluster);
    late.hears("COMMIT;\n");
    next.says("DELETE 1");
    // One that comes too late while another is at it is refused when that is done.
    earlier.hears("BEGIN;\nSELECT pass_fence('ledger', 9);\n");
    until_one_waits(&cluster);
    next.hears("COMMIT;\n");
    earlier.complains("TN001");
    assert_eq!(entries(), "");
}

fn writer(stage: &Stage, cluster: &Cluster, arguments: &[&str]) -> Job {
    stage.shell_with("fencing-stale-writer/with_postgresql.sh", arguments, &cluster.environment())
}

/// The page's statements about a row, to be executed with values for their parameters.
fn prepared() -> String {
    [("write", "write"), ("upsert", "write, also the first time"), ("read", "read")]
        .map(|(name, title)| format!("PREPARE {name}(text, bigint, text) AS {}\n", recipe(title)))
        .concat()
        .replace("read(text, bigint, text)", "read(text, bigint)")
}

fn session(cluster: &Cluster) -> Job {
    let mut session = cluster.connect();
    session.hears(&prepared());
    session
}

/// Waits until a statement waits for another's transaction.
fn until_one_waits(cluster: &Cluster) {
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock';";
    until("a statement waits", || cluster.says(waiting) == "1");
}

/// What stands on the page under this title, the first line of a block.
fn recipe(title: &str) -> String {
    let begin = format!("```sql\n-- {title}\n");
    let (_, rest) = PAGE.split_once(&begin).unwrap_or_else(|| panic!("the page has no recipe `{title}`"));
    let (recipe, _) = rest.split_once("```").expect("a block ends");
    recipe.trim_end().to_owned()
}
