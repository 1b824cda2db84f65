//go:build !cu_portable

package simd

// These functions are those of simd_amd64.go with AVX2: see avx2_amd64.s.

//go:noescape
func add32AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func sub32AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func mul32AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func mad32AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func minU32AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func maxU32AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func minS32AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func maxS32AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func shl32AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func shrU32AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func shrS32AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func extendU32AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func extendS32AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func add64AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func sub64AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func andAVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func orAVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func xorAVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func wideU32AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func wideS32AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func madWideU32AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func madWideS32AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func shl64AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func shrU64AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func addF32AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func subF32AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func mulF32AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func divF32AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func fmaF32AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func fromS32AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func addF64AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func subF64AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func mulF64AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func divF64AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func fmaF64AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func widenAVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func narrowAVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func doubleS32AVX2(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func equal32AVX2(a, b *Column) (yes uint32)

//go:noescape
func lessS32AVX2(a, b *Column) (yes uint32)

//go:noescape
func lessU32AVX2(a, b *Column) (yes uint32)

//go:noescape
func equal64AVX2(a, b *Column) (yes uint32)

//go:noescape
func lessS64AVX2(a, b *Column) (yes uint32)

//go:noescape
func lessU64AVX2(a, b *Column) (yes uint32)

//go:noescape
func equalF32AVX2(a, b *Column) (yes uint32)

//go:noescape
func equalF64AVX2(a, b *Column) (yes uint32)

//go:noescape
func lessF32AVX2(a, b *Column) (yes uint32)

//go:noescape
func lessF64AVX2(a, b *Column) (yes uint32)

//go:noescape
func lessEqualF32AVX2(a, b *Column) (yes uint32)

//go:noescape
func lessEqualF64AVX2(a, b *Column) (yes uint32)

//go:noescape
func unorderedF32AVX2(a, b *Column) (yes uint32)

//go:noescape
func unorderedF64AVX2(a, b *Column) (yes uint32)

//go:noescape
func chooseAVX2(d, a, b *Column, yes, lanes uint32)

//go:noescape
func load32AVX2(column, a *Column, m *Memory, lanes uint32) (done bool)

//go:noescape
func load64AVX2(column, a *Column, m *Memory, lanes uint32) (done bool)

//go:noescape
func store32AVX2(column, a *Column, m *Memory, lanes uint32) (done bool)

//go:noescape
func store64AVX2(column, a *Column, m *Memory, lanes uint32) (done bool)
