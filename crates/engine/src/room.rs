//! The room for commands that wait until an engine gets to them: how many there may be, and from how many on those who say much at once have
//! to let others go first. That is for front ends to see to: here nobody knows who asked.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::watch;

use crate::Failure;

#[derive(Debug)]
pub struct Room {
    waiting: AtomicUsize,
    max: usize,
    crowd: usize,
    is_crowded: watch::Sender<bool>,
}

impl Room {
    /// For `max` commands, of which more than `crowd` are a crowd. Half of the room is left to others in any case.
    pub fn new(max: usize, crowd: usize) -> Self {
        Self { waiting: AtomicUsize::new(0), max, crowd: crowd.min(max / 2), is_crowded: watch::Sender::new(false) }
    }

    /// Takes places for as many of these as there are some for, and gives how many that were. The rest is refused.
    pub fn enter(&self, count: usize) -> (usize, Failure) {
        let waiting = self.waiting.fetch_add(count, Ordering::AcqRel);
        let admitted = self.max.saturating_sub(waiting).min(count);
        if admitted < count {
            self.waiting.fetch_sub(count - admitted, Ordering::AcqRel);
        }
        if waiting <= self.crowd && waiting + admitted > self.crowd {
            self.tell();
        }
        (admitted, Failure::Overloaded { waiting: waiting + admitted })
    }

    /// For what must not be refused.
    pub fn enter_anyway(&self, count: usize) {
        let waiting = self.waiting.fetch_add(count, Ordering::AcqRel);
        if waiting <= self.crowd && waiting + count > self.crowd {
            self.tell();
        }
    }

    pub fn leave(&self, count: usize) {
        let waiting = self.waiting.fetch_sub(count, Ordering::AcqRel);
        if waiting > self.crowd && waiting - count <= self.crowd {
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
            let is_crowded = self.waiting.load(Ordering::Acquire) > self.crowd;
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
        room.leave(3);
        assert!(!told(true));
        room.leave(1);
        assert!(told(false));
        room.enter_anyway(10);
        assert!(told(true));
        room.leave(14);
        assert!(told(false));
    }

    #[test]
    fn half_of_the_room_is_left_to_others() {
        let room = Room::new(10, 100);
        room.enter(5);
        assert!(!*room.crowd().borrow());
        room.enter(1);
        assert!(*room.crowd().borrow());
    }

    /// One thread goes beyond and back, as others do: what is told in the end is how it is in the end.
    #[test]
    fn what_is_told_last_is_how_it_is() {
        let room = Room::new(1_000, 1);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        room.enter(2);
                        room.leave(2);
                    }
                });
            }
        });
        assert!(!*room.crowd().borrow());
        room.enter(2);
        assert!(*room.crowd().borrow());
    }
}
