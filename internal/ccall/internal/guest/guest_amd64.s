//go:build cu_static && linux && !cgo && !go1.28

#include "textflag.h"

// An identity, see identity.go.
#define FSBASE 0
#define STACK 8
#define STATE 16
#define THUNK 24
#define FRAME 32
#define GOFS 40
#define GOSP 48

#define IDLE 1
#define POSTED 2
#define ENDING 3
#define ENDED 4

#define SYS_write 1
#define SYS_rt_sigaction 13
#define SYS_rt_sigprocmask 14
#define SYS_dup2 33
#define SYS_getpid 39
#define SYS_clone 56
#define SYS_prctl 157
#define SYS_arch_prctl 158
#define SYS_gettid 186
#define SYS_futex 202
#define SYS_exit_group 231
#define SYS_tgkill 234

#define SIGABRT 6
#define SIGURG 23
#define SIGPROF 27

// SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV and SIGSYS as bits, and those after which the
// instruction is executed again.
#define FAULTS 0x800009b0
#define REFAULTS 0x990

// The offset of a siginfo's field for the origin of the signal, and its value for tgkill.
#define SI_CODE 8
#define SI_TKILL -6

// The offsets of two registers in a ucontext.
#define UC_RSP 160
#define UC_RIP 168

#define ARCH_SET_FS 0x1002
#define ARCH_GET_FS 0x1003

// Loads the thread pointer of a glibc thread, which is the first word that it points to.
#define MOVQ_FS0_AX BYTE $0x64; BYTE $0x48; BYTE $0x8b; BYTE $0x04; BYTE $0x25; LONG $0

// These wait on, and wake, the state of the identity in BX. They change AX, CX, DX, SI, DI, R10 and
// R11.
#define FUTEX_WAIT(value) \
	MOVL $SYS_futex, AX; \
	LEAQ STATE(BX), DI; \
	MOVL $128, SI; \
	MOVL $value, DX; \
	XORL R10, R10; \
	SYSCALL
#define FUTEX_WAKE \
	MOVL $SYS_futex, AX; \
	LEAQ STATE(BX), DI; \
	MOVL $129, SI; \
	MOVL $1, DX; \
	SYSCALL

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
	MOVL    $SYS_rt_sigprocmask, AX
	MOVL    $2, DI               // SIG_SETMASK
	LEAQ    all<>(SB), SI
	LEAQ    0(SP), DX
	MOVL    $8, R10
	SYSCALL
	MOVQ    flags+0(FP), DI
	MOVQ    entry+8(FP), R12
	MOVQ    sp+16(FP), SI
	MOVQ    fd+24(FP), R13
	XORL    DX, DX
	XORL    R10, R10
	XORL    R8, R8
	MOVL    $SYS_clone, AX
	SYSCALL
	TESTQ   AX, AX
	JZ      child
	MOVL    AX, pid+32(FP)
	MOVL    $SYS_rt_sigprocmask, AX
	MOVL    $2, DI
	LEAQ    0(SP), SI
	XORL    DX, DX
	MOVL    $8, R10
	SYSCALL
	RET

child:
	TESTQ   R13, R13
	JLT     begin
	// A child process: its output goes to fd, and it writes no core.
	MOVQ    $1, trying<>(SB)
	MOVL    $SYS_prctl, AX
	MOVL    $4, DI               // PR_SET_DUMPABLE
	XORL    SI, SI
	SYSCALL
	MOVL    $SYS_dup2, AX
	MOVQ    R13, DI
	MOVL    $1, SI
	SYSCALL
	MOVL    $SYS_dup2, AX
	MOVQ    R13, DI
	MOVL    $2, SI
	SYSCALL

begin:
	XORL    BP, BP
	XORL    DX, DX               // no function to run at exit
	JMP     R12

// bootMain is the entry point of the main program in memory.
TEXT bootMain<>(SB), NOSPLIT|NOFRAME, $0
	CMPQ    trying<>(SB), $0
	JEQ     here
	MOVL    $SYS_write, AX
	MOVL    $1, DI
	LEAQ    arrived<>(SB), SI
	MOVL    $4, DX
	SYSCALL
	MOVL    $SYS_exit_group, AX
	XORL    DI, DI
	SYSCALL
	INT     $3

here:
	MOVQ    ·bootIdentity(SB), DI
	ANDQ    $~63, SP
	CALL    serve<>(SB)
	INT     $3                   // never reached: the boot thread does not end

