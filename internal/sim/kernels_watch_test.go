package sim

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/purecu/purecu/driver"
)

// TestReportsOfMistakes executes a kernel with one mistake of each kind. The report has the kernel, the thread and
// its block, the line, and the address or the other thread.
func TestReportsOfMistakes(t *testing.T) {
	const ends, address = `kernel "wrong" ends with CUDA_ERROR_ILLEGAL_ADDRESS: `, "0x[0-9a-f]+"
	at := func(threads, lines string) string {
		return fmt.Sprintf(`thread \((%s), 0, 0\) of block \(1, 0, 0\), at line [%s] of the PTX, `, threads, lines)
	}
	for name, tt := range map[string]struct {
		body, want string
		faults     bool
	}{
		"outside": {"setp.eq.u32 q, t, 37; @q st.global.u32 [p+60], t;\n@q st.global.u32 [p+64], t;",
			ends + at("37", "7") + "st.global.u32 writes 4 bytes at " + address +
				"; the nearest memory is 64 bytes at " +
				address + ", which ends 0 bytes before", true},
		"outside of shared memory": {"shl.b32 a, t, 3; add.u32 a, a, s; st.shared.u32 [a], t;",
			ends + at("32", "6") + "st.shared.u32 writes 4 bytes at 0x500, in shared memory", true},
		"unwritten": {"setp.eq.u32 q, t, 37;\n@q ld.global.u32 a, [p+60];",
			`kernel "wrong": ` + at("37", "7") + "ld.global.u32 reads 4 bytes at " + address +
				": memory of the device that nothing has written", false},
		"race": {"setp.eq.u32 q, t, 37; @q st.shared.u32 [s+4], t;\nsetp.eq.u32 q, t, 3; @q st.shared.u32 [s+4], t;",
			`kernel "wrong": ` + at("37|3", "67") + "st.shared.u32 writes 4 bytes at 0x404: a race in shared memory: " +
				"another thread has written the memory, and nothing orders the two accesses; the other: " +
				at("37|3", "67") + "st.shared.u32", false},
		"divergent": {"setp.lt.u32 q, t, 37; @q bra one; bar.sync 0; bra end;\none: bar.sync 0; end:",
			`kernel "wrong": ` + at("37|32", "67") + "bar.sync: threads of a warp wait at two places for one " +
				"barrier, " +
				"which they have to reach together; the other: " + at("37|32", "67") + "bar.sync", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newLab(t, CheckKernels(CheckAll, nil))
			p, res := r.MemAlloc(r.th, 64)
			r.must(res)
			m := r.load(header + ".entry wrong(.param .u64 p0) { .reg .b64 p; .reg .b32 t, a, s, b; .reg .pred q; " +
				".shared .b32 sh[64];\nld.param.u64 p, [p0]; mov.u32 t, %tid.x; mov.u32 s, sh; mov.u32 b, %ctaid.x; " +
				"setp.ne.u32 q, b, 1; @q ret;\n" +
				tt.body + "\nret; }")
			f, res := r.ModuleGetFunction(r.th, m, "wrong")
			r.must(res)
			if res := r.launchGrid(f, 2, 1, 64, 1, 0, p); (res != driver.ResultSuccess) != tt.faults {
				t.Errorf("the launch returns %d", res)
			}
			var found []string
			for _, m := range r.Misuses() {
				found = append(found, m.What)
			}
			r.takeMisuses()
			if want := regexp.MustCompile("^" + tt.want + "$"); !slices.ContainsFunc(found, want.MatchString) {
				t.Errorf("found %q, want %s", found, want)
			}
			if !tt.faults {
				r.must(r.MemFree(r.th, p))
			}
		})
	}
}

// watchText has a kernel that calls a function, one that has a fault, and one that nobody launches.
const watchText = header + `.func (.param .b32 r) twice(.param .b32 a) {
	.reg .b32 x;
	ld.param.b32 x, [a];
	add.s32 x, x, x;
	st.param.b32 [r], x;
	ret;
}
.entry calls(.param .u64 p0) {
	.reg .b64 p; .reg .b32 t, y; .reg .f64 d; .reg .v2 .f32 v; .reg .pred q;
	mov.u32 t, %tid.x;
	setp.gt.u32 q, t, 40;
	@q ret;
	cvt.rn.f64.u32 d, t;
	mul.f64 d, d, 0dBFE0000000000000;
	mov.b64 p, {t, t};
	mov.b64 v, p;
	shfl.sync.idx.b32 y|q, t, 3, 31, -1;
	sub.s32 y, t, 50;
	{ .param .b32 a; .param .b32 r;
	st.param.b32 [a], y;
	call (r), twice, (a);
	ld.param.b32 y, [r]; }
	bar.sync 0;
	ret;
}
.entry fails(.param .u64 p0) {
	.reg .b64 p;
	mov.u64 p, 16;
	st.global.u64 [p], p;
	ret;
}
.entry idle() { ret; }
.entry unused() {
	.reg .b32 a;
	mov.u32 a, 1; mov.u32 a, 2;
	mov.u32 a,
		3;
	ret;
}
.entry waits() { // some lanes wait at a barrier of the warp until the others have exited
	.reg .b32 t; .reg .pred q;
	mov.u32 t, %laneid;
	setp.lt.u32 q, t, 12;
	@q bra out;
	bar.warp.sync -1;
	ret;
out:
	ret;
}`

