package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
)

// Size is a number of bytes, written like 16MB, 256KB or 1GB. Units are binary: 1KB is 1024 bytes.
type Size int64

var units = []struct {
	suffix string
	factor int64
}{{"TIB", 1 << 40}, {"GIB", 1 << 30}, {"MIB", 1 << 20}, {"KIB", 1 << 10}, {"TB", 1 << 40}, {"GB", 1 << 30}, {"MB", 1 << 20}, {"KB", 1 << 10}, {"B", 1}}

// ParseSize reads a Size.
func ParseSize(s string) (Size, error) {
	num, factor := strings.ToUpper(strings.TrimSpace(s)), int64(1)
	for _, u := range units {
		if n, ok := strings.CutSuffix(num, u.suffix); ok {
			num, factor = strings.TrimSpace(n), u.factor
			break
		}
	}
	n, err := strconv.ParseFloat(num, 64)
	if err != nil || n < 0 || math.IsNaN(n) || n*float64(factor) > math.MaxInt64/2 {
		return 0, fmt.Errorf("is not a size; write it like 256KB, 16MB or 1GB")
	}
	return Size(n * float64(factor)), nil
}

func (s Size) String() string {
	for _, u := range units[4:8] {
		if s != 0 && int64(s)%u.factor == 0 {
			return strconv.FormatInt(int64(s)/u.factor, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// Duration is a time span, written like 30s, 24h, 7d, or as whole seconds.
type Duration time.Duration

// ParseDuration reads a Duration.
func ParseDuration(s string) (Duration, error) {
	d, err := notification.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("is not a duration; write it like 30s, 24h, 7d, or as whole seconds")
	}
	return Duration(d), nil
}

// D converts d to the standard library's type.
func (d Duration) D() time.Duration { return time.Duration(d) }

func (d Duration) String() string {
	const day = 24 * time.Hour
	if v := time.Duration(d); v != 0 && v%day == 0 {
		return strconv.FormatInt(int64(v/day), 10) + "d"
	}
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// List is a list of texts without commas. In a file it may be an array; elsewhere commas stand between them.
type List string

// ParseList reads a List.
func ParseList(s string) List { return List(strings.Join(List(s).Entries(), ",")) }

// Entries returns the texts that are not empty.
func (l List) Entries() (list []string) {
	for one := range strings.SplitSeq(string(l), ",") {
		if one = strings.TrimSpace(one); one != "" {
			list = append(list, one)
		}
	}
	return list
}

// Rate is a number of events per time, written like 25/s, 100/m or 1000/h; the zero Rate means no limit.
type Rate struct {
	Count float64
	Per   time.Duration
}

// ParseRate reads a Rate.
func ParseRate(s string) (Rate, error) {
	if s == Off {
		return Rate{}, nil
	}
	num, per, ok := strings.Cut(s, "/")
	n, err := strconv.ParseFloat(num, 64)
	unit, known := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[per]
	if !ok || err != nil || !known || !(n > 0) || n > 1e9 {
		return Rate{}, fmt.Errorf("is not a rate; write it like 25/s, 100/m, 1000/h, or off")
	}
	return Rate{Count: n, Per: unit}, nil
}

// PerSecond returns the rate as a number of events a second; 0: no limit.
func (r Rate) PerSecond() float64 {
	if r.Per == 0 {
		return 0
	}
	return r.Count / r.Per.Seconds()
}

func (r Rate) String() string {
	if r.Per == 0 {
		return Off
	}
	unit := map[time.Duration]string{time.Second: "s", time.Minute: "m", time.Hour: "h"}[r.Per]
	return strconv.FormatFloat(r.Count, 'g', -1, 64) + "/" + unit
}
