package sim

import "github.com/purecu/purecu/driver"

// missing are the attributes that are 0 because the driver does not have their feature. When the
// driver gets a feature, its attributes are removed here.
var missing = map[int32]bool{
	driver.CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH:               true,
	driver.CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED:                 true,
	driver.CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:       true,
	driver.CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED:                   true,
	driver.CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:                     true,
	driver.CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS:          true,
	driver.CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING:               true,
	driver.CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED:         true,
	driver.CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:                             true,
	driver.CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:                  true,
	driver.CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS:                     true,
	driver.CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: true,
	driver.CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:      true,
}
