//go:build linux && !go1.28 && (!cu_portable || cu_static)

#include "textflag.h"

// The functions below have the C calling convention (AAPCS64). runtime.cgocall calls them on the
// system stack, or a static program on a stack of C. The frame's address is in R0. They preserve
// R19-R30, as a C function must, and do not use R27, the assembler's scratch register, and R28,
// which is g. The fields of a frame:
//
//	0 Fn   8 R   16 A[0]   24 A[1]   ...

#define FN 0
#define R 8

// ENTER saves the frame pointer, the return address and R19, R20 and sets the
// frame pointer, so that debuggers can walk the stack.
#define ENTER \
	STP.W (R29, R30), -32(RSP); \
	STP   (R19, R20), 16(RSP); \
	MOVD  RSP, R29

#define LEAVE \
	LDP   16(RSP), (R19, R20); \
	LDP.P 32(RSP), (R29, R30); \
	MOVD  ZR, R0; \
	RET

GLOBL ·call6ABI0(SB), NOPTR|RODATA, $8
DATA ·call6ABI0(SB)/8, $call6<>(SB)

TEXT call6<>(SB), NOSPLIT|NOFRAME, $0
	ENTER
	MOVD R0, R19
	LDP  16(R19), (R0, R1)
	LDP  32(R19), (R2, R3)
	LDP  48(R19), (R4, R5)
	MOVD FN(R19), R9
	CALL (R9)
	MOVD R0, R(R19)
	LEAVE

GLOBL ·call14ABI0(SB), NOPTR|RODATA, $8
DATA ·call14ABI0(SB)/8, $call14<>(SB)

TEXT call14<>(SB), NOSPLIT|NOFRAME, $0
	ENTER
	MOVD R0, R19
	SUB  $48, RSP
	LDP  80(R19), (R0, R1)   // A[8]
	STP  (R0, R1), 0(RSP)
	LDP  96(R19), (R0, R1)   // A[10]
	STP  (R0, R1), 16(RSP)
	LDP  112(R19), (R0, R1)  // A[12]
	STP  (R0, R1), 32(RSP)
	LDP  16(R19), (R0, R1)
	LDP  32(R19), (R2, R3)
	LDP  48(R19), (R4, R5)
	LDP  64(R19), (R6, R7)
	MOVD FN(R19), R9
	CALL (R9)
	MOVD R0, R(R19)
	ADD  $48, RSP
	LEAVE

// FrameWide: 16 A[0] … 136 A[15]  144 F[0]  152 F[1]
GLOBL ·callWideABI0(SB), NOPTR|RODATA, $8
DATA ·callWideABI0(SB)/8, $callWide<>(SB)

TEXT callWide<>(SB), NOSPLIT|NOFRAME, $0
	ENTER
	MOVD  R0, R19
	SUB   $64, RSP
	LDP   80(R19), (R0, R1)   // A[8]
	STP   (R0, R1), 0(RSP)
	LDP   96(R19), (R0, R1)   // A[10]
	STP   (R0, R1), 16(RSP)
	LDP   112(R19), (R0, R1)  // A[12]
	STP   (R0, R1), 32(RSP)
	LDP   128(R19), (R0, R1)  // A[14]
	STP   (R0, R1), 48(RSP)
	FMOVD 144(R19), F0
	FMOVD 152(R19), F1
	LDP   16(R19), (R0, R1)
	LDP   32(R19), (R2, R3)
	LDP   48(R19), (R4, R5)
	LDP   64(R19), (R6, R7)
	MOVD  FN(R19), R9
	CALL  (R9)
	MOVD  R0, R(R19)
	ADD   $64, RSP
	LEAVE

// Each: 0 Fn  8 N  16 Results  24 Base0  32 Stride0  40 Base1  48 Stride1  56 Base2  64 Stride2
GLOBL ·eachABI0(SB), NOPTR|RODATA, $8
DATA ·eachABI0(SB)/8, $each<>(SB)

TEXT each<>(SB), NOSPLIT|NOFRAME, $0
	ENTER
	SUB  $32, RSP
	STP  (R21, R22), 0(RSP)
	STP  (R23, R24), 16(RSP)
	MOVD R0, R19
	MOVD 24(R19), R21
	MOVD 40(R19), R22
	MOVD 56(R19), R23
	MOVD 16(R19), R24
	MOVD ZR, R20

loop:
	MOVD  8(R19), R9
	CMP   R9, R20
	BHS   done
	MOVD  (R21), R0
	MOVD  (R22), R1
	MOVD  (R23), R2
	MOVD  FN(R19), R9
	CALL  (R9)
	MOVW  R0, (R24)
	ADD   $4, R24
	MOVD  32(R19), R9
	ADD   R9, R21
	MOVD  48(R19), R9
	ADD   R9, R22
	MOVD  64(R19), R9
	ADD   R9, R23
	ADD   $1, R20
	B     loop

done:
	LDP  0(RSP), (R21, R22)
	LDP  16(RSP), (R23, R24)
	ADD  $32, RSP
	LEAVE

// Scope: 0 thunk  8 frame  16 Exchange  24 Push  32 Pop  40 Context  48 Mode
// 56 popped  64 rExchange  72 rPush  80 rPop  88 rRestore
GLOBL ·scopeABI0(SB), NOPTR|RODATA, $8
DATA ·scopeABI0(SB)/8, $scope<>(SB)

TEXT scope<>(SB), NOSPLIT|NOFRAME, $0
	ENTER
	MOVD R0, R19

	MOVD 16(R19), R9
	CBZ  R9, push
	ADD  $48, R19, R0
	CALL (R9)
	MOVD R0, 64(R19)
	CBNZW R0, out

push:
	MOVD 24(R19), R9
	CBZ  R9, body
	MOVD 40(R19), R0
	CALL (R9)
	MOVD R0, 72(R19)
	CBNZW R0, restore

body:
	MOVD 8(R19), R0
	MOVD 0(R19), R9
	CALL (R9)

	MOVD 32(R19), R20
	CBZ  R20, restore
	MOVD 24(R19), R9
	CBNZ R9, pop
	MOVD 8(R19), R9          // no push: only what the call itself pushed
	MOVWU R(R9), R9
	CBNZ R9, restore

pop:
	ADD  $56, R19, R0
	CALL (R20)
	MOVD R0, 80(R19)

restore:
	MOVD 16(R19), R9
	CBZ  R9, out
	ADD  $48, R19, R0
	CALL (R9)
	MOVD R0, 88(R19)

out:
	LEAVE
