package simd

// Level is the vector instructions that are used.
type Level = level

// AVX512 is the best level.
const AVX512 = avx512

// Levels returns what the processor has, from the best one on.
func Levels() (list []Level) {
	for l := best; l > none; l-- {
		list = append(list, l)
	}
	return list
}

// Functions returns the functions of instructions.
func (l level) Functions() map[string]Func { return l.functions() }

// Comparisons returns the functions of comparisons.
func (l level) Comparisons() map[string]Comparison { return l.comparisons() }

// Choose is the function Choose.
func (l level) Choose(d, a, b *Column, yes, lanes uint32) bool { return l.choose(d, a, b, yes, lanes) }

// Load32 is the function Load32.
func (l level) Load32(d, a *Column, m *Memory, lanes uint32) bool { return l.load32(d, a, m, lanes) }

// Load64 is the function Load64.
func (l level) Load64(d, a *Column, m *Memory, lanes uint32) bool { return l.load64(d, a, m, lanes) }

// Store32 is the function Store32.
func (l level) Store32(b, a *Column, m *Memory, lanes uint32) bool { return l.store32(b, a, m, lanes) }

// Store64 is the function Store64.
func (l level) Store64(b, a *Column, m *Memory, lanes uint32) bool { return l.store64(b, a, m, lanes) }
