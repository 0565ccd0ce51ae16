//! One module: bitcode in, optimised machine code with probes out. All calls of LLVM are in this file.
//!
//! The LLVM is the one inside the Rust toolchain, which `aya-rustc-llvm-proxy` opens when the first of its functions is
//! called. Each module has a context of its own, so modules can be worked on by several threads at once.
//!
//! Safety, in general: every pointer that is used came from LLVM in the same call of [`Module::read`] or from an object
//! that is still owned by that module, and nothing is used after what owns it was disposed of, which only `drop` does.

use crate::calls::{bottom_up, cycles, heads};
use crate::counted::{Blocks, Test, test_of};
use crate::flow::{Callee, Price, blocks_of, callee_of, flow_of, instructions, is_call, listed};
use crate::insert::Probes;
use crate::locals;
use crate::loops::Shape;
use crate::place::{Callers, Placement, place};
use crate::repeat;
use crate::report::Fact;
use crate::sections::{self, Marks};
use anyhow::{Result, bail};
use llvm_sys::LLVMOpcode;
use llvm_sys::analysis::{LLVMVerifierFailureAction, LLVMVerifyModule};
use llvm_sys::bit_reader::LLVMParseBitcodeInContext2;
use llvm_sys::core::*;
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

/// The section of functions that get no probes.
const UNPROBED: &CStr = c".text.quanta.unprobed";

/// Where functions begin: half a line of the instruction cache. The probe at a function's entry is among its first
/// instructions, and two of them often lie in a line otherwise.
const ALIGNMENT: u32 = 32;

/// A function of more instructions has a probe at its entry, as a rule.
const LONG: usize = 150;

/// How modules are made into machine code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// `O0` to `O3`, `Os` or `Oz`.
    pub(crate) level: String,
    /// The processor that rustc names.
    pub(crate) cpu: String,
    /// How much may run without a probe, in instructions, roughly.
    pub(crate) bound: u32,
    /// Thread-locals that all jobs of a thread share, by their paths.
    pub(crate) thread_locals: Vec<String>,
    /// The mangled names of those that the standard library has in its machine code.
    pub(crate) of_std: Vec<String>,
    /// Crates or paths of functions that get no probes; and the only ones that do, if there are any.
    pub(crate) exclude: Vec<String>,
    pub(crate) only: Vec<String>,
    /// Whether an executable is linked, and not a library that is loaded, which is left as it is: no probes, and the
    /// thread-locals are the thread's.
    pub(crate) is_program: bool,
}

impl Options {
    /// Whether the user wants no probes in a function.
    ///
    /// # Safety
    /// It is a function of a module that is still there.
    unsafe fn leaves_out(&self, function: LLVMValueRef) -> bool {
        if self.exclude.is_empty() && self.only.is_empty() {
            return false;
        }
        // SAFETY: as above.
        let path = path_of(&unsafe { name_of(function) });
        let named = |paths: &[String]| paths.iter().any(|one| is_within(&path, one));
        named(&self.exclude) || !(self.only.is_empty() || named(&self.only))
    }
}

/// The path of a function as one would write it: `<T as a::B>::c` is `T as a::B>::c`, which begins with its type.
pub(crate) fn path_of(name: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(name)).trim_start_matches(['<', '&']).to_owned()
}

