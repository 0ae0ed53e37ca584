//! Looking for something whose place is not known: waits in any pool, texts in any name, and events of one kind.

use tenure_core::*;
use tenure_proto::v1;

use super::answer::waiter;
use super::request::{Caller, bad_cursor, holder_id, limit, namespace, number};
use crate::error::Error;

/// What a holder's metadata may be long at most is the most that can be found.
const TEXT_BYTES_MAX: usize = NAME_BYTES_MAX;
/// Between the parts of a place. No name has a control character.
const BETWEEN: char = '\n';

pub(crate) fn list_waits(request: v1::ListWaitsRequest) -> Result<Query, Error> {
    Ok(Query::Waits {
        namespace: namespace(&request.namespace, &Caller::default())?,
        holder: holder_id(request.holder.as_deref())?,
        after: request.after.map(|text| number(&text).map(WaiterId)).transpose()?,
        limit: limit(request.limit)?,
    })
}

pub(crate) fn waits(page: &Page<WaitView, WaiterId>) -> v1::ListWaitsResponse {
    let wait = |view: &WaitView| v1::Wait {
        namespace: view.pool.namespace().to_string(),
        pool: view.pool.name().to_string(),
        waiter: Some(waiter(&view.waiter)),
    };
    v1::ListWaitsResponse { waits: page.items.iter().map(wait).collect(), next: page.next.map(|id| id.0.to_string()) }
}

pub(crate) fn search(request: v1::SearchRequest) -> Result<Query, Error> {
    match request.text.len() {
        1..=TEXT_BYTES_MAX => {}
        length => {
            let message = format!("text has {length} bytes; it must have between 1 and {TEXT_BYTES_MAX}");
            return Err(Error::invalid("text", message));
        }
    }
    Ok(Query::Search {
        namespace: namespace(&request.namespace, &Caller::default())?,
        text: request.text,
        after: request.after.map(|text| place(&text).ok_or_else(bad_cursor)).transpose()?,
        limit: limit(request.limit)?,
    })
}

pub(crate) fn found(page: &Page<Found, FoundAt>) -> v1::SearchResponse {
    v1::SearchResponse { found: page.items.iter().map(item).collect(), next: page.next.as_ref().map(place_text) }
}

fn item(found: &Found) -> v1::Found {
    let told = v1::Found {
        pool: found.pool.as_ref().map(ToString::to_string),
        holder: found.holder.as_ref().map(|holder| holder.id.to_string()),
        because: found.because.clone().into_iter().collect(),
        ..v1::Found::default()
    };
    match &found.at {
        FoundAt::Pool(pool, resource) => {
            v1::Found { pool: Some(pool.to_string()), resource: resource.as_ref().map(ToString::to_string), ..told }
        }
        FoundAt::Hold(token) => v1::Found { token: Some(token.0), ..told },
        FoundAt::Wait(waiter) => v1::Found { waiter: Some(waiter.0), ..told },
        FoundAt::Session(session) => v1::Found { session: Some(session.0), ..told },
    }
}

fn place_text(at: &FoundAt) -> String {
    match at {
        FoundAt::Pool(pool, None) => format!("pool{BETWEEN}{pool}"),
        FoundAt::Pool(pool, Some(resource)) => format!("pool{BETWEEN}{pool}{BETWEEN}{resource}"),
        FoundAt::Hold(token) => format!("hold{BETWEEN}{}", token.0),
        FoundAt::Wait(waiter) => format!("wait{BETWEEN}{}", waiter.0),
        FoundAt::Session(session) => format!("session{BETWEEN}{}", session.0),
    }
}

fn place(text: &str) -> Option<FoundAt> {
    let (what, rest) = text.split_once(BETWEEN)?;
    Some(match what {
        "pool" => match rest.split_once(BETWEEN) {
            None => FoundAt::Pool(PoolName::parse(rest).ok()?, None),
            Some((pool, resource)) => {
                FoundAt::Pool(PoolName::parse(pool).ok()?, Some(ResourceName::parse(resource).ok()?))
            }
        },
        "hold" => FoundAt::Hold(Token(rest.parse().ok()?)),
        "wait" => FoundAt::Wait(WaiterId(rest.parse().ok()?)),
        "session" => FoundAt::Session(SessionId(rest.parse().ok()?)),
        _ => return None,
    })
}

/// The kind of event that a request for history is after, as a message has it.
pub(crate) fn kind_wanted(request: &v1::HistoryRequest) -> Result<Option<i32>, Error> {
    match v1::EventKind::try_from(request.kind) {
        Ok(v1::EventKind::Unspecified) => Ok(None),
        Ok(_) => Ok(Some(request.kind)),
        Err(_) => Err(Error::invalid("kind", format!("kind {} is unknown", request.kind))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_in_a_search_can_be_told_and_taken_up_again() {
        let pool = PoolName::parse("a pool").unwrap();
        let resource = ResourceName::parse("r 1").unwrap();
        for at in [
            FoundAt::Pool(pool.clone(), None),
            FoundAt::Pool(pool, Some(resource)),
            FoundAt::Hold(Token(7)),
            FoundAt::Wait(WaiterId(8)),
            FoundAt::Session(SessionId(9)),
        ] {
            assert_eq!(place(&place_text(&at)), Some(at));
        }
        for bad in ["", "pool", "pool\n", "hold\nx", "nothing\n1"] {
            assert_eq!(place(bad), None, "{bad:?}");
        }
    }
}
