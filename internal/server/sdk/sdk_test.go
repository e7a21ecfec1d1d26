package sdk_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"regexp"
	"testing"

	"godwit.dev/godwit/internal/server/sdk"
)

// TestThePushPartIsSmall limits the compressed sizes of the scripts that every page of a site loads, that a visitor's
// browser keeps to show messages, and that are loaded on demand.
func TestThePushPartIsSmall(t *testing.T) {
	files, err := sdk.Files()
	if err != nil {
		t.Fatal(err)
	}
	for name, most := range map[string]int{
		"godwit.js": 6 << 10, "perfecty.js": 6 << 10, "sw.js": 2 << 10,
		"dialogs.js": 5 << 9, "once.js": 3 << 9, "texts.js": 2 << 10,
		"inbox.js": 20 << 10, "inboxtexts.js": 5 << 9, "inboxprefs.js": 2 << 10, "webtransport.js": 3 << 9,
	} {
		f := files[name]
		if f == nil || len(f.Body) == 0 {
			t.Fatalf("%s is not there", name)
		}
		if size := len(f.GZip); size > most {
			t.Errorf("%s has %d bytes compressed; at most %d are allowed", name, size, most)
		}
	}
}

// TestScriptsLoadOthersByTheirTags checks that the tags in scripts are those that the server has.
func TestScriptsLoadOthersByTheirTags(t *testing.T) {
	files, err := sdk.Files()
	if err != nil {
		t.Fatal(err)
	}
	for page, least := range map[string]int{"godwit.js": 2, "perfecty.js": 2, "inbox.js": 2, "live.js": 1} {
		loads := regexp.MustCompile(`"(\w+\.js)\?v=([\w-]+)"`).FindAllSubmatch(files[page].Body, -1)
		if len(loads) < least {
			t.Errorf("%s loads %q", page, loads)
		}
		for _, l := range loads {
			if f := files[string(l[1])]; f == nil || f.Tag != string(l[2]) {
				t.Errorf("%s loads %s by tag %s, which is not the one it has: run make generate", page, l[1], l[2])
			}
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
