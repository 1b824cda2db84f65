package simnvml

import (
	"os"
	"strings"
	"testing"

	"github.com/purecu/purecu/loader"
	"github.com/purecu/purecu/nvml/raw"
)

// TestErrorString checks the texts of some results: programs look for words in them.
func TestErrorString(t *testing.T) {
	n := New(&testMachine{})
	for r, want := range map[raw.Return]string{
		raw.NVML_SUCCESS:                        "Success",
		raw.NVML_ERROR_NOT_SUPPORTED:            "Not Supported",
		raw.NVML_ERROR_GPU_IS_LOST:              "GPU is lost",
		raw.NVML_ERROR_INVALID_STATE:            "Resource not in correct state to perform requested operation",
		raw.NVML_ERROR_RESET_TYPE_NOT_SUPPORTED: "the device does not support this kind of reset",
		raw.NVML_ERROR_UNKNOWN:                  "Unknown Error",
		1000:                                    "Unknown Error",
		-1:                                      "Unknown Error",
	} {
		if text := n.ErrorString(r); text != want {
			t.Errorf("%d: %q, want %q", int32(r), text, want)
		}
	}
}

// TestRealErrorString compares all texts with those of NVIDIA's libraries. What an older library does not know is
// skipped.
func TestRealErrorString(t *testing.T) {
	paths := os.Getenv("PURECU_TEST_NVML")
	if paths == "" {
		t.Skip("PURECU_TEST_NVML is not set")
	}
	n := New(&testMachine{})
	for path := range strings.SplitSeq(paths, ":") {
		lib, err := loader.OpenLibrary(loader.NVML, path)
		if err != nil {
			t.Error(err)
			continue
		}
		real := raw.New(lib)
		for r := raw.Return(-1); r <= 1000; r++ {
			text, want := n.ErrorString(r), real.ErrorString(r)
			if text != want && (want != "Unknown Error" || r.Name() == "") {
				t.Errorf("%s: %d: %q, want %q", path, int32(r), text, want)
			}
		}
	}
}
