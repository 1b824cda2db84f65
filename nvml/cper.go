package nvml

import (
	"bytes"
	"encoding/binary"
	"iter"

	"github.com/purecu/purecu/nvml/raw"
)

// CPERRecords returns the records of hardware errors of a GPU, each a CPER as UEFI defines it, or those of all GPUs if
// the UUID is empty (nvmlSystemGetCPER_v1). It needs root. An error ends the sequence. Unverified: no driver has
// confirmed it.
func (l *Library) CPERRecords(gpu UUID) iter.Seq2[[]byte, error] {
	const op = "nvmlSystemGetCPER_v1"
	return func(yield func([]byte, error) bool) {
		o := l.obj()
		cursor := raw.CPERCursorV1{CperTypeMask: uint32(raw.NVML_CPER_ACCESS_TYPE_GPU),
			Handle: raw.NVML_CPER_CURSOR_HANDLE_INIT}
		if o != nil && (len(gpu) >= len(cursor.Uuid) || bytes.ContainsRune([]byte(gpu), 0)) {
			yield(nil, o.invalid(op, "the UUID is too long, or has a NUL"))
			return
		}
		copy(cursor.Uuid[:], gpu)
		for {
			from := cursor // the call may outlast this one
			c, err := get(o, op, func(l *raw.Library, _ uint64) (cperChunk, raw.Return) { return readCPER(l, from) })
			if err != nil {
				yield(nil, err)
				return
			}
			if len(c.records) == 0 {
				return
			}
			cursor = c.next
			for record := range splitCPER(c.records) {
				if !yield(record, nil) {
					return
				}
			}
		}
	}
}

// cperChunk is what a call returns, and where the next call begins.
type cperChunk struct {
	records []byte
	next    raw.CPERCursorV1
}

// readCPER returns the records from a place on.
func readCPER(l *raw.Library, from raw.CPERCursorV1) (cperChunk, raw.Return) {
	size := uint32(1 << 16)
	for {
		b := make([]byte, size)
		c := raw.GetCPERV1{Cursor: from, Buffer: first(b), BufferSize: size}
		r := l.SystemGetCPERV1(&c)
		if r == raw.NVML_ERROR_INSUFFICIENT_SIZE && c.BufferSize > size {
			size = c.BufferSize
			continue
		}
		return cperChunk{b[:min(c.BufferSize, size)], c.Cursor}, r
	}
}

// The places in the header of a CPER.
const (
	cperSignature = "CPER"
	cperLength    = 20
	cperHeader    = 128
)

// splitCPER returns the single records of several. What it does not understand stays as it is.
func splitCPER(records []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(records) > 0 {
			n := len(records)
			if n >= cperHeader && string(records[:len(cperSignature)]) == cperSignature {
				if length := binary.LittleEndian.Uint32(records[cperLength:]); length >= cperHeader && uint64(length) <= uint64(n) {
					n = int(length)
				}
			}
			if !yield(records[:n:n]) {
				return
			}
			records = records[n:]
		}
	}
}
