//! Puts probes into a function: those at its entry and its gates, which [`gates`] makes; [`strips`] has the loops that pay
//! in advance.
//!
//! The runtime's functions of the probe and the strip keep every register but one, so that a probe costs the code around it
//! no spilling. They are called where nothing is left, which is seldom, by assembly, so that it costs no frame either.
//!
//! Safety, in general, is [`module`](crate::module)'s: all values are of one module and one function that has a body.

use crate::counted::{Blocks, Step, Test};
use crate::flow::{Callee, Price, callee_of, first_but, instructions, is_call, price_of};
use crate::loops::Shape;
use crate::place::Placement;
use crate::steps;
use llvm_sys::core::*;
use llvm_sys::debuginfo::{LLVMDIBuilderCreateDebugLocation, LLVMGetSubprogram};
use llvm_sys::prelude::*;
use llvm_sys::{LLVMOpcode, LLVMThreadLocalMode};
use std::collections::HashMap;
use std::ffi::CStr;
use std::ptr;

pub(crate) mod copies;
mod gates;
mod strips;

/// The thread's credit.
const CREDIT: &CStr = c"__quanta_credit";

/// Where it is said how far the running job's thread-locals lie from the thread's, from the credit on; the runtime's state
/// has the same layout.
pub(crate) const LOCALS: u64 = 64;

/// A set of runtime functions: there is one for code that uses the wide registers of AVX and one for code that doesn't,
/// which has less to save.
struct Set {
    probe: &'static str,
    /// How many of so many iterations, each of such a cost, the credit covers; pays for them.
    strip: &'static str,
    /// Ours, and inlined: takes a cost off the credit and calls the runtime where nothing is left.
    gate: LLVMValueRef,
    /// The same for a local copy of the credit.
    local_gate: LLVMValueRef,
    /// A gate that is only made where a pointer is in a window.
    step: LLVMValueRef,
}

/// What probes are made of in a module.
pub(crate) struct Probes {
    context: LLVMContextRef,
    number: LLVMTypeRef,
    probe_kind: LLVMTypeRef,
    gate_kind: LLVMTypeRef,
    credit: LLVMValueRef,
    narrow: Set,
    wide: Set,
}

impl Probes {
    /// Declares what they need.
    ///
    /// # Safety
    /// The module is there, and its own.
    pub(crate) unsafe fn declare(context: LLVMContextRef, module: LLVMModuleRef) -> Self {
        // SAFETY: as above.
        unsafe {
            let number = LLVMInt64TypeInContext(context);
            let (void, pointer) = (LLVMVoidTypeInContext(context), LLVMPointerTypeInContext(context, 0));
            let probe_kind = LLVMFunctionType(void, ptr::null_mut(), 0, 0);
            let gate_kind = LLVMFunctionType(void, [pointer, number].as_mut_ptr(), 2, 0);
            let credit = state(context, module, 0);
            let set = |probe, strip, gates: [&CStr; 3]| {
                let [gate, local_gate, step] = gates.map(|gate| LLVMAddFunction(module, gate.as_ptr(), gate_kind));
                Set { probe, strip, gate, local_gate, step }
            };
            let narrow =
                set("__quanta_probe", "__quanta_strip", [c"__quanta_gate", c"__quanta_local_gate", c"__quanta_step"]);
            let gates = [c"__quanta_gate_wide", c"__quanta_local_gate_wide", c"__quanta_step_wide"];
            let wide = set("__quanta_probe_wide", "__quanta_strip_wide", gates);
            let this = Self { context, number, probe_kind, gate_kind, credit, narrow, wide };
            for set in [&this.narrow, &this.wide] {
                this.define_gate(set.probe, set.gate, false);
                this.define_gate(set.probe, set.local_gate, true);
                this.define_step(set);
            }
            this
        }
    }

    /// A place in the thread's state.
    pub(crate) fn state(&self, offset: u64) -> LLVMValueRef {
        // SAFETY: the types are the context's, and the state is longer.
        unsafe { within(self.context, self.credit, offset) }
    }

