package code

import (
	"strings"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ptx/compile"
	"github.com/purecu/purecu/internal/ptx/syntax"
	"github.com/purecu/purecu/internal/sim/mem"
)

// Linker links texts.
type Linker struct {
	Verbose bool                      // Complete also describes the kernels
	Log     func(info, errors string) // gets the logs

	texts        syntax.Linker
	info, errors []string
	broken       bool   // by texts that do not fit together
	image        []byte // of Complete
}

// log passes the logs on.
func (l *Linker) log() { l.Log(strings.Join(l.info, "\n"), strings.Join(l.errors, "\n")) }

// Add adds an input. One that is not understood is left out.
func (l *Linker) Add(c *Compiler, typ int32, data []byte, name string) driver.Result {
	switch {
	case l.image != nil, typ < 0, typ >= driver.CU_JIT_NUM_INPUT_TYPES, len(data) == 0:
		return driver.ResultInvalidValue
	case l.broken:
		return driver.ResultInvalidSource
	}
	defer l.log()
	if typ != driver.CU_JIT_INPUT_PTX && typ != driver.CU_JIT_INPUT_FATBINARY {
		l.errors = append(l.errors, "cusim: fatal: '"+name+"' is code for a GPU, which cannot be linked without one: "+
			"link PTX, or a fatbin with PTX")
		return driver.ResultNoBinaryForGPU
	}
	text, problem := c.textOf(data)
	if problem == nil { // what another text defines is not known yet: Complete looks at the functions
		_, problem = c.parse(text)
	}
	if problem != nil {
		l.errors = append(l.errors, problem.Text)
		return problem.Result
	}
	messages, err := l.texts.Add(name, string(text))
	for _, m := range messages {
		l.errors = append(l.errors, "error   : "+m)
	}
	if l.broken = err != nil || len(messages) > 0; l.broken {
		return driver.ResultInvalidSource
	}
	return ok
}

// Complete links the inputs. The image is a PTX text that ends with a NUL, and does not move.
func (l *Linker) Complete(c *Compiler) (image []byte, r driver.Result) {
	switch {
	case l.image != nil:
		return nil, driver.ResultInvalidHandle
	case l.broken:
		return nil, driver.ResultInvalidSource
	}
	defer l.log()
	text, messages := l.texts.Link(compile.System)
	for _, m := range messages {
		l.errors = append(l.errors, "error   : "+m)
	}
	if l.broken = len(messages) > 0; l.broken {
		return nil, driver.ResultInvalidSource
	}
	if problem := l.check(c, []byte(text)); problem != nil {
		l.broken, l.errors = true, append(l.errors, problem.Text)
		return nil, problem.Result
	}
	l.image = mem.NewBytes(uint64(len(text)) + 1)
	copy(l.image, text)
	return l.image, ok
}

// check translates the kernels of the linked text. Kernels call functions of other inputs, so that they
// cannot be translated before.
func (l *Linker) check(c *Compiler, text []byte) *Problem {
	t, problem := c.translateAll(text)
	if problem != nil {
		if problem.large {
			problem.Result = driver.ResultInvalidSource
		}
		return problem
	}
	for i := range t.Kernels {
		k := &t.Kernels[i]
		attributes, err := k.translatedAttributes()
		if n := attributes[driver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES]; n > sharedUnlessMore { // an H200 loads such a text
			problem := fatal(k.at, "kernel %s: too much shared data (%#x bytes, %#x max)", k.Name, n, sharedUnlessMore)
			problem.Result = driver.ResultInvalidSource
			return problem
		}
		if err != nil {
			if problem := c.Refuse(k, err); problem != nil {
				return problem
			}
		}
		if l.Verbose {
			l.info = append(l.info, c.Describe(k, attributes, err))
		}
	}
	return nil
}
