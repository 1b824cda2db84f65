// Package release tests what users get: the action, cusim-run, and, if PURECU_TEST_RELEASE names their folder, the
// files of a release.
package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const moduleRoot = "../.."

// execute runs a command with exactly these variables and PATH, and returns what it prints and its exit status.
func execute(t *testing.T, env []string, argv ...string) (out string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = time.Second
	for _, v := range []string{"PATH", "HOME", "GOPATH", "GOCACHE", "GOMODCACHE", "GOPROXY", "GOTOOLCHAIN"} {
		if value, ok := os.LookupEnv(v); ok {
			cmd.Env = append(cmd.Env, v+"="+value)
		}
	}
	cmd.Env = append(cmd.Env, env...)
	b, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

// absolute returns the absolute path of a file of the module.
func absolute(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(moduleRoot, name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// needLinux skips the test where the libraries cannot be.
func needLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the libraries are for Linux")
	}
}

// released returns the folder with the files of a release.
func released(t *testing.T) string {
	t.Helper()
	needLinux(t)
	dir := os.Getenv("PURECU_TEST_RELEASE")
	if dir == "" {
		t.Skip("PURECU_TEST_RELEASE names no folder with the files of a release: step release of .ci/run makes them")
	}
	return dir
}

// action runs the step of action.yml with the default values of its inputs and these, and returns what later steps get:
// the variables, and the folder.
func action(t *testing.T, inputs map[string]string) (env []string, folder, out string, status int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(moduleRoot, "action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	steps := regexp.MustCompile(`(?m)^ +run: '(.*)'$`).FindAllStringSubmatch(string(text), -1)
	if len(steps) != 1 {
		t.Fatalf("action.yml has %d steps that run a command in one line, want 1", len(steps))
	}
	temp := t.TempDir()
	env = []string{"RUNNER_TEMP=" + temp, "GITHUB_ACTION_PATH=" + absolute(t, ".")}
	files := map[string]string{}
	for _, name := range []string{"GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT"} {
		files[name] = filepath.Join(temp, name)
		env = append(env, name+"="+files[name])
	}
	passed := regexp.MustCompile(`(?m)^ +([A-Z]+): \$\{\{ inputs\.([a-z]+) \}\}$`)
	for _, m := range passed.FindAllStringSubmatch(string(text), -1) {
		env = append(env, m[1]+"="+inputs[m[2]])
		delete(inputs, m[2])
	}
	if len(inputs) != 0 {
		t.Fatalf("action.yml does not pass on %v", inputs)
	}
	out, status = execute(t, env, "bash", "-euo", "pipefail", "-c", steps[0][1])
	set, _ := os.ReadFile(files["GITHUB_ENV"])
	output, _ := os.ReadFile(files["GITHUB_OUTPUT"])
	path, _ := os.ReadFile(files["GITHUB_PATH"])
	folder, _ = strings.CutPrefix(strings.TrimSpace(string(output)), "folder=")
	if strings.TrimSpace(string(path)) != folder {
		t.Errorf("the path is %q, and the output %q", path, output)
	}
	return strings.Fields(string(set)), folder, out, status
}

// compiled returns a program in C that prints the names of all devices.
func compiled(t *testing.T) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler")
	}
	file := filepath.Join(t.TempDir(), "names")
	if out, status := execute(t, nil, cc, "-o", file, "testdata/c/names.c", "-ldl"); status != 0 {
		t.Fatal(out)
	}
	return file
}

// both are the names of the devices of the profile A100,T4, as the program in C prints them.
var both = regexp.MustCompile(`^[^\n]*A100[^\n]*\n[^\n]*T4[^\n]*\n$`)

