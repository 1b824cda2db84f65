package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// cached returns what compile returns, and keeps it in a file of a folder. It reports whether the file was
// there. The file's name is a hash of all that the PTX depends on. Several programs may use the folder at the
// same time: they see a whole file or none.
func (c *compiler) cached(folder, source, name string, options ...string) (ptx []byte, found bool, err error) {
	var major, minor int32
	if err := c.version(&major, &minor); err != nil {
		return nil, false, c.explain(err)
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%d.%d %q %q %q", major, minor, name, options, source))
	file := filepath.Join(folder, fmt.Sprintf("%x.ptx", key))
	if ptx, err = os.ReadFile(file); err == nil {
		return ptx, true, nil
	}
	if ptx, err = c.compile(source, name, options...); err != nil {
		return nil, false, err
	}
	temporary, err := os.CreateTemp(folder, "*.tmp")
	if err != nil {
		return nil, false, err
	}
	_, err = temporary.Write(ptx)
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), file)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(temporary.Name()))
	}
	return ptx, false, err
}
