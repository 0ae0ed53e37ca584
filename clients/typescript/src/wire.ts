/**
 * The server's messages, made from the proto files by tools/make-wire.mjs. Enumerations are lower-case words, as in the
 * REST API; a value that is newer than this client is `unknown`. Durations are milliseconds and end in `Ms`.
 */

/* eslint-disable */
import { type Type, message } from './codec.js';

export type EventKind = 'queued' | 'granted' | 'renewed' | 'ended' | 'wait_ended' | 'waiter_away' | 'waiter_back' | 'request_withdrawn' | 'session_opened' | 'session_kept' | 'session_attached' | 'session_detached' | 'session_closing' | 'session_ended' | 'pool_set' | 'condition_set' | 'pool_removing' | 'pool_gone' | 'restarted' | 'reserved' | 'reservation_ended' | 'waiter_moved' | 'policy_failed' | 'unknown';
const EventKindWords: Record<number, EventKind> = { 1: 'queued', 2: 'granted', 3: 'renewed', 4: 'ended', 5: 'wait_ended', 6: 'waiter_away', 7: 'waiter_back', 8: 'request_withdrawn', 9: 'session_opened', 10: 'session_kept', 11: 'session_attached', 12: 'session_detached', 13: 'session_closing', 14: 'session_ended', 15: 'pool_set', 16: 'condition_set', 17: 'pool_removing', 18: 'pool_gone', 19: 'restarted', 60: 'reserved', 61: 'reservation_ended', 62: 'waiter_moved', 63: 'policy_failed' };

/** Why a hold or a wait is over. */
export type How = 'released' | 'expired' | 'session_ended' | 'owner_gone' | 'forced' | 'withdrawn' | 'unreceived' | 'timed_out' | 'caller_gone' | 'never_fits' | 'pool_removed' | 'stolen' | 'cancelled' | 'unknown';
const HowWords: Record<number, How> = { 1: 'released', 2: 'expired', 3: 'session_ended', 4: 'owner_gone', 5: 'forced', 6: 'withdrawn', 7: 'unreceived', 8: 'timed_out', 9: 'caller_gone', 10: 'never_fits', 11: 'pool_removed', 60: 'stolen', 61: 'cancelled' };

/** What ends a hold, besides its release. */
export type Lifetime = 'leased' | 'session' | 'window' | 'kept' | 'bound' | 'unknown';
const LifetimeWords: Record<number, Lifetime> = { 1: 'leased', 2: 'session', 3: 'window', 4: 'kept', 5: 'bound' };

/** Which of the free resources that fit is granted. */
export type Placement = 'first' | 'least_recently_used' | 'most_recently_used' | 'random' | 'spread' | 'unknown';
const PlacementWords: Record<number, Placement> = { 1: 'first', 2: 'least_recently_used', 3: 'most_recently_used', 4: 'random', 5: 'spread' };

/** Who may be served while the head of the queue cannot be. */
export type Order = 'strict' | 'backfill' | 'unknown';
const OrderWords: Record<number, Order> = { 1: 'strict', 2: 'backfill' };

/** Whether a pool or a resource is handed out. Holds there are go on in any case. */
export type ConditionState = 'in_service' | 'drained' | 'quarantined' | 'unknown';
const ConditionStateWords: Record<number, ConditionState> = { 1: 'in_service', 2: 'drained', 3: 'quarantined' };

/** Something that happened. Which fields there are depends on the kind; none of them is secret. */
export interface Event {
  /** From 1, without gaps over all namespaces. */
  seq: number;
  atMs: number;
  kind?: EventKind;
  /** Left out for what concerns the server as a whole. */
  namespace?: string;
  pool?: string;
  /** Whom it happened to. */
  holder?: string;
  meta: Record<string, string>;
  /** The hold's. */
  token?: number;
  /** The waiter's number: a grant that names one ended its wait. */
  waiter?: number;
  /** The session's number. Of a renewed hold: the session that it does not end with any more, because that was away. */
  session?: number;
  how?: How;
  /** The reason of whatever an operator did to somebody's hold, wait or reservation; why a script failed. */
  note?: string;
  /** How many units or resources are held or waited for; left out for a waiter that wants all. */
  units?: number;
  all?: boolean;
  /** The resources that were granted. */
  resources: string[];
  select?: string;
  lifetime?: Lifetime;
  /** The length of the lease or window or of a session's hold, or the grace of the session. */
  ttlMs?: number;
  /** When the hold, the wait, the session, the condition or the reservation ends if nothing is done. */
  deadlineMs?: number;
  priority?: number;
  /** Whose end ends a bound hold. */
  owner?: string;
  /** What the pool was set to. */
  spec?: PoolSpec;
  /** Whether the pool was made. */
  created?: boolean;
  /** The resource that is reserved, or whose condition was set; the whole pool's if left out. */
  resource?: string;
  condition?: Condition;
  /** Of a hold or a wait that ended: when it began. Of a grant to a waiter: when it was asked for. */
  sinceMs?: number;
  /** What was granted of further pools, or the further pools in which something ended. */
  also: HeldPart[];
  /** What is waited for in further pools. */
  waitsAlso: Part[];
  /** Of a condition: whether it came by itself. */
  automatic?: boolean;
  /** Who has the hold next, if it was stolen. */
  to?: string;
  /** In front of which waiter one was put; of all if left out. */
  before?: number;
  /** Of a waiter: whether it wants what has to be cleaned. Of a grant: whether it is for cleaning. */
  dirty?: boolean;
  /** Which of the pool's scripts failed: `place` or `order`. */
  script?: string;
  /** It was one time too many: the pool's scripts are not asked any more, until it is set again. */
  setAside?: boolean;
}
export const Event: Type<Event> = message<Event>([
  [1, 'seq', 'uint64', ''],
  [2, 'atMs', 'uint64', ''],
  [3, 'kind', 'enum', '', EventKindWords],
  [4, 'namespace', 'string', 'optional'],
  [5, 'pool', 'string', 'optional'],
  [6, 'holder', 'string', 'optional'],
  [7, 'meta', 'map', ''],
  [8, 'token', 'uint64', 'optional'],
  [9, 'waiter', 'uint64', 'optional'],
  [10, 'session', 'uint64', 'optional'],
  [11, 'how', 'enum', '', HowWords],
  [12, 'note', 'string', 'optional'],
  [13, 'units', 'uint32', 'optional'],
  [14, 'all', 'bool', 'optional'],
  [15, 'resources', 'string', 'repeated'],
  [16, 'select', 'string', 'optional'],
  [17, 'lifetime', 'enum', '', LifetimeWords],
  [18, 'ttlMs', 'uint64', 'optional'],
  [19, 'deadlineMs', 'uint64', 'optional'],
  [20, 'priority', 'sint32', 'optional'],
  [21, 'owner', 'string', 'optional'],
  [22, 'spec', 'message', '', () => PoolSpec],
  [23, 'created', 'bool', 'optional'],
  [24, 'resource', 'string', 'optional'],
  [25, 'condition', 'message', '', () => Condition],
  [26, 'sinceMs', 'uint64', 'optional'],
  [40, 'also', 'message', 'repeated', () => HeldPart],
  [41, 'waitsAlso', 'message', 'repeated', () => Part],
  [60, 'automatic', 'bool', 'optional'],
  [61, 'to', 'string', 'optional'],
  [62, 'before', 'uint64', 'optional'],
  [63, 'dirty', 'bool', 'optional'],
  [64, 'script', 'string', 'optional'],
  [65, 'setAside', 'bool', 'optional'],
]);

