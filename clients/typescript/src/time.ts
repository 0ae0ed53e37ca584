/** Durations and deadlines: what the server promises in its time, as it can be relied upon in ours. All in milliseconds. */

import { randomBytes } from 'node:crypto';
import { uptime } from 'node:os';
import { performance } from 'node:perf_hooks';

/** A duration: a number of milliseconds, or a text such as `500ms`, `30s`, `5m`, `2h` or `1d`. */
export type Duration = number | string;

/**
 * The server counts in whole milliseconds and gives commands that it stores together one time, so that a lease may end two
 * milliseconds before it was asked for; and our own timer wakes up to two late.
 */
const ROUNDING = 5;
/** Two clocks may run at different speeds. One part in a thousand is more than any that is kept in step differs. */
const DRIFT = 1e-3;
/** The clock is looked at at least this often: timers stand still while the host sleeps, and would notice only that much later. */
export const NAP_MAX = 1_000;
/** How often it is looked whether the host has slept, which costs more than to look at the clock. */
const SLEEP_LOOK = 100;
/** The host's uptime is told in seconds, or in hundredths of them: less than this may be rounding. */
const SLEEP_MIN = 2_000;

const UNITS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

let slept = 0;
let lookedAt = performance.now();
let ahead = uptime() * 1_000 - lookedAt;

/** Goes on while the host is suspended, as the server's clock does. Node's own clock does not on every system. */
export function now(): number {
  const awake = performance.now();
  if (awake - lookedAt > SLEEP_LOOK) {
    lookedAt = awake;
    const aheadNow = uptime() * 1_000 - awake;
    if (aheadNow - ahead > SLEEP_MIN) {
      slept += aheadNow - ahead;
      ahead = aheadNow;
    } else {
      ahead = Math.min(ahead, aheadNow);
    }
  }
  return awake + slept;
}

/** As a number of milliseconds. */
export function milliseconds(duration: Duration): number {
  if (typeof duration === 'string') {
    const [, number, unit] = /^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\s*$/.exec(duration) ?? [];
    const factor = unit === undefined ? undefined : UNITS[unit];
    if (factor === undefined) {
      throw new RangeError(`\`${duration}\` is not a duration; write 500ms, 30s, 5m, 2h or 1d`);
    }
    return Number(number) * factor;
  }
  if (!Number.isFinite(duration) || duration < 0) {
    throw new RangeError(`${duration} is not a duration`);
  }
  return duration;
}

/** As the wire has it. What is less than a millisecond and not nothing is one. */
export function wholeMilliseconds(duration: Duration): number {
  return Math.ceil(Number(milliseconds(duration).toFixed(6)));
}

/** Until when something is certainly there that lasts for `length` and began no earlier than `since`. */
export function certain(since: number, length: number): number {
  return since + Math.max(0, length - length * DRIFT - ROUNDING);
}

/** The server's clock against ours: it said `atMs` no earlier than `asked`. */
export class ServerTime {
  constructor(
    readonly asked: number,
    readonly atMs: number,
  ) {}

  /** A moment of ours that is certainly not after the server's `deadlineMs`. */
  before(deadlineMs: number): number | undefined {
    const left = deadlineMs - this.atMs;
    return left < 0 ? undefined : certain(this.asked, left);
  }

  /**
   * Whichever of the two lets a deadline be relied upon for longer. A newer answer that took long, because the server was
   * paused or the network was, says less than an older one that came at once.
   */
  orSharper(newer: ServerTime): ServerTime {
    const before = this.before(newer.atMs);
    return before !== undefined && before > newer.asked ? this : newer;
  }
}

/**
 * How long to pause after so many failures in a row: doubling, and a random half of it less, so that many clients do not
 * come back at the same moment.
 */
export function pause(failures: number, first: number, most: number): number {
  const whole = Math.min(first * 2 ** Math.min(Math.max(failures - 1, 0), 32), most);
  return whole * (1 - Math.random() / 2);
}

/** 128 random bits as text: an id for a request. It is as good as a key to whoever knows it. */
export function randomId(): string {
  if (randomAt === random.length) {
    random = randomBytes(random.length);
    randomAt = 0;
  }
  const id = random.toString('hex', randomAt, randomAt + 16);
  randomAt += 16;
  return id;
}

/** Drawn for many at once, which is what makes it fast. */
let random = randomBytes(4_096);
let randomAt = 0;

export function earliest(one: number | undefined, other: number | undefined): number | undefined {
  if (one === undefined || other === undefined) {
    return one ?? other;
  }
  return Math.min(one, other);
}
