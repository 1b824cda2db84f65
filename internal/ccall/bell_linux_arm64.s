#include "textflag.h"

// bell is a C function of one argument, in R0: an eventfd's descriptor, to whose
// counter it adds ringC. It may be called on any thread, also on one that Go knows
// nothing of: it makes one system call, and touches nothing that a C function has to
// preserve. What it answers is of no use to anybody.

GLOBL ·bellABI0(SB), NOPTR|RODATA, $8
DATA ·bellABI0(SB)/8, $bell<>(SB)

GLOBL ringC<>(SB), NOPTR|RODATA, $8
DATA ringC<>(SB)/8, $(1<<32)

TEXT bell<>(SB), NOSPLIT|NOFRAME, $0
	MOVD $ringC<>(SB), R1
	MOVD $8, R2
	MOVD $64, R8 // write
	SVC
	RET
