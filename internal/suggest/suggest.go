// Package suggest finds the names that a mistyped name may mean.
package suggest

import "strings"

// Nearest returns the names that a mistyped name may mean, in any case: those that begin with it, or else those
// with the smallest distance, which must be at most two and less than its length, or else those that contain it,
// or that it contains.
func Nearest(name string, names []string) []string {
	name = strings.ToLower(name)
	near := those(names, func(n string) bool { return name != "" && strings.HasPrefix(n, name) })
	for best := 1; best <= min(2, len(name)-1) && len(near) == 0; best++ {
		near = those(names, func(n string) bool { return distance(name, n) == best })
	}
	if len(near) == 0 {
		near = those(names, func(n string) bool {
			return min(len(name), len(n)) > 2 && (strings.Contains(n, name) || strings.Contains(name, n))
		})
	}
	return near
}

// those returns the names that are meant. meant gets them in lower case.
func those(names []string, meant func(string) bool) (list []string) {
	for _, n := range names {
		if meant(strings.ToLower(n)) {
			list = append(list, n)
		}
	}
	return list
}

// distance returns the smallest number of insertions, deletions, replacements and swaps of
// neighbouring bytes that change a to b.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			same := 1
			if a[i-1] == b[j-1] {
				same = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+same)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// Text returns a question that names what a mistyped name may mean, as the end of an error, or "".
func Text(name string, names []string) string {
	near := Nearest(name, names)
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(near, " or ") + "?"
}
