//! That the simulator bites: each of these mistakes, made on purpose, is found within a bounded number of seeds.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use tenure_core::mutation::{self, Mistake};
use tenure_sim::{Options, Plan, Sabotage, Violation, run, shrink};

const PAGE: &str = include_str!("../../../docs/reliability.md");
/// Most are found within ten.
const SEEDS_MAX: u64 = 10_000;

/// In the rules and in the engine.
const MISTAKES: [Mistake; 36] = [
    Mistake::ExpiresLate,
    Mistake::ExpiresEarly,
    Mistake::OverlooksSessions,
    Mistake::GrantsLess,
    Mistake::EndsWindowsEarly,
    Mistake::ForgetsTheWaiters,
    Mistake::ServesTooSoon,
    Mistake::MiscountsUnits,
    Mistake::Overtakes,
    Mistake::IgnoresClaims,
    Mistake::LetsNewcomersPass,
    Mistake::HandsOutTwice,
    Mistake::IgnoresConditions,
    Mistake::KeepsWithdrawnWaits,
    Mistake::KeepsUnreceivedGrants,
    Mistake::IgnoresGrace,
    Mistake::KeepsLossesQuiet,
    Mistake::MiscountsListeners,
    Mistake::ForgetsUse,
    Mistake::ForgetsARow,
    Mistake::TrustsTornWrites,
    Mistake::AnswersBeforeTheSync,
    Mistake::ServesTheAbsent,
    Mistake::HandsOutDirty,
    Mistake::IgnoresReservations,
    Mistake::ForgetsTurns,
    Mistake::NeverReturns,
    Mistake::ForgetsTheSets,
    Mistake::ServesOnePoolOfASet,
    Mistake::IgnoresScores,
    Mistake::TiesGoLast,
    Mistake::KeepsFaultsQuiet,
    Mistake::MissesDeadlocks,
    Mistake::SeesShortCyclesOnly,
    Mistake::IgnoresOtherUnits,
    Mistake::ForgetsWhoGivesUp,
];

/// In what the engine runs on, and in what it is told.
const SABOTAGES: [Sabotage; 17] = [
    Sabotage::SyncsNothing,
    Sabotage::IgnoresDiskErrors,
    Sabotage::WritesRowsFirst,
    Sabotage::ForgetsRequests,
    Sabotage::ProlongsLeases,
    Sabotage::ReusesTokens,
    Sabotage::SkipsTheRestart,
    Sabotage::FollowsTheWallClock,
    Sabotage::ForgetsTheTime,
    Sabotage::Oversleeps,
    Sabotage::IgnoresHangUps,
    Sabotage::LosesReturnedGrants,
    Sabotage::IgnoresDetachment,
    Sabotage::IgnoresPriority,
    Sabotage::IgnoresThePoolOfAKey,
    Sabotage::IgnoresRequestIds,
    Sabotage::LosesAnswers,
];

/// Each invariant by itself, without the reference model, which sees most of it first; and what it says, so that the mistake
/// is found by the part of the invariant that it is there for.
const ALONE: [(&str, Made, &str); 26] = [
    ("capacity", Made::Mistake(Mistake::MiscountsUnits), "free units"),
    ("one holder per resource", Made::Mistake(Mistake::HandsOutTwice), "which somebody has already"),
    ("one holder per resource", Made::Mistake(Mistake::IgnoresConditions), "which is out of service"),
    ("rising tokens", Made::Sabotage(Sabotage::ReusesTokens), "was granted after"),
    ("order", Made::Mistake(Mistake::Overtakes), "was ahead"),
    ("order", Made::Mistake(Mistake::IgnoresClaims), "was ahead"),
    ("order", Made::Mistake(Mistake::LetsNewcomersPass), "was ahead"),
    ("order", Made::Mistake(Mistake::ForgetsTheSets), "was ahead"),
    ("no withdrawn wait granted", Made::Mistake(Mistake::KeepsWithdrawnWaits), "which was withdrawn"),
    ("no withdrawn wait granted", Made::Mistake(Mistake::ServesTooSoon), "was served after its deadline"),
    ("no withdrawn wait granted", Made::Mistake(Mistake::ServesTheAbsent), "by a new process"),
    ("no free unit beside a fitting waiter", Made::Mistake(Mistake::ForgetsTheWaiters), "could be served"),
    ("acknowledged survives", Made::Mistake(Mistake::AnswersBeforeTheSync), "was sent when"),
    ("acknowledged survives", Made::Sabotage(Sabotage::SyncsNothing), "was told of, and the log ends"),
    ("deadlines neither early nor late", Made::Mistake(Mistake::ExpiresLate), "is there after its deadline"),
    ("deadlines neither early nor late", Made::Mistake(Mistake::ExpiresEarly), "before"),
    ("deadlines neither early nor late", Made::Mistake(Mistake::IgnoresGrace), "has no grace"),
    ("deadlines neither early nor late", Made::Mistake(Mistake::OverlooksSessions), "the engine sleeps"),
    ("rate never exceeded in any window", Made::Mistake(Mistake::EndsWindowsEarly), "there were"),
    ("replay equals state", Made::Mistake(Mistake::ForgetsARow), "what was read"),
    ("nothing dirty or reserved is handed out", Made::Mistake(Mistake::HandsOutDirty), "which is dirty"),
    ("nothing dirty or reserved is handed out", Made::Mistake(Mistake::IgnoresReservations), "which is reserved"),
    ("the highest score wins", Made::Mistake(Mistake::TiesGoLast), "was served with a score"),
    ("nobody waits for itself", Made::Mistake(Mistake::MissesDeadlocks), "waits for what it has itself"),
    ("nobody waits for itself", Made::Mistake(Mistake::SeesShortCyclesOnly), "waits for what it has itself"),
    ("nobody waits for itself", Made::Mistake(Mistake::IgnoresOtherUnits), "was refused"),
];

