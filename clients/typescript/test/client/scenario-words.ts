/** Between a scenario's words and the client's: what an actor does, and what the answers are called. */

import { type Init, Refused, type TenureError, type wire } from 'tenure';

import { type Fields, type Outcome, type Step, duration, durationText } from './scenario-text.js';

/** When scenarios start, by the server's clock. */
const START = 1_000_000_000_000;

/** Verbs and the names of their arguments, besides `ns`. */
const KNOWN: Record<string, string> = {
  acquire: 'units size select resource ttl window owner wait priority request as session',
  renew: 'token key ttl',
  release: 'token key',
  withdraw: 'request',
  'hangs-up': '',
  session: 'grace',
  pool: 'units resource placement order window',
  drain: 'resource note',
  quarantine: 'resource note',
  return: 'resource note',
  'force-release': 'holder token reason',
  'owner-gone': 'owner',
  show: 'resource',
  queue: '',
  holds: 'pool holder',
  ls: 'prefix',
  sessions: '',
  history: 'pool holder',
  restart: '',
  stop: '',
  start: '',
  passes: '',
};

/** A verb or an argument that this runner has not learnt yet. */
export class UnknownWord extends Error {}

/** This cannot be played; it must be listed. */
export class LeftOut extends Error {}

export type Acquire = Init<wire.AcquireRequest>;
export type KeyOf = (token: number | undefined, actor: string) => string;

/** What follows a verb. */
export class Arguments {
  readonly verb: string;
  readonly #words: string[];

  constructor(private readonly step: Step) {
    const [verb = '', ...words] = step.words;
    this.verb = verb;
    this.#words = words;
    const known = KNOWN[verb];
    if (known === undefined) {
      throw new UnknownWord(`\`${verb}\``);
    }
    for (const name of step.named.keys()) {
      if (name !== 'ns' && !known.split(' ').includes(name)) {
        throw new UnknownWord(`\`${name}=\` of \`${verb}\``);
      }
    }
    for (const word of words) {
      // What the client does not offer.
      if (['holds-on', 'dirty', 'cleaning'].includes(word)) {
        throw new UnknownWord(`\`${word}\` of \`${verb}\``);
      }
    }
  }

  word(): string {
    return this.#words.shift() ?? '';
  }

  flag(name: string): boolean {
    return this.#words.includes(name);
  }

  get(name: string): string | undefined {
    return this.step.named.get(name)?.[0];
  }

  all(name: string): string[] {
    return this.step.named.get(name) ?? [];
  }

  must(name: string): string {
    const value = this.get(name);
    if (value === undefined) {
      throw new Error(`${this.verb} has no ${name}`);
    }
    return value;
  }

  number(name: string): number | undefined {
    const text = this.get(name);
    return text === undefined ? undefined : Number(text);
  }

  duration(name: string): number | undefined {
    const text = this.get(name);
    return text === undefined ? undefined : duration(text);
  }

  /** The wire's way to name `default` is to say nothing. */
  get namespace(): string {
    const named = this.get('ns');
    return named === undefined || named === 'default' ? '' : named;
  }

  get session(): string | undefined {
    return this.get('session') ?? (this.flag('session') ? 'own' : undefined);
  }
}

export function acquire(actor: string, it: Arguments): Acquire {
  const pool = it.word();
  const [units, wait, name, window] = [it.get('units'), it.get('wait'), it.get('resource'), it.duration('window')];
  const quoted = name?.replaceAll('\\', '\\\\').replaceAll('"', '\\"');
  const lifetime = it.flag('until-session-ends')
    ? 'session'
    : window !== undefined
      ? 'window'
      : it.flag('kept')
        ? 'kept'
        : undefined;
  return {
    namespace: it.namespace,
    pool,
    units: units === undefined || units === '1' || units === 'all' ? undefined : Number(units),
    all: units === 'all',
    select: it.get('select') ?? (quoted === undefined ? undefined : `name == "${quoted}"`),
    size: it.number('size'),
    lifetime,
    ttlMs: window ?? it.duration('ttl'),
    owner: it.get('owner'),
    waitMs: wait === 'forever' ? undefined : it.duration('wait'),
    waitForever: wait === 'forever',
    priority: it.number('priority') ?? 0,
    holder: it.get('as') ?? actor,
    requestId: it.get('request'),
  };
}

