//! What [`place`](crate::place) needs to know of a function, read off LLVM's code: blocks, costs, calls.

use crate::counted::Blocks;
use crate::module::{name_of, path_of};
use crate::place::Block;
use crate::steps::parameter_of;
use llvm_sys::LLVMOpcode;
use llvm_sys::core::*;
use llvm_sys::prelude::*;
use std::collections::HashMap;

/// What a call costs, without what is called.
const CALL: u32 = 10;
/// What a call costs of which nothing is known but that it doesn't probe: it is in another language, or in the parts
/// of the standard library that come compiled.
const FOREIGN: u32 = 30;

/// What it costs to get or give back memory. Allocators are critical sections, so it doesn't help if they probe.
const ALLOCATION: u32 = 40;

/// Whether it is one of the functions of `std` by which Rust gets memory and gives it back, whatever crate it is named
/// after.
fn is_allocator(name: &str) -> bool {
    let kind = name.rsplit_once("__rust_").or_else(|| name.rsplit_once("__rdl_")).map(|(_, kind)| kind);
    kind.is_some_and(|kind| ["alloc", "dealloc", "realloc", "alloc_zeroed"].contains(&kind))
}

/// Whether a function of another module is one of a crate that is compiled with this one, and not with the standard
/// library, whose names are mangled otherwise.
fn is_of_crate(name: &str) -> bool {
    let inner = name.strip_prefix("_ZN").and_then(|name| name.strip_suffix('E'));
    let hash = inner.and_then(|name| name.get(name.len().checked_sub(19)?..)?.strip_prefix("17h"));
    hash.is_some_and(|hash| hash.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// Whether a function is one of those that come compiled with the standard library and call nobody, but who gives them
/// memory.
fn calls_nobody(name: &str) -> bool {
    let parts =
        ["alloc::raw_vec::", "alloc::str::", "core::num::", "core::slice::memchr::", "core::str::", "core::unicode::"];
    let path = path_of(name);
    name.starts_with("_R") && parts.iter().any(|part| path.starts_with(part)) && !path.contains(" as ")
}

/// Who is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Callee {
    /// LLVM's own, which is no call or one of those that it makes of memory operations; with its cost.
    Intrinsic(u32),
    /// A copy, a comparison or the like, whose cost goes with its length, which is this argument.
    Sized(u32),
    /// A function of the same module.
    Known(LLVMValueRef),
    /// A function of another module.
    Other(String),
    /// Whoever a pointer points to.
    Pointer,
    /// Assembly.
    Assembly,
}

/// Tells who is called.
///
/// # Safety
/// It is a call or an invoke.
pub(crate) unsafe fn callee_of(call: LLVMValueRef) -> Callee {
    // SAFETY: as above.
    unsafe {
        let called = LLVMGetCalledValue(call);
        if !LLVMIsAInlineAsm(called).is_null() {
            return Callee::Assembly;
        }
        if LLVMIsAFunction(called).is_null() {
            return Callee::Pointer;
        }
        if LLVMIsDeclaration(called) == 0 {
            return Callee::Known(called);
        }
        let name = name_of(called);
        let constant = |at: u32| !LLVMIsAConstantInt(LLVMGetOperand(call, at)).is_null();
        match name.as_str() {
            "memcpy" | "memmove" | "memset" | "memcmp" | "bcmp" | "memchr" if !constant(2) => Callee::Sized(2),
            "memcpy" | "memmove" | "memset" | "memcmp" | "bcmp" => Callee::Intrinsic(20),
            name if name.starts_with("llvm.mem") && !constant(2) => Callee::Sized(2),
            name if name.starts_with("llvm.mem") => {
                Callee::Intrinsic(LLVMConstIntGetZExtValue(LLVMGetOperand(call, 2)).min(640) as u32 / 16 + 2)
            }
            name if IS_NOTHING.iter().any(|nothing| name.starts_with(nothing)) => Callee::Intrinsic(0),
            name if name.starts_with("llvm.") => Callee::Intrinsic(2),
            "__quanta_enter" | "__quanta_leave" => Callee::Intrinsic(1),
            name if is_allocator(name) => Callee::Intrinsic(ALLOCATION),
            name if MATHS.contains(&name) => Callee::Intrinsic(40),
            _ => Callee::Other(name),
        }
    }
}

const IS_NOTHING: [&str; 6] =
    ["llvm.dbg", "llvm.lifetime", "llvm.assume", "llvm.experimental.noalias", "llvm.invariant", "llvm.donothing"];

/// Functions of the C library that only compute.
const MATHS: [&str; 26] = [
    "exp", "expf", "exp2", "exp2f", "log", "logf", "log2", "log2f", "log10", "log1p", "expm1", "pow", "powf", "sin",
    "sinf", "cos", "cosf", "tan", "atan", "atan2", "asin", "acos", "sinh", "cosh", "tanh", "fmod",
];

/// What a call costs the caller, and what it leaves to whom is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Price {
    pub(crate) cost: u32,
    /// Whether somebody may probe meanwhile.
    pub(crate) calls: bool,
    /// Whether somebody surely does.
    pub(crate) probes: bool,
    /// Whether it isn't known who is called in the end.
    pub(crate) is_open: bool,
}

