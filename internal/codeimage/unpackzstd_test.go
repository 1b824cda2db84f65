package codeimage

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var updateZSTD = flag.Bool("zstd.update", false, "TestZSTD writes testdata/zstd, with the command zstd")

// zstdTexts returns texts that make a compressor use the parts of the format.
func zstdTexts(t testing.TB) map[string][]byte {
	state := uint64(1)
	random := func(n int) int {
		state = state*6364136223846793005 + 1442695040888963407
		return int(state>>33) % n
	}
	noise := make([]byte, 3000)
	for i := range noise {
		noise[i] = byte(random(256))
	}
	few := make([]byte, 9000) // four symbols: the weights are not compressed
	for i := range few {
		few[i] = byte(random(4) * random(2))
	}
	var records, chunks []byte
	for range 900 { // a second block in which the literals and matches have one length each
		records = append(records, noise[:300]...)
		records = append(records, byte(random(256)), byte(random(256)))
	}
	for range 2000 { // and one with literals of one kind only
		chunks = append(chunks, noise[100*random(30):][:100]...)
		chunks[len(chunks)-1-random(90)] = 'z'
	}
	var long []byte // some blocks, which use the tables of those before
	for i := range 4500 {
		long = fmt.Appendf(long, "\t%s.%s\t%%r%d, %%r%d, %d;\n", []string{"add", "mul.lo", "xor", "selp"}[random(4)],
			[]string{"u32", "s32", "b32"}[random(3)], i, random(i+1), random(1<<random(32)))
	}
	return map[string][]byte{
		"chunks":  append(bytes.Clone(noise), chunks...),
		"empty":   {},
		"few":     few,
		"long":    long,
		"noise":   noise,
		"one":     []byte("a"),
		"records": records,
		"run":     bytes.Repeat([]byte("x"), 300_000),
		"short":   long[:600],
	}
}

// TestZSTD decompresses what the command zstd has compressed, at several levels. They are in testdata, and are made
// again where there is the command.
func TestZSTD(t *testing.T) {
	zstd, missing := exec.LookPath("zstd")
	for name, text := range zstdTexts(t) {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, level := range []string{"-1", "-19"} {
			recorded := filepath.Join("testdata", "zstd", name+level)
			frames := make([][]byte, 1, 2)
			var err error
			if frames[0], err = os.ReadFile(recorded); err != nil && !*updateZSTD {
				t.Fatal(err)
			}
			if missing == nil {
				made, err := exec.Command(zstd, "-q", level, "-c", file).Output()
				if err != nil {
					t.Fatal(err)
				}
				if frames = append(frames, made); *updateZSTD {
					if err := os.WriteFile(recorded, made, 0o666); err != nil {
						t.Fatal(err)
					}
					frames[0] = made
				}
			}
			for _, frame := range frames {
				if got, err := unpackZSTD(frame, len(text)); err != nil || !bytes.Equal(got, text) {
					t.Errorf("%s%s: %d bytes, %v; want %d", name, level, len(got), err, len(text))
				}
			}
		}
	}
}

// handmade returns a frame of blocks, the last of which is marked as such.
func handmade(blocks ...[]byte) []byte {
	frame := []byte(zstdMagic + "\x20\x00") // the size of the content does not matter
	for i, b := range blocks {
		if i == len(blocks)-1 {
			b[0] |= 1
		}
		frame = append(frame, b...)
	}
	return frame
}

// blockOf returns a block of a kind, with a size and a content.
func blockOf(kind, size int, content string) []byte {
	head := size<<3 | kind<<1
	return append([]byte{byte(head), byte(head >> 8), byte(head >> 16)}, content...)
}

// compressed returns a compressed block.
func compressed(content string) []byte { return blockOf(2, len(content), content) }

