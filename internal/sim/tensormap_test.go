package sim

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/purecu/purecu/driver"
)

// matrixMap returns a map of a matrix of halves, in boxes of 64 rows and 128 swizzled bytes.
func (r *lab) matrixMap(p driver.DevicePtr, rows, columns int) driver.TensorMap {
	r.t.Helper()
	m, res := r.TensorMapEncodeTiled(r.th, driver.CU_TENSOR_MAP_DATA_TYPE_FLOAT16, driver.HostPtr(p),
		[]uint64{uint64(columns), uint64(rows)}, []uint64{uint64(2 * columns)}, []uint32{64, 64}, []uint32{1, 1},
		driver.CU_TENSOR_MAP_INTERLEAVE_NONE, driver.CU_TENSOR_MAP_SWIZZLE_128B, driver.CU_TENSOR_MAP_L2_PROMOTION_NONE,
		driver.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
	r.must(res)
	return m
}

// TestExecuteTensorProduct multiplies matrices as kernels for an H100 do: one thread copies boxes of tensors, and a
// warpgroup multiplies them.
func TestExecuteTensorProduct(t *testing.T) {
	const rows, columns, depth = 128, 64, 128
	r := newLab(t)
	halves := func(n int, v func(i int) int) driver.DevicePtr {
		var b []byte
		for i := range n {
			// Integers from -2 to 2.
			b = binary.LittleEndian.AppendUint16(b, []uint16{0xc000, 0xbc00, 0, 0x3c00, 0x4000}[v(i)+2])
		}
		return r.alloc(string(b))
	}
	first, second := func(i int) int { return i*7%5 - 2 }, func(i int) int { return (i*3+i/128)%5 - 2 }
	a, b := halves(rows*depth, first), halves(columns*depth, second) // the second one by columns
	out := r.alloc(series(rows*columns, func(int) uint32 { return 0 }))
	var maps []byte
	for _, m := range []driver.TensorMap{r.matrixMap(a, rows, depth), r.matrixMap(b, columns, depth)} {
		maps, _ = binary.Append(maps, binary.LittleEndian, m.Opaque)
	}
	var text, sums strings.Builder
	for i := range 32 {
		fmt.Fprintf(&sums, ",d%d", i)
	}
	text.WriteString(`.version 8.0 .target sm_90a .address_size 64
		.visible .entry gemm(.param .u64 maps, .param .u64 out) { .reg .b32 d<32>, t, x, y, k, row; .reg .b64 m, o, sa, sb, da, db, w;
		.reg .pred p, one, more; .shared .align 1024 .b8 A[8192]; .shared .align 1024 .b8 B[8192]; .shared .b64 bar;
		ld.param.u64 m, [maps]; ld.param.u64 o, [out]; mov.u32 t, %tid.x; setp.eq.u32 one, t, 0; mov.u32 row, %ctaid.x;
		shl.b32 row, row, 6; mov.u64 sa, A; mov.u64 sb, B; @one mbarrier.init.shared.b64 [bar], 1;
		@one fence.mbarrier_init.release.cluster; bar.sync 0; mov.u32 k, 0; mov.u32 y, 0; mov.u32 x, 0;
		NEXT: @!one bra WAIT; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16384;
		cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [sa], [m, {k, row}], [bar];
		cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [sb], [m+128, {k, x}], [bar];
		WAIT: mbarrier.try_wait.parity.shared.b64 p, [bar], y; @!p bra WAIT; xor.b32 y, y, 1;
		shr.u64 da, sa, 4; or.b64 da, da, 0x4000004000000000; shr.u64 db, sb, 4; or.b64 db, db, 0x4000004000000000;
		setp.ne.u32 more, k, 0; wgmma.fence.sync.aligned;
		`)
	for range 4 {
		text.WriteString("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" + sums.String()[1:] + `}, da, db, more, 1, 1, 0, 0;
			setp.eq.u32 more, k, k; add.u64 da, da, 2; add.u64 db, db, 2;
			`)
	}
	text.WriteString(`wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; bar.sync 0;
		add.u32 k, k, 64; setp.lt.u32 p, k, 128; @p bra NEXT;
		shr.u32 x, t, 5; shl.b32 x, x, 4; add.u32 row, row, x; shr.u32 x, t, 2; and.b32 x, x, 7; add.u32 row, row, x;
		and.b32 x, t, 3; shl.b32 x, x, 1; mad.lo.u32 x, row, 64, x; mul.wide.u32 w, x, 4; add.u64 o, o, w;
		`)
	for i := range 32 {
		fmt.Fprintf(&text, "st.global.b32 [o+%d], d%d;\n", (i/4*8+i%2+i/2%2*8*columns)*4, i)
	}
	text.WriteString("ret; }")
	f, res := r.ModuleGetFunction(r.th, r.load(text.String()), "gemm")
	r.must(res)
	r.must(r.launchGrid(f, rows/64, 1, 128, 1, 0, r.alloc(string(maps)), out))
	for i, v := range r.wordsAt(out, rows*columns) {
		want := 0
		for x := range depth {
			want += first(i/columns*depth+x) * second(i%columns*depth+x)
		}
		if got := math.Float32frombits(v); got != float32(want) {
			t.Fatalf("element (%d, %d) is %g, want %d", i/columns, i%columns, got, want)
		}
	}
}

// TestTensorMapAddress gives a map another tensor.
func TestTensorMapAddress(t *testing.T) {
	r := newLab(t)
	a, b := r.alloc(series(8192, func(int) uint32 { return 1 })), r.alloc(series(8192, func(int) uint32 { return 2 }))
	m := r.matrixMap(a, 128, 128)
	other, res := r.TensorMapReplaceAddress(r.th, m, driver.HostPtr(b))
	if r.must(res); other != r.matrixMap(b, 128, 128) {
		t.Error("it is another map")
	}
	_, res = r.TensorMapReplaceAddress(r.th, m, driver.HostPtr(b)+8)
	r.want("an address that is not aligned", driver.ResultInvalidValue, res)
	_, res = r.TensorMapReplaceAddress(r.th, driver.TensorMap{}, driver.HostPtr(b))
	r.want("no map", driver.ResultInvalidValue, res)
}
