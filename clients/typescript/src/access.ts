/** How to be let in: the password, and the certificates of TLS. */

import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { createSecureContext } from 'node:tls';

import { type ChannelCredentials, Metadata, credentials } from '@grpc/grpc-js';

import { Unusable } from './errors.js';
import type { ClientOptions } from './options.js';

/** What it is, or the file in which it is, which is read for every connection that is made. */
type Source = { readonly value: Buffer } | { readonly file: string };

/** What is shown at the server's door. */
export interface Papers {
  readonly metadata: Metadata;
  readonly credentials: ChannelCredentials;
}

export class Access {
  readonly #password: Source | undefined;
  readonly #ca: Source | undefined;
  readonly #identity: readonly [Source, Source] | undefined;

  constructor(options: ClientOptions) {
    const { password, passwordFile, tlsCa, tlsCaFile, tlsIdentity, tlsIdentityFiles } = options;
    this.#password = source(password, passwordFile);
    this.#ca = source(tlsCa, tlsCaFile);
    if (tlsIdentity !== undefined) {
      this.#identity = [{ value: Buffer.from(tlsIdentity[0]) }, { value: Buffer.from(tlsIdentity[1]) }];
    } else if (tlsIdentityFiles !== undefined) {
      this.#identity = [{ file: resolve(tlsIdentityFiles[0]) }, { file: resolve(tlsIdentityFiles[1]) }];
    }
  }

  /** Whether something was said that only TLS has a use for. */
  get wantsTls(): boolean {
    return this.#ca !== undefined || this.#identity !== undefined;
  }

  get hasIdentity(): boolean {
    return this.#identity !== undefined;
  }

  /** What the sources have now. */
  async papers(tls: boolean): Promise<Papers> {
    const metadata = new Metadata();
    if (this.#password !== undefined) {
      metadata.set('authorization', await readPassword(this.#password));
    }
    return { metadata, credentials: tls ? await this.#tls() : credentials.createInsecure() };
  }

  async #tls(): Promise<ChannelCredentials> {
    const ca = this.#ca === undefined ? null : await read(this.#ca);
    const [cert, key] =
      this.#identity === undefined
        ? [null, null]
        : [await read(this.#identity[0]), await read(this.#identity[1])];
    if (ca !== null) {
      fits(() => createSecureContext({ ca }), `the authority's certificate${origin(this.#ca)} is not in PEM form`);
      if (!ca.includes('-----BEGIN')) {
        throw new Unusable(`the authority's certificate${origin(this.#ca)} is not in PEM form`);
      }
    }
    if (cert !== null && key !== null) {
      const why = 'the client certificate does not go with its key, or is not in PEM form';
      fits(() => createSecureContext({ cert, key }), `${why}${origin(this.#identity?.[0])}`);
    }
    return credentials.createSsl(ca, key, cert);
  }
}

function fits(make: () => unknown, why: string): void {
  try {
    make();
  } catch (cause) {
    throw new Unusable(why, { cause });
  }
}

function source(value: string | Uint8Array | undefined, file: string | undefined): Source | undefined {
  if (value !== undefined) {
    return { value: Buffer.from(value as string) };
  }
  // It is read again later, wherever the process works then.
  return file === undefined ? undefined : { file: resolve(file) };
}

async function read(from: Source): Promise<Buffer> {
  if ('value' in from) {
    return from.value;
  }
  try {
    return await readFile(from.file);
  } catch (cause) {
    throw new Unusable(`${from.file} cannot be read: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}

async function readPassword(from: Source): Promise<string> {
  let password = (await read(from)).toString('latin1');
  if ('file' in from) {
    // Editors end a file with a line's end.
    password = password.replace(/\r?\n$/, '');
    if (password === '') {
      // Whoever replaces it may be in the middle of it.
      throw new Unusable(`there is no password in ${from.file}`);
    }
  }
  if (!/^[\x20-\x7e]+$/.test(password)) {
    throw new Unusable(`the password${origin(from)} has characters that cannot be sent`);
  }
  return password;
}

/** To be said after what it is. */
function origin(from: Source | undefined): string {
  return from !== undefined && 'file' in from ? ` in ${from.file}` : '';
}
