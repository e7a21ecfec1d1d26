package sdk_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"

	"godwit.dev/godwit/internal/sdk"
)

// TestThePushPartIsSmall holds what a page loads to ask for notifications, and what a visitor's browser keeps to show
// them, to 12 KB together.
func TestThePushPartIsSmall(t *testing.T) {
	const most = 12 << 10
	files, err := sdk.Files()
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"godwit.js", "perfecty.js"} {
		size := 0
		for _, name := range []string{page, "sw.js"} {
			f := files[name]
			if f == nil || len(f.Body) == 0 {
				t.Fatalf("%s is not there", name)
			}
			size += len(f.GZip)
		}
		if size > most {
			t.Errorf("%s and sw.js have %d bytes compressed; at most %d are allowed", page, size, most)
		}
	}
}

func TestFilesAreWhole(t *testing.T) {
	files, err := sdk.Files()
	if err != nil {
		t.Fatal(err)
	}
	tags := map[string]bool{}
	for name, f := range files {
		z, err := gzip.NewReader(bytes.NewReader(f.GZip))
		if err != nil {
			t.Fatal(err)
		}
		if plain, err := io.ReadAll(z); err != nil || !bytes.Equal(plain, f.Body) {
			t.Errorf("%s is another file when it is decompressed: %v", name, err)
		}
		if f.Name != name || f.Tag == "" || tags[f.Tag] {
			t.Errorf("%s has name %q and tag %q", name, f.Name, f.Tag)
		}
		tags[f.Tag] = true
		if f.Worker != (name == "sw.js") {
			t.Errorf("%s: worker is %t", name, f.Worker)
		}
	}
}
