package frame

import (
	"bytes"
	"fmt"
	"testing"
	"unicode/utf8"
)

// objects are texts for which the two parsers might differ.
var objects = []string{
	`{}`, ` { } `, `{"a":1}`, `{"a":1,"b":[1,{"c":"}"}],"d":"x\"y,}"}`, `{"a" : null , "b":"\\" }`, "{\"a\":\n{\"b\":[]}\t}",
	`{"a":1,"a":2}`, `{"a":1,}`, `{"a"}`, `{"a":}`, `{,}`, `[]`, `"a"`, `{"a":1}x`, `{"a":1}{}`, `{"\u0061":1}`, `{"ü":1}`, `{"":1}`,
	`{"a":true,"b":-1.5e3,"c":"]"}`, `{"a":"\\\\","b":"\\\""}`, `{"a":"`, `{"a":{"b":1`, ``, `{`, `nul`, `{"hello":{"app":"demo","heartbeat":"30s"}}`,
}

func FuzzMembersAgree(f *testing.F) {
	for _, o := range objects {
		f.Add([]byte(o))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		plain, ok := plainMembers(b)
		if !ok || !utf8.Valid(b) {
			return
		}
		exact, err := anyMembers(b)
		if err != nil || len(plain) != len(exact) {
			t.Fatalf("%q has %d members one way and %d, %v, the other", b, len(plain), len(exact), err)
		}
		for i := range plain {
			if plain[i].name != exact[i].name || !bytes.Equal(plain[i].value, exact[i].value) {
				t.Errorf("%q: member %d is %q: %q one way and %q: %q the other", b, i, plain[i].name, plain[i].value, exact[i].name, exact[i].value)
			}
			short, _ := text(plain[i].value)
			if long, _ := texts(append(append([]byte("["), plain[i].value...), ']')); len(long) == 1 && long[0] != short {
				t.Errorf("%q is the text %q one way and %q the other", plain[i].value, short, long[0])
			}
		}
	})
}

func BenchmarkDecodeHello(b *testing.B) {
	hello := []byte(`{"hello":{"app":"demo","heartbeat":"86400s","recipient":"bench-1234abcd-0001234"}}`)
	var c Client
	b.ReportAllocs()
	for b.Loop() {
		if err := DecodeJSON(hello, &c); err != nil {
			b.Fatal(err)
		}
	}
}

func TestMembersAreBoundedInAnySpelling(t *testing.T) {
	for n, ok := range map[int]bool{maxMembers: true, maxMembers + 1: false} {
		text := `{"\u0061":0`
		for i := 1; i < n; i++ {
			text += fmt.Sprintf(`,"k%d":0`, i)
		}
		if ms, err := anyMembers([]byte(text + "}")); (err == nil) != ok || ok && len(ms) != n {
			t.Errorf("%d members: %d, %v", n, len(ms), err)
		}
	}
}
