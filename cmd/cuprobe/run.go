package main

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/library"
	"github.com/purecu/purecu/cusim"
)

func runCommand() command {
	return command{
		name:  "run",
		args:  "FILE KERNEL",
		short: "run a kernel of a file, and print its results",
		long: `It loads PTX, a cubin or a fatbin, launches a kernel once, and prints how long it took
and what is in the memory that it was given. With -driver soft it also prints how many
instructions the warps have executed, and the error of a wrong access has the thread,
the line of the PTX, and the memory that is near. -check looks for mistakes that a GPU
does not tell, with -driver soft:
  memory           reads of memory that nothing has written
  races            accesses of shared memory by two threads without an order
  barriers         barriers that some threads do not reach
  all              all of them
The exit status is 1 if there are any. They are printed even if the kernel fails later.
-limit ends a kernel that is executed for too long, and says where it was.

Each -arg is an argument of the kernel, in this order. TYPE is u8 (only in memory),
u32, s32, u64, s64, f32 or f64:
  TYPE:VALUE       a number
  TYPE[N]          the address of memory with N zeros
  TYPE[]:V,V,...   the address of memory with these numbers

Fields with -json: driver, kernel, grid, block, timeNS, instructions (0 on a GPU),
memory (arg, type, values as text), mistakes (texts), and error if the kernel failed
after mistakes: then timeNS is 0 and memory is empty.`,
		define: func(fs *flag.FlagSet) func(*invocation) error {
			r := &kernelRun{grid: cu.Dim3{X: 1, Y: 1, Z: 1}, block: cu.Dim3{X: 1, Y: 1, Z: 1}, maxShown: 16}
			fs.Func("grid", "launch a grid of `X[,Y[,Z]]` blocks (default 1)", set(&r.grid, parseDim))
			fs.Func("block", "launch blocks of `X[,Y[,Z]]` threads (default 1)", set(&r.block, parseDim))
			fs.Func("shared", "give each block `BYTES` of dynamic shared memory (default 0)",
				set(&r.shared, number(0, "it is a number of bytes, below 4 GiB")))
			fs.Func("show", "print at most `N` numbers of each memory (default 16)",
				set(&r.maxShown, number(10, "it says how many numbers to print, such as 16")))
			fs.Func("check", "look for mistakes: `LIST` of memory, races, barriers or all",
				set(&r.checks, cusim.ParseChecks))
			fs.DurationVar(&r.limit, "limit", 0, "end the kernel after `TIME`, with -driver soft (default 0: never)")
			fs.Func("arg", "the next `ARGUMENT` of the kernel; may be repeated", func(s string) error {
				a, err := parseRunArg(s)
				r.args = append(r.args, a)
				return err
			})
			return r.run
		},
	}
}

// kernelRun is a launch that the user has described.
type kernelRun struct {
	grid, block cu.Dim3
	shared      uint32
	maxShown    uint32
	checks      cusim.Checks
	limit       time.Duration
	args        []runArg
}

// runArg is an argument of the kernel.
type runArg struct {
	typ    string
	bits   uint64 // of a number
	memory bool   // it is the address of memory
	data   []byte // the content of the memory
	mem    *cu.DeviceMem
}

// number returns a function that parses a number with a base. help is the error for what is none.
func number(base int, help string) func(string) (uint32, error) {
	return func(s string) (uint32, error) {
		n, err := strconv.ParseUint(s, base, 32)
		if err != nil {
			return 0, errors.New(help)
		}
		return uint32(n), nil
	}
}

// parseDim parses a number of blocks or threads.
func parseDim(s string) (cu.Dim3, error) {
	n := [3]uint32{1, 1, 1}
	parts := strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == 'x' })
	if len(parts) == 0 || len(parts) > 3 {
		return cu.Dim3{}, errors.New("write one to three numbers, such as 32,8")
	}
	for i, p := range parts {
		v, err := strconv.ParseUint(p, 10, 32)
		if err != nil || v == 0 {
			return cu.Dim3{}, fmt.Errorf("%q is no positive number", p)
		}
		n[i] = uint32(v)
	}
	return cu.Dim3{X: n[0], Y: n[1], Z: n[2]}, nil
}

// typeSize returns the size of a type in bytes, or 0.
func typeSize(typ string) int {
	return map[string]int{"u8": 1, "u32": 4, "s32": 4, "f32": 4, "u64": 8, "s64": 8, "f64": 8}[typ]
}

