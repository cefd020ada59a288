//! Numbers of methods (B2): those that the service has answered, in the order of their first answer.
//!
//! A path nobody serves gets none, or whoever makes up paths would use up the numbers. Looking one up takes no lock.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use evenkeel_core::MethodId;
use http::StatusCode;
use http::uri::PathAndQuery;

use super::tally::Tally;
use crate::wire::names;

/// The numbers that are given out.
#[derive(Debug)]
pub(crate) struct Methods {
    known: ArcSwap<HashMap<String, MethodId>>,
    full: AtomicBool,
    tally: Tally,
}

impl Default for Methods {
    fn default() -> Self {
        Methods { known: ArcSwap::default(), full: AtomicBool::new(false), tally: Tally::up_to(NUMBERS) }
    }
}

/// A method that has no number yet.
#[derive(Debug)]
pub(crate) struct Unknown {
    path: PathAndQuery,
    is_grpc: bool,
}

impl Methods {
    /// The number of what is asked for: 0 for those that have none, and what it takes to give it one.
    pub(crate) fn number_of(&self, uri: &http::Uri, is_grpc: bool) -> (MethodId, Option<Unknown>) {
        let known = self.known.load().get(name_of(uri.path(), is_grpc)).copied();
        if known.is_some() || self.full.load(Ordering::Relaxed) {
            return (known.unwrap_or_default(), None);
        }
        (MethodId::default(), uri.path_and_query().map(|path| Unknown { path: path.clone(), is_grpc }))
    }

    /// The service has answered so: if it knows the method, this has a number from now on, and is told.
    pub(crate) fn answered<B>(&self, unknown: &Unknown, response: &http::Response<B>) -> MethodId {
        if !is_served(response) {
            return MethodId::default();
        }
        let name = name_of(unknown.path.path(), unknown.is_grpc);
        if name.len() > NAME_MOST {
            return MethodId::default();
        }
        self.known.rcu(|known| {
            if known.contains_key(name) || known.len() >= NUMBERS {
                self.full.store(known.len() >= NUMBERS, Ordering::Relaxed);
                return Arc::clone(known);
            }
            let mut more = HashMap::clone(known);
            more.insert(name.to_owned(), MethodId(known.len() as u16 + 1));
            Arc::new(more)
        });
        self.known.load().get(name).copied().unwrap_or_default()
    }

    /// What was asked for and cost, by number.
    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Those that have a number, from 1 on.
    pub(crate) fn names(&self) -> Vec<String> {
        let known = self.known.load();
        let mut names = vec![String::new(); known.len()];
        for (name, MethodId(number)) in known.iter() {
            names[usize::from(*number) - 1].clone_from(name);
        }
        names
    }
}

/// The whole path of gRPC; of plain HTTP the first segment, since the rest is often a name of something.
fn name_of(path: &str, is_grpc: bool) -> &str {
    if is_grpc {
        return path;
    }
    let rest = path.strip_prefix('/').unwrap_or(path);
    rest.split('/').next().unwrap_or(rest)
}

fn is_served<B>(response: &http::Response<B>) -> bool {
    let refused_by_name = [StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED].contains(&response.status());
    let unimplemented = response.headers().get(names::GRPC_STATUS).is_some_and(|code| code == "12");
    !refused_by_name && !unimplemented
}

/// As many as core keeps a mean for; 0 is for all others.
const NUMBERS: usize = 256;
const NAME_MOST: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(methods: &Methods, path: &str, is_grpc: bool, response: &http::Response<()>) -> MethodId {
        let uri = http::Uri::try_from(path).unwrap();
        if let (_, Some(unknown)) = methods.number_of(&uri, is_grpc) {
            methods.answered(&unknown, response);
        }
        methods.number_of(&uri, is_grpc).0
    }

    #[test]
    fn what_was_served_once_has_a_number_and_what_is_not_there_has_none() {
        let (methods, fine) = (Methods::default(), http::Response::new(()));
        let missing = http::Response::builder().status(404).body(()).unwrap();
        let unimplemented = http::Response::builder().header("grpc-status", "12").body(()).unwrap();

        assert_eq!(answer(&methods, "/users/7?x=1", false, &fine), MethodId(1));
        assert_eq!(answer(&methods, "/users/8", false, &fine), MethodId(1));
        assert_eq!(answer(&methods, "/a.B/C", true, &fine), MethodId(2));
        assert_eq!(answer(&methods, "/a.B/D", true, &fine), MethodId(3));
        assert_eq!(answer(&methods, "/a.B/E", true, &unimplemented), MethodId(0));
        assert_eq!(answer(&methods, "/nothing", false, &missing), MethodId(0));
        assert_eq!(answer(&methods, "/", false, &fine), MethodId(4));
        assert_eq!(answer(&methods, "*", false, &fine), MethodId(5));
    }

    #[test]
    fn there_are_no_more_than_core_has_room_for() {
        let (methods, fine) = (Methods::default(), http::Response::new(()));
        for number in 1..=300_u16 {
            let expected = if number <= 256 { number } else { 0 };
            assert_eq!(answer(&methods, &format!("/{number}"), false, &fine), MethodId(expected));
        }
        assert!(methods.number_of(&http::Uri::from_static("/more"), false).1.is_none());
    }
}
