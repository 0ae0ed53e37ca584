/**
 * The session as the client sees it: what there is to say, what an answer means, what is due when.
 *
 * No sockets and no clock here: time comes in with every call, messages go in and out, and `connection.ts` does the rest. A
 * request stays here until it is answered for good, so whatever is unanswered when a connection breaks is said again on the
 * next. `crates/client/src/session` is the same in Rust.
 */

import { Agenda, type Due } from './agenda.js';
import type { Init } from './codec.js';
import { ClosedError, HoldLost, type LostReason, type TenureError, Unreachable, hasNoTime, refused } from './errors.js';
import { Acquire, type Ask, type Done, End, Ping, Release, Renew, Request, Withdraw } from './requests.js';
import { Standing } from './standing.js';
import { ServerTime, certain, earliest, pause, wholeMilliseconds } from './time.js';
import {
  AcquireRequest,
  type ClientMessage,
  ClientRequest,
  type Grant,
  type How,
  type Lifetime,
  type Refusal,
  type Renewed,
  type ServerAnswer,
  type ServerMessage,
} from './wire.js';

/** How long a call that does not wait for room waits for the server: a try, a release, a close. */
export const CALL_PATIENCE = 10_000;
/** The server reads no more from a stream with 4,096 unanswered requests. Below that, pings always reach it. */
const UNANSWERED_MAX = 4_000;
/** Acquires leave room for the renewals and releases of what is held. */
const ASKS_UNANSWERED_MAX = 2_048;
const REQUESTS_PER_MESSAGE_MAX = 1_024;
const MESSAGE_BYTES_MAX = 1024 * 1024;
/**
 * More than anything with names within the server's limits takes, and little enough that a message of many stays within what
 * the server reads at once. What it does not read ends the stream, and would do so again after each reconnect.
 */
const ACQUIRE_BYTES_MAX = 64 * 1024;
/** A session that is taken over twice within this time has two clients, and one of them must give it up. */
const TAKEOVER_CALM = 60_000;
/**
 * A connection is asked whether it is there at least this often, and at a sixth of the shortest lifetime there is: so a dead
 * one is noticed when two thirds of it are left. Below the least, a slow machine would look like a dead one.
 */
const PING_INTERVAL_MAX = 5_000;
const PING_INTERVAL_MIN = 500;
const PING_INTERVAL_LEAST = 20;
const PONG_PATIENCE_MIN = 1_000;
/** The pause before something is asked again that the server had no time for. */
const RETRY_FIRST = 100;
const RETRY_MOST = 2_000;
/** A renewal that the server had no time for is repeated after a tenth of the lease, or this. */
const RENEW_AGAIN_MAX = 1_000;
const RENEW_AGAIN_MIN = 50;
/**
 * How many grants in a row may be over when they are heard of. After that a lease is too short for the way to the server, and
 * the next one is handed out as it is: lost.
 */
const GRANTS_OVER_MAX = 3;

const LOST: Partial<Record<How, LostReason>> = {
  expired: 'expired',
  forced: 'forced',
  stolen: 'forced',
  owner_gone: 'owner_gone',
  session_ended: 'session_ended',
  released: 'released',
};

/** The connection cannot be used any more, for this reason. */
export class Broken extends Error {
  override name = 'Broken';
}

/** Whose session it is. */
export interface Identity {
  address: string;
  holder: string;
  meta: Readonly<Record<string, string>>;
  namespace: string;
  grace: number;
  connectTimeout: number;
}

class Hold implements Due {
  lifetime: Lifetime | undefined;
  length: number | undefined;
  renewAt: number | undefined;
  /** A renewal is on its way. */
  renewing = false;
  due: number | undefined;

  constructor(
    readonly id: number,
    readonly grant: Grant,
    /** Until when it is certainly ours by its length, whatever becomes of the session. */
    public timedUntil: number | undefined,
    readonly standing: Standing,
  ) {
    this.lifetime = grant.lifetime;
    this.length = grant.ttlMs;
  }

  /** How long a renewal lasts; undefined if there is nothing to renew. */
  get renewedFor(): number | undefined {
    return this.lifetime === 'window' ? undefined : this.length;
  }
}

