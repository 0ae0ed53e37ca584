/** What the server would not do, and why. */

import { ActivityFailure, ApplicationFailure } from '@temporalio/common';

/** All that the server says about it, as in its API, where the codes are listed. */
export interface Refusal {
  readonly code?: string;
  readonly message?: string;
  /** What to do now. */
  readonly advice?: string;
  /** Whether the same may succeed later. */
  readonly retry?: boolean;
  readonly [field: string]: unknown;
}

/** The server would not do it. If nobody catches it the workflow fails, with `code` as the type of the failure. */
export class Refused extends ApplicationFailure {
  constructor(
    /** A stable name, such as `unknown_pool`. */
    readonly code: string,
    message: string,
    /** All that the server says about it. */
    readonly refusal: Refusal = {},
    cause?: Error,
  ) {
    // Whether it is worth trying again is for whoever retries the workflow, if anybody does.
    const retry = refusal.retry ?? ['busy', 'timed_out'].includes(code);
    super(message, code, !retry, [refusal], cause);
  }
}

/** There was no room, and it was not to be waited for. */
export class Busy extends Refused {}

/** There was no room for as long as it was to be waited for. `refusal.holders` says who was in the way. */
export class WaitTimedOut extends Refused {}

/**
 * The hold was over before its function was: an operator has ended it, or a lease could not be renewed in time. A function
 * whose lease is lost is cancelled; otherwise the loss is noticed at its end.
 */
export class HoldLost extends Refused {}

/** What a failed activity says, if it is the server who says it. */
export function refusalOf(error: unknown): Refused | undefined {
  const cause = error instanceof ActivityFailure ? error.cause : undefined;
  if (!(cause instanceof ApplicationFailure) || !cause.type) {
    return undefined;
  }
  const kind = cause.type === 'busy' ? Busy : cause.type === 'timed_out' ? WaitTimedOut : Refused;
  const refusal = cause.details?.[0];
  return new kind(cause.type, cause.message, isRefusal(refusal) ? refusal : {}, error as Error);
}

function isRefusal(value: unknown): value is Refusal {
  return typeof value === 'object' && value !== null;
}
