package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A process is a running exporter.
type process struct {
	*exec.Cmd
	lines *bufio.Reader
}

// execute starts an exporter. For -listen 127.0.0.1:0 it says where it serves.
func execute(t *testing.T, cmd *exec.Cmd) process {
	t.Helper()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	t.Cleanup(func() { kill.Stop(); cmd.Process.Kill(); cmd.Wait() })
	return process{cmd, bufio.NewReader(stderr)}
}

// addr waits until the exporter serves.
func (p process) addr(t *testing.T) string {
	t.Helper()
	line, err := p.lines.ReadString('\n')
	_, addr, ok := strings.Cut(strings.TrimSpace(line), "listening addr=")
	if !ok {
		t.Fatalf("%q, %v", line, err)
	}
	return addr
}

// end waits for the end, and returns the exit status and what was said since.
func (p process) end() (status int, said string) {
	b, _ := io.ReadAll(p.lines)
	p.Wait()
	return p.ProcessState.ExitCode(), string(b)
}

// inRoot makes a command run in a root directory of its own.
func inRoot(cmd *exec.Cmd, root string) *exec.Cmd {
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Chroot: root}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	}
	return cmd
}

// TestEmptyRoot builds the program with the command of the Dockerfile, and runs it where there is no other file.
func TestEmptyRoot(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the Dockerfile is for linux/amd64")
	}
	dockerfile, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	build := regexp.MustCompile(`(?m)^RUN (CGO_ENABLED=0 go build -tags cu_static .* -o )/exporter \.$`)
	m := build.FindSubmatch(dockerfile)
	if m == nil {
		t.Fatalf("there is no static build in\n%s", dockerfile)
	}
	root := t.TempDir()
	command := string(m[1]) + filepath.Join(root, "exporter") + " ."
	if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", m[1], err, out)
	}
	if err := inRoot(exec.Command("/exporter", "-h"), root).Run(); err != nil && os.Getuid() != 0 {
		t.Skipf("neither root nor a user namespace can be had: %v", err)
	}

	cmd := inRoot(exec.Command("/exporter", "-listen", "127.0.0.1:0"), root)
	cmd.Env = []string{"PURECU_DRIVER=soft"}
	p := execute(t, cmd)
	addr := p.addr(t)
	until(t, addr, "a probe of a healthy device, and NVML's values", func(p page) bool {
		return probed(p, "0") > 0 && health(p)["0"] == 1 && p["gpu_power_watts"] != nil
	})
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status, said := p.end(); status != 0 || !strings.Contains(said, "bye") {
		t.Errorf("after SIGTERM: exit status %d, %s", status, said)
	}

	cmd = inRoot(exec.Command("/exporter", "-listen", "127.0.0.1:0"), root)
	cmd.Env = []string{}
	if status, said := execute(t, cmd).end(); status != 1 || !strings.Contains(said, "no glibc on this machine") {
		t.Errorf("without a driver: exit status %d, %s", status, said)
	}
}

// TestDockerfile checks that the image has the files that the documentation says an image needs.
func TestDockerfile(t *testing.T) {
	var files [2][]byte
	for i, name := range []string{"Dockerfile", "../../docs/one-file.md"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if files[i] = regexp.MustCompile(`(?s)\nFROM scratch\nCOPY.*\nCOPY --from=build`).Find(b); files[i] == nil {
			t.Fatalf("%s has no image from scratch", name)
		}
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Errorf("these differ:\n%s\n%s", files[0], files[1])
	}
}

// TestHangingShutdown checks that SIGTERM ends the program while a call of the driver hangs.
func TestHangingShutdown(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-listen", "127.0.0.1:0", "-limit", "100ms")
	cmd.Env = append(os.Environ(), "EXPORTER_TEST_MAIN=1", "PURECU_DRIVER=hangs")
	p := execute(t, cmd)
	addr := p.addr(t)
	until(t, addr, "an unhealthy device", unhealthy)
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status, said := p.end(); status != 1 || !strings.Contains(said, "a GPU hangs") {
		t.Errorf("exit status %d, %s", status, said)
	}
}

// TestSoft checks the flag for software devices, without the environment's.
func TestSoft(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-listen", "127.0.0.1:0", "-soft", "3")
	cmd.Env = append(os.Environ(), "EXPORTER_TEST_MAIN=1")
	p := execute(t, cmd)
	until(t, p.addr(t), "probes of three devices, and their temperatures", func(p page) bool {
		return probed(p, "0") > 0 && probed(p, "1") > 0 && probed(p, "2") > 0 && len(health(p)) == 3 &&
			len(p["gpu_temperature_celsius"].GetMetric()) == 3
	})
}

// TestNoNVML checks that the program says once why there is no NVML, and serves its own metrics.
func TestNoNVML(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-listen", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "EXPORTER_TEST_MAIN=1", "PURECU_DRIVER=bare",
		"PURECU_NVML_LIBRARY="+filepath.Join(t.TempDir(), "no.so"))
	p := execute(t, cmd)
	until(t, p.addr(t), "several probes", func(p page) bool { return probed(p, "0") > 1 && p["nvml_up"] == nil })
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status, said := p.end(); status != 0 || strings.Count(said, "no metrics of NVML") != 1 {
		t.Errorf("exit status %d, %s", status, said)
	}
}

// TestArguments checks what the command line may be wrong about.
func TestArguments(t *testing.T) {
	for _, tt := range []struct {
		args string
		want string
		code int
	}{
		{"-listen nowhere", "listen err=", 1},
		{"-nothing", "flag provided but not defined", 2},
		{"-names other", "the names are nvml or dcgm", 2},
	} {
		cmd := exec.Command(os.Args[0], strings.Fields(tt.args)...)
		cmd.Env = append(os.Environ(), "EXPORTER_TEST_MAIN=1", "PURECU_DRIVER=soft")
		if status, said := execute(t, cmd).end(); status != tt.code || !strings.Contains(said, tt.want) {
			t.Errorf("%s: exit status %d, %s", tt.args, status, said)
		}
	}
}
