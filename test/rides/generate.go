// Package rides proves the mailbox's promise with realistic input: thousands of ride requests to a thousand drivers over every transport,
// with cut connections, late drivers, and a server that is killed.
package rides

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Ride is one published ride request.
type Ride struct {
	ID, To   string
	Priority string
	TTL      time.Duration
	Data     json.RawMessage // about 4 KB
}

// bodyBytes is the size in bytes to which a request's data is padded: the size observed at a ride hailing app.
const bodyBytes = 4096

// Body returns the publish request for r.
func (r *Ride) Body() map[string]any {
	return map[string]any{
		"to": r.To, "id": r.ID, "title": "New ride request", "body": "A passenger is waiting near you",
		"category": "NEW_RIDE_AVAILABLE", "data": r.Data, "priority": r.Priority, "ttl": r.TTL.String(),
	}
}

// Driver returns the name of recipient number i.
func Driver(i int) string { return fmt.Sprintf("driver-%04d", i) }

// Generate returns n ride requests for a number of drivers. The same seed always gives the same requests. Some drivers get many more than
// others, as in reality.
func Generate(seed uint64, n, drivers int) []Ride {
	r := rand.New(rand.NewPCG(seed, 0x60d317))
	busy := rand.NewZipf(r, 1.2, 40, uint64(drivers-1))
	rides := make([]Ride, n)
	for i := range rides {
		driver := r.IntN(drivers)
		if i%4 == 0 {
			driver = int(busy.Uint64())
		}
		rides[i] = Ride{
			ID: fmt.Sprintf("ride-%d-%05d", seed, i), To: Driver(driver), Priority: priority(r),
			TTL: 30 * time.Minute, Data: request(r, i),
		}
	}
	return rides
}

func priority(r *rand.Rand) string {
	switch n := r.IntN(20); {
	case n == 0:
		return "low"
	case n < 4:
		return "high"
	}
	return "normal"
}

var (
	streets  = []string{"Church Street", "Residency Road", "Hosur Road", "Outer Ring Road", "Bannerghatta Road", "Brigade Road", "MG Road", "Old Airport Road", "Sarjapur Road", "Kanakapura Road"}
	areas    = []string{"Ashok Nagar", "Koramangala", "Indiranagar", "Jayanagar", "Whitefield", "Malleshwaram", "Yelahanka", "Hebbal", "Banashankari", "Electronic City"}
	vehicles = []string{"AUTO_RICKSHAW", "HATCHBACK", "SEDAN", "SUV", "TAXI_PLUS"}
	tags     = []string{"SPECIAL_ZONE_PICKUP", "AC_REQUESTED", "ELDERLY", "LUGGAGE", "REPEAT_RIDER", "UPI_PAYMENT"}
)

type place struct {
	Lat      float64 `json:"lat"`
	Lon      float64 `json:"lon"`
	Door     string  `json:"door"`
	Street   string  `json:"street"`
	Area     string  `json:"area"`
	City     string  `json:"city"`
	State    string  `json:"state"`
	Country  string  `json:"country"`
	AreaCode string  `json:"areaCode"`
	Building *string `json:"building"`
}

func somewhere(r *rand.Rand) place {
	return place{
		Lat: 12.85 + r.Float64()/4, Lon: 77.45 + r.Float64()/4, Door: fmt.Sprintf("%d/%c", 1+r.IntN(300), 'A'+rune(r.IntN(6))),
		Street: streets[r.IntN(len(streets))], Area: areas[r.IntN(len(areas))],
		City: "Bengaluru", State: "Karnataka", Country: "India", AreaCode: fmt.Sprintf("5600%02d", r.IntN(100)),
	}
}

// request returns the data of one ride request: nested, with numbers, texts of several scripts and an encoded route, long enough to reach
// bodyBytes.
func request(r *rand.Rand, i int) json.RawMessage {
	base := 30 + r.IntN(400)
	fields := map[string]any{
		"searchRequestId":         uuid(r),
		"searchTryId":             uuid(r),
		"startTime":               time.Date(2026, 11, 20, 6, 0, 0, 0, time.UTC).Add(time.Duration(i) * 700 * time.Millisecond),
		"fromLocation":            somewhere(r),
		"toLocation":              somewhere(r),
		"distanceToPickup":        r.IntN(4000),
		"durationToPickup":        r.IntN(900),
		"distance":                800 + r.IntN(25000),
		"baseFare":                base,
		"driverMinExtraFee":       10,
		"driverMaxExtraFee":       base / 2,
		"fareBreakup":             map[string]any{"base": base, "perKm": 15.5, "waiting": r.IntN(20), "tip": nil, "currency": "INR"},
		"requestedVehicleVariant": vehicles[r.IntN(len(vehicles))],
		"tags":                    []string{tags[r.IntN(len(tags))], tags[r.IntN(len(tags))]},
		"customerExtraNote":       "ದಯವಿಟ್ಟು \"ಮುಖ್ಯ ದ್ವಾರ\" ಬಳಿ ಬನ್ನಿ, कृपया जल्दी आइए",
		"isTranslated":            r.IntN(2) == 0,
		"bapName":                 "Namma Yatri",
		"bapLogo":                 nil,
		"pickupZone":              r.IntN(3) == 0,
		"keepHiddenForSeconds":    r.IntN(4),
		"route":                   "",
	}
	b, err := json.Marshal(fields)
	if err != nil {
		panic(err) // plain values always marshal
	}
	fields["route"] = polyline(r, bodyBytes-len(b))
	if b, err = json.Marshal(fields); err != nil {
		panic(err)
	}
	return b
}

// polyline returns n random characters of an encoded route, without those that JSON would escape.
func polyline(r *rand.Rand, n int) string {
	const alphabet = "?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_`abcdefghijklmnopqrstuvwxyz{|}~"
	var b strings.Builder
	for range n {
		b.WriteByte(alphabet[r.IntN(len(alphabet))])
	}
	return b.String()
}

func uuid(r *rand.Rand) string {
	a, b := r.Uint64(), r.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>52, b&0xffffffffffff)
}
