//! The room for commands that wait until an engine gets to them: how many there may be, and from how many on those who say much at once have
//! to let others go first. That is for front ends to see to: here nobody knows who asked.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::watch;

use crate::{Failure, metrics};

#[derive(Debug)]
pub struct Room {
    waiting: AtomicUsize,
    max: usize,
    crowd: usize,
    is_crowded: watch::Sender<bool>,
}

impl Room {
    /// For `max` commands, of which more than `crowd` are a crowd, until it is half as many. Half of the room is left to others in any case.
    pub fn new(max: usize, crowd: usize) -> Self {
        Self { waiting: AtomicUsize::new(0), max, crowd: crowd.min(max / 2), is_crowded: watch::Sender::new(false) }
    }

    /// Takes places for as many of these as there are some for, and gives how many that were. The rest is refused.
    pub fn enter(&self, count: usize) -> (usize, Failure) {
        let admitted = |waiting| self.max.saturating_sub(waiting).min(count);
        let enter = |waiting| Some(waiting + admitted(waiting));
        let (Ok(waiting) | Err(waiting)) = self.waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, enter);
        let admitted = admitted(waiting);
        self.have_entered(waiting, admitted);
        (admitted, Failure::Overloaded { waiting: waiting + admitted })
    }

    /// Takes places for all of these if there is any: what has parts is not done in part.
    pub fn enter_together(&self, count: usize) -> Result<(), Failure> {
        let enter = |waiting| (waiting < self.max).then_some(waiting + count);
        let entered = self.waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, enter);
        let waiting = entered.map_err(|waiting| Failure::Overloaded { waiting })?;
        self.have_entered(waiting, count);
        Ok(())
    }

    /// For what must not be refused.
    pub fn enter_anyway(&self, count: usize) {
        let waiting = self.waiting.fetch_add(count, Ordering::AcqRel);
        self.have_entered(waiting, count);
    }

    fn have_entered(&self, before: usize, count: usize) {
        if before <= self.crowd && before + count > self.crowd {
            self.tell();
        }
    }

    pub fn leave(&self, count: usize) {
        let waiting = self.waiting.fetch_sub(count, Ordering::AcqRel);
        let end = self.crowd / 2;
        if waiting > end && waiting - count <= end {
            self.tell();
        }
    }

    /// Whether there is a crowd, as it changes.
    pub fn crowd(&self) -> watch::Receiver<bool> {
        self.is_crowded.subscribe()
    }

    /// What it is by now: whoever made the change before may come here later.
    fn tell(&self) {
        self.is_crowded.send_if_modified(|told| {
            let bound = if *told { self.crowd / 2 } else { self.crowd };
            let is_crowded = self.waiting.load(Ordering::Acquire) > bound;
            if is_crowded && !*told {
                metrics::crowded();
            }
            std::mem::replace(told, is_crowded) != is_crowded
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_room_the_rest_is_refused_and_places_that_were_left_are_there_again() {
        let room = Room::new(10, 100);
        assert_eq!(room.enter(7).0, 7);
        assert_eq!(room.enter(7), (3, Failure::Overloaded { waiting: 10 }));
        assert_eq!(room.enter(1), (0, Failure::Overloaded { waiting: 10 }));
        room.leave(2);
        assert_eq!(room.enter(3).0, 2);
    }

    #[test]
    fn a_crowd_is_told_of_when_it_comes_and_when_it_has_gone() {
        let room = Room::new(100, 4);
        let mut crowd = room.crowd();
        let mut told = |is_crowded: bool| {
            let has_changed = crowd.has_changed().unwrap();
            assert_eq!(*crowd.borrow_and_update(), is_crowded);
            has_changed
        };
        room.enter(4);
        assert!(!told(false));
        room.enter(1);
        assert!(told(true));
        room.enter_anyway(3);
        room.leave(5);
        assert!(!told(true), "three are left, and two would be the end of it");
        room.leave(1);
        assert!(told(false));
        room.enter_together(10).unwrap();
        assert!(told(true));
        room.leave(12);
        assert!(told(false));
    }

    #[test]
    fn what_has_parts_finds_room_as_a_whole_or_not_at_all() {
        let room = Room::new(2, 100);
        assert_eq!(room.enter_together(3), Ok(()));
        assert_eq!(room.enter_together(1), Err(Failure::Overloaded { waiting: 3 }));
        room.leave(3);
        assert_eq!(room.enter(2).0, 2);
    }

    #[test]
    fn half_of_the_room_is_left_to_others() {
        let room = Room::new(10, 100);
        room.enter(5);
        assert!(!*room.crowd().borrow());
        room.enter(1);
        assert!(*room.crowd().borrow());
    }

    /// All go beyond and back, and some are refused: what is told in the end is how it is in the end.
    #[test]
    fn what_is_told_last_is_how_it_is() {
        let room = Room::new(3, 1);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let (admitted, _) = room.enter(2);
                        room.leave(admitted);
                    }
                });
            }
        });
        assert!(!*room.crowd().borrow());
        room.enter(2);
        assert!(*room.crowd().borrow());
    }
}
