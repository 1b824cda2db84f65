package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const moduleRoot = "../.."

// TestCommitted checks that the committed facts produce the committed files.
func TestCommitted(t *testing.T) {
	if _, err := os.Stat(filepath.Join(moduleRoot, "nvml/raw")); err != nil {
		t.Skipf("the library is not beside the tools: %v", err)
	}
	files, err := generate("manifest/nvml-13.0.tsv", "manifest/nvml-unverified.tsv", "manifest/drivers.tsv", "calls.tsv",
		"returns.tsv", "methods.tsv", "names.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		have, err := os.ReadFile(filepath.Join(moduleRoot, filepath.FromSlash(name)))
		if err != nil || !bytes.Equal(have, data) {
			t.Errorf("%s is not what the generator writes: run go generate (%v)", name, err)
		}
	}
}

// TestManifest checks that a manifest that was read is written as it was.
func TestManifest(t *testing.T) {
	for _, name := range []string{"manifest/nvml-13.0.tsv", "manifest/nvml-unverified.tsv"} {
		src, err := readSource(name)
		if err != nil {
			t.Fatal(err)
		}
		f := &facts{}
		if strings.Contains(name, "unverified") { // its constants belong to enums of the other one
			f, err = readFacts(name, "")
		} else {
			err = f.parse(name, src.text, false)
		}
		if err != nil || string(f.format()) != src.text {
			t.Errorf("%s is written differently (%v)", name, err)
		}
	}
}

// header is one of an invented API, with what is difficult in NVML's.
const header = `
#ifndef NVML_NO_UNVERSIONED_FUNC_DEFS
#define nvmlOld nvmlSpin_v2
#endif
#define NVML_STRUCT_VERSION(data, ver) (unsigned int)(sizeof(nvml ## data ## _v ## ver ## _t) | (ver << 24U))
#define NVML_COUNT 3
#define NVML_NAME "%x"
#define NVML_GET(v) ((v) + 1)
#define NVML_BITS 0:0
typedef struct nvmlTop_st *nvmlTop_t;
typedef enum { NVML_UP = 0, NVML_DOWN = -1 } nvmlWay_t;
typedef unsigned int nvmlId_t;
typedef union { double d; unsigned long ul; } nvmlValue_t;
typedef struct nvmlSpin_v1_st {
	unsigned int version;
	nvmlTop_t top;
	struct { unsigned char part[NVML_COUNT]; } parts[2];
	union { int a; char b[4]; };
	nvmlValue_t value;
} nvmlSpin_v1_t, nvmlSpinInfo_t;
typedef nvmlSpin_v1_t nvmlSpin_t;
#define nvmlSpin_v1 NVML_STRUCT_VERSION(Spin, 1)
nvmlReturn_t nvmlSpin_v2(nvmlTop_t top, const char *name, nvmlSpin_t *spin);
nvmlReturn_t nvmlNotExported(void);
`

const returnType = "typedef enum { NVML_SUCCESS = 0 } nvmlReturn_t;"

func TestExtract(t *testing.T) {
	f, missing, err := extract(source{"h", returnType + header}, []string{"nvmlSpin_v2", "nvmlOld", "nvmlInternal"})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(missing, " ") != "nvmlInternal" {
		t.Errorf("%q are missing", missing)
	}
	const want = `define	NVML_COUNT	0x3
text	NVML_NAME	"%x"
enum	nvmlReturn_t	NVML_SUCCESS	0x0
enum	nvmlWay_t	NVML_UP	0x0
enum	nvmlWay_t	NVML_DOWN	-1
scalar	nvmlId_t	unsigned int
handle	nvmlTop_t	struct nvmlTop_st *
alias	nvmlSpinInfo_t	nvmlSpin_v1_t
alias	nvmlSpin_t	nvmlSpin_v1_t
struct	nvmlSpin_v1_t	40	8	version:unsigned int:0:4	top:nvmlTop_t:8:8	parts:nvmlSpin_v1_t.parts [2]:16:6	:nvmlSpin_v1_t._:24:4	value:nvmlValue_t:32:8
union	nvmlSpin_v1_t._	4	4	a:int:0:4	b:char [4]:0:4
struct	nvmlSpin_v1_t.parts	3	1	part:unsigned char [3]:0:3
union	nvmlValue_t	8	8	d:double:0:8	ul:unsigned long:0:8
version	nvmlSpin_v1	0x1000028
func	nvmlSpin_v2	nvmlReturn_t	top:nvmlTop_t	name:const char *	spin:nvmlSpin_t *
other	nvmlOld	nvmlSpin_v2
`
	if got := strings.TrimPrefix(string(f.format()), factsHead); got != want {
		t.Errorf("the facts are\n%s", got)
	}
	newer, _, err := extract(source{"h", returnType + header + "nvmlReturn_t nvmlNewer(void);"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimPrefix(string(newer.newIn(f).format()), factsHead); got !=
		"func\tnvmlNewer\tnvmlReturn_t\nfunc\tnvmlNotExported\tnvmlReturn_t\n" {
		t.Errorf("what is new is\n%s", got)
	}
	if _, _, err = extract(source{"h", "typedef nvmlNo_t nvmlX_t;"}, nil); err == nil {
		t.Error("a header with an unknown type is accepted")
	}
}

// TestPlan checks mistakes in calls.tsv.
func TestPlan(t *testing.T) {
	const api = returnType + `
typedef struct nvmlTop_st *nvmlTop_t;
nvmlReturn_t nvmlRead(nvmlTop_t top, unsigned int n, int *values, unsigned int *count);
nvmlReturn_t nvmlText(nvmlTop_t top, char *text);
`
	f, _, err := extract(source{"h", api}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ calls, want string }{
		{"nvmlText\ttext=room", ""},
		{"nvmlRead\tvalues=len:n\nnvmlText\ttext=room:NVML_SIZE", ""},
		{"nvmlRead\tvalues=count:count\nnvmlText\ttext=out", ""},
		{"", "calls.tsv:0: nvmlText: text: calls.tsv must say how long it is"},
		{"nvmlText\ttext=room\nnvmlWrite\tx=in", "calls.tsv:2: nvmlWrite is no function, or has a line before this one"},
		{"nvmlText\ttext=room\tname=in", "calls.tsv:1: nvmlText has no parameter name"},
		{"nvmlText\ttext=rooms", "calls.tsv:0: nvmlText: text: there is no role rooms"},
		{"nvmlText\ttext=room\ttop=in", "calls.tsv:0: nvmlText: top: a nvmlTop_t has not the role in"},
		{"nvmlText\ttext=room\nnvmlRead\tvalues=len:m", "calls.tsv:0: nvmlRead: values: there is no parameter m"},
		{"nvmlText\ttext=room\nnvmlRead\tvalues=len:count", "calls.tsv:0: nvmlRead: count cannot count"},
		{"nvmlText\ttext=room\nnvmlRead\tvalues=count:n", "calls.tsv:0: nvmlRead: n cannot count"},
	} {
		_, err := newPlan(f, &drivers{}, source{"calls.tsv", tt.calls})
		if got := ""; err != nil && err.Error() != tt.want || err == nil && got != tt.want {
			t.Errorf("%q: %v, want %s", tt.calls, err, tt.want)
		}
	}
}
