/**
 * A worker with the workflows of these tests, and the server as an operator sees it. `TEMPORAL_ADDRESS` and `TENURE_API`
 * (the REST interface) say where they are; the project's own tests start both.
 */

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';

import { Client, Connection, type WorkflowHandle } from '@temporalio/client';
import {
  DefaultLogger,
  NativeConnection,
  Runtime,
  Worker,
  type WorkflowBundle,
  bundleWorkflowCode,
} from '@temporalio/worker';
import type { Workflow } from '@temporalio/workflow';

import * as workflows from './workflows.cjs';

/** Milliseconds that a slow machine may take for what happens at once. */
export const PATIENCE = 60_000;

export interface Shown {
  holder: string;
  token: number;
  lifetime: string;
}

export interface Event {
  kind: string;
  holder: string;
  how: string;
}

/** What all tests share. */
export class Theatre {
  private constructor(
    readonly client: Client,
    readonly native: NativeConnection,
    readonly bundle: WorkflowBundle,
  ) {}

  static async open(): Promise<Theatre> {
    const logger = new DefaultLogger('ERROR');
    Runtime.install({ logger });
    const address = told('TEMPORAL_ADDRESS');
    const namespace = process.env.TEMPORAL_NAMESPACE ?? 'default';
    const connection = await Connection.connect({ address });
    const bundle = await bundleWorkflowCode({ workflowsPath: require.resolve('./workflows.cjs'), logger });
    return new Theatre(new Client({ connection, namespace }), await NativeConnection.connect({ address }), bundle);
  }

  async close(): Promise<void> {
    await this.client.connection.close();
    await this.native.close();
  }

  /** Plays one test, and then replays all that its workflows did. */
  async play(name: string, act: (stage: Stage) => Promise<void>): Promise<void> {
    const stage = new Stage(this, `${name} ${randomUUID()}`);
    await stage.startWorker();
    try {
      await act(stage);
    } finally {
      await stage.stopWorker();
    }
    await stage.replay();
  }
}

export class Stage {
  readonly workflows: WorkflowHandle[] = [];
  #worker: Worker | undefined;
  #running: Promise<void> | undefined;

  constructor(
    private readonly theatre: Theatre,
    readonly pool: string,
  ) {}

  async startWorker(): Promise<void> {
    const { native: connection, bundle: workflowBundle, client } = this.theatre;
    const { namespace } = client.options;
    // Nothing is cached, so that every workflow task is a replay.
    const options = { connection, namespace, workflowBundle, taskQueue: this.pool, maxCachedWorkflows: 0 };
    this.#worker = await Worker.create(options);
    this.#running = this.#worker.run();
  }

  async stopWorker(): Promise<void> {
    this.#worker?.shutdown();
    await this.#running;
  }

  /** The same commands come from the same history, whatever a test did. */
  async replay(): Promise<void> {
    for (const handle of this.workflows) {
      const history = await handle.fetchHistory();
      // A replay of a run that has not done anything does not end.
      if (history.events?.some(({ workflowTaskCompletedEventAttributes: completed }) => completed)) {
        await Worker.runReplayHistory({ workflowBundle: this.theatre.bundle }, history, handle.workflowId);
      }
      if ((await handle.describe()).status.name === 'RUNNING') {
        await handle.terminate('the test is over');
      }
    }
  }

  async start<W extends Workflow>(workflow: W, ...args: Parameters<W>): Promise<WorkflowHandle<W>> {
    const workflowId = `${this.pool} ${this.workflows.length}`;
    const options = { args, workflowId, taskQueue: this.pool } as unknown as Parameters<typeof begin>[1];
    const { workflow: client } = this.theatre.client;
    const begin = client.start.bind(client);
    const handle = await begin(workflow as Workflow, options);
    this.workflows.push(handle as WorkflowHandle);
    return handle as unknown as WorkflowHandle<W>;
  }

