//! All pools: found by a hash of their names, which every command does several times, and listed in order.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use core::ops::{Index, RangeFrom};

use hashbrown::HashMap;

use crate::names::PoolPath;
use crate::pool::Pool;

/// The order of the hash differs from process to process, so that nobody can choose names that collide. It is therefore not to be
/// seen from here: whoever wants to go through pools does it by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Pools {
    found: HashMap<PoolPath, Box<Pool>>,
    listed: BTreeSet<PoolPath>,
}

impl Pools {
    pub(crate) fn get(&self, path: &PoolPath) -> Option<&Pool> {
        self.found.get(path).map(|pool| &**pool)
    }

    /// With the copy of its name that all its holds and waiters share.
    pub(crate) fn get_key_value(&self, path: &PoolPath) -> Option<(&PoolPath, &Pool)> {
        self.found.get_key_value(path).map(|(path, pool)| (path, &**pool))
    }

    pub(crate) fn get_mut(&mut self, path: &PoolPath) -> Option<&mut Pool> {
        self.found.get_mut(path).map(|pool| &mut **pool)
    }

    pub(crate) fn contains(&self, path: &PoolPath) -> bool {
        self.found.contains_key(path)
    }

    pub(crate) fn insert(&mut self, path: PoolPath, pool: Pool) {
        let before = self.found.insert(path.clone(), Box::new(pool));
        assert!(before.is_none() && self.listed.insert(path), "a pool is made once");
    }

    pub(crate) fn remove(&mut self, path: &PoolPath) -> Option<Box<Pool>> {
        self.listed.remove(path);
        self.found.remove(path)
    }

    pub(crate) fn len(&self) -> usize {
        self.found.len()
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &PoolPath> {
        self.listed.iter()
    }

    pub(crate) fn range(&self, range: RangeFrom<PoolPath>) -> impl Iterator<Item = (&PoolPath, &Pool)> {
        self.listed.range(range).map(|path| (path, &self[path]))
    }
}

impl Index<&PoolPath> for Pools {
    type Output = Pool;

    fn index(&self, path: &PoolPath) -> &Pool {
        self.get(path).expect("a pool that somebody knows of is there")
    }
}
