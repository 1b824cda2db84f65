// Package copies copies what must not be copied, for go vet to find.
package copies

import "github.com/purecu/purecu/cu"

// Copy copies one of each.
func Copy(e *cu.Event, s *cu.Stream, c *cu.Context, t *cu.Ticket, p *cu.EventPool, d *cu.Driver) {
	e2, s2, c2, t2, p2, d2 := *e, *s, *c, *t, *p, *d
	_, _, _, _, _, _ = &e2, &s2, &c2, &t2, &p2, &d2
}
