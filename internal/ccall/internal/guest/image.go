//go:build linux && (amd64 || arm64) && cu_static && !cgo && !go1.28

package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

// pageSize is the largest page size of Linux on these architectures. A multiple of it is a multiple
// of every page size. Mappings of files use the kernel's page size.
const pageSize = 64 << 10

// loaded is a mapped loader.
type loaded struct{ base, size, entry uintptr }

// mapLoader maps the file's segments like the kernel does, at an address that the kernel chooses.
func mapLoader(name string, f *elfFile) (l loaded, err error) {
	page := uint64(os.Getpagesize())
	down := func(x uint64) uint64 { return x &^ (page - 1) }
	up := func(x uint64) uint64 { return down(x + page - 1) }
	var end uint64
	for _, p := range f.progs {
		if p.typ != ptLoad {
			continue
		}
		if p.filesz > p.memsz || p.vaddr+p.memsz < p.vaddr || p.vaddr+p.memsz > 1<<30 || p.vaddr%page != p.offset%page ||
			p.offset > uint64(len(f.content)) || p.filesz > uint64(len(f.content))-p.offset {
			return loaded{}, fmt.Errorf("%s: a segment of it cannot be mapped with pages of %d bytes", name, page)
		}
		end = max(end, up(p.vaddr+p.memsz))
	}
	if end == 0 || f.entry >= end {
		return loaded{}, fmt.Errorf("%s: it has nothing to map", name)
	}
	file, err := os.Open(name)
	if err != nil {
		return loaded{}, err
	}
	defer file.Close()
	base, err := mmap(0, uintptr(end), syscall.PROT_NONE, syscall.MAP_PRIVATE|syscall.MAP_ANON, -1, 0)
	if err != nil {
		return loaded{}, fmt.Errorf("no memory to map %s: %w", name, err)
	}
	l = loaded{base: base, size: uintptr(end), entry: base + uintptr(f.entry)}
	defer func() {
		if err != nil {
			munmap(l.base, l.size)
			err = fmt.Errorf("mapping %s: %w", name, err)
		}
	}()
	for _, p := range f.progs {
		if p.typ != ptLoad {
			continue
		}
		prot := 0
		for flag, to := range map[uint32]int{pfR: syscall.PROT_READ, pfW: syscall.PROT_WRITE, pfX: syscall.PROT_EXEC} {
			if p.flags&flag != 0 {
				prot |= to
			}
		}
		begin, fileEnd := down(p.vaddr), up(p.vaddr+p.filesz)
		if p.filesz > 0 {
			if _, err := mmap(base+uintptr(begin), uintptr(fileEnd-begin), prot, syscall.MAP_PRIVATE|syscall.MAP_FIXED,
				int(file.Fd()), down(p.offset)); err != nil {
				return loaded{}, err
			}
		} else {
			fileEnd = begin
		}
		if p.flags&pfW != 0 && p.filesz > 0 {
			// Clear to the end of the page, not of the segment: the loader uses the rest as its
			// first heap, and expects zeros.
			rest := base + uintptr(p.vaddr+p.filesz)
			clear(unsafe.Slice((*byte)(at(rest)), base+uintptr(fileEnd)-rest))
		}
		if memEnd := up(p.vaddr + p.memsz); memEnd > fileEnd {
			if _, err := mmap(base+uintptr(fileEnd), uintptr(memEnd-fileEnd), prot,
				syscall.MAP_PRIVATE|syscall.MAP_FIXED|syscall.MAP_ANON, -1, 0); err != nil {
				return loaded{}, err
			}
		}
	}
	return l, nil
}

// Constants for the main program in memory.
const (
	ptPhdr     = 6
	ptDynamic  = 2
	ptTLS      = 7
	ptGNUStack = 0x6474e551

	dtNull, dtNeeded, dtHash, dtStrtab, dtSymtab = 0, 1, 4, 5, 6
	dtRela, dtRelasz, dtRelaent                  = 7, 8, 9
	dtStrsz, dtSyment, dtDebug, dtBindNow        = 10, 11, 21, 24

	stGlobalFunc = 1<<4 | 2
	shnAbs       = 0xfff1

	symSize, relaSize, dynSize = 24, 24, 16
	imageSize                  = pageSize

	tlsSize, tlsAlign = 16, 16 // for Go's g: see the package comment
)

// The C functions that the program imports.
const (
	fnDlopen = iota
	fnDlsym
	fnDlerror
	fnDetach
	fnSetenv
	fnUnsetenv
	fnSigaction
	nFuncs
)

// funcNames are the names of the imported functions. sigaction has another name, as the program
// itself defines sigaction.
var funcNames = [nFuncs]string{"dlopen", "dlsym", "dlerror", "pthread_detach", "setenv", "unsetenv", "__sigaction"}

// hook is a function that the program defines. All libraries use it instead of glibc's function
// with the same name.
type hook struct {
	name string
	addr uintptr
}

// threadCreate is the name of the function that threadHook replaces.
const threadCreate = "pthread_create"

