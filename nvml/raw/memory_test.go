package raw

import (
	"testing"
	"unsafe"
)

func TestAt(t *testing.T) {
	memory := make([]byte, 300)
	m := At[VgpuMetadata](memory)
	m.Revision = 0x01010101
	if memory[4] != 1 || memory[7] != 1 || At[VgpuMetadata](memory[:211]) != nil || At[VgpuMetadata](memory[:212]) != m {
		t.Error("the struct is not at the begin of the memory")
	}
}

func TestV2(t *testing.T) {
	g := GpuInstanceProfileInfoV3{Version: 3, Id: 4, MemorySizeMB: 5}
	if v2 := g.V2(); v2.Version != 3 || v2.Id != 4 || v2.OfaCount != 5 || unsafe.Sizeof(*v2) != unsafe.Sizeof(g) {
		t.Errorf("%+v", v2) // the size of the memory is where the newer struct has it
	}
	c := ComputeInstanceProfileInfoV3{Version: 3, SharedOfaCount: 4}
	if v2 := c.V2(); v2.Version != 3 || v2.SharedOfaCount != 4 {
		t.Errorf("%+v", v2)
	}
}

func TestText(t *testing.T) {
	b := []byte("ab\x00c")
	if Text(&b[0]) != "ab" || Text(nil) != "" {
		t.Errorf("%q", Text(&b[0]))
	}
}
