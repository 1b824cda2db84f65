package softlib

import (
	"bytes"
	"compress/gzip"
	"io"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// texturesFile is what testdata/textures.c has printed on an H200 (driver 580, CUDA 13.0): the bits of samples, the
// content of arrays, and the results of calls.
const texturesFile = "testdata/textures-h200-cuda13.0.txt.gz"

// otherTextures are the lines that differ on the software driver, and why.
var otherTextures = []struct {
	line, why string
	most      float64 // how much a float may differ; 0 for anything
	words     int     // of how many words this is so; 0 for all
}{
	{`^(formats\..*s8x\d\.clamp\.linear|fit\.impulse\.s8|pitch\.s8x\d\.\d\.1)`,
		"the filter of signed bytes has fewer bits there", 1.1 / 32767, 0},
	{`^srgb`, "the table of the GPU is not known", 1. / 128, 0},
	{`^special\.3d\.f32x1\.mirror\.linear\.2|^tld4\.r\.2d\.v4\.f32\.f32\.2`,
		"rounding at the places where mirrors meet", 0, 8},
	{`^array3d\.(unorm8x4|bc1|cube|sparse|deferred|flag)`, "it has no such arrays", 0, 0},
	{`^fault\.(tex0|surf0|destroyed) `, "it says that the handle is none", 0, 0},
	{`^load (txq|suq)\.`, "it refuses these at the launch", 0, 0},
	{`^array\.big\.memory|^attribute\.`, "it depends on the allocator, or on the GPU", 0, 0},
}

// textures runs the C program, and returns its lines by the section and the name.
func textures(t *testing.T, program string, env []string) map[string]string {
	t.Helper()
	var text bytes.Buffer
	for _, section := range strings.Fields("samples fit memory query surfaces errors trapload trapstore trapy " +
		"unaligned " +
		"tex0 texbad surf0 texfreed pitchbeyond dims destroyed") {
		text.WriteString("section " + section + "\n")
		cmd := exec.Command(program, section)
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s: %v", section, err)
		}
		text.Write(out)
	}
	return linesOf(text.String())
}

// linesOf returns the values of lines by their names.
func linesOf(text string) map[string]string {
	lines, section := make(map[string]string), ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, " ")
		if name == "load" {
			at := strings.LastIndex(line, " ")
			name, value = line[:at], line[at+1:]
		}
		if name == "section" {
			section = value
			continue
		}
		lines[section+" "+name] = value
	}
	return lines
}

// TestTextures compares textures, surfaces and arrays with those of a GPU.
func TestTextures(t *testing.T) {
	compareTextures(t, textures(t, compiled(t, "textures"), []string{"LD_LIBRARY_PATH=" + folderOf(library(t))}), true)
}

// TestGPUTextures compares the machine's GPU with the one that was recorded.
func TestGPUTextures(t *testing.T) {
	if os.Getenv("PURECU_TEST_GPU") != "1" {
		t.Skip("PURECU_TEST_GPU is not 1")
	}
	compareTextures(t, textures(t, compiled(t, "textures"), nil), false)
}

// folderOf returns the folder of a library.
func folderOf(path string) string { return path[:strings.LastIndex(path, "/")] }

func compareTextures(t *testing.T, got map[string]string, software bool) {
	t.Helper()
	same := 0
	for name, want := range linesOf(unpacked(t, texturesFile)) {
		if got[name] == want {
			same++
			continue
		}
		_, line, _ := strings.Cut(name, " ")
		expected := false
		for _, o := range otherTextures {
			if regexp.MustCompile(o.line).MatchString(line + " ") {
				expected = (software || strings.Contains(o.why, "allocator")) &&
					(o.most == 0 || near(got[name], want, o.most)) &&
					(o.words == 0 || different(got[name], want) <= o.words)
			}
		}
		if !expected {
			t.Errorf("%s: %d words differ: got %.200s, want %.200s", name, different(got[name], want), got[name], want)
		}
	}
	if same < 900 {
		t.Errorf("only %d lines are the same", same)
	}
}

// unpacked returns the content of a file.
func unpacked(t *testing.T, path string) string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	packed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(packed)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// wordsOf returns the words of a value.
func wordsOf(value string) []string {
	return strings.FieldsFunc(value, func(r rune) bool { return r == ' ' || r == '.' })
}

// different returns how many words differ.
func different(got, want string) (n int) {
	a, b := wordsOf(got), wordsOf(want)
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			n++
		}
	}
	return n + max(len(a), len(b)) - min(len(a), len(b))
}

// near reports whether lists of floats differ by so much at most.
func near(got, want string, most float64) bool {
	a, b := wordsOf(got), wordsOf(want)
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, err := strconv.ParseUint(a[i], 16, 32)
		y, err2 := strconv.ParseUint(b[i], 16, 32)
		if err != nil || err2 != nil ||
			math.Abs(float64(math.Float32frombits(uint32(x)))-float64(math.Float32frombits(uint32(y)))) > most {
			return false
		}
	}
	return true
}
