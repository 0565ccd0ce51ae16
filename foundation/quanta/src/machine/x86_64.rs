//! x86-64 with Linux.
//!
//! The thread's state is one cache line of thread-local storage. Its first word, the credit, is what instrumented code
//! works on by itself; so it has a symbol, and lies where the linker finds it at a fixed distance from `fs`.

use super::Own;
use std::arch::global_asm;
use std::cell::Cell;
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicIsize, Ordering};

/// A quantum's end that never comes.
const NEVER: i64 = i64::MAX;

/// A credit that is not used up in a lifetime. The price of a whole loop is at most this.
const PLENTY: i64 = 1 << 62;

/// The credit in a critical section whose quantum is over.
const SOON: i64 = 256;

/// The ticks that a probe takes, about.
const PROBE: u64 = 50;

/// The most ticks for which credit is granted at once.
const MOST: u64 = 16384;

/// A thread's state; the assembly below and `cargo quanta` know its layout.
#[repr(C, align(64))]
struct State {
    /// How much work may still be done before the clock is read.
    credit: Cell<i64>,
    /// When the quantum ends.
    end: Cell<i64>,
    /// When credit was granted last, and how much.
    at: Cell<u64>,
    granted: Cell<i64>,
    /// Units of work a tick, scaled by 2^16.
    pace: Cell<u64>,
    /// How many critical sections the thread is in.
    sections: Cell<i64>,
    /// What a strip is asked and answers: how far it is to the loop's end, or how far is paid for.
    distance: Cell<u64>,
    /// What an iteration costs, and in the upper half how many there may be at once, or zero; and how far it goes.
    iteration: [Cell<u32>; 2],
    /// How far the thread-locals of the job that runs are from the thread's own.
    offset: Cell<isize>,
    /// What is taken for the standard library's word in a program where it isn't known.
    nobody: Cell<usize>,
}