impl Price {
    /// Of a function that probes for itself.
    pub(crate) const PROBING: Self = Self { cost: CALL, calls: true, probes: true, is_open: false };
    /// Of one of the module that is to have no probes.
    pub(crate) const LEFT_OUT: Self = Self { is_open: false, ..Self::FOREIGN };
    /// Of one of which nothing is known.
    const FOREIGN: Self = Self { cost: FOREIGN, calls: true, probes: false, is_open: true };
    /// Of one of a crate that is used, which has probes too. It can't call the functions of crates that use it but by
    /// pointers; and who calls by pointers probes.
    const BELOW: Self = Self { is_open: false, ..Self::FOREIGN };

    /// Of a function of another module, by its mangled name. `has_probes` says that all crates have probes.
    pub(crate) fn of_other(name: &str, has_probes: bool) -> Self {
        match name {
            name if calls_nobody(name) => Self::alone(FOREIGN),
            name if has_probes && is_of_crate(name) => Self::BELOW,
            _ => Self::FOREIGN,
        }
    }

    /// Of one that doesn't probe, by what it costs and whether it calls others that do.
    pub(crate) fn of_leaf(cost: u32, calls: bool) -> Self {
        Self { calls, ..Self::alone(cost + CALL / 2) }
    }

    fn alone(cost: u32) -> Self {
        Self { cost, calls: false, probes: false, is_open: false }
    }
}

/// A function's blocks, and how they follow one another. `prices` are those of the module's functions; `comes_back` says
/// of which of them the function may be called in turn.
///
/// # Safety
/// The function has a body.
pub(crate) unsafe fn flow_of(
    function: LLVMValueRef,
    prices: &HashMap<LLVMValueRef, Price>,
    comes_back: &dyn Fn(LLVMValueRef) -> bool,
) -> (Blocks, Vec<Block>) {
    // SAFETY: the blocks and instructions are those of the function.
    unsafe {
        let all = blocks_of(function);
        let index: HashMap<LLVMBasicBlockRef, usize> = all.iter().enumerate().map(|(at, block)| (*block, at)).collect();
        let flow = all.iter().map(|block| {
            let mut seen = Block::default();
            let mut calls = 0;
            for instruction in instructions(*block) {
                let price = price_of(instruction, prices);
                calls += usize::from(price.calls);
                seen.cost = seen.cost.saturating_add(price.cost);
                seen.calls |= price.calls;
                seen.probes |= price.probes;
                seen.is_open |= price.is_open;
                seen.comes_back |= price.calls && comes_back(LLVMGetCalledValue(instruction));
            }
            seen.is_step = calls == 1 && parameter_of(function, *block).is_some();
            let last = LLVMGetBasicBlockTerminator(*block);
            seen.is_end = LLVMGetInstructionOpcode(last) == LLVMOpcode::LLVMUnreachable;
            seen.next = (0..LLVMGetNumSuccessors(last)).map(|at| index[&LLVMGetSuccessor(last, at)]).collect();
            // The way of a panic costs nothing that matters, wherever it is.
            seen.is_end |= LLVMGetInstructionOpcode(last) == LLVMOpcode::LLVMResume;
            seen.is_invoke = LLVMGetInstructionOpcode(last) == LLVMOpcode::LLVMInvoke;
            seen
        });
        let mut flow: Vec<Block> = flow.collect();
        spread_ends(&mut flow);
        // A call that is a block's last instruction comes back in the next.
        for at in 0..all.len() {
            if flow[at].is_invoke && flow[at].comes_back {
                let next = flow[at].next[0];
                (flow[at].comes_back, flow[next].comes_back) = (false, true);
            }
        }
        (Blocks { all, index }, flow)
    }
}

/// What leads to ends alone is on the way of a panic too.
fn spread_ends(flow: &mut [Block]) {
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for at in (0..flow.len()).rev().filter(|at| *at > 0) {
            let Block { next, is_end, .. } = &flow[at];
            if !is_end && !next.is_empty() && next.iter().all(|next| flow[*next].is_end) {
                (flow[at].is_end, changed) = (true, true);
            }
        }
    }
}

/// The blocks of a function.
///
/// # Safety
/// The function is one of a module that is still there.
pub(crate) unsafe fn blocks_of(function: LLVMValueRef) -> Vec<LLVMBasicBlockRef> {
    // SAFETY: as above.
    unsafe { listed(LLVMGetFirstBasicBlock(function), LLVMGetNextBasicBlock) }
}