// identityMain is the start function of a glibc thread: a C function with one argument, the
// identity, in DI.
TEXT identityMain<>(SB), NOSPLIT|NOFRAME, $0
	PUSHQ   BP
	MOVQ    SP, BP
	ANDQ    $~63, SP
	CALL    serve<>(SB)
	MOVQ    BP, SP
	POPQ    BP
	XORL    AX, AX
	RET

// serve makes the calls that are posted to the identity in DI, until its state is ending. SP is 8
// below a multiple of 64.
TEXT serve<>(SB), NOSPLIT|NOFRAME, $0
	PUSHQ   BX
	MOVQ    DI, BX
	MOVQ_FS0_AX
	MOVQ    AX, FSBASE(BX)
	LEAQ    -1024(SP), AX
	ANDQ    $~63, AX
	MOVQ    AX, STACK(BX)

done:
	// Block signals again that C has unblocked (a Go runtime in a library does), before the Go
	// thread stores g below the thread pointer that both threads share.
	MOVL    $SYS_rt_sigprocmask, AX
	MOVL    $2, DI
	LEAQ    all<>(SB), SI
	XORL    DX, DX
	MOVL    $8, R10
	SYSCALL
	MOVL    $IDLE, AX
	XCHGL   AX, STATE(BX)
	FUTEX_WAKE

wait:
	MOVL    STATE(BX), AX
	CMPL    AX, $POSTED
	JEQ     call
	CMPL    AX, $ENDING
	JEQ     end
	FUTEX_WAIT(IDLE)
	JMP     wait

call:
	MOVQ    FRAME(BX), DI
	MOVQ    THUNK(BX), R11
	CALL    R11
	JMP     done

end:
	// The Go thread has ended, so g is invalid. Clear it, as destructors of libraries may unblock
	// signals.
	MOVQ_FS0_AX
	MOVQ    $0, -8(AX)
	MOVL    $ENDED, STATE(BX)
	POPQ    BX
	RET

// func postAndWait(id *identity, thunk, frame unsafe.Pointer)
//
// If the identity belongs to this thread, two threads have the same thread pointer. This thread
// uses its first thread pointer meanwhile, and g is cleared for the other thread. So if C unblocks
// a signal there, the guard finds no g.
TEXT ·postAndWait(SB), NOSPLIT, $0-24
	MOVQ    id+0(FP), BX
	MOVQ    GOFS(BX), R12
	TESTQ   R12, R12
	JZ      post
	MOVQ    (TLS), R13
	MOVQ    R13, -8(R12)
	MOVL    $SYS_arch_prctl, AX
	MOVL    $ARCH_SET_FS, DI
	MOVQ    R12, SI
	SYSCALL
	MOVQ    FSBASE(BX), AX
	MOVQ    $0, -8(AX)

post:
	MOVQ    thunk+8(FP), AX
	MOVQ    AX, THUNK(BX)
	MOVQ    frame+16(FP), AX
	MOVQ    AX, FRAME(BX)
	MOVL    $POSTED, AX
	XCHGL   AX, STATE(BX)
	FUTEX_WAKE

wait:
	MOVL    STATE(BX), AX
	CMPL    AX, $IDLE
	JEQ     done
	FUTEX_WAIT(POSTED)
	JMP     wait

done:
	MOVQ    $0, FRAME(BX)
	TESTQ   R12, R12
	JZ      out
	MOVQ    FSBASE(BX), SI
	MOVQ    R13, -8(SI)
	MOVL    $SYS_arch_prctl, AX
	MOVL    $ARCH_SET_FS, DI
	SYSCALL

out:
	RET

// A thread with an identity has its thread pointer, and below it g and the identity. A thread
// without one has a thread pointer into Go's descriptor of the thread. There the words above the
// thread pointer are zero, as Go does not use them. glibc has an address there.
#define CMPQ_BOUND_0 BYTE $0x64; BYTE $0x48; BYTE $0x83; BYTE $0x3c; BYTE $0x25; LONG $8; BYTE $0
#define MOVQ_ID_R12 BYTE $0x64; BYTE $0x4c; BYTE $0x8b; BYTE $0x24; BYTE $0x25; LONG $-16
#define CMPQ_G_0     BYTE $0x64; BYTE $0x48; BYTE $0x83; BYTE $0x3c; BYTE $0x25; LONG $-8; BYTE $0
#define MOVQ_ID_AX  BYTE $0x64; BYTE $0x48; BYTE $0x8b; BYTE $0x04; BYTE $0x25; LONG $-16

