package loader

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"
)

// segment is a segment of a generated ELF file.
type segment struct {
	kind           uint32
	offset, length uint64
}

// elfFile returns an ELF file for this machine with these segments, and size bytes after the table
// of segments.
func elfFile(size int, segments ...segment) []byte {
	var b bytes.Buffer
	b.WriteString("\x7fELF\x02\x01\x01")
	b.Write(make([]byte, 9))
	put := func(values ...any) {
		for _, v := range values {
			_ = binary.Write(&b, binary.LittleEndian, v) // writing to a buffer does not fail
		}
	}
	put(uint16(elfShared), ownMachine(), uint32(1), uint64(0), uint64(elfHeaderSize), uint64(0), uint32(0))
	put(uint16(elfHeaderSize), uint16(elfSegmentSize), uint16(len(segments)), uint16(64), uint16(0), uint16(0))
	for _, s := range segments {
		put(s.kind, uint32(5), s.offset, s.offset, s.offset, s.length, s.length, uint64(0x1000))
	}
	b.Write(make([]byte, size))
	return b.Bytes()
}

// changed returns a copy of b with other bytes at an offset.
func changed(b []byte, at int, to ...byte) []byte {
	b = bytes.Clone(b)
	copy(b[at:], to)
	return b
}

func TestExamineELF(t *testing.T) {
	if ownMachine() == 0 {
		t.Skip("there is no CUDA driver for this architecture")
	}
	// A header of 64 bytes, two entries of 56, and 100 bytes: 276.
	whole := elfFile(100, segment{elfLoad, 0, 176}, segment{elfLoad, 176, 100})
	for _, tt := range []struct {
		name string
		file []byte
		want Problem
		why  string
	}{
		{"whole", whole, "", ""},
		{"a byte less", whole[:275], Truncated, "a segment of 100 bytes begins at 176, and the file has 275 bytes"},
		{"half the table", whole[:150], Truncated, "150 bytes are too few for the table"},
		{"the header only", whole[:64], Truncated, "table"},
		{"half the header", whole[:30], Truncated, "30 bytes are too few for a header"},
		{"the machine only", whole[:20], Truncated, "20 bytes"},
		{"less than the machine", whole[:19], Truncated, "19 bytes"},
		{"the magic number", whole[:4], Truncated, "4 bytes"},
		{"a part of it", whole[:2], Truncated, "2 bytes"},
		{"nothing", nil, Truncated, "empty"},
		{"a short text", []byte("abc"), NotALibrary, "not an ELF file"},
		{"a text", []byte(strings.Repeat("text ", 100)), NotALibrary, "not an ELF file"},
		{"a script for the linker", []byte("/* GNU ld script */\nINPUT(libcuda.so.1)"), NotALibrary, "not an ELF file"},
		{"32 bits", changed(changed(whole, 4, 1), 18, elf386, 0), WrongMachine, "386 (32 bits)"},
		{"x32", changed(changed(whole, 4, 1), 18, elfAMD64, 0), WrongMachine, "amd64 (32 bits)"},
		{"arm of 32 bits", changed(changed(whole, 4, 1), 18, elfARM, 0), WrongMachine, "arm (32 bits)"},
		{"big-endian", changed(changed(whole, 5, 2), 18, 0, elfPPC64), WrongMachine, "it is for ppc64,"},
		{"another machine", changed(whole, 18, 8, 0), WrongMachine, "ELF machine 8"},
		{"loong64", changed(whole, 18, elfLoong64&0xff, elfLoong64>>8), WrongMachine, "loong64"},
		{"another machine, truncated", changed(whole, 18, 8, 0)[:64], WrongMachine, "this program is for " + runtime.GOARCH},
		{"a program", changed(whole, 16, 2), NotALibrary, "not a shared library"},
		{"an object file", changed(whole, 16, 1), NotALibrary, "not a shared library"},
		{"no segments", elfFile(100), NotALibrary, "damaged"},
		{"segments of another size", changed(whole, 54, 32), NotALibrary, "damaged"},
		{"a table outside the file", changed(whole, 32, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), Truncated, "table"},
		{"a segment outside the file", elfFile(100, segment{elfLoad, math.MaxUint64, 1}), Truncated, "segment"},
		{"a segment that wraps around", elfFile(100, segment{elfLoad, 100, math.MaxUint64 - 50}), Truncated, "segment"},
		{"a segment outside the file that is not mapped", elfFile(100, segment{elfLoad, 0, 200}, segment{7, 1 << 40, 1 << 40}), "", ""},
	} {
		if ownMachine() == elfLoong64 && tt.name == "loong64" {
			continue
		}
		problem, why, err := examineELF(bytes.NewReader(tt.file).ReadAt, int64(len(tt.file)))
		if problem != tt.want || err != nil || !strings.Contains(why, tt.why) || (why == "") != (tt.want == "") {
			t.Errorf("%s: %q, %q, %v; want %q, %q", tt.name, problem, why, err, tt.want, tt.why)
		}
	}
}

// TestExamineELFReadError checks that a file that cannot be read does not count as damaged.
func TestExamineELFReadError(t *testing.T) {
	whole := elfFile(100, segment{elfLoad, 0, 100})
	for failing := range 2 {
		reads := 0
		_, _, err := examineELF(func(p []byte, off int64) (int, error) {
			if reads++; reads > failing {
				return 0, io.ErrClosedPipe
			}
			return bytes.NewReader(whole).ReadAt(p, off)
		}, int64(len(whole)))
		if !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("read %d fails: %v", failing, err)
		}
	}
}

// FuzzExamineELF checks that no byte outside the file is read, and that a library with a segment
// outside the file is rejected.
func FuzzExamineELF(f *testing.F) {
	whole := elfFile(100, segment{elfLoad, 0, 176}, segment{elfLoad, 176, 100})
	f.Add(whole)
	f.Add(whole[:200])
	f.Add(whole[:10])
	f.Add(changed(whole, 32, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f))
	f.Fuzz(func(t *testing.T, file []byte) {
		problem, why, err := examineELF(func(p []byte, off int64) (int, error) {
			if off < 0 || off+int64(len(p)) > int64(len(file)) {
				t.Errorf("%d bytes at %d are read, of %d", len(p), off, len(file))
			}
			return bytes.NewReader(file).ReadAt(p, off)
		}, int64(len(file)))
		if err != nil || (problem == "") != (why == "") {
			t.Errorf("%q, %q, %v", problem, why, err)
		}
		if problem != "" {
			return
		}
		table, count := binary.LittleEndian.Uint64(file[32:]), binary.LittleEndian.Uint16(file[56:])
		for i := range uint64(count) {
			s := file[table+i*elfSegmentSize:]
			offset, length := binary.LittleEndian.Uint64(s[8:]), binary.LittleEndian.Uint64(s[32:])
			end := offset + length
			if binary.LittleEndian.Uint32(s) == elfLoad && (end < offset || end > uint64(len(file))) {
				t.Errorf("a segment of %d bytes at %d passes, of %d", length, offset, len(file))
			}
		}
	})
}
