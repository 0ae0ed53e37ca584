/** Holding: mutexes, semaphores, resources, rate windows, elections and watching. */

import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';

import { Busy, Client, ClosedError, type Hold, Refused, WaitTimedOut } from 'tenure';

import { Server, fails, holders, name, soon, until, waiters } from './server.js';

let server: Server;
let alice: Client;
let bob: Client;

before(async () => {
  server = await Server.start();
});
after(() => server.close());
beforeEach(() => {
  alice = new Client(server.grpc, { holder: 'alice' });
  bob = new Client(server.grpc, { holder: 'bob', meta: { job: '7' } });
});
afterEach(async () => {
  await alice.close();
  await bob.close();
});

test('one holds and the other waits for its turn', async () => {
  const pool = name('db');
  const tokens: number[] = [];
  const places: number[] = [];
  let waiting: Promise<void> | undefined;
  let mine: Hold | undefined;
  const result = await alice.withHold(pool, { ttl: '30s' }, async (h) => {
    mine = h;
    assert.deepEqual([h.pool, h.units, h.namespace, h.lost], [pool, 1, 'default', undefined]);
    assert((h.certainFor ?? 0) > 0);
    assert.deepEqual(await holders(alice, pool), ['alice']);
    waiting = bob.withHold(pool, { onQueued: (place) => places.push(place) }, ({ token }) => void tokens.push(token));
    await until('bob waits', async () => (await waiters(alice, pool))[0] === 'bob');
    tokens.push(h.token);
    return 'done';
  });
  await soon('bob is done', waiting as Promise<void>);
  assert.equal(result, 'done');
  assert.equal(tokens.length, 2);
  assert((tokens[0] as number) < (tokens[1] as number));
  assert.deepEqual(places, [1]);
  assert.equal(mine?.lost, 'let_go');
  assert.equal(mine?.signal.aborted, false);
  assert.deepEqual(await holders(alice, pool), []);
});

test('a hold ends with its block, also if that throws', async () => {
  const pool = name('db');
  {
    await using h = await alice.hold(pool, { ttl: 30_000 });
    assert.deepEqual(await holders(alice, pool), ['alice']);
    h.check();
  }
  assert.deepEqual(await holders(alice, pool), []);
  const mine = new Error('mine');
  const failed = alice.withHold(pool, () => Promise.reject(mine));
  assert.equal(await fails(Error, failed), mine);
  assert.deepEqual(await holders(alice, pool), []);
});

test('a try does not wait and says who holds', async () => {
  const pool = name('db');
  await alice.tryHold(pool, async (h) => {
    const busy = await fails(
      Busy,
      bob.tryHold(pool, () => assert.fail('there is no room')),
    );
    assert.deepEqual([busy.code, busy.retry, busy.mayHaveHappened], ['busy', true, false]);
    assert.deepEqual(
      busy.holders.map(({ holder, token }) => [holder, token]),
      [['alice', h.token]],
    );
    assert.match(busy.message, /alice/);
    assert(busy.advice);
  });
  const h = await bob.tryHold(pool);
  await h.release();
});

test('a wait that is over is told so', async () => {
  const pool = name('db');
  await using _ = await alice.hold(pool);
  const late = await fails(WaitTimedOut, bob.hold(pool, { wait: 50 }));
  assert.equal(late.code, 'timed_out');
  assert.deepEqual(late.holders[0]?.holder, 'alice');
  assert.deepEqual(await waiters(alice, pool), []);
});

test('who is told to stop while it waits leaves the queue', async () => {
  const pool = name('db');
  await using _ = await alice.hold(pool);
  const stop = new AbortController();
  const waiting = bob.hold(pool, { signal: stop.signal });
  await until('bob waits', async () => (await waiters(alice, pool))[0] === 'bob');
  const reason = new Error('no time');
  stop.abort(reason);
  assert.equal(await fails(Error, waiting), reason);
  await until('bob is gone', async () => (await waiters(alice, pool)).length === 0);
  assert.equal(await fails(Error, bob.hold(name('other'), { signal: stop.signal })), reason);
});

test('a semaphore is as large as was said', async () => {
  const pool = name('permits');
  {
    await using _two = await alice.hold(pool, { size: 3, units: 2 });
    await using _one = await bob.hold(pool, { size: 3 });
    await fails(Busy, alice.tryHold(pool, { size: 3 }));
  }
  await using everything = await alice.hold(pool, { all: true });
  assert.equal(everything.units, 3);
  const refused = await fails(Refused, bob.hold(pool, { size: 4 }));
  assert.deepEqual([refused.code, refused.refusal.size], ['size_mismatch', 3]);
});

test('resources are chosen by their labels', async () => {
  const pool = name('gpus');
  const small = { name: 'a', labels: { mem: '40' } };
  const large = { name: 'b', labels: { mem: '80', nvlink: '' }, properties: { port: '99' } };
  assert.equal(await alice.setPool(pool, { resources: [small, large] }), true);
  assert.equal(await alice.setPool(pool, { resources: [small, large], placement: 'least_recently_used' }), false);
  {
    await using h = await alice.hold(pool, { select: 'mem >= 80 && nvlink' });
    assert.deepEqual(h.resource, large);
    await using rest = await bob.hold(pool);
    assert.deepEqual(rest.resource, { ...small, properties: {} });
  }
  await using both = await alice.hold(pool, { units: 2 });
  assert.deepEqual(both.resources.map((resource) => resource.name).sort(), ['a', 'b']);
  assert.throws(() => both.resource, RangeError);
});

