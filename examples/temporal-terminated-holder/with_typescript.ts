/** A workflow that holds a lock is terminated by an operator, and cannot give it back. The next one gets it. */

import { randomUUID } from 'node:crypto';
import { once, EventEmitter } from 'node:events';
import { setTimeout } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { Client, Connection, type WorkflowHandle } from '@temporalio/client';
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';

import { holder } from './workflows';

const USAGE = `Usage: with_typescript [OPTIONS]

  --temporal ADDR   where Temporal is [127.0.0.1:7233]
  --namespace NAME  the namespace there [default]
  --pool NAME       the lock [the-lock]`;

async function main(): Promise<void> {
  const { values: options } = parseArgs({
    options: {
      help: { type: 'boolean', default: false },
      temporal: { type: 'string', default: '127.0.0.1:7233' },
      namespace: { type: 'string', default: 'default' },
      pool: { type: 'string', default: 'the-lock' },
    },
  });
  if (options.help) {
    console.log(USAGE);
    return;
  }
  const { temporal: address, namespace, pool } = options;
  Runtime.install({ logger: new DefaultLogger('ERROR') });
  const client = new Client({ connection: await Connection.connect({ address }), namespace });
  const connection = await NativeConnection.connect({ address });
  const taskQueue = `terminated-holder-${randomUUID()}`;
  const events = new EventEmitter();
  const activities = {
    async report(text: string): Promise<void> {
      console.log(text);
      events.emit('reported');
    },
  };
  const workflowsPath = require.resolve('./workflows');
  const worker = await Worker.create({ connection, namespace, taskQueue, workflowsPath, activities });

  const start = (name: string, seconds: number) =>
    client.workflow.start(holder, { args: [pool, name, seconds], workflowId: `${name}-${taskQueue}`, taskQueue });
  await worker.runUntil(async () => {
    const reported = once(events, 'reported');
    const first = await start('first', 3600);
    await reported;
    const second = await start('second', 0);
    while (!(await waits(second))) {
      await setTimeout(50);
    }
    console.log('second waits');
    console.log('an operator terminates first');
    await first.terminate('an operator wants it so');
    await second.result();
    console.log('second is done');
  });
  await connection.close();
  await client.connection.close();
}

/** A wait is an activity that has begun and is not yet completed. */
async function waits(handle: WorkflowHandle): Promise<boolean> {
  const { pendingActivities = [] } = (await handle.describe()).raw;
  return !!pendingActivities?.some(({ activityType, attempt }) => activityType?.name === 'tenure.acquire' && attempt);
}

if (require.main === module) {
  main().catch((error: unknown) => {
    console.error(`error: ${error instanceof Error ? error.message : error}`);
    process.exit(1);
  });
}
