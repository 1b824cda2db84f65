package softlib

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// tensorsFile is what testdata/tensors.c has printed on an H200 (driver 580, CUDA 13.0), with hashes of long lines: the
// results of cuTensorMapEncodeTiled, which elements descriptors of matrices are about, the products of warpgroups, and
// what copies of boxes have written.
const tensorsFile = "testdata/tensors-h200-cuda13.0.txt.gz"

// otherTensors are the lines that differ on the software driver, and why.
var otherTensors = []struct {
	line, why string
	most      float64 // how much a float may differ, compared with its size; 0 for anything
}{
	{`^maps maps\.interleave`, "it has no interleaved tensors", 0},
	{`^products .* load=218`, "it refuses what it does not know at the launch", 0},
	{`^special .*(f16\.f16|bf16\.bf16|tf32\.tf32)`, "the sums are rounded once", 1e-5},
	{`^special .*e[45]m[32]\.e[45]m[32]`, "an H200 adds with about 13 bits", 0.1},
}

// tensors runs the C program, and returns its lines by the section and the name.
func tensors(t *testing.T, program string, env []string) map[string]string {
	t.Helper()
	var text bytes.Buffer
	for section := range strings.FieldsSeq("maps layout products special tma") {
		text.WriteString("section " + section + "\n")
		cmd := exec.Command(program, section)
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s: %v", section, err)
		}
		for line := range strings.Lines(string(out)) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			if section != "special" && len(value) > 200 {
				h := fnv.New32a()
				h.Write([]byte(value))
				value = fmt.Sprintf("#%08x", h.Sum32())
			}
			text.WriteString(name + " " + value + "\n")
		}
	}
	return linesOf(text.String())
}

// TestTensors compares maps of tensors and products of warpgroups with those of a GPU.
func TestTensors(t *testing.T) {
	compareTensors(t, tensors(t, compiled(t, "tensors"), []string{"LD_LIBRARY_PATH=" + folderOf(library(t))}), true)
}

// TestGPUTensors compares the machine's GPU with the one that was recorded.
func TestGPUTensors(t *testing.T) {
	if os.Getenv("PURECU_TEST_GPU") != "1" {
		t.Skip("PURECU_TEST_GPU is not 1")
	}
	compareTensors(t, tensors(t, compiled(t, "tensors"), nil), false)
}

func compareTensors(t *testing.T, got map[string]string, software bool) {
	t.Helper()
	same := 0
	for name, want := range linesOf(unpacked(t, tensorsFile)) {
		if got[name] == want {
			same++
			continue
		}
		expected := false
		for _, o := range otherTensors {
			if regexp.MustCompile(o.line).MatchString(name + " " + want) {
				expected = software && (o.most == 0 || alike(name, got[name], want, o.most))
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

// alike reports whether the sums of a product differ by so much at most. Those that are no numbers have the same bits.
func alike(name, got, want string, most float64) bool {
	a, b := wordsOf(got), wordsOf(want)
	if len(a) != len(b) {
		return false
	}
	halves := regexp.MustCompile(`k\d+\.f16\.`).MatchString(name)
	for i := 1; i < len(a); i++ { // behind the hash
		x, err := strconv.ParseUint(a[i], 16, 32)
		y, err2 := strconv.ParseUint(b[i], 16, 32)
		if err != nil || err2 != nil {
			return false
		}
		for shift := 0; shift < 32; shift += 16 {
			u, v := float64(math.Float32frombits(uint32(x))), float64(math.Float32frombits(uint32(y)))
			bits, other := x, y
			if halves {
				bits, other = x>>shift&0xffff, y>>shift&0xffff
				u, v = half(bits), half(other)
			}
			if bits != other && !(math.Abs(u-v) <= most*max(math.Abs(u), math.Abs(v)) && !math.IsInf(u, 0) &&
				!math.IsInf(v, 0)) {
				return false
			}
		}
	}
	return true
}

// half returns the value of a float of 16 bits that is no NaN. Infinities become NaNs.
func half(bits uint64) float64 {
	exponent, fraction := int(bits>>10&31), float64(bits&1023)
	v := math.Ldexp(fraction, -24)
	if exponent > 0 {
		v = math.Ldexp(fraction+1024, exponent-25)
	}
	if exponent == 31 {
		return math.NaN()
	}
	if bits>>15 != 0 {
		v = -v
	}
	return v
}