    fn constant(&self, value: u64) -> LLVMValueRef {
        // SAFETY: the type is one of the context's.
        unsafe { LLVMConstInt(self.number, value, 0) }
    }

    /// Carries out a placement.
    ///
    /// # Safety
    /// The function is one of the module, and the rest was made from it as it is now.
    pub(crate) unsafe fn insert(
        &self,
        function: LLVMValueRef,
        blocks: &Blocks,
        shape: &Shape,
        tests: &[Option<Test>],
        placement: &Placement,
        prices: &HashMap<LLVMValueRef, Price>,
    ) {
        // SAFETY: see the module's documentation.
        unsafe {
            let set = if uses_wide_registers(function) { &self.wide } else { &self.narrow };
            let builder = LLVMCreateBuilderInContext(self.context);
            let mut work = Function {
                probes: self,
                set,
                function,
                blocks,
                shape,
                builder,
                locals: HashMap::new(),
                anew: HashMap::new(),
            };
            if placement.entry.is_some() || !placement.is_free() {
                // What assembly calls would overwrite what lies beyond the stack's end.
                attribute(self.context, function, "noredzone");
            }
            work.find_locals(placement);
            work.pay_by_length();
            work.lend(prices);
            for gate in &placement.gates {
                let counter = work.counter(gate.local);
                work.before_tail(blocks.all[gate.block]);
                work.gate(counter, self.constant(u64::from(gate.cost)));
            }
            for strip in &placement.strips {
                let test = tests[strip.of].as_ref().expect("only a loop that counts is planned as a strip");
                let test = work.now(test);
                work.strip(strip, &test);
            }
            for &(block, cost) in &placement.late {
                work.at_start(blocks.all[block]);
                work.gate(self.credit, self.constant(u64::from(cost)));
            }
            for &(block, cost) in &placement.steps {
                let block = blocks.all[block];
                let parameter = steps::parameter_of(function, block).expect("it is planned as a step");
                work.at_start(block);
                work.step(LLVMGetParam(function, parameter), self.constant(u64::from(cost)));
            }
            if let Some(cost) = placement.entry {
                work.at_entry();
                work.gate(self.credit, self.constant(u64::from(cost)));
            }
            work.anew.keys().for_each(|phi| LLVMInstructionEraseFromParent(*phi));
            LLVMDisposeBuilder(builder);
        }
    }
}

/// A function in work.
struct Function<'a> {
    probes: &'a Probes,
    set: &'a Set,
    function: LLVMValueRef,
    blocks: &'a Blocks,
    shape: &'a Shape,
    builder: LLVMBuilderRef,
    /// Where loops keep their copy of the credit.
    locals: HashMap<usize, LLVMValueRef>,
    /// What took the place of phis that were made anew. The old ones stay until the end, so that no other takes their
    /// address.
    anew: HashMap<LLVMValueRef, LLVMValueRef>,
}

