/** Several pools at once, waits that could never end, resources that have to be cleaned, and turns. */

import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';

import { Busy, Client, Deadlock, HoldLost, Refused, WaitTimedOut } from 'tenure';

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
  bob = new Client(server.grpc, { holder: 'bob' });
});
afterEach(async () => {
  await alice.close();
  await bob.close();
});

test('a set is one hold of all its pools', async () => {
  const [db, gpus, calls] = [name('db'), name('gpus'), name('calls')];
  const machines = { a: '80', b: '40', c: '96' };
  const resources = Object.entries(machines).map(([machine, mem]) => ({ name: machine, labels: { mem } }));
  await alice.setPool(gpus, { resources });
  await alice.setPool(calls, { units: 10, window: '1h' });
  const also = [
    { pool: gpus, units: 2, select: 'mem >= 80' },
    { pool: calls, units: 5 },
  ];
  await alice.withHold(db, { also, ttl: '30s' }, async (h) => {
    assert.deepEqual([h.pool, h.units, h.resources], [db, 1, []]);
    assert.deepEqual(
      h.parts.map(({ pool, units }) => [pool, units]),
      [
        [db, 1],
        [gpus, 2],
        [calls, 5],
      ],
    );
    assert.deepEqual(
      h.part(gpus).resources.map((machine) => [machine.name, machine.labels.mem]),
      [
        ['a', '80'],
        ['c', '96'],
      ],
    );
    assert.throws(() => h.part('another'), RangeError);
    for (const pool of [db, gpus]) {
      const { holds } = await bob.api.listHolds({ pool });
      assert.deepEqual(
        holds.map(({ holder, token }) => [holder, token]),
        [['alice', h.token]],
      );
    }
  });
  assert.deepEqual([await holders(alice, db), await holders(alice, gpus)], [[], []]);
  // Its places are used up.
  assert.deepEqual(await holders(alice, calls), ['alice']);
});

test('a set has nothing until it has all', async () => {
  const [one, two] = [name('one'), name('two')];
  const taken = await bob.hold(two);
  const busy = await fails(Busy, alice.tryHold(one, { also: [two] }));
  assert.deepEqual([busy.refusal.pool, busy.holders[0]?.holder], [two, 'bob']);
  await fails(WaitTimedOut, alice.hold(one, { also: [two], wait: 10 }));
  const waiting = alice.hold(one, { also: [two] });
  await until('it waits for both', async () => {
    const queues = [await waiters(bob, one), await waiters(bob, two)];
    return queues.every(([first]) => first === 'alice');
  });
  assert.deepEqual(await holders(bob, one), []);
  await taken.release();
  const hold = await soon('it has both', waiting);
  assert.deepEqual(
    hold.parts.map(({ pool }) => pool),
    [one, two],
  );
  await hold.release();
});

test('a set is lost as a whole', async () => {
  const [one, two] = [name('one'), name('two')];
  const hold = await alice.hold(one, { also: [two] });
  await bob.api.forceRelease({ pool: two, holder: 'alice', token: hold.token, reason: 'it is broken' });
  await until('it is lost', () => hold.signal.aborted);
  assert.deepEqual([hold.lost, hold.note], ['forced', 'it is broken']);
  await fails(HoldLost, hold.release());
  assert.deepEqual(await holders(bob, one), []);
});

test('a stolen hold is lost to an operator', async () => {
  const pool = name('db');
  const hold = await alice.hold(pool);
  const stolen = { pool, holder: 'alice', token: hold.token, to: 'bob', reason: 'bob is on call' };
  const { token } = await bob.api.steal(stolen);
  await until('it is lost', () => hold.signal.aborted);
  assert.deepEqual([hold.lost, hold.note], ['forced', 'bob is on call']);
  assert(token > hold.token);
});

test('what contradicts itself is refused before it is asked', async () => {
  await assert.rejects(alice.hold('db', { also: [{ pool: 'gpus', units: 2, all: true }] }), TypeError);
  await assert.rejects(alice.setPool('db', { units: 1, weights: { web: 3 } }), TypeError);
  const many = await fails(Refused, alice.hold(name('db'), { also: [...Array(20).keys()].map(String) }));
  assert.equal(many.code, 'invalid_argument');
});

test('a wait that could never end is refused with the cycle', async () => {
  const [one, two] = [name('one'), name('two')];
  const mine = await alice.hold(one);
  const other = await bob.hold(two);
  const waiting = bob.hold(one, { holdsOn: true });
  await until('bob waits', async () => (await waiters(alice, one))[0] === 'bob');
  const refused = await fails(Deadlock, alice.hold(two, { holdsOn: true }));
  assert.equal(refused.code, 'deadlock');
  assert.deepEqual(
    refused.cycle.map(({ holder, pool }) => [holder, pool]),
    [
      ['alice', two],
      ['bob', one],
    ],
  );
  assert.equal(refused.cycle[1]?.token, mine.token);
  // Whoever lets go of something does not wait for itself.
  await mine.release();
  await (await soon('bob has it', waiting)).release();
  await other.release();
});

test('a resource is handed out again when it was cleaned', async () => {
  const pool = name('machines');
  await alice.setPool(pool, { resources: ['a'], cleaning: true });
  await alice.withHold(pool, () => undefined);
  const busy = await fails(Busy, bob.tryHold(pool));
  assert.equal(busy.refusal.dirty, 1);
  await bob.withHold(pool, { dirty: true }, (h) => assert.equal(h.resource.name, 'a'));
  assert.equal(await alice.tryHold(pool, (h) => h.resource.name), 'a');
});

test('a script says which resource is granted', async () => {
  const pool = name('gpus');
  const sizes = Object.entries({ a: '80', b: '24', c: '40' });
  const resources = sizes.map(([machine, mem]) => ({ name: machine, labels: { mem } }));
  const placeBy = 'let mem = number(resource.labels.mem, 0); if mem < number(request.meta.need, 0) { -1 } else { 1000 - mem }';
  await alice.setPool(pool, { resources, order: 'backfill', placeBy, orderBy: 'request.priority' });
  const { spec } = await alice.api.getPool({ pool });
  assert.deepEqual([spec?.scripts?.place, spec?.scripts?.order], [placeBy, 'request.priority']);
  await alice.withHold(pool, { meta: { need: '30' } }, (h) => assert.equal(h.resource.name, 'c'));
  const refused = await fails(Refused, alice.setPool(pool, { resources, placeBy: '1 +' }));
  assert.equal(refused.code, 'bad_script');
});

test('groups are served in turn', async () => {
  const pool = name('workers');
  await alice.setPool(pool, { units: 1, fair: 'tenant', weights: { web: 3 } });
  const { spec } = await alice.api.getPool({ pool });
  assert.deepEqual([spec?.fair?.by, spec?.fair?.weights], ['tenant', [{ key: 'web', value: 3 }]]);
  const first = await alice.hold(pool, { meta: { tenant: 'web' } });
  const served: string[] = [];
  const waiting: Promise<unknown>[] = [];
  for (const tenant of ['batch', 'batch', 'batch', 'mail']) {
    waiting.push(bob.withHold(pool, { meta: { tenant } }, () => served.push(tenant)));
    await until('it waits', async () => (await waiters(alice, pool)).length === waiting.length);
  }
  await first.release();
  await soon('all are served', Promise.all(waiting));
  assert.deepEqual(served, ['batch', 'mail', 'batch', 'batch']);
});
