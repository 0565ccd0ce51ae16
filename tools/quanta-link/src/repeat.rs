//! Loops whose iterations are to stand several times in a row: LLVM does that, and is told by which factor.
//!
//! Each iteration still makes all of its tests, so the loop may end in any of them; but only the last leads back, so one
//! probe does for all.
//!
//! Where a loop counts in several variables LLVM would keep each of them as it is after each iteration, for whoever comes
//! out there, in registers that there aren't. Such a loop stays as it is.

use crate::counted::Blocks;
use crate::flow::phis;
use crate::loops::Loop;
use llvm_sys::LLVMOpcode;
use llvm_sys::core::*;
use llvm_sys::debuginfo::{LLVMMetadataReplaceAllUsesWith, LLVMTemporaryMDNode};
use llvm_sys::prelude::*;
use std::ptr;

/// Tells LLVM's pass `loop-unroll` how often. Whether it is any use.
///
/// # Safety
/// The loop is one of a function that is still there, with these blocks.
pub(crate) unsafe fn mark(context: LLVMContextRef, blocks: &Blocks, this: &Loop, count: u32) -> bool {
    const NAME: &str = "llvm.loop.unroll.count";
    // SAFETY: as above. A loop's metadata is a node whose first operand is itself; that is how it differs from others'.
    unsafe {
        let counts = phis(blocks.all[this.header]).into_iter().filter(|phi| counts(*phi));
        if counts.count() > 1 {
            return false;
        }
        let name = LLVMMDStringInContext2(context, NAME.as_ptr().cast(), NAME.len());
        let count = LLVMValueAsMetadata(LLVMConstInt(LLVMInt32TypeInContext(context), count.into(), 0));
        let hint = LLVMMDNodeInContext2(context, [name, count].as_mut_ptr(), 2);
        let itself = LLVMTemporaryMDNode(context, ptr::null_mut(), 0);
        let node = LLVMMDNodeInContext2(context, [itself, hint].as_mut_ptr(), 2);
        LLVMMetadataReplaceAllUsesWith(itself, node);
        let kind = LLVMGetMDKindIDInContext(context, c"llvm.loop".as_ptr(), 9);
        for &latch in &this.latches {
            let last = LLVMGetBasicBlockTerminator(blocks.all[latch]);
            LLVMSetMetadata(last, kind, LLVMMetadataAsValue(context, node));
        }
        true
    }
}

/// Whether a variable of a loop becomes by a constant more, or less, in an iteration.
///
/// # Safety
/// It is a phi.
unsafe fn counts(phi: LLVMValueRef) -> bool {
    // SAFETY: as above; an addition and an offset have two operands at least.
    unsafe {
        (0..LLVMCountIncoming(phi)).any(|at| {
            let value = LLVMGetIncomingValue(phi, at);
            if LLVMIsAInstruction(value).is_null() {
                return false;
            }
            let kind = LLVMGetInstructionOpcode(value);
            let adds = matches!(kind, LLVMOpcode::LLVMAdd | LLVMOpcode::LLVMGetElementPtr);
            adds && LLVMGetOperand(value, 0) == phi && !LLVMIsAConstantInt(LLVMGetOperand(value, 1)).is_null()
        })
    }
}
