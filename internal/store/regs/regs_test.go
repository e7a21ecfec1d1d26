package regs

import (
	"slices"
	"testing"

	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
)

func TestStoredRegistrationsTakeAboutTheirNames(t *testing.T) {
	keys := []object.Key{{Group: "north", Object: "camera-config"}, {Group: "south", Object: "fw"}}
	b := EncodeKeys("north", keys)
	if want := "\x00\x0dcamera-config\x05south\x02fw"; string(b) != want {
		t.Errorf("stored as %q, want %q: what is on disk must stay readable", b, want)
	}
	p := EncodeProgress([]objectstore.Progress{{Object: 1, Acked: 5, Sent: 7}, {Object: 2}})
	if want := "\x00\x00\x00\x00\x00\x00\x00\x01\x05\x04"; string(p) != want {
		t.Errorf("stored as %q, want %q", p, want)
	}
}

// FuzzStoredRegistrations decodes arbitrary bytes, like those of a damaged file: decoding fails, or encoding the result gives the same
// bytes.
func FuzzStoredRegistrations(f *testing.F) {
	f.Add([]byte("\x00\x0dcamera-config\x05south\x02fw"), []byte("\x00\x00\x00\x00\x00\x00\x00\x01\x05\x04"))
	f.Add([]byte("\x05sou"), []byte("short"))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), []byte("12345678\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var keys []object.Key
		if DecodeKeys("own", a, func(k object.Key) { keys = append(keys, k) }) == nil {
			var again []object.Key
			if err := DecodeKeys("own", EncodeKeys("own", keys), func(k object.Key) { again = append(again, k) }); err != nil || !slices.Equal(keys, again) {
				t.Errorf("%v became %v, %v", keys, again, err)
			}
		}
		if ps, err := DecodeProgress(b); err == nil {
			again, err := DecodeProgress(EncodeProgress(ps))
			ps = slices.DeleteFunc(ps, func(p objectstore.Progress) bool { return p.Acked == 0 && p.Sent == 0 })
			if err != nil || !slices.Equal(ps, again) {
				t.Errorf("%v became %v, %v", ps, again, err)
			}
		}
	})
}
