package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/purecu/purecu/cu"
)

func devicesCommand() command {
	return command{
		name:  "devices",
		short: "list the devices",
		long: `It lists all devices, or the one that -device names, with the memory that is free while
cuprobe has a context there (a few hundred MB). If there are several devices, it also
lists which of them can access the memory of others.

If NVML can be loaded, it adds what NVML says: temperature, power, clocks and what limits
them, utilization, the memory and the processes of all users, ECC errors since the driver
was loaded, and rows of the memory that were replaced. What a device lacks is left out,
and a GPU that does not answer for two seconds is reported. NVML is not asked with
-driver PATH.

Fields with -json: driver, devices (ordinal, name, uuid, pciBusID,
computeCapability, multiprocessors, clockKHz, memoryTotalBytes, memoryFreeBytes,
null if unknown, memoryFreeError, and with -v attributes), peers (from, to,
access). Unknown values are "" or 0. If NVML is asked, there is also nvml (version,
error), and each device that it knows has nvml (temperatureCelsius, powerMilliwatts,
powerLimitMilliwatts, smClockMHz, memoryClockMHz, busyPercent, memoryBusyPercent,
clocksLimitedBy, memoryUsedBytes, eccCorrected, eccUncorrected, rows: replaced,
pending, failed, processes: pid, memoryUsedBytes, error), without what it lacks.`,
		define: func(fs *flag.FlagSet) func(*invocation) error {
			all := fs.Bool("v", false, "list all attributes too")
			return func(c *invocation) error { return runDevices(c, *all) }
		},
	}
}

// devicesReport is the list of devices.
type devicesReport struct {
	Driver  driverInfo     `json:"driver"`
	Devices []deviceDetail `json:"devices"`
	// Peers contains all pairs of the listed devices.
	Peers []peer `json:"peers"`
	// NVML is nil if NVML was not asked.
	NVML *nvmlInfo `json:"nvml,omitempty"`
}

// deviceDetail is a device in the list.
type deviceDetail struct {
	deviceInfo
	// MemoryFree is nil if it is not known; then MemoryFreeError says why.
	MemoryFree      *uint64        `json:"memoryFreeBytes"`
	MemoryFreeError string         `json:"memoryFreeError,omitempty"`
	Attributes      map[string]int `json:"attributes,omitempty"`
	// NVML is nil if NVML was not asked, or does not know the device.
	NVML *nvmlFacts `json:"nvml,omitempty"`
}

// peer says whether kernels on one device can access another device's memory.
type peer struct {
	From   int  `json:"from"`
	To     int  `json:"to"`
	Access bool `json:"access"`
}

func runDevices(c *invocation, all bool) error {
	r, err := c.listDevices(all)
	if err != nil {
		return err
	}
	return c.show(r)
}

// listDevices returns the list of the devices that the user has chosen.
func (c *invocation) listDevices(all bool) (*devicesReport, error) {
	drv, err := c.open()
	if err != nil {
		return nil, err
	}
	r := &devicesReport{Devices: []deviceDetail{}, Peers: []peer{}}
	if r.Driver, err = c.driverInfo(drv); err != nil {
		return nil, err
	}
	devs, err := c.devices(drv)
	if err != nil {
		return nil, err
	}
	for _, dev := range devs {
		d, err := newDeviceDetail(dev, all)
		if err != nil {
			return nil, err
		}
		r.Devices = append(r.Devices, d)
		for _, to := range devs {
			if to == dev {
				continue
			}
			can, err := dev.CanAccessPeer(to)
			if err != nil {
				return nil, err
			}
			r.Peers = append(r.Peers, peer{dev.Ordinal(), to.Ordinal(), can})
		}
	}
	r.addNVML(c)
	return r, nil
}

// addNVML adds what NVML says to the list of devices, each of which it is asked about at the same time.
func (r *devicesReport) addNVML(c *invocation) {
	if !c.asksNVML() {
		return
	}
	lib, err := c.openNVML()
	if err != nil {
		r.NVML = &nvmlInfo{Error: shortNVML(err)}
		return
	}
	defer lib.Close()
	r.NVML = &nvmlInfo{}
	if r.NVML.Version, err = lib.Version(); err != nil {
		r.NVML.Error = shortNVML(err)
		return
	}
	var wg sync.WaitGroup
	for i := range r.Devices {
		wg.Go(func() { r.Devices[i].NVML = nvmlFactsOf(lib, r.Devices[i].UUID) })
	}
	wg.Wait()
}

