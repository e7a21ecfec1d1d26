package godwit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// owner identifies the client whose registrations are in a state file.
type owner struct {
	App       string `json:"app"`
	Recipient string `json:"recipient"`
	Device    string `json:"device"`
}

func (o *owner) String() string {
	return fmt.Sprintf("recipient %q, device %q of app %q", o.Recipient, o.Device, o.App)
}

// stateFormat is the version of the file's format. It grows with changes that older programs cannot read.
const stateFormat = 1

// stateFile is the content of a state file.
type stateFile struct {
	Format  int          `json:"format"`
	Owner   *owner       `json:"owner,omitempty"`
	Objects []stateEntry `json:"objects"`
}

type stateEntry struct {
	Group   string             `json:"group"`
	Object  string             `json:"object"`
	Status  RegistrationStatus `json:"status"`
	Version Version            `json:"version"`
	Unknown bool               `json:"unknown,omitempty"`
	Floor   Version            `json:"floor,omitempty"`
}

// load reads the state file, if it exists.
func (o *Objects) load() error {
	b, err := os.ReadFile(o.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read state: %w", err)
	}
	var f stateFile
	if json.Unmarshal(b, &f) != nil || f.Format < 1 {
		return o.setAside()
	}
	if f.Format > stateFormat {
		return fmt.Errorf("read state: %s was written by a later version of this program", o.file)
	}
	for _, s := range f.Objects {
		key := objectKey{s.Group, s.Object}
		switch s.Status {
		case PendingRegistration, Registered, PendingUnregistration, Refused:
		default:
			return o.setAside()
		}
		if key.check() != nil {
			return o.setAside()
		}
	}
	k := o.regs
	for _, s := range f.Objects {
		key := objectKey{s.Group, s.Object}
		k.want(key, nil)
		e := k.entries[key]
		e.status, e.last, e.unknown, e.floor = s.Status, s.Version, s.Unknown, s.Floor
		if !e.wanted() {
			k.digest -= key.hash()
		}
	}
	k.fresh, k.changes, k.version = false, nil, 0
	o.owner = f.Owner
	return nil
}

// setAside renames a file with invalid content, so that people can examine it.
func (o *Objects) setAside() error {
	if err := os.Rename(o.file, o.file+".bad"); err != nil {
		return fmt.Errorf("set aside a state file that cannot be understood: %w", err)
	}
	return nil
}

// save writes the state file if its content has changed.
func (o *Objects) save() error {
	if o.file == "" {
		return nil
	}
	o.saving.Lock()
	defer o.saving.Unlock()
	f, version := o.snapshot()
	if version == o.saved {
		return nil
	}
	b, err := json.MarshalIndent(f, "", " ")
	if err == nil {
		err = replaceFile(o.file, append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	o.saved = version
	return nil
}

func (o *Objects) snapshot() (f stateFile, version uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f = stateFile{Format: stateFormat, Owner: o.owner, Objects: []stateEntry{}}
	for _, s := range o.list() {
		e := o.regs.entries[objectKey{s.Group, s.Object}]
		f.Objects = append(f.Objects, stateEntry{s.Group, s.Object, s.Status, s.Version, s.Unknown, e.floor})
	}
	return f, o.regs.version
}

// replaceFile replaces a file atomically: after a crash, the file is the old one or the new one.
func replaceFile(name string, b []byte) error {
	beside := name + ".new"
	f, err := os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(b); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(beside, name); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(name)) // syncing the folder makes the rename durable
	if err != nil {
		return err
	}
	defer dir.Close()
	// Some systems cannot sync a folder; the file is complete either way.
	_ = dir.Sync()
	return nil
}
