package admin

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
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

func serveAsset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	b, err := assets.ReadFile("assets/" + name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	if r.PathValue("version") == assetVersion() {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(b))
}
