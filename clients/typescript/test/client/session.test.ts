/** What the session decides: by itself, without a server, a socket or a clock. Times are milliseconds. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { TenureError } from 'tenure';

import { Unreachable } from '../../lib/errors.js';
import { Broken, Session } from '../../lib/session.js';
import type { Granted } from '../../lib/standing.js';
import { ClientMessage, type ClientRequest, type Grant, type ServerAnswer } from '../../lib/wire.js';

const GONE = new Unreachable('here', 'it is gone');

/** A session, and a server in the hands of the test. */
class Play {
  readonly session: Session;
  greeting: TenureError | 'well' | undefined;
  granted: Granted[] = [];
  failed: TenureError[] = [];

  constructor(grace = 30_000) {
    const identity = { address: 'here', holder: 'alice', meta: {}, namespace: '', grace, connectTimeout: 5_000 };
    this.session = new Session(identity, (error) => (this.greeting = error ?? 'well'));
  }

  connect(now: number): ClientRequest {
    const [first] = this.session.connecting(now).requests ?? [];
    const id = first?.id ?? 0;
    this.hear(now, { id, opened: { session: 1, sessionKey: 'session key', graceMs: this.session.identity.grace } });
    return first as ClientRequest;
  }

  hear(now: number, ...answers: ServerAnswer[]): void {
    this.session.hear(now, { answers });
  }

  /** What is said, without pings, which are answered. */
  said(now: number): ClientRequest[] {
    const bytes = this.session.say(now);
    const requests = bytes === undefined ? [] : ClientMessage.decode(bytes).requests;
    for (const { id } of requests.filter((request) => request.ping !== undefined)) {
      this.hear(now, { id, pong: { atMs: 1_000_000 + now } });
    }
    return requests.filter((request) => request.ping === undefined);
  }

  ask(now: number, { wait, requestId, ttlMs = 30_000 }: { wait?: number; requestId?: string; ttlMs?: number } = {}): number {
    return this.session.ask(now, {
      request: { pool: 'db', ttlMs, waitMs: wait, waitForever: wait === undefined, requestId },
      wait,
      end: wait ? now + wait : undefined,
      queued: undefined,
      granted: (granted) => this.granted.push(granted),
      failed: (error) => this.failed.push(error),
    });
  }

  /** Asks for a lease and is granted it. */
  hold(now: number, ttlMs = 30_000, more: Partial<Grant> = {}): Granted {
    const id = this.ask(now, { ttlMs });
    this.said(now);
    this.hear(now, { id, granted: grant(now, { ttlMs, deadlineMs: 1_000_000 + now + ttlMs, ...more }) });
    return this.granted.at(-1) as Granted;
  }
}

function grant(now: number, more: Partial<Grant> = {}): Grant {
  const { ttlMs = 30_000 } = more;
  return {
    namespace: 'default',
    pool: 'db',
    token: 7,
    key: 'key',
    units: 1,
    resources: [],
    lifetime: 'leased',
    ttlMs,
    sinceMs: 1_000_000 + now,
    also: [],
    ...more,
  };
}

test('a session is opened once and resumed by its key', () => {
  const play = new Play();
  assert.equal(play.connect(0).open?.holder, 'alice');
  assert.equal(play.greeting, 'well');
  play.session.disconnected(100, GONE);
  assert.equal(play.connect(200).resume?.sessionKey, 'session key');
});

test('a first attempt that fails ends the session with its reason', () => {
  const play = new Play();
  play.session.connecting(0);
  play.session.disconnected(1, GONE);
  assert.equal(play.greeting, GONE);
  assert.equal(play.session.isOver, true);
});

test('many requests go into one message', () => {
  const play = new Play();
  play.connect(0);
  for (let count = 0; count < 500; count += 1) {
    play.ask(1);
  }
  assert.equal(play.said(1).length, 500);
  assert.equal(play.session.say(1), undefined);
});

test('a lease is renewed at a third and lost when it is no longer certain', () => {
  const play = new Play();
  play.connect(0);
  const { standing } = play.hold(0);
  play.session.tick(9_000);
  assert.deepEqual(play.said(9_000), []);
  play.session.tick(10_000);
  const [renewal] = play.said(10_000);
  assert.equal(renewal?.renew?.key, 'key');
  play.hear(10_050, { id: renewal?.id ?? 0, renewed: { token: 7, ttlMs: 30_000, deadlineMs: 0 } });
  assert((standing.until as number) > 39_900 && (standing.until as number) <= 40_000, String(standing.until));
  play.session.disconnected(10_100, GONE);
  play.session.tick(39_000);
  assert.equal(standing.reason, undefined);
  play.session.tick(40_000);
  assert.equal(standing.reason, 'unreachable');
});

test('a promise is counted from before it was asked for', () => {
  const play = new Play();
  play.connect(0);
  play.said(0);
  const id = play.ask(0);
  play.said(0);
  // The answer took twenty seconds of the thirty.
  play.hear(20_000, { id, granted: grant(0, { deadlineMs: 1_030_000 }) });
  assert((play.granted[0]?.standing.until as number) <= 30_000);
});

