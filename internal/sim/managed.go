package sim

import (
	"cmp"
	"encoding/binary"

	"github.com/purecu/purecu/driver"
)

// managed returns a range of managed memory.
func (d *Driver) managed(p driver.DevicePtr, n uint64) (span, driver.Result) {
	s, r := d.space.span(uint64(p), n)
	if r == ok && (n == 0 || !s.kind.managed()) {
		r = driver.ResultInvalidValue
	}
	return s, r
}

// MemAllocManaged is cuMemAllocManaged.
func (d *Driver) MemAllocManaged(th *driver.Thread, size uint64, flags uint32) (driver.DevicePtr, driver.Result) {
	defer d.mu.Unlock()
	const name = "cuMemAllocManaged"
	if size == 0 {
		return 0, cmp.Or(d.begin(name), driver.ResultInvalidValue)
	}
	c, r := d.changing(name, th)
	switch {
	case r != ok:
		return 0, r
	case flags != driver.CU_MEM_ATTACH_GLOBAL && flags != driver.CU_MEM_ATTACH_HOST:
		return 0, driver.ResultInvalidValue
	}
	addr, r := d.addPages(c, managedBlock, size, flags)
	return driver.DevicePtr(addr), r
}

// MemAdvise is cuMemAdvise_v2.
func (d *Driver) MemAdvise(th *driver.Thread, p driver.DevicePtr, n uint64, what int32,
	l driver.MemLocation) driver.Result {
	defer d.mu.Unlock()
	if _, r := d.changing("cuMemAdvise", th); r != ok {
		return r
	}
	// An H200 refuses wrong types even if it does not use the location.
	if what < driver.CU_MEM_ADVISE_SET_READ_MOSTLY || what > driver.CU_MEM_ADVISE_UNSET_ACCESSED_BY ||
		l.Type <= driver.CU_MEM_LOCATION_TYPE_INVALID || l.Type > driver.CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT {
		return driver.ResultInvalidValue
	}
	numa := l.Type == driver.CU_MEM_LOCATION_TYPE_HOST_NUMA || l.Type == driver.CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT
	var bit uint64
	switch what {
	case driver.CU_MEM_ADVISE_SET_ACCESSED_BY, driver.CU_MEM_ADVISE_UNSET_ACCESSED_BY:
		v, r := d.place(l)
		switch {
		case r != ok || numa:
			return driver.ResultInvalidValue
		case v != nil:
			bit = 1 << v.ordinal
		default:
			bit = accessedByHost
		}
	case driver.CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
		if _, r := d.place(l); r != ok {
			return driver.ResultInvalidValue
		}
	}
	if numa { // An H200 takes advice about the pages of the system without looking for them.
		return ok
	}
	s, r := d.managed(p, n)
	switch {
	case r != ok:
		return r
	case s.kind == managedPoolBlock: // as on an H200
		return driver.ResultNotSupported
	}
	s.advise(func(a *advice) {
		switch what {
		case driver.CU_MEM_ADVISE_SET_READ_MOSTLY, driver.CU_MEM_ADVISE_UNSET_READ_MOSTLY:
			a.readMostly = what == driver.CU_MEM_ADVISE_SET_READ_MOSTLY
		case driver.CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
			a.preferred, a.hasPreferred = numbered(l), true
		case driver.CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
			a.preferred, a.hasPreferred = driver.MemLocation{}, false
		case driver.CU_MEM_ADVISE_SET_ACCESSED_BY:
			a.accessedBy |= bit
		default:
			a.accessedBy &^= bit
		}
	})
	return ok
}

// MemPrefetchAsync is cuMemPrefetchAsync_v2.
func (d *Driver) MemPrefetchAsync(th *driver.Thread, p driver.DevicePtr, n uint64, l driver.MemLocation, flags uint32,
	h driver.Stream) driver.Result {
	defer d.mu.Unlock()
	s, _, r := d.onStream("cuMemPrefetchAsync", th, h)
	if r == ok {
		r = d.uncaptured(s)
	}
	if r != ok {
		return r
	}
	if _, r = d.place(l); r != ok && n > 0 && p != 0 {
		return r
	}
	m, r := d.managed(p, n)
	switch {
	case r != ok:
		return r
	case flags != 0:
		return driver.ResultInvalidValue
	}
	m.advise(func(a *advice) { a.prefetch, a.loaded = numbered(l), true })
	d.enqueue(s, d.access(&op{Duration: duration(n, pinnedBlock)}, small(func() bool { return true }), m))
	return ok
}

