/** How a hold stands, as the session knows it and its holder may ask. */

import { HoldLost, type LostReason } from './errors.js';
import { now } from './time.js';
import type { Grant } from './wire.js';

export class Standing {
  reason: LostReason | undefined;
  note = '';
  #listeners: ((standing: Standing) => void)[] | undefined;

  constructor(
    /** Until when it is certainly ours; undefined if it does not end by time. */
    public until: number | undefined,
    /** Ends by time whatever is done. */
    readonly fixed: boolean,
  ) {}

  /** Looks at the clock too: after a pause of the process, or of its event loop, it is the first to know. */
  lost(): LostReason | undefined {
    if (this.reason === undefined && this.until !== undefined && this.until <= now()) {
      return this.lostByTime();
    }
    return this.reason;
  }

  lostByTime(): LostReason {
    return this.fixed ? 'expired' : 'unreachable';
  }

  lose(at: number | undefined, reason: LostReason, note = ''): void {
    if (this.reason !== undefined) {
      return;
    }
    this.note = note;
    this.reason = reason;
    if (at !== undefined) {
      this.until = this.until === undefined ? at : Math.min(this.until, at);
    }
    const listeners = this.#listeners ?? [];
    this.#listeners = undefined;
    for (const listener of listeners) {
      listener(this);
    }
  }

  /** Calls it once when the hold is lost, at once if it is. It must not throw. */
  listen(listener: (standing: Standing) => void): void {
    if (this.reason === undefined) {
      (this.#listeners ??= []).push(listener);
    } else {
      listener(this);
    }
  }

  error(grant: Grant, options?: ErrorOptions): HoldLost {
    return new HoldLost(grant.pool, grant.token, this.lost() ?? 'other', this.note, options);
  }
}

/** A hold in the hands of this process. */
export interface Granted {
  readonly id: number;
  readonly grant: Grant;
  readonly standing: Standing;
}
