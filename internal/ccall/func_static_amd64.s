//go:build linux && cu_static

#include "textflag.h"

// host is a C function with one argument, in DI: see func_static.go. It may be called on any
// thread, even on one that Go does not know.

#define NEXT 0
#define ARG 8
#define DONE 16

#define SYS_write 1
#define SYS_futex 202

GLOBL ·hostABI0(SB), NOPTR|RODATA, $8
DATA ·hostABI0(SB)/8, $host<>(SB)

GLOBL ringC<>(SB), NOPTR|RODATA, $8
DATA ringC<>(SB)/8, $(1<<32)

TEXT host<>(SB), NOSPLIT|NOFRAME, $0
	PUSHQ BX
	SUBQ  $32, SP
	MOVQ  SP, BX
	MOVQ  DI, ARG(BX)
	MOVL  $0, DONE(BX)

push:
	MOVQ ·hostHead(SB), AX
	MOVQ AX, NEXT(BX)
	LOCK
	CMPXCHGQ BX, ·hostHead(SB)
	JNE  push

look:
	// takeCalls sets hostServing to 0 and then takes the list once more. Here the order is
	// reversed: add to the list, then read hostServing. So at least one of the two observes the
	// other.
	CMPL ·hostServing(SB), $0
	JEQ  nobody
	MOVL $SYS_write, AX
	MOVQ ·hostFD(SB), DI
	LEAQ ringC<>(SB), SI
	MOVL $8, DX
	SYSCALL
	JMP  wait

nobody:
	// No functions are registered, so the calls on the list do nothing. But new functions may have
	// been registered since, and the list may contain calls to them: then put it back.
	XORL  R8, R8
	XCHGQ R8, ·hostHead(SB)
	CMPL  ·hostServing(SB), $0
	JEQ   next
	TESTQ R8, R8
	JZ    look
	MOVQ  R8, R9

last:
	MOVQ  NEXT(R9), AX
	TESTQ AX, AX
	JZ    back
	MOVQ  AX, R9
	JMP   last

back:
	MOVQ ·hostHead(SB), AX
	MOVQ AX, NEXT(R9)
	LOCK
	CMPXCHGQ R8, ·hostHead(SB)
	JNE  back
	JMP  look

next:
	TESTQ R8, R8
	JZ    wait
	MOVQ  R8, R9
	MOVQ  NEXT(R9), R8
	LEAQ  DONE(R9), DI
	MOVL  $1, AX
	XCHGL AX, (DI)
	MOVL  $129, SI // FUTEX_WAKE_PRIVATE
	MOVL  $1, DX
	MOVL  $SYS_futex, AX
	SYSCALL
	JMP   next

wait:
	CMPL DONE(BX), $0
	JNE  done
	LEAQ DONE(BX), DI
	MOVL $128, SI // FUTEX_WAIT_PRIVATE
	XORL DX, DX
	XORL R10, R10
	MOVL $SYS_futex, AX
	SYSCALL
	JMP  wait

done:
	ADDQ $32, SP
	POPQ BX
	XORL AX, AX
	RET
