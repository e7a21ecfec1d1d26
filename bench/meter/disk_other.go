//go:build !linux

package meter

import "os"

func syncData(f *os.File) error { return f.Sync() }
