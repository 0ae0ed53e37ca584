/**
 * Holds for Temporal workflows.
 *
 * ```ts
 * await withHold('gpu-pool', { select: 'mem >= 80', maxWait: '10m' }, async (hold) => {
 *   await train(hold.resource.name, hold.token);
 * });
 * ```
 *
 * Everything here is to be called from workflow code. It talks to the server through the activities that
 * `tenure serve --temporal` offers. A hold ends with its function, and at the latest when the workflow has closed,
 * however it closed.
 *
 * @module
 */

export { DetachedHold, Hold, Resource } from './hold.cjs';
export { Busy, HoldLost, Refused, Refusal, WaitTimedOut } from './refused.cjs';
export { HoldOptions, TASK_QUEUE, TryHoldOptions, reattach, tryHold, withHold } from './with-hold.cjs';
