/** What a consumer does. */

import { proxyActivities } from '@temporalio/workflow';
import { withHold } from 'tenure/temporal';

import type { Counter } from './with_typescript';

export interface Work {
  pool: string;
  permits: number;
  consumer: string;
  seconds: number;
}

const { consume } = proxyActivities<Pick<Counter, 'consume'>>({ startToCloseTimeout: '1m' });

export async function consumer({ pool, permits, consumer, seconds }: Work): Promise<void> {
  // The first who asks makes the pool. All must name the same size, and who names another is told so.
  await withHold(pool, { size: permits }, (hold) => consume(consumer, hold.token, seconds));
}
