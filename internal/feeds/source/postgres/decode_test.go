package postgres

import "testing"

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"B\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07", "I\x00\x00\x00\x01N\x00\x02t\x00\x00\x00\x01an",
		"U\x00\x00\x00\x01O\x00\x01nN\x00\x01u", "D\x00\x00\x00\x01K\x00\x01t\x00\x00\x00\x01a", "T\x00\x00\x00\x01\x00\x00\x00\x00\x01",
		"M\x01\x00\x00\x00\x00\x00\x00\x00\x09godwit.shop\x00\x00\x00\x00\x02{}", "R\x00\x00\x00\x01public\x00t\x00d\x00\x01\x01id\x00\x00\x00\x00\x17\xff\xff\xff\xff",
		"C\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var c change
		if err := decode(b, &c); err != nil {
			return
		}
		size := len(c.content) + len(c.prefix)
		for _, v := range append(append([]value{}, c.old...), c.row...) {
			if size += len(v.text); v.kind != isText && v.text != nil {
				t.Errorf("a value of kind %q has a text", v.kind)
			}
		}
		if size > len(b) {
			t.Errorf("%d bytes come of %d", size, len(b))
		}
	})
}

func TestPositionsAreReadAsTheyAreWritten(t *testing.T) {
	for text, want := range map[string]LSN{"0/0": 0, "16/B374D848": 0x16B374D848, "FFFFFFFF/FFFFFFFF": 1<<64 - 1} {
		if got, err := parseLSN(text); err != nil || got != want || got.String() != text {
			t.Errorf("%s is %s, %v", text, got, err)
		}
	}
	if _, err := parseLSN("x"); err == nil {
		t.Error("x is a position")
	}
}
