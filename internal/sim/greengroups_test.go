package sim

import (
	"slices"
	"testing"

	"github.com/purecu/purecu/driver"
)

// TestSMGroups splits multiprocessors into groups, and creates descriptors of the parts.
func TestSMGroups(t *testing.T) {
	const bad, odd = driver.ResultInvalidResourceConfiguration, driver.ResultInvalidValue
	const backfill = driver.CU_DEV_SM_RESOURCE_GROUP_BACKFILL
	type group = driver.DevSmResourceGroupParams
	d := New(Version(13010))
	d.Init(nil, 0)
	all, r := d.DeviceGetDevResource(nil, 0, driver.CU_DEV_RESOURCE_TYPE_SM)
	if r != ok {
		t.Fatal(r)
	}
	for _, c := range []struct {
		what   string
		groups []group
		want   driver.Result
		sizes  []uint32 // of the parts, and of what is left
	}{
		{"as many as there are", []group{{}}, ok, []uint32{128, 4}},
		{"ten", []group{{SmCount: 10, CoscheduledSmCount: 2}}, ok, []uint32{10, 122}},
		{"all others, too", []group{{SmCount: 8, CoscheduledSmCount: 4}, {CoscheduledSmCount: 2, Flags: backfill}},
			ok, []uint32{8, 124, 0}},
		{"the others in sets", []group{{SmCount: 12, CoscheduledSmCount: 4}, {CoscheduledSmCount: 16}},
			ok, []uint32{12, 112, 8}},
		{"sets and others", []group{{SmCount: 14, Flags: backfill}}, ok, []uint32{14, 118}},
		{"larger sets", []group{{SmCount: 32, CoscheduledSmCount: 8, PreferredCoscheduledSmCount: 16}},
			ok, []uint32{32, 100}},
		{"nothing is left for the second", []group{{Flags: backfill}, {}}, bad, nil},
		{"no set is left", []group{{SmCount: 128}, {Flags: backfill}}, bad, nil},
		{"too many together", []group{{SmCount: 128}, {SmCount: 8}}, bad, nil},
		{"no groups", []group{}, odd, nil},
		{"an odd number", []group{{SmCount: 9, CoscheduledSmCount: 2, Flags: backfill}}, odd, nil},
		{"more than there are", []group{{SmCount: 134, CoscheduledSmCount: 2}}, odd, nil},
		{"no multiple", []group{{SmCount: 12}}, odd, nil},
		{"less than a set", []group{{SmCount: 4, Flags: backfill}}, odd, nil},
		{"odd sets", []group{{CoscheduledSmCount: 3}}, odd, nil},
		{"sets that are too large", []group{{CoscheduledSmCount: 34}}, odd, nil},
		{"no multiple of the sets", []group{{CoscheduledSmCount: 4, PreferredCoscheduledSmCount: 6}}, odd, nil},
		{"a locality domain", []group{{Flags: driver.CU_DEV_SM_RESOURCE_GROUP_LOCALITY_DOMAIN_ID}}, odd, nil},
		{"its number", []group{{LocalityDomainId: 1}}, odd, nil},
		{"what is reserved", []group{{Reserved: [11]uint32{10: 1}}}, odd, nil},
	} {
		parts := make([]driver.DevResource, len(c.groups))
		rest, r := d.DevSmResourceSplit(nil, parts, all, 0, c.groups)
		if r != c.want {
			t.Errorf("%s: %v, want %v", c.what, r, c.want)
		}
		if got := smCounts(append(parts, rest)...); r == ok && !slices.Equal(got, c.sizes) {
			t.Errorf("%s: the sizes are %d, want %d", c.what, got, c.sizes)
		}
	}

	// Without results the driver only says how many there are.
	groups := []group{{CoscheduledSmCount: 16}, {}, {CoscheduledSmCount: 4, PreferredCoscheduledSmCount: 8}}
	want := []group{{SmCount: 128, CoscheduledSmCount: 16, PreferredCoscheduledSmCount: 16},
		{CoscheduledSmCount: 8, PreferredCoscheduledSmCount: 8},
		{SmCount: 4, CoscheduledSmCount: 4, PreferredCoscheduledSmCount: 8}}
	rest, r := d.DevSmResourceSplit(nil, nil, all, 0, groups)
	if r != ok || rest.SMCount() != 0 || !slices.Equal(groups, want) {
		t.Errorf("%v: %+v, and %d are left", r, groups, rest.SMCount())
	}
	if _, r := d.DevSmResourceSplit(nil, nil, all, 0, []group{{SmCount: 8}}); r != bad {
		t.Errorf("a number without results: %v", r)
	}
	if _, r := d.DevSmResourceSplit(nil, nil, all, 1, []group{{}}); r != odd {
		t.Errorf("unknown flags: %v", r)
	}
	_, r = d.DevSmResourceSplit(nil, nil, driver.DevResource{}, 0, []group{{}})
	if r != driver.ResultInvalidResourceType {
		t.Errorf("nothing: %v", r)
	}

	// The rest can be split again. Parts with sets of different sizes cannot be combined.
	parts := make([]driver.DevResource, 3)
	groups = []group{{SmCount: 16}, {SmCount: 16}, {SmCount: 16, CoscheduledSmCount: 4}}
	if rest, r = d.DevSmResourceSplit(nil, parts, all, 0, groups); r != ok {
		t.Fatal(r)
	}
	for _, c := range []struct {
		what string
		of   []driver.DevResource
		want driver.Result
	}{
		{"one", parts[:1], ok},
		{"two", parts[:2], ok},
		{"two and the rest", []driver.DevResource{rest, parts[0], parts[1]}, ok},
		{"sets of other sizes", parts[1:], bad},
	} {
		if _, r := d.DevResourceGenerateDesc(nil, c.of); r != c.want {
			t.Errorf("a descriptor of %s: %v, want %v", c.what, r, c.want)
		}
	}
	again := make([]driver.DevResource, 1)
	if left, r := d.DevSmResourceSplit(nil, again, rest, 0, []group{{SmCount: 80}}); r != ok || left.SMCount() != 4 {
		t.Errorf("the rest: %v, and %d are left", r, left.SMCount())
	}
	if _, r := d.DevResourceGenerateDesc(nil, []driver.DevResource{parts[2], again[0]}); r != bad {
		t.Errorf("a descriptor of parts of two splits, with sets of other sizes: %v", r)
	}
	if _, r := d.DevSmResourceSplit(nil, nil, parts[0], 0, []group{{}}); r != bad {
		t.Errorf("a part: %v", r)
	}
	if _, _, r := d.DevSmResourceSplitByCount(nil, nil, rest, 0, 8); r != bad {
		t.Errorf("the rest, by count: %v", r)
	}
}