test('a rate window gives so many places and no more', async () => {
  const pool = name('api');
  const first = await alice.rate(pool, { limit: 2, per: '1h' });
  const second = await alice.rate(pool, { limit: 2, per: '1h' });
  assert(first.token < second.token);
  assert(first.certainFor > 0);
  await fails(Busy, bob.rate(pool, { limit: 2, per: '1h', wait: 0 }));
});

test('a place in a rate window is waited for', async () => {
  const pool = name('api');
  const tokens: number[] = [];
  for (let place = 0; place < 3; place += 1) {
    tokens.push((await alice.rate(pool, { limit: 1, per: 50 })).token);
  }
  assert.deepEqual(
    [...new Set(tokens)].sort((one, other) => one - other),
    tokens,
  );
});

test('who is elected leads until it is done', async () => {
  const pool = name('scheduler');
  assert.equal(await alice.leader(pool), undefined);
  await bob.elect(pool, async (term) => {
    const leader = await alice.leader(pool);
    assert.deepEqual([leader?.holder, leader?.token, leader?.meta], ['bob', term.token, { job: '7' }]);
    assert.equal(leader?.lifetime, 'session');
  });
  assert.equal(await alice.leader(pool), undefined);
});

test('a watcher is told what happens and can go back', async () => {
  const pool = name('db');
  await alice.withHold(pool, () => undefined);
  const kinds: unknown[] = [];
  for await (const event of bob.watch({ pool, after: 0 })) {
    kinds.push(event.kind);
    if (event.kind === 'ended') {
      assert.deepEqual([event.holder, event.how], ['alice', 'released']);
      break;
    }
  }
  assert.deepEqual(kinds, ['pool_set', 'granted', 'ended']);
});

test('a watcher that is told to stop stops', async () => {
  const stop = new AbortController();
  const watching = bob.watch({ pool: name('db'), signal: stop.signal }).next();
  stop.abort(new Error('enough'));
  assert.equal((await fails(Error, watching)).message, 'enough');
});

test('a hold that is kept goes on without its client', async () => {
  const pool = name('maintenance');
  const carol = new Client(server.grpc, { holder: 'carol' });
  const key = (await carol.hold(pool, { kept: true })).keep();
  await carol.close();
  assert.deepEqual(await holders(alice, pool), ['carol']);
  await alice.api.release({ key });
  assert.deepEqual(await holders(alice, pool), []);
});

test('the same request id gives the same hold', async () => {
  const [pool, requestId] = [name('db'), name('request')];
  await using h = await alice.hold(pool, { requestId });
  const again = await alice.hold(pool, { requestId });
  assert.deepEqual([again.token, again.key], [h.token, h.key]);
  again.keep();
});

test('many tasks share one connection', async () => {
  const [pool, most] = [name('permits'), 3];
  let [inside, seen] = [0, 0];
  const work = async () => {
    for (let turn = 0; turn < 5; turn += 1) {
      await alice.withHold(pool, { size: most }, async () => {
        inside += 1;
        assert(inside <= most);
        await Promise.resolve();
        inside -= 1;
        seen += 1;
      });
    }
  };
  await soon('all are done', Promise.all(Array.from({ length: 200 }, work)));
  assert.equal(seen, 1_000);
  const { sessions } = await alice.api.listSessions({});
  assert.equal(sessions.filter((session) => session.holder === 'alice' && session.attached).length, 1);
});

test('a closed client lets go and does nothing more', async () => {
  const pool = name('db');
  const carol = new Client(server.grpc, { holder: 'carol' });
  const hold = await carol.hold(pool);
  const waiting = fails(ClosedError, carol.hold(pool));
  await until('carol waits', async () => (await waiters(alice, pool))[0] === 'carol');
  await carol.close();
  await soon('the wait ends', waiting);
  assert.equal(hold.lost, 'closed');
  await hold.release();
  assert.deepEqual([await holders(alice, pool), await waiters(alice, pool)], [[], []]);
  await fails(ClosedError, carol.hold(pool));
  await fails(ClosedError, carol.api.listPools({}));
});

test('namespaces keep teams apart', async () => {
  const pool = name('db');
  await using theirs = new Client(server.grpc, { namespace: 'team-b' });
  await using _ = await alice.hold(pool);
  await using h = await theirs.tryHold(pool);
  assert.equal(h.namespace, 'team-b');
  assert.equal((await theirs.leader(pool))?.token, h.token);
});

test('what contradicts itself or cannot be is not asked', async () => {
  await fails(TypeError, alice.hold('db', { ttl: 3, kept: true }));
  await fails(TypeError, alice.hold('db', { kept: true, owner: 'x' }));
  await fails(TypeError, alice.hold('db', { units: 2, all: true }));
  await fails(RangeError, alice.hold('db', { ttl: 'soon' }));
  await fails(RangeError, alice.hold('db', { wait: -1 }));
  const refused = await fails(Refused, alice.hold('db', { meta: { ['x'.repeat(10_000)]: 'y'.repeat(100_000) } }));
  assert.equal(refused.code, 'invalid_argument');
  const unknown = await fails(Refused, alice.hold(name('db'), { meta: { ['x'.repeat(100)]: 'y' } }));
  assert.equal(unknown.code, 'invalid_argument');
});
