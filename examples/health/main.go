// Command health reads the temperature, power, memory, utilization and ECC errors of every GPU through NVML, and with
// -watch 1m it reports XIDs as they happen. It needs no CUDA. Build it with -tags cu_static for a file that also starts
// where there is no glibc. It exits with 0 if all GPUs are well, 1 after an error, and 2 if a GPU is not well.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

func main() {
	duration := flag.Duration("watch", 0, "wait for XIDs for this long")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *duration)
	defer cancel()
	well, err := run(ctx, os.Stdout)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "health:", err)
		os.Exit(1)
	case !well:
		os.Exit(2)
	}
}

// run reads every GPU, and reports XIDs until the context ends. It returns whether all GPUs are well.
func run(ctx context.Context, w io.Writer) (well bool, err error) {
	n, err := open()
	if err != nil {
		return false, err
	}
	defer n.shutdown()
	version, err := text(n.driverVersion)
	if err != nil {
		return false, n.explain(err)
	}
	var count uint32
	if err := n.count(&count); err != nil {
		return false, n.explain(err)
	}
	fmt.Fprintf(w, "driver %s, %d GPUs\n", version, count)
	well = true
	var watched []device
	index := map[device]uint32{}
	for i := range count {
		var d device
		err := n.handle(i, &d)
		if err == nil {
			err = n.describe(w, i, d, &well)
		}
		if err != nil { // the others may be well
			well = false
			fmt.Fprintf(w, "%d: %v\n", i, n.explain(err))
			continue
		}
		watched, index[d] = append(watched, d), i
	}
	if ctx.Err() != nil || len(watched) == 0 {
		return well, nil
	}
	err = n.watch(ctx, watched, func(x xid) {
		well = false
		fmt.Fprintf(w, "%d: %v\n", index[x.device], x)
	})
	return well, err
}

// describe writes a line about a GPU. It clears well if the GPU has uncorrectable ECC errors. The error says that the
// GPU cannot be read; a value that the GPU does not have is left out.
func (n *nvml) describe(w io.Writer, i uint32, d device, well *bool) error {
	name, err := text(func(b []byte, size uint32) error { return n.name(d, b, size) })
	if err != nil {
		return err
	}
	uuid, err := text(func(b []byte, size uint32) error { return n.uuid(d, b, size) })
	if err != nil {
		return err
	}
	line := fmt.Sprintf("%d: %s, %s", i, name, uuid)
	var celsius, milliwatts uint32
	var m memory
	var u utilization
	var corrected, uncorrected uint64
	const volatile = 0 // since the driver was loaded
	for _, value := range []struct {
		err  error
		text func() string
	}{
		{n.temperature(d, gpuTemperature, &celsius), func() string { return fmt.Sprintf("%d °C", celsius) }},
		{n.power(d, &milliwatts), func() string { return fmt.Sprintf("%.1f W", float64(milliwatts)/1000) }},
		{n.memory(d, &m), func() string { return fmt.Sprintf("%.1f of %.1f GiB used", gib(m.Used), gib(m.Total)) }},
		{n.utilization(d, &u), func() string { return fmt.Sprintf("GPU %d %%, memory %d %%", u.GPU, u.Memory) }},
		{n.eccErrors(d, 0, volatile, &corrected),
			func() string { return fmt.Sprintf("ECC errors %d corrected", corrected) }},
		{n.eccErrors(d, 1, volatile, &uncorrected),
			func() string { return fmt.Sprintf("%d uncorrected", uncorrected) }},
	} {
		switch {
		case value.err == nil:
			line += ", " + value.text()
		case !is(value.err, notSupported):
			return value.err
		}
	}
	*well = *well && uncorrected == 0
	fmt.Fprintln(w, line)
	return nil
}

func gib(n uint64) float64 { return float64(n) / (1 << 30) }
