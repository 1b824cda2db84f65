package main

import (
	"fmt"
	"strings"
	"testing"
)

const committedName = "cuda-13.0.tsv, cudaProfiler-13.0.tsv, cuda-13.4-unverified.tsv"

// committedManifest reads the manifest that the library is generated from.
func committedManifest(t *testing.T) *manifest {
	t.Helper()
	names := strings.Split(committedName, ", ")
	src := readSource(t, "manifest/"+names[0])
	m, err := parseManifest(src.name, src.text)
	for _, additions := range names[1:] {
		if err == nil {
			err = addFile(m, "manifest/"+additions)
		}
	}
	if err == nil {
		err = m.classify(readSource(t, "classes.txt"), readSource(t, "../../tests/gpu/blocking.tsv"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestLibraryStubs checks what exported functions of the C library do where a faulty generator
// would be wrong.
func TestLibraryStubs(t *testing.T) {
	files, err := emitLibrary(committedManifest(t), readSource(t, "calls.tsv"), readSource(t, "libcuda.tsv"), "m",
		implementedHere(t))
	if err != nil {
		t.Fatal(err)
	}
	stubs := string(files["cusim/libcuda/build/stub/zlibcuda.c"])
	body := func(export string) string {
		_, rest, found := strings.Cut(stubs, "int "+export+"(")
		if !found {
			t.Fatalf("%s has no stub", export)
		}
		_, rest, _ = strings.Cut(rest, "{\n")
		body, _, _ := strings.Cut(rest, "\n}\n")
		return body
	}
	number := func(export string) string {
		_, rest, _ := strings.Cut(body(export), "return cusim_call(")
		n, _, _ := strings.Cut(rest, ",")
		return n
	}
	for _, tt := range []struct {
		name string
		same bool
		a, b string
	}{
		{"an older interface with the same arguments", true, "cuEventDestroy", "cuEventDestroy_v2"},
		{"the thread's own stream is an argument", true, "cuEventRecord", "cuEventRecord_ptsz"},
		{"the thread's own stream is none", false, "cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2_ptds"},
		{"two interfaces, each with a call", false, "cuEventElapsedTime", "cuEventElapsedTime_v2"},
	} {
		a, b := number(tt.a), number(tt.b)
		if a == "" || b == "" || (a == b) != tt.same {
			t.Errorf("%s: %s makes call %q, %s call %q", tt.name, tt.a, a, tt.b, b)
		}
	}
	for export, part := range map[string]string{
		"cuEventRecord_ptsz":       "cusim_own(hStream)",
		"cuEventRecord":            "(uintptr_t)hStream",
		"cuMemcpyHtoD":             "CUDA_ERROR_NOT_SUPPORTED", // its addresses have 32 bits
		"cuMipmappedArrayGetLevel": "CUDA_ERROR_NOT_SUPPORTED",
		"cuEventQuery":             "if (!hEvent && !cusim_initialized())",
		"cuIpcOpenEventHandle":     "(uintptr_t)&handle",
		"cuDeviceGetAttribute":     "(uint32_t)dev",
		"cuGLInit":                 "CUDA_ERROR_NOT_SUPPORTED",
	} {
		if !strings.Contains(body(export), part) {
			t.Errorf("%s has no %q:\n%s", export, part, body(export))
		}
	}
	for part, want := range map[string]bool{
		`{"cuGLGetDevices", 6050, 0, (void *)cuGLGetDevices_v2}`:                true,
		`{"cuGLMapBufferObject", 7000, 1, (void *)cuGLMapBufferObject_v2_ptds}`: true,
		`(void *)cuMemGetAttribute}`:                                            false, // it is found by dlsym only
	} {
		if strings.Contains(stubs, part) != want {
			t.Errorf("the table of symbols: %s: %v, want %v", part, !want, want)
		}
	}
	if header := string(files["cusim/libcuda/build/stub/zlibcuda.h"]); !strings.Contains(header,
		"int cuIpcOpenEventHandle(void *phEvent, struct cusim_words8 handle);") {
		t.Error("the header has another prototype of cuIpcOpenEventHandle")
	}
}

// TestLibraryMalformed checks that a malformed file is rejected.
func TestLibraryMalformed(t *testing.T) {
	m, calls := committedManifest(t), readSource(t, "calls.tsv")
	for line, want := range map[string]string{
		"byhand\tcuNothing":                           `no function "cuNothing"`,
		"byhand\tcuInit\nstatic\tcuInit":              "twice",
		"byhand\tcuInit\tFlags":                       "3 columns, want 2",
		"optional\tcuInit\tflags":                     `no parameter "flags"`,
		"optional\tcuInit":                            "2 columns, want 3",
		"told\tcuGraphExecUpdate\tresult":             `no parameter "result"`,
		"required\tcuEventElapsedTime\tms":            `no parameter "ms"`,
		"sized\tcuMemPoolGetAttribute\tf(attribute)":  `no parameter "attribute"`,
		"handle\tcuEventQuery\thStream":               `no parameter "hStream"`,
		"elsewhere\tcuEventQuery\thEvent":             "unknown kind of row",
		"export\tcuInit\tcuInit\t2000\tplain\tcuda.h": "cuInit is here twice, or in the manifest",
		"export\tcuOdd\tcuOdd\t2000\tplain":           "5 columns, want 6",
		"export\tcuOdd\tcuOdd\tnew\tplain\todd.h":     "not a number",
	} {
		_, err := emitLibrary(m, calls, source{"l", line + "\n"}, "m", nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", line, err, want)
		}
	}
	odd := &manifest{funcs: []funcFact{{export: "cuOdd", ask: "cuOdd", ret: "CUresult",
		params: []paramFact{{name: "p", typ: "CUodd"}}}}}
	if _, err := emitLibrary(odd, source{"c", ""}, source{"l", ""}, "m", nil); err == nil ||
		!strings.Contains(err.Error(), "cuOdd: parameter p") {
		t.Errorf("an unknown type: %v", err)
	}
}

// TestAdditions adds facts to a manifest, and refuses those that cannot be added.
func TestAdditions(t *testing.T) {
	const fact = "func\tcuB\tcuB\t4000\tplain\tcurrent\tcuB\tCUresult\n"
	for _, c := range []struct{ more, want string }{
		{"version\t13000\n" + fact, ""},
		{"version\t13010\nsource\tsomewhere\n" + fact, ""},
		{"version\t12090\n" + fact, "version 12090 is older than 13000"},
		{"version\t13000\nsource\tsomewhere\n" + fact, "func cuB has another source than the header"},
		{"version\t13010\n" + fact, "func cuB comes after no source"},
		{"version\t13000\n" + strings.ReplaceAll(fact, "cuB", "cuA"), "func cuA is not new"},
	} {
		m, err := parseManifest("m", "version\t13000\n"+strings.ReplaceAll(fact, "cuB", "cuA"))
		if err != nil {
			t.Fatal(err)
		}
		more, err := parseManifest("more", c.more)
		if err != nil {
			t.Fatal(err)
		}
		switch err := m.add("more", more); {
		case c.want == "" && err == nil && len(m.funcs) == 2:
		case c.want == "" || err == nil || !strings.Contains(err.Error(), c.want):
			t.Errorf("%q: %v, %d functions; want %q", c.more, err, len(m.funcs), c.want)
		}
	}
}

// TestMembers adds members of a newer release to structs and unions, and refuses those that older
// drivers cannot have room for.
func TestMembers(t *testing.T) {
	const head = "version\t13010\nsource\tsomewhere\n"
	for _, c := range []struct{ more, want string }{
		{"members\tCUs\t24\t8\tb:int:8:4\tc:void *:16:8", "a:int:0:4 b:int:8:4* c:void *:16:8*"},
		{"members\tCUs\t16\t8\tb:int:8:4\treserved:int:12:4", "a:int:0:4 b:int:8:4* reserved:int:12:4*"},
		{"members\tCUs\t16\t8\ta:unsigned int:0:4", "a:unsigned int:0:4* reserved:int [2]:8:8"},
		{"members\tCUs\t16\t8\tb:int:0:4", "CUs: a newer member has the place of a"},
		{"members\tCUs\t8\t8\tb:int:4:4", "CUs: 8 bytes, aligned to 8, are too few"},
		{"members\tCUs\t16\t4\tb:int:4:4", "CUs: 16 bytes, aligned to 4, are too few"},
		{"members\tCUs\t16\t8\tb:int:16:4", "CUs: 16 bytes, aligned to 8, are too few"},
		{"members\tCUu\t8\t4\tb:int [2]:0:8\t_all:char [4]:0:4", "_all:char [4]:0:4* a:int:0:4 b:int [2]:0:8*"},
		{"members\tCUp\t16\t8\tc:int:8:4", "CUp is a parameter of cuA, and may not become larger"},
		{"members\tCUp\t8\t8\tb:unsigned int:4:4", "a:int:0:4 b:unsigned int:4:4*"},
		{"members\tCUx\t8\t4\tb:int:0:4", "members of CUx are not new members of a struct of the header"},
		{"struct\tCUx\t4\t4\ta:int:0:4\nmembers\tCUx\t8\t4\tb:int:4:4", "members of CUx are not new members"},
	} {
		m, err := parseManifest("m", "version\t13000\nstruct\tCUs\t16\t8\ta:int:0:4\treserved:int [2]:8:8\n"+
			"struct\tCUp\t8\t8\ta:int:0:4\tb:int:4:4\n"+
			"union\tCUu\t16\t4\t_all:char [16]:0:16\ta:int:0:4\n"+
			"func\tcuA\tcuA\t4000\tplain\tcurrent\tcuA\tCUresult\tp:const CUp *\n")
		if err != nil {
			t.Fatal(err)
		}
		more, err := parseManifest("more", head+c.more)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.add("more", more); err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q: %v, want %q", c.more, err, c.want)
			}
			continue
		}
		s, _ := m.structByName(strings.Split(c.more, "\t")[1])
		var got []string
		for _, f := range s.fields {
			text := fmt.Sprintf("%s:%s:%d:%d", f.name, f.typ, f.offset, f.size)
			if f.unverified {
				text += "*"
			}
			got = append(got, text)
		}
		if strings.Join(got, " ") != c.want || s.older == nil || len(s.older.fields) != 2 {
			t.Errorf("%q: %s, want %s", c.more, got, c.want)
		}
	}
}
