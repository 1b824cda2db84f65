package loader

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// pe returns the beginning of a library for Windows.
func pe(machine, flags uint16) []byte {
	b := make([]byte, 256)
	copy(b, "MZ")
	binary.LittleEndian.PutUint32(b[60:], 128)
	copy(b[128:], "PE\x00\x00")
	binary.LittleEndian.PutUint16(b[132:], machine)
	binary.LittleEndian.PutUint16(b[150:], flags)
	return b
}

func TestExaminePE(t *testing.T) {
	far := pe(peMachineAMD64, peIsDLL)
	binary.LittleEndian.PutUint32(far[60:], 1<<32-1)
	for _, tt := range []struct {
		name    string
		file    []byte
		arch    string
		problem Problem
		why     string
	}{
		{"a library", pe(peMachineAMD64, peIsDLL), "amd64", "", ""},
		{"a library for arm64", pe(peMachineARM64, peIsDLL), "arm64", "", ""},
		{"32-bit library", pe(peMachine386, peIsDLL), "amd64", WrongMachine, "it is for 386, and this program is for amd64"},
		{"for another machine", pe(peMachineARM64, peIsDLL), "amd64", WrongMachine, "it is for arm64, and this program is for amd64"},
		{"for a strange machine", pe(0x200, peIsDLL), "amd64", WrongMachine, "it is for PE machine 0x200, and this program is for amd64"},
		{"a program", pe(peMachineAMD64, 0), "amd64", NotALibrary, "it is a Windows program, but not a library"},
		{"a program for DOS", append([]byte("MZ"), make([]byte, 100)...), "amd64", NotALibrary, "it is not a Windows library"},
		{"Linux's", []byte("\x7fELF, and so on, and so on"), "amd64", NotALibrary, "it is not a Windows library"},
		{"a byte", []byte("M"), "amd64", NotALibrary, "it is not a Windows library"},
		{"empty", nil, "amd64", Truncated, "it is empty"},
		{"truncated in the first header", pe(peMachineAMD64, peIsDLL)[:50], "amd64", Truncated, "it is truncated: 50 bytes are too few for a header"},
		{"truncated in the second header", pe(peMachineAMD64, peIsDLL)[:140], "amd64", Truncated, "it is truncated: its header is missing"},
		{"truncated between the headers", far, "amd64", Truncated, "it is truncated: its header is missing"},
	} {
		problem, why, err := examinePE(bytes.NewReader(tt.file), tt.arch)
		if problem != tt.problem || why != tt.why || err != nil {
			t.Errorf("%s: %q, %q, %v", tt.name, problem, why, err)
		}
	}
}
