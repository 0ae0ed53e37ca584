//! A failing plan, made as short as it can be while it still fails: whole stretches of steps first, then single ones, then
//! what the network does to calls.

use crate::plan::{Fate, Plan, What};
use crate::world::{Options, Violation, run};

/// How many runs are spent on it.
const RUNS_MAX: usize = 4_000;

/// The shorter plan, and how it fails.
pub fn shrink(plan: &Plan, options: Options) -> Option<(Plan, Violation)> {
    let options = Options { trace: false, ..options };
    let mut violation = run(plan, options).violation?;
    let mut plan = plan.clone();
    let mut runs = 0;
    let mut try_out = |candidate: Plan, plan: &mut Plan| {
        runs += 1;
        if runs > RUNS_MAX {
            return false;
        }
        match run(&candidate, options).violation {
            Some(found) => {
                *plan = candidate;
                violation = found;
                true
            }
            None => false,
        }
    };
    let mut piece = plan.steps.len().div_ceil(2);
    loop {
        let mut shorter = false;
        let mut at = plan.steps.len();
        while at > 0 {
            let from = at.saturating_sub(piece);
            let mut candidate = plan.clone();
            candidate.steps.drain(from..at);
            shorter |= try_out(candidate, &mut plan);
            at = from;
        }
        if piece == 1 && !shorter {
            break;
        }
        piece = (piece / 2).max(1);
    }
    for at in 0..plan.steps.len() {
        let mut candidate = plan.clone();
        if let What::Ask { fate, .. } = &mut candidate.steps[at].what
            && *fate != Fate::Fine
        {
            *fate = Fate::Fine;
            try_out(candidate, &mut plan);
        }
    }
    Some((plan, violation))
}