// TestZSTDHandmade decompresses frames that no compressor makes, and refuses those that are damaged.
func TestZSTDHandmade(t *testing.T) {
	const (
		qs    = "\x51q"                    // ten literals
		none  = "\x00"                     // no literals
		same  = "\x54\x00\x00\x00\x01"     // the sequences have one code each: no literals, the last distance, length 3
		least = "\x00\x00" + "\x01"        // a sequence of the usual tables needs more bits than this
		bits  = "\x00\xff\xff\xff\xff\x01" // and these are too many
	)
	for name, c := range map[string]struct {
		frame []byte
		size  int
		want  string // "" if it is damaged
	}{
		"a run of literals": {handmade(compressed(qs + "\x00")), 10, strings.Repeat("q", 10)},
		"32,514 sequences": {handmade(blockOf(0, 5, "abcde"), compressed(none+"\xff\x02\x00"+same)), 5 + 3*32514,
			"abcde"},
		"more after the frame":   {append(handmade(blockOf(0, 2, "ab")), "checksum"...), 2, "ab"},
		"nothing":                {nil, 0, ""},
		"another format":         {[]byte("\x28\xb5\x2f\xfc\x20\x00\x01\x00\x00"), 0, ""},
		"a dictionary":           {[]byte(zstdMagic + "\x21\x00\x00\x01\x00\x00"), 0, ""},
		"no header":              {[]byte(zstdMagic + "\xe0\x00"), 0, ""},
		"no blocks":              {handmade(), 0, ""},
		"no last block":          {[]byte(zstdMagic + "\x20\x00\x00\x00\x00"), 0, ""},
		"a block of kind 3":      {handmade(blockOf(3, 0, "")), 0, ""},
		"a large block":          {handmade(blockOf(1, 1<<17+1, "a")), 1<<17 + 1, ""},
		"a short block":          {handmade(blockOf(0, 3, "ab")), 3, ""},
		"too much":               {handmade(blockOf(0, 3, "abc")), 2, ""},
		"too little":             {handmade(blockOf(0, 3, "abc")), 4, ""},
		"too many literals":      {handmade(compressed(qs + "\x00")), 9, ""},
		"too many sequences":     {handmade(blockOf(0, 5, "abcde"), compressed(none+"\x02"+same)), 10, ""},
		"an empty block":         {handmade(compressed("")), 0, ""},
		"no sequences":           {handmade(compressed(qs)), 10, ""},
		"more than no sequences": {handmade(compressed(qs + "\x00\x00")), 10, ""},
		"a distance before":      {handmade(compressed(none + "\x01" + same)), 3, ""},
		"half a stream":          {handmade(compressed(qs + "\x01" + least)), 13, ""},
		"a stream with a rest":   {handmade(compressed(qs + "\x01" + bits)), 13, ""},
		"a stream without a mark": {handmade(blockOf(0, 5, "abcde"), compressed(none+"\x01\x54\x00\x00\x00\x00")), 8,
			""},
		"an unknown mode":     {handmade(compressed(qs + "\x01\x01\x01")), 13, ""},
		"no table before":     {handmade(compressed(qs + "\x01\xfc\x01")), 13, ""},
		"a code that is none": {handmade(compressed(qs + "\x01\x54\x24\x00\x00\x01")), 13, ""},
		"no literals before":  {handmade(compressed("\x13\x40\x00\x01\x00")), 1, ""},
	} {
		got, err := unpackZSTD(c.frame, c.size)
		if (err != nil) != (c.want == "") ||
			err == nil && (len(got) != c.size || !strings.HasPrefix(string(got), c.want)) {
			t.Errorf("%s: %d bytes %.20q, %v; want %d", name, len(got), got, err, c.size)
		}
	}
}

// TestZSTDDamaged changes and cuts frames: nothing panics, and no text is longer than it should be.
func TestZSTDDamaged(t *testing.T) {
	names, err := filepath.Glob("testdata/zstd/*")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	texts := zstdTexts(t)
	for _, name := range names {
		frame, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		kind, _, _ := strings.Cut(filepath.Base(name), "-")
		size := len(texts[kind])
		for i := 0; i < len(frame)-4; i += 1 + len(frame)/50 { // the last 4 bytes are the checksum
			if got, err := unpackZSTD(frame[:i], size); err == nil || got != nil {
				t.Errorf("%s: %d of %d bytes are accepted", name, i, len(frame))
			}
			changed := bytes.Clone(frame)
			for bit := range 8 {
				changed[i] = frame[i] ^ 1<<bit
				if got, err := unpackZSTD(changed, size); err == nil && len(got) != size || err != nil && got != nil {
					t.Errorf("%s: with another bit in byte %d: %d bytes, %v", name, i, len(got), err)
				}
			}
		}
	}
}
