//go:build !cu_portable

#include "go_asm.h"
#include "textflag.h"

// Processors without AVX-512 may have AVX2: eight registers of 256 bits make a column. It has no masks of lanes, so that a
// Func leaves all lanes to others if some are not active.
//
// Each macro for a part of a column gets an instruction, where the part begins, and the number of its first lane.
#define EACH(part, op) \
	part(op, 0, 0); \
	part(op, 32, 4); \
	part(op, 64, 8); \
	part(op, 96, 12); \
	part(op, 128, 16); \
	part(op, 160, 20); \
	part(op, 192, 24); \
	part(op, 224, 28)

// FUNC executes op for all parts. R8 has the lanes that are left to others. Y15 has the lower halves of places, Y14 NaNs of
// 32 bits, and Y13 the indices of the lower halves.
#define FUNC(part, op) \
	MOVL lanes+32(FP), R8; \
	CMPL R8, $-1; \
	JNE some; \
	MOVQ d+0(FP), DI; \
	MOVQ a+8(FP), SI; \
	MOVQ b+16(FP), DX; \
	MOVQ c+24(FP), CX; \
	XORL R8, R8; \
	VPCMPEQD Y15, Y15, Y15; \
	VPSRLD $1, Y15, Y14; \
	VPSRLQ $32, Y15, Y15; \
	VMOVDQU halves<>(SB), Y13; \
	EACH(part, op); \
	VZEROUPPER; \
some: \
	MOVL R8, left+40(FP); \
	RET

// Parts for numbers of 64 bits, and of 32 bits, which have zeros above.

#define TWO(op, at, first) \
	VMOVDQU at(SI), Y0; \
	op at(DX), Y0, Y0; \
	VMOVDQU Y0, at(DI)

#define PRODUCT(op, at, first) \
	VMOVDQU at(SI), Y0; \
	op at(DX), Y0, Y0; \
	VPADDQ at(CX), Y0, Y0; \
	VMOVDQU Y0, at(DI)

#define SHIFT(op, at, first) \
	VMOVDQU at(SI), Y0; \
	VPAND at(DX), Y15, Y1; \
	op Y1, Y0, Y0; \
	VMOVDQU Y0, at(DI)

#define LOWER(op, at, first) \
	VPAND at(SI), Y15, Y0; \
	VMOVDQU Y0, at(DI)

#define TWO32(op, at, first) \
	VMOVDQU at(SI), Y0; \
	op at(DX), Y0, Y0; \
	VPAND Y15, Y0, Y0; \
	VMOVDQU Y0, at(DI)

#define PRODUCT32(op, at, first) \
	VMOVDQU at(SI), Y0; \
	op at(DX), Y0, Y0; \
	VPADDD at(CX), Y0, Y0; \
	VPAND Y15, Y0, Y0; \
	VMOVDQU Y0, at(DI)

#define CONVERT(op, at, first) \
	op at(SI), Y0; \
	VPAND Y15, Y0, Y0; \
	VMOVDQU Y0, at(DI)

#define SIGNED(op, at, first) \
	VMOVDQU at(SI), Y0; \
	VPSHUFD $0xa0, Y0, Y1; \
	VPSRAD $31, Y1, Y1; \
	VPBLENDD $0xaa, Y1, Y0, Y0; \
	VMOVDQU Y0, at(DI)

// Floats of 32 bits: a result that is a NaN is always the same one.

#define FLOAT(at) \
	VCMPPS $3, Y0, Y0, Y1; \
	VBLENDVPS Y1, Y14, Y0, Y0; \
	VPAND Y15, Y0, Y0; \
	VMOVDQU Y0, at(DI)

#define TWOFLOATS(op, at, first) \
	VMOVDQU at(SI), Y0; \
	op at(DX), Y0, Y0; \
	FLOAT(at)

#define THREEFLOATS(op, at, first) \
	VMOVDQU at(SI), Y0; \
	VMOVDQU at(DX), Y1; \
	op at(CX), Y1, Y0; \
	FLOAT(at)

// Floats of 64 bits: lanes whose result is a NaN are left to others, and keep what they have. Y1 has the other lanes.

#define LEAVENANS(at, first) \
	VMOVDQU at(DI), Y2; \
	VBLENDVPD Y1, Y0, Y2, Y2; \
	VMOVDQU Y2, at(DI); \
	VMOVMSKPD Y1, AX; \
	XORL $15, AX; \
	SHLL $first, AX; \
	ORL AX, R8

