/** Other versions: a newer server is understood as far as that goes, an older one is told apart from a broken one. */

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Busy, Client, ForeignServer, HoldLost, Refused, VERSION } from 'tenure';

import { refused } from '../../lib/errors.js';
import { ServerMessage, ServerAnswer, Grant } from '../../lib/wire.js';
import { OtherVersion, newer } from './other-version.js';
import { Server, aborted, fails, force, name } from './server.js';

let server: Server;

before(async () => {
  server = await Server.start();
});
after(() => server.close());

test('what a newer server says beyond what is known is ignored', async () => {
  const future = await OtherVersion.start(server.grpc, '9.9.9', { change: newer });
  const pool = name('gpus');
  {
    await using client = new Client(future.address, { holder: 'alice' });
    await using operator = new Client(server.grpc);
    await client.setPool(pool, { resources: ['a', 'b'] });
    await client.withHold(pool, { select: 'a' }, async (h) => {
      assert.equal(h.resource.name, 'a');
      const busy = await fails(Busy, client.tryHold(pool, { select: 'a' }));
      assert.equal(busy.holders[0]?.holder, 'alice');
    });
    for await (const event of client.watch({ pool, after: 0 })) {
      if (event.kind === 'ended') {
        break;
      }
    }
    const h = await client.hold(pool);
    await force(operator, pool, 'alice', h.token);
    assert((await aborted(h.signal)) instanceof HoldLost);
    assert.equal(h.lost, 'forced');
  }
  future.close();
});

test('a loss of an unknown kind is a loss', async () => {
  const change = (call: string, message: Buffer) => {
    const text = message.toString('latin1');
    // `how`, field 2 of what was lost, has a value that nobody knows.
    return call === 'Session' && text.includes('moving house')
      ? Buffer.from(text.replace('\x10\x05', '\x10\x63'), 'latin1')
      : message;
  };
  const future = await OtherVersion.start(server.grpc, '9.9.9', { change });
  const pool = name('db');
  {
    await using client = new Client(future.address, { holder: 'alice' });
    await using operator = new Client(server.grpc);
    const h = await client.hold(pool);
    await force(operator, pool, 'alice', h.token);
    await aborted(h.signal);
    assert.equal(h.lost, 'other');
  }
  future.close();
});

test('a refusal with an unknown code is a refusal', () => {
  const error = refused({ code: 'out_of_tune', message: 'the piano is out of tune', retry: true });
  assert.equal(error.constructor, Refused);
  assert.deepEqual([error.code, error.message, error.retry], ['out_of_tune', 'the piano is out of tune', true]);
});

test('a server that is too old is told so with both versions', async () => {
  const past = await OtherVersion.start(server.grpc, '0.0.1', { unknown: ['Session', 'SetPool'] });
  {
    await using client = new Client(past.address);
    for (const ask of [() => client.connect(), () => client.setPool('db', { units: 1 })]) {
      const error = await fails(ForeignServer, ask());
      assert.match(error.message, /it has version 0\.0\.1/);
      assert(error.message.includes(`this client has version ${VERSION}`), error.message);
      assert.deepEqual([error.code, error.retry], ['foreign_server', false]);
    }
    const { pools } = await client.api.listPools({ prefix: "nobody's" });
    assert.deepEqual(pools, []);
  }
  past.close();
});

test('messages are the same after they were written and read', () => {
  const grant: Grant = {
    namespace: 'team',
    pool: 'größer 🙂'.repeat(40),
    token: 2 ** 53 - 1,
    key: '',
    units: 4_294_967_295,
    resources: Array.from({ length: 300 }, (_, number) => ({
      name: `r${number}`,
      labels: { gpu: '', mem: '80' },
      properties: { port: 'x'.repeat(number) },
    })),
    lifetime: 'window',
    ttlMs: 0,
    sinceMs: 1_700_000_000_000,
    also: [],
  };
  assert.deepEqual(Grant.decode(Grant.encode(grant)), grant);
  const answer: ServerAnswer = { id: 300, granted: grant };
  const message = { answers: [answer, { id: 1, pong: { atMs: 5 } }] };
  assert.deepEqual(ServerMessage.decode(ServerMessage.encode(message)), message);
  assert.throws(() => Grant.decode(Grant.encode(grant).subarray(0, -1)), RangeError);
  assert.throws(() => Grant.encode({ units: 1.5 }), TypeError);
  assert.throws(() => Grant.encode({ units: -1 }), RangeError);
});