// TestStreamShare asks for the multiprocessors of streams.
func TestStreamShare(t *testing.T) {
	r := newLab(t, Version(13010))
	const sm = driver.CU_DEV_RESOURCE_TYPE_SM
	all, res := r.DeviceGetDevResource(r.th, 0, sm)
	r.must(res)
	part := make([]driver.DevResource, 1)
	_, res = r.DevSmResourceSplit(r.th, part, all, 0, []driver.DevSmResourceGroupParams{{SmCount: 24}})
	r.must(res)
	desc, res := r.DevResourceGenerateDesc(r.th, part)
	r.must(res)
	g, res := r.GreenCtxCreate(r.th, desc, 0, driver.CU_GREEN_CTX_DEFAULT_STREAM)
	r.must(res)
	s, res := r.GreenCtxStreamCreate(r.th, g, driver.CU_STREAM_NON_BLOCKING, 0)
	r.must(res)
	plain := r.newStream()
	for h, want := range map[driver.Stream]uint32{s: 24, plain: 132, 0: 132, driver.CU_STREAM_PER_THREAD: 132} {
		if its, res := r.StreamGetDevResource(r.th, h, sm); its.SMCount() != want || res != ok {
			t.Errorf("stream %#x has %d multiprocessors, %v, want %d", h, its.SMCount(), res, want)
		}
	}
	for _, typ := range []int32{0, driver.CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG,
		driver.CU_DEV_RESOURCE_TYPE_WORKQUEUE} {
		_, res := r.StreamGetDevResource(r.th, s, typ)
		r.want("another resource", driver.ResultInvalidResourceType, res)
	}
	r.must(r.StreamBeginCapture(r.th, plain, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
	_, res = r.StreamGetDevResource(r.th, plain, sm)
	r.want("during a capture", driver.ResultStreamCaptureUnsupported, res)
	_, res = r.StreamEndCapture(r.th, plain)
	r.want("the capture", driver.ResultStreamCaptureInvalidated, res)
	r.must(r.StreamDestroy(r.th, s))
	r.must(r.GreenCtxDestroy(r.th, g))
}
