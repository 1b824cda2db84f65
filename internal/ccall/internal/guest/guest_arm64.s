//go:build cu_static && linux && !cgo && !go1.28

#include "textflag.h"

// An identity, see identity.go.
#define TPIDR 0
#define STACK 8
#define STATE 16
#define THUNK 24
#define FRAME 32

#define IDLE 1
#define POSTED 2
#define ENDING 3
#define ENDED 4

#define SYS_dup3 24
#define SYS_write 64
#define SYS_exit_group 94
#define SYS_futex 98
#define SYS_tgkill 131
#define SYS_rt_sigaction 134
#define SYS_rt_sigprocmask 135
#define SYS_prctl 167
#define SYS_getpid 172
#define SYS_gettid 178
#define SYS_clone 220

#define SIGABRT 6
#define SIGURG 23
#define SIGPROF 27
#define SIGSETXID 33

// SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV and SIGSYS, as bits, and those of which the
// instruction is tried again.
#define FAULTS 0x800009b0
#define REFAULTS 0x990

// What a signal's siginfo says of where it comes from, and, negated, that it is from tgkill.
#define SI_CODE 8
#define SI_TKILL_NEG 6

// The signals that were blocked where a signal has interrupted something.
#define UC_SIGMASK 40

// The assembler does not know the register by name.
#define MRS_TPIDR_R9  WORD $0xd53bd049
#define MRS_TPIDR_R0  WORD $0xd53bd040
#define MSR_TPIDR_R0  WORD $0xd51bd040
#define MRS_TPIDR_R22 WORD $0xd53bd056
#define MSR_TPIDR_R22 WORD $0xd51bd056

// C's functions have to preserve R27, too, which the assembler takes to load a variable: load its
// address first.

// Both wait on, or wake, the state of the identity in R19. They change R0 to R3 and R8.
#define FUTEX_WAIT(value) \
	ADD  $STATE, R19, R0; \
	MOVD $128, R1; \
	MOVD $value, R2; \
	MOVD ZR, R3; \
	MOVD $SYS_futex, R8; \
	SVC
#define FUTEX_WAKE \
	ADD  $STATE, R19, R0; \
	MOVD $129, R1; \
	MOVD $1, R2; \
	MOVD $SYS_futex, R8; \
	SVC
#define LOAD_STATE \
	ADD   $STATE, R19, R0; \
	LDARW (R0), R0
#define STORE_STATE(value) \
	ADD   $STATE, R19, R0; \
	MOVD  $value, R1; \
	STLRW R1, (R0)

// Blocks all signals, whose mask then was goes to off(RSP), and puts it back.
#define BLOCK(set, off) \
	MOVD $2, R0; \
	MOVD $set<>(SB), R1; \
	ADD  $off, RSP, R2; \
	MOVD $8, R3; \
	MOVD $SYS_rt_sigprocmask, R8; \
	SVC
#define UNBLOCK(off) \
	MOVD $2, R0; \
	ADD  $off, RSP, R1; \
	MOVD ZR, R2; \
	MOVD $8, R3; \
	MOVD $SYS_rt_sigprocmask, R8; \
	SVC

GLOBL all<>(SB), NOPTR|RODATA, $8
DATA all<>(SB)/8, $-1

// All but signal 32, by which glibc ends threads.
GLOBL most<>(SB), NOPTR|RODATA, $8
DATA most<>(SB)/8, $0xffffffff7fffffff

GLOBL arrived<>(SB), NOPTR|RODATA, $4
DATA arrived<>(SB)/4, $"\x00up\x00"

// trying says that this is a child which shall end where the program would begin.
GLOBL trying<>(SB), NOPTR, $8

GLOBL ·bootMainABI0(SB), NOPTR|RODATA, $8
DATA ·bootMainABI0(SB)/8, $bootMain<>(SB)
GLOBL ·identityMainABI0(SB), NOPTR|RODATA, $8
DATA ·identityMainABI0(SB)/8, $identityMain<>(SB)
GLOBL ·threadHookABI0(SB), NOPTR|RODATA, $8
DATA ·threadHookABI0(SB)/8, $threadHook<>(SB)
GLOBL ·actionHookABI0(SB), NOPTR|RODATA, $8
DATA ·actionHookABI0(SB)/8, $actionHook<>(SB)

// func cloneAt(flags, entry, sp uintptr, fd int) (pid int32)
TEXT ·cloneAt(SB), NOSPLIT, $16-36
	// The child keeps this thread's signal mask: none may come where there is no Go.
	BLOCK(all, 8)
	MOVD flags+0(FP), R0
	MOVD sp+16(FP), R1
	MOVD entry+8(FP), R19
	MOVD fd+24(FP), R20
	MOVD ZR, R2
	MOVD ZR, R3
	MOVD ZR, R4
	MOVD $SYS_clone, R8
	SVC
	CBZ  R0, child
	MOVW R0, pid+32(FP)
	UNBLOCK(8)
	RET