/// Whether a path is another one or leads on from it.
pub(crate) fn is_within(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with("::") || rest.starts_with(' '))
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

    /// Runs LLVM's usual passes, over functions in which is marked what they would make unrecognisable; afterwards each job
    /// has its own thread-locals.
    pub(crate) fn optimise(&self, options: &Options) -> Result<()> {
        let passes = format!("default<{}>", options.level);
        if !options.is_program {
            return self.passes(&passes);
        }
        // SAFETY: see the module's documentation.
        unsafe { sections::mark(self.context, self.module, &self.functions()) };
        self.passes(&passes)?;
        // SAFETY: as above.
        unsafe { locals::redirect(self.context, self.module, options) }
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

    /// Puts probes into all functions but those that are to have none.
    pub(crate) fn instrument(&self, options: &Options) -> Result<Vec<Fact>> {
        if !options.is_program {
            return Ok(Vec::new());
        }
        // Loops get a block that leads to them alone, and others that only they lead to.
        self.passes("function(loop-simplify)")?;
        // SAFETY: see the module's documentation.
        unsafe {
            let functions = self.functions();
            let mut repeats = false;
            self.each(&functions, options, &mut |work| repeats |= work.mark_repeats(self.context));
            if repeats {
                self.passes("function(loop-unroll<O2;no-partial;no-peeling;no-upperbound>,loop-simplify)")?;
            }
            // The probes' own functions are made after the list of functions is.
            let probes = Probes::declare(self.context, self.module);
            let mut facts = Vec::new();
            self.each(&functions, options, &mut |work| {
                facts.push(fact_of(work.function, work.placement.as_ref()));
                work.insert(self.context, &probes);
            });
            self.passes("always-inline,function(sroa,simplifycfg,early-cse)")?;
            Ok(facts)
        }
    }

    /// Decides where probes go in each of these functions, those first that others call, and hands it over.
    ///
    /// # Safety
    /// They are all those of the module that have a body.
    unsafe fn each(&self, functions: &[LLVMValueRef], options: &Options, hand_over: &mut dyn FnMut(Work<'_>)) {
        // SAFETY: see the module's documentation.
        unsafe {
            let calls = calls_of(functions);
            let left_out = |function| is_unprobed(function) || options.leaves_out(function);
            let foreign = functions.iter().copied().filter(|function| left_out(*function));
            let mut prices: HashMap<_, _> = foreign.map(|function| (function, Price::LEFT_OUT)).collect();
            let others = listed(LLVMGetFirstFunction(self.module), LLVMGetNextFunction);
            let others = others.into_iter().filter(|function| LLVMIsDeclaration(*function) != 0);
            let has_probes = options.exclude.is_empty() && options.only.is_empty();
            prices.extend(others.map(|function| (function, Price::of_other(&name_of(function), has_probes))));
            let (cycle, index) = (cycles(&calls), numbered(functions));
            let suits = |function: &LLVMValueRef| (!left_out(*function)).then(|| probes_anyway(*function).into());
            let heads = heads(&calls, &functions.iter().map(suits).collect::<Vec<_>>());
            let mut below = calls.clone();
            below.iter_mut().for_each(|called| called.retain(|called| !heads[*called]));
            for at in bottom_up(&below) {
                let function = functions[at];
                let own = cycle[at];
                let comes_back = |callee| heads[at] && index.get(&callee).is_some_and(|callee| cycle[*callee] == own);
                let (blocks, mut flow) = flow_of(function, &prices, &comes_back);
                let shape = Shape::of(&flow);
                let marks = Marks::find(&blocks, &shape, &mut flow);
                if left_out(function) {
                    let (tests, placement) = (Vec::new(), None);
                    hand_over(Work { function, blocks, shape, tests, marks, placement, prices: &prices });
                    continue;
                }
                let test = |this| test_of(self.module, &blocks, &shape, this);
                let tests: Vec<_> = shape.loops.iter().map(test).collect();
                let counted: Vec<_> = tests.iter().map(|test| test.as_ref().map(Test::counted)).collect();
                let callers = if has_known_callers(function) { Callers::Known } else { Callers::Any };
                let placement = place(&flow, &shape, &counted, options.bound, callers);
                if placement.entry.is_none() {
                    prices.insert(function, Price::of_leaf(placement.left, placement.calls));
                }
                let placement = Some(placement);
                hand_over(Work { function, blocks, shape, tests, marks, placement, prices: &prices });
            }
        }
    }

    /// Its functions that have a body.
    fn functions(&self) -> Vec<LLVMValueRef> {
        // SAFETY: see the module's documentation.
        unsafe {
            let mut functions = listed(LLVMGetFirstFunction(self.module), LLVMGetNextFunction);
            functions.retain(|function| LLVMIsDeclaration(*function) == 0);
            functions
        }
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
                LLVMSetAlignment(function, LLVMGetAlignment(function).max(ALIGNMENT));
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

/// What was decided for a function.
struct Work<'a> {
    function: LLVMValueRef,
    blocks: Blocks,
    shape: Shape,
    tests: Vec<Option<Test>>,
    marks: Marks,
    /// `None` where it is left out.
    placement: Option<Placement>,
    prices: &'a HashMap<LLVMValueRef, Price>,
}

impl Work<'_> {
    /// Says of its loops how often their iterations are to stand in a row; whether any is to.
    ///
    /// # Safety
    /// The function is as it was decided on.
    unsafe fn mark_repeats(&self, context: LLVMContextRef) -> bool {
        let repeats = self.placement.iter().flat_map(|placement| &placement.repeats);
        // SAFETY: as above.
        let mark = |&(index, count): &(usize, u32)| unsafe {
            repeat::mark(context, &self.blocks, &self.shape.loops[index], count)
        };
        repeats.map(mark).fold(false, |any, one| any | one)
    }

    /// Puts the probes where they go.
    ///
    /// # Safety
    /// The function is as it was decided on.
    unsafe fn insert(&self, context: LLVMContextRef, probes: &Probes) {
        let Self { function, blocks, shape, tests, placement, prices, .. } = self;
        // SAFETY: as above.
        unsafe {
            self.marks.settle(context, placement.as_ref().map(|_| probes));
            if let Some(placement) = placement {
                probes.insert(*function, blocks, shape, tests, placement, prices);
            }
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

fn numbered(functions: &[LLVMValueRef]) -> HashMap<LLVMValueRef, usize> {
    functions.iter().enumerate().map(|(at, one)| (*one, at)).collect()
}

/// What the report says of a function; without a placement it was left out.
///
/// # Safety
/// It has a body.
unsafe fn fact_of(function: LLVMValueRef, placement: Option<&Placement>) -> Fact {
    // SAFETY: see the module's documentation.
    unsafe {
        let (mut calls, mut by_pointer) = (Vec::new(), false);
        for block in blocks_of(function) {
            // A panic doesn't come back.
            let ends = LLVMGetInstructionOpcode(LLVMGetBasicBlockTerminator(block)) == LLVMOpcode::LLVMUnreachable;
            for call in instructions(block).into_iter().filter(|one| !ends && is_call(*one)) {
                match callee_of(call) {
                    Callee::Known(known) => calls.push(name_of(known)),
                    Callee::Other(name) => calls.push(name),
                    Callee::Pointer => by_pointer = true,
                    Callee::Intrinsic(_) | Callee::Sized(_) | Callee::Assembly => {}
                }
            }
        }
        calls.sort_unstable();
        calls.dedup();
        let (longest, tail) = placement.map_or((None, 0), |placement| (Some(placement.longest), placement.tail));
        let probes = placement.is_some_and(|placement| placement.entry.is_some() || !placement.late.is_empty());
        Fact { name: name_of(function), longest, tail, probes, calls, by_pointer }
    }
}

/// Which of these functions each of them calls by name.
///
/// # Safety
/// They are functions of one module, and have bodies.
unsafe fn calls_of(functions: &[LLVMValueRef]) -> Vec<Vec<usize>> {
    let index = numbered(functions);
    let called = |function: &LLVMValueRef| {
        // SAFETY: see the module's documentation.
        let mut called: Vec<usize> = unsafe {
            let all = blocks_of(*function).into_iter().flat_map(|block| instructions(block));
            let calls = all.filter(|one| is_call(*one));
            calls.filter_map(|call| index.get(&LLVMGetCalledValue(call)).copied()).collect()
        };
        called.sort_unstable();
        called.dedup();
        called
    };
    functions.iter().map(called).collect()
}

/// Whether a function is one that probes at its entry in any case, or is so long that this is cheap.
///
/// # Safety
/// It has a body.
unsafe fn probes_anyway(function: LLVMValueRef) -> bool {
    // SAFETY: see the module's documentation.
    unsafe {
        let all: Vec<_> = blocks_of(function).into_iter().flat_map(|block| instructions(block)).collect();
        all.len() > LONG || all.into_iter().any(|one| is_call(one) && callee_of(one) == Callee::Pointer)
    }
}

/// Whether all that call a function are seen in its module, and call it by name.
///
/// # Safety
/// It is a function of a module that is still there.
unsafe fn has_known_callers(function: LLVMValueRef) -> bool {
    // SAFETY: see the module's documentation.
    unsafe {
        let is_own = matches!(
            LLVMGetLinkage(function),
            llvm_sys::LLVMLinkage::LLVMInternalLinkage | llvm_sys::LLVMLinkage::LLVMPrivateLinkage
        );
        let calls = |used: &LLVMUseRef| {
            let user = LLVMGetUser(*used);
            let is_argument = |at| LLVMGetOperand(user, at) == function;
            !LLVMIsAInstruction(user).is_null()
                && is_call(user)
                && LLVMGetCalledValue(user) == function
                && !(0..LLVMGetNumArgOperands(user)).any(is_argument)
        };
        is_own && listed(LLVMGetFirstUse(function), LLVMGetNextUse).iter().all(calls)
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
pub(crate) unsafe fn name_of(value: LLVMValueRef) -> String {
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
