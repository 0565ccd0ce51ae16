//! Long copies, done in parts: C's would hold up a thread for as long as they take.

use super::{Function, Probes, attribute};
use crate::module::name_of;
use llvm_sys::core::*;
use llvm_sys::prelude::*;
use llvm_sys::{LLVMOpcode, LLVMTypeKind};

/// Those of C's that have one in the assembly below, whose name is theirs behind `__quanta_`.
const IN_PARTS: [&str; 3] = ["memcpy", "memmove", "memset"];

/// Whether a function is this one of C's, or LLVM's own way of saying the same.
fn is_copy(name: &str, of: &str) -> bool {
    name == of
        || name.strip_prefix("llvm.").is_some_and(|name| name.strip_prefix(of).is_some_and(|p| p.starts_with(".p0")))
}

/// Copies that pay by their length, which counts above 512 bytes: most are shorter. Above 8 KiB they are done in parts,
/// with a probe in between where nothing is left of the credit, as one behind megabytes would come late; a part takes
/// some microseconds if its pages aren't there yet. What is moved upwards within itself would have to begin at the end,
/// and is moved as a whole.
pub(crate) const ASSEMBLY: &str = "
.macro quanta_copy name
.section .text.__quanta_\\name, \"ax\", @progbits
.globl __quanta_\\name
.hidden __quanta_\\name
.type __quanta_\\name, @function
.p2align 4
__quanta_\\name:
.cfi_startproc
cmpq $512, %rdx
ja 1f
jmp *\\name@GOTPCREL(%rip)
1:
cmpq $8192, %rdx
ja 5f
2:
movq __quanta_credit@GOTTPOFF(%rip), %r11
movq %rdx, %rax
shrq $4, %rax
subq %rax, %fs:(%r11)
jmp *\\name@GOTPCREL(%rip)
5:
.ifc \\name, memmove
movq %rdi, %rax
subq %rsi, %rax
cmpq %rdx, %rax
jb 2b
.endif
.irp saved, rbx, r12, r13, r14, r15
pushq %\\saved
.cfi_adjust_cfa_offset 8
.cfi_rel_offset %\\saved, 0
.endr
movq %rdi, %r12
movq %rsi, %r13
movq %rdx, %r14
movq %rdi, %r15
3:
movl $8192, %ebx
cmpq %rbx, %r14
cmovbq %r14, %rbx
movq %r12, %rdi
movq %r13, %rsi
movq %rbx, %rdx
call *\\name@GOTPCREL(%rip)
addq %rbx, %r12
.ifnc \\name, memset
addq %rbx, %r13
.endif
subq %rbx, %r14
jz 4f
movq __quanta_credit@GOTTPOFF(%rip), %r11
subq $512, %fs:(%r11)
jns 3b
call *__quanta_probe@GOTPCREL(%rip)
jmp 3b
4:
movq %r15, %rax
.irp saved, r15, r14, r13, r12, rbx
popq %\\saved
.cfi_adjust_cfa_offset -8
.cfi_restore %\\saved
.endr
ret
.cfi_endproc
.size __quanta_\\name, . - __quanta_\\name
.endm
quanta_copy memcpy
quanta_copy memmove
quanta_copy memset
.purgem quanta_copy
.section .note.GNU-stack, \"\", @progbits
";

impl Function<'_> {
    /// Replaces a copy by a call of what does the same, and probes between its parts if it is long. Says whether it could.
    pub(super) unsafe fn in_parts(&self, call: LLVMValueRef) -> bool {
        let Probes { context, number, .. } = *self.probes;
        let builder = self.builder;
        // SAFETY: see the module's documentation; the functions take what C's take.
        unsafe {
            let name = name_of(LLVMGetCalledValue(call));
            let Some(of) = IN_PARTS.into_iter().find(|of| is_copy(&name, of)) else { return false };
            let is_volatile =
                LLVMGetNumArgOperands(call) == 4 && LLVMConstIntGetZExtValue(LLVMGetOperand(call, 3)) != 0;
            if is_volatile || LLVMGetInstructionOpcode(call) != LLVMOpcode::LLVMCall {
                return false;
            }
            let (pointer, int) = (LLVMPointerTypeInContext(context, 0), LLVMInt32TypeInContext(context));
            let sets = of == "memset";
            let middle = if sets { int } else { pointer };
            let kind = LLVMFunctionType(pointer, [pointer, middle, number].as_mut_ptr(), 3, 0);
            let module = LLVMGetGlobalParent(self.function);
            let in_parts = format!("__quanta_{of}\0");
            let function = match LLVMGetNamedFunction(module, in_parts.as_ptr().cast()) {
                known if known.is_null() => LLVMAddFunction(module, in_parts.as_ptr().cast(), kind),
                known => known,
            };
            attribute(context, function, "nounwind");
            let mut arguments = [0, 1, 2].map(|at| LLVMGetOperand(call, at));
            if sets {
                arguments[1] = LLVMBuildIntCast2(builder, arguments[1], int, 0, c"".as_ptr());
            }
            arguments[2] = LLVMBuildIntCast2(builder, arguments[2], number, 0, c"".as_ptr());
            let made = LLVMBuildCall2(builder, kind, function, arguments.as_mut_ptr(), 3, c"".as_ptr());
            if LLVMGetTypeKind(LLVMTypeOf(call)) == LLVMTypeKind::LLVMPointerTypeKind {
                LLVMReplaceAllUsesWith(call, made);
            }
            LLVMInstructionEraseFromParent(call);
            true
        }
    }
}
