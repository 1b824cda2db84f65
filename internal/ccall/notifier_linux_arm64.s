#include "textflag.h"

// notifier is a C function with one argument, a gate, in R0. It follows the protocol of gate, and
// writes to the gate's descriptor if there is one. It may be called on any thread, even on one that
// Go does not know. It changes no register that a C function has to preserve. A system call changes
// R0 only. Its result is ignored.

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
	DMB   $0xb // a barrier: the reads below come later
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
