package codeimage

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// entryOf returns an entry of a fatbin.
func entryOf(kind uint16, architecture uint32, flags uint64, content []byte, size int) []byte {
	le := binary.LittleEndian
	h := make([]byte, entryHeader)
	le.PutUint16(h, kind)
	le.PutUint32(h[4:], entryHeader)
	padded := append([]byte(nil), content...)
	for len(padded)%8 != 0 {
		padded = append(padded, 0)
	}
	le.PutUint64(h[8:], uint64(len(padded)))
	le.PutUint32(h[16:], uint32(len(content)))
	le.PutUint32(h[28:], architecture)
	le.PutUint64(h[40:], flags)
	le.PutUint64(h[56:], uint64(size))
	return append(h, padded...)
}

// anything fits.
func anything([]byte) bool { return true }

// fatbinOf returns a fatbin with entries.
func fatbinOf(entries ...[]byte) []byte {
	le := binary.LittleEndian
	h := make([]byte, fatbinHeader)
	le.PutUint32(h, fatbinMagic)
	le.PutUint16(h[4:], 1)
	le.PutUint16(h[6:], fatbinHeader)
	for _, e := range entries {
		h = append(h, e...)
	}
	le.PutUint64(h[8:], uint64(len(h)-fatbinHeader))
	return h
}

// packLZ4 compresses a text as literals, and one match that repeats the last three bytes.
func packLZ4(text string, repeated int) []byte {
	length := func(n int) (token byte, rest []byte) {
		if n < 15 {
			return byte(n), nil
		}
		for n -= 15; n >= 255; n -= 255 {
			rest = append(rest, 255)
		}
		return 15, append(rest, byte(n))
	}
	token, rest := length(len(text))
	match, more := length(repeated - 4)
	out := append([]byte{token<<4 | match}, rest...)
	out = append(append(out, text...), 3, 0)
	out = append(out, more...)
	return append(out, 3<<4, 'e', 'n', 'd')
}