#[derive(Clone, Copy, Debug)]
enum Made {
    Mistake(Mistake),
    Sabotage(Sabotage),
}

fn main() -> ExitCode {
    // Mistakes run into assertions too, and those are expected here.
    std::panic::set_hook(Box::new(|_| {}));
    let mistakes = MISTAKES.into_iter().map(Made::Mistake);
    let sabotages = SABOTAGES.into_iter().map(Made::Sabotage);
    let found = mistakes.chain(sabotages).map(|made| {
        let name = match made {
            Made::Mistake(mistake) => format!("{mistake:?}"),
            Made::Sabotage(sabotage) => format!("{sabotage:?}"),
        };
        Trial::test(format!("{name} is found"), move || find(made, None))
    });
    let alone = ALONE.into_iter().map(|(only, made, says)| {
        Trial::test(format!("`{only}` finds {made:?} by itself"), move || find(made, Some((only, says))))
    });
    let shrinks = Trial::test("what is found is made short", what_is_found_is_made_short);
    let told = Trial::test("the page tells of each mistake", the_page_tells_of_each_mistake);
    let trials = found.chain(alone).chain([shrinks, told]).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn the_page_tells_of_each_mistake() -> Result<(), Failed> {
    let mistakes = MISTAKES.iter().map(|mistake| format!("| rules and engine | `{mistake:?}` |"));
    let sabotages = SABOTAGES.iter().map(|sabotage| format!("| around them | `{sabotage:?}` |"));
    let mut missing = mistakes.chain(sabotages).filter(|row| !PAGE.contains(row));
    match missing.next() {
        Some(row) => Err(format!("docs/reliability.md has no row {row}").into()),
        None => Ok(()),
    }
}

fn find(made: Made, by: Option<(&'static str, &'static str)>) -> Result<(), Failed> {
    let (mistake, sabotage) = match made {
        Made::Mistake(mistake) => (Some(mistake), None),
        Made::Sabotage(sabotage) => (None, Some(sabotage)),
    };
    let options = Options { sabotage, only: by.map(|(only, _)| only), ..Options::default() };
    mutation::make(mistake);
    let mut violations =
        (0..SEEDS_MAX).filter_map(|seed| Some((seed, run(&Plan::from_seed(seed), options).violation?)));
    let is_it =
        |violation: &Violation| by.is_none_or(|(only, says)| violation.what == only && violation.how.contains(says));
    let found = violations.find(|(_, violation)| is_it(violation));
    mutation::make(None);
    match found {
        Some((seed, violation)) => {
            println!("{made:?}: found with seed {seed}: {violation}");
            Ok(())
        }
        None => Err(format!("{SEEDS_MAX} seeds do not find it").into()),
    }
}

fn what_is_found_is_made_short() -> Result<(), Failed> {
    mutation::make(Some(Mistake::ForgetsTheWaiters));
    let plan = (0..).map(Plan::from_seed).find(|plan| run(plan, Options::default()).violation.is_some()).unwrap();
    let shorter = shrink(&plan, Options::default());
    mutation::make(None);
    let (shorter, violation) = shorter.ok_or("it does not fail again")?;
    // Somebody who holds, somebody who waits, and a release; and perhaps what the timing needs.
    if shorter.steps.len() > 6 {
        return Err(format!("{} of {} steps are left: {violation}", shorter.steps.len(), plan.steps.len()).into());
    }
    Ok(())
}
