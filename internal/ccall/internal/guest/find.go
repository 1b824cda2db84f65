//go:build linux && (amd64 || arm64) && cu_static && !cgo && !go1.28

package guest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// Env is the name of the environment variable with the absolute path of glibc's dynamic loader. A
// program that runs with more rights than its caller ignores the variable.
const Env = "PURECU_LD_SO"

// ErrNoGlibc is the error on a machine without glibc.
var ErrNoGlibc = errors.New("there is no glibc on this machine")

// ErrGlibcFailed is the error if glibc cannot be initialised: it is broken, or the system refuses
// the process a resource.
var ErrGlibcFailed = errors.New("the glibc of this machine cannot be initialised")

// ErrNoThread is the error of a call that cannot be made because glibc cannot create the thread
// that it needs.
var ErrNoThread = errors.New("no thread can be created to call C")

// elfFile is the parsed header of an ELF file, with the file's content.
type elfFile struct {
	typ     uint16
	entry   uint64
	progs   []prog
	content []byte
}

// prog is a program header.
type prog struct {
	typ, flags                          uint32
	offset, vaddr, filesz, memsz, align uint64
}

// Constants of the ELF format.
const (
	etDyn = 3

	ptLoad   = 1
	ptInterp = 3

	pfX, pfW, pfR = 1, 2, 4

	ehdrSize = 64
	phdrSize = 56
)

var errNotELF = errors.New("not an ELF file of this architecture")

// maxLoader is the largest size of a file that is read as glibc's loader. The loader has less than
// a megabyte.
const maxLoader = 64 << 20

// isELF reports whether a file that begins with b is an ELF file of this architecture.
func isELF(b []byte) bool {
	return len(b) >= ehdrSize && string(b[:4]) == "\x7fELF" && b[4] == 2 && b[5] == 1 &&
		binary.LittleEndian.Uint16(b[18:]) == machine
}

// parseELF reads the headers of a file.
func parseELF(b []byte) (*elfFile, error) {
	le := binary.LittleEndian
	if !isELF(b) {
		return nil, errNotELF
	}
	f := &elfFile{typ: le.Uint16(b[16:]), entry: le.Uint64(b[24:]), content: b}
	off, size, n := le.Uint64(b[32:]), uint64(le.Uint16(b[54:])), uint64(le.Uint16(b[56:]))
	if size != phdrSize || off > uint64(len(b)) || n*size > uint64(len(b))-off {
		return nil, errors.New("its program headers lie outside of the file")
	}
	for i := range n {
		p := b[off+i*size:]
		f.progs = append(f.progs, prog{typ: le.Uint32(p), flags: le.Uint32(p[4:]), offset: le.Uint64(p[8:]),
			vaddr: le.Uint64(p[16:]), filesz: le.Uint64(p[32:]), memsz: le.Uint64(p[40:]), align: le.Uint64(p[48:])})
	}
	return f, nil
}

// interpreter returns the name of the dynamic loader of a program, or "".
func interpreter(file string) string {
	// The headers and the name are at the beginning of the file.
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	b := make([]byte, 4096)
	n, _ := f.ReadAt(b, 0)
	e, err := parseELF(b[:n])
	if err != nil {
		return ""
	}
	for _, p := range e.progs {
		if p.typ == ptInterp && p.offset < uint64(n) && p.filesz <= uint64(n)-p.offset {
			name, _, _ := bytes.Cut(b[p.offset:p.offset+p.filesz], []byte{0})
			return string(name)
		}
	}
	return ""
}

// programs are programs that most systems have. Their interpreter is the loader, even if it is not
// in a usual place.
var programs = []string{"/bin/sh", "/usr/bin/env", "/proc/1/exe", "/run/current-system/sw/bin/sh"}

// loaders returns the paths where glibc's loader may be, the most likely path first.
func loaders() []string {
	var list []string
	add := func(name string) {
		for _, have := range list {
			if have == name {
				return
			}
		}
		list = append(list, name)
	}
	for _, p := range programs {
		if name := interpreter(p); name != "" {
			add(name)
		}
	}
	for _, name := range loaderNames {
		add(name)
	}
	return list
}

// findLoader reads the first file that is glibc's loader. Its error says for each file why it is
// not. The error matches ErrNoGlibc, unless one of the files cannot be read or is broken.
// muslLoader is the path of musl's loader, which the error mentions if it exists.
func findLoader(names []string, muslLoader string) (name string, f *elfFile, err error) {
	var why []string
	musl, broken := false, false
	for _, name := range names {
		f, err := readLoader(name)
		switch {
		case err == nil:
			return name, f, nil
		case errors.Is(err, fs.ErrNotExist):
			continue
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOMEM):
			return "", nil, err // the file may be a loader
		case errors.Is(err, errNotGlibc):
			musl = musl || strings.Contains(name, "musl")
		default:
			broken = true
		}
		why = append(why, fmt.Sprintf("%s: %v", name, err))
	}
	if _, e := os.Stat(muslLoader); e == nil && !musl { // no program names it
		musl = true
		why = append(why, fmt.Sprintf("%s: %v", muslLoader, errNotGlibc))
	}
	switch {
	case broken:
		err = errors.New(strings.Join(why, "; "))
	case musl:
		err = fmt.Errorf("%w: it has musl, and NVIDIA's driver needs glibc (%s)", ErrNoGlibc, strings.Join(why, "; "))
	case len(why) > 0:
		err = fmt.Errorf("%w: %s", ErrNoGlibc, strings.Join(why, "; "))
	default:
		err = fmt.Errorf("%w, which NVIDIA's driver needs: none of these is there: %s", ErrNoGlibc, strings.Join(names, ", "))
	}
	return "", nil, err
}

var errNotGlibc = errors.New("it is not glibc's loader")

// readLoader reads a file, and returns an error if it is not glibc's loader.
func readLoader(name string) (*elfFile, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // opening a pipe could block forever
		return nil, errors.New("it is not a regular file")
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	// Read the header first: the file may be of any kind and size.
	header := make([]byte, ehdrSize)
	if n, err := io.ReadFull(file, header); !isELF(header[:n]) {
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return nil, err
		}
		return nil, errNotELF
	}
	if info.Size() > maxLoader {
		return nil, fmt.Errorf("it has %d bytes, and no loader has more than %d", info.Size(), maxLoader)
	}
	rest, err := io.ReadAll(io.LimitReader(file, maxLoader)) // the file may have grown
	if err != nil {
		return nil, err
	}
	b := append(header, rest...)
	f, err := parseELF(b)
	if err != nil {
		return nil, err
	}
	if f.typ != etDyn || !bytes.Contains(b, []byte("GLIBC_PRIVATE")) { // the version of glibc's internal symbols
		return nil, errNotGlibc
	}
	return f, nil
}
