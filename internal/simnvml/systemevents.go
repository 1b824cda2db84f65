package simnvml

import "github.com/purecu/purecu/nvml/raw"

// Sets of events of the machine: a GPU gets its driver, or loses it. Here GPUs keep their driver, so waits end when
// their time is over.

// SystemEventSetCreate makes a set of events of the machine.
func (n *model) SystemEventSetCreate(q *raw.SystemEventSetCreateRequest) raw.Return {
	switch {
	case q == nil:
		return raw.NVML_ERROR_INVALID_ARGUMENT
	case q.Version != raw.SystemEventSetCreateRequestV1Version:
		return raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	q.Set = raw.SystemEventSet(n.newHandle())
	n.systems[q.Set] = true
	return raw.NVML_SUCCESS
}

// SystemEventSetFree frees a set of events of the machine.
func (n *model) SystemEventSetFree(q *raw.SystemEventSetFreeRequest) raw.Return {
	switch {
	case q == nil:
		return raw.NVML_ERROR_INVALID_ARGUMENT
	case q.Version != raw.SystemEventSetFreeRequestV1Version:
		return raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.systems[q.Set] {
		return raw.NVML_ERROR_INVALID_ARGUMENT
	}
	delete(n.systems, q.Set)
	n.broadcast()
	return raw.NVML_SUCCESS
}

// SystemRegisterEvents adds kinds of events of the machine to a set.
func (n *model) SystemRegisterEvents(q *raw.SystemRegisterEventRequest) raw.Return {
	switch {
	case q == nil:
		return raw.NVML_ERROR_INVALID_ARGUMENT
	case q.Version != raw.SystemRegisterEventRequestV1Version:
		return raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.systems[q.Set] || q.EventTypes == 0 { // driver 580 takes kinds that it does not know
		return raw.NVML_ERROR_INVALID_ARGUMENT
	}
	return raw.NVML_SUCCESS
}

// SystemEventSetWait waits for events of the machine.
func (n *model) SystemEventSetWait(q *raw.SystemEventSetWaitRequest) raw.Return {
	switch {
	case q == nil:
		return raw.NVML_ERROR_INVALID_ARGUMENT
	case q.Version != raw.SystemEventSetWaitRequestV1Version:
		return raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
	case q.Data == nil, q.DataSize == 0:
		return raw.NVML_ERROR_INVALID_ARGUMENT
	}
	q.NumEvent = 0
	return n.await(q.Timeoutms, func() raw.Return {
		if !n.systems[q.Set] {
			return raw.NVML_ERROR_INVALID_ARGUMENT
		}
		return raw.NVML_ERROR_TIMEOUT
	})
}
