package code

import (
	"errors"
	"fmt"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/profile"
	"github.com/purecu/purecu/internal/ptx/compile"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// Compiler compiles images. Its functions do not change.
type Compiler struct {
	GPU          *profile.GPU             // for which it compiles
	Version      int32                    // of the driver
	ReplacedByGo func(kernel string) bool // whether a kernel has an implementation in Go
	Lenient      bool                     // kernels for which PTX has what the driver lacks are accepted
	Watched      bool                     // kernels have notes
	Coverage     *Coverage                // gets the texts, unless it is nil
	Room         func(n uint64) bool      // whether there is room for a number of bytes; nil if memory has no limit
}

// MostEach is about how much memory of Go's heap one byte of PTX needs while it is compiled.
const MostEach = 48

// Compile compiles an image, which may take a while.
func (c *Compiler) Compile(image []byte) (*Text, *Problem) {
	text, problem := c.textOf(image)
	if problem != nil {
		return nil, problem
	}
	if c.Room != nil && !c.Room(uint64(len(text))*MostEach) {
		return nil, &Problem{Result: driver.ResultOutOfMemory, Text: fmt.Sprintf("the process may have too little memory for %d bytes "+
			"of PTX: raise its limits (ulimit -v, ulimit -d)", len(text))}
	}
	t, problem := c.translateAll(text)
	if problem == nil && c.Coverage != nil {
		c.Coverage.loaded(t)
	}
	return t, problem
}

// translateAll parses a text, and translates its kernels, except those with an implementation. It returns an error if
// any kernel or function is wrong, as a GPU's driver checks them all.
func (c *Compiler) translateAll(text []byte) (*Text, *Problem) {
	t, problem := c.parse(text)
	if problem != nil {
		return nil, problem
	}
	for i := range t.Kernels {
		k := &t.Kernels[i]
		if c.Replaces(k) {
			continue
		}
		if _, err := k.translated(); err != nil {
			if problem := c.Refuse(k, err); problem != nil && problem.Result == driver.ResultInvalidPTX {
				return nil, problem
			}
		}
	}
	// The rest are mistakes in kernels and functions that were not translated.
	if err := t.Check(c.ReplacedByGo); err != nil {
		return nil, fatal(err.Pos, "%s", err.What)
	}
	return t, nil
}

// Replaces reports whether a kernel need not be executed: it has an implementation, or does nothing.
func (c *Compiler) Replaces(k *Kernel) bool { return k.Idle || c.ReplacedByGo(k.Name) }

// Refuse returns the error for a kernel that cannot be executed for a reason, or nil if it has an
// implementation, or if PTX has what the driver lacks, and an option says what happens at its launch.
func (c *Compiler) Refuse(k *Kernel, reason error) *Problem {
	if c.Replaces(k) {
		return nil
	}
	at, code, large := k.at, driver.ResultInvalidPTX, false
	what := reason.Error()
	if err, is := errors.AsType[*compile.Error](reason); is {
		if what, large = err.What, err.Large; err.Line > 0 {
			at = err.Pos
		}
		if err.Unknown && c.Lenient {
			return nil
		}
		if err.Unknown {
			code, what = driver.ResultNotSupported, "the software driver cannot execute "+what
		}
	}
	problem := fatal(at, "kernel %s: %s", k.Name, what)
	problem.Result, problem.large = code, large
	return problem
}

// Attributes returns the attributes of a kernel, and why it cannot be executed if it has to be.
func (c *Compiler) Attributes(k *Kernel) (map[int32]int32, error) {
	if c.Replaces(k) {
		return k.attributes(), nil
	}
	return k.translatedAttributes()
}

// translatedAttributes returns the attributes as they follow from the translation, or why there is none.
func (k *Kernel) translatedAttributes() (map[int32]int32, error) {
	a := k.attributes()
	kernel, err := k.translated()
	if err != nil {
		return a, err
	}
	shared := int32(kernel.Static)
	a[driver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES] = shared
	a[driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = k.dynamicBeside(shared)
	return a, nil
}

// dynamicBeside returns how much dynamic shared memory a kernel can have beside its static shared memory until the
// program sets the attribute. As on an H200, that is more if the static memory exceeds what all kernels can have.
func (k *Kernel) dynamicBeside(static int32) int32 {
	if static > sharedUnlessMore {
		return max(k.text.gpu.SharedOfBlock-static, 0)
	}
	return sharedUnlessMore - static
}

// Describe describes the resources of a kernel, as the compiler does if it is verbose. err is why it
// cannot be executed.
func (c *Compiler) Describe(k *Kernel, attributes map[int32]int32, err error) string {
	line := fmt.Sprintf("cusim: kernel %s: %d registers, %d bytes of shared memory", k.Name, registersEach,
		attributes[driver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES])
	switch {
	case c.ReplacedByGo(k.Name):
		line += "; a function in Go takes the place of its PTX: see WithKernel"
	case k.Idle:
		line += "; it does nothing"
	case err != nil:
		line += fmt.Sprintf("; its launches are refused, as its PTX cannot be executed (%v), and it has no "+
			"implementation in Go: see WithKernel", err)
	}
	return line
}

// translated returns the translation of a kernel, or why it cannot be executed. The caller holds the lock that guards
// the text, or nobody else uses the text.
func (k *Kernel) translated() (*vm.Kernel, error) {
	if k.compiled == nil && k.err == nil {
		k.compiled, k.err = k.text.Kernel(k.Name)
	}
	return k.compiled, k.err
}

// link translates a kernel for the variables of a module.
func (k *Kernel) link(v Variables) *Program {
	p := new(Program)
	if p.Kernel, p.Err = k.translated(); p.Err != nil {
		return p
	}
	for _, c := range p.Kernel.Constants {
		if c.Symbol != "" {
			addr, there := v.Address(c.Symbol)
			if !there {
				p.Err = fmt.Errorf("variable %s is missing", c.Symbol)
				break
			}
			c.Value += addr
		}
		p.Constants = append(p.Constants, c)
	}
	return p
}

// attributes returns the attributes of a kernel as its text has them.
func (k *Kernel) attributes() map[int32]int32 {
	return map[int32]int32{
		driver.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:            k.MaxThreads,
		driver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:                k.shared,
		driver.CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:                 k.text.constant,
		driver.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:                 k.local,
		driver.CU_FUNC_ATTRIBUTE_NUM_REGS:                         registersEach,
		driver.CU_FUNC_ATTRIBUTE_PTX_VERSION:                      k.text.target,
		driver.CU_FUNC_ATTRIBUTE_BINARY_VERSION:                   k.text.gpu.Number,
		driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:    k.dynamicBeside(k.shared),
		driver.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: -1,
		driver.CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:         k.explicit,
		driver.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:           k.cluster[0],
		driver.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:          k.cluster[1],
		driver.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:           k.cluster[2],
	}
}
