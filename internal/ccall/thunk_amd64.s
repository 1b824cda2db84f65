//go:build linux && !go1.28 && (!cu_portable || cu_static)

#include "textflag.h"

// The functions below have the C calling convention (System V). runtime.cgocall calls them on the
// system stack, or a static program on a stack of C. The frame's address is in DI, and SP is 8
// bytes below a multiple of 16. They preserve BX, BP and R12-R15, as a C function must. The offsets
// of the frame's fields, see ccall.go:
//
//	0 Fn   8 R   16 A[0]   24 A[1]   ...

#define FN 0
#define R 8
#define A(i) (16+8*(i))

#define REGISTERS(frame) \
	MOVQ A(0)(frame), DI; \
	MOVQ A(1)(frame), SI; \
	MOVQ A(2)(frame), DX; \
	MOVQ A(3)(frame), CX; \
	MOVQ A(4)(frame), R8; \
	MOVQ A(5)(frame), R9

// AX is the number of vector registers in use if the function is variadic.
#define CALLFN(frame) \
	MOVQ FN(frame), R11; \
	XORL AX, AX; \
	CALL R11

GLOBL ·call6ABI0(SB), NOPTR|RODATA, $8
DATA ·call6ABI0(SB)/8, $call6<>(SB)

TEXT call6<>(SB), NOSPLIT|NOFRAME, $0
	PUSHQ BX
	MOVQ  DI, BX
	REGISTERS(BX)
	CALLFN(BX)
	MOVQ  AX, R(BX)
	POPQ  BX
	XORL  AX, AX
	RET

GLOBL ·call14ABI0(SB), NOPTR|RODATA, $8
DATA ·call14ABI0(SB)/8, $call14<>(SB)

#define STACKWORD(i) \
	MOVQ A(6+i)(BX), AX; \
	MOVQ AX, (8*i)(SP)

TEXT call14<>(SB), NOSPLIT|NOFRAME, $0
	PUSHQ BX
	MOVQ  DI, BX
	SUBQ  $64, SP
	STACKWORD(0)
	STACKWORD(1)
	STACKWORD(2)
	STACKWORD(3)
	STACKWORD(4)
	STACKWORD(5)
	STACKWORD(6)
	STACKWORD(7)
	REGISTERS(BX)
	CALLFN(BX)
	MOVQ  AX, R(BX)
	ADDQ  $64, SP
	POPQ  BX
	XORL  AX, AX
	RET

// FrameWide: 16 A[0] … 136 A[15]  144 F[0]  152 F[1]
GLOBL ·callWideABI0(SB), NOPTR|RODATA, $8
DATA ·callWideABI0(SB)/8, $callWide<>(SB)

TEXT callWide<>(SB), NOSPLIT|NOFRAME, $0
	PUSHQ BX
	MOVQ  DI, BX
	SUBQ  $80, SP
	STACKWORD(0)
	STACKWORD(1)
	STACKWORD(2)
	STACKWORD(3)
	STACKWORD(4)
	STACKWORD(5)
	STACKWORD(6)
	STACKWORD(7)
	STACKWORD(8)
	STACKWORD(9)
	MOVQ  144(BX), X0
	MOVQ  152(BX), X1
	REGISTERS(BX)
	CALLFN(BX)
	MOVQ  AX, R(BX)
	ADDQ  $80, SP
	POPQ  BX
	XORL  AX, AX
	RET

// Each: 0 Fn  8 N  16 Results  24 Base0  32 Stride0  40 Base1  48 Stride1  56 Base2  64 Stride2
GLOBL ·eachABI0(SB), NOPTR|RODATA, $8
DATA ·eachABI0(SB)/8, $each<>(SB)

TEXT each<>(SB), NOSPLIT|NOFRAME, $0
	PUSHQ BX
	PUSHQ R12
	PUSHQ R13
	PUSHQ R14
	PUSHQ R15
	MOVQ  DI, BX
	MOVQ  24(BX), R12
	MOVQ  40(BX), R13
	MOVQ  56(BX), R14
	XORL  R15, R15

loop:
	CMPQ R15, 8(BX)
	JAE  done
	MOVQ (R12), DI
	MOVQ (R13), SI
	MOVQ (R14), DX
	CALLFN(BX)
	MOVQ 16(BX), CX
	MOVL AX, (CX)(R15*4)
	ADDQ 32(BX), R12
	ADDQ 48(BX), R13
	ADDQ 64(BX), R14
	INCQ R15
	JMP  loop

done:
	POPQ R15
	POPQ R14
	POPQ R13
	POPQ R12
	POPQ BX
	XORL AX, AX
	RET

// Scope: 0 thunk  8 frame  16 Exchange  24 Push  32 Pop  40 Context  48 Mode
// 56 popped  64 rExchange  72 rPush  80 rPop  88 rRestore
GLOBL ·scopeABI0(SB), NOPTR|RODATA, $8
DATA ·scopeABI0(SB)/8, $scope<>(SB)

TEXT scope<>(SB), NOSPLIT|NOFRAME, $0
	PUSHQ BX
	MOVQ  DI, BX

	MOVQ  16(BX), R11
	TESTQ R11, R11
	JZ    push
	LEAQ  48(BX), DI
	XORL  AX, AX
	CALL  R11
	MOVQ  AX, 64(BX)
	TESTL AX, AX
	JNZ   out

push:
	MOVQ  24(BX), R11
	TESTQ R11, R11
	JZ    body
	MOVQ  40(BX), DI
	XORL  AX, AX
	CALL  R11
	MOVQ  AX, 72(BX)
	TESTL AX, AX
	JNZ   restore

body:
	MOVQ 8(BX), DI
	MOVQ 0(BX), R11
	CALL R11

	MOVQ  32(BX), R11
	TESTQ R11, R11
	JZ    restore
	CMPQ  24(BX), $0
	JNE   pop
	MOVQ  8(BX), AX      // no push: only what the call itself pushed
	CMPL  R(AX), $0
	JNE   restore

pop:
	LEAQ 56(BX), DI
	XORL AX, AX
	CALL R11
	MOVQ AX, 80(BX)

restore:
	MOVQ  16(BX), R11
	TESTQ R11, R11
	JZ    out
	LEAQ  48(BX), DI
	XORL  AX, AX
	CALL  R11
	MOVQ  AX, 88(BX)

out:
	POPQ BX
	XORL AX, AX
	RET
