package nvml_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"unsafe"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// cperFake returns one chunk of records a call.
type cperFake struct {
	base
	chunks [][]byte
	uuid   string
}

func (f *cperFake) SystemGetCPERV1(c *raw.GetCPERV1) raw.Return {
	f.uuid = string(bytes.TrimRight(c.Cursor.Uuid[:], "\x00"))
	if int(c.Cursor.Handle) == len(f.chunks) {
		c.BufferSize = 0
		return raw.NVML_SUCCESS
	}
	chunk := f.chunks[c.Cursor.Handle]
	if chunk == nil {
		return raw.NVML_ERROR_NO_PERMISSION
	}
	room := c.BufferSize
	if c.BufferSize = uint32(len(chunk)); room < c.BufferSize {
		return raw.NVML_ERROR_INSUFFICIENT_SIZE
	}
	copy(unsafe.Slice(c.Buffer, room), chunk)
	c.Cursor.Handle++
	return raw.NVML_SUCCESS
}

// record returns a CPER of a size.
func record(size int, id byte) []byte {
	b := make([]byte, size)
	copy(b, "CPER")
	binary.LittleEndian.PutUint32(b[20:], uint32(size))
	b[size-1] = id
	return b
}

func TestCPERRecords(t *testing.T) {
	a, b, c, odd := record(200, 1), record(130, 2), record(100_000, 3), []byte("no CPER")
	f := &cperFake{chunks: [][]byte{slices.Concat(a, b), c, odd}}
	l := open(t, f)
	var got [][]byte
	for r, err := range l.CPERRecords("GPU-1") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	if !slices.EqualFunc(got, [][]byte{a, b, c, odd}, bytes.Equal) || f.uuid != "GPU-1" {
		t.Errorf("there are %d records of %q", len(got), f.uuid)
	}
	for r := range l.CPERRecords("") {
		if !bytes.Equal(r, a) || f.uuid != "" {
			t.Error("the first record is another one")
		}
		break
	}
	f.chunks = [][]byte{a, nil}
	var errs []error
	for _, err := range l.CPERRecords("") {
		errs = append(errs, err)
	}
	if len(errs) != 2 || errs[0] != nil {
		t.Errorf("the errors are %v", errs)
	}
	fails(t, "the second record", errs[1], nvml.ErrNoPermission)
	for _, id := range []nvml.UUID{"GPU-\x00", nvml.UUID(bytes.Repeat([]byte("x"), 80))} {
		for _, err := range l.CPERRecords(id) {
			fails(t, "a UUID", err, nvml.ErrInvalidArgument)
		}
	}
	var none *nvml.Library
	for _, err := range none.CPERRecords("") {
		fails(t, "no library", err, nvml.ErrNil)
	}
}