// TestAction runs the action as in a checkout, and then programs in C and in Go with what it has set.
func TestAction(t *testing.T) {
	needLinux(t)
	names := compiled(t)
	env, folder, out, status := action(t, map[string]string{"devices": "A100,T4"})
	if status != 0 {
		t.Fatalf("exit status %d: %s", status, out)
	}
	if out, status := execute(t, env, names); status != 0 || !both.MatchString(out) {
		t.Errorf("a program in C: exit status %d, %s", status, out)
	}
	run := filepath.Join(folder, "cusim-run")
	if out, status := execute(t, []string{"CUSIM_PROFILE=A100,T4"}, run, names); status != 0 || !both.MatchString(out) {
		t.Errorf("cusim-run: exit status %d, %s", status, out)
	}
	env = append(env, "CGO_ENABLED=0")
	for _, tags := range []string{"", "nosoft"} {
		out, status := execute(t, env, "go", "run", "-C", absolute(t, "."), "-tags", tags, "./examples/hello-event")
		if status != 0 || !strings.Contains(out, "the GPU was busy for") {
			t.Errorf("a program in Go with tags %q: exit status %d, %s", tags, status, out)
		}
	}
}

// TestActionDownload runs the action with a version that is not there.
func TestActionDownload(t *testing.T) {
	needLinux(t)
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl")
	}
	_, _, out, status := action(t, map[string]string{"version": "9.9.9", "url": "file://" + t.TempDir()})
	if status != 1 || !strings.Contains(out, "::error::") || !strings.Contains(out, "is there a release 9.9.9?") {
		t.Errorf("exit status %d, %s", status, out)
	}
}

// TestCusimRun checks what cusim-run says where the libraries are not beside it.
func TestCusimRun(t *testing.T) {
	needLinux(t)
	script := absolute(t, "release/cusim-run")
	if out, status := execute(t, nil, script); status != 2 || !strings.Contains(out, "usage: cusim-run PROGRAM") {
		t.Errorf("without a program: exit status %d, %s", status, out)
	}
	const lacks = "libcuda.so.1 is not there: unpack"
	if out, status := execute(t, nil, script, "true"); status != 1 || !strings.Contains(out, lacks) {
		t.Errorf("without libraries: exit status %d, %s", status, out)
	}
}

// TestFiles checks the checksums of a release's files, and that its programs are static.
func TestFiles(t *testing.T) {
	dir := released(t)
	const compare = `cd "$1" && sha256sum -c --quiet SHA256SUMS`
	if out, status := execute(t, nil, "sh", "-c", compare, "sh", dir); status != 0 {
		t.Error(out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*-linux-*64"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, name := range files {
		file, err := elf.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if needs, err := file.ImportedLibraries(); err != nil || len(needs) != 0 {
			t.Errorf("%s needs %v, %v", filepath.Base(name), needs, err)
		}
	}
	out, status := execute(t, nil, filepath.Join(dir, "cuprobe-linux-"+runtime.GOARCH), "-version")
	if status != 0 || !strings.HasPrefix(out, "cuprobe ") {
		t.Errorf("cuprobe -version: exit status %d, %s", status, out)
	}
}

// TestArchives checks that the libraries of an archive load on the oldest glibc that docs/install.md names, and that it
// has the licenses of what they contain.
func TestArchives(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(released(t), "cusim-linux-*.tar.gz"))
	if err != nil || len(names) != 2 {
		t.Fatalf("%v, %v", names, err)
	}
	for _, name := range names {
		archive, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer archive.Close()
		unzipped, err := gzip.NewReader(archive)
		if err != nil {
			t.Fatal(err)
		}
		libraries, licenses := 0, ""
		for files := tar.NewReader(unzipped); ; {
			head, err := files.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(files)
			switch {
			case err != nil:
				t.Fatal(err)
			case path.Base(head.Name) == "LICENSES.txt":
				licenses = string(content)
			case head.Typeflag == tar.TypeReg && strings.Contains(head.Name, ".so"):
				libraries++
				oldEnough(t, filepath.Base(name)+": "+head.Name, content)
			}
		}
		if libraries == 0 {
			t.Errorf("%s has no library", name)
		}
		for _, module := range []string{"std", "github.com/ebitengine/purego", "github.com/purecu/purecu"} {
			if !strings.Contains(licenses, "==== "+module+": ") {
				t.Errorf("%s has no license of %s", name, module)
			}
		}
	}
}

