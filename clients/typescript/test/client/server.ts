/**
 * The real server as a child process, and a door in front of it, so that it can be killed and started again where its clients
 * look for it. `TENURE_PROGRAM` is the program.
 */

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, type Socket, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

import { Client, Refused, type wire } from 'tenure';

/** Milliseconds that a slow machine may take for what happens at once. */
export const PATIENCE = 60_000;

/** `tenure serve` on ports that the system chooses. One that is durable may be killed and started again. */
export class Server {
  grpc = '';
  http = '';
  #process: ChildProcess | undefined;

  private constructor(
    private readonly data: string,
    private readonly options: readonly string[],
    readonly door: Door,
  ) {}

  static async start({ durable = false }: { durable?: boolean } = {}): Promise<Server> {
    const data = await mkdtemp(join(tmpdir(), 'tenure-'));
    const server = new Server(data, durable ? [] : ['--durability', 'memory'], await Door.open());
    await server.start();
    return server;
  }

  /** That of the door, which stays the same. */
  get address(): string {
    return this.door.address;
  }

  async start(): Promise<void> {
    const program = process.env.TENURE_PROGRAM;
    assert(program, 'TENURE_PROGRAM is not set');
    const listen = ['--grpc', '127.0.0.1:0', '--http', '127.0.0.1:0', '--data', this.data];
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('TENURE_')));
    const child = spawn(program, ['serve', ...listen, ...this.options], { env, stdio: ['ignore', 'pipe', 'inherit'] });
    this.#process = child;
    const said = new Map<string, string>();
    for await (const line of createInterface(child.stdout)) {
      const [what, address] = line.split(' ');
      said.set(what ?? '', address ?? '');
      if (said.has('http')) {
        break;
      }
    }
    this.grpc = said.get('grpc') ?? '';
    this.http = said.get('http') ?? '';
    assert(this.grpc && this.http, 'the server ended before it said where it listens');
    // So that it can go on writing.
    child.stdout.resume();
    this.door.leadsTo(this.grpc);
  }

  async kill(politely = false): Promise<void> {
    const child = this.#process;
    if (child !== undefined) {
      this.#process = undefined;
      const gone = once(child, 'exit');
      child.kill(politely ? 'SIGTERM' : 'SIGKILL');
      await gone;
    }
  }

  async restart(politely = false): Promise<void> {
    await this.kill(politely);
    await this.start();
  }

  async close(): Promise<void> {
    await this.kill();
    this.door.close();
    await rm(this.data, { recursive: true, force: true });
  }
}

/** An address that passes on to a server, or to nobody. */
export class Door {
  #server: string | undefined;
  #open: Socket[] = [];
  readonly #listener = createServer((client) => this.#knock(client));

  static async open(server?: string): Promise<Door> {
    const door = new Door();
    door.#server = server;
    door.#listener.listen(0, '127.0.0.1');
    await once(door.#listener, 'listening');
    return door;
  }

  get address(): string {
    return `127.0.0.1:${(this.#listener.address() as AddressInfo).port}`;
  }

  /** Whoever knocks from now on gets to this server; with undefined, is hung up on. */
  leadsTo(server: string | undefined): void {
    this.#server = server;
  }

  get isOpen(): boolean {
    return this.#server !== undefined;
  }

  /** Ends all connections there are. */
  cut(): void {
    for (const socket of this.#open.splice(0)) {
      socket.destroy();
    }
  }

  close(): void {
    this.leadsTo(undefined);
    this.#listener.close();
    this.cut();
  }

  #knock(client: Socket): void {
    if (this.#server === undefined) {
      client.destroy();
      return;
    }
    const [host = '', port] = this.#server.split(':');
    const inner = connect(Number(port), host);
    this.#open.push(client, inner);
    for (const [one, other] of [
      [client, inner],
      [inner, client],
    ] as const) {
      one.setNoDelay(true);
      one.pipe(other);
      one.on('error', () => undefined);
      one.on('close', () => other.destroy());
    }
  }
}

/** Waits until it is so, and fails if that takes absurdly long. */
export async function until(what: string, condition: () => unknown): Promise<void> {
  const begun = performance.now();
  while (!(await condition())) {
    assert(performance.now() < begun + PATIENCE, `it does not come about that ${what}`);
    await sleep(10);
  }
}

/** What it comes to, or a failure if that takes absurdly long. */
export async function soon<Result>(what: string, promise: Promise<Result>): Promise<Result> {
  const late = new AbortController();
  const never = sleep(PATIENCE, undefined, late).then(() => assert.fail(`it does not come about that ${what}`));
  never.catch(() => undefined);
  try {
    return await Promise.race([promise, never]);
  } finally {
    late.abort();
  }
}

/** The reason of a signal, once it is aborted. */
export async function aborted(signal: AbortSignal): Promise<unknown> {
  if (!signal.aborted) {
    await soon('the signal is aborted', once(signal, 'abort'));
  }
  return signal.reason;
}

/** The error that something fails with, which must be of this kind. */
export async function fails<Kind extends Error>(
  kind: abstract new (...given: never[]) => Kind,
  promise: Promise<unknown>,
): Promise<Kind> {
  const error: unknown = await promise.then(
    () => assert.fail(`it did not fail with ${kind.name}`),
    (reason: unknown) => reason,
  );
  assert(error instanceof kind, String(error));
  return error;
}

/** A pool of this test alone. */
export function name(what: string): string {
  return `${what} ${randomUUID()}`;
}

export async function holds(client: Client, pool: string): Promise<wire.Hold[]> {
  return unlessUnknown(async () => (await client.api.listHolds({ pool })).holds);
}

export async function holders(client: Client, pool: string): Promise<string[]> {
  return (await holds(client, pool)).map((hold) => hold.holder);
}

/** Those whose client is there. */
export async function waiters(client: Client, pool: string): Promise<string[]> {
  const queue = await unlessUnknown(async () => (await client.api.listQueue({ pool })).waiters);
  return queue.filter((waiter) => waiter.position !== undefined).map((waiter) => waiter.holder);
}

/** Of a hold as an operator sees it. */
export async function force(client: Client, pool: string, holder: string, token: number): Promise<void> {
  await client.api.forceRelease({ pool, holder, token, reason: 'moving house' });
}

/** A pool that nobody has asked for does not exist. */
async function unlessUnknown<Item>(list: () => Promise<Item[]>): Promise<Item[]> {
  try {
    return await list();
  } catch (error) {
    assert(error instanceof Refused && error.code === 'unknown_pool', String(error));
    return [];
  }
}
