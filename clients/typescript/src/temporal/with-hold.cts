/** Waits, holds while a function runs, and gives back, whatever is cancelled meanwhile. */

import { ActivityFailure, RetryPolicy, TimeoutFailure } from '@temporalio/common';
import { type Duration, msToNumber } from '@temporalio/common/lib/time';
import {
  ActivityCancellationType,
  type ActivityOptions,
  CancellationScope,
  isCancellation,
  log,
  proxyActivities,
  sleep,
} from '@temporalio/workflow';

import { type DetachedHold, Hold } from './hold.cjs';
import { Busy, HoldLost, WaitTimedOut, refusalOf } from './refused.cjs';

/** Where a server offers its activities, unless it was told otherwise. */
export const TASK_QUEUE = 'tenure';

/** After this long without a sign of the server the request is made again, and finds its place or its hold. */
const HEARTBEAT_TIMEOUT_MS = 10_000;

/** For what the server answers at once. */
const ANSWER_TIMEOUT_MS = 10_000;

/** One attempt waits so long at most; the next goes on where it was. The server's own limit of a wait. */
const WAIT_LIMIT_MS = 366 * 24 * 60 * 60 * 1000;

/** The server ends a wait and says who was in the way. Temporal ends it, so much later, only if the server cannot. */
const WAIT_MARGIN_MS = 5_000;

/** A server that is away comes back. What it refuses it refuses for good, and says so in its answer. */
const RETRY: RetryPolicy = { initialInterval: 500, maximumInterval: 5_000 };

/** What to ask for, if it is not to be waited for. */
export interface TryHoldOptions {
  /** Which resources, by their labels: `gpu && mem >= 80 && !old`. */
  select?: string;
  /** How many units or resources; 1 if left out. */
  units?: number;
  /** Everything there is: the writer of a read-write lock. */
  all?: boolean;
  /** The size the pool must have; an unknown pool is made with it. */
  size?: number;
  /**
   * Makes the hold a lease of this length, renewed every third of it while the function runs; each renewal adds some eleven
   * events to the workflow's history. Without it the hold is bound to the workflow.
   */
  ttl?: Duration;
  /** What ends the hold besides its release, if it is not to be bound to the workflow, nor a lease. */
  lifetime?: 'bound' | 'leased' | 'window' | 'kept';
  /** Higher first, from -1000 to 1000. */
  priority?: number;
  /** Who holds, as others see it; the workflow's id if left out. */
  holder?: string;
  /** More about the holder. */
  meta?: Record<string, string>;
  /** The server's namespace, which has nothing to do with that of Temporal. */
  namespace?: string;
  /** Where the server offers its activities. */
  taskQueue?: string;
}

/** What to ask for. */
export interface HoldOptions extends TryHoldOptions {
  /** How long to wait at most; for ever if left out. Then {@link WaitTimedOut} is thrown. */
  maxWait?: Duration;
}

type Body<T> = (hold: Hold) => Promise<T>;

/**
 * Waits in the pool's queue, holds while the function runs, and gives back.
 *
 * If the workflow is cancelled while it waits, it leaves the queue; while it holds, it gives back. Then the cancellation
 * goes on.
 *
 * @throws {@link WaitTimedOut} It was not granted within `maxWait`.
 * @throws {@link Refused} The server would not do it, and says why.
 */
export function withHold<T>(pool: string, body: Body<T>): Promise<T>;
export function withHold<T>(pool: string, options: HoldOptions, body: Body<T>): Promise<T>;
export async function withHold<T>(pool: string, ...rest: [Body<T>] | [HoldOptions, Body<T>]): Promise<T> {
  const [options, body] = rest.length === 1 ? [{}, rest[0]] : rest;
  const { maxWait, taskQueue = TASK_QUEUE } = options;
  if (maxWait === undefined) {
    const times = { startToCloseTimeout: WAIT_LIMIT_MS };
    return during(await ask('tenure.acquire', request(pool, options), taskQueue, times), false, body);
  }
  // Also if there is no time left to wait: then it is granted at once or not at all.
  const wait_ms = Math.max(1, Math.ceil(msToNumber(maxWait)));
  const limit = wait_ms + WAIT_MARGIN_MS;
  const times = { startToCloseTimeout: limit, scheduleToCloseTimeout: limit };
  return during(await ask('tenure.acquire', { ...request(pool, options), wait_ms }, taskQueue, times), false, body);
}

/**
 * As {@link withHold}, but does not wait in the queue: without room the function is not called. A server that is away is
 * waited for.
 *
 * @throws {@link Busy} There is no room right now.
 */
export function tryHold<T>(pool: string, body: Body<T>): Promise<T>;
export function tryHold<T>(pool: string, options: TryHoldOptions, body: Body<T>): Promise<T>;
export async function tryHold<T>(pool: string, ...rest: [Body<T>] | [TryHoldOptions, Body<T>]): Promise<T> {
  const [options, body] = rest.length === 1 ? [{}, rest[0]] : rest;
  const { taskQueue = TASK_QUEUE } = options;
  const times = { startToCloseTimeout: ANSWER_TIMEOUT_MS };
  return during(await ask('tenure.try_acquire', request(pool, options), taskQueue, times), false, body);
}

/** Goes on with what an earlier run of this workflow has detached, while the function runs. */
export async function reattach<T>(detached: DetachedHold, body: Body<T>): Promise<T> {
  return during(detached, true, body);
}

