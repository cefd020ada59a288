//! What a request meets on its way to the handler and back: gate, context, deadline, load report.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Duration;

use evenkeel_core::server::{Entry, Gate, Refused, ServerRefusal};
use evenkeel_core::{Criticality, HeldBack, Kind, Lot, Outcome, RequestMeta};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep};
use tower_service::Service;

use super::admitted::Admitted;
use super::body::{Answer, Answered, ServedBody, passes_on_dont_retry};
use super::customers::Customers;
use super::framing::Framing;
use super::health::{Health, grpc_answer};
use super::hub::{Hub, Peer};
use super::identity::Beliefs;
use super::layer::Engine;
use super::line::{Queue, Standing};
use super::methods::Methods;
use super::refused::{expired, refused};
use super::report::Reports;
use crate::body::{BoxBody, BoxError};
use crate::clock::Clock;
use crate::context::{Context, Defaults, InContext, Scope, resolve};
use crate::meter::{self, Factor, Metered, Runners};
use crate::wire::{grpc, headers, names, outcome};

/// What every connection of a server shares.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) gate: Arc<Gate>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) health: Arc<Health>,
    pub(crate) reports: Arc<Reports>,
    pub(crate) clock: Clock,
    /// Those who wait for a handler to rest.
    pub(crate) queue: Arc<Queue>,
    /// Its handlers that could run.
    pub(crate) runners: Arc<Runners>,
    /// What their CPU time is worth.
    pub(crate) factor: Factor,
    /// Whether every answer says what its request cost.
    pub(crate) tells_costs: bool,
    pub(crate) beliefs: Beliefs,
    pub(crate) customers: Arc<Customers>,
    pub(crate) methods: Arc<Methods>,
    /// What a request costs besides its handler.
    pub(crate) framing: Arc<Framing>,
    /// What drives the brain of a layer; a server drives its own.
    pub(crate) engine: Option<Engine>,
}

impl Door {
    /// The answer to a request that was not let in; its client has heard then what is admitted.
    pub(crate) fn refuse(
        &self,
        refusal: &Refused,
        criticality: Criticality,
        customers_row: usize,
        peer: Option<&Peer>,
        of: Answered,
    ) -> Response<BoxBody> {
        if refusal.reason == ServerRefusal::OutOfQuota {
            self.customers.tally().refuse(customers_row);
        }
        // Framing costs it like any other: were it left out, those that are served would seem to cost its share.
        meter::on_request();
        if let (Some(hint), Some(peer)) = (refusal.hint, peer) {
            peer.told.tell(self.clock.now(), hint);
        }
        super::seat::with(|_, rng| refused(refusal, criticality, of.is_grpc, rng))
    }

    /// Puts on an answer what its client should know of this task.
    fn sign(&self, headers: &mut HeaderMap, of: Answered) {
        if !self.hub.is_serving() {
            headers.insert(names::STATE, HeaderValue::from_static("lame_duck"));
            headers.insert(names::ENVOY_IMMEDIATE_HEALTH_CHECK_FAIL, HeaderValue::from_static("true"));
            // One that is being upgraded has said already what becomes of it.
            if of.is_http1 && !headers.contains_key(http::header::UPGRADE) {
                headers.insert(http::header::CONNECTION, HeaderValue::from_static("close"));
            }
        }
    }
}

/// The caller's service behind the gate: one for each connection, or one inside somebody else's server.
#[derive(Clone, Debug)]
pub(crate) struct Served<S> {
    pub(crate) door: Arc<Door>,
    pub(crate) peer: Option<Arc<Peer>>,
    pub(crate) inner: S,
}

