#include "textflag.h"

// notifier is a C function of one argument, in R0: a gate, whose descriptor it writes to, if there is one. It counts
// itself in before it looks for the descriptor, and out when it is done with it: see gate. It may be called on any
// thread, also on one that Go knows nothing of: it touches nothing that a C function has to preserve. A system
// call leaves all registers as they were but R0. What it answers is of no use to anybody.

#define IN 0
#define OUT 8
#define FD 16

GLOBL ·notifyABI0(SB), NOPTR|RODATA, $8
DATA ·notifyABI0(SB)/8, $notify<>(SB)

GLOBL one<>(SB), NOPTR|RODATA, $8
DATA one<>(SB)/8, $1

TEXT notify<>(SB), NOSPLIT|NOFRAME, $0
	MOVD R0, R9
	ADD  $OUT, R9, R12

in:
	LDAXR (R9), R10
	ADD   $1, R10
	STLXR R10, (R9), R11
	CBNZ  R11, in
	DMB   $0xb // what is read below is read after that
	MOVD  FD(R9), R0
	TBNZ  $63, R0, out
	MOVD  $one<>(SB), R1
	MOVD  $8, R2
	MOVD  $64, R8 // write
	SVC

out:
	LDAXR (R12), R10
	ADD   $1, R10
	STLXR R10, (R12), R11
	CBNZ  R11, out
	RET
