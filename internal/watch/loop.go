package watch

import (
	"time"

	"github.com/purecu/purecu/internal/explore"
)

// How the watcher asks. After news, which are a new wait or an outcome, it asks again and again
// for spin, less SelfPoll for a lone waiter, and lets others run in between. Then it sleeps
// between two rounds. When there are no news for Long, what has been waited for as long is armed.
// When all is armed it looks at everything every Slow, as no stream notifies after a sticky error,
// and every Behind where some waits cannot be armed, as too many others are.
const (
	spin   = 2 * time.Millisecond
	Long   = 4 * time.Millisecond
	Slow   = 50 * time.Millisecond
	Behind = 20 * time.Millisecond
	// deaf is how long a sleep may be from which a new wait does not wake the watcher.
	deaf = 100 * time.Microsecond
	// For maxRush rounds with outcomes the watcher does not let others run in between: there may
	// be other processors, which wake up meanwhile.
	maxRush = 8
)

// The watcher takes one part of maxShare of a processor: what it has not taken it may take later,
// up to maxSaved. Once half of that is used up it sleeps long enough to stay within its share.
const (
	maxShare = 5
	maxSaved = 4 * time.Millisecond
)

// share is the time that the watcher's goroutine may take.
type share struct {
	saved time.Duration // beyond its share
	ended time.Time     // when the last goroutine did
}

// begin adds what was saved while no goroutine ran.
func (s *share) begin(now time.Time) {
	if s.ended.IsZero() {
		s.saved = maxSaved
	} else {
		s.saved = min(s.saved+now.Sub(s.ended)/maxShare, maxSaved)
	}
}

// use takes the time that a round took, of all that has passed.
func (s *share) use(took, passed time.Duration) {
	s.saved = max(min(s.saved-took+passed/maxShare, maxSaved), -maxSaved)
}

// rest returns how long to sleep after a round.
func (s *share) rest(took, sinceNews, spin time.Duration) time.Duration {
	if sinceNews < spin && s.saved > took {
		return 0
	}
	rest := max(soon.Sleep(sinceNews), old.Sleep(sinceNews))
	if s.saved <= max(took, maxSaved/2) { // what is left is for the next news
		rest = max(rest, (maxShare-1)*took)
	}
	return rest
}

// pace is what the watcher's goroutine knows from round to round.
type pace struct {
	began    time.Time // the round
	news     time.Time // the last ones
	all      time.Time // when everything was looked at
	armed    time.Time // when it was last looked for what to arm
	notified uint64    // how often streams had notified
	rush     int
}

// run is the watcher's goroutine.
func (w *Watcher) run() {
	r := &w.round
	w.mu.Lock()
	p := w.begin()
	for w.goesOn() {
		pause, hits := w.enter(&p)
		w.mu.Unlock()

		w.deliver(r, false)
		hits += w.ask(r)
		now := w.clock.Now()
		if hits > 0 {
			p.news = now
		}
		if now.Sub(p.armed) >= Long/4 && now.Sub(p.news) >= Long {
			p.armed = now
			w.arm(r, now)
		}
		took := now.Sub(p.began)
		rest := time.Duration(0)
		switch {
		case hits > 0:
		case r.asleep && !r.again:
			rest = pause
		default:
			rest = w.share.rest(took, now.Sub(p.news), w.spin())
		}
		rest = w.leave(rest)
		w.sleep(&p, rest, hits)
		again := w.clock.Now()
		if rest == 0 {
			took += min(again.Sub(now), took) // what others have had of it is not ours
		}
		w.share.use(took, again.Sub(p.began))
		p.began = again
		w.mu.Lock()
		w.loop.rest = 0
	}
	r.reset()
	w.loop.dead = emptied(w.loop.dead)
	w.loop.running, w.share.ended = false, p.began
	w.mu.Unlock()
}

// spin returns for how long to ask again and again.
func (w *Watcher) spin() time.Duration {
	if w.waiters.Load() == 1 { // it has polled for itself before, most likely
		return spin - SelfPoll
	}
	return spin
}

// begin is called with the lock.
func (w *Watcher) begin() pace {
	if w.notifier == nil {
		w.notifier = w.source.NewNotifier()
	}
	now := w.clock.Now()
	w.share.begin(now)
	return pace{began: now, news: now, all: now, armed: now, notified: w.notifier.Notified()}
}

// goesOn reports whether the goroutine has something to wait for. If it has not, what the system
// is needed for was given back, which is done without the lock.
func (w *Watcher) goesOn() bool {
	b := BackOff{Policy: Brief, Clock: w.clock}
	defer b.End()
	for w.set.idle() {
		w.mu.Unlock()
		closed := w.notifier.Close()
		if !closed { // a stream uses it just now
			b.Wait()
		}
		w.mu.Lock()
		if closed && w.set.idle() {
			return false
		}
	}
	return true
}

// enter begins a round, and returns how long to sleep if all is armed, and how many waits for
// counters in memory are over. The lock is held.
func (w *Watcher) enter(p *pace) (pause time.Duration, hits int) {
	r, s := &w.round, &w.set
	if w.loop.news {
		w.loop.news, p.news = false, p.began
	}
	pause = Slow
	if len(w.armed.list) < s.n {
		pause = Behind
	}
	n := w.notifier.Notified()
	notified, all := n != p.notified || r.again || w.armed.missed, p.began.Sub(p.all) >= pause
	if p.notified = n; all {
		p.all, w.armed.scarce = p.began, false // streams may have been closed
	}
	for i := len(s.words) - 1; i >= 0; i-- { // those that are forgotten come later, or are this one
		hits += w.endReached(&r.notices, s.words[i])
	}
	r.checks = r.checks[:0]
	if all {
		for _, c := range s.words {
			if c.checking.CompareAndSwap(false, true) {
				c.word.Retain() // who waits has a call in flight
				w.late.Add(1)
				r.checks = append(r.checks, c)
			}
		}
	}
	w.armed.gap, w.armed.missed = false, false
	w.gather(r, notified, all)
	w.loop.asking = true
	return pause, hits
}

// leave ends a round, and releases what was kept for it. It returns how long to sleep.
func (w *Watcher) leave(rest time.Duration) time.Duration {
	r, l := &w.round, &w.loop
	w.mu.Lock()
	l.asking = false
	r.dead, l.dead = l.dead, r.dead[:0]
	if l.news || w.armed.gap || w.armed.missed || w.set.idle() || w.exposures.Load() != r.basis.exposures {
		rest = 0
	}
	l.rest = rest
	w.mu.Unlock()
	w.release(r.dead)
	clear(r.dead)
	return rest
}

// sleep lets others run, or sleeps until somebody notifies.
func (w *Watcher) sleep(p *pace, rest time.Duration, hits int) {
	if hits > 0 && p.rush < maxRush {
		p.rush++
		return
	}
	if rest == 0 || p.rush > 0 { // those that were woken may have no other processor
		explore.Gosched()
	}
	if p.rush = 0; rest > 0 {
		w.notifier.Wait(rest)
	}
}
