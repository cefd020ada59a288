//! Who is at the other end of a connection, and what it may say of its requests (B4, B8).
//!
//! Looked at once for each connection; a request only compares. What is not believed is taken off the request, so that
//! no handler that copies headers passes it on.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_core::Criticality;
use evenkeel_core::server::held_by_anybody;
use http::Request;

use super::trusted::Trusted;
use crate::context::{Context, Resolved};
use crate::wire::{headers, names};

/// What a listener knows of who has connected.
#[derive(Clone, Debug, Default)]
pub struct PeerInfo {
    /// Where it is, for listeners that know.
    pub address: Option<SocketAddr>,
    /// Who it has proved to be: the SPIFFE identity or the name of its certificate.
    pub authenticated: Option<Arc<str>>,
}

/// On whose behalf requests are made, as this process knows by itself.
///
/// Of a [`Server`](super::Server) it belongs to a connection: see [`Identify`]. Inside somebody else's server it is an
/// extension of the request, put there by whatever authenticates.
///
/// ```
/// use evenkeel::server::Identity;
///
/// let mut request = http::Request::new(());
/// request.extensions_mut().insert(Identity::of_customer("mail"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Who is billed.
    pub customer: Arc<str>,
    /// Its requests matter no more than this, whatever they say. Default: no limit.
    pub criticality_most: Option<Criticality>,
}

impl Identity {
    /// This customer; blanks around the name are no part of it.
    pub fn of_customer(name: impl Into<Arc<str>>) -> Self {
        let name = name.into();
        // Blanks around a name are lost on the wire: here and behind it, it is the same customer.
        let customer = if name.trim() == &*name { name } else { Arc::from(name.trim()) };
        Identity { customer, criticality_most: None }
    }
}

/// Tells customers by their connections; asked once for each.
///
/// Whoever has an identity cannot name another customer. A front end that asserts customers has none here, and is
/// [trusted](super::Server::trust_customers_of) instead. Without one of these, whoever is authenticated is billed by
/// that name.
///
/// ```
/// use evenkeel::server::{Identify, Identity, PeerInfo};
///
/// /// `spiffe://example.org/team/mail` is billed as `mail`.
/// struct Teams;
///
/// impl Identify for Teams {
///     fn identify(&self, peer: &PeerInfo) -> Option<Identity> {
///         let name = peer.authenticated.as_deref()?;
///         name.strip_prefix("spiffe://example.org/team/").map(Identity::of_customer)
///     }
/// }
///
/// let server = evenkeel::Server::new().with_identity(Teams);
/// ```
pub trait Identify: Send + Sync {
    /// Who this is; `None` for nobody in particular.
    fn identify(&self, peer: &PeerInfo) -> Option<Identity>;
}

/// What was not believed since the server began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdentitySnapshot {
    /// Requests that named a customer and were not believed.
    pub customers_dropped: u64,
    /// Requests that mattered less than they said.
    pub criticalities_lowered: u64,
    /// Requests that named a criticality nobody knows, which counts as none.
    pub criticalities_unknown: u64,
}

/// The same while it is counted.
#[derive(Debug, Default)]
pub(crate) struct Disbelief {
    customers_dropped: AtomicU64,
    criticalities_lowered: AtomicU64,
    criticalities_unknown: AtomicU64,
}

impl Disbelief {
    pub(crate) fn snapshot(&self) -> IdentitySnapshot {
        IdentitySnapshot {
            customers_dropped: self.customers_dropped.load(Ordering::Relaxed),
            criticalities_lowered: self.criticalities_lowered.load(Ordering::Relaxed),
            criticalities_unknown: self.criticalities_unknown.load(Ordering::Relaxed),
        }
    }
}

/// What is believed of whom.
#[derive(Clone, Default)]
pub(crate) struct Beliefs {
    pub(crate) identify: Option<Arc<dyn Identify>>,
    pub(crate) trusted: Trusted,
    /// No request matters more than this.
    pub(crate) criticality_most: Option<Criticality>,
    pub(crate) disbelief: Arc<Disbelief>,
}

/// What is believed of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Standing {
    identity: Option<Identity>,
    may_name_customers: bool,
}

impl Beliefs {
    /// What counts of what this peer says it held back: all of it where it may say who is billed. Nobody is believed to hold back
    /// what matters more than its requests may.
    pub(crate) fn held(&self, peer: Option<&super::hub::Peer>, said: [u16; 4]) -> [u16; 4] {
        let is_trusted = peer.map_or(self.trusted == Trusted::Everyone, |peer| peer.standing.may_name_customers);
        if is_trusted {
            return said;
        }
        let most = self.most(peer.and_then(|peer| peer.standing.identity.as_ref()));
        let mut held = held_by_anybody(said);
        for above in most.map_or(held.len(), |most| most.index() + 1)..held.len() {
            held[above] = 0;
        }
        held
    }

    /// Of whoever has connected.
    pub(crate) fn standing(&self, peer: &PeerInfo) -> Standing {
        let identity = match &self.identify {
            Some(identify) => identify.identify(peer),
            None => peer.authenticated.clone().map(Identity::of_customer),
        };
        let may_name_customers = self.trusted.includes(peer.address.map(|address| address.ip()));
        Standing { identity, may_name_customers }
    }

    /// Leaves of what was resolved only what is believed, on the request too. Connections that nobody told of have no
    /// standing: their requests may have an identity of their own. Says whether it is believed whom it names.
    pub(crate) fn apply<R>(
        &self,
        standing: Option<&Standing>,
        request: &mut Request<R>,
        resolved: &mut Resolved,
    ) -> bool {
        let own = request.extensions().get::<Identity>();
        let identity = own.or_else(|| standing.and_then(|standing| standing.identity.as_ref()));
        let trusted = standing.map_or(self.trusted == Trusted::Everyone, |standing| standing.may_name_customers);
        // A context on the request was put there by this process.
        let set_here = request.extensions().get::<Context>().and_then(|context| context.customer.clone());
        let settled = set_here.or_else(|| identity.map(|identity| Arc::clone(&identity.customer)));
        let most = self.most(identity);
        let is_believed = settled.is_none() && trusted;
        if !is_believed {
            resolved.customer = settled;
            self.drop_customer(request, resolved.customer.as_deref());
        } else if resolved.customer.is_none() {
            // What is no name is told as what is not believed: somebody means to be billed and is not.
            self.drop_customer(request, None);
        }
        if resolved.criticality_unknown {
            self.disbelief.criticalities_unknown.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(most) = most.filter(|most| resolved.criticality > *most) {
            self.disbelief.criticalities_lowered.fetch_add(1, Ordering::Relaxed);
            resolved.criticality = most;
            headers::write_criticality(request.headers_mut(), most);
        }
        is_believed
    }

    fn most(&self, identity: Option<&Identity>) -> Option<Criticality> {
        let own = identity.and_then(|identity| identity.criticality_most);
        own.into_iter().chain(self.criticality_most).min()
    }

    /// Takes a name off the request that is not the one to be billed.
    fn drop_customer<R>(&self, request: &mut Request<R>, believed: Option<&str>) {
        let Some(named) = request.headers().get(names::CUSTOMER) else { return };
        if believed.is_some_and(|believed| believed.as_bytes() == named.as_bytes()) {
            return;
        }
        self.disbelief.customers_dropped.fetch_add(1, Ordering::Relaxed);
        request.headers_mut().remove(names::CUSTOMER);
    }
}

impl fmt::Debug for Beliefs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beliefs").field("trusted", &self.trusted).finish_non_exhaustive()
    }
}
