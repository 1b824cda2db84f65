//go:build linux && cu_static

#include "textflag.h"

// host is a C function with one argument, in R0: see func_static.go. It may be called on any
// thread, even on one that Go does not know.

#define NEXT 0
#define ARG 8
#define DONE 16

#define SYS_write 64
#define SYS_futex 98

GLOBL ·hostABI0(SB), NOPTR|RODATA, $8
DATA ·hostABI0(SB)/8, $host<>(SB)

GLOBL ringC<>(SB), NOPTR|RODATA, $8
DATA ringC<>(SB)/8, $(1<<32)

TEXT host<>(SB), NOSPLIT|NOFRAME, $0
	SUB  $32, RSP
	MOVD RSP, R4
	MOVD R0, ARG(R4)
	MOVW ZR, DONE(R4)
	MOVD $·hostHead(SB), R5

push:
	MOVD  (R5), R6
	MOVD  R6, NEXT(R4)
	LDAXR (R5), R7
	CMP   R6, R7
	BNE   push
	STLXR R4, (R5), R7
	CBNZ  R7, push

look:
	// takeCalls sets hostServing to 0 and then takes the list once more. Here the order is
	// reversed: add to the list, then read hostServing. So at least one of the two observes the
	// other.
	DMB   $0xb
	MOVD  $·hostServing(SB), R6
	LDARW (R6), R6
	CBZ   R6, nobody
	MOVD  $·hostFD(SB), R0 // the address, as loading the value would use R27, which C must keep
	MOVD  (R0), R0
	MOVD  $ringC<>(SB), R1
	MOVD  $8, R2
	MOVD  $SYS_write, R8
	SVC
	JMP   wait

nobody:
	// No functions are registered, so the calls on the list do nothing. But new functions may have
	// been registered since, and the list may contain calls to them: then put it back.
	LDAXR (R5), R6
	STLXR ZR, (R5), R7
	CBNZ  R7, nobody
	DMB   $0xb
	MOVD  $·hostServing(SB), R7
	LDARW (R7), R7
	CBZ   R7, next
	CBZ   R6, look
	MOVD  R6, R9

last:
	MOVD NEXT(R9), R7
	CBZ  R7, back
	MOVD R7, R9
	JMP  last

back:
	MOVD  (R5), R7
	MOVD  R7, NEXT(R9)
	LDAXR (R5), R10
	CMP   R7, R10
	BNE   back
	STLXR R6, (R5), R10
	CBNZ  R10, back
	JMP   look

next:
	CBZ   R6, wait
	MOVD  NEXT(R6), R9
	ADD   $DONE, R6, R0
	MOVD  $1, R1
	STLRW R1, (R0)
	MOVD  $129, R1 // FUTEX_WAKE_PRIVATE
	MOVD  $1, R2
	MOVD  $SYS_futex, R8
	SVC
	MOVD  R9, R6
	JMP   next

wait:
	ADD   $DONE, R4, R0
	LDARW (R0), R1
	CBNZ  R1, done
	MOVD  $128, R1 // FUTEX_WAIT_PRIVATE
	MOVD  ZR, R2
	MOVD  ZR, R3
	MOVD  $SYS_futex, R8
	SVC
	JMP   wait

done:
	ADD  $32, RSP
	MOVD ZR, R0
	RET