impl<S> Served<S> {
    /// Begins to serve the request by `inner`, which need not be ready yet.
    pub(crate) fn begin<R>(&self, inner: S, request: Request<R>) -> Serving<S, R>
    where
        S: Service<Request<R>>,
        R: Body + Send + 'static,
        R::Data: Send,
        R::Error: Send,
    {
        let of = Answered {
            is_grpc: headers::is_grpc(request.headers()),
            is_head: request.method() == http::Method::HEAD,
            is_http1: request.version() < http::Version::HTTP_2,
        };
        let door = Arc::clone(&self.door);
        let own = |future| Serving { state: State::Own { future, door: Arc::clone(&door), of } };
        match request.uri().path() {
            // Others could not acknowledge, and would be waited for.
            grpc::WATCH_PATH if !of.is_grpc || of.is_http1 || request.method() != http::Method::POST => {
                own(Box::pin(std::future::ready(door.health.check_plain())))
            }
            grpc::WATCH_PATH => {
                let body = door.hub.watch(self.peer.as_ref(), request.into_body());
                own(Box::pin(std::future::ready(grpc_answer(body))))
            }
            grpc::HEALTH_WATCH_PATH => own(Box::pin(Arc::clone(&door.health).watch(request))),
            grpc::HEALTH_CHECK_PATH => own(Box::pin(Arc::clone(&door.health).check(request))),
            _ => {
                if let Some(peer) = &self.peer {
                    peer.on_request();
                }
                Serving { state: admit(door, self.peer.clone(), inner, request, of) }
            }
        }
    }
}

impl<S, R, B> hyper::service::Service<Request<R>> for Served<S>
where
    S: Service<Request<R>, Response = Response<B>> + Clone,
    R: Body + Send + 'static,
    R::Data: Send,
    R::Error: Send,
    B: Body<Data = bytes::Bytes>,
    B::Error: Into<BoxError>,
{
    type Response = Response<Answer<B>>;
    type Error = S::Error;
    type Future = Serving<S, R>;

    fn call(&self, request: Request<R>) -> Serving<S, R> {
        self.begin(self.inner.clone(), request)
    }
}

/// The gate.
fn admit<S, R>(door: Arc<Door>, peer: Option<Arc<Peer>>, inner: S, mut request: Request<R>, of: Answered) -> State<S, R>
where
    S: Service<Request<R>>,
    R: Body,
{
    let now = Instant::now();
    let draw = || super::seat::with(|_, rng| Lot::draw(rng));
    let mut resolved = resolve(now, request.extensions(), request.headers(), None, Defaults::default(), draw);
    let may_name = door.beliefs.apply(peer.as_ref().map(|peer| &peer.standing), &mut request, &mut resolved);
    let (method, new_method) = door.methods.number_of(request.uri(), of.is_grpc);
    let customer = door.customers.number_of(resolved.customer.as_deref());
    let customers_row = Customers::row_of(resolved.customer.as_deref(), customer);
    let meta = RequestMeta { method, ..resolved.meta(door.clock, Kind::Unary, customer) };
    let began = door.clock.time_of(now);
    // Only what it claims to send.
    let bytes = request.body().size_hint().lower().min(CLAIMED_MOST);
    meter::on_bytes(bytes);
    let tells_cost = door.tells_costs || headers::wants_cost(request.headers());
    let held = headers::take_held(request.headers_mut()).map(|(said, named)| {
        let named = named.filter(|_| may_name).map(|name| door.customers.number_of(headers::customer_in(&name)));
        HeldBack { customer: named.unwrap_or(customer), counts: door.beliefs.held(peer.as_deref(), said) }
    });
    let entry = super::seat::with(|local, rng| {
        if let Some(held) = held {
            door.gate.count_held(local, began, held, rng);
        }
        door.gate.admit(local, began, &meta, rng)
    });
    let entry = match entry {
        Ok(entry) => entry,
        Err(refusal) => {
            let response = door.refuse(&refusal, meta.criticality, customers_row, peer.as_deref(), of);
            return State::Refused { response: Some(response), door, of };
        }
    };
    let task = meter::Task::of_request(Some(Arc::clone(&door.runners)), door.factor);
    let context = Context::served_by(Arc::clone(&task));
    let mut context = context.with_criticality(resolved.criticality).with_lot(resolved.lot);
    context.deadline = resolved.deadline;
    context.attempt = Some(resolved.attempt);
    context.customer = resolved.customer;
    let handled = context.scope(Handled::Waiting { inner, request: Some(request) });
    let (admission, standing) = match entry {
        Entry::Start(admission) => {
            task.counted();
            task.ask_to_degrade(admission.degrade());
            (Some(admission), None)
        }
        Entry::Wait(waiting) => (None, Some(door.queue.enter(waiting))),
    };
    let handled = Metered::new(Arc::clone(&task), handled);
    let criticality = resolved.criticality;
    let admitted = Some(Admitted {
        door,
        admission,
        task,
        peer,
        criticality,
        method,
        customers_row,
        tells_cost,
        new_method,
        bytes,
    });
    State::Admitted { handled, deadline: resolved.deadline, timer: None, standing, admitted, of }
}

