package postgres

import (
	"testing"

	"godwit.dev/godwit/internal/feeds/source"
)

func TestPositionsOfAnEarlierBuildAreRead(t *testing.T) {
	t.Parallel()
	const earlier = `{"system":"7","timeline":1,"lsn":"16/B374D848","read":97500059720,"shift":255,"slot":"godwit_demo","copy":{"lsn":"0/FF","table":1}}`
	p, err := readPosition(&source.Target{Position: []byte(earlier)})
	if err != nil || p.LSN != 0x16B374D848 || p.Read != p.LSN || p.Shift != 255 || p.Copy.LSN != 255 {
		t.Fatalf("%+v, %v", p, err)
	}
	const now = `{"system":"7","timeline":1,"lsn":"16/B374D848","read":"16/B374D848","shift":"0/FF","slot":"godwit_demo","copy":{"lsn":"0/FF","table":1}}`
	if got := string(p.encode()); got != now {
		t.Errorf("it is written as %s", got)
	}
	if _, err := readPosition(&source.Target{Position: []byte(`{"lsn":"x"}`)}); err == nil {
		t.Error("a damaged position is read")
	}
}