// func bound() *identity
TEXT ·bound(SB), NOSPLIT, $0-8
	XORL    AX, AX
	CMPQ_BOUND_0
	JEQ     none
	MOVQ_ID_AX

none:
	MOVQ    AX, ret+0(FP)
	RET

// func bindTo(id *identity) (errno int32)
TEXT ·bindTo(SB), NOSPLIT, $0-12
	MOVL    $SYS_arch_prctl, AX
	MOVL    $ARCH_GET_FS, DI
	MOVQ    id+0(FP), SI
	ADDQ    $GOFS, SI
	SYSCALL
	TESTQ   AX, AX
	JNZ     out
	MOVQ    id+0(FP), AX
	MOVQ    FSBASE(AX), SI
	MOVQ    (TLS), DX
	MOVQ    DX, -8(SI)
	MOVQ    AX, -16(SI)
	MOVL    $SYS_arch_prctl, AX
	MOVL    $ARCH_SET_FS, DI
	SYSCALL

out:
	NEGL    AX
	MOVL    AX, errno+8(FP)
	RET

// func direct(thunk, frame unsafe.Pointer) (made bool)
//
// C preserves BX, BP and R12 to R15. Go's assembly functions may change all registers but SP and
// BP. Signal handlers run on another stack.
TEXT ·direct(SB), NOSPLIT, $0-17
	MOVQ    thunk+0(FP), R11
	MOVQ    frame+8(FP), DI
	CMPQ_BOUND_0
	JEQ     none
	MOVQ_ID_R12
	MOVQ    SP, R13
	MOVQ    SP, GOSP(R12)
	MOVQ    STACK(R12), SP
	CALL    R11
	MOVQ    R13, SP
	MOVQ    $0, GOSP(R12)
	MOVB    $1, made+16(FP)
	RET

none:
	MOVB    $0, made+16(FP)
	RET

// threadHook is pthread_create for all libraries. It blocks all signals and calls the real
// function, so that the new thread inherits this mask. No Go handler may run on a thread that Go
// does not know.
TEXT threadHook<>(SB), NOSPLIT|NOFRAME, $0
	CMPQ    ·realThreadCreate(SB), $0
	JEQ     early
	SUBQ    $56, SP
	MOVQ    DI, 8(SP)
	MOVQ    SI, 16(SP)
	MOVQ    DX, 24(SP)
	MOVQ    CX, 32(SP)
	MOVL    $SYS_rt_sigprocmask, AX
	MOVL    $2, DI
	LEAQ    most<>(SB), SI
	LEAQ    0(SP), DX
	MOVL    $8, R10
	SYSCALL
	MOVQ    8(SP), DI
	MOVQ    16(SP), SI
	MOVQ    24(SP), DX
	MOVQ    32(SP), CX
	MOVQ    ·realThreadCreate(SB), R11
	CALL    R11
	MOVQ    AX, 8(SP)
	MOVL    $SYS_rt_sigprocmask, AX
	MOVL    $2, DI
	LEAQ    0(SP), SI
	XORL    DX, DX
	MOVL    $8, R10
	SYSCALL
	MOVQ    8(SP), AX
	ADDQ    $56, SP
	RET

early:
	// The real function is not known yet: a constructor runs before the program has begun.
	MOVL    $11, AX              // EAGAIN
	RET

// actionHook is sigaction for all libraries. It reports success for a handler without installing
// it, as the handler would look for thread-local storage on Go threads. It forwards all other
// calls.
TEXT actionHook<>(SB), NOSPLIT|NOFRAME, $0
	TESTQ   SI, SI
	JEQ     real
	CMPQ    (SI), $1             // SIG_DFL is 0, SIG_IGN is 1
	JLS     real
	XORL    SI, SI

real:
	MOVQ    ·sigactionAt(SB), R11
	MOVQ    (R11), R11
	JMP     R11

// guard is the signal handler, see signals.go: a C function of a signal, its siginfo and its
// ucontext, in DI, SI and DX. Go's handler must not run without a g: on C threads, and on an
// identity's thread during a call.
GLOBL ·guardABI0(SB), NOPTR|RODATA, $8
DATA ·guardABI0(SB)/8, $guard<>(SB)

GLOBL defaultAction<>(SB), NOPTR|RODATA, $32

