package raw

import (
	"testing"
)

func TestAt(t *testing.T) {
	memory := make([]byte, 300)
	m := At[VgpuMetadata](memory)
	m.Revision = 0x01010101
	if memory[4] != 1 || memory[7] != 1 || At[VgpuMetadata](memory[:211]) != nil || At[VgpuMetadata](memory[:212]) != m {
		t.Error("the struct is not at the begin of the memory")
	}
}

func TestText(t *testing.T) {
	b := []byte("ab\x00c")
	if Text(&b[0]) != "ab" || Text(nil) != "" {
		t.Errorf("%q", Text(&b[0]))
	}
}
