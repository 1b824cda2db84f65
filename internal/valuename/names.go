package valuename

import (
	"fmt"
	"strconv"
	"strings"
)

// Name is the name of a value.
type Name struct {
	Value int32
	Name  string
}

// Of returns the value's name, or its number if it has none.
func Of(names []Name, v int32) string {
	for _, n := range names {
		if n.Value == v {
			return n.Name
		}
	}
	return strconv.Itoa(int(v))
}

// OfFlags joins the names of the bits that are set in f, lowest first. Bits without a name are
// joined as one number.
func OfFlags(f uint32, zero string, names []string) string {
	if f == 0 {
		return zero
	}
	var set []string
	for i, n := range names {
		if f&(1<<i) != 0 {
			set = append(set, n)
			f &^= 1 << i
		}
	}
	if f != 0 {
		set = append(set, fmt.Sprintf("%#x", f))
	}
	return strings.Join(set, "|")
}

// Clamp32 returns the nearest 32-bit number.
func Clamp32(n int) int32 {
	return int32(max(-1<<31, min(n, 1<<31-1)))
}
