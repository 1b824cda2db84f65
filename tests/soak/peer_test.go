package soak

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
)

// peerEnv is set in the environment of the other process. Its value is the driver.
const peerEnv = "PURECU_SOAK_PEER"

// startPeer starts another process, which shares an event. end ends that process.
func (s *soak) startPeer() (end func()) {
	driver := "software"
	if s.sim == nil {
		driver = "native"
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), peerEnv+"="+driver)
	cmd.Stderr = os.Stderr
	in := must(cmd.StdinPipe())(s.t)
	out := must(cmd.StdoutPipe())(s.t)
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		s.t.Fatal(errors.Join(err, cmd.Wait()))
	}
	if text := strings.TrimSpace(line); text != "" {
		if err := s.ipc.UnmarshalText([]byte(text)); err != nil {
			s.t.Error(err)
		}
	}
	return func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			s.t.Errorf("the other process: %v", err)
		}
	}
}

// runPeer is the other process. It writes the handle of an event, or an empty line if events cannot
// be shared. It ends at the end of its input.
func runPeer() int {
	drv, err := openPeer()
	if err == nil {
		err = share(drv)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the other process:", err)
		return 1
	}
	return 0
}

func openPeer() (*cu.Driver, error) {
	if os.Getenv(peerEnv) == "software" {
		return cu.Open(cu.WithSoftware(cusim.New(cusim.Devices(2))))
	}
	return cu.Open(cu.WithLibrary(library()))
}

func share(drv *cu.Driver) error {
	dev, err := drv.Device(0)
	if err != nil {
		return err
	}
	gpu, err := dev.PrimaryContext()
	if err != nil {
		return err
	}
	e, err := gpu.NewEvent(cu.EventInterprocess | cu.EventDisableTiming)
	if err != nil {
		return errors.Join(err, gpu.Close())
	}
	s, err := gpu.NewStream(cu.StreamNonBlocking)
	if err != nil {
		return errors.Join(err, e.Close(), gpu.Close())
	}
	err = errors.Join(e.Record(s), s.Synchronize())
	h, noHandle := e.IPCHandle(context.Background())
	if noHandle != nil && !errors.Is(noHandle, cu.ResultNotSupported) {
		err = errors.Join(err, noHandle)
	}
	fmt.Println(h)
	_, readErr := io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, readErr, e.Close(), s.Close(), gpu.Close(), drv.Close())
}
