package sim

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/purecu/purecu/internal/sim/engine"
	"github.com/purecu/purecu/internal/simnvml"
)

// usage is how a program uses a device.
type usage struct {
	memory uint64 // in use, in bytes: see take and give
	load   engine.Load
	ledger *ledger // tells other processes about the device; nil if there are none

	begun, ended int64         // of the contexts, in nanoseconds since 1970: the first one, and the last, or 0
	before       time.Duration // how long the device had worked when they began
	peak         uint64        // the most memory since then, in bytes
}

// beginAccount notes that the process has the first context of a device, and endAccount that it has none any more.
func (v *device) beginAccount(clock *engine.Clock) {
	v.begun, v.ended, v.before, v.peak = clock.Now().UnixNano(), 0, v.load.Busy(clock.At()), v.memory
}

func (v *device) endAccount(clock *engine.Clock) {
	v.ended = clock.Now().UnixNano()
	v.publish()
}

// account returns what a process has done on the device so far.
func (v *device) account(now int64) simnvml.Account {
	return simnvml.Account{ID: uint32(os.Getpid()), Begun: v.begun, Ended: v.ended, Busy: v.load.Busy(now) - v.before,
		Peak: v.peak}
}

// The accounts of processes that have ended are in a file of the folder, as far as somebody has asked for them.
const accountsFile = "accounts"

// savedAccount is an entry of the file.
type savedAccount struct {
	Device uint64
	simnvml.Account
}

// mostSaved is how many entries the file has at most. The oldest give way.
const mostSaved = 16384

// saveAccounts adds the accounts of a process that has ended.
func saveAccounts(folder string, accounts []savedAccount) {
	file, err := openShared(folder, accountsFile, true)
	if err != nil {
		return // nobody could do anything about it
	}
	defer file.Close()
	all := append(decodeAccounts(file), accounts...)
	b, err := binary.Append(nil, binary.LittleEndian, all[max(0, len(all)-mostSaved):])
	if err == nil {
		_, _ = file.WriteAt(b, 0)
	}
}

// savedAccounts returns all accounts of the file.
func savedAccounts(folder string) []savedAccount {
	file, err := openShared(folder, accountsFile, false)
	if err != nil {
		return nil
	}
	defer file.Close()
	return decodeAccounts(file)
}

func decodeAccounts(r io.Reader) []savedAccount {
	b, err := io.ReadAll(r)
	list := make([]savedAccount, len(b)/binary.Size(savedAccount{}))
	if err != nil || binary.Read(bytes.NewReader(b), binary.LittleEndian, list) != nil {
		return nil
	}
	return list
}

// bury removes the ledger of a process that has ended, and saves its accounts, unless another process does. It may have
// used more devices than this process has.
func bury(folder, name string, id uint32, entries []entry) {
	if os.Remove(filepath.Join(folder, name)) != nil {
		return
	}
	settings := sharedSettings(folder, make([]simnvml.Settings, len(entries)))
	var list []savedAccount
	for i, e := range entries {
		if a := e.process(id, time.Unix(0, int64(e.At))).account; a.Begun != 0 && settings[i].Accounting() {
			a.Ended = cmp.Or(a.Ended, int64(e.Now)) // it ended without destroying its contexts
			list = append(list, savedAccount{uint64(i), a})
		}
	}
	if list != nil {
		saveAccounts(folder, list)
	}
}