child:
	TBNZ $63, R20, begin
	// A process of its own: what it says goes to fd, and it leaves no core.
	MOVD $1, R0
	MOVD $trying<>(SB), R1
	MOVD R0, (R1)
	MOVD $4, R0              // PR_SET_DUMPABLE
	MOVD ZR, R1
	MOVD $SYS_prctl, R8
	SVC
	MOVD R20, R0
	MOVD $1, R1
	MOVD ZR, R2
	MOVD $SYS_dup3, R8
	SVC
	MOVD R20, R0
	MOVD $2, R1
	MOVD ZR, R2
	MOVD $SYS_dup3, R8
	SVC

begin:
	MOVD ZR, R29
	MOVD ZR, R30
	MOVD ZR, R0              // no function to run at exit
	JMP  (R19)

// bootMain is where the loader believes the program begins.
TEXT bootMain<>(SB), NOSPLIT|NOFRAME, $0
	MOVD $trying<>(SB), R0
	MOVD (R0), R0
	CBZ  R0, here
	MOVD $1, R0
	MOVD $arrived<>(SB), R1
	MOVD $4, R2
	MOVD $SYS_write, R8
	SVC
	MOVD ZR, R0
	MOVD $SYS_exit_group, R8
	SVC
	BRK

here:
	MOVD $·bootIdentity(SB), R0
	MOVD (R0), R0
	MOVD RSP, R1
	AND  $~63, R1
	MOVD R1, RSP
	BL   identityMain<>(SB)
	BRK                      // nobody has it end

// identityMain is where a thread of glibc's begins: a C function of one argument, the
// identity, in R0. It makes the calls that are posted to it, until it shall end.
TEXT identityMain<>(SB), NOSPLIT|NOFRAME, $0
	STP.W (R29, R30), -32(RSP)
	STP   (R19, R20), 16(RSP)
	MOVD  RSP, R29
	MOVD  R0, R19
	MRS_TPIDR_R0
	MOVD  R0, TPIDR(R19)
	MOVD  RSP, R0
	SUB   $1024, R0
	AND   $~63, R0
	MOVD  R0, STACK(R19)

done:
	// Signals that C has let through are blocked again.
	MOVD $2, R0
	MOVD $all<>(SB), R1
	MOVD ZR, R2
	MOVD $8, R3
	MOVD $SYS_rt_sigprocmask, R8
	SVC
	STORE_STATE(IDLE)
	FUTEX_WAKE

wait:
	LOAD_STATE
	CMPW $POSTED, R0
	BEQ  call
	CMPW $ENDING, R0
	BEQ  end
	FUTEX_WAIT(IDLE)
	JMP  wait

call:
	MOVD FRAME(R19), R0
	MOVD THUNK(R19), R9
	CALL (R9)
	JMP  done

end:
	STORE_STATE(ENDED)
	LDP   16(RSP), (R19, R20)
	LDP.P 32(RSP), (R29, R30)
	MOVD  ZR, R0
	RET

// func postAndWait(id *identity, thunk, frame unsafe.Pointer)
TEXT ·postAndWait(SB), NOSPLIT, $0-24
	MOVD id+0(FP), R19
	MOVD thunk+8(FP), R0
	MOVD R0, THUNK(R19)
	MOVD frame+16(FP), R0
	MOVD R0, FRAME(R19)
	STORE_STATE(POSTED)
	FUTEX_WAKE

wait:
	LOAD_STATE
	CMPW $IDLE, R0
	BEQ  done
	FUTEX_WAIT(POSTED)
	JMP  wait

done:
	MOVD ZR, FRAME(R19)
	RET

// func directOn(id *identity, thunk, frame unsafe.Pointer)
//
// R19 to R28 are C's to preserve, R28 being g, and Go's assembly functions may change all
// but that.
TEXT ·directOn(SB), NOSPLIT, $0-24
	MOVD id+0(FP), R19
	MOVD thunk+8(FP), R20
	MOVD frame+16(FP), R21
	MRS_TPIDR_R22
	MOVD TPIDR(R19), R0
	MSR_TPIDR_R0
	MOVD RSP, R23
	MOVD STACK(R19), R0
	MOVD R0, RSP
	MOVD R21, R0
	CALL (R20)
	MOVD R23, RSP
	MSR_TPIDR_R22
	RET

// func blockSignals() (mask uint64)
TEXT ·blockSignals(SB), NOSPLIT, $16-8
	BLOCK(all, 8)
	MOVD 8(RSP), R0
	MOVD R0, mask+0(FP)
	RET

// func setSignals(mask uint64)
TEXT ·setSignals(SB), NOSPLIT, $16-8
	MOVD mask+0(FP), R0
	MOVD R0, 8(RSP)
	UNBLOCK(8)
	RET

// threadHook is pthread_create for all libraries: a thread begins with its maker's
// signal mask, so all signals are blocked while the real function makes it. None of Go's
// handlers may run on a thread that Go does not know.
TEXT threadHook<>(SB), NOSPLIT|NOFRAME, $0
	MOVD  $·realThreadCreate(SB), R9
	MOVD  (R9), R9
	CBZ   R9, early
	STP.W (R29, R30), -64(RSP)
	MOVD  RSP, R29
	STP   (R0, R1), 16(RSP)
	STP   (R2, R3), 32(RSP)
	BLOCK(most, 48)
	LDP   16(RSP), (R0, R1)
	LDP   32(RSP), (R2, R3)
	MOVD  $·realThreadCreate(SB), R9
	MOVD  (R9), R9
	CALL  (R9)
	MOVD  R0, 16(RSP)
	UNBLOCK(48)
	MOVD  16(RSP), R0
	LDP.P 64(RSP), (R29, R30)
	RET

