//go:build explore

package handle

import (
	"bufio"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var mutate = flag.Bool("handle.mutate", false, "remove or weaken each operation, and test whether the programs find the fault")

// A mutation is a change of the package that removes or weakens an operation. The programs have to
// find the fault, unless harmless says why the change is none.
type mutation struct {
	file, old, new string
	harmless       string
}

const (
	refs, records, users, kept = "refs.go", "records.go", "users.go", "kept.go"
	onlyWhere                  = "it destroys the object on another goroutine, which is always right"
	takeLooks                  = "take reads the same word; the check only avoids most calls of take"
)

// Additions that are not atomic: a load and a store.
const (
	tornAddRefs = "func() int64 { n := r.word.Load() + (refOne); r.word.Store(n); return n }()"
	tornAddGen  = "func() uint64 { n := r.gen.Load() + (genOne + 1); r.gen.Store(n); return n }()"
)

var mutations = []mutation{
	// Refs
	{refs, "return r.word.Add(refOne)&refClosed == 0 || r.undo(o)", "return r.word.Add(refOne) != 0 || r.undo(o)", ""},
	{refs, "return r.word.Add(refOne)&refClosed == 0 || r.undo(o)", "return r.word.Add(refOne)&refClosed == 0 || false", ""},
	{refs, "return r.word.Add(refOne)&refClosed == 0 || r.undo(o)", "return " + tornAddRefs + "&refClosed == 0 || r.undo(o)", ""},
	{refs, "return r.word.Add(refOne)&refClosed == 0 || r.undo(o)",
		"return r.word.Load()&refClosed == 0 && r.word.Add(refOne) != 0", ""},
	{refs, "if r.word.Add(refOne)&refClosed != 0 {", "if r.word.Add(refOne) == 0 {", ""},
	{refs, "if r.word.Add(refOne)&refClosed != 0 {", "if " + tornAddRefs + "&refClosed != 0 {", ""},
	{refs, "	r.undo(o)\n	return o.Refused(op)", "	return o.Refused(op)", ""},
	{refs, "	if r.drop() {\n		r.last(o, true)", "	if r.drop() && false {\n		r.last(o, true)", ""},
	{refs, "	if r.drop() {\n		r.last(o, true)", "	if r.drop(); true {\n		r.last(o, true)", takeLooks},
	{refs, "	if r.drop() {\n		r.last(o, true)", "	if r.drop() {\n		r.last(o, false)", ""},
	{refs, "func (r *Refs) Retain() { r.word.Add(refOne) }", "func (r *Refs) Retain() {}", ""},
	{refs, "func (r *Refs) Retain() { r.word.Add(refOne) }", "func (r *Refs) Retain() { " + tornAddRefs + " }", ""},
	{refs, "	if r.drop() {\n		r.last(o, false)", "	if r.drop() && false {\n		r.last(o, false)", ""},
	{refs, "	if r.drop() {\n		r.last(o, false)", "	if r.drop(); true {\n		r.last(o, false)", takeLooks},
	{refs, "	if r.drop() {\n		r.last(o, false)", "	if r.drop() {\n		r.last(o, true)", onlyWhere},
	{refs, "	if r.take() {\n		o.Last(later)", "	if r.take(); true {\n		o.Last(later)", ""},
	{refs, "return first, idle && r.take()", "return first, idle", ""},
	{refs, "return first, idle && r.take()", "return first, (idle || true) && r.take()", takeLooks},
	{refs, "return first, idle && r.take()", "return first, false && idle", ""},
	{refs, "func (r *Refs) Closed() bool { return r.word.Load()&refClosed != 0 }", "func (r *Refs) Closed() bool { return false }", ""},
	{refs, "func (r *Refs) Closed() bool { return r.word.Load()&refClosed != 0 }", "func (r *Refs) Closed() bool { return true }", ""},
	{refs, "return int(r.word.Load() & (refGated - 1) / refOne)", "return int(r.word.Load() & (refGated - 1))", ""},
	{refs, "return int(r.word.Load() & (refGated - 1) / refOne)", "return int(r.word.Load() / refOne)", ""},
	{refs, "return r.word.Load()&(refGated-1)&^refTurn == refOne", "return r.word.Load() >= refOne", ""},
	{refs, "return r.word.Load()&(refGated-1)&^refTurn == refOne", "return r.word.Load()&^refTurn == refOne", ""},
	{refs, "return r.word.Add(refOne+refGated)&refClosed == 0 || r.undoGated(o)",
		"return r.word.Add(refOne+refGated) != 0 || r.undoGated(o)", ""},
	{refs, "return r.word.Add(refOne+refGated)&refClosed == 0 || r.undoGated(o)",
		"return r.word.Add(refOne+refGated)&refClosed == 0 || false", ""},
	{refs, "return r.word.Add(refOne+refGated)&refClosed == 0 || r.undoGated(o)",
		"return r.word.Add(refOne)&refClosed == 0 && r.word.Add(refGated) != 0 || r.undoGated(o)", ""},
	{refs, "return r.word.Add(refOne+refGated)&refClosed == 0 || r.undoGated(o)",
		"return " + strings.Replace(tornAddRefs, "(refOne)", "(refOne + refGated)", 1) +
			"&refClosed == 0 || r.undoGated(o)", ""},
	{refs, "	r.word.Add(-refGated)\n", "", ""},
	{refs, "	r.word.Add(-refGated)\n", "	r.word.Store(r.word.Load() - refGated)\n", ""},
	{refs, "	r.word.Add(-refGated)\n	return r.undo(o)", "	r.word.Add(-refGated)\n	return false", ""},
	{refs, "if r.word.Add(-refOne-refGated) == refClosed {", "if r.word.Add(-refOne-refGated); true {", takeLooks},
	{refs, "if r.word.Add(-refOne-refGated) == refClosed {", "if r.word.Add(-refOne) == refClosed {", ""},
	{refs, "if r.word.Add(-refOne-refGated) == refClosed {", "if r.word.Add(-refOne-refGated) == 0 {", ""},
	{refs, "if r.word.Add(-refOne-refGated) == refClosed {",
		"n := r.word.Load() - refOne - refGated\n	r.word.Store(n)\n	if n == refClosed {", ""},
	{refs, "return r.word.Load() >= refGated", "return false", ""},
	{refs, "return r.word.Load() >= refGated",
		"return r.word.Load() >= refOne", "others then wait for calls that are not gated, too"},
	{refs, "return r.word.Add(-refOne) == refClosed", "return r.word.Add(-refOne) < refOne", ""},
	{refs, "return r.word.Add(-refOne) == refClosed", "return r.word.Load() == refClosed", ""},
	{refs, "return r.word.Add(-refOne) == refClosed", "n := r.word.Load() - refOne\n	r.word.Store(n)\n	return n == refClosed", ""},
	{refs, "old := r.word.Or(refClosed)", "old := r.word.Load()\n	r.word.Store(old | refClosed)", ""},
	{refs, "old := r.word.Or(refClosed)", "old := r.word.Load()", ""},
	{refs, "return old&refClosed == 0, old == 0", "return true, old == 0", ""},
	{refs, "return old&refClosed == 0, old == 0", "return old&refClosed == 0, true", takeLooks},
	{refs, "return old&refClosed == 0, old == 0", "return old&refClosed == 0, false", ""},
	{refs, "return r.word.CompareAndSwap(refClosed, refClosed|refGone)", "r.word.Store(refClosed | refGone)\n	return true", ""},
	{refs, "return r.word.CompareAndSwap(refClosed, refClosed|refGone)", "return r.word.CompareAndSwap(refClosed, refClosed)", ""},
	{refs, "return r.word.CompareAndSwap(refClosed, refClosed|refGone)", "return r.word.Or(refGone)&refGone == 0", ""},
	{refs, "return r.word.CompareAndSwap(refClosed, refClosed|refGone)",
		"if r.word.Load() != refClosed {\n		return false\n	}\n	r.word.Store(refClosed | refGone)\n	return true", ""},

	// Records
	{records, "r.gen.Add(genOne+1)&genWorn == 0 && ", "r.gen.Add(genOne+1) != 0 && ", ""},
	{records, "r.gen.Add(genOne+1)&genWorn == 0 && ", "r.gen.Add(1)&genWorn == 0 && ", ""},
	{records, "r.gen.Add(genOne+1)&genWorn == 0 && ", "r.gen.Add(genOne)&genWorn == 0 && ", ""},
	{records, "r.gen.Add(genOne+1)&genWorn == 0 && ", tornAddGen + "&genWorn == 0 && ", ""},
	{records, " && r.waits.Load() == 0 && ", " && ", ""},
	{records, " && r.waits.Load() == 0 && !r.calls.Closed()\n", " && r.waits.Load() == 0\n", ""},
	{records, "return r.TryBegin() || r.BeginSlow(o)", "return r.TryBegin()", ""},
	{records, "return r.gen.Add(genOne+1)&genWorn == 0 && r.waits.Load() == 0",
		"return r.waits.Load() == 0 && r.gen.Add(genOne+1)&genWorn == 0", ""},
	{records, "return r.gen.Add(genOne+1)&genWorn == 0 && r.waits.Load() == 0 && !r.calls.Closed()",
		"shut := r.calls.Closed()\n	return r.gen.Add(genOne+1)&genWorn == 0 && r.waits.Load() == 0 && !shut", ""},
	{records, "return r.gen.Add(genOne+1)&genWorn == 0 && r.waits.Load() == 0 && !r.calls.Closed()",
		"return r.gen.Add(genOne+1)&genWorn == 0 && !r.calls.Closed() && r.waits.Load() == 0", ""},
	{records, "if r.Stays() && !r.calls.Closed() {", "if r.Stays() {", ""},
	{records, "if r.Stays() && !r.calls.Closed() {", "if !r.calls.Closed() {", ""},
	{records, "if r.Stays() && !r.calls.Closed() {", "if false {", ""},
	{records, "if r.Stays() && !r.calls.Closed() {", "if !r.calls.Closed() && r.Stays() {", ""},
	{records, "	if r.TryEnd() {\n		r.last(o, true)\n", "	if false {\n		r.last(o, true)\n", ""},
	{records, "	if r.TryEnd() {\n		r.last(o, true)\n",
		"	if r.TryEnd() {\n		r.last(o, false)\n", ""},
	{records, "	if r.TryEnd() {\n		r.last(o, true)\n",
		"	if r.TryEnd(); true {\n		r.last(o, true)\n", takeLooks},
	{records, "{ r.last(o, false) }", "{ r.last(o, true) }", onlyWhere},
	{records, "{ r.last(o, false) }", "{}", ""},
	{records, "	if r.TryEnd() {\n		r.EndLast(o)\n", "	if false {\n		r.EndLast(o)\n", ""},
	{records, "	if r.TryEnd() {\n		r.EndLast(o)\n", "	if r.TryEnd(); true {\n		r.EndLast(o)\n", ""},
	{records, "	r.gen.Add(^uint64(0))\n", "", ""},
	{records, "	r.gen.Add(^uint64(0))\n", "	r.gen.Store(r.gen.Load() - 1)\n", ""},
	{records, "	r.gen.Add(^uint64(0))\n	return r.calls.Closed()\n",
		"	shut := r.calls.Closed()\n	r.gen.Add(^uint64(0))\n	return shut\n", ""},
	{records, "return r.calls.word.Add(refOne)&refClosed == 0 || r.undo(o)", "return r.calls.word.Add(refOne) != 0 || r.undo(o)", ""},
	{records, "return r.calls.word.Add(refOne)&refClosed == 0 || r.undo(o)", "return r.calls.word.Add(refOne)&refClosed == 0 || false", ""},
	{records, "	r.release(o, true)\n	return false", "	return false", ""},
	{records, "	r.release(o, true)\n	return false", "	r.release(o, false)\n	return false", ""},
	{records, "func (r *Records) Retain() { r.calls.Retain() }", "func (r *Records) Retain() {}", ""},
	{records, "	if r.calls.drop() {\n		r.last(o, false)", "	if r.calls.drop() {\n		r.last(o, true)", onlyWhere},
	{records, "	if r.calls.drop() {\n		r.last(o, false)", "	if r.calls.drop(); true {\n		r.last(o, false)", ""},
	{records, "	if r.calls.drop() {\n		r.last(o, false)", "	if r.calls.drop() && false {\n		r.last(o, false)", ""},
	{records, "func (r *Records) ReleaseLater(o Owner) { r.release(o, true) }", "func (r *Records) ReleaseLater(o Owner) { r.release(o, false) }", ""},
	{records, "	if r.calls.drop() {\n		r.last(o, later)", "	if r.calls.drop(); true {\n		r.last(o, later)", ""},
	{records, "	if r.calls.drop() {\n		r.last(o, later)", "	if r.calls.drop() && false {\n		r.last(o, later)", ""},
	{records, "return idle && r.take()", "return (idle || true) && r.take()", takeLooks},
	{records, "return idle && r.take()", "return idle", ""},
	{records, "return idle && r.take()", "return false && idle", ""},
	{records, "	if r.take() {\n		o.Last(later)", "	if r.take(); true {\n		o.Last(later)", ""},
	{records, "return r.gen.Load()&genBusy == 0 && r.calls.take()", "return r.calls.take()", ""},
	{records, "return r.gen.Load()&genBusy == 0 && r.calls.take()", "return r.calls.take() && r.gen.Load()&genBusy == 0", ""},
	{records, "return r.gen.Load()&genBusy == 0 && r.calls.take()", "return r.gen.Load()&genBusy == 0", ""},
	{records, "return r.calls.word.Load() == 0 && r.gen.Load()&genBusy == 0 && !r.Exposed()", "return r.gen.Load()&genBusy == 0 && !r.Exposed()", ""},
	{records, "return r.calls.word.Load() == 0 && r.gen.Load()&genBusy == 0 && !r.Exposed()", "return r.calls.word.Load() == 0 && !r.Exposed()", ""},
	{records, "return r.calls.word.Load() == 0 && r.gen.Load()&genBusy == 0 && !r.Exposed()", "return r.calls.word.Load() == 0 && r.gen.Load()&genBusy == 0", ""},
	{records, "{ r.waits.Add(1) }", "{}", ""},
	{records, "{ r.waits.Add(1) }", "{ r.waits.Store(r.waits.Load() + 1) }", ""},
	{records, "{ r.waits.Add(-1) }", "{}", ""},
	{records, "{ r.waits.Add(-1) }", "{ r.waits.Store(r.waits.Load() - 1) }", ""},
	{records, "return r.waits.Load() != 0", "return false", ""},
	{records, "return int(r.waits.Load())", "return 1", ""},
	{records, "return r.Exposed() || !r.HasWaits() && !r.Worn()", "return !r.HasWaits() && !r.Worn()", ""},
	{records, "return r.Exposed() || !r.HasWaits() && !r.Worn()", "return r.Exposed() || !r.Worn()", ""},
	{records, "return r.Exposed() || !r.HasWaits() && !r.Worn()", "return r.Exposed() || !r.HasWaits()", ""},
	{records, "return r.gen.Load()&genWorn != 0", "return false", ""},
	{records, "return Gen(r.gen.Load())", "return Gen(genOne)", ""},
	{records, "return r.gen.Load() == 0 && !r.Exposed()", "return r.gen.Load() == 0", ""},
	{records, "return r.gen.Load() == 0 && !r.Exposed()", "return !r.Exposed()", ""},
	{records, "{ r.gen.Add(n * genOne) }", "{}", ""},
	{records, "g := r.gen.Load()\n	return g", "g := r.done.Load()\n	return g", ""},
	{records, "return g != 0 && r.done.Load() == g && !r.Exposed()", "return r.done.Load() == g && !r.Exposed()", ""},
	{records, "return g != 0 && r.done.Load() == g && !r.Exposed()", "return g != 0 && r.done.Load() != 0 && !r.Exposed()", ""},
	{records, "return g != 0 && r.done.Load() == g && !r.Exposed()", "return g != 0 && r.done.Load() == g", ""},
	{records, "return g != 0 && r.done.Load() == g && !r.Exposed()", "return g != 0 && !r.Exposed() && r.done.Load() == g",
		"the query may come before the event is exposed"},
	{records, "if !g.Busy() {", "if g.Busy() {", ""},
	{records, "if !g.Busy() {", "if true {", "during a record the query may be answered before or after it: see Remember"},
	{records, "r.done.Store(uint64(g))", "r.done.Store(r.gen.Load())", ""},
	{records, "		r.done.Store(uint64(g))\n", "", ""},
	{records, "return r.bits.Load()&BitExposed != 0", "return false", ""},
	{records, "return r.bits.Load()&BitExposed != 0", "return r.bits.Load() != 0", ""},
	{records, "{ r.bits.Or(bits) }", "{ r.bits.Store(r.bits.Load() | bits) }", ""},
	{records, "return r.bits.Load() }", "return 0 }", ""},
	{records, "{ r.bits.And(^bits) }", "{}", ""},
	{records, "{ r.bits.And(^bits) }", "{ r.bits.Store(0) }", ""},
	{records, "{ r.bits.And(^bits) }", "{ r.bits.Store(r.bits.Load() &^ bits) }",
		"nobody else changes the bits of an event that is unused"},

	// Kept
	{refs, "return r.drop() && r.take() }", "return r.drop() }", ""},
	{refs, "return r.drop() && r.take() }", "r.drop()\n	return r.take() }", takeLooks},
	{refs, "return r.drop() && r.take() }", "return r.drop() && false }", ""},
	{refs, "		w := r.word.Load()\n		if w&refClosed != 0 {", "		w := r.word.Load()\n		if false {", ""},
	{refs, "if r.word.CompareAndSwap(w, w+refOne|refClosed) {", "if r.word.Store(w + refOne | refClosed); true {", ""},
	{refs, "if r.word.CompareAndSwap(w, w+refOne|refClosed) {", "if r.word.CompareAndSwap(w, w+refOne) {", ""},
	{refs, "if r.word.CompareAndSwap(w, w+refOne|refClosed) {", "if r.word.CompareAndSwap(w, w|refClosed) {", ""},
	{refs, "return r.word.Load()&(refGated-1)&^refTurn == refOne",
		"return r.word.Load()&(refGated-1) == refOne",
		"no program makes a call with the turn and asks this: it only costs a sequence number"},
	{kept, "return r.word.CompareAndSwap(0, refOne|refTurn)", "return r.word.Load() == 0 && func() bool { r.word.Store(refOne | refTurn); return true }()", ""},
	{kept, "return r.word.CompareAndSwap(0, refOne|refTurn)", "return false", ""},
	{kept, "return r.word.CompareAndSwap(0, refOne|refTurn)", "return r.word.CompareAndSwap(0, refOne)", ""},
	{kept, "if !r.word.CompareAndSwap(refOne|refTurn, 0) {", "if r.word.Store(0); false {", ""},
	{kept, "if !r.word.CompareAndSwap(refOne|refTurn, 0) {", "if r.word.Add(-refOne - refTurn); false {", ""},
	{kept, "if !r.word.CompareAndSwap(refOne|refTurn, 0) {", "if r.word.Load() != refOne|refTurn {", ""},
	{kept, "	defer r.Release(o)\n	for", "	for", ""},
	{kept, "if w := r.word.Load(); r.word.CompareAndSwap(w, w&^(refTurn|refAsked)) {", "if w := r.word.Load(); r.word.CompareAndSwap(w, w&^refTurn) {", ""},
	{kept, "if w := r.word.Load(); r.word.CompareAndSwap(w, w&^(refTurn|refAsked)) {", "if w := r.word.Load(); r.word.CompareAndSwap(w, w&^refAsked) {", ""},
	{kept, "if w := r.word.Load(); r.word.CompareAndSwap(w, w&^(refTurn|refAsked)) {",
		"if w := r.word.Load(); r.word.CompareAndSwap(w, w&(refGated-1)&^(refTurn|refAsked)) {", ""},
	{kept, "if w := r.word.Load(); r.word.CompareAndSwap(w, w&^(refTurn|refAsked)) {", "if w := r.word.Load(); func() bool { r.word.Store(w &^ (refTurn | refAsked)); return true }() {", ""},
	{kept, "	}\n	k.release()\n}", "	}\n}", ""},
	{kept, "return k.places[number%KeptPlaces].Load() == h", "return k.places[number%KeptPlaces].Load() != nil", ""},
	{kept, "return k.places[number%KeptPlaces].Load() == h", "return false", ""},
	{kept, "if old := place.Load(); old != nil {", "if old := place.Load(); false {", ""},
	{kept, "if old := place.Load(); old != nil {", "if old := place.Load(); true {", ""},
	{kept, "%keptPatience != 0 {", "%keptPatience != 0 || true {", ""},
	{kept, "%keptPatience != 0 {", "%keptPatience == 0 {", ""},
	{kept, "		k.Drop(r, old, number)", "		// ", ""},
	{kept, "	h.Retain()\n	place", "	place", ""},
	{kept, "	h.Retain()\n	place.Store(h)", "	place.Store(h)\n	h.Retain()",
		"whoever takes the handle out of the place releases it at the end of the turn"},
	{kept, "	place.Store(h)\n", "", ""},
	{kept, "if h.Closed() && place.CompareAndSwap(h, nil) {", "if false {", ""},
	{kept, "if h.Closed() && place.CompareAndSwap(h, nil) {", "if place.CompareAndSwap(h, nil) {", ""},
	{kept, "if h.Closed() && place.CompareAndSwap(h, nil) {", "if h.Closed() {", ""},
	{kept, "		h.Leave()\n		return false", "		return false", ""},
	{kept, "		h.Leave()\n		return false", "		h.Leave()\n		return true", ""},
	{kept, "if !k.places[number%KeptPlaces].CompareAndSwap(h, nil) {", "if k.places[number%KeptPlaces].Load() != h {", ""},
	{kept, "if !k.places[number%KeptPlaces].CompareAndSwap(h, nil) {", "if true {", ""},
	{kept, "if !k.places[number%KeptPlaces].CompareAndSwap(h, nil) {", "if k.places[number%KeptPlaces].Swap(nil) != h {", ""},
	{kept, "		n.next = k.dropped.Load()\n", "		n.next = nil\n", ""},
	{kept, "if k.dropped.CompareAndSwap(n.next, n) {", "if k.dropped.Store(n); true {", ""},
	{kept, "if r.word.Load()&refTurn == 0 {", "if true {", ""},
	{kept, "if r.word.Load()&refTurn == 0 {", "if false {", "the second look at the turn releases the handle"},
	{kept, "	n.handle.Store(h)\n", "", ""},
	{kept, "		w := r.word.Load()\n		if w&refTurn == 0 {", "		w := r.word.Load()\n		if false {", ""},
	{kept, "			leaveNode[T, P](n) // the turn", "			// the turn", ""},
	{kept, "if h := n.handle.Swap(nil); h != nil {", "if h := n.handle.Load(); h != nil {", ""},
	{kept, "if h := n.handle.Swap(nil); h != nil {", "if h := n.handle.Swap(nil); false {", ""},
	{kept, "if r.word.CompareAndSwap(w, w|refAsked) {", "if true {", ""},
	{kept, "if r.word.CompareAndSwap(w, w|refAsked) {", "if r.word.Store(w | refAsked); true {", ""},
	{kept, "k.dropped.Swap(nil)", "k.dropped.Load()", "each node is released once; the list only grows"},
	{kept, "k.dropped.Swap(nil)", "func() *keptNode[T] { n := k.dropped.Load(); k.dropped.Store(nil); return n }()",
		"Drop releases the node of a handle that is lost, as no turn is in progress"},
	{kept, "{ leaveAll[T, P](k.dropped.Swap(nil)) }", "{ k.dropped.Swap(nil) }", ""},
	{kept, "		defer leaveAll[T, P](n.next)\n", "", ""},
	{kept, "if h := k.places[i].Swap(nil); h != nil {", "if h := k.places[i].Load(); h != nil {", ""},
	{kept, "if h := k.places[i].Swap(nil); h != nil {", "if h := k.places[i].Swap(nil); false {", ""},

	// Users
	{users, "n := u.n.Load()", "n := int64(1)", ""},
	{users, "		if n == 0 {", "		if n < 0 {", ""},
	{users, "u.n.CompareAndSwap(n, n+1)", "u.n.Add(1) != 0", ""},
	{users, "u.n.CompareAndSwap(n, n+1)", "func() bool { u.n.Store(n + 1); return true }()", ""},
	{users, "return u.n.Add(-1) == 0", "return u.n.Add(-1) < 0", ""},
	{users, "return u.n.Add(-1) == 0", "n := u.n.Load() - 1; u.n.Store(n); return n == 0", ""},
	{users, "return u.n.Load() == 0", "return true", ""},
	{users, "{ u.n.Add(1) }", "{}", ""},
	{users, "{ u.n.Add(1) }", "{ u.n.Store(1) }", "there is no user, as Hold has failed under the lock, and no goroutine adds one without the lock"},
}

// TestMutations runs the programs with each mutation.
func TestMutations(t *testing.T) {
	if !*mutate {
		t.Skip("takes minutes: see make explore")
	}
	sources := map[string]string{}
	hit := map[string]bool{} // the lines that a mutation changes
	for _, m := range mutations {
		src, ok := sources[m.file]
		if !ok {
			data, err := os.ReadFile(m.file)
			if err != nil {
				t.Fatal(err)
			}
			src = string(data)
			sources[m.file] = src
		}
		at := strings.Index(src, m.old)
		if at < 0 || strings.Count(src, m.old) != 1 {
			t.Errorf("%s has %q %d times", m.file, m.old, strings.Count(src, m.old))
			continue
		}
		first, last := strings.Count(src[:at], "\n"), strings.Count(src[:at+len(strings.TrimRight(m.old, "\n"))], "\n")
		for _, line := range strings.Split(src, "\n")[first : last+1] {
			hit[m.file+line] = true
		}
	}
	atomic := regexp.MustCompile(`\.(Load|Store|Add|And|Or|Swap|CompareAndSwap)\(`)
	for file, src := range sources {
		for line := range strings.Lines(src) {
			line = strings.TrimSuffix(line, "\n")
			if code, _, _ := strings.Cut(line, "//"); atomic.MatchString(code) && !hit[file+line] {
				t.Errorf("%s: no mutation changes %q", file, line)
			}
		}
	}
	if t.Failed() {
		return
	}
	for _, m := range mutations {
		name := m.file + ": " + m.old + " -> " + m.new
		t.Run(strings.Join(strings.Fields(name), " "), func(t *testing.T) {
			t.Parallel()
			out, failed := m.test(t, sources[m.file])
			switch {
			case strings.Contains(out, "[build failed]"):
				t.Fatalf("it does not compile:\n%s", out)
			case failed && m.harmless != "":
				t.Errorf("this should be harmless, as %s:\n%s", m.harmless, out)
			case !failed && m.harmless == "":
				t.Error("no program finds the fault")
			}
		})
	}
}

// test runs the programs with the mutation.
func (m mutation) test(t *testing.T, src string) (out string, failed bool) {
	dir := t.TempDir()
	changed, overlay := filepath.Join(dir, m.file), filepath.Join(dir, "overlay.json")
	path, err := filepath.Abs(m.file)
	if err != nil {
		t.Fatal(err)
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{changed: strings.Replace(src, m.old, m.new, 1), overlay: string(replace)} {
		if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "test", "-vet=off", "-count=1", "-failfast", "-tags=explore", "-overlay="+overlay, "-run=^TestPrograms$", ".")
	data, err := cmd.CombinedOutput()
	scanner, kept := bufio.NewScanner(strings.NewReader(string(data))), []string{}
	for scanner.Scan() && len(kept) < 40 {
		kept = append(kept, scanner.Text())
	}
	return strings.Join(kept, "\n"), err != nil
}
