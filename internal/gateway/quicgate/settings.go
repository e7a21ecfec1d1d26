package quicgate

import (
	"errors"
	"io"

	"github.com/quic-go/quic-go/quicvarint"
)

const (
	settingsFrame    = 0x04
	settingDatagrams = 0x33 // H3_DATAGRAM
	mostSettings     = 4 << 10
)

var errSettings = errors.New("the control stream must begin with SETTINGS")

// readSettings reads the head of a client's control stream: its type, and its SETTINGS (RFC 9114, section 7.2.4).
func readSettings(str io.Reader) (datagrams bool, err error) {
	r := quicvarint.NewReader(str)
	var head [3]uint64 // the stream's type, and the frame's type and length
	for i := range head {
		if head[i], err = quicvarint.Read(r); err != nil {
			return false, err
		}
	}
	if head[1] != settingsFrame || head[2] > mostSettings {
		return false, errSettings
	}
	rest := quicvarint.NewReader(io.LimitReader(r, int64(head[2]))) // at most mostSettings
	for {
		id, err := quicvarint.Read(rest)
		if errors.Is(err, io.EOF) {
			return datagrams, nil
		}
		value, wrong := quicvarint.Read(rest)
		if err != nil || wrong != nil {
			return false, errSettings
		}
		if id == settingDatagrams {
			datagrams = value == 1
		}
	}
}
