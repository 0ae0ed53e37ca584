/** Why something was not done. A refusal is the server's normal answer; the others are about reaching it. */

import type { Init } from './codec.js';
import type { Blocked, Hold as HoldShown, Refusal } from './wire.js';

/** All of them. */
export class TenureError extends Error {
  override name = 'TenureError';
  /**
   * A stable name for programs: the refusal's code, or `unreachable`, `foreign_server`, `unauthenticated`, `unusable`,
   * `closed`.
   */
  readonly code: string;
  /** Whether the same may succeed later. */
  readonly retry: boolean;
  /**
   * Whether what was asked may have taken effect all the same. An acquire that failed so is withdrawn as soon as the server
   * can be reached.
   */
  readonly mayHaveHappened: boolean;

  constructor(message: string, code: string, retry = false, mayHaveHappened = false, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.retry = retry;
    this.mayHaveHappened = mayHaveHappened;
  }
}

/** The server would not do it, and says why. */
export class Refused extends TenureError {
  override name = 'Refused';
  /** All that the server says about it; docs/api.md lists the codes and their fields. */
  readonly refusal: Init<Refusal>;

  constructor(refusal: Init<Refusal>, options?: ErrorOptions) {
    const code = refusal.code ?? '';
    super(refusal.message || code, code, refusal.retry, refusal.mayHaveHappened, options);
    this.refusal = refusal;
  }

  /** What to do now. */
  get advice(): string {
    return this.refusal.advice ?? '';
  }

  /** Who is in the way, those longest there first, if it is for lack of room. */
  get holders(): readonly HoldShown[] {
    return (this.refusal.holders ?? []) as readonly HoldShown[];
  }
}

/** There was no room, and it was not to be waited for. */
export class Busy extends Refused {
  override name = 'Busy';
}

/** There was no room for as long as it was to be waited for. */
export class WaitTimedOut extends Refused {
  override name = 'WaitTimedOut';
}

/**
 * A wait that could never end: those who could let it in wait, in the end, for what its holder has. Let go of something, or ask
 * for all of it at once.
 */
export class Deadlock extends Refused {
  override name = 'Deadlock';

  /**
   * Who waits for whom, from the one who asked on: its `holder`, the `pool` it waits for and the `token` of the hold that is in
   * its way. The last waits for the first.
   */
  get cycle(): readonly Blocked[] {
    return (this.refusal.cycle ?? []) as readonly Blocked[];
  }
}

/**
 * How a hold was lost. `unreachable`: the server could not be reached in time, and the hold may be there, or somebody
 * else's. `released`: by somebody else who had its key. `let_go`: by its holder, so nobody took it away. `other`: in a way
 * that this client does not know, because the server is newer.
 */
export type LostReason =
  | 'expired'
  | 'forced'
  | 'session_ended'
  | 'owner_gone'
  | 'released'
  | 'let_go'
  | 'unreachable'
  | 'closed'
  | 'other';

const LOST: Record<LostReason, string> = {
  expired: 'its time ran out',
  forced: 'an operator ended it',
  session_ended: 'its session is over',
  owner_gone: 'its owner is gone',
  released: 'somebody else released it',
  let_go: 'it was let go',
  unreachable: 'the server could not be reached in time',
  closed: 'the client was closed',
  other: 'the server ended it',
};

/** The hold was over before what it was for: stop using what it protected. */
export class HoldLost extends Refused {
  override name = 'HoldLost';

  constructor(
    pool: string,
    /** The hold's. */
    readonly token: number,
    /** How it was lost. */
    readonly reason: LostReason,
    /** What the operator said who ended it. */
    readonly note = '',
    options?: ErrorOptions,
  ) {
    const why = note ? `${LOST[reason]}: ${note}` : LOST[reason];
    const message = `pool \`${pool}\` is no longer held: ${why}`;
    super({ code: 'not_held', message, advice: 'stop using what it protected', pool, token }, options);
  }

  /** The pool it was of. */
  get pool(): string {
    return this.refusal.pool ?? '';
  }
}

/** Nobody answered, or not in time. */
export class Unreachable extends TenureError {
  override name = 'Unreachable';

  constructor(
    readonly address: string,
    readonly why: string,
    options?: ErrorOptions,
  ) {
    super(`no server can be reached at ${address}: ${why}`, 'unreachable', true, true, options);
  }
}

/** Something else listens there, or a server of another version. */
export class ForeignServer extends TenureError {
  override name = 'ForeignServer';

  constructor(
    readonly address: string,
    readonly why: string,
    options?: ErrorOptions,
  ) {
    super(
      `what answers at ${address} is not a Tenure server of this version: ${why}`,
      'foreign_server',
      false,
      false,
      options,
    );
  }
}

/** The server wants a password, or another one. */
export class Unauthenticated extends TenureError {
  override name = 'Unauthenticated';

  constructor(
    readonly address: string,
    readonly why: string,
    options?: ErrorOptions,
  ) {
    super(`the server at ${address} does not let us in: ${why}`, 'unauthenticated', false, false, options);
  }
}

/** The address, the password or the certificates are not what they should be. Nothing was sent. */
export class Unusable extends TenureError {
  override name = 'Unusable';

  constructor(
    readonly why: string,
    options?: ErrorOptions,
  ) {
    super(`no connection can be made with this: ${why}`, 'unusable', false, false, options);
  }
}

/** The client was closed. */
export class ClosedError extends TenureError {
  override name = 'ClosedError';

  constructor() {
    super('the client is closed', 'closed');
  }
}

/** The error for a refusal. @internal */
export function refused(refusal: Init<Refusal>, options?: ErrorOptions): Refused {
  const kinds: Partial<Record<string, typeof Refused>> = { busy: Busy, timed_out: WaitTimedOut, deadlock: Deadlock };
  return new (kinds[refusal.code ?? ''] ?? Refused)(refusal, options);
}

/** Nothing is wrong with the request: asked again, it may well be answered. @internal */
export function hasNoTime(refusal: Init<Refusal>): boolean {
  return ['stopping', 'overloaded', 'lost'].includes(refusal.code ?? '');
}