impl Function<'_> {
    /// The credit, or a loop's copy of it.
    fn counter(&self, local: Option<usize>) -> LLVMValueRef {
        local.map_or(self.probes.credit, |local| self.locals[&local])
    }

    /// A test with what has taken the place of its values meanwhile.
    fn now(&self, test: &Test) -> Test {
        let now = |mut value| {
            while let Some(new) = self.anew.get(&value) {
                value = *new;
            }
            value
        };
        let step = if let Step::Up(by) = test.step { Step::Up(now(by)) } else { test.step };
        Test { header: now(test.header), compared: now(test.compared), end: now(test.end), step, ..*test }
    }

    /// To the end of a block, before its last instruction.
    unsafe fn before_end(&self, block: LLVMBasicBlockRef) {
        // SAFETY: see the module's documentation.
        unsafe {
            LLVMPositionBuilderBefore(self.builder, LLVMGetBasicBlockTerminator(block));
            self.nowhere();
        }
    }

    /// The same, but before what decides where its last instruction leads: with a gate in between, a comparison would be
    /// made apart from its operands or from the branch. And before a call whose result is returned at once, which needs no place on the stack: what is written as
    /// a loop of such calls, as in interpreters, would come to the stack's end with a gate behind them.
    unsafe fn before_tail(&self, block: LLVMBasicBlockRef) {
        // SAFETY: see the module's documentation.
        unsafe {
            self.before_end(block);
            let last = LLVMGetBasicBlockTerminator(block);
            let before = LLVMGetPreviousInstruction(last);
            let next =
                (LLVMGetNumSuccessors(last) == 1).then(|| first_but(&[LLVMOpcode::LLVMPHI], LLVMGetSuccessor(last, 0)));
            let returns = LLVMGetInstructionOpcode(next.unwrap_or(last)) == LLVMOpcode::LLVMRet;
            if returns && !before.is_null() && is_call(before) {
                LLVMPositionBuilderBefore(self.builder, before);
                self.nowhere();
            } else if LLVMGetInstructionOpcode(last) == LLVMOpcode::LLVMBr && LLVMIsConditional(last) != 0 {
                LLVMPositionBuilderBefore(self.builder, decides(last));
                self.nowhere();
            }
        }
    }

    /// Behind the entry's own allocas, so that they stay where LLVM looks for them.
    unsafe fn at_entry(&self) {
        // SAFETY: see the module's documentation.
        unsafe { self.behind(&[LLVMOpcode::LLVMAlloca], LLVMGetEntryBasicBlock(self.function)) }
    }

    /// To the first place of a block where something may stand.
    unsafe fn at_start(&self, block: LLVMBasicBlockRef) {
        // SAFETY: see the module's documentation.
        unsafe { self.behind(&[LLVMOpcode::LLVMPHI, LLVMOpcode::LLVMLandingPad], block) }
    }

    unsafe fn behind(&self, kinds: &[LLVMOpcode], block: LLVMBasicBlockRef) {
        // SAFETY: see the module's documentation.
        unsafe {
            LLVMPositionBuilderBefore(self.builder, first_but(kinds, block));
            self.nowhere();
        }
    }

    unsafe fn nowhere(&self) {
        // SAFETY: see the module's documentation.
        unsafe { nowhere(self.probes.context, self.builder, self.function) }
    }

    unsafe fn gate(&self, counter: LLVMValueRef, cost: LLVMValueRef) {
        let mut arguments = [counter, cost];
        // SAFETY: see the module's documentation.
        unsafe {
            let is_local = counter != self.probes.credit;
            let (kind, gate) = (self.probes.gate_kind, if is_local { self.set.local_gate } else { self.set.gate });
            LLVMBuildCall2(self.builder, kind, gate, arguments.as_mut_ptr(), 2, c"".as_ptr());
        }
    }

    /// A gate in the windows alone.
    unsafe fn step(&self, place: LLVMValueRef, cost: LLVMValueRef) {
        let mut arguments = [place, cost];
        // SAFETY: see the module's documentation.
        unsafe {
            let (kind, step) = (self.probes.gate_kind, self.set.step);
            LLVMBuildCall2(self.builder, kind, step, arguments.as_mut_ptr(), 2, c"".as_ptr());
        }
    }

    unsafe fn alloca(&self, kind: LLVMTypeRef) -> LLVMValueRef {
        // SAFETY: see the module's documentation.
        unsafe {
            let first = LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(self.function));
            LLVMPositionBuilderBefore(self.builder, first);
            LLVMBuildAlloca(self.builder, kind, c"".as_ptr())
        }
    }

    /// Copies the credit before the loops that keep their own, and back behind them.
    unsafe fn find_locals(&mut self, placement: &Placement) {
        let Probes { number, credit, .. } = *self.probes;
        // SAFETY: see the module's documentation.
        unsafe {
            for &(index, preheader) in &placement.locals {
                let local = self.alloca(number);
                self.before_end(self.blocks.all[preheader]);
                self.copy(credit, local);
                for exit in self.exits(index) {
                    self.at_start(exit);
                    self.copy(local, credit);
                }
                self.locals.insert(index, local);
            }
        }
    }

    /// Brings one of the places where the credit may be up to the other.
    unsafe fn copy(&self, from: LLVMValueRef, to: LLVMValueRef) {
        // SAFETY: see the module's documentation.
        unsafe {
            let now = LLVMBuildLoad2(self.builder, self.probes.number, from, c"".as_ptr());
            LLVMBuildStore(self.builder, now, to);
        }
    }

    /// The blocks that follow a loop, each once, but for panics: what they find is what there was when the loop last called
    /// somebody, or began.
    unsafe fn exits(&self, index: usize) -> Vec<LLVMBasicBlockRef> {
        let this = &self.shape.loops[index];
        let mut exits = Vec::new();
        // SAFETY: see the module's documentation.
        unsafe {
            for &block in &this.blocks {
                let last = LLVMGetBasicBlockTerminator(self.blocks.all[block]);
                for at in 0..LLVMGetNumSuccessors(last) {
                    let next = LLVMGetSuccessor(last, at);
                    let inside = self.blocks.index.get(&next).is_some_and(|next| this.contains(*next));
                    if !inside && !exits.contains(&next) && !self.is_panic(next) {
                        exits.push(next);
                    }
                }
            }
        }
        exits
    }

    /// Has copies and comparisons pay by their length, and has long copies done in parts. What copies in parts pays for
    /// itself, but not to a local copy of the credit.
    unsafe fn pay_by_length(&self) {
        let number = self.probes.number;
        // SAFETY: see the module's documentation.
        unsafe {
            for (index, &block) in self.blocks.all.iter().enumerate() {
                let local = self.locals.keys().copied().find(|local| self.shape.loops[*local].contains(index));
                let counter = self.counter(local);
                for call in instructions(block).into_iter().filter(|one| is_call(*one)) {
                    let Callee::Sized(at) = callee_of(call) else { continue };
                    LLVMPositionBuilderBefore(self.builder, call);
                    self.nowhere();
                    if local.is_none() && self.in_parts(call) {
                        continue;
                    }
                    let length = LLVMGetOperand(call, at);
                    let length = LLVMBuildIntCast2(self.builder, length, number, 0, c"".as_ptr());
                    let cost = LLVMBuildLShr(self.builder, length, self.probes.constant(4), c"".as_ptr());
                    let now = LLVMBuildLoad2(self.builder, number, counter, c"".as_ptr());
                    let left = LLVMBuildSub(self.builder, now, cost, c"".as_ptr());
                    LLVMBuildStore(self.builder, left, counter);
                    self.in_parts(call);
                }
            }
        }
    }

    /// Gives a loop's copy of the credit back around each call by which somebody may probe, and takes it again.
    unsafe fn lend(&self, prices: &HashMap<LLVMValueRef, Price>) {
        // SAFETY: see the module's documentation. What follows an invoke of the loop is led to by it alone.
        unsafe {
            for (index, local) in &self.locals {
                let all = self.shape.loops[*index].blocks.iter().map(|block| self.blocks.all[*block]);
                for block in all.filter(|block| !self.is_end(*block)) {
                    for call in instructions(block).into_iter().filter(|one| price_of(*one, prices).calls) {
                        LLVMPositionBuilderBefore(self.builder, call);
                        self.nowhere();
                        self.copy(*local, self.probes.credit);
                        match LLVMGetNextInstruction(call) {
                            next if next.is_null() => self.at_start(LLVMGetSuccessor(call, 0)),
                            next => {
                                LLVMPositionBuilderBefore(self.builder, next);
                                self.nowhere();
                            }
                        }
                        self.copy(self.probes.credit, *local);
                    }
                }
            }
        }
    }

    unsafe fn is_panic(&self, block: LLVMBasicBlockRef) -> bool {
        // SAFETY: see the module's documentation.
        unsafe {
            let first = first_but(&[LLVMOpcode::LLVMPHI], block);
            self.is_end(block) || LLVMGetInstructionOpcode(first) == LLVMOpcode::LLVMLandingPad
        }
    }

    unsafe fn is_end(&self, block: LLVMBasicBlockRef) -> bool {
        // SAFETY: see the module's documentation.
        unsafe { LLVMGetInstructionOpcode(LLVMGetBasicBlockTerminator(block)) == LLVMOpcode::LLVMUnreachable }
    }
}

