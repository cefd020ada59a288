//! What a request carries from hop to hop (DESIGN §5): how much it matters, until when, for whom.
//!
//! The server opens a scope around each handler. Calls made inside inherit it: through `join` and `select` because
//! they stay in the task, through [`spawn`] and [`spawn_blocking`] because these hand it over, through a streaming
//! body because [`InContext`] enters it around every poll, and through a queue to another task because
//! [`Context::carry`] puts it on the request. Nothing here takes a lock.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task;
use std::time::Duration;

use evenkeel_core::{Behind, Criticality, CustomerId, Kind, Lot, RequestMeta, Time};
use http::{Extensions, HeaderMap, Request};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::task::JoinHandle;
use tokio::task::futures::TaskLocalFuture;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::meter::{self, Factor, Metered, Poller};
use crate::wire::headers;

/// What is known of a request, and what the calls it causes inherit. What is `None` was not said.
///
/// Set on a single call as a request extension, or inherited from the scope of the request being served.
///
/// ```
/// use evenkeel::Context;
/// use evenkeel_core::Criticality;
///
/// let mut request = http::Request::new(());
/// request.extensions_mut().insert(Context::default().with_criticality(Criticality::Sheddable));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// How much it matters.
    pub criticality: Option<Criticality>,
    /// Nobody waits for the answer after this.
    pub deadline: Option<Instant>,
    /// Which try of the request being served this is, 0 for the first. Calls do not inherit it: each hop counts its
    /// own tries.
    pub attempt: Option<u8>,
    /// Who is billed.
    pub customer: Option<Arc<str>>,
    /// What its root request drew: who of a criticality is refused first, the same at every hop and attempt.
    pub lot: Option<Lot>,
    /// Shared by all clones of one served request's context; `None` in one made for a single call.
    request: Option<Arc<meter::Task>>,
}

tokio::task_local! {
    static CURRENT: Context;
}

/// A future inside a scope: see [`Context::scope`].
pub type Scope<F> = TaskLocalFuture<Context, F>;

impl Context {
    /// The context of a request that is being served: remembers a downstream *don't retry* for the answer (B17), and what
    /// the request costs.
    pub fn serving() -> Self {
        Context::served_by(meter::Task::of_request(None, Factor::default()))
    }

    /// The same where this task handles the request.
    pub fn served_by(task: Arc<meter::Task>) -> Self {
        Context { request: Some(task), ..Context::default() }
    }

    /// The same with this criticality.
    #[must_use]
    pub fn with_criticality(self, level: Criticality) -> Self {
        Context { criticality: Some(level), ..self }
    }

    /// The same with this deadline.
    #[must_use]
    pub fn with_deadline(self, deadline: Instant) -> Self {
        Context { deadline: Some(deadline), ..self }
    }

    /// The same, billed to this customer. Calls with a name that fits no header are bad requests: printable ASCII does, without
    /// blanks around it, up to 2048 bytes.
    #[must_use]
    pub fn with_customer(self, customer: impl Into<Arc<str>>) -> Self {
        Context { customer: Some(customer.into()), ..self }
    }

    /// The same with this lot: for calls that are to be refused or served together with others of the same one.
    #[must_use]
    pub fn with_lot(self, lot: Lot) -> Self {
        Context { lot: Some(lot), ..self }
    }

    /// The scope the caller runs in, if any.
    pub fn current() -> Option<Context> {
        CURRENT.try_with(Clone::clone).ok()
    }

    /// Runs the future inside this context: every poll of it, and its drop.
    pub fn scope<F: Future>(self, future: F) -> Scope<F> {
        CURRENT.scope(self, future)
    }

