package codeimage

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The parts of testELF, in the order in which they follow each other.
const (
	elfHeader   = 64
	elfProgram  = 56
	elfContents = 16
	elfSection  = 64
)

// testELF returns a 64-bit ELF file of one program header and one section with
// contents. The section header comes last.
func testELF() []byte {
	le := binary.LittleEndian
	b := make([]byte, elfHeader+elfProgram+elfContents+elfSection)
	copy(b, "\x7fELF\x02\x01\x01")
	le.PutUint64(b[32:], elfHeader)
	le.PutUint64(b[40:], elfHeader+elfProgram+elfContents)
	for i, n := range []uint16{elfHeader, elfProgram, 1, elfSection, 1} {
		le.PutUint16(b[52+2*i:], n)
	}
	h := b[elfHeader+elfProgram+elfContents:]
	le.PutUint32(h[4:], 1) // SHT_PROGBITS
	le.PutUint64(h[24:], elfHeader+elfProgram)
	le.PutUint64(h[32:], elfContents)
	return b
}

// testFatbin returns a fatbin of 32 bytes.
func testFatbin() []byte {
	b := make([]byte, 32)
	binary.LittleEndian.PutUint32(b, fatbinMagic)
	binary.LittleEndian.PutUint64(b[8:], 16)
	return b
}

// TestCheck checks images that are whole, and some that would lead the driver beyond their end.
func TestCheck(t *testing.T) {
	le := binary.LittleEndian
	const section = elfHeader + elfProgram + elfContents
	elf := func(change func(b []byte)) []byte {
		b := testELF()
		change(b)
		return b
	}
	fatbin := testFatbin()
	wrapper := make([]byte, 24)
	le.PutUint32(wrapper, wrapperMagic)
	for _, c := range []struct {
		name  string
		image []byte
		want  string // what is wrong, "" if the image is good
	}{
		{"ELF", testELF(), ""},
		{"ELF with a byte too many", append(testELF(), 0), ""},
		{"fatbin", fatbin, ""},
		{"fatbin with a byte too many", append(testFatbin(), 0), ""},
		{"PTX", []byte(".version 8.0\n.entry noop() { ret; }"), ""},
		{"one byte", []byte("x"), ""},
		{"a section without room in the file", elf(func(b []byte) {
			le.PutUint32(b[section+4:], 8) // SHT_NOBITS
			le.PutUint64(b[section+32:], 1<<40)
		}), ""},
		{"nil", nil, "is empty"},
		{"empty", []byte{}, "is empty"},
		{"ELF, half a header", testELF()[:elfHeader-1], "truncated cubin: it has 63 bytes, and needs 64"},
		{"ELF, program headers beyond the end", elf(func(b []byte) { le.PutUint16(b[56:], 4) }), "truncated cubin: it has 200 bytes, and needs 288"},
		{"ELF, program headers far beyond the end", elf(func(b []byte) { le.PutUint64(b[32:], 1<<64-1) }), "truncated cubin"},
		{"ELF, section headers beyond the end", testELF()[:section+elfSection-1], "truncated cubin: it has 199 bytes, and needs 200"},
		{"ELF, section headers far beyond the end", elf(func(b []byte) { le.PutUint64(b[40:], 1<<64-1) }), "truncated cubin"},
		{"ELF, a section beyond the end", elf(func(b []byte) { le.PutUint64(b[section+32:], 81) }), "truncated cubin: it has 200 bytes, and needs 201"},
		{"ELF, a section far beyond the end", elf(func(b []byte) { le.PutUint64(b[section+24:], 1<<64-1) }), "truncated cubin"},
		{"fatbin, half a header", fatbin[:15], "truncated fatbin: it has 15 bytes, and needs 16"},
		{"fatbin, half a body", fatbin[:31], "truncated fatbin: it has 31 bytes, and needs 32"},
		{"fatbin, of any length", append(bytes.Clone(fatbin[:8]), bytes.Repeat([]byte{0xff}, 24)...), "truncated fatbin"},
		{"nvcc's wrapper", wrapper, "the wrapper that nvcc puts around a fatbin"},
	} {
		if got := Check(c.image); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q; want %q", c.name, got, c.want)
		}
	}
	for name, image := range map[string][]byte{"ELF": testELF(), "fatbin": fatbin} {
		for n := 4; n < len(image); n++ {
			if Check(image[:n]) == "" {
				t.Errorf("%d of the %d bytes of the %s were accepted", n, len(image), name)
			}
		}
		for i := range image {
			changed := bytes.Clone(image)
			changed[i] ^= 0xff
			Check(changed) // must not panic
		}
	}
}

// TestRead reads files with GPU code, and only the beginning of one that is none.
func TestRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "image")
	for name, c := range map[string]struct {
		content string
		size    int64 // 0: as it is
		want    int
	}{
		"empty":       {"", 0, 0},
		"short":       {".version 8.0", 0, 12},
		"PTX":         {strings.Repeat("// PTX\n", 100), 0, 700},
		"PTX and NUL": {strings.Repeat("// PTX\n", 100) + "\x00", 0, 701},
		"cubin":       {"\x7fELF" + strings.Repeat("\x00", 1000), 0, 1004},
		"fatbin":      {"\x50\xed\x55\xba" + strings.Repeat("\x00", 1000), 0, 1004},
		"nothing":     {"", 4 << 30, 64},
	} {
		if err := os.WriteFile(file, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if c.size != 0 {
			if err := os.Truncate(file, c.size); err != nil {
				t.Skip(err)
			}
		}
		got, err := Read(file)
		if err != nil || len(got) != c.want || !strings.HasPrefix(c.content+strings.Repeat("\x00", 64), string(got)) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	if _, err := Read(filepath.Dir(file)); err == nil {
		t.Error("a folder was read")
	}
}

// TestIsPTX tells text from the binary formats.
func TestIsPTX(t *testing.T) {
	for image, want := range map[string]bool{
		"": true, "x": true, ".version 8.0\x00": true, string(testELF()): false, string(testFatbin()): false, "\x7fEL": true,
	} {
		if got := IsPTX([]byte(image)); got != want {
			t.Errorf("%.16q: %v", image, got)
		}
	}
}
