/** A connection to the server, the stream and the calls on it; and, when there is none, why in words. */

import { connect } from 'node:net';

import {
  Client as GrpcClient,
  type ClientDuplexStream,
  type ClientReadableStream,
  type Metadata,
  type ServiceError,
  status,
} from '@grpc/grpc-js';

import type { Access } from './access.js';
import { type Address, PORT_DEFAULT } from './address.js';
import { type Init, type Type, message } from './codec.js';
import { ForeignServer, TenureError, Unauthenticated, Unreachable, refused } from './errors.js';
import { VERSION } from './version.js';
import { Refusal, ServerMessage } from './wire.js';

const SERVICE = '/tenure.v1.Tenure/';
/** Whoever has something to say says it at once. */
const PROBE_PATIENCE = 1_000;
/** How an HTTP/2 client begins: its preface, and settings that are empty. */
const GREETING = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0', 'latin1');
const NOT_GRPC = `it speaks HTTP and not gRPC; a server listens for gRPC on another port than for HTTP, by default ${PORT_DEFAULT}`;
/** Said by gRPC libraries and proxies on the way, or of the connection's end. */
const PASSING = [
  status.UNAVAILABLE,
  status.DEADLINE_EXCEEDED,
  status.CANCELLED,
  status.RESOURCE_EXHAUSTED,
  status.UNKNOWN,
  status.INTERNAL,
];

const OPTIONS = {
  'grpc.primary_user_agent': `tenure-typescript/${VERSION}`,
  // A connection of its own, with what the files have now; and who tries again is decided here.
  'grpc.use_local_subchannel_pool': 1,
  'grpc.enable_retries': 0,
  'grpc.service_config_disable_resolution': 1,
  'grpc.enable_http_proxy': 0,
  'grpc.max_receive_message_length': -1,
};

export type Stream = ClientDuplexStream<Buffer, ServerMessage>;

/** As much of a `google.rpc.Status` as is of use here: a detail is read as if it were ours. */
interface Detail {
  typeUrl: string;
  value?: Refusal;
}
const Detail = message<Detail>([
  [1, 'typeUrl', 'string', ''],
  [2, 'value', 'message', '', () => Refusal],
]);
const Status = message<{ details: Detail[] }>([[3, 'details', 'message', 'repeated', () => Detail]]);

/** A server: where it is, and how to be let in. */
export class Target {
  constructor(
    readonly address: Address,
    readonly access: Access,
    readonly connectTimeout: number,
  ) {}

  get tls(): boolean {
    return this.address.tls ?? this.access.wantsTls;
  }

  /** A connection with what the files have now; it is made with the first call. */
  async line(): Promise<Line> {
    const { metadata, credentials } = await this.access.papers(this.tls);
    const { host, port } = this.address;
    const target = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
    return new Line(this, new GrpcClient(target, credentials, OPTIONS), metadata);
  }

  unreachable(why: string, cause?: unknown): Unreachable {
    return new Unreachable(this.address.given, why, { cause });
  }

  /** What a failure means; of the first call after a look at who is there. `server` is what the server calls itself. */
  async diagnose(error: unknown, server: string | undefined, first = true): Promise<TenureError> {
    const found = this.#meaning(error, server);
    if (!first || !(found instanceof Unreachable) || !isStatus(error) || error.code !== status.UNAVAILABLE) {
      return found;
    }
    if (this.tls || /refused|timed out|name is not known/.test(found.why)) {
      return found;
    }
    const stranger = await this.#stranger();
    return stranger === undefined ? found : new ForeignServer(this.address.given, stranger, { cause: error });
  }

  #meaning(error: unknown, server: string | undefined): TenureError {
    const { given } = this.address;
    if (error instanceof TenureError) {
      return error;
    }
    if (!isStatus(error)) {
      return this.unreachable(error instanceof Error ? error.message : String(error), error);
    }
    const options = { cause: error };
    const refusal = refusalIn(error);
    if (refusal !== undefined) {
      return refused(refusal, options);
    }
    const said = error.details || `status ${error.code}`;
    const named = server ?? serverIn(error.metadata);
    const version = named?.startsWith('tenure/') ? named.slice('tenure/'.length) : undefined;
    const isCredentials = ['missing credentials', 'invalid credentials'].includes(error.details);
    if (error.code === status.UNAUTHENTICATED && (version !== undefined || isCredentials)) {
      return new Unauthenticated(given, said, options);
    }
    if (/^Received HTTP status code/.test(said) && error.code !== status.UNAVAILABLE) {
      return new ForeignServer(given, `${NOT_GRPC} (${said.toLowerCase()})`, options);
    }
    if (error.code === status.UNIMPLEMENTED) {
      const why =
        version === undefined
          ? `it does not know this call (${said})`
          : `it has version ${version} and does not know this call, this client has version ${VERSION}`;
      return new ForeignServer(given, why, options);
    }
    if (PASSING.includes(error.code)) {
      return this.unreachable(this.#reason(said), error);
    }
    return new ForeignServer(given, `it answers with status ${error.code}: ${said}`, options);
  }