interface Opening {
  readonly is: 'opening';
  readonly id: number;
  readonly said: number;
}

/** A connection on which the session is open. */
interface Open {
  readonly is: 'open';
  /** The request that opened or resumed the session: what happens to it is told under this id. */
  readonly id: number;
  interval: number;
  pingAt: number;
  heardAt: number;
  /** Since when a ping is not answered. */
  pinged: number | undefined;
}

interface Ending {
  readonly giveUp: number;
  said: boolean;
  readonly answers: Done[];
}

export class Session {
  stage: Opening | Open | undefined;
  isOver = false;
  /** The session's, if there is one to resume. */
  key: string | undefined;
  #greeting: Done | undefined;
  #lastId = 0;
  /** Until when the session, and what lives as long as it, is certainly there. */
  #certain: number | undefined;
  #takenOver: number | undefined;
  readonly #requests = new Map<number, Request>();
  /** What is to be said next: what holds depend on, and after it the acquires. */
  #urgent = new Line();
  #asks = new Line();
  /** Said on this connection and not answered at all. */
  #unanswered = 0;
  readonly #holds = new Map<number, Hold>();
  readonly #agenda = new Agenda<Request | Hold>();
  #serverTime: ServerTime | undefined;
  #ending: Ending | undefined;
  #why = 'not connected yet';

  constructor(
    readonly identity: Identity,
    greeting: Done,
  ) {
    this.#greeting = greeting;
  }

  get isOpen(): boolean {
    return this.stage?.is === 'open';
  }

  // The connection.

  /** The first message of a connection that is about to be made. */
  connecting(now: number): Init<ClientMessage> {
    const id = this.nextId();
    const { namespace, holder, meta, grace } = this.identity;
    this.stage = { is: 'opening', id, said: now };
    if (this.key !== undefined) {
      return { requests: [{ id, resume: { namespace, sessionKey: this.key, holder, meta } }] };
    }
    return { requests: [{ id, open: { namespace, holder, meta, graceMs: wholeMilliseconds(grace) } }] };
  }

  /** The connection is gone, or did not come about. */
  disconnected(now: number, error: TenureError): void {
    if (this.#greeting !== undefined) {
      const greeting = this.#greeting;
      this.#greeting = undefined;
      this.end();
      greeting(error);
      return;
    }
    this.#why = error instanceof Unreachable ? error.why : error.message;
    if (this.isOver) {
      return;
    }
    this.stage = undefined;
    this.#unanswered = 0;
    this.#serverTime = undefined;
    this.#urgent = new Line();
    this.#asks = new Line();
    if (this.#ending !== undefined) {
      this.#ending.said = false;
    }
    // What is asked about holds and the connection is asked anew on the next one.
    for (const [id, request] of this.#requests) {
      if (request instanceof Renew || request instanceof Ping || request instanceof End) {
        request.over = true;
        request.due = undefined;
        this.#requests.delete(id);
        continue;
      }
      request.mayHaveHappened ||= request.said;
      request.said = request.answered = false;
    }
    for (const hold of this.#holds.values()) {
      hold.renewing = false;
    }
    // Without a connection nobody says that a wait is over.
    for (const request of [...this.#requests.values()]) {
      if (request instanceof Acquire && request.ask.end !== undefined && request.ask.end <= now) {
        this.#failAcquire(request, this.#unreachable());
      }
    }
  }

  /** What there is to say, as much as fits into one message: a `ClientMessage`. */
  say(now: number): Buffer | undefined {
    if (this.#mayEnd() && this.#ending !== undefined) {
      this.#ending.said = true;
      this.#request(new End(this.nextId()));
    }
    const parts: Buffer[] = [];
    let [count, size] = [0, 0];
    while (count < REQUESTS_PER_MESSAGE_MAX && size < MESSAGE_BYTES_MAX) {
      const request = this.#nextToSay();
      if (request === undefined) {
        break;
      }
      // Forgotten meanwhile.
      if (!request.isReady) {
        continue;
      }
      const said = ClientRequest.encode(request.say(now));
      parts.push(prefix(said.length), said);
      size += said.length;
      count += 1;
      this.#unanswered += 1;
    }
    return count === 0 ? undefined : Buffer.concat(parts);
  }

  hasToSay(): boolean {
    const urgent = !this.#urgent.isEmpty && this.#unanswered < UNANSWERED_MAX;
    const asks = !this.#asks.isEmpty && this.#unanswered < ASKS_UNANSWERED_MAX;
    return this.isOpen && (urgent || asks || this.#mayEnd());
  }

  #nextToSay(): Request | undefined {
    if (!this.isOpen) {
      return undefined;
    }
    if (!this.#urgent.isEmpty && this.#unanswered < UNANSWERED_MAX) {
      return this.#urgent.take();
    }
    return this.#unanswered < ASKS_UNANSWERED_MAX ? this.#asks.take() : undefined;
  }

  /** @throws {@link Broken} after all of it was heard. */
  hear(now: number, message: ServerMessage): void {
    if (this.stage?.is === 'open') {
      this.stage.heardAt = now;
    }
    // The rest of a message is heard even if one of its answers ends the stream: it may have grants.
    let broken: Broken | undefined;
    for (const answer of message.answers) {
      const why = this.#answer(now, answer);
      broken ??= why;
    }
    if (broken !== undefined) {
      throw broken;
    }
  }

  #answer(now: number, answer: ServerAnswer): Broken | undefined {
    const { stage } = this;
    if (stage?.id === answer.id) {
      return stage.is === 'opening' ? this.#opening(now, stage, answer) : this.#aboutTheSession(now, answer);
    }
    return this.#aboutARequest(now, answer);
  }