#define DOUBLE(at, first) \
	VCMPPD $7, Y0, Y0, Y1; \
	LEAVENANS(at, first)

#define TWODOUBLES(op, at, first) \
	VMOVDQU at(SI), Y0; \
	op at(DX), Y0, Y0; \
	DOUBLE(at, first)

#define THREEDOUBLES(op, at, first) \
	VMOVDQU at(SI), Y0; \
	VMOVDQU at(DX), Y1; \
	op at(CX), Y1, Y0; \
	DOUBLE(at, first)

#define WIDEN(op, at, first) \
	VPERMD at(SI), Y13, Y0; \
	op X0, Y0; \
	DOUBLE(at, first)

#define NARROW(op, at, first) \
	VMOVDQU at(SI), Y0; \
	VCMPPD $7, Y0, Y0, Y1; \
	op Y0, X0; \
	VPMOVZXDQ X0, Y0; \
	LEAVENANS(at, first)

// Comparisons: of those of 32 bits, the lower halves of places count.

#define COMPARE(x, y, part, op) \
	MOVQ x, SI; \
	MOVQ y, DX; \
	XORL R8, R8; \
	EACH(part, op); \
	VZEROUPPER; \
	MOVL R8, yes+16(FP); \
	RET

#define FOUND(first) \
	VMOVMSKPD Y0, AX; \
	SHLL $first, AX; \
	ORL AX, R8

#define EQUAL32(op, at, first) \
	VMOVDQU at(SI), Y0; \
	op at(DX), Y0, Y0; \
	VPSLLQ $32, Y0, Y0; \
	FOUND(first)

#define EQUAL64(op, at, first) \
	VMOVDQU at(SI), Y0; \
	op at(DX), Y0, Y0; \
	FOUND(first)

// Y14 has the highest bits, which make numbers without signs of those with signs.

#define UNSIGNED32(op, at, first) \
	VPXOR at(SI), Y14, Y0; \
	VPXOR at(DX), Y14, Y1; \
	op Y1, Y0, Y0; \
	VPSLLQ $32, Y0, Y0; \
	FOUND(first)

#define UNSIGNED64(op, at, first) \
	VPXOR at(SI), Y14, Y0; \
	VPXOR at(DX), Y14, Y1; \
	op Y1, Y0, Y0; \
	FOUND(first)

#define FLOATS32(kind, at, first) \
	VMOVDQU at(SI), Y0; \
	VCMPPS kind, at(DX), Y0, Y0; \
	VPSLLQ $32, Y0, Y0; \
	FOUND(first)

#define FLOATS64(kind, at, first) \
	VMOVDQU at(SI), Y0; \
	VCMPPD kind, at(DX), Y0, Y0; \
	FOUND(first)

// Y12 has the bits of four lanes.

#define CHOICE(op, at, first) \
	VPAND Y10, Y12, Y1; \
	VPCMPEQQ Y12, Y1, Y1; \
	VMOVDQU at(DX), Y0; \
	VBLENDVPD Y1, at(SI), Y0, Y0; \
	VPAND Y11, Y12, Y1; \
	VPCMPEQQ Y12, Y1, Y1; \
	VMOVDQU at(DI), Y2; \
	VBLENDVPD Y1, Y0, Y2, Y2; \
	VMOVDQU Y2, at(DI); \
	VPSLLQ $4, Y12, Y12

// Memory. PLACE leaves the address of the first lane's number in R11 and goes to same if all addresses are the same. It goes
// to none unless they are the same or follow each other, all lanes are active, and all numbers are in the memory.

#define DISTANCES(op, at, first) \
	VMOVDQU at(SI), Y1; \
	VPSUBQ Y0, Y1, Y1; \
	VPAND Y3, Y1, Y1; \
	VPOR Y1, Y7, Y7; \
	VPCMPEQQ Y4, Y1, Y1; \
	VPAND Y1, Y6, Y6; \
	VPADDQ Y5, Y4, Y4

