//go:build linux && (amd64 || arm64) && cu_static && !cgo && !go1.28

package guest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// Env names the environment variable that names the dynamic loader of the glibc to use,
// an absolute path. A program that runs with more rights than its caller does not read it.
const Env = "PURECU_LD_SO"

// ErrNoGlibc is matched by the error of a machine that has no glibc that could be used.
var ErrNoGlibc = errors.New("there is no glibc on this machine")

// unusable is the error of a glibc that is there, and of no use: it matches [ErrNoGlibc],
// whose text it does not have.
type unusable struct{ error }

// Is reports whether the error is asked for as [ErrNoGlibc].
func (u unusable) Is(target error) bool { return target == ErrNoGlibc }

// Unwrap returns what makes the glibc of no use.
func (u unusable) Unwrap() error { return u.error }

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

// parseELF reads the headers of a file.
func parseELF(b []byte) (*elfFile, error) {
	le := binary.LittleEndian
	if len(b) < ehdrSize || string(b[:4]) != "\x7fELF" || b[4] != 2 || b[5] != 1 || le.Uint16(b[18:]) != machine {
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
func loaders(override string) []string {
	if override != "" {
		return []string{override}
	}
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

// findLoader reads the first of the files that is glibc's loader. The error, which
// matches ErrNoGlibc, says of each why it is not.
func findLoader(names []string) (name string, f *elfFile, err error) {
	var why []string
	musl := false
	for _, name := range names {
		info, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var b []byte
		if err == nil && !info.Mode().IsRegular() { // opening a pipe could take for ever
			err = errors.New("it is no regular file")
		} else if err == nil {
			b, err = os.ReadFile(name)
		}
		var f *elfFile
		if err == nil {
			f, err = parseELF(b)
		}
		switch {
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOMEM):
			return "", nil, err // this says nothing of the machine
		case err != nil:
			why = append(why, fmt.Sprintf("%s: %v", name, err))
		case bytes.Contains(b, []byte("GLIBC_PRIVATE")) && f.typ == etDyn: // a version that glibc gives its own symbols
			return name, f, nil
		default:
			musl = musl || strings.Contains(name, "musl")
			why = append(why, name+": it is not glibc's loader")
		}
	}
	if _, e := os.Stat(muslLoader); e == nil && !musl { // which no program has named
		musl = true
		why = append(why, muslLoader+": it is not glibc's loader")
	}
	switch {
	case musl:
		err = fmt.Errorf("%w: it has musl, and NVIDIA's driver needs glibc (%s)", ErrNoGlibc, strings.Join(why, "; "))
	case len(why) > 0:
		err = fmt.Errorf("%w: %s", ErrNoGlibc, strings.Join(why, "; "))
	default:
		err = fmt.Errorf("%w, which NVIDIA's driver needs: none of these is there: %s", ErrNoGlibc, strings.Join(names, ", "))
	}
	return "", nil, err
}