/// The first of the instructions right before a branch that it depends on, or the branch.
unsafe fn decides(branch: LLVMValueRef) -> LLVMValueRef {
    // SAFETY: see the module's documentation.
    unsafe {
        let (mut first, mut needed) = (branch, vec![LLVMGetCondition(branch)]);
        loop {
            let before = LLVMGetPreviousInstruction(first);
            let is_one = !before.is_null() && needed.contains(&before);
            if !is_one || is_call(before) || !LLVMIsAPHINode(before).is_null() {
                return first;
            }
            needed.extend((0..LLVMGetNumOperands(before) as u32).map(|at| LLVMGetOperand(before, at)));
            first = before;
        }
    }
}

/// Whether the function's code may use registers that not every x86-64 has.
unsafe fn uses_wide_registers(function: LLVMValueRef) -> bool {
    // SAFETY: see the module's documentation; the attribute's text belongs to it.
    unsafe {
        let (name, index) = ("target-features", llvm_sys::LLVMAttributeFunctionIndex);
        let attribute = LLVMGetStringAttributeAtIndex(function, index, name.as_ptr().cast(), name.len() as u32);
        if attribute.is_null() {
            return false;
        }
        let mut length = 0;
        let text = LLVMGetStringAttributeValue(attribute, &raw mut length);
        std::slice::from_raw_parts(text.cast::<u8>(), length as usize).windows(4).any(|part| part == b"+avx")
    }
}