export interface HistoryRequest {
  /** The team's namespace; `default` if left out. */
  namespace: string;
  /** Only what concerns this pool. */
  pool?: string;
  /** Only what concerns this holder. */
  holder?: string;
  /** Not before this time. */
  sinceMs?: number;
  /** Before this time. */
  untilMs?: number;
  /**
   * Only events after this one, or before it if `newest_first`: `next` of the page before. If left out, from the
   * oldest kept, or the newest.
   */
  after?: number;
  newestFirst: boolean;
  /** The most events to give: 100 if left out, at most 1000. */
  limit?: number;
  /** Only events of this kind. */
  kind?: EventKind;
}
export const HistoryRequest: Type<HistoryRequest> = message<HistoryRequest>([
  [1, 'namespace', 'string', ''],
  [2, 'pool', 'string', 'optional'],
  [3, 'holder', 'string', 'optional'],
  [4, 'sinceMs', 'uint64', 'optional'],
  [5, 'untilMs', 'uint64', 'optional'],
  [6, 'after', 'uint64', 'optional'],
  [7, 'newestFirst', 'bool', ''],
  [8, 'limit', 'uint32', 'optional'],
  [80, 'kind', 'enum', '', EventKindWords],
]);

export interface HistoryResponse {
  events: Event[];
  /** Where to go on, as far as the search has come: it may be set though nothing was found yet. */
  next?: number;
  /** Whether there is nothing more in this direction, as of now. */
  done: boolean;
}
export const HistoryResponse: Type<HistoryResponse> = message<HistoryResponse>([
  [1, 'events', 'message', 'repeated', () => Event],
  [2, 'next', 'uint64', 'optional'],
  [3, 'done', 'bool', ''],
]);

export interface WatchRequest {
  /** The team's namespace; `default` if left out. */
  namespace: string;
  /** Only what concerns this pool. */
  pool?: string;
  /** Only what concerns this holder. */
  holder?: string;
  /** Everything after this event; only what happens from now on if left out. */
  after?: number;
}
export const WatchRequest: Type<WatchRequest> = message<WatchRequest>([
  [1, 'namespace', 'string', ''],
  [2, 'pool', 'string', 'optional'],
  [3, 'holder', 'string', 'optional'],
  [4, 'after', 'uint64', 'optional'],
]);

export interface Watched {
  /** How far the watch has come: the `after` with which it can be taken up again. */
  seq: number;
  /** Left out when there is nothing to tell but how far the watch has come. */
  event?: Event;
}
export const Watched: Type<Watched> = message<Watched>([
  [1, 'seq', 'uint64', ''],
  [2, 'event', 'message', '', () => Event],
]);

export interface AcquireRequest {
  /** The team's namespace; `default` if left out. */
  namespace: string;
  /** Required. The pool's name. An unknown one becomes a pool of `size` units. */
  pool: string;
  /** How many units or resources; 1 if left out. */
  units?: number;
  /** Everything there is (that `select` matches): the writer of a read-write lock. Not together with `units`. */
  all: boolean;
  /** Which resources, for a pool of named ones: `gpu && mem >= 80 && !old`. */
  select?: string;
  /**
   * The size the caller believes the pool to have. An unknown pool is made with it (1 if left out), a known one
   * must have it.
   */
  size?: number;
  /**
   * If left out: leased if `ttl_ms` is given, bound if `owner` is, else the pool's window if it has one, else the
   * session's if there is one, else a lease of 30 s.
   */
  lifetime?: Lifetime;
  /** How long a lease or a window lasts; 30 s for a lease if left out. A hold of lifetime session may have it too. */
  ttlMs?: number;
  /** Whose end ends a bound hold. */
  owner?: string;
  /** How long to wait for room. Not at all if left out or 0. */
  waitMs?: number;
  /** Wait however long it takes. Not together with `wait_ms`. */
  waitForever: boolean;
  /** Higher first, from -1000 to 1000. */
  priority: number;
  /** Required. Who asks: others see it while they wait. In a stream the session's holder if left out. */
  holder: string;
  /** More about the holder, such as host, process or reason. */
  meta: Record<string, string>;
  /** The session the request belongs to. The wait ends with it, and so does the hold if its lifetime says so. */
  sessionKey?: string;
  /**
   * Makes a retry safe: the same id gives the same hold. Should be as hard to guess as a key, because whoever
   * knows it can learn the hold's key.
   */
  requestId?: string;
  /** What is wanted of further pools, at most 15, each named once: all of it is granted together, or none of it. */
  also: Part[];
  /**
   * While this waits its holder lets go of nothing it holds. If those who could let it in wait, in the end, for that
   * holder, the wait is refused at once (`deadlock`). Only for a holder id that nobody else works under.
   */
  holdsOn: boolean;
  /** Asks for resources that have to be cleaned, in order to clean them: a release returns them clean. */
  dirty: boolean;
}
export const AcquireRequest: Type<AcquireRequest> = message<AcquireRequest>([
  [1, 'namespace', 'string', ''],
  [2, 'pool', 'string', ''],
  [3, 'units', 'uint32', 'optional'],
  [4, 'all', 'bool', ''],
  [5, 'select', 'string', 'optional'],
  [6, 'size', 'uint32', 'optional'],
  [7, 'lifetime', 'enum', '', LifetimeWords],
  [8, 'ttlMs', 'uint64', 'optional'],
  [9, 'owner', 'string', 'optional'],
  [10, 'waitMs', 'uint64', 'optional'],
  [11, 'waitForever', 'bool', ''],
  [12, 'priority', 'sint32', ''],
  [13, 'holder', 'string', ''],
  [14, 'meta', 'map', ''],
  [15, 'sessionKey', 'string', 'optional'],
  [16, 'requestId', 'string', 'optional'],
  [40, 'also', 'message', 'repeated', () => Part],
  [41, 'holdsOn', 'bool', ''],
  [60, 'dirty', 'bool', ''],
]);

/** What a hold over several pools has of one of them, as its holder sees it. */
export interface GrantedPart {
  pool: string;
  /** How many units, or how many resources. */
  units: number;
  /** For a pool of named resources: which. */
  resources: Resource[];
  /** For a place in a rate window: when it ends. It does not end with the hold. */
  deadlineMs?: number;
}
export const GrantedPart: Type<GrantedPart> = message<GrantedPart>([
  [1, 'pool', 'string', ''],
  [2, 'units', 'uint32', ''],
  [3, 'resources', 'message', 'repeated', () => Resource],
  [4, 'deadlineMs', 'uint64', 'optional'],
]);

/** What a hold over several pools has of one of them, as an onlooker sees it. */
export interface HeldPart {
  pool: string;
  /** How many units, or how many resources. */
  units?: number;
  /** For a pool of named resources: which. */
  resources: string[];
  /** For a place in a rate window, which is listed as a hold of its own too: when it ends. */
  deadlineMs?: number;
}
export const HeldPart: Type<HeldPart> = message<HeldPart>([
  [1, 'pool', 'string', ''],
  [2, 'units', 'uint32', 'optional'],
  [3, 'resources', 'string', 'repeated'],
  [4, 'deadlineMs', 'uint64', 'optional'],
]);

