// Package fuzz makes random sequences of calls of a driver's functions about
// events, streams, contexts, captures and graphs. A sequence is data: it follows
// from its seed, can be printed, and is made shorter while it still fails.
//
// What each call has to answer is known beforehand, from a model of the driver in
// which work has no duration: whether something is pending depends on gates alone,
// values in memory that streams wait for. A second driver is not needed for that,
// but answers are also compared between two: software drivers of different
// configuration, or, with PURECU_TEST_GPU ("1", or a path to the library), a
// software driver and NVIDIA's.
package fuzz

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