global_asm!(
    ".section .tdata.__quanta_credit, \"awT\", @progbits",
    ".globl __quanta_credit",
    ".type __quanta_credit, @object",
    ".size __quanta_credit, {size}",
    ".p2align 6",
    "__quanta_credit:",
    ".quad {plenty}, {never}, 0, {plenty}, 16384, 0, 0, 0",
    ".fill {size} - 64, 1, 0",
    ".section .text.greenwave_quanta_state, \"ax\", @progbits",
    ".globl greenwave_quanta_state",
    ".type greenwave_quanta_state, @function",
    "greenwave_quanta_state:",
    ".cfi_startproc",
    "mov rax, qword ptr fs:0",
    "add rax, qword ptr [rip + __quanta_credit@GOTTPOFF]",
    "ret",
    ".cfi_endproc",
    ".size greenwave_quanta_state, . - greenwave_quanta_state",
    // Where the standard library's words are: defined by `cargo quanta` when it links, and nowhere otherwise.
    ".weak __quanta_standard",
    ".section .text.greenwave_quanta_standard, \"ax\", @progbits",
    ".globl greenwave_quanta_standard",
    ".type greenwave_quanta_standard, @function",
    "greenwave_quanta_standard:",
    ".cfi_startproc",
    "xor eax, eax",
    "xor edx, edx",
    "mov rcx, qword ptr [rip + __quanta_standard@GOTPCREL]",
    "test rcx, rcx",
    "jz 2f",
    "jmp rcx",
    "2:",
    "ret",
    ".cfi_endproc",
    ".size greenwave_quanta_standard, . - greenwave_quanta_standard",
    // Whether the program has probes: defined by `cargo quanta` when it links, and zero otherwise.
    ".weak __quanta_instrumented",
    ".section .text.greenwave_quanta_instrumented, \"ax\", @progbits",
    ".globl greenwave_quanta_instrumented",
    ".type greenwave_quanta_instrumented, @function",
    "greenwave_quanta_instrumented:",
    ".cfi_startproc",
    "mov rax, qword ptr [rip + __quanta_instrumented@GOTPCREL]",
    "ret",
    ".cfi_endproc",
    ".size greenwave_quanta_instrumented, . - greenwave_quanta_instrumented",
    // A probe: learns the pace from what was paid since credit was granted, and grants more; or, if the quantum is
    // over (or nearly, so that another probe would not pay), calls `expired`. There are two, which differ in what they
    // save for that call.
    ".macro quanta_probe name, wide",
    ".section .text.\\name, \"ax\", @progbits",
    ".globl \\name",
    ".type \\name, @function",
    ".p2align 4",
    "\\name\\():",
    ".cfi_startproc",
    "push rax",
    ".cfi_adjust_cfa_offset 8",
    "push rdx",
    ".cfi_adjust_cfa_offset 8",
    "push rcx",
    ".cfi_adjust_cfa_offset 8",
    "push rsi",
    ".cfi_adjust_cfa_offset 8",
    "mov r11, qword ptr [rip + __quanta_credit@GOTTPOFF]",
    "rdtsc",
    "shl rdx, 32",
    "or rax, rdx",
    // rcx: what is left of the quantum; rsi: what has passed since the grant; rax: what was paid for it.
    "mov rcx, qword ptr fs:[r11 + 8]",
    "sub rcx, rax",
    "mov rsi, rax",
    "sub rsi, qword ptr fs:[r11 + 16]",
    "mov qword ptr fs:[r11 + 16], rax",
    // Of that the last probe took a part, which would make short grants look slow.
    "mov edx, 1",
    "sub rsi, {probe}",
    "cmovbe rsi, rdx",
    "mov rax, qword ptr fs:[r11 + 24]",
    "sub rax, qword ptr fs:[r11]",
    "xor edx, edx",
    "shl rax, 16",
    "div rsi",
    // Slower code is believed within a few probes, faster code not at once: what counts is not to be late.
    "mov rdx, qword ptr fs:[r11 + 32]",
    "mov rsi, rdx",
    "shr rsi, 1",
    "lea rsi, [rsi + rdx + 1]",
    "cmp rax, rsi",
    "cmova rax, rsi",
    "shr rdx, 3",
    "cmp rax, rdx",
    "cmovb rax, rdx",
    "mov edx, 256",
    "cmp rax, rdx",
    "cmovb rax, rdx",
    "mov rsi, qword ptr fs:[r11 + 32]",
    "mov qword ptr fs:[r11 + 32], rax",
    "cmp rcx, 100",
    "jl 2f",
    // Seven eighths of what is left while the code keeps its pace, so that a quantum has few probes; half, if it has become
    // slower by a quarter. Less, or believing a faster pace more slowly, makes slices of code that misses the cache now and
    // then more exact, and costs it up to its own time again: a pace once measured over a short grant is hard to leave.
    "mov rdx, rsi",
    "shr rdx, 2",
    "sub rsi, rdx",
    "cmp rax, rsi",
    "sbb rsi, rsi",
    "mov rdx, rcx",
    "shr rdx, 3",
    "sub rcx, rdx",
    "lea rdx, [rdx + 2 * rdx]",
    "and rdx, rsi",
    "sub rcx, rdx",
    "mov edx, {most}",
    "cmp rcx, rdx",
    "cmova rcx, rdx",
    "imul rax, rcx",
    "shr rax, 16",
    "mov qword ptr fs:[r11], rax",
    "mov qword ptr fs:[r11 + 24], rax",
    ".cfi_remember_state",
    "pop rsi",
    ".cfi_adjust_cfa_offset -8",
    "pop rcx",
    ".cfi_adjust_cfa_offset -8",
    "pop rdx",
    ".cfi_adjust_cfa_offset -8",
    "pop rax",
    ".cfi_adjust_cfa_offset -8",
    "ret",
    ".cfi_restore_state",
    "2:",
    // In full, as LLVM's assembler doesn't count on from what a state that it restores had.
    "push rbp",
    ".cfi_def_cfa_offset 48",
    ".cfi_offset rbp, -48",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "push rdi",
    "push r8",
    "push r9",
    "push r10",
    ".if \\wide",
    "sub rsp, 2752",
    "and rsp, -64",
    // The header of the area is to be zero, or else what is in it is not in the usual format.
    "xor eax, eax",
    ".irp at, 512, 520, 528, 536, 544, 552, 560, 568",
    "mov qword ptr [rsp + \\at], rax",
    ".endr",
    // Registers of SSE, AVX and AVX-512, of those that there are.
    "mov eax, 0xe7",
    "xor edx, edx",
    "xsave64 [rsp]",
    "call {expired}",
    "mov eax, 0xe7",
    "xor edx, edx",
    "xrstor64 [rsp]",
    ".else",
    "sub rsp, 256",
    "and rsp, -16",
    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    "movaps xmmword ptr [rsp + 16 * \\n], xmm\\n",
    ".endr",
    "call {expired}",
    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    "movaps xmm\\n, xmmword ptr [rsp + 16 * \\n]",
    ".endr",
    ".endif",
    "lea rsp, [rbp - 32]",
    "pop r10",
    "pop r9",
    "pop r8",
    "pop rdi",
    "pop rbp",
    ".cfi_def_cfa rsp, 40",
    "pop rsi",
    ".cfi_adjust_cfa_offset -8",
    "pop rcx",
    ".cfi_adjust_cfa_offset -8",
    "pop rdx",
    ".cfi_adjust_cfa_offset -8",
    "pop rax",
    ".cfi_adjust_cfa_offset -8",
    "ret",
    ".cfi_endproc",
    ".size \\name, . - \\name",
    ".endm",
    // A strip: the state says how far it is to a loop's end, how far an iteration goes, what it costs, and how many there
    // may be at once, if not any number, with a bit that says whether there is one at least. As many as the credit covers
    // are paid for, but one at least if there is one, and how far they go takes the place of the distance. Where the
    // credit covers hardly any, it probes first.
    ".macro quanta_strip name, probe",
    ".section .text.\\name, \"ax\", @progbits",
    ".globl \\name",
    ".type \\name, @function",
    ".p2align 4",
    "\\name\\():",
    ".cfi_startproc",
    "push rax",
    ".cfi_adjust_cfa_offset 8",
    "push rdx",
    ".cfi_adjust_cfa_offset 8",
    "push rsi",
    ".cfi_adjust_cfa_offset 8",
    "push rdi",
    ".cfi_adjust_cfa_offset 8",
    "push r8",
    ".cfi_adjust_cfa_offset 8",
    "mov r11, qword ptr [rip + __quanta_credit@GOTTPOFF]",
    // All is read before the probe: another coroutine may write there while this one is suspended.
    "mov rax, qword ptr fs:[r11 + 48]",
    "mov esi, dword ptr fs:[r11 + 56]",
    "mov r8d, dword ptr fs:[r11 + 60]",
    // rdi: how many iterations, rounded up, at most those that may be at once; rsi: what each costs.
    "xor edx, edx",
    "div r8",
    "cmp rdx, 1",
    "sbb rax, -1",
    "mov edx, esi",
    "shr edx, 31",
    "cmp rax, rdx",
    "cmovb rax, rdx",
    "mov rdi, rax",
    "mov eax, esi",
    "shr eax, 16",
    "and eax, 0x7fff",
    "jz 2f",
    "cmp rdi, rax",
    "cmova rdi, rax",
    "2:",
    "movzx esi, si",
    "mov rax, rsi",
    "shl rax, 4",
    "cmp qword ptr fs:[r11], rax",
    "jge 3f",
    "call \\probe",
    "mov r11, qword ptr [rip + __quanta_credit@GOTTPOFF]",
    "3:",
    "mov rax, qword ptr fs:[r11]",
    "xor edx, edx",
    "test rax, rax",
    "cmovs rax, rdx",
    "div rsi",
    "mov edx, 1",
    "test rax, rax",
    "cmovz rax, rdx",
    "cmp rax, rdi",
    "cmova rax, rdi",
    "mov rdx, rax",
    "imul rdx, r8",
    "mov qword ptr fs:[r11 + 48], rdx",
    "imul rax, rsi",
    "sub qword ptr fs:[r11], rax",
    "jns 4f",
    "mov qword ptr fs:[r11], 0",
    "4:",
    "pop r8",
    ".cfi_adjust_cfa_offset -8",
    "pop rdi",
    ".cfi_adjust_cfa_offset -8",
    "pop rsi",
    ".cfi_adjust_cfa_offset -8",
    "pop rdx",
    ".cfi_adjust_cfa_offset -8",
    "pop rax",
    ".cfi_adjust_cfa_offset -8",
    "ret",
    ".cfi_endproc",
    ".size \\name, . - \\name",
    ".endm",
    "quanta_probe __quanta_probe, 0",
    "quanta_probe __quanta_probe_wide, 1",
    "quanta_strip __quanta_strip, __quanta_probe",
    "quanta_strip __quanta_strip_wide, __quanta_probe_wide",
    ".purgem quanta_probe",
    ".purgem quanta_strip",
    ".text",
    size = const size_of::<State>(),
    plenty = const PLENTY,
    never = const NEVER,
    most = const MOST,
    probe = const PROBE,
    expired = sym crate::preempt::expired,
);

