//! Steps of threaded code: functions of an interpreter that end by calling the next by a pointer which lies in the code
//! that they interpret, a little behind where they are. They are short, and a probe in each would cost as much as half of
//! them.
//!
//! Where they are only grows from step to step. So a probe is made only where it lies in one of the *windows*, of which
//! there is one in so many bytes: as no step goes further than a window is wide, none is passed over, and what doesn't go
//! on straight is no step. What nobody checks is that functions which call one another step by the same parameter: those
//! that go by two, and set back each other's, could come to no window.

use crate::flow::{first_but, is_call};
use llvm_sys::core::*;
use llvm_sys::prelude::*;
use llvm_sys::{LLVMOpcode, LLVMTypeKind};

/// How wide a window is, in bytes, and of how many windows' widths one is a window: powers of two.
pub(crate) const WIDTH: u64 = 32;
pub(crate) const EVERY: u32 = 8;

/// A step that goes less far has no room for the pointer.
const LEAST: u64 = 8;

/// Which parameter says where the function is, if a block ends with a step.
///
/// # Safety
/// The block is one of the function's, which is still there.
pub(crate) unsafe fn parameter_of(function: LLVMValueRef, block: LLVMBasicBlockRef) -> Option<u32> {
    // SAFETY: only instructions of the function are looked at, by what LLVM says they are.
    unsafe {
        let last = LLVMGetBasicBlockTerminator(block);
        let next =
            (LLVMGetNumSuccessors(last) == 1).then(|| first_but(&[LLVMOpcode::LLVMPHI], LLVMGetSuccessor(last, 0)));
        let call = LLVMGetPreviousInstruction(last);
        let returns = LLVMGetInstructionOpcode(next.unwrap_or(last)) == LLVMOpcode::LLVMRet;
        if !returns || call.is_null() || !is_call(call) {
            return None;
        }
        let mut called = LLVMGetCalledValue(call);
        if !LLVMIsAInstruction(called).is_null() && LLVMGetInstructionOpcode(called) == LLVMOpcode::LLVMIntToPtr {
            called = LLVMGetOperand(called, 0);
        }
        if LLVMIsAInstruction(called).is_null() || LLVMGetInstructionOpcode(called) != LLVMOpcode::LLVMLoad {
            return None;
        }
        let read_at = LLVMGetOperand(called, 0);
        let count = LLVMCountParams(function).min(LLVMGetNumArgOperands(call));
        let goes_on = |at: &u32| {
            let (parameter, passed) = (LLVMGetParam(function, *at), LLVMGetOperand(call, *at));
            let far = |value| distance(value, parameter).filter(|far| (LEAST..=WIDTH).contains(far));
            far(passed).is_some() && far(read_at).is_some()
        };
        (0..count).find(goes_on)
    }
}

/// How many bytes a pointer lies behind another one, if it is made from it so: as a pointer, or as a number meanwhile.
unsafe fn distance(pointer: LLVMValueRef, from: LLVMValueRef) -> Option<u64> {
    // SAFETY: as for `parameter_of`.
    unsafe {
        let kind =
            |value: LLVMValueRef| (!LLVMIsAInstruction(value).is_null()).then(|| LLVMGetInstructionOpcode(value));
        let by = match kind(pointer)? {
            LLVMOpcode::LLVMGetElementPtr if LLVMGetNumOperands(pointer) == 2 && LLVMGetOperand(pointer, 0) == from => {
                let element = LLVMGetGEPSourceElementType(pointer);
                let is_byte =
                    LLVMGetTypeKind(element) == LLVMTypeKind::LLVMIntegerTypeKind && LLVMGetIntTypeWidth(element) == 8;
                is_byte.then(|| LLVMGetOperand(pointer, 1))?
            }
            LLVMOpcode::LLVMIntToPtr => {
                let sum = LLVMGetOperand(pointer, 0);
                let number = (kind(sum)? == LLVMOpcode::LLVMAdd).then(|| LLVMGetOperand(sum, 0))?;
                let is_its = kind(number)? == LLVMOpcode::LLVMPtrToInt && LLVMGetOperand(number, 0) == from;
                is_its.then(|| LLVMGetOperand(sum, 1))?
            }
            _ => return None,
        };
        (!LLVMIsAConstantInt(by).is_null()).then(|| LLVMConstIntGetZExtValue(by))
    }
}