#define PLACE(size, steps) \
	CMPL lanes+24(FP), $-1; \
	JNE none; \
	MOVQ column+0(FP), DI; \
	MOVQ a+8(FP), SI; \
	MOVQ m+16(FP), BX; \
	MOVQ Memory_Size(BX), R9; \
	MOVQ Memory_Access(BX), R10; \
	SUBQ R10, R9; \
	JCS none; \
	DECQ R10; \
	MOVQ (SI), R11; \
	ADDQ Memory_Offset(BX), R11; \
	TESTQ R10, R11; \
	JNE none; \
	SUBQ Memory_Base(BX), R11; \
	ANDQ Memory_Bits(BX), R11; \
	CMPQ R11, R9; \
	JHI none; \
	VPBROADCASTQ (SI), Y0; \
	VPBROADCASTQ Memory_Bits(BX), Y3; \
	VMOVDQU steps(SB), Y4; \
	VPBROADCASTQ steps+32(SB), Y5; \
	VPCMPEQD Y6, Y6, Y6; \
	VPXOR Y7, Y7, Y7; \
	EACH(DISTANCES, NONE); \
	MOVQ R11, AX; \
	ADDQ Memory_Data(BX), R11; \
	VPTEST Y7, Y7; \
	JEQ same; \
	VMOVMSKPD Y6, BX; \
	CMPL BX, $15; \
	JNE none; \
	CMPQ R10, $(size-1); \
	JNE none; \
	ADDQ $(31*size), AX; \
	CMPQ AX, R9; \
	JHI none

#define END(result) \
	VZEROUPPER; \
	MOVB $result, done+32(FP); \
	RET

#define LOAD32(at, from) \
	VPMOVZXDQ from(R11), Y0; \
	VMOVDQU Y0, at(DI)

#define LOAD64(op, at, first) \
	VMOVDQU at(R11), Y0; \
	VMOVDQU Y0, at(DI)

#define SAME(op, at, first) \
	VMOVDQU Y0, at(DI)

#define STORE32(at, to) \
	VPERMD at(DI), Y13, Y0; \
	VMOVDQU X0, to(R11)

#define STORE64(op, at, first) \
	VMOVDQU at(DI), Y0; \
	VMOVDQU Y0, at(R11)

DATA halves<>+0(SB)/8, $0x0000000200000000
DATA halves<>+8(SB)/8, $0x0000000600000004
DATA halves<>+16(SB)/8, $0
DATA halves<>+24(SB)/8, $0
GLOBL halves<>(SB), RODATA|NOPTR, $32

DATA fourLanes<>+0(SB)/8, $1
DATA fourLanes<>+8(SB)/8, $2
DATA fourLanes<>+16(SB)/8, $4
DATA fourLanes<>+24(SB)/8, $8
GLOBL fourLanes<>(SB), RODATA|NOPTR, $32

DATA next32<>+0(SB)/8, $0
DATA next32<>+8(SB)/8, $4
DATA next32<>+16(SB)/8, $8
DATA next32<>+24(SB)/8, $12
DATA next32<>+32(SB)/8, $16
GLOBL next32<>(SB), RODATA|NOPTR, $40

DATA next64<>+0(SB)/8, $0
DATA next64<>+8(SB)/8, $8
DATA next64<>+16(SB)/8, $16
DATA next64<>+24(SB)/8, $24
DATA next64<>+32(SB)/8, $32
GLOBL next64<>(SB), RODATA|NOPTR, $40

// Integers.

TEXT ·add32AVX2(SB), NOSPLIT, $0-44
	FUNC(TWO32, VPADDD)

TEXT ·sub32AVX2(SB), NOSPLIT, $0-44
	FUNC(TWO32, VPSUBD)

TEXT ·mul32AVX2(SB), NOSPLIT, $0-44
	FUNC(TWO32, VPMULLD)

TEXT ·mad32AVX2(SB), NOSPLIT, $0-44
	FUNC(PRODUCT32, VPMULLD)

TEXT ·minU32AVX2(SB), NOSPLIT, $0-44
	FUNC(TWO32, VPMINUD)

TEXT ·maxU32AVX2(SB), NOSPLIT, $0-44
	FUNC(TWO32, VPMAXUD)

TEXT ·minS32AVX2(SB), NOSPLIT, $0-44
	FUNC(TWO32, VPMINSD)

TEXT ·maxS32AVX2(SB), NOSPLIT, $0-44
	FUNC(TWO32, VPMAXSD)

TEXT ·shl32AVX2(SB), NOSPLIT, $0-44
	FUNC(TWO32, VPSLLVD)

TEXT ·shrU32AVX2(SB), NOSPLIT, $0-44
	FUNC(TWO32, VPSRLVD)

TEXT ·shrS32AVX2(SB), NOSPLIT, $0-44
	FUNC(TWO32, VPSRAVD)