/** A hold as its holder sees it. */
export interface Grant {
  namespace: string;
  pool: string;
  /** Fencing: rises with every grant. What is protected should refuse a lower token than the highest it has seen. */
  token: number;
  /** Secret: whoever has it may renew or release. */
  key: string;
  /** How many units, or how many resources. */
  units: number;
  /** For a pool of named resources: which. */
  resources: Resource[];
  lifetime?: Lifetime;
  /** The length of the lease or window, or of a session's hold that also ends by time. */
  ttlMs?: number;
  sinceMs: number;
  /** When it ends if nothing is done. */
  deadlineMs?: number;
  /** What it has of further pools. `pool` is the first that was asked for and is no rate window. */
  also: GrantedPart[];
}
export const Grant: Type<Grant> = message<Grant>([
  [1, 'namespace', 'string', ''],
  [2, 'pool', 'string', ''],
  [3, 'token', 'uint64', ''],
  [4, 'key', 'string', ''],
  [5, 'units', 'uint32', ''],
  [6, 'resources', 'message', 'repeated', () => Resource],
  [7, 'lifetime', 'enum', '', LifetimeWords],
  [8, 'ttlMs', 'uint64', 'optional'],
  [9, 'sinceMs', 'uint64', ''],
  [10, 'deadlineMs', 'uint64', 'optional'],
  [40, 'also', 'message', 'repeated', () => GrantedPart],
]);

export interface RenewRequest {
  /** The team's namespace; `default` if left out. */
  namespace: string;
  /** Required. The hold's key. */
  key: string;
  /** If given, the hold must be one of this pool. */
  pool?: string;
  /** How long from now; the hold's own length again if left out. */
  ttlMs?: number;
}
export const RenewRequest: Type<RenewRequest> = message<RenewRequest>([
  [1, 'namespace', 'string', ''],
  [2, 'key', 'string', ''],
  [3, 'pool', 'string', 'optional'],
  [4, 'ttlMs', 'uint64', 'optional'],
]);

export interface Renewed {
  token: number;
  ttlMs: number;
  deadlineMs: number;
}
export const Renewed: Type<Renewed> = message<Renewed>([
  [1, 'token', 'uint64', ''],
  [2, 'ttlMs', 'uint64', ''],
  [3, 'deadlineMs', 'uint64', ''],
]);

export interface ReleaseRequest {
  /** The team's namespace; `default` if left out. */
  namespace: string;
  /** Required. The hold's key. */
  key: string;
  /** If given, the hold must be one of this pool. */
  pool?: string;
}
export const ReleaseRequest: Type<ReleaseRequest> = message<ReleaseRequest>([
  [1, 'namespace', 'string', ''],
  [2, 'key', 'string', ''],
  [3, 'pool', 'string', 'optional'],
]);

export interface Released {
  token: number;
}
export const Released: Type<Released> = message<Released>([
  [1, 'token', 'uint64', ''],
]);

export interface WithdrawRequest {
  /** The team's namespace; `default` if left out. */
  namespace: string;
  /** Required. The id the acquire was made with. */
  requestId: string;
}
export const WithdrawRequest: Type<WithdrawRequest> = message<WithdrawRequest>([
  [1, 'namespace', 'string', ''],
  [2, 'requestId', 'string', ''],
]);

export interface Withdrawn {
}
export const Withdrawn: Type<Withdrawn> = message<Withdrawn>([]);

export interface ListHoldsRequest {
  /** The team's namespace; `default` if left out. */
  namespace: string;
  /** Only holds of this pool. */
  pool?: string;
  /** Only holds of this holder. */
  holder?: string;
  /** Where to go on: `next` of the page before. */
  after?: string;
  /** The most entries to give: 100 if left out, at most 1000. */
  limit?: number;
}
export const ListHoldsRequest: Type<ListHoldsRequest> = message<ListHoldsRequest>([
  [1, 'namespace', 'string', ''],
  [2, 'pool', 'string', 'optional'],
  [3, 'holder', 'string', 'optional'],
  [4, 'after', 'string', 'optional'],
  [5, 'limit', 'uint32', 'optional'],
]);

export interface ListHoldsResponse {
  holds: Hold[];
  /** Where to go on; left out on the last page. */
  next?: string;
}
export const ListHoldsResponse: Type<ListHoldsResponse> = message<ListHoldsResponse>([
  [1, 'holds', 'message', 'repeated', () => Hold],
  [2, 'next', 'string', 'optional'],
]);

/** A hold as an onlooker sees it. */
export interface Hold {
  namespace: string;
  pool: string;
  token: number;
  holder: string;
  meta: Record<string, string>;
  units: number;
  /** For a pool of named resources: which. */
  resources: string[];
  lifetime?: Lifetime;
  /** The length of the lease or window, or of a session's hold that also ends by time. */
  ttlMs?: number;
  /** Whose end ends a bound hold. */
  owner?: string;
  sinceMs: number;
  /** When it ends if nothing is done. */
  deadlineMs?: number;
  /** The session in which it was acquired; it ends with it if its lifetime is session. */
  session?: number;
  /** What it has of further pools. */
  also: HeldPart[];
}
export const Hold: Type<Hold> = message<Hold>([
  [1, 'namespace', 'string', ''],
  [2, 'pool', 'string', ''],
  [3, 'token', 'uint64', ''],
  [4, 'holder', 'string', ''],
  [5, 'meta', 'map', ''],
  [6, 'units', 'uint32', ''],
  [7, 'resources', 'string', 'repeated'],
  [8, 'lifetime', 'enum', '', LifetimeWords],
  [9, 'ttlMs', 'uint64', 'optional'],
  [10, 'owner', 'string', 'optional'],
  [11, 'sinceMs', 'uint64', ''],
  [12, 'deadlineMs', 'uint64', 'optional'],
  [13, 'session', 'uint64', 'optional'],
  [40, 'also', 'message', 'repeated', () => HeldPart],
]);

export interface ForceReleaseRequest {
  /** The team's namespace; `default` if left out. */
  namespace: string;
  /** Required. The pool's name. */
  pool: string;
  /** Required. Who is believed to hold it. */
  holder: string;
  /** Required. The token of the hold. */
  token: number;
  /** Required. Why: it is recorded with the event. */
  reason: string;
}
export const ForceReleaseRequest: Type<ForceReleaseRequest> = message<ForceReleaseRequest>([
  [1, 'namespace', 'string', ''],
  [2, 'pool', 'string', ''],
  [3, 'holder', 'string', ''],
  [4, 'token', 'uint64', ''],
  [5, 'reason', 'string', ''],
]);

export interface OwnerGoneRequest {
  /** The team's namespace; `default` if left out. */
  namespace: string;
  /** Required. Whose bound holds are to end. */
  owner: string;
}
export const OwnerGoneRequest: Type<OwnerGoneRequest> = message<OwnerGoneRequest>([
  [1, 'namespace', 'string', ''],
  [2, 'owner', 'string', ''],
]);

export interface OwnerGoneResponse {
  /** How many holds ended. */
  holds: number;
}
export const OwnerGoneResponse: Type<OwnerGoneResponse> = message<OwnerGoneResponse>([
  [1, 'holds', 'uint64', ''],
]);

