package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purecu/purecu/tools/internal/cheader"
)

// preamble begins every header of these tests. It has two lines, so that the test's own text begins
// in line 3.
const preamble = `#define CUDA_VERSION 9020
typedef enum cudaError_enum { CUDA_SUCCESS = 0 } CUresult;
`

func TestMalformed(t *testing.T) {
	const spin = "CUresult cuWidgetSpin(int n);\n"
	const pfnSpin = "typedef CUresult (*PFN_cuWidgetSpin_v2000)(int n);\n"
	for _, test := range []struct {
		name, header, typedefs, results string
		want                            string // lines; empty if the input is well formed
	}{
		{name: "nothing wrong", header: spin, typedefs: pfnSpin},

		// These are errors of the tokenizer.
		{name: "open comment", header: "\n/* for ever\n", want: "h:4: comment does not end"},
		{name: "stray character", header: "int \x01;\n", want: "h:3: unexpected character '\\x01'"},
		{name: "joined lines count", header: "#define A \\\n\\\n1\nbad;\n", want: "h:6: unknown type \"bad\""},

		// These are errors of the preprocessor.
		{name: "open #if", header: "#ifdef A\n#else\n", want: "h:3: #if without #endif"},
		{name: "#endif alone", header: "#endif\n", want: "h:3: #endif without #if"},
		{name: "#else twice", header: "#if 1\n#else\n#else\n#endif\n", want: "h:5: #else after #else"},
		{name: "#elif after #else", header: "#if 1\n#else\n#elif 1\n#endif\n", want: "h:5: #elif after #else"},
		{name: "#ifdef without a name", header: "#ifdef\n#endif\n", want: "h:3: #ifdef wants one name"},
		{name: "#error", header: "#if !defined(A)\n#error \"no A\"\n#endif\n", want: "h:4: #error \"no A\""},
		{name: "#error not taken", header: "#if defined(A)\n#error it isn't\n#endif\n"},
		{name: "unknown directive", header: "#frob\n", want: "h:3: unknown directive #frob"},
		{name: "malformed defined", header: "#if defined(\n#endif\n", want: "h:3: malformed defined()"},
		{name: "malformed #if", header: "#if 1 +\n#endif\n", want: "h:3: #if: not an integer constant expression"},
		{name: "division by zero", header: "#if 1 / 0\n#endif\n", want: "h:3: #if: division by zero"},
		{name: "#define without a name", header: "#define 1\n", want: "h:3: #define wants a name"},
		{name: "open macro parameters", header: "#define F(a\n", want: "h:3: macro F: parameter list does not end"},
		{name: "malformed macro parameters", header: "#define F(1)\n", want: "h:3: macro F: malformed parameter list"},
		{name: "macro arguments", header: "#define F(a, b) a b\n\nint F(x);\n",
			want: "h:5: expected a name, found \"end of file\"\nh:5: macro F: has 2 parameters, got 1 arguments"},
		{name: "macro bomb", header: "#define A0 x x x x x x x x\n#define A1 A0 A0 A0 A0 A0 A0 A0 A0\n#define A2 A1 A1 A1 A1 A1 A1 A1 A1\n" +
			"#define A3 A2 A2 A2 A2 A2 A2 A2 A2\n#define A4 A3 A3 A3 A3 A3 A3 A3 A3\n#define A5 A4 A4 A4 A4 A4 A4 A4 A4\n\nA5;\n",
			want: "h:10: macro A4: the macros make too many tokens\nh:10: unknown type \"x\""},

		// These are errors in declarations.
		{name: "unknown type", header: "CUresult cuWidgetSpin(CUwidget w);\n", want: "h:3: unknown type \"CUwidget\""},
		{name: "all of the errors", header: "CUone f(void);\n\nCUtwo g(void);\n", want: "h:3: unknown type \"CUone\"\nh:5: unknown type \"CUtwo\""},
		{name: "missing semicolon", header: spin[:len(spin)-2] + "\n" + spin, want: "h:4: expected \";\", found \"CUresult\""},
		{name: "missing parenthesis", header: "CUresult cuWidgetSpin(int n;\n", want: "h:3: expected \")\", found \";\""},
		{name: "variable", header: "int n;\n", want: "h:3: declaration of \"n\" is neither a type nor a function"},
		{name: "variadic", header: "CUresult cuWidgetSpin(int n, ...);\n", want: "h:3: variadic functions are not supported"},
		{name: "long", header: "CUresult cuWidgetSpin(unsigned long n);\n", want: "h:3: unsupported type \"unsigned long\""},
		{name: "typedef twice", header: "typedef int CUa;\ntypedef int CUa;\ntypedef float CUa;\n", want: "h:5: typedef CUa differs from its earlier declaration"},
		{name: "open enum", header: "typedef enum { CU_A = 1\n", want: "h:3: enum #1 does not end"},
		{name: "enum of an unknown", header: "typedef enum {\nCU_A = CU_B,\n} CUe;\n", want: "h:4: CU_B: not an integer constant expression"},
		{name: "two values", header: "enum { CU_A = 1 };\nenum { CU_A = 2 };\n", want: "h:4: constant CU_A is 2 here and 1 before"},
		{name: "malformed number", header: "enum { CU_A = 0x };\n", want: "h:3: malformed number 0x"},
		{name: "bit field", header: "struct s { int a : 3; };\n", want: "h:3: bit fields are not supported"},
		{name: "struct twice", header: "struct s { int a; };\nstruct s { int a; };\n", want: "h:4: struct s is defined twice"},
		{name: "array bound", header: "struct s { int a[-1]; };\n", want: "h:3: array bound -1 is out of range"},
		{name: "open function body", header: "static inline int f(void) { if (1) {\n", want: "h:3: function body does not end"},
		{name: "deep", header: "int " + strings.Repeat("(*", 300) + "f" + strings.Repeat(")", 300) + ";\n", want: "h:3: declaration is nested too deeply"},

		// These are contradictions between the files.
		{name: "no typedef", header: spin, want: "h:3: cuWidgetSpin has 1 prototype and 0 typedefs"},
		{name: "no prototype", typedefs: pfnSpin, want: "t:1: PFN_cuWidgetSpin_v2000 has no prototype"},
		{name: "other signature", header: spin, typedefs: "typedef CUresult (*PFN_cuWidgetSpin_v2000)(unsigned n);\n",
			want: "t:1: PFN_cuWidgetSpin_v2000 does not fit cuWidgetSpin: (u32)enum cudaError_enum, not (i32)enum cudaError_enum"},
		{name: "typedef without version", header: spin, typedefs: pfnSpin + "typedef void (*PFN_cuWidgetSpin)(int n);\n",
			want: "t:2: typedef PFN_cuWidgetSpin names no function and version"},
		{name: "typedef of no function", header: spin, typedefs: pfnSpin + "typedef int PFN_cuWidgetSpin_v3000;\n",
			want: "t:2: typedef PFN_cuWidgetSpin_v3000 is no pointer to a function"},
		{name: "redeclared", header: spin + "CUresult cuWidgetSpin(float n);\n", typedefs: pfnSpin,
			want: "h:4: cuWidgetSpin is declared differently in line 3"},
		{name: "name of another library", header: "int frob(void);\n", want: "h:3: function frob: a name of the API begins with cu and a capital letter"},
		{name: "incomplete struct by value", header: "struct s;\nCUresult cuWidgetSpin(struct s n);\n",
			typedefs: "typedef CUresult (*PFN_cuWidgetSpin_v2000)(struct s n);\n",
			want:     "h:4: cuWidgetSpin: parameter n: struct s is not defined"},
		{name: "struct in itself", header: "struct s { struct s a; };\nCUresult cuWidgetSpin(struct s n);\n",
			typedefs: "typedef CUresult (*PFN_cuWidgetSpin_v2000)(struct s n);\n",
			want:     "h:4: cuWidgetSpin: parameter n: struct s contains itself"},
		{name: "nameless parameter", header: "CUresult cuWidgetSpin(\nint);\n", typedefs: pfnSpin, want: "h:4: cuWidgetSpin: parameter has no name"},
		{name: "two aliases", header: "#define cuWidgetSpin cuWidgetSpin_v2\n" + spin + "#undef cuWidgetSpin\n" + spin,
			typedefs: pfnSpin + "typedef CUresult (*PFN_cuWidgetSpin_v3000)(int n);\n",
			want:     "h:4: cuWidgetSpin is both cuWidgetSpin and cuWidgetSpin_v2"},

		// These are errors in the files of this project.
		{name: "unknown result", header: "", results: "0\tCUDA_SUCCESS\tfine\n1\tCUDA_ERROR_X\tno\n", want: "r:2: code 1, CUDA_ERROR_X, is not in the header"},
		{name: "missing result", results: "\n", want: "h:2: CUDA_SUCCESS = 0 has no line in r"},
		{name: "other result", results: "0\tCUDA_FINE\tfine\n", want: "r:1: code 0 is CUDA_FINE here and CUDA_SUCCESS in the header"},
		{name: "result columns", results: "0\tCUDA_SUCCESS\n", want: "r:1: want code, name, text and perhaps sticky, found 2 columns"},
		{name: "result code", results: "0\tCUDA_SUCCESS\tfine\nx\tCUDA_ERROR_X\tno\n", want: "r:2: code 0 is here twice\nr:2: column 1: \"x\" is not a number"},
		{name: "sticky word", results: "0\tCUDA_SUCCESS\tfine\tslimy\n", want: "r:1: column 4: \"slimy\" is neither \"\" nor \"sticky\""},
	} {
		t.Run(test.name, func(t *testing.T) {
			results := test.results
			if results == "" {
				results = "0\tCUDA_SUCCESS\tfine\n"
			}
			_, err := extract(source{"h", preamble + test.header}, source{"t", test.typedefs}, source{"r", results})
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func TestMissingVersion(t *testing.T) {
	_, err := extract(source{"h", strings.SplitAfter(preamble, "\n")[1]}, source{"t", ""},
		source{"r", "0\tCUDA_SUCCESS\tfine\n"})
	if err == nil || err.Error() != "h:1: CUDA_VERSION is not defined" {
		t.Errorf("got %v", err)
	}
}

func TestErrorsAreCapped(t *testing.T) {
	var header strings.Builder
	for i := range 2 * cheader.MaxErrors {
		fmt.Fprintf(&header, "CUtype%d f%d(void);\n", i, i)
	}
	_, err := extract(source{"h", preamble + header.String()}, source{"t", ""}, source{"r", ""})
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != cheader.MaxErrors+1 || lines[0] != `h:3: unknown type "CUtype0"` || lines[cheader.MaxErrors] != "and 20 more" {
		t.Errorf("got\n%v", err)
	}
}

func TestMalformedCalls(t *testing.T) {
	m := widgetManifest(t)
	for _, test := range []struct{ calls, want string }{
		{"A\tcuNoSuch\t-", `c:1: A: the manifest has no function "cuNoSuch"`},
		{"A\tcuWidgetPush\t-\tin", "c:1: A: 1 roles for the 2 parameters of cuWidgetPush"},
		{"A\tcuWidgetPush\tfast\tin\tin", `c:1: A: unknown flag "fast"`},
		{"A\tcuWidgetPush\toften,back\tin\tin", "c:1: A: a call that is made often cannot call back, and returns no pointers and " +
			"no values of a large alignment; it has at most 14 words and no floating-point numbers"},
		{"A\tcuWidgetPush\t-\tin\tin\nA\tcuWidgetPush\t-\tin\tin", "c:2: A is here twice"},
		{"A\tcuWidgetPush\t-\tin\tout", `c:1: A: parameter hStream: CUstream cannot be "out"`},
		{"A\tcuWidgetPush\t-\tin\twhat", `c:1: A: parameter hStream: CUstream cannot be "what"`},
		{"A\tcuWidgetPush\t-\tin\tin:x", `c:1: A: parameter hStream: CUstream cannot be "in:x"`},
		{"A\tcuWidgetElapsed\t-\tbytes\tin\tin", `c:1: A: parameter pMilliseconds: float * cannot be "bytes"`},
		{"A\tcuWidgetElapsed\t-\tout\tin?\tin", `c:1: A: parameter hStart: CUevent cannot be "in?"`},
		{"A\tcuWidgetElapsed\t-\tout?\tin\tin", `c:1: A: parameter pMilliseconds: float * cannot be "out?"`},
		{"A\tcuWidgetCopy_v2\t-\tin\tbuf\tin", "c:1: A: parameter src: no parameter is its length"},
		{"A\tcuWidgetCopy_v2\t-\tin\tbytes\tlen", `c:1: A: parameter ByteCount: no buf parameter ""`},
		{"A\tcuWidgetCopy_v2\t-\tin\tbuf\tlen:dst", `c:1: A: parameter ByteCount: no buf parameter "dst"` + "\n" + "c:1: A: parameter src: no parameter is its length"},
		{"A\tcuWidgetEach\t-\tin\tfunc\tin", "c:1: A: parameter fn: func without data"},
		{"A\tcuWidgetEach\t-\tin\tin\tdata", "c:1: A: parameter userData: data without func"},
		{"A\tcuWidgetElapsed\t-\troom:hStart/n\tin\tin",
			`c:1: A: parameter pMilliseconds: "hStart/n" are not two numbers`},
		{"constants\t[", `c:1: malformed pattern "["`},
		{"constants\tCU_NO_SUCH", "c: no enum and no macro is called CU_NO_SUCH"},
	} {
		files, err := emit(m, source{"c", test.calls + "\n"}, "m")
		if err == nil || err.Error() != test.want || files != nil {
			t.Errorf("%q: got %v, want %s", test.calls, err, test.want)
		}
	}
}

func TestMalformedClasses(t *testing.T) {
	for _, test := range []struct{ classes, want string }{
		{"warm *", "c:1: unknown class \"warm\""},
		{"hot", "c:1: want a class, perhaps dlsym or although, and a pattern"},
		{"hot [", "c:1: malformed pattern \"[\""},
		{"hot cuB*", "c:1: no rule gives cuA a class\nc:1: no rule gives cuWidgetSpin a class"},
		{"hot *", "c:1: cuWidgetSpin is of class hot, and measured.tsv does not say so"},
		{"hot although cuA\nmeasured *", "c:2: no function of cuA contradicts measured.tsv"},
	} {
		m := &manifest{funcs: []funcFact{{export: "cuA", ask: "cuA"}, {export: "cuWidgetSpin", ask: "cuWidgetSpin"}}}
		if err := m.classify(source{"c", test.classes + "\n"}, readSource(t, "testdata/measured.tsv")); err == nil ||
			err.Error() != test.want {
			t.Errorf("%q: got %v, want %s", test.classes, err, test.want)
		}
	}
}

func TestMalformedManifest(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"version\tx", `m:1: column 2: "x" is not a number`},
		{"version\t1\t2", "m:1: version row has 3 columns, want 2"},
		{"frob", `m:1: unknown kind of row "frob"`},
		{"struct\tCUa\t8\t8\ta:int:0", `m:1: malformed member "a:int:0"`},
		{"union\tCUa\t8\t8\ta:int:0:x", `m:1: member "a:int:0:x" has no offset and size`},
		{"alias\tCUa", "m:1: alias row has 2 columns, want 3"},
		{"func\tcuA", "m:1: func row has 2 columns, want 8 or more"},
		{"func\tcuA\tcuA\t1\tplain\t-\tcuA\tCUresult\tn", `m:1: malformed parameter "n"`},
		{"func\tcuA\tcuA\t1\tplain\t-\tcuA\tCUresult\tn:T:x", `m:1: parameter "n:T:x" has no size`},
		{"func\tcuA\tcuA\t1\tround\t-\tcuA\tCUresult", `m:1: column 5: "round" is neither "plain" nor "per-thread"`},
	} {
		if _, err := parseManifest("m", test.text+"\n"); err == nil || err.Error() != test.want {
			t.Errorf("%q: got %v, want %s", test.text, err, test.want)
		}
	}
}

// TestRun runs the commands on files. Correct input replaces the output, and malformed input
// changes nothing.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "manifest.tsv")
	args := func(header string) []string {
		return []string{"extract", "-cuda", header, "-typedefs", "testdata/widgetTypedefs.h",
			"-results", "testdata/results.tsv", "-o", out}
	}
	bad := filepath.Join(dir, "bad.h")
	if err := os.WriteFile(bad, []byte("#if 1\nint n;\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	want := bad + ":1: #if without #endif\n" + bad + ":2: declaration of \"n\" is neither a type nor a function\n"
	if err := run(args(bad), os.Stderr); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("malformed header: got %v, want %s", err, want)
	}
	if names := fileNames(t, dir); names != "bad.h" {
		t.Errorf("malformed header: left %s", names)
	}
	if err := run(args("testdata/widget.h"), os.Stderr); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/golden/manifest.tsv", before)
	if err := run(args(bad), os.Stderr); err == nil {
		t.Error("malformed header: no error")
	}
	if after, _ := os.ReadFile(out); !bytes.Equal(before, after) {
		t.Error("malformed header: the manifest has changed")
	}

	root := filepath.Join(dir, "root")
	for _, d := range []string{"driver", "cu/graph", "tests/gpu"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	emit := []string{"emit", "-manifest", out, "-classes", "testdata/classes.txt", "-measured",
		"testdata/measured.tsv", "-calls", "testdata/calls.tsv", "-root", root}
	if err := run(emit, os.Stderr); err != nil {
		t.Fatal(err)
	}
	if names := fileNames(t, filepath.Join(root,
		"driver")); names != "zcalls.go zenums.go zlayout_test.go zresult.go zsoftware.go zstructs.go zsymbols.go "+
		"zunimplemented.go" {
		t.Errorf("emit wrote %s", names)
	}
	for _, args := range [][]string{nil, {"frob"}, {"emit", "more"}, {"emit", "-frob"}, {"extract"},
		{"emit", "-manifest", "no such file"}} {
		if err := run(args, new(bytes.Buffer)); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

func fileNames(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// FuzzExtract checks that no header makes the tool panic, and that the tool can read the manifest
// that it writes. The seeds are short, because the fuzzer would spend its time on shortening long
// ones.
func FuzzExtract(f *testing.F) {
	_, _, results := widget(f)
	for _, seed := range []struct{ header, typedefs string }{
		{"#define cuA cuA_v2\nint cuA(int n);\n", "typedef int (*PFN_cuA_v2000)(int n);"},
		{"#define F(a, b) a ## b\nF(in, t) cuB(const char **s);\n", "typedef int (*PFN_cuB_v2000)(const char **s);"},
		{"#if defined(A) && (1 << 2) >= 3 || 4\n#elif \\\n1\n#else\n#endif\n", "enum { A = sizeof(int *), B } ;"},
		{"typedef struct s { struct s *p; union { int a[3]; }; } CUs;\n", "typedef int (*PFN_cuC_v1)(CUs s);int cuC(CUs s);"},
		{"typedef void (*CUf)(int (*)(void), ...);\n", "static inline int f(void) { { } } /* x */ // y"},
	} {
		f.Add(seed.header, seed.typedefs)
	}
	preamble := "#define CUDA_VERSION 9020\ntypedef enum { CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE, " +
		"CUDA_ERROR_WIDGET_BROKEN = 700, CUDA_ERROR_PTX_ASSERT = 710 } CUresult;\n"
	f.Fuzz(func(t *testing.T, h, d string) {
		m, err := extract(source{"h", preamble + h}, source{"t", d}, results)
		if err != nil {
			return
		}
		if _, err := parseManifest("m", string(m.format())); err != nil {
			t.Errorf("the manifest cannot be read: %v", err)
		}
	})
}