// newDeviceDetail queries all that is listed about a device. A device that cannot be used now is
// listed as well.
func newDeviceDetail(dev *cu.Device, all bool) (d deviceDetail, err error) {
	if d.deviceInfo, err = newDeviceInfo(dev); err != nil {
		return d, err
	}
	if free, err := freeMem(dev); err == nil {
		d.MemoryFree = &free
	} else {
		d.MemoryFreeError = err.Error()
	}
	if all {
		attributes, err := dev.Attributes()
		if err != nil {
			return d, err
		}
		d.Attributes = make(map[string]int, len(attributes))
		for a, v := range attributes {
			d.Attributes[a.String()] = v
		}
	}
	return d, nil
}

// freeMem returns the free memory of a device. For this it creates a context.
func freeMem(dev *cu.Device) (free uint64, err error) {
	gpu, err := dev.PrimaryContext()
	if err != nil {
		return 0, err
	}
	free, _, err = gpu.MemInfo()
	if e := gpu.Close(); err == nil {
		err = e
	}
	return free, err
}

func (r *devicesReport) text(w io.Writer) {
	r.Driver.text(w)
	if r.NVML != nil {
		r.NVML.text(w)
	}
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "#\tNAME\tCC\tSMS\tCLOCK\tFREE/TOTAL GIB\tPCI\tUUID")
	for _, d := range r.Devices {
		free, clock := "?", "?"
		if d.MemoryFree != nil {
			free = gibibytes(*d.MemoryFree)
		}
		if d.ClockKHz > 0 {
			clock = fmt.Sprintf("%.2fGHz", float64(d.ClockKHz)/1e6)
		}
		fmt.Fprintf(tw, "%d\t%s\t%s\t%d\t%s\t%s/%s\t%s\t%s\n", d.Ordinal, d.Name, d.ComputeCapability,
			d.Multiprocessors, clock,
			free, gibibytes(d.MemoryTotal), orUnknown(d.PCIBusID), orUnknown(d.UUID))
	}
	tw.Flush() // w keeps the error
	r.textPeers(w)
	for _, d := range r.Devices {
		if d.MemoryFreeError != "" {
			fmt.Fprintf(w, "\ndevice %d: its free memory is not known: %s\n", d.Ordinal, oneLine(d.MemoryFreeError))
		}
	}
	for _, d := range r.Devices {
		if d.NVML == nil {
			continue
		}
		fmt.Fprintf(w, "\ndevice %d, by NVML\n", d.Ordinal)
		for _, line := range d.NVML.Lines() {
			fmt.Fprintln(w, "  "+line)
		}
	}
	for _, d := range r.Devices {
		if d.Attributes == nil {
			continue
		}
		fmt.Fprintf(w, "\ndevice %d\n", d.Ordinal)
		for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
			fmt.Fprintf(w, "  %-50s %d\n", name, d.Attributes[name])
		}
	}
}

// textPeers prints the table of peer access if there are several devices.
func (r *devicesReport) textPeers(w io.Writer) {
	if len(r.Peers) == 0 {
		return
	}
	access := make(map[[2]int]string)
	for _, p := range r.Peers {
		access[[2]int{p.From, p.To}] = "no"
		if p.Access {
			access[[2]int{p.From, p.To}] = "yes"
		}
	}
	fmt.Fprint(w, "\npeer access, from the device on the left\n")
	fmt.Fprint(w, "   ")
	for _, to := range r.Devices {
		fmt.Fprintf(w, " %4d", to.Ordinal)
	}
	fmt.Fprintln(w)
	for _, from := range r.Devices {
		line := fmt.Sprintf("%3d", from.Ordinal)
		for _, to := range r.Devices {
			line += fmt.Sprintf(" %4s", access[[2]int{from.Ordinal, to.Ordinal}])
		}
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
}