// MemRangeGetAttribute is cuMemRangeGetAttribute.
func (d *Driver) MemRangeGetAttribute(th *driver.Thread, data []byte, attribute int32, p driver.DevicePtr,
	n uint64) driver.Result {
	defer d.mu.Unlock()
	if _, _, r := d.inContext("cuMemRangeGetAttribute", th); r != ok {
		return r
	}
	s, r := d.managed(p, n)
	switch {
	case r != ok:
		return r
	case len(data) == 0 || len(data)%4 != 0 || len(data) != 4 && attribute != driver.CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
		return driver.ResultInvalidValue
	}
	all := advice{readMostly: true, accessedBy: 1<<64 - 1}
	for i, a := range s.asked() {
		all.readMostly, all.accessedBy = all.readMostly && a.readMostly, all.accessedBy&a.accessedBy
		if i == 0 {
			all.preferred, all.hasPreferred, all.prefetch, all.loaded = a.preferred, a.hasPreferred, a.prefetch,
				a.loaded
		}
		all.hasPreferred = all.hasPreferred && a.hasPreferred && all.preferred == a.preferred
		all.loaded = all.loaded && a.loaded && all.prefetch == a.prefetch
	}
	var values []int32
	switch attribute {
	case driver.CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
		values = []int32{0}
		if all.readMostly {
			values[0] = 1
		}
	case driver.CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
		values = []int32{legacyPlace(all.preferred, all.hasPreferred)}
	case driver.CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
		values = []int32{legacyPlace(all.prefetch, all.loaded)}
	case driver.CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, driver.CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
		values = placePart(all.preferred, all.hasPreferred,
			attribute == driver.CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE)
	case driver.CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE,
		driver.CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
		values = placePart(all.prefetch, all.loaded,
			attribute == driver.CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE)
	case driver.CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
		for i := range d.devices {
			if all.accessedBy&(1<<i) != 0 {
				values = append(values, int32(i))
			}
		}
		if all.accessedBy&accessedByHost != 0 {
			values = append(values, driver.CU_DEVICE_CPU)
		}
	default:
		return driver.ResultInvalidValue
	}
	if s.kind == managedPoolBlock { // an H200 knows more about places of the host here
		switch attribute {
		case driver.CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
			if values[0] = all.preferred.ID; !all.hasPreferred {
				values[0] = driver.CU_DEVICE_INVALID
			}
		case driver.CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
			if values[0] = all.prefetch.Type; !all.loaded {
				values[0] = driver.CU_MEM_LOCATION_TYPE_INVALID
			}
		case driver.CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
			if values[0] = all.prefetch.ID; !all.loaded {
				values[0] = driver.CU_DEVICE_INVALID
			} else if all.prefetch.Type == driver.CU_MEM_LOCATION_TYPE_HOST {
				values[0] = driver.CU_DEVICE_CPU
			}
		}
	}
	for i := range len(data) / 4 {
		v := int32(driver.CU_DEVICE_INVALID)
		if i < len(values) {
			v = values[i]
		}
		binary.LittleEndian.PutUint32(data[4*i:], uint32(v))
	}
	return ok
}

// legacyPlace returns a location as a device.
func legacyPlace(l driver.MemLocation, set bool) int32 {
	switch {
	case !set:
		return driver.CU_DEVICE_INVALID
	case l.Type == driver.CU_MEM_LOCATION_TYPE_DEVICE:
		return l.ID
	}
	return driver.CU_DEVICE_CPU
}

// placePart returns the type or the number of a location. All locations on the host are one.
func placePart(l driver.MemLocation, set, typ bool) []int32 {
	switch host := l.Type != driver.CU_MEM_LOCATION_TYPE_DEVICE; {
	case !set:
		return []int32{driver.CU_MEM_LOCATION_TYPE_INVALID}
	case host && typ:
		return []int32{driver.CU_MEM_LOCATION_TYPE_HOST}
	case host:
		return []int32{driver.CU_DEVICE_CPU}
	case typ:
		return []int32{l.Type}
	}
	return []int32{l.ID}
}

// StreamAttachMemAsync is cuStreamAttachMemAsync. It has no effect, as the host can always access
// managed memory.
func (d *Driver) StreamAttachMemAsync(th *driver.Thread, h driver.Stream, p driver.DevicePtr, n uint64,
	flags uint32) driver.Result {
	defer d.mu.Unlock()
	s, r := d.onIdleStream("cuStreamAttachMemAsync", th, h)
	if r != ok {
		return r
	}
	b := d.space.of(uint64(p), managedBlock)
	switch {
	case b == nil, n != 0 && n != b.size, flags == 0 || flags > driver.CU_MEM_ATTACH_SINGLE || flags&(flags-1) != 0,
		flags == driver.CU_MEM_ATTACH_SINGLE && s.kind == legacyStream:
		return driver.ResultInvalidValue
	}
	d.enqueue(s, &op{})
	return ok
}

// MemPrefetchAsyncV1 is cuMemPrefetchAsync.
func (d *Driver) MemPrefetchAsyncV1(th *driver.Thread, p driver.DevicePtr, n uint64, dev driver.Device,
	h driver.Stream) driver.Result {
	return d.MemPrefetchAsync(th, p, n, placeOf(dev), 0, h)
}

// MemAdviseV1 is cuMemAdvise.
func (d *Driver) MemAdviseV1(th *driver.Thread, p driver.DevicePtr, n uint64, what int32,
	dev driver.Device) driver.Result {
	return d.MemAdvise(th, p, n, what, placeOf(dev))
}

// placeOf returns the place that a device stands for in older functions.
func placeOf(dev driver.Device) driver.MemLocation {
	if dev == driver.Device(driver.CU_DEVICE_CPU) {
		return driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_HOST}
	}
	return driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE, ID: int32(dev)}
}