pin_project! {
    /// A request on its way to its answer.
    pub struct Serving<S, R>
    where
        S: Service<Request<R>>,
    {
        #[pin]
        state: State<S, R>,
    }
}

impl<S: Service<Request<R>>, R> std::fmt::Debug for Serving<S, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Serving").finish_non_exhaustive()
    }
}

pin_project! {
    #[project = StateProjected]
    enum State<S, R>
    where
        S: Service<Request<R>>,
    {
        Admitted {
            #[pin]
            handled: Metered<Scope<Handled<S, R>>>,
            deadline: Option<Instant>,
            // Set only for a handler that waits: many answer at once.
            #[pin]
            timer: Option<Sleep>,
            // Until it is called.
            standing: Option<Standing>,
            admitted: Option<Admitted>,
            of: Answered,
        },
        Refused { response: Option<Response<BoxBody>>, door: Arc<Door>, of: Answered },
        Own { future: Pin<Box<dyn Future<Output = Response<BoxBody>> + Send>>, door: Arc<Door>, of: Answered },
    }
}

pin_project! {
    /// The caller's service: waited for, then called, all inside the request's context.
    #[project = HandledProjected]
    enum Handled<S, R>
    where
        S: Service<Request<R>>,
    {
        Waiting { inner: S, request: Option<Request<R>> },
        Called { #[pin] future: S::Future },
    }
}

impl<S: Service<Request<R>>, R> Future for Handled<S, R> {
    type Output = Result<S::Response, S::Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        loop {
            let future = match self.as_mut().project() {
                HandledProjected::Called { future } => return future.poll(cx),
                HandledProjected::Waiting { inner, request } => {
                    ready!(inner.poll_ready(cx))?;
                    inner.call(request.take().expect("it is called once"))
                }
            };
            self.set(Handled::Called { future });
        }
    }
}

impl<S, R, B> Future for Serving<S, R>
where
    S: Service<Request<R>, Response = Response<B>>,
    B: Body<Data = bytes::Bytes>,
    B::Error: Into<BoxError>,
{
    type Output = Result<Response<Answer<B>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let (response, door, of) = match self.project().state.project() {
            StateProjected::Own { future, door, of } => (ready!(future.as_mut().poll(cx)), door, of),
            StateProjected::Refused { response, door, of } => {
                (response.take().expect("a future is not polled after its end"), door, of)
            }
            StateProjected::Admitted { mut handled, deadline, mut timer, standing, admitted, of } => {
                let called = called(standing, admitted, cx);
                if let Poll::Ready(Err(refusal)) = called {
                    let admitted = admitted.take().expect("a future is not polled after its end");
                    let (class, peer) = (admitted.criticality, admitted.peer.as_deref());
                    let mut response = admitted.door.refuse(&refusal, class, admitted.customers_row, peer, *of);
                    admitted.door.sign(response.headers_mut(), *of);
                    return Poll::Ready(Ok(response.map(|body| Answer::Ours { body })));
                }
                let polled = if called.is_ready() { handled.as_mut().poll(cx) } else { Poll::Pending };
                let Poll::Ready(answered) = polled else {
                    if let Some(admitted) = admitted {
                        admitted.charge_so_far();
                    }
                    let Some(deadline) = *deadline else { return Poll::Pending };
                    if timer.is_none() {
                        timer.set(Some(tokio::time::sleep_until(deadline + DEADLINE_GRACE)));
                    }
                    let timer = timer.as_pin_mut().expect("it has just been set");
                    ready!(timer.poll(cx));
                    let admitted = admitted.take().expect("a future is not polled after its end");
                    let mut response = expired(of.is_grpc);
                    admitted.door.sign(response.headers_mut(), *of);
                    admitted.finish(Outcome::Expired);
                    return Poll::Ready(Ok(response.map(|body| Answer::Ours { body })));
                };
                let admitted = admitted.take().expect("a future is not polled after its end");
                let context = handled.future().take_value().expect("the scope keeps its context");
                return Poll::Ready(answered_by_handler(answered, context, admitted, *of));
            }
        };
        let mut response = response;
        door.sign(response.headers_mut(), *of);
        Poll::Ready(Ok(response.map(|body| Answer::Ours { body })))
    }
}

