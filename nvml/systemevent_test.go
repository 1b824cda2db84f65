package nvml_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// bay is an NVML with events about the machine.
type bay struct {
	raw.Unimplemented
	t       *testing.T
	queue   []raw.SystemEventDataV1
	refuses bool
	sets    int
}

func (b *bay) InitV2() raw.Return   { return raw.NVML_SUCCESS }
func (b *bay) Shutdown() raw.Return { return raw.NVML_SUCCESS }

func (b *bay) SystemEventSetCreate(q *raw.SystemEventSetCreateRequest) raw.Return {
	b.check(q.Version == raw.SystemEventSetCreateRequestV1Version)
	b.sets++
	q.Set = 5
	return raw.NVML_SUCCESS
}

func (b *bay) SystemEventSetFree(q *raw.SystemEventSetFreeRequest) raw.Return {
	b.check(q.Version == raw.SystemEventSetFreeRequestV1Version && q.Set == 5)
	b.sets--
	return raw.NVML_SUCCESS
}

func (b *bay) SystemRegisterEvents(q *raw.SystemRegisterEventRequest) raw.Return {
	b.check(q.Version == raw.SystemRegisterEventRequestV1Version && q.Set == 5 && q.EventTypes == 3)
	if b.refuses {
		return raw.NVML_ERROR_NOT_SUPPORTED
	}
	return raw.NVML_SUCCESS
}

func (b *bay) SystemEventSetWait(q *raw.SystemEventSetWaitRequest) raw.Return {
	b.check(q.Version == raw.SystemEventSetWaitRequestV1Version && q.Set == 5 && q.Timeoutms == 100 && q.DataSize == 16)
	time.Sleep(50 * time.Millisecond)
	n := copy(unsafe.Slice(q.Data, q.DataSize), b.queue)
	b.queue = b.queue[n:]
	q.NumEvent = uint32(n)
	return raw.NVML_SUCCESS
}

func (b *bay) check(ok bool) {
	b.t.Helper()
	if !ok {
		b.t.Error("a wrong argument")
	}
}

func TestSystemEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bay{t: t}
		lib, err := nvml.Open(nvml.WithSoftware(b))
		if err != nil {
			t.Fatal(err)
		}
		set, err := lib.NewSystemEventSet(nvml.SystemEventDriverBind | nvml.SystemEventDriverUnbind)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := set.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		b.queue = []raw.SystemEventDataV1{{EventType: 1, GpuId: 0x1a700}, {EventType: 2, GpuId: 0x1a700}}
		for i := range uint32(20) {
			b.queue = append(b.queue, raw.SystemEventDataV1{EventType: 2, GpuId: i})
		}
		ev, err := set.Wait(t.Context())
		if s := ev.String(); s != "GPU 00000001:A7:00.0: SystemEventDriverUnbind" || err != nil {
			t.Error(s, err)
		}
		n := 0
		for ev, err := range set.All(t.Context()) {
			if n == 0 && ev.String() != "GPU 00000001:A7:00.0: SystemEventDriverBind" || n > 0 && ev.GPU != uint32(n-1) || err != nil {
				t.Error(n, ev, err)
			}
			if n++; n == 21 {
				break
			}
		}
		if err := set.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if err := lib.Close(); err != nil || b.sets != 0 {
			t.Error(err, b.sets)
		}
		var no *nvml.SystemEventSet
		if _, err := no.Wait(t.Context()); !errors.Is(err, nvml.ErrNil) || !errors.Is(no.Close(), nvml.ErrNil) {
			t.Error(err)
		}
	})
}

// stuckBay refuses to register events, and does not free a set before it is told to.
type stuckBay struct {
	bay
	free chan struct{}
}

func (b *stuckBay) SystemEventSetFree(q *raw.SystemEventSetFreeRequest) raw.Return {
	<-b.free
	return b.bay.SystemEventSetFree(q)
}

// TestSystemEventsFreeHangs checks that the limit of the library also holds for the set that could not be used.
func TestSystemEventsFreeHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &stuckBay{bay{t: t, refuses: true}, make(chan struct{})}
		lib, err := nvml.Open(nvml.WithSoftware(b), nvml.WithTimeout(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Minute, func() { close(b.free) })
		began := time.Now()
		if _, err := lib.NewSystemEventSet(3); !errors.Is(err, nvml.ErrNotSupported) || time.Since(began) > time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		time.Sleep(time.Minute)
		if err := lib.Close(); err != nil || b.sets != 0 {
			t.Error(err, b.sets)
		}
	})
}

func TestSystemEventsUnsupported(t *testing.T) {
	b := &bay{t: t, refuses: true}
	for name, s := range map[string]raw.Software{"older driver": &sick{}, "other system": b} {
		lib, err := nvml.Open(nvml.WithSoftware(s))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lib.NewSystemEventSet(3); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := lib.NewSystemEventSet(0); !errors.Is(err, nvml.ErrInvalidArgument) {
			t.Error(err)
		}
		if err := lib.Close(); err != nil || b.sets != 0 {
			t.Error(err, b.sets)
		}
	}
	if s := nvml.SystemEventType(7).String(); s != "SystemEventDriverUnbind|SystemEventDriverBind|0x4" {
		t.Error(s)
	}
}
