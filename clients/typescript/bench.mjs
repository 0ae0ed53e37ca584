// How many holds a second: clients x tasks, each of which takes and gives back a mutex of its own. Prints one number.
//
//     node clients/typescript/bench.mjs 127.0.0.1:3144 [--clients 4] [--tasks 64] [--seconds 5]

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
const begun = performance.now();
const end = begun + Number(values.seconds) * 1_000;

async function work(client, pool) {
  while (performance.now() < end) {
    const hold = await client.hold(pool);
    count += 1;
    await hold.release();
  }
}

await Promise.all(clients.flatMap((client, one) => numbers(values.tasks).map((task) => work(client, `bench-${one}-${task}`))));
const rate = count / ((performance.now() - begun) / 1_000);
await Promise.all(clients.map((client) => client.close()));
console.log(Math.round(rate));