  #opening(now: number, opening: Opening, answer: ServerAnswer): Broken | undefined {
    const { opened, refused: refusal } = answer;
    if (opened !== undefined) {
      this.key = opened.sessionKey;
      this.identity.grace = opened.graceMs;
      const interval = this.#pingInterval();
      this.stage = { is: 'open', id: opening.id, interval, pingAt: now, heardAt: now, pinged: undefined };
      this.#sessionIsCertain(opening.said);
      const unanswered = [...this.#requests.values()].filter((request) => request.isReady);
      // First of all, so that the server's time is known when the first grant comes.
      this.ping(now);
      this.#askAboutHolds();
      for (const request of unanswered) {
        this.#queue(request);
      }
      const greeting = this.#greeting;
      this.#greeting = undefined;
      greeting?.();
      return undefined;
    }
    if (refusal !== undefined) {
      const greeting = this.#greeting;
      if (refusal.code === 'unknown_session') {
        this.#sessionEnded(now);
      } else if (greeting !== undefined) {
        this.#greeting = undefined;
        this.end();
        greeting(refused(refusal));
      }
      return new Broken(refusal.message);
    }
    // A newer server may have something to say first that is not known here.
    return undefined;
  }

  #aboutTheSession(now: number, { lost, refused: refusal }: ServerAnswer): Broken | undefined {
    if (lost !== undefined) {
      const reason = LOST[lost.how ?? 'unknown'] ?? 'other';
      for (const hold of this.#holds.values()) {
        if (hold.grant.token === lost.token) {
          hold.due = undefined;
          hold.standing.lose(now, reason, lost.note);
        }
      }
    }
    if (refusal === undefined) {
      return undefined;
    }
    if (refusal.code === 'session_taken_over') {
      // Usually by an earlier connection of our own, whose words came late: then resuming mends it. Twice in a row it is a
      // copy of this process, and both would go on taking it from each other.
      if (this.#takenOver !== undefined && now < this.#takenOver + TAKEOVER_CALM) {
        this.#sessionEnded(now);
      }
      this.#takenOver = now;
    } else if (refusal.code === 'unknown_session') {
      this.#sessionEnded(now);
    }
    return new Broken(refusal.message);
  }

  /** The session is no more, and what lived as long as it. The next connection opens a new one. */
  #sessionEnded(now: number): void {
    this.key = undefined;
    this.#certain = undefined;
    this.#loseAllOfSession(now, 'session_ended');
    // Places in queues are lost. A grant that was on its way belongs to the old session, so the request is withdrawn.
    for (const request of [...this.#requests.values()]) {
      if (request instanceof Acquire && request.ownId && request.firstSaid !== undefined) {
        this.#take(request.id);
        this.#askAnew(request);
      }
    }
    if (this.#ending !== undefined && this.#isSettled()) {
      this.end();
    }
  }

  // Time.

  /** When `tick` has something to do, at the latest. */
  nextDue(): number | undefined {
    let due = earliest(this.#agenda.next(), earliest(this.#ending?.giveUp, this.#certain));
    if (this.stage?.is === 'opening') {
      due = earliest(due, this.stage.said + this.identity.connectTimeout);
    } else if (this.stage?.is === 'open') {
      due = earliest(due, silentAt(this.stage) ?? this.stage.pingAt);
    }
    return due;
  }

  /**
   * Does what is due.
   *
   * @throws {@link Broken}
   */
  tick(now: number): void {
    for (let due = this.#agenda.take(now); due !== undefined; due = this.#agenda.take(now)) {
      if (due instanceof Request) {
        this.#requestDue(now, due);
      } else {
        this.#holdDue(now, due);
      }
    }
    if (this.#certain !== undefined && this.#certain <= now) {
      this.#certain = undefined;
      this.#loseAllOfSession(now, 'unreachable');
    }
    if (this.#ending !== undefined && this.#ending.giveUp <= now) {
      this.end(this.#unreachable());
    }
    const { stage } = this;
    if (stage?.is === 'opening' && stage.said + this.identity.connectTimeout <= now) {
      throw new Broken(`it does not answer within ${this.identity.connectTimeout / 1_000} s`);
    }
    if (stage?.is === 'open') {
      const silent = silentAt(stage);
      if (silent !== undefined && silent <= now) {
        throw new Broken('the connection is silent');
      }
      if (stage.pinged === undefined && stage.pingAt <= now) {
        this.ping(now);
      }
    }
  }

  #putInAgenda(what: Request | Hold): void {
    if (what.due !== undefined) {
      this.#agenda.add(what.due, what, this.#requests.size + this.#holds.size);
    }
  }

  // Pings.

  ping(now: number): void {
    this.#request(new Ping(this.nextId()));
    if (this.stage?.is === 'open') {
      this.stage.pinged = now;
    }
  }

  #pong(now: number, said: number, atMs: number): void {
    const time = new ServerTime(said, atMs);
    this.#serverTime = this.#serverTime?.orSharper(time) ?? time;
    this.#sessionIsCertain(said);
    if (this.stage?.is === 'open') {
      this.stage.pinged = undefined;
      this.stage.interval = this.#pingInterval();
      this.stage.pingAt = Math.max(said + this.stage.interval, now);
    }
  }

  #pingInterval(): number {
    let shortest = this.identity.grace;
    for (const hold of this.#holds.values()) {
      shortest = Math.min(shortest, hold.renewedFor ?? shortest);
    }
    return intervalFor(shortest);
  }

  /** Looks after the connection as closely as a hold of this length needs. */
  #pingFor(now: number, length: number): void {
    const interval = intervalFor(length);
    if (this.stage?.is === 'open' && interval < this.stage.interval) {
      this.stage.interval = interval;
      this.stage.pingAt = Math.min(this.stage.pingAt, now + interval);
    }
  }

  /** The server had the session no earlier than `said`, so it keeps it for its grace from then at least. */
  #sessionIsCertain(said: number): void {
    const until = certain(said, this.identity.grace);
    if (this.#certain !== undefined && this.#certain >= until) {
      return;
    }
    this.#certain = until;
    for (const hold of this.#holds.values()) {
      if (hold.lifetime === 'session' && hold.standing.reason === undefined) {
        hold.standing.until = earliest(hold.timedUntil, until);
      }
    }
  }

  // Requests.

  nextId(): number {
    this.#lastId += 1;
    return this.#lastId;
  }

  #request(request: Request): void {
    this.#requests.set(request.id, request);
    this.#schedule(request);
    if (request.isReady) {
      this.#queue(request);
    }
  }

  /** While there is no connection nothing stands in line: the next one starts with everything there is. */
  #queue(request: Request): void {
    if (this.isOpen) {
      (request.isUrgent ? this.#urgent : this.#asks).add(request);
    }
  }

  #take(id: number): Request | undefined {
    const request = this.#requests.get(id);
    if (request !== undefined) {
      this.#requests.delete(id);
      request.over = true;
      request.due = undefined;
      if (request.said && !request.answered) {
        this.#unanswered = Math.max(0, this.#unanswered - 1);
      }
    }
    return request;
  }

  #schedule(request: Request): void {
    request.due = earliest(request.giveUp, request.retryAt);
    this.#putInAgenda(request);
  }

  #requestDue(now: number, request: Request): void {
    if (request.retryAt !== undefined && request.retryAt <= now) {
      request.retryAt = undefined;
      this.#queue(request);
    }
    if (request.giveUp !== undefined && request.giveUp <= now) {
      this.#giveUp(now, request);
    }
    if (!request.over) {
      this.#schedule(request);
    }
  }

  #giveUp(now: number, request: Request): void {
    request.giveUp = undefined;
    if (request instanceof Acquire) {
      // The server is about to say that the time is up, and who holds it.
      request.giveUp = this.isOpen ? request.laterEnd(now) : undefined;
      if (request.giveUp === undefined) {
        this.#failAcquire(request, this.#unreachable());
      }
    } else if (request instanceof Release) {
      // It goes on trying, though nobody listens.
      const { answer } = request;
      request.answer = undefined;
      answer?.(this.#unreachable());
    }
  }

  /** Asks again after a pause: the server had no time for it. */
  #again(now: number, request: Request): void {
    request.over = request.said = request.answered = false;
    request.failures += 1;
    request.retryAt = now + pause(request.failures, RETRY_FIRST, RETRY_MOST);
    this.#request(request);
  }

  #aboutARequest(now: number, answer: ServerAnswer): Broken | undefined {
    const { id, queued, refused: refusal } = answer;
    const request = this.#requests.get(id);
    // Forgotten meanwhile, or an answer of a kind that only a newer client knows.
    if (request === undefined || !isKnown(answer)) {
      return undefined;
    }
    if (queued !== undefined) {
      if (request instanceof Acquire) {
        if (!request.answered) {
          request.answered = true;
          this.#unanswered = Math.max(0, this.#unanswered - 1);
        }
        request.ask.queued?.(queued.position);
      }
      return undefined;
    }
    this.#take(id);
    if (refusal !== undefined && hasNoTime(refusal) && !(request instanceof Renew)) {
      request.mayHaveHappened ||= refusal.code === 'lost';
      this.#again(now, request);
    } else if (request instanceof Acquire && answer.granted !== undefined) {
      this.#granted(now, request, answer.granted);
    } else if (request instanceof Acquire && refusal !== undefined) {
      return this.#acquireRefused(request, refusal);
    } else if (request instanceof Renew && answer.renewed !== undefined) {
      this.#renewed(now, request, answer.renewed);
    } else if (request instanceof Renew && refusal !== undefined) {
      this.#notRenewed(now, request.hold, refusal);
    } else if (request instanceof Release) {
      // An earlier attempt whose answer was lost may have done it.
      const did = refusal === undefined || (request.mayHaveHappened && refusal.code === 'not_held');
      request.answer?.(did ? undefined : refused(refusal));
    } else if (request instanceof Ping && answer.pong !== undefined) {
      this.#pong(now, request.lastSaid ?? now, answer.pong.atMs);
    } else if (request instanceof End) {
      // Or it ended by itself meanwhile, which is told to the stream too.
      if (answer.ended !== undefined) {
        this.end();
      }
    } else if (!(request instanceof Withdraw)) {
      // Not what it is: it may contain a key.
      return new Broken('the server gave an answer that does not fit');
    }
    return undefined;
  }

  // Acquires.

  /** Gives the request's id, to forget it by. */
  ask(now: number, ask: Ask): number {
    const id = this.nextId();
    if (this.#ending !== undefined || this.isOver) {
      ask.failed(new ClosedError());
      return id;
    }
    const size = sizeIfLarge(ask.request);
    if (size > ACQUIRE_BYTES_MAX) {
      const message = `the request has ${size} bytes; the most is ${ACQUIRE_BYTES_MAX}`;
      ask.failed(refused({ code: 'invalid_argument', message, advice: 'use shorter names and less metadata' }));
      return id;
    }
    const request = new Acquire(id, ask);
    request.giveUp = ask.wait === 0 ? now + CALL_PATIENCE : ask.end;
    this.#request(request);
    return id;
  }

  /** Nobody awaits it any more. If the server may know of it, it must not be granted. */
  forget(id: number): void {
    const request = this.#requests.get(id);
    if (request instanceof Acquire) {
      this.#take(id);
      this.#withdrawIfSaid(request);
    }
  }

  #withdrawIfSaid(request: Acquire): void {
    if (request.firstSaid !== undefined) {
      this.#request(new Withdraw(this.nextId(), request.requestId));
    }
  }

  #failAcquire(request: Acquire, error: TenureError): void {
    this.#take(request.id);
    this.#withdrawIfSaid(request);
    request.ask.failed(error);
  }

  #askAnew(request: Acquire): void {
    this.#withdrawIfSaid(request);
    this.#request(request.anew());
  }

  #granted(now: number, request: Acquire, grant: Grant): void {
    // Under an id that others may have, it may be older than what was said here.
    const asked = request.ownId ? request.firstSaid : undefined;
    const timedUntil = this.#timedUntil(now, asked, grant);
    const until = this.#certainUntil(now, grant.lifetime, timedUntil);
    // Granted while nobody could be told, and over by now. Handing it out would be no use to anybody.
    if (until !== undefined && until <= now && mayDoBetter(now, request, grant)) {
      request.grantsOver += 1;
      this.#askAnew(request);
      return;
    }
    const standing = new Standing(until, grant.lifetime === 'window');
    const hold = new Hold(request.id, grant, timedUntil, standing);
    this.#holds.set(hold.id, hold);
    const length = hold.renewedFor;
    if (timedUntil !== undefined && length !== undefined) {
      hold.renewAt = Math.max(now, timedUntil - (length * 2) / 3);
      this.#pingFor(now, length);
    }
    this.#scheduleHold(hold);
    request.ask.granted({ id: hold.id, grant, standing });
  }

  /**
   * Until when a grant is certainly ours by its length, counted from before it was asked for or, if it was waited for, by the
   * server's deadline on the server's clock. Undefined if it does not end by time.
   */
  #timedUntil(now: number, asked: number | undefined, grant: Grant): number | undefined {
    if (grant.ttlMs === undefined) {
      return undefined;
    }
    const byLength = asked === undefined ? undefined : certain(asked, grant.ttlMs);
    const byDeadline = grant.deadlineMs === undefined ? undefined : this.#serverTime?.before(grant.deadlineMs);
    return byLength === undefined && byDeadline === undefined
      ? now
      : Math.max(byLength ?? -Infinity, byDeadline ?? -Infinity);
  }

  /** Until when a hold is certainly ours: by its length, and if it ends with the session, no longer than that. */
  #certainUntil(now: number, lifetime: Lifetime | undefined, timedUntil: number | undefined): number | undefined {
    return earliest(timedUntil, lifetime === 'session' ? (this.#certain ?? now) : undefined);
  }

  #acquireRefused(request: Acquire, refusal: Refusal): Broken | undefined {
    // The session is over, and the stream is about to be told.
    if (refusal.code === 'unknown_session' && request.ownId) {
      this.#askAnew(request);
      return new Broken(refusal.message);
    }
    // It was granted while nobody could be told, and is over by now.
    if (refusal.code === 'request_ended' && request.ownId && request.mayHaveHappened) {
      this.#askAnew(request);
      return undefined;
    }
    request.ask.failed(refused(refusal));
    return undefined;
  }

  // Holds.

  #scheduleHold(hold: Hold): void {
    // That the session may be over is looked after for all at once.
    hold.due = hold.standing.reason === undefined ? earliest(hold.timedUntil, hold.renewAt) : undefined;
    this.#putInAgenda(hold);
  }

  #holdDue(now: number, hold: Hold): void {
    if (hold.timedUntil !== undefined && hold.timedUntil <= now) {
      hold.standing.lose(now, hold.standing.lostByTime());
    } else if (hold.renewAt !== undefined && hold.renewAt <= now) {
      hold.renewAt = undefined;
      // Without a connection it is renewed as soon as there is one.
      if (this.isOpen && !hold.renewing) {
        this.#renew(hold);
      }
    }
    this.#scheduleHold(hold);
  }

  #renew(hold: Hold): void {
    hold.renewing = true;
    this.#request(new Renew(this.nextId(), hold.id, hold.grant.key));
  }

  /** After a reconnect: what was lost meanwhile was told to nobody. A renewal tells, also of what cannot be renewed. */
  #askAboutHolds(): void {
    for (const hold of this.#holds.values()) {
      if (hold.standing.reason === undefined) {
        hold.renewAt = undefined;
        this.#scheduleHold(hold);
        this.#renew(hold);
      }
    }
  }

  #renewed(now: number, request: Renew, renewed: Renewed): void {
    const hold = this.#holds.get(request.hold);
    if (hold === undefined) {
      return;
    }
    hold.renewing = false;
    if (hold.standing.reason !== undefined) {
      return;
    }
    // Without a time it could not be renewed: while we were away somebody with its key has made it a lease.
    if (hold.length === undefined) {
      hold.lifetime = 'leased';
    }
    hold.length = renewed.ttlMs;
    hold.timedUntil = certain(request.lastSaid ?? now, hold.length);
    hold.renewAt = Math.max(now, hold.timedUntil - (hold.length * 2) / 3);
    hold.standing.until = this.#certainUntil(now, hold.lifetime, hold.timedUntil);
    this.#scheduleHold(hold);
  }

  #notRenewed(now: number, id: number, refusal: Refusal): void {
    const hold = this.#holds.get(id);
    if (hold === undefined) {
      return;
    }
    hold.renewing = false;
    if (refusal.code === 'not_held') {
      hold.standing.lose(now, 'released');
    } else if (hasNoTime(refusal) && hold.length !== undefined) {
      hold.renewAt = now + Math.min(Math.max(hold.length / 10, RENEW_AGAIN_MIN), RENEW_AGAIN_MAX);
    } else if (refusal.code !== 'not_renewable') {
      // One that is not renewable is there, and that was the question.
      hold.renewAt = now + RENEW_AGAIN_MAX;
    }
    this.#scheduleHold(hold);
  }

  #loseAllOfSession(now: number, reason: LostReason): void {
    for (const hold of this.#holds.values()) {
      if (hold.lifetime === 'session') {
        hold.due = undefined;
        hold.standing.lose(now, reason);
      }
    }
  }

  /** Whoever still listens hears the `reason`. */
  release(now: number, id: number, answer: Done | undefined, reason: LostReason = 'let_go'): void {
    const hold = this.#holds.get(id);
    if (hold === undefined) {
      // Closing has released it.
      answer?.();
      return;
    }
    const { standing, grant } = hold;
    const { reason: lost, note } = standing;
    this.#holds.delete(id);
    hold.due = undefined;
    standing.lose(now, reason);
    if (hold.lifetime === 'window') {
      answer?.();
    } else if (lost === undefined || lost === 'unreachable') {
      // It may be there all the same.
      const request = new Release(this.nextId(), grant.key, answer);
      request.giveUp = answer === undefined ? undefined : now + CALL_PATIENCE;
      this.#request(request);
    } else {
      answer?.(new HoldLost(grant.pool, grant.token, lost, note));
    }
  }

  /** Looks after it no more. */
  keep(id: number): void {
    const hold = this.#holds.get(id);
    if (hold !== undefined) {
      this.#holds.delete(id);
      hold.due = undefined;
      hold.standing.lose(undefined, 'let_go');
    }
  }

  // The end.

  /** Lets go of everything and ends the session, as soon as the server can be told. */
  close(now: number, answer: Done): void {
    if (this.isOver) {
      answer();
      return;
    }
    if (this.#ending === undefined) {
      this.#ending = { giveUp: now + CALL_PATIENCE, said: false, answers: [] };
      this.#refuseAllAsks();
      for (const id of [...this.#holds.keys()]) {
        this.release(now, id, undefined, 'closed');
      }
    }
    this.#ending.answers.push(answer);
  }

  end(error?: TenureError): void {
    this.isOver = true;
    this.stage = undefined;
    this.#refuseAllAsks();
    for (const hold of this.#holds.values()) {
      hold.standing.lose(undefined, 'closed');
    }
    this.#holds.clear();
    for (const request of this.#requests.values()) {
      if (request instanceof Release) {
        request.answer?.(error ?? this.#unreachable());
      }
    }
    this.#requests.clear();
    const answers = this.#ending?.answers ?? [];
    this.#ending = undefined;
    for (const answer of answers) {
      answer(error);
    }
  }

  #refuseAllAsks(): void {
    for (const request of [...this.#requests.values()]) {
      if (request instanceof Acquire) {
        this.#failAcquire(request, new ClosedError());
      }
    }
  }

  /** The end is said when everything else has been answered: the server listens to nothing after it. */
  #mayEnd(): boolean {
    return this.#ending !== undefined && !this.#ending.said && this.isOpen && this.#isSettled();
  }

  /** Nothing waits for an answer that anybody would miss. */
  #isSettled(): boolean {
    for (const request of this.#requests.values()) {
      if (!(request instanceof Ping || request instanceof Renew || request instanceof End)) {
        return false;
      }
    }
    return true;
  }

  #unreachable(): Unreachable {
    return new Unreachable(this.identity.address, this.isOpen ? 'it does not answer' : this.#why);
  }
}

