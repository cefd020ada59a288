//! A future whose polls are charged to a request, and which counts as running while it could be polled.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use pin_project_lite::pin_project;

use super::task::Task;

pin_project! {
    /// A future that works for a request.
    ///
    /// ```
    /// use evenkeel::meter::{Factor, Metered, Task};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let task = Task::of_request(None, Factor::default());
    /// let sum: u64 = Metered::new(task.clone(), async { (0..1_000).sum() }).await;
    /// println!("{sum} took {:?} of CPU", task.account().cpu());
    /// # }
    /// ```
    pub struct Metered<F> {
        // Gone once the future has ended: what comes after it may poll as the same task.
        poller: Option<Poller>,
        #[pin]
        future: F,
    }
}

impl<F> Metered<F> {
    /// Polled as this task. It counts as running from its first poll on, or from when somebody said that the task is
    /// [counted](Task::counted).
    pub fn new(task: Arc<Task>, future: F) -> Self {
        Metered { poller: Some(Poller::new(task)), future }
    }

    /// The same where whoever admitted it has counted it.
    pub fn counted(task: Arc<Task>, future: F) -> Self {
        task.counted();
        Metered::new(task, future)
    }

    /// A child that is about to be spawned by this task, or by another one of the same request: it counts at once.
    pub fn child(of: &Arc<Task>, future: F) -> Self {
        let task = of.child();
        task.starts();
        Metered::new(task, future)
    }

    pub(crate) fn future(self: Pin<&mut Self>) -> Pin<&mut F> {
        self.project().future
    }
}

impl<F: Future> Future for Metered<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let Some(poller) = this.poller else {
            // Ended: what a future does then is its own affair.
            return this.future.poll(cx);
        };
        let outcome = poller.poll(cx, |cx| this.future.poll(cx));
        if outcome.is_ready() {
            *this.poller = None;
        }
        outcome
    }
}

impl<F> fmt::Debug for Metered<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metered").field("poller", &self.poller).finish_non_exhaustive()
    }
}

/// Polls on behalf of a task, which it counts out when it is dropped.
#[derive(Debug)]
pub(crate) struct Poller {
    task: Arc<Task>,
    /// The task's own, made once: what is polled with it again sees that it is the same.
    waker: Waker,
}

impl Poller {
    pub(crate) fn new(task: Arc<Task>) -> Self {
        Poller { waker: Waker::from(Arc::clone(&task)), task }
    }

    /// As another task of the same request.
    pub(crate) fn child(of: &Arc<Task>) -> Self {
        Poller::new(of.child())
    }

    #[inline]
    pub(crate) fn poll<T>(&mut self, cx: &mut Context<'_>, work: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        if !self.task.belongs_to(cx.waker()) {
            self.move_to(cx.waker());
        }
        self.task.begins();
        let entered = self.task.account().enter();
        let polled = work(&mut Context::from_waker(&self.waker));
        drop(entered);
        match polled {
            Poll::Pending => self.task.waits(),
            Poll::Ready(_) => self.task.leaves(),
        }
        polled
    }

    #[cold]
    fn move_to(&mut self, waker: &Waker) {
        self.task = self.task.moved(waker);
        self.waker = Waker::from(Arc::clone(&self.task));
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        self.task.leaves();
    }
}

