package loader

import (
	"encoding/binary"
	"fmt"
	"io"
)

// The few facts of Windows' format of libraries that tell why a file is none for
// this program: the head of an old program, which says where the real one is, that
// one's machine, and whether it is a DLL.
const (
	peMachine386   = 0x14c
	peMachineARM   = 0x1c4
	peMachineAMD64 = 0x8664
	peMachineARM64 = 0xaa64

	peHeader = 24
	peIsDLL  = 0x2000
)

// examinePE says what is wrong with a file, which r reads, as a DLL for a program
// for arch. The error is for files that cannot be read.
func examinePE(r io.ReaderAt, arch string) (problem Problem, why string, err error) {
	var head [64]byte
	switch n, err := r.ReadAt(head[:], 0); {
	case err != nil && err != io.EOF:
		return "", "", err
	case n == 0:
		return Truncated, "it is empty", nil
	case n < 2 || string(head[:2]) != "MZ":
		return NotALibrary, "it is no Windows library", nil
	case n < len(head):
		return Truncated, fmt.Sprintf("it is cut short: its %d bytes do not hold a header", n), nil
	}
	var pe [peHeader]byte
	switch n, err := r.ReadAt(pe[:], int64(binary.LittleEndian.Uint32(head[60:]))); {
	case err != nil && err != io.EOF:
		return "", "", err
	case n < len(pe):
		return Truncated, "it is cut short: its header is not in it", nil
	case string(pe[:4]) != "PE\x00\x00":
		return NotALibrary, "it is no Windows library", nil
	}
	machine := binary.LittleEndian.Uint16(pe[4:])
	name, ok := map[uint16]string{peMachine386: "386", peMachineARM: "arm", peMachineAMD64: "amd64", peMachineARM64: "arm64"}[machine]
	if !ok {
		name = fmt.Sprintf("PE machine %#x", machine)
	}
	if name != arch {
		return WrongMachine, fmt.Sprintf("it is for %s, and this program is for %s", name, arch), nil
	}
	if binary.LittleEndian.Uint16(pe[22:])&peIsDLL == 0 {
		return NotALibrary, "it is a Windows program, but not a library", nil
	}
	return "", "", nil
}
