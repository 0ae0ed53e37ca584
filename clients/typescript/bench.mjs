// How many holds a second: clients x tasks, each of which takes and gives back a mutex of its own. Prints one number.
//
//     node clients/typescript/bench.mjs 127.0.0.1:3144 [--clients 4] [--tasks 64] [--seconds 5]
//
// `cargo xtask bench clients` runs it beside the clients in other languages.

import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { Client } from './lib/index.js';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    clients: { type: 'string', default: '4' },
    tasks: { type: 'string', default: '64' },
    seconds: { type: 'string', default: '5' },
  },
});
const [address] = positionals;
if (address === undefined) {
  console.error('usage: node bench.mjs ADDRESS [--clients 4] [--tasks 64] [--seconds 5]');
  process.exit(2);
}

const numbers = (count) => [...Array(Number(count)).keys()];
const clients = await Promise.all(numbers(values.clients).map(() => new Client(address).connect()));
let count = 0;
let over = false;

async function work(client, pool) {
  while (!over) {
    const hold = await client.hold(pool);
    await hold.release();
    count += 1;
  }
}

const working = clients.flatMap((client, one) => numbers(values.tasks).map((task) => work(client, `bench-${one}-${task}`)));
const seconds = Number(values.seconds);
// Until everything has been used once, and is warm.
await sleep((seconds / 4) * 1_000);
const [before, begun] = [count, performance.now()];
await sleep(seconds * 1_000);
const rate = (count - before) / ((performance.now() - begun) / 1_000);
over = true;
await Promise.all(working);
await Promise.all(clients.map((client) => client.close()));
console.log(Math.round(rate));