unsafe extern "C" {
    safe fn greenwave_quanta_instrumented() -> usize;
    safe fn greenwave_quanta_state() -> *const State;
    safe fn greenwave_quanta_standard() -> Standard;
}

/// Where the standard library has what it knows of a thread, from the state on; zeros if that isn't known.
#[repr(C)]
struct Standard {
    /// The word behind `std::thread::current`.
    current: isize,
    /// The number of the thread, by which its locks tell who has them.
    id: isize,
}

/// Where the word behind `std::thread::current` is, from the state on.
static CURRENT: AtomicIsize = AtomicIsize::new(offset_of!(State, nobody).cast_signed());

/// A word of the calling thread, by its place from the state on.
fn word(state: &State, place: isize) -> &Cell<usize> {
    let address = ptr::from_ref(state).expose_provenance().wrapping_add_signed(place);
    // SAFETY: it is the state's, or the standard library's thread-local of this size, of the same thread, on which all users
    // of it stay. Nobody has a reference to it for longer than it takes to read or write it.
    unsafe { &*ptr::with_exposed_provenance(address) }
}

fn state() -> &'static State {
    // SAFETY: it is the calling thread's, aligned and initialised, and lives as long as the thread, on which all users
    // of it stay: the reference is not kept.
    unsafe { &*greenwave_quanta_state() }
}

