//! Loops that count towards a limit: what LLVM's code says of them.
//!
//! A loop counts if one of its tests is made in every iteration and compares a variable that changes by the same amount
//! each time with a value that the loop doesn't change. LLVM leaves most loops like that, those over slices too, whose
//! variable is a pointer.

use crate::loops::{Loop, Shape};
use crate::place::Counted;
use llvm_sys::LLVMIntPredicate::{self, *};
use llvm_sys::core::*;
use llvm_sys::prelude::*;
use llvm_sys::target::{LLVMABISizeOfType, LLVMGetModuleDataLayout};
use llvm_sys::{LLVMOpcode, LLVMTypeKind};
use std::collections::HashMap;

/// The longest step that the runtime's state has room for.
const LONGEST_STEP: u64 = u32::MAX as u64;

/// How a variable changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// By so much, in bytes if it is a pointer; never zero.
    By(i64),
    /// Upwards by a value that the loop doesn't change.
    Up(LLVMValueRef),
}

/// The test of a loop that counts: it goes on while `variable <goes_on> end`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Test {
    /// The block that ends with it.
    pub(crate) block: usize,
    /// The variable as the header has it.
    pub(crate) header: LLVMValueRef,
    /// What is compared: the variable, or what it will be in the next iteration.
    pub(crate) compared: LLVMValueRef,
    pub(crate) step: Step,
    pub(crate) goes_on: LLVMIntPredicate,
    pub(crate) end: LLVMValueRef,
    /// Whether the first of the two successors leaves the loop.
    pub(crate) leaves_first: bool,
    /// At most so many iterations, if that is known.
    pub(crate) most: Option<u64>,
}

impl Test {
    /// Whether what is compared is the variable after the step.
    pub(crate) fn is_after_step(&self) -> bool {
        self.compared != self.header
    }

    pub(crate) fn counted(&self) -> Counted {
        // Where the end must be hit, a limit on the way to it must be hit too: steps have to be known.
        let known = matches!(self.step, Step::By(by) if by.unsigned_abs() <= LONGEST_STEP);
        let movable = known || self.goes_on != LLVMIntNE && matches!(self.step, Step::Up(_));
        Counted { block: self.block, most: self.most, movable }
    }
}

/// A function's blocks and their numbers.
pub(crate) struct Blocks {
    pub(crate) all: Vec<LLVMBasicBlockRef>,
    pub(crate) index: HashMap<LLVMBasicBlockRef, usize>,
}

/// Finds the test by which a loop counts.
///
/// # Safety
/// The blocks are those of a function that is still there, and the shape and the loop are its.
pub(crate) unsafe fn test_of(module: LLVMModuleRef, blocks: &Blocks, shape: &Shape, this: &Loop) -> Option<Test> {
    // SAFETY: only instructions of the function are looked at, by what LLVM says they are.
    unsafe {
        let inside = |value: LLVMValueRef| {
            !LLVMIsAInstruction(value).is_null()
                && blocks.index.get(&LLVMGetInstructionParent(value)).is_some_and(|block| this.contains(*block))
        };
        let mut tests = this.blocks.iter().filter_map(|&block| {
            if !this.latches.iter().all(|latch| shape.dominates(block, *latch)) {
                return None;
            }
            let last = LLVMGetBasicBlockTerminator(blocks.all[block]);
            if LLVMGetInstructionOpcode(last) != LLVMOpcode::LLVMBr || LLVMIsConditional(last) == 0 {
                return None;
            }
            let stays = [0, 1].map(|at| this.contains(blocks.index[&LLVMGetSuccessor(last, at)]));
            if stays[0] == stays[1] {
                return None;
            }
            let condition = LLVMGetCondition(last);
            if LLVMIsAICmpInst(condition).is_null() {
                return None;
            }
            let said = LLVMGetICmpPredicate(condition);
            let stays_if = if stays[0] { said } else { inverse(said) };
            let (one, other) = (LLVMGetOperand(condition, 0), LLVMGetOperand(condition, 1));
            let (compared, end, goes_on) = match (inside(one), inside(other)) {
                (true, false) => (one, other, stays_if),
                (false, true) => (other, one, swapped(stays_if)),
                _ => return None,
            };
            let (header, step) = variable(module, blocks, this, compared, &inside)?;
            let goes_on = usable(goes_on, step)?;
            let most = most(blocks, this, header, step, goes_on, end);
            Some(Test { block, header, compared, step, goes_on, end, leaves_first: !stays[0], most })
        });
        tests.next()
    }
}