TEXT ·extendU32AVX2(SB), NOSPLIT, $0-44
	FUNC(LOWER, NONE)

TEXT ·extendS32AVX2(SB), NOSPLIT, $0-44
	FUNC(SIGNED, NONE)

TEXT ·add64AVX2(SB), NOSPLIT, $0-44
	FUNC(TWO, VPADDQ)

TEXT ·sub64AVX2(SB), NOSPLIT, $0-44
	FUNC(TWO, VPSUBQ)

TEXT ·andAVX2(SB), NOSPLIT, $0-44
	FUNC(TWO, VPAND)

TEXT ·orAVX2(SB), NOSPLIT, $0-44
	FUNC(TWO, VPOR)

TEXT ·xorAVX2(SB), NOSPLIT, $0-44
	FUNC(TWO, VPXOR)

TEXT ·wideU32AVX2(SB), NOSPLIT, $0-44
	FUNC(TWO, VPMULUDQ)

TEXT ·wideS32AVX2(SB), NOSPLIT, $0-44
	FUNC(TWO, VPMULDQ)

TEXT ·madWideU32AVX2(SB), NOSPLIT, $0-44
	FUNC(PRODUCT, VPMULUDQ)

TEXT ·madWideS32AVX2(SB), NOSPLIT, $0-44
	FUNC(PRODUCT, VPMULDQ)

TEXT ·shl64AVX2(SB), NOSPLIT, $0-44
	FUNC(SHIFT, VPSLLVQ)

TEXT ·shrU64AVX2(SB), NOSPLIT, $0-44
	FUNC(SHIFT, VPSRLVQ)

// Floats.

TEXT ·addF32AVX2(SB), NOSPLIT, $0-44
	FUNC(TWOFLOATS, VADDPS)

TEXT ·subF32AVX2(SB), NOSPLIT, $0-44
	FUNC(TWOFLOATS, VSUBPS)

TEXT ·mulF32AVX2(SB), NOSPLIT, $0-44
	FUNC(TWOFLOATS, VMULPS)

TEXT ·divF32AVX2(SB), NOSPLIT, $0-44
	FUNC(TWOFLOATS, VDIVPS)

TEXT ·fmaF32AVX2(SB), NOSPLIT, $0-44
	FUNC(THREEFLOATS, VFMADD213PS)

TEXT ·fromS32AVX2(SB), NOSPLIT, $0-44
	FUNC(CONVERT, VCVTDQ2PS)

TEXT ·addF64AVX2(SB), NOSPLIT, $0-44
	FUNC(TWODOUBLES, VADDPD)

TEXT ·subF64AVX2(SB), NOSPLIT, $0-44
	FUNC(TWODOUBLES, VSUBPD)

TEXT ·mulF64AVX2(SB), NOSPLIT, $0-44
	FUNC(TWODOUBLES, VMULPD)

TEXT ·divF64AVX2(SB), NOSPLIT, $0-44
	FUNC(TWODOUBLES, VDIVPD)

TEXT ·fmaF64AVX2(SB), NOSPLIT, $0-44
	FUNC(THREEDOUBLES, VFMADD213PD)

TEXT ·widenAVX2(SB), NOSPLIT, $0-44
	FUNC(WIDEN, VCVTPS2PD)

TEXT ·narrowAVX2(SB), NOSPLIT, $0-44
	FUNC(NARROW, VCVTPD2PSY)

TEXT ·doubleS32AVX2(SB), NOSPLIT, $0-44
	FUNC(WIDEN, VCVTDQ2PD)

// Comparisons. What is less is compared the other way round.

TEXT ·equal32AVX2(SB), NOSPLIT, $0-20
	COMPARE(a+0(FP), b+8(FP), EQUAL32, VPCMPEQD)

TEXT ·lessS32AVX2(SB), NOSPLIT, $0-20
	COMPARE(b+8(FP), a+0(FP), EQUAL32, VPCMPGTD)

TEXT ·lessU32AVX2(SB), NOSPLIT, $0-20
	VPCMPEQD Y14, Y14, Y14
	VPSLLD $31, Y14, Y14
	COMPARE(b+8(FP), a+0(FP), UNSIGNED32, VPCMPGTD)

TEXT ·equal64AVX2(SB), NOSPLIT, $0-20
	COMPARE(a+0(FP), b+8(FP), EQUAL64, VPCMPEQQ)