    /// Runs the closure inside this context.
    pub fn sync_scope<T>(self, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self, work)
    }

    /// The context set on a request, or else the scope it was carried from.
    pub fn from_extensions(extensions: &Extensions) -> Option<&Context> {
        extensions.get().or_else(|| extensions.get().map(|Carried(context)| context))
    }

    /// Puts the current scope on the request, for a queue that sends it from another task (`tower::buffer`). It
    /// stays a scope: what the caller set on the request still wins.
    pub fn carry<B>(request: &mut Request<B>) {
        if let Some(scope) = Context::current() {
            request.extensions_mut().insert(Carried(scope));
        }
    }

    /// Somebody downstream said that trying again makes it worse: our own caller is to hear it too.
    pub fn remember_dont_retry(&self) {
        remember_behind(self.request.as_deref(), Behind::TooMuch);
    }

    /// Whether a call made on behalf of this request was told not to retry, or failed and was tried again in vain.
    pub fn dont_retry(&self) -> bool {
        self.request.as_ref().is_some_and(|task| task.request().behind().is_some())
    }

    /// CPU time this request has cost so far, with its children and with the caller's own poll, as the reference machine
    /// would have taken (A18); `None` outside of a request that is being served.
    ///
    /// ```
    /// # use evenkeel::Context;
    /// if let Some(cost) = Context::current().and_then(|context| context.cost()) {
    ///     println!("{cost:?} so far");
    /// }
    /// ```
    pub fn cost(&self) -> Option<Duration> {
        self.request.as_ref().map(|task| task.account().cost())
    }

    /// How much cheaper the task that serves asks this answer to be (B1): 0 for not at all, up to 3. 0 outside of a
    /// request that is being served.
    ///
    /// ```
    /// # use evenkeel::Context;
    /// let context = Context::current().unwrap_or_default();
    /// let results = if context.degrade() >= 2 { 10 } else { 100 };
    /// if results < 100 {
    ///     context.mark_degraded(2);
    /// }
    /// ```
    pub fn degrade(&self) -> u8 {
        self.request.as_ref().map_or(0, |task| task.request().degrade.load(Ordering::Relaxed))
    }

    /// The answer is cheaper than asked, at this level: its head says so in `evenkeel-degraded`. Of several marks the
    /// highest counts, and only those made before the handler returned its answer.
    pub fn mark_degraded(&self, level: u8) {
        if let Some(task) = &self.request {
            task.request().degraded.fetch_max(level, Ordering::Relaxed);
        }
    }

    /// How much cheaper the answer was marked to be.
    pub(crate) fn degraded(&self) -> u8 {
        self.request.as_ref().map_or(0, |task| task.request().degraded.load(Ordering::Relaxed))
    }
}

/// A call made for this request ran into that, if it was made for one that is being served.
pub(crate) fn remember_behind(request: Option<&meter::Task>, behind: Behind) {
    if let Some(task) = request {
        task.request().remember(behind);
    }
}

/// A scope on its way to another task, told from what the caller set on purpose.
#[derive(Clone, Debug)]
struct Carried(Context);

/// `tokio::spawn`, keeping the context: what it costs is charged to the request that is being served.
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let Some(context) = Context::current() else {
        return tokio::spawn(future);
    };
    match context.request.clone() {
        Some(task) => tokio::spawn(Metered::child(&task, context.scope(future))),
        None => tokio::spawn(context.scope(future)),
    }
}

/// `tokio::task::spawn_blocking`, keeping the context: what it costs is charged to the request that is being served.
#[track_caller]
pub fn spawn_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let Some(context) = Context::current() else {
        return tokio::task::spawn_blocking(work);
    };
    tokio::task::spawn_blocking(move || match context.request.clone() {
        Some(task) => meter::run_blocking(&task, || context.sync_scope(work)),
        None => context.sync_scope(work),
    })
}

/// Lets others run, and stays ready to run: what a handler that computes for long calls now and then.
///
/// `tokio::task::yield_now` wakes its task only after the runtime has looked for other work. Until then a handler would
/// count as waiting for something, and the next request in line would be started beside it.
pub async fn yield_now() {
    let mut has_made_way = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut has_made_way, true) {
            return task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        task::Poll::Pending
    })
    .await;
}

/// What applies to calls for which neither the request nor a scope says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    /// Default `Critical`; `SheddablePlus` for batch.
    pub criticality: Criticality,
    /// How long a call may take. Default: no limit.
    pub timeout: Option<Duration>,
}

/// What a call goes out with, every source weighed.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// How much it matters.
    pub criticality: Criticality,
    /// Nobody waits for the answer after this.
    pub deadline: Option<Instant>,
    /// 0 unless the caller retries by itself and says so in a header.
    pub attempt: u8,
    /// Who is billed.
    pub customer: Option<Arc<str>>,
    /// What the root request drew, or, where this is the root, what was drawn for it.
    pub lot: Lot,
    /// Neither the request nor a scope said how much it matters: in a process that serves, a context was lost.
    pub context_missing: bool,
    /// The request names a criticality nobody knows; it counts as not named.
    pub criticality_unknown: bool,
    request: Option<Arc<meter::Task>>,
}

