package vm

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// mostText is how long a text in the memory of a kernel is at most, in bytes.
const mostText = 1 << 16

// text returns a text that ends with a zero, or false after a fault.
//
//go:norace
func (w *Warp) text(o *Op, lane int, addr uint64) (string, bool) {
	var b strings.Builder
	for b.Len() < mostText {
		p := w.Pointer(o, lane, addr+uint64(b.Len()), 1, false)
		if p == nil {
			return "", false
		}
		if *(*byte)(p) == 0 {
			break
		}
		b.WriteByte(*(*byte)(p))
	}
	return b.String(), true
}

// Print executes vprintf: A is the address of the format, and B that of the arguments. D gets the
// number of the arguments.
func Print(w *Warp, o *Op) {
	a, b, d := w.R[o.A], w.R[o.B], &w.R[o.D]
	for i := range w.Each {
		format, is := w.text(o, i, a[i])
		if !is {
			return
		}
		p := printing{w: w, o: o, lane: i, at: b[i]}
		text := p.format(format)
		if w.Fault != nil {
			return
		}
		if out := w.block.run.Print; out != nil && len(text) > 0 {
			out([]byte(text), false)
		}
		d[i] = p.count
	}
}

// Assert executes __assertfail: A is the address of the message, B that of the name of the file, C the
// line, and E the address of the name of the function.
func Assert(w *Warp, o *Op) {
	a, b, c, e := &w.R[o.A], &w.R[o.B], &w.R[o.C], &w.R[o.E]
	reason := ""
	for i := range w.Each {
		message, _ := w.text(o, i, a[i])
		file, _ := w.text(o, i, b[i])
		function, is := w.text(o, i, e[i])
		if !is || w.Fault != nil {
			return
		}
		var f Fault
		w.block.locate(&f, w.index, i)
		line := fmt.Sprintf("%s:%d: %s: block: [%d,%d,%d], thread: [%d,%d,%d] Assertion `%s` failed.\n", file,
			uint32(c[i]), function, f.Block[0], f.Block[1], f.Block[2], f.Thread[0], f.Thread[1], f.Thread[2], message)
		if out := w.block.run.Print; out != nil {
			out([]byte(line), true)
		}
		if reason == "" {
			reason = strings.TrimSpace(line)
		}
	}
	w.Fail(AssertFailed, reason)
}

// printing is the formatting of a text of vprintf.
type printing struct {
	w     *Warp
	o     *Op
	lane  int
	at    uint64 // the address of the next argument
	count uint64 // the arguments so far
}

// argument returns the next argument, of 4 or 8 bytes.
//
//go:norace
func (p *printing) argument(size uint64) uint64 {
	p.at = (p.at + size - 1) &^ (size - 1)
	at := p.w.Pointer(p.o, p.lane, p.at, size, false)
	p.at += size
	switch {
	case at == nil:
		return 0
	case size == 4:
		return uint64(*(*uint32)(at))
	}
	return *(*uint64)(at)
}

// format formats a text as printf of C does.
func (p *printing) format(s string) string {
	var b strings.Builder
	for p.w.Fault == nil && b.Len() < mostPrinted {
		before, rest, more := strings.Cut(s, "%")
		b.WriteString(before)
		if !more {
			break
		}
		n := strings.IndexFunc(rest, func(c rune) bool { return !strings.ContainsRune("-+ #0123456789.*hlLqjzt", c) })
		if n < 0 {
			b.WriteString("%" + rest)
			break
		}
		s = rest[n+1:]
		if rest[n] == '%' {
			b.WriteByte('%')
			continue
		}
		if strings.ContainsAny(rest[:n], "jztLq") || strings.Contains(rest[:n], ".*") || strings.Count(rest[:n], "*") > 1 {
			b.WriteString("%" + rest[:n+1]) // as on an H200
			continue
		}
		b.WriteString(p.one(rest[:n], rest[n]))
	}
	return b.String()
}

// one formats one argument. The specification is what stands between the percent sign and the verb.
func (p *printing) one(spec string, verb byte) string {
	size := strings.TrimLeft(spec, "-+ #0123456789.*")
	spec = strings.TrimSuffix(spec, size)
	if before, after, star := strings.Cut(spec, "*"); star {
		spec = before + strconv.Itoa(int(int32(p.argument(4)))) + after
	}
	spec = limited(spec)
	p.count++
	wide := strings.Contains(size, "l")
	switch verb {
	case 'd', 'i', 'u', 'x', 'X', 'o':
		return p.integer(spec, size, verb, wide)
	case 'e', 'E', 'f', 'F', 'g', 'G', 'a', 'A':
		return float(spec, verb, math.Float64frombits(p.argument(8)))
	case 'c':
		return padded(spec, string([]byte{byte(p.argument(4))}), false)
	case 's':
		text, _ := p.w.text(p.o, p.lane, p.argument(8))
		return padded(spec, text, true)
	case 'p':
		v := p.argument(8)
		if v == 0 {
			return fmt.Sprintf("%"+spec+"s", "(nil)")
		}
		return fmt.Sprintf("%"+spec+"s", "0x"+strconv.FormatUint(v, 16))
	}
	p.count--
	return "%" + spec + size + string(verb)
}

// padded returns a text with a width, and with cut at most as many bytes as the precision. Both count
// bytes, as in C.
func padded(spec, text string, cut bool) string {
	numbers := strings.TrimLeft(spec, "-+ #0")
	left := strings.Contains(spec[:len(spec)-len(numbers)], "-")
	width, precision, has := strings.Cut(numbers, ".")
	if n, _ := strconv.Atoi(precision); has && cut { // without a number it is 0
		text = text[:min(n, len(text))]
	}
	n, _ := strconv.Atoi(width)
	fill := strings.Repeat(" ", max(n-len(text), 0))
	if left {
		return text + fill
	}
	return fill + text
}

