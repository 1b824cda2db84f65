package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// moved lists the functions that glibc has moved into libc.so.6 since version 2.31, by the libraries that had them. A
// linker gives them the version of the move, such as GLIBC_2.34, so that the output would not load on an older glibc.
// Newer versions of glibc still have the old names and these libraries, which are empty there.
var moved = map[string][]string{
	"libpthread.so.0": {"pthread_attr_getstack", "pthread_attr_getstacksize", "pthread_attr_setstacksize",
		"pthread_create", "pthread_detach", "pthread_getattr_np", "pthread_getspecific", "pthread_join",
		"pthread_key_create", "pthread_sigmask", "pthread_setspecific", "sem_destroy", "sem_init", "sem_post", "sem_wait"},
	"libdl.so.2": {"dladdr", "dlclose", "dlerror", "dlopen", "dlsym"},
}

// first is the version of the functions' symbols: the first one of glibc for the architecture.
var first = map[string]string{"amd64": "GLIBC_2.2.5", "arm64": "GLIBC_2.17"}

// linkOld makes libraries in the folder that define these functions with their old versions, and returns the arguments
// with which a linker prefers them to libc.so.6.
func linkOld(cc []string, folder, arch string) ([]string, error) {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, err
	}
	args := []string{"-L" + folder, "-Wl,--as-needed"}
	for _, library := range slices.Sorted(maps.Keys(moved)) {
		var source strings.Builder
		for _, name := range moved[library] {
			fmt.Fprintf(&source, "void %s(void) {}\n", name)
		}
		file := filepath.Join(folder, library)
		script := first[arch] + " " + string(exportScript(moved[library]...))
		if err := errors.Join(os.WriteFile(file+".c", []byte(source.String()), 0o666),
			os.WriteFile(file+".map", []byte(script), 0o666)); err != nil {
			return nil, err
		}
		if err := command(nil, cc[0], append(slices.Clone(cc[1:]), "-w", "-shared", "-fPIC", "-nostdlib",
			"-fno-builtin",
			"-Wl,-soname,"+library, "-Wl,--version-script="+file+".map", "-o", file, file+".c")...); err != nil {
			return nil, err
		}
		args = append(args, "-l:"+library)
	}
	return args, nil
}
