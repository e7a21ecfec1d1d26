package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// SettingsFile contains the settings with which the folder's server runs.
const SettingsFile = "settings.json"

// Settings are the settings of a running server, so that commands beside it need no settings of their own.
type Settings struct {
	// Folder is the folder in which the server was started: relative file names are relative to it.
	Folder string `json:"folder"`
	// Values contains the settings that differ from their defaults, without secrets.
	Values map[string]string `json:"values"`
}

// WriteSettings replaces the folder's settings file in one step.
func WriteSettings(dir string, s Settings) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	name := filepath.Join(dir, SettingsFile)
	err = os.WriteFile(name+".tmp", append(b, '\n'), 0o600)
	if err == nil {
		err = os.Rename(name+".tmp", name)
	}
	if err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	return nil
}

// ReadSettings reads the settings of the folder's server. The server may have ended since.
func ReadSettings(dir string) (s Settings, err error) {
	b, err := os.ReadFile(filepath.Join(dir, SettingsFile))
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("read %s: %w", SettingsFile, err)
	}
	return s, nil
}

// RemoveSettings deletes the settings file.
func RemoveSettings(dir string) error {
	err := os.Remove(filepath.Join(dir, SettingsFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
