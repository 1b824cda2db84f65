package vm

import "testing"

// TestResidents checks how many blocks may have begun and not ended.
func TestResidents(t *testing.T) {
	for name, tt := range map[string]struct {
		local     uint32
		workspace uint64
		cluster   uint32
		saves     bool
		want      int
	}{
		"small":       {0, 0, 1, false, 264},
		"large":       {64 << 10, 0, 1, false, 3},
		"clusters":    {64 << 10, 0, 8, false, 8},
		"cooperative": {64 << 10, 1, 1, false, 264},
		"huge":        {1 << 20, 0, 1, false, 2},
		"recursive":   {0, 0, 1, true, 2},
	} {
		l := Launch{Kernel: &Kernel{Columns: 10, Sizes: Sizes{Local: tt.local}, Saves: tt.saves},
			Shape: Shape{Grid: [3]uint32{1024, 1, 1}, Block: [3]uint32{1024, 1, 1},
				Cluster: [3]uint32{tt.cluster, 1, 1}},
			Resident: 264, Workspace: tt.workspace}
		if n := l.residents(2); n != tt.want {
			t.Errorf("%s: %d blocks, want %d", name, n, tt.want)
		}
	}
}
