package compile

import (
	"testing"

	"github.com/purecu/purecu/internal/ptx/operands"
)

// TestOperands compiles instructions with the operands that an H200's driver accepts and with
// those that it rejects.
func TestOperands(t *testing.T) {
	list, err := operands.Tries("../operands")
	if err != nil || len(list) < 10_000 {
		t.Fatalf("%d tries: %v", len(list), err)
	}
	for _, try := range list {
		m, err := Parse(try.Text())
		if err == nil {
			_, err = m.Kernel("k")
		}
		if (err == nil) != try.Accepted {
			t.Errorf("%s: operand %d is %s: %v", try.Op, try.Operand, try.What, err)
		}
	}
}
