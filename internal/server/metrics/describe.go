package metrics

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Described is a metric as its collector describes it, even if it has no value yet.
type Described struct {
	Name, Help string
	Labels     []string // sorted
}

// description matches the text form of a prometheus.Desc, which is the only access to its parts.
var description = regexp.MustCompile(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"), (?:unit: "[^"]*", )?constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// constant matches a label with a constant value.
var constant = regexp.MustCompile(`([a-zA-Z_]\w*)="(?:[^"\\]|\\.)*"`)

// Describe lists the metrics that collectors describe, by name. Metrics that differ only in the values of labels are listed once.
func Describe(describe ...func(chan<- *prometheus.Desc)) []Described {
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		for _, f := range describe {
			f(descs)
		}
	}()
	found := make(map[string]Described)
	for d := range descs {
		if one, ok := read(d); ok {
			found[one.Name] = one
		}
	}
	list := make([]Described, 0, len(found))
	for _, one := range found {
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b Described) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func read(d *prometheus.Desc) (one Described, ok bool) {
	m := description.FindStringSubmatch(d.String())
	if m == nil {
		return Described{}, false
	}
	var err error
	if one.Name, err = strconv.Unquote(m[1]); err != nil {
		return Described{}, false
	}
	if one.Help, err = strconv.Unquote(m[2]); err != nil {
		return Described{}, false
	}
	for _, label := range constant.FindAllStringSubmatch(m[3], -1) {
		one.Labels = append(one.Labels, label[1])
	}
	if m[4] != "" {
		one.Labels = append(one.Labels, strings.Split(m[4], ",")...)
	}
	slices.Sort(one.Labels)
	return one, true
}