// parseRunArg parses an argument.
func parseRunArg(s string) (a runArg, err error) {
	const mostMemory = 1 << 32
	head, values, given := strings.Cut(s, ":")
	typ, length, memory := strings.Cut(head, "[")
	a.typ, a.memory = typ, memory
	size := typeSize(typ)
	switch {
	case size == 0:
		return a, fmt.Errorf("there is no type %q: write u8, u32, s32, u64, s64, f32 or f64", typ)
	case !memory && given && size > 1:
		a.bits, err = parseBits(typ, values)
		return a, err
	case memory && length == "]" && given:
		for v := range strings.SplitSeq(values, ",") {
			bits, err := parseBits(typ, strings.TrimSpace(v))
			if err != nil {
				return a, err
			}
			a.data = append(a.data, binary.LittleEndian.AppendUint64(nil, bits)[:size]...)
		}
		return a, nil
	case memory && strings.HasSuffix(length, "]") && !given:
		n, err := strconv.ParseUint(strings.TrimSuffix(length, "]"), 0, 40)
		if err != nil || n == 0 || n > mostMemory/uint64(size) {
			return a, fmt.Errorf("%q is no length", length)
		}
		a.data = make([]byte, int(n)*size)
		return a, nil
	}
	return a, errors.New("write TYPE:VALUE for a number, but not of u8, TYPE[N] for zeros, or TYPE[]:V,V,… for " +
		"numbers in memory")
}

// parseBits parses a number of a type.
func parseBits(typ, s string) (uint64, error) {
	size := 8 * typeSize(typ)
	var bits uint64
	var err error
	switch typ[0] {
	case 'f':
		var v float64
		if v, err = strconv.ParseFloat(s, size); size == 32 {
			bits = uint64(math.Float32bits(float32(v)))
		} else {
			bits = math.Float64bits(v)
		}
	case 's':
		var v int64
		v, err = strconv.ParseInt(s, 0, size)
		bits = uint64(v)
	default:
		bits, err = strconv.ParseUint(s, 0, size)
	}
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%s is too large or too small for %s", s, typ)
	case err != nil:
		return 0, fmt.Errorf("%q is no number of the type %s", s, typ)
	}
	return bits, nil
}

// textOfBits returns a number of a type as text.
func textOfBits(typ string, b []byte) string {
	word := make([]byte, 8)
	copy(word, b[:typeSize(typ)])
	bits := binary.LittleEndian.Uint64(word)
	switch typ {
	case "s32":
		return strconv.FormatInt(int64(int32(bits)), 10)
	case "s64":
		return strconv.FormatInt(int64(bits), 10)
	case "f32":
		return strconv.FormatFloat(float64(math.Float32frombits(uint32(bits))), 'g', -1, 32)
	case "f64":
		return strconv.FormatFloat(math.Float64frombits(bits), 'g', -1, 64)
	}
	return strconv.FormatUint(bits, 10)
}

// kernelReport is the result of a run.
type kernelReport struct {
	Driver driverInfo `json:"driver"`
	Kernel string     `json:"kernel"`
	Grid   [3]uint32  `json:"grid"`
	Block  [3]uint32  `json:"block"`
	TimeNS int64      `json:"timeNS"`
	// Instructions is how many instructions the warps have executed, on the software driver.
	Instructions uint64       `json:"instructions"`
	Memory       []memoryText `json:"memory"`
	// Mistakes are what the checks have found.
	Mistakes []string `json:"mistakes"`
	// Error is why the kernel failed after the mistakes.
	Error *failure `json:"error,omitempty"`
}

// memoryText is the content of memory after the run.
type memoryText struct {
	Arg    int      `json:"arg"`
	Type   string   `json:"type"`
	Values []string `json:"values"`
	More   bool     `json:"-"` // Values are not all numbers of the memory
}

func (r *kernelReport) text(w io.Writer) {
	r.Driver.text(w)
	fmt.Fprintf(w, "kernel   %s, %d×%d×%d blocks of %d×%d×%d threads\n", r.Kernel, r.Grid[0], r.Grid[1], r.Grid[2],
		r.Block[0], r.Block[1], r.Block[2])
	if r.Error == nil {
		fmt.Fprintf(w, "time     %v\n", time.Duration(r.TimeNS))
	}
	if r.Instructions > 0 {
		fmt.Fprintf(w, "executed %d instructions of warps\n", r.Instructions)
	}
	for _, m := range r.Memory {
		more := ""
		if m.More {
			more = " …"
		}
		fmt.Fprintf(w, "arg %-4d %s: %s%s\n", m.Arg, m.Type, strings.Join(m.Values, " "), more)
	}
	for _, m := range r.Mistakes {
		fmt.Fprintf(w, "mistake  %s\n", m)
	}
}

