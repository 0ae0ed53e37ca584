/**
 * One client's connection: one stream after another, and between it and the session whatever either has for the other. All
 * decisions are the session's.
 */

import { status } from '@grpc/grpc-js';

import type { TenureError } from './errors.js';
import { type Line, type Stream, type Target, serverIn } from './link.js';
import type { Ask, Done } from './requests.js';
import { Broken, type Identity, Session } from './session.js';
import { NAP_MAX, earliest, now, pause } from './time.js';
import { ClientMessage, type ServerMessage } from './wire.js';

/** The pause before the next attempt to connect. */
const PAUSE_FIRST = 50;
const PAUSE_MOST = 2_000;

export class Connection {
  readonly session: Session;
  /** Why there is no connection to the server just now, although one is being made. */
  trouble: TenureError | undefined;
  readonly #target: Target;
  #greeted: Done | undefined;
  /** Of one stream; what comes from an earlier one is not listened to. */
  #attempt = 0;
  #line: Line | undefined;
  #stream: Stream | undefined;
  /** Whether the stream takes no more for now. */
  #full = false;
  /** Whether something was heard on this stream. */
  #heard = false;
  #flushing = false;
  #timer: NodeJS.Timeout | undefined;
  #timerAt = 0;
  #dialAt: number | undefined = 0;
  /** Attempts in a row that came to nothing, or not for long. */
  #failures = 0;
  #paused = 0;
  /** Since when the session is open on this connection. */
  #opened: number | undefined;

  constructor(target: Target, identity: Identity) {
    this.#target = target;
    this.session = new Session(identity, (error) => this.#greeted?.(error));
  }

  /** Until the session is open. Fails at once if nobody listens, or somebody else; only connections that break later are mended. */
  connect(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#greeted = (error) => (error === undefined ? resolve() : reject(error));
      this.#tick();
    });
  }

  // What the application says.

  /** Gives the request's id, to forget it by. */
  ask(ask: Ask): number {
    const id = this.session.ask(now(), ask);
    this.#after();
    return id;
  }

  forget(id: number): void {
    this.session.forget(id);
    this.#after();
  }

  release(hold: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.session.release(now(), hold, (error) => (error === undefined ? resolve() : reject(error)));
      this.#after();
    });
  }

  keep(hold: number): void {
    this.session.keep(hold);
    this.#after();
  }

  close(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.session.close(now(), (error) => (error === undefined ? resolve() : reject(error)));
      this.#after();
    });
  }

  /** Ends it without a word to the server. @internal */
  abandon(): void {
    this.session.end();
    this.#after();
  }

  /** Asks the server for a sign of life now. @internal */
  ping(): void {
    this.session.ping(now());
    this.#after();
  }

  // The stream.

  #tick(): void {
    if (this.session.isOver) {
      return;
    }
    const at = now();
    if (this.#dialAt !== undefined && this.#dialAt <= at) {
      this.#dialAt = undefined;
      const first = ClientMessage.encode(this.session.connecting(at));
      this.#attempt += 1;
      void this.#dial(this.#attempt, first);
    }
    try {
      this.session.tick(at);
    } catch (error) {
      this.#broken(this.#target.unreachable(brokenBy(error)));
    }
    this.#after();
  }

  /** Whatever happened: says what there is to say, and looks when there is something to do again. */
  #after(): void {
    if (this.session.isOver) {
      this.#hangUp();
      clearTimeout(this.#timer);
      this.#timer = undefined;
      return;
    }
    if (!this.#flushing && !this.#full && this.#stream !== undefined && this.session.hasToSay()) {
      this.#flushing = true;
      // What many tasks have to say goes into one message.
      setImmediate(() => this.#flush());
    }
    const due = earliest(this.session.nextDue(), this.#dialAt);
    if (due === undefined) {
      return;
    }
    const at = now();
    const delay = Math.min(Math.max(due - at, 0), NAP_MAX);
    if (this.#timer !== undefined) {
      if (this.#timerAt <= at + delay + 0.5) {
        return;
      }
      clearTimeout(this.#timer);
    }
    this.#timerAt = at + delay;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      // What was heard comes first: after a pause of this process it may have what the clock says is missing.
      setImmediate(() => this.#tick());
    }, Math.ceil(delay));
  }

  #flush(): void {
    this.#flushing = false;
    while (!this.#full && this.#stream !== undefined) {
      const message = this.session.say(now());
      if (message === undefined) {
        break;
      }
      this.#full = !this.#stream.write(message);
    }
    this.#after();
  }

  /** From the dialing to the end of one stream. */
  async #dial(attempt: number, first: Buffer): Promise<void> {
    const isCurrent = () => attempt === this.#attempt && !this.session.isOver;
    let server: string | undefined;
    const failed = async (error: unknown) => {
      if (isCurrent()) {
        const meaning = await this.#target.diagnose(error, server, !this.#heard);
        if (isCurrent()) {
          this.#broken(meaning);
          this.#after();
        }
      }
    };
    try {
      const line = await this.#target.line();
      if (!isCurrent()) {
        line.close();
        return;
      }
      this.#line = line;
      const stream = line.session();
      this.#full = this.#heard = false;
      stream.on('metadata', (metadata) => (server = serverIn(metadata)));
      stream.on('error', (error) => void failed(error));
      // Its end is told before its error, which says more.
      stream.on('status', ({ code }) => {
        if (code === status.OK) {
          void failed(this.#target.unreachable('the server ended the stream'));
        }
      });
      stream.on('drain', () => {
        if (isCurrent()) {
          this.#full = false;
          this.#after();
        }
      });
      stream.on('data', (message: ServerMessage) => {
        if (isCurrent()) {
          this.#hear(message);
        }
      });
      this.#stream = stream;
      stream.write(first);
    } catch (error) {
      await failed(error);
    }
  }

  #hear(message: ServerMessage): void {
    this.#heard = true;
    const at = now();
    try {
      this.session.hear(at, message);
      if (this.session.isOpen && this.#opened === undefined) {
        this.#opened = at;
        this.trouble = undefined;
      }
    } catch (error) {
      this.#broken(this.#target.unreachable(brokenBy(error)));
    }
    this.#after();
  }

  #broken(error: TenureError): void {
    const at = now();
    this.#hangUp();
    // A connection that lasted longer than it was waited for is no sign of trouble; one that never lasts is.
    if (this.#opened !== undefined && at >= this.#opened + this.#paused) {
      this.#failures = 0;
    }
    this.#opened = undefined;
    this.#failures += 1;
    this.#paused = pause(this.#failures, PAUSE_FIRST, PAUSE_MOST);
    this.trouble = error;
    this.#dialAt = at + this.#paused;
    this.session.disconnected(at, error);
  }

  #hangUp(): void {
    this.#attempt += 1;
    const [stream, line] = [this.#stream, this.#line];
    this.#stream = this.#line = undefined;
    this.#full = false;
    stream?.cancel();
    line?.close();
  }
}

/** Anything else than a connection that is of no use is a mistake of ours, and not to be taken for one. */
function brokenBy(error: unknown): string {
  if (error instanceof Broken) {
    return error.message;
  }
  throw error;
}
