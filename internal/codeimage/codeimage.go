// Package codeimage checks and reads images of GPU code: cubins, fatbins and PTX.
//
// A driver does not learn how long an image is. It believes the sizes in the image's headers.
package codeimage

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
)

// The first bytes of an image: of a cubin, which is an ELF file; of a fatbin; and of the wrapper
// that nvcc puts around a fatbin.
const (
	elfMagic     = "\x7fELF"
	fatbinMagic  = 0xba55ed50
	wrapperMagic = 0x466243b1
)

// Check returns what is wrong with an image that is empty, that is nvcc's wrapper, or that would make
// the driver read beyond its end. It returns "" for other images.
func Check(image []byte) (wrong string) {
	size := uint64(len(image))
	truncated := func(kind string, want uint64) string {
		return fmt.Sprintf("the image is a truncated %s: it has %d bytes, and needs %d", kind, size, want)
	}
	le := binary.LittleEndian
	switch {
	case size == 0:
		return "the image is empty: check how it was read or embedded"
	case bytes.HasPrefix(image, []byte(elfMagic)): // a cubin
		const header = 64
		if size < header {
			return truncated("cubin", header)
		}
		// The offset, entry size and number of the program headers and of the section headers.
		for _, t := range []struct{ offset, entry, count int }{{32, 54, 56}, {40, 58, 60}} {
			offset := le.Uint64(image[t.offset:])
			n := uint64(le.Uint16(image[t.entry:])) * uint64(le.Uint16(image[t.count:]))
			if offset > size || n > size-offset {
				return truncated("cubin", offset+n)
			}
		}
		offset, entry, count := le.Uint64(image[40:]), uint64(le.Uint16(image[58:])), uint64(le.Uint16(image[60:]))
		for i := range count {
			// Sections of these types may take no room in the file: "no bits", and NVIDIA's own
			// types, such as those of uninitialized and shared memory.
			const noBits, nvidia = 8, 0x70000000
			h := image[offset+i*entry:]
			if entry < 64 {
				continue
			}
			if kind := le.Uint32(h[4:]); kind == noBits || kind >= nvidia {
				continue
			}
			if at, n := le.Uint64(h[24:]), le.Uint64(h[32:]); at > size || n > size-at {
				return truncated("cubin", at+n)
			}
		}
	case size >= 4 && le.Uint32(image) == fatbinMagic: // a fatbin
		const header = 16
		if size < header {
			return truncated("fatbin", header)
		}
		if n := le.Uint64(image[8:]); n > size-header {
			return truncated("fatbin", n+header)
		}
	case size >= 4 && le.Uint32(image) == wrapperMagic:
		return "the image is the wrapper that nvcc puts around a fatbin, which contains an address: " +
			"pass the fatbin itself"
	}
	return ""
}

// Read reads a file with GPU code. If the beginning shows that the file has none, it returns
// only the beginning, whatever the size of the file. The driver then returns the error for that
// image.
func Read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, 64)
	n, err := io.ReadFull(f, head)
	head = head[:n]
	switch {
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		return head, nil
	case err != nil:
		return nil, err
	case IsPTX(head) && bytes.IndexByte(head, 0) >= 0: // the driver stops at the NUL
		return head, nil
	}
	var b bytes.Buffer
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		b.Grow(int(min(info.Size(), 1<<30)) + bytes.MinRead)
	}
	b.Write(head)
	_, err = b.ReadFrom(f)
	return b.Bytes(), err
}

// IsPTX reports whether an image is neither a cubin nor a fatbin, and therefore text.
func IsPTX(image []byte) bool {
	return !bytes.HasPrefix(image, []byte(elfMagic)) &&
		(len(image) < 4 || binary.LittleEndian.Uint32(image) != fatbinMagic)
}
