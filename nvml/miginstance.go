package nvml

import (
	"sync"

	"github.com/purecu/purecu/nvml/raw"
)

// migInstances are the MIG instances of a GPU that were found by one Library. Destruction makes a handle invalid, with
// which NVIDIA's library crashes, and NVML may give the same handle to another instance later.
type migInstances struct {
	// calls is held by calls of C about instances, and for writing by those after which a handle is invalid.
	calls sync.RWMutex
	mu    sync.Mutex
	known map[instanceKey]*migInstance
}

// instanceKey is a handle: of a compute instance, or of a GPU instance.
type instanceKey struct {
	compute bool
	handle  uint64
}

// migInstance is what all values of one instance share.
type migInstance struct {
	of     *migInstances
	key    instanceKey
	parent *migInstance // the GPU instance of a compute instance

	destroyed bool // guarded by of.calls
}

// destroyed is the result of calls about an instance that was destroyed. No result of NVML is so low.
const destroyed = raw.NotCalled - 1

// find returns the instance of a handle, which a call of C has just returned. The caller holds s.calls.
func (s *migInstances) find(key instanceKey, parent *migInstance) *migInstance {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.known[key]
	if i == nil || i.parent != parent { // another process may have destroyed the old one
		if s.known == nil {
			s.known = map[instanceKey]*migInstance{}
		}
		i = &migInstance{of: s, key: key, parent: parent}
		s.known[key] = i
	}
	return i
}

// end notes that the instances that are chosen were destroyed, and those in them. The caller holds s.calls for writing.
func (s *migInstances) end(chosen func(*migInstance) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, i := range s.known {
		if chosen(i) || i.parent != nil && chosen(i.parent) {
			i.destroyed = true
			delete(s.known, key)
		}
	}
}

// guard returns a call that is made only while the instance is there.
func (i *migInstance) guard(f rawCall) rawCall {
	return func(l *raw.Library, w words) (words, raw.Return) {
		i.of.calls.RLock()
		defer i.of.calls.RUnlock()
		if i.destroyed {
			return words{}, destroyed
		}
		return f(l, w)
	}
}

// destroy makes the call that destroys the instance of o. Calls about instances of the same GPU do not overlap it.
func (o *object) destroy(op string, f func(l *raw.Library, h uint64) raw.Return) error {
	if o == nil {
		return nilError(op)
	}
	i, free := o.instance, *o
	free.instance = nil
	_, err := free.call(op, words{}, func(l *raw.Library, w words) (words, raw.Return) {
		i.of.calls.Lock()
		defer i.of.calls.Unlock()
		if i.destroyed {
			return words{}, destroyed
		}
		r := f(l, w.a)
		if r == raw.NVML_SUCCESS {
			i.of.end(func(other *migInstance) bool { return other == i })
		}
		return words{}, r
	})
	return err
}

// Destroy destroys the GPU instance, which must have no compute instance (nvmlGpuInstanceDestroy). Later calls of its
// methods return an error that matches [ErrClosed], also those of other values for the same instance. Linux only.
func (g *GPUInstance) Destroy() error {
	return g.obj().destroy("nvmlGpuInstanceDestroy", func(l *raw.Library, h uint64) raw.Return {
		return l.GpuInstanceDestroy(raw.GpuInstance(h))
	})
}

// Destroy destroys the compute instance (nvmlComputeInstanceDestroy). Later calls of its methods return an error that
// matches [ErrClosed], also those of other values for the same instance. Linux only.
func (c *ComputeInstance) Destroy() error {
	return c.obj().destroy("nvmlComputeInstanceDestroy", func(l *raw.Library, h uint64) raw.Return {
		return l.ComputeInstanceDestroy(raw.ComputeInstance(h))
	})
}
