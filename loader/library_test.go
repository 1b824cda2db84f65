package loader

import (
	"errors"
	"strings"
	"testing"
)

// TestOpenLibrary calls the functions of a library through variables.
func TestOpenLibrary(t *testing.T) {
	for _, k := range []Kind{NVML, NVRTC, NVENC} {
		t.Setenv(k.Environment(), "")
	}
	path := cLibrary(t, "libcompanion.so", companionLibrary)
	t.Setenv(NVML.Environment(), path)
	lib, err := OpenLibrary(NVML, "")
	if err != nil {
		t.Fatal(err)
	}
	if lib.Name() != path || lib.Version() != 0 {
		t.Errorf("%s, version %d", lib.Name(), lib.Version())
	}
	if _, err := lib.Proc("cuInit", 12000, false); !errors.Is(err, errors.ErrUnsupported) ||
		!strings.Contains(err.Error(), "NVML has no cuGetProcAddress") {
		t.Errorf("Proc: %v", err)
	}
	var (
		initialise func() error
		count      func(*uint32) error
		text       func(int32) (string, error)
		version    func([]byte, uint32) error
	)
	for name, to := range map[string]any{
		"nvmlInit_v2": &initialise, "nvmlDeviceGetCount_v2": &count, "nvmlErrorString": &text,
		"nvmlSystemGetDriverVersion": &version,
	} {
		if err := lib.Bind(to, name); err != nil {
			t.Fatal(err)
		}
	}
	var n uint32
	var status *StatusError
	if err := count(&n); !errors.As(err, &status) || *status != (StatusError{"nvmlDeviceGetCount_v2", 1}) ||
		err.Error() != "nvmlDeviceGetCount_v2 returned 1" {
		t.Errorf("before the initialisation: %v", err)
	}
	if s, err := text(1); s != "Uninitialized" || err != nil {
		t.Errorf("%q, %v", s, err)
	}
	if err := errors.Join(initialise(), count(&n)); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	b := make([]byte, 80)
	if err := version(b, 80); !strings.HasPrefix(string(b), "580.95.05\x00") || err != nil {
		t.Errorf("%q, %v", b, err)
	}

	for _, tt := range []struct {
		to         any
		name, want string
	}{
		{new(func() error), "nvmlNoSuchFunction", "lacks the function nvmlNoSuchFunction"},
		{new(func(float32) error), "nvmlInit_v2", "nvmlInit_v2: parameter 0 is a float32"},
	} {
		if err := lib.Bind(tt.to, tt.name); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Bind(%s): %v", tt.name, err)
		}
	}
	for k, want := range map[Kind]string{"": `no kind ""`, "nvml": `no kind "nvml"`} {
		if _, err := OpenLibrary(k, path); !errors.Is(err, errors.ErrUnsupported) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("OpenLibrary(%q): %v", k, err)
		}
	}
	_, err = OpenLibrary(NVRTC, cLibrary(t, "libdriver.so", goodDriver))
	var le *LoadError
	if !errors.As(err, &le) || le.Kind != NVRTC || le.Candidates[0].Problem != OtherLibrary ||
		!strings.Contains(err.Error(), "it was loaded, but is not NVRTC: ") {
		t.Errorf("another library: %v", err)
	}
	var none *Library
	if err := none.Bind(new(func() error), "nvmlInit_v2"); err == nil || err.Error() !=
		"loader: nvmlInit_v2: the library is nil: check the error of OpenLibrary" {
		t.Errorf("Bind of nil: %v", err)
	}
	if got := (*StatusError)(nil).Error(); got != "loader: no error" {
		t.Error(got)
	}
}
