//! All pools: found by a hash of their names, which every command does several times, and listed in order.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use core::fmt;
use core::hash::BuildHasher;
use core::ops::{Index, RangeFrom};

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::names::PoolPath;
use crate::pool::Pool;

/// How names are hashed differs from process to process, which makes it hard, though not impossible, to choose names that collide. Their
/// order by hash is therefore not to be seen from here: whoever wants to go through pools does it by name.
#[derive(Default)]
pub(crate) struct Pools {
    found: HashTable<Found>,
    hashing: DefaultHashBuilder,
    listed: BTreeSet<PoolPath>,
}

struct Found {
    /// Kept, so that a table that grows need not look at a million names while everybody waits.
    hash: u64,
    path: PoolPath,
    pool: Box<Pool>,
}

impl Found {
    fn is(&self, hash: u64, path: &PoolPath) -> bool {
        self.hash == hash && self.path == *path
    }
}

impl Pools {
    pub(crate) fn get(&self, path: &PoolPath) -> Option<&Pool> {
        self.find(path).map(|found| &*found.pool)
    }

    /// With the copy of its name that all its holds and waiters share.
    pub(crate) fn get_key_value(&self, path: &PoolPath) -> Option<(&PoolPath, &Pool)> {
        self.find(path).map(|found| (&found.path, &*found.pool))
    }

    pub(crate) fn get_mut(&mut self, path: &PoolPath) -> Option<&mut Pool> {
        let hash = self.hashing.hash_one(path);
        self.found.find_mut(hash, |found| found.is(hash, path)).map(|found| &mut *found.pool)
    }

    pub(crate) fn contains(&self, path: &PoolPath) -> bool {
        self.find(path).is_some()
    }

    pub(crate) fn insert(&mut self, path: PoolPath, pool: Pool) {
        assert!(self.listed.insert(path.clone()), "a pool is made once");
        let hash = self.hashing.hash_one(&path);
        let found = Found { hash, path, pool: Box::new(pool) };
        self.found.insert_unique(hash, found, |found| found.hash);
    }

    pub(crate) fn remove(&mut self, path: &PoolPath) -> Option<Box<Pool>> {
        self.listed.remove(path);
        let hash = self.hashing.hash_one(path);
        let found = self.found.find_entry(hash, |found| found.is(hash, path)).ok()?;
        Some(found.remove().0.pool)
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

    fn iter(&self) -> impl Iterator<Item = (&PoolPath, &Pool)> {
        self.listed.iter().map(|path| (path, &self[path]))
    }

    fn find(&self, path: &PoolPath) -> Option<&Found> {
        let hash = self.hashing.hash_one(path);
        self.found.find(hash, |found| found.is(hash, path))
    }
}

impl Index<&PoolPath> for Pools {
    type Output = Pool;

    fn index(&self, path: &PoolPath) -> &Pool {
        self.get(path).expect("a pool that somebody knows of is there")
    }
}

impl PartialEq for Pools {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Pools {}

impl fmt::Debug for Pools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
