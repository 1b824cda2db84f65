package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// bundle is the content of the file that -bundle writes, before home folders and user names are
// replaced in every text.
type bundle struct {
	// Contents describes the content of the file.
	Contents string       `json:"contents"`
	Cuprobe  *buildReport `json:"cuprobe"`
	// Environment contains those of bundledVariables that are set.
	Environment map[string]string `json:"environment"`
	Doctor      *doctorReport     `json:"doctor"`
	// Text is the output of cuprobe doctor.
	Text []string `json:"text"`
}

// bundledVariables returns the names of the environment variables that a bundle contains. They
// configure CUDA and its containers. A bundle contains no other variables.
func bundledVariables() []string {
	return []string{
		"CUDA_CACHE_DISABLE", "CUDA_CACHE_MAXSIZE", "CUDA_CACHE_PATH", "CUDA_DEVICE_MAX_CONNECTIONS",
		"CUDA_DEVICE_ORDER", "CUDA_DISABLE_PTX_JIT", "CUDA_DRIVER_LIBRARY", "CUDA_FORCE_PTX_JIT", "CUDA_LAUNCH_BLOCKING",
		"CUDA_MODULE_LOADING", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PIPE_DIRECTORY", "CUDA_VISIBLE_DEVICES",
		"LD_LIBRARY_PATH", "LD_PRELOAD", "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_REQUIRE_CUDA", "NVIDIA_VISIBLE_DEVICES",
		"SLURM_JOB_GPUS", "SLURM_JOB_ID", "SLURM_STEP_GPUS",
	}
}

// writeBundle writes the file, which must not exist.
func (c *invocation) writeBundle(path string, r *doctorReport) error {
	text, err := c.newBundle(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("the bundle cannot be written: %w: name another file with -bundle", err)
	}
	_, err = f.Write(text)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("the bundle could not be written: %w", err)
	}
	return nil
}

// bundled returns the message about a bundle that was written.
func (c *invocation) bundled(path string) string {
	message := fmt.Sprintf("%-12s %s holds %s. Read it before you send it.", "bundle", path, bundleContents())
	return strings.Join(wrap(message, strings.Repeat(" ", 13), c.columns()), "\n") + "\n"
}

// bundleContents describes the content of a bundle.
func bundleContents() string {
	return "the doctor's report (platform, container, libraries that were tried, kernel module, device files, PCI " +
		"devices, driver, devices with UUIDs, checks, findings), the functions that the driver lacks, cuprobe's and " +
		"Go's versions, and these environment variables if they are set: " + strings.Join(bundledVariables(), ", ") +
		"; home folders and user names in paths are replaced"
}

// newBundle returns the content of the file.
func (c *invocation) newBundle(r *doctorReport) ([]byte, error) {
	var text bytes.Buffer
	r.text(&text)
	b := bundle{
		Contents: bundleContents(), Cuprobe: programVersion(), Environment: map[string]string{}, Doctor: r,
		Text: strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n"),
	}
	for _, name := range bundledVariables() {
		if v, set := c.env(name); set {
			b.Environment[name] = v
		}
	}
	tree, err := anonymize(b, c.env)
	if err != nil {
		return nil, err
	}
	return encode(tree)
}

// anonymize returns a value as JSON would have it, and replaces home folders and user names in
// every text.
func anonymize(v any, env func(string) (string, bool)) (any, error) {
	out, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var tree any
	dec := json.NewDecoder(bytes.NewReader(out))
	dec.UseNumber()
	if err := dec.Decode(&tree); err != nil {
		return nil, err
	}
	return mapTexts(tree, newAnonymizer(env)), nil
}

// mapTexts replaces every text in a JSON value.
func mapTexts(v any, f func(string) string) any {
	switch v := v.(type) {
	case string:
		return f(v)
	case []any:
		for i := range v {
			v[i] = mapTexts(v[i], f)
		}
	case map[string]any:
		for key := range v {
			v[key] = mapTexts(v[key], f)
		}
	}
	return v
}

// newAnonymizer returns a function that replaces home folders, and the user's name in paths.
func newAnonymizer(env func(string) (string, bool)) func(string) string {
	var homes, users []string
	for _, name := range []string{"HOME", "USERPROFILE"} {
		// Not cleaned: on Windows some programs write HOME with slashes.
		home, _ := env(name)
		if home = strings.TrimRight(home, `/\`); len(home) > 1 && !strings.HasSuffix(home, ":") {
			homes = append(homes, home)
		}
	}
	for _, name := range []string{"USER", "LOGNAME", "SUDO_USER", "USERNAME"} {
		if user, _ := env(name); user != "" && user != "root" {
			users = append(users, user)
		}
	}
	return func(s string) string {
		for _, home := range homes {
			s = replaceHome(s, home)
		}
		return replaceUsers(s, users)
	}
}

// separators are the bytes that end an element of a path, or separate paths.
const separators = `/\:;,=()"' ` + "\n\t"

// replaceHome replaces a folder by a tilde, unless it is part of a longer name.
func replaceHome(s, home string) string {
	var b strings.Builder
	for {
		i := strings.Index(s, home)
		if i < 0 {
			return b.String() + s
		}
		end := i + len(home)
		b.WriteString(s[:i])
		if end == len(s) || strings.IndexByte(separators, s[end]) >= 0 {
			b.WriteByte('~')
		} else {
			b.WriteString(home)
		}
		s = s[end:]
	}
}

// replaceUsers replaces the elements of paths that are the name of a user or of a home folder.
func replaceUsers(s string, users []string) string {
	var b strings.Builder
	before, above := byte(' '), "" // the byte and the element before this one
	for {
		n := strings.IndexAny(s, separators)
		element := s
		if n >= 0 {
			element = s[:n]
		}
		inPath := before == '/' || before == '\\'
		switch {
		case element == "" || !inPath:
			b.WriteString(element)
		case above == "home" || strings.EqualFold(above, "Users") || slices.Contains(users, element):
			b.WriteString("USER")
		default:
			b.WriteString(element)
		}
		if n < 0 {
			return b.String()
		}
		b.WriteByte(s[n])
		before, above, s = s[n], element, s[n+1:]
	}
}
