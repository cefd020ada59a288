//! Requests on their way, in numbered places that are used again.

use evenkeel_core::server::{Admission, Place, ServerRefusal};
use evenkeel_core::{Behind, Criticality, HeldBack, Hint, LoadReport, Lot, MethodId, Outcome, Ticket, Tries};

use super::event::{LinkId, RequestId};

/// One request, from being asked for until both ends are done with it.
#[derive(Debug)]
pub(crate) struct Request {
    generation: u32,
    /// Who asks: of a client that spills, the part of it that is for one cluster.
    pub(crate) client: u32,
    /// Whose it is.
    pub(crate) home: u32,
    /// Whom; nobody before it is picked.
    pub(crate) backend: u32,
    /// On which connection.
    pub(crate) link: LinkId,
    /// The client's proof that it is counted in. None where the client is done, or has not sent it.
    pub(crate) ticket: Option<Ticket>,
    /// Whether its caller still waits.
    pub(crate) wanted: bool,
    /// Where the backend has it.
    pub(crate) at: At,
    /// The backend's proof that it was let in.
    pub(crate) admission: Option<Admission>,
    /// Where it stands in the backend's line.
    pub(crate) place: Option<Place>,
    /// Seconds of a core of speed 1 that it takes.
    pub(crate) cpu: f64,
    /// Seconds it then waits for something else.
    pub(crate) wait: f64,
    /// When it was asked for.
    pub(crate) asked: u64,
    /// When the request was asked for that it is made for in the end.
    pub(crate) root_asked: u64,
    /// When this attempt was sent.
    pub(crate) sent: u64,
    /// Nobody waits for it after this.
    pub(crate) deadline: u64,
    /// Its place in the trace: what is drawn for it by hash is the same under every policy.
    pub(crate) key: u64,
    /// Until when it waits for a connection; 0 for one that never had to.
    pub(crate) patient_until: u64,
    /// How often it was sent before.
    pub(crate) tries: u32,
    /// Those of them that core counts, and those that a naive client made.
    pub(crate) tried: Tries,
    pub(crate) naive: u32,
    /// The attempt beside this one, and the request that this one is such an attempt of.
    pub(crate) twin: Option<RequestId>,
    pub(crate) twin_of: Option<RequestId>,
    /// What it costs where a fault made it cheaper: its next attempt costs that again.
    pub(crate) own: Option<(f64, f64)>,
    /// What a request that it made ran into, if whoever asked for this one is not to retry that (B17).
    pub(crate) behind: Option<Behind>,
    /// Whether whoever answered it says that trying again is no use.
    pub(crate) is_useless: bool,
    pub(crate) criticality: Criticality,
    pub(crate) customer: u32,
    /// The request it is made for, at the layer before.
    pub(crate) parent: Option<RequestId>,
    /// Requests it made itself, and how many of them have not ended.
    pub(crate) calls: Vec<RequestId>,
    pub(crate) children: u32,
    /// How it ends, as far as is known.
    pub(crate) outcome: Outcome,
    /// What the backend said with its answer.
    pub(crate) report: LoadReport,
    /// What it said that it refuses.
    pub(crate) hint: Option<Hint>,
    /// Why the backend refused it, if it did.
    pub(crate) refusal: Option<ServerRefusal>,
    /// What its root request drew.
    pub(crate) lot: Lot,
    pub(crate) method: MethodId,
    /// What its client held back before it.
    pub(crate) held: Option<HeldBack>,
    /// When its backend began to work on it, and ended.
    pub(crate) worked: (u64, u64),
}

/// Where the backend has a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// Not there, or not there any more.
    Nowhere,
    /// In the line of those who are to be called.
    Waiting,
    /// In line for a worker.
    Queued,
    /// On the cores.
    Working,
    /// Waiting for something else.
    Resting,
    /// Waiting for the requests it made itself.
    Calling,
    /// Refused; the answer is being made.
    Refusing,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    places: Vec<Option<Request>>,
    generations: Vec<u32>,
    free: Vec<u32>,
}

impl Requests {
    pub(crate) fn insert(&mut self, mut request: Request) -> RequestId {
        let number = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.generations.push(0);
            self.places.len() as u32 - 1
        });
        let generation = self.generations[number as usize];
        request.generation = generation;
        self.places[number as usize] = Some(request);
        RequestId { number, generation }
    }

    /// `None` where it has ended since.
    pub(crate) fn get_mut(&mut self, id: RequestId) -> Option<&mut Request> {
        self.places.get_mut(id.number as usize)?.as_mut().filter(|request| request.generation == id.generation)
    }

    pub(crate) fn get(&self, id: RequestId) -> Option<&Request> {
        self.places.get(id.number as usize)?.as_ref().filter(|request| request.generation == id.generation)
    }

    pub(crate) fn remove(&mut self, id: RequestId) -> Option<Request> {
        self.get(id)?;
        let request = self.places[id.number as usize].take();
        self.generations[id.number as usize] = id.generation.wrapping_add(1);
        self.free.push(id.number);
        request
    }

    /// Those that `wanted` says yes to, in order of their number.
    pub(crate) fn find(&self, wanted: impl Fn(&Request) -> bool) -> Vec<RequestId> {
        let present = self.places.iter().enumerate().filter_map(|(number, place)| Some((number, place.as_ref()?)));
        present
            .filter(|(_, request)| wanted(request))
            .map(|(number, request)| RequestId { number: number as u32, generation: request.generation })
            .collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

impl Request {
    /// A request that has just been asked for.
    pub(crate) fn new(client: u32, asked: u64) -> Self {
        Request {
            generation: 0,
            client,
            home: client,
            backend: NOBODY,
            link: LinkId { client, place: NOBODY, epoch: 0 },
            ticket: None,
            wanted: true,
            at: At::Nowhere,
            admission: None,
            place: None,
            cpu: 0.0,
            wait: 0.0,
            asked,
            root_asked: asked,
            sent: asked,
            deadline: u64::MAX,
            key: 0,
            patient_until: 0,
            tries: 0,
            tried: Tries::default(),
            naive: 0,
            twin: None,
            twin_of: None,
            own: None,
            behind: None,
            is_useless: false,
            criticality: Criticality::Critical,
            customer: 0,
            parent: None,
            calls: Vec::new(),
            children: 0,
            outcome: Outcome::Served,
            report: LoadReport::default(),
            hint: None,
            refusal: None,
            lot: Lot::default(),
            method: MethodId::default(),
            held: None,
            worked: (asked, asked),
        }
    }
}

/// No backend, no connection.
pub(crate) const NOBODY: u32 = u32::MAX;