/// The variable that `compared` is, in the header, and its step.
unsafe fn variable(
    module: LLVMModuleRef,
    blocks: &Blocks,
    this: &Loop,
    compared: LLVMValueRef,
    inside: &dyn Fn(LLVMValueRef) -> bool,
) -> Option<(LLVMValueRef, Step)> {
    // SAFETY: as for `test_of`.
    unsafe {
        let kind = LLVMTypeOf(compared);
        match LLVMGetTypeKind(kind) {
            LLVMTypeKind::LLVMIntegerTypeKind if (8..=64).contains(&LLVMGetIntTypeWidth(kind)) => {}
            LLVMTypeKind::LLVMPointerTypeKind => {}
            _ => return None,
        }
        let is_header = |value: LLVMValueRef| {
            !LLVMIsAPHINode(value).is_null() && LLVMGetInstructionParent(value) == blocks.all[this.header]
        };
        let (header, stepped) = if is_header(compared) {
            let latch = LLVMGetBasicBlockTerminator(blocks.all[this.latches[0]]);
            let from = LLVMGetInstructionParent(latch);
            let at = (0..LLVMCountIncoming(compared)).find(|at| LLVMGetIncomingBlock(compared, *at) == from)?;
            (compared, LLVMGetIncomingValue(compared, at))
        } else {
            (LLVMGetOperand(compared, 0), compared)
        };
        if !is_header(header) || !inside(stepped) {
            return None;
        }
        let every_latch = (0..LLVMCountIncoming(header)).all(|at| {
            let from = blocks.index[&LLVMGetIncomingBlock(header, at)];
            !this.contains(from) || LLVMGetIncomingValue(header, at) == stepped
        });
        let step = step_of(module, header, stepped, inside)?;
        every_latch.then_some((header, step))
    }
}

unsafe fn step_of(
    module: LLVMModuleRef,
    header: LLVMValueRef,
    stepped: LLVMValueRef,
    inside: &dyn Fn(LLVMValueRef) -> bool,
) -> Option<Step> {
    // SAFETY: as for `test_of`.
    unsafe {
        let constant = |value: LLVMValueRef| {
            (!LLVMIsAConstantInt(value).is_null()).then(|| LLVMConstIntGetSExtValue(value)).filter(|step| *step != 0)
        };
        match LLVMGetInstructionOpcode(stepped) {
            LLVMOpcode::LLVMAdd if LLVMGetOperand(stepped, 0) == header => {
                let by = LLVMGetOperand(stepped, 1);
                constant(by)
                    .map(Step::By)
                    .or_else(|| (!inside(by) && LLVMIsAConstant(by).is_null()).then_some(Step::Up(by)))
            }
            LLVMOpcode::LLVMAdd if LLVMGetOperand(stepped, 1) == header => {
                let by = LLVMGetOperand(stepped, 0);
                (!inside(by) && LLVMIsAConstant(by).is_null()).then_some(Step::Up(by))
            }
            LLVMOpcode::LLVMGetElementPtr
                if LLVMGetOperand(stepped, 0) == header && LLVMGetNumOperands(stepped) == 2 =>
            {
                let size = LLVMABISizeOfType(LLVMGetModuleDataLayout(module), LLVMGetGEPSourceElementType(stepped));
                let by = constant(LLVMGetOperand(stepped, 1))?.checked_mul(i64::try_from(size).ok()?)?;
                Some(Step::By(by)).filter(|_| by != 0)
            }
            _ => None,
        }
    }
}

