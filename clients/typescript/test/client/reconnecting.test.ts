/** Reconnecting: over lost connections and restarts of the server nothing is lost, and nothing is done twice. */

import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';

import { Client, ForeignServer, TenureError, Unreachable, Unusable } from 'tenure';

import { Server, aborted, fails, holders, holds, soon, until, waiters } from './server.js';

let server: Server;
let alice: Client;
let bob: Client;
let closing: (() => Promise<void>)[];

beforeEach(async () => {
  server = await Server.start({ durable: true });
  alice = new Client(server.address, { holder: 'alice' });
  bob = new Client(server.address, { holder: 'bob' });
  closing = [];
});
afterEach(async () => {
  server.door.leadsTo(server.grpc);
  for (const close of [() => alice.close(), () => bob.close(), ...closing, () => server.close()]) {
    await close();
  }
});

/** Somebody who is not behind the door. */
function looker(): Client {
  const client = new Client(server.grpc, { holder: 'looker' });
  closing.push(() => client.close());
  return client;
}

function cutOff(): void {
  server.door.leadsTo(undefined);
  server.door.cut();
}

test('holds survive a restart of the server', async () => {
  await alice.setPool('gpus', { resources: ['a', 'b'] });
  const leased = await alice.hold('leased', { ttl: '30s' });
  const leader = await alice.elect('leader');
  const gpu = await alice.hold('gpus', { select: 'b' });
  await server.restart();
  const after = looker();
  await until('it is back', async () => (await after.api.listSessions({})).sessions[0]?.attached);
  await alice.rate('ping', { limit: 1_000, per: '1s' });
  for (const hold of [leased, leader, gpu]) {
    hold.check();
    assert.equal(hold.signal.aborted, false);
  }
  assert.deepEqual(await holders(after, 'leased'), ['alice']);
  assert.deepEqual(
    (await holds(after, 'leader')).map((hold) => hold.token),
    [leader.token],
  );
  for (const hold of [leased, leader, gpu]) {
    await hold.release();
    assert.deepEqual(await holders(after, hold.pool), []);
  }
});

test('holds and waits survive a server that stops in good order', async () => {
  const h = await alice.hold('db');
  const waiting = bob.withHold('db', ({ token }) => token);
  await until('bob waits', async () => (await waiters(looker(), 'db'))[0] === 'bob');
  await server.restart(true);
  const after = looker();
  await until('bob waits again', async () => (await waiters(after, 'db'))[0] === 'bob');
  h.check();
  await h.release();
  assert((await soon('bob has its turn', waiting)) > h.token);
});

test('a place in the queue survives a killed server', async () => {
  const h = await alice.hold('db');
  const waiting = bob.withHold('db', ({ token }) => token);
  await until('bob waits', async () => (await waiters(looker(), 'db'))[0] === 'bob');
  await server.restart();
  const after = looker();
  await until('bob waits again', async () => (await waiters(after, 'db'))[0] === 'bob');
  await h.release();
  assert((await soon('bob has its turn', waiting)) > h.token);
});

test('a release that was cut off is done once the server is back', async () => {
  await alice.withHold('db', { ttl: '1h' }, async () => {
    cutOff();
    await until('it is noticed', () => alice.trouble !== undefined);
    setTimeout(() => server.door.leadsTo(server.grpc), 300);
  });
  assert.deepEqual(await holders(looker(), 'db'), []);
});

test('an acquire that was cut off is made once', async () => {
  const look = looker();
  await alice.connect();
  for (let turn = 0; turn < 10; turn += 1) {
    server.door.cut();
    await alice.withHold('permits', { size: 100 }, async () => {
      assert.equal((await holders(look, 'permits')).length, 1);
    });
  }
});

test('a watcher goes on after a lost connection without a gap', async () => {
  await alice.withHold('db', () => undefined);
  const [seen, look]: [number[], Client] = [[], looker()];
  for await (const { seq } of alice.watch({ pool: 'db', after: 0 })) {
    seen.push(seq);
    if (seen.length >= 7) {
      break;
    }
    if (seen.length === 1 || seen.length === 4) {
      server.door.cut();
    }
    if (seen.length === 3 || seen.length === 5) {
      await look.withHold('db', () => undefined);
    }
  }
  const { events } = await look.api.history({ pool: 'db' });
  assert.deepEqual(seen, events.map(({ seq }) => seq).slice(0, 7));
});

test('a session that ended meanwhile loses what lived as long as it', async () => {
  const client = new Client(server.address, { sessionGrace: 200 });
  closing.push(() => client.close());
  const leader = await client.hold('leader', { untilSessionEnds: true });
  const leased = await client.hold('db', { ttl: '1h' });
  cutOff();
  const look = looker();
  await until('its session is over', async () => (await holders(look, 'leader')).length === 0);
  server.door.leadsTo(server.grpc);
  await aborted(leader.signal);
  assert(['session_ended', 'unreachable'].includes(leader.lost ?? ''), leader.lost);
  await client.withHold('another', () => leased.check());
  await leased.release();
});

test('a wait ends in time though the server is away', async () => {
  await alice.connect();
  cutOff();
  const failed = await fails(TenureError, alice.hold('db', { wait: 300 }));
  assert(['unreachable', 'timed_out'].includes(failed.code), failed.code);
  assert.equal(failed.retry, true);
  server.door.leadsTo(server.grpc);
  const look = looker();
  await alice.withHold('other', async () => {
    assert.deepEqual([await holders(look, 'db'), await waiters(look, 'db')], [[], []]);
  });
});

test('nobody there is said at once', async () => {
  const other = await Server.start();
  await other.close();
  const failed = await fails(Unreachable, new Client(other.grpc).connect());
  assert.match(failed.message, /nothing listens there/);
  assert.deepEqual([failed.code, failed.address], ['unreachable', other.grpc]);
});

test('a client whose first attempt failed can try again', async () => {
  server.door.leadsTo(undefined);
  await fails(TenureError, alice.connect());
  server.door.leadsTo(server.grpc);
  await alice.withHold('db', () => undefined);
});

test('the wrong port is said to be one', async () => {
  const failed = await fails(ForeignServer, new Client(server.http.replace('http://', '')).connect());
  assert.match(failed.message, /3144/);
});

test('what is no address is said to be none', () => {
  for (const address of ['', 'host:', 'host:0', 'host:99999', 'ho st:1', 'a/b:1', 'https://', 'ftp://host:1', '[::1', '[::1]x']) {
    assert.throws(() => new Client(address), Unusable, address);
  }
  assert.equal(new Client('[::1]:5').address, '[::1]:5');
});
