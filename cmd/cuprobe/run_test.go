package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const scalePTX = `.version 7.0
.target sm_70
.address_size 64
.entry scale(.param .u64 p, .param .f32 by, .param .u32 n)
{
	.reg .pred %q;
	.reg .b32 %i, %n;
	.reg .f32 %f, %by;
	.reg .b64 %p, %at;
	mov.u32 %i, %tid.x;
	ld.param.u32 %n, [n];
	setp.ge.u32 %q, %i, %n;
	@%q ret;
	ld.param.u64 %p, [p];
	ld.param.f32 %by, [by];
	mad.wide.u32 %at, %i, 4, %p;
	ld.global.f32 %f, [%at];
	mul.rn.f32 %f, %f, %by;
	st.global.f32 [%at], %f;
	ret;
}
.entry neighbours(.param .u64 p)
{
	.reg .b32 %t, %a, %v;
	.reg .b64 %p;
	.shared .b32 s[64];
	mov.u32 %t, %tid.x;
	mov.u32 %a, s;
	mad.lo.u32 %a, %t, 4, %a;
	st.shared.u32 [%a], %t;
	xor.b32 %a, %a, 128;
	ld.shared.u32 %v, [%a];
	ld.param.u64 %p, [p];
	mad.wide.u32 %p, %t, 4, %p;
	st.global.u32 [%p], %v;
	ret;
}
.entry unwritten(.param .u64 p)
{
	.reg .b32 %v;
	.reg .b64 %p;
	.shared .b32 s[64];
	ld.shared.u32 %v, [s];
	ld.param.u64 %p, [p];
	st.global.u32 [%p+4096], %v;
	ret;
}
.entry endless()
{
again:
	bra again;
}
.entry spin(.param .u64 p)
{
	.reg .b64 %p;
	ld.param.u64 %p, [p];
	st.global.u32 [%p], 7;
	ret;
}
`

func TestRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "scale.ptx")
	if err := os.WriteFile(path, []byte(scalePTX), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) result {
		return probe{}.run(append([]string{"run", "-driver", "soft", path}, args...)...)
	}
	scale := func(n string) []string {
		return []string{"scale", "-block", "32", "-arg", "f32[]:1,2.5,-3", "-arg", "f32:2", "-arg", "u32:" + n}
	}
	r := run(append(scale("3"), "-json")...)
	var got kernelReport
	decode(t, r, &got)
	want := kernelReport{Driver: soft, Kernel: "scale", Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{32, 1, 1}, TimeNS: got.TimeNS,
		Instructions: got.Instructions, Mistakes: []string{},
		Memory: []memoryText{{Arg: 0, Type: "f32[3]", Values: []string{"2", "5", "-6"}}}}
	// some clocks are coarse
	if diff := cmp.Diff(want, got); diff != "" || got.Instructions < 10 || got.Instructions > 20 || got.TimeNS < 0 {
		t.Errorf("%d ns, %d instructions (-want +got):\n%s", got.TimeNS, got.Instructions, diff)
	}
	if r := run(append(scale("3"), "-show", "2")...); r.status != exitOK ||
		!strings.Contains(r.stdout, "arg 0    f32[3]: 2 5 …\n") ||
		!strings.Contains(r.stdout, "kernel   scale, 1×1×1 blocks of 32×1×1 threads\n") {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	if r := run(append(scale("4"), "-grid", "1,1,1")...); r.status != exitFailure ||
		!strings.Contains(r.stderr, "thread (3, 0, 0) of block (0, 0, 0), at line 17 of the PTX, ld.global.f32 reads 4 bytes at") {
		t.Errorf("beyond: exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	checked := run("neighbours", "-block", "64", "-arg", "u32[64]", "-check", "races,memory")
	if checked.status != exitFailure || !strings.Contains(checked.stdout, "arg 0    u32[64]: ") ||
		!strings.Contains(checked.stdout, `mistake  kernel "neighbours": thread (`) ||
		!strings.Contains(checked.stdout, "at line 32 of the PTX, ld.shared.u32 reads 4 bytes at 0x") ||
		!strings.Contains(checked.stdout, "a race in shared memory: another thread has written the memory, and nothing orders the two accesses; "+
			"the other: thread (") {
		t.Errorf("with checks: exit status %d\n%s%s", checked.status, checked.stdout, checked.stderr)
	}
	if r := run("neighbours", "-block", "64", "-arg", "u32[64]", "-check", "barriers", "-json"); r.status != exitOK {
		t.Errorf("with checks: exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	// A fault ends the run, and hides nothing that happened before it.
	const unwritten = "ld.shared.u32 reads 4 bytes at 0x400: shared memory that no thread of the block has written"
	fault := []string{"unwritten", "-arg", "u32[4]", "-check", "all"}
	if r := run(fault...); r.status != exitFailure ||
		!strings.Contains(r.stdout, "mistake  kernel \"unwritten\": thread (") ||
		!strings.Contains(r.stdout, unwritten) || !strings.Contains(r.stderr, "CUDA_ERROR_ILLEGAL_ADDRESS (700)") {
		t.Errorf("a mistake, then a fault: exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	faulty := run(append(fault, "-json")...)
	got = kernelReport{}
	decode(t, faulty, &got)
	documented(t, "run", faulty.stdout)
	if faulty.status != exitFailure || got.Error == nil || got.Error.Code != 700 || got.Kernel != "unwritten" ||
		len(got.Mistakes) == 0 || !strings.Contains(got.Mistakes[0], unwritten) {
		t.Errorf("a mistake, then a fault: exit status %d\n%s%s", faulty.status, faulty.stdout, faulty.stderr)
	}
	// This package has a kernel of the same name.
	if r := run("spin", "-arg", "u32[1]"); r.status != exitOK || !strings.Contains(r.stdout, "arg 0    u32[1]: 7\n") ||
		!strings.Contains(r.stdout, "executed 4 instructions of warps\n") {
		t.Errorf("spin: exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	// A float for an integer, and an integer for a float.
	for args, want := range map[[2]string]string{{"u32:2", "u32:3"}: "argument 1 is an integer",
		{"f32:2", "f32:3"}: "argument 2 is a float"} {
		if r := run("scale", "-arg", "f32[3]", "-arg", args[0], "-arg", args[1]); r.status != exitFailure ||
			!strings.Contains(r.stderr, want) {
			t.Errorf("%v: exit status %d\n%s%s", args, r.status, r.stdout, r.stderr)
		}
	}
	if r := run("endless", "-limit", "20ms"); r.status != exitFailure ||
		!strings.Contains(r.stderr, `kernel "endless" ends with CUDA_ERROR_LAUNCH_TIMEOUT: `+
			`thread (0, 0, 0) of block (0, 0, 0), at line 51`) {
		t.Errorf("with a limit: exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	if r := run(append(scale("3"), "-grid", "131072", "-limit", "1us")...); r.status != exitFailure ||
		!strings.Contains(r.stderr, " of 131072 blocks have run to their end") {
		t.Errorf("many short blocks with a limit: exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"other"}, "CUDA_ERROR_NOT_FOUND"},
		{[]string{"other"}, "kernels of " + path + ": endless, neighbours, scale, spin, unwritten\n"},
		{[]string{"scale", "-arg", "u32:x"}, `"x" is no number of the type u32`},
		{[]string{"scale", "-show", "-1"}, `it says how many numbers to print, such as 16`},
		{[]string{}, "run takes a file and the name of a kernel"},
		{[]string{"scale", "-arg", "f16:1"}, "there is no type"},
		{[]string{"scale", "-arg", "u32"}, "write TYPE:VALUE"},
		{[]string{"scale", "-arg", "u32[0]"}, "is no length"},
		{[]string{"scale", "-arg", "u8[]:256"}, "256 is too large or too small for u8"},
		{[]string{"scale", "-grid", "0"}, "is no positive number"},
		{[]string{"scale", "-check", "speed"}, "is none of memory, races, barriers and all"},
		{[]string{"scale", "-check", "all", "-driver", "cuda"}, "-check needs the software driver"},
		{[]string{"scale", "-limit", "1s", "-driver", "cuda"}, "-limit needs the software driver"},
		{[]string{"scale", "-limit", "-1s"}, "-limit must not be negative"},
		{[]string{"scale", "-shared", "4294967296"}, "below 4 GiB"},
		{[]string{"scale", "-block", "1,2,3,4"}, "one to three numbers"},
	} {
		if r := run(tt.args...); r.status == exitOK || !strings.Contains(r.stderr, tt.want) {
			t.Errorf("%q: exit status %d, want %q\n%s%s", tt.args, r.status, tt.want, r.stdout, r.stderr)
		}
	}
}

// TestRunWithoutDriver checks that the error names the driver that needs no GPU.
func TestRunWithoutDriver(t *testing.T) {
	absent := filepath.Join(t.TempDir(), "libcuda.so.1")
	r := probe{}.run("run", "k.ptx", "k", "-driver", absent)
	if r.status != exitNoDriver || !strings.Contains(r.stderr, "To run the kernel without a GPU, add -driver soft") {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
}
