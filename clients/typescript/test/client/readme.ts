/** Runs the programs of the README against the server at `SERVER`, and sees that they do what it says. */

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { Client, ClosedError } from 'tenure';
import { StaleToken } from 'tenure/fencing';
import typescript from 'typescript';

import { holders, soon, until, waiters } from './server.js';

const { SERVER = '' } = process.env;
const PACKAGE = join(dirname(fileURLToPath(import.meta.url)), '../..');
const README = readFileSync(join(PACKAGE, 'README.md'), 'utf8');
const PROGRAMS = new Map(
  [...README.matchAll(/<!-- runs: (.+?) -->\n```ts\n(.+?)```/gs)].map(([, name = '', program = '']) => [name, program]),
);
// Within the package, so that `tenure` is found.
const FOLDER = mkdtempSync(join(PACKAGE, 'lib-test', 'readme-'));

interface Program extends Record<string, unknown> {
  client: Client;
}

/** Runs it with what it leaves to the reader; what it exports, and its client. */
async function program(name: string, around: Record<string, unknown>, file = name): Promise<Program> {
  const source = PROGRAMS.get(name);
  assert(source, `${name} is not in the README`);
  Object.assign(globalThis, around);
  const exported = source.includes('export ') && source.includes('const client') ? '\nexport { client };\n' : '';
  const { outputText } = typescript.transpileModule(source.replaceAll('127.0.0.1:3144', SERVER) + exported, {
    compilerOptions: { target: typescript.ScriptTarget.ES2022, module: typescript.ModuleKind.ESNext },
  });
  const path = join(FOLDER, `${file.replaceAll(' ', '-')}.mjs`);
  writeFileSync(path, outputText);
  return (await import(pathToFileURL(path).href)) as Program;
}

const looker = new Client(SERVER, { holder: 'worker-7' });

async function writesItsReport(name: string): Promise<void> {
  const written: [number, string[]][] = [];
  const writeReport = async (token: number, signal: AbortSignal) => {
    assert.equal(signal.aborted, false);
    written.push([token, await holders(looker, 'nightly-report')]);
  };
  await program(name, { writeReport });
  assert.deepEqual([written.length, written[0]?.[1].length], [1, 1]);
  assert.deepEqual(await holders(looker, 'nightly-report'), []);
}

const CHECKS: Record<string, () => Promise<void>> = {
  function: () => writesItsReport('function'),
  block: () => writesItsReport('block'),

  async failover() {
    const terms: number[] = [];
    let stop = () => undefined as void;
    const mayStop = new Promise<void>((resolve) => (stop = resolve));
    const processNextOrder = async (token: number) => {
      terms.push(token);
      await mayStop;
      throw new RangeError('it stops');
    };
    const one = await program('failover', { processNextOrder });
    const other = await program('failover', { processNextOrder }, 'failover again');
    const serve = ({ serve: run }: Program) => assert.rejects((run as () => Promise<void>)(), RangeError);
    const first = serve(one);
    await until('one leads', () => terms.length === 1);
    const second = serve(other);
    await until('the other waits', async () => (await waiters(looker, 'orders-primary')).length > 0);
    assert.equal(terms.length, 1);
    stop();
    await soon('both are done', Promise.all([first, second]));
    const [before = 0, after = 0] = terms;
    assert.equal(terms.length as number, 2);
    assert(before < after);
    await Promise.all([one.client.close(), other.client.close()]);
  },

  async 'task lock'() {
    const written: number[] = [];
    const { nightlyReport, client } = await program('task lock', { writeReport: (token: number) => void written.push(token) });
    const run = nightlyReport as () => Promise<void>;
    const [said, log]: [string[], typeof console.log] = [[], console.log];
    console.log = (text: string) => said.push(text);
    await looker.withHold('nightly-report', run).finally(() => (console.log = log));
    assert.deepEqual([written, said], [[], ['worker-7 does it']]);
    await run();
    assert.equal(written.length, 1);
    await client.close();
  },

  async 'utilisation limit'() {
    let [inside, most] = [0, 0];
    const together: (() => void)[] = [];
    const resized = async (image: string) => {
      inside += 1;
      most = Math.max(most, inside);
      // All three that may are in it at the same time.
      await new Promise<void>((resolve) => {
        together.push(resolve);
        if (together.length === 3) {
          together.splice(0).forEach((go) => go());
        }
      });
      inside -= 1;
      return image.toUpperCase();
    };
    const { resize, client } = await program('utilisation limit', { resized });
    const results = [...'abcdef'].map((image) => (resize as (image: string) => Promise<string>)(image));
    assert.deepEqual(await soon('all are done', Promise.all(results)), [...'ABCDEF']);
    assert.equal(most, 3);
    await client.close();
  },

  async 'client-side rate limit'() {
    const answered: string[] = [];
    const partnerAnswers = (request: string) => {
      answered.push(request);
      return request.toUpperCase();
    };
    const { callPartner, client } = await program('client-side rate limit', { partnerAnswers });
    const call = callPartner as (request: string) => Promise<string>;
    for (let number = 0; number < 30; number += 1) {
      assert.equal(await call(`${number}a`), `${number}A`);
    }
    const late = assert.rejects(call('late'), ClosedError);
    await until('one more waits', async () => (await waiters(looker, 'partner-api')).length > 0);
    // It would wait for most of a minute.
    await client.close();
    await soon('it is told', late);
    assert(!answered.includes('late'));
  },

  async 'server-side rate limit'() {
    const { handle, client } = await program('server-side rate limit', {});
    const ask = handle as (user: string) => Promise<number>;
    // In any second, so a slow machine may let more through.
    let tries = 0;
    while ((await ask('alice')) !== 429) {
      tries += 1;
      assert(tries < 1_000, 'a thousand requests were let through');
    }
    assert.equal(await ask('bob'), 200);
    await client.close();
  },

  async 'several at once'() {
    const trained: string[][] = [];
    const trainOn = (machines: string[]) => trained.push(machines);
    const machines = Object.entries({ a: '80', b: '40', c: '96' });
    await looker.setPool('gpus', { resources: machines.map(([name, mem]) => ({ name, labels: { mem } })) });
    await looker.setPool('api-calls', { units: 100, window: '1m' });
    const { train, client } = await program('several at once', { trainOn });
    await (train as () => Promise<void>)();
    assert.deepEqual(trained, [['a', 'c']]);
    assert.deepEqual(await holders(looker, 'gpus'), []);
    await client.close();
  },

  async fencing() {
    const stored: string[] = [];
    const { write } = await program('fencing', { store: (report: string) => stored.push(report) });
    const put = write as (report: string, token: number) => void;
    put('one', 1);
    put('two', 2);
    assert.throws(() => put('late', 1), StaleToken);
    assert.deepEqual(stored, ['one', 'two']);
  },
};

try {
  for (const [name, check] of Object.entries(CHECKS)) {
    await check();
    console.log(`${name}: as it says`);
  }
  assert.deepEqual([...PROGRAMS.keys()].sort(), Object.keys(CHECKS).sort());
} finally {
  rmSync(FOLDER, { recursive: true });
  await looker.close();
}
