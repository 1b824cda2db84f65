package ptxrandom

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ptx/isa"
)

// surfaceThreads is how many threads reduce in a surface, and how many texels it has.
const surfaceThreads = 512

// TestGPUSurfaces compares reductions in surfaces on the software driver with those on NVIDIA's driver, if
// PURECU_TEST_GPU is set. "cusim" is another software driver.
func TestGPUSurfaces(t *testing.T) {
	path := os.Getenv("PURECU_TEST_GPU")
	if path == "" {
		t.Skip("PURECU_TEST_GPU is not set")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var machines [2]*machine
	for i, of := range []string{path, "cusim"} {
		m, err := machineOf(of)
		if err != nil {
			t.Fatal(err)
		}
		defer m.close()
		machines[i] = m
	}
	compared := 0
	for _, row := range isa.All() {
		if row.Name != "sured" {
			continue
		}
		for _, v := range row.Variants() {
			for _, format := range []int32{driver.CU_AD_FORMAT_UNSIGNED_INT32, driver.CU_AD_FORMAT_SIGNED_INT32} {
				compared++
				var results [2][]byte
				for i, m := range machines {
					var err error
					if results[i], err = m.reduced(v, format, uint64(compared)); err != nil {
						t.Errorf("%s on %s: %v", v, []string{"the GPU", "the software driver"}[i], err)
					}
				}
				if string(results[0]) != string(results[1]) {
					t.Errorf("%s, format %v: the results differ: GPU %x, software %x", v, format, results[0][:64],
						results[1][:64])
				}
			}
		}
	}
	t.Logf("%d reductions of %d threads", compared, surfaceThreads)
}

// reduced makes a surface with random integers, reduces in it, and returns what it contains then.
func (m *machine) reduced(v isa.Variant, format int32, seed uint64) (content []byte, err error) {
	call := func(what string, r driver.Result) {
		if r != ok && err == nil {
			err = fmt.Errorf("%s: %w", what, r)
		}
	}
	words := 1 // of a texel
	if strings.HasSuffix(v.T(), "64") {
		words = 2
	}
	sizes := map[string][3]uint64{"1d": {surfaceThreads, 0, 0}, "2d": {32, 16, 0}, "3d": {16, 8, 4}}[v.Get("geom")]
	mod, log, r := m.load(surfaceText(v, words, sizes))
	if r != ok {
		return nil, fmt.Errorf("%w: %s", r, log)
	}
	defer m.ModuleUnload(m.at, mod)
	array, r := m.Array3DCreate(m.at, driver.Array3DDescriptor{Width: sizes[0], Height: sizes[1], Depth: sizes[2],
		Format: format, NumChannels: uint32(words), Flags: driver.CUDA_ARRAY3D_SURFACE_LDST})
	call("cuArray3DCreate", r)
	defer m.ArrayDestroy(m.at, array)
	var what driver.ResourceDesc
	what.Res.Array().HArray = array
	surface, r := m.SurfObjectCreate(m.at, what)
	call("cuSurfObjectCreate", r)
	defer m.SurfObjectDestroy(m.at, surface)
	rng := rand.New(rand.NewPCG(seed, 5))
	data := make([]byte, surfaceThreads*32) // of each thread what it stores, the operand, and coordinates
	for i := range surfaceThreads {
		at := data[32*i:]
		binary.LittleEndian.PutUint64(at, uint64(integer(rng, 64)))
		for d, size := range sizes {
			x := rng.IntN(int(max(size, 1)))
			if v.Get("outside") != "trap" && size > 0 && rng.IntN(8) == 0 {
				x = rng.IntN(3*int(size)) - int(size)
			}
			binary.LittleEndian.PutUint32(at[16+4*d:], uint32(x))
		}
		binary.LittleEndian.PutUint64(at[8:], uint64(integer(rng, 64)))
	}
	call("cuMemcpyHtoD", m.MemcpyHtoD(m.at, m.memory, data))
	for _, name := range []string{"fill", "reduce", "read"} {
		f, r := m.ModuleGetFunction(m.at, mod, name)
		call("cuModuleGetFunction", r)
		if err == nil {
			call("cuLaunchKernel", m.LaunchKernel(m.at, f, 1, 1, 1, surfaceThreads, 1, 1, 0, 0,
				driver.KernelParams{Ptrs: []unsafe.Pointer{unsafe.Pointer(&surface), unsafe.Pointer(&m.memory)},
					Sizes: []uint32{8, 8}}))
		}
	}
	content = make([]byte, surfaceThreads*8)
	call("cuMemcpyDtoH", m.MemcpyDtoH(m.at, content, m.memory))
	return content, err
}

// surfaceText returns kernels that fill a surface, reduce in it, and read it.
func surfaceText(v isa.Variant, words int, sizes [3]uint64) string {
	scale := 4 * words // coordinates are in bytes
	own := "mov.u32 x,t;"
	switch v.Get("geom") {
	case "2d":
		own = fmt.Sprintf("and.b32 x,t,%d; shr.u32 y,t,5;", sizes[0]-1)
	case "3d":
		own = fmt.Sprintf("and.b32 x,t,%d; shr.u32 y,t,4; and.b32 y,y,%d; shr.u32 z,t,7;", sizes[0]-1, sizes[1]-1)
	}
	coordinates := map[string]string{"1d": "{x}", "2d": "{x,y}", "3d": "{x,y,z,z}"}[v.Get("geom")]
	if own += fmt.Sprintf("mul.lo.u32 x,x,%d;", scale); v.Has("p") {
		scale = 1
	}
	register, access, list := "r0", "", "r0"
	if words == 2 {
		register, access, list = "w", ".v2", "{r0,r1}"
	}
	kernel := func(name, body string) string {
		return fmt.Sprintf(".visible .entry %s(.param .u64 surface, .param .u64 memory) { .reg .b32 t,x,y,z,r0,r1; "+
			".reg .b64 h,p,q,w; ld.param.u64 h,[surface]; ld.param.u64 p,[memory]; mov.u32 t,%%tid.x; "+
			"mul.wide.u32 q,t,32; add.u64 q,q,p; %s ret; }\n", name, body)
	}
	return header + kernel("fill", own+fmt.Sprintf("ld.global.v2.b32 {r0,r1},[q]; sust.b.%s%s.b32.zero [h,%s],%s;",
		v.Get("geom"), access, coordinates, list)) +
		kernel("reduce", fmt.Sprintf("ld.global.v4.b32 {x,y,z,r0},[q+16]; ld.global.v2.b32 {r0,r1},[q+8]; "+
			"mov.b64 w,{r0,r1}; mul.lo.u32 x,x,%d; %s [h,%s],%s;", scale, v, coordinates, register)) +
		kernel("read", own+fmt.Sprintf("mov.u32 r1,0; suld.b.%s%s.b32.zero %s,[h,%s]; mul.wide.u32 q,t,8; add.u64 p,p,q; "+
			"st.global.v2.b32 [p],{r0,r1};", v.Get("geom"), access, list, coordinates))
}