test('what was asked is asked again after a reconnect under the same request id, with what is left of its wait', () => {
  const play = new Play();
  play.connect(0);
  play.ask(0, { wait: 5_000 });
  const [first] = play.said(0);
  play.session.disconnected(2_000, GONE);
  play.connect(2_000);
  const [again] = play.said(2_000);
  assert.equal(first?.acquire?.waitMs, 5_000);
  assert.equal(again?.acquire?.waitMs, 3_000);
  assert(first?.acquire?.requestId);
  assert.equal(again?.acquire?.requestId, first?.acquire?.requestId);
});

test('holds are asked about after a reconnect, and those that are gone are lost', () => {
  const play = new Play();
  play.connect(0);
  const { standing } = play.hold(0);
  play.session.disconnected(100, GONE);
  play.connect(200);
  const [renewal] = play.said(200);
  assert.equal(renewal?.renew?.key, 'key');
  play.hear(201, { id: renewal?.id ?? 0, refused: refusal('not_held') });
  assert.equal(standing.reason, 'released');
});

test('a release whose answer was lost is done, though the server then knows nothing of it', () => {
  const play = new Play();
  play.connect(0);
  const { id } = play.hold(0);
  const answers: (TenureError | undefined)[] = [];
  play.session.release(1, id, (error) => answers.push(error));
  assert.equal(play.said(1)[0]?.release?.key, 'key');
  play.session.disconnected(2, GONE);
  play.connect(3);
  const [again] = play.said(3);
  assert.equal(again?.release?.key, 'key');
  play.hear(4, { id: again?.id ?? 0, refused: refusal('not_held') });
  assert.deepEqual(answers, [undefined]);
});

test('a server that has no time is asked again after a pause, and only what it did not do', () => {
  const play = new Play();
  play.connect(0);
  const id = play.ask(0);
  play.said(0);
  play.hear(1, { id, refused: refusal('overloaded') });
  assert.deepEqual([play.said(1), play.failed], [[], []]);
  const due = play.session.nextDue() as number;
  play.session.tick(due + 200);
  assert.equal(play.said(due + 200)[0]?.acquire?.pool, 'db');
});

test('who is forgotten is withdrawn, but only if the server may know of it', () => {
  const play = new Play();
  play.connect(0);
  const [unsaid, said] = [play.ask(0), play.ask(0)];
  play.session.forget(unsaid);
  const [acquire] = play.said(0);
  assert.equal(acquire?.id, said);
  play.session.forget(said);
  assert.deepEqual(
    play.said(1).map((request) => request.withdraw?.requestId),
    [acquire?.acquire?.requestId],
  );
  // What was on its way all the same is nobody's.
  play.hear(2, { id: said, granted: grant(0) });
  assert.deepEqual([play.granted, play.failed], [[], []]);
});

test('a grant that was over before it was heard of is asked for anew', () => {
  const play = new Play();
  play.connect(0);
  const id = play.ask(0);
  const [first] = play.said(0);
  play.hear(60_000, { id, granted: grant(0, { deadlineMs: 1_030_000 }) });
  assert.deepEqual(play.granted, []);
  const [withdrawn, again] = play.said(60_000);
  assert.equal(withdrawn?.withdraw?.requestId, first?.acquire?.requestId);
  assert.notEqual(again?.acquire?.requestId, first?.acquire?.requestId);
});

test('a session that has ended loses what lived as long as it, and no lease', () => {
  const play = new Play();
  const { id } = play.connect(0);
  const leased = play.hold(0);
  const led = play.hold(0, 0, { token: 8, lifetime: 'session', ttlMs: undefined, deadlineMs: undefined } as never);
  assert.throws(() => play.hear(1, { id, refused: refusal('unknown_session') }), Broken);
  play.session.disconnected(1, GONE);
  assert.deepEqual([leased.standing.reason, led.standing.reason], [undefined, 'session_ended']);
  assert.equal(play.connect(2).open?.holder, 'alice');
});

test('a connection that is silent is given up', () => {
  const play = new Play();
  play.connect(0);
  play.said(0);
  const due = play.session.nextDue() as number;
  play.session.tick(due);
  play.session.say(due);
  assert.throws(() => play.session.tick(due + 10_000), Broken);
});

test('a session that is closed lets go first and then says its end', () => {
  const play = new Play();
  play.connect(0);
  const { standing } = play.hold(0);
  const closed: (TenureError | undefined)[] = [];
  play.ask(0);
  play.said(0);
  play.session.close(1, (error) => closed.push(error));
  assert.equal(standing.reason, 'closed');
  assert.equal(play.failed[0]?.code, 'closed');
  const said = play.said(1);
  assert.deepEqual(
    said.map((request) => Object.keys(request).filter((key) => key !== 'id')[0]).sort(),
    ['release', 'withdraw'],
  );
  for (const { id, release } of said) {
    play.hear(2, release ? { id, released: { token: 7 } } : { id, withdrawn: {} });
  }
  const [end] = play.said(2);
  assert(end?.end);
  play.hear(3, { id: end.id, ended: {} });
  assert.deepEqual([closed, play.session.isOver], [[undefined], true]);
});

function refusal(code: string) {
  return { code, message: code, advice: '', retry: false, mayHaveHappened: false, holders: [], also: [], cycle: [], reserved: [] };
}
