package sim

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

//go:embed testdata/occupancy-h200.tsv
var occupancyOnH200 string

// TestOccupancyCallback compares the sizes of blocks, and which ones the callback is asked about, with an H200.
func TestOccupancyCallback(t *testing.T) {
	var size func(threads int32) uint64
	var asked []int32
	r := newLab(t, BlockSizes(func(_ uintptr, threads int32) uint64 {
		asked = append(asked, threads)
		return size(threads)
	}))
	m := r.load(header + `.entry plain(.param .u64 p) { ret; } .entry m256(.param .u64 p) .maxntid 256, 1, 1 { ret; }
.entry stat(.param .u64 p) { .shared .b8 s[8192]; .reg .u64 %a; mov.u64 %a, s; st.shared.u8 [s], 1; ret; }`)
	for line := range strings.Lines(occupancyOnH200) {
		if line[0] == '#' {
			continue
		}
		var kernel, about string
		var limit, grid, block, last int32
		if _, err := fmt.Sscan(line, &kernel, &about, &limit, &grid, &block, &last); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		each, perThread := strings.CutSuffix(about, "*")
		n, _ := strconv.ParseUint(each, 10, 64)
		size = func(threads int32) uint64 {
			switch {
			case about == "growing":
				return uint64(1024-threads) * 40
			case perThread:
				return n * uint64(threads)
			}
			return n
		}
		asked = nil
		f, res := r.ModuleGetFunction(r.th, m, kernel)
		r.must(res)
		gotGrid, gotBlock, res := r.OccupancyMaxPotentialBlockSize(r.th, f, 1, math.MaxUint64, limit)
		if r.must(res); gotGrid != grid || gotBlock != block {
			t.Errorf("%q: %d blocks of %d threads", line, gotGrid, gotBlock)
		}
		want := []int32{asked[0]}
		for n := asked[0]; n > last; want = append(want, n) {
			n = (n - 1) / 32 * 32
		}
		if !slices.Equal(asked, want) {
			t.Errorf("%q: the callback was asked about %v", line, asked)
		}
	}
}
