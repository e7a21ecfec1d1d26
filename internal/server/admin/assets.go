package admin

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"
)

//go:embed assets/*
var assets embed.FS

// assetVersion identifies the content of all assets, so that browsers may cache them for ever.
var assetVersion = sync.OnceValue(func() string {
	h := sha256.New()
	files, _ := assets.ReadDir("assets") // embedded: it cannot fail
	for _, f := range files {
		b, _ := assets.ReadFile("assets/" + f.Name())
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
})

func asset(name string) string { return "/ui/assets/" + assetVersion() + "/" + name }

// packed holds the assets in gzip's form, which each has from its first request on.
var packed sync.Map

// pack returns an asset in gzip's form; nil: packing does not make it smaller.
func pack(name string, b []byte) []byte {
	if known, ok := packed.Load(name); ok {
		small, _ := known.([]byte)
		return small
	}
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is valid
	_, err := w.Write(b)
	var small []byte
	if err = errors.Join(err, w.Close()); err == nil && out.Len() < len(b) {
		small = out.Bytes()
	}
	packed.Store(name, small)
	return small
}

func serveAsset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	b, err := assets.ReadFile("assets/" + name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	if r.PathValue("version") == assetVersion() {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	h.Add("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") && r.Header.Get("Range") == "" {
		if small := pack(name, b); small != nil {
			b = small
			h.Set("Content-Encoding", "gzip")
		}
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(b))
}
