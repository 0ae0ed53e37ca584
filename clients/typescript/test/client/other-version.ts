/** A server of another version: the real one, behind somebody who says more than it does, or knows less. */

import { once } from 'node:events';
import { type ServerHttp2Stream, connect, createServer } from 'node:http2';
import type { AddressInfo } from 'node:net';

import { ServerAnswer, ServerMessage } from '../../lib/wire.js';

export type Change = (call: string, message: Buffer) => Buffer;

/** Passes calls on to a server and changes what it answers; does not know the calls in `unknown`. */
export class OtherVersion {
  readonly #server = createServer();

  private constructor(
    private readonly behind: string,
    private readonly version: string,
    private readonly unknown: readonly string[],
    private readonly change: Change,
  ) {
    this.#server.on('stream', (stream, headers) => this.#carry(stream, String(headers[':path'])));
  }

  static async start(
    behind: string,
    version: string,
    { unknown = [], change = (_, message) => message }: { unknown?: string[]; change?: Change },
  ): Promise<OtherVersion> {
    const other = new OtherVersion(behind, version, unknown, change);
    other.#server.listen(0, '127.0.0.1');
    await once(other.#server, 'listening');
    return other;
  }

  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.close();
  }

  #carry(stream: ServerHttp2Stream, path: string): void {
    const call = path.split('/').at(-1) ?? '';
    const head = { ':status': 200, 'content-type': 'application/grpc', server: `tenure/${this.version}` };
    stream.on('error', () => undefined);
    if (this.unknown.includes(call)) {
      stream.respond({ ...head, 'grpc-status': 12 }, { endStream: true });
      return;
    }
    const session = connect(`http://${this.behind}`);
    const inner = session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
    });
    for (const each of [session, inner]) {
      each.on('error', () => stream.destroy());
    }
    stream.on('close', () => session.destroy());
    stream.pipe(inner);
    let status: Record<string, string> = { 'grpc-status': '0' };
    const take = (headers: Record<string, unknown>) => {
      const named = Object.entries(headers).filter(([name]) => name.startsWith('grpc-'));
      status = named.length > 0 ? Object.fromEntries(named.map(([name, value]) => [name, String(value)])) : status;
    };
    stream.respond(head, { waitForTrailers: true });
    inner.on('response', take);
    inner.on('trailers', take);
    stream.on('wantTrailers', () => stream.sendTrailers(status));
    let heard = Buffer.alloc(0);
    inner.on('data', (data: Buffer) => {
      heard = Buffer.concat([heard, data]);
      while (heard.length >= 5 && heard.length >= 5 + heard.readUInt32BE(1)) {
        const length = heard.readUInt32BE(1);
        const changed = this.change(call, heard.subarray(5, 5 + length));
        const prefix = Buffer.alloc(5);
        prefix.writeUInt32BE(changed.length, 1);
        stream.write(Buffer.concat([prefix, changed]));
        heard = heard.subarray(5 + length);
      }
    });
    inner.on('end', () => stream.end());
  }
}

/** What a server of the future may say: unknown fields everywhere, and answers of an unknown kind. */
export function newer(call: string, message: Buffer): Buffer {
  if (call !== 'Session') {
    return withUnknownFields(message);
  }
  const parts: Buffer[] = [];
  for (const answer of ServerMessage.decode(message).answers) {
    // To the same request, and to one that nobody made: an answer of a kind that is not known.
    for (const id of [answer.id, 2 ** 40]) {
      parts.push(field(1, Buffer.concat([ServerAnswer.encode({ id }), field(900, Buffer.alloc(0))])));
    }
    parts.push(field(1, withUnknownFields(ServerAnswer.encode(answer))));
  }
  return withUnknownFields(Buffer.concat(parts));
}

/** The message with a number, a text and numbers of fixed length in fields that nobody knows. */
function withUnknownFields(message: Buffer): Buffer {
  const fixed = Buffer.concat([varint(4_002 * 8 + 5), Buffer.alloc(4), varint(4_003 * 8 + 1), Buffer.alloc(8)]);
  return Buffer.concat([message, varint(4_000 * 8), varint(7), field(4_001, Buffer.from('new')), fixed]);
}

function field(number: number, bytes: Buffer): Buffer {
  return Buffer.concat([varint(number * 8 + 2), varint(bytes.length), bytes]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  for (; value > 127; value = Math.floor(value / 128)) {
    bytes.push((value % 128) + 128);
  }
  return Buffer.from([...bytes, value]);
}
