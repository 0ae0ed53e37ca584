//! Messages that say anything at all, with right checksums: an error or a state, but never a panic.

use tenure_engine::fuzzing;
use tenure_engine::*;

use crate::world::{Random, World};

/// Breaks one thing in a list of messages.
fn mutate(random: &mut Random, messages: &mut Vec<Vec<u8>>) {
    let at = random.below(messages.len());
    let other = messages[random.below(messages.len())].clone();
    let message = &mut messages[at];
    match random.below(8) {
        0 => message.truncate(random.below(message.len() + 1)),
        1 => *message = other,
        2 => message.extend(other),
        3 => drop(messages.remove(at)),
        4 if !message.is_empty() => {
            let byte = random.below(message.len());
            message.remove(byte);
        }
        5 => message.insert(random.below(message.len() + 1), random.next() as u8),
        _ if !message.is_empty() => {
            let byte = random.below(message.len());
            message[byte] = if random.one_in(2) { random.next() as u8 } else { message[byte] ^ (1 << random.below(8)) };
        }
        _ => {}
    }
    if messages.is_empty() {
        messages.push(Vec::new());
    }
}

#[test]
fn any_message_is_refused_or_understood() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut world = World::new(30, dir.path(), DiskOptions { durability: Durability::Os, ..DiskOptions::default() });
    world.live(300);
    // Everything that is there, as rows; then some entries.
    let state = world.state_after(world.events.len());
    let mut all = Rows::new(&tenure_core::State::new(world.options.pool_idle));
    world.events.iter().for_each(|recorded| all.note(&recorded.event));
    let (watermark, rows) = fuzzing::rows(&all.drain(&state));
    let from = world.events.len();
    world.live(150);
    let mut entries = Vec::new();
    let mut first = from;
    for end in world.ends.iter().map(|end| *end as usize).filter(|end| *end > from) {
        let events = world.events[first..end].iter().map(|it| it.event.clone()).collect();
        let entry = Entry { first: world.events[first].seq, at: world.events[first].at, events };
        entries.push(fuzzing::entry(&entry));
        first = end;
    }

    let mut random = Random::new(31);
    let (mut understood, mut refused) = (0, 0);
    // As `cargo xtask fuzz` has it.
    let minutes = std::env::var("TENURE_FUZZ_MINUTES").map_or(0.0, |minutes| minutes.parse().expect("minutes"));
    let (begun, time) = (std::time::Instant::now(), std::time::Duration::from_secs_f64(60.0 * minutes));
    for round in (0..).take_while(|round| *round < 2_000 || begun.elapsed() < time) {
        let (mut watermark, mut rows, mut entries) = (vec![watermark.clone()], rows.clone(), entries.clone());
        match round % 4 {
            _ if round == 0 => {}
            0 => mutate(&mut random, &mut watermark),
            1 => {
                let mut messages: Vec<_> = rows.iter().map(|(_, message)| message.clone()).collect();
                mutate(&mut random, &mut messages);
                rows.truncate(messages.len());
                rows.iter_mut().zip(messages).for_each(|((_, row), message)| *row = message);
            }
            _ => mutate(&mut random, &mut entries),
        }
        match fuzzing::recover(&watermark[0], &rows, &entries) {
            Ok(_) => understood += 1,
            Err(error) => {
                assert!(matches!(error, StoreError::Damaged(_)), "{error}");
                refused += 1;
            }
        }
        assert!(round > 0 || refused == 0, "what was not broken is understood");
    }
    assert!(understood > 10 && refused > 500, "{understood} understood, {refused} refused");
}
