//go:build !amd64 || cu_portable

package simd

func detect() level { return none }

func (level) functions() map[string]Func { return nil }

func (level) comparisons() map[string]Comparison { return nil }

func (level) choose(_, _, _ *Column, _, _ uint32) bool { return false }

func (level) load32(_, _ *Column, _ *Memory, _ uint32) bool { return false }

func (level) load64(_, _ *Column, _ *Memory, _ uint32) bool { return false }

func (level) store32(_, _ *Column, _ *Memory, _ uint32) bool { return false }

func (level) store64(_, _ *Column, _ *Memory, _ uint32) bool { return false }
