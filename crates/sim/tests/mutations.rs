//! That the simulator bites: each of these mistakes, made on purpose, is found within a bounded number of seeds.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use tenure_core::mutation::{self, Mistake};
use tenure_sim::{Options, Plan, Sabotage, run, shrink};

/// Most are found within ten.
const SEEDS_MAX: u64 = 10_000;

/// In the rules and in the engine.
const MISTAKES: [Mistake; 32] = [
    Mistake::ExpiresLate,
    Mistake::GrantsLess,
    Mistake::EndsWindowsEarly,
    Mistake::ForgetsTheWaiters,
    Mistake::ServesTooSoon,
    Mistake::MiscountsUnits,
    Mistake::Overtakes,
    Mistake::IgnoresClaims,
    Mistake::LetsNewcomersPass,
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
    Sabotage::RestartsLeases,
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

/// Each invariant by itself, without the reference model, which sees most of it first.
const ALONE: [(&str, Made); 17] = [
    ("capacity", Made::Mistake(Mistake::MiscountsUnits)),
    ("one holder per resource", Made::Mistake(Mistake::IgnoresConditions)),
    ("rising tokens", Made::Sabotage(Sabotage::ReusesTokens)),
    ("order", Made::Mistake(Mistake::Overtakes)),
    ("order", Made::Mistake(Mistake::IgnoresClaims)),
    ("order", Made::Mistake(Mistake::LetsNewcomersPass)),
    ("no withdrawn wait granted", Made::Mistake(Mistake::ServesTooSoon)),
    ("no free unit beside a fitting waiter", Made::Mistake(Mistake::ForgetsTheWaiters)),
    ("acknowledged survives", Made::Mistake(Mistake::AnswersBeforeTheSync)),
    ("deadlines neither early nor late", Made::Mistake(Mistake::ExpiresLate)),
    ("rate never exceeded in any window", Made::Mistake(Mistake::EndsWindowsEarly)),
    ("replay equals state", Made::Mistake(Mistake::ForgetsARow)),
    ("nothing dirty or reserved is handed out", Made::Mistake(Mistake::HandsOutDirty)),
    ("the highest score wins", Made::Mistake(Mistake::TiesGoLast)),
    ("nobody waits for itself", Made::Mistake(Mistake::MissesDeadlocks)),
    ("nobody waits for itself", Made::Mistake(Mistake::SeesShortCyclesOnly)),
    ("nobody waits for itself", Made::Mistake(Mistake::IgnoresOtherUnits)),
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
    let alone = ALONE
        .into_iter()
        .map(|(only, made)| Trial::test(format!("`{only}` finds {made:?} by itself"), move || find(made, Some(only))));
    let shrinks = Trial::test("what is found is made short", what_is_found_is_made_short);
    let trials = found.chain(alone).chain([shrinks]).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn find(made: Made, only: Option<&'static str>) -> Result<(), Failed> {
    let (mistake, sabotage) = match made {
        Made::Mistake(mistake) => (Some(mistake), None),
        Made::Sabotage(sabotage) => (None, Some(sabotage)),
    };
    let options = Options { sabotage, only, ..Options::default() };
    mutation::make(mistake);
    let mut violations =
        (0..SEEDS_MAX).filter_map(|seed| Some((seed, run(&Plan::from_seed(seed), options).violation?)));
    let found = violations.find(|(_, violation)| only.is_none_or(|only| violation.what == only));
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
