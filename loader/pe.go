package loader

import (
	"encoding/binary"
	"fmt"
	"io"
)

// These are the parts of the PE format that show why a file cannot be a library for this program:
// the MS-DOS header, which has the position of the PE header, and in the PE header the machine and
// whether the file is a DLL.
const (
	peMachine386   = 0x14c
	peMachineARM   = 0x1c4
	peMachineAMD64 = 0x8664
	peMachineARM64 = 0xaa64

	peHeader = 24
	peIsDLL  = 0x2000
)

// examinePE finds out why a file cannot be a DLL for a program for arch. r reads the file.
// examinePE returns an error if the file cannot be read.
func examinePE(r io.ReaderAt, arch string) (problem Problem, why string, err error) {
	var head [64]byte
	switch n, err := r.ReadAt(head[:], 0); {
	case err != nil && err != io.EOF:
		return "", "", err
	case n == 0:
		return Truncated, "it is empty", nil
	case n < 2 || string(head[:2]) != "MZ":
		return NotALibrary, "it is not a Windows library", nil
	case n < len(head):
		return Truncated, fmt.Sprintf("it is truncated: %d bytes are too few for a header", n), nil
	}
	var pe [peHeader]byte
	switch n, err := r.ReadAt(pe[:], int64(binary.LittleEndian.Uint32(head[60:]))); {
	case err != nil && err != io.EOF:
		return "", "", err
	case n < len(pe):
		return Truncated, "it is truncated: its header is missing", nil
	case string(pe[:4]) != "PE\x00\x00":
		return NotALibrary, "it is not a Windows library", nil
	}
	machine := binary.LittleEndian.Uint16(pe[4:])
	name, ok := map[uint16]string{peMachine386: "386", peMachineARM: "arm", peMachineAMD64: "amd64",
		peMachineARM64: "arm64"}[machine]
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
