//! Loops that pay in advance.
//!
//! The control flow around such a loop is edited by hand: blocks in front of it that pay, and two behind its test, of
//! which one makes the test itself where the limit is met, and the other moves the limit and goes on.

use super::{Function, Probes};
use crate::counted::{Step, Test};
use crate::flow::phis;
use crate::place::Strip;
use llvm_sys::LLVMIntPredicate::*;
use llvm_sys::LLVMTypeKind;
use llvm_sys::core::*;
use llvm_sys::prelude::*;
use std::ffi::CStr;

/// Where in the thread's state lie the distance to a loop's end, what an iteration costs and how many there may be at
/// once, and how far each goes; the runtime's state has the same layout.
const DISTANCE: u64 = 48;
const COST: u64 = 56;
const STEP: u64 = 60;

/// Marks a cost: there is an iteration before the test is made.
const ONE_AT_LEAST: u64 = 1 << 31;

/// Further than this is paid for in parts, so that no price is too large for a number.
const FAR: u64 = i32::MAX as u64;

impl Function<'_> {
    /// Makes a loop pay in advance, for as many iterations as it can, and stop where it has done those.
    ///
    /// The test's end is replaced by a limit, which is the end if the credit covers all iterations. Where the limit is
    /// met, the test itself is made; if the loop isn't over the limit is moved.
    pub(super) unsafe fn strip(&mut self, strip: &Strip, test: &Test) {
        let (probes, builder) = (self.probes, self.builder);
        let cost = u64::from(strip.cost);
        // SAFETY: see the module's documentation.
        unsafe {
            let limit = self.alloca(LLVMTypeOf(test.compared));
            let (preheader, tested) = (self.blocks.all[strip.preheader], self.blocks.all[test.block]);
            let header = LLVMGetInstructionParent(test.header);
            let at = (0..LLVMCountIncoming(test.header)).find(|at| LLVMGetIncomingBlock(test.header, *at) == preheader);
            let start = LLVMGetIncomingValue(test.header, at.expect("the header's variable comes from the preheader"));
            self.before_end(preheader);
            match strip.at_once {
                Some((first, _)) => self.go_on(test, start, (u64::from(first) / cost).max(1), limit),
                None => self.pay_for_all(strip, test, start, limit, preheader, header),
            }
            let test = &self.now(test);
            // The test.
            let block = |name: &CStr| LLVMAppendBasicBlockInContext(probes.context, self.function, name.as_ptr());
            let (met, more) = (block(c"quanta.met"), block(c"quanta.more"));
            let branch = LLVMGetBasicBlockTerminator(tested);
            let (out, stay) = if test.leaves_first { (0, 1) } else { (1, 0) };
            let (exit, stays) = (LLVMGetSuccessor(branch, out), LLVMGetSuccessor(branch, stay));
            self.before_end(tested);
            let to = LLVMBuildLoad2(builder, LLVMTypeOf(test.compared), limit, c"".as_ptr());
            let goes_on = LLVMBuildICmp(builder, test.goes_on, test.compared, to, c"".as_ptr());
            probes.often(LLVMBuildCondBr(builder, goes_on, stays, met));
            LLVMInstructionEraseFromParent(branch);
            LLVMPositionBuilderAtEnd(builder, met);
            self.nowhere();
            // Where the limit has to be hit it says where the variable is. The variable itself must not be needed behind
            // the loop: LLVM would keep one more in it, of what is left.
            let is_hit = test.goes_on == LLVMIntNE;
            let limit_now = LLVMBuildLoad2(builder, LLVMTypeOf(test.compared), limit, c"".as_ptr());
            let here = if is_hit { limit_now } else { test.compared };
            let goes_on = LLVMBuildICmp(builder, test.goes_on, here, test.end, c"".as_ptr());
            probes.seldom(LLVMBuildCondBr(builder, goes_on, more, exit));
            LLVMPositionBuilderAtEnd(builder, more);
            self.nowhere();
            if let Some((_, later)) = strip.at_once {
                self.pay_for_some(strip, test, here, limit, (later / strip.cost).max(1));
            } else {
                self.pay(strip, test, here, limit);
            }
            let last = LLVMGetInsertBlock(builder);
            LLVMBuildBr(builder, stays);
            self.comes_instead(exit, tested, met);
            self.comes_too(stays, tested, last);
        }
    }

    /// Sets the limit so many iterations ahead, or to the end if that is nearer.
    unsafe fn go_on(&self, test: &Test, from: LLVMValueRef, most: u64, limit: LLVMValueRef) {
        // SAFETY: see the module's documentation.
        unsafe {
            let all = self.are_at_most(test, from, most);
            let some = self.ahead(test, from, most);
            let to = LLVMBuildSelect(self.builder, all, test.end, some, c"".as_ptr());
            LLVMBuildStore(self.builder, to, limit);
        }
    }

    /// Pays for so many iterations, or for as many as the credit covers, and sets the limit so.
    unsafe fn pay_for_some(&self, strip: &Strip, test: &Test, from: LLVMValueRef, limit: LLVMValueRef, most: u32) {
        let (probes, builder) = (self.probes, self.builder);
        // SAFETY: see the module's documentation.
        unsafe {
            let block = |name: &CStr| LLVMAppendBasicBlockInContext(probes.context, self.function, name.as_ptr());
            let (covered, short, join) = (block(c"quanta.covered"), block(c"quanta.short"), block(c"quanta.join"));
            let counter = self.counter(strip.local);
            let price = probes.constant(u64::from(most) * u64::from(strip.cost));
            let before = LLVMBuildLoad2(builder, probes.number, counter, c"".as_ptr());
            let is_short = LLVMBuildICmp(builder, LLVMIntSLT, before, price, c"".as_ptr());
            probes.seldom(LLVMBuildCondBr(builder, is_short, short, covered));
            LLVMPositionBuilderAtEnd(builder, covered);
            self.nowhere();
            LLVMBuildStore(builder, LLVMBuildSub(builder, before, price, c"".as_ptr()), counter);
            self.go_on(test, from, u64::from(most), limit);
            LLVMBuildBr(builder, join);
            LLVMPositionBuilderAtEnd(builder, short);
            self.nowhere();
            self.pay(strip, test, from, limit);
            LLVMBuildBr(builder, join);
            LLVMPositionBuilderAtEnd(builder, join);
            self.nowhere();
        }
    }

    /// The preheader's end: all iterations at once, or as many as the credit covers.
    unsafe fn pay_for_all(
        &mut self,
        strip: &Strip,
        test: &Test,
        start: LLVMValueRef,
        limit: LLVMValueRef,
        preheader: LLVMBasicBlockRef,
        header: LLVMBasicBlockRef,
    ) {
        let (probes, builder) = (self.probes, self.builder);
        // SAFETY: see the module's documentation.
        unsafe {
            let block = |name: &CStr| LLVMAppendBasicBlockInContext(probes.context, self.function, name.as_ptr());
            let (all, back, some, join) =
                (block(c"quanta.all"), block(c"quanta.back"), block(c"quanta.some"), block(c"quanta.join"));
            LLVMInstructionEraseFromParent(LLVMGetBasicBlockTerminator(preheader));
            LLVMPositionBuilderAtEnd(builder, preheader);
            self.nowhere();
            let kind = LLVMTypeOf(start);
            // A number of 32 bits or more may be far from its end, and an end that it begins with is met last; pointers
            // stay within an allocation.
            if LLVMGetTypeKind(kind) == LLVMTypeKind::LLVMIntegerTypeKind && LLVMGetIntTypeWidth(kind) >= 32 {
                let pay = block(c"quanta.pay");
                let is_near = self.is_within(test, start, FAR);
                probes.often(LLVMBuildCondBr(builder, is_near, pay, some));
                LLVMPositionBuilderAtEnd(builder, pay);
                self.nowhere();
            }
            let counter = self.counter(strip.local);
            let price = self.price(test, start, u64::from(strip.cost));
            let price = LLVMBuildAdd(builder, price, probes.constant(u64::from(strip.before)), c"".as_ptr());
            probes.take(builder, counter, price, [back, all]);
            LLVMPositionBuilderAtEnd(builder, all);
            self.nowhere();
            LLVMBuildStore(builder, test.end, limit);
            LLVMBuildBr(builder, join);
            LLVMPositionBuilderAtEnd(builder, back);
            self.nowhere();
            let left = LLVMBuildLoad2(builder, probes.number, counter, c"".as_ptr());
            // Or else LLVM would keep what was there before in a register.
            LLVMSetVolatile(left, i32::from(strip.local.is_none()));
            LLVMBuildStore(builder, LLVMBuildAdd(builder, left, price, c"".as_ptr()), counter);
            LLVMBuildBr(builder, some);
            LLVMPositionBuilderAtEnd(builder, some);
            self.nowhere();
            self.pay(strip, test, start, limit);
            LLVMBuildBr(builder, join);
            LLVMPositionBuilderAtEnd(builder, join);
            self.nowhere();
            LLVMBuildBr(builder, header);
            self.comes_instead(header, preheader, join);
        }
    }

    /// What all iterations cost that are left, nearly.
    unsafe fn price(&self, test: &Test, from: LLVMValueRef, cost: u64) -> LLVMValueRef {
        let (probes, builder) = (self.probes, self.builder);
        // SAFETY: see the module's documentation.
        unsafe {
            match rate(cost, test.step) {
                // As in `is_within`, so that LLVM needs one number for both.
                Some((factor, 0)) if test.is_after_step() => {
                    let one = probes.constant(1);
                    let before = LLVMBuildSub(builder, self.distance(test, from), one, c"".as_ptr());
                    let factor = probes.constant(factor);
                    LLVMBuildAdd(builder, LLVMBuildMul(builder, before, factor, c"".as_ptr()), factor, c"".as_ptr())
                }
                Some((factor, shift)) => {
                    let distance = self.distance(test, from);
                    let scaled = LLVMBuildMul(builder, distance, probes.constant(factor), c"".as_ptr());
                    LLVMBuildLShr(builder, scaled, probes.constant(shift), c"".as_ptr())
                }
                None => LLVMBuildMul(builder, self.iterations(test, from), probes.constant(cost), c"".as_ptr()),
            }
        }
    }

    /// Pays for as many of the iterations that are left as the credit covers, one at least, and sets the limit so.
    /// What the runtime is asked and answers is in the thread's state: registers that it needs would not be free for
    /// the code around.
    unsafe fn pay(&self, strip: &Strip, test: &Test, from: LLVMValueRef, limit: LLVMValueRef) {
        let Probes { context, number, .. } = *self.probes;
        let builder = self.builder;
        // SAFETY: see the module's documentation.
        unsafe {
            let (left, step) = match test.step {
                Step::By(by) => (self.distance(test, from), by.unsigned_abs()),
                Step::Up(_) => (self.iterations(test, from), 1),
            };
            let at_once = strip.at_once.map_or(0, |(_, later)| (later / strip.cost).max(1));
            let [distance, cost, each] = [DISTANCE, COST, STEP].map(|offset| self.probes.state(offset));
            let one_at_least = if test.is_after_step() { ONE_AT_LEAST } else { 0 };
            let word = u64::from(strip.cost | at_once << 16) | one_at_least;
            self.lend_to(strip, |this| {
                LLVMBuildStore(builder, left, distance);
                for (value, place) in [(word, cost), (step, each)] {
                    let value = LLVMConstInt(LLVMInt32TypeInContext(context), value, 0);
                    // Volatile, so that they stay two: a constant of 64 bits needs a register.
                    LLVMSetVolatile(LLVMBuildStore(builder, value, place), 1);
                }
                this.probes.call(builder, this.set.strip);
                let paid = LLVMBuildLoad2(builder, number, distance, c"".as_ptr());
                LLVMBuildStore(builder, this.moved(test, from, paid), limit);
            });
        }
    }

    /// What works on the credit itself, although there may be a local copy.
    unsafe fn lend_to(&self, strip: &Strip, body: impl FnOnce(&Self)) {
        let (credit, local) = (self.probes.credit, strip.local.map(|local| self.locals[&local]));
        // SAFETY: see the module's documentation.
        unsafe {
            if let Some(local) = local {
                self.copy(local, credit);
            }
            body(self);
            if let Some(local) = local {
                self.copy(credit, local);
            }
        }
    }

    /// Whether it is at most so many steps from a value of the variable to the end.
    unsafe fn are_at_most(&self, test: &Test, from: LLVMValueRef, most: u64) -> LLVMValueRef {
        // SAFETY: see the module's documentation.
        unsafe {
            if let Step::By(by) = test.step {
                return self.is_within(test, from, most.saturating_mul(by.unsigned_abs()));
            }
            let steps = self.iterations(test, from);
            LLVMBuildICmp(self.builder, LLVMIntULE, steps, self.probes.constant(most), c"".as_ptr())
        }
    }

    /// Whether a value of the variable is at most so far from the end. Where the variable is compared after its step and
    /// begins with the end, it is as far from it as can be.
    unsafe fn is_within(&self, test: &Test, from: LLVMValueRef, far: u64) -> LLVMValueRef {
        // SAFETY: see the module's documentation.
        unsafe {
            let distance = self.distance(test, from);
            if !test.is_after_step() {
                return LLVMBuildICmp(self.builder, LLVMIntULE, distance, self.probes.constant(far), c"".as_ptr());
            }
            let before = LLVMBuildSub(self.builder, distance, self.probes.constant(1), c"".as_ptr());
            LLVMBuildICmp(self.builder, LLVMIntULT, before, self.probes.constant(far), c"".as_ptr())
        }
    }

    /// How far it is from a value of the variable to the end.
    unsafe fn distance(&self, test: &Test, from: LLVMValueRef) -> LLVMValueRef {
        // SAFETY: see the module's documentation.
        unsafe {
            let (from, end) = (self.plain(from), self.plain(test.end));
            let down = matches!(test.step, Step::By(by) if by < 0);
            let (low, high) = if down { (end, from) } else { (from, end) };
            let distance = LLVMBuildSub(self.builder, high, low, c"".as_ptr());
            LLVMBuildIntCast2(self.builder, distance, self.probes.number, 0, c"".as_ptr())
        }
    }

    /// How many steps it is from a value of the variable to the end. Exact where the end has to be hit.
    unsafe fn iterations(&self, test: &Test, from: LLVMValueRef) -> LLVMValueRef {
        let builder = self.builder;
        // SAFETY: see the module's documentation.
        unsafe {
            let steps = self.in_steps(self.distance(test, from), test.step);
            let begun = test.goes_on != LLVMIntNE && test.step != Step::By(1);
            if begun { LLVMBuildAdd(builder, steps, self.probes.constant(1), c"".as_ptr()) } else { steps }
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
                    let by = LLVMBuildIntCast2(self.builder, by, kind, 0, c"".as_ptr());
                    let none = LLVMBuildICmp(self.builder, LLVMIntEQ, by, LLVMConstInt(kind, 0, 0), c"".as_ptr());
                    LLVMBuildSelect(self.builder, none, one, by, c"".as_ptr())
                }
            };
            LLVMBuildUDiv(self.builder, distance, step, c"".as_ptr())
        }
    }

    /// The value of the variable after so many steps, but not beyond the end where that is an order.
    unsafe fn ahead(&self, test: &Test, from: LLVMValueRef, steps: u64) -> LLVMValueRef {
        let step = if let Step::By(by) = test.step { by.unsigned_abs() } else { 1 };
        // SAFETY: see the module's documentation.
        unsafe { self.moved(test, from, self.probes.constant(steps.saturating_mul(step))) }
    }

    /// The value of the variable when it has come so far, or, where its steps aren't known, so many steps.
    unsafe fn moved(&self, test: &Test, from: LLVMValueRef, far: LLVMValueRef) -> LLVMValueRef {
        let builder = self.builder;
        // SAFETY: see the module's documentation.
        unsafe {
            let kind = LLVMTypeOf(self.plain(from));
            let far = LLVMBuildIntCast2(builder, far, kind, 0, c"".as_ptr());
            let way = match test.step {
                Step::By(by) if by < 0 => LLVMBuildNeg(builder, far, c"".as_ptr()),
                Step::By(_) => far,
                Step::Up(by) => LLVMBuildMul(builder, far, by, c"".as_ptr()),
            };
            if LLVMGetTypeKind(LLVMTypeOf(from)) == LLVMTypeKind::LLVMPointerTypeKind {
                let byte = LLVMInt8TypeInContext(self.probes.context);
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

    /// A pointer as a number.
    unsafe fn plain(&self, value: LLVMValueRef) -> LLVMValueRef {
        // SAFETY: see the module's documentation.
        unsafe {
            if LLVMGetTypeKind(LLVMTypeOf(value)) == LLVMTypeKind::LLVMPointerTypeKind {
                LLVMBuildPtrToInt(self.builder, value, self.probes.number, c"".as_ptr())
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

/// What a unit of distance costs, as a factor and a shift, where an instruction or two can say that nearly.
fn rate(cost: u64, step: Step) -> Option<(u64, u64)> {
    let Step::By(by) = step else { return None };
    let nearly = |shift: u64| {
        let factor = (cost << shift).div_ceil(by.unsigned_abs());
        let is_near = factor * by.unsigned_abs() * 4 <= (cost << shift) * 5;
        ([1, 2, 3, 4, 5, 8, 9, 16, 32, 64].contains(&factor) && is_near).then_some((factor, shift))
    };
    if by.unsigned_abs() >= 1 << 16 { None } else { (0..12).find_map(nearly) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_by_distance_is_never_less_than_that_of_the_iterations_nor_much_more() {
        for cost in 1..400 {
            for step in [1, 2, 3, 4, -4, 7, 8, 16, 24, -64, 100, 4096] {
                let Some((factor, shift)) = rate(cost, Step::By(step)) else { continue };
                for count in [1, 2, 10, 1000] {
                    let price = (count * step.unsigned_abs() * factor) >> shift;
                    let exact = count * cost;
                    assert!(price >= exact && price <= exact + exact / 4 + 1, "{cost} for {step}: {price} {exact}");
                }
            }
        }
        assert_eq!(rate(16, Step::By(8)), Some((2, 0)));
        assert_eq!(rate(27, Step::By(8)), Some((4, 0)), "nearly");
        assert_eq!(rate(10, Step::By(64)), Some((3, 4)), "12 in place of 10");
    }
}
