package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

const driversHead = `# The functions that only newer drivers have, written by gen-nvml drivers. Do not edit.
# The first row has the releases whose libraries were compared, from the oldest; each other one a release, and a function
# that it has, and that those before it lack.
`

// drivers are the releases whose libraries are known, and the first that has a function, unless all have it.
type drivers struct {
	releases []int
	first    map[string]int
}

// runDrivers writes which functions each driver has first. An argument is a release and a file: a library, or the names
// that it exports, one a line.
func runDrivers(out string, args []string) error {
	var d drivers
	var rows strings.Builder
	seen := map[string]bool{}
	for i, arg := range args {
		release, file, _ := strings.Cut(arg, "=")
		n, err := strconv.Atoi(release)
		if err != nil {
			return err
		}
		d.releases = append(d.releases, n)
		names, err := exportsOf(file)
		if err != nil {
			return err
		}
		slices.Sort(names)
		for _, name := range names {
			if strings.HasPrefix(name, "nvml") && !seen[name] {
				seen[name] = true
				if i > 0 {
					fmt.Fprintf(&rows, "%d\t%s\n", n, name)
				}
			}
		}
	}
	head := driversHead + strings.Trim(strings.ReplaceAll(fmt.Sprint(d.releases), " ", "\t"), "[]") + "\n"
	return os.WriteFile(out, []byte(head+rows.String()), 0o644)
}

// exportsOf returns what a library exports, or the words of a text.
func exportsOf(file string) (names []string, err error) {
	text, err := os.ReadFile(file)
	if err != nil || !bytes.HasPrefix(text, []byte(elf.ELFMAG)) {
		return strings.Fields(string(text)), err
	}
	f, err := elf.NewFile(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	symbols, err := f.DynamicSymbols()
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			names = append(names, s.Name)
		}
	}
	return names, err
}

// parseDrivers reads the file that runDrivers wrote.
func parseDrivers(src source) (*drivers, error) {
	d := &drivers{first: map[string]int{}}
	for line := range strings.Lines(src.text) {
		columns := strings.Fields(line)
		if strings.HasPrefix(line, "#") || len(columns) == 0 {
			continue
		}
		if d.releases == nil {
			for _, c := range columns {
				n, err := strconv.Atoi(c)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", src.name, err)
				}
				d.releases = append(d.releases, n)
			}
			continue
		}
		n, err := strconv.Atoi(columns[0])
		if err != nil || len(columns) != 2 {
			return nil, fmt.Errorf("%s: malformed row %q", src.name, line)
		}
		d.first[columns[1]] = n
	}
	return d, nil
}

// since returns the number in releases of the first driver that has the function, or their number.
func (d *drivers) since(f funcFact) int {
	first, newer := d.first[f.export]
	for i, n := range d.releases {
		if n == first || !newer && !f.unverified {
			return i
		}
	}
	return len(d.releases)
}
