//! Thread-locals that follow their coroutine.
//!
//! Some crates keep in a thread-local what a *thread of control* must have for itself while it is in the middle of
//! something: the node by which it waits in a queue, the epoch that it has pinned, the stack of spans that it is in.
//! Coroutines of one thread would share it, critical sections or not. So accesses to those are made to ask the runtime,
//! which gives each coroutine storage of its own and outside of coroutines returns the thread's.

use crate::flow::{blocks_of, instructions, is_call};
use crate::module::{is_within, name_of, path_of};
use llvm_sys::core::*;
use llvm_sys::prelude::*;
use llvm_sys::target::{LLVMABISizeOfType, LLVMGetModuleDataLayout};
use std::ffi::CStr;

/// Those that are known, by the paths of their declarations.
const KNOWN: [&str; 8] = [
    "std::sync::mpmc::waker::current_thread_id::DUMMY",
    "parking_lot_core::parking_lot::with_thread_data::THREAD_DATA",
    "crossbeam_epoch::default::HANDLE",
    "thread_local::thread_id::THREAD",
    "thread_local::thread_id::THREAD_GUARD",
    "sharded_slab::tid::REGISTRATION",
    "rand::rngs::thread::THREAD_RNG_KEY",
    "tracing_core::dispatcher::CURRENT_STATE",
];

/// `__quanta_local(address, size, alignment, initial)`.
const LOCAL: &CStr = c"__quanta_local";

/// Whether a thread-local of this mangled name is one of those, or of `more`.
fn follows(name: &str, more: &[String]) -> bool {
    let path = path_of(name);
    KNOWN.into_iter().any(|known| is_within(&path, known)) || more.iter().any(|more| is_within(&path, more))
}

/// Redirects their accesses, in a module that hasn't been optimised.
///
/// # Safety
/// The module is there, and the functions are its.
pub(crate) unsafe fn redirect(
    context: LLVMContextRef,
    module: LLVMModuleRef,
    functions: &[LLVMValueRef],
    more: &[String],
) {
    // SAFETY: an access is a call of LLVM's intrinsic that returns the address, and has the thread-local as its operand.
    unsafe {
        let mut found = Vec::new();
        let mut global = LLVMGetFirstGlobal(module);
        while !global.is_null() {
            if LLVMIsThreadLocal(global) != 0 && follows(&name_of(global), more) {
                found.push(global);
            }
            global = LLVMGetNextGlobal(global);
        }
        if found.is_empty() {
            return;
        }
        let (pointer, number) = (LLVMPointerTypeInContext(context, 0), LLVMInt64TypeInContext(context));
        let kind = LLVMFunctionType(pointer, [pointer, number, number, pointer].as_mut_ptr(), 4, 0);
        let mut local = LLVMGetNamedFunction(module, LOCAL.as_ptr());
        if local.is_null() {
            local = LLVMAddFunction(module, LOCAL.as_ptr(), kind);
            crate::insert::attribute(context, local, "nounwind");
        }
        let builder = LLVMCreateBuilderInContext(context);
        for &function in functions {
            let calls = blocks_of(function).into_iter().flat_map(|block| instructions(block));
            for access in calls.filter(|one| is_call(*one)) {
                let thread_local = LLVMGetOperand(access, 0);
                if !name_of(LLVMGetCalledValue(access)).starts_with("llvm.threadlocal.address")
                    || !found.contains(&thread_local)
                {
                    continue;
                }
                let size = LLVMABISizeOfType(LLVMGetModuleDataLayout(module), LLVMGlobalGetValueType(thread_local));
                LLVMPositionBuilderBefore(builder, LLVMGetNextInstruction(access));
                crate::insert::nowhere(context, builder, function);
                let constant = |value| LLVMConstInt(number, value, 0);
                let mut arguments = [
                    access,
                    constant(size),
                    constant(u64::from(LLVMGetAlignment(thread_local)).max(16)),
                    initial(context, module, thread_local),
                ];
                let own = LLVMBuildCall2(builder, kind, local, arguments.as_mut_ptr(), 4, c"".as_ptr());
                LLVMReplaceAllUsesWith(access, own);
                LLVMSetOperand(own, 0, access);
            }
        }
        LLVMDisposeBuilder(builder);
    }
}

/// A constant with what a thread-local is at first; null where another module has it, and the runtime looks it up.
unsafe fn initial(context: LLVMContextRef, module: LLVMModuleRef, thread_local: LLVMValueRef) -> LLVMValueRef {
    // SAFETY: as for `redirect`.
    unsafe {
        if LLVMIsDeclaration(thread_local) != 0 {
            return LLVMConstPointerNull(LLVMPointerTypeInContext(context, 0));
        }
        let name = std::ffi::CString::new(format!("{}.initial", name_of(thread_local))).expect("names have no zeros");
        let known = LLVMGetNamedGlobal(module, name.as_ptr());
        if !known.is_null() {
            return known;
        }
        let made = LLVMAddGlobal(module, LLVMGlobalGetValueType(thread_local), name.as_ptr());
        LLVMSetInitializer(made, LLVMGetInitializer(thread_local));
        LLVMSetGlobalConstant(made, 1);
        LLVMSetLinkage(made, llvm_sys::LLVMLinkage::LLVMPrivateLinkage);
        LLVMSetAlignment(made, LLVMGetAlignment(thread_local));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_locals_are_known_by_their_paths() {
        let name = "_ZN16parking_lot_core11parking_lot16with_thread_data11THREAD_DATA29_$u7b$$u7b$constant$u7d$$u7d$28_\
                    $u7b$$u7b$closure$u7d$$u7d$3VAL17h0123456789abcdefE";
        assert!(follows(name, &[]), "{:#}", rustc_demangle::demangle(name));
        assert!(!follows("_ZN3foo4HERE3VAL17h0123456789abcdefE", &[]));
        assert!(follows("_ZN3foo4HERE3VAL17h0123456789abcdefE", &["foo::HERE".into()]));
        assert!(!follows("_ZN3foo5HERE23VAL17h0123456789abcdefE", &["foo::HERE".into()]));
    }
}
