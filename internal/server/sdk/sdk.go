// Package sdk holds the browser scripts that the server serves; they are built from clients/js by `make generate`.
package sdk

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
)

//go:embed dist/*.js
var files embed.FS

// File is one script, uncompressed and compressed.
type File struct {
	Name string // sw.js
	Body []byte
	GZip []byte
	// Tag changes with the content. It is the ETag without its quotes, and the value after ?v= in the URLs by which scripts load each
	// other.
	Tag string
	// Worker marks a service worker, which may get any scope and must not come from a cache.
	Worker bool
}

// Files returns all scripts by name. The map and its values must not be changed.
func Files() (map[string]*File, error) {
	entries, err := fs.ReadDir(files, "dist")
	if err != nil {
		return nil, err
	}
	all := make(map[string]*File, len(entries))
	for _, e := range entries {
		body, err := files.ReadFile("dist/" + e.Name())
		if err != nil {
			return nil, err
		}
		f := &File{Name: e.Name(), Body: body, Worker: e.Name() == "sw.js"}
		if f.GZip, err = compress(body); err != nil {
			return nil, fmt.Errorf("compress %s: %w", f.Name, err)
		}
		sum := sha256.Sum256(body)
		f.Tag = base64.RawURLEncoding.EncodeToString(sum[:12])
		all[f.Name] = f
	}
	return all, nil
}

func compress(body []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(body); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