/// A place in the thread's state, which begins with the credit. It is part of the program, so the linker knows how far it
/// lies from the thread's pointer.
///
/// # Safety
/// The module is there, and the context's.
pub(crate) unsafe fn state(context: LLVMContextRef, module: LLVMModuleRef, offset: u64) -> LLVMValueRef {
    // SAFETY: as above; the state is longer.
    unsafe {
        let credit = match LLVMGetNamedGlobal(module, CREDIT.as_ptr()) {
            known if known.is_null() => LLVMAddGlobal(module, LLVMInt64TypeInContext(context), CREDIT.as_ptr()),
            known => known,
        };
        LLVMSetThreadLocalMode(credit, LLVMThreadLocalMode::LLVMLocalExecTLSModel);
        if offset == 0 { credit } else { within(context, credit, offset) }
    }
}

/// # Safety
/// The state is of a module of the context's that is there.
unsafe fn within(context: LLVMContextRef, state: LLVMValueRef, offset: u64) -> LLVMValueRef {
    // SAFETY: as above.
    unsafe {
        let offset = LLVMConstInt(LLVMInt64TypeInContext(context), offset, 0);
        LLVMConstGEP2(LLVMInt8TypeInContext(context), state, [offset].as_mut_ptr(), 1)
    }
}

/// Has what is built next come from no place in the source: what is inlined into a function with debug information needs
/// one, and line 0 is none.
///
/// # Safety
/// They belong together.
pub(crate) unsafe fn nowhere(context: LLVMContextRef, builder: LLVMBuilderRef, function: LLVMValueRef) {
    // SAFETY: as above.
    unsafe {
        let scope = LLVMGetSubprogram(function);
        if !scope.is_null() {
            let location = LLVMDIBuilderCreateDebugLocation(context, 0, 0, scope, ptr::null_mut());
            LLVMSetCurrentDebugLocation2(builder, location);
        }
    }
}

/// Gives a function an attribute that has no value.
///
/// # Safety
/// They belong together.
pub(crate) unsafe fn attribute(context: LLVMContextRef, function: LLVMValueRef, name: &str) {
    // SAFETY: see the module's documentation.
    unsafe {
        let kind = LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len());
        let attribute = LLVMCreateEnumAttribute(context, kind, 0);
        LLVMAddAttributeAtIndex(function, llvm_sys::LLVMAttributeFunctionIndex, attribute);
    }
}
