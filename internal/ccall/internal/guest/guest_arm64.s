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

// SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV and SIGSYS as bits, and those after which the
// instruction is executed again.
#define FAULTS 0x800009b0
#define REFAULTS 0x990

// The offset of a siginfo's field for the origin of the signal, and its negated value for tgkill.
#define SI_CODE 8
#define SI_TKILL_NEG 6

// The offset of the interrupted code's signal mask in a ucontext.
#define UC_SIGMASK 40

// The assembler does not know the register by name.
#define MRS_TPIDR_R9  WORD $0xd53bd049
#define MRS_TPIDR_R0  WORD $0xd53bd040
#define MSR_TPIDR_R0  WORD $0xd51bd040
#define MRS_TPIDR_R22 WORD $0xd53bd056
#define MSR_TPIDR_R22 WORD $0xd51bd056

// C functions have to preserve R27, which the assembler uses to load a variable. So load the
// variable's address first.

// These wait on, and wake, the state of the identity in R19. They change R0 to R3 and R8.
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

// These block all signals and save the mask at off(RSP), and restore it.
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

// All signals but 32, with which glibc cancels threads.
GLOBL most<>(SB), NOPTR|RODATA, $8
DATA most<>(SB)/8, $0xffffffff7fffffff

GLOBL arrived<>(SB), NOPTR|RODATA, $4
DATA arrived<>(SB)/4, $"\x00up\x00"

// trying says that this is a child, which has to end where the program would begin.
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
	// The child inherits this thread's signal mask. No signal may arrive in it, as it has no Go.
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
	// A child process: its output goes to fd, and it writes no core.
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

// bootMain is the entry point of the main program in memory.
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
	BRK                      // never reached: the boot thread does not end

// identityMain is the start function of a glibc thread: a C function with one argument, the
// identity, in R0. It makes the calls that are posted to the identity, until its state is ending.
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
	// Block signals again that C has unblocked.
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
// C preserves R19 to R28. Go's assembly functions may change all of them but R28, which is g.
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

// threadHook is pthread_create for all libraries. It blocks all signals and calls the real
// function, so that the new thread inherits this mask. No Go handler may run on a thread that Go
// does not know.
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
	// The real function is not known yet: a constructor runs before the program has begun.
	MOVD  $11, R0 // EAGAIN
	RET

// actionHook is sigaction for all libraries. It reports success for a handler without installing
// it, as the handler would look for thread-local storage on Go threads. It forwards all other
// calls.
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

// guard is the signal handler, see signals.go: a C function of a signal, its siginfo and its
// ucontext, in R0, R1 and R2. Go threads have no thread pointer. C threads, and Go threads that run
// C, have one. On these Go's handler would not find g.
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
	BNE  fatal                   // a process that C has forked
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
	BEQ  hold                    // the first thread runs C
	MOVD R12, R0
	MOVD R12, R1
	MOVD R10, R2
	MOVD $SYS_tgkill, R8
	SVC
	RET

hold:
	// Send it to this thread, on which it arrives after the C call. On a C thread it never arrives,
	// which does no harm.
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
	RET                          // the instruction faults again

self:
	// It is delivered when the guard returns, unless it is blocked.
	MOVD $SYS_gettid, R8
	SVC
	MOVD R0, R1
	MOVD R12, R0
	MOVD R10, R2
	MOVD $SYS_tgkill, R8
	SVC
	RET

// callWords calls the function of a frame6, in R0.
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