TEXT ·lessS64AVX2(SB), NOSPLIT, $0-20
	COMPARE(b+8(FP), a+0(FP), EQUAL64, VPCMPGTQ)

TEXT ·lessU64AVX2(SB), NOSPLIT, $0-20
	VPCMPEQD Y14, Y14, Y14
	VPSLLQ $63, Y14, Y14
	COMPARE(b+8(FP), a+0(FP), UNSIGNED64, VPCMPGTQ)

TEXT ·equalF32AVX2(SB), NOSPLIT, $0-20
	COMPARE(a+0(FP), b+8(FP), FLOATS32, $0)

TEXT ·equalF64AVX2(SB), NOSPLIT, $0-20
	COMPARE(a+0(FP), b+8(FP), FLOATS64, $0)

TEXT ·lessF32AVX2(SB), NOSPLIT, $0-20
	COMPARE(a+0(FP), b+8(FP), FLOATS32, $17)

TEXT ·lessF64AVX2(SB), NOSPLIT, $0-20
	COMPARE(a+0(FP), b+8(FP), FLOATS64, $17)

TEXT ·lessEqualF32AVX2(SB), NOSPLIT, $0-20
	COMPARE(a+0(FP), b+8(FP), FLOATS32, $18)

TEXT ·lessEqualF64AVX2(SB), NOSPLIT, $0-20
	COMPARE(a+0(FP), b+8(FP), FLOATS64, $18)

TEXT ·unorderedF32AVX2(SB), NOSPLIT, $0-20
	COMPARE(a+0(FP), b+8(FP), FLOATS32, $3)

TEXT ·unorderedF64AVX2(SB), NOSPLIT, $0-20
	COMPARE(a+0(FP), b+8(FP), FLOATS64, $3)

// func chooseAVX2(d, a, b *Column, yes, lanes uint32)
TEXT ·chooseAVX2(SB), NOSPLIT, $0-32
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVL yes+24(FP), AX
	VMOVQ AX, X10
	VPBROADCASTQ X10, Y10
	MOVL lanes+28(FP), AX
	VMOVQ AX, X11
	VPBROADCASTQ X11, Y11
	VMOVDQU fourLanes<>(SB), Y12
	EACH(CHOICE, NONE)
	VZEROUPPER
	RET

// Memory.

// func load32AVX2(column, a *Column, m *Memory, lanes uint32) (done bool)
TEXT ·load32AVX2(SB), NOSPLIT, $0-33
	PLACE(4, next32<>)
	LOAD32(0, 0)
	LOAD32(32, 16)
	LOAD32(64, 32)
	LOAD32(96, 48)
	LOAD32(128, 64)
	LOAD32(160, 80)
	LOAD32(192, 96)
	LOAD32(224, 112)
	END(1)

same:
	MOVL (R11), AX
	VMOVQ AX, X0
	VPBROADCASTQ X0, Y0
	EACH(SAME, NONE)
	END(1)

none:
	END(0)

// func load64AVX2(column, a *Column, m *Memory, lanes uint32) (done bool)
TEXT ·load64AVX2(SB), NOSPLIT, $0-33
	PLACE(8, next64<>)
	EACH(LOAD64, NONE)
	END(1)

same:
	VPBROADCASTQ (R11), Y0
	EACH(SAME, NONE)
	END(1)

none:
	END(0)

// func store32AVX2(column, a *Column, m *Memory, lanes uint32) (done bool)
TEXT ·store32AVX2(SB), NOSPLIT, $0-33
	PLACE(4, next32<>)
	VMOVDQU halves<>(SB), Y13
	STORE32(0, 0)
	STORE32(32, 16)
	STORE32(64, 32)
	STORE32(96, 48)
	STORE32(128, 64)
	STORE32(160, 80)
	STORE32(192, 96)
	STORE32(224, 112)
	END(1)

same: // of several lanes the highest counts
	MOVQ 248(DI), AX
	MOVL AX, (R11)
	END(1)

none:
	END(0)

// func store64AVX2(column, a *Column, m *Memory, lanes uint32) (done bool)
TEXT ·store64AVX2(SB), NOSPLIT, $0-33
	PLACE(8, next64<>)
	EACH(STORE64, NONE)
	END(1)

same: // of several lanes the highest counts
	MOVQ 248(DI), AX
	MOVQ AX, (R11)
	END(1)

none:
	END(0)