async function during<T>(grant: DetachedHold, fromEarlierRun: boolean, body: Body<T>): Promise<T> {
  const hold = new Hold(grant);
  const outside = CancellationScope.current();
  const inside = new CancellationScope();
  const renewing = new Renewing(grant, fromEarlierRun, () => inside.cancel());
  const end = async (): Promise<HoldLost | undefined> => {
    renewing.stop();
    return (hold.detached ? undefined : await release(grant)) ?? renewing.lost;
  };
  let result: T;
  try {
    result = await inside.run(() => body(hold));
  } catch (error) {
    const lost = await end();
    if (lost && renewing.lost && isCancellation(error) && !outside.consideredCancelled) {
      throw lost;
    }
    if (lost) {
      log.warn(`the hold on pool \`${grant.pool}\` was lost before its function failed`);
    }
    throw error;
  }
  const lost = await end();
  if (lost) {
    throw lost;
  }
  return result;
}

/** Keeps a lease alive until it is stopped, also while a cancelled function cleans up. */
class Renewing {
  lost: HoldLost | undefined;
  #scope: CancellationScope | undefined;

  constructor(grant: DetachedHold, atOnce: boolean, onLoss: () => void) {
    const { lifetime, ttl_ms } = grant;
    if (lifetime !== 'leased' || ttl_ms === undefined) {
      return;
    }
    const renewing = CancellationScope.nonCancellable(() => {
      this.#scope = new CancellationScope();
      return this.#scope.run(() => renewForEver(grant, ttl_ms, atOnce));
    });
    renewing.catch((error: unknown) => {
      if (isCancellation(error)) {
        return;
      }
      const refused = refusalOf(error);
      const message = refused?.message ?? `the hold on pool \`${grant.pool}\` could not be renewed in time`;
      this.lost = new HoldLost('not_held', message, refused?.refusal, refused);
      onLoss();
    });
  }

  stop(): void {
    this.#scope?.cancel();
  }
}

async function renewForEver(grant: DetachedHold, ttl: number, atOnce: boolean): Promise<never> {
  const third = ttl / 3;
  // What was granted, or renewed, a third ago is over when two more have passed.
  const times = { startToCloseTimeout: Math.min(2 * third, ANSWER_TIMEOUT_MS), scheduleToCloseTimeout: 2 * third };
  const { 'tenure.renew': renew } = activities('renew', grant.pool, grant.task_queue, times);
  for (let first = true; ; first = false) {
    // What comes from an earlier run may have little time left.
    if (!(first && atOnce)) {
      await sleep(third);
    }
    await renew(keyOf(grant));
  }
}

async function ask(
  activity: 'tenure.acquire' | 'tenure.try_acquire',
  body: Request,
  taskQueue: string,
  times: ActivityOptions,
): Promise<DetachedHold> {
  const scope = CancellationScope.current();
  let answer: Grant | null | undefined;
  try {
    const options = { ...times, heartbeatTimeout: HEARTBEAT_TIMEOUT_MS };
    answer = await activities('hold', body.pool, taskQueue, options)[activity](body);
  } catch (error) {
    if (scope.consideredCancelled) {
      return scope.cancelRequested;
    }
    if (error instanceof ActivityFailure && error.cause instanceof TimeoutFailure && body.wait_ms !== undefined) {
      const message = `pool \`${body.pool}\` was not granted in time, and its server did not say why`;
      throw new WaitTimedOut('timed_out', message, {}, error);
    }
    throw refusalOf(error) ?? error;
  }
  if (scope.consideredCancelled) {
    // It was granted at the moment in which it was no longer wanted.
    if (answer) {
      await release({ ...answer, task_queue: taskQueue });
    }
    return scope.cancelRequested;
  }
  if (!answer) {
    throw new Busy('busy', `pool \`${body.pool}\` has no room`);
  }
  return { ...answer, task_queue: taskQueue };
}

/** Whatever is cancelled meanwhile. If the hold was over already, that is returned. */
async function release(grant: DetachedHold): Promise<HoldLost | undefined> {
  if (grant.lifetime === 'window') {
    // It counts for its time, whether or not it is still wanted.
    return undefined;
  }
  const times = { startToCloseTimeout: ANSWER_TIMEOUT_MS };
  const { 'tenure.release': released } = activities('release', grant.pool, grant.task_queue, times);
  try {
    await CancellationScope.nonCancellable(() => released(keyOf(grant)));
    return undefined;
  } catch (error) {
    const refused = refusalOf(error);
    if (refused?.code !== 'not_held') {
      throw refused ?? error;
    }
    return new HoldLost('not_held', refused.message, refused.refusal, refused);
  }
}

interface Request {
  pool: string;
  wait_ms?: number;
  [field: string]: unknown;
}

interface Key {
  namespace: string;
  pool: string;
  key: string;
}

type Grant = Omit<DetachedHold, 'task_queue'>;

/** What a server offers. */
interface Activities {
  'tenure.acquire'(request: Request): Promise<Grant>;
  'tenure.try_acquire'(request: Request): Promise<Grant | null>;
  'tenure.renew'(key: Key): Promise<unknown>;
  'tenure.release'(key: Key): Promise<unknown>;
}

function activities(verb: string, pool: string, taskQueue: string, options: ActivityOptions) {
  return proxyActivities<Activities>({
    taskQueue,
    retry: RETRY,
    // The queue is left before the cancellation goes on, and a grant that crosses it is not overlooked.
    cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    summary: `${verb} ${pool}`.slice(0, 200),
    ...options,
  });
}

function keyOf({ namespace, pool, key }: DetachedHold): Key {
  return { namespace, pool, key };
}

/** As the server reads it; what is undefined is left out on the way. */
function request(pool: string, options: TryHoldOptions): Request {
  const { select, units, all, size, ttl, lifetime, priority, holder, meta, namespace } = options;
  const ttl_ms = ttl === undefined ? undefined : Math.ceil(msToNumber(ttl));
  return { pool, select, units, all: all || undefined, size, ttl_ms, lifetime, priority, holder, meta, namespace };
}
