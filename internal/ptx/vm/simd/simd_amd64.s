//go:build !cu_portable

#include "go_asm.h"
#include "textflag.h"

// A column has 32 numbers of 64 bits: four registers of 512 bits. K1 to K4 have the lanes of each. A number of 32 bits is
// in the lower half of its place. K6 has these halves: what is computed under it has zeros in the upper ones.
//
// Each macro for a part of a column gets an instruction, where the part begins, the number of its first lane, and its
// lanes.
#define EACH(part, op) \
	part(op, 0, 0, K1); \
	part(op, 64, 8, K2); \
	part(op, 128, 16, K3); \
	part(op, 192, 24, K4)

// LANES puts the lanes in AX into K1 to K4.
#define LANES \
	KMOVD AX, K1; \
	KSHIFTRD $8, K1, K2; \
	KSHIFTRD $16, K1, K3; \
	KSHIFTRD $24, K1, K4

// COLUMNS loads the arguments of a Func. R8 has the lanes that are left to others.
#define COLUMNS \
	MOVQ d+0(FP), DI; \
	MOVQ a+8(FP), SI; \
	MOVQ b+16(FP), DX; \
	MOVQ c+24(FP), CX; \
	MOVL $0x5555, AX; \
	KMOVW AX, K6; \
	MOVL lanes+32(FP), AX; \
	LANES; \
	XORL R8, R8

#define FUNC(part, op) \
	COLUMNS; \
	EACH(part, op); \
	VZEROUPPER; \
	MOVL R8, left+40(FP); \
	RET

// Parts for numbers of 64 bits, and of 32 bits.

#define TWO(op, at, first, lanes) \
	VMOVDQU64 at(SI), Z0; \
	op at(DX), Z0, Z0; \
	VMOVDQU64 Z0, lanes, at(DI)

#define PRODUCT(op, at, first, lanes) \
	VMOVDQU64 at(SI), Z0; \
	op at(DX), Z0, Z0; \
	VPADDQ at(CX), Z0, Z0; \
	VMOVDQU64 Z0, lanes, at(DI)

#define SHIFT(op, at, first, lanes) \
	VMOVDQU64 at(SI), Z0; \
	VMOVDQU32.Z at(DX), K6, Z1; \
	op Z1, Z0, Z0; \
	VMOVDQU64 Z0, lanes, at(DI)

#define ONE32(op, at, first, lanes) \
	VMOVDQU64 at(SI), Z0; \
	op Z0, K6, Z0; \
	VMOVDQU64 Z0, lanes, at(DI)

#define TWO32(op, at, first, lanes) \
	VMOVDQU64 at(SI), Z0; \
	op at(DX), Z0, K6, Z0; \
	VMOVDQU64 Z0, lanes, at(DI)

#define PRODUCT32(op, at, first, lanes) \
	VMOVDQU64 at(SI), Z0; \
	op at(DX), Z0, Z0; \
	VPADDD.Z at(CX), Z0, K6, Z0; \
	VMOVDQU64 Z0, lanes, at(DI)

#define SIGNED(op, at, first, lanes) \
	VPSLLQ $32, at(SI), Z0; \
	op $32, Z0, Z0; \
	VMOVDQU64 Z0, lanes, at(DI)

// Floats of 32 bits: a result that is a NaN is always the same one, which is in Z31.

#define FLOATFUNC(part, op) \
	MOVL $0x7fffffff, AX; \
	VPBROADCASTD AX, Z31; \
	FUNC(part, op)

#define FLOAT(at, lanes) \
	VCMPPS $3, Z0, Z0, K6, K5; \
	VMOVDQA32 Z31, K5, Z0; \
	VMOVDQU64 Z0, lanes, at(DI)

#define TWOFLOATS(op, at, first, lanes) \
	VMOVDQU64 at(SI), Z0; \
	op at(DX), Z0, K6, Z0; \
	FLOAT(at, lanes)

