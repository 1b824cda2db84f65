package sim

import (
	"encoding/binary"
	"io"

	"github.com/purecu/purecu/internal/simnvml"
)

// The settings that NVML has changed are those of the machine. If processes share one, its folder has a file with an
// entry for each device. It is locked while it is used, and stays when the processes have ended.
const settingsFile = "settings"

// Change changes the settings of a device.
func (d *Driver) Change(gpu int, f func(s *simnvml.Settings)) error {
	d.mu.Lock()
	folder := d.folder
	if folder == "" {
		defer d.mu.Unlock()
		if d.settings == nil {
			d.settings = map[int]simnvml.Settings{}
		}
		s, changed := d.settings[gpu]
		if !changed {
			s = simnvml.NewSettings(d.installed[gpu].GPU)
		}
		f(&s)
		d.settings[gpu] = s
		return nil
	}
	usual := d.newSettings()[:gpu+1]
	d.mu.Unlock()
	file, err := openShared(folder, settingsFile, true)
	if err != nil {
		return err
	}
	defer file.Close()
	all, err := readSettings(file, usual)
	if err != nil {
		return err
	}
	f(&all[gpu])
	b, err := binary.Append(nil, binary.LittleEndian, all[gpu])
	if err == nil {
		_, err = file.WriteAt(b, int64(gpu*len(b)))
	}
	return err
}

// allSettings returns the settings of all devices. The caller does not hold the driver's lock.
func (d *Driver) allSettings() []simnvml.Settings {
	d.mu.Lock()
	folder, list := d.folder, d.newSettings()
	for i, s := range d.settings { // there are none with a folder
		list[i] = s
	}
	d.mu.Unlock()
	if folder == "" {
		return list
	}
	return sharedSettings(folder, list)
}

// sharedSettings returns the settings of the first devices of a machine, which are usual if nobody has changed them.
func sharedSettings(folder string, usual []simnvml.Settings) []simnvml.Settings {
	file, err := openShared(folder, settingsFile, false)
	if err != nil {
		return usual // nobody has changed anything
	}
	defer file.Close()
	if shared, err := readSettings(file, usual); err == nil {
		return shared
	}
	return usual
}

// newSettings returns the settings of devices that nobody has changed.
func (d *Driver) newSettings() []simnvml.Settings {
	list := make([]simnvml.Settings, len(d.installed))
	for i, v := range d.installed {
		list[i] = simnvml.NewSettings(v.GPU)
	}
	return list
}

// readSettings reads the settings of the first devices, which have the usual ones if the file has no others. It ends
// with the last device that has an entry, and that of one that nobody has changed may be zero.
func readSettings(file io.ReaderAt, usual []simnvml.Settings) ([]simnvml.Settings, error) {
	all := make([]simnvml.Settings, len(usual))
	b := make([]byte, binary.Size(all))
	if _, err := file.ReadAt(b, 0); err != nil && err != io.EOF {
		return nil, err
	}
	if _, err := binary.Decode(b, binary.LittleEndian, all); err != nil {
		return nil, err
	}
	for i, s := range all {
		if s == (simnvml.Settings{}) {
			all[i] = usual[i]
		}
	}
	return all, nil
}