export interface StealRequest {
  /** The team's namespace; `default` if left out. */
  namespace: string;
  /** Required. The pool's name. */
  pool: string;
  /** Required. Who is believed to hold it. */
  holder: string;
  /** Required. The token of the hold. */
  token: number;
  /** Required. Who gets it. */
  to: string;
  /** More about who gets it. */
  meta: Record<string, string>;
  /** Leased if left out; it cannot be that of a session, or a window. */
  lifetime?: Lifetime;
  /** How long a lease lasts; 30 s if left out. */
  ttlMs?: number;
  /** Whose end ends a bound hold. */
  owner?: string;
  /** Makes a retry safe: the same id gives the same hold. Should be as hard to guess as a key. */
  requestId?: string;
  /** Required. Why: it is recorded with the event. */
  reason: string;
}
export const StealRequest: Type<StealRequest> = message<StealRequest>([
  [1, 'namespace', 'string', ''],
  [2, 'pool', 'string', ''],
  [3, 'holder', 'string', ''],
  [4, 'token', 'uint64', ''],
  [5, 'to', 'string', ''],
  [6, 'meta', 'map', ''],
  [7, 'lifetime', 'enum', '', LifetimeWords],
  [8, 'ttlMs', 'uint64', 'optional'],
  [9, 'owner', 'string', 'optional'],
  [10, 'requestId', 'string', 'optional'],
  [11, 'reason', 'string', ''],
]);

export interface MoveWaiterRequest {
  /** The team's namespace; `default` if left out. */
  namespace: string;
  /** Required. The pool's name. */
  pool: string;
  /** Required. The waiter's number, as the queue lists it. */
  waiter: number;
  /** Required. Who is believed to wait there. */
  holder: string;
  /** Directly before this one, with its priority; before everybody if left out. */
  before?: number;
  /** Required. Why: it is recorded with the event. */
  reason: string;
}
export const MoveWaiterRequest: Type<MoveWaiterRequest> = message<MoveWaiterRequest>([
  [1, 'namespace', 'string', ''],
  [2, 'pool', 'string', ''],
  [3, 'waiter', 'uint64', ''],
  [4, 'holder', 'string', ''],
  [5, 'before', 'uint64', 'optional'],
  [6, 'reason', 'string', ''],
]);

export interface MoveWaiterResponse {
}
export const MoveWaiterResponse: Type<MoveWaiterResponse> = message<MoveWaiterResponse>([]);

export interface ReserveRequest {
  /** The team's namespace; `default` if left out. */
  namespace: string;
  /** Required. The pool's name. */
  pool: string;
  /** Required. The resource that is to be kept. */
  resource: string;
  /** Required. For whom: only a request of this holder gets it, and ends the reservation by that. */
  holder: string;
  /** How long, if nobody comes for it; for as long as it takes if left out. */
  lastsMs?: number;
  /** For whom it is believed to be reserved already; for nobody if left out. */
  insteadOf?: string;
  /** Required. Why: others see it while they wait, and it is recorded with the event. */
  reason: string;
}
export const ReserveRequest: Type<ReserveRequest> = message<ReserveRequest>([
  [1, 'namespace', 'string', ''],
  [2, 'pool', 'string', ''],
  [3, 'resource', 'string', ''],
  [4, 'holder', 'string', ''],
  [5, 'lastsMs', 'uint64', 'optional'],
  [6, 'insteadOf', 'string', 'optional'],
  [7, 'reason', 'string', ''],
]);

export interface ReserveResponse {
}
export const ReserveResponse: Type<ReserveResponse> = message<ReserveResponse>([]);

export interface UnreserveRequest {
  /** The team's namespace; `default` if left out. */
  namespace: string;
  /** Required. The pool's name. */
  pool: string;
  /** Required. The resource that is kept. */
  resource: string;
  /** Required. For whom it is believed to be reserved. */
  holder: string;
  /** Required. Why: it is recorded with the event. */
  reason: string;
}
export const UnreserveRequest: Type<UnreserveRequest> = message<UnreserveRequest>([
  [1, 'namespace', 'string', ''],
  [2, 'pool', 'string', ''],
  [3, 'resource', 'string', ''],
  [4, 'holder', 'string', ''],
  [5, 'reason', 'string', ''],
]);

export interface UnreserveResponse {
}
export const UnreserveResponse: Type<UnreserveResponse> = message<UnreserveResponse>([]);

export interface ExplainRequest {
  /** The team's namespace; `default` if left out. */
  namespace: string;
  /** Required. The pool's name. */
  pool: string;
  /** Only about this waiter, by its number. Not together with `request_id`. */
  waiter?: number;
  /** Only about the waiter of this request. */
  requestId?: string;
  /** About how many waiters, the next to be served first: 10 if left out, at most 100. */
  limit?: number;
}
export const ExplainRequest: Type<ExplainRequest> = message<ExplainRequest>([
  [1, 'namespace', 'string', ''],
  [2, 'pool', 'string', ''],
  [3, 'waiter', 'uint64', 'optional'],
  [4, 'requestId', 'string', 'optional'],
  [5, 'limit', 'uint32', 'optional'],
]);

/** Why those in a queue wait, and what would let them in, in plain sentences without full stops. */
export interface ExplainResponse {
  /** About the pool as a whole. */
  pool: string[];
  waiters: WaiterExplained[];
}
export const ExplainResponse: Type<ExplainResponse> = message<ExplainResponse>([
  [1, 'pool', 'string', 'repeated'],
  [2, 'waiters', 'message', 'repeated', () => WaiterExplained],
]);

export interface WaiterExplained {
  waiter?: Waiter;
  sentences: string[];
}
export const WaiterExplained: Type<WaiterExplained> = message<WaiterExplained>([
  [1, 'waiter', 'message', '', () => Waiter],
  [2, 'sentences', 'string', 'repeated'],
]);

export interface Condition {
  /** Required. Whether it is handed out. */
  state?: ConditionState;
  /** Why. A quarantine needs one, a drain may have one. */
  note?: string;
}
export const Condition: Type<Condition> = message<Condition>([
  [1, 'state', 'enum', '', ConditionStateWords],
  [2, 'note', 'string', 'optional'],
]);

/** A named resource. */
export interface Resource {
  /** Required. Unique within the pool. */
  name: string;
  /** To choose by. An empty value is a flag. */
  labels: Record<string, string>;
  /** Told to whoever is granted it. */
  properties: Record<string, string>;
}
export const Resource: Type<Resource> = message<Resource>([
  [1, 'name', 'string', ''],
  [2, 'labels', 'map', ''],
  [3, 'properties', 'map', ''],
]);

/** What a pool is meant to be. Either `units`, or `resources`. */
export interface PoolSpec {
  /** How many anonymous units. */
  units?: number;
  /** The named resources, all of them: those left out leave the pool when they are let go. */
  resources: Resource[];
  /** A pool of named resources though none is listed. */
  named: boolean;
  /** Which free resource is granted; the first declared if left out. */
  placement?: Placement;
  /** For the placement `spread`: the label to spread by. */
  spreadLabel?: string;
  /** Who may be served while the head of the queue cannot be; strict if left out. */
  order?: Order;
  /** Makes it a rate window: every hold lasts exactly this long. */
  windowMs?: number;
  /** Only for named resources: what was held is dirty, and handed out again only when it has been cleaned. */
  cleaning: boolean;
  /** How waiters of the same priority take turns; in the order in which they came if left out. */
  fair?: FairShare;
  /** Small scripts of your own, which say what is granted and who is served first. See docs/placement.md. */
  scripts?: Scripts;
}
export const PoolSpec: Type<PoolSpec> = message<PoolSpec>([
  [1, 'units', 'uint32', 'optional'],
  [2, 'resources', 'message', 'repeated', () => Resource],
  [3, 'named', 'bool', ''],
  [4, 'placement', 'enum', '', PlacementWords],
  [5, 'spreadLabel', 'string', 'optional'],
  [6, 'order', 'enum', '', OrderWords],
  [7, 'windowMs', 'uint64', 'optional'],
  [60, 'cleaning', 'bool', ''],
  [61, 'fair', 'message', '', () => FairShare],
  [62, 'scripts', 'message', '', () => Scripts],
]);

