package sim

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
)

// memoryParts returns the parts of the program's memory that overlap a range, in order. known is false if the
// operating system does not say.
func memoryParts(first, end uint64) (list []memoryPart, known bool) {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil, false
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// first-end permissions offset device inode [path]
		fields := bytes.Fields(lines.Bytes())
		if len(fields) < 5 {
			return nil, false
		}
		from, to, _ := bytes.Cut(fields[0], []byte("-"))
		a, err := strconv.ParseUint(string(from), 16, 64)
		if err != nil {
			return nil, false
		}
		b, err := strconv.ParseUint(string(to), 16, 64)
		if err != nil {
			return nil, false
		}
		if b <= first || a >= end {
			continue
		}
		list = append(list, memoryPart{first: a, end: b, read: fields[1][0] == 'r', write: fields[1][1] == 'w',
			file: string(fields[4]) != "0"})
	}
	return list, lines.Err() == nil
}
