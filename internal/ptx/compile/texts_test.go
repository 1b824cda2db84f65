package compile

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/purecu/purecu/internal/ptx/syntax"
	"github.com/purecu/purecu/internal/ptx/tables"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// recordedText is a text, and what an H200 made of it (driver 580, CUDA 13.0).
type recordedText struct {
	name, text string
	launch     []uint32 // the blocks, the threads of each, and perhaps the blocks of a cluster
	inputs     []string // the kinds of three matrices, or nil
	result     string   // "load" and a result, or what the kernel has stored
}

// recordedTexts returns the texts that were recorded.
func recordedTexts(t *testing.T) (list []recordedText) {
	rows, err := tables.Read("testdata/h200-texts.tsv.gz")
	if err != nil {
		t.Fatal(err)
	}
	for _, parts := range rows {
		r := recordedText{name: parts[0], inputs: strings.Fields(parts[3]), result: parts[4]}
		if err := json.Unmarshal([]byte(parts[1]), &r.text); err != nil {
			t.Fatal(err)
		}
		for _, n := range strings.Fields(parts[2]) {
			var size uint32
			fmt.Sscan(n, &size)
			r.launch = append(r.launch, size)
		}
		list = append(list, r)
	}
	return list
}

// mixed returns word i of the random words of a seed.
func mixed(seed, i uint64) uint64 {
	z := (seed<<32 + i + 1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// room is the size of a matrix of a recorded text in bytes.
const room = 8192

// filled returns the elements of a matrix of a kind, as the recording had them.
func filled(kind string, seed uint64) []byte {
	extremes := []uint32{math.MaxInt32, 1 << 31, 0x7ffffff0, 0x8000000f}
	var b []byte
	word16 := func(v uint64) { b = binary.LittleEndian.AppendUint16(b, uint16(v)) }
	word32 := func(v uint64) { b = binary.LittleEndian.AppendUint32(b, uint32(v)) }
	for i := uint64(0); len(b) < room; i++ {
		switch z := mixed(seed, i); kind {
		case "bits":
			b = binary.LittleEndian.AppendUint64(b, z)
		case "h":
			word16(halfOf(float64(int64(z>>8%65)-32) / 8))
		case "hone":
			word16(0x3c00 | z&0x8000)
		case "hbig":
			word16(z&0x8000 | 0x5800 | z>>20&0x3ff)
		case "hinf":
			if z&7 == 0 {
				word16([]uint64{0x7c00, 0xfc00, 0x7bff, 0xfbff}[z>>9&3])
			} else {
				word16(0x3c00 | z&0x8000)
			}
		case "f":
			word32(uint64(math.Float32bits(float32(int64(z>>8%4097)-2048) / 64)))
		case "finf":
			if z&7 == 0 {
				word32([]uint64{0x7f800000, 0xff800000, 0x7f7fffff, 0xff7fffff}[z>>9&3])
			} else {
				word32(0x3f800000 | z&0x80000000)
			}
		case "d":
			b = binary.LittleEndian.AppendUint64(b, z&0x800fffffffffffff|(1020+z>>52%8)<<52)
		case "s":
			if z>>40&3 != 0 {
				word32(z)
			} else {
				word32(uint64(extremes[z>>50&3]))
			}
		}
	}
	return b
}

// halfOf returns a small multiple of 1/8 as a float with 16 bits.
func halfOf(v float64) uint64 {
	bits := math.Float64bits(v)
	if v == 0 {
		return 0
	}
	return bits>>63<<15 | (bits>>52&0x7ff-1023+15)<<10 | bits>>42&0x3ff
}

// launchOf returns the launch of the text, and the memory for its results.
func (r *recordedText) launchOf(t *testing.T, m *Module, k *vm.Kernel) (l *vm.Launch, out []byte) {
	mem, params := memory{}, []uint64{1 << 40}
	out = bytes.Repeat([]byte{0xee}, room)
	mem[1<<40] = out
	for i, kind := range r.inputs {
		params = slices.Insert(params, i, uint64(i+2)<<40)
		mem[params[i]] = filled(kind, uint64(i))
	}
	l = launchOf(k, r.launch[0], r.launch[1], mem, params)
	if l.Cluster = [3]uint32{}; len(r.launch) > 2 {
		l.Cluster = [3]uint32{r.launch[2], 1, 1}
	}
	l.Const, l.Constants = make([]byte, m.Constants), slices.Clone(l.Constants)
	addresses := make(map[string]uint64)
	for i, v := range m.Text.Vars {
		content := l.Const
		if at, constant := m.ConstantAddress(v.Name); constant {
			content, addresses[v.Name] = content[at:], vm.ConstWindow+at
		} else {
			addresses[v.Name] = uint64(i+10) << 40
			content = make([]byte, v.Size())
			mem[addresses[v.Name]] = content
		}
		for _, e := range v.Init {
			if size := syntax.TypeSize(v.Type); size == 4 {
				binary.LittleEndian.PutUint32(content[e.Index*size:], uint32(e.Number.Bits))
			} else { // the address of a variable
				binary.LittleEndian.PutUint64(content[e.Index*size:], addresses[e.Symbol])
			}
		}
	}
	for i := range l.Constants {
		l.Constants[i].Value += addresses[l.Constants[i].Symbol]
	}
	return l, out
}

// TestTexts loads and executes texts, and compares what happens with an H200, bit by bit.
func TestTexts(t *testing.T) {
	n := 0
	for _, r := range recordedTexts(t) {
		if len(r.inputs) > 0 && r.result != "refused" { // below
			continue
		}
		n++
		m, err := Parse(r.text)
		var k *vm.Kernel
		if err == nil {
			k, err = m.Kernel("k")
		}
		if (err == nil) != (r.result != "refused") {
			t.Errorf("%s\n%v, want %s", r.text, err, r.result)
		}
		if err != nil {
			continue
		}
		l, out := r.launchOf(t, m, k)
		if _, fault := l.Execute(new(vm.Stop)); fault != nil {
			t.Errorf("%s\n%+v", r.text, fault)
			continue
		}
		got := "words"
		for i := range 64 {
			got += fmt.Sprintf(" %x", binary.LittleEndian.Uint32(out[4*i:]))
		}
		if got != r.result {
			t.Errorf("%s\n\tgot  %s\n\twant %s", r.text, got, r.result)
		}
	}
	t.Logf("%d texts", n)
}

// recordedMatrices are products of matrices.
func recordedMatrices(t *testing.T) (list []*example) {
	for _, r := range recordedTexts(t) {
		hex, is := strings.CutPrefix(r.result, "hex ")
		if !is {
			continue
		}
		list = append(list, &example{name: r.text, text: r.text, grid: r.launch[0], block: r.launch[1],
			params: []uint64{2 << 40, 3 << 40, 4 << 40, 1 << 40}, prepare: func() (memory, func(*vm.Fault) string) {
				out := bytes.Repeat([]byte{0xee}, room)
				mem := memory{1 << 40: out}
				for i, kind := range r.inputs {
					mem[uint64(i+2)<<40] = filled(kind, uint64(i))
				}
				return mem, func(fault *vm.Fault) string {
					switch got := fmt.Sprintf("%x", out); {
					case fault != nil:
						return fmt.Sprintf("%+v", fault)
					case got[:len(hex)] != hex:
						return fmt.Sprintf("\n\tgot  %s\n\twant %s", got[:len(hex)], hex)
					}
					return ""
				}
			}})
	}
	return list
}

// TestMatrices multiplies matrices, and compares the results with those of an H200, bit by bit.
func TestMatrices(t *testing.T) {
	list := recordedMatrices(t)
	for _, e := range list {
		e.check(t)
	}
	t.Logf("%d products", len(list))
}