/** Scripts whose last value is a score: the highest wins. */
export interface Scripts {
  /** Only for named resources. Scores a free resource for a request; on a tie the placement decides. */
  place?: string;
  /**
   * Scores somebody who waits, for what is free: of those who fit, within a priority. On a tie the place in the queue
   * decides. Needs the order `backfill`.
   */
  order?: string;
}
export const Scripts: Type<Scripts> = message<Scripts>([
  [1, 'place', 'string', 'optional'],
  [2, 'order', 'string', 'optional'],
]);

/** Waiters of the same priority are grouped, and the groups are served in turn. */
export interface FairShare {
  /** Required. What makes a group: `holder`, or the name of a piece of the holder's metadata, such as `tenant`. */
  by: string;
  /** How often a group is served for once of the others, from 1 to 1000; those left out weigh 1. */
  weights: FairShareWeightsEntry[];
}
export const FairShare: Type<FairShare> = message<FairShare>([
  [1, 'by', 'string', ''],
  [2, 'weights', 'message', 'repeated', () => FairShareWeightsEntry],
]);

export interface FairShareWeightsEntry {
  key: string;
  value: number;
}
export const FairShareWeightsEntry: Type<FairShareWeightsEntry> = message<FairShareWeightsEntry>([
  [1, 'key', 'string', ''],
  [2, 'value', 'uint32', ''],
]);

export interface SetPoolRequest {
  /** The team's namespace; `default` if left out. */
  namespace: string;
  /** Required. The pool's name. */
  pool: string;
  /** What the pool is meant to be. */
  spec?: PoolSpec;
  /** Only if this is its size now; otherwise it has changed since somebody looked, and nothing is done. */
  sizeWas?: number;
}
export const SetPoolRequest: Type<SetPoolRequest> = message<SetPoolRequest>([
  [1, 'namespace', 'string', ''],
  [2, 'pool', 'string', ''],
  [3, 'spec', 'message', '', () => PoolSpec],
  [80, 'sizeWas', 'uint32', 'optional'],
]);

export interface SetPoolResponse {
  /** Whether it had to be made. */
  created: boolean;
}
export const SetPoolResponse: Type<SetPoolResponse> = message<SetPoolResponse>([
  [1, 'created', 'bool', ''],
]);

export interface SetConditionRequest {
  /** The team's namespace; `default` if left out. */
  namespace: string;
  /** Required. The pool's name. */
  pool: string;
  /** Only this resource; the whole pool if left out. */
  resource?: string;
  /** Its new condition. */
  condition?: Condition;
  /** After this it returns to service by itself. Not for what is in service. */
  lastsMs?: number;
  /** Only if this is its condition now; otherwise it has changed since somebody looked, and nothing is done. */
  stateWas?: ConditionState;
}
export const SetConditionRequest: Type<SetConditionRequest> = message<SetConditionRequest>([
  [1, 'namespace', 'string', ''],
  [2, 'pool', 'string', ''],
  [3, 'resource', 'string', 'optional'],
  [4, 'condition', 'message', '', () => Condition],
  [60, 'lastsMs', 'uint64', 'optional'],
  [80, 'stateWas', 'enum', '', ConditionStateWords],
]);

export interface SetConditionResponse {
}
export const SetConditionResponse: Type<SetConditionResponse> = message<SetConditionResponse>([]);

export interface RemovePoolRequest {
  /** The team's namespace; `default` if left out. */
  namespace: string;
  /** Required. The pool's name. */
  pool: string;
}
export const RemovePoolRequest: Type<RemovePoolRequest> = message<RemovePoolRequest>([
  [1, 'namespace', 'string', ''],
  [2, 'pool', 'string', ''],
]);

export interface RemovePoolResponse {
  /** The pool is gone as soon as these have ended. */
  holdsLeft: number;
}
export const RemovePoolResponse: Type<RemovePoolResponse> = message<RemovePoolResponse>([
  [1, 'holdsLeft', 'uint64', ''],
]);

export interface ListPoolsRequest {
  /** The team's namespace; `default` if left out. */
  namespace: string;
  /** Only names that start with this. */
  prefix: string;
  /** Where to go on: `next` of the page before. */
  after?: string;
  /** The most entries to give: 100 if left out, at most 1000. */
  limit?: number;
}
export const ListPoolsRequest: Type<ListPoolsRequest> = message<ListPoolsRequest>([
  [1, 'namespace', 'string', ''],
  [2, 'prefix', 'string', ''],
  [3, 'after', 'string', 'optional'],
  [4, 'limit', 'uint32', 'optional'],
]);

export interface ListPoolsResponse {
  pools: Pool[];
  /** Where to go on; left out on the last page. */
  next?: string;
}
export const ListPoolsResponse: Type<ListPoolsResponse> = message<ListPoolsResponse>([
  [1, 'pools', 'message', 'repeated', () => Pool],
  [2, 'next', 'string', 'optional'],
]);

/** How a pool stands. */
export interface Pool {
  namespace: string;
  pool: string;
  /** Whether it has named resources rather than units. */
  named: boolean;
  /** How many units, or resources that are not leaving. */
  size: number;
  /** How many of them are held. */
  used: number;
  holds: number;
  waiters: number;
  /** When the waiter that has waited longest came. */
  waitingSinceMs?: number;
  condition?: Condition;
  /** It takes nobody any more and vanishes with its last hold. */
  removing: boolean;
  /** False if it came to be on first use and vanishes when idle. */
  declared: boolean;
  /** The length of the rate window it is. */
  windowMs?: number;
  /** When it returns to service by itself. */
  returnsAtMs?: number;
  /** Resources that nobody holds and that have to be cleaned. */
  dirty: number;
}
export const Pool: Type<Pool> = message<Pool>([
  [1, 'namespace', 'string', ''],
  [2, 'pool', 'string', ''],
  [3, 'named', 'bool', ''],
  [4, 'size', 'uint32', ''],
  [5, 'used', 'uint32', ''],
  [6, 'holds', 'uint64', ''],
  [7, 'waiters', 'uint64', ''],
  [8, 'waitingSinceMs', 'uint64', 'optional'],
  [9, 'condition', 'message', '', () => Condition],
  [10, 'removing', 'bool', ''],
  [11, 'declared', 'bool', ''],
  [12, 'windowMs', 'uint64', 'optional'],
  [60, 'returnsAtMs', 'uint64', 'optional'],
  [61, 'dirty', 'uint32', ''],
]);

export interface GetPoolRequest {
  /** The team's namespace; `default` if left out. */
  namespace: string;
  /** Required. The pool's name. */
  pool: string;
}
export const GetPoolRequest: Type<GetPoolRequest> = message<GetPoolRequest>([
  [1, 'namespace', 'string', ''],
  [2, 'pool', 'string', ''],
]);

