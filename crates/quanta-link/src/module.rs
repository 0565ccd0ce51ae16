//! One module: bitcode in, optimised machine code with probes out. All calls of LLVM are in this file.
//!
//! The LLVM is the one inside the Rust toolchain, which `aya-rustc-llvm-proxy` opens when the first of its functions is
//! called. Each module has a context of its own, so modules can be worked on by several threads at once.
//!
//! Safety, in general: every pointer that is used came from LLVM in the same call of [`Module::read`] or from an object
//! that is still owned by that module, and nothing is used after what owns it was disposed of, which only `drop` does.

use crate::place::{Block, Gate, Placement, place, recursive};
use anyhow::{Result, bail};
use llvm_sys::LLVMOpcode;
use llvm_sys::analysis::{LLVMVerifierFailureAction, LLVMVerifyModule};
use llvm_sys::bit_reader::LLVMParseBitcodeInContext2;
use llvm_sys::core::*;
use llvm_sys::debuginfo::{LLVMDIBuilderCreateDebugLocation, LLVMGetSubprogram};
use llvm_sys::error::{LLVMDisposeErrorMessage, LLVMGetErrorMessage};
use llvm_sys::prelude::*;
use llvm_sys::target_machine::*;
use llvm_sys::transforms::pass_builder::{LLVMCreatePassBuilderOptions, LLVMDisposePassBuilderOptions, LLVMRunPasses};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;
use std::sync::Once;

extern crate aya_rustc_llvm_proxy;

unsafe extern "C" {
    fn LLVMInitializeX86TargetInfo();
    fn LLVMInitializeX86Target();
    fn LLVMInitializeX86TargetMC();
    fn LLVMInitializeX86AsmPrinter();
    fn LLVMInitializeX86AsmParser();
}

/// The calling convention that keeps all general registers but r11 (LLVM's `preserve_most`).
const PRESERVE_MOST: u32 = 14;

/// The thread's counter of work in recursive calls.
const CREDIT: &CStr = c"__quanta_credit";

/// The section of functions that get no probes.
const UNPROBED: &CStr = c".text.quanta.unprobed";

/// What a call costs, without what is called.
const CALL: u32 = 10;

/// The runtime's function that reads the clock.
const PROBE: &CStr = c"__quanta_probe";

/// How modules are made into machine code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// `O0` to `O3`, `Os` or `Oz`.
    pub(crate) level: String,
    /// The processor that rustc names.
    pub(crate) cpu: String,
    /// How much may run without a probe, in instructions, roughly.
    pub(crate) bound: u32,
}

/// What was done to a module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) functions: usize,
    pub(crate) gates: usize,
}

/// A module in memory, with what makes machine code of it.
pub(crate) struct Module {
    context: LLVMContextRef,
    module: LLVMModuleRef,
    machine: LLVMTargetMachineRef,
    /// The errors that LLVM has told the context's handler.
    said: Box<RefCell<String>>,
}

impl Module {
    /// Reads bitcode.
    pub(crate) fn read(name: &str, bitcode: &[u8], options: &Options) -> Result<Self> {
        initialize();
        let name = CString::new(name)?;
        let cpu = CString::new(options.cpu.as_str())?;
        // SAFETY: see the module's documentation. The buffer is a copy of `bitcode`, and parsing takes it over.
        unsafe {
            let context = LLVMContextCreate();
            let said: Box<RefCell<String>> = Box::default();
            // Without a handler LLVM prints what is wrong and ends the process.
            let place = ptr::from_ref::<RefCell<String>>(&said).cast_mut().cast();
            LLVMContextSetDiagnosticHandler(context, Some(keep_error), place);
            let buffer =
                LLVMCreateMemoryBufferWithMemoryRangeCopy(bitcode.as_ptr().cast(), bitcode.len(), name.as_ptr());
            let mut module = ptr::null_mut();
            if LLVMParseBitcodeInContext2(context, buffer, &raw mut module) != 0 {
                LLVMContextDispose(context);
                bail!("it is no bitcode that this LLVM reads: {}", said.borrow());
            }
            let (mut target, mut message) = (ptr::null_mut(), ptr::null_mut());
            let triple = LLVMGetTarget(module);
            if LLVMGetTargetFromTriple(triple, &raw mut target, &raw mut message) != 0 {
                let (triple, text) = (CStr::from_ptr(triple).to_string_lossy().into_owned(), taken(message));
                LLVMDisposeModule(module);
                LLVMContextDispose(context);
                bail!("it is for {triple}: {text}");
            }
            let level = match options.level.as_str() {
                "O0" => LLVMCodeGenOptLevel::LLVMCodeGenLevelNone,
                "O1" => LLVMCodeGenOptLevel::LLVMCodeGenLevelLess,
                "O3" => LLVMCodeGenOptLevel::LLVMCodeGenLevelAggressive,
                _ => LLVMCodeGenOptLevel::LLVMCodeGenLevelDefault,
            };
            let (reloc, model) = (LLVMRelocMode::LLVMRelocPIC, LLVMCodeModel::LLVMCodeModelDefault);
            let machine = LLVMCreateTargetMachine(target, triple, cpu.as_ptr(), c"".as_ptr(), level, reloc, model);
            Ok(Self { context, module, machine, said })
        }
    }

