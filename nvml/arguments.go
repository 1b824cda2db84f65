package nvml

import (
	"fmt"
	"math"
)

// checkNumber returns an error if n, which what names, is not one that C's unsigned int can have.
func (o *object) checkNumber(op, what string, n int) error {
	if o != nil && (n < 0 || n > math.MaxUint32) {
		return o.invalid(op, fmt.Sprintf("the %s is %d: numbers are from 0 to 4294967295", what, n))
	}
	return nil
}
