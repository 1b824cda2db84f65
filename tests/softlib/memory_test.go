package softlib

import "testing"

// TestSparse runs a C program that allocates nearly all memory of a device, and writes to a few places: without
// limits, and with few addresses. Then it writes as much as it can.
func TestSparse(t *testing.T) {
	lib, program := library(t), compiled(t, "sparse")
	for _, tt := range []struct{ name, limit, limited string }{
		{"without limits", "true", ""},
		{"4 GiB of addresses", "ulimit -v 4194304", "LIMITED=1"},
		{"3 GiB of addresses", "ulimit -v 3145728", "LIMITED=1"},
		{"2 GiB of data", "ulimit -d 2097152", "LIMITED=1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			said := run(t, []string{tt.limited}, "sh", "-c", tt.limit+` && exec "$0" "$@"`, program, lib)
			if said != "" {
				t.Errorf("it was not asked to say anything:\n%s", said)
			}
		})
	}
}