    /// An empty module with the assembly of `text`.
    pub(crate) fn assembly(text: &str) -> Result<Vec<u8>> {
        initialize();
        // SAFETY: see the module's documentation.
        let module = unsafe {
            let context = LLVMContextCreate();
            let module = LLVMModuleCreateWithNameInContext(c"quanta".as_ptr(), context);
            let triple = c"x86_64-unknown-linux-gnu";
            LLVMSetTarget(module, triple.as_ptr());
            LLVMSetModuleInlineAsm2(module, text.as_ptr().cast(), text.len());
            let (mut target, mut message) = (ptr::null_mut(), ptr::null_mut());
            if LLVMGetTargetFromTriple(triple.as_ptr(), &raw mut target, &raw mut message) != 0 {
                let text = taken(message);
                LLVMDisposeModule(module);
                LLVMContextDispose(context);
                bail!("{text}");
            }
            let level = LLVMCodeGenOptLevel::LLVMCodeGenLevelDefault;
            let (reloc, model) = (LLVMRelocMode::LLVMRelocPIC, LLVMCodeModel::LLVMCodeModelDefault);
            let machine =
                LLVMCreateTargetMachine(target, triple.as_ptr(), c"x86-64".as_ptr(), c"".as_ptr(), level, reloc, model);
            Self { context, module, machine, said: Box::default() }
        };
        module.emit()
    }

    /// Runs LLVM's usual passes.
    pub(crate) fn optimise(&self, level: &str) -> Result<()> {
        self.passes(&format!("default<{level}>"))
    }

    fn passes(&self, passes: &str) -> Result<()> {
        let text = CString::new(passes)?;
        // SAFETY: see the module's documentation; the message of an error is copied before it is disposed of.
        unsafe {
            let options = LLVMCreatePassBuilderOptions();
            let error = LLVMRunPasses(self.module, text.as_ptr(), self.machine, options);
            LLVMDisposePassBuilderOptions(options);
            if !error.is_null() {
                let message = LLVMGetErrorMessage(error);
                let text = CStr::from_ptr(message).to_string_lossy().into_owned();
                LLVMDisposeErrorMessage(message);
                bail!("LLVM's passes {passes}: {text}");
            }
        }
        Ok(())
    }

    /// Puts probes into all functions but those that belong to the runtime.
    pub(crate) fn instrument(&self, bound: u32) -> Result<Counts> {
        let mut counts = Counts::default();
        let gate = GateFunction::declare(self, bound);
        // SAFETY: see the module's documentation. Neither the gate's own function nor the probe has a body yet.
        unsafe {
            let functions = self.functions();
            let calls = calls_of(&functions);
            for (&function, recursive) in functions.iter().zip(recursive(&calls)) {
                if !is_unprobed(function) {
                    counts.functions += 1;
                    counts.gates += gate.insert(function, recursive);
                }
            }
        }
        gate.define(self, bound);
        self.passes("always-inline,function(sroa,simplifycfg,early-cse)")?;
        Ok(counts)
    }

    /// Its functions that have a body.
    fn functions(&self) -> Vec<LLVMValueRef> {
        let mut functions = Vec::new();
        // SAFETY: see the module's documentation.
        unsafe {
            let mut function = LLVMGetFirstFunction(self.module);
            while !function.is_null() {
                if LLVMIsDeclaration(function) == 0 {
                    functions.push(function);
                }
                function = LLVMGetNextFunction(function);
            }
        }
        functions
    }

