//! Thread-locals: each job has its own.
//!
//! Jobs of one thread take turns anywhere, so what a thread has for itself a job must have for itself: the cell that is
//! borrowed, the node by which it waits in a queue, the epoch that it has pinned, the runtime that it has entered. So
//! where code takes the address of a thread-local, the job's *offset* is added, which the runtime keeps in the
//! thread's state: how far the job's copy of all the program's thread-locals lies from the thread's. On the thread's own
//! stack that is nothing.
//!
//! It is done behind LLVM's passes, for all of a module at once, so what they know of a thread-local holds of the job's as
//! well: it has one address for as long as a function runs, as no job ever leaves its thread, and nobody else changes it.
//!
//! What stays the thread's:
//! 1. what the scheduler and the event loop go by, which is in Greenwave's own crates, and what the user names;
//! 2. what the standard library's machine code goes by, which isn't changed: `CURRENT`, whose word the runtime exchanges when
//!    it switches, and `ID`;
//! 3. what C code may have in common with machine code that isn't changed: what has an external name.

use crate::flow::{is_call, listed};
use crate::insert::{LOCALS, nowhere, state};
use crate::module::{Options, is_within, name_of, path_of};
use anyhow::{Result, bail};
use llvm_sys::core::*;
use llvm_sys::prelude::*;
use llvm_sys::{LLVMLinkage, LLVMThreadLocalMode};
use std::ptr;

/// What the scheduler and the event loop go by.
const RUNTIME: [&str; 2] = ["greenwave_quanta", "greenwave_rpc"];

/// The standard library's that its generic code uses, which is compiled with the program, and no other code in a job. So
/// they follow it.
pub(crate) const FOLLOW: [&str; 4] = [
    "std::sync::mpmc::waker::current_thread_id::DUMMY",
    "std::sync::mpmc::context::Context>::with::CONTEXT",
    "std::hash::random::RandomState>::new::KEYS",
    "std::thread::spawnhook::SPAWN_HOOKS",
];

/// The standard library's that its machine code uses as well.
pub(crate) const STAY: [&str; 2] = ["std::thread::current::CURRENT", "std::thread::current::id::ID"];

/// Whose a thread-local is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Job,
    Thread,
    /// The standard library has it, and it is none that is known.
    Unknown,
}

/// Whose a thread-local of this mangled name is. `is_external`: whether other modules can see it.
fn whose(name: &str, is_external: bool, options: &Options) -> Whose {
    let path = path_of(name);
    let is_one_of = |paths: &[&str]| paths.iter().any(|one| is_within(&path, one));
    if options.of_std.iter().any(|one| one == name) {
        return match () {
            () if is_one_of(&FOLLOW) => Whose::Job,
            () if is_one_of(&STAY) => Whose::Thread,
            () => Whose::Unknown,
        };
    }
    let is_named = options.thread_locals.iter().any(|one| is_within(&path, one));
    if is_one_of(&RUNTIME) || is_named || is_external && !is_rust(name) { Whose::Thread } else { Whose::Job }
}

/// Whether a mangled name is one of Rust's.
fn is_rust(name: &str) -> bool {
    name.starts_with("_R") || name.starts_with("_ZN") && name.contains("17h")
}

/// Has a module that has been optimised use the job's thread-locals.
///
/// # Errors
/// Where it isn't known whose one is, or its address is taken in a way that isn't known.
///
/// # Safety
/// The module is there, and the context's.
pub(crate) unsafe fn redirect(context: LLVMContextRef, module: LLVMModuleRef, options: &Options) -> Result<()> {
    // SAFETY: an address is taken by a call of LLVM's intrinsic, which is no last instruction of a block.
    unsafe {
        let number = LLVMInt64TypeInContext(context);
        let pointer = LLVMPointerTypeInContext(context, 0);
        let invariant = LLVMGetMDKindIDInContext(context, c"invariant.load".as_ptr(), 14);
        let nothing = LLVMMetadataAsValue(context, LLVMMDNodeInContext2(context, ptr::null_mut(), 0));
        let builder = LLVMCreateBuilderInContext(context);
        for global in of_jobs(module, options)? {
            let taken = match accesses(global) {
                Ok(taken) => taken,
                // An older clang uses it without asking for its address. It stays the thread's, as all of native C does.
                Err(_) if !is_rust(&name_of(global)) => continue,
                Err(error) => return Err(error),
            };
            for taken in taken {
                LLVMPositionBuilderBefore(builder, LLVMGetNextInstruction(taken));
                nowhere(context, builder, LLVMGetBasicBlockParent(LLVMGetInstructionParent(taken)));
                let offset = LLVMBuildLoad2(builder, number, state(context, module, LOCALS), c"".as_ptr());
                LLVMSetMetadata(offset, invariant, nothing);
                // By way of a number: LLVM must not take what comes out for a part of the thread's own.
                let address = LLVMBuildPtrToInt(builder, taken, number, c"".as_ptr());
                let sum = LLVMBuildAdd(builder, address, offset, c"".as_ptr());
                let own = LLVMBuildIntToPtr(builder, sum, pointer, c"".as_ptr());
                LLVMReplaceAllUsesWith(taken, own);
                LLVMSetOperand(address, 0, taken);
            }
            // It is in the program itself, at a distance from the thread's pointer that the linker knows.
            LLVMSetThreadLocalMode(global, LLVMThreadLocalMode::LLVMLocalExecTLSModel);
        }
        LLVMDisposeBuilder(builder);
    }
    Ok(())
}

