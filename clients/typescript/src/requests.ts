/** Requests: kept until they are answered for good, said again after a reconnect, and tried again when the server has no time. */

import type { Due } from './agenda.js';
import type { Init } from './codec.js';
import type { TenureError } from './errors.js';
import type { Granted } from './standing.js';
import { randomId } from './time.js';
import type { AcquireRequest, ClientRequest } from './wire.js';

/** How long the server may take to say that a wait is over, and who stands in its way. */
const LAST_WORD_PATIENCE = 2_000;

export type Done = (error?: TenureError) => void;

/** An acquire as it comes from the application. */
export interface Ask {
  readonly request: Init<AcquireRequest>;
  /** How long it waits: undefined for ever, 0 not at all. */
  readonly wait: number | undefined;
  /** When that is over. */
  readonly end: number | undefined;
  readonly granted: (granted: Granted) => void;
  readonly failed: (error: TenureError) => void;
  readonly queued: ((position: number) => void) | undefined;
}

export abstract class Request implements Due {
  readonly isUrgent: boolean = true;
  /** On this connection. */
  said = false;
  /** Known to the server, such as a wait that is in the queue. */
  answered = false;
  /** On whichever connection. */
  firstSaid: number | undefined;
  lastSaid: number | undefined;
  /** It was said, and whether it was done is not known: the line broke, or the server itself cannot tell. */
  mayHaveHappened = false;
  /** How often in a row the server had no time for it. */
  failures = 0;
  /** Until when somebody waits for the answer. */
  giveUp: number | undefined;
  /** Not to be said before. */
  retryAt: number | undefined;
  due: number | undefined;
  /** It is no longer to be said, nor listened for. */
  over = false;

  constructor(readonly id: number) {}

  get isReady(): boolean {
    return !this.over && !this.said && this.retryAt === undefined;
  }

  say(now: number): Init<ClientRequest> {
    this.said = true;
    this.answered = false;
    this.firstSaid ??= now;
    this.lastSaid = now;
    return this.message(now);
  }

  protected abstract message(now: number): Init<ClientRequest>;
}

export class Acquire extends Request {
  override readonly isUrgent = false;
  /** Whether the request id is made here, and another will do. */
  readonly ownId: boolean;
  readonly requestId: string;
  /** How many grants were over when they were heard of. */
  grantsOver = 0;

  constructor(
    id: number,
    readonly ask: Ask,
  ) {
    super(id);
    this.ownId = ask.request.requestId === undefined;
    this.requestId = ask.request.requestId ?? randomId();
  }

  /** With what is left of its wait. One that is over still has a moment: it is told who stands in its way. */
  protected message(now: number): Init<ClientRequest> {
    const { request, end, wait = 0 } = this.ask;
    const acquire: { -readonly [Name in keyof Init<AcquireRequest>]: Init<AcquireRequest>[Name] } = {
      ...request,
      requestId: this.requestId,
    };
    if (end !== undefined) {
      // Never more than was asked for, which may be the most the server takes.
      acquire.waitMs = Math.max(1, Math.min(Math.ceil(wait), Math.ceil(end - now)));
    }
    return { id: this.id, acquire };
  }

  /** Until when the server may take to say that a wait is over; undefined if that has passed too. */
  laterEnd(now: number): number | undefined {
    const later = this.ask.end === undefined ? undefined : this.ask.end + LAST_WORD_PATIENCE;
    return later !== undefined && later > now ? later : undefined;
  }

  /** The same under another request id, as if it had not been asked yet. */
  anew(): Acquire {
    const again = new Acquire(this.id, this.ask);
    again.grantsOver = this.grantsOver;
    again.giveUp = this.giveUp;
    return again;
  }
}

export class Renew extends Request {
  constructor(
    id: number,
    readonly hold: number,
    readonly key: string,
  ) {
    super(id);
  }

  protected message(): Init<ClientRequest> {
    // The namespace is that of the session.
    return { id: this.id, renew: { key: this.key } };
  }
}

export class Release extends Request {
  constructor(
    id: number,
    readonly key: string,
    public answer: Done | undefined,
  ) {
    super(id);
  }

  protected message(): Init<ClientRequest> {
    return { id: this.id, release: { key: this.key } };
  }
}

export class Withdraw extends Request {
  constructor(
    id: number,
    readonly requestId: string,
  ) {
    super(id);
  }

  protected message(): Init<ClientRequest> {
    return { id: this.id, withdraw: { requestId: this.requestId } };
  }
}

export class Ping extends Request {
  protected message(): Init<ClientRequest> {
    return { id: this.id, ping: {} };
  }
}

export class End extends Request {
  protected message(): Init<ClientRequest> {
    return { id: this.id, end: {} };
  }
}