/// All of a list of LLVM's, from its first on, which is null if the list is empty.
///
/// # Safety
/// `next` may be called with what is in the list, which isn't changed meanwhile.
pub(crate) unsafe fn listed<T>(first: *mut T, next: unsafe extern "C" fn(*mut T) -> *mut T) -> Vec<*mut T> {
    // SAFETY: as above.
    let after = |one: &*mut T| unsafe { next(*one) };
    let some = |one: *mut T| (!one.is_null()).then_some(one);
    std::iter::successors(some(first), |one| some(after(one))).collect()
}

/// The first instruction of a block that is none of these kinds. The last of a block never is.
///
/// # Safety
/// The block is one of a module that is still there, and ends with another kind.
pub(crate) unsafe fn first_but(kinds: &[LLVMOpcode], block: LLVMBasicBlockRef) -> LLVMValueRef {
    // SAFETY: as above.
    unsafe {
        let mut first = LLVMGetFirstInstruction(block);
        while kinds.contains(&LLVMGetInstructionOpcode(first)) {
            first = LLVMGetNextInstruction(first);
        }
        first
    }
}

/// The instructions of a block.
///
/// # Safety
/// The block is one of a module that is still there, and isn't changed meanwhile.
pub(crate) unsafe fn instructions(block: LLVMBasicBlockRef) -> Vec<LLVMValueRef> {
    // SAFETY: as above.
    unsafe { listed(LLVMGetFirstInstruction(block), LLVMGetNextInstruction) }
}

/// The phis of a block.
///
/// # Safety
/// As for [`instructions`].
pub(crate) unsafe fn phis(block: LLVMBasicBlockRef) -> Vec<LLVMValueRef> {
    // SAFETY: as above.
    unsafe {
        let all = instructions(block).into_iter();
        all.take_while(|one| LLVMGetInstructionOpcode(*one) == LLVMOpcode::LLVMPHI).collect()
    }
}

/// Whether it is a call or an invoke.
///
/// # Safety
/// It is an instruction.
pub(crate) unsafe fn is_call(instruction: LLVMValueRef) -> bool {
    // SAFETY: as above.
    matches!(unsafe { LLVMGetInstructionOpcode(instruction) }, LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke)
}

/// What an instruction costs, in simple ones, roughly.
///
/// # Safety
/// It is an instruction.
pub(crate) unsafe fn price_of(instruction: LLVMValueRef, prices: &HashMap<LLVMValueRef, Price>) -> Price {
    // SAFETY: as above.
    unsafe {
        let cost = match LLVMGetInstructionOpcode(instruction) {
            LLVMOpcode::LLVMPHI | LLVMOpcode::LLVMBitCast | LLVMOpcode::LLVMAlloca | LLVMOpcode::LLVMUnreachable => 0,
            LLVMOpcode::LLVMUDiv | LLVMOpcode::LLVMSDiv | LLVMOpcode::LLVMURem | LLVMOpcode::LLVMSRem => 10,
            LLVMOpcode::LLVMFDiv | LLVMOpcode::LLVMFRem => 8,
            LLVMOpcode::LLVMAtomicRMW | LLVMOpcode::LLVMAtomicCmpXchg => 15,
            LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke => {
                return match callee_of(instruction) {
                    Callee::Intrinsic(cost) => Price::alone(cost),
                    Callee::Sized(_) | Callee::Assembly => Price::alone(CALL),
                    Callee::Known(function) => prices.get(&function).copied().unwrap_or(Price::PROBING),
                    Callee::Other(_) => prices.get(&LLVMGetCalledValue(instruction)).copied().unwrap_or(Price::FOREIGN),
                    Callee::Pointer => Price { cost: CALL, ..Price::FOREIGN },
                };
            }
            _ => 1,
        };
        Price::alone(cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_call_back_is_told_by_the_name() {
        let reserve = "_RINvNvMs2_NtCslNYArtu3iFV_5alloc7raw_vecINtB8_11RawVecInnerpE7reserve21do_reserve_and_handleNtNtBa_5alloc6GlobalECsjrHSEGnQ3l9_3std";
        assert_eq!(Price::of_other(reserve, true), Price::alone(FOREIGN));
        let of_crate = "_ZN3foo3bar17h5084f67b7279c968E";
        assert_eq!(Price::of_other(of_crate, true), Price::BELOW);
        for (name, has_probes) in
            [(of_crate, false), ("_ZN3foo3barEv", true), ("_RNvNtCs1_4core3fmt5write", true), ("qsort", true)]
        {
            assert_eq!(Price::of_other(name, has_probes), Price::FOREIGN, "{name}");
        }
    }
}
