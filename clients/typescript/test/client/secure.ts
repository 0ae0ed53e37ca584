/**
 * At the door of a server that wants a password and a client's certificate. `SERVER`, `PASSWORD` and `FOLDER`, which has the
 * certificates, are set by the test that starts it.
 */

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { inspect } from 'node:util';

import { Client, type ClientOptions, TenureError, Unauthenticated, Unreachable, Unusable } from 'tenure';

import { fails } from './server.js';

const { SERVER = '', PASSWORD = '', FOLDER = '' } = process.env;
const CA = join(FOLDER, 'ca.crt');
const IDENTITY = [join(FOLDER, 'client.crt'), join(FOLDER, 'client.key')] as const;
const FILES: ClientOptions = { tlsCaFile: CA, tlsIdentityFiles: IDENTITY };
const FULL: ClientOptions = { password: PASSWORD, ...FILES };

async function letIn(address: string, options: ClientOptions): Promise<void> {
  await using client = new Client(address, options);
  await client.withHold('db', async ({ token }) => assert.equal((await client.leader('db'))?.token, token));
}

/** By the session, and by the calls beside it. */
async function keptOut(
  kind: abstract new (...given: never[]) => TenureError,
  words: string,
  address: string,
  options: ClientOptions,
): Promise<void> {
  for (const inSession of [true, false]) {
    const client = new Client(address, options);
    const error = await fails(kind, inSession ? client.connect() : client.api.listPools({}));
    assert(error.message.includes(words), `${error.message} does not say: ${words}`);
    assert(!inspect(error).includes(PASSWORD) && !inspect(client).includes(PASSWORD));
    await client.close();
  }
}

await letIn(SERVER, FULL);
await letIn(`https://${SERVER}`, FULL);
const contents = [readFileSync(IDENTITY[0]), readFileSync(IDENTITY[1], 'utf8')] as const;
await letIn(SERVER, { password: PASSWORD, tlsCa: readFileSync(CA, 'utf8'), tlsIdentity: contents });

const written = join(FOLDER, 'password');
writeFileSync(written, `${PASSWORD}\n`);
await letIn(SERVER, { passwordFile: written, ...FILES });
writeFileSync(written, 'wrong');
await keptOut(Unauthenticated, 'invalid credentials', SERVER, { passwordFile: written, ...FILES });
writeFileSync(written, '\n');
await keptOut(Unusable, `there is no password in ${written}`, SERVER, { passwordFile: written, ...FILES });

await keptOut(Unauthenticated, 'missing credentials', SERVER, FILES);
await keptOut(Unusable, 'characters that cannot be sent', SERVER, { ...FULL, password: 'two\nlines' });
await keptOut(Unusable, 'PEM', SERVER, { ...FULL, tlsCaFile: written });
await keptOut(Unusable, 'cannot be read', SERVER, { ...FULL, tlsCaFile: join(FOLDER, 'nothing') });
await keptOut(Unusable, 'client certificate', SERVER, { ...FULL, tlsIdentityFiles: [IDENTITY[0], CA] });
await keptOut(Unreachable, 'no authority that is trusted here', SERVER, { ...FULL, tlsCaFile: join(FOLDER, 'clients.crt') });
await keptOut(Unreachable, 'client certificate', SERVER, { password: PASSWORD, tlsCaFile: CA });
await keptOut(TenureError, 'https://', `http://${SERVER}`, { password: PASSWORD });
console.log('all is as it should be');
