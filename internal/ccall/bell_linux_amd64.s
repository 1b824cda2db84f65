#include "textflag.h"

// bell is a C function of one argument, in DI: an eventfd's descriptor, to whose
// counter it adds ringC. It may be called on any thread, also on one that Go knows
// nothing of: it makes one system call, which leaves all registers as they were but
// AX, CX and R11, and uses no stack. What it answers is of no use to anybody.

GLOBL ·bellABI0(SB), NOPTR|RODATA, $8
DATA ·bellABI0(SB)/8, $bell<>(SB)

GLOBL ringC<>(SB), NOPTR|RODATA, $8
DATA ringC<>(SB)/8, $(1<<32)

TEXT bell<>(SB), NOSPLIT|NOFRAME, $0
	LEAQ ringC<>(SB), SI
	MOVL $8, DX
	MOVL $1, AX // write
	SYSCALL
	RET
