package core

import "strconv"

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