// hooks returns the functions that the program defines.
func hooks() []hook {
	return []hook{{threadCreate, uintptr(threadHookABI0)}, {"sigaction", uintptr(actionHookABI0)}}
}

// image is the main program in memory, at absolute addresses. It has no code. It names libraries,
// imports and defines functions, and reserves thread-local storage.
type image struct {
	base, used uintptr
	phdr       uintptr // the program headers
	nphdr      int
	got        uintptr // where the loader writes the addresses of the imported functions
}

// alloc allocates bytes of the image. The image is large enough: everything but the loader's name
// has a fixed size, and the name has a limit.
func (im *image) alloc(n, align uintptr) (uintptr, []byte) {
	im.used = (im.used + align - 1) &^ (align - 1)
	p := im.base + im.used
	im.used += n
	return p, unsafe.Slice((*byte)(at(p)), n)
}

// newImage writes a program that needs these libraries, and whose interpreter is interp.
func newImage(interp string, needed []string, hooks []hook) (*image, error) {
	if len(interp) >= 4096 {
		return nil, errors.New("the loader's name is too long")
	}
	base, err := mmap(0, imageSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON, -1, 0)
	if err != nil {
		return nil, fmt.Errorf("no memory for the program: %w", err)
	}
	im := &image{base: base, nphdr: 6}
	im.alloc(ehdrSize, 8) // unused, so that no offset is 0
	var headers []byte
	im.phdr, headers = im.alloc(uintptr(im.nphdr)*phdrSize, 8)
	interpAt, b := im.alloc(uintptr(len(interp)+1), 1)
	copy(b, interp)

	names := stringTable{0}
	var dyn []uint64
	for _, lib := range needed {
		dyn = append(dyn, dtNeeded, names.add(lib))
	}
	symAt, relAt := im.writeSymbols(&names, hooks)
	hashAt := im.writeHash(1 + nFuncs + len(hooks))
	strAt, b := im.alloc(uintptr(len(names)), 1)
	copy(b, names)
	dyn = append(dyn, dtHash, uint64(hashAt), dtStrtab, uint64(strAt), dtStrsz, uint64(len(names)),
		dtSymtab, uint64(symAt), dtSyment, symSize,
		dtRela, uint64(relAt), dtRelasz, nFuncs*relaSize, dtRelaent, relaSize, dtBindNow, 0, dtDebug, 0, dtNull, 0)
	dynAt, b := im.alloc(uintptr(8*len(dyn)), dynSize)
	for i, v := range dyn {
		binary.LittleEndian.PutUint64(b[8*i:], v)
	}
	tlsAt, _ := im.alloc(tlsSize, tlsAlign)

	im.writeHeaders(headers, []segment{
		{ptPhdr, pfR, im.phdr, len(headers), len(headers), 8},
		{ptInterp, pfR, interpAt, len(interp) + 1, len(interp) + 1, 1},
		{ptLoad, pfR | pfW, base, imageSize, imageSize, 4096},
		{ptDynamic, pfR | pfW, dynAt, 8 * len(dyn), 8 * len(dyn), 8},
		{ptTLS, pfR, tlsAt, 0, tlsSize, tlsAlign},
		{ptGNUStack, pfR | pfW, 0, 0, 0, 16}, // without it stacks would be executable
	})
	return im, nil
}

// stringTable contains the names of libraries and symbols.
type stringTable []byte

// add adds a name and returns its offset.
func (t *stringTable) add(s string) uint64 {
	at := len(*t)
	*t = append(append(*t, s...), 0)
	return uint64(at)
}

// writeSymbols writes the symbols, and a relocation for each imported function. The symbols are the
// empty first one, the imported functions, and the hooks, which the program defines.
func (im *image) writeSymbols(names *stringTable, hooks []hook) (symAt, relAt uintptr) {
	le := binary.LittleEndian
	symAt, syms := im.alloc(uintptr(1+nFuncs+len(hooks))*symSize, 8)
	im.got, _ = im.alloc(nFuncs*8, 8)
	relAt, rel := im.alloc(nFuncs*relaSize, 8)
	for i, fn := range funcNames {
		s := syms[(1+i)*symSize:]
		le.PutUint32(s, uint32(names.add(fn)))
		s[4] = stGlobalFunc
		r := rel[i*relaSize:]
		le.PutUint64(r, uint64(im.fnAt(i)))
		le.PutUint64(r[8:], uint64(1+i)<<32|globDat)
	}
	for i, h := range hooks {
		s := syms[(1+nFuncs+i)*symSize:]
		le.PutUint32(s, uint32(names.add(h.name)))
		s[4] = stGlobalFunc
		le.PutUint16(s[6:], shnAbs)
		le.PutUint64(s[8:], uint64(h.addr))
	}
	return symAt, relAt
}