// oldEnough checks that a library needs no newer glibc than 2.17.
func oldEnough(t *testing.T, name string, content []byte) {
	t.Helper()
	file, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	libraries, err := file.DynamicVersionNeeds()
	if err != nil || len(libraries) == 0 {
		t.Errorf("%s needs %v, %v", name, libraries, err)
	}
	for _, library := range libraries {
		for _, version := range library.Needs {
			var minor, patch int
			if n, _ := fmt.Sscanf(version.Dep, "GLIBC_2.%d.%d", &minor, &patch); n == 0 || minor > 17 {
				t.Errorf("%s needs %s of %s", name, version.Dep, library.Name)
			}
		}
	}
}

// TestReleased downloads the release with the action from a folder, and runs a program in C, cuprobe, and, where Python
// is, a program in Python on it.
func TestReleased(t *testing.T) {
	dir, from := released(t), t.TempDir()
	if err := os.Symlink(dir, filepath.Join(from, "v1.2.3")); err != nil {
		t.Fatal(err)
	}
	env, folder, out, status := action(t,
		map[string]string{"version": "1.2.3", "url": "file://" + from, "devices": "A100,T4"})
	if status != 0 {
		t.Fatalf("exit status %d: %s", status, out)
	}
	run := filepath.Join(folder, "cusim-run")
	if out, status := execute(t, env, run, compiled(t)); status != 0 || !both.MatchString(out) {
		t.Errorf("a program in C: exit status %d, %s", status, out)
	}
	if out, status := execute(t, env, filepath.Join(dir, "cuprobe-linux-"+runtime.GOARCH), "devices"); status != 0 ||
		!strings.Contains(out, "A100") {
		t.Errorf("cuprobe devices: exit status %d, %s", status, out)
	}
	const python = "import ctypes; c = ctypes.CDLL('libcuda.so'); n = ctypes.c_int(); " +
		"assert c.cuInit(0) == 0 and c.cuDeviceGetCount(ctypes.byref(n)) == 0; print(n.value)"
	if exec.Command("python3", "-c", "import ctypes").Run() == nil {
		out, status := execute(t, []string{"CUSIM_DEVICES=3"}, run, "python3", "-c", python)
		if status != 0 || out != "3\n" {
			t.Errorf("a program in Python: exit status %d, %s", status, out)
		}
	}
}

// TestWorkflows does what the example of a workflow for each language says, in a copy of its project.
func TestWorkflows(t *testing.T) {
	dir, from := released(t), t.TempDir()
	if err := os.Symlink(dir, filepath.Join(from, "v0.1.0")); err != nil {
		t.Fatal(err)
	}
	for _, language := range []string{"go", "c", "python"} {
		t.Run(language, func(t *testing.T) {
			if language == "python" && exec.Command("python3", "-c", "import ctypes").Run() != nil {
				t.Skip("there is no python3 with ctypes")
			}
			testWorkflow(t, language, "file://"+from)
		})
	}
}

func testWorkflow(t *testing.T, language, url string) {
	project := t.TempDir()
	if err := os.CopyFS(project, os.DirFS(filepath.Join("testdata", language))); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(project, "workflow.yml"))
	if err != nil {
		t.Fatal(err)
	}
	inputs := map[string]string{"url": url}
	for _, m := range regexp.MustCompile(`(?m)^          (version|devices): (.*)$`).FindAllStringSubmatch(string(text), -1) {
		inputs[m[1]] = m[2]
	}
	env, _, out, status := action(t, inputs)
	if status != 0 {
		t.Fatalf("exit status %d: %s", status, out)
	}
	steps := regexp.MustCompile(`(?m)^      - run: (.*)$`).FindAllStringSubmatch(string(text), -1)
	if len(steps) == 0 {
		t.Error("the workflow has no step")
	}
	if language == "go" { // the module is not published
		steps = append([][]string{{"", "go mod edit -replace=github.com/purecu/purecu=" + absolute(t, ".")},
			{"", "cp " + absolute(t, "go.sum") + " . && go mod tidy"}}, steps...)
		env = append(env, "CGO_ENABLED=0")
	}
	for _, step := range steps {
		if out, status := execute(t, env, "bash", "-ec", "cd "+project+" && "+step[1]); status != 0 {
			t.Errorf("%s: exit status %d: %s", step[1], status, out)
		}
	}
}