// rareText has a guard that is a special register.
const rareText = `.version 8.8 .target sm_90 .address_size 64
.entry rare() {
	.reg .b64 a;
	@%is_explicit_cluster bra end;
	mov.b64 a, 7;
end:
	ret;
}`

// TestTraceThread compares what is written of a thread.
func TestTraceThread(t *testing.T) {
	for _, tt := range []struct {
		thread string
		blocks uint32
		want   string
	}{
		{"rare:0:0", 1, `kernel "rare", launch 1: thread (0, 0, 0) of block (0, 0, 0)
     4  @%is_explicit_cluster bra end;           // %is_explicit_cluster=false skipped
     5  mov.b64 a, 7;                            // -> a=7
     7  ret;
`},
		{"waits:0:31", 1, `kernel "waits", launch 1: thread (31, 0, 0) of block (0, 0, 0)
    45  mov.u32 t, %laneid;                      // %laneid=31 -> t=31
    46  setp.lt.u32 q, t, 12;                    // t=31 -> q=false
    47  @q bra out;                              // q=false skipped
    48  bar.warp.sync -1;
    49  ret;
`},
		{"idle:0:0,67108864", 1, `kernel "idle", launch 1: thread (0, 67108864, 0) of block (0, 0, 0) does not ` +
			"exist: there are (1, 1, 1) blocks of (64, 1, 1) threads\n"},
		{"calls:0:40", 1, `kernel "calls", launch 1: thread (40, 0, 0) of block (0, 0, 0)
    13  mov.u32 t, %tid.x;                       // %tid.x=40 -> t=40
    14  setp.gt.u32 q, t, 40;                    // t=40 -> q=false
    15  @q ret;                                  // q=false skipped
    16  cvt.rn.f64.u32 d, t;                     // t=40 -> d=40
    17  mul.f64 d, d, 0dBFE0000000000000;        // d=40 -> d=-20
    18  mov.b64 p, {t, t};                       // t=40 -> p=0x2800000028
    19  mov.b64 v, p;                            // p=0x2800000028 -> v.x=5.6e-44 v.y=5.6e-44
    20  shfl.sync.idx.b32 y|q, t, 3, 31, -1;     // t=40 -> y=35 q=true
    21  sub.s32 y, t, 50;                        // t=40 -> y=-10
    23  st.param.b32 [a], y;                     // y=0xfffffff6
    24  call (r), twice, (a);
     6  ld.param.b32 x, [a];                     // -> x=0xfffffff6
     7  add.s32 x, x, x;                         // x=-10 -> x=-20
     8  st.param.b32 [r], x;                     // x=0xffffffec
     9  ret;
    25  ld.param.b32 y, [r];                     // -> y=0xffffffec
    26  bar.sync 0;
    27  ret;
`},
		{"calls:1,0,0:63,0,0", 2, `kernel "calls", launch 1: thread (63, 0, 0) of block (1, 0, 0)
    13  mov.u32 t, %tid.x;                       // %tid.x=63 -> t=63
    14  setp.gt.u32 q, t, 40;                    // t=63 -> q=true
    15  @q ret;                                  // q=true
`},
		{"calls:2:64", 2, `kernel "calls", launch 1: thread (64, 0, 0) of block (2, 0, 0) does not exist: ` +
			"there are (2, 1, 1) blocks of (64, 1, 1) threads\n"},
		{"fails:0:5", 1, `kernel "fails", launch 1: thread (5, 0, 0) of block (0, 0, 0)
    31  mov.u64 p, 16;                           // -> p=16
    32  st.global.u64 [p], p;                    // p=16 not executed to its end
`},
		{"idle:0:0", 1, "kernel \"idle\", launch 1: thread (0, 0, 0) of block (0, 0, 0)\n    35  ret;\n"},
	} {
		thread, rest, err := ParseThread(tt.thread)
		if err != nil || rest != "" {
			t.Fatal(rest, err)
		}
		var b bytes.Buffer
		r := newLab(t, TraceThread(thread, &b))
		text := watchText
		if thread.Kernel == "rare" {
			text = rareText
		}
		f, res := r.ModuleGetFunction(r.th, r.load(text), thread.Kernel)
		r.must(res)
		var args []any
		if thread.Kernel == "calls" || thread.Kernel == "fails" {
			args = []any{driver.DevicePtr(0)}
		}
		res = r.launchGrid(f, tt.blocks, 1, 64, 1, 0, args...)
		if (res != driver.ResultSuccess) != (thread.Kernel == "fails") {
			t.Errorf("%s: the launch returns %d", tt.thread, res)
		}
		if b.String() != tt.want {
			t.Errorf("%s: written\n%s", tt.thread, b.String())
		}
		r.takeMisuses()
	}
}

