package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestGallery runs the commands of docs/gallery.md. They must print what is there, but for numbers, which include times.
func TestGallery(t *testing.T) {
	page, err := os.ReadFile("../../docs/gallery.md")
	if err != nil {
		t.Fatal(err)
	}
	number := regexp.MustCompile(`[-+]?\d[\d.:]*([mµun]?s\b)?`)
	blocks := regexp.MustCompile("(?s)```console\n\\$ cuprobe (.*?)\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 4 {
		t.Errorf("docs/gallery.md has %d commands", len(blocks))
	}
	for _, b := range blocks {
		r := probe{}.run(strings.Fields(b[1])...)
		got, want := number.ReplaceAllString(r.stdout, "9"), number.ReplaceAllString(b[2], "9")
		if diff := cmp.Diff(want, got); diff != "" || r.status != exitOK || r.stderr != "" {
			t.Errorf("cuprobe %s: exit status %d, %q (-want +got):\n%s", b[1], r.status, r.stderr, diff)
		}
	}
}
