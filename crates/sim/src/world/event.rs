//! Everything that can happen in a world, each a few words long.

/// A request and which of those that had its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestId {
    pub(crate) number: u32,
    pub(crate) generation: u32,
}

/// A connection: whose, in which place, and which of those that had the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LinkId {
    pub(crate) client: u32,
    pub(crate) place: u32,
    pub(crate) epoch: u32,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The next request of the trace is asked for.
    Arrive,
    /// A request reaches its backend, on this try.
    Reach(RequestId, u32),
    /// The cores of a backend may have finished something.
    Work(u32),
    /// A request has waited for something else long enough.
    Rested(RequestId),
    /// An answer reaches its client.
    Answer(RequestId),
    /// A request that never ran is sent again.
    Again(RequestId),
    /// The answer to this attempt of a request takes long.
    Late(RequestId, u32),
    /// The caller waits no longer for the request that was asked for longest ago.
    Expire,
    /// A backend hears that nobody waits any more.
    Cancel(RequestId),
    /// A client asked to be woken.
    ClientTimer(u32),
    /// A backend measures itself, and goes on with its life.
    ServerTimer(u32),
    /// A new connection reaches its backend.
    Dial(LinkId),
    /// Something that is not a request arrives on a connection.
    Note(Note, LinkId),
    /// A backend's neighbours come or go.
    Neighbours(u32),
    /// A backend that was started is a little warmer.
    Warmer(u32, u32, u32),
    /// A process that ended is started again.
    Start(u32, u32),
    /// A process that was started is ready.
    Ready(u32, u32),
    /// A fault begins.
    Fault(u32),
    /// A fault ends.
    Heal(u32),
    /// A baseline asks its backends how they are; which process of the client.
    Poll(u32, u32),
    /// A window of measurement ends.
    Window,
    /// A datagram arrives, at whichever end it was meant for.
    Datagram(u32),
    /// A backend pushes again, or forgets clients without a connection.
    PeersTimer(u32),
    /// Requests of a client that waited for a connection begin again.
    Woken(u32),
    /// A request has waited for a connection for long enough.
    Impatient(RequestId),
    /// A client decides which cluster gets how much.
    Spill(u32),
}

/// What is said on a connection besides requests and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// To the client: connected, and ready.
    Welcome,
    /// To the client: connected, and a lame duck.
    WelcomeLame,
    /// To the client: nobody listens there.
    Refused,
    /// To the client: wants requests.
    Ready,
    /// To the client: wants none.
    Lame,
    /// To the backend: heard the last announcement.
    Heard,
    /// To the client: closed after all was answered.
    Goodbye,
    /// To the client: the process is gone.
    Reset,
    /// To the backend: the client closed it.
    Left,
    /// To the backend: how are you?
    Check,
    /// To the client: so.
    Report,
    /// Nothing has been heard for so long that both ends give it up.
    Silence,
}

impl Event {
    /// Words that tell events apart, for the trace.
    pub(crate) fn fingerprint(self) -> u64 {
        let (kind, first, second) = match self {
            Event::Arrive => (0, 0, 0),
            Event::Reach(id, tries) => (1 + (u64::from(tries) << 8), id.number, id.generation),
            Event::Work(backend) => (2, backend, 0),
            Event::Rested(id) => (3, id.number, id.generation),
            Event::Answer(id) => (4, id.number, id.generation),
            Event::Again(id) => (5, id.number, id.generation),
            Event::Late(id, tries) => (41 + (u64::from(tries) << 8), id.number, id.generation),
            Event::Expire => (6, 0, 0),
            Event::Cancel(id) => (7, id.number, id.generation),
            Event::ClientTimer(client) => (8, client, 0),
            Event::ServerTimer(backend) => (9, backend, 0),
            Event::Dial(link) => (10, link.client, link.epoch),
            Event::Note(note, link) => (11 + ((note as u64) << 8), link.client, link.epoch),
            Event::Neighbours(backend) => (12, backend, 0),
            Event::Warmer(backend, process, step) => (13 + (u64::from(step) << 8), backend, process),
            Event::Start(backend, process) => (14, backend, process),
            Event::Ready(backend, process) => (15, backend, process),
            Event::Fault(fault) => (16, fault, 0),
            Event::Heal(fault) => (17, fault, 0),
            Event::Poll(client, process) => (18, client, process),
            Event::Window => (19, 0, 0),
            Event::Datagram(number) => (20, number, 0),
            Event::PeersTimer(backend) => (21, backend, 0),
            Event::Woken(client) => (22, client, 0),
            Event::Impatient(id) => (23, id.number, id.generation),
            Event::Spill(client) => (40, client, 0),
        };
        (kind << 48) ^ (u64::from(first) << 24) ^ u64::from(second)
    }
}