// run runs the kernel.
func (r *kernelRun) run(c *invocation) (err error) {
	if len(c.args) != 2 {
		return usage("run takes a file and the name of a kernel; see cuprobe run -h")
	}
	if r.limit < 0 {
		return usage("-limit must not be negative: it is a time, such as 10s")
	}
	var opts []cusim.Option
	if r.checks != 0 {
		opts = append(opts, cusim.CheckKernels(r.checks))
	}
	if r.limit != 0 {
		opts = append(opts, cusim.KernelLimit(r.limit))
	}
	switch {
	case c.software():
		if err := c.simulate(opts...); err != nil {
			return err
		}
	case r.checks != 0:
		return usage("-check needs the software driver: add -driver soft")
	case r.limit != 0:
		return usage("-limit needs the software driver: add -driver soft")
	default:
		c.alternative = "To run the kernel without a GPU, add -driver soft"
	}
	drv, dev, err := c.openDevice()
	if err != nil {
		return err
	}
	report := &kernelReport{Mistakes: []string{}, Kernel: c.args[1], Grid: [3]uint32{r.grid.X, r.grid.Y, r.grid.Z},
		Block: [3]uint32{r.block.X, r.block.Y, r.block.Z}, Memory: []memoryText{}}
	if report.Driver, err = c.driverInfo(drv); err != nil {
		return err
	}
	rig := &rig{}
	if rig.gpu, err = keep(rig, dev.PrimaryContext); err != nil {
		return err
	}
	defer rig.closeAfter(&err)
	err = r.launch(c, drv, rig, report)
	if c.sim != nil {
		report.Instructions = c.sim.Instructions(report.Kernel)
	}
	if r.checks != 0 {
		for _, m := range c.sim.Misuses() {
			report.Mistakes = append(report.Mistakes, m.What)
		}
	}
	if err != nil {
		return c.showFailed(report, err)
	}
	for i, a := range r.args {
		if !a.memory {
			continue
		}
		if err := a.mem.CopyTo(a.data); err != nil {
			return err
		}
		size := typeSize(a.typ)
		m := memoryText{Arg: i, Type: fmt.Sprintf("%s[%d]", a.typ, len(a.data)/size), Values: []string{}}
		for at := 0; at < len(a.data) && uint32(len(m.Values)) < r.maxShown; at += size {
			m.Values = append(m.Values, textOfBits(a.typ, a.data[at:]))
		}
		m.More = len(m.Values) < len(a.data)/size
		report.Memory = append(report.Memory, m)
	}
	if err := c.show(report); err != nil || len(report.Mistakes) == 0 {
		return err
	}
	return reported(exitFailure)
}

// showFailed shows the mistakes of a kernel that has failed, and returns err, the reason, unless the
// report contains it. The mistakes may be its cause.
func (c *invocation) showFailed(report *kernelReport, err error) error {
	if len(report.Mistakes) == 0 {
		return err
	}
	report.Error = c.failure(err)
	if e := c.show(report); e != nil {
		return e
	}
	if c.json {
		return reported(status(err))
	}
	return err
}

// kernelsOf returns the names of the kernels of a file, as far as the driver can list them.
func kernelsOf(drv *cu.Driver, file string) []string {
	lib, err := library.LoadFile(drv, file)
	if err != nil {
		return nil
	}
	defer lib.Close()
	kernels, _ := lib.Kernels()
	var names []string
	for _, k := range kernels {
		names = append(names, k.Name())
	}
	slices.Sort(names)
	return names
}

// launch launches the kernel, and waits for it.
func (r *kernelRun) launch(c *invocation, drv *cu.Driver, rig *rig, report *kernelReport) error {
	mod, err := keep(rig, func() (*cu.Module, error) { return rig.gpu.LoadModuleFile(c.args[0]) })
	if err != nil {
		return err
	}
	kernel, err := mod.Function(report.Kernel)
	if errors.Is(err, cu.ResultNotFound) {
		if names := kernelsOf(drv, c.args[0]); len(names) > 0 {
			return fmt.Errorf("%w; kernels of %s: %s", err, c.args[0], strings.Join(names, ", "))
		}
	}
	if err != nil {
		return err
	}
	args := make([]cu.Arg, len(r.args))
	for i := range r.args {
		a := &r.args[i]
		switch {
		case a.memory:
			alloc := func() (*cu.DeviceMem, error) { return rig.gpu.Alloc(uint64(len(a.data))) }
			if a.mem, err = keep(rig, alloc); err != nil {
				return err
			}
			if err := a.mem.CopyFrom(a.data); err != nil {
				return err
			}
			args[i] = cu.Ptr(a.mem)
		case a.typ == "f32":
			args[i] = cu.F32(math.Float32frombits(uint32(a.bits)))
		case a.typ == "f64":
			args[i] = cu.F64(math.Float64frombits(a.bits))
		case typeSize(a.typ) == 4:
			args[i] = cu.U32(uint32(a.bits))
		default:
			args[i] = cu.U64(a.bits)
		}
	}
	s, err := rig.stream()
	if err != nil {
		return err
	}
	begin, err1 := rig.event()
	end, err2 := rig.event()
	if err := errors.Join(err1, err2, begin.Record(s)); err != nil {
		return err
	}
	cfg := cu.LaunchConfig{Grid: r.grid, Block: r.block, SharedMem: r.shared}
	if err := kernel.Launch(s, cfg, args...); err != nil {
		return err
	}
	if err := end.Record(s); err != nil {
		return err
	}
	if err := s.Synchronize(); err != nil {
		return err
	}
	took, err := cu.Elapsed(c.ctx, begin, end)
	report.TimeNS = int64(took)
	return err
}
