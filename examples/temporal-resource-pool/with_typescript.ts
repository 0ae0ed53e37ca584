/** Four workflows share two machines. One fails, and one continues as new in the middle of its work. */

import { randomUUID } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { Client, Connection, WorkflowFailedError } from '@temporalio/client';
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';

import { user } from './workflows';

const USAGE = `Usage: with_typescript [OPTIONS]

  --temporal ADDR   where Temporal is [127.0.0.1:7233]
  --namespace NAME  the namespace there [default]
  --pool NAME       the pool of machines [machines]
  --work SECONDS    how long the work takes [0.5]`;

export async function report(text: string, seconds: number): Promise<void> {
  console.log(text);
  await setTimeout(seconds * 1000);
}

async function main(): Promise<void> {
  const { values: options } = parseArgs({
    options: {
      help: { type: 'boolean', default: false },
      temporal: { type: 'string', default: '127.0.0.1:7233' },
      namespace: { type: 'string', default: 'default' },
      pool: { type: 'string', default: 'machines' },
      work: { type: 'string', default: '0.5' },
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
  const taskQueue = `resource-pool-${randomUUID()}`;
  const workflowsPath = require.resolve('./workflows');
  const worker = await Worker.create({ connection, namespace, taskQueue, workflowsPath, activities: { report } });

  const start = (name: string, more = {}) => {
    const work = { pool, user: name, seconds: Number(options.work), ...more };
    return client.workflow.start(user, { args: [work], workflowId: `${name}-${taskQueue}`, taskQueue });
  };
  await worker.runUntil(async () => {
    const users = {
      'user-1': await start('user-1'),
      'user-2': await start('user-2', { fails: true }),
      'user-3': await start('user-3', { continues: true }),
      'user-4': await start('user-4'),
    };
    for (const [name, handle] of Object.entries(users)) {
      try {
        await handle.result();
        console.log(`${name} is done`);
      } catch (error) {
        if (!(error instanceof WorkflowFailedError)) {
          throw error;
        }
        console.log(`${name} has failed: ${error.cause?.message}`);
      }
    }
  });
  await connection.close();
  await client.connection.close();
}

if (require.main === module) {
  main().catch((error: unknown) => {
    console.error(`error: ${error instanceof Error ? error.message : error}`);
    process.exit(1);
  });
}