    /// Machine code, as an object file. Each function has a section of its own, so that the linker can leave out those
    /// that nobody uses.
    pub(crate) fn emit(&self) -> Result<Vec<u8>> {
        // SAFETY: see the module's documentation; the buffer is copied before it is disposed of.
        unsafe {
            let mut message = ptr::null_mut();
            let returned = LLVMVerifierFailureAction::LLVMReturnStatusAction;
            if LLVMVerifyModule(self.module, returned, &raw mut message) != 0 {
                bail!("the instrumented module is broken, which is a fault of cargo quanta: {}", taken(message));
            }
            LLVMDisposeMessage(message);
            for function in self.functions().into_iter().filter(|function| LLVMGetSection(*function).is_null()) {
                let section = CString::new(format!(".text.{}", name_of(function)))?;
                LLVMSetSection(function, section.as_ptr());
            }
            let (mut message, mut buffer) = (ptr::null_mut(), ptr::null_mut());
            let kind = LLVMCodeGenFileType::LLVMObjectFile;
            if LLVMTargetMachineEmitToMemoryBuffer(self.machine, self.module, kind, &raw mut message, &raw mut buffer)
                != 0
            {
                bail!("no machine code can be made of it: {}", taken(message));
            }
            if !self.said.borrow().is_empty() {
                LLVMDisposeMemoryBuffer(buffer);
                bail!("no machine code can be made of it: {}", self.said.borrow());
            }
            let bytes = std::slice::from_raw_parts(LLVMGetBufferStart(buffer).cast(), LLVMGetBufferSize(buffer));
            let bytes = bytes.to_vec();
            LLVMDisposeMemoryBuffer(buffer);
            Ok(bytes)
        }
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: they were made together with this value and are used by nobody else; the context goes last.
        unsafe {
            LLVMDisposeTargetMachine(self.machine);
            LLVMDisposeModule(self.module);
            LLVMContextDispose(self.context);
        }
    }
}

/// `gate(counter, cost)`: takes the cost off the counter, and probes and starts again where nothing is left. Gates are
/// calls of it at first, which LLVM inlines, so that no control flow is edited by hand.
struct GateFunction {
    context: LLVMContextRef,
    function: LLVMValueRef,
    kind: LLVMTypeRef,
    number: LLVMTypeRef,
    /// The thread's counter.
    credit: LLVMValueRef,
    bound: u32,
}

impl GateFunction {
    fn declare(module: &Module, bound: u32) -> Self {
        let context = module.context;
        // SAFETY: see the module's documentation.
        unsafe {
            let number = LLVMInt32TypeInContext(context);
            let mut parameters = [LLVMPointerTypeInContext(context, 0), number];
            let kind = LLVMFunctionType(LLVMVoidTypeInContext(context), parameters.as_mut_ptr(), 2, 0);
            let function = LLVMAddFunction(module.module, c"__quanta_gate".as_ptr(), kind);
            let credit = LLVMAddGlobal(module.module, number, CREDIT.as_ptr());
            LLVMSetThreadLocalMode(credit, llvm_sys::LLVMThreadLocalMode::LLVMInitialExecTLSModel);
            Self { context, function, kind, number, credit, bound }
        }
    }

