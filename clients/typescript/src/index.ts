/**
 * Locks, semaphores, pools of named resources, rate windows and elections from a Tenure server.
 *
 * ```ts
 * import { Client } from 'tenure';
 *
 * await using client = new Client('127.0.0.1:3144');
 * await client.withHold('nightly-report', { ttl: '30s' }, async (h) => {
 *   await writeReport(h.token, h.signal);
 * });
 * ```
 *
 * @module
 */

export { Api, type CallOptions } from './api.js';
export { type Body, Client, type WatchOptions } from './client.js';
export type { Init } from './codec.js';
export {
  Busy,
  ClosedError,
  Deadlock,
  ForeignServer,
  HoldLost,
  type LostReason,
  Refused,
  TenureError,
  Unauthenticated,
  Unreachable,
  Unusable,
  WaitTimedOut,
} from './errors.js';
export { Hold, type Place } from './hold.js';
export type {
  ClientOptions,
  HeldPart,
  HoldOptions,
  Part,
  PoolOptions,
  RateOptions,
  Resource,
  TryHoldOptions,
} from './options.js';
export type { Duration } from './time.js';
export { VERSION } from './version.js';
export type * as wire from './wire.js';
