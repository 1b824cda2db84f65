package green

import (
	"fmt"
	"math"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/remedy"
	"github.com/purecu/purecu/internal/subject"
)

// WorkQueues says how a green context uses the device's work queues (CUdevWorkqueueConfigResource,
// CUDA 13.1). The work of streams reaches the GPU through work queues. Streams with the same queue
// may wait for each other's work, although nothing in the program orders it.
//
// It is a value, and needs no Close. [DeviceQueues] returns the device's, and [NewWithQueues] makes
// a green context with others.
type WorkQueues struct {
	// Limit is how many streams of the green context are expected to have work at the same time.
	// More streams work, but may wait for each other. 0 means as many as the device has queues.
	Limit int
	// Balanced gives the green context, if possible, work queues that no other balanced green
	// context uses (CU_WORKQUEUE_SCOPE_GREEN_CTX_BALANCED). Otherwise all contexts of the device
	// share its work queues.
	Balanced bool
}

// withWorkQueues is the first CUDA version whose green contexts have work queues of their own.
const withWorkQueues = 13010

// DeviceQueues returns the device's work queues (cuDeviceGetDevResource, CUDA 13.1). Limit is how many
// it has: CUDA_DEVICE_MAX_CONNECTIONS, usually 8. On older drivers the error matches
// errors.ErrUnsupported.
//
// Unverified: this follows NVIDIA's documentation, and was not seen on a GPU.
func DeviceQueues(dev *cu.Device) (WorkQueues, error) {
	const op = "cuDeviceGetDevResource"
	of := subject.Device(dev)
	if of == nil {
		return WorkQueues{}, drivercall.NilError(op, "device")
	}
	raw, err := workQueues(of.Drv, op, of.Raw)
	if err != nil {
		return WorkQueues{}, drivercall.About(of, err)
	}
	return workQueuesOf(raw), nil
}

// workQueues returns the resource that stands for a device's work queues.
func workQueues(d *core.Driver, op string, dev driver.Device) (driver.DevResource, error) {
	if err := checkWorkQueues(d, op, nil); err != nil {
		return driver.DevResource{}, err
	}
	raw, res := d.Table().DeviceGetDevResource(driver.At{}, dev, driver.CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG)
	if res != driver.ResultSuccess {
		return driver.DevResource{}, d.ResultError(op, 0, res)
	}
	return raw, nil
}

// checkWorkQueues returns an error if the driver is too old to know resources of this type.
func checkWorkQueues(d *core.Driver, op string, of drivercall.Named) error {
	switch v, res := d.Table().DriverGetVersion(driver.At{}); {
	case res != driver.ResultSuccess:
		return d.ResultError("cuDriverGetVersion", 0, res)
	case v < withWorkQueues:
		m := &driver.MissingError{
			Symbol: "CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG", Since: withWorkQueues, Driver: int(v),
			Software: d.Table().Software(),
		}
		return drivercall.NewError(op, of, cu.ResultNotSupported, m, remedy.OfMissing(m))
	}
	return nil
}

// workQueuesOf returns what a resource of the driver says about work queues.
func workQueuesOf(raw driver.DevResource) WorkQueues {
	q, _ := raw.WorkqueueConfig()
	return WorkQueues{
		Limit:    int(q.WqConcurrencyLimit),
		Balanced: q.SharingScope == driver.CU_WORKQUEUE_SCOPE_GREEN_CTX_BALANCED,
	}
}

// NewWithQueues is [New] with work queues (cuDevResourceGenerateDesc, cuGreenCtxCreate, CUDA 13.1).
// On older drivers the error matches errors.ErrUnsupported. It may wait for the GPU: see
// docs/blocking.md.
//
// Unverified: this follows NVIDIA's documentation, and was not seen on a GPU. The software driver
// keeps what it is told, and streams never wait for each other there for lack of work queues.
func NewWithQueues(c *cu.Context, q WorkQueues, sms ...SMResource) (*Context, error) {
	const op = "cuGreenCtxCreate"
	cc, err := subject.EnterContext(c, op)
	if err != nil {
		return nil, err
	}
	defer subject.LeaveContext(c)
	if q.Limit < 0 || int64(q.Limit) > math.MaxUint32 {
		return nil, drivercall.BadValue(op, cc,
			fmt.Sprintf("WorkQueues.Limit is %d: it is how many streams have work at the same time", q.Limit))
	}
	raw, err := workQueues(cc.Drv, "cuDeviceGetDevResource", cc.Dev)
	if err != nil {
		return nil, err
	}
	config, _ := raw.WorkqueueConfig() // the device's
	if q.Limit != 0 {
		config.WqConcurrencyLimit = uint32(q.Limit)
	}
	config.SharingScope = driver.CU_WORKQUEUE_SCOPE_DEVICE_CTX
	if q.Balanced {
		config.SharingScope = driver.CU_WORKQUEUE_SCOPE_GREEN_CTX_BALANCED
	}
	raw.SetWorkqueueConfig(config)
	return newContext(cc, sms, raw)
}

// Queues returns the work queues of the green context (cuGreenCtxGetDevResource, CUDA 13.1). On
// older drivers the error matches errors.ErrUnsupported.
//
// Unverified: this follows NVIDIA's documentation, and was not seen on a GPU.
func (g *Context) Queues() (WorkQueues, error) {
	const op = "cuGreenCtxGetDevResource"
	gc, err := g.enter(op)
	if err != nil {
		return WorkQueues{}, err
	}
	defer g.leave()
	if err := checkWorkQueues(gc.Ctx.Drv, op, gc); err != nil {
		return WorkQueues{}, err
	}
	at := driver.At{Context: gc.Ctx.Raw}
	raw, res := gc.Ctx.Drv.Table().GreenCtxGetDevResource(at, gc.raw, driver.CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG)
	if res != driver.ResultSuccess {
		return WorkQueues{}, gc.Ctx.CallError(op, uintptr(gc.raw), res)
	}
	return workQueuesOf(raw), nil
}