/// Whether it may be handled by now; from when it may on, its admission is there.
fn called(
    standing: &mut Option<Standing>,
    admitted: &mut Option<Admitted>,
    cx: &mut TaskContext<'_>,
) -> Poll<Result<(), Refused>> {
    let Some(place) = standing else { return Poll::Ready(Ok(())) };
    let verdict = ready!(place.poll(cx));
    *standing = None;
    Poll::Ready(verdict.map(|admission| {
        if let Some(admitted) = admitted {
            admitted.task.counted();
            admitted.task.ask_to_degrade(admission.degrade());
            admitted.admission = Some(admission);
        }
    }))
}

fn answered_by_handler<B: Body, E>(
    answered: Result<Response<B>, E>,
    context: Context,
    mut admitted: Admitted,
    of: Answered,
) -> Result<Response<Answer<B>>, E> {
    let mut response = match answered {
        Ok(response) => response,
        Err(error) => {
            admitted.finish(Outcome::Failed);
            return Err(error);
        }
    };
    headers::remove_never_ran(response.headers_mut());
    let head = outcome::outcome_of_head(response.status(), response.headers());
    let verdict = outcome::outcome_of(response.status(), response.headers());
    if let Some(behind) = head.and_then(|verdict| passes_on_dont_retry(&admitted.task, verdict)) {
        headers::write_dont_retry(response.headers_mut(), behind, of.is_grpc);
    }
    let door = &admitted.door;
    // What a handler passed on from somebody behind it is not about this task.
    for of_another in [names::ADMIT, names::STATE] {
        response.headers_mut().remove(of_another);
    }
    let degraded = context.degraded();
    if degraded > 0 {
        headers::write_degraded(response.headers_mut(), degraded);
        if let Some(admission) = &mut admitted.admission {
            door.gate.mark_degraded(admission);
        }
    }
    let moment = (door.clock.now(), &*door.gate);
    door.reports.in_head(moment, response.headers_mut(), of.is_grpc, admitted.told_cost());
    door.sign(response.headers_mut(), of);
    if let Some(unknown) = &admitted.new_method {
        admitted.method = door.methods.answered(unknown, &response);
    }
    if let Some(hint) = admitted.peer.as_ref().and_then(|peer| door.gate.hint(door.clock.now(), &peer.told)) {
        headers::write_admit(response.headers_mut(), hint);
    }
    Ok(response.map(|body| {
        let body = InContext::after_handler(context, body);
        Answer::Handlers { body: ServedBody::new(body, admitted, verdict, of) }
    }))
}

/// Bytes that a request can claim to send: its share of the framing is found by that, and claims cost nothing.
const CLAIMED_MOST: u64 = 16 << 20;
/// A client that keeps its own deadline has hung up by then, and needs no answer.
const DEADLINE_GRACE: Duration = Duration::from_millis(100);
