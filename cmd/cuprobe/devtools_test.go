package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

// browserVariable is the environment variable that names the browser of the tests. "none" skips them.
const browserVariable = "PURECU_TEST_BROWSER"

// findBrowser returns the path of Chromium or a browser that is based on it. It skips the test if
// there is none.
func findBrowser(t *testing.T) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("a process on Windows gets no pipes as the files 3 and 4")
	}
	switch name := os.Getenv(browserVariable); name {
	case "":
	case "none":
		t.Skip(browserVariable + " is none")
	default:
		return name
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("there is no browser: install chromium, or name one with " + browserVariable)
	return ""
}

// browser is a browser without a window, with one page. The test talks to it by the DevTools
// protocol, through a pipe, so that no port is open.
type browser struct {
	t       *testing.T
	in      *os.File // for commands
	out     *os.File
	answers *bufio.Reader
	session string
	id      int
	events  []devtoolsEvent // since the last navigation
}

// devtoolsEvent is a message that answers no command.
type devtoolsEvent struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// patience is how long the browser may take for an answer. It is far longer than usual.
const patience = 2 * time.Minute

// newBrowser starts a browser, which ends with the test.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	path := findBrowser(t)
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--headless=new", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir(),
		"--no-first-run", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions",
		"--disable-background-networking", "about:blank")
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	err = cmd.Start()
	theirIn.Close()
	theirOut.Close()
	b := &browser{t: t, in: in, out: out, answers: bufio.NewReader(out)}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.send("", "Browser.close", nil)
		in.Close()
		end := time.AfterFunc(patience, func() { cmd.Process.Kill() })
		cmd.Wait() // its status does not matter
		end.Stop()
		out.Close()
	})
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

func (b *browser) send(session, method string, params any) error {
	if params == nil {
		params = struct{}{}
	}
	b.id++
	text, err := json.Marshal(struct {
		ID      int    `json:"id"`
		Session string `json:"sessionId,omitempty"`
		Method  string `json:"method"`
		Params  any    `json:"params"`
	}{b.id, session, method, params})
	if err == nil {
		_, err = b.in.Write(append(text, 0))
	}
	return err
}

// receive returns the next message. If it is an event, id is 0, and it was added to the events.
func (b *browser) receive() (id int, result json.RawMessage, err error) {
	if err := b.out.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return 0, nil, err
	}
	text, err := b.answers.ReadBytes(0)
	if err != nil {
		return 0, nil, fmt.Errorf("the browser does not answer: %w", err)
	}
	var m struct {
		ID     int
		Result json.RawMessage
		Error  *struct{ Message string }
		devtoolsEvent
	}
	if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
		return 0, nil, err
	}
	if m.Error != nil {
		return m.ID, nil, errors.New(m.Error.Message)
	}
	if m.ID == 0 {
		b.events = append(b.events, m.devtoolsEvent)
	}
	return m.ID, m.Result, nil
}

// call calls a method of the page, and decodes its result into v, which may be nil.
func (b *browser) call(method string, params, v any) {
	b.t.Helper()
	if err := b.send(b.session, method, params); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	want := b.id
	for {
		id, result, err := b.receive()
		if err == nil && id == want && v != nil {
			err = json.Unmarshal(result, v)
		}
		if err != nil {
			b.t.Fatalf("%s: %v", method, err)
		}
		if id == want {
			return
		}
	}
}

// open opens a page, and waits until it is loaded.
func (b *browser) open(url string) {
	b.t.Helper()
	b.events = nil
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	for !b.happened("Page.loadEventFired") {
		if _, _, err := b.receive(); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *browser) happened(method string) bool {
	for _, e := range b.events {
		if e.Method == method {
			return true
		}
	}
	return false
}

// eval evaluates an expression in the page, and decodes its value into v.
func (b *browser) eval(expression string, v any) {
	b.t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &r)
	if r.ExceptionDetails != nil {
		b.t.Fatalf("%s", r.ExceptionDetails)
	}
	if v == nil {
		return
	}
	if err := json.Unmarshal(r.Result.Value, v); err != nil {
		b.t.Fatalf("%v: %s", err, r.Result.Value)
	}
}

// size sets the size of the window.
func (b *browser) size(width, height int, mobile bool) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride",
		map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}, nil)
}

// media sets the media type, "" or print, and the colour scheme that the user prefers.
func (b *browser) media(media, scheme string) {
	b.t.Helper()
	b.call("Emulation.setEmulatedMedia", map[string]any{"media": media,
		"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// picture returns a picture of the upper part of the page, as PNG.
func (b *browser) picture(width, height int) []byte {
	b.t.Helper()
	var shot struct{ Data []byte }
	b.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true,
		"clip": map[string]any{"x": 0, "y": 0, "width": width, "height": height, "scale": 1}}, &shot)
	return shot.Data
}
