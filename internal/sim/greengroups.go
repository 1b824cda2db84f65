package sim

import (
	"slices"

	"github.com/purecu/purecu/driver"
)

// mostSets is the largest size of sets of multiprocessors that work on one cluster.
const mostSets = 32

// DevSmResourceSplit is cuDevSmResourceSplit, as NVIDIA's documentation describes it: no driver was
// asked. In this model any multiprocessors can be a set, so more splits succeed than on a GPU.
func (d *Driver) DevSmResourceSplit(_ *driver.Thread, result []driver.DevResource, input driver.DevResource,
	flags uint32, groups []driver.DevSmResourceGroupParams) (rest driver.DevResource, r driver.Result) {
	defer d.mu.Unlock()
	if r := d.begin("cuDevSmResourceSplit"); r != ok {
		return rest, r
	}
	whole, r := shareOf(&input)
	var v *device
	if r == ok {
		v, r = d.gpuOf(whole)
	}
	switch {
	case r != ok:
		return rest, r
	case flags != 0, len(groups) == 0:
		return rest, driver.ResultInvalidValue
	case whole.split != 0 && !whole.left:
		return rest, driver.ResultInvalidResourceConfiguration
	}
	left, filled := whole.count, slices.Clone(groups)
	for i := range filled {
		p := &filled[i]
		if result == nil && p.SmCount != 0 { // without results there is only discovery
			return rest, driver.ResultInvalidResourceConfiguration
		}
		if r := v.fill(p, whole.count, left); r != ok {
			return rest, r
		}
		if p.SmCount > left || result != nil && p.SmCount == 0 {
			return rest, driver.ResultInvalidResourceConfiguration
		}
		left -= p.SmCount
	}
	copy(groups, filled)
	if result == nil {
		return rest, ok
	}
	d.ids.split++
	part := share{dev: whole.dev, split: d.ids.split}
	for i, p := range filled {
		part.count, part.index, part.sets = p.SmCount, uint64(i), p.CoscheduledSmCount
		result[i] = d.shareResource(part)
	}
	part.count, part.index, part.sets, part.left = left, uint64(len(filled)), 0, true
	return d.shareResource(part), ok
}

// fill checks what a group asks for, and replaces the fields that are 0. The share has whole
// multiprocessors, of which the groups before this one have left some.
func (v *device) fill(p *driver.DevSmResourceGroupParams, whole, left uint32) driver.Result {
	backfill := p.Flags == driver.CU_DEV_SM_RESOURCE_GROUP_BACKFILL
	if p.CoscheduledSmCount == 0 {
		p.CoscheduledSmCount = v.Parts.Step
	}
	if p.PreferredCoscheduledSmCount == 0 {
		p.PreferredCoscheduledSmCount = p.CoscheduledSmCount
	}
	n, sets := p.SmCount, p.CoscheduledSmCount
	switch {
	case p.Flags != driver.CU_DEV_SM_RESOURCE_GROUP_DEFAULT && !backfill, // locality domains are not modelled
		p.LocalityDomainId != 0, p.Reserved != [len(p.Reserved)]uint32{},
		sets%2 != 0, sets > mostSets, p.PreferredCoscheduledSmCount%sets != 0,
		n%2 != 0, n > whole, n != 0 && n < sets, !backfill && n%sets != 0:
		return driver.ResultInvalidValue
	case n != 0:
		return ok
	}
	p.SmCount = left / sets * sets
	if backfill && p.SmCount != 0 {
		p.SmCount = left
	}
	return ok
}

// StreamGetDevResource is cuStreamGetDevResource, which is about multiprocessors only. It answers
// during captures as cuStreamGetDevice does on an H200: no driver was asked.
func (d *Driver) StreamGetDevResource(th *driver.Thread, h driver.Stream,
	typ int32) (driver.DevResource, driver.Result) {
	defer d.mu.Unlock()
	s, t, r := d.onStream("cuStreamGetDevResource", th, h)
	if r == ok {
		r = d.uncaptured(s)
	}
	switch {
	case r != ok:
		return driver.DevResource{}, r
	case typ != driver.CU_DEV_RESOURCE_TYPE_SM:
		return driver.DevResource{}, driver.ResultInvalidResourceType
	}
	its := s.ctx.dev.whole()
	if g := d.greenOf(t, s); g != nil {
		its = g.share
	}
	return d.shareResource(its), ok
}
