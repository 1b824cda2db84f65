package isa

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/ptx.md")

const document = "../../../docs/ptx.md"

// TestDocument compares docs/ptx.md with the table.
func TestDocument(t *testing.T) {
	want := documentation()
	if *update {
		if err := os.WriteFile(document, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/ptx.md is not what the table of instructions says: run\n\tgo test ./internal/ptx/isa -run TestDocument -update")
	}
}

// documentation returns the text of docs/ptx.md.
func documentation() string {
	var b strings.Builder
	b.WriteString(`<!-- Written by go test ./internal/ptx/isa -run TestDocument -update. Do not edit it. -->

# PTX that the software driver executes

A kernel that uses only what is listed here is executed by cusim. A module with a kernel that uses anything else is not
loaded, and the error names the line, the column and the instruction ([kernels](testing.md#kernels)).

Those in brackets may be absent; a bar separates alternatives. Not all combinations exist. The last modifier is the last
one here; the others may stand in any order. ` + "`vote` and `shfl` without `.sync`" + ` are for targets before sm_70 or
texts before version 6.4, ` + "`wmma` with `.satfinite`" + ` for floats is for texts up to version 6.4, and texts before version 6.3
have ` + "`wmma` without `.aligned`" + `. What a text's version or target does not have is refused, as NVIDIA's compiler does.

| instruction | modifiers |
|---|---|
`)
	var lines []string
	for _, row := range All() {
		if strings.HasPrefix(row.Name, "%") {
			continue
		}
		line := fmt.Sprintf("| %s | %s |", row.Name, form(row))
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	slices.SortStableFunc(lines, func(a, b string) int {
		return strings.Compare(strings.Fields(a)[1], strings.Fields(b)[1])
	})
	for _, line := range lines {
		b.WriteString(line + "\n")
	}
	b.WriteString(`
## Special registers

` + "`%tid` `%ntid` `%ctaid` `%nctaid` (each with `.x` `.y` `.z` `.w`), `%laneid` `%warpid` `%nwarpid` `%smid` `%nsmid`\n" +
		"`%gridid` `%lanemask_eq` `%lanemask_le` `%lanemask_lt` `%lanemask_ge` `%lanemask_gt` `%dynamic_smem_size` `%clock`\n" +
		"`%clock_hi` `%clock64` `%globaltimer` `%globaltimer_lo` `%globaltimer_hi`,\n`%clusterid` `%nclusterid` `%cluster_ctaid` `%cluster_nctaid` (each with `.x` `.y` `.z` `.w`), `%cluster_ctarank`\n" +
		"`%cluster_nctarank` `%envreg0` to `%envreg31` `%reserved_smem_offset_begin` (`end` `cap` `0` `1`)\n" +
		"`%is_explicit_cluster` `%total_smem_size` `%aggr_smem_size` `%current_graph_exec` `%pm0` to `%pm7` `%pm0_64` to `%pm7_64`" + `

## What else is executed

- Variables in global, constant, shared (static and dynamic) and local memory. Parameters may be structures.
- Vectors of two or four registers, and their elements.
- Functions, with parameters in ` + "`.param` or `.reg`" + `, and with variables in global or constant memory. They may
  call themselves, and they may be called by their addresses, if all their parameters are in ` + "`.param`" + `. Their last
  parameter may be an array without a length, and calls may ignore results.
- ` + "`vprintf`" + `, whose text goes to the standard output or where cusim.Output says; ` + "`malloc` and `free`" + `;
  ` + "`cudaGraphSetConditional`" + `, in kernels of graphs.
- ` + "`__assertfail`" + `, which writes to the standard error, and ends the kernel with CUDA_ERROR_ASSERT (710).
- Addresses of 32 bits in shared, local and constant memory.
- Cooperative grids, and clusters of blocks with their shared memory.
- The condition code of ` + "`sub.cc`" + ` is 0 if it borrows, so that ` + "`addc`" + ` adds 0 then.
- Memory that ` + "`alloca`" + ` takes: 16 KiB for each thread, with calls of functions that call themselves.
- Asynchronous copies take place at once, so that a wait that is missing is not found.
- Metadata of ` + "`mma.sp`" + ` that the manual does not define, such as two indices that are equal or in a wrong
  order, selects the elements that it names.

## Textures and surfaces

Textures are objects with a handle of 64 bits, in a register, in a parameter of the kernel, or in a variable. They read
arrays of one, two and three dimensions, with and without layers, linear memory and memory in rows with a pitch. A
kernel can ask for the width, the height and the depth of a texture or a surface.

- Samples have the bits of an H200, with these exceptions: filtered signed bytes may differ by 1/32767, sRGB by 1/128,
  and where mirrors meet, a filtered texture of three dimensions and ` + "`tld4`" + ` may take another texel or weight.
- A handle that is none, or was destroyed before the launch, ends the kernel with CUDA_ERROR_ILLEGAL_ADDRESS (700),
  and a report says why. An H200 reads zeros, or what a texture at the same place has. A texture may be destroyed
  while a launch that uses it waits.
- The format of the surface says whether the numbers of ` + "`sured.p`" + ` have signs. If a texel has another size, the
  kernel ends with CUDA_ERROR_ILLEGAL_ADDRESS (700).
- There are no cubes, mipmapped or sparse arrays, compressed formats, formats such as CU_AD_FORMAT_UNORM_INT8X1, or
  anisotropic filters, and no texture or surface references.

## Products of warpgroups, and maps of tensors

- ` + "`wgmma`" + ` is executed at once, by each warp for its 16 rows, so that a fence or a wait that is missing is not
  found. Its matrices lie in shared memory as those of an H200 do, with all swizzles. The sums have 64 bits; those of
  e4m3 and e5m2 have about 13 on an H200, and may differ by a tenth where large products cancel out.
- Maps of tensors are tiled, with all swizzles, steps and elements, and not interleaved. They are in a parameter of the
  kernel, or in global or constant memory. There is no ` + "`.im2col`, no `tensormap.replace`" + `, and no
  sparse ` + "`wgmma`" + `.
- As on an H200, a copy to a tensor ends the kernel with CUDA_ERROR_ILLEGAL_INSTRUCTION (715) if a coordinate is below
  0, and so does any copy whose first coordinate is no multiple of 16 bytes. NaNs outside a tensor have the bits
  0x7ff7, once or several times. Elements of tf32 are rounded.

## What is not executed

- Constants of 128 bits.

An atomic operation of 128 bits is not atomic for operations of other sizes on the same memory.

## How exact the results are

Integers and floats have the results of an H200, bit by bit, also where the manual does not define them: NaNs, divisions
by zero, shifts by too much. A test compares them. Another executes random programs, whose results an H200 has computed
(driver 580): they are equal where the manual defines them, and where it does not, except for which NaN a float of 64
bits is, and which NaN ` + "`neg`, `abs` and `cvt`" + ` return.

An H200 does not compute what the manual says for some operands of ` + "`vadd`, `vsub`, `vabsdiff`, `vmin`," + `
` + "`vmax`, `vshl`, `vshr`, `vset` and `vmad` with `.sat`, `.min`, `.max`, `.shr7` or `.shr15`" + `, and for some NaNs
of ` + "`cvt.rna.tf32`" + `. The results here are those of the H200.

The approximate instructions (` + "`approx`, `full`" + `) are more precise than the manual demands, and their last bits
differ from those of a GPU. So do products of matrices with elements of 8 or 16 bits or tf32: the sums here have 64
bits, and are rounded once. This is what the test allows, and the largest difference that it has seen:

| instruction | allowed | largest difference |
|---|---|---|
` + largestDifferences + `
## What NVIDIA's compiler does otherwise

The compiler of driver 580 changes what some instructions compute. The software driver does what the manual says:

- ` + "`set`, `testp` and the packed additions and subtractions with `.add`" + ` are executed although their guard is false.
- ` + "`y - (x + y)` is `-x`, and a sum that was computed before is used again, although `.sat`" + ` would limit the result.
- ` + "`min` and `max`" + ` of a register and itself return a NaN as it is. ` + "`lop3`" + ` with the same register twice may
  get a wrong table if another logical instruction reads the result.
- The least integer is positive for instructions behind ` + "`abs`" + `.
- A register that a float was written to, and that is a distance of a shift or is stored as a shorter integer, is
  converted to an integer. If it is an element of a vector, all the elements are.
- Registers of 16 bits have other bits above, which ` + "`mul.wide`, `shr` and comparisons" + ` of integers see, if the
  result of ` + "`neg`, `abs` or `set`" + ` for floats of 16 bits is in them.
- ` + "`sub.cc`" + ` of a register and itself borrows.
- A conversion to an integer of what another conversion has rounded to 16 bits may be another integer, and so may one
  of the integer that another conversion has made of a NaN.
- The upper half of an operand of ` + "`add.noftz.f16x2` and `add.noftz.bf16x2`" + ` for shared memory is bits 32 to 47 of a
  result of 64 bits if the operand is the result of ` + "`vadd`, `vsub`, `vabsdiff`, `vmin`, `vmax`, `vshl`, `vshr`," + `
  ` + "`vset` or `vmad`" + `: often it is 0 or all ones.
- A comparison whose result is the guard of ` + "`exit`" + ` may be made again without its ` + "`.ftz`" + `.
- A division by the result of ` + "`set` or `lop3`" + ` with a predicate may be wrong.
- A shift of 16 bits to the right by a constant above 65,535 does nothing.
- ` + "`slct`" + ` selects the other value if 2^31-1 or -2^31 is the constant that it compares with 0.
`)
	return b.String()
}

// largestDifferences are the rows of a table: see tests/ptxrandom.
const largestDifferences = `| div.approx, div.full, rcp.approx, sqrt.approx, rsqrt.approx, ex2.approx (f32) | 2^-21 | 2 ulp |
| lg2.approx (f32) | 2^-21, or 2^-20 absolutely | 2^-22 |
| sin.approx, cos.approx of at most 2 | 2^-19 absolutely | not more |
| tanh.approx (f32) | 2^-10 | 129 ulp |
| ex2.approx, tanh.approx (f16) | 2^-8, 2^-9 | 1 ulp |
| ex2.approx, tanh.approx (bf16) | 2^-6, 2^-7 absolutely | half of that |
| rcp.approx, rsqrt.approx (f64) | 2^-19 | 2^-20 |
| products with f16 and bf16, for a sum of at most 66 | 3.1e-5 | 3.7e-6 |
| products with tf32, for a sum of at most 34 | 1.6e-5 | 1.8e-6 |
| products with results of f16, for a sum of at most 66 | 0.064 | 0.0039 |
| products with e4m3 and e5m2, for a sum of at most 130 | 0.25 | 7.6e-6, with results of f16 0.062 |
| products with f64 | 5.9e-14 | 0 |
`

// form returns how the modifiers of an instruction are written.
func form(row *Instruction) string {
	var words []string
	for _, s := range row.slots {
		word := "." + strings.Join(s.choices, "\\|.")
		if s.optional {
			word = "[" + word + "]"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// TestTable checks the table: each row has variants that are found by their texts, and no text has two
// meanings.
func TestTable(t *testing.T) {
	seen := make(map[string]*Instruction)
	for _, row := range All() {
		if strings.HasPrefix(row.Name, "%") {
			continue
		}
		all := row.Variants()
		if len(all) == 0 {
			t.Errorf("%s %s: there are no variants", row.Name, row.Modifiers)
		}
		for _, v := range all {
			if other := seen[v.String()]; other == row {
				t.Errorf("%s has two meanings in %s %s", v, row.Name, row.Modifiers)
			}
			seen[v.String()] = row
			if _, _, found := Find(v.String()); !found {
				t.Fatalf("%s is not found", v)
			}
			for _, o := range v.Operands() {
				if o.Type == "" || strings.IndexByte("dabceABCPvwmnislxytgMT0123", o.Role) < 0 {
					t.Errorf("%s: operand %c:%s", v, o.Role, o.Type)
				}
			}
		}
	}
	for _, op := range []string{"", "add", "add.u8", "add.s32.sat", "ld", "ld.u32.u32", "setp.lo.s32", "cvt.f32.f64",
		"cvt.rn.f64.f32", "min.abs.f32", "fma.f32"} {
		if v, _, found := Find(op); found {
			t.Errorf("%q is %s", op, v)
		}
	}
}
