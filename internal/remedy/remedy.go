// Package remedy has the remedies for the results of the driver: short texts that say what to do.
//
// The texts name functions and options of package cu and of the packages in its folder, whose errors contain
// them. The package itself knows results, and names of C functions, and nothing else.
package remedy

import (
	_ "embed"
	"strconv"
	"strings"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/initresult"
)

// table has a line for each remedy: results, a slash and functions, a colon and the text. The first line
// that fits counts. A line without functions is for all others. Lines that begin with the word software
// are for software drivers only. A function is the name of a group or of a C function. In names, and for
// a result, * stands for anything. The lines with = at the top are the groups: a name, and the functions
// in it.
//
// It is one text because a Go string for each remedy, and a list for each group, would make every small
// program 6 kB larger. It is read only where there is an error.
//
//go:embed remedies.txt
var table string

// Of returns the remedy for a result of most functions, in one or two sentences. It is "" for success
// and for an unknown code.
func Of(r driver.Result) string { return find("", r, false) }

// OfCall returns the remedy for a result of the C function op, of NVIDIA's or of a software driver.
func OfCall(op string, r driver.Result, software bool) string {
	op, _, _ = strings.Cut(op, "_") // the version of a symbol
	text := find(op, r, software)
	switch {
	case op != "cuInit" || r == driver.ResultSuccess:
		return text
	case software:
		return initresult.OfSoftware(int32(r)) + "; " + initresult.See
	}
	switch _, meaning := initresult.Of(int32(r)); {
	case only(r) && meaning != "":
		text = meaning + ": " + text
	case only(r):
	case meaning != "":
		text = meaning
	default:
		text = "cuInit is not known to return this result"
	}
	return text + "; " + initresult.See
}

// only reports whether cuInit alone returns a result, so that its remedy is for cuInit.
func only(r driver.Result) bool {
	return r == driver.ResultStubLibrary ||
		r >= driver.ResultSystemNotReady && r <= driver.ResultMPSClientTerminated
}

// OfMissing returns the remedy for a function that the driver lacks.
func OfMissing(m *driver.MissingError) string {
	switch {
	case m.Since == 0:
		return "check the name"
	case m.Software && m.Driver < m.Since:
		return "use a newer version of the software driver (cusim.Version), or NVIDIA's driver"
	case m.Software:
		return "do not use the function, or use NVIDIA's driver"
	case m.Driver < m.Since:
		return "update the NVIDIA driver"
	}
	return "reinstall the NVIDIA driver"
}

// find returns the text of the first line that fits. For an op of "" that is a line without functions.
func find(op string, r driver.Result, software bool) string {
	if r == driver.ResultSuccess {
		return ""
	}
	code, groups, line := strconv.Itoa(int(r)), " ", ""
	for rest := table; rest != ""; {
		line, rest, _ = strings.Cut(rest, "\n")
		head, text, _ := strings.Cut(line, ": ")
		results, functions, some := strings.Cut(head, "/")
		switch name, members, isGroup := strings.Cut(head, " = "); {
		case isGroup:
			if among(members, op, "") {
				groups += name + " "
			}
		case among(results, code, "") && (!some || among(functions, op, groups)) &&
			(software || !among(results, softwareMark, "")):
			return text
		}
	}
	return ""
}

const softwareMark = "software"

// among reports whether a list has a word, or a pattern that it fits, or one of the groups.
func among(list, word, groups string) bool {
	f := ""
	for list != "" {
		f, list, _ = strings.Cut(list, " ")
		before, after, pattern := strings.Cut(f, "*")
		rest, begins := strings.CutPrefix(word, before)
		if f == word || strings.Contains(groups, " "+f+" ") || pattern && begins && strings.HasSuffix(rest, after) {
			return true
		}
	}
	return false
}
