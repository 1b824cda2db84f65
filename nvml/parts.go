package nvml

// Unit is an S-class unit, a box of GPUs with a power supply and a fan of its own. It needs no Close.
type Unit struct{ object }

func (u *Unit) obj() *object {
	if u == nil || u.lib == nil {
		return nil
	}
	return &u.object
}

// GPUInstance is a part of a GPU in MIG mode, with memory of its own. It needs no Close: [GPUInstance.Destroy] removes
// it from the GPU.
type GPUInstance struct{ object }

func (g *GPUInstance) obj() *object {
	if g == nil || g.lib == nil {
		return nil
	}
	return &g.object
}

// ComputeInstance is a part of a [GPUInstance], with processors of its own. It needs no Close:
// [ComputeInstance.Destroy] removes it from the GPU.
type ComputeInstance struct{ object }

func (c *ComputeInstance) obj() *object {
	if c == nil || c.lib == nil {
		return nil
	}
	return &c.object
}

// ClockReasons says why clocks are not higher. It is a sum of bits, such as [ReasonSoftwarePowerCap].
type ClockReasons uint64
