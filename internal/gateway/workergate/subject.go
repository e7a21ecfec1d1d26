package workergate

import (
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/messaging/topic"
)

// maxSegments is how many segments of a path become tokens of the subject; "_" replaces further ones. The whole path is in the request.
const maxSegments = 12

// rest is the token that replaces the segments of a path beyond maxSegments.
const rest = "_"

// Subject is the subject of a call's request: "orders.get.17.items" for GET /gw/orders/17/items.
func Subject(service, method, path string) string {
	s := topic.EncodeToken(service) + "." + topic.EncodeToken(strings.ToLower(method))
	path = strings.Trim(path, "/")
	if path == "" {
		return s
	}
	for i, segment := range strings.Split(path, "/") {
		if i == maxSegments {
			return s + "." + rest
		}
		if plain, err := url.PathUnescape(segment); err == nil {
			segment = plain
		}
		token := topic.EncodeToken(segment)
		if len(s)+len(token)+len(rest)+2 > topic.MaxBytes {
			return s + "." + rest
		}
		s += "." + token
	}
	return s
}

// splitKey is the header whose value selects the side of a split, so that a caller stays on one side.
const splitKey = "Godwit-Split-Key"

// side returns the service that handles a call. For a split, it selects one by the caller's key, or at random by the weights.
func side(s access.Service, service, key string) string {
	if len(s.Split) == 0 {
		return service
	}
	total := 0
	for _, weight := range s.Split {
		total += weight
	}
	var at int
	if key == "" {
		at = rand.IntN(total)
	} else {
		h := fnv.New64a()
		_, _ = h.Write([]byte(key))         // never fails
		at = int(h.Sum64() % uint64(total)) // weights are positive and bounded
	}
	for _, name := range slices.Sorted(maps.Keys(s.Split)) {
		if at -= s.Split[name]; at < 0 {
			return name
		}
	}
	return service
}
