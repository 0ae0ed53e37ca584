/** Who gets what, when, and that nothing stays held or queued, however a workflow ends. */

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { WorkflowFailedError } from '@temporalio/client';
import { ApplicationFailure, CancelledFailure, TerminatedFailure } from '@temporalio/common';

import { PATIENCE, type Stage, Theatre } from './stage.cjs';
import { catches, continues, forgets, givesUp, tell, uses } from './workflows.cjs';

let theatre: Theatre;
before(async () => {
  theatre = await Theatre.open();
});
after(() => theatre.close());

function plays(name: string, act: (stage: Stage) => Promise<void>): void {
  test(name, { timeout: 3 * PATIENCE }, () => theatre.play(name, act));
}

async function failureOf(result: Promise<unknown>): Promise<unknown> {
  const error = await result.then(
    () => assert.fail('it succeeded'),
    (error: unknown) => error,
  );
  assert(error instanceof WorkflowFailedError, String(error));
  return error.cause;
}

plays('workflows get it in the order in which they came', async (stage) => {
  const outside = await stage.take();
  const waiters = [];
  for (const place of [1, 2, 3]) {
    waiters.push(await stage.startWaiter({ pool: stage.pool }, place));
  }
  for (const handle of waiters) {
    await handle.signal(tell, 'go on');
  }
  await stage.giveBack(outside);
  for (const handle of waiters) {
    await handle.result();
  }
  const granted = (await stage.history('granted')).map(({ holder }) => holder);
  assert.deepEqual(granted, ['operator', ...waiters.map(({ workflowId }) => workflowId)]);
  assert.deepEqual(await stage.holds(), []);
});

plays('what is held is at hand, and the workflow shows as its holder', async (stage) => {
  const [handle, held] = await stage.startHolder({ pool: stage.pool });
  const [shown, ...others] = await stage.holds();
  assert.deepEqual(others, []);
  assert.deepEqual([held.pool, held.namespace, held.units], [stage.pool, 'default', 1]);
  assert.deepEqual([held.token, held.resources], [shown?.token, []]);
  assert.deepEqual([shown?.holder, shown?.lifetime], [handle.workflowId, 'bound']);
  assert(held.key);
  await handle.signal(tell, 'go on');
  await handle.result();
  await stage.assertReleased();
});

plays('a selector chooses the resource', async (stage) => {
  await stage.setResources({ name: 'small', labels: { mem: '40' } }, { name: 'large', labels: { mem: '80' } });
  const [, held] = await stage.startHolder({ pool: stage.pool, options: { select: 'mem >= 80' } });
  assert.deepEqual(held.resources, ['large']);
});

plays('a refusal is an error with its code', async (stage) => {
  const handle = await stage.start(catches, { pool: stage.pool, options: { select: 'mem >=' } });
  const { kind, code, nonRetryable } = await handle.result();
  assert.deepEqual([kind, code, nonRetryable], ['Refused', 'invalid_argument', true]);
});

plays('who only tries is told that it is busy', async (stage) => {
  const outside = await stage.take();
  const { kind, code } = await (await stage.start(catches, { pool: stage.pool, onlyTry: true })).result();
  assert.deepEqual([kind, code], ['Busy', 'busy']);
  await stage.giveBack(outside);
  assert.equal((await (await stage.start(catches, { pool: stage.pool, onlyTry: true })).result()).kind, 'none');
  assert.deepEqual(await stage.holds(), []);
});

plays('a wait ends when its time has passed, and tells who was in the way', async (stage) => {
  await stage.take();
  const handle = await stage.start(catches, { pool: stage.pool, options: { maxWait: '300ms' } });
  const { kind, code, holders } = await handle.result();
  assert.deepEqual([kind, code, holders], ['WaitTimedOut', 'timed_out', ['operator']]);
  assert.deepEqual(await stage.queue(), []);
});

plays('one hold is kept over many runs', async (stage) => {
  const tokens = await (await stage.start(continues, { pool: stage.pool, left: 3 })).result();
  assert.deepEqual([tokens.length, new Set(tokens).size], [4, 1]);
  assert.equal((await stage.history('granted')).length, 1);
  assert.deepEqual(await stage.holds(), []);
});

plays('one lease is kept over many runs', async (stage) => {
  const round = { pool: stage.pool, left: 2, options: { ttl: '1m' } } as const;
  const tokens = await (await stage.start(continues, round)).result();
  assert.deepEqual([tokens.length, new Set(tokens).size], [3, 1]);
  assert.deepEqual(await stage.holds(), []);
});

