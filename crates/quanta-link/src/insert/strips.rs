//! Loops that pay in advance.
//!
//! The control flow around such a loop is edited by hand: blocks in front of it that pay, and two behind its test, of
//! which one makes the test itself where the limit is met, and the other moves the limit and goes on.

use super::{Charges, Function, PRESERVE_ALL};
use crate::counted::{Step, Test};
use crate::flow::instructions;
use crate::place::Strip;
use llvm_sys::LLVMIntPredicate::*;
use llvm_sys::core::*;
use llvm_sys::prelude::*;
use llvm_sys::{LLVMOpcode, LLVMTypeKind};
use std::ffi::CStr;

/// How many iterations a loop pays for that may end early.
const FEW: u64 = 4;

/// A loop that costs at most this in all is paid for as by a gate.
const AS_BY_A_GATE: u64 = 512;

impl Function<'_> {
    /// Makes a loop pay in advance, for as many iterations as it can, and stop where it has done those.
    ///
    /// The test's end is replaced by a limit, which is the end if the credit covers all iterations. Where the limit is
    /// met, the test itself is made; if the loop isn't over the limit is moved.
    pub(super) unsafe fn strip(&mut self, strip: &Strip, test: &Test) {
        let (charges, builder) = (self.charges, self.builder);
        let cost = u64::from(strip.cost);
        // SAFETY: see the module's documentation.
        unsafe {
            let limit = self.alloca(LLVMTypeOf(test.compared));
            let (preheader, tested) = (self.blocks.all[strip.preheader], self.blocks.all[test.block]);
            let header = LLVMGetInstructionParent(test.header);
            let at = (0..LLVMCountIncoming(test.header)).find(|at| LLVMGetIncomingBlock(test.header, *at) == preheader);
            let start = LLVMGetIncomingValue(test.header, at.expect("the header's variable comes from the preheader"));
            self.before_end(preheader);
            let count = self.iterations(test, start);
            match strip.at_once {
                Some((first, _)) => {
                    let most = (u64::from(first) / cost).max(1);
                    let all = LLVMBuildICmp(builder, LLVMIntULE, count, charges.constant(most), c"".as_ptr());
                    let some = self.ahead(test, start, charges.constant(most));
                    let to = LLVMBuildSelect(builder, all, test.end, some, c"".as_ptr());
                    LLVMBuildStore(builder, to, limit);
                    let price = u64::from(strip.before) + most.min(FEW) * cost;
                    self.gate(charges.credit, charges.constant(price));
                }
                None => self.pay_for_all(strip, test, start, count, limit, preheader, header),
            }
            let test = &self.now(test);
            // The test.
            let block = |name: &CStr| LLVMAppendBasicBlockInContext(charges.context, self.function, name.as_ptr());
            let (met, more) = (block(c"quanta.met"), block(c"quanta.more"));
            let branch = LLVMGetBasicBlockTerminator(tested);
            let (out, stay) = if test.leaves_first { (0, 1) } else { (1, 0) };
            let (exit, stays) = (LLVMGetSuccessor(branch, out), LLVMGetSuccessor(branch, stay));
            self.before_end(tested);
            let to = LLVMBuildLoad2(builder, LLVMTypeOf(test.compared), limit, c"".as_ptr());
            let goes_on = LLVMBuildICmp(builder, test.goes_on, test.compared, to, c"".as_ptr());
            LLVMBuildCondBr(builder, goes_on, stays, met);
            LLVMInstructionEraseFromParent(branch);
            LLVMPositionBuilderAtEnd(builder, met);
            self.nowhere();
            // Where the limit has to be hit it says where the variable is. The variable itself must not be needed behind
            // the loop: LLVM would keep one more in it, of what is left.
            let is_hit = test.goes_on == LLVMIntNE;
            let limit_now = LLVMBuildLoad2(builder, LLVMTypeOf(test.compared), limit, c"".as_ptr());
            let here = if is_hit { limit_now } else { test.compared };
            let goes_on = LLVMBuildICmp(builder, test.goes_on, here, test.end, c"".as_ptr());
            LLVMBuildCondBr(builder, goes_on, more, exit);
            LLVMPositionBuilderAtEnd(builder, more);
            self.nowhere();
            let count = self.at_least_one(self.iterations(test, here));
            let count = match strip.at_once {
                Some((_, later)) => self.least(count, charges.constant((u64::from(later) / cost).max(1))),
                None => count,
            };
            let paid = self.pay(count, cost);
            let to = self.ahead(test, here, paid);
            LLVMBuildStore(builder, to, limit);
            LLVMBuildBr(builder, stays);
            self.comes_instead(exit, tested, met);
            self.comes_too(stays, tested, more);
        }
    }

    /// The preheader's end: all iterations at once, or as many as the credit covers. A few are paid for as by a gate,
    /// without asking whether the credit covers them.
    #[expect(clippy::too_many_arguments, reason = "they are what the caller has just made")]
    unsafe fn pay_for_all(
        &mut self,
        strip: &Strip,
        test: &Test,
        start: LLVMValueRef,
        count: LLVMValueRef,
        limit: LLVMValueRef,
        preheader: LLVMBasicBlockRef,
        header: LLVMBasicBlockRef,
    ) {
        let (charges, builder) = (self.charges, self.builder);
        let (cost, before) = (u64::from(strip.cost), charges.constant(u64::from(strip.before)));
        // SAFETY: see the module's documentation.
        unsafe {
            let block = |name: &CStr| LLVMAppendBasicBlockInContext(charges.context, self.function, name.as_ptr());
            let (few, many) = (block(c"quanta.few"), block(c"quanta.many"));
            let (all, some, join) = (block(c"quanta.all"), block(c"quanta.some"), block(c"quanta.join"));
            let most = charges.constant((AS_BY_A_GATE / cost).max(1));
            let are_many = LLVMBuildICmp(builder, LLVMIntUGT, count, most, c"".as_ptr());
            let old = LLVMGetBasicBlockTerminator(preheader);
            LLVMBuildCondBr(builder, are_many, many, few);
            LLVMInstructionEraseFromParent(old);
            let price_of = |count| LLVMBuildMul(builder, count, charges.constant(cost), c"".as_ptr());
            LLVMPositionBuilderAtEnd(builder, few);
            self.nowhere();
            self.gate(charges.credit, LLVMBuildAdd(builder, price_of(count), before, c"".as_ptr()));
            LLVMBuildStore(builder, test.end, limit);
            LLVMBuildBr(builder, join);
            LLVMPositionBuilderAtEnd(builder, many);
            self.nowhere();
            if strip.before > 0 {
                self.gate(charges.credit, before);
            }
            // The credit is zero or more, so this is a number of iterations, rounded down.
            let now = LLVMBuildLoad2(builder, charges.number, charges.credit, c"".as_ptr());
            let shift = charges.constant(u64::from(cost.next_power_of_two().trailing_zeros()));
            let covered = LLVMBuildLShr(builder, now, shift, c"".as_ptr());
            let too_many = LLVMBuildICmp(builder, LLVMIntUGT, count, covered, c"".as_ptr());
            charges.seldom(LLVMBuildCondBr(builder, too_many, some, all));
            LLVMPositionBuilderAtEnd(builder, all);
            self.nowhere();
            let left = LLVMBuildSub(builder, now, price_of(count), c"".as_ptr());
            LLVMBuildStore(builder, left, charges.credit);
            LLVMBuildStore(builder, test.end, limit);
            LLVMBuildBr(builder, join);
            LLVMPositionBuilderAtEnd(builder, some);
            self.nowhere();
            let count = if test.is_after_step() { self.at_least_one(count) } else { count };
            let paid = self.pay(count, cost);
            let to = self.ahead(test, start, paid);
            LLVMBuildStore(builder, to, limit);
            LLVMBuildBr(builder, join);
            LLVMPositionBuilderAtEnd(builder, join);
            self.nowhere();
            LLVMBuildBr(builder, header);
            self.comes_instead(header, preheader, join);
        }
    }

    unsafe fn pay(&self, count: LLVMValueRef, cost: u64) -> LLVMValueRef {
        let Charges { strip_kind, .. } = *self.charges;
        let mut arguments = [count, self.charges.constant(cost)];
        // SAFETY: see the module's documentation.
        unsafe {
            let call =
                LLVMBuildCall2(self.builder, strip_kind, self.set.strip, arguments.as_mut_ptr(), 2, c"".as_ptr());
            LLVMSetInstructionCallConv(call, PRESERVE_ALL);
            call
        }
    }

    /// How many steps it is from a value of the variable to the end. Exact where the end has to be hit.
    unsafe fn iterations(&self, test: &Test, from: LLVMValueRef) -> LLVMValueRef {
        let builder = self.builder;
        // SAFETY: see the module's documentation.
        unsafe {
            let (from, end) = (self.plain(from), self.plain(test.end));
            let down = matches!(test.step, Step::By(by) if by < 0);
            let (low, high) = if down { (end, from) } else { (from, end) };
            let distance = LLVMBuildSub(builder, high, low, c"".as_ptr());
            let steps = self.in_steps(distance, test.step);
            let steps = LLVMBuildIntCast2(builder, steps, self.charges.number, 0, c"".as_ptr());
            let begun = test.goes_on != LLVMIntNE && test.step != Step::By(1);
            if begun { LLVMBuildAdd(builder, steps, self.charges.constant(1), c"".as_ptr()) } else { steps }
        }
    }

    unsafe fn in_steps(&self, distance: LLVMValueRef, step: Step) -> LLVMValueRef {
        // SAFETY: see the module's documentation.
        unsafe {
            let kind = LLVMTypeOf(distance);
            let step = match step {
                Step::By(by) if by.unsigned_abs().is_power_of_two() => {
                    let shift = LLVMConstInt(kind, u64::from(by.unsigned_abs().trailing_zeros()), 0);
                    return LLVMBuildLShr(self.builder, distance, shift, c"".as_ptr());
                }
                Step::By(by) => LLVMConstInt(kind, by.unsigned_abs(), 0),
                Step::Up(by) => {
                    let one = LLVMConstInt(kind, 1, 0);
                    let none = LLVMBuildICmp(self.builder, LLVMIntEQ, by, LLVMConstInt(kind, 0, 0), c"".as_ptr());
                    LLVMBuildSelect(self.builder, none, one, by, c"".as_ptr())
                }
            };
            LLVMBuildUDiv(self.builder, distance, step, c"".as_ptr())
        }
    }

    /// The value of the variable after so many steps, but not beyond the end where that is an order.
    unsafe fn ahead(&self, test: &Test, from: LLVMValueRef, steps: LLVMValueRef) -> LLVMValueRef {
        let builder = self.builder;
        // SAFETY: see the module's documentation.
        unsafe {
            let plain = self.plain(from);
            let kind = LLVMTypeOf(plain);
            let steps = LLVMBuildIntCast2(builder, steps, kind, 0, c"".as_ptr());
            let by = match test.step {
                Step::By(by) => LLVMConstInt(kind, by as u64, 1),
                Step::Up(by) => by,
            };
            let way = LLVMBuildMul(builder, steps, by, c"".as_ptr());
            if LLVMGetTypeKind(LLVMTypeOf(from)) == LLVMTypeKind::LLVMPointerTypeKind {
                let byte = LLVMInt8TypeInContext(self.charges.context);
                let there = LLVMBuildGEP2(builder, byte, from, [way].as_mut_ptr(), 1, c"".as_ptr());
                return self.not_beyond(test, there);
            }
            self.not_beyond(test, LLVMBuildAdd(builder, from, way, c"".as_ptr()))
        }
    }

    unsafe fn not_beyond(&self, test: &Test, there: LLVMValueRef) -> LLVMValueRef {
        if test.goes_on == LLVMIntNE {
            return there;
        }
        // SAFETY: see the module's documentation.
        unsafe {
            let before = LLVMBuildICmp(self.builder, test.goes_on, there, test.end, c"".as_ptr());
            LLVMBuildSelect(self.builder, before, there, test.end, c"".as_ptr())
        }
    }

    unsafe fn at_least_one(&self, count: LLVMValueRef) -> LLVMValueRef {
        // SAFETY: see the module's documentation.
        unsafe {
            let none = LLVMBuildICmp(self.builder, LLVMIntEQ, count, self.charges.constant(0), c"".as_ptr());
            LLVMBuildSelect(self.builder, none, self.charges.constant(1), count, c"".as_ptr())
        }
    }

    unsafe fn least(&self, one: LLVMValueRef, other: LLVMValueRef) -> LLVMValueRef {
        // SAFETY: see the module's documentation.
        unsafe {
            let less = LLVMBuildICmp(self.builder, LLVMIntULT, one, other, c"".as_ptr());
            LLVMBuildSelect(self.builder, less, one, other, c"".as_ptr())
        }
    }

    /// A pointer as a number.
    unsafe fn plain(&self, value: LLVMValueRef) -> LLVMValueRef {
        // SAFETY: see the module's documentation.
        unsafe {
            if LLVMGetTypeKind(LLVMTypeOf(value)) == LLVMTypeKind::LLVMPointerTypeKind {
                LLVMBuildPtrToInt(self.builder, value, self.charges.number, c"".as_ptr())
            } else {
                value
            }
        }
    }

    /// The block is now led to by `new` where it was by `old`.
    unsafe fn comes_instead(&mut self, block: LLVMBasicBlockRef, old: LLVMBasicBlockRef, new: LLVMBasicBlockRef) {
        // SAFETY: see the module's documentation. A phi's blocks can't be changed in place, so it is made anew.
        unsafe {
            for phi in phis(block).into_iter().filter(|phi| !self.anew.contains_key(phi)).collect::<Vec<_>>() {
                LLVMPositionBuilderBefore(self.builder, phi);
                let made = LLVMBuildPhi(self.builder, LLVMTypeOf(phi), c"".as_ptr());
                for at in 0..LLVMCountIncoming(phi) {
                    let from = LLVMGetIncomingBlock(phi, at);
                    let mut from = [if from == old { new } else { from }];
                    LLVMAddIncoming(made, [LLVMGetIncomingValue(phi, at)].as_mut_ptr(), from.as_mut_ptr(), 1);
                }
                LLVMReplaceAllUsesWith(phi, made);
                self.anew.insert(phi, made);
            }
        }
    }

    /// The block is led to by `new` too, with the values that come from `old`.
    unsafe fn comes_too(&self, block: LLVMBasicBlockRef, old: LLVMBasicBlockRef, new: LLVMBasicBlockRef) {
        // SAFETY: see the module's documentation.
        unsafe {
            for phi in phis(block).into_iter().filter(|phi| !self.anew.contains_key(phi)) {
                let at = (0..LLVMCountIncoming(phi)).find(|at| LLVMGetIncomingBlock(phi, *at) == old);
                let value = LLVMGetIncomingValue(phi, at.expect("a block that leads to it"));
                LLVMAddIncoming(phi, [value].as_mut_ptr(), [new].as_mut_ptr(), 1);
            }
        }
    }
}

unsafe fn phis(block: LLVMBasicBlockRef) -> Vec<LLVMValueRef> {
    // SAFETY: see the module's documentation.
    unsafe {
        let all = instructions(block).into_iter();
        all.take_while(|one| LLVMGetInstructionOpcode(*one) == LLVMOpcode::LLVMPHI).collect()
    }
}
