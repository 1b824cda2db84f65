package codeimage

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// A fatbin has a header of 16 bytes, and entries, each with a header and its content.
const (
	fatbinHeader = 16
	entryHeader  = 64
	kindPTX      = 1
	flagLZ4      = 0x2000
	flagZSTD     = 0x8000
	// mostText is the largest size of a text, so that a wrong header does not exhaust the memory.
	mostText = 1 << 26
)

// ErrNoPTX is the error for a fatbin without PTX for the architecture.
var ErrNoPTX = errors.New("the fatbin has no PTX for this device")

// PTX returns the text in a fatbin that a device of an architecture, such as 90, compiles: of those that fit, the one
// for the newest architecture that is not newer than the device.
func PTX(image []byte, architecture uint32, fits func(text []byte) bool) ([]byte, error) {
	all, err := entriesOf(image, architecture)
	for _, entry := range all {
		text, err := entryText(entry)
		if err != nil {
			return nil, err
		}
		if fits(text) {
			return text, nil
		}
	}
	return nil, cmp.Or(err, ErrNoPTX)
}

// Text returns a function that returns the PTX in an image, for the newest architecture, or nothing if there is none.
// The function decompresses the text. Until then it keeps the text, and nothing else of a fatbin or a cubin.
func Text(image []byte) func() []byte {
	if IsPTX(image) {
		return func() []byte { return image }
	}
	all, err := entriesOf(image, math.MaxUint32)
	if err != nil || len(all) == 0 {
		return func() []byte { return nil }
	}
	entry := bytes.Clone(all[0])
	return func() []byte {
		text, err := entryText(entry)
		if err != nil {
			return nil
		}
		return text
	}
}

// entriesOf returns the entries of a fatbin that have texts for an architecture or older ones, with their headers: the
// newest first, and of several for one architecture the last.
func entriesOf(image []byte, architecture uint32) (all [][]byte, _ error) {
	le := binary.LittleEndian
	if len(image) < fatbinHeader || le.Uint32(image) != fatbinMagic {
		return nil, errors.New("the image is no fatbin")
	}
	size, begin := le.Uint64(image[8:]), uint64(le.Uint16(image[6:]))
	if size > uint64(len(image))-fatbinHeader || begin < fatbinHeader || begin > fatbinHeader+size {
		return nil, errors.New("the fatbin is truncated")
	}
	for rest := image[begin : fatbinHeader+size]; len(rest) >= entryHeader; {
		header, padded := uint64(le.Uint32(rest[4:])), le.Uint64(rest[8:])
		if header < entryHeader || header > uint64(len(rest)) || padded > uint64(len(rest))-header {
			return nil, errors.New("an entry of the fatbin is truncated")
		}
		entry := rest[:header+padded]
		if le.Uint16(entry) == kindPTX && le.Uint32(entry[28:]) <= architecture {
			all = append(all, entry)
		}
		rest = rest[header+padded:]
	}
	slices.Reverse(all)
	slices.SortStableFunc(all, func(a, b []byte) int { return cmp.Compare(le.Uint32(b[28:]), le.Uint32(a[28:])) })
	return all, nil
}

// entryText returns the text of an entry.
func entryText(entry []byte) ([]byte, error) {
	le := binary.LittleEndian
	header, packed := uint64(le.Uint32(entry[4:])), uint64(le.Uint32(entry[16:]))
	flags, size, content := le.Uint64(entry[40:]), le.Uint64(entry[56:]), entry[header:]
	unpack := unpackLZ4
	switch {
	case flags&flagZSTD != 0 || bytes.HasPrefix(content, []byte(zstdMagic)):
		unpack = unpackZSTD
	case flags&flagLZ4 == 0:
		return content, nil
	}
	if packed > uint64(len(content)) || size > mostText {
		return nil, errors.New("an entry of the fatbin is truncated")
	}
	text, err := unpack(content[:packed], int(size))
	if err != nil {
		return nil, fmt.Errorf("the PTX in the fatbin cannot be decompressed: %w", err)
	}
	return text, nil
}

// errDamaged is the error for compressed data that cannot be decompressed.
var errDamaged = errors.New("the compressed data is damaged")

// unpackLZ4 decompresses a block of LZ4 that has a size when it is decompressed.
func unpackLZ4(in []byte, size int) ([]byte, error) {
	out := make([]byte, 0, min(size, 1<<20, 255*len(in)))
	// length reads the rest of a length whose first four bits are given.
	length := func(n int) int {
		if n != 15 {
			return n
		}
		for len(in) > 0 && n <= size {
			b := in[0]
			in = in[1:]
			if n += int(b); b != 255 {
				return n
			}
		}
		return size + 1 // it does not end
	}
	for len(in) > 0 {
		token := in[0]
		in = in[1:]
		n := length(int(token >> 4))
		if n > len(in) || n > size-len(out) {
			return nil, errDamaged
		}
		out, in = append(out, in[:n]...), in[n:]
		if len(in) == 0 { // the last sequence has only literals
			break
		}
		if len(in) < 2 {
			return nil, errDamaged
		}
		back := int(binary.LittleEndian.Uint16(in))
		in = in[2:]
		n = length(int(token&15)) + 4
		if back == 0 || back > len(out) || n > size-len(out) {
			return nil, errDamaged
		}
		for n > 0 { // it may overlap itself
			part := out[len(out)-back:]
			part = part[:min(n, len(part))]
			out = append(out, part...)
			n -= len(part)
		}
	}
	if len(out) != size {
		return nil, errDamaged
	}
	return out, nil
}
