//! Critical sections that code enters without saying so: Rust allocators.
//!
//! The worker's own code allocates, and would wait for ever for an allocator's lock that one of its preempted jobs holds. So
//! nobody is preempted in an allocator. Before LLVM's passes, when functions are still whole, their entries and exits are
//! *marked* by calls, which the passes don't move code across. Afterwards each mark becomes an instruction that counts the
//! sections a thread is in, or nothing, where no probe lies between the two.

use crate::counted::Blocks;
use crate::flow::{blocks_of, first_but, instructions};
use crate::insert::Probes;
use crate::loops::Shape;
use crate::module::name_of;
use crate::place::Block;
use llvm_sys::LLVMOpcode;
use llvm_sys::core::*;
use llvm_sys::prelude::*;
use std::ffi::CStr;
use std::ptr;

const ENTER: &CStr = c"__quanta_enter";
const LEAVE: &CStr = c"__quanta_leave";

/// Where the count of sections lies, from the credit on; the runtime's state has the same layout.
const OFFSET: u64 = 40;

/// Whether a function's body is a critical section, by its mangled name: rustc's own functions, by which all code allocates.
fn is_section(name: &str) -> bool {
    let allocates = ["__rust_alloc", "__rust_dealloc", "__rust_realloc", "__rg_"];
    (name.contains("___rustc") || name.starts_with("__r")) && allocates.iter().any(|part| name.contains(part))
}

/// Marks the sections of a module that hasn't been optimised.
///
/// # Safety
/// The module is there, and the functions are its.
pub(crate) unsafe fn mark(context: LLVMContextRef, module: LLVMModuleRef, functions: &[LLVMValueRef]) {
    // SAFETY: only instructions are added, calls without arguments where instructions may stand.
    unsafe {
        let sections: Vec<_> = functions.iter().copied().filter(|function| is_section(&name_of(*function))).collect();
        if sections.is_empty() {
            return;
        }
        let kind = LLVMFunctionType(LLVMVoidTypeInContext(context), ptr::null_mut(), 0, 0);
        let [enter, leave] = [ENTER, LEAVE].map(|name| {
            let function = LLVMAddFunction(module, name.as_ptr(), kind);
            crate::insert::attribute(context, function, "nounwind");
            function
        });
        let builder = LLVMCreateBuilderInContext(context);
        let call = |function| LLVMBuildCall2(builder, kind, function, ptr::null_mut(), 0, c"".as_ptr());
        for function in sections {
            let first = first_but(&[LLVMOpcode::LLVMAlloca], LLVMGetEntryBasicBlock(function));
            LLVMPositionBuilderBefore(builder, first);
            crate::insert::nowhere(context, builder, function);
            call(enter);
            for block in blocks_of(function) {
                let last = LLVMGetBasicBlockTerminator(block);
                if matches!(LLVMGetInstructionOpcode(last), LLVMOpcode::LLVMRet | LLVMOpcode::LLVMResume) {
                    LLVMPositionBuilderBefore(builder, last);
                    crate::insert::nowhere(context, builder, function);
                    call(leave);
                }
            }
        }
        LLVMDisposeBuilder(builder);
    }
}

/// The marks of a function.
pub(crate) struct Marks {
    /// Each with whether a section is entered there.
    all: Vec<(LLVMValueRef, bool)>,
    /// Whether nothing between them probes, so that they can go.
    are_needless: bool,
}

impl Marks {
    /// Finds them. Blocks at whose end a section is open are told to have no gates, if the marks go.
    ///
    /// # Safety
    /// The blocks are those of a function that is still there, and the rest was made from it.
    pub(crate) unsafe fn find(blocks: &Blocks, shape: &Shape, flow: &mut [Block]) -> Self {
        let mut all = Vec::new();
        let mut depth: Vec<Option<i32>> = vec![None; flow.len()];
        let (mut held, mut are_needless) = (Vec::new(), true);
        for &block in &shape.sorted {
            let mut open = *depth[block].get_or_insert(0);
            let mut was_open = open > 0;
            // SAFETY: as above.
            unsafe {
                for instruction in instructions(blocks.all[block]) {
                    if LLVMGetInstructionOpcode(instruction) == LLVMOpcode::LLVMCall {
                        let called = LLVMGetCalledValue(instruction);
                        let name = if LLVMIsAFunction(called).is_null() { String::new() } else { name_of(called) };
                        for (mark, enters) in [(ENTER, true), (LEAVE, false)] {
                            if name.as_bytes() == mark.to_bytes() {
                                open += if enters { 1 } else { -1 };
                                all.push((instruction, enters));
                            }
                        }
                    }
                    was_open |= open > 0;
                }
            }
            let Block { next, calls, is_end, .. } = &flow[block];
            let in_cycle = open > 0 && next.iter().any(|next| shape.closing.contains(&(block, *next)));
            are_needless &= !(in_cycle || was_open && *calls && !is_end);
            if open > 0 {
                held.push(block);
            }
            next.iter().for_each(|next| depth[*next] = depth[*next].or(Some(open)));
        }
        are_needless &= !all.is_empty();
        if are_needless {
            held.into_iter().for_each(|block| flow[block].is_held = true);
        }
        Self { all, are_needless }
    }

    /// Replaces them.
    ///
    /// # Safety
    /// As for [`find`](Self::find); `probes` are the module's, or none in code that is never preempted.
    pub(crate) unsafe fn settle(&self, context: LLVMContextRef, probes: Option<&Probes>) {
        // SAFETY: as above; nobody uses a call that returns nothing.
        unsafe {
            let builder = LLVMCreateBuilderInContext(context);
            let number = LLVMInt64TypeInContext(context);
            for &(mark, enters) in &self.all {
                if let Some(probes) = probes.filter(|_| !self.are_needless) {
                    LLVMPositionBuilderBefore(builder, mark);
                    let count = probes.state(OFFSET);
                    let before = LLVMBuildLoad2(builder, number, count, c"".as_ptr());
                    let by = LLVMConstInt(number, if enters { 1 } else { u64::MAX }, 0);
                    LLVMBuildStore(builder, LLVMBuildAdd(builder, before, by, c"".as_ptr()), count);
                }
                LLVMInstructionEraseFromParent(mark);
            }
            LLVMDisposeBuilder(builder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_known_by_their_names() {
        for name in ["_RNvCs6DnNTxeLS9Y_7___rustc12___rust_alloc", "_RNvCs6DnNTxeLS9Y_7___rustc19___rust_alloc_zeroed"]
        {
            assert!(is_section(name), "{name}");
        }
        for name in ["_ZN3std6thread5local17LocalKey$LT$T$GT$8try_with17hc90e6f67b9090110E", "main", "__rust_free"] {
            assert!(!is_section(name), "{name}");
        }
    }
}