/** Which hold is meant, and by which key. */
export function held(actor: string, it: Arguments, keyOf: KeyOf) {
  const pool = it.word();
  const [token, key] = [it.number('token'), it.get('key')];
  const whose = key === undefined || key === 'wrong' ? actor : key;
  return { pool, namespace: it.namespace, key: keyOf(token, whose), token: whose === actor ? token : undefined };
}

export function spec(it: Arguments): Init<wire.PoolSpec> {
  const [placement, label] = (it.get('placement') ?? '').split(':');
  return {
    units: it.number('units'),
    resources: it.all('resource').map(described),
    placement: placement ? (placement.replaceAll('-', '_') as wire.Placement) : undefined,
    spreadLabel: label || undefined,
    order: it.get('order') as wire.Order | undefined,
    windowMs: it.duration('window'),
  };
}

/** `a gpu mem=80 @port=3000`: the name, labels, and properties with an `@`. */
function described(text: string): Init<wire.Resource> {
  const [name = '', ...words] = text.split(/\s+/);
  const [labels, properties]: [Fields, Fields] = [{}, {}];
  for (const each of words) {
    const [key = '', value = ''] = each.replace(/^@/, '').split(/=(.*)/s);
    (each.startsWith('@') ? properties : labels)[key] = value;
  }
  return { name, labels, properties };
}

// Outcomes.

export const DONE: Outcome = { word: 'done', fields: {} };

export function failed(error: TenureError): Outcome {
  if (!(error instanceof Refused)) {
    return { word: `refused ${error.code}`, fields: { why: error.message } };
  }
  const refusal = error.refusal as wire.Refusal;
  const fields: Fields = { retry: String(refusal.retry ?? false) };
  const { most, size, free, max, position, holdersTotal, token, field, pool, resource, limit } = refusal;
  const named = { most, size, free, max, position, 'holders-total': holdersTotal, token, field, pool, resource, limit };
  for (const [name, value] of Object.entries(named)) {
    if (value !== undefined) {
      fields[name] = String(value);
    }
  }
  if (refusal.deadlineMs !== undefined) {
    fields.until = time(refusal.deadlineMs);
  }
  switch (refusal.code) {
    case 'request_ended':
      fields.token = String(token ?? 'none');
      break;
    case 'window_mismatch':
      fields.window = length(refusal.windowMs);
      break;
    case 'out_of_service':
      Object.assign(fields, condition(refusal.condition));
      break;
    case 'busy':
    case 'timed_out':
    case 'moved_on':
      Object.assign(fields, holdersOf(refusal.holders));
  }
  return { word: `refused ${refusal.code}`, fields };
}

export function granted(grant: wire.Grant): Outcome {
  const fields: Fields = {
    pool: grant.pool,
    token: String(grant.token),
    units: String(grant.units),
    resources: many(grant.resources.map((resource) => resource.name)),
    lifetime: grant.lifetime ?? 'unspecified',
    since: time(grant.sinceMs),
    until: time(grant.deadlineMs),
  };
  for (const resource of grant.resources) {
    for (const [name, value] of Object.entries({ ...resource.labels, ...resource.properties })) {
      fields[`${resource.name}.${name}`] = value;
    }
  }
  return { word: 'granted', fields, key: grant.key };
}

export function queued({ position, deadlineMs }: wire.Waiter): Outcome {
  return { word: 'queued', fields: { position: String(position), until: time(deadlineMs) } };
}

export function renewed({ token, ttlMs, deadlineMs }: wire.Renewed): Outcome {
  return { word: 'renewed', fields: { token: String(token), ttl: durationText(ttlMs), until: time(deadlineMs) } };
}

