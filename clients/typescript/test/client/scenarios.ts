/**
 * Plays the project's scenario files through the TypeScript client.
 *
 * The server is in the test that starts this, `crates/cli/tests/typescript_client`, because its clock is moved from here: a line
 * of JSON on stdout asks for something, a line on stdin answers. `node scenarios.js FOLDER [words of a claim]`.
 */

import { readFileSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

import { Client, type Hold, Refused, TenureError, type wire } from 'tenure';

import {
  type Outcome,
  type Scenario,
  type Step,
  durationText,
  matches,
  read,
  told,
} from './scenario-text.js';
import * as words from './scenario-words.js';
import { type Acquire, Arguments, DONE, type KeyOf, LeftOut, UnknownWord } from './scenario-words.js';
import { Door } from './server.js';

/** Milliseconds, far longer than anything takes; only a failing scenario waits for it. */
const PATIENCE = 10_000;
const KEY_OF_NOBODY = '00000000-0000-4000-8000-000000000000';
const SESSION_OF_NOBODY = '00000000-0000-4000-8000-000000000001';

const ONE_CONNECTION = 'the client gives up a connection before it makes the next, so that a session never has two';
const ASKS_ABOUT_HOLDS = 'a client that comes back asks whether it still has what it held, which renews it';
/** Claims that are not played, and why. `only:` in the files keeps others off every socket. */
const LEFT_OUT = new Map([
  ['curator 1121: after a reconnect the old and the new connection of a session do not both get the lock', ONE_CONNECTION],
  ['The old connection of a resumed session may be missed late without harm', ONE_CONNECTION],
  ['A waiter keeps its place though the old connection is missed only after the session was resumed', ONE_CONNECTION],
  ['A restart neither shortens nor restarts the time of a session\'s hold', ASKS_ABOUT_HOLDS],
  ['A session\'s hold that has a time is still its session\'s after a restart', ASKS_ABOUT_HOLDS],
  ['A hold that became a lease after a restart does not end with its session', ASKS_ABOUT_HOLDS],
  ['A hold that became a lease is still what its request was granted', ASKS_ABOUT_HOLDS],
  [
    'A session that has ended cannot be resumed, and nothing can be done in it',
    'a client whose session has ended opens another and goes on in that',
  ],
  [
    'A session that is ended refuses its waits at once',
    'a client that is closed ends its waits itself, with an error of its own',
  ],
  [
    'A waiter whose connection is lost leaves the queue if it cannot say later which request it was',
    'every request of the client has an id, so its wait keeps its place',
  ],
  [
    'A waiter that comes back to a free pool is granted at once',
    'a client that comes back makes its requests again by itself, before the operator can look',
  ],
  [
    'A waiter that is away leaves with its session',
    'a client whose session has ended makes its requests again in the next, and hears what came of them',
  ],
]);

/** The test that has the server. */
class Theatre {
  readonly #answers = createInterface(process.stdin)[Symbol.asyncIterator]();

  async ask<Answer>(what: string, more: object = {}): Promise<Answer> {
    this.tell(what, more);
    const { value } = (await this.#answers.next()) as { value: string };
    return JSON.parse(value) as Answer;
  }

  tell(what: string, more: object = {}): void {
    process.stdout.write(`${JSON.stringify({ do: what, ...more })}\n`);
  }
}

interface Counts {
  commands: number;
  hang_ups: number;
}

/** An acquire that somebody waits with. */
class Call {
  outcome: Outcome | undefined;
  readonly stop = new AbortController();
  readonly done: Promise<void>;

  constructor(
    ask: (signal: AbortSignal) => Promise<Outcome>,
    readonly request: string | undefined,
    /** The client whose session it is made in, if one is carried by a stream. */
    readonly client: Client | undefined,
  ) {
    this.done = ask(this.stop.signal).then(
      (outcome) => void (this.outcome = outcome),
      (error: unknown) => {
        if (!this.stop.signal.aborted) {
          this.outcome = { word: 'failed', fields: { why: String(error) } };
        }
      },
    );
  }
}

class Actor {
  calls: Call[] = [];
  client: Client | undefined;
  door: Door | undefined;
  readonly holds = new Map<number, Hold>();
  sessionKey = '';
  namespace = '';

  /** Whether a connection carries its session. */
  get carried(): Client | undefined {
    return this.door?.isOpen ? this.client : undefined;
  }
}

/** A server and its clients. */
class Stage {
  readonly actors = new Map<string, Actor>();
  /** Which waiter a request became: a call that joins it makes no new one. */
  readonly waiters = new Map<string, number>();
  isRunning = true;

  private constructor(
    private readonly theatre: Theatre,
    private grpc: string,
    private face: Client,
  ) {}

  static async open(theatre: Theatre, { limits, steps }: Scenario): Promise<Stage> {
    const restarts = steps.some((step) => step.actor === 'server');
    const { grpc } = await theatre.ask<{ grpc: string }>('scenario', { limits, restarts });
    return new Stage(theatre, grpc, new Client(grpc));
  }

  async close(): Promise<void> {
    for (const { calls, client, door } of this.actors.values()) {
      for (const call of calls) {
        call.stop.abort();
      }
      // Its server is about to be gone: nobody is to be told of its end.
      client?.connection?.abandon();
      door?.close();
    }
    await this.face.close();
  }

  actor(name: string): Actor {
    const actor = this.actors.get(name) ?? new Actor();
    this.actors.set(name, actor);
    return actor;
  }

  // Time.

  async advance(to: number): Promise<void> {
    await this.theatre.ask('clock', { to });
  }

  async settle(): Promise<void> {
    if (this.isRunning) {
      await this.theatre.ask('settle');
    }
  }

  /** Commands and hang-ups that have reached the engine. */
  counts(): Promise<Counts> {
    return this.theatre.ask<Counts>('counts');
  }

  async untilGrown(before: Counts, commands: number, hangUps: number): Promise<void> {
    await until(async () => {
      const now = await this.counts();
      return now.commands >= before.commands + commands && now.hang_ups >= before.hang_ups + hangUps;
    });
  }

  // What an actor does.

  async act({ actor, ...step }: Step, keyOf: KeyOf): Promise<Outcome> {
    const it = new Arguments({ actor, ...step });
    const { namespace } = it;
    const { api } = this.face;
    switch (it.verb) {
      case 'acquire':
        return this.acquire(actor, words.acquire(actor, it), it.session);
      case 'renew': {
        const { token: _, ...hold } = words.held(actor, it, keyOf);
        return outcome(api.renew({ ...hold, ttlMs: it.duration('ttl') }), words.renewed);
      }
      case 'release':
        return this.release(actor, words.held(actor, it, keyOf));
      case 'withdraw': {
        const withdrawn = api.withdraw({ namespace, requestId: it.must('request') });
        return outcome(withdrawn, () => ({ word: 'withdrawn', fields: {} }));
      }
      case 'hangs-up':
        return this.hangUp(actor);
      case 'session':
        return this.session(actor, it);
      case 'restart':
        await this.stop();
        return this.start();
      case 'stop':
        return this.stop();
      case 'start':
        return this.start();
      case 'passes':
        return DONE;
      default:
        return this.operate(it);
    }
  }

  /** What an operator does or asks. */
  async operate(it: Arguments): Promise<Outcome> {
    const { namespace } = it;
    const { api } = this.face;
    switch (it.verb) {
      case 'force-release': {
        const [pool, holder, token, reason] = [it.word(), it.must('holder'), Number(it.must('token')), it.must('reason')];
        return outcome(api.forceRelease({ namespace, pool, holder, token, reason }), words.released);
      }
      case 'steal':
        return outcome(api.steal(words.steal(it)), words.granted);
      case 'move': {
        const [pool, waiter, before] = [it.word(), it.number('waiter'), it.number('before')];
        const [holder, reason] = [it.must('holder'), it.must('reason')];
        return outcome(api.moveWaiter({ namespace, pool, waiter, holder, before, reason }), () => DONE);
      }
      case 'reserve': {
        const [pool, resource, holder, reason] = [it.word(), it.must('resource'), it.must('holder'), it.must('reason')];
        const [lastsMs, insteadOf] = [it.duration('for'), it.get('instead-of')];
        return outcome(api.reserve({ namespace, pool, resource, holder, lastsMs, insteadOf, reason }), () => DONE);
      }
      case 'unreserve': {
        const [pool, resource, holder, reason] = [it.word(), it.must('resource'), it.must('holder'), it.must('reason')];
        return outcome(api.unreserve({ namespace, pool, resource, holder, reason }), () => DONE);
      }
      case 'explain': {
        const [pool, waiter, requestId] = [it.word(), it.number('waiter'), it.get('request')];
        return outcome(api.explain({ namespace, pool, waiter, requestId }), words.explained);
      }
      case 'owner-gone': {
        const gone = api.ownerGone({ namespace, owner: it.must('owner') });
        return outcome(gone, ({ holds }) => ({ word: 'done', fields: { holds: String(holds) } }));
      }
      case 'pool':
        return this.pool(it);
      case 'drain':
      case 'quarantine':
      case 'return': {
        const state = ({ drain: 'drained', quarantine: 'quarantined', return: 'in_service' } as const)[it.verb];
        const [pool, resource, note, lastsMs] = [it.word(), it.get('resource'), it.get('note'), it.duration('for')];
        const stateWas = it.get('state-was')?.replace('-', '_') as wire.ConditionState | undefined;
        const condition = { state, note };
        return outcome(api.setCondition({ namespace, pool, resource, condition, lastsMs, stateWas }), () => DONE);
      }
      case 'show': {
        const name = it.get('resource');
        const shown = api.getPool({ namespace, pool: it.word() });
        return outcome(shown, (detail) => (name === undefined ? words.pool(detail) : words.resource(detail, name)));
      }
      case 'queue':
        return outcome(api.listQueue({ namespace, pool: it.word() }), (listed) => words.waiters(listed.waiters));
      case 'holds': {
        const listed = api.listHolds({ namespace, pool: it.get('pool'), holder: it.get('holder') });
        return outcome(listed, ({ holds }) => words.holds(holds));
      }
      case 'ls': {
        const listed = api.listPools({ namespace, prefix: it.get('prefix') });
        const names = (pools: { pool: string }[]) => words.many(pools.map(({ pool }) => pool));
        return outcome(listed, ({ pools }) => ({ word: 'shown', fields: { pools: names(pools) } }));
      }
      case 'sessions':
        return outcome(api.listSessions({ namespace }), ({ sessions }) => words.sessions(sessions));
      case 'history':
        return outcome(this.history(it), (shown) => shown);
      default:
        throw new UnknownWord(`\`${it.verb}\``);
    }
  }

  async pool(it: Arguments): Promise<Outcome> {
    const { namespace } = it;
    const { api } = this.face;
    const [verb, pool] = [it.word(), it.word()];
    if (verb === 'rm') {
      const removed = api.removePool({ namespace, pool });
      return outcome(removed, ({ holdsLeft }) => ({ word: 'done', fields: { 'holds-left': String(holdsLeft) } }));
    }
    const made = api.setPool({ namespace, pool, spec: words.spec(it), sizeWas: it.number('size-was') });
    return outcome(made, ({ created }) => ({ word: 'done', fields: { created: String(created) } }));
  }

  async history(it: Arguments): Promise<Outcome> {
    const names: string[] = [];
    let note = 'none';
    let after: number | undefined;
    for (;;) {
      const asked = { namespace: it.namespace, pool: it.get('pool'), holder: it.get('holder'), after };
      const page = await this.face.api.history(asked);
      for (const event of page.events) {
        names.push(event.how === undefined ? (event.kind ?? '') : `${event.kind}:${event.how}`);
        note = event.note ?? note;
      }
      if (page.done) {
        return { word: 'shown', fields: { events: words.many(names), note } };
      }
      after = page.next;
    }
  }

  // Requests.

  async acquire(actor: string, given: Acquire, inSession: string | undefined): Promise<Outcome> {
    const own = this.actor(actor);
    const client = inSession === 'own' ? own.carried : undefined;
    const sessionKey = { own: client === undefined ? own.sessionKey : undefined, wrong: SESSION_OF_NOBODY }[inSession ?? ''];
    const request = { ...given, sessionKey };
    const { pool = '', namespace = '', requestId } = request;
    const again = own.calls.find((call) => client !== undefined && requestId !== undefined && call.request === requestId);
    if (again !== undefined) {
      // A client that comes back makes its requests again by itself.
      own.calls.splice(own.calls.indexOf(again), 1);
      return this.#outcomeOrPlace(own, again, pool, namespace, new Map());
    }
    const [before, grown] = [await this.places(pool, namespace), await this.counts()];
    const call = new Call((signal) => this.#ask(own, client, request, signal), requestId, client);
    await until(async () => call.outcome !== undefined || (await this.counts()).commands > grown.commands);
    return this.#outcomeOrPlace(own, call, pool, namespace, before);
  }

  async #outcomeOrPlace(
    own: Actor,
    call: Call,
    pool: string,
    namespace: string,
    before: Map<number, Outcome>,
  ): Promise<Outcome> {
    await this.settle();
    const places = await this.places(pool, namespace);
    const asked = `${namespace} ${call.request ?? ''}`;
    const waiter = [...places.keys()].find((each) => !before.has(each)) ?? this.waiters.get(asked);
    // An answer that was given gets time to come here.
    for (let turn = 0; turn < 4; turn += 1) {
      await this.roundTrip(own);
      if (call.outcome !== undefined) {
        return call.outcome;
      }
    }
    const place = waiter === undefined ? undefined : places.get(waiter);
    if (waiter === undefined || place === undefined) {
      await until(() => call.outcome !== undefined);
      return call.outcome as unknown as Outcome;
    }
    if (call.request !== undefined) {
      this.waiters.set(asked, waiter);
    }
    own.calls.push(call);
    return place;
  }

  async #ask(own: Actor, client: Client | undefined, request: Acquire, signal: AbortSignal): Promise<Outcome> {
    if (client === undefined) {
      return outcome(this.face.api.acquire(request, { signal }), words.granted);
    }
    const wait = request.waitForever ? undefined : (request.waitMs ?? 0);
    // The stream's own session has its namespace, and needs no naming.
    const asked = { request: { ...request, namespace: undefined }, wait, onQueued: undefined, onLost: undefined, signal };
    return outcome(client.acquire(asked), (hold) => {
      own.holds.set(hold.token, hold);
      return words.granted(hold.grant);
    });
  }

  /** Who waits, by number, and what they would be told. */
  async places(pool: string, namespace: string): Promise<Map<number, Outcome>> {
    try {
      const { waiters } = await this.face.api.listQueue({ pool, namespace });
      const there = waiters.filter((waiter) => waiter.position !== undefined);
      return new Map(there.map((waiter) => [waiter.waiter, words.queued(waiter)]));
    } catch (error) {
      if (error instanceof Refused) {
        return new Map();
      }
      throw error;
    }
  }

  /** By the hold, if it is one of this actor's own client; else by its key. */
  async release(actor: string, { token, ...request }: ReturnType<typeof words.held>): Promise<Outcome> {
    const own = this.actor(actor);
    const hold = token === undefined ? undefined : own.holds.get(token);
    own.holds.delete(token ?? 0);
    if (hold === undefined || hold.key !== request.key || hold.pool !== request.pool || own.carried === undefined) {
      return outcome(this.face.api.release(request), words.released);
    }
    return outcome(hold.release(), () => words.released(hold));
  }

  async hangUp(actor: string): Promise<Outcome> {
    const [own, before] = [this.actor(actor), await this.counts()];
    const gone = own.calls.filter((call) => call.client === undefined);
    own.calls = own.calls.filter((call) => call.client !== undefined);
    for (const call of gone) {
      call.stop.abort();
    }
    await this.untilGrown(before, 0, gone.length);
    return DONE;
  }

  // Sessions.

  async session(actor: string, it: Arguments): Promise<Outcome> {
    const own = this.actor(actor);
    const verb = it.word();
    const named = { namespace: own.namespace, sessionKey: own.sessionKey };
    switch (verb) {
      case 'open':
        return this.openSession(actor, it);
      case 'keep-alive':
        return outcome(this.face.api.keepAlive(named), words.opened);
      case 'drop': {
        // Until both ends have heard of what is lost, but not for what the server makes of it.
        const before = await this.counts();
        if (own.carried !== undefined) {
          own.door?.leadsTo(undefined);
          own.door?.cut();
          await this.untilGrown(before, 1, 0);
          await untilCut(own);
        }
        return DONE;
      }
      case 'resume':
        return this.resumeSession(own);
      case 'end':
        if (own.carried === undefined) {
          return outcome(this.face.api.endSession(named), () => DONE);
        }
        // What does not end with the session is not the client's business any more.
        for (const hold of own.holds.values()) {
          hold.keep();
        }
        await own.carried.close();
        own.client = undefined;
        return DONE;
      default:
        throw new LeftOut(`\`session ${verb}\` is not something that this client can do`);
    }
  }

  async openSession(actor: string, it: Arguments): Promise<Outcome> {
    const own = this.actor(actor);
    const [namespace, graceMs] = [it.namespace, it.duration('grace') ?? 0];
    own.namespace = namespace;
    if (it.flag('polled')) {
      return outcome(this.face.api.openSession({ namespace, holder: actor, graceMs }), (opened) => {
        own.sessionKey = opened.sessionKey;
        return words.opened(opened);
      });
    }
    own.door = await Door.open(this.grpc);
    const client = new Client(own.door.address, {
      holder: actor,
      namespace,
      sessionGrace: graceMs,
      connectTimeout: '60s',
    });
    return outcome(client.connect(), () => {
      own.client = client;
      own.sessionKey = keyOf(client);
      return words.opened({ graceMs });
    });
  }

  async resumeSession(own: Actor): Promise<Outcome> {
    const { client, door } = own;
    if (client === undefined || door === undefined) {
      throw new LeftOut('a session that lives by keep-alives is not resumed by this client');
    }
    if (door.isOpen) {
      throw new LeftOut('this client gives up a connection before it makes the next');
    }
    const key = keyOf(client);
    door.leadsTo(this.grpc);
    await until(() => client.connection?.session.isOpen);
    await this.roundTrip(own);
    await this.settle();
    if (keyOf(client) !== key) {
      return { word: 'refused unknown_session', fields: {} };
    }
    return words.opened({ graceMs: client.connection?.session.identity.grace ?? 0 });
  }

  // The server.

  async stop(): Promise<Outcome> {
    for (const { door } of this.actors.values()) {
      door?.leadsTo(undefined);
    }
    await this.theatre.ask('kill');
    this.isRunning = false;
    for (const actor of this.actors.values()) {
      actor.door?.cut();
      await untilCut(actor);
      // What was asked beside a session is gone with its connection.
      for (const call of actor.calls.filter((each) => each.client === undefined)) {
        call.stop.abort();
      }
      actor.calls = actor.calls.filter((each) => each.client !== undefined);
    }
    await this.face.close();
    return DONE;
  }

  async start(): Promise<Outcome> {
    ({ grpc: this.grpc } = await this.theatre.ask<{ grpc: string }>('start'));
    this.isRunning = true;
    this.face = new Client(this.grpc);
    return DONE;
  }

  // What comes late.

  async late(actor: string): Promise<Outcome | undefined> {
    const own = this.actor(actor);
    const isDone = () => own.calls.some((call) => call.outcome !== undefined);
    if (own.calls.length > 0) {
      await until(isDone).catch(() => undefined);
    }
    const done = own.calls.find((call) => call.outcome !== undefined);
    own.calls = own.calls.filter((call) => call !== done);
    return done?.outcome;
  }

  async leftOver(): Promise<[string, Outcome][]> {
    const left: [string, Outcome][] = [];
    for (const [name, actor] of this.actors) {
      if (actor.calls.length > 0) {
        await this.roundTrip(actor);
      }
      left.push(...actor.calls.flatMap(({ outcome: came }): [string, Outcome][] => (came ? [[name, came]] : [])));
      actor.calls = actor.calls.filter((call) => call.outcome === undefined);
    }
    return left;
  }

  /** Whatever the server has said by now is here afterwards. */
  async roundTrip({ carried }: Actor): Promise<void> {
    if (!this.isRunning) {
      return;
    }
    await this.face.api.listPools({});
    const connection = carried?.connection;
    if (connection?.session.isOpen) {
      connection.ping();
      const { session } = connection;
      await until(() => session.stage?.is !== 'open' || session.stage.pinged === undefined);
    }
  }
}

function keyOf({ connection }: Client): string {
  return connection?.session.key ?? '';
}

async function outcome<Answer>(call: Promise<Answer>, done: (answer: Answer) => Outcome): Promise<Outcome> {
  try {
    return done(await call);
  } catch (error) {
    if (error instanceof TenureError) {
      return words.failed(error);
    }
    throw error;
  }
}

/** Until the client has heard of it too: it would still look open to whoever waits for it to be so again. */
async function untilCut({ client }: Actor): Promise<void> {
  await until(() => !client?.connection?.session.isOpen);
}

async function until(condition: () => unknown): Promise<void> {
  const end = performance.now() + PATIENCE;
  while (!(await condition())) {
    if (performance.now() > end) {
      throw new Error('the server does not hear of it');
    }
    await sleep(1);
  }
}

/** One scenario. */
class Run {
  #now = 0;
  /** Keys by token, and who was given them. */
  readonly #keys = new Map<number, { key: string; knowers: Set<string> }>();
  readonly #heard = new Map<string, Outcome[]>();

  constructor(private readonly stage: Stage) {}

  async step(step: Step): Promise<void> {
    await this.#passTime(step.at);
    if (step.hears) {
      return this.#hear(step);
    }
    const came = await this.stage.act(step, (token, actor) => this.#keyOf(token, actor));
    await this.stage.settle();
    this.#learn(step.actor, came);
    if (step.expected !== undefined && !matches(step.expected, came)) {
      throw new Error(`expected: ${told(step.expected)}\n      actual:   ${told(came)}`);
    }
  }

  async nothingLeftOver(): Promise<void> {
    const fetched = [...this.#heard].flatMap(([actor, outcomes]) => outcomes.map((it): [string, Outcome] => [actor, it]));
    this.#heard.clear();
    const left = [...fetched, ...(await this.stage.leftOver())];
    if (left.length > 0) {
      const lines = left.map(([actor, it]) => `      ${actor} <- ${told(it)}`);
      throw new Error(`by ${durationText(this.#now)}, not listed in the scenario:\n${lines.join('\n')}`);
    }
  }

  /** Second by second, as it passes for a real server; the last millisecond alone. */
  async #passTime(to: number): Promise<void> {
    if (to === this.#now) {
      return;
    }
    await this.nothingLeftOver();
    while (this.#now + 1 < to) {
      this.#now = Math.min((Math.floor(this.#now / 1_000) + 1) * 1_000, to - 1);
      await this.stage.advance(this.#now);
      await this.nothingLeftOver();
    }
    this.#now = to;
    await this.stage.advance(to);
  }

  async #hear({ actor, expected }: Step): Promise<void> {
    const heard = this.#heard.get(actor) ?? [];
    this.#heard.set(actor, heard);
    while (expected !== undefined) {
      const found = heard.findIndex((it) => matches(expected, it));
      if (found >= 0) {
        heard.splice(found, 1);
        return;
      }
      const late = await this.stage.late(actor);
      if (late === undefined) {
        const actual = heard.map(told).join('; ') || 'nothing has arrived';
        throw new Error(`expected: ${told(expected)}\n      actual:   ${actual}`);
      }
      this.#learn(actor, late);
      heard.push(late);
    }
  }

  /** One token, one key; whoever is told again is told the same. */
  #learn(actor: string, { key, fields }: Outcome): void {
    if (key === undefined || fields.token === undefined) {
      return;
    }
    const token = Number(fields.token);
    for (const [other, known] of this.#keys) {
      if ((known.key === key) !== (other === token)) {
        throw new Error(`token ${token} came with the key of another, or with another key than before`);
      }
    }
    const known = this.#keys.get(token) ?? { key, knowers: new Set() };
    known.knowers.add(actor);
    this.#keys.set(token, known);
  }

  #keyOf(token: number | undefined, actor: string): string {
    if (token === undefined) {
      return KEY_OF_NOBODY;
    }
    const known = this.#keys.get(token);
    if (!known?.knowers.has(actor)) {
      throw new Error(`${actor} was never granted token ${token}`);
    }
    return known.key;
  }
}