/// From now on this thread has no quantum.
#[unsafe(link_section = ".text.quanta.unprobed")]
pub(crate) fn stop() {
    let state = state();
    state.end.set(NEVER);
    state.credit.set(PLENTY);
    state.granted.set(PLENTY);
}

/// Enters a critical section.
pub(crate) fn enter() {
    let sections = &state().sections;
    sections.set(sections.get() + 1);
}

/// Leaves one; says whether it was the last and the quantum is over. Only where a probe has found it over is the clock read:
/// otherwise there is credit, and a probe will.
#[inline]
pub(crate) fn leave() -> bool {
    let state = state();
    state.sections.set(state.sections.get() - 1);
    state.sections.get() == 0 && state.granted.get() == SOON && now() as i64 >= state.end.get()
}

/// What a probe does first whose quantum is over: in a critical section nothing but to look again soon, and it says so;
/// otherwise it ends the quantum.
#[unsafe(link_section = ".text.quanta.unprobed")]
pub(crate) fn is_held() -> bool {
    let state = state();
    let held = state.sections.get() > 0;
    if held {
        soon();
    } else {
        stop();
    }
    held
}

/// Has the clock looked at again before long.
#[unsafe(link_section = ".text.quanta.unprobed")]
pub(crate) fn soon() {
    let state = state();
    state.credit.set(SOON);
    state.granted.set(SOON);
}

/// Puts another job's share of the state in place of what is there, and returns that.
pub(crate) fn exchange(Own { sections, offset, current }: Own) -> Own {
    let state = state();
    Own {
        sections: state.sections.replace(sections),
        offset: state.offset.replace(offset),
        current: word(state, CURRENT.load(Ordering::Relaxed)).replace(current),
    }
}

/// Makes somebody who isn't yet there, as the standard library does for a thread that it hasn't seen before: with a number
/// and a place to park of its own, and no name. It stays. Nobody else of the thread may run meanwhile.
pub(crate) fn new_current() -> usize {
    let Standard { current: place, id } = greenwave_quanta_standard();
    if place == 0 {
        return 0;
    }
    CURRENT.store(place, Ordering::Relaxed);
    let state = state();
    let (current, id) = (word(state, place), word(state, id));
    let thread = (current.replace(0), id.replace(0));
    drop(std::thread::current());
    id.set(thread.1);
    current.replace(thread.0)
}

/// Has code use other thread-locals; returns which it used before.
pub(crate) fn exchange_offset(offset: isize) -> isize {
    state().offset.replace(offset)
}

/// How far the running job's thread-locals are from the thread's own.
pub(crate) fn offset() -> isize {
    state().offset.get()
}

/// Runs `body` with a quantum of so many ticks, granting credit at this pace at first; writes back what it was last.
#[inline(always)]
pub(crate) fn with_quantum<R>(quantum: u64, pace: &mut u64, body: impl FnOnce() -> R) -> R {
    let state = state();
    let now = now();
    state.at.set(now);
    state.pace.set(*pace);
    let credit = (((quantum - quantum / 4).min(MOST) * *pace) >> 16) as i64;
    state.granted.set(credit);
    state.credit.set(credit);
    state.end.set(now.saturating_add(quantum).min(NEVER as u64) as i64);
    let result = body();
    *pace = state.pace.get();
    stop();
    result
}

pub(crate) fn is_instrumented() -> bool {
    greenwave_quanta_instrumented() != 0
}

/// Has the processor fetch what is at so many bytes from an address on, if it is there, while other work goes on.
#[inline(always)]
pub(crate) fn prefetch(address: usize, bytes: usize) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    let first = ptr::without_provenance::<i8>(address);
    for at in (0..bytes).step_by(64) {
        // SAFETY: a prefetch is a hint: it reads nothing that the program could see, and faults at no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(at)) };
    }
}

pub(crate) fn now() -> u64 {
    // SAFETY: every x86-64 processor has this instruction, and Linux lets all programs use it.
    unsafe { std::arch::x86_64::_rdtsc() }
}