func TestPTX(t *testing.T) {
	text := ".version 7.0 .target sm_80 // " + strings.Repeat("abcdefg", 100)
	want := text + strings.Repeat("efg", 200) + "end"
	packed, frame := packLZ4(text, 600), handmade(blockOf(0, 9, text[:9]), blockOf(0, len(text)-9, text[9:]))
	elf := entryOf(2, 90, 0, []byte("\x7fELF"), 0)
	plain := entryOf(kindPTX, 75, 0, []byte(".version 7.0 plain"), 0)
	for name, tt := range map[string]struct {
		image []byte
		want  string
		wrong string
	}{
		"plain":         {fatbinOf(elf, plain), ".version 7.0 plain", ""},
		"LZ4":           {fatbinOf(plain, elf, entryOf(kindPTX, 80, flagLZ4, packed, len(want))), want, ""},
		"newer":         {fatbinOf(plain, entryOf(kindPTX, 100, 0, []byte("newer"), 0)), ".version 7.0 plain", ""},
		"machine code":  {fatbinOf(elf), "", "no PTX for this device"},
		"empty":         {fatbinOf(), "", "no PTX for this device"},
		"ZSTD":          {fatbinOf(plain, elf, entryOf(kindPTX, 80, flagZSTD, frame, len(text))), text, ""},
		"ZSTD, no flag": {fatbinOf(entryOf(kindPTX, 80, 0, frame, len(text))), text, ""},
		"half of ZSTD":  {fatbinOf(entryOf(kindPTX, 80, flagZSTD, frame[:9], len(text))), "", "damaged"},
		"wrong size":    {fatbinOf(entryOf(kindPTX, 80, flagLZ4, packed, len(want)+1)), "", "damaged"},
		"smaller":       {fatbinOf(entryOf(kindPTX, 80, flagLZ4, packed, len(want)-1)), "", "damaged"},
		"huge":          {fatbinOf(entryOf(kindPTX, 80, flagLZ4, packed, 1<<40)), "", "truncated"},
		"cut":           {fatbinOf(entryOf(kindPTX, 80, flagLZ4, packed[:20], len(want))), "", "damaged"},
		"truncated":     {fatbinOf(plain)[:80], "", "truncated"},
		"odd entry":     {fatbinOf(make([]byte, 64)), "", "an entry of the fatbin is truncated"},
		"another image": {[]byte("what"), "", "no fatbin"},
	} {
		got, err := PTX(tt.image, 90, anything)
		if s := strings.TrimRight(string(got), "\x00"); s != tt.want {
			t.Errorf("%s: %q, want %q", name, s, tt.want)
		}
		if (err != nil) != (tt.wrong != "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
			t.Errorf("%s: %v, want %q", name, err, tt.wrong)
		}
		if (name == "machine code") && !errors.Is(err, ErrNoPTX) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPTXFits takes the newest text that fits.
func TestPTXFits(t *testing.T) {
	image := fatbinOf(entryOf(kindPTX, 80, 0, []byte("older   "), 0), entryOf(kindPTX, 90, 0, []byte("plain   "), 0),
		entryOf(kindPTX, 90, 0, []byte("features"), 0))
	for want, fits := range map[string]func(text string) bool{
		"features": func(string) bool { return true },
		"plain   ": func(text string) bool { return text != "features" },
		"older   ": func(text string) bool { return text == "older   " },
		"":         func(string) bool { return false },
	} {
		got, err := PTX(image, 100, func(text []byte) bool { return fits(string(text)) })
		if string(got) != want || errors.Is(err, ErrNoPTX) != (want == "") {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
}

// TestText reads the text of images that are overwritten before, apart from PTX, which is its own text.
func TestText(t *testing.T) {
	plain, newer := entryOf(kindPTX, 75, 0, []byte("plain"), 0), entryOf(kindPTX, 100, 0, []byte("newer"), 0)
	for want, image := range map[string][]byte{
		"newer": fatbinOf(plain, newer, entryOf(2, 90, 0, []byte("\x7fELF"), 0)),
		"":      fatbinOf(entryOf(kindPTX, 80, flagLZ4, []byte("damaged"), 1<<10)),
	} {
		text := Text(image)
		clear(image)
		if got := strings.TrimRight(string(text()), "\x00"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for image, want := range map[string]string{".version 7.0": ".version 7.0", "\x7fELF, a cubin": ""} {
		if got := string(Text([]byte(image))()); got != want {
			t.Errorf("%q: %q, want %q", image, got, want)
		}
	}
}

// TestLZ4 decompresses what the command lz4 has compressed, as one block in a frame.
func TestLZ4(t *testing.T) {
	lz4, err := exec.LookPath("lz4")
	if err != nil {
		t.Skip("there is no lz4")
	}
	want, err := os.ReadFile("../sim/testdata/ptx/warps.ptx")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(lz4, "-9", "-BD", "--no-frame-crc", "-B7", "-c", "../sim/testdata/ptx/warps.ptx")
	frame, err := cmd.Output()
	if err != nil {
		t.Skip(err)
	}
	const begin = 7 // the frame's header has no size of the content
	n := binary.LittleEndian.Uint32(frame[begin:])
	got, err := unpackLZ4(frame[begin+4:][:n], len(want))
	if err != nil || string(got) != string(want) {
		t.Errorf("%d bytes, %v; want %d", len(got), err, len(want))
	}
}

// FuzzFatbin reads arbitrary fatbins.
func FuzzFatbin(f *testing.F) {
	f.Add(fatbinOf(entryOf(kindPTX, 80, flagLZ4, packLZ4("abcdef", 40), 49)))
	sequences := handmade(blockOf(0, 5, "abcde"), compressed("\x18xyz\x02\x00\x01\x02"))
	f.Add(fatbinOf(entryOf(kindPTX, 80, flagZSTD, sequences, 99)))
	for name, text := range zstdTexts(f) {
		frame, err := os.ReadFile("testdata/zstd/" + name + "-19")
		if err != nil {
			f.Fatal(err)
		}
		if len(frame) < 5000 {
			f.Add(fatbinOf(entryOf(kindPTX, 80, flagZSTD, frame, len(text))))
		}
	}
	f.Add(fatbinOf(entryOf(2, 90, 0, []byte("\x7fELF"), 0), entryOf(kindPTX, 75, 0, []byte(".version"), 0)))
	f.Fuzz(func(t *testing.T, image []byte) {
		if text, err := PTX(image, 90, anything); err != nil && text != nil {
			t.Errorf("%q and %v", text, err)
		}
	})
}
