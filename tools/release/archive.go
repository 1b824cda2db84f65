package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// archive writes the files and links of a folder to an archive, in which they are in a folder of this name. Neither
// times nor owners are in it.
func archive(dir, name, file string) (err error) {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	packed := gzip.NewWriter(out)
	t := tar.NewWriter(packed)
	defer func() { err = errors.Join(err, t.Close(), packed.Close(), out.Close()) }()
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := entry(t, filepath.Join(dir, e.Name()), path.Join(name, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// entry adds a file or a link to an archive.
func entry(t *tar.Writer, from, name string) error {
	if to, err := os.Readlink(from); err == nil {
		return t.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to, Mode: 0o777})
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	mode := int64(0o755)
	if path.Base(name) == licenseFile {
		mode = 0o644
	}
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(b)),
		Mode: mode}); err != nil {
		return err
	}
	_, err = t.Write(b)
	return err
}

// sum returns the SHA-256 checksum of a file, in hexadecimal digits.
func sum(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return fmt.Sprintf("%x", h.Sum(nil)), err
}

// writeSums writes the checksums of the artifacts and of what describes them, as sha256sum does.
func writeSums(dir string, chosen []artifact) error {
	names := []string{bomFile, licenseFile}
	for _, a := range chosen {
		names = append(names, a.name)
	}
	slices.Sort(names)
	var b strings.Builder
	for _, name := range names {
		s, err := sum(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s  %s\n", s, name)
	}
	return os.WriteFile(filepath.Join(dir, sumsFile), []byte(b.String()), 0o666)
}
