#include "textflag.h"

// notifier is a C function of one argument, in DI: a gate, whose descriptor it writes to, if there is one. It counts
// itself in before it looks for the descriptor, and out when it is done with it: see gate. It may be called on any
// thread, also on one that Go knows nothing of: it changes no register that a C function has to preserve, and uses
// no stack. A system call leaves all registers as they were but AX, CX and R11. What it answers is of no use to
// anybody.

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