#define THREEFLOATS(op, at, first, lanes) \
	VMOVDQU64 at(SI), Z0; \
	VMOVDQU64 at(DX), Z1; \
	op at(CX), Z1, K6, Z0; \
	FLOAT(at, lanes)

// Floats of 64 bits: lanes whose result is a NaN are left to others, as its payload depends on the order of the operands.

#define LEAVENANS(first, lanes) \
	VCMPPD $3, Z0, Z0, K5; \
	KANDB lanes, K5, K5; \
	KANDNB lanes, K5, lanes; \
	KMOVB K5, AX; \
	SHLL $first, AX; \
	ORL AX, R8

#define DOUBLE(at, first, lanes) \
	LEAVENANS(first, lanes); \
	VMOVDQU64 Z0, lanes, at(DI)

#define TWODOUBLES(op, at, first, lanes) \
	VMOVDQU64 at(SI), Z0; \
	op at(DX), Z0, Z0; \
	DOUBLE(at, first, lanes)

#define THREEDOUBLES(op, at, first, lanes) \
	VMOVDQU64 at(SI), Z0; \
	VMOVDQU64 at(DX), Z1; \
	op at(CX), Z1, Z0; \
	DOUBLE(at, first, lanes)

#define WIDEN(op, at, first, lanes) \
	VMOVDQU64 at(SI), Z0; \
	VPMOVQD Z0, Y0; \
	op Y0, Z0; \
	DOUBLE(at, first, lanes)

#define NARROW(op, at, first, lanes) \
	VMOVDQU64 at(SI), Z0; \
	LEAVENANS(first, lanes); \
	op Z0, Y0; \
	VPMOVZXDQ Y0, Z0; \
	VMOVDQU64 Z0, lanes, at(DI)

// Comparisons: those of 32 bits also compare the upper halves of places, and PEXTQ drops these results.

#define COMPARE(op, kind) \
	MOVQ a+0(FP), SI; \
	MOVQ b+8(FP), DX; \
	VMOVDQU64 (SI), Z0; \
	VMOVDQU64 64(SI), Z1; \
	VMOVDQU64 128(SI), Z2; \
	VMOVDQU64 192(SI), Z3; \
	op kind, (DX), Z0, K1; \
	op kind, 64(DX), Z1, K2; \
	op kind, 128(DX), Z2, K3; \
	op kind, 192(DX), Z3, K4; \
	VZEROUPPER

#define COMPARE32(op, kind) \
	COMPARE(op, kind); \
	KUNPCKWD K1, K2, K1; \
	KUNPCKWD K3, K4, K3; \
	KUNPCKDQ K1, K3, K1; \
	KMOVQ K1, AX; \
	MOVQ $0x5555555555555555, BX; \
	PEXTQ BX, AX, AX; \
	MOVL AX, yes+16(FP); \
	RET

#define COMPARE64(op, kind) \
	COMPARE(op, kind); \
	KUNPCKBW K1, K2, K1; \
	KUNPCKBW K3, K4, K3; \
	KUNPCKWD K1, K3, K1; \
	KMOVD K1, AX; \
	MOVL AX, yes+16(FP); \
	RET

#define CHOICE(op, at, first, lanes) \
	VMOVDQU64 at(DX), Z0; \
	VMOVDQU64 at(SI), K5, Z0; \
	VMOVDQU64 Z0, lanes, at(DI); \
	KSHIFTRD $8, K5, K5

// Memory. PLACES computes the places of all lanes in Z0 to Z3, and goes to none if one of the lanes has no place. Z21 has
// the places of numbers that follow each other.

#define PLACE(at, lanes, z) \
	VPADDQ at(SI), Z16, z; \
	VPTESTMQ Z19, z, lanes, K5; \
	VPSUBQ Z17, z, z; \
	VPANDQ Z20, z, z; \
	VPCMPUQ $6, Z18, z, lanes, K6; \
	KORB K5, K6, K5; \
	KORB K5, K7, K7

