package cusim

import (
	"context"
	"os"

	"github.com/purecu/purecu/internal/sim"
)

// ExternalSemaphore stands for a semaphore of another API, such as Vulkan. A test does what the other API
// would do: it signals the semaphore, and waits for it. It is safe for concurrent use.
type ExternalSemaphore struct{ sim *sim.ExternalSemaphore }

// NewExternalSemaphore returns a timeline semaphore with the value 0, or a binary semaphore that is not
// signalled. Only this driver can import it. On Windows the error matches errors.ErrUnsupported.
func (d *Driver) NewExternalSemaphore(timeline bool) (*ExternalSemaphore, error) {
	x, err := d.sim.NewExternalSemaphore(timeline)
	if err != nil {
		return nil, err
	}
	return &ExternalSemaphore{x}, nil
}

// File returns a new file that stands for the semaphore, as vkGetSemaphoreFdKHR does. The caller closes
// it. [github.com/purecu/purecu/cu/interop.ImportSemaphore] takes its descriptor.
func (x *ExternalSemaphore) File() (*os.File, error) { return x.sim.File() }

// Value returns the value of a timeline semaphore. For a binary semaphore it is 1 if it is signalled, and
// otherwise 0.
func (x *ExternalSemaphore) Value() uint64 { return x.sim.Value() }

// Signal gives a timeline semaphore a value, or signals a binary one, for which the value means nothing.
// Streams that wait for it go on.
func (x *ExternalSemaphore) Signal(value uint64) { x.sim.Signal(value) }

// Wait waits until a timeline semaphore has at least a value, or until a binary one is signalled, which it
// is not any more afterwards. With [VirtualTime], only [Driver.Advance] lets streams get there.
func (x *ExternalSemaphore) Wait(ctx context.Context, value uint64) error {
	return x.sim.Wait(ctx, value)
}

// Close ends the semaphore for the other API: its files cannot be imported any more. What was imported
// still works. Further calls return nil.
func (x *ExternalSemaphore) Close() error { return x.sim.Close() }
