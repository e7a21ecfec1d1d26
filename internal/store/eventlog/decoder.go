package eventlog

// decoder reads from the front of data. After an error it is bad and reads nothing more.
type decoder struct {
	data string
	bad  bool
}

func (d *decoder) byte() byte {
	if len(d.data) == 0 {
		d.bad = true
		return 0
	}
	b := d.data[0]
	d.data = d.data[1:]
	return b
}

func (d *decoder) uvarint() (v uint64) {
	for shift := 0; shift < 64; shift += 7 {
		b := d.byte()
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
	d.bad = true
	return 0
}

func (d *decoder) varint() int64 {
	u := d.uvarint()
	return int64(u>>1) ^ -int64(u&1) // zigzag
}

func (d *decoder) text() string {
	n := d.uvarint()
	if d.bad || n > uint64(len(d.data)) {
		d.bad = true
		return ""
	}
	s := d.data[:n]
	d.data = d.data[n:]
	return s
}
