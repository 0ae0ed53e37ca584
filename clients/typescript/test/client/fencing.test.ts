/** Fencing: who comes late is refused, for each name apart. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Fence, StaleToken } from 'tenure/fencing';

test('a lower token than the highest is refused, and only for its name', () => {
  const fence = new Fence();
  fence.check('report', 7);
  fence.check('report', 7);
  fence.check('invoice', 3);
  fence.check('report', 9);
  assert.throws(
    () => fence.check('report', 8),
    (error) =>
      error instanceof StaleToken && error.code === 'stale_token' && error.token === 8 && error.highest === 9,
  );
  assert.deepEqual([fence.highest('report'), fence.highest('invoice'), fence.highest('nothing')], [9, 3, undefined]);
});

test('what was refused leaves no trace', () => {
  const fence = new Fence();
  fence.check('report', 5);
  assert.throws(() => fence.check('report', 4), StaleToken);
  fence.check('report', 5);
  assert.equal(fence.highest('report'), 5);
});

test('what is no token neither passes nor bars the way', () => {
  const fence = new Fence();
  for (const token of [NaN, Infinity, -1, 1.5, '7' as unknown as number, undefined as unknown as number]) {
    assert.throws(() => fence.check('report', token), TypeError);
  }
  fence.check('report', 0);
});

test('what was seen outlives the process with a map that does', () => {
  const kept = new Map<string, number>();
  new Fence(kept).check('report', 7);
  assert.throws(() => new Fence(kept).check('report', 6), StaleToken);
});