// A call prints about mostPrinted bytes, and an argument has at most mostDigits of width or precision.
const (
	mostPrinted = 1 << 20
	mostDigits  = 4096
)

// limited returns the specification with smaller numbers, if they are too large.
func limited(spec string) string {
	var b strings.Builder
	for spec != "" {
		n := strings.IndexFunc(spec, func(c rune) bool { return c < '1' || c > '9' })
		if n == 0 || spec[0] == '0' { // a flag, or between two numbers
			b.WriteByte(spec[0])
			spec = spec[1:]
			continue
		}
		end := len(spec) - len(strings.TrimLeft(spec, "0123456789"))
		if v, err := strconv.Atoi(spec[:end]); err != nil || v > mostDigits {
			b.WriteString(strconv.Itoa(mostDigits))
		} else {
			b.WriteString(spec[:end])
		}
		spec = spec[end:]
	}
	return b.String()
}

// integer formats an integer.
func (p *printing) integer(spec, size string, verb byte, wide bool) string {
	bytes := uint64(4)
	if wide {
		bytes = 8
	}
	v := p.argument(bytes)
	bits := 8 * bytes
	switch size {
	case "h":
		bits = 16
	case "hh":
		bits = 8
	}
	v = v << (64 - bits) >> (64 - bits)
	if verb == 'd' || verb == 'i' {
		return fmt.Sprintf("%"+spec+"d", int64(v<<(64-bits))>>(64-bits))
	}
	spec = strings.NewReplacer("+", "", " ", "").Replace(spec)
	if verb == 'u' {
		verb = 'd'
	}
	if v == 0 {
		spec = strings.ReplaceAll(spec, "#", "")
	}
	return fmt.Sprintf("%"+spec+string(verb), v)
}

// float formats a float.
func float(spec string, verb byte, v float64) string {
	upper := verb < 'a'
	text := ""
	flags := strings.TrimRight(spec, ".0123456789")
	for len(spec) > len(flags) && spec[len(flags)] == '0' { // a flag, too
		flags += "0"
	}
	width, precision, has := strings.Cut(spec[len(flags):], ".")
	digits := 6
	if n, err := strconv.Atoi(precision); has && err == nil {
		digits = n
	} else if has {
		digits = 0
	}
	magnitude := math.Abs(v)
	switch {
	case math.IsNaN(v):
		text = "nan"
	case math.IsInf(v, 0):
		text = "inf"
	case verb == 'a' || verb == 'A':
		if !has {
			digits = -1
		}
		text = strconv.FormatFloat(magnitude, 'x', digits, 64)
		if i := strings.IndexByte(text, 'p') + 2; text[i] == '0' && i+1 < len(text) {
			text = text[:i] + text[i+1:]
		}
	case verb == 'g' || verb == 'G':
		text = fmt.Sprintf("%"+strings.Repeat("#", strings.Count(flags, "#")&1)+"."+strconv.Itoa(max(digits, 1))+"g", magnitude)
	default:
		text = strconv.FormatFloat(magnitude, verb|0x20, digits, 64)
	}
	sign := ""
	switch {
	case math.Signbit(v):
		sign = "-"
	case strings.Contains(flags, "+"):
		sign = "+"
	case strings.Contains(flags, " "):
		sign = " "
	}
	if upper {
		text = strings.ToUpper(text)
	}
	n, _ := strconv.Atoi(width)
	fill := max(n-len(sign)-len(text), 0)
	switch {
	case strings.Contains(flags, "-"):
		return sign + text + strings.Repeat(" ", fill)
	case strings.Contains(flags, "0") && !math.IsNaN(v) && !math.IsInf(v, 0):
		return sign + strings.Repeat("0", fill) + text
	}
	return strings.Repeat(" ", fill) + sign + text
}

// Heap is memory that kernels allocate and free. It is used by several goroutines at once.
type Heap interface {
	// Alloc returns the address of new memory, or 0 if there is none left.
	Alloc(size uint64) uint64
	// Free frees memory. It reports whether there is such memory.
	Free(addr uint64) bool
}

// Malloc executes malloc: A is the size, and D gets the address.
func Malloc(w *Warp, o *Op) {
	a, d := w.R[o.A], &w.R[o.D]
	for i := range w.Each {
		d[i] = 0
		if h := w.block.run.Heap; h != nil && a[i] > 0 {
			d[i] = h.Alloc(a[i])
		}
	}
}

// SetConditional executes cudaGraphSetConditional: A is the handle, and B the value.
func SetConditional(w *Warp, o *Op) {
	a, b := w.R[o.A], w.R[o.B]
	for i := range w.Each {
		if set := w.block.run.Condition; set != nil && set(a[i], uint32(b[i])) {
			continue
		}
		w.fail(IllegalAddress, i)
		w.Fault.Reason = fmt.Sprintf("cudaGraphSetConditional: the kernel's graph has no conditional handle %#x", a[i])
		return
	}
}

// Free executes free: A is the address.
func Free(w *Warp, o *Op) {
	for i := range w.Each {
		addr := w.R[o.A][i]
		if h := w.block.run.Heap; addr == 0 || h != nil && h.Free(addr) {
			continue
		}
		w.fail(LaunchFailed, i)
		w.Fault.Reason = fmt.Sprintf("free of %#x, which malloc of a kernel has not returned", addr)
		return
	}
}
