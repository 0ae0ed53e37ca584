//! A thread for what nobody waits for. It stays: one that is made anew each time begins with new memory, and to clear that can take longer than
//! the work.

use std::sync::mpsc::{self, Receiver, SendError, Sender, TryRecvError};
use std::thread::JoinHandle;

type Job = Box<dyn FnOnce() + Send>;

/// Does one thing after the other. There is no thread before there is something to do.
#[derive(Debug)]
pub(super) struct Background {
    name: &'static str,
    thread: Option<(Sender<Job>, JoinHandle<()>)>,
}

/// Something that is being done.
#[derive(Debug)]
pub(super) struct Task<T> {
    done: Receiver<T>,
    /// What came of it, if it was asked whether it is done.
    heard: Option<T>,
}

/// It ended in a panic, of which the thread has told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken;

impl Background {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, thread: None }
    }

    /// It has to be done, whoever does it: if there is no thread, it is done when this returns.
    pub(super) fn begin<T: Send + 'static>(&mut self, work: impl FnOnce() -> T + Send + 'static) -> Task<T> {
        let (tell, done) = mpsc::channel();
        let job = Box::new(move || {
            // Whoever does not listen need not know.
            let _ = tell.send(work());
        });
        if let Some(job) = self.hand_over(job) {
            job();
        }
        Task { done, heard: None }
    }

    /// Gives it back if there is nobody to do it.
    fn hand_over(&mut self, job: Job) -> Option<Job> {
        if self.thread.is_none() {
            let (jobs, given) = mpsc::channel::<Job>();
            let work = move || given.into_iter().for_each(|job| job());
            let thread = std::thread::Builder::new().name(self.name.to_owned()).spawn(work);
            self.thread = thread.ok().map(|thread| (jobs, thread));
        }
        let Some((jobs, _)) = &self.thread else { return Some(job) };
        // After a panic it is gone.
        jobs.send(job).err().map(|SendError(job)| job)
    }
}

/// What was begun is done by then.
impl Drop for Background {
    fn drop(&mut self) {
        if let Some((jobs, thread)) = self.thread.take() {
            drop(jobs);
            // A panic there has been reported; here it only means that it has ended.
            let _ = thread.join();
        }
    }
}

impl<T> Task<T> {
    pub(super) fn is_done(&mut self) -> bool {
        if self.heard.is_none() {
            match self.done.try_recv() {
                Ok(done) => self.heard = Some(done),
                Err(why) => return why == TryRecvError::Disconnected,
            }
        }
        true
    }

    /// Waits for it.
    pub(super) fn join(self) -> Result<T, Broken> {
        self.heard.map_or_else(|| self.done.recv().map_err(|_| Broken), Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_done_after_the_other_by_one_thread() {
        let mut background = Background::new("tested");
        let (sender, receiver) = mpsc::channel();
        let mut tasks: Vec<_> = (0..3)
            .map(|number| {
                let sender = sender.clone();
                background.begin(move || {
                    sender.send(number).unwrap();
                    std::thread::current().id()
                })
            })
            .collect();
        let last = tasks.pop().unwrap().join().unwrap();
        assert!(tasks.iter_mut().all(Task::is_done), "they came before it");
        assert!(tasks.into_iter().all(|task| task.join() == Ok(last)));
        assert_ne!(last, std::thread::current().id());
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn what_is_not_done_is_known_not_to_be() {
        let mut background = Background::new("tested");
        let (go_on, waits) = mpsc::channel::<()>();
        let mut task = background.begin(move || waits.recv().is_ok());
        assert!(!task.is_done());
        go_on.send(()).unwrap();
        assert_eq!(task.join(), Ok(true));
    }

    #[test]
    fn a_panic_is_told_and_what_comes_after_it_is_done() {
        let mut background = Background::new("tested");
        let broken = background.begin(|| assert_eq!(1, 2, "this is part of a test"));
        assert_eq!(broken.join(), Err(Broken));
        // It may still be on its way out.
        let (_, thread) = background.thread.as_ref().unwrap();
        while !thread.is_finished() {
            std::thread::yield_now();
        }
        assert_eq!(background.begin(|| 7).join(), Ok(7));
    }

    #[test]
    fn what_was_begun_is_done_when_it_goes() {
        let mut background = Background::new("tested");
        let (sender, receiver) = mpsc::channel();
        for number in 0..3 {
            let sender = sender.clone();
            background.begin(move || sender.send(number).unwrap());
        }
        drop(background);
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [0, 1, 2]);
    }
}
