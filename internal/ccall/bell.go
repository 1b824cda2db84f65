package ccall

import "time"

// channelBell is a bell that C cannot ring.
type channelBell struct{ c chan struct{} }

func (b *channelBell) make() { b.c = make(chan struct{}, 1) }

func (b *channelBell) ring() {
	select {
	case b.c <- struct{}{}:
	default:
	}
}

func (b *channelBell) wait(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-b.c:
	case <-t.C:
	}
}