/// Does blocking work for the request. It counts as nobody who runs: most of it waits, and would hold a slot for that.
pub(crate) fn run_blocking<T>(of: &Arc<Task>, work: impl FnOnce() -> T) -> T {
    let _entered = of.account().enter();
    work()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::super::{Factor, Runners};
    use super::*;

    /// Counts how often it was woken.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A future that keeps the waker it was polled with, and ends when it is told to.
    fn keeping<'a>(kept: &'a Cell<Option<Waker>>, ends: &'a Cell<bool>) -> impl Future<Output = ()> + 'a {
        poll_fn(|cx| {
            kept.set(Some(cx.waker().clone()));
            if ends.get() { Poll::Ready(()) } else { Poll::Pending }
        })
    }

    fn wake(kept: &Cell<Option<Waker>>) {
        let waker = kept.take().unwrap();
        waker.wake_by_ref();
        kept.set(Some(waker));
    }

    fn of(runners: &Arc<Runners>) -> Arc<Task> {
        Task::of_request(Some(Arc::clone(runners)), Factor::default())
    }

    #[test]
    fn counts_from_wake_to_rest_and_not_after_its_end() {
        let (runners, woken) = (Arc::new(Runners::default()), Arc::new(Woken::default()));
        let (kept, ends, now) = (Cell::new(None), Cell::new(false), || runners.running().now());
        let waker = Waker::from(Arc::clone(&woken));
        let mut cx = Context::from_waker(&waker);
        let mut metered = Box::pin(Metered::new(of(&runners), keeping(&kept, &ends)));
        assert_eq!(now(), 0, "it may have to wait in line");

        assert!(metered.as_mut().poll(&mut cx).is_pending());
        assert_eq!(now(), 0);
        let first = kept.take().unwrap();
        kept.set(Some(first.clone()));
        wake(&kept);
        wake(&kept);
        assert_eq!((now(), woken.0.load(Ordering::Relaxed)), (1, 2), "woken twice, ready once");
        assert!(metered.as_mut().poll(&mut cx).is_pending());
        assert_eq!(now(), 0);
        let again = kept.take().unwrap();
        assert!(first.will_wake(&again), "what compares wakers need not register anew");
        kept.set(Some(again));
        ends.set(true);
        assert!(metered.as_mut().poll(&mut cx).is_ready());
        wake(&kept);
        assert_eq!(now(), 0, "a wake between the end and the drop");
        drop(metered);
        wake(&kept);
        assert_eq!(now(), 0);
    }

    #[test]
    fn is_counted_out_if_dropped_while_it_could_run() {
        let runners = Arc::new(Runners::default());
        let (kept, ends) = (Cell::new(None), Cell::new(false));
        let child = Metered::child(&of(&runners), keeping(&kept, &ends));
        assert_eq!(runners.running().now(), 1, "spawned and not polled yet");
        drop(child);
        assert_eq!(runners.running().now(), 0);

        let mut woken = Box::pin(Metered::new(of(&runners), keeping(&kept, &ends)));
        assert!(woken.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        wake(&kept);
        assert_eq!(runners.running().now(), 1);
        drop(woken);
        assert_eq!(runners.running().now(), 0);
    }

    #[test]
    fn who_was_counted_on_admission_is_not_counted_again() {
        let runners = Arc::new(Runners::default());
        runners.running().runs(0);
        let (kept, ends) = (Cell::new(None), Cell::new(false));
        let mut metered = pin!(Metered::counted(of(&runners), keeping(&kept, &ends)));
        assert_eq!(runners.running().now(), 1);

        assert!(metered.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(runners.running().now(), 0);
    }

    #[test]
    fn a_task_that_is_moved_wakes_where_it_is_now_and_counts_once() {
        let (runners, old, new) =
            (Arc::new(Runners::default()), Arc::new(Woken::default()), Arc::new(Woken::default()));
        let (kept, ends) = (Cell::new(None), Cell::new(false));
        let (old_waker, new_waker) = (Waker::from(Arc::clone(&old)), Waker::from(Arc::clone(&new)));
        let mut metered = pin!(Metered::new(of(&runners), keeping(&kept, &ends)));
        assert!(metered.as_mut().poll(&mut Context::from_waker(&old_waker)).is_pending());
        let stale = kept.take().unwrap();
        stale.wake_by_ref();

        assert!(metered.as_mut().poll(&mut Context::from_waker(&new_waker)).is_pending());
        stale.wake_by_ref();
        assert_eq!(runners.running().now(), 0, "the old waker counts no more");
        wake(&kept);

        assert_eq!(runners.running().now(), 1);
        assert_eq!((old.0.load(Ordering::Relaxed), new.0.load(Ordering::Relaxed)), (2, 1));
    }

    #[test]
    fn a_panic_leaves_nobody_counted() {
        let runners = Arc::new(Runners::default());
        let mut metered = Box::pin(Metered::new(of(&runners), async { panic!("as a handler might") }));
        let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            metered.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        }));
        assert!(polled.is_err());
        drop(metered);

        let task = of(&runners);
        let blocking =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run_blocking(&task, || panic!("as work might"))));
        assert!(blocking.is_err());
        assert_eq!(runners.running().now(), 0);
    }
}
