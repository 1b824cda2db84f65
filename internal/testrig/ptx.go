package testrig

import (
	"github.com/purecu/purecu/cu"
)

// SpinPTX has kernels that take a time, that add to floats, and that fault.
const SpinPTX = `
.version 6.0
.target sm_50
.address_size 64
.visible .entry spin(.param .u64 ns)
{
	.reg .u64 %limit, %begin, %now;
	.reg .pred %more;
	ld.param.u64 %limit, [ns];
	mov.u64 %begin, %globaltimer;
again:
	mov.u64 %now, %globaltimer;
	sub.u64 %now, %now, %begin;
	setp.lt.u64 %more, %now, %limit;
	@%more bra again;
	ret;
}
.visible .entry add(.param .u64 ptr, .param .u32 n, .param .f32 x)
{
	.reg .u64 %p, %off;
	.reg .u32 %i, %n;
	.reg .f32 %x, %v;
	.reg .pred %out;
	ld.param.u64 %p, [ptr];
	ld.param.u32 %n, [n];
	ld.param.f32 %x, [x];
	mov.u32 %i, %tid.x;
	setp.ge.u32 %out, %i, %n;
	@%out ret;
	mul.wide.u32 %off, %i, 4;
	add.u64 %p, %p, %off;
	ld.global.f32 %v, [%p];
	add.f32 %v, %v, %x;
	st.global.f32 [%p], %v;
	ret;
}
.visible .entry bad()
{
	.reg .u64 %p;
	.reg .u32 %v;
	mov.u64 %p, 16;
	mov.u32 %v, 1;
	st.global.u32 [%p], %v;
	ret;
}
`

// PutPTX has a kernel that stores a value.
const PutPTX = `.version 7.0
.target sm_70
.address_size 64
.visible .entry put(.param .u64 p, .param .u32 v)
{
	.reg .u64 %a;
	.reg .u32 %v;
	ld.param.u64 %a, [p];
	ld.param.u32 %v, [v];
	cvta.to.global.u64 %a, %a;
	st.global.u32 [%a], %v;
	ret;
}
`

// CountPTX has a variable, and a kernel that returns its value and adds to it.
const CountPTX = PutPTX + `
.visible .global .align 4 .u32 counter = 7;
.visible .entry tick(.param .u64 p)
{
	.reg .u64 %a;
	.reg .u32 %v;
	ld.param.u64 %a, [p];
	cvta.to.global.u64 %a, %a;
	ld.global.u32 %v, [counter];
	st.global.u32 [%a], %v;
	add.u32 %v, %v, 1;
	st.global.u32 [counter], %v;
	ret;
}
`

// FourThreads is for the kernel add, with four floats.
var FourThreads = cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 4}}

// ManagedPTX has a managed variable and a kernel that adds to it.
const ManagedPTX = `.version 7.0
.target sm_70
.address_size 64
.visible .global .attribute(.managed) .align 4 .u32 total = 7;
.visible .global .align 4 .u32 own = 1;
.visible .entry more()
{
	.reg .u32 %v;
	ld.global.u32 %v, [total];
	add.u32 %v, %v, 1;
	st.global.u32 [total], %v;
	ret;
}`