/** First in, first out, without moving what is in it. */
class Line {
  #requests: Request[] = [];
  #first = 0;

  get isEmpty(): boolean {
    return this.#first === this.#requests.length;
  }

  add(request: Request): void {
    this.#requests.push(request);
  }

  take(): Request | undefined {
    if (this.isEmpty) {
      return undefined;
    }
    const request = this.#requests[this.#first++];
    if (this.isEmpty) {
      this.#requests = [];
      this.#first = 0;
    }
    return request;
  }
}

/** When a connection that has not answered its ping is given up. */
function silentAt({ pinged, heardAt, interval }: Open): number | undefined {
  return pinged === undefined ? undefined : Math.max(pinged, heardAt) + Math.max(interval, PONG_PATIENCE_MIN);
}

function intervalFor(length: number): number {
  const least = Math.max(Math.min(PING_INTERVAL_MIN, length / 3), PING_INTERVAL_LEAST);
  return Math.min(Math.max(length / 6, least), PING_INTERVAL_MAX);
}

/**
 * Whether another grant instead of this one, which is over, may be of use. Not if nothing can be certain that is so short:
 * each place in a short rate window would be used up for nothing.
 */
function mayDoBetter(now: number, request: Acquire, { ttlMs }: Grant): boolean {
  const canBeCertain = ttlMs === undefined || certain(now, ttlMs) > now;
  const often = !request.mayHaveHappened && request.grantsOver >= GRANTS_OVER_MAX;
  return request.ownId && canBeCertain && !often;
}

/** Whether the answer is of a kind that there was when this was written. */
function isKnown(answer: ServerAnswer): boolean {
  for (const name in answer) {
    if (name !== 'id') {
      return true;
    }
  }
  return false;
}

/** How many bytes a request takes, if that may be many. */
function sizeIfLarge(request: Init<AcquireRequest>): number {
  const texts = [request.pool, request.select, request.owner, request.holder, request.requestId, request.sessionKey];
  let length = 0;
  for (const text of texts) {
    length += text?.length ?? 0;
  }
  for (const [name, value] of Object.entries(request.meta ?? {})) {
    length += name.length + (value?.length ?? 0);
  }
  return length * 3 < ACQUIRE_BYTES_MAX / 2 ? 0 : AcquireRequest.encode(request).length;
}

/** What stands before a request in a `ClientMessage`: its field, and its length. */
function prefix(length: number): Buffer {
  const bytes = [0x0a];
  let rest = length;
  for (; rest > 127; rest = Math.floor(rest / 128)) {
    bytes.push((rest % 128) + 128);
  }
  bytes.push(rest);
  return Buffer.from(bytes);
}