export interface PoolDetail {
  summary?: Pool;
  /** What it is meant to be: can be changed and set again. */
  spec?: PoolSpec;
  /** How its resources stand, those that are leaving too. */
  resources: ResourceState[];
  /** How many decisions were made without its scripts since it was set, because one failed. */
  scriptFaults: number;
  /** They failed too often: they are not asked any more, until the pool is set again. */
  scriptsSetAside: boolean;
}
export const PoolDetail: Type<PoolDetail> = message<PoolDetail>([
  [1, 'summary', 'message', '', () => Pool],
  [2, 'spec', 'message', '', () => PoolSpec],
  [3, 'resources', 'message', 'repeated', () => ResourceState],
  [60, 'scriptFaults', 'uint32', ''],
  [61, 'scriptsSetAside', 'bool', ''],
]);

export interface ResourceState {
  name: string;
  condition?: Condition;
  /** It is no longer part of the pool and vanishes when it is let go. */
  leaving: boolean;
  /** The hold that has it. */
  token?: number;
  lastUsedAtMs?: number;
  /** When it returns to service by itself. */
  returnsAtMs?: number;
  /** It has to be cleaned before it is handed out again, or is being cleaned. */
  dirty: boolean;
  /** It is kept for a holder to come. */
  reserved?: Reservation;
}
export const ResourceState: Type<ResourceState> = message<ResourceState>([
  [1, 'name', 'string', ''],
  [2, 'condition', 'message', '', () => Condition],
  [3, 'leaving', 'bool', ''],
  [4, 'token', 'uint64', 'optional'],
  [5, 'lastUsedAtMs', 'uint64', 'optional'],
  [60, 'returnsAtMs', 'uint64', 'optional'],
  [61, 'dirty', 'bool', ''],
  [62, 'reserved', 'message', '', () => Reservation],
]);

export interface Reservation {
  holder: string;
  /** When it ends if nobody comes. */
  deadlineMs?: number;
  reason: string;
}
export const Reservation: Type<Reservation> = message<Reservation>([
  [1, 'holder', 'string', ''],
  [2, 'deadlineMs', 'uint64', 'optional'],
  [3, 'reason', 'string', ''],
]);

export interface ListQueueRequest {
  /** The team's namespace; `default` if left out. */
  namespace: string;
  /** Required. The pool's name. */
  pool: string;
  /** Where to go on: `next` of the page before. */
  after?: string;
  /** The most entries to give: 100 if left out, at most 1000. */
  limit?: number;
}
export const ListQueueRequest: Type<ListQueueRequest> = message<ListQueueRequest>([
  [1, 'namespace', 'string', ''],
  [2, 'pool', 'string', ''],
  [3, 'after', 'string', 'optional'],
  [4, 'limit', 'uint32', 'optional'],
]);

export interface ListQueueResponse {
  waiters: Waiter[];
  /** Where to go on; left out on the last page. */
  next?: string;
}
export const ListQueueResponse: Type<ListQueueResponse> = message<ListQueueResponse>([
  [1, 'waiters', 'message', 'repeated', () => Waiter],
  [2, 'next', 'string', 'optional'],
]);

/** What an acquire over several pools wants of one of them. */
export interface Part {
  /** Required. The pool's name. An unknown one becomes a pool of `size` units. */
  pool: string;
  /** How many units or resources; 1 if left out. */
  units?: number;
  /** Everything there is (that `select` matches). Not together with `units`. */
  all: boolean;
  /** Which resources, for a pool of named ones. */
  select?: string;
  /** The size the caller believes the pool to have. */
  size?: number;
}
export const Part: Type<Part> = message<Part>([
  [1, 'pool', 'string', ''],
  [2, 'units', 'uint32', 'optional'],
  [3, 'all', 'bool', ''],
  [4, 'select', 'string', 'optional'],
  [5, 'size', 'uint32', 'optional'],
]);

/** Somebody who waits. */
export interface Waiter {
  waiter: number;
  /** From 1, the next to be served; left out while its session is away, when it is passed over but keeps its place. */
  position?: number;
  holder: string;
  meta: Record<string, string>;
  /** How many units or resources; left out for all. */
  units?: number;
  all: boolean;
  select?: string;
  priority: number;
  sinceMs: number;
  /** When it gives up. */
  deadlineMs?: number;
  /** The session it belongs to. */
  session?: number;
  /** What it wants of further pools: it is served when all have room. */
  also: Part[];
  /** It wants what has to be cleaned. */
  dirty: boolean;
}
export const Waiter: Type<Waiter> = message<Waiter>([
  [1, 'waiter', 'uint64', ''],
  [2, 'position', 'uint64', 'optional'],
  [3, 'holder', 'string', ''],
  [4, 'meta', 'map', ''],
  [5, 'units', 'uint32', 'optional'],
  [6, 'all', 'bool', ''],
  [7, 'select', 'string', 'optional'],
  [8, 'priority', 'sint32', ''],
  [9, 'sinceMs', 'uint64', ''],
  [10, 'deadlineMs', 'uint64', 'optional'],
  [11, 'session', 'uint64', 'optional'],
  [40, 'also', 'message', 'repeated', () => Part],
  [60, 'dirty', 'bool', ''],
]);

export interface ListWaitsRequest {
  /** The team's namespace; `default` if left out. */
  namespace: string;
  /** Only waits of this holder. */
  holder?: string;
  /** Where to go on: `next` of the page before. */
  after?: string;
  /** The most entries to give: 100 if left out, at most 1000. */
  limit?: number;
}
export const ListWaitsRequest: Type<ListWaitsRequest> = message<ListWaitsRequest>([
  [1, 'namespace', 'string', ''],
  [2, 'holder', 'string', 'optional'],
  [3, 'after', 'string', 'optional'],
  [4, 'limit', 'uint32', 'optional'],
]);

export interface ListWaitsResponse {
  waits: Wait[];
  /** Where to go on; left out on the last page. */
  next?: string;
}
export const ListWaitsResponse: Type<ListWaitsResponse> = message<ListWaitsResponse>([
  [1, 'waits', 'message', 'repeated', () => Wait],
  [2, 'next', 'string', 'optional'],
]);

/** Somebody who waits, and for what. */
export interface Wait {
  namespace: string;
  pool: string;
  waiter?: Waiter;
}
export const Wait: Type<Wait> = message<Wait>([
  [1, 'namespace', 'string', ''],
  [2, 'pool', 'string', ''],
  [3, 'waiter', 'message', '', () => Waiter],
]);

export interface SearchRequest {
  /** The team's namespace; `default` if left out. */
  namespace: string;
  /** Required. What is looked for in names, labels and metadata, whether in capitals or not. */
  text: string;
  /** Where to go on: `next` of the page before. */
  after?: string;
  /** The most entries to give: 100 if left out, at most 1000. */
  limit?: number;
}
export const SearchRequest: Type<SearchRequest> = message<SearchRequest>([
  [1, 'namespace', 'string', ''],
  [2, 'text', 'string', ''],
  [3, 'after', 'string', 'optional'],
  [4, 'limit', 'uint32', 'optional'],
]);

export interface SearchResponse {
  found: Found[];
  /** Where to go on; left out on the last page. It may be set though nothing was found yet. */
  next?: string;
}
export const SearchResponse: Type<SearchResponse> = message<SearchResponse>([
  [1, 'found', 'message', 'repeated', () => Found],
  [2, 'next', 'string', 'optional'],
]);

