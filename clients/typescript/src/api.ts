/**
 * Every call of the server with its own messages: for operators, and for what the client has no words of its own for. A request
 * that names no namespace means the client's.
 */

import type { Init, Type } from './codec.js';
import * as wire from './wire.js';

/** Of a single call. */
export interface CallOptions {
  /** Ends the call; whether what was asked happened is then not known. */
  signal?: AbortSignal;
}

/** @internal */
export type Call = <Question extends { namespace: string }, Answer>(
  name: string,
  request: Init<Question>,
  question: Type<Question>,
  answer: Type<Answer>,
  options: CallOptions,
) => Promise<Answer>;

/** The calls of `client.api`. They are not tried again: an error says whether what was asked may have happened. */
export class Api {
  readonly #call: Call;

  /** @internal */
  constructor(call: Call) {
    this.#call = call;
  }

  /** Asks for a hold outside the session, and waits for it inside the call. Nobody renews it, and `holder` must be said. */
  acquire(request: Init<wire.AcquireRequest>, options: CallOptions = {}): Promise<wire.Grant> {
    return this.#call('Acquire', request, wire.AcquireRequest, wire.Grant, options);
  }

  /** Prolongs what ends by time; needs the key. */
  renew(request: Init<wire.RenewRequest>, options: CallOptions = {}): Promise<wire.Renewed> {
    return this.#call('Renew', request, wire.RenewRequest, wire.Renewed, options);
  }

  /** Ends a hold; needs the key. */
  release(request: Init<wire.ReleaseRequest>, options: CallOptions = {}): Promise<wire.Released> {
    return this.#call('Release', request, wire.ReleaseRequest, wire.Released, options);
  }

  /** Ends a request at whatever stage it is, by its request id. */
  withdraw(request: Init<wire.WithdrawRequest>, options: CallOptions = {}): Promise<wire.Withdrawn> {
    return this.#call('Withdraw', request, wire.WithdrawRequest, wire.Withdrawn, options);
  }

  /** Who holds what, oldest first. */
  listHolds(request: Init<wire.ListHoldsRequest>, options: CallOptions = {}): Promise<wire.ListHoldsResponse> {
    return this.#call('ListHolds', request, wire.ListHoldsRequest, wire.ListHoldsResponse, options);
  }

  /** Ends a hold as an operator, if that holder still has it with that token. */
  forceRelease(request: Init<wire.ForceReleaseRequest>, options: CallOptions = {}): Promise<wire.Released> {
    return this.#call('ForceRelease', request, wire.ForceReleaseRequest, wire.Released, options);
  }

  /** Ends the holds that are bound to an outside owner. */
  ownerGone(request: Init<wire.OwnerGoneRequest>, options: CallOptions = {}): Promise<wire.OwnerGoneResponse> {
    return this.#call('OwnerGone', request, wire.OwnerGoneRequest, wire.OwnerGoneResponse, options);
  }

  /** Opens a session that lives by keep-alives; the client has one of its own, which needs none. */
  openSession(request: Init<wire.OpenSessionRequest>, options: CallOptions = {}): Promise<wire.SessionOpened> {
    return this.#call('OpenSession', request, wire.OpenSessionRequest, wire.SessionOpened, options);
  }

  /** Moves the end of a session to its grace from now. */
  keepAlive(request: Init<wire.KeepAliveRequest>, options: CallOptions = {}): Promise<wire.SessionOpened> {
    return this.#call('KeepAlive', request, wire.KeepAliveRequest, wire.SessionOpened, options);
  }

  /** Ends a session with its waits and holds. */
  endSession(request: Init<wire.EndSessionRequest>, options: CallOptions = {}): Promise<wire.SessionEnded> {
    return this.#call('EndSession', request, wire.EndSessionRequest, wire.SessionEnded, options);
  }

  /** Sessions, oldest first. */
  listSessions(request: Init<wire.ListSessionsRequest>, options: CallOptions = {}): Promise<wire.ListSessionsResponse> {
    return this.#call('ListSessions', request, wire.ListSessionsRequest, wire.ListSessionsResponse, options);
  }