    fn define(&self, module: &Module, bound: u32) {
        let Self { context, function, number, .. } = *self;
        // SAFETY: see the module's documentation.
        unsafe {
            LLVMSetLinkage(function, llvm_sys::LLVMLinkage::LLVMInternalLinkage);
            for name in ["alwaysinline", "nounwind"] {
                let kind = LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len());
                let attribute = LLVMCreateEnumAttribute(context, kind, 0);
                LLVMAddAttributeAtIndex(function, llvm_sys::LLVMAttributeFunctionIndex, attribute);
            }
            let probe_kind = LLVMFunctionType(LLVMVoidTypeInContext(context), ptr::null_mut(), 0, 0);
            let probe = match LLVMGetNamedFunction(module.module, PROBE.as_ptr()) {
                known if known.is_null() => LLVMAddFunction(module.module, PROBE.as_ptr(), probe_kind),
                known => known,
            };
            LLVMSetFunctionCallConv(probe, PRESERVE_MOST);
            let block = |name: &CStr| LLVMAppendBasicBlockInContext(context, function, name.as_ptr());
            let (entry, used_up, over) = (block(c"entry"), block(c"used_up"), block(c"over"));
            let builder = LLVMCreateBuilderInContext(context);
            LLVMPositionBuilderAtEnd(builder, entry);
            let (counter, cost) = (LLVMGetParam(function, 0), LLVMGetParam(function, 1));
            let before = LLVMBuildLoad2(builder, number, counter, c"before".as_ptr());
            let left = LLVMBuildSub(builder, before, cost, c"left".as_ptr());
            LLVMBuildStore(builder, left, counter);
            let less = llvm_sys::LLVMIntPredicate::LLVMIntSLT;
            let none = LLVMBuildICmp(builder, less, left, LLVMConstInt(number, 0, 0), c"none".as_ptr());
            let branch = LLVMBuildCondBr(builder, none, used_up, over);
            let weights = [1, 2000].map(|weight| LLVMValueAsMetadata(LLVMConstInt(number, weight, 0)));
            let text = LLVMMDStringInContext2(context, c"branch_weights".as_ptr(), 14);
            let mut parts = [text, weights[0], weights[1]];
            let node = LLVMMDNodeInContext2(context, parts.as_mut_ptr(), parts.len());
            let profile = LLVMGetMDKindIDInContext(context, c"prof".as_ptr(), 4);
            LLVMSetMetadata(branch, profile, LLVMMetadataAsValue(context, node));
            LLVMPositionBuilderAtEnd(builder, used_up);
            LLVMBuildStore(builder, LLVMConstInt(number, u64::from(bound), 0), counter);
            let call = LLVMBuildCall2(builder, probe_kind, probe, ptr::null_mut(), 0, c"".as_ptr());
            LLVMSetInstructionCallConv(call, PRESERVE_MOST);
            LLVMBuildBr(builder, over);
            LLVMPositionBuilderAtEnd(builder, over);
            LLVMBuildRetVoid(builder);
            LLVMDisposeBuilder(builder);
        }
    }

    /// Puts gates into a function, one of them at its entry if it may call itself; says how many.
    ///
    /// # Safety
    /// The function is one of the same module, and has a body.
    unsafe fn insert(&self, function: LLVMValueRef, recursive: bool) -> usize {
        // SAFETY: see the module's documentation.
        unsafe {
            let (blocks, flow) = flow_of(function);
            let Placement { gates, tail } = place(&flow, self.bound);
            if gates.is_empty() && !recursive {
                return 0;
            }
            let scope = LLVMGetSubprogram(function);
            let builder = LLVMCreateBuilderInContext(self.context);
            let call = |counter: LLVMValueRef, cost: u32| {
                // What is inlined into a function with debug information needs a place in the source; line 0 is none.
                if !scope.is_null() {
                    let location = LLVMDIBuilderCreateDebugLocation(self.context, 0, 0, scope, ptr::null_mut());
                    LLVMSetCurrentDebugLocation2(builder, location);
                }
                let mut arguments = [counter, LLVMConstInt(self.number, u64::from(cost), 0)];
                LLVMBuildCall2(builder, self.kind, self.function, arguments.as_mut_ptr(), 2, c"".as_ptr());
            };
            // Behind the entry's own allocas, so that they stay where LLVM looks for them.
            let mut first = LLVMGetFirstInstruction(blocks[0]);
            while LLVMGetInstructionOpcode(first) == LLVMOpcode::LLVMAlloca {
                first = LLVMGetNextInstruction(first);
            }
            LLVMPositionBuilderBefore(builder, first);
            if recursive {
                call(self.credit, tail.max(CALL));
            }
            if gates.is_empty() {
                LLVMDisposeBuilder(builder);
                return 1;
            }
            let counter = LLVMBuildAlloca(builder, self.number, c"quanta".as_ptr());
            LLVMBuildStore(builder, LLVMConstInt(self.number, u64::from(self.bound), 0), counter);
            for Gate { block, cost } in &gates {
                LLVMPositionBuilderBefore(builder, LLVMGetBasicBlockTerminator(blocks[*block]));
                call(counter, *cost);
            }
            LLVMDisposeBuilder(builder);
            gates.len() + usize::from(recursive)
        }
    }
}

/// Keeps the first error; remarks and warnings are not for whoever links.
extern "C" fn keep_error(diagnostic: LLVMDiagnosticInfoRef, said: *mut c_void) {
    // SAFETY: LLVM passes a diagnostic that lives as long as this call, and what the handler was set with: the text of a
    // module, which its owner keeps for longer than the context. The modules of a context are worked on by one thread.
    unsafe {
        if LLVMGetDiagInfoSeverity(diagnostic) == llvm_sys::LLVMDiagnosticSeverity::LLVMDSError {
            let text = taken(LLVMGetDiagInfoDescription(diagnostic));
            let mut said = (*said.cast::<RefCell<String>>().cast_const()).borrow_mut();
            if said.is_empty() {
                *said = text;
            }
        }
    }
}

/// Which of these functions each of them calls by name.
///
/// # Safety
/// They are functions of one module, and have bodies.
unsafe fn calls_of(functions: &[LLVMValueRef]) -> Vec<Vec<usize>> {
    let index: HashMap<LLVMValueRef, usize> = functions.iter().enumerate().map(|(at, one)| (*one, at)).collect();
    let called = |function: &LLVMValueRef| {
        let mut called = Vec::new();
        // SAFETY: see the module's documentation.
        unsafe {
            let mut block = LLVMGetFirstBasicBlock(*function);
            while !block.is_null() {
                let mut instruction = LLVMGetFirstInstruction(block);
                while !instruction.is_null() {
                    if matches!(LLVMGetInstructionOpcode(instruction), LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke) {
                        called.extend(index.get(&LLVMGetCalledValue(instruction)));
                    }
                    instruction = LLVMGetNextInstruction(instruction);
                }
                block = LLVMGetNextBasicBlock(block);
            }
        }
        called.sort_unstable();
        called.dedup();
        called
    };
    functions.iter().map(called).collect()
}