/**
 * What has the text: a pool, a resource (with its pool), a hold (with its token), a wait (with the waiter's number) or
 * a session (with its number).
 */
export interface Found {
  /** The pool, or the one that is held or waited for, or whose resource it is. */
  pool?: string;
  resource?: string;
  /** Who holds or waits, or whose session it is. */
  holder?: string;
  token?: number;
  waiter?: number;
  session?: number;
  /** The label, or the metadata of the holder, that has the text, if it is in no name. */
  because: Record<string, string>;
}
export const Found: Type<Found> = message<Found>([
  [1, 'pool', 'string', 'optional'],
  [2, 'resource', 'string', 'optional'],
  [3, 'holder', 'string', 'optional'],
  [4, 'token', 'uint64', 'optional'],
  [5, 'waiter', 'uint64', 'optional'],
  [6, 'session', 'uint64', 'optional'],
  [7, 'because', 'map', ''],
]);

/** Why not. Which fields there are depends on the code. */
export interface Refusal {
  /** A stable name for programs, such as `busy`. docs/api.md lists all, in order of precedence. */
  code: string;
  /** What happened, for people. */
  message: string;
  /** What to do now. */
  advice: string;
  /** Whether the same request may succeed if it is made again later. */
  retry: boolean;
  /** Whether the request may have taken effect all the same. */
  mayHaveHappened: boolean;
  /** The field that cannot be used as it is. */
  field?: string;
  namespace?: string;
  pool?: string;
  resource?: string;
  /** Some of those who hold it, those longest there first. */
  holders: Hold[];
  /** How many holds there are. */
  holdersTotal?: number;
  /** The place in the queue the request had, or would have had, from 1. */
  position?: number;
  /** Units that are free and yet not for this request: spoken for by waiters, or out of service. */
  free?: number;
  /** The token of the hold in question. */
  token?: number;
  /** When the hold in question ends. */
  deadlineMs?: number;
  /** The size the pool has. */
  size?: number;
  /** The length of the rate window the pool is. */
  windowMs?: number;
  /** The most the pool could ever give for this request. */
  most?: number;
  /** The limit that is reached. */
  limit?: string;
  /** The value of the limit. */
  max?: number;
  condition?: Condition;
  /** The oldest event that is still kept. */
  oldest?: number;
  /** The server's time. */
  atMs?: number;
  /** Further pools that have no room for what was asked of them. */
  also: NoRoom[];
  /** Who waits for whom, from the one who asked on; the last waits for the first. */
  cycle: Blocked[];
  /** The pool that cannot be had together with `pool`. */
  otherPool?: string;
  /** Resources that nobody holds and that have to be cleaned first. They do not count as free. */
  dirty?: number;
  /** Some of those that are kept for somebody else. */
  reserved: ReservedFor[];
  /** Where in the script of `field` something is wrong, from 1. */
  line?: number;
  column?: number;
}
export const Refusal: Type<Refusal> = message<Refusal>([
  [1, 'code', 'string', ''],
  [2, 'message', 'string', ''],
  [3, 'advice', 'string', ''],
  [4, 'retry', 'bool', ''],
  [5, 'mayHaveHappened', 'bool', ''],
  [6, 'field', 'string', 'optional'],
  [7, 'namespace', 'string', 'optional'],
  [8, 'pool', 'string', 'optional'],
  [9, 'resource', 'string', 'optional'],
  [10, 'holders', 'message', 'repeated', () => Hold],
  [11, 'holdersTotal', 'uint64', 'optional'],
  [12, 'position', 'uint64', 'optional'],
  [13, 'free', 'uint32', 'optional'],
  [14, 'token', 'uint64', 'optional'],
  [15, 'deadlineMs', 'uint64', 'optional'],
  [16, 'size', 'uint32', 'optional'],
  [17, 'windowMs', 'uint64', 'optional'],
  [18, 'most', 'uint32', 'optional'],
  [19, 'limit', 'string', 'optional'],
  [20, 'max', 'uint64', 'optional'],
  [21, 'condition', 'message', '', () => Condition],
  [22, 'oldest', 'uint64', 'optional'],
  [23, 'atMs', 'uint64', 'optional'],
  [40, 'also', 'message', 'repeated', () => NoRoom],
  [41, 'cycle', 'message', 'repeated', () => Blocked],
  [42, 'otherPool', 'string', 'optional'],
  [60, 'dirty', 'uint32', 'optional'],
  [61, 'reserved', 'message', 'repeated', () => ReservedFor],
  [62, 'line', 'uint32', 'optional'],
  [63, 'column', 'uint32', 'optional'],
]);

/** Why a pool has no room. */
export interface NoRoom {
  pool: string;
  /** Some of those who hold it, those longest there first. */
  holders: Hold[];
  /** How many holds there are. */
  holdersTotal: number;
  /** The place in its queue the request had, or would have had, from 1. */
  position: number;
  /** Units that are free and yet not for this request. */
  free: number;
}
export const NoRoom: Type<NoRoom> = message<NoRoom>([
  [1, 'pool', 'string', ''],
  [2, 'holders', 'message', 'repeated', () => Hold],
  [3, 'holdersTotal', 'uint64', ''],
  [4, 'position', 'uint64', ''],
  [5, 'free', 'uint32', ''],
]);

/** One of those who wait for each other. */
export interface Blocked {
  holder: string;
  /** The session of its wait. */
  session?: number;
  /** The pool it waits for. */
  pool: string;
  /** The hold of the next one that it waits for; left out if the next one is before it in the queue. */
  token?: number;
}
export const Blocked: Type<Blocked> = message<Blocked>([
  [1, 'holder', 'string', ''],
  [2, 'session', 'uint64', 'optional'],
  [3, 'pool', 'string', ''],
  [4, 'token', 'uint64', 'optional'],
]);

export interface ReservedFor {
  resource: string;
  holder: string;
}
export const ReservedFor: Type<ReservedFor> = message<ReservedFor>([
  [1, 'resource', 'string', ''],
  [2, 'holder', 'string', ''],
]);

export interface OpenSessionRequest {
  /** The team's namespace; `default` if left out. */
  namespace: string;
  /** Required. Whose session it is. */
  holder: string;
  /** More about the holder, such as host, process or reason. */
  meta: Record<string, string>;
  /** How long it outlives its stream or its last keep-alive; 30 s if left out. */
  graceMs?: number;
}
export const OpenSessionRequest: Type<OpenSessionRequest> = message<OpenSessionRequest>([
  [1, 'namespace', 'string', ''],
  [2, 'holder', 'string', ''],
  [3, 'meta', 'map', ''],
  [4, 'graceMs', 'uint64', 'optional'],
]);

export interface SessionOpened {
  /** Its public number. */
  session: number;
  /** Secret: whoever has it speaks for the session. */
  sessionKey: string;
  graceMs: number;
  /** When it ends if nothing is done; left out while a stream carries it. */
  deadlineMs?: number;
}
export const SessionOpened: Type<SessionOpened> = message<SessionOpened>([
  [1, 'session', 'uint64', ''],
  [2, 'sessionKey', 'string', ''],
  [3, 'graceMs', 'uint64', ''],
  [4, 'deadlineMs', 'uint64', 'optional'],
]);