// TestTraceOfStreams traces a launch that waits for the host, and a later one of the same kernel in another stream.
// They are numbered as they were launched. Each part of the trace says of which launch it is.
func TestTraceOfStreams(t *testing.T) {
	var b bytes.Buffer
	r := newLab(t, TraceThread(Thread{Kernel: "idle"}, &b))
	f, res := r.ModuleGetFunction(r.th, r.load(watchText), "idle")
	r.must(res)
	var streams []driver.Stream
	for range 2 {
		s, res := r.StreamCreate(r.th, 1)
		r.must(res)
		streams = append(streams, s)
	}
	release := make(chan struct{})
	r.must(r.LaunchHostFunc(r.th, streams[0], driver.Callback{Go: func() { <-release }}))
	for _, s := range streams {
		r.must(r.LaunchKernel(r.th, f, 1, 1, 1, 1, 1, 1, 0, s, params()))
	}
	r.must(r.StreamSynchronize(r.th, streams[1]))
	close(release)
	r.must(r.StreamSynchronize(r.th, streams[0]))
	const of = ": thread (0, 0, 0) of block (0, 0, 0)\n    35  ret;\n"
	if want := `kernel "idle", launch 2` + of + `kernel "idle", launch 1` + of; b.String() != want {
		t.Errorf("written\n%s", b.String())
	}
}

// TestParseThread parses threads.
func TestParseThread(t *testing.T) {
	for s, want := range map[string]string{
		"k:1,2,3:4,5,6":         "k [1 2 3] [4 5 6]  <nil>",
		"k:0:7:C:\\trace:1.txt": "k [0 0 0] [7 0 0] C:\\trace:1.txt <nil>",
		"k:1, 2:3":              "k [1 2 0] [3 0 0]  <nil>",
		"k":                     "write the name of a kernel",
		":0:0":                  "write the name of a kernel",
		"k:0":                   "write the name of a kernel",
		"k:0:1,2,3,4":           "more than three",
		"k:-1:0":                "is no index",
		"k::0":                  "is no index",
	} {
		thread, rest, err := ParseThread(s)
		got := fmt.Sprint(thread.Kernel, " ", thread.Block, " ", thread.Thread, " ", rest, " ", err)
		if !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
}

// TestCoverage counts what two drivers execute of one text, one after the other, and of another text with the same
// kernel.
func TestCoverage(t *testing.T) {
	var c Coverage
	other := strings.Replace(watchText, "%tid.x", "%ntid.x", 1)
	for _, text := range []string{watchText, watchText, other} {
		r := newLab(t, Cover(&c), Seed(7))
		m := r.load(text)
		for _, kernel := range []string{"calls", "idle", "waits"} {
			f, res := r.ModuleGetFunction(r.th, m, kernel)
			r.must(res)
			var args []any
			if kernel == "calls" {
				args = []any{driver.DevicePtr(0)}
			}
			r.must(r.launchGrid(f, 2, 1, 64, 1, 0, args...))
		}
	}
	want := "calls-2.ptx: 32.3% (10 of 31) of lines, 75.0% (3 of 4) of branches\n" +
		"calls.ptx: 80.6% (25 of 31) of lines, 100.0% (4 of 4) of branches"
	if got := c.Summary(); got != want {
		t.Errorf("the summary is %s, want %s", got, want)
	}
	var profile, listing bytes.Buffer
	if err := errors.Join(c.WriteProfile(&profile), c.WriteListing(&listing)); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"mode: count\n", "\ncalls.ptx:15.2,15.9 1 256\n", "\ncalls.ptx:38.16,38.29 1 0\n",
		"\ncalls.ptx:39.2,39.12 1 0\n", "\ncalls-2.ptx:35.17,35.21 1 128\n"} {
		if !strings.Contains(profile.String(), part) {
			t.Errorf("%q is not in the profile\n%s", part, profile.String())
		}
	}
	for _, part := range []string{"\n         256      15  \t@q ret; // @q: 92 true, 164 false\n",
		"\n         128 !    15  \t@q ret; // @q: 128 true, 0 false\n",
		"\n         164      25  \tld.param.b32 y, [r]; }\n",
		"\n         160      48  \tbar.warp.sync -1;\n",
		"\n           0 !    38  \tmov.u32 a, 1; mov.u32 a, 2;\n", "\n                  40  \t\t3;\n"} {
		if !strings.Contains(listing.String(), part) {
			t.Errorf("%q is not in the listing\n%s", part, listing.String())
		}
	}
}