/// The comparison, if moving its end works: the variable has to go towards it.
fn usable(goes_on: LLVMIntPredicate, step: Step) -> Option<LLVMIntPredicate> {
    let fits = match goes_on {
        LLVMIntNE => true,
        LLVMIntULT | LLVMIntULE | LLVMIntSLT | LLVMIntSLE => !matches!(step, Step::By(by) if by < 0),
        LLVMIntUGT | LLVMIntUGE | LLVMIntSGT | LLVMIntSGE => matches!(step, Step::By(by) if by < 0),
        LLVMIntEQ => false,
    };
    fits.then_some(goes_on)
}

/// The most iterations that there can be, if constants say so.
unsafe fn most(
    blocks: &Blocks,
    this: &Loop,
    header: LLVMValueRef,
    step: Step,
    goes_on: LLVMIntPredicate,
    end: LLVMValueRef,
) -> Option<u64> {
    // SAFETY: as for `test_of`.
    unsafe {
        let Step::By(step) = step else { return None };
        if LLVMGetTypeKind(LLVMTypeOf(header)) != LLVMTypeKind::LLVMIntegerTypeKind {
            return None;
        }
        let constant =
            |value: LLVMValueRef| (!LLVMIsAConstantInt(value).is_null()).then(|| LLVMConstIntGetSExtValue(value));
        let outside = |at: &u32| !this.contains(blocks.index[&LLVMGetIncomingBlock(header, *at)]);
        let mut starts =
            (0..LLVMCountIncoming(header)).filter(outside).map(|at| constant(LLVMGetIncomingValue(header, at)));
        let start = starts.next().flatten()?;
        if starts.next().is_some() {
            return None;
        }
        // What an `and` leaves is at most its mask, what a remainder leaves is under its divisor.
        let limit = constant(end).or_else(|| {
            let mask = |at| constant(LLVMGetOperand(end, at)).filter(|mask| *mask >= 0);
            if LLVMIsAInstruction(end).is_null() || start < 0 || step < 0 {
                return None;
            }
            match LLVMGetInstructionOpcode(end) {
                LLVMOpcode::LLVMAnd => mask(1),
                LLVMOpcode::LLVMURem => mask(1),
                _ => None,
            }
        })?;
        let distance = i128::from(limit) - i128::from(start);
        let towards = if step > 0 { distance } else { -distance };
        if towards < 0 || (goes_on == LLVMIntNE && constant(end).is_some() && distance % i128::from(step) != 0) {
            return None;
        }
        u64::try_from(towards / i128::from(step.unsigned_abs()) + 1).ok()
    }
}

fn inverse(predicate: LLVMIntPredicate) -> LLVMIntPredicate {
    match predicate {
        LLVMIntEQ => LLVMIntNE,
        LLVMIntNE => LLVMIntEQ,
        LLVMIntUGT => LLVMIntULE,
        LLVMIntUGE => LLVMIntULT,
        LLVMIntULT => LLVMIntUGE,
        LLVMIntULE => LLVMIntUGT,
        LLVMIntSGT => LLVMIntSLE,
        LLVMIntSGE => LLVMIntSLT,
        LLVMIntSLT => LLVMIntSGE,
        LLVMIntSLE => LLVMIntSGT,
    }
}

/// What holds of the operands in the other order.
fn swapped(predicate: LLVMIntPredicate) -> LLVMIntPredicate {
    match predicate {
        LLVMIntUGT => LLVMIntULT,
        LLVMIntUGE => LLVMIntULE,
        LLVMIntULT => LLVMIntUGT,
        LLVMIntULE => LLVMIntUGE,
        LLVMIntSGT => LLVMIntSLT,
        LLVMIntSGE => LLVMIntSLE,
        LLVMIntSLT => LLVMIntSGT,
        LLVMIntSLE => LLVMIntSGE,
        same => same,
    }
}
