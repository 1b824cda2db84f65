package profile

import (
	"slices"
	"strings"
	"testing"

	"github.com/purecu/purecu/driver"
)

// TestConsistent checks that the facts of each GPU fit together.
func TestConsistent(t *testing.T) {
	seen := map[uint32]bool{}
	for _, g := range All() {
		check := func(what string, right bool) {
			t.Helper()
			if !right {
				t.Errorf("%s: %s", g.Name, what)
			}
		}
		a, m := g.Attribute, g.Memory
		check("PCI device of NVIDIA, and of no other profile", g.PCI.Device&0xffff == 0x10de && !seen[g.PCI.Device])
		seen[g.PCI.Device] = true
		check("the name is in that of the product", strings.Contains(g.Product, g.Name))
		check("memory", m.Size%4096 == 0 && m.Size < m.Total && m.Total-m.Size < 1<<30 && m.Size < 256<<30)
		check("the L2 cache", m.Persisting <= m.L2 && (m.Persisting > 0) == (m.Window > 0))
		check("clocks", g.Clocks.Idle < g.Clocks.Graphics && g.Clocks.SlowMemory < g.Clocks.Memory &&
			g.Clocks.Idle <= g.Clocks.Applications && g.Clocks.Applications <= g.Clocks.Graphics)
		check("power", g.Power.Idle < g.Power.Most && g.Power.Least < g.Power.Most)
		check("temperatures", g.Temperatures.Most < g.Temperatures.Slowdown &&
			g.Temperatures.Slowdown < g.Temperatures.Shutdown)
		check("threads", g.Threads%1024 == 0 || g.Threads == 1536)
		check("shared memory", g.SharedOfBlock+g.SharedOfSystem == g.Shared &&
			uint64(g.Shared) == g.CarveOuts[len(g.CarveOuts)-1]<<10 && slices.IsSorted(g.CarveOuts) &&
			g.Shared%g.SharedUnit == 0)
		check("clusters", g.Clusters == (g.Number >= 90) && g.Clusters == (len(g.Groups) > 0) &&
			g.Clusters == (g.Domains > 1))
		all := uint64(0)
		for _, n := range g.Groups {
			all += n
		}
		check("groups", !g.Clusters || all == uint64(g.Multiprocessors))
		check("compute capability", a(driver.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)*10+
			a(driver.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) == g.Number)
		check("cluster launches", a(driver.CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH) == 1 == g.Clusters)
		check("registers", a(driver.CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK) <=
			a(driver.CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR))
		check("pools", a(driver.CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) == 1)
		if g.MIG == nil {
			continue
		}
		for _, i := range g.MIG.Instances {
			check("instance "+i.Name+": no GPU that can be divided has encoders", i.Encoders == 0)
			check("instance "+i.Name, i.Memory<<20 < m.Total && i.Multiprocessors <= uint32(g.Multiprocessors) &&
				i.Multiprocessors >= i.Slices*g.MIG.Slice)
		}
	}
}

// TestParse parses lists of profiles.
func TestParse(t *testing.T) {
	for list, want := range map[string]string{
		"A100:2,T4":     "A100 A100 T4",
		"t4":            "T4",
		" l40s , H100":  "L40S H100",
		"A100 : 2 , T4": "A100 A100 T4",
		"B200:1,b200":   "B200 B200",
		"":              "there is no profile without a name: there are T4, A100, L40S, H100, H200, B200",
		"A100,":         "without a name",
		"A10":           `there is no profile "A10"; did you mean A100?`,
		"H10":           `there is no profile "H10"; did you mean H100?`,
		"GeForce":       `there is no profile "GeForce": there are T4, `,
		"T4:0":          `"0" is no number of devices from 1 to 64, as in T4:2`,
		"T4:x":          `"x" is no number`,
		"T4:65":         `"65" is no number`,
		"T4:40,H200:40": "these are 80 devices, and at most 64 are possible",
	} {
		gpus, err := Parse(list)
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %q", list, err, want)
			}
			continue
		}
		var names []string
		for _, g := range gpus {
			names = append(names, g.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q: %s, want %s", list, got, want)
		}
	}
}
