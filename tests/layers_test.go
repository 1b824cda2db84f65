package tests

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// A group is a part of package cu that shall become a package of its own.
type group struct {
	name  string
	uses  []string // the groups that its files may use
	files string
}

// groups are the parts of package cu, in the order of their use. A file that is in no list belongs to the core if its
// name ends in core.go, and to the heart otherwise.
var groups = []group{
	{"core", nil, `
		batcherror.go capturegate.go capturejoin.go deferred.go enqueue.go errordoc.go errors.go eventcache.go
		fatalerrors.go flags.go lifetime.go norace.go objectset.go observer.go ownership.go record.go resource.go slot.go
		streammark.go streamset.go streamtail.go timelinememory.go trace.go wakeups.go watchsource.go`},
	{"heart", []string{"core"}, ""},
	{"graph", []string{"core", "heart"}, `
		capture.go graph.go graphalloc.go graphalloccore.go graphcond.go graphcondcore.go graphcore.go graphedge.go
		graphedgecore.go graphedit.go graphexec.go graphexeccore.go graphfamily.go graphkernel.go graphkernels.go
		graphmemory.go graphnode.go graphobjects.go graphsync.go graphupdate.go graphwork.go`},
	{"memory", []string{"core", "heart"}, `
		ipcmem.go managed.go mempool.go mempoolhost.go mempoolipc.go mempoolopenedcore.go peer.go
		physicalmem.go pointer.go virtualcore.go virtualmem.go wrapmem.go`},
	{"interop", []string{"core", "heart"}, `eglsync.go external.go externalsem.go`},
	{"green", []string{"core", "heart"}, `green.go greencore.go smgroups.go workqueues.go`},
	{"checkpoint", []string{"core", "heart"}, `process.go`},
}

// TestLayers checks what the groups of package cu use of each other: whoever changes the core reads the core only.
func TestLayers(t *testing.T) {
	of := map[string]group{}
	for _, g := range groups {
		for _, f := range strings.Fields(g.files) {
			of[f] = g
		}
	}
	wrong := map[string]bool{}
	p := loadSource(t, "cu")
	for f := range of {
		if p.files[f] == nil {
			t.Errorf("there is no cu/%s: remove it from groups", f)
		}
	}
	groupOf := func(file string) group {
		g, ok := of[file]
		switch {
		case ok:
			return g
		case strings.HasSuffix(file, "core.go"):
			return groups[0]
		}
		return groups[1]
	}
	for name := range p.files {
		for o := range p.usedIn(name) {
			to := p.fileOf(o.Pos())
			if a, b := groupOf(name), groupOf(to); p.files[to] != nil && a.name != b.name && !slices.Contains(a.uses, b.name) {
				wrong[a.name+" "+name+" uses "+o.Name()+" of "+b.name+" "+to] = true
			}
		}
	}
	for _, use := range slices.Sorted(maps.Keys(wrong)) {
		t.Errorf("%s: move one of the two, or let the core call it by an interface", use)
	}
}
