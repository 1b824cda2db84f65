package loader

import (
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
)

// These are the parts of the ELF format that show why the system's loader cannot load a file. All
// platforms of this package are 64-bit and little-endian.
const (
	elfHeaderSize  = 64
	elfSegmentSize = 56

	elfClass64      = 2
	elfLittleEndian = 1
	elfShared       = 3 // ET_DYN
	elfLoad         = 1 // PT_LOAD

	elf386     = 3
	elfPPC64   = 21
	elfARM     = 40
	elfAMD64   = 62
	elfARM64   = 183
	elfRISCV   = 243
	elfLoong64 = 258
)

// ownMachine returns the ELF number of this program's architecture, or 0 if there is no CUDA driver
// for the architecture.
func ownMachine() uint16 {
	switch runtime.GOARCH {
	case "amd64":
		return elfAMD64
	case "arm64":
		return elfARM64
	case "ppc64le":
		return elfPPC64
	case "riscv64":
		return elfRISCV
	case "loong64":
		return elfLoong64
	}
	return 0
}

// machineName returns the common name of an architecture.
func machineName(machine uint16, class, data byte) string {
	name := fmt.Sprintf("ELF machine %d", machine)
	switch machine {
	case elf386:
		name = "386"
	case elfAMD64:
		name = "amd64"
	case elfARM:
		name = "arm"
	case elfARM64:
		name = "arm64"
	case elfPPC64:
		name = "ppc64"
		if data == elfLittleEndian {
			name = "ppc64le"
		}
	case elfRISCV:
		name = "riscv64"
	case elfLoong64:
		name = "loong64"
	}
	if class != elfClass64 {
		return name + " (32 bits)"
	}
	return name
}

// examineELF finds out why a file cannot be a shared library for this program. readAt reads the
// file, which has the given size. examineELF compares the segments that the system's loader maps
// with the size, because access to memory behind the end of the file ends the process. It returns
// an error if the file cannot be read.
func examineELF(readAt func(p []byte, off int64) (int, error), size int64) (problem Problem, why string, err error) {
	if size == 0 {
		return Truncated, "it is empty", nil
	}
	var header [elfHeaderSize]byte
	n, err := readAt(header[:min(size, elfHeaderSize)], 0)
	if err != nil && err != io.EOF {
		return "", "", err
	}
	h := header[:n]
	const magic = "\x7fELF"
	switch {
	case string(h[:min(n, len(magic))]) != magic[:min(n, len(magic))]:
		return NotALibrary, "it is not an ELF file", nil
	case n < 20:
		return Truncated, fmt.Sprintf("it is truncated: %d bytes are too few for a header", n), nil
	}

	class, data := h[4], h[5]
	order := binary.LittleEndian
	machine := order.Uint16(h[18:])
	if data != elfLittleEndian {
		machine = binary.BigEndian.Uint16(h[18:])
	}
	if machine != ownMachine() || class != elfClass64 || data != elfLittleEndian {
		return WrongMachine, fmt.Sprintf("it is for %s, and this program is for %s", machineName(machine, class, data),
			runtime.GOARCH), nil
	}
	if t := order.Uint16(h[16:]); t != elfShared {
		return NotALibrary, "it is an ELF file, but not a shared library", nil
	}
	if n < elfHeaderSize {
		return Truncated, fmt.Sprintf("it is truncated: %d bytes are too few for a header", n), nil
	}

	// Sums of these values could overflow. The differences here cannot.
	end := uint64(size)
	table, count := order.Uint64(h[32:]), uint64(order.Uint16(h[56:]))
	if s := order.Uint16(h[54:]); s != elfSegmentSize || count == 0 {
		return NotALibrary, "its ELF header is damaged", nil
	}
	if table > end || count*elfSegmentSize > end-table {
		return Truncated, fmt.Sprintf("it is truncated: %d bytes are too few for the table of its segments", size), nil
	}
	segments := make([]byte, count*elfSegmentSize)
	if _, err := readAt(segments, int64(table)); err != nil && err != io.EOF {
		return "", "", err
	}
	for s := segments; len(s) > 0; s = s[elfSegmentSize:] {
		if order.Uint32(s) != elfLoad {
			continue
		}
		offset, length := order.Uint64(s[8:]), order.Uint64(s[32:])
		if offset > end || length > end-offset {
			return Truncated, fmt.Sprintf("it is truncated: a segment of %d bytes begins at %d, and the file has %d "+
				"bytes", length, offset, size), nil
		}
	}
	return "", "", nil
}
