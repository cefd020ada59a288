//! CPU time of a thread from the time-stamp counter: 20 ns for two readings, where two of the thread's clock take 490.
//!
//! The counter runs on while others have the processor. The kernel says when that happened: a thread can announce a
//! *restartable sequence* by putting the address of a descriptor into a word that it shares with the kernel (glibc
//! registers that word for each thread since 2.35). Whenever the kernel has taken the processor away from the thread and
//! the thread is not inside the sequence, it puts zero there. So a descriptor of a sequence that nobody ever enters is a
//! flag that an interruption clears. While it stands, CPU time is the counter plus what the last comparison with the
//! thread's clock gave; once it is gone the next reading compares anew, at the price of one system call.
//!
//! Somebody else who uses the word on the same thread (tcmalloc's caches per processor) puts another address there. It
//! is taken for an interruption: the readings stay right and become slow. What we put there cannot disturb them: they are
//! not inside a sequence of theirs while they call us, and set the word anew before they enter one.
//!
//! Hypervisors that take the processor away are not seen, nor are interrupts that the kernel serves on our time.

use std::arch::asm;
use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::ticks::thread_nanos;

/// The counter, known to be of use here.
#[derive(Debug)]
pub(super) struct Tsc {
    /// From the thread pointer to the area shared with the kernel, the same in all threads.
    area: isize,
    ticks_per_nano: f64,
}

impl Tsc {
    /// `None` where the counter changes its pace, where glibc registered no area, or where the kernel does not clear the
    /// word of a thread that waits in a system call (Linux from 6.19 on, which looks only at threads it interrupted).
    pub(super) fn find() -> Option<Self> {
        if !is_invariant() {
            return None;
        }
        let mut tsc = Tsc { area: area()?, ticks_per_nano: 1.0 };
        if !tsc.is_registered() || !tsc.sees_waiting() {
            return None;
        }
        tsc.ticks_per_nano = pace()?;
        Some(tsc)
    }

    /// CPU time of this thread, in ticks.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        // First the counter, then the flag: whoever is interrupted between the two compares anew for nothing.
        let now = counter();
        if self.is_undisturbed() { now.wrapping_add(OFFSET.get()) } else { self.compare() }
    }

    pub(super) fn nanos_of(&self, ticks: u64) -> u64 {
        (ticks as f64 / self.ticks_per_nano) as u64
    }

    /// Sets the flag and compares the counter with the thread's clock.
    #[cold]
    #[inline(never)]
    fn compare(&self) -> u64 {
        // Nobody clears the flag of a thread that is not registered: it has its clock.
        let is_registered = self.is_registered();
        for _ in 0..TRIES {
            if is_registered {
                self.set(flag());
            }
            let clock = self.ticks_of(thread_nanos());
            let now = counter();
            if self.is_undisturbed() {
                OFFSET.set(clock.wrapping_sub(now));
                return clock;
            }
            if !is_registered {
                return clock;
            }
        }
        self.set(0);
        self.ticks_of(thread_nanos())
    }

    fn ticks_of(&self, nanos: u64) -> u64 {
        (nanos as f64 * self.ticks_per_nano) as u64
    }

    /// Whether the kernel clears the flag of a thread that waits in a system call, as it must for what a handler waits
    /// for inside a poll not to be taken for its work.
    fn sees_waiting(&self) -> bool {
        self.set(flag());
        std::thread::sleep(NAP);
        let seen = !self.is_undisturbed();
        self.set(0);
        seen
    }

    #[inline]
    fn is_undisturbed(&self) -> bool {
        // SAFETY: see `word`.
        unsafe { self.word().read_volatile() == flag() }
    }

    /// Zero, or the descriptor's address.
    fn set(&self, to: u64) {
        // SAFETY: see `word`. What is written is zero or the address of a valid descriptor that lives for ever, which is
        // all the kernel accepts; it does not look at the sequence of a thread whose instruction is outside of it, as
        // ours always is, other than to clear the word.
        unsafe { self.word().write_volatile(to) }
    }

    /// The word `rseq_cs` of this thread.
    ///
    /// Reading and writing it is sound: `area` is where glibc says that it put a `struct rseq` (32 bytes or more, aligned
    /// to 32, never moved or freed while the thread lives) into every thread's block, and the pointer is not kept beyond
    /// the call. Only the thread itself and the kernel on its behalf touch the word, the kernel never in the middle of an
    /// instruction: no data race. Volatile, because the kernel's writes are invisible to the compiler.
    #[inline]
    fn word(&self) -> *mut u64 {
        self.start().wrapping_byte_add(WORD).cast()
    }

    /// Whether the kernel knows this thread's area: it writes the processor's number there, and glibc a negative one if
    /// it refused.
    fn is_registered(&self) -> bool {
        let processor = self.start().wrapping_byte_add(PROCESSOR).cast::<i32>();
        // SAFETY: as for `word`, this field is the area's second.
        unsafe { processor.read_volatile() >= 0 }
    }

    #[inline]
    fn start(&self) -> *mut c_void {
        let thread: *mut c_void;
        // SAFETY: on x86-64 Linux the first word of a thread's block is its own address (psABI, "variant II"); this only
        // reads it.
        unsafe { asm!("mov {}, fs:0", out(reg) thread, options(pure, readonly, nostack, preserves_flags)) }
        thread.wrapping_byte_offset(self.area)
    }
}

