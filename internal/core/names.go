package core

import (
	"fmt"
	"strconv"
	"strings"
)

// ValueName is the name of a value.
type ValueName struct {
	Value int32
	Name  string
}

// NameOf returns the value's name, or its number if it has none.
func NameOf(names []ValueName, v int32) string {
	for _, n := range names {
		if n.Value == v {
			return n.Name
		}
	}
	return strconv.Itoa(int(v))
}

// FlagNames joins the names of the bits that are set in f, lowest first. Bits without a name are
// joined as one number.
func FlagNames(f uint32, zero string, names []string) string {
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