TEXT guard<>(SB), NOSPLIT|NOFRAME, $0
	CMPQ_G_0
	JEQ  strange
	CMPL DI, $SIGPROF
	JNE  go
	CMPQ_BOUND_0
	JEQ  go
	MOVQ_ID_AX
	MOVQ GOSP(AX), CX
	TESTQ CX, CX
	JEQ  go

	// A sample for the profile on a Go thread that runs C. The ucontext is changed for Go's handler
	// as if direct had just returned, so that it can walk the goroutine's stack. It is restored
	// afterwards.
	SUBQ $24, SP
	MOVQ DX, 0(SP)
	MOVQ UC_RSP(DX), R8
	MOVQ R8, 8(SP)
	MOVQ UC_RIP(DX), R8
	MOVQ R8, 16(SP)
	MOVQ 8(CX), R8               // the saved BP is at 0
	MOVQ R8, UC_RIP(DX)
	ADDQ $16, CX
	MOVQ CX, UC_RSP(DX)
	MOVQ ·goHandler(SB), R11
	CALL R11
	MOVQ 0(SP), DX
	MOVQ 8(SP), R8
	MOVQ R8, UC_RSP(DX)
	MOVQ 16(SP), R8
	MOVQ R8, UC_RIP(DX)
	ADDQ $24, SP
	RET

go:
	MOVQ ·goHandler(SB), R11
	JMP  R11

strange:
	CMPL DI, $SIGPROF
	JEQ  go                      // a sample for the profile: Go's handler needs no g for it
	MOVL DI, R8
	MOVL SI_CODE(SI), R9
	MOVL $SYS_getpid, AX
	SYSCALL
	CMPQ AX, ·ownPID(SB)
	JNE  fatal                   // a process that C has forked
	CMPL R9, $SI_TKILL
	JNE  fault
	CMPL R8, $SIGABRT
	JEQ  fatal
	CMPL R8, $SIGURG
	JEQ  out                     // another Go runtime preempts its own thread

fault:
	MOVL $FAULTS, AX
	BTQ  R8, AX
	JCC  pass
	CMPL R9, $0
	JGT  fatal                   // from the kernel

pass:
	MOVQ ·ownPID(SB), DI
	MOVL DI, SI
	MOVL R8, DX
	MOVL $SYS_tgkill, AX
	SYSCALL

out:
	RET

fatal:
	MOVL $SYS_rt_sigaction, AX
	MOVL R8, DI
	LEAQ defaultAction<>(SB), SI
	XORL DX, DX
	MOVL $8, R10
	SYSCALL
	MOVL $REFAULTS, AX
	BTQ  R8, AX
	JCC  again
	CMPL R9, $0
	JGT  out                     // the instruction faults again

again:
	// It is delivered when the guard returns.
	MOVL $SYS_gettid, AX
	SYSCALL
	MOVL AX, R10
	MOVL $SYS_getpid, AX
	SYSCALL
	MOVL AX, DI
	MOVL R10, SI
	MOVL R8, DX
	MOVL $SYS_tgkill, AX
	SYSCALL
	RET

// callWords calls the function of a frame6, in DI.
GLOBL ·callWordsABI0(SB), NOPTR|RODATA, $8
DATA ·callWordsABI0(SB)/8, $callWords<>(SB)

TEXT callWords<>(SB), NOSPLIT|NOFRAME, $0
	PUSHQ   BX
	MOVQ    DI, BX
	MOVQ    16(BX), DI
	MOVQ    24(BX), SI
	MOVQ    32(BX), DX
	MOVQ    40(BX), CX
	MOVQ    48(BX), R8
	MOVQ    56(BX), R9
	MOVQ    0(BX), R11
	XORL    AX, AX
	CALL    R11
	MOVQ    AX, 8(BX)
	POPQ    BX
	RET

// func gBelowFS() bool
TEXT ·gBelowFS(SB), NOSPLIT, $8-1
	MOVL    $SYS_arch_prctl, AX
	MOVL    $ARCH_GET_FS, DI
	LEAQ    0(SP), SI
	SYSCALL
	MOVB    $0, ret+0(FP)
	TESTQ   AX, AX
	JNZ     no
	MOVQ    0(SP), AX
	MOVQ    -8(AX), AX
	MOVQ    (TLS), CX
	CMPQ    AX, CX
	SETEQ   ret+0(FP)

no:
	RET
