/** Between a scenario's words and the client's: what an actor does, and what the answers are called. */

import { Deadlock, type Init, Refused, type TenureError, type wire } from 'tenure';

import { type Fields, type Outcome, type Step, duration, durationText } from './scenario-text.js';

/** When scenarios start, by the server's clock. */
const START = 1_000_000_000_000;

/** Verbs and the names of their arguments, besides `ns`. */
const KNOWN: Record<string, string> = {
  acquire: 'units size select resource ttl window owner wait priority request as session also meta',
  renew: 'token key ttl',
  release: 'token key',
  withdraw: 'request',
  'hangs-up': '',
  session: 'grace',
  pool: 'units resource placement order window fair weights size-was place-by order-by',
  drain: 'resource note for state-was',
  quarantine: 'resource note for state-was',
  return: 'resource note for state-was',
  'force-release': 'holder token reason',
  steal: 'holder token to ttl request reason',
  move: 'waiter holder before reason',
  reserve: 'resource holder for instead-of reason',
  unreserve: 'resource holder reason',
  explain: 'request waiter',
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

/** Their words without a value, after what is done and to which pool. */
const FLAGS: Record<string, string> = {
  acquire: 'until-session-ends kept session holds-on dirty',
  session: 'polled',
  pool: 'cleaning',
  steal: 'kept',
  move: 'front',
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
    for (const word of words.slice(verb === 'pool' ? 2 : 1)) {
      if (!(FLAGS[verb] ?? '').split(' ').includes(word)) {
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
  const [units, wait, window] = [it.get('units'), it.get('wait'), it.duration('window')];
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
    select: selector(it.get('select'), it.get('resource')),
    size: it.number('size'),
    lifetime,
    ttlMs: window ?? it.duration('ttl'),
    owner: it.get('owner'),
    waitMs: wait === 'forever' ? undefined : it.duration('wait'),
    waitForever: wait === 'forever',
    priority: it.number('priority') ?? 0,
    holder: it.get('as') ?? actor,
    requestId: it.get('request'),
    also: it.all('also').map(part),
    holdsOn: it.flag('holds-on'),
    dirty: it.flag('dirty'),
    meta: pairs(it.all('meta')),
  };
}

/** `gpu units=2 select=big`: the pool, and what is wanted of it. */
function part(text: string): Init<wire.Part> {
  const [pool, ...words] = text.split(/\s+/);
  const { units = '1', select, resource: name, size } = pairs(words);
  return {
    pool,
    units: units === 'all' ? undefined : Number(units),
    all: units === 'all',
    select: selector(select, name),
    size: size === undefined ? undefined : Number(size),
  };
}

function selector(select: string | undefined, name: string | undefined): string | undefined {
  const quoted = name?.replaceAll('\\', '\\\\').replaceAll('"', '\\"');
  return select ?? (quoted === undefined ? undefined : `name == "${quoted}"`);
}

function pairs(words: readonly string[]): Fields {
  return Object.fromEntries(words.map((word) => word.split(/=(.*)/s)).map(([name = '', value = '']) => [name, value]));
}

export function steal(it: Arguments): Init<wire.StealRequest> {
  return {
    namespace: it.namespace,
    pool: it.word(),
    holder: it.must('holder'),
    token: Number(it.must('token')),
    to: it.must('to'),
    lifetime: it.flag('kept') ? 'kept' : undefined,
    ttlMs: it.duration('ttl'),
    requestId: it.get('request'),
    reason: it.must('reason'),
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
  const by = it.get('fair');
  const [place, order] = [it.get('place-by'), it.get('order-by')];
  const weights = Object.entries(pairs(it.get('weights')?.split(/\s+/) ?? []));
  return {
    units: it.number('units'),
    resources: it.all('resource').map(described),
    placement: placement ? (placement.replaceAll('-', '_') as wire.Placement) : undefined,
    spreadLabel: label || undefined,
    order: it.get('order') as wire.Order | undefined,
    windowMs: it.duration('window'),
    cleaning: it.flag('cleaning'),
    fair: by === undefined ? undefined : { by, weights: weights.map(([key, value]) => ({ key, value: Number(value) })) },
    scripts: place === undefined && order === undefined ? undefined : { place, order },
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
  const { most, size, free, dirty, max, position, holdersTotal, token, field, pool, resource, limit, line, column } = refusal;
  const numbers = { most, size, free, dirty, max, position, 'holders-total': holdersTotal, token, line, column };
  for (const [name, value] of Object.entries({ ...numbers, field, pool, resource, limit })) {
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
    case 'pool_changed':
      Object.assign(fields, condition(refusal.condition));
      break;
    case 'moved_on':
      Object.assign(fields, holdersOf(refusal.holders));
      break;
    case 'busy':
    case 'timed_out':
      Object.assign(fields, holdersOf(refusal.holders));
      fields.reserved = many(refusal.reserved.map((it) => `${it.resource}:${it.holder}`));
      fields.also = many(refusal.also.map((room) => room.pool));
      break;
    case 'deadlock':
      if (!(error instanceof Deadlock)) {
        throw new Error('a deadlock is an error of its own');
      }
      fields.cycle = many(error.cycle.map((it) => `${it.holder}>${it.pool}`));
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
    also: many(grant.also.map((part) => `${part.pool}:${part.units}`)),
    'also-resources': many(grant.also.flatMap((part) => part.resources).map((resource) => resource.name)),
    windows: many(
      grant.also.flatMap(({ pool, deadlineMs }) => (deadlineMs === undefined ? [] : [`${pool}:${time(deadlineMs)}`])),
    ),
  };
  for (const resource of [...grant.resources, ...grant.also.flatMap((part) => part.resources)]) {
    for (const [name, value] of Object.entries({ ...resource.labels, ...resource.properties })) {
      fields[`${resource.name}.${name}`] = value;
    }
  }
  return { word: 'granted', fields, key: grant.key };
}

export function queued({ position, deadlineMs }: wire.Waiter): Outcome {
  // A client asks for what is left of its wait by its own clock, of which some milliseconds may be gone by then.
  const until = deadlineMs === undefined ? undefined : START + Math.ceil((deadlineMs - START) / 1000) * 1000;
  return { word: 'queued', fields: { position: String(position), until: time(until) } };
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

export function pool({ summary, spec: set, resources, scriptFaults, scriptsSetAside }: wire.PoolDetail): Outcome {
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
    returns: time(summary.returnsAtMs),
    dirty: String(summary.dirty),
    cleaning: String(set.cleaning),
    fair: set.fair?.by ?? 'none',
    'place-by': set.scripts?.place ?? 'none',
    'order-by': set.scripts?.order ?? 'none',
    'script-faults': String(scriptFaults),
    'scripts-set-aside': String(scriptsSetAside),
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
  const fields = {
    leaving: String(found.leaving),
    token: String(found.token ?? 'none'),
    'last-used': time(found.lastUsedAtMs),
    returns: time(found.returnsAtMs),
    dirty: String(found.dirty),
    reserved: found.reserved?.holder ?? 'none',
    'reserved-until': time(found.reserved?.deadlineMs),
  };
  return { word: 'shown', fields: { ...condition(found.condition), ...fields } };
}

export function waiters(queue: readonly wire.Waiter[]): Outcome {
  const away = queue.filter((waiter) => waiter.position === undefined);
  const names = (listed: readonly wire.Waiter[]) => many(listed.map((waiter) => waiter.holder));
  const numbers = many(queue.map((waiter) => String(waiter.waiter)));
  const also = many((queue[0]?.also ?? []).map((part) => `${part.pool}:${part.units ?? 'all'}`));
  return { word: 'shown', fields: { order: names(queue), numbers, away: names(away), also } };
}

export function explained({ pool: about, waiters: told }: wire.ExplainResponse): Outcome {
  const order = many(told.map((it) => it.waiter?.holder ?? ''));
  return { word: 'shown', fields: { pool: about.join('; '), order, why: told[0]?.sentences.join('; ') ?? 'none' } };
}

export function holds(listed: readonly wire.Hold[]): Outcome {
  const [first] = listed;
  const fields = holdersOf(listed);
  if (first !== undefined) {
    fields.units = String(first.units);
    fields.lifetime = first.lifetime ?? 'unspecified';
    fields.resources = many(first.resources);
    fields.also = many(first.also.map((part) => `${part.pool}:${part.units ?? 0}`));
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