#define PLACES(steps, none) \
	MOVQ column+0(FP), DI; \
	MOVQ a+8(FP), SI; \
	MOVQ m+16(FP), BX; \
	MOVQ Memory_Size(BX), R9; \
	MOVQ Memory_Access(BX), R10; \
	SUBQ R10, R9; \
	JCS none; \
	VPBROADCASTQ R9, Z18; \
	DECQ R10; \
	VPBROADCASTQ R10, Z19; \
	VPBROADCASTQ Memory_Offset(BX), Z16; \
	VPBROADCASTQ Memory_Base(BX), Z17; \
	VPBROADCASTQ Memory_Bits(BX), Z20; \
	VMOVDQU64 steps(SB), Z21; \
	MOVQ Memory_Data(BX), R9; \
	MOVL lanes+24(FP), AX; \
	LANES; \
	KXORB K7, K7, K7; \
	PLACE(0, K1, Z0); \
	PLACE(64, K2, Z1); \
	PLACE(128, K3, Z2); \
	PLACE(192, K4, Z3); \
	KORTESTB K7, K7; \
	JNE none

// UNLESSNEXT goes to no if the eight places in z, whose lowest part is x, do not follow each other, or a lane is not active.
// R10 is the first place. Z5 has the distances from it, and K5 the lanes that are not active.
#define UNLESSNEXT(z, x, lanes, no) \
	VPBROADCASTQ x, Z5; \
	VPSUBQ Z5, z, Z5; \
	KNOTB lanes, K5; \
	VPCMPUQ $4, Z21, Z5, K6; \
	KORTESTB K5, K6; \
	JNE no; \
	MOVQ x, R10

// UNLESSSAME goes to no if these places are not all the same.
#define UNLESSSAME(x, no) \
	VPTESTMQ Z5, Z5, K6; \
	KORTESTB K5, K6; \
	JNE no; \
	MOVQ x, R10

#define END(result) \
	VZEROUPPER; \
	MOVB $result, done+32(FP); \
	RET

// LOAD32 and LOAD64 load eight numbers. The last arguments are labels.
#define LOAD32(at, z, x, lanes, same, gather, end) \
	UNLESSNEXT(z, x, lanes, same); \
	VPMOVZXDQ (R9)(R10*1), Z8; \
	JMP end; \
same:; \
	UNLESSSAME(x, gather); \
	MOVL (R9)(R10*1), R10; \
	VPBROADCASTQ R10, Z8; \
	JMP end; \
gather:; \
	KMOVB lanes, K5; \
	VPGATHERQD (R9)(z*1), K5, Y8; \
	VPMOVZXDQ Y8, Z8; \
end:; \
	VMOVDQU64 Z8, lanes, at(DI)

#define LOAD64(at, z, x, lanes, same, gather, end) \
	UNLESSNEXT(z, x, lanes, same); \
	VMOVDQU64 (R9)(R10*1), Z8; \
	JMP end; \
same:; \
	UNLESSSAME(x, gather); \
	VPBROADCASTQ (R9)(R10*1), Z8; \
	JMP end; \
gather:; \
	KMOVB lanes, K5; \
	VPGATHERQQ (R9)(z*1), K5, Z8; \
end:; \
	VMOVDQU64 Z8, lanes, at(DI)

// STORE32 and STORE64 store eight numbers. Several lanes may write to one place: the highest of them counts, as scattering
// goes from the lowest to the highest.
#define STORE32(at, z, x, lanes, scatter, end) \
	VMOVDQU64 at(DI), Z8; \
	VPMOVQD Z8, Y8; \
	UNLESSNEXT(z, x, lanes, scatter); \
	VMOVDQU64 Y8, (R9)(R10*1); \
	JMP end; \
scatter:; \
	KMOVB lanes, K5; \
	VPSCATTERQD Y8, K5, (R9)(z*1); \
end:

#define STORE64(at, z, x, lanes, scatter, end) \
	VMOVDQU64 at(DI), Z8; \
	UNLESSNEXT(z, x, lanes, scatter); \
	VMOVDQU64 Z8, (R9)(R10*1); \
	JMP end; \
scatter:; \
	KMOVB lanes, K5; \
	VPSCATTERQQ Z8, K5, (R9)(z*1); \
end:

// Integers of 32 bits.

TEXT ·add32(SB), NOSPLIT, $0-44
	FUNC(TWO32, VPADDD.Z)

TEXT ·sub32(SB), NOSPLIT, $0-44
	FUNC(TWO32, VPSUBD.Z)

TEXT ·mul32(SB), NOSPLIT, $0-44
	FUNC(TWO32, VPMULLD.Z)

TEXT ·mad32(SB), NOSPLIT, $0-44
	FUNC(PRODUCT32, VPMULLD)

TEXT ·minU32(SB), NOSPLIT, $0-44
	FUNC(TWO32, VPMINUD.Z)

TEXT ·maxU32(SB), NOSPLIT, $0-44
	FUNC(TWO32, VPMAXUD.Z)

TEXT ·minS32(SB), NOSPLIT, $0-44
	FUNC(TWO32, VPMINSD.Z)

TEXT ·maxS32(SB), NOSPLIT, $0-44
	FUNC(TWO32, VPMAXSD.Z)

TEXT ·shl32(SB), NOSPLIT, $0-44
	FUNC(TWO32, VPSLLVD.Z)

TEXT ·shrU32(SB), NOSPLIT, $0-44
	FUNC(TWO32, VPSRLVD.Z)

TEXT ·shrS32(SB), NOSPLIT, $0-44
	FUNC(TWO32, VPSRAVD.Z)

TEXT ·extendU32(SB), NOSPLIT, $0-44
	FUNC(ONE32, VMOVDQA32.Z)

TEXT ·extendS32(SB), NOSPLIT, $0-44
	FUNC(SIGNED, VPSRAQ)

// Integers of 64 bits, and operations for which the size does not count.

TEXT ·add64(SB), NOSPLIT, $0-44
	FUNC(TWO, VPADDQ)

TEXT ·sub64(SB), NOSPLIT, $0-44
	FUNC(TWO, VPSUBQ)

TEXT ·mul64(SB), NOSPLIT, $0-44
	FUNC(TWO, VPMULLQ)

TEXT ·mad64(SB), NOSPLIT, $0-44
	FUNC(PRODUCT, VPMULLQ)

TEXT ·minU64(SB), NOSPLIT, $0-44
	FUNC(TWO, VPMINUQ)

TEXT ·maxU64(SB), NOSPLIT, $0-44
	FUNC(TWO, VPMAXUQ)

TEXT ·minS64(SB), NOSPLIT, $0-44
	FUNC(TWO, VPMINSQ)

TEXT ·maxS64(SB), NOSPLIT, $0-44
	FUNC(TWO, VPMAXSQ)

TEXT ·and(SB), NOSPLIT, $0-44
	FUNC(TWO, VPANDQ)

TEXT ·or(SB), NOSPLIT, $0-44
	FUNC(TWO, VPORQ)

TEXT ·xor(SB), NOSPLIT, $0-44
	FUNC(TWO, VPXORQ)

TEXT ·wideU32(SB), NOSPLIT, $0-44
	FUNC(TWO, VPMULUDQ)

TEXT ·wideS32(SB), NOSPLIT, $0-44
	FUNC(TWO, VPMULDQ)

TEXT ·madWideU32(SB), NOSPLIT, $0-44
	FUNC(PRODUCT, VPMULUDQ)

TEXT ·madWideS32(SB), NOSPLIT, $0-44
	FUNC(PRODUCT, VPMULDQ)

TEXT ·shl64(SB), NOSPLIT, $0-44
	FUNC(SHIFT, VPSLLVQ)