impl Resolved {
    /// The part core decides by; the driver knows the customer's number.
    pub fn meta(&self, clock: Clock, kind: Kind, customer: CustomerId) -> RequestMeta {
        let deadline = self.deadline.map_or(Time::NEVER, |deadline| clock.time_of(deadline));
        RequestMeta {
            criticality: self.criticality,
            deadline,
            attempt: self.attempt,
            kind,
            customer,
            lot: self.lot,
            ..RequestMeta::default()
        }
    }

    /// Puts it on the request's headers, the deadline as what remains of it. `false` if the customer's name
    /// [fits no header](headers::is_customer) and is left out.
    pub fn write(&self, now: Instant, headers: &mut HeaderMap) -> bool {
        headers::write_criticality(headers, self.criticality);
        headers::write_attempt(headers, self.attempt);
        headers::write_lot(headers, self.lot);
        if let Some(deadline) = self.deadline {
            headers::write_timeout(headers, deadline.saturating_duration_since(now));
        }
        self.customer.as_deref().is_none_or(|customer| headers::write_customer(headers, customer))
    }

    /// The request being served, if there is one.
    pub(crate) fn serving(&self) -> Option<Arc<meter::Task>> {
        self.request.clone()
    }

    /// Tells the request being served, if there is one, that a call it made was told not to retry.
    pub fn remember_dont_retry(&self) {
        self.remember(Behind::TooMuch);
    }

    pub(crate) fn remember(&self, behind: Behind) {
        remember_behind(self.request.as_deref(), behind);
    }
}

/// Weighs the sources of one call: what the caller set on the request (a [`Context`] in its extensions, then its
/// headers), then the inherited scope (a carried one before the sending task's), then the channel's defaults.
/// `draw` gives a lot to a request that nobody gave one: a root.
pub fn resolve(
    now: Instant,
    extensions: &Extensions,
    headers: &HeaderMap,
    inherited: Option<&Context>,
    defaults: Defaults,
    draw: impl FnOnce() -> Lot,
) -> Resolved {
    let own = extensions.get::<Context>();
    let inherited = extensions.get().map(|Carried(context)| context).or(inherited);
    let scopes = || own.into_iter().chain(inherited);
    let named = headers::read_criticality(headers);
    let in_header = named.ok().flatten();
    let own_level = own.and_then(|context| context.criticality).or(in_header);
    let level = own_level.or_else(|| inherited.and_then(|context| context.criticality));
    let after = |span| now.checked_add(span);
    let deadline = own
        .and_then(|context| context.deadline)
        .or_else(|| headers::read_timeout(headers).and_then(after))
        .or_else(|| inherited.and_then(|context| context.deadline))
        .or_else(|| defaults.timeout.and_then(after));
    let customer = own
        .and_then(|context| context.customer.clone())
        .or_else(|| headers::read_customer(headers).map(Arc::from))
        .or_else(|| inherited.and_then(|context| context.customer.clone()));
    let lot = own
        .and_then(|context| context.lot)
        .or_else(|| headers::read_lot(headers))
        .or_else(|| inherited.and_then(|context| context.lot));
    Resolved {
        criticality: level.unwrap_or(defaults.criticality),
        deadline,
        attempt: headers::read_attempt(headers).unwrap_or(0),
        customer,
        lot: lot.unwrap_or_else(draw),
        context_missing: scopes().next().is_none() && in_header.is_none(),
        criticality_unknown: named.is_err(),
        request: scopes().find_map(|context| context.request.clone()),
    }
}

pin_project! {
    /// A body that is polled inside a context, however much later and by whichever task, at its request's expense.
    #[derive(Debug)]
    pub struct InContext<B> {
        context: Context,
        // Made when it is polled first: many are never.
        poller: Option<Poller>,
        #[pin]
        body: B,
    }
}

impl<B> InContext<B> {
    /// The body, inside this context.
    pub fn new(context: Context, body: B) -> Self {
        InContext { context, poller: None, body }
    }

    /// The body of the answer, after its handler has ended: it is polled as the same task.
    pub(crate) fn after_handler(context: Context, body: B) -> Self {
        let poller = context.request.clone().map(Poller::new);
        InContext { context, poller, body }
    }
}

impl<B: Body> Body for InContext<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
    ) -> task::Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        if let (None, Some(task)) = (&this.poller, &this.context.request) {
            *this.poller = Some(Poller::child(task));
        }
        let context = this.context.clone();
        match this.poller {
            Some(poller) => poller.poll(cx, |cx| CURRENT.sync_scope(context, || this.body.poll_frame(cx))),
            None => CURRENT.sync_scope(context, || this.body.poll_frame(cx)),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
