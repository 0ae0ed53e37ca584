/** Losing: what a holder is told, and when. */

import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { Client, HoldLost } from 'tenure';

import { Server, aborted, fails, force, holders, name, soon, until } from './server.js';

let server: Server;
let alice: Client;
let operator: Client;

before(async () => {
  server = await Server.start();
});
after(() => server.close());
beforeEach(() => {
  alice = new Client(server.grpc, { holder: 'alice' });
  operator = new Client(server.grpc, { holder: 'operator' });
});
afterEach(async () => {
  await alice.close();
  await operator.close();
});

async function kinds(pool: string): Promise<string[]> {
  const { events } = await operator.api.history({ pool });
  return events.map((event) => event.how ?? event.kind ?? '').filter((kind) => kind !== 'pool_set');
}

/** Nothing else happens in this process meanwhile: no timer, no answer, no renewal. */
function blockTheLoop(milliseconds: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
}

test('a lease is renewed for as long as it is held', async () => {
  const pool = name('db');
  await using h = await alice.hold(pool, { ttl: '2s' });
  await until('it is renewed twice', async () => (await kinds(pool)).filter((kind) => kind === 'renewed').length > 1);
  h.check();
  assert.equal(h.signal.aborted, false);
});

test('a loop that was blocked for longer than the lease is told of the loss, and so is the release', async () => {
  const pool = name('db');
  const told: HoldLost[] = [];
  const h = await alice.hold(pool, { ttl: '1s', onLost: (lost) => told.push(lost) });
  const { signal } = h;
  blockTheLoop(1_500);
  // Before anything else was heard: the clock is enough to know.
  assert.equal(signal.aborted, false);
  assert.equal(h.lost, 'unreachable');
  assert.equal(h.certainFor, 0);
  assert.throws(() => h.check(), HoldLost);
  const reason = await aborted(signal);
  assert(reason instanceof HoldLost);
  assert.equal(reason.pool, pool);
  const lost = await fails(HoldLost, h.release());
  assert.deepEqual([lost.code, lost.token], ['not_held', h.token]);
  assert.equal(told.length, 1);
  assert.deepEqual(await kinds(pool), ['granted', 'expired']);
  // All else goes on.
  await alice.withHold(pool, ({ token }) => assert(token > h.token));
});

test('a loop that was blocked for less than the lease loses nothing', async () => {
  const pool = name('db');
  await using h = await alice.hold(pool, { ttl: '20s' });
  blockTheLoop(1_500);
  h.check();
  await alice.withHold(name('other'), () => undefined);
  h.check();
  assert.deepEqual(await holders(operator, pool), ['alice']);
});

test('a signal and a callback tell of a hold that an operator ended', async () => {
  const pool = name('db');
  const told: HoldLost[] = [];
  const body = alice.withHold(pool, { onLost: (lost) => told.push(lost) }, async (h) => {
    await force(operator, pool, 'alice', h.token);
    const reason = await aborted(h.signal);
    assert(reason instanceof HoldLost);
    assert.deepEqual([reason.reason, reason.note, reason.token], ['forced', 'moving house', h.token]);
    assert.deepEqual([h.lost, h.note], ['forced', 'moving house']);
    assert.throws(() => h.check(), HoldLost);
  });
  const lost = await fails(HoldLost, soon('it ends', body));
  assert.deepEqual([lost.code, lost.reason, lost.note, lost.retry], ['not_held', 'forced', 'moving house', false]);
  assert.equal(told.length, 1);
});

test('a signal that is first asked for after the loss is aborted', async () => {
  const pool = name('db');
  const h = await alice.hold(pool);
  await force(operator, pool, 'alice', h.token);
  await until('it is told', () => h.lost === 'forced');
  assert.equal(h.signal.aborted, true);
  await fails(HoldLost, h.release());
  // Once is enough.
  await h.release();
});

test('a function that stops because of the signal ends with the loss', async () => {
  const pool = name('db');
  const body = alice.withHold(pool, async (h) => {
    await force(operator, pool, 'alice', h.token);
    await sleep(3_600_000, undefined, { signal: h.signal });
  });
  const lost = await fails(HoldLost, soon('it ends', body));
  assert.equal(lost.reason, 'forced');
});

test('the failure of a function is not hidden by the loss', async () => {
  const pool = name('db');
  const mine = new Error('mine');
  const body = alice.withHold(pool, async (h) => {
    await force(operator, pool, 'alice', h.token);
    await aborted(h.signal);
    throw mine;
  });
  assert.equal(await fails(Error, soon('it ends', body)), mine);
});

test('a block with await using ends with the loss', async () => {
  const pool = name('db');
  const block = async () => {
    await using h = await alice.hold(pool);
    await force(operator, pool, 'alice', h.token);
    await aborted(h.signal);
  };
  const lost = await fails(HoldLost, soon('it ends', block()));
  assert.equal(lost.reason, 'forced');
});

test('nobody is told of a release', async () => {
  const told: HoldLost[] = [];
  const h = await alice.hold(name('db'), { onLost: (lost) => told.push(lost) });
  const { signal } = h;
  await h.release();
  await alice.leader('nobody');
  assert.deepEqual([told, signal.aborted], [[], false]);
});

test('a hold whose server is gone is lost when it is no longer certain', async () => {
  const other = await Server.start();
  const client = new Client(other.address);
  const h = await client.hold('db', { ttl: '1s' });
  other.door.leadsTo(undefined);
  other.door.cut();
  const reason = await aborted(h.signal);
  assert(reason instanceof HoldLost);
  assert.equal(reason.reason, 'unreachable');
  await until('the trouble is told', () => client.trouble !== undefined);
  other.door.leadsTo(other.grpc);
  await client.close();
  await other.close();
});
