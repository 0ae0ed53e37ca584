/** Calls beside the session, over a connection of their own, which is made when it is first needed and mended by itself. */

import type { CallOptions } from './api.js';
import type { Init, Type } from './codec.js';
import { ClosedError, ForeignServer, Refused } from './errors.js';
import { type Line, type Target, serverIn } from './link.js';
import { CALL_PATIENCE } from './session.js';
import { WatchRequest, Watched } from './wire.js';

export class Calls {
  readonly #target: Target;
  #line: Promise<Line> | undefined;
  #closed = false;

  constructor(target: Target) {
    this.#target = target;
  }

  async call<Question, Answer>(
    name: string,
    request: Init<Question>,
    question: Type<Question>,
    answer: Type<Answer>,
    { signal }: CallOptions,
  ): Promise<Answer> {
    const line = await this.#open();
    try {
      // An acquire may wait for as long as it says. All else is answered at once.
      const patience = name === 'Acquire' ? undefined : this.#target.connectTimeout + CALL_PATIENCE;
      return await line.call(name, request, question, answer, { signal, patience });
    } catch (error) {
      this.#failed(error);
      throw this.#closed ? new ClosedError() : error;
    }
  }

  /** What happens, from one connection: whoever asks goes on with another. */
  async *watch(request: Init<WatchRequest>, signal: AbortSignal | undefined): AsyncGenerator<Watched, void, undefined> {
    const line = await this.#open();
    let server: string | undefined;
    signal?.throwIfAborted();
    const stream = line.stream('Watch', request, WatchRequest, Watched);
    stream.on('metadata', (metadata) => (server = serverIn(metadata)));
    const stop = () => stream.cancel();
    signal?.addEventListener('abort', stop, { once: true });
    try {
      for await (const watched of stream) {
        yield watched as Watched;
      }
    } catch (error) {
      signal?.throwIfAborted();
      if (this.#closed) {
        throw new ClosedError();
      }
      const meaning = await this.#target.diagnose(error, server);
      this.#failed(meaning);
      throw meaning;
    } finally {
      signal?.removeEventListener('abort', stop);
      // What comes of that is of no interest to anybody.
      stream.on('error', () => undefined);
      stream.cancel();
    }
  }

  close(): void {
    this.#closed = true;
    this.#drop();
  }

  async #open(): Promise<Line> {
    if (this.#closed) {
      throw new ClosedError();
    }
    this.#line ??= this.#target.line();
    try {
      return await this.#line;
    } catch (error) {
      this.#line = undefined;
      throw error;
    }
  }

  /** A connection that failed is not tried again: with the next call there is another one. */
  #failed(error: unknown): void {
    if (!(error instanceof Refused || error instanceof ForeignServer)) {
      this.#drop();
    }
  }

  #drop(): void {
    const line = this.#line;
    this.#line = undefined;
    line?.then(
      (open) => open.close(),
      () => undefined,
    );
  }
}
