//! That the simulator bites: each of these mistakes, made on purpose, is found within a bounded number of seeds.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use tenure_core::mutation::{self, Mistake};
use tenure_sim::{Options, Plan, Sabotage, run, shrink};

/// Most are found within ten.
const SEEDS_MAX: u64 = 1_500;

/// In the rules and in the engine.
const MISTAKES: [Mistake; 17] = [
    Mistake::ExpiresLate,
    Mistake::GrantsLess,
    Mistake::EndsWindowsEarly,
    Mistake::ForgetsTheWaiters,
    Mistake::ServesTooSoon,
    Mistake::MiscountsUnits,
    Mistake::Overtakes,
    Mistake::IgnoresClaims,
    Mistake::KeepsWithdrawnWaits,
    Mistake::KeepsUnreceivedGrants,
    Mistake::IgnoresGrace,
    Mistake::KeepsLossesQuiet,
    Mistake::MiscountsListeners,
    Mistake::ForgetsUse,
    Mistake::ForgetsARow,
    Mistake::AnswersBeforeTheSync,
    Mistake::ServesTheAbsent,
];

/// In what the engine runs on, and in what it is told.
const SABOTAGES: [Sabotage; 18] = [
    Sabotage::SyncsNothing,
    Sabotage::IgnoresDiskErrors,
    Sabotage::WritesRowsFirst,
    Sabotage::TrustsTornWrites,
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

fn main() -> ExitCode {
    // Mistakes run into assertions too, and those are expected here.
    std::panic::set_hook(Box::new(|_| {}));
    let mistakes = MISTAKES.into_iter().map(|mistake| {
        Trial::test(format!("{mistake:?} is found"), move || {
            mutation::make(Some(mistake));
            let found = find(None);
            mutation::make(None);
            found
        })
    });
    let sabotages = SABOTAGES
        .into_iter()
        .map(|sabotage| Trial::test(format!("{sabotage:?} is found"), move || find(Some(sabotage))));
    let shrinks = Trial::test("what is found is made short", what_is_found_is_made_short);
    let trials = mistakes.chain(sabotages).chain([shrinks]).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn find(sabotage: Option<Sabotage>) -> Result<(), Failed> {
    let options = Options { sabotage, ..Options::default() };
    for seed in 0..SEEDS_MAX {
        if let Some(violation) = run(&Plan::from_seed(seed), options).violation {
            println!("found with seed {seed}: {violation}");
            return Ok(());
        }
    }
    Err(format!("{SEEDS_MAX} seeds do not find it").into())
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
