/** Workflows as users write them. */

import {
  ApplicationFailure,
  CancellationScope,
  condition,
  continueAsNew,
  defineQuery,
  defineSignal,
  isCancellation,
  setHandler,
} from '@temporalio/workflow';
import {
  type DetachedHold,
  type Hold,
  type HoldOptions,
  Busy,
  HoldLost,
  Refused,
  WaitTimedOut,
  reattach,
  tryHold,
  withHold,
} from 'tenure/temporal';

export interface Ask {
  pool: string;
  options?: HoldOptions;
  onlyTry?: boolean;
  /** Once it has been told to go on. */
  fails?: boolean;
  /** Until it is told to go, after it was cancelled. */
  stays?: boolean;
}

export interface Held {
  pool: string;
  namespace: string;
  token: number;
  key: string;
  units: number;
  resources: string[];
}

export const tell = defineSignal<[string]>('tell');
export const now = defineQuery<Held | null>('now');
export const cancelled = defineQuery<boolean>('cancelled');

/** Holds until it is told to go on, and says what it held. */
export async function uses(ask: Ask): Promise<Held | string> {
  let held: Held | null = null;
  let wasCancelled = false;
  const told: string[] = [];
  setHandler(tell, (what) => void told.push(what));
  setHandler(now, () => held);
  setHandler(cancelled, () => wasCancelled);
  try {
    return await holding(ask, async (hold) => {
      held = factsOf(hold);
      await condition(() => told.includes('go on'));
      if (ask.fails) {
        throw ApplicationFailure.nonRetryable('the work failed');
      }
      return held;
    });
  } catch (error) {
    if (!isCancellation(error)) {
      throw error;
    }
    wasCancelled = true;
    if (!ask.stays) {
      throw error;
    }
    await CancellationScope.nonCancellable(() => condition(() => told.includes('go')));
    return 'cancelled';
  }
}

export interface Caught {
  kind: string;
  code?: string;
  nonRetryable?: boolean;
  holders?: string[];
}

/** Says what it was refused. */
export async function catches(ask: Ask): Promise<Caught> {
  try {
    return await holding(ask, async () => ({ kind: 'none' }));
  } catch (error) {
    if (!(error instanceof Refused)) {
      throw error;
    }
    const kinds = { Busy, WaitTimedOut, HoldLost };
    const kind = Object.entries(kinds).find(([, kind]) => error instanceof kind)?.[0] ?? 'Refused';
    const holders = ((error.refusal.holders ?? []) as { holder: string }[]).map(({ holder }) => holder);
    return { kind, code: error.code, nonRetryable: error.nonRetryable === true, holders };
  }
}

export interface Round {
  pool: string;
  left: number;
  options?: HoldOptions;
  held?: DetachedHold;
  tokens?: number[];
}

/** Keeps one hold over some runs. */
export async function continues({ pool, left, options = {}, held, tokens = [] }: Round): Promise<number[]> {
  const body = async (hold: Hold) => {
    tokens.push(hold.token);
    if (left > 0) {
      await continueAsNew<typeof continues>({ pool, left: left - 1, options, held: hold.detach(), tokens });
    }
    return tokens;
  };
  return held ? reattach(held, body) : withHold(pool, options, body);
}

/** Continues as new in the middle of its function, and does not take the hold along. */
export async function forgets(pool: string, again: boolean): Promise<void> {
  if (again) {
    await withHold(pool, () => continueAsNew<typeof forgets>(pool, false));
  }
  await condition(() => false);
}

/** Does not wait for the whole time that it could, by means of a scope alone. */
export async function givesUp(pool: string): Promise<string> {
  try {
    await CancellationScope.withTimeout('1s', () => withHold(pool, async () => {}));
  } catch (error) {
    if (isCancellation(error)) {
      return 'gave up';
    }
    throw error;
  }
  return 'held';
}

function holding<T>({ pool, options = {}, onlyTry }: Ask, body: (hold: Hold) => Promise<T>): Promise<T> {
  return onlyTry ? tryHold(pool, options, body) : withHold(pool, options, body);
}

function factsOf({ pool, namespace, token, key, units, resources }: Hold): Held {
  return { pool, namespace, token, key, units, resources: resources.map(({ name }) => name) };
}
