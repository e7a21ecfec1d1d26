package wire

import "encoding/binary"

// Property identifies a property of MQTT 5 (section 2.2.2.2).
type Property byte

// Properties.
const (
	PayloadFormat    Property = 0x01
	MessageExpiry    Property = 0x02
	ContentType      Property = 0x03
	ResponseTopic    Property = 0x08
	CorrelationData  Property = 0x09
	SubscriptionID   Property = 0x0b
	SessionExpiry    Property = 0x11
	AssignedClientID Property = 0x12
	ServerKeepAlive  Property = 0x13
	AuthMethod       Property = 0x15
	AuthData         Property = 0x16
	RequestProblem   Property = 0x17
	WillDelay        Property = 0x18
	RequestResponse  Property = 0x19
	ResponseInfo     Property = 0x1a
	ServerReference  Property = 0x1c
	ReasonString     Property = 0x1f
	ReceiveMaximum   Property = 0x21
	AliasMaximum     Property = 0x22
	TopicAlias       Property = 0x23
	MaximumQoS       Property = 0x24
	RetainAvailable  Property = 0x25
	UserProperty     Property = 0x26
	MaximumPacket    Property = 0x27
	WildcardsHere    Property = 0x28
	SubIDsHere       Property = 0x29
	SharedHere       Property = 0x2a
	properties       Property = 0x2b
)

// form is how a property's value is written.
type form byte

const (
	none   form = iota
	flag        // a byte, 0 or 1
	two         // a two byte integer
	four        // a four byte integer
	length      // a variable byte integer
	text        // a UTF-8 string
	data        // binary data
	pair        // two strings
)

// will stands for the properties of a will among the packets that may have a property.
const will Type = 0

func in(types ...Type) (set uint16) {
	for _, t := range types {
		set |= 1 << t
	}
	return set
}

// kinds describes the properties: how each is written, which packets may have it, and where a decoded value is kept.
var kinds = [properties]struct {
	form    form
	in      uint16
	slot    byte // in Properties.numbers or Properties.texts
	nonzero bool // a value of 0 is a protocol error
}{
	PayloadFormat:    {flag, in(PUBLISH, will), 0, false},
	MessageExpiry:    {four, in(PUBLISH, will), 1, false},
	ContentType:      {text, in(PUBLISH, will), 0, false},
	ResponseTopic:    {text, in(PUBLISH, will), 1, false},
	CorrelationData:  {data, in(PUBLISH, will), 2, false},
	SubscriptionID:   {length, in(PUBLISH, SUBSCRIBE), 2, true},
	SessionExpiry:    {four, in(CONNECT, CONNACK, DISCONNECT), 3, false},
	AssignedClientID: {text, in(CONNACK), 3, false},
	ServerKeepAlive:  {two, in(CONNACK), 4, false},
	AuthMethod:       {text, in(CONNECT, CONNACK, AUTH), 4, false},
	AuthData:         {data, in(CONNECT, CONNACK, AUTH), 5, false},
	RequestProblem:   {flag, in(CONNECT), 5, false},
	WillDelay:        {four, in(will), 6, false},
	RequestResponse:  {flag, in(CONNECT), 7, false},
	ResponseInfo:     {text, in(CONNACK), 6, false},
	ServerReference:  {text, in(CONNACK, DISCONNECT), 7, false},
	ReasonString:     {text, in(CONNACK, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK, DISCONNECT, AUTH), 8, false},
	ReceiveMaximum:   {two, in(CONNECT, CONNACK), 8, true},
	AliasMaximum:     {two, in(CONNECT, CONNACK), 9, false},
	TopicAlias:       {two, in(PUBLISH), 10, false},
	MaximumQoS:       {flag, in(CONNACK), 11, false},
	RetainAvailable:  {flag, in(CONNACK), 12, false},
	UserProperty:     {pair, ^uint16(0), 0, false},
	MaximumPacket:    {four, in(CONNECT, CONNACK), 13, true},
	WildcardsHere:    {flag, in(CONNACK), 14, false},
	SubIDsHere:       {flag, in(CONNACK), 15, false},
	SharedHere:       {flag, in(CONNACK), 16, false},
}

// Slots of decoded values.
const (
	numberSlots = 17
	textSlots   = 9
)

// User is a user property.
type User struct{ Name, Value []byte }

// Properties are the decoded properties of a packet. Values are borrowed from the packet. The zero value has none; a Properties can be used
// for one packet after the other.
type Properties struct {
	has     uint64
	numbers [numberSlots]uint32
	texts   [textSlots][]byte
	User    []User
}

func (p *Properties) reset() { p.has, p.User = 0, p.User[:0] }

// Has reports whether the packet has a property.
func (p *Properties) Has(of Property) bool { return p.has>>of&1 != 0 }

// Number returns a property's number, or other if the packet does not have it.
func (p *Properties) Number(of Property, other uint32) uint32 {
	if !p.Has(of) {
		return other
	}
	return p.numbers[kinds[of].slot]
}

// Text returns a property's text or data; nil: the packet does not have it.
func (p *Properties) Text(of Property) []byte {
	if !p.Has(of) {
		return nil
	}
	return p.texts[kinds[of].slot]
}

// UserValue returns the value of the first user property with a name.
func (p *Properties) UserValue(name string) (value []byte, ok bool) {
	for _, u := range p.User {
		if string(u.Name) == name {
			return u.Value, true
		}
	}
	return nil, false
}