// writeHash writes a hash table with one bucket, which is a list of all symbols.
func (im *image) writeHash(nsyms int) uintptr {
	le := binary.LittleEndian
	hashAt, hash := im.alloc(uintptr(4*(2+1+nsyms)), 8)
	le.PutUint32(hash, 1)
	le.PutUint32(hash[4:], uint32(nsyms))
	le.PutUint32(hash[8:], 1)
	for i := 1; i < nsyms-1; i++ {
		le.PutUint32(hash[12+4*i:], uint32(i+1))
	}
	return hashAt
}

// segment is the content of a program header.
type segment struct {
	typ, flags   uint32
	at           uintptr
	filesz, size int
	align        uint64
}

// writeHeaders writes the program headers.
func (im *image) writeHeaders(headers []byte, segments []segment) {
	le := binary.LittleEndian
	for i, p := range segments {
		b := headers[i*phdrSize:]
		le.PutUint32(b, p.typ)
		le.PutUint32(b[4:], p.flags)
		if p.at != 0 {
			le.PutUint64(b[8:], uint64(p.at-im.base))
		}
		le.PutUint64(b[16:], uint64(p.at))
		le.PutUint64(b[24:], uint64(p.at))
		le.PutUint64(b[32:], uint64(p.filesz))
		le.PutUint64(b[40:], uint64(p.size))
		le.PutUint64(b[48:], p.align)
	}
}

// fnAt returns where the loader writes the address of an imported function.
func (im *image) fnAt(i int) uintptr { return im.got + uintptr(8*i) }

// fn returns the address of an imported function, or 0 if the loader has not found it.
func (im *image) fn(i int) uintptr { return *(*uintptr)(at(im.fnAt(i))) }

// Entries of the auxiliary vector.
const (
	atNull, atPhdr, atPhent, atPhnum, atBase, atEntry = 0, 3, 4, 5, 7, 9
	atSecure                                          = 23
)

// auxv is the auxiliary vector that the kernel gave this process: pairs of words.
type auxv []uint64

// getAuxv is a function of the runtime, which lists it, with this signature, among the functions
// that other packages may use by linkname. The file /proc/self/auxv may not exist.
//
//go:linkname getAuxv runtime.getAuxv
func getAuxv() []uintptr

func readAuxv() (auxv, error) {
	var v auxv
	for _, word := range getAuxv() {
		v = append(v, uint64(word))
	}
	if len(v) == 0 {
		return nil, errors.New("the kernel's auxiliary vector is empty")
	}
	return v, nil
}

func (v auxv) get(key uint64) uint64 {
	for i := 0; i+1 < len(v); i += 2 {
		if v[i] == key {
			return v[i+1]
		}
	}
	return 0
}

// bootStack is the size of the loader's stack, without its initial content: the usual size of a
// main thread's stack. The mapping grows down, as otherwise it could not become executable, which
// some libraries need. Only used pages take memory.
const bootStack = 8 << 20

// stack is the stack of the thread that begins in the loader.
type stack struct{ base, size, sp uintptr }

// newStack writes a stack with the content that a new program's stack has.
func newStack(args, env []string, aux auxv) (stack, error) {
	text := 0
	for _, s := range args {
		text += len(s) + 1
	}
	for _, s := range env {
		text += len(s) + 1
	}
	words := 1 + len(args) + 1 + len(env) + 1 + len(aux) + 2
	size := (uintptr(bootStack+text+8*words) + pageSize - 1) &^ (pageSize - 1)
	base, err := mmap(0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_NORESERVE|syscall.MAP_STACK|syscall.MAP_GROWSDOWN, -1, 0)
	if err != nil {
		return stack{}, fmt.Errorf("no memory for a stack: %w", err)
	}
	textAt := base + size - uintptr(text)
	next := textAt
	put := func(s string) uint64 {
		p := next
		next += uintptr(len(s) + 1)
		copy(unsafe.Slice((*byte)(at(p)), len(s)), s)
		return uint64(p)
	}
	sp := (textAt - uintptr(8*words)) &^ 63
	w := unsafe.Slice((*uint64)(at(sp)), words)[:0]
	w = append(w, uint64(len(args)))
	for _, s := range args {
		w = append(w, put(s))
	}
	w = append(w, 0)
	for _, s := range env {
		w = append(w, put(s))
	}
	w = append(w, 0)
	w = append(w, aux...)
	_ = append(w, atNull, 0)
	return stack{base: base, size: size, sp: sp}, nil
}

// forProgram returns the vector for the main program in memory.
func (v auxv) forProgram(im *image, l loaded, entry uintptr) auxv {
	set := [][2]uint64{{atPhdr, uint64(im.phdr)}, {atPhent, phdrSize}, {atPhnum, uint64(im.nphdr)}, {atBase, uint64(l.base)}, {atEntry, uint64(entry)}}
	out := append(auxv(nil), v...)
	for _, s := range set {
		found := false
		for i := 0; i+1 < len(out); i += 2 {
			if out[i] == s[0] {
				out[i+1], found = s[1], true
			}
		}
		if !found {
			out = append(out, s[0], s[1])
		}
	}
	return out
}
