#include "textflag.h"

// notifier is a C function with one argument, a gate, in DI. It follows the protocol of gate, and
// writes to the gate's descriptor if there is one. It may be called on any thread, even on one that
// Go does not know. It changes no register that a C function has to preserve, and uses no stack. A
// system call changes AX, CX and R11 only. Its result is ignored.

#define IN 0
#define OUT 8
#define FD 16

GLOBL ·notifyABI0(SB), NOPTR|RODATA, $8
DATA ·notifyABI0(SB)/8, $notify<>(SB)

GLOBL one<>(SB), NOPTR|RODATA, $8
DATA one<>(SB)/8, $1

TEXT notify<>(SB), NOSPLIT|NOFRAME, $0
	MOVQ  DI, R8
	LOCK
	INCQ  IN(R8)
	MOVQ  FD(R8), DI
	TESTQ DI, DI
	JLT   out
	LEAQ  one<>(SB), SI
	MOVL  $8, DX
	MOVL  $1, AX // write
	SYSCALL

out:
	LOCK
	INCQ OUT(R8)
	RET
