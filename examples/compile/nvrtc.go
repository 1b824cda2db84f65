package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/purecu/purecu/loader"
)

// compiler has the functions of NVRTC that this program calls.
type compiler struct {
	version        func(major, minor *int32) error
	create         func(program *uintptr, source, name string, headers int32, texts, names []string) error
	destroy        func(program *uintptr) error
	compileProgram func(program uintptr, count int32, options []string) error
	ptxSize        func(program uintptr, size *uintptr) error
	ptx            func(program uintptr, text []byte) error
	logSize        func(program uintptr, size *uintptr) error
	log            func(program uintptr, text []byte) error
	errorString    func(status int32) (string, error)
}

// open loads NVRTC. The environment variable PURECU_NVRTC_LIBRARY may name the library.
func open() (*compiler, error) {
	lib, err := loader.OpenLibrary(loader.NVRTC, "")
	if err != nil {
		return nil, err
	}
	c := new(compiler)
	for name, function := range map[string]any{
		"nvrtcVersion": &c.version, "nvrtcCreateProgram": &c.create, "nvrtcDestroyProgram": &c.destroy,
		"nvrtcCompileProgram": &c.compileProgram, "nvrtcGetPTXSize": &c.ptxSize, "nvrtcGetPTX": &c.ptx,
		"nvrtcGetProgramLogSize": &c.logSize, "nvrtcGetProgramLog": &c.log, "nvrtcGetErrorString": &c.errorString,
	} {
		err = errors.Join(err, lib.Bind(function, name))
	}
	return c, err
}

// compile compiles CUDA C++ to PTX. The error has what the compiler says.
func (c *compiler) compile(source, name string, options ...string) ([]byte, error) {
	var program uintptr
	if err := c.create(&program, source, name, 0, nil, nil); err != nil {
		return nil, c.explain(err)
	}
	defer c.destroy(&program)
	if err := c.compileProgram(program, int32(len(options)), options); err != nil {
		said, _ := content(program, c.logSize, c.log)
		return nil, fmt.Errorf("%w\n%s", c.explain(err), said)
	}
	ptx, err := content(program, c.ptxSize, c.ptx)
	return []byte(ptx), c.explain(err)
}

// content returns a text of a program.
func content(program uintptr, size func(uintptr, *uintptr) error, text func(uintptr, []byte) error) (string, error) {
	var n uintptr
	if err := size(program, &n); err != nil {
		return "", err
	}
	b := make([]byte, n) // with a NUL at its end
	err := text(program, b)
	return strings.TrimRight(string(b), "\x00\n"), err
}

// explain adds NVRTC's text for a status.
func (c *compiler) explain(err error) error {
	if s, ok := errors.AsType[*loader.StatusError](err); ok {
		if text, terr := c.errorString(s.Status); terr == nil {
			return fmt.Errorf("%w: %s", err, text)
		}
	}
	return err
}