/// The thread-locals of a module that are the job's.
unsafe fn of_jobs(module: LLVMModuleRef, options: &Options) -> Result<Vec<LLVMValueRef>> {
    let mut jobs = Vec::new();
    // SAFETY: as for `redirect`.
    unsafe {
        for global in listed(LLVMGetFirstGlobal(module), LLVMGetNextGlobal) {
            if LLVMIsThreadLocal(global) == 0 {
                continue;
            }
            let linkage = LLVMGetLinkage(global);
            let is_external = !matches!(linkage, LLVMLinkage::LLVMInternalLinkage | LLVMLinkage::LLVMPrivateLinkage);
            let name = name_of(global);
            match whose(&name, is_external, options) {
                Whose::Job => jobs.push(global),
                Whose::Thread => {}
                Whose::Unknown => bail!(
                    "the standard library's thread-local {} is none that cargo quanta knows, so it can't tell whether \
                     preempted code may share it: use Rust 1.95, or a cargo quanta that was made for this release",
                    path_of(&name)
                ),
            }
        }
    }
    Ok(jobs)
}

/// Where the address of a thread-local is taken.
unsafe fn accesses(global: LLVMValueRef) -> Result<Vec<LLVMValueRef>> {
    let mut accesses = Vec::new();
    // SAFETY: as for `redirect`.
    unsafe {
        for user in listed(LLVMGetFirstUse(global), LLVMGetNextUse).into_iter().map(|one| LLVMGetUser(one)) {
            let is_instruction = !LLVMIsAInstruction(user).is_null();
            let is_taken = is_instruction && is_call(user) && {
                let called = LLVMGetCalledValue(user);
                name_of(called).starts_with("llvm.threadlocal.address")
            };
            if is_taken {
                accesses.push(user);
            } else if is_instruction || !LLVMIsAConstantExpr(user).is_null() {
                let path = path_of(&name_of(global));
                bail!("the address of the thread-local {path} is taken in a way that cargo quanta doesn't know");
            }
        }
    }
    Ok(accesses)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        let path = |text: &str| text.to_owned();
        Options {
            level: "O2".into(),
            cpu: "x86-64".into(),
            bound: 1000,
            thread_locals: vec![path("foo::HERE")],
            of_std: [
                "_RNvNCNKNvNvNtNtNtCsjrHSEGnQ3l9_3std4sync4mpmc5waker17current_thread_id5DUMMY0s_023___RUST_STD_INTERNAL_VAL",
                "_RNvNCNKNvNvMNtNtNtCsjrHSEGnQ3l9_3std4sync4mpmc7contextNtBa_7Context4with7CONTEXT0023___RUST_STD_INTERNAL_VAL",
                "_RNvNCNKNvNvMNtNtCsjrHSEGnQ3l9_3std4hash6randomNtBa_11RandomState3new4KEYS0s_023___RUST_STD_INTERNAL_VAL",
                "_RNvNCNKNvNtNtCsjrHSEGnQ3l9_3std6thread9spawnhook11SPAWN_HOOKS0023___RUST_STD_INTERNAL_VAL",
                "_RNvNtNtCsjrHSEGnQ3l9_3std6thread7current7CURRENT",
                "_RNvNtNtNtCsjrHSEGnQ3l9_3std6thread7current2id2ID",
                "_RNvNtNtCsjrHSEGnQ3l9_3std6thread3new3NEW",
            ]
            .map(path)
            .to_vec(),
            exclude: vec![],
            only: vec![],
            is_program: true,
        }
    }

    #[test]
    fn every_crates_thread_locals_are_the_jobs_but_those_that_are_named() {
        for (name, expected) in [
            ("_ZN3foo5HERE23VAL17h0123456789abcdefE", Whose::Job),
            ("_ZN3foo4HERE3VAL17h0123456789abcdefE", Whose::Thread),
            ("_ZN16greenwave_quanta9coroutine7RUNNING3VAL17h0123456789abcdefE", Whose::Thread),
            ("_ZN20greenwave_quanta_own7RUNNING3VAL17h0123456789abcdefE", Whose::Job),
            // A crate's own in what it implements for a type of the standard library.
            ("_ZN55_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$foo..Deep$GT$1f1X17h0123456789abcdefE", Whose::Job),
        ] {
            assert_eq!(whose(name, true, &options()), expected, "{:#}", rustc_demangle::demangle(name));
        }
    }

    #[test]
    fn of_the_standard_librarys_those_that_are_known_follow() {
        let options = options();
        let all: Vec<_> = options.of_std.iter().map(|name| whose(name, true, &options)).collect();
        let follow = [Whose::Job; 4];
        assert_eq!(all, [&follow[..], &[Whose::Thread, Whose::Thread, Whose::Unknown]].concat());
    }

    #[test]
    fn of_cs_those_are_the_jobs_that_no_other_file_sees() {
        assert_eq!(whose("buffer", false, &options()), Whose::Job);
        assert_eq!(whose("buffer", true, &options()), Whose::Thread);
    }
}
