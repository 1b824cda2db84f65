package poolimport

import (
	"testing"

	"github.com/purecu/purecu/driver"
)

// TestHandleUsesEnds ends an object while the driver is asked for its handle. It is asked again, whether the
// end has begun before or not.
func TestHandleUsesEnds(t *testing.T) {
	for name, before := range map[string]bool{"begun before": true, "begun meanwhile": false} {
		t.Run(name, func(t *testing.T) {
			var u handleUses[int]
			var end func()
			begin := func() {
				u.mu.Lock()
				defer u.mu.Unlock()
				end = u.beginEnd(1)
			}
			if before {
				begin()
			}
			asked, found := 0, 0
			res := u.get(func() (uint64, driver.Result) {
				if asked++; asked == 1 {
					if !before {
						begin()
					}
					end()
				}
				return 1, driver.ResultSuccess
			}, func(*int) { found++ })
			if res != driver.ResultSuccess || asked != 2 || found != 1 {
				t.Errorf("get = %v: the driver was asked %d times, want 2, and counted are %d uses, want 1", res, asked, found)
			}
			if len(u.at) != 1 || u.asking != 0 || len(u.ends) != 0 {
				t.Errorf("there are %d objects, %d calls and %d ends, want 1, 0 and 0", len(u.at), u.asking, len(u.ends))
			}
		})
	}
}