  /** One that holds. */
  async startHolder(ask: workflows.Ask): Promise<[WorkflowHandle<typeof workflows.uses>, workflows.Held]> {
    const handle = await this.start(workflows.uses, ask);
    return [handle, await this.holdsNow(handle)];
  }

  async holdsNow(handle: WorkflowHandle<typeof workflows.uses>): Promise<workflows.Held> {
    const held = await this.until('it holds', () => handle.query(workflows.now));
    assert(held);
    return held;
  }

  /** One that waits. */
  async startWaiter(ask: workflows.Ask, place = 1): Promise<WorkflowHandle<typeof workflows.uses>> {
    const handle = await this.start(workflows.uses, ask);
    await this.untilWaiting(place);
    return handle;
  }

  async untilWaiting(count: number): Promise<void> {
    await this.until(`${count} wait`, async () => (await this.queue()).length === count);
  }

  async untilCancelled(handle: WorkflowHandle<typeof workflows.uses>): Promise<void> {
    await this.until('it was cancelled', () => handle.query(workflows.cancelled));
  }

  /** And its workflow could know, if there were a worker. */
  async untilGranted(handle: WorkflowHandle<typeof workflows.uses>): Promise<void> {
    await this.until('it was granted', async () => {
      const { events } = await handle.fetchHistory();
      return events?.some(({ activityTaskCompletedEventAttributes: completed }) => completed);
    });
    assert.deepEqual((await this.holds()).map(({ holder }) => holder), [handle.workflowId]);
  }

  async until<T>(what: string, look: () => Promise<T>): Promise<T> {
    for (const end = Date.now() + PATIENCE; Date.now() < end; ) {
      const seen = await look();
      if (seen) {
        return seen;
      }
      await setTimeout(20);
    }
    return assert.fail(`not within ${PATIENCE} ms: ${what}`);
  }

  /** The whole pool, by somebody who has nothing to do with Temporal. */
  async take(): Promise<{ key: string }> {
    const body = { pool: this.pool, holder: 'operator', lifetime: 'kept', all: true };
    return (await this.api('POST', 'acquire', body)) as { key: string };
  }

  async giveBack({ key }: { key: string }): Promise<void> {
    await this.api('POST', 'release', { key });
  }

  async force(holder: string, token: number): Promise<void> {
    await this.api('POST', 'force-release', { pool: this.pool, holder, token, reason: 'a test' });
  }

  async setResources(...resources: object[]): Promise<void> {
    await this.api('PUT', `pools/${encodeURIComponent(this.pool)}`, { resources });
  }

  async holds(): Promise<Shown[]> {
    const { holds = [] } = await this.api('GET', `holds?pool=${encodeURIComponent(this.pool)}`);
    return holds as Shown[];
  }

  async queue(): Promise<unknown[]> {
    const { waiters = [] } = await this.api('GET', `pools/${encodeURIComponent(this.pool)}/queue`);
    return waiters as unknown[];
  }

  async history(wanted: string): Promise<Event[]> {
    const { events } = await this.api('GET', `history?pool=${encodeURIComponent(this.pool)}&limit=1000`);
    return (events as Event[]).filter(({ kind }) => kind === wanted);
  }

  async assertReleased(): Promise<void> {
    assert.deepEqual(await this.holds(), []);
    assert.equal((await this.history('ended')).at(-1)?.how, 'released');
  }

  async api(method: string, path: string, body?: object): Promise<Record<string, unknown>> {
    const asked = body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
    const answer = await fetch(`${told('TENURE_API')}/api/v1/${path}`, { method, ...asked });
    const said = (await answer.json()) as Record<string, unknown> & { error?: { code: string } };
    // A pool comes to be with its first request.
    if (said.error && said.error.code !== 'unknown_pool') {
      assert.fail(JSON.stringify(said.error));
    }
    return said;
  }
}

function told(name: string): string {
  return process.env[name] ?? assert.fail(`${name} is not set`);
}
