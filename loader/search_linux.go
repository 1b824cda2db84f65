package loader

import (
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// looksFirst is set if a library's file can be examined before it is loaded.
const looksFirst = true

// triplet returns Debian's name of an architecture in library folders.
func triplet(arch string) string {
	switch arch {
	case "amd64":
		return "x86_64-linux-gnu"
	case "arm64":
		return "aarch64-linux-gnu"
	case "ppc64le":
		return "powerpc64le-linux-gnu"
	case "loong64":
		return "loongarch64-linux-gnu"
	}
	return arch + "-linux-gnu"
}

// places returns the folders to search, in order, if the system's loader finds no usable library.
// Forward compatibility comes last, because it can replace the driver's own library on some GPUs
// only.
func places(arch string) []place {
	debian := "/usr/lib/" + triplet(arch)
	list := []place{
		{debian, "Debian and Ubuntu"},
		{"/usr/lib64", "Red Hat, Fedora and SUSE"},
		{"/usr/lib", "Arch and others"},
		{"/usr/lib/wsl/lib", "WSL"},
		{"/usr/local/nvidia/lib64", "container runtimes, as on GKE"},
		{"/usr/local/nvidia/lib", "container runtimes"},
		{"/run/opengl-driver/lib", "NixOS"},
		{snapFolder, "snaps"},
		{operatorRoot + debian, "the GPU operator's container of Debian or Ubuntu"},
		{operatorRoot + "/usr/lib64", "the GPU operator's container of Red Hat or SUSE"},
	}
	jetson := arch == "arm64"
	if jetson {
		list = append(list,
			place{debian + "/tegra", "Jetson, before JetPack 6"},
			place{debian + "/nvidia", "Jetson, since JetPack 6"})
	}
	list = append(list, place{"/usr/local/cuda/compat", "the CUDA toolkit's forward compatibility"})
	if jetson {
		list = append(list, place{"/usr/local/cuda/compat_orin",
			"the CUDA toolkit's forward compatibility for Jetson Orin"})
	}
	return list
}

const (
	// snapFolder is where snapd shows the machine's driver to programs in snaps.
	snapFolder = "/var/lib/snapd/lib/gl"
	// operatorRoot is the root of the container in which NVIDIA's GPU operator for Kubernetes has installed the
	// driver.
	operatorRoot = "/run/nvidia/driver"
)

// snapFolders returns the folders in which snapd says that a snap finds the machine's driver. Those that places
// has are left out.
func (s *system) snapFolders() (list []place) {
	if s.elevated() {
		return nil
	}
	for _, folder := range splitSearchPath(s.getenv("SNAP_LIBRARY_PATH")) {
		if path.IsAbs(folder) && path.Clean(folder) != snapFolder {
			list = append(list, place{path.Clean(folder), "environment variable SNAP_LIBRARY_PATH"})
		}
	}
	return list
}

// systemChoices returns the candidates if no library was named.
func (s *system) systemChoices(p *product) []choice {
	const source = "the system's library search path"
	var list, further []choice
	if p.folders != nil && !p.toolkit {
		list = append(list, p.folders(s, p.names)...)
	}
	for _, name := range p.names {
		c := choice{Candidate: Candidate{Name: name, Source: source}, bare: true, hits: s.find(name)}
		list = append(list, c)
		// The system's loader takes one file of this name. If that file cannot be used, perhaps
		// another one can.
		taken := forecast(c.hits)
		for i, h := range c.hits {
			if i != taken && h.unsafe == nil && !h.guess {
				further = append(further, choice{Candidate: Candidate{Name: s.name(h.file), Source: source}})
			}
		}
	}
	list = append(list, further...)
	if p.toolkit {
		return append(list, p.folders(s, p.names)...)
	}
	for _, at := range append(s.snapFolders(), places(runtime.GOARCH)...) {
		if p.kind == "" || !strings.HasPrefix(at.folder, "/usr/local/cuda/") { // it has only libcuda
			list = append(list, choice{Candidate: Candidate{Name: at.folder + "/" + p.names[0], Source: at.kind}})
		}
	}
	return list
}

// besideDriver returns candidates in the folders of the CUDA driver that this process has loaded, and of the one
// that the environment names. A library of the driver must have the driver's version.
func besideDriver(s *system, names []string) []choice {
	var list []place
	for line := range strings.Lines(s.read("/proc/self/maps")) {
		if i := strings.IndexByte(line, '/'); i >= 0 && strings.HasPrefix(path.Base(line), "libcuda.so") {
			list = append(list, place{path.Dir(line[i:]), "beside the CUDA driver of this process"})
			break
		}
	}
	if v := s.getenv(Environment); filepath.IsAbs(v) && !s.elevated() {
		list = append(list, place{path.Dir(v), "beside the CUDA driver that " + Environment + " names"})
	}
	return s.inFolders(list, names)
}

// toolkitFolders returns candidates in the folders with libraries of the CUDA toolkit, as the toolkit, its
// packages for Python, and distributions install them.
func toolkitFolders(s *system, names []string) []choice {
	target := map[string]string{"amd64": "x86_64", "arm64": "sbsa"}[runtime.GOARCH]
	var list []place
	for _, t := range s.toolkits() {
		list = append(list, place{t.folder + "/lib64", t.kind})
		if target != "" {
			list = append(list, place{t.folder + "/targets/" + target + "-linux/lib", t.kind})
		}
	}
	if v := s.folderIn("CONDA_PREFIX"); v != "" {
		list = append(list, place{v + "/lib", "the Conda environment"})
	}
	for _, prefix := range []string{s.folderIn("VIRTUAL_ENV"), s.folderIn("CONDA_PREFIX"), "/usr/local", "/usr"} {
		if prefix != "" {
			list = append(list, s.pythonFolders(prefix+"/lib")...)
		}
	}
	list = append(list, place{"/usr/lib/" + triplet(runtime.GOARCH), "Debian and Ubuntu"},
		place{"/usr/lib64", "Red Hat, Fedora and SUSE"})
	return s.inFolders(list, names)
}

// pythonFolders returns the folders with NVRTC of NVIDIA's packages for each Python in a folder.
func (s *system) pythonFolders(lib string) (list []place) {
	entries, _ := os.ReadDir(s.file(lib)) // not a pattern: the folder's name may contain its characters
	for _, packages := range []string{"site-packages", "dist-packages"} {
		for _, sub := range []string{"cuda_nvrtc", "cu13"} {
			for _, e := range entries {
				folder := lib + "/" + e.Name() + "/" + packages + "/nvidia/" + sub + "/lib"
				if _, err := os.Stat(s.file(folder)); err == nil && strings.HasPrefix(e.Name(), "python3") {
					list = append(list, place{folder, "Python's packages"})
				}
			}
		}
	}
	return list
}

// find returns the files that glibc's loader finds when it searches for name, in the loader's
// order: in the folders of LD_LIBRARY_PATH, in /etc/ld.so.cache, and, if there are none, in the
// folders that are always searched.
//
// The result is a forecast. glibc read LD_LIBRARY_PATH when the program started, and it searches
// subfolders for newer processors first. Other C libraries search differently. A library of this
// name that is already loaded is not searched for. So Open loads the name, not the file, unless
// LD_LIBRARY_PATH leads to the working directory (see searchesHere). The forecast serves to avoid
// files that must not be loaded, and to explain errors.
func (s *system) find(name string) []hit {
	var files []string
	if v := s.getenv("LD_LIBRARY_PATH"); v != "" && !s.elevated() {
		for _, folder := range splitSearchPath(v) {
			if strings.IndexByte(folder, '$') < 0 { // variables are not expanded
				files = append(files, filepath.Join(folder, name))
			}
		}
	}
	hits := s.hits(append(files, cachedLibraries(s.read("/etc/ld.so.cache"), name)...))
	if len(hits) == 0 {
		files = nil
		for _, folder := range defaultFolders() {
			files = append(files, folder+"/"+name)
		}
		hits = s.hits(files)
		for i := range hits {
			hits[i].guess = true
		}
	}
	return hits
}

// searchesHere reports whether the system's loader may search for a bare name below the working
// directory, because LD_LIBRARY_PATH has an element that is not absolute to glibc or to another C
// library. The loader searches more subfolders there than the forecast knows, such as
// glibc-hwcaps/x86-64-v3.
func (s *system) searchesHere() bool {
	v := s.getenv("LD_LIBRARY_PATH")
	return v != "" && !s.elevated() && slices.ContainsFunc(splitSearchPath(v),
		func(e string) bool { return !isAbsoluteElement(e) })
}

// isAbsoluteElement reports whether an element of LD_LIBRARY_PATH is an absolute path after glibc
// has replaced the variables in it: $ORIGIN is the program's folder, $LIB and $PLATFORM are names.
// For musl a line break ends an element, too.
func isAbsoluteElement(e string) bool {
	if strings.Contains(e, "\n") {
		return false
	}
	for _, origin := range []string{"$ORIGIN", "${ORIGIN}"} {
		if rest, ok := strings.CutPrefix(e, origin); ok && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	return filepath.IsAbs(e)
}

// maxFile is how much read reads of a file of the system. The largest such file is
// /etc/ld.so.cache, which has less than a hundred bytes for each library.
const maxFile = 16 << 20

// read returns the content of a small file. It returns "" if there is no such file, if the file is
// not regular (opening a pipe could block forever), or if it is too large.
func (s *system) read(name string) string {
	file := s.file(name)
	info, err := os.Stat(file) // in /proc the size is 0
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxFile {
		return ""
	}
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil || len(data) > maxFile {
		return ""
	}
	return string(data)
}

// defaultFolders returns the folders in which systems with glibc have libraries.
func defaultFolders() []string {
	t := triplet(runtime.GOARCH)
	return []string{"/lib/" + t, "/usr/lib/" + t, "/lib64", "/usr/lib64", "/lib", "/usr/lib"}
}

// hits returns the files that exist.
func (s *system) hits(files []string) []hit {
	var hits []hit
	for _, name := range files {
		h := hit{file: s.file(name)}
		if h.examined = s.examine(h.file); h.info == nil {
			continue
		}
		if !filepath.IsAbs(name) {
			h.unsafe = because(name, "LD_LIBRARY_PATH leads to this file in the working directory, where another "+
				"user may have put it", nil)
		}
		hits = append(hits, h)
	}
	return hits
}

// cachedLibraries returns the files that glibc's cache has for a name, for all architectures, in
// glibc's order.
//
// The cache has a header of 48 bytes: 20 bytes of name and version, and 4 bytes with the number of
// entries. Then come entries of 24 bytes: 4 bytes of flags, 4 bytes each with the positions of the
// name and of the file, counted from the header, 4 bytes that are no longer used, and 8 bytes with
// the required features of the processor. A cache in an older format may precede the header.
func cachedLibraries(cache, name string) []string {
	const magic, header, entry = "glibc-ld.so.cache1.1", 48, 24
	start := strings.Index(cache, magic)
	if start < 0 || len(cache)-start < header {
		return nil
	}
	cache = cache[start:]
	number := func(at int) int {
		return int(cache[at]) | int(cache[at+1])<<8 | int(cache[at+2])<<16 | int(cache[at+3])<<24
	}
	text := func(at int) string {
		if at >= len(cache) {
			return ""
		}
		s, _, _ := strings.Cut(cache[at:], "\x00")
		return s
	}
	var files []string
	for e := header; e < header+number(len(magic))*entry && e+entry <= len(cache); e += entry {
		anyProcessor := number(e+16) == 0 && number(e+20) == 0
		if anyProcessor && text(number(e+4)) == name {
			files = append(files, text(number(e+8)))
		}
	}
	return files
}

// mappedFile returns the file that is mapped at an address of this process, or "" if there is none.
// The kernel reports the file with symbolic links resolved.
func mappedFile(addr uintptr) string {
	if addr == 0 {
		return ""
	}
	maps, _ := os.ReadFile("/proc/self/maps")
	for line := range strings.Lines(string(maps)) {
		from, rest := hexadecimal(line)
		to, rest := hexadecimal(strings.TrimPrefix(rest, "-"))
		if addr < from || addr >= to {
			continue
		}
		i := strings.IndexByte(rest, '/')
		if i < 0 {
			return ""
		}
		// The kernel still knows the name of a file that was replaced on the disk.
		return strings.TrimSuffix(strings.TrimSuffix(rest[i:], "\n"), " (deleted)")
	}
	return ""
}

// hexadecimal returns the number at the beginning of s, and the rest of s.
func hexadecimal(s string) (n uintptr, rest string) {
	for i := range len(s) {
		digit := strings.IndexByte("0123456789abcdef", s[i])
		if digit < 0 {
			return n, s[i:]
		}
		n = n<<4 | uintptr(digit)
	}
	return n, ""
}