early:
	// A constructor, before the program has begun: it is not known yet.
	MOVD  $11, R0 // EAGAIN
	RET

// actionHook is sigaction for all libraries. A handler of theirs, which would look for thread-local
// storage on Go's threads, is taken as if it was put in place; all else is done.
TEXT actionHook<>(SB), NOSPLIT|NOFRAME, $0
	CBZ  R1, real
	MOVD (R1), R9
	CMP  $1, R9                  // SIG_DFL is 0, SIG_IGN is 1
	BLS  real
	MOVD ZR, R1

real:
	MOVD $·sigactionAt(SB), R9
	MOVD (R9), R9
	MOVD (R9), R9
	JMP  (R9)

// guard handles signals, see signals.go: a C function of a signal, its siginfo, and what was
// interrupted, in R0, R1 and R2. Go's threads have no thread pointer, and others, or they
// themselves while they are in C, have one. Then g is not where Go's handler looks for it.
GLOBL ·guardABI0(SB), NOPTR|RODATA, $8
DATA ·guardABI0(SB)/8, $guard<>(SB)

GLOBL defaultAction<>(SB), NOPTR|RODATA, $32

TEXT guard<>(SB), NOSPLIT|NOFRAME, $0
	MRS_TPIDR_R9
	CBNZ R9, strange
	MOVD $·goHandler(SB), R9
	MOVD (R9), R9
	JMP  (R9)

strange:
	MOVW R0, R10
	MOVW SI_CODE(R1), R11
	MOVD $SYS_getpid, R8
	SVC
	MOVD R0, R12
	MOVD $·ownPID(SB), R13
	MOVD (R13), R13
	CMP  R12, R13
	BNE  fatal                   // in a process that C has forked
	CMPW $SIGPROF, R10
	BEQ  hold
	CMNW $SI_TKILL_NEG, R11
	BNE  fault
	CMPW $SIGABRT, R10
	BEQ  fatal
	CMPW $SIGURG, R10
	BEQ  hold
	CMPW $SIGSETXID, R10
	BEQ  hold

fault:
	MOVD $FAULTS, R14
	LSR  R10, R14, R14
	TBZ  $0, R14, pass
	CMPW $0, R11
	BGT  fatal                   // from the kernel

pass:
	MOVD $SYS_gettid, R8
	SVC
	CMP  R0, R12
	BEQ  hold                    // the first thread is in C
	MOVD R12, R0
	MOVD R12, R1
	MOVD R10, R2
	MOVD $SYS_tgkill, R8
	SVC
	RET

hold:
	// It is for this thread, and comes when C's call is over. If the thread is C's, it never does, and does not matter.
	SUB  $1, R10, R14
	MOVD $1, R15
	LSL  R14, R15, R15
	MOVD UC_SIGMASK(R2), R14
	ORR  R15, R14, R14
	MOVD R14, UC_SIGMASK(R2)
	JMP  self

fatal:
	MOVD R10, R0
	MOVD $defaultAction<>(SB), R1
	MOVD ZR, R2
	MOVD $8, R3
	MOVD $SYS_rt_sigaction, R8
	SVC
	MOVD $REFAULTS, R14
	LSR  R10, R14, R14
	TBZ  $0, R14, self
	CMPW $0, R11
	BLE  self
	RET                          // the instruction faults once more

self:
	// Delivered when this returns, unless it is blocked.
	MOVD $SYS_gettid, R8
	SVC
	MOVD R0, R1
	MOVD R12, R0
	MOVD R10, R2
	MOVD $SYS_tgkill, R8
	SVC
	RET

// callWords calls the function of a frame of six words, in R0: see frame6.
GLOBL ·callWordsABI0(SB), NOPTR|RODATA, $8
DATA ·callWordsABI0(SB)/8, $callWords<>(SB)

TEXT callWords<>(SB), NOSPLIT|NOFRAME, $0
	STP.W (R29, R30), -32(RSP)
	MOVD  R19, 16(RSP)
	MOVD  RSP, R29
	MOVD  R0, R19
	LDP   16(R19), (R0, R1)
	LDP   32(R19), (R2, R3)
	LDP   48(R19), (R4, R5)
	MOVD  0(R19), R9
	CALL  (R9)
	MOVD  R0, 8(R19)
	MOVD  16(RSP), R19
	LDP.P 32(RSP), (R29, R30)
	RET

// func threadPointer() uintptr
TEXT ·threadPointer(SB), NOSPLIT, $0-8
	MRS_TPIDR_R0
	MOVD R0, ret+0(FP)
	RET

// func gettid() int32
TEXT ·gettid(SB), NOSPLIT, $0-4
	MOVD $SYS_gettid, R8
	SVC
	MOVW R0, ret+0(FP)
	RET
