package sim

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"
)

// number parses a constant, and returns its bytes.
func number(t string, size uint64, float bool) ([]byte, bool) {
	var bits uint64
	lower := strings.ToLower(t)
	switch hex, is32 := strings.CutPrefix(lower, "0f"); {
	case is32 && len(hex) == 8 && float: // a float's bits
		n, err := strconv.ParseUint(hex, 16, 32)
		if err != nil {
			return nil, false
		}
		bits = floatBits(float64(math.Float32frombits(uint32(n))), size)
	case strings.HasPrefix(lower, "0d") && len(lower) == 18 && float:
		n, err := strconv.ParseUint(lower[2:], 16, 64)
		if err != nil {
			return nil, false
		}
		bits = floatBits(math.Float64frombits(n), size)
	case float:
		v, err := strconv.ParseFloat(lower, 64)
		if err != nil || size < 4 {
			return nil, false
		}
		bits = floatBits(v, size)
	default:
		digits, negative := strings.CutPrefix(strings.TrimSuffix(lower, "u"), "-")
		n, err := strconv.ParseUint(digits, 0, 64)
		if err != nil {
			return nil, false
		}
		if bits = n; negative {
			bits = -n
		}
	}
	return binary.LittleEndian.AppendUint64(nil, bits)[:min(size, 8)], size <= 8
}

// floatBits returns the bits of a float of a size.
func floatBits(v float64, size uint64) uint64 {
	if size == 4 {
		return uint64(math.Float32bits(float32(v)))
	}
	return math.Float64bits(v)
}
