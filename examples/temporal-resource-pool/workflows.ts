/** What a user of the machines does. */

import { ApplicationFailure, continueAsNew, proxyActivities } from '@temporalio/workflow';
import { type DetachedHold, type Hold, reattach, withHold } from 'tenure/temporal';

import type * as activities from './with_typescript';

export interface Work {
  pool: string;
  user: string;
  seconds: number;
  fails?: boolean;
  continues?: boolean;
  /** What the run before has left to this one. */
  held?: DetachedHold;
}

const { report } = proxyActivities<typeof activities>({ startToCloseTimeout: '1m' });

export async function user({ held, fails, continues, ...work }: Work): Promise<void> {
  const use = async (hold: Hold): Promise<void> => {
    const again = held ? 'again ' : '';
    await report(`${work.user} ${again}uses ${hold.resource.name}, token ${hold.token}`, work.seconds);
    if (fails) {
      throw ApplicationFailure.nonRetryable('out of paper');
    }
    if (continues) {
      // Without `detach` the machine would be given back here.
      await continueAsNew<typeof user>({ ...work, held: hold.detach() });
    }
  };
  await (held ? reattach(held, use) : withHold(work.pool, use));
}