TEXT ·shrU64(SB), NOSPLIT, $0-44
	FUNC(SHIFT, VPSRLVQ)

TEXT ·shrS64(SB), NOSPLIT, $0-44
	FUNC(SHIFT, VPSRAVQ)

// Floats.

TEXT ·addF32(SB), NOSPLIT, $0-44
	FLOATFUNC(TWOFLOATS, VADDPS.Z)

TEXT ·subF32(SB), NOSPLIT, $0-44
	FLOATFUNC(TWOFLOATS, VSUBPS.Z)

TEXT ·mulF32(SB), NOSPLIT, $0-44
	FLOATFUNC(TWOFLOATS, VMULPS.Z)

TEXT ·divF32(SB), NOSPLIT, $0-44
	FLOATFUNC(TWOFLOATS, VDIVPS.Z)

TEXT ·fmaF32(SB), NOSPLIT, $0-44
	FLOATFUNC(THREEFLOATS, VFMADD213PS.Z)

TEXT ·fromS32(SB), NOSPLIT, $0-44
	FUNC(ONE32, VCVTDQ2PS.Z)

TEXT ·fromU32(SB), NOSPLIT, $0-44
	FUNC(ONE32, VCVTUDQ2PS.Z)

TEXT ·addF64(SB), NOSPLIT, $0-44
	FUNC(TWODOUBLES, VADDPD)

TEXT ·subF64(SB), NOSPLIT, $0-44
	FUNC(TWODOUBLES, VSUBPD)

TEXT ·mulF64(SB), NOSPLIT, $0-44
	FUNC(TWODOUBLES, VMULPD)

TEXT ·divF64(SB), NOSPLIT, $0-44
	FUNC(TWODOUBLES, VDIVPD)

TEXT ·fmaF64(SB), NOSPLIT, $0-44
	FUNC(THREEDOUBLES, VFMADD213PD)

TEXT ·widen(SB), NOSPLIT, $0-44
	FUNC(WIDEN, VCVTPS2PD)

TEXT ·narrow(SB), NOSPLIT, $0-44
	FUNC(NARROW, VCVTPD2PS)

TEXT ·doubleS32(SB), NOSPLIT, $0-44
	FUNC(WIDEN, VCVTDQ2PD)

TEXT ·doubleU32(SB), NOSPLIT, $0-44
	FUNC(WIDEN, VCVTUDQ2PD)

// Comparisons.

TEXT ·equal32(SB), NOSPLIT, $0-20
	COMPARE32(VPCMPUD, $0)

TEXT ·lessU32(SB), NOSPLIT, $0-20
	COMPARE32(VPCMPUD, $1)

TEXT ·lessS32(SB), NOSPLIT, $0-20
	COMPARE32(VPCMPD, $1)

TEXT ·equal64(SB), NOSPLIT, $0-20
	COMPARE64(VPCMPUQ, $0)

TEXT ·lessU64(SB), NOSPLIT, $0-20
	COMPARE64(VPCMPUQ, $1)

TEXT ·lessS64(SB), NOSPLIT, $0-20
	COMPARE64(VPCMPQ, $1)

TEXT ·equalF32(SB), NOSPLIT, $0-20
	COMPARE32(VCMPPS, $0)

TEXT ·lessF32(SB), NOSPLIT, $0-20
	COMPARE32(VCMPPS, $17)

TEXT ·lessEqualF32(SB), NOSPLIT, $0-20
	COMPARE32(VCMPPS, $18)

TEXT ·unorderedF32(SB), NOSPLIT, $0-20
	COMPARE32(VCMPPS, $3)

TEXT ·equalF64(SB), NOSPLIT, $0-20
	COMPARE64(VCMPPD, $0)

TEXT ·lessF64(SB), NOSPLIT, $0-20
	COMPARE64(VCMPPD, $17)

TEXT ·lessEqualF64(SB), NOSPLIT, $0-20
	COMPARE64(VCMPPD, $18)