// AppendForwarded appends the properties that a server passes on with a message, unaltered and in order (section 3.3.2.3). Content type and
// expiry are not among them.
func (p *Properties) AppendForwarded(dst []byte) []byte {
	if p.Has(PayloadFormat) {
		dst = AppendNumber(dst, PayloadFormat, p.Number(PayloadFormat, 0))
	}
	for _, of := range [...]Property{ResponseTopic, CorrelationData} {
		if p.Has(of) {
			dst = AppendText(dst, of, p.Text(of))
		}
	}
	for _, u := range p.User {
		dst = AppendUser(dst, u.Name, u.Value)
	}
	return dst
}

// CheckForwarded reports whether b are properties that AppendForwarded may have written, with or without an expiry.
func CheckForwarded(b []byte) bool {
	var p Properties
	r := reader{of: PUBLISH, b: appendBlock(nil, b)}
	return r.properties(PUBLISH, &p) == nil && !p.Has(TopicAlias) && !p.Has(SubscriptionID) && !p.Has(ContentType)
}

// Aged returns forwarded properties whose expiry is some seconds nearer. over: it has passed.
func Aged(b []byte, seconds uint32) (aged []byte, over bool) {
	var p Properties
	r := reader{of: PUBLISH, b: appendBlock(nil, b)}
	if r.properties(PUBLISH, &p) != nil || !p.Has(MessageExpiry) {
		return b, false
	}
	left := p.Number(MessageExpiry, 0)
	if left <= seconds {
		return nil, true
	}
	return AppendNumber(p.AppendForwarded(nil), MessageExpiry, left-seconds), false
}

// checkResponse refuses a response topic with a wildcard (section 3.3.2.3.5).
func (p *Properties) checkResponse(of Type) error {
	if p.Has(ResponseTopic) && !validName(p.Text(ResponseTopic)) {
		return broken(ProtocolError, "%s: the response topic is empty or has a wildcard", of)
	}
	return nil
}

// properties decodes the properties at the beginning of what is left of a packet.
func (r *reader) properties(of Type, into *Properties) error {
	into.reset()
	n, used, err := varint(r.b)
	switch {
	case err != nil:
		return err
	case used == 0 || n > len(r.b)-used:
		return malformed("%s: the properties end before their length", r.of)
	}
	block := reader{of: r.of, b: r.b[used : used+n]}
	r.b = r.b[used+n:]
	for len(block.b) > 0 {
		if err := block.property(of, into); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) property(of Type, into *Properties) error {
	id := Property(r.b[0]) // all identifiers take one byte
	r.b = r.b[1:]
	if id >= properties || kinds[id].form == none {
		return malformed("%s: there is no property %#x", r.of, byte(id))
	}
	k := &kinds[id]
	if k.in>>of&1 == 0 {
		return broken(ProtocolError, "%s: property %#x does not belong there", r.of, byte(id))
	}
	if into.Has(id) && id != UserProperty && (id != SubscriptionID || of != PUBLISH) {
		return broken(ProtocolError, "%s: property %#x comes twice", r.of, byte(id))
	}
	into.has |= 1 << id
	switch k.form {
	case text, data:
		v, err := r.field(k.form == text)
		into.texts[k.slot] = v
		return err
	case pair:
		return r.user(into)
	}
	v, err := r.number(k.form)
	if err != nil {
		return err
	}
	if v == 0 && k.nonzero || k.form == flag && v > 1 {
		return broken(ProtocolError, "%s: property %#x may not be %d", r.of, byte(id), v)
	}
	into.numbers[k.slot] = v
	return nil
}

func (r *reader) user(into *Properties) error {
	name, err := r.field(true)
	if err != nil {
		return err
	}
	value, err := r.field(true)
	if err != nil {
		return err
	}
	if len(into.User) == maxUser {
		return broken(Implementation, "%s: more than %d user properties", r.of, maxUser)
	}
	into.User = append(into.User, User{name, value})
	return nil
}

// sizes are those of numbers, in bytes.
var sizes = [...]int{flag: 1, two: 2, four: 4}

func (r *reader) number(f form) (uint32, error) {
	if f == length {
		n, used, err := varint(r.b)
		if err == nil && used == 0 {
			err = r.short()
		}
		if err != nil {
			return 0, err
		}
		r.b = r.b[used:]
		return uint32(n), nil // has at most 28 bits
	}
	size := sizes[f]
	if len(r.b) < size {
		return 0, r.short()
	}
	v := r.b[:size]
	r.b = r.b[size:]
	switch f {
	case flag:
		return uint32(v[0]), nil
	case two:
		return uint32(binary.BigEndian.Uint16(v)), nil
	default:
		return binary.BigEndian.Uint32(v), nil
	}
}

// AppendNumber appends a property with a number to the properties in dst.
func AppendNumber(dst []byte, of Property, v uint32) []byte {
	dst = append(dst, byte(of))
	switch kinds[of].form {
	case flag:
		return append(dst, byte(v)) // 0 or 1
	case two:
		return binary.BigEndian.AppendUint16(dst, uint16(v)) // the caller's value has two bytes
	case length:
		return appendVarint(dst, int(v))
	default:
		return binary.BigEndian.AppendUint32(dst, v)
	}
}

// AppendText appends a property with a text or data to the properties in dst. A value that does not fit into a string is left out.
func AppendText[T string | []byte](dst []byte, of Property, v T) []byte {
	return appendField(append(dst, byte(of)), v)
}

// AppendUser appends a user property to the properties in dst.
func AppendUser[N, V string | []byte](dst []byte, name N, value V) []byte {
	return appendField(appendField(append(dst, byte(UserProperty)), name), value)
}