/// The blocks of a function and how they follow one another.
///
/// # Safety
/// The function has a body.
unsafe fn flow_of(function: LLVMValueRef) -> (Vec<LLVMBasicBlockRef>, Vec<Block>) {
    // SAFETY: see the module's documentation.
    unsafe {
        let mut blocks = Vec::new();
        let mut block = LLVMGetFirstBasicBlock(function);
        while !block.is_null() {
            blocks.push(block);
            block = LLVMGetNextBasicBlock(block);
        }
        let index: HashMap<LLVMBasicBlockRef, usize> =
            blocks.iter().enumerate().map(|(at, block)| (*block, at)).collect();
        let flow = blocks.iter().map(|block| {
            let mut cost = 0_u32;
            let mut instruction = LLVMGetFirstInstruction(*block);
            while !instruction.is_null() {
                cost = cost.saturating_add(cost_of(instruction));
                instruction = LLVMGetNextInstruction(instruction);
            }
            let last = LLVMGetBasicBlockTerminator(*block);
            let next = (0..LLVMGetNumSuccessors(last)).map(|at| index[&LLVMGetSuccessor(last, at)]).collect();
            Block { cost, next }
        });
        let flow = flow.collect();
        (blocks, flow)
    }
}

/// About how many simple instructions one costs. What is called is counted where it is; the call itself is charged.
///
/// # Safety
/// It is an instruction.
unsafe fn cost_of(instruction: LLVMValueRef) -> u32 {
    // SAFETY: see the module's documentation.
    unsafe {
        match LLVMGetInstructionOpcode(instruction) {
            LLVMOpcode::LLVMPHI | LLVMOpcode::LLVMBitCast | LLVMOpcode::LLVMAlloca => 0,
            LLVMOpcode::LLVMUDiv | LLVMOpcode::LLVMSDiv | LLVMOpcode::LLVMURem | LLVMOpcode::LLVMSRem => 20,
            LLVMOpcode::LLVMFDiv | LLVMOpcode::LLVMFRem => 10,
            LLVMOpcode::LLVMAtomicRMW | LLVMOpcode::LLVMAtomicCmpXchg => 20,
            LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke => match name_of(LLVMGetCalledValue(instruction)).as_str() {
                name if name.starts_with("llvm.mem") => 20,
                name if name.starts_with("llvm.dbg") || name.starts_with("llvm.lifetime") || name == "llvm.assume" => 0,
                name if name.starts_with("llvm.") => 2,
                _ => CALL,
            },
            _ => 1,
        }
    }
}

/// Whether a function is to have no probes: it says so by the section that it is in.
///
/// # Safety
/// It is a function of a module that is still there.
unsafe fn is_unprobed(function: LLVMValueRef) -> bool {
    // SAFETY: as above; the section's name belongs to the function.
    unsafe {
        let section = LLVMGetSection(function);
        !section.is_null() && CStr::from_ptr(section) == UNPROBED
    }
}

/// # Safety
/// It is a value of a module that is still there.
unsafe fn name_of(value: LLVMValueRef) -> String {
    let mut length = 0;
    // SAFETY: the name belongs to the value and is copied at once.
    unsafe {
        let start: *const c_char = LLVMGetValueName2(value, &raw mut length);
        // What has no name may have no start either.
        if length == 0 {
            return String::new();
        }
        String::from_utf8_lossy(std::slice::from_raw_parts(start.cast(), length)).into_owned()
    }
}

/// Copies a message of LLVM's and disposes of it.
///
/// # Safety
/// It is one that LLVM has handed out, and nobody else disposes of it.
unsafe fn taken(message: *mut c_char) -> String {
    // SAFETY: as above.
    unsafe {
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        LLVMDisposeMessage(message);
        text
    }
}

fn initialize() {
    static ONCE: Once = Once::new();
    // SAFETY: they take no arguments and are called once.
    ONCE.call_once(|| unsafe {
        LLVMInitializeX86TargetInfo();
        LLVMInitializeX86Target();
        LLVMInitializeX86TargetMC();
        LLVMInitializeX86AsmPrinter();
        LLVMInitializeX86AsmParser();
    });
}
