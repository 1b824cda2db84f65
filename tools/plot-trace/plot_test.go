package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/trace.svg")

// TestCommitted draws the trace that examples/trace-pipeline writes in virtual time.
func TestCommitted(t *testing.T) {
	const committed = "../../docs/trace.svg"
	file := filepath.Join(t.TempDir(), "trace.svg")
	if *update {
		file = committed
	}
	args := []string{"-svg", file, "-title", "A pipeline of three streams", "../../examples/trace-pipeline/testdata/trace.json"}
	if err := run(args, nil); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(committed)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/trace.svg differs from the drawing; go test ./plot-trace -update rewrites it")
	}
	for d := xml.NewDecoder(bytes.NewReader(got)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for what, n := range map[string]int{"compute 3</text>": 1, `class="a"`: 13, "cuEventRecord:": 18} {
		if m := strings.Count(string(got), what); m != n {
			t.Errorf("%d times %q, not %d", m, what, n)
		}
	}
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	const good = `{"traceEvents":[{"name":"thread_name","ph":"M","pid":1,"tid":1,"args":{"name":"<host>"}},
		{"name":"a&b","ph":"X","ts":0,"dur":7,"pid":1,"tid":1},{"name":"lost","ph":"f","ts":1,"pid":1,"tid":1,"id":4}]}`
	for _, tt := range []struct {
		args []string
		want string // part of the error, or the output
	}{
		{nil, errUsage.Error()},
		{[]string{"a", "b"}, errUsage.Error()},
		{[]string{"-nonsense"}, "flag provided but not defined: -nonsense"},
		{[]string{filepath.Join(dir, "no.json")}, "no.json"},
		{[]string{file("bad.json", "{")}, "bad.json: unexpected end of JSON input"},
		{[]string{file("empty.json", "{}")}, errEmpty.Error()},
		{[]string{"-h"}, "-title string"},
		{[]string{file("good.json", good)}, "&lt;host&gt;</text>"},
	} {
		var out bytes.Buffer
		err := run(tt.args, &out)
		got := out.String()
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.args, got, tt.want)
		}
	}
}