export interface KeepAliveRequest {
  /** The team's namespace; `default` if left out. */
  namespace: string;
  /** Required. The session's key. */
  sessionKey: string;
}
export const KeepAliveRequest: Type<KeepAliveRequest> = message<KeepAliveRequest>([
  [1, 'namespace', 'string', ''],
  [2, 'sessionKey', 'string', ''],
]);

export interface EndSessionRequest {
  /** The team's namespace; `default` if left out. */
  namespace: string;
  /** Required. The session's key. */
  sessionKey: string;
}
export const EndSessionRequest: Type<EndSessionRequest> = message<EndSessionRequest>([
  [1, 'namespace', 'string', ''],
  [2, 'sessionKey', 'string', ''],
]);

export interface SessionEnded {
}
export const SessionEnded: Type<SessionEnded> = message<SessionEnded>([]);

export interface ListSessionsRequest {
  /** The team's namespace; `default` if left out. */
  namespace: string;
  /** Where to go on: `next` of the page before. */
  after?: string;
  /** The most entries to give: 100 if left out, at most 1000. */
  limit?: number;
}
export const ListSessionsRequest: Type<ListSessionsRequest> = message<ListSessionsRequest>([
  [1, 'namespace', 'string', ''],
  [2, 'after', 'string', 'optional'],
  [3, 'limit', 'uint32', 'optional'],
]);

export interface ListSessionsResponse {
  sessions: Session[];
  /** Where to go on; left out on the last page. */
  next?: string;
}
export const ListSessionsResponse: Type<ListSessionsResponse> = message<ListSessionsResponse>([
  [1, 'sessions', 'message', 'repeated', () => Session],
  [2, 'next', 'string', 'optional'],
]);

/** A session as an onlooker sees it. */
export interface Session {
  session: number;
  holder: string;
  meta: Record<string, string>;
  graceMs: number;
  /** Whether a stream carries it. */
  attached: boolean;
  /** When it ends if nothing is done; left out while a stream carries it. */
  deadlineMs?: number;
  holds: number;
  waiters: number;
}
export const Session: Type<Session> = message<Session>([
  [1, 'session', 'uint64', ''],
  [2, 'holder', 'string', ''],
  [3, 'meta', 'map', ''],
  [4, 'graceMs', 'uint64', ''],
  [5, 'attached', 'bool', ''],
  [6, 'deadlineMs', 'uint64', 'optional'],
  [7, 'holds', 'uint64', ''],
  [8, 'waiters', 'uint64', ''],
]);

/**
 * What a client says in the stream: up to 4,096 requests at once. Putting what is there to say into one message is
 * what makes the stream fast.
 */
export interface ClientMessage {
  requests: ClientRequest[];
}
export const ClientMessage: Type<ClientMessage> = message<ClientMessage>([
  [1, 'requests', 'message', 'repeated', () => ClientRequest],
]);

/** The first request is `open` or `resume`. */
export interface ClientRequest {
  /** Chosen by the client and echoed in every answer; different from those of all requests not yet answered. */
  id: number;
  open?: OpenSessionRequest;
  resume?: ResumeSession;
  /**
   * Belongs to the stream's session unless it names another. Answered with `queued` if it has to wait, and then
   * with what came of it.
   */
  acquire?: AcquireRequest;
  renew?: RenewRequest;
  release?: ReleaseRequest;
  withdraw?: WithdrawRequest;
  ping?: Ping;
  /** Ends the session, and the stream once this is answered. */
  end?: EndSession;
}
export const ClientRequest: Type<ClientRequest> = message<ClientRequest>([
  [1, 'id', 'uint64', ''],
  [2, 'open', 'message', '', () => OpenSessionRequest],
  [3, 'resume', 'message', '', () => ResumeSession],
  [4, 'acquire', 'message', '', () => AcquireRequest],
  [5, 'renew', 'message', '', () => RenewRequest],
  [6, 'release', 'message', '', () => ReleaseRequest],
  [7, 'withdraw', 'message', '', () => WithdrawRequest],
  [8, 'ping', 'message', '', () => Ping],
  [9, 'end', 'message', '', () => EndSession],
]);

/**
 * Carries on with a session whose stream was lost. Waits that were made with a request id have kept their places;
 * the same acquires, made again, take them up.
 */
export interface ResumeSession {
  /** The team's namespace; `default` if left out. */
  namespace: string;
  /** Required. The session's key. */
  sessionKey: string;
  /** Who asks in acquires that do not say; the session's holder if left out. */
  holder: string;
  meta: Record<string, string>;
}
export const ResumeSession: Type<ResumeSession> = message<ResumeSession>([
  [1, 'namespace', 'string', ''],
  [2, 'sessionKey', 'string', ''],
  [3, 'holder', 'string', ''],
  [4, 'meta', 'map', ''],
]);

export interface Ping {
}
export const Ping: Type<Ping> = message<Ping>([]);

export interface EndSession {
}
export const EndSession: Type<EndSession> = message<EndSession>([]);

/**
 * What the server says in the stream: any number of answers at once, in the order in which things happened, which is
 * not necessarily that of the requests.
 */
export interface ServerMessage {
  answers: ServerAnswer[];
}
export const ServerMessage: Type<ServerMessage> = message<ServerMessage>([
  [1, 'answers', 'message', 'repeated', () => ServerAnswer],
]);

export interface ServerAnswer {
  /** The id of the request that is answered. */
  id: number;
  opened?: SessionOpened;
  queued?: Queued;
  granted?: Grant;
  renewed?: Renewed;
  released?: Released;
  withdrawn?: Withdrawn;
  pong?: Pong;
  ended?: SessionEnded;
  refused?: Refusal;
  /** Told under the id of the `open` or `resume`, whenever it happens. */
  lost?: HoldLost;
}
export const ServerAnswer: Type<ServerAnswer> = message<ServerAnswer>([
  [1, 'id', 'uint64', ''],
  [2, 'opened', 'message', '', () => SessionOpened],
  [3, 'queued', 'message', '', () => Queued],
  [4, 'granted', 'message', '', () => Grant],
  [5, 'renewed', 'message', '', () => Renewed],
  [6, 'released', 'message', '', () => Released],
  [7, 'withdrawn', 'message', '', () => Withdrawn],
  [8, 'pong', 'message', '', () => Pong],
  [9, 'ended', 'message', '', () => SessionEnded],
  [10, 'refused', 'message', '', () => Refusal],
  [11, 'lost', 'message', '', () => HoldLost],
]);

/** In the queue; the grant, or the end of the wait, follows. */
export interface Queued {
  /** From 1, the next to be served. */
  position: number;
  /** When the wait ends without a grant. */
  deadlineMs?: number;
}
export const Queued: Type<Queued> = message<Queued>([
  [1, 'position', 'uint64', ''],
  [2, 'deadlineMs', 'uint64', 'optional'],
]);

/** A hold of the stream's session is over though nobody who had its key ended it: stop using what it protected. */
export interface HoldLost {
  token: number;
  /** `EXPIRED`, `FORCED` or `OWNER_GONE`. */
  how?: How;
  /** The reason of a forced release. */
  note?: string;
}
export const HoldLost: Type<HoldLost> = message<HoldLost>([
  [1, 'token', 'uint64', ''],
  [2, 'how', 'enum', '', HowWords],
  [3, 'note', 'string', 'optional'],
]);

export interface Pong {
  /** The server's time. */
  atMs: number;
}
export const Pong: Type<Pong> = message<Pong>([
  [1, 'atMs', 'uint64', ''],
]);