  /** In words, instead of those of the libraries below. */
  #reason(said: string): string {
    const words: [RegExp, string][] = [
      [/ECONNREFUSED/, 'nothing listens there (connection refused)'],
      [/ENOTFOUND|EAI_AGAIN|Name resolution failed/, 'its name is not known'],
      [/ETIMEDOUT|Deadline exceeded/i, 'it does not answer (timed out)'],
      [/certificate has expired/, 'its certificate has expired'],
      [/self.signed|unable to (get|verify)/, 'no authority that is trusted here has signed its certificate'],
      [/does not match certificate|ERR_TLS_CERT_ALTNAME/, 'its certificate is for another name than the address'],
      [/certificate required|handshake failure/i, 'it wants to see a client certificate'],
      [/unknown ca|bad certificate|certificate unknown/i, 'it does not accept the client certificate'],
      [/wrong version number|packet length too long|record layer/i, 'it does not speak TLS; write http://host:port'],
    ];
    const known = words.find(([pattern]) => pattern.test(said));
    if (known !== undefined) {
      return known[1];
    }
    if (this.tls) {
      // A server of TLS 1.3 looks at our certificate when we believe to be through already; what it says then is often lost.
      const may = this.access.hasIdentity ? 'not accept the client certificate' : 'want to see a client certificate';
      return `the connection broke (${said}); it may ${may}`;
    }
    return said.replace(/^No connection established\. Last error: /, '').replace(/ \(\d{4}-\d\d-\d\dT.*$/, '');
  }

  /** What the server is, unless it speaks HTTP/2 or says nothing. */
  #stranger(): Promise<string | undefined> {
    const { host, port } = this.address;
    return new Promise((resolve) => {
      const socket = connect({ host, port }, () => socket.write(GREETING));
      const done = (what?: string) => {
        clearTimeout(timer);
        socket.destroy();
        resolve(what);
      };
      const timer = setTimeout(done, PROBE_PATIENCE);
      socket.once('data', (heard) => done(recognise(heard)));
      socket.once('error', () => done());
      socket.once('close', () => done());
    });
  }
}

/** One connection, and what is said on it with every call. */
export class Line {
  constructor(
    readonly target: Target,
    readonly client: GrpcClient,
    readonly metadata: Metadata,
  ) {}

  session(): Stream {
    return this.client.makeBidiStreamRequest(`${SERVICE}Session`, same, ServerMessage.decode, this.metadata);
  }

  stream<Question, Answer>(
    name: string,
    request: Init<Question>,
    question: Type<Question>,
    answer: Type<Answer>,
  ): ClientReadableStream<Answer> {
    const path = `${SERVICE}${name}`;
    const bytes = question.encode(request);
    return this.client.makeServerStreamRequest(path, same, answer.decode, bytes, this.metadata);
  }

  async call<Question, Answer>(
    name: string,
    request: Init<Question>,
    question: Type<Question>,
    answer: Type<Answer>,
    { signal, patience }: { signal?: AbortSignal | undefined; patience?: number | undefined },
  ): Promise<Answer> {
    let server: string | undefined;
    signal?.throwIfAborted();
    const bytes = question.encode(request);
    const options = patience === undefined ? {} : { deadline: Date.now() + patience };
    let stop: (() => void) | undefined;
    try {
      return await new Promise<Answer>((resolve, reject) => {
        const path = `${SERVICE}${name}`;
        const done = (error: ServiceError | null, value?: Answer) =>
          error === null && value !== undefined ? resolve(value) : reject(error ?? new Error('it has no answer'));
        const { metadata } = this;
        const call = this.client.makeUnaryRequest(path, same, answer.decode, bytes, metadata, options, done);
        call.on('metadata', (heard) => (server = serverIn(heard)));
        stop = () => call.cancel();
        signal?.addEventListener('abort', stop, { once: true });
      });
    } catch (error) {
      signal?.throwIfAborted();
      throw await this.target.diagnose(error, server);
    } finally {
      if (stop !== undefined) {
        signal?.removeEventListener('abort', stop);
      }
    }
  }

  close(): void {
    this.client.close();
  }
}

/** Messages are written before they are handed over. */
function same(bytes: Buffer): Buffer {
  return bytes;
}

/** What the server calls itself. */
export function serverIn(metadata: Metadata | undefined): string | undefined {
  const [server] = metadata?.get('server') ?? [];
  return server?.toString();
}

/** The refusal in a status's details. */
function refusalIn(error: ServiceError): Refusal | undefined {
  for (const bytes of error.metadata?.get('grpc-status-details-bin') ?? []) {
    try {
      const { details } = Status.decode(Buffer.from(bytes as Buffer));
      const ours = details.find((detail) => detail.typeUrl.endsWith('/tenure.v1.Refusal'));
      if (ours?.value !== undefined) {
        return ours.value;
      }
    } catch {
      // Somebody else's details.
    }
  }
  return undefined;
}

/** Strangers are recognised by their first words. */
export function recognise(heard: Buffer): string | undefined {
  if (heard.length === 0 || heard[3] === 4) {
    return undefined;
  }
  if ((heard[0] === 0x15 || heard[0] === 0x16) && heard[1] === 3) {
    return 'it wants TLS; write https://host:port';
  }
  const text = heard.toString('utf8');
  if (text.startsWith('HTTP/')) {
    return NOT_GRPC;
  }
  const [line = ''] = text.split(/\r?\n/);
  return `it says \`${line.replace(/\p{C}/gu, '').slice(0, 40)}\``;
}

function isStatus(error: unknown): error is ServiceError {
  return error instanceof Error && 'code' in error && typeof error.code === 'number';
}
