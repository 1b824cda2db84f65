package ptxrandom

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

func TestSelf(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	gpu, err := simulated()
	if err != nil {
		t.Fatal(err)
	}
	sim, err := simulated()
	if err != nil {
		t.Fatal(err)
	}
	last := uint64(0)
	go func() {
		for {
			a := last
			time.Sleep(5 * time.Second)
			if a == last {
				b := newBatch(generate(last))
				fmt.Println("hangs", last, b.text)
			}
		}
	}()
	pr := &pairOf{gpu: gpu, sim: sim, known: make(map[verdict]string), begin: func(s uint64) { last = s }}
	begun := time.Now()
	uses := make(map[string]int)
	for from := uint64(1); from < 3200; from += 32 {
		rep := pr.run(from, from+32)
		for _, d := range rep.Differences {
			t.Logf("%+v", d)
		}
		for k, n := range rep.Uses {
			uses[k] += n
		}
		if rep.Died {
			t.Fatal("died")
		}
	}
	t.Log(time.Since(begun))
	for _, row := range rowsUsed() {
		t.Logf("%5d %s", uses[row], row)
	}
}
