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

// Env names the environment variable that names the dynamic loader of the glibc to use,
// an absolute path. A program that runs with more rights than its caller does not read it.
const Env = "PURECU_LD_SO"

// ErrNoGlibc is matched by the error of a machine on which no glibc is found.
var ErrNoGlibc = errors.New("there is no glibc on this machine")

// ErrGlibcFailed is matched by the error of a glibc that does not come up: it is broken, or the process
// is not given what that takes.
var ErrGlibcFailed = errors.New("the glibc of this machine does not come up")

// ErrNoThread is matched by the error of a call that cannot be made, as glibc makes no thread in whose name
// that could be.
var ErrNoThread = errors.New("there is no thread to call C in the name of")

// elfFile is what is known of an ELF file.
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

// ELF's numbers.
const (
	etDyn = 3

	ptLoad   = 1
	ptInterp = 3

	pfX, pfW, pfR = 1, 2, 4

	ehdrSize = 64
	phdrSize = 56
)

var errNotELF = errors.New("not an ELF file of this architecture")

// maxLoader is the greatest size of a file that is read as glibc's loader, which has less than a megabyte.
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

// interpreter returns the name of the dynamic loader that a program asks for, or "".
func interpreter(file string) string {
	// The headers and the name are at the beginning.
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

// Programs that most systems have, and which tell where the loader is where it is in no
// usual place.
var programs = []string{"/bin/sh", "/usr/bin/env", "/proc/1/exe", "/run/current-system/sw/bin/sh"}

// loaders returns where glibc's loader may be, the likeliest first.
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

// findLoader reads the first of the files that is glibc's loader. The error says of each why it is not; it
// matches ErrNoGlibc unless there is one that cannot be read, or is broken. muslLoader is where a system
// without glibc may have musl's, which the error then speaks of.
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
			return "", nil, err // this says nothing of the machine
		case errors.Is(err, errNotGlibc):
			musl = musl || strings.Contains(name, "musl")
		default:
			broken = true
		}
		why = append(why, fmt.Sprintf("%s: %v", name, err))
	}
	if _, e := os.Stat(muslLoader); e == nil && !musl { // which no program has named
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

// readLoader reads a file that shall be glibc's loader.
func readLoader(name string) (*elfFile, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // opening a pipe could take for ever
		return nil, errors.New("it is no regular file")
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	// The header first: any file may have been named, of any size.
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
	rest, err := io.ReadAll(io.LimitReader(file, maxLoader)) // it may have grown
	if err != nil {
		return nil, err
	}
	b := append(header, rest...)
	f, err := parseELF(b)
	if err != nil {
		return nil, err
	}
	if f.typ != etDyn || !bytes.Contains(b, []byte("GLIBC_PRIVATE")) { // a version that glibc gives its own symbols
		return nil, errNotGlibc
	}
	return f, nil
}
