//! What probes are made of: functions that LLVM inlines, so that their control flow isn't edited by hand.

use super::{Probes, Set, attribute};
use crate::steps;
use llvm_sys::LLVMInlineAsmDialect;
use llvm_sys::LLVMIntPredicate::*;
use llvm_sys::core::*;
use llvm_sys::prelude::*;
use std::ffi::CStr;
use std::ptr;

impl Probes {
    /// `gate(counter, cost)`, which LLVM inlines, so that this control flow isn't edited by hand.
    pub(super) unsafe fn define_gate(&self, probe: &str, function: LLVMValueRef, is_local: bool) {
        // SAFETY: see the module's documentation.
        unsafe {
            let context = self.context;
            LLVMSetLinkage(function, llvm_sys::LLVMLinkage::LLVMInternalLinkage);
            attribute(context, function, "alwaysinline");
            attribute(context, function, "nounwind");
            let block = |name: &CStr| LLVMAppendBasicBlockInContext(context, function, name.as_ptr());
            let (entry, used_up, over) = (block(c"entry"), block(c"used_up"), block(c"over"));
            let builder = LLVMCreateBuilderInContext(context);
            LLVMPositionBuilderAtEnd(builder, entry);
            let (counter, cost) = (LLVMGetParam(function, 0), LLVMGetParam(function, 1));
            let left = self.take(builder, counter, cost, [used_up, over]);
            LLVMPositionBuilderAtEnd(builder, used_up);
            if is_local {
                LLVMBuildStore(builder, left, self.credit);
            }
            self.call(builder, probe);
            if is_local {
                let granted = LLVMBuildLoad2(builder, self.number, self.credit, c"".as_ptr());
                LLVMBuildStore(builder, granted, counter);
            }
            LLVMBuildBr(builder, over);
            LLVMPositionBuilderAtEnd(builder, over);
            LLVMBuildRetVoid(builder);
            LLVMDisposeBuilder(builder);
        }
    }

    /// `step(place, cost)`: a gate in the windows.
    pub(super) unsafe fn define_step(&self, set: &Set) {
        // SAFETY: see the module's documentation.
        unsafe {
            let (context, function) = (self.context, set.step);
            LLVMSetLinkage(function, llvm_sys::LLVMLinkage::LLVMInternalLinkage);
            attribute(context, function, "alwaysinline");
            attribute(context, function, "nounwind");
            let block = |name: &CStr| LLVMAppendBasicBlockInContext(context, function, name.as_ptr());
            let (entry, inside, over) = (block(c"entry"), block(c"inside"), block(c"over"));
            let builder = LLVMCreateBuilderInContext(context);
            LLVMPositionBuilderAtEnd(builder, entry);
            let place = LLVMBuildPtrToInt(builder, LLVMGetParam(function, 0), self.number, c"".as_ptr());
            let mask = self.constant((u64::from(steps::EVERY) - 1) * steps::WIDTH);
            let part = LLVMBuildAnd(builder, place, mask, c"".as_ptr());
            let is_inside = LLVMBuildICmp(builder, LLVMIntEQ, part, self.constant(0), c"".as_ptr());
            self.seldom(LLVMBuildCondBr(builder, is_inside, inside, over));
            LLVMPositionBuilderAtEnd(builder, inside);
            let mut arguments = [self.credit, LLVMGetParam(function, 1)];
            LLVMBuildCall2(builder, self.gate_kind, set.gate, arguments.as_mut_ptr(), 2, c"".as_ptr());
            LLVMBuildBr(builder, over);
            LLVMPositionBuilderAtEnd(builder, over);
            LLVMBuildRetVoid(builder);
            LLVMDisposeBuilder(builder);
        }
    }

    /// Calls a function that keeps all registers but one. To LLVM it is an instruction: with a call in it, a function that
    /// has none of its own would need a frame, and one that has some would need it earlier.
    pub(super) unsafe fn call(&self, builder: LLVMBuilderRef, name: &str) {
        const CHANGES: &str = "~{r11},~{memory},~{dirflag},~{fpsr},~{flags}";
        let text = format!("call {name}");
        // SAFETY: see the module's documentation. What the call needs of the stack is free, as functions with probes keep
        // nothing beyond its end; and who is called aligns it.
        unsafe {
            let (dialect, text, changes) =
                (LLVMInlineAsmDialect::LLVMInlineAsmDialectATT, (text.as_ptr().cast(), text.len()), CHANGES);
            let assembly = LLVMGetInlineAsm(
                self.probe_kind,
                text.0,
                text.1,
                changes.as_ptr().cast(),
                changes.len(),
                1,
                0,
                dialect,
                0,
            );
            LLVMBuildCall2(builder, self.probe_kind, assembly, ptr::null_mut(), 0, c"".as_ptr());
        }
    }

    /// Takes a cost off a counter and ends the block: leads to the first of these where nothing is left, to the second
    /// elsewhere. What is left.
    pub(super) unsafe fn take(
        &self,
        builder: LLVMBuilderRef,
        counter: LLVMValueRef,
        cost: LLVMValueRef,
        [used_up, over]: [LLVMBasicBlockRef; 2],
    ) -> LLVMValueRef {
        // SAFETY: see the module's documentation.
        unsafe {
            let before = LLVMBuildLoad2(builder, self.number, counter, c"".as_ptr());
            let left = LLVMBuildSub(builder, before, cost, c"".as_ptr());
            LLVMBuildStore(builder, left, counter);
            let none = LLVMBuildICmp(builder, LLVMIntSLT, left, self.constant(0), c"".as_ptr());
            self.seldom(LLVMBuildCondBr(builder, none, used_up, over));
            left
        }
    }

    /// Marks the first successor of a branch as one that is hardly ever taken.
    pub(super) unsafe fn seldom(&self, branch: LLVMValueRef) {
        // SAFETY: see the module's documentation.
        unsafe { self.weigh(branch, [1, 2000]) }
    }

    /// Marks the first successor of a branch as one that is taken as a rule.
    pub(super) unsafe fn often(&self, branch: LLVMValueRef) {
        // SAFETY: see the module's documentation.
        unsafe { self.weigh(branch, [32, 1]) }
    }

    unsafe fn weigh(&self, branch: LLVMValueRef, weights: [u64; 2]) {
        // SAFETY: see the module's documentation.
        unsafe {
            let weight = LLVMInt32TypeInContext(self.context);
            let weights = weights.map(|one| LLVMValueAsMetadata(LLVMConstInt(weight, one, 0)));
            let text = LLVMMDStringInContext2(self.context, c"branch_weights".as_ptr(), 14);
            let node = LLVMMDNodeInContext2(self.context, [text, weights[0], weights[1]].as_mut_ptr(), 3);
            let profile = LLVMGetMDKindIDInContext(self.context, c"prof".as_ptr(), 4);
            LLVMSetMetadata(branch, profile, LLVMMetadataAsValue(self.context, node));
        }
    }
}
