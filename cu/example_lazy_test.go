package cu_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/purecu/purecu/cu"
)

// Which stream, and so which device, is decided by the first record.
func ExampleLazyEvent() {
	done := cu.LazyEvent(cu.EventDefault) // timed
	defer done.Close()
	fmt.Println(done.Created(), done.DeviceIndex())
	if err := done.Record(s); err != nil {
		log.Fatal(err)
	}
	fmt.Println(done.Created(), done.DeviceIndex())
}

// The current stream travels with the context.Context, also to other goroutines.
func ExampleWithStream() {
	step := func(ctx context.Context, done *cu.Event) error {
		s, err := cu.CurrentStream(ctx)
		if err != nil {
			return err
		}
		cfg := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}
		if err := spin.Launch(s, cfg, cu.U64(1000)); err != nil {
			return err
		}
		return done.RecordCurrent(ctx)
	}
	var done cu.Event
	defer done.Close()
	fmt.Println(errors.Is(step(ctx, &done), cu.ErrNoCurrentStream))
	fmt.Println(step(cu.WithStream(ctx, s), &done))
}

func ExampleEvent_RecordOnce() {
	var first cu.Event
	defer first.Close()
	for range 3 {
		if err := first.RecordOnce(s); err != nil { // the first time
			log.Fatal(err)
		}
	}
}

// Two buffers, of which one is filled while the other one is used, exchange their events.
func ExampleEvent_MoveTo() {
	var front, back cu.Event
	defer front.Close()
	defer back.Close()
	if err := back.Record(s); err != nil {
		log.Fatal(err)
	}
	key := back.Key()
	if err := back.MoveTo(&front); err != nil {
		log.Fatal(err)
	}
	fmt.Println(front.Key() == key, back.Created())
}

// What is known about events, by their keys.
func ExampleEventKey() {
	names := map[cu.EventKey]string{}
	e, err := s.RecordNew(cu.EventDisableTiming)
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	names[e.Key()] = "upload"
	fmt.Println(names[e.Key()])
}

func ExampleStream_RecordNew() {
	done, err := s.RecordNew(cu.EventDisableTiming)
	if err != nil {
		log.Fatal(err)
	}
	defer done.Close()
	if err := done.Wait(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("done")
}

// A stream for work that comes now and then. There are 32 of a priority, which take
// turns.
func ExampleContext_PoolStream() {
	s, err := gpu.PoolStream(0)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close() // ends the use of the value; the stream stays
	cfg := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}
	if err := spin.Launch(s, cfg, cu.U64(1000)); err != nil {
		log.Fatal(err)
	}
	if err := s.Synchronize(); err != nil {
		log.Fatal(err)
	}
	fmt.Println("the kernel has run")
}

// An event for a moment, which need not be created and destroyed each time.
func ExampleEventPool() {
	pool, err := gpu.EventPool()
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	for range 3 {
		copied, err := pool.Acquire()
		if err != nil {
			log.Fatal(err)
		}
		if err := copied.Record(other); err != nil {
			log.Fatal(err)
		}
		if err := s.WaitEvent(copied); err != nil { // the stream waits for it
			log.Fatal(err)
		}
		if err := copied.Release(); err != nil { // its wait goes on
			log.Fatal(err)
		}
	}
	st := pool.Stats()
	fmt.Println(st.Acquired, "acquired,", st.Created, "created,", st.InUse, "in use")
}

// A number stands for the event where a value of Go cannot go.
func ExampleEventPool_ByID() {
	pool, err := gpu.EventPool()
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	e, err := pool.Acquire()
	if err != nil {
		log.Fatal(err)
	}
	id := e.ID()
	same, err := pool.ByID(id)
	fmt.Println(same.ID() == id, err, same.Release())
	_, err = pool.ByID(id)
	fmt.Println(errors.Is(err, cu.ErrReleased))
}
