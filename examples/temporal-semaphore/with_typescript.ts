/** Eight workflows want to work, and three may at once. */

import { randomUUID } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { Client, Connection } from '@temporalio/client';
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';

import { consumer } from './workflows';

const USAGE = `Usage: with_typescript [OPTIONS]

  --temporal ADDR   where Temporal is [127.0.0.1:7233]
  --namespace NAME  the namespace there [default]
  --pool NAME       the pool of permits [permits]
  --permits N       how many may at once [3]
  --consumers N     how many want to [8]
  --work SECONDS    how long the work takes [0.5]`;

/** How many are at it, as seen by the activities of this worker. */
export class Counter {
  now = 0;
  most = 0;

  consume = async (consumer: string, token: number, seconds: number): Promise<void> => {
    this.now += 1;
    this.most = Math.max(this.most, this.now);
    console.log(`${consumer} consumes, token ${token}`);
    await setTimeout(seconds * 1000);
    this.now -= 1;
  };
}

async function main(): Promise<void> {
  const { values: options } = parseArgs({
    options: {
      help: { type: 'boolean', default: false },
      temporal: { type: 'string', default: '127.0.0.1:7233' },
      namespace: { type: 'string', default: 'default' },
      pool: { type: 'string', default: 'permits' },
      permits: { type: 'string', default: '3' },
      consumers: { type: 'string', default: '8' },
      work: { type: 'string', default: '0.5' },
    },
  });
  if (options.help) {
    console.log(USAGE);
    return;
  }
  const { temporal: address, namespace, pool } = options;
  const [permits, consumers, seconds] = [Number(options.permits), Number(options.consumers), Number(options.work)];
  Runtime.install({ logger: new DefaultLogger('ERROR') });
  const client = new Client({ connection: await Connection.connect({ address }), namespace });
  const connection = await NativeConnection.connect({ address });
  const taskQueue = `semaphore-${randomUUID()}`;
  const counter = new Counter();
  const workflowsPath = require.resolve('./workflows');
  const activities = { consume: counter.consume };
  const worker = await Worker.create({ connection, namespace, taskQueue, workflowsPath, activities });

  await worker.runUntil(async () => {
    const names = Array.from({ length: consumers }, (_, number) => `consumer-${number + 1}`);
    await Promise.all(
      names.map((name) => {
        const work = { pool, permits, consumer: name, seconds };
        return client.workflow.execute(consumer, { args: [work], workflowId: `${name}-${taskQueue}`, taskQueue });
      }),
    );
  });
  console.log(`${consumers} consumers, at most ${counter.most} at once, of ${permits} permits`);
  await connection.close();
  await client.connection.close();
}

if (require.main === module) {
  main().catch((error: unknown) => {
    console.error(`error: ${error instanceof Error ? error.message : error}`);
    process.exit(1);
  });
}