#[inline]
fn counter() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reads the counter and changes nothing else. Every x86-64 has it, and Linux lets programs read it unless one
    // asks to be killed for it (prctl PR_SET_TSC). Not `nomem`, so that the compiler keeps it in order with the flag.
    unsafe { asm!("rdtsc", out("eax") low, out("edx") high, options(nostack, preserves_flags)) }
    u64::from(high) << 32 | u64::from(low)
}

/// Whether the counter runs at one pace whatever the processor does.
#[allow(unused_unsafe, reason = "newer compilers know that asking the processor for its name is safe")]
fn is_invariant() -> bool {
    use std::arch::x86_64::__cpuid;
    // SAFETY: every x86-64 has the instruction.
    let (most, power) = unsafe { (__cpuid(0x8000_0000).eax, __cpuid(0x8000_0007).edx) };
    most >= 0x8000_0007 && power & (1 << 8) != 0
}

/// Where glibc put the area of each thread; `None` with another libc, an older glibc, or where it was told not to.
fn area() -> Option<isize> {
    let size: *const u32 = symbol(c"__rseq_size")?.cast();
    let offset: *const isize = symbol(c"__rseq_offset")?.cast();
    // SAFETY: glibc documents these two as constants of type `unsigned int` and `ptrdiff_t`, set before `main`.
    let (size, offset) = unsafe { (size.read(), offset.read()) };
    (size != 0).then_some(offset)
}

fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name ends with a zero; looking a symbol up among the libraries already loaded runs no foreign code.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// Ticks a nanosecond: the counter against the raw clock over two milliseconds. Each end is taken where the least time
/// passed between two readings of the counter around one of the clock, so that it is off by some 50 ns: 0.005 %.
fn pace() -> Option<f64> {
    let (ticks, nanos) = together();
    loop {
        let (ticks_now, nanos_now) = together();
        let passed = nanos_now.saturating_sub(nanos);
        if passed >= PACE_NANOS {
            let pace = ticks_now.wrapping_sub(ticks) as f64 / passed as f64;
            // 100 MHz to 10 GHz: what is outside is no such counter.
            return (0.1..=10.0).contains(&pace).then_some(pace);
        }
    }
}

fn together() -> (u64, u64) {
    let read = || {
        let before = counter();
        let time = clock_gettime(ClockId::MonotonicRaw);
        let width = counter().wrapping_sub(before);
        let (seconds, nanos) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
        let nanos = seconds.unwrap_or_default() * 1_000_000_000 + nanos.unwrap_or_default();
        (width, before.wrapping_add(width / 2), nanos)
    };
    let (_, ticks, nanos) = (0..16).map(|_| read()).min().unwrap_or_default();
    (ticks, nanos)
}

/// What stands in the word while the thread is undisturbed.
#[inline]
fn flag() -> u64 {
    &raw const SEQUENCE as u64
}

thread_local! {
    /// CPU time less the counter, as of the last comparison.
    static OFFSET: Cell<u64> = const { Cell::new(0) };
}

/// `struct rseq_cs`: where a sequence begins, how long it is, and where the kernel sends whoever it interrupts inside.
#[repr(C, align(32))]
struct Sequence {
    version: u32,
    flags: u32,
    start: unsafe extern "C" fn(),
    length: u64,
    abort: unsafe extern "C" fn(),
}

static SEQUENCE: Sequence =
    Sequence { version: 0, flags: 0, start: evenkeel_rseq_start, length: 1, abort: evenkeel_rseq_abort };

// One instruction that is never run. The kernel kills a thread whose descriptor names an address to abort to that does
// not follow the signature glibc registered, and refuses one inside the sequence. Weak and hidden, so that two versions
// of this library can be in one program.
std::arch::global_asm!(
    ".pushsection .text.evenkeel_rseq, \"ax\", @progbits",
    ".weak evenkeel_rseq_start",
    ".hidden evenkeel_rseq_start",
    ".weak evenkeel_rseq_abort",
    ".hidden evenkeel_rseq_abort",
    "evenkeel_rseq_start:",
    "nop",
    // `ud1` with the signature 0x53053053 as its operand, as librseq has it: data that disassembles.
    ".byte 0x0f, 0xb9, 0x3d",
    ".long 0x53053053",
    "evenkeel_rseq_abort:",
    "ud2",
    ".popsection",
);

// SAFETY: both stand above, and are only ever pointed at.
unsafe extern "C" {
    fn evenkeel_rseq_start();
    fn evenkeel_rseq_abort();
}

/// Where `struct rseq` has `cpu_id` and `rseq_cs`.
const PROCESSOR: usize = 4;
const WORD: usize = 8;
/// One interruption during a comparison is rare, three in a row are a storm of signals: then the clock will do.
const TRIES: u32 = 3;
const NAP: Duration = Duration::from_micros(50);
const PACE_NANOS: u64 = 2_000_000;