export function released({ token }: { token: number }): Outcome {
  return { word: 'released', fields: { token: String(token) } };
}

export function opened({ graceMs, deadlineMs }: { graceMs: number; deadlineMs?: number }): Outcome {
  return { word: 'open', fields: { grace: durationText(graceMs), until: time(deadlineMs) } };
}

export function pool({ summary, spec: set, resources }: wire.PoolDetail): Outcome {
  if (summary === undefined || set === undefined) {
    throw new Error('a pool without its summary');
  }
  const fields: Fields = {
    ...condition(summary.condition),
    size: String(summary.size),
    used: String(summary.used),
    holds: String(summary.holds),
    waiters: String(summary.waiters),
    'waiting-since': time(summary.waitingSinceMs),
    removing: String(summary.removing),
    declared: String(summary.declared),
    window: length(summary.windowMs),
    order: set.order ?? 'unspecified',
    leaving: many(resources.filter((resource) => resource.leaving).map((resource) => resource.name)),
  };
  if (summary.named) {
    const placement = (set.placement ?? 'unspecified').replaceAll('_', '-');
    fields.placement = set.spreadLabel === undefined ? placement : `${placement}:${set.spreadLabel}`;
    fields.resources = many(set.resources.map((resource) => resource.name));
  }
  return { word: 'shown', fields };
}

export function resource(detail: wire.PoolDetail, name: string): Outcome {
  const found = detail.resources.find((each) => each.name === name);
  if (found === undefined) {
    return { word: 'refused unknown_resource', fields: {} };
  }
  const { leaving, token, lastUsedAtMs } = found;
  const fields = { leaving: String(leaving), token: String(token ?? 'none'), 'last-used': time(lastUsedAtMs) };
  return { word: 'shown', fields: { ...condition(found.condition), ...fields } };
}

export function waiters(queue: readonly wire.Waiter[]): Outcome {
  const away = queue.filter((waiter) => waiter.position === undefined);
  const names = (listed: readonly wire.Waiter[]) => many(listed.map((waiter) => waiter.holder));
  return { word: 'shown', fields: { order: names(queue), numbers: queue.map((it) => it.waiter).join(',') || 'none', away: names(away) } };
}

export function holds(listed: readonly wire.Hold[]): Outcome {
  const [first] = listed;
  const fields = holdersOf(listed);
  if (first !== undefined) {
    fields.units = String(first.units);
    fields.lifetime = first.lifetime ?? 'unspecified';
    fields.resources = many(first.resources);
  }
  return { word: 'shown', fields };
}

export function sessions(listed: readonly wire.Session[]): Outcome {
  const [first] = listed;
  const names = (some: readonly wire.Session[]) => many(some.map((session) => session.holder));
  const fields: Fields = { holders: names(listed), attached: names(listed.filter((session) => session.attached)) };
  if (first !== undefined) {
    fields.until = time(first.deadlineMs);
    fields.holds = String(first.holds);
    fields.waiters = String(first.waiters);
  }
  return { word: 'shown', fields };
}

export function many(items: readonly string[]): string {
  return items.join(',') || 'none';
}

function holdersOf(listed: readonly wire.Hold[]): Fields {
  const [first] = listed;
  const fields: Fields = {
    holders: many(listed.map((hold) => hold.holder)),
    tokens: many(listed.map((hold) => String(hold.token))),
  };
  if (first !== undefined) {
    fields.since = time(first.sinceMs);
    fields.until = time(first.deadlineMs);
  }
  return fields;
}

function condition(given: wire.Condition | undefined): Fields {
  return { condition: given?.state ?? 'unspecified', note: given?.note ?? 'none' };
}

function time(atMs: number | undefined): string {
  return atMs === undefined ? 'none' : durationText(atMs - START);
}

function length(millis: number | undefined): string {
  return millis === undefined ? 'none' : durationText(millis);
}
