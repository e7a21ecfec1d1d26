// Package sdk holds the browser part as the server hands it out: scripts built from clients/js, which `make generate`
// makes anew.
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

// File is one script, as it is and compressed.
type File struct {
	Name string // sw.js
	Body []byte
	GZip []byte
	// Tag changes with the content: an ETag without its quotes, and what scripts say after ?v= when they load another.
	Tag string
	// Worker: it is a service worker, which may be given any scope and must not be taken from a cache.
	Worker bool
}

// Files returns all scripts by name. Neither the map nor what it holds may be changed.
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
