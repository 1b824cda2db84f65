package simnvml

import (
	"testing"
	"time"

	"github.com/purecu/purecu/nvml/raw"
)

// TestSystemEvents registers events of the machine, and waits for one.
func TestSystemEvents(t *testing.T) {
	const invalid, mismatch = raw.NVML_ERROR_INVALID_ARGUMENT, raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
	b := newBench(t, 1)
	q := raw.SystemEventSetCreateRequest{Version: raw.SystemEventSetCreateRequestV1Version}
	succeeds(t, b.SystemEventSetCreate(&q))
	register := func(version uint32, set raw.SystemEventSet, kinds uint64) raw.Return {
		return b.SystemRegisterEvents(&raw.SystemRegisterEventRequest{Version: version, EventTypes: kinds, Set: set})
	}
	const unbind, v1 = raw.SystemEventTypeGpuDriverUnbind, raw.SystemRegisterEventRequestV1Version
	succeeds(t, register(v1, q.Set, unbind))
	returns(t, register(v1, q.Set, 0), invalid)
	succeeds(t, register(v1, q.Set, 4))
	returns(t, register(v1, 1, unbind), invalid)
	returns(t, register(1, q.Set, unbind), mismatch)
	returns(t, b.SystemEventSetCreate(&raw.SystemEventSetCreateRequest{}), mismatch)

	var data raw.SystemEventDataV1
	wait := func(milliseconds uint32) raw.Return {
		return b.SystemEventSetWait(&raw.SystemEventSetWaitRequest{Version: raw.SystemEventSetWaitRequestV1Version,
			Timeoutms: milliseconds, Set: q.Set, Data: &data, DataSize: 1})
	}
	returns(t, wait(0), raw.NVML_ERROR_TIMEOUT)
	done := make(chan raw.Return, 1)
	go func() { done <- wait(60_000) }()
	eventually(t, "the wait", b.machine.waits)
	b.machine.advance(time.Minute - time.Millisecond)
	select {
	case r := <-done:
		t.Errorf("the wait ends early: %v", r)
	default:
	}
	b.machine.advance(time.Millisecond)
	returns(t, <-done, raw.NVML_ERROR_TIMEOUT)

	go func() { done <- wait(1 << 30) }()
	eventually(t, "the wait", b.machine.waits)
	free := raw.SystemEventSetFreeRequest{Version: raw.SystemEventSetFreeRequestV1Version, Set: q.Set}
	succeeds(t, b.SystemEventSetFree(&free))
	returns(t, <-done, invalid)
	returns(t, b.SystemEventSetFree(&free), invalid)
	returns(t, b.SystemEventSetWait(&raw.SystemEventSetWaitRequest{Set: q.Set}), mismatch)
	returns(t, b.SystemEventSetWait(&raw.SystemEventSetWaitRequest{Version: raw.SystemEventSetWaitRequestV1Version}),
		invalid)
}
