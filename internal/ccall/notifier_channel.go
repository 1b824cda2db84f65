package ccall

import "time"

// channelNotifier is a notifier without a file descriptor. C cannot notify it.
type channelNotifier struct{ c chan struct{} }

func (n *channelNotifier) make() { n.c = make(chan struct{}, 1) }

func (n *channelNotifier) notify() {
	select {
	case n.c <- struct{}{}:
	default:
	}
}

func (n *channelNotifier) wait(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-n.c:
	case <-t.C:
	}
}