plays('a hold that is not taken along is given back', async (stage) => {
  await stage.start(forgets, stage.pool, true);
  await stage.until('it was given back', async () => (await stage.history('ended')).length === 1);
  await stage.assertReleased();
});

plays('a function that fails gives back', async (stage) => {
  const [handle] = await stage.startHolder({ pool: stage.pool, fails: true });
  await handle.signal(tell, 'go on');
  const failure = await failureOf(handle.result());
  assert(failure instanceof ApplicationFailure);
  assert.equal(failure.message, 'the work failed');
  await stage.assertReleased();
});

plays('a holder that is cancelled gives back', async (stage) => {
  const [handle] = await stage.startHolder({ pool: stage.pool });
  await handle.cancel();
  assert((await failureOf(handle.result())) instanceof CancelledFailure);
  await stage.assertReleased();
});

plays('a waiter that is cancelled leaves the queue', async (stage) => {
  await stage.take();
  const handle = await stage.startWaiter({ pool: stage.pool });
  await handle.cancel();
  assert((await failureOf(handle.result())) instanceof CancelledFailure);
  assert.deepEqual(await stage.queue(), []);
});

plays('a waiter that goes on after it was cancelled has left the queue', async (stage) => {
  const outside = await stage.take();
  const handle = await stage.startWaiter({ pool: stage.pool, stays: true });
  await handle.cancel();
  await stage.untilCancelled(handle);
  assert.deepEqual(await stage.queue(), []);
  await stage.giveBack(outside);
  assert.deepEqual(await stage.holds(), []);
});

plays('who waits no longer by means of a scope has left the queue', async (stage) => {
  await stage.take();
  const handle = await stage.start(givesUp, stage.pool);
  await stage.untilWaiting(1);
  assert.equal(await handle.result(), 'gave up');
  assert.deepEqual(await stage.queue(), []);
});

plays('a grant that comes before the cancellation in one task is given back', async (stage) => {
  const outside = await stage.take();
  const handle = await stage.startWaiter({ pool: stage.pool, stays: true });
  await stage.stopWorker();
  await stage.giveBack(outside);
  await stage.untilGranted(handle);
  await handle.cancel();
  await stage.startWorker();
  await stage.untilCancelled(handle);
  await stage.assertReleased();
});

plays('a grant that comes after the cancellation in one task is given back', async (stage) => {
  const outside = await stage.take();
  const handle = await stage.startWaiter({ pool: stage.pool, stays: true });
  await stage.stopWorker();
  await handle.cancel();
  await stage.giveBack(outside);
  await stage.untilGranted(handle);
  await stage.startWorker();
  await stage.untilCancelled(handle);
  await stage.assertReleased();
});

plays('of a holder that is terminated nothing is left', async (stage) => {
  const [handle] = await stage.startHolder({ pool: stage.pool });
  const waiter = await stage.startWaiter({ pool: stage.pool });
  await handle.terminate('by an operator');
  await stage.holdsNow(waiter);
  assert((await failureOf(handle.result())) instanceof TerminatedFailure);
  const [ended] = await stage.history('ended');
  assert.deepEqual([ended?.holder, ended?.how], [handle.workflowId, 'owner_gone']);
});

plays('a refusal that nobody catches fails the workflow', async (stage) => {
  await stage.take();
  const failure = await failureOf((await stage.start(uses, { pool: stage.pool, onlyTry: true })).result());
  assert(failure instanceof ApplicationFailure);
  assert.equal(failure.type, 'busy');
});

plays('a lease is renewed as long as it is held', async (stage) => {
  const [handle, held] = await stage.startHolder({ pool: stage.pool, options: { ttl: '6s' } });
  await stage.until('it was renewed twice', async () => (await stage.history('renewed')).length >= 2);
  const [shown] = await stage.holds();
  assert.deepEqual([shown?.token, shown?.lifetime], [held.token, 'leased']);
  await handle.signal(tell, 'go on');
  await handle.result();
  await stage.assertReleased();
});

plays('a lease that is lost ends its function', async (stage) => {
  const [handle, held] = await stage.startHolder({ pool: stage.pool, options: { ttl: '3s' } });
  await stage.force(handle.workflowId, held.token);
  const failure = await failureOf(handle.result());
  assert(failure instanceof ApplicationFailure);
  assert.equal(failure.type, 'not_held');
});

plays('a hold that an operator has ended is told at the end of the function', async (stage) => {
  const [handle, held] = await stage.startHolder({ pool: stage.pool });
  await stage.force(handle.workflowId, held.token);
  await handle.signal(tell, 'go on');
  const failure = await failureOf(handle.result());
  assert(failure instanceof ApplicationFailure);
  assert.equal(failure.type, 'not_held');
});
