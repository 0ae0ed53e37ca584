/** What a holder of the lock does. */

import { proxyActivities, sleep } from '@temporalio/workflow';
import { withHold } from 'tenure/temporal';

interface Activities {
  report(text: string): Promise<void>;
}

const { report } = proxyActivities<Activities>({ startToCloseTimeout: '1m' });

export async function holder(pool: string, name: string, seconds: number): Promise<void> {
  await withHold(pool, async (hold) => {
    await report(`${name} has the lock, token ${hold.token}`);
    await sleep(seconds * 1000);
  });
}
