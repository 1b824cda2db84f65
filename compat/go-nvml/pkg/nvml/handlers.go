package nvml

// Functions with versioned structs return a handler here. Its methods V1, V2 and so on make the call.

// V1 calls nvmlDeviceGetGpuInstanceProfileInfo.
func (handler GpuInstanceProfileInfoHandler) V1() (GpuInstanceProfileInfo, Return) {
	return handler.device.GetGpuInstanceProfileInfo(handler.profile)
}

// GetGpuInstanceProfileInfoV returns the handler.
func (device nvmlDevice) GetGpuInstanceProfileInfoV(profile int) GpuInstanceProfileInfoHandler {
	return GpuInstanceProfileInfoHandler{device, profile}
}

// GetGpuInstanceProfileInfoByIdV returns the handler.
func (device nvmlDevice) GetGpuInstanceProfileInfoByIdV(profileId int) GpuInstanceProfileInfoByIdHandler {
	return GpuInstanceProfileInfoByIdHandler{device, profileId}
}

// V1 calls nvmlGpuInstanceGetComputeInstanceProfileInfo.
func (handler ComputeInstanceProfileInfoHandler) V1() (ComputeInstanceProfileInfo, Return) {
	return handler.gpuInstance.GetComputeInstanceProfileInfo(handler.profile, handler.engProfile)
}

// GetComputeInstanceProfileInfoV returns the handler.
func (gpuInstance nvmlGpuInstance) GetComputeInstanceProfileInfoV(profile int,
	engProfile int) ComputeInstanceProfileInfoHandler {
	return ComputeInstanceProfileInfoHandler{gpuInstance, profile, engProfile}
}

// GetC2cModeInfoV returns the handler.
func (device nvmlDevice) GetC2cModeInfoV() C2cModeInfoHandler { return C2cModeInfoHandler{device} }

// V1 calls nvmlDeviceGetGpuFabricInfo.
func (handler GpuFabricInfoHandler) V1() (GpuFabricInfo, Return) {
	return handler.device.GetGpuFabricInfo()
}

// GetGpuFabricInfoV returns the handler.
func (device nvmlDevice) GetGpuFabricInfoV() GpuFabricInfoHandler {
	return GpuFabricInfoHandler{device}
}

// GetTemperatureV returns the handler.
func (device nvmlDevice) GetTemperatureV() TemperatureHandler { return TemperatureHandler{device} }

// GetNvLinkInfo returns the handler.
func (device nvmlDevice) GetNvLinkInfo() NvLinkInfoHandler { return NvLinkInfoHandler{device} }

// GpmQueryDeviceSupportV returns the handler.
func (device nvmlDevice) GpmQueryDeviceSupportV() GpmSupportV { return GpmSupportV{device} }

// GetID returns the number of the type.
func (vgpuTypeId nvmlVgpuTypeId) GetID() uint32 { return uint32(vgpuTypeId) }
