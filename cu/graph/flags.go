package graph

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/valuename"
)

// InstantiateFlags say what an executable graph can do. They have CUDA's values.
type InstantiateFlags uint32

const (
	// InstantiateDefault sets no flag.
	InstantiateDefault InstantiateFlags = 0
	// InstantiateAutoFree frees, before each launch, the memory that the launch before has allocated
	// and not freed: CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH.
	InstantiateAutoFree InstantiateFlags = driver.CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH
	// InstantiateDeviceLaunch lets kernels launch the graph. Nobody but the program knows of such
	// launches: it must not close the graph, or what it uses, before they are done (CUDA 12.0):
	// CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH.
	InstantiateDeviceLaunch InstantiateFlags = driver.CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH
	// InstantiateNodePriority gives the nodes their own priorities, and not that of the stream of the
	// launch: CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY.
	InstantiateNodePriority InstantiateFlags = driver.CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY
)

// String lists the flags by name.
func (f InstantiateFlags) String() string {
	return valuename.OfFlags(uint32(f), "InstantiateDefault",
		[]string{"InstantiateAutoFree", "InstantiateUpload", "InstantiateDeviceLaunch", "InstantiateNodePriority"})
}

// instantiateFlags are the flags that InstantiateWithFlags takes.
const instantiateFlags = InstantiateAutoFree | InstantiateDeviceLaunch | InstantiateNodePriority
