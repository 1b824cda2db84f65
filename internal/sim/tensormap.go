package sim

import (
	"errors"
	"fmt"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ptx/tensormap"
)

// tensorMaps is the first compute capability that has maps of tensors.
const tensorMaps = 90

// TensorMapEncodeTiled is cuTensorMapEncodeTiled.
func (d *Driver) TensorMapEncodeTiled(th *driver.Thread, tensorDataType int32, globalAddress driver.HostPtr,
	globalDim, globalStrides []uint64, boxDim, elementStrides []uint32, interleave, swizzle, l2Promotion,
	oobFill int32) (driver.TensorMap, driver.Result) {
	const name = "cuTensorMapEncodeTiled"
	defer d.mu.Unlock()
	c, _, r := d.inContext(name, th)
	if r != ok {
		return driver.TensorMap{}, r
	}
	if c.dev.Number < tensorMaps {
		return driver.TensorMap{}, driver.ResultNotSupported
	}
	m := tensormap.Map{Type: int(tensorDataType), Rank: len(globalDim), Address: uint64(globalAddress),
		Swizzle: int(swizzle), NaN: oobFill == driver.CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA}
	for i := range min(m.Rank, tensormap.Most) {
		m.Sizes[i], m.Box[i], m.Steps[i] = globalDim[i], uint64(boxDim[i]), uint64(elementStrides[i])
		if i > 0 {
			m.Strides[i] = globalStrides[i-1]
		}
	}
	switch err := m.Check(int(interleave), int(l2Promotion), int(oobFill)); {
	case errors.Is(err, tensormap.ErrUnknown):
		d.explain(name, "The software driver has no interleaved tensors", driver.ResultNotSupported)
		return driver.TensorMap{}, driver.ResultNotSupported
	case err != nil:
		d.explain(name, fmt.Sprintf("A map of a tensor may not have %v", err), driver.ResultInvalidValue)
		return driver.TensorMap{}, driver.ResultInvalidValue
	}
	return driver.TensorMap{Opaque: m.Encode()}, ok
}

// TensorMapReplaceAddress is cuTensorMapReplaceAddress.
func (d *Driver) TensorMapReplaceAddress(th *driver.Thread, tensorMap driver.TensorMap,
	globalAddress driver.HostPtr) (driver.TensorMap, driver.Result) {
	const name = "cuTensorMapReplaceAddress"
	defer d.mu.Unlock()
	if _, _, r := d.inContext(name, th); r != ok {
		return driver.TensorMap{}, r
	}
	m, is := tensormap.Decode(tensorMap.Opaque)
	if m.Address = uint64(globalAddress); !is || !m.Reachable() {
		return driver.TensorMap{}, driver.ResultInvalidValue
	}
	return driver.TensorMap{Opaque: m.Encode()}, ok
}
