package watch

import (
	"time"

	"github.com/purecu/purecu/internal/explore"
)

// The times of the watcher's loop. News are a new wait or an outcome. After news the watcher makes
// rounds without a pause for spin (less SelfPoll if there is one waiter), and yields between them.
// Then it sleeps between rounds. After Long without news it arms the waits that have lasted for
// Long. When the first wait of each counter is armed, it queries everything every Slow, as no
// stream notifies after a sticky error. If another wait is not armed, it does so every Behind.
const (
	spin   = 2 * time.Millisecond
	Long   = 4 * time.Millisecond
	Slow   = 50 * time.Millisecond
	Behind = 20 * time.Millisecond
	// unwoken is the longest sleep that a new wait does not end.
	unwoken = 100 * time.Microsecond
	// maxUnyielded is how many rounds with outcomes follow each other before the watcher yields. The
	// goroutines that it has woken may run on other processors meanwhile.
	maxUnyielded = 8
)

// The watcher uses at most 1/maxShare of a processor. It saves up to maxSaved of the time that it
// has not used, for later. Once it has used half of maxSaved, it sleeps long enough to stay within
// its share.
const (
	maxShare = 5
	maxSaved = 4 * time.Millisecond
)

// share accounts for the processor time that the watcher's goroutine may use.
type share struct {
	saved time.Duration // time that it may use beyond its share
	ended time.Time     // when the last goroutine ended
}

// begin adds the time that was saved while no goroutine ran.
func (s *share) begin(now time.Time) {
	if s.ended.IsZero() {
		s.saved = maxSaved
	} else {
		s.saved = min(s.saved+now.Sub(s.ended)/maxShare, maxSaved)
	}
}

// use subtracts the time that a round took, and adds the share of the time that has passed.
func (s *share) use(took, passed time.Duration) {
	s.saved = max(min(s.saved-took+passed/maxShare, maxSaved), -maxSaved)
}

// rest returns how long to sleep after a round.
func (s *share) rest(took, sinceNews, spin time.Duration) time.Duration {
	if sinceNews < spin && s.saved > took {
		return 0
	}
	rest := max(soon.Sleep(sinceNews), old.Sleep(sinceNews))
	if s.saved <= max(took, maxSaved/2) { // the rest is kept for the next news
		rest = max(rest, (maxShare-1)*took)
	}
	return rest
}

// pace holds the times and counts that the watcher's goroutine keeps from round to round.
type pace struct {
	began     time.Time // when the round began
	news      time.Time // when the last news came
	all       time.Time // when everything was queried
	armed     time.Time // when waits were last armed
	notified  uint64    // how often streams had notified
	unyielded int       // rounds with outcomes since the last yield
}

// run is the watcher's goroutine.
func (w *Watcher) run() {
	r := &w.round
	w.mu.Lock()
	p := w.begin()
	for w.goesOn() {
		pause, hits := w.beginRound(&p)
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
		rest = w.endRound(rest)
		w.sleep(&p, rest, hits)
		again := w.clock.Now()
		if rest == 0 {
			took += min(again.Sub(now), took) // the rest of the time was used by other goroutines
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

// spin returns for how long to make rounds without a pause.
func (w *Watcher) spin() time.Duration {
	if w.waiters.Load() == 1 { // the one waiter has most likely polled before
		return spin - SelfPoll
	}
	return spin
}

// begin prepares the goroutine's first round. The lock is held.
func (w *Watcher) begin() pace {
	if w.notifier == nil {
		w.notifier = w.source.NewNotifier()
	}
	now := w.clock.Now()
	w.share.begin(now)
	return pace{began: now, news: now, all: now, armed: now, notified: w.notifier.Notified()}
}

// goesOn reports whether the goroutine has something to wait for. If not, it has closed the
// notifier, for which it releases the lock.
func (w *Watcher) goesOn() bool {
	b := BackOff{Policy: Brief, Clock: w.clock}
	defer b.End()
	for w.set.idle() {
		w.mu.Unlock()
		closed := w.notifier.Close()
		if !closed { // a stream is using it
			b.Wait()
		}
		w.mu.Lock()
		if closed && w.set.idle() {
			return false
		}
	}
	return true
}

// beginRound begins a round, and returns how long to sleep if all first waits are armed, and how many
// waits for counters in memory have ended. The lock is held.
func (w *Watcher) beginRound(p *pace) (pause time.Duration, hits int) {
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
	for i := len(s.words) - 1; i >= 0; i-- { // backwards, as endReached may remove the counter at i
		hits += w.endReached(&r.notices, s.words[i])
	}
	r.checks = r.checks[:0]
	if all {
		for _, c := range s.words {
			if c.checking.CompareAndSwap(false, true) {
				c.word.Retain() // possible, as every waiter has a call in flight
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

// endRound ends a round, and releases the items that were kept for it. It returns how long to sleep.
func (w *Watcher) endRound(rest time.Duration) time.Duration {
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

// sleep yields, or sleeps until rest is over or the notifier is notified.
func (w *Watcher) sleep(p *pace, rest time.Duration, hits int) {
	if hits > 0 && p.unyielded < maxUnyielded {
		p.unyielded++
		return
	}
	if rest == 0 || p.unyielded > 0 { // goroutines that were woken may have no other processor
		explore.Gosched()
	}
	if p.unyielded = 0; rest > 0 {
		w.notifier.Wait(rest)
	}
}