  /** Declares or changes a pool. */
  setPool(request: Init<wire.SetPoolRequest>, options: CallOptions = {}): Promise<wire.SetPoolResponse> {
    return this.#call('SetPool', request, wire.SetPoolRequest, wire.SetPoolResponse, options);
  }

  /** Drains, quarantines or returns a pool, or one resource. */
  setCondition(request: Init<wire.SetConditionRequest>, options: CallOptions = {}): Promise<wire.SetConditionResponse> {
    return this.#call('SetCondition', request, wire.SetConditionRequest, wire.SetConditionResponse, options);
  }

  /** Takes a pool away, as soon as its holds have ended. */
  removePool(request: Init<wire.RemovePoolRequest>, options: CallOptions = {}): Promise<wire.RemovePoolResponse> {
    return this.#call('RemovePool', request, wire.RemovePoolRequest, wire.RemovePoolResponse, options);
  }

  /** Pools by name. */
  listPools(request: Init<wire.ListPoolsRequest>, options: CallOptions = {}): Promise<wire.ListPoolsResponse> {
    return this.#call('ListPools', request, wire.ListPoolsRequest, wire.ListPoolsResponse, options);
  }

  /** How a pool stands, its spec, its resources. */
  getPool(request: Init<wire.GetPoolRequest>, options: CallOptions = {}): Promise<wire.PoolDetail> {
    return this.#call('GetPool', request, wire.GetPoolRequest, wire.PoolDetail, options);
  }

  /** Who waits, the next to be served first. */
  listQueue(request: Init<wire.ListQueueRequest>, options: CallOptions = {}): Promise<wire.ListQueueResponse> {
    return this.#call('ListQueue', request, wire.ListQueueRequest, wire.ListQueueResponse, options);
  }

  /** What happened. */
  history(request: Init<wire.HistoryRequest>, options: CallOptions = {}): Promise<wire.HistoryResponse> {
    return this.#call('History', request, wire.HistoryRequest, wire.HistoryResponse, options);
  }

  /** Gives a hold to somebody else, if that holder still has it with that token. */
  steal(request: Init<wire.StealRequest>, options: CallOptions = {}): Promise<wire.Grant> {
    return this.#call('Steal', request, wire.StealRequest, wire.Grant, options);
  }

  /** Puts a waiter in front of another, or of all. */
  moveWaiter(request: Init<wire.MoveWaiterRequest>, options: CallOptions = {}): Promise<wire.MoveWaiterResponse> {
    return this.#call('MoveWaiter', request, wire.MoveWaiterRequest, wire.MoveWaiterResponse, options);
  }

  /** Keeps a resource for a holder to come. */
  reserve(request: Init<wire.ReserveRequest>, options: CallOptions = {}): Promise<wire.ReserveResponse> {
    return this.#call('Reserve', request, wire.ReserveRequest, wire.ReserveResponse, options);
  }

  /** Keeps a resource for nobody any more. */
  unreserve(request: Init<wire.UnreserveRequest>, options: CallOptions = {}): Promise<wire.UnreserveResponse> {
    return this.#call('Unreserve', request, wire.UnreserveRequest, wire.UnreserveResponse, options);
  }

  /** Why those in a queue wait, and what would let them in, in plain sentences. */
  explain(request: Init<wire.ExplainRequest>, options: CallOptions = {}): Promise<wire.ExplainResponse> {
    return this.#call('Explain', request, wire.ExplainRequest, wire.ExplainResponse, options);
  }

  /** Who waits for what, over all pools. */
  listWaits(request: Init<wire.ListWaitsRequest>, options: CallOptions = {}): Promise<wire.ListWaitsResponse> {
    return this.#call('ListWaits', request, wire.ListWaitsRequest, wire.ListWaitsResponse, options);
  }

  /** What has a text in its name, labels or metadata. */
  search(request: Init<wire.SearchRequest>, options: CallOptions = {}): Promise<wire.SearchResponse> {
    return this.#call('Search', request, wire.SearchRequest, wire.SearchResponse, options);
  }
}