// TestChanged checks that the action refuses an archive with another checksum.
func TestChanged(t *testing.T) {
	dir, from := released(t), filepath.Join(t.TempDir(), "v1.2.3")
	if err := os.CopyFS(from, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(filepath.Join(from, "cusim-linux-"+runtime.GOARCH+".tar.gz"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteString("x")
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, _, out, status := action(t, map[string]string{"version": "1.2.3", "url": "file://" + filepath.Dir(from)})
	if status != 1 || !strings.Contains(out, "another checksum") {
		t.Errorf("exit status %d, %s", status, out)
	}
}

// TestDockerfiles does what the last stage of each Dockerfile says in a root with this machine's files in place of an
// image's, and runs the exporter, and a program in C, in it.
func TestDockerfiles(t *testing.T) {
	dir := released(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("the roots have this machine's glibc, in the folders of amd64")
	}
	own := os.Getuid() == 0
	if !own && exec.Command("unshare", "-r", "true").Run() != nil {
		t.Skip("only root may change the root, or who may make a user namespace")
	}
	for _, c := range []struct{ name, inside, says string }{
		{"exporter", "/exporter -h", "-listen"},
		{"cusim", "/bin/sh /opt/cusim/cusim-run /names", "H200\n"},
	} {
		root := t.TempDir()
		text, err := os.ReadFile(filepath.Join(moduleRoot, "release", c.name+".Dockerfile"))
		if err != nil {
			t.Fatal(err)
		}
		unpack(t, root, dir, strings.ReplaceAll(strings.ReplaceAll(string(text), "\\\n", ""), "${TARGETARCH}", "amd64"))
		if c.name == "cusim" {
			base := "set -e; cd \"$1\"; mkdir -p bin lib64 proc; cp \"$2\" names; cp -L /bin/sh /bin/uname /bin/readlink bin/; " +
				"cp -L --parents $(ldd bin/sh bin/uname bin/readlink | grep -o '/lib[^ )]*' | sort -u) ."
			if out, status := execute(t, nil, "bash", "-c", base+"; cp -L --parents /lib/x86_64-linux-gnu/lib{dl,pthread}.so.* .",
				"sh", root, compiled(t)); status != 0 {
				t.Fatal(out)
			}
		}
		argv := append([]string{"chroot", root}, strings.Fields(c.inside)...)
		if !own {
			argv = append([]string{"unshare", "-r"}, argv...)
		}
		if out, _ := execute(t, nil, argv...); !strings.Contains(out, c.says) {
			t.Errorf("%s: %s", c.name, out)
		}
	}
}

// TestPlatforms checks that the Dockerfiles leave the architecture to BuildKit: a default value of TARGETARCH in them
// would be the architecture of each image.
func TestPlatforms(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(moduleRoot, "release", "*.Dockerfile"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "\nARG TARGETARCH\n") || strings.Contains(string(text), "ARG TARGETARCH=") {
			t.Errorf("%s does not take TARGETARCH as it is", filepath.Base(name))
		}
	}
}

// unpack does the COPY and ADD lines of a Dockerfile that are for amd64. Other images are this machine's files.
func unpack(t *testing.T, root, dir, text string) {
	t.Helper()
	done := 0
	for line := range strings.Lines(text) {
		from, words := dir, strings.Fields(line)
		if len(words) < 3 || words[0] != "COPY" && words[0] != "ADD" || strings.Contains(line, "aarch64") {
			continue
		}
		add := words[0] == "ADD"
		words = words[1:]
		for strings.HasPrefix(words[0], "--") {
			if words[0] == "--from=glibc" {
				from = "/"
			}
			words = words[1:]
		}
		to := filepath.Join(root, words[len(words)-1])
		into := to
		if !strings.HasSuffix(words[len(words)-1], "/") {
			into = filepath.Dir(to)
		}
		if err := os.MkdirAll(into, 0o777); err != nil {
			t.Fatal(err)
		}
		if into == to {
			to += "/"
		}
		for _, name := range words[:len(words)-1] {
			argv := []string{"cp", "-L", filepath.Join(from, name), to}
			if add {
				argv = []string{"tar", "-xzf", filepath.Join(from, name), "-C", to}
			}
			if out, status := execute(t, nil, argv...); status != 0 {
				t.Fatal(out)
			}
			done++
		}
	}
	if done == 0 {
		t.Fatal("the Dockerfile copies nothing")
	}
}