TEXT ·unorderedF64(SB), NOSPLIT, $0-20
	COMPARE64(VCMPPD, $3)

// func choose(d, a, b *Column, yes, lanes uint32)
TEXT ·choose(SB), NOSPLIT, $0-32
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVL yes+24(FP), AX
	KMOVD AX, K5
	MOVL lanes+28(FP), AX
	LANES
	EACH(CHOICE, NONE)
	VZEROUPPER
	RET

// Memory.

DATA steps32<>+0(SB)/8, $0
DATA steps32<>+8(SB)/8, $4
DATA steps32<>+16(SB)/8, $8
DATA steps32<>+24(SB)/8, $12
DATA steps32<>+32(SB)/8, $16
DATA steps32<>+40(SB)/8, $20
DATA steps32<>+48(SB)/8, $24
DATA steps32<>+56(SB)/8, $28
GLOBL steps32<>(SB), RODATA|NOPTR, $64

DATA steps64<>+0(SB)/8, $0
DATA steps64<>+8(SB)/8, $8
DATA steps64<>+16(SB)/8, $16
DATA steps64<>+24(SB)/8, $24
DATA steps64<>+32(SB)/8, $32
DATA steps64<>+40(SB)/8, $40
DATA steps64<>+48(SB)/8, $48
DATA steps64<>+56(SB)/8, $56
GLOBL steps64<>(SB), RODATA|NOPTR, $64

// func load32(column, a *Column, m *Memory, lanes uint32) (done bool)
TEXT ·load32(SB), NOSPLIT, $0-33
	PLACES(steps32<>, none)
	LOAD32(0, Z0, X0, K1, same0, gather0, end0)
	LOAD32(64, Z1, X1, K2, same1, gather1, end1)
	LOAD32(128, Z2, X2, K3, same2, gather2, end2)
	LOAD32(192, Z3, X3, K4, same3, gather3, end3)
	END(1)

none:
	END(0)

// func load64(column, a *Column, m *Memory, lanes uint32) (done bool)
TEXT ·load64(SB), NOSPLIT, $0-33
	PLACES(steps64<>, none)
	LOAD64(0, Z0, X0, K1, same0, gather0, end0)
	LOAD64(64, Z1, X1, K2, same1, gather1, end1)
	LOAD64(128, Z2, X2, K3, same2, gather2, end2)
	LOAD64(192, Z3, X3, K4, same3, gather3, end3)
	END(1)

none:
	END(0)

// func store32(column, a *Column, m *Memory, lanes uint32) (done bool)
TEXT ·store32(SB), NOSPLIT, $0-33
	PLACES(steps32<>, none)
	STORE32(0, Z0, X0, K1, scatter0, end0)
	STORE32(64, Z1, X1, K2, scatter1, end1)
	STORE32(128, Z2, X2, K3, scatter2, end2)
	STORE32(192, Z3, X3, K4, scatter3, end3)
	END(1)

none:
	END(0)

// func store64(column, a *Column, m *Memory, lanes uint32) (done bool)
TEXT ·store64(SB), NOSPLIT, $0-33
	PLACES(steps64<>, none)
	STORE64(0, Z0, X0, K1, scatter0, end0)
	STORE64(64, Z1, X1, K2, scatter1, end1)
	STORE64(128, Z2, X2, K3, scatter2, end2)
	STORE64(192, Z3, X3, K4, scatter3, end3)
	END(1)

none:
	END(0)

// func cpuid(leaf uint32) (b, c uint32)
TEXT ·cpuid(SB), NOSPLIT, $0-16
	MOVL leaf+0(FP), AX
	XORL CX, CX
	CPUID
	MOVL BX, b+8(FP)
	MOVL CX, c+12(FP)
	RET

// func xgetbv() (states uint32)
TEXT ·xgetbv(SB), NOSPLIT, $0-4
	XORL CX, CX
	XGETBV
	MOVL AX, states+0(FP)
	RET
