package backend

import (
	"strings"
	"testing"
)

var benchBodies = map[string][]byte{
	"200B": []byte(`{"to":"driver-42","id":"ride-9f3","title":"New ride","body":"2.1 km away","category":"NEW_RIDE","data":{"fare":120,"pickup":{"lat":12.97,"lon":77.59}},"ttl":"30s","collapse_key":"ride","priority":"high"}`),
	"4KB":  []byte(`{"to":"driver-42","title":"New ride","data":{"route":[` + strings.TrimSuffix(strings.Repeat(`{"lat":12.9716,"lon":77.5946,"name":"stop"},`, 92), ",") + `]}}`),
}

func BenchmarkDecodeDraft(b *testing.B) {
	for name, body := range benchBodies {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := decodeDraft(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
