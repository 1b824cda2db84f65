package softlib

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// measuredBySMI are elements that change by themselves, or that say which GPU it is. In those of ownBySMI the software
// NVML differs from a GPU, and in those of versionsOfSMI the versions of nvidia-smi differ. Each entry stands for all
// elements in it.
var (
	measuredBySMI = []string{"timestamp", "driver_version", "cuda_version",
		"gpu/@id", "gpu/product_name", "gpu/serial", "gpu/uuid", "gpu/pdi", "gpu/board_id", "gpu/gpu_module_id",
		"gpu/platformInfo/module_id", "gpu/pci/pci_bus", "gpu/pci/pci_device", "gpu/pci/pci_bus_id",
		"gpu/pci/tx_util", "gpu/pci/rx_util", "gpu/inforom_bbx_flush", "gpu/temperature/gpu_temp",
		"gpu/temperature/gpu_temp_tlimit", "gpu/temperature/memory_temp", "gpu/gpu_power_readings/power_draw",
		"gpu/gpu_power_readings/average_power_draw", "gpu/gpu_power_readings/instant_power_draw",
		"gpu/gpu_memory_power_readings/average_power_draw",
		"gpu/clocks/graphics_clock", "gpu/clocks/sm_clock", "gpu/clocks/video_clock"}
	ownBySMI = []string{
		"gpu/board_part_number",
		"gpu/gpu_part_number",       // needs a function that nothing public describes
		"gpu/sparse_operation_mode", // the same
	}
	versionsOfSMI = []string{"gpu/display_mode", "gpu/addressing_mode", "gpu/fb_memory_usage"}
)

// TestSMIAgainstGPU compares all that nvidia-smi says of the software NVML with what it said of an H200.
func TestSMIAgainstGPU(t *testing.T) {
	paths := filepath.SplitList(os.Getenv("PURECU_TEST_SMI"))
	if len(paths) == 0 {
		t.Skip("PURECU_TEST_SMI is not set: this needs NVIDIA's program (see tests/libcuda/fetch)")
	}
	text, err := os.ReadFile("testdata/smi-h200-580.xml")
	if err != nil {
		t.Fatal(err)
	}
	want := elements(t, string(text))
	for _, path := range paths {
		cmd := exec.CommandContext(t.Context(), path, "-q", "-x")
		cmd.Env = []string{"LD_LIBRARY_PATH=" + filepath.Dir(nvmlLibrary(t)), "HOME=" + t.TempDir()}
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v", cmd, err)
		}
		compared := 0
		for element, got := range elements(t, string(out)) {
			if want[element] == nil || within(element, slices.Concat(measuredBySMI, ownBySMI, versionsOfSMI)) {
				continue
			}
			compared++
			if !slices.Equal(got, want[element]) {
				t.Errorf("%v: %s is %q, of an H200 %q", cmd, element, got, want[element])
			}
		}
		if compared < 120 {
			t.Errorf("%v: only %d elements are compared", cmd, compared)
		}
	}
}

// within reports whether an element is one of a list, or in one of these.
func within(element string, list []string) bool {
	return slices.ContainsFunc(list, func(e string) bool { return element == e || strings.HasPrefix(element, e+"/") })
}

// elements returns the texts of all elements of a page of nvidia-smi, by their paths below the first element.
func elements(t *testing.T, page string) map[string][]string {
	t.Helper()
	texts := map[string][]string{}
	var path []string
	for d := xml.NewDecoder(strings.NewReader(page)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			path = append(path, token.Name.Local)
			for _, a := range token.Attr {
				name := strings.Join(append(slices.Clone(path[1:]), "@"+a.Name.Local), "/")
				texts[name] = append(texts[name], a.Value)
			}
		case xml.EndElement:
			path = path[:len(path)-1]
		case xml.CharData:
			if text := strings.TrimSpace(string(token)); text != "" && len(path) > 1 {
				name := strings.Join(path[1:], "/")
				texts[name] = append(texts[name], text)
			}
		}
	}
}