/** What is wrong, as a page for a person to read. */
async function play(theatre: Theatre, scenario: Scenario): Promise<string | undefined> {
  const stage = await Stage.open(theatre, scenario);
  const run = new Run(stage);
  let at: Step | undefined;
  try {
    for (at of scenario.steps) {
      await run.step(at);
    }
    await run.nothingLeftOver();
    return undefined;
  } catch (error) {
    if (error instanceof LeftOut || error instanceof UnknownWord) {
      throw error;
    }
    const why = error instanceof Error ? (error.stack ?? error.message) : String(error);
    const lines = scenario.steps.map((step) => `${step === at ? '>>>' : '   '} ${step.text}`);
    return `${scenario.topic}.txt:${at?.line ?? scenario.line}: ${scenario.claim}\n${lines.join('\n')}\n      ${why}`;
  } finally {
    await stage.close();
  }
}

async function main(folder: string, wanted: string): Promise<void> {
  const theatre = new Theatre();
  const known = new Set<string>();
  const files = readdirSync(folder).filter((file) => file.endsWith('.txt'));
  for (const scenario of files.sort().flatMap((file) => read(basename(file, '.txt'), readFileSync(join(folder, file), 'utf8')))) {
    const { claim, topic, only } = scenario;
    const name = `${topic}: ${claim}`;
    known.add(claim);
    if (!claim.includes(wanted)) {
      continue;
    }
    const why = only !== undefined && !only.includes('grpc') ? scenario.why : wanted ? undefined : LEFT_OUT.get(claim);
    if (why !== undefined) {
      theatre.tell('left_out', { name, why });
      continue;
    }
    try {
      const page = await play(theatre, scenario);
      theatre.tell(page === undefined ? 'played' : 'failed', { name, why: page });
    } catch (error) {
      if (error instanceof UnknownWord) {
        // Newer than this runner. How many there may be is the test's business.
        theatre.tell('left_out', { name, why: `the runner does not know ${error.message}` });
      } else {
        theatre.tell('failed', { name, why: `${name}: ${String(error)}` });
      }
    }
  }
  for (const claim of LEFT_OUT.keys()) {
    if (!known.has(claim)) {
      theatre.tell('failed', { name: claim, why: `${claim}: it is left out, and there is no such scenario` });
    }
  }
  theatre.tell('end');
}

const [folder = '', ...claim] = process.argv.slice(2);
await main(folder, claim.join(' ').trim());
process.exit(0);
